#ifndef TESTS_SCENARIO_CORE_WORLD_H
#define TESTS_SCENARIO_CORE_WORLD_H
/* One to five node cores in lock step, with a disk, a network and worker programs that do at once what they are asked (a
 * disk may be told to take its time, or to refuse). Everything that is worth telling goes to one log, which stories
 * compare with what they expect:
 *
 *     "a: trial 0 attempt 1 from step 0 on a/0"      the core of node a traced this
 *     "a> spawn trial 0 attempt 1 rank 0 slot 0"     an effect, in the order in which the core gave it
 *     "a< persisted 17"                              an event that the outside world answered with
 *
 * The persist effects are "a> persist slot 0 leased #17", "a> persist claim 3 #4", "a> persist fence 3 #9" and the like,
 * messages between nodes "a> send confirm_answer b" (those of membership and exchange are left out). */

#include "node/core/ground/state.h"
#include "tests/unit/facts_make.h"

#define WORLD_NODES_MAX 5
#define WORLD_SLOTS_MAX 64
#define WORLD_DISK_MAX 2048
#define WORLD_LINKS_MAX (2 * WORLD_NODES_MAX + 1)
#define WORLD_LOG_BYTES (4u << 20)
#define WORLD_CODE_BYTE 0xc0 /* the first of the hash of what world_submit submits */
#define WORLD_BEGIN_BYTE 0xbe /* the first byte of the checkpoint that an experiment with begin_from begins with */

/* What the users' program does. It counts ten steps a second and saves a checkpoint when asked to stop. */
enum world_program { WORLD_RUNS_2S, WORLD_FAILS_AT_ONCE, WORLD_RUNS_FOREVER };

struct world_worker {
    bool runs;
    bool ready; /* prepared, not yet spawned */
    attempt_id attempt;
    uint32_t number, rank;
    lease_token token;
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t data_port;
    uint64_t draw; /* as SPAWN gave it */
    uint64_t step;
    uint64_t spawned_ms;
    uint64_t status_ms; /* next report */
    /* Of an elastic program. */
    uint32_t generation; /* that it is in, or was in last; 0: none yet */
    uint32_t group_size; /* of that; 0: it is in none, and waits */
    bool has_state;
    uint64_t applied; /* steps: those that it has made in its groups, or what a story sets */
};

struct world_node {
    bool is_up;
    bool is_cut;        /* its host is silent: nothing comes in or goes out */
    uint32_t side;      /* of a partition: nodes of different sides do not hear each other */
    uint32_t hidden;    /* bits: nodes that it does not hear, nor they it, though others hear both */
    uint64_t asleep_until_ms;
    uint64_t wall_shift_s; /* its calendar is ahead by it */
    struct version_range speaks; /* versions of the protocol, from its next start on; newest 0: what this program does */
    bool fails_programs; /* every program fails at once here */
    bool prepares_nothing; /* no code comes here, say */
    bool starts_nothing;   /* its keep is gone, say */
    bool computes;       /* an elastic program here is in a step: it does not hear yet that it shall leave its group */
    uint64_t disk_ms; /* how much longer a write takes than elsewhere */
    bool disk_refuses;
    uint32_t disk_refuses_next; /* so many writes, then it takes them again */
    bool has_bad_copies;        /* of checkpoints, if somebody asks or wants one */
    bool disk_is_full;          /* for what others push; its own records still fit */
    bool lacks_code;            /* and so can push none */
    uint32_t pushes, pushes_most; /* under way now, and at any time */
    struct person person;
    char address[FACT_ADDRESS_BYTES];
    struct {
        node_id id;
        char address[FACT_ADDRESS_BYTES];
    } links[WORLD_LINKS_MAX]; /* where it was told that others are */
    uint32_t link_count;
    uint32_t keys_made; /* new keys, though one was there */
    bool becomes; /* another node, at the end of the step */
    uint64_t boots;
    uint32_t slot_count;
    uint64_t parts; /* bit i: slot i is a MIG device, and all of the node's slots are of GPUs */
    void *memory;
    struct node_core *core;
    struct node_effects effects;
    struct made *records; /* WORLD_DISK_MAX, by first writing */
    uint32_t record_count;
    struct {
        uint8_t key[8];
        uint8_t bytes[64];
        uint32_t count;
    } fences[16];
    uint32_t fence_count;
    const char *label; /* of its node record; NULL: none */
    uint64_t lacks; /* FACT_READS_... that its version does not have */
    bool is_older; /* its version knows neither large experiments, nor stops and retries, nor searchers that halve */
    struct world_worker workers[WORLD_SLOTS_MAX];
    uint32_t spawn_count; /* in all its lives */
    hash256 *named; /* what was to be kept when it last collected; NULL: never */
    uint32_t named_count;
};

struct world_event;

