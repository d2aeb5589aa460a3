#ifndef TRAIN_SEARCH_SEARCH_H
#define TRAIN_SEARCH_SEARCH_H
/* Searchers: which trials an experiment has, and which hyperparameters each trial gets. A core: the trials follow from the
 * search space and the seed alone, on any machine and however often they are computed (Bergstra and Bengio, "Random search for
 * hyper-parameter optimization", JMLR 2012, for `random`).
 *
 * A space has at most SEARCH_PARAMETERS_MAX named parameters, in the order of the configuration file. Nested maps of the file
 * are flattened with '.' ("optimizer.learning_rate") and nested again in the values of a trial. A parameter may have conditions
 * on the values of earlier ones. In a trial that does not meet them all it is inactive: the trial has no value of it. A
 * condition on an inactive parameter is not met. */

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"

#define SEARCH_PARAMETERS_MAX 256
#define SEARCH_NAME_BYTES 64
#define SEARCH_SPACE_BYTES_MAX (256u * 1024) /* a packed space */
#define SEARCH_VALUES_BYTES_MAX (64u * 1024) /* the packed values of a trial */
#define SEARCH_TRIALS_MAX 100000
#define SEARCH_CONDITIONS_MAX 512 /* of all parameters together */
#define SEARCH_ALLOWED_MAX 1024   /* values that all conditions name together */
#define SEARCH_INITIAL_MAX 1000 /* trials with values of the user's own */

/* A single trial with the constants, every point of a grid, or random draws; the next two stop bad trials early (asha.h), tpe draws a
 * trial from what earlier ones have reached (tpe.h), pbt goes on with copies of the best ones (pbt.h), and of the last one a program of
 * the user's decides. */
enum search_kind { SEARCH_SINGLE, SEARCH_GRID, SEARCH_RANDOM, SEARCH_ASHA, SEARCH_ADAPTIVE_ASHA, SEARCH_TPE, SEARCH_PBT, SEARCH_CUSTOM };

/* True for the searchers whose trials, max_trials in number, have values of their own. */
static inline bool search_draws(enum search_kind kind)
{
    return kind == SEARCH_RANDOM || kind == SEARCH_ASHA || kind == SEARCH_ADAPTIVE_ASHA || kind == SEARCH_TPE || kind == SEARCH_PBT ||
           kind == SEARCH_CUSTOM;
}

/* True for the searchers that can have further trials: those of pbt follow from its rounds. */
static inline bool search_extends(enum search_kind kind)
{
    return search_draws(kind) && kind != SEARCH_PBT;
}

/* True for the searchers that stop trials early. */
static inline bool search_halves(enum search_kind kind)
{
    return kind == SEARCH_ASHA || kind == SEARCH_ADAPTIVE_ASHA;
}

/* True for the searchers that act on what trials have reached. */
static inline bool search_judges(enum search_kind kind)
{
    return search_halves(kind) || kind == SEARCH_TPE || kind == SEARCH_PBT || kind == SEARCH_CUSTOM;
}

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
    bool is_log;           /* int only: even on the logarithm; minval is at least 1, and there is no step */
    double step;           /* int, double: the values are minval, minval + step ... maxval; 0: no steps */
    const uint8_t *values;
    uint32_t values_bytes;
    /* The conditions: an array of [number of an earlier const, categorical or int, array of values]. A value is the number of a
     * choice, of a const 0, of an int the integer. MessagePack, borrowed like `values`. */
    const uint8_t *when;
    uint32_t when_bytes; /* 0: always active */
};

/* search_parameter_pack writes a parameter as one MessagePack value; a full writer keeps its own error. search_parameter_read
 * reads such a value; *out points into the reader's bytes. Returns 0, or ERR_MALFORMED for any value out of bounds, and for
 * properties that only a later version knows: a node that cannot draw a parameter refuses the space. */
void search_parameter_pack(struct pack_writer *writer, const struct search_parameter *parameter);
int search_parameter_read(struct pack_reader *reader, struct search_parameter *out);

/* Whether a step suits the bounds of an int or a double: above 0, for an int a whole number, and a number of steps, at most 2^53,
 * leads from minval to maxval. The bounds are good. */
bool search_step_fits(const struct search_parameter *parameter);

/* How a searcher places its draws: independently, by a Sobol sequence (train/search/sobol.h), or from what earlier trials have reached
 * (train/search/tpe.h). The functions of this page draw the last as the first. */
enum search_sampler { SEARCH_SAMPLER_RANDOM, SEARCH_SAMPLER_SOBOL, SEARCH_SAMPLER_TPE };
#define SEARCH_SOBOL_MAX 64 /* parameters that a Sobol sequence can place */

/* What a space says beside its parameters. `initial` (an array) has the user's own values for the first trials, one element each:
 * an array of [number of the parameter, value], the numbers ascending. The value is that of the trial, of a categorical the
 * number of its choice. What is not there is drawn as in any other trial. Borrowed like a parameter's values. */
