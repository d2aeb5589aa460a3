#ifndef TRAIN_SHOAL_LINK_H
#define TRAIN_SHOAL_LINK_H
/* The inside of libshoal: its one struct, and the connection to the daemon, which may go away and come back. Not visible
 * outside the library. */

#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/frame.h"
#include "base/pack.h"
#include "base/spans.h"
#include "train/group/gpu/gpu.h"
#include "train/group/group.h"
#include "train/plan/balance.h"
#include "train/shoal/shoal.h"

#define CLIENT_TOKEN_DIGITS 32
#define CLIENT_REQUEST_BYTES_MAX 16384 /* packed, without the frame's head */
#define CLIENT_QUEUE_SLOTS (SHOAL_QUEUE_MAX + 8) /* reports, and always room for the two saves, progress and one call */
#define CLIENT_QUEUE_BYTES_MAX (64u << 20) /* of reports; one larger report alone is taken */
#define CLIENT_RETRY_MS 200
#define CLIENT_ANSWER_MS 50000 /* shorter than a collective's timeout, because the other ranks wait for this one meanwhile */
#define CLIENT_LOAD_MS 600000 /* of a checkpoint, which may come from other nodes: 60 GB at 1 Gbit/s */

/* The connection: no daemon at all; not connected; worker_open sent; open; lost for good; refused by the daemon. */
enum client_state { CLIENT_ALONE, CLIENT_AWAY, CLIENT_OPENING, CLIENT_OPEN, CLIENT_LOST, CLIENT_REFUSED };

/* A request in the queue, with its packed frame. */
struct client_request {
    uint64_t id; /* 0: no answer comes */
    int fd;      /* sent with the frame, closed by its owner; -1: none */
    bool wanted; /* a call waits for the answer */
    size_t bytes, sent; /* of the frame; `sent` includes the frame's head */
    uint8_t frame[];
};

/* A checkpoint buffer, shared with the daemon as a memfd; owned by libshoal. */
struct client_save {
    int fd;
    uint8_t *map;
    size_t capacity_bytes;
    size_t count;
    uint64_t request_id; /* 0: free */
};

/* A registered part of the state; the memory is the program's. */
struct client_part {
    void *bytes;
    size_t count;
};

/* The program's calls, compared when ranks have made different calls (train/shoal/roll.c). Numbers on the wire. */
enum client_call_kind {
    CLIENT_CALL_ALL_REDUCE = 1,
    CLIENT_CALL_BROADCAST,
    CLIENT_CALL_BARRIER,
    CLIENT_CALL_COMMIT,
    CLIENT_CALL_REDUCE_SCATTER,
    CLIENT_CALL_ALL_GATHER
};

#define CLIENT_CALLS_KEPT 8

/* A call of the program. */
struct client_call {
    uint64_t number; /* in its group, from 1; 0: none */
    uint64_t step;   /* the call belongs to this step, from 1 */
    uint64_t index;  /* in the step, from 1 */
    uint64_t kind, type, count;
};

/* What this rank found in an array before it was summed (train/shoal/finite_step.c). */
struct client_finite {
    uint64_t bad;  /* the first value that is not finite, counted from 1; 0: none, or not checked */
    uint64_t bits; /* of the value, in its type */
};

/* Memory from shoal_alloc (train/shoal/memory.c). */
struct client_memory {
    void *bytes;
    size_t count;
};

/* The state of an elastic context (train/shoal/elastic.c). */
struct client_elastic {
    bool is_on;
    bool in_group, has_state;
    bool is_torn; /* the state belongs to no step: it arrived in part, or shoal_forget_state */
    bool is_worn; /* is_torn, and some of it has applied steps: training cannot begin from it */
    bool leave_wanted; /* after the next step */
    uint64_t told_generation; /* of the last group that the daemon asked to leave */
    bool told_at_once;
    int listen_fd;
    uint16_t port;
    uint64_t applied; /* steps */
    uint32_t broken_count; /* groups in a row without an applied step */
    struct client_part parts[SHOAL_PARTS_MAX];
    size_t part_count;
    shoal_load_state *load;
    void *load_context;
    shoal_pack_state *pack; /* NULL: the state is the registered parts */
    shoal_unpack_state *unpack;
    void *state_context;
};

