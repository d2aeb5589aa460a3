#ifndef TRAIN_SHOAL_LINK_H
#define TRAIN_SHOAL_LINK_H
/* The inside of libshoal: its one struct, and the connection to the daemon, which may go away and come back. Nothing here is seen
 * from outside the library. */

#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/frame.h"
#include "base/pack.h"
#include "train/group/gpu/gpu.h"
#include "train/group/group.h"
#include "train/plan/balance.h"
#include "train/shoal/shoal.h"

#define CLIENT_TOKEN_DIGITS 32
#define CLIENT_REQUEST_BYTES_MAX 16384 /* packed, without the frame's head */
#define CLIENT_QUEUE_SLOTS (SHOAL_QUEUE_MAX + 8) /* reports, and always room for the two saves, progress and one call */
#define CLIENT_RETRY_MS 200
#define CLIENT_ANSWER_MS 50000 /* less than a collective's patience: the others wait for us meanwhile */

enum client_state { CLIENT_ALONE, CLIENT_AWAY, CLIENT_OPENING, CLIENT_OPEN, CLIENT_LOST, CLIENT_REFUSED };

struct client_request {
    uint64_t id; /* 0: no answer comes */
    int fd;      /* rides along; not ours to close here */
    bool wanted; /* somebody waits for the answer */
    size_t bytes, sent; /* what is sent counts the frame's head, too */
    uint8_t frame[];
};

struct client_save {
    int fd;
    uint8_t *map;
    size_t capacity_bytes;
    size_t count;
    uint64_t request_id; /* 0: free */
};

struct client_part {
    void *bytes;
    size_t count;
};

/* What a program calls, as it is compared when ranks have called different things (train/shoal/roll.c). Numbers of the wire. */
enum client_call_kind {
    CLIENT_CALL_ALL_REDUCE = 1,
    CLIENT_CALL_BROADCAST,
    CLIENT_CALL_BARRIER,
    CLIENT_CALL_COMMIT,
    CLIENT_CALL_REDUCE_SCATTER,
    CLIENT_CALL_ALL_GATHER
};

#define CLIENT_CALLS_KEPT 8

struct client_call {
    uint64_t number; /* in its group, from 1; 0: none */
    uint64_t step;   /* that it belongs to, from 1 */
    uint64_t index;  /* in this step, from 1 */
    uint64_t kind, type, count;
};

/* Of an array before it is summed (train/shoal/finite_step.c). */
struct client_finite {
    uint64_t bad;  /* the first value that is not finite, counted from 1; 0: none, or nobody looked */
    uint64_t bits; /* of that value, in its type */
};

/* train/shoal/memory.c */
struct client_memory {
    void *bytes;
    size_t count;
};

/* train/shoal/elastic.c */
struct client_elastic {
    bool is_on;
    bool in_group, has_state;
    bool is_torn; /* the parts are of no step: whoever handed the state on was lost in the midst of it */
    bool is_worn; /* ... and some of them have steps behind them: nobody can begin with them */
    bool leave_wanted; /* after the next step */
    uint64_t told_generation; /* of the group that the daemon has last asked to leave */
    bool told_at_once;
    int listen_fd;
    uint16_t port;
    uint64_t applied; /* steps */
    uint32_t broken_count; /* groups in a row in which no step was made */
    struct client_part parts[SHOAL_PARTS_MAX];
    size_t part_count;
    shoal_load_state *load;
    void *load_context;
};

/* train/shoal/balance.c */
struct client_balance {
    bool is_wanted; /* the daemon says that parts may follow speeds */
    bool is_on;     /* all ranks of this group have been told so */
    struct balance parts;
    uint64_t own_speed; /* of this rank when a group last agreed; 0: never */
    uint64_t steps;     /* of this group */
    struct balance_measure own; /* since the last agreement */
    uint64_t items, ns; /* in this step */
    bool is_working;    /* since */
    uint64_t since_ns;
};

/* An all-reduce that the program has called. */
struct client_begun {
    void *values;
    size_t count;
    enum element_type type;
    struct client_call call;
    struct client_finite own;
};

/* train/shoal/background.c */
enum client_thread { CLIENT_THREAD_IF_SPARE, CLIENT_THREAD_WANTED, CLIENT_THREAD_UNWANTED };

struct client_background {
    enum client_thread wish;
    uint32_t processors; /* that this program may use */
    bool is_started;
    pthread_t thread;
    int done_fd; /* an eventfd: all that was begun is done, and that is awaited */
    pthread_cond_t changed; /* something is begun, or all is over */
    pthread_mutex_t mutex;  /* for all below */
    struct client_begun begun[SHOAL_BEGUN_MAX];
    size_t begun_count, done_count; /* since the last wait; only the program's thread changes the first */
    bool is_running, is_awaited, is_over;
    int error; /* of the first that failed */
};