struct search_head {
    enum search_sampler sampler;
    const uint8_t *initial;
    uint32_t initial_bytes; /* 0: none */
};

/* search_head_pack begins a packed space: the array of its parameters, which the caller writes next, and before them the head,
 * where it says something. search_head_read takes this beginning; the parameters come next. Returns 0, or ERR_MALFORMED, also for
 * what only a later version knows. */
void search_head_pack(struct pack_writer *writer, const struct search_head *head, uint32_t parameter_count);
int search_head_read(struct pack_reader *reader, struct search_head *out, uint32_t *parameter_count);

/* Whether a trial can have the value: in the bounds of an int, a double or a log, and on its steps. */
bool search_value_fits(const struct search_parameter *parameter, double value);

/* A search space. The bytes stay the caller's and must be valid during each call. */
struct search_space {
    enum search_kind kind;
    uint32_t max_trials;  /* of searchers that draw */
    const uint8_t *bytes; /* a MessagePack array: perhaps a head, then the parameters */
    uint32_t byte_count;
};

/* True if every version of Shoal reads the space, and draws the same trials from it. The first versions refuse all others, the
 * record and its experiment with them. False for broken bytes. */
bool search_space_is_plain(const struct search_space *space);

/* The number of trials: 1 for single, for grid the number of combinations of grid points, where an inactive parameter has one,
 * max_trials for the others. ERR_MALFORMED for broken bytes and for more initial values than trials, ERR_REFUSED if a grid has a
 * double or log with neither count nor step, ERR_FULL above SEARCH_TRIALS_MAX or if the values of a trial might not fit in
 * SEARCH_VALUES_BYTES_MAX. *out is untouched on failure. */
int search_trial_count(const struct search_space *space, uint32_t *out);

/* The most bytes that the values of a trial take; SIZE_MAX for broken bytes. */
size_t search_values_bytes_max(const struct search_space *space);

/* Writes the values of trial `index` as a nested MessagePack map to `writer`. They are the same on every machine and in every
 * version: numbers are rounded by number_round9, ints are ints, and random draws follow one of two rules.
 *
 *   in order  the parameters take their draws one after the other from random_init_stream(seed, index). This is the rule of
 *             spaces that have none of the properties below: the first versions drew so.
 *   by name   each parameter takes its draw from a generator of its own, of (seed, index, name). This is the rule of a space in
 *             which any parameter has `is_log`, `step` or `when`: to add a parameter, or to take one away, changes no other draw.
 *             The first such property brings the rule, and with it other draws of all parameters.
 *
 * By SEARCH_SAMPLER_SOBOL neither rule draws: the parameters that are searched, whether active or not, have the dimensions of the
 * sequence in their order, SEARCH_SOBOL_MAX at most, and trial `index` has point `index` of it, shifted by the seed.
 *
 * Initial values take the place of draws, and change no other draw.
 *
 * A space that is drawn has values for every index below SEARCH_TRIALS_MAX: those behind max_trials are of a search that was
 * extended.
 *
 * Returns 0, ERR_MALFORMED, ERR_NOT_FOUND (index out of range) or ERR_FULL (writer too small; its content is then
 * undefined). */
int search_trial_values(const struct search_space *space, uint64_t seed, uint32_t index, struct pack_writer *writer);

/* The same values as numbers, one for each parameter of the space: of a categorical the number of the choice, of a const 0, of an
 * inactive parameter NaN. search_trial_point gives those of a trial; the errors are those of search_trial_values.
 * search_point_pack writes any such values as a map: 0, ERR_MALFORMED (a number that its parameter cannot have) or ERR_FULL.
 * search_point_read reads a map: what it lacks is inactive. 0, or ERR_MALFORMED: a value that the space does not have. `point`
 * has room for SEARCH_PARAMETERS_MAX numbers. */
int search_trial_point(const struct search_space *space, uint64_t seed, uint32_t index, double *point);
int search_point_pack(const struct search_space *space, const double *point, struct pack_writer *writer);
int search_point_read(const struct search_space *space, struct pack_reader values, double *point);

/* As search_point_read, for values that a user has written: a name that the space does not have is an error, too. `wrong` then has the
 * name. */
int search_point_read_strictly(const struct search_space *space, struct pack_reader values, double *point, char wrong[SEARCH_NAME_BYTES]);

/* True if `point` has one number for each parameter, and each is NaN or one that its parameter can have. */
bool search_point_fits(const struct search_space *space, const double *point, uint32_t count);

/* Finds an initial value of trial `index` that the trial does not have, because its parameter is inactive there. True: there is
 * one, and `*out` is its parameter. False for broken bytes. */
bool search_initial_is_inactive(const struct search_space *space, uint64_t seed, uint32_t index, struct search_parameter *out);

#endif