/* The port of this worker's data links, which it keeps until the context is closed. */
struct client_port {
    int lock_fd; /* base/ports.h; -1: none, since SHOAL_PORTS is not set or nothing has listened yet */
    uint16_t number;
};

/* The measurement of this rank's speed (train/shoal/balance.c). */
struct client_balance {
    bool is_wanted; /* the daemon allows parts by speed */
    bool is_on;     /* the daemon allows it on all ranks of this group */
    struct balance parts;
    uint64_t own_speed; /* this rank's speed at a group's last agreement; 0: never */
    uint64_t steps;     /* of this group */
    struct balance_measure own; /* since the last agreement */
    uint64_t items, ns; /* in this step */
    bool is_working;    /* computing since since_ns */
    uint64_t since_ns;
};

/* An all-reduce called by the program. */
struct client_begun {
    void *values;
    size_t count;
    enum element_type type;
    struct client_call call;
    struct client_finite own;
    uint64_t begin_ns, end_ns; /* of the sum; 0: it has not ended */
    bool is_thread;            /* summed by the thread */
};

/* The all-reduces begun by the program and the thread that sums them (train/shoal/background.c). */
enum client_thread { CLIENT_THREAD_IF_SPARE, CLIENT_THREAD_WANTED, CLIENT_THREAD_UNWANTED };

struct client_background {
    enum client_thread wish;
    uint32_t processors; /* available to this program */
    bool is_started;
    pthread_t thread;
    int done_fd; /* an eventfd: everything begun is done, and the program waits for it */
    pthread_cond_t changed; /* an array is begun, or the thread shall end */
    pthread_mutex_t mutex;  /* for all fields below */
    struct client_begun begun[SHOAL_BEGUN_MAX];
    size_t begun_count, done_count; /* since the last wait; only the program's thread changes begun_count */
    bool is_running, is_awaited, is_over;
    int error; /* of the first array that failed */
};

/* Steps, and what of their time goes where. */
struct client_split {
    uint64_t steps, step_ns, collective_ns, data_ns;
};

/* Where the time goes (train/shoal/profile.c). */
struct client_profile {
    bool is_stepping;        /* since_ns counts */
    uint64_t step, since_ns; /* the last step that has ended, and when */
    struct client_split now; /* of the present step */
    struct client_split sum; /* of the steps that the daemon has not been told of */
    uint64_t sent_ns;
    uint64_t trace, trace_steps, trace_from_ns; /* the trace that the daemon asks for; 0: none */
    struct span *spans; /* room for SPANS_MAX; NULL: nothing is recorded now */
    uint32_t span_count, lost_spans, traced_steps;
};

/* The context; owned by the program, used by its thread. */
struct shoal {
    enum client_state state;
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char token[CLIENT_TOKEN_DIGITS + 1];
    int fd;
    struct frame_reader reader;
    uint64_t away_since_ms, next_try_ms, open_until_ms;
    bool was_open;
    struct client_request *opening; /* the worker_open of this connection, until its answer comes */
    struct client_request *queue[CLIENT_QUEUE_SLOTS];
    size_t queue_bytes; /* of the packed requests in the queue */
    size_t queue_count, sent_count; /* the first sent_count requests are sent and wait for answers */
    uint64_t last_id;
    uint64_t session; /* random: tells the daemon which requests this context repeats */
    uint64_t progress_at_ms;

    uint8_t *answer; /* of the call that waits */
    size_t answer_bytes;
    int answer_fd;
    bool answer_lost; /* there was no memory for the answer */

