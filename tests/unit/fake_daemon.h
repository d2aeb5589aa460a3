#ifndef TESTS_UNIT_FAKE_DAEMON_H
#define TESTS_UNIT_FAKE_DAEMON_H
/* The daemon's end of the local socket, as a worker sees it, in a thread: identity, group, reports, checkpoints. Elastic workers
 * get a group of those who are left when one is lost, and of one more when one joins. It can break all connections, stay away,
 * come back, and hold answers. Whoever reads its fields holds `mutex`. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/frame.h"
#include "base/spans.h"
#include "train/shoal/shoal.h"

#define FAKE_CLIENTS_MAX 24
#define FAKE_REPORTS_MAX 8192
#define FAKE_RANKS_MAX 8

struct fake_report {
    char group[16];
    uint64_t step;
    double loss, accuracy; /* -1 where not reported */
};

struct fake_client {
    int fd; /* -1: none */
    uint32_t rank;
    bool opened;
    uint64_t group_id; /* the request that waits for the group, 0 none */
    bool is_in, is_elastic, has_state; /* is_in: the group of the generation */
    char host[16];
    uint64_t step;     /* has_state: applied */
    uint16_t port;
    struct frame_reader reader;
};

struct fake_daemon {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    char path[96];
    int listen_fd, wake[2];
    bool serves, quit;

    /* what workers are told */
    uint32_t size;
    uint64_t seed;
    uint8_t hyperparameters[4096];
    size_t hyperparameters_bytes;
    struct {
        uint64_t save;
        uint32_t part, parts;
    } saved_part;            /* of the last save; 0: it was a whole checkpoint */
    uint32_t loadable_parts; /* the answer to worker_parts */
    uint64_t loaded_part;    /* of the last worker_load; UINT64_MAX: none was named */
    uint8_t loaded_ranges[SHOAL_RANGES_MAX * 16]; /* likewise, as they were packed */
    size_t loaded_range_bytes;
    uint8_t *checkpoint; /* the newest, given to worker_load */
    size_t checkpoint_bytes;
    uint64_t checkpoint_step;
    uint64_t cuts[4]; /* of the newest checkpoint */
    size_t cut_count;

    /* how it behaves */
    bool hold_saves;          /* read them, answer later: when this is cleared */
    uint32_t refuse_saves, refuse_reports; /* so many, as if its disk were full */
    bool mute_reports;        /* take reports without answering */
    bool refuse;              /* refuse worker_open */
    bool tells_of_losses;     /* says `regroup` when an elastic worker's connection ends */
    bool hold_groups;         /* forms none until fake_daemon_let_form */
    uint32_t fenced;          /* bit per rank: refuses all that this worker says after worker_open */
    uint32_t balances;        /* bit per rank: is told that parts may follow speeds */
    uint32_t hosts;           /* workers are spread over so many addresses, as on so many hosts: 127.0.0.(1 + rank % hosts); 0: one */

    /* what it has seen */
    struct fake_report reports[FAKE_REPORTS_MAX];
    size_t report_count, open_count, save_count, group_count;
    uint64_t progress_step;
    uint64_t profile_steps, profile_step_ns, profile_collective_ns, profile_data_ns; /* sums of all worker_profile */
    uint64_t trace;                                                                  /* of the last worker_spans */
    struct span spans[SPANS_MAX];
    uint32_t span_count;
    uint64_t session;          /* of the last worker_open */
    size_t session_changes;    /* how often it was another one than before */
    uint64_t held_ids[8];
    int held_fds[8]; /* of clients */
    size_t held_count;

    uint64_t generation; /* 0: no group yet */
    struct fake_client clients[FAKE_CLIENTS_MAX];
};

/* Listens and serves. `json` are the hyperparameters. */
void fake_daemon_start(struct fake_daemon *daemon, uint32_t size, uint64_t seed, const char *json);
void fake_daemon_stop(struct fake_daemon *daemon);

/* Closes every connection and the socket, as a daemon that ends; then begins to listen again. */
void fake_daemon_break(struct fake_daemon *daemon);
void fake_daemon_return(struct fake_daemon *daemon);

/* Answers the saves that hold_saves has held, and holds no more. */
void fake_daemon_release_saves(struct fake_daemon *daemon);

/* Forgets the group, so that new workers form one; keeps checkpoint and reports. */
void fake_daemon_next_attempt(struct fake_daemon *daemon, uint32_t size);

/* Ends hold_groups: a group of all who wait. */
void fake_daemon_let_form(struct fake_daemon *daemon);

/* The worker that opened as `rank` does not count to its group any more, as if its node were dead; with `tells` the others
 * hear of it. If it speaks again it joins. */
void fake_daemon_expel(struct fake_daemon *daemon, uint32_t rank, bool tells);

/* The port where that worker waits for its group. */
uint16_t fake_daemon_port(struct fake_daemon *daemon, uint32_t rank);

/* The key of a generation's group. */
void fake_daemon_key(uint64_t generation, uint8_t out[32]);

/* Sends {"notice": ...} to all. */
void fake_daemon_notice(struct fake_daemon *daemon, const char *notice, uint64_t step);

/* Waits until *field >= at_least, at most 20 s; false when it did not happen. */
bool fake_daemon_wait(struct fake_daemon *daemon, const size_t *field, size_t at_least);

/* fork, while the daemon's thread is at rest: it holds no lock of an allocator that the child would wait for. */
pid_t fake_daemon_fork(struct fake_daemon *daemon);

/* Sets a worker's environment in this process. */
void fake_daemon_environment(const struct fake_daemon *daemon, uint32_t rank);

#endif
