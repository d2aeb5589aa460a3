#ifndef TRAIN_PLAN_LEDGER_H
#define TRAIN_PLAN_LEDGER_H
/* The sample ledger: which samples of an epoch belong to a step, and the proof afterwards that each was used exactly once. The
 * order of an epoch is a permutation of its samples known to all ranks; a range is a range of places in that order.
 *
 * A step's batch follows from the step's number alone and the ranks share it, so nothing needs to be handed over when a group
 * changes: the next group begins at the first step not applied by the last group. The proof shows that no step was applied
 * twice, that none was left out, and that the ranks of each step shared its batch without gap or overlap. The workers' log has
 * a line per range (SHOAL_STEP_LOG of shoal-train), and the ledger judges these lines. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The equal part [*first, *first + *count) of `total` items for `rank`: contiguous, and sizes differ by at most one. size >
 * 0. */
void ledger_share(uint32_t total, uint32_t rank, uint32_t size, uint32_t *first, uint32_t *count);

/* The places of a step's samples in the order of an epoch. */
struct ledger_range {
    uint64_t epoch;                     /* from 0 */
    uint32_t batch_first, batch_count;  /* of the whole group */
    uint32_t first, count;              /* of the rank */
};

/* The range of the step after `applied` steps, with first and count of a group of one rank. Batches have `batch` samples; the
 * last batch of an epoch may be smaller. samples > 0 and batch > 0. */
struct ledger_range ledger_batch_of(uint32_t samples, uint32_t batch, uint64_t applied);

/* ---- the proof ---- */

/* A line of the log: in this generation, this rank has applied this step with this range. */
struct ledger_line {
    uint32_t attempt, generation, rank, size;
    uint64_t step; /* from 1 */
    uint32_t batch_first, batch_count, first, count;
    bool is_balanced; /* parts may follow speeds (train/plan/balance.h); false: parts are equal */
    bool is_void;     /* set by ledger_prove: the step was lost and made anew */
};

/* The counts of a proof that succeeded. */
struct ledger_verdict {
    uint64_t steps;      /* steps that count: 1 ... steps */
    uint64_t epochs;     /* complete epochs */
    uint32_t samples;    /* of an epoch; if no epoch is complete and the number was not given, the samples used */
    uint64_t groups;     /* generations, of all attempts, with steps that count */
    uint64_t void_lines; /* lines of steps made anew by a later group that began earlier */
    uint64_t inferred;   /* ranges known from the lines of other ranks, because a killed worker did not write its own */
};

#define LEDGER_ERROR_BYTES 256

/* Compares two struct ledger_line by attempt, generation, step and rank, for qsort. */
int ledger_compare(const void *one, const void *other);

/* Judges the lines of a trial, lines[count] in the order of ledger_compare, and sets is_void in them. `samples` is the number
 * of samples of an epoch; 0: unknown.
 *
 * Returns true if each sample of each epoch, of the last epoch up to its last step, was used in exactly one step that counts,
 * by exactly one rank; *out then has the counts. Otherwise returns false, *out is untouched, and `error` is a sentence naming
 * the first step at fault.
 *
 * A step counts in the last group that began at or before it; earlier groups lost the same step together with their state. A
 * rank killed between the sum and its line is given its equal part, or, in a balanced step, the samples left over by the other
 * ranks: at least one sample if there are enough for all. A line can be missing only in the last step of a group, void or not,
 * because no group makes a further step without one of its ranks. */
bool ledger_prove(struct ledger_line *lines, size_t count, uint32_t samples, struct ledger_verdict *out,
                  char error[LEDGER_ERROR_BYTES]);

#endif