    struct client_save saves[2];
    int filling; /* the buffer between begin and commit, or -1 */
    uint64_t filling_ns; /* when it was begun */
    void *scratch; /* outside Shoal: the buffer */

    struct group *workers; /* NULL outside Shoal, and in no group */
    struct revoke revoke;      /* ends the waits of the group's collectives */
    struct gpu *gpu; /* NULL: host memory only */
    struct client_elastic elastic;
    struct client_port port;
    struct client_background background;
    struct client_balance balance;
    struct client_profile profile;
    struct client_memory memories[SHOAL_ALLOCATIONS_MAX];
    size_t memory_count;
    char experiment[64];
    uint32_t trial, attempt, rank, size;
    struct client_call calls[CLIENT_CALLS_KEPT]; /* the last calls of this group, or of the group that broke */
    uint64_t call_count, call_of_step, calls_generation;
    uint32_t calls_rank;
    int timeout_ms; /* of a collective in which no byte moves */
    int join_ms;    /* how long shoal_join waits for the other ranks */
    bool checks_finite;
    uint64_t generation, seed, start_step, durable_step;
    char host[TCP_HOST_BYTES];
    uint8_t *hparams;
    size_t hparams_bytes;
    uint64_t rungs[SHOAL_RUNGS_MAX]; /* lengths, ascending */
    uint32_t rung_count;
    bool stop;
    char stop_reason[16]; /* of the notice */
    /* ERR_REFUSED if the daemon refused a save, or another request, and the program does not know yet */
    int refused_save, refused;
    char error[SHOAL_ERROR_BYTES];
};

/* The monotonic clock. */
uint64_t client_link_now_ms(void);
uint64_t client_link_now_ns(void);

/* ---- train/shoal/elastic.c ---- */

/* The daemon asks to leave the group of this generation: after the next step, or at once. */
void client_elastic_notice(struct shoal *s, uint64_t generation, bool at_once);

/* Turns an error of a collective into the program's result: SHOAL_AGAIN if the group can be made anew. client_elastic_close
 * closes the revocation and the listener. */
int client_elastic_failed(struct shoal *s, int error);
void client_elastic_close(struct shoal *s);

/* ---- train/shoal/balance.c ---- */

/* Sets the parts of a new group, after the roll call, by the speeds of its ranks. 0, or as client_gather. */
int client_balance_join(struct shoal *s);

/* Starts the measurement of a step whose items shoal_share gives. */
void client_balance_begin(struct shoal *s);

/* client_balance_pause stops the clock around a wait for other ranks, which does not count as this rank's computation; it first
 * waits for the program's queued GPU work, which counts, unless the group is over. client_balance_resume takes the value that
 * pause returned. */
bool client_balance_pause(struct shoal *s);
void client_balance_resume(struct shoal *s, bool was_working);

/* Ends the measurement of a committed step; at some steps all ranks agree on new parts. 0, or as client_gather. */
int client_balance_commit(struct shoal *s);

/* ---- train/shoal/memory.c ---- */

/* Places the memory of shoal_alloc in a new group. 0, or an error of group_place. */
int client_memory_place(struct shoal *s);

/* ---- train/shoal/background.c ---- */

/* Sets the struct up, without a thread. */
void client_background_init(struct shoal *s);

/* Begins an all-reduce in the group; the thread is started if wanted. 0, ERR_FULL or ERR_MEMORY. */
int client_background_begin(struct shoal *s, const struct client_begun *what);

/* Whether an array was begun since the last wait, and whether one of them has failed. */
bool client_background_is_busy(struct shoal *s);
bool client_background_has_failed(struct shoal *s);

/* client_background_settle sums all begun arrays, or waits for the thread that does. client_background_wait ends the batch and
 * returns 0, or the error of the first failed array as returned by collectives. */
void client_background_settle(struct shoal *s);
int client_background_wait(struct shoal *s);

/* Ends the thread and what it still runs by revoking the group. */
void client_background_close(struct shoal *s);

