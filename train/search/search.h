#ifndef TRAIN_SEARCH_SEARCH_H
#define TRAIN_SEARCH_SEARCH_H
/* Searchers: which trials an experiment has, and which hyperparameters each gets. A core: the trials follow from the
 * search space and the seed alone, whoever computes them and however often (Bergstra and Bengio, "Random search for
 * hyper-parameter optimization", JMLR 2012, for `random`).
 *
 * A space is at most SEARCH_PARAMETERS_MAX named parameters, kept in the order of the configuration file. Nested maps
 * of the file are flattened with '.' ("optimizer.learning_rate") and nested again in the values that a trial gets. */

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"

#define SEARCH_PARAMETERS_MAX 64
#define SEARCH_NAME_BYTES 64
#define SEARCH_SPACE_BYTES_MAX 4096  /* a packed space */
#define SEARCH_VALUES_BYTES_MAX 4096 /* the packed values of one trial */
#define SEARCH_TRIALS_MAX 100000

enum search_kind { SEARCH_SINGLE, SEARCH_GRID, SEARCH_RANDOM };

enum search_parameter_kind { SEARCH_CONST, SEARCH_CATEGORICAL, SEARCH_INT, SEARCH_DOUBLE, SEARCH_LOG };

/* One parameter. `values` (const: one value; categorical: an array) are MessagePack bytes, borrowed. */
struct search_parameter {
    char name[SEARCH_NAME_BYTES];
    enum search_parameter_kind kind;
    double minval, maxval; /* int and double: the value; log: the exponent */
    double base;           /* log */
    uint32_t count;        /* grid points of int, double, log; 0 = not given */
    const uint8_t *values;
    uint32_t values_bytes;
};

/* Packs one parameter as one MessagePack value; reads one back (pointing into the reader's bytes). search_parameter_read
 * returns ERR_MALFORMED for anything out of bounds. */
void search_parameter_pack(struct pack_writer *writer, const struct search_parameter *parameter);
int search_parameter_read(struct pack_reader *reader, struct search_parameter *out);

struct search_space {
    enum search_kind kind;
    uint32_t max_trials;  /* random */
    const uint8_t *bytes; /* a MessagePack array of parameters; borrowed */
    uint32_t byte_count;
};

/* The number of trials: single 1, random max_trials, grid the product of the counts. ERR_MALFORMED for broken bytes,
 * ERR_REFUSED when grid has a double or log without count, ERR_FULL above SEARCH_TRIALS_MAX or when the values of a trial
 * might not fit in SEARCH_VALUES_BYTES_MAX. */
int search_trial_count(const struct search_space *space, uint32_t *out);

/* Writes the values of trial `index` as a nested MessagePack map into `writer`. The same on every machine: random draws
 * come from random_init_stream(seed, index), numbers are rounded by number_round9, ints are ints. 0, ERR_MALFORMED,
 * ERR_NOT_FOUND (index out of range), ERR_FULL (writer too small). */
int search_trial_values(const struct search_space *space, uint64_t seed, uint32_t index, struct pack_writer *writer);

#endif
