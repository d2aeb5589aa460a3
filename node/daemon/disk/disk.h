#ifndef NODE_DAEMON_DISK_DISK_H
#define NODE_DAEMON_DISK_DISK_H
/* This node's disk: records and fences on their way to it, copies of its blobs to other nodes, garbage, and rot. */

#include "node/daemon/disk/repair_queue.h"
#include "node/daemon/ground/daemon.h"

#define DAEMON_LOST_MAX 16

struct daemon_mend;

struct daemon_scrub {
    bool is_busy, is_mending; /* a job is under way */
    bool has_begun;           /* a pass */
    hash256 at;               /* what was read last */
    uint64_t next_ms;
    uint64_t mend_ms;              /* when to look for blobs that lack something; 0: nothing is known to */
    hash256 lost[DAEMON_LOST_MAX]; /* the last chunks that were dropped here as damaged */
    uint32_t lost_count;
    uint64_t checked_bytes, passes, damaged, restored; /* since the daemon began */
    struct repair_queue queue;
    struct daemon_mend *mends; /* blobs that are being fetched again */
};

struct daemon_persist_item;
struct daemon_push;
struct daemon_confirm;

struct daemon_disk {
    struct daemon_persist_item *persist_first, *persist_last; /* in the order of tickets */
    bool persist_busy;                                        /* a job is under way */
    struct daemon_push *pushes;
    struct daemon_confirm *confirms; /* copies that their holders are reading for the core */
    bool is_collecting;
    struct daemon_scrub scrub;
    bool is_full;      /* as the core was told last */
    uint64_t check_ms; /* when the loop looks at the free space again; 0: at once */
};

/* ---- persist.c: records and fences, in the order of tickets -------------------------------------------------------- */

/* At the start: records with a good signature, and fences, become events. 0, or an error with a sentence if it is
 * about records. */
int daemon_persist_load(struct daemon *daemon, char error[256]);

/* Performs NODE_EFFECT_PERSIST_RECORD, PERSIST_FENCE, FORGET_RECORD and FORGET_FENCE: queued until the next flush. */
void daemon_persist_effect(struct daemon *daemon, const struct node_effect *effect);

/* The signer has signed the envelope of this ticket; it is copied. */
void daemon_persist_signed(struct daemon *daemon, uint64_t ticket, const uint8_t *envelope, uint32_t count);

/* Hands what is ready to a job, unless one is under way. */
void daemon_persist_flush(struct daemon *daemon);

/* When no job runs any more: drops what waits, which no node has been told of. */
void daemon_persist_close(struct daemon *daemon);

/* ---- pushes.c: copies on other nodes ------------------------------------------------------------------------------ */

/* Performs NODE_EFFECT_PUSH. */
void daemon_pushes_effect(struct daemon *daemon, const struct node_effect *effect);

/* An answer of bulk (BULK_PUSHED). */
void daemon_pushes_answered(struct daemon *daemon, uint64_t request, int code, const char *text);

/* Forgets the copies that are under way. */
void daemon_pushes_close(struct daemon *daemon);

/* ---- collect.c: garbage -------------------------------------------------------------------------------------------- */

/* Perform NODE_EFFECT_CONFIRM and NODE_EFFECT_COLLECT. */
void daemon_confirm_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_collect_effect(struct daemon *daemon, const struct node_effect *effect);

/* An answer of bulk (BULK_VERIFIED); that to a request of another part of the daemon is ignored. */
void daemon_collect_verified(struct daemon *daemon, uint64_t request, int code);
void daemon_collect_close(struct daemon *daemon);

/* ---- scrub.c: rot -------------------------------------------------------------------------------------------------- */

/* Once a second. */
void daemon_scrub_tick(struct daemon *daemon, uint64_t now_ms);

/* The chunk was found damaged and dropped here. */
void daemon_scrub_corrupt(struct daemon *daemon, hash256 hash);

/* An answer of bulk (BULK_FETCHED); that to a request of another part of the daemon is ignored. */
void daemon_scrub_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);
void daemon_scrub_close(struct daemon *daemon);

#endif