/* ---- train/shoal/profile.c ---- */

/* A step begins now, in a group that this rank has just entered; client_profile_interrupt: the present step will not end. */
void client_profile_restart(struct shoal *s);
void client_profile_interrupt(struct shoal *s);

/* `step` has ended, and the next one begins. */
void client_profile_step(struct shoal *s, uint64_t step);

/* The program was in a collective, or waited for what it had begun, from begin_ns until now. client_profile_begun: a sum that was
 * begun is over, in whatever thread. client_profile_save: the program has saved a checkpoint since begin_ns. */
void client_profile_collective(struct shoal *s, enum span_kind kind, uint64_t begin_ns, uint64_t bytes);
void client_profile_begun(struct shoal *s, const struct client_begun *begun);
void client_profile_save(struct shoal *s, uint64_t begin_ns);

/* The daemon asks for a trace of so many steps, from the first that begins at or after from_ns. Asked again it changes nothing. */
void client_profile_trace(struct shoal *s, uint64_t trace, uint64_t steps, uint64_t from_ns);

void client_profile_close(struct shoal *s);

/* ---- train/shoal/roll.c ---- */

/* Keeps the call for the comparison in the next group. */
struct client_call client_call_note(struct shoal *s, enum client_call_kind kind, enum element_type type, uint64_t count);

/* The first exchange in a new group: every rank tells its registered state, its last calls, and whether its parts may be
 * unequal. ERR_MALFORMED, with the same sentence on every rank, if two ranks registered different state or broke the last group
 * by different calls. If only ranks without the state differ from the ranks that have it, ERR_MALFORMED is theirs alone, and
 * the rest get SHOAL_AGAIN. Also ERR_MEMORY, or as client_gather. */
int client_roll_call(struct shoal *s, const bool has_state[PLAN_RANKS_MAX]);

/* Sends this rank's `bytes` bytes, at its place in all[size][bytes], to all ranks. 0, or an error as returned by
 * collectives. */
int client_gather(struct shoal *s, void *all, size_t bytes);

/* Waits before a rank acts on the result of client_gather: returns when all ranks have it, or the group is broken. Otherwise a
 * rank that ends at once makes the daemon end the group under ranks that are still reading. Keeps the error sentence. */
void client_gather_heard(struct shoal *s);

/* ---- train/shoal/finite_step.c ---- */

/* client_finite_look examines an array before it is summed, client_finite_judge the sum: if it is not finite, all ranks learn
 * which rank brought the value. 0, ERR_NOT_FINITE, or as client_gather. Does nothing unless shoal_check_finite is on. */
void client_finite_look(struct shoal *s, struct client_begun *what);
int client_finite_judge(struct shoal *s, const struct client_begun *what);

/* ---- train/shoal/gpu.c ---- */

/* Joins the GPU transfers of a group just opened. 0, or an error as returned by collectives. */
int client_gpu_join(struct shoal *s);

/* Waits for the program's queued work (train/group/gpu/nccl_group.h), or until the group is over; an error is left for the next
 * collective to report. */
void client_gpu_settle(struct shoal *s);

/* For memory that may be a GPU's; only from the program's thread. client_gpu_hash adds bytes[count] to a hash: 0 or an error.
 * client_gpu_first_bad returns the index of the first value that is not finite, and its bits; `count` if there is none. */
int client_gpu_hash(struct shoal *s, crypto_generichash_state *state, const void *bytes, size_t count);
size_t client_gpu_first_bad(struct shoal *s, enum element_type type, const void *values, size_t count, uint64_t *bits);

/* ---- train/shoal/shoal.c ---- */

/* Returns 0 for 0; otherwise keeps the group's sentence and returns the program's result. */
int client_collective_result(struct shoal *s, int error);

/* The descriptor on which the group's waits watch for the daemon (struct revoke) while the program's own thread runs a
 * collective; -1: none. */
int client_watch_fd(const struct shoal *s);

