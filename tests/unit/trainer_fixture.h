#ifndef TESTS_UNIT_TRAINER_FIXTURE_H
#define TESTS_UNIT_TRAINER_FIXTURE_H
/* shoal-train as real processes, under a fake daemon, on a small synthetic data set. */

#include <sys/types.h>

#include "tests/unit/fake_daemon.h"
#include "train/plan/ledger.h"

#define TRAINED_IMAGES 600
#define TRAINED_SAMPLES 550 /* to train with; 50 are for validation */
#define TRAINED_STEPS_PER_EPOCH 15 /* with batches of 37, the last of 32 */

/* What the ranks have left behind, after trained_read. */
struct trained {
    char directory[64];
    char errors[4096]; /* standard error of all */
    char hashes[FAKE_RANKS_MAX][80]; /* of the parameters, of the workers that came to the end; then "" */
    char steps[1 << 18]; /* SHOAL_STEP_LOG */
    size_t step_lines;
    /* Set by a test: workers are a shoal-train that measures another time (tests/unit/paced_clock.c), in which a step of rank r
     * takes pace[r], whatever its samples are. 0: they are the real one. */
    unsigned pace[FAKE_RANKS_MAX];
};

extern struct trained trained;

/* Makes the data set, and removes it. */
void trained_begin(void);
void trained_end(void);

/* Starts workers; they log into trained.directory. */
void trained_start(struct fake_daemon *daemon, uint32_t from, uint32_t to, pid_t *children);

/* Waits for workers, which must end with status 0. */
void trained_wait(const pid_t *children, uint32_t from, uint32_t to);
void trained_kill(pid_t child);

/* The first `size` at once: none of them forms a group of those who are left. */
void trained_kill_all(const pid_t *children, uint32_t size);

/* Reads what the workers have written, and deletes it. After it the daemon's fields may be read. */
void trained_read(struct fake_daemon *daemon);
size_t trained_read_text(const char *name, char *out, size_t size);

/* Runs one worker per rank to its end; true if all ended with `expected`. With another directory of data, or the usual one. */
bool trained_run_on(struct fake_daemon *daemon, const char *data, int expected);
bool trained_run(struct fake_daemon *daemon, int expected);

/* So many workers came to the end, with the same parameters. */
void trained_assert_equal(uint32_t size);

/* The loss of each step that rank 0 has reported, by steps (1 ... `steps`; nothing beyond may be reported). Returns how many
 * reports there are. */
size_t trained_losses(const struct fake_daemon *daemon, uint64_t steps, double out[steps + 1]);

/* The log of steps proves that each sample was used once. */
struct ledger_verdict trained_prove(void);

#endif
