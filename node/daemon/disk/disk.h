#ifndef NODE_DAEMON_DISK_DISK_H
#define NODE_DAEMON_DISK_DISK_H
/* This node's disk: records and fences that must be stored, copies of blobs on other nodes, garbage, and damaged
 * chunks. All functions are for the protocol thread. */

#include "node/daemon/disk/repair_queue.h"
#include "node/daemon/ground/daemon.h"
#include "node/series/log_bounds.h"

#define DAEMON_LOST_MAX 16

struct daemon_repair;

/* scrub.c: the check of the stored chunks, and the repair of damaged blobs. */
struct daemon_scrub {
    bool is_busy, is_repairing; /* a job is running: a check; a search for damaged blobs */
    bool has_begun;             /* a pass over all chunks is under way */
    hash256 at;                 /* the last checked chunk */
    uint64_t next_ms;
    uint64_t repair_ms;            /* when to search for damaged blobs; 0: no damage is known */
    hash256 lost[DAEMON_LOST_MAX]; /* ring: the last chunks dropped from this disk as damaged */
    uint32_t lost_count;
    uint64_t checked_bytes, passes, damaged, restored; /* since the daemon started */
    struct repair_queue queue;
    struct daemon_repair *repairs; /* blobs that are being fetched again */
};

struct daemon_persist_item;
struct daemon_push;
struct daemon_confirm;

/* The state of the room, as daemon->disk. */
struct daemon_disk {
    struct daemon_persist_item *persist_first, *persist_last; /* in the order of tickets */
    bool persist_busy;                                        /* a write job is running */
    struct daemon_push *pushes;
    struct daemon_confirm *confirms; /* copies that bulk is asking their holders to verify, for the core */
    bool is_collecting;
    struct log_bounds log_bounds; /* for the bulk's thread */
    uint64_t logs_ms;             /* when daemon_logs_tick looks again; 0: at once */
    uint64_t logs_looked_s;       /* wall clock when it looked last */
    struct daemon_scrub scrub;
    bool is_full;      /* as last told to the core */
    uint64_t check_ms; /* when the loop looks at the free space again; 0: at once */
};

/* ---- persist.c: records and fences, in the order of tickets -------------------------------------------------------- */

/* At the start: hands the stored records that have a good signature, and the fences, to the core as events. 0;
 * ERR_MEMORY; an error of state_each, with a sentence in `error` only if the records cannot be read. */
int daemon_persist_load(struct daemon *daemon, char error[256]);

/* Performs NODE_EFFECT_PERSIST_RECORD, PERSIST_FENCE, FORGET_RECORD and FORGET_FENCE: copies the effect's bytes into
 * the queue, for the next flush. Our own record goes to the signer first. */
void daemon_persist_effect(struct daemon *daemon, const struct node_effect *effect);

/* Copies the envelope, as signed by the signer, into the queued record with this ticket, and flushes. */
void daemon_persist_signed(struct daemon *daemon, uint64_t ticket, const uint8_t *envelope, uint32_t count);

/* Hands the signed records and the fences at the head of the queue to a job, unless a job is running. Each ticket that
 * the job has done becomes NODE_EVENT_PERSISTED. */
void daemon_persist_flush(struct daemon *daemon);

/* After the last job: drops the queued records and fences. No node has been told of them yet. */
void daemon_persist_close(struct daemon *daemon);

/* ---- pushes.c: copies on other nodes ------------------------------------------------------------------------------ */

/* Performs NODE_EFFECT_PUSH: bulk copies a blob to a peer; the result becomes NODE_EVENT_PUSHED. */
void daemon_pushes_effect(struct daemon *daemon, const struct node_effect *effect);

/* Takes an answer of bulk (BULK_PUSHED). `text` tells the cause when `code` is not 0. */
void daemon_pushes_answered(struct daemon *daemon, uint64_t request, int code, const char *text);

/* Frees the list of copies under way, without events. */
void daemon_pushes_close(struct daemon *daemon);

/* ---- collect.c: garbage -------------------------------------------------------------------------------------------- */

/* Performs NODE_EFFECT_CONFIRM: asks the holder, by bulk, to verify a blob; the answer becomes NODE_EVENT_CONFIRMED. */
void daemon_confirm_effect(struct daemon *daemon, const struct node_effect *effect);

/* Performs NODE_EFFECT_COLLECT in a job: deletes unneeded chunks, and the series of deleted experiments. Ignored while
 * an earlier collection runs or memory is full; the core asks again in some minutes. */
void daemon_collect_effect(struct daemon *daemon, const struct node_effect *effect);

/* Takes an answer of bulk (BULK_VERIFIED). Ignored unless daemon_confirm_effect made the request. */
void daemon_collect_verified(struct daemon *daemon, uint64_t request, int code);

/* Frees the list of confirmations under way, without events. */
void daemon_collect_close(struct daemon *daemon);

/* ---- series_fates.c: how long logs are kept ------------------------------------------------------------------------- */

/* When the logs of the experiment go (logs.keep), in s since 1970. 0: never, as far as is known. */
uint64_t daemon_logs_expire_s(const struct daemon *daemon, const struct view_experiment *experiment);
bool daemon_logs_expired(const struct daemon *daemon, const struct view_experiment *experiment);

/* Once a second: tells the bulk's thread how large logs may become, and every 10 s deletes logs whose time is over. */
void daemon_logs_tick(struct daemon *daemon, uint64_t now_ms);

/* ---- scrub.c: rot -------------------------------------------------------------------------------------------------- */

/* Once a second: starts the next check or the next search for damaged blobs, when due. */
void daemon_scrub_tick(struct daemon *daemon, uint64_t now_ms);

/* Notes that a chunk was found damaged on this disk and was dropped: blobs with the chunk are fetched again soon. */
void daemon_scrub_corrupt(struct daemon *daemon, hash256 hash);

/* Takes an answer of bulk (BULK_FETCHED). Ignored unless a repair made the request. `text` tells the cause when `code`
 * is not 0. */
void daemon_scrub_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);

/* Frees the list of fetches under way. */
void daemon_scrub_close(struct daemon *daemon);

#endif