#define CLIENT_GROUP_BYTES 128 /* of a group's name, "EXPERIMENT/TRIAL/ATTEMPT" */

/* The options of this worker's next group, but for what client_read_group adds. The options refer to `name` and to `s`. */
struct tcp_options client_group_options(struct shoal *s, char name[CLIENT_GROUP_BYTES], int open_timeout_ms);

/* client_read_group reads the answer to worker_group: rank, size, generation, the members and the key; the options refer to
 * `members`. client_listen opens the listener for the group's links; the caller owns it. 0 or an error with its sentence. */
int client_read_group(struct shoal *s, struct tcp_options *options, struct tcp_member members[PLAN_RANKS_MAX],
                      bool has_state[PLAN_RANKS_MAX], uint64_t *step);
int client_listen(struct shoal *s, int *listen_fd, uint16_t *port);
/* For tcp_options.slow: tells the daemon that a port of another worker cannot be reached. `context` is the struct shoal. */
void client_tell_blocked(void *context, const struct tcp_member *member);
void client_listen_close(struct shoal *s); /* frees the port; call when no link of the group is left */

/* ---- train/shoal/link.c ---- */

/* Keeps the sentence for shoal_error and returns `error`. */
int client_fail(struct shoal *s, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Starts a request {"v", "id", "op", ...}; `arguments` more pairs follow. */
void client_link_begin(struct pack_writer *writer, uint8_t bytes[CLIENT_REQUEST_BYTES_MAX], uint64_t id, const char *op,
                       uint32_t arguments);

/* As client_link_begin, in a buffer of `capacity` bytes. */
void client_link_begin_in(struct pack_writer *writer, uint8_t *bytes, size_t capacity, uint64_t id, const char *op,
                          uint32_t arguments);

/* Queues a request; `fd` (-1: none) is sent along, stays the caller's, and must be open until the answer comes. ERR_FULL if
 * `limit` requests are waiting, and for reports (SHOAL_QUEUE_MAX) also if CLIENT_QUEUE_BYTES_MAX wait; ERR_USAGE (too large), ERR_MEMORY. */
int client_link_push(struct shoal *s, const struct pack_writer *writer, uint64_t id, int fd, size_t limit);

/* Removes the request at `index` from the queue, so that it is not sent again. */
void client_link_remove(struct shoal *s, size_t index);

/* Removes a request whose answer carries no descriptor and is no longer wanted, unless it is partly sent. */
void client_link_withdraw(struct shoal *s, uint64_t id);

/* Reads a number of an answer; sets `*failed` if it is missing or larger than `max`. */
uint64_t client_link_find_u64(const struct pack_reader *map, const char *key, uint64_t max, bool *failed);

/* Sends and receives as much as possible without waiting. 0, or ERR_CLOSED / ERR_REFUSED if the daemon is lost for good. */
int client_link_pump(struct shoal *s);

/* Sends as much as possible without waiting, and receives nothing: for a call from within a collective. */
void client_link_send(struct shoal *s);

/* Waits until client_link_pump may have work, at most until `until_ms`. */
void client_link_wait(struct shoal *s, uint64_t until_ms);

/* Sends a request and waits for its answer, across restarts of the daemon. On success s->answer holds the answer, until
 * client_link_drop_answer. ERR_TIMEOUT, errors of client_link_push and client_link_pump, or the daemon's. */
int client_link_call(struct shoal *s, const struct pack_writer *writer, uint64_t id, int timeout_ms);
void client_link_drop_answer(struct shoal *s);

/* The parts of client_link_call: begin queues the request; pump sets s->answer once it comes (ERR_MEMORY: it came, and there
 * was no memory for it); end takes the result of the wait (0: answered) and returns the call's. */
int client_link_begin_call(struct shoal *s, const struct pack_writer *writer, uint64_t id);
int client_link_pump_call(struct shoal *s);
int client_link_end_call(struct shoal *s, int error);

#endif