struct shoal {
    enum client_state state;
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char token[CLIENT_TOKEN_DIGITS + 1];
    int fd;
    struct frame_reader reader;
    uint64_t away_since_ms, next_try_ms, open_until_ms;
    bool was_open;
    struct client_request *opening; /* the worker_open of this connection, until it is answered */
    struct client_request *queue[CLIENT_QUEUE_SLOTS];
    size_t queue_count, sent_count; /* the first sent_count wait for answers only */
    uint64_t last_id;
    uint64_t progress_at_ms;

    uint8_t *answer; /* of the request that somebody waits for */
    size_t answer_bytes;
    int answer_fd;
    bool answer_lost; /* there was no memory for it */

    struct client_save saves[2];
    int filling; /* the buffer between begin and commit, or -1 */
    void *scratch; /* outside Shoal */

    struct group *workers; /* NULL outside Shoal, and in no group */
    struct revoke revoke;      /* says that the group is over */
    struct gpu *gpu; /* NULL: no memory of GPUs */
    struct client_elastic elastic;
    struct client_background background;
    struct client_balance balance;
    struct client_memory memories[SHOAL_ALLOCATIONS_MAX];
    size_t memory_count;
    char experiment[64];
    uint32_t trial, attempt, rank, size;
    struct client_call calls[CLIENT_CALLS_KEPT]; /* the last ones of this group, or of the one that broke */
    uint64_t call_count, call_of_step, calls_generation;
    uint32_t calls_rank;
    int timeout_ms; /* of a collective that stands still */
    bool checks_finite;
    uint64_t generation, seed, start_step, durable_step;
    char host[TCP_HOST_BYTES];
    uint8_t *hparams;
    size_t hparams_bytes;
    bool stop;
    int refused; /* ERR_REFUSED when the daemon refused a report or save that nobody has heard of yet */
    char error[SHOAL_ERROR_BYTES];
};

uint64_t client_link_now_ms(void);
uint64_t client_link_now_ns(void);

/* ---- train/shoal/elastic.c ---- */

/* The daemon says that this generation's group is to be left. */
void client_elastic_notice(struct shoal *s, uint64_t generation, bool at_once);

/* What an error of a collective means: SHOAL_AGAIN where the group can be made anew. */
int client_elastic_failed(struct shoal *s, int error);
void client_elastic_close(struct shoal *s);

/* ---- train/shoal/balance.c ---- */

/* In a new group, after the roll call: parts by the speeds that its ranks bring. 0, or as client_gather. */
int client_balance_join(struct shoal *s);

/* A step begins, whose items shoal_share gives. */
void client_balance_begin(struct shoal *s);

/* Around waits for other ranks, which say nothing of this one's speed: resume what pause has returned. What the program has
 * queued on the GPU is its own work: pause waits for that, unless the group is over, when nobody asks for the measure any more. */
bool client_balance_pause(struct shoal *s);
void client_balance_resume(struct shoal *s, bool was_working);

/* A step is committed; now and then all agree. 0, or as client_gather. */
int client_balance_commit(struct shoal *s);

/* ---- train/shoal/memory.c ---- */

/* In a new group. */
int client_memory_place(struct shoal *s);

/* ---- train/shoal/background.c ---- */

void client_background_init(struct shoal *s);

/* Begins an all-reduce in the group. ERR_FULL, ERR_MEMORY. */
int client_background_begin(struct shoal *s, const struct client_begun *what);

/* Whether something was begun since the last wait, and whether some of that has failed. */
bool client_background_is_busy(struct shoal *s);
bool client_background_has_failed(struct shoal *s);

/* Until nothing runs that was begun; what became of it is said by client_background_wait, which is the end of it: 0, or the error
 * of the first that failed as collectives return it. */
void client_background_settle(struct shoal *s);
int client_background_wait(struct shoal *s);

/* Ends what still runs by revoking the group. */
void client_background_close(struct shoal *s);

/* ---- train/shoal/roll.c ---- */

/* Keeps what is called, so that the next group can compare it. */
struct client_call client_call_note(struct shoal *s, enum client_call_kind kind, enum element_type type, uint64_t count);

/* The first thing in a new group: all say which state they have registered, what they called last, and whether their parts may
 * be unequal. ERR_MALFORMED, with the same sentence on every rank, if two registered different state, or broke the last group by
 * different calls. If only such as come without the state registered another one than those who have it, it is theirs alone, and
 * SHOAL_AGAIN for the rest. ERR_MEMORY; or as client_gather. */
