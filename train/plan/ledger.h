#ifndef TRAIN_PLAN_LEDGER_H
#define TRAIN_PLAN_LEDGER_H
/* The sample ledger: which samples of an epoch belong to a step, and the proof afterwards that each was used once. The order
 * of an epoch is a permutation of its samples that all ranks know; a range is of places in that order.
 *
 * The batch of a step follows from its number alone, and the ranks share it, so nothing is handed on when a group changes: the
 * next one begins at the step that the last one did not apply. What must be shown is that no step was applied twice, none
 * left out, and that the ranks of each shared its batch without gap or overlap. The workers' log has a line for each range
 * (SHOAL_STEP_LOG of shoal-train); the ledger judges those lines. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The part [*first, *first + *count) of `total` items that is a rank's: contiguous, sizes differ by one at most. size > 0. */
void ledger_share(uint32_t total, uint32_t rank, uint32_t size, uint32_t *first, uint32_t *count);

struct ledger_range {
    uint64_t epoch;                     /* from 0 */
    uint32_t batch_first, batch_count;  /* of the whole group */
    uint32_t first, count;              /* of the rank */
};

/* The range of a group in the step that follows `applied` steps, as that of one rank: batches of `batch` samples, the last of an
 * epoch may be smaller. samples and batch > 0. */
struct ledger_range ledger_batch_of(uint32_t samples, uint32_t batch, uint64_t applied);

/* ---- the proof ---- */

/* A line of the log: this rank of this generation has applied this step with this range. */
struct ledger_line {
    uint32_t attempt, generation, rank, size;
    uint64_t step; /* from 1 */
    uint32_t batch_first, batch_count, first, count;
    bool is_balanced; /* parts might follow speeds (train/plan/balance.h); else they are equal */
    bool is_void;     /* says ledger_prove */
};

struct ledger_verdict {
    uint64_t steps;      /* that count: 1 ... steps */
    uint64_t epochs;     /* that are complete */
    uint32_t samples;    /* of an epoch; if none is complete and nobody said it, those that were used */
    uint64_t groups;     /* generations of all attempts in which steps were made that count */
    uint64_t void_lines; /* of steps that a later group made anew, from an earlier one on */
    uint64_t inferred;   /* ranges whose line is missing (a worker was killed), known from the others' lines */
};

#define LEDGER_ERROR_BYTES 256

/* The order of attempt, generation, step and rank, for qsort. */
int ledger_compare(const void *one, const void *other);

/* Judges the lines of one trial, in that order. A rank that took part in the sum and was killed before its line has had its equal
 * part, or, in a step that is balanced, what the others have left: one sample at least where there are enough for all. Only
 * in the last step of a group can a line be missing, for nobody makes a further one without that rank; this holds of void lines,
 * too.
 *
 * A step counts in the last group that began at it or before it: what earlier groups had made of it is lost, with the state.
 * `samples` of an epoch, 0 if that is not known. True if each sample of each epoch, of the last one as far as it came, was used
 * in exactly one step that counts, by exactly one rank; else false, *out is untouched, and a sentence names the first step where
 * it was not. */
bool ledger_prove(struct ledger_line *lines, size_t count, uint32_t samples, struct ledger_verdict *out,
                  char error[LEDGER_ERROR_BYTES]);

#endif
