#ifndef TRAIN_SEARCH_SEARCH_H
#define TRAIN_SEARCH_SEARCH_H
/* Searchers: which trials an experiment has, and which hyperparameters each trial gets. A core: the trials follow from the
 * search space and the seed alone, on any machine and however often they are computed (Bergstra and Bengio, "Random search for
 * hyper-parameter optimization", JMLR 2012, for `random`).
 *
 * A space has at most SEARCH_PARAMETERS_MAX named parameters, in the order of the configuration file. Nested maps of the file
 * are flattened with '.' ("optimizer.learning_rate") and nested again in the values of a trial. */

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"

#define SEARCH_PARAMETERS_MAX 256
#define SEARCH_NAME_BYTES 64
#define SEARCH_SPACE_BYTES_MAX (256u * 1024) /* a packed space */
#define SEARCH_VALUES_BYTES_MAX (64u * 1024) /* the packed values of a trial */
#define SEARCH_TRIALS_MAX 100000

/* A single trial with the constants, every point of a grid, or random draws. */
enum search_kind { SEARCH_SINGLE, SEARCH_GRID, SEARCH_RANDOM };

/* One value; one of several values; a whole number, a number, or a power of a base, between bounds. */
enum search_parameter_kind { SEARCH_CONST, SEARCH_CATEGORICAL, SEARCH_INT, SEARCH_DOUBLE, SEARCH_LOG };

/* A parameter. `values` (const: one value; categorical: an array of values) are MessagePack bytes, borrowed from the caller or,
 * after search_parameter_read, from the reader's bytes. */
struct search_parameter {
    char name[SEARCH_NAME_BYTES];
    enum search_parameter_kind kind;
    double minval, maxval; /* int and double: bounds of the value; log: of the exponent */
    double base;           /* log only */
    uint32_t count;        /* grid points of int, double, log; 0: not given */
    const uint8_t *values;
    uint32_t values_bytes;
};

/* search_parameter_pack writes a parameter as one MessagePack value; a full writer keeps its own error. search_parameter_read
 * reads such a value; *out points into the reader's bytes. Returns 0, or ERR_MALFORMED for any value out of bounds. */
void search_parameter_pack(struct pack_writer *writer, const struct search_parameter *parameter);
int search_parameter_read(struct pack_reader *reader, struct search_parameter *out);

/* A search space. The bytes stay the caller's and must be valid during each call. */
struct search_space {
    enum search_kind kind;
    uint32_t max_trials;  /* random only */
    const uint8_t *bytes; /* a MessagePack array of parameters */
    uint32_t byte_count;
};

/* The number of trials: 1 for single, max_trials for random, the product of the grid points for grid. ERR_MALFORMED for broken
 * bytes, ERR_REFUSED if a grid has a double or log without count, ERR_FULL above SEARCH_TRIALS_MAX or if the values of a trial
 * might not fit in SEARCH_VALUES_BYTES_MAX. *out is untouched on failure. */
int search_trial_count(const struct search_space *space, uint32_t *out);

/* The most bytes that the values of a trial take; SIZE_MAX for broken bytes. */
size_t search_values_bytes_max(const struct search_space *space);

/* Writes the values of trial `index` as a nested MessagePack map to `writer`. They are the same on every machine: random draws
 * come from random_init_stream(seed, index), numbers are rounded by number_round9, ints are ints. Returns 0, ERR_MALFORMED,
 * ERR_NOT_FOUND (index out of range) or ERR_FULL (writer too small; its content is then undefined). */
int search_trial_values(const struct search_space *space, uint64_t seed, uint32_t index, struct pack_writer *writer);

#endif
