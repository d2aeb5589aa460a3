#ifndef NODE_CORE_GROUND_STATE_H
#define NODE_CORE_GROUND_STATE_H
/* The ground of the node core: what every room shares. Each room has a struct of its own, which this header names and does not
 * define: the room's header does (the folder's name, and .h). The rooms, top to bottom; a room includes and calls only rooms
 * below its own (tests/shape.py):
 *
 *   roof/         the step, records on their way in, what a ticket releases, deletions, two daemons with one key
 *   requests/     what users ask for, nodes that join and leave
 *   coordinator/  elections, attempts and their verdicts, groups that change, gangs, placing
 *   owner/        the slots of this node: leases, workers, their groups, what a new boot finds
 *   copies/       checkpoints and code on other nodes, what is kept, requests that wait for a second disk
 *   members/      membership, roster, links, exchange of records, versions, quarantine
 *   ground/       this struct, effects, own records, the disk's queue
 *   view/         the fold over all records
 *   facts/        what records say */

#include "base/random.h"
#include "node/core/core.h"
#include "node/core/limits.h"
#include "node/core/view/view.h"

struct core_disk;
struct core_pending;
struct core_members;
struct core_quarantine;
struct core_twin;
struct core_copies;
struct core_owner;
struct core_coordinator;
struct core_requests;
struct core_intake;

/* The two calls from the ground up to the roof. node_core_init sets both. */
struct core_hooks {
    void (*record_put)(struct node_core *core, struct records_entry *entry); /* a record is in the table: fold it, tell the rooms */
    void (*on_disk)(struct node_core *core, const struct core_pending *pending); /* everything that `pending` waits for is on disk */
};

/* What did not fit into the arena, and is tried again once memory has become free. */
struct core_memory {
    bool is_short;       /* less than 1/CORE_MEMORY_SHORT is free: nothing new begins */
    bool has_unfolded;   /* some records are in the table and not in the fold */
    bool has_unloaded;   /* a record of the own disk did not fit into the table; perhaps no other node has it */
    uint64_t refused_ms; /* when a record of another node was last refused for lack of memory; 0: never */
    uint32_t refold_bucket; /* the next bucket of records to fold again; RECORDS_BUCKETS: none */
    size_t refold_bytes;    /* has_unfolded: records are folded again once so few bytes are used */
};

struct core_counters {
    uint64_t malformed, strangers, equivocations, stale_refused, full;
};

struct node_core {
    struct node_options options;
    struct core_hooks hooks;
    struct arena arena;
    struct records records;
    struct view view;
    struct random random;
    struct core_memory memory;
    struct core_counters counters;

    uint64_t now_ms, wall_s, started_ms;
    uint64_t woke_ms;    /* when the last suspend or stall of this node was over; 0: there was none */
    uint64_t first_boot; /* the boot with which this daemon began: unlike options.boot it is never raised */
    uint64_t seq;        /* of the last own record in this boot */
    uint64_t secrets;    /* given out so far in this boot */
    bool started;        /* NODE_EVENT_START has come */
    bool leaving;        /* this node is about to leave the mesh */
    bool is_out;         /* this node is no member, or gives way to its twin: it only waits */
    bool disk_full;
    uint64_t housekeep_ms; /* when housekeeping is due again */
    uint32_t rotate;       /* housekeepings so far */

    struct core_disk *disk;
    struct core_members *members;
    struct core_quarantine *quarantine;
    struct core_twin *twin;
    struct core_copies *copies;
    struct core_owner *owner;
    struct core_coordinator *coordinator;
    struct core_requests *requests;
    struct core_intake *intake;

    struct node_effects *out; /* of the step under way */
};

#endif