int client_roll_call(struct shoal *s, const bool has_state[PLAN_RANKS_MAX]);

/* Every rank's `bytes` bytes, at its place of all[size][bytes], reach all. 0, or an error as collectives return it. */
int client_gather(struct shoal *s, void *all, size_t bytes);

/* Before a rank acts on what client_gather has told all: returns when all have heard it, or the group is broken. Who ends at once
 * else has its group ended, by the daemon, under those who still listen. Keeps the sentence. */
void client_gather_heard(struct shoal *s);

/* ---- train/shoal/finite_step.c ---- */

/* Before values are summed, and after it: if the sum is not finite, all ranks learn by whom. 0, ERR_NOT_FINITE, or what
 * client_gather returns. Nothing is looked at unless shoal_check_finite asked for it. */
void client_finite_look(struct shoal *s, struct client_begun *what);
int client_finite_judge(struct shoal *s, const struct client_begun *what);

/* ---- train/shoal/gpu.c ---- */

/* What a group that is open does first. */
int client_gpu_join(struct shoal *s);

/* Waits for what the program has queued (train/group/gpu/nccl_group.h), or until the group is over; where that fails, the next collective says
 * so. */
void client_gpu_settle(struct shoal *s);

/* Of memory that may be a GPU's: adds it to a hash; finds the first value that is not finite, and its bits, `count` if there is none. The
 * program's thread only. */
int client_gpu_hash(struct shoal *s, crypto_generichash_state *state, const void *bytes, size_t count);
size_t client_gpu_first_bad(struct shoal *s, enum element_type type, const void *values, size_t count, uint64_t *bits);

/* ---- train/shoal/shoal.c ---- */

/* 0 for 0; else keeps the group's sentence, and gives what the program is told. */
int client_collective_result(struct shoal *s, int error);

/* The descriptor by which the group's waits hear the daemon (struct revoke) while the program's own thread makes a collective. */
int client_watch_fd(const struct shoal *s);

/* Reads the answer to worker_group: rank, size, generation, the members and the key. */
int client_read_group(struct shoal *s, struct tcp_options *options, struct tcp_member members[PLAN_RANKS_MAX],
                     bool has_state[PLAN_RANKS_MAX], uint64_t *step);
int client_listen(struct shoal *s, int *listen_fd, uint16_t *port);

/* ---- train/shoal/link.c ---- */

/* Keeps the sentence for shoal_error and returns `error`. */
int client_fail(struct shoal *s, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Starts {"v", "id", "op", ...}: `arguments` more pairs follow. */
void client_link_begin(struct pack_writer *writer, uint8_t bytes[CLIENT_REQUEST_BYTES_MAX], uint64_t id, const char *op,
                      uint32_t arguments);

/* Queues a request; `fd` (-1: none) rides along and stays the caller's, open until it is answered. ERR_FULL if `limit` requests
 * wait already, ERR_USAGE (too large), ERR_MEMORY. */
int client_link_push(struct shoal *s, const struct pack_writer *writer, uint64_t id, int fd, size_t limit);

/* Takes the request at `index` out of the queue: it is not sent again. */
void client_link_remove(struct shoal *s, size_t index);

/* The same of a request whose answer carries no descriptor and is wanted no more, unless it has left in part. */
void client_link_withdraw(struct shoal *s, uint64_t id);

/* A number of an answer; sets `*failed` if it is missing or larger than `max`. */
uint64_t client_link_find_u64(const struct pack_reader *map, const char *key, uint64_t max, bool *failed);

/* Moves what can be moved without waiting. 0, or ERR_CLOSED / ERR_REFUSED when the daemon is lost for good. */
int client_link_pump(struct shoal *s);

/* Waits until client_link_pump may have something to do, at most until `until_ms`. */
void client_link_wait(struct shoal *s, uint64_t until_ms);

/* Sends a request and waits for its answer, across restarts of the daemon. On success s->answer holds it, until
 * client_link_drop_answer. ERR_TIMEOUT, and as client_link_push, client_link_pump and the daemon say. */
int client_link_call(struct shoal *s, const struct pack_writer *writer, uint64_t id, int timeout_ms);
void client_link_drop_answer(struct shoal *s);

/* Its parts: the request is queued, s->answer set by a later pump (ERR_MEMORY: it has come, and there was no room for it); end
 * with how the wait ended (0: answered). */
int client_link_begin_call(struct shoal *s, const struct pack_writer *writer, uint64_t id);
int client_link_pump_call(struct shoal *s);
int client_link_end_call(struct shoal *s, int error);

#endif