struct world {
    uint64_t now_ms;
    uint64_t wall_shift_s; /* the calendar has jumped by it, everywhere */
    uint64_t disk_ms; /* how long a write takes */
    uint64_t send_ms; /* how long a message takes */
    uint64_t push_ms; /* how long a copy takes */
    uint64_t records_ms; /* how long records are on their way, as in a large mesh, where they come by way of others */
    uint32_t late_from; /* bits: records of these nodes take late_ms more */
    uint64_t late_ms;
    uint64_t prepare_ms; /* how long it takes until the code is there, rank 0's excepted */
    enum world_program program;
    bool is_elastic; /* the program: it waits for a group, counts on from its step while all of it are in it, and leaves it when
                        told */
    uint64_t step_ms; /* an elastic program makes a step in it, and reports each; 0: ten a second, and one report */
    bool checks_writers; /* as daemons do: records of writers whom the receiver does not know are dropped */
    bool loses_keys; /* of groups that change, on their way to the owners */
    char refusing[FACT_ADDRESS_BYTES]; /* an address of a machine outside the mesh, which refuses connections; empty: there is none */
    bool ignores_stops; /* programs go on when they are asked to save and leave, and no shell ends them */
    bool is_mute;    /* an elastic program that begins now never listens */
    uint64_t failure; /* of programs that end by themselves: how, as the next one's is compared with it; 0: that is not known */
    uint64_t failing_trials; /* bits: their programs fail at once everywhere */
    /* The program of a search: its answer to an event (docs/wire.md) is an array of actions; false: it dies. NULL: it never starts. What it is
     * told of stands in the log: "a# start", "a# report 3". */
    bool (*searches)(struct world *world, const char *kind, uint32_t trial, struct pack_writer *actions);
    bool searcher_is_mute; /* it does not answer */
    bool counts_usage; /* nodes count what their slots are used for, and write it */
    size_t core_bytes; /* of memory that each core has; 0: enough */
    uint32_t node_count;
    struct world_node nodes[WORLD_NODES_MAX];
    struct world_event *queue; /* by time, then by order */
    struct {
        uint32_t count;
        int32_t code; /* of the last one */
        uint32_t stored_on;
        bool already;
        char text[NODE_REPLY_BYTES];
    } reply;
    char *log;
    size_t log_bytes;
};

/* Nodes "a", "b", ... of one mesh with this many slots each, everybody on everybody's roster; none is started. */
struct world *world_new(uint32_t node_count, uint32_t slots_each);
void world_free(struct world *world);

/* Starts all and runs until they are in step. */
void world_start_all(struct world *world);

void world_run(struct world *world, uint64_t ms);

/* Runs until the log holds `line` at or behind `from`, for at most max_ms. False if it never came. */
bool world_run_until(struct world *world, uint64_t max_ms, size_t from, const char *line);

/* Where in the log `part` occurs first at or behind `from`; SIZE_MAX if it does not. */
size_t world_find(const struct world *world, size_t from, const char *part);
uint32_t world_count(const struct world *world, const char *part);

/* The node that leads experiment 0, or -1 if it is not exactly one. */
int world_coordinator(const struct world *world);

void world_submit(struct world *world, uint32_t node, const struct config *config);
void world_submit_as(struct world *world, uint32_t node, uint32_t number, const struct config *config); /* experiment `number` */
void world_request(struct world *world, uint32_t node, enum node_request_kind kind);
/* A note about experiment 0, asked for at this node. */
void world_annotate(struct world *world, uint32_t node, enum fact_subject subject, bool is_set, const char *label, const char *value);
void world_stop(struct world *world, uint32_t node, uint32_t trial); /* as world_request, for NODE_REQUEST_STOP */
void world_retry(struct world *world, uint32_t node, uint32_t trial); /* ... for NODE_REQUEST_RETRY */
void world_evict(struct world *world, uint32_t node, uint32_t evicted, bool with_vouched);

/* Puts a record on the disk of a node that has not been started. */
void world_store(struct world *world, uint32_t node, const struct made *made);

/* Hands a record over as if another node had sent it. */
void world_deliver(struct world *world, uint32_t from, uint32_t to, const struct made *made);

/* The daemon dies; its workers live on under their keeps. What was on its way from its disk and to it is gone. */
void world_crash(struct world *world, uint32_t node);

/* The machine is gone: its host is silent, and its workers with it. World_restart brings it back, once is_cut is cleared. */
void world_die(struct world *world, uint32_t node);

/* The process of a worker ends by itself with this status, or by a signal (below 0). */
void world_end_worker(struct world *world, uint32_t node, uint32_t slot, int32_t code);

/* An elastic worker leaves its group by itself, since a collective failed. */
void world_leave_group(struct world *world, uint32_t node, uint32_t slot);

/* An elastic worker says that it waits, whatever is true of that. */
void world_listens(struct world *world, uint32_t node, uint32_t slot, uint32_t generation, bool has_state, uint64_t step);

/* The machine is suspended for so long, its disk and its workers with it; what others send to it
 * meanwhile is lost. */
void world_sleep(struct world *world, uint32_t node, uint64_t ms);

/* A new boot on the same disk. `adopt`: its workers are found alive; else they did not survive. */
void world_restart(struct world *world, uint32_t node, bool adopt);

/* The node has these addresses from now on, and can be reached at the first one. */
void world_move(struct world *world, uint32_t node, const char *const *addresses, uint32_t count);

/* A machine with a copy of that node's disk, at an address of its own: its number, for world_restart. Once it has become
 * another node its person is make_person(WORLD_NODES_MAX * (1 + keys_made) + number). */
uint32_t world_copy(struct world *world, uint32_t node);

/* Hands one event to a node and performs what follows. */
void world_step(struct world *world, uint32_t node, struct node_event *event);

uint32_t world_spawns(const struct world *world); /* of all nodes together */
const struct view_experiment *world_experiment(const struct world *world, uint32_t node);

#endif
