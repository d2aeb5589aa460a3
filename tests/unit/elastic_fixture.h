#ifndef TESTS_UNIT_ELASTIC_FIXTURE_H
#define TESTS_UNIT_ELASTIC_FIXTURE_H
/* Elastic groups of real processes that link libshoal, under a fake daemon. The program that
 * they run is a training loop whose result anybody can work out: in each step a batch of ELASTIC_BATCH samples is shared by
 * the ranks, and the sums are whole numbers, so that they are exact in whatever order, by whatever number of ranks, they
 * are added. A sample that is lost, used twice or damaged changes the state. */

#include <stdatomic.h>
#include <sys/types.h>

#include "tests/unit/fake_daemon.h"
#include "train/shoal/shoal.h"

#define ELASTIC_BATCH 12
#define ELASTIC_STEPS_MAX 1024

struct elastic_worker;

/* What all workers of a test run. */
struct elastic_plan {
    uint64_t steps;
    size_t values;  /* floats of the state, and reduced in a step */
    uint32_t hosts; /* the workers are spread over; 0: each has its own, and links to all */
    int timeout_ms; /* of collectives that stand still; 0: libshoal's */
    bool checks_finite;
    uint32_t balances; /* bit per worker: is told that parts may follow speeds */
    bool is_packed; /* the state is handed over by shoal_on_state */
    bool is_rough;  /* the sums are no whole numbers: their last bits depend on who adds what */

    /* If not NULL, called in each step before its values are reduced, and once before anything is registered (step
     * UINT64_MAX). It may do what it likes, and change what the worker reduces (`gradients`, `count`) or registers
     * (`registered`, in floats). */
    void (*at_step)(struct elastic_worker *worker, uint64_t step);
};

/* What a worker leaves behind, in memory that is shared with the test. */
struct elastic_word {
    _Atomic uint64_t applied;    /* steps */
    _Atomic uint64_t generation; /* that it is in */
    _Atomic uint32_t broken;     /* how often it was told SHOAL_AGAIN */
    _Atomic uint32_t flag;       /* for at_step */
    _Atomic uint32_t packs, unpacks; /* calls of the two functions of shoal_on_state */
    int refuses; /* what the next of them returns instead; set by the test */
    int result;                  /* of the call that ended it, 0 at its end */
    char error[SHOAL_ERROR_BYTES];
    uint32_t rank, size;                  /* at the end */
    uint64_t hash;                        /* of the state at the end */
    uint64_t hashes[ELASTIC_STEPS_MAX];   /* after each step that it applied, by steps applied */
    uint32_t parts[ELASTIC_STEPS_MAX];    /* samples that it had in it */
};

struct elastic_worker {
    uint32_t number; /* 0 ... FAKE_RANKS_MAX - 1; its first rank, too */
    const struct elastic_plan *plan;
    struct shoal *shoal;
    struct elastic_word *word;
    float *state, *gradients;
    size_t count, registered;
    uint32_t part; /* samples of this step */
};

struct elastic_run {
    struct fake_daemon daemon;
    const struct elastic_plan *plan;
    struct elastic_word *words; /* [FAKE_RANKS_MAX] */
    pid_t pids[FAKE_RANKS_MAX]; /* 0: none that is not waited for */
};

/* Starts a daemon for a first group of `size`; it tells of losses. Workers are started by elastic_fork. */
void elastic_begin(struct elastic_run *run, const struct elastic_plan *plan, uint32_t size);
void elastic_fork(struct elastic_run *run, uint32_t from, uint32_t to);

/* Waits until a field of a worker's word is at least so much; at most 60 s, then the test fails. */
void elastic_wait(const _Atomic uint64_t *field, uint64_t at_least);
void elastic_wait_group_count(struct elastic_run *run, size_t at_least);

/* Sends a signal; after SIGKILL the process is waited for. */
void elastic_signal(struct elastic_run *run, uint32_t number, int signal_number);

/* Waits for a worker's end; its exit status, 0 or 1. */
int elastic_wait_end(struct elastic_run *run, uint32_t number);

/* Waits for a worker's end: it must have come to its last step with the right state. */
void elastic_assert_done(struct elastic_run *run, uint32_t number);

/* Waits for a worker's end: it must have left with `error` and a sentence. Returns the sentence. */
const char *elastic_assert_failed(struct elastic_run *run, uint32_t number, int error);

/* What was not waited for is killed. */
void elastic_end(struct elastic_run *run);

/* The hash of the state after so many steps. */
uint64_t elastic_expected(const struct elastic_plan *plan, uint64_t steps);

/* Of the calling process: its TCP connections, not its listening sockets. At most `max`; returns how many. */
size_t elastic_tcp_sockets(int *fds, size_t max);

void elastic_sleep_ms(int ms);

#endif
