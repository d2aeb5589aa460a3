#ifndef NODE_CORE_GROUND_STATE_H
#define NODE_CORE_GROUND_STATE_H
/* The ground of the node core: struct node_core, shared by all rooms. The structs of the rooms are named here and defined in
 * the headers of their rooms. The rooms, top to bottom; a room includes and calls only rooms further down (tests/shape.py):
 *
 *   roof/         the step, records on their way in, actions after a disk write, deletions, two daemons with one key
 *   requests/     requests of users, nodes that join and leave
 *   coordinator/  elections, attempts and verdicts, groups that change, gangs, placing
 *   owner/        the slots of this node: leases, workers, groups, what a new boot finds
 *   copies/       checkpoints and code on other nodes, retention, requests that wait for a second disk
 *   members/      membership, roster, links, exchange of records, versions, quarantine
 *   ground/       this struct, effects, own records, the disk's queue
 *   view/         the fold over all records
 *   facts/        the contents of records */

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
    /* The table has a new or newer record: folds the entry and tells the rooms that follow such records. */
    void (*record_put)(struct node_core *core, struct records_entry *entry);
    /* Every write that `pending` waits for is on disk: performs the action of `pending`. */
    void (*on_disk)(struct node_core *core, const struct core_pending *pending);
};

/* How full the arena is, and which records it had no room for: those are tried again once memory has become free. */
struct core_memory {
    bool is_short;       /* less than 1/CORE_MEMORY_SHORT is free: nothing new begins */
    bool has_unfolded;   /* some records are in the table and not in the fold */
    bool has_unloaded;   /* a record from our disk did not fit into the table; perhaps no other node has the record */
    uint64_t refused_ms; /* when a peer's record was last refused for lack of memory; 0: never */
    uint32_t refold_bucket; /* the next bucket of records to fold again; RECORDS_BUCKETS: none */
    size_t refold_bytes;    /* has_unfolded: records are folded again once no more bytes than that are used */
};

struct core_counters {
    uint64_t malformed, strangers, equivocations, stale_refused, full;
    uint64_t copies_repaired; /* copies that repairs have made on other nodes */
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
    uint64_t woke_ms;    /* when the last suspend or stall of this node was over; 0: never */
    uint64_t first_boot; /* options.boot at the start of the daemon; never raised, unlike options.boot */
    uint64_t seq;        /* of the last own record in this boot */
    uint64_t secrets;    /* given out so far in this boot */
    bool started;        /* NODE_EVENT_START has come */
    bool leaving;        /* this node is about to leave the mesh */
    bool is_out;         /* this node is no member, or gives way to its twin: takes part in nothing */
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
