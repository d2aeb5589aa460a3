#ifndef TRAIN_TRAINER_TRAINER_H
#define TRAIN_TRAINER_TRAINER_H
/* The training loop of shoal-train: synchronous data-parallel SGD with momentum. In each step, every rank takes its part of the
 * group's batch (shoal_share) and sums (does not average) the gradients of its samples; the ranks add up their sums, and each
 * applies the same update to the same parameters. So the loss curve depends on the number of ranks only by rounding, and all
 * ranks hold the same bytes.
 *
 * Rank 0 reports `loss` in group training, `accuracy` and `loss` in group validation at the end of each epoch, and once at the
 * end `accuracy` in group test; it also saves the checkpoints. A run resumed from a checkpoint equals an uninterrupted run bit
 * for bit at the same group size, unless parts follow speeds. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/shoal/shoal.h"
#include "train/trainer/models/mlp.h"

#define TRAINER_ERROR_BYTES 640

/* The options of a run, as read by trainer_options_read. */
struct trainer_options {
    char data_dir[1024];
    uint32_t hidden[MLP_HIDDEN_MAX];
    uint32_t hidden_count;
    double learning_rate, momentum, epochs;
    double learning_rate_decay; /* the part of the rate lost by the last step, falling evenly */
    uint32_t batch_size; /* of the whole group */
    uint32_t checkpoint_every, report_every; /* steps */
    bool stops_at_nonfinite; /* an infinite or NaN gradient: true: fail, naming the rank; false: go on */
    const char *step_log;   /* a file, or NULL: a line per step and rank */
    const char *final_hash; /* a file, or NULL: a line per rank at the end */
};

/* Reads the hyperparameters, checks their ranges and fills in defaults. `data_dir` is the directory from the command line or
 * environment; NULL: the hyperparameter data_dir, or its default. 0, or ERR_USAGE with a sentence in `error`. */
int trainer_options_read(struct shoal *shoal, const char *data_dir, struct trainer_options *out,
                         char error[TRAINER_ERROR_BYTES]);

/* Trains until done or asked to stop; in the latter case saves a checkpoint first. 0, or an error with a sentence in
 * `error`. */
int trainer_run(struct shoal *shoal, const struct trainer_options *options, char error[TRAINER_ERROR_BYTES]);

#endif
