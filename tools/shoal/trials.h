#ifndef TOOLS_SHOAL_TRIALS_H
#define TOOLS_SHOAL_TRIALS_H
/* The trials of an experiment as people compare them: what `show` and `watch` put into the rows of a table. Everything comes from
 * one document (docs/wire.md, `show` with `curves`) and the time, so that it can be looked at as data. */

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shoal/curve.h"
#include "tools/shoal/render.h"

/* How text is written: by the terminal, or plainly. */
struct trials_style {
    bool colours, utf8;
    size_t width; /* columns of the terminal; 0: no limit */
};

/* The columns of the table, in the order in which they stand. Where the terminal is too narrow the last ones are left out. */
enum trials_column {
    TRIALS_TRIAL,
    TRIALS_STATE,
    TRIALS_STEP,
    TRIALS_VALUE, /* of searcher.metric, the newest */
    TRIALS_BEST,
    TRIALS_CURVE,
    TRIALS_LEFT,
    TRIALS_PARAMETERS, /* a column for each hyperparameter that differs */
    TRIALS_ELAPSED,
    TRIALS_RATE,
    TRIALS_METRICS, /* a column for each other metric */
    TRIALS_CHECKPOINT,
    TRIALS_SLOTS,
    TRIALS_ATTEMPT,
    TRIALS_RESTARTS,
    TRIALS_DESCRIPTION, /* what users have noted about the trial */
    TRIALS_COLUMNS
};

#define TRIALS_NAMES "trial,state,step,value,best,curve,left,params,elapsed,rate,metrics,checkpoint,slots,attempt,restarts,description"

/* ---- one trial ----------------------------------------------------------------------------------------------------- */

struct trial_facts {
    const msgpack_object *row;   /* of the document */
    const msgpack_object *curve; /* of the document's `curves`; NULL: none */
    uint64_t index, step;
    char state[16];
    bool runs, is_best; /* is_best: the experiment's best trial */
    bool has_elapsed, has_left, has_value, has_best, has_rate;
    uint64_t elapsed_s; /* of all attempts; an attempt that runs counts until now */
    uint64_t left_s;    /* by the length that is known and the speed */
    double value, best; /* of searcher.metric: the newest, and the best that any attempt has reported */
    double rate;        /* of the program's samples, where it reports them, else of its steps, per second */
};

/* ---- hyperparameters ----------------------------------------------------------------------------------------------- */

#define PARAMETERS_MAX 256
#define PARAMETER_DEPTH_MAX 4

/* A leaf of the hyperparameters, by the keys on its way down. */
struct parameter {
    const msgpack_object *keys[PARAMETER_DEPTH_MAX];
    size_t depth;
    bool differs;                /* between any two trials: in value, or since one of them lacks it */
    const msgpack_object *value; /* of the first trial that has it */
    uint32_t trials;             /* how many have it */
};

/* "optimizer.lr", with control characters made visible. */
void parameter_name(const struct parameter *parameter, char *out, size_t size);

/* The value in these hyperparameters; a nil if they lack it. */
const msgpack_object *parameter_value(const struct parameter *parameter, const msgpack_object *hyperparameters);

/* ---- all trials ---------------------------------------------------------------------------------------------------- */

struct trials {
    const msgpack_object *experiment;
    char metric[64];
    bool smaller_is_better, rates_are_samples;
    uint64_t replicas; /* copies that a checkpoint is to have; 0: not known */
    size_t count;
    struct trial_facts *items; /* [count], in the order of the document, until trials_sort */
    size_t parameter_count;
    struct parameter parameters[PARAMETERS_MAX];
};

/* Reads a document; `now_s` in seconds since 1970. `out` borrows from the document, and is freed with trials_free. False: no memory is
 * left; `out` has then no trials. */
bool trials_read(const msgpack_object *document, uint64_t now_s, struct trials *out);
/* As trials_read, for a document `trial`: one trial, without the curve. */
bool trials_read_one(const msgpack_object *document, uint64_t now_s, struct trials *out);

void trials_free(struct trials *trials);

/* Sorts by a column's name, a hyperparameter ("lr", or "hp.lr") or a metric ("validation/loss", or "loss" alone); a "-" before it turns the order
 * around. Values and bests: the best first; step, elapsed and rate: the highest first; else ascending. Trials without the value come
 * last. False: there is no such key, and nothing has moved. */
bool trials_sort(struct trials *trials, const char *key);

/* The columns that a user wants, in their order. */
struct trials_choice {
    size_t count; /* 0: the usual columns, without those that say nothing */
    enum trials_column columns[TRIALS_COLUMNS];
};

/* Reads "trial,state,best" into a choice. False: `*wrong` points into the text, at the first name that is no column. */
bool trials_choose(const char *text, struct trials_choice *out, const char **wrong);

/* Writes the hyperparameters that are the same in all trials, as few lines as they need, at most `lines`. */
void trials_write_constants(FILE *out, const struct trials_style *style, const struct trials *trials, size_t lines);

/* "lr=0.01 hidden=[64, 32]": the hyperparameters of a trial that are not the same in all trials. */
void trials_pairs(const struct trials *trials, const struct trial_facts *facts, char *out, size_t size);

/* Writes the table of the trials `first` up to `first + rows`; the one at `marked` (SIZE_MAX: none) has a mark. */
void trials_write(FILE *out, const struct trials_style *style, const struct trials *trials, const struct trials_choice *choice,
                  size_t first, size_t rows, size_t marked);

/* Writes "700 completed, 200 queued, 80 failed" of the trials from `first` on. */
#define TRIALS_SUMMARY_BYTES 256
void trials_summary(const struct trials *trials, size_t first, char out[TRIALS_SUMMARY_BYTES]);

/* The points of the trial's curve in the document. */
void trials_points(const struct trial_facts *facts, struct curve_points *out);

/* "45 s", "3m05s", "2h10m", "3d04h". */
void trials_time(char out[RENDER_UNIT_BYTES], uint64_t seconds);

/* "step 3440, on 2 nodes", or of a checkpoint that has too few copies yet "step 3440, on 1 of 2 nodes so far". `name`: of a file that
 * a program has left, or "". */
void trials_checkpoint(const msgpack_object *checkpoint, uint64_t replicas, char *out, size_t size);

/* Copies a text and cuts it at `width` columns, with an ellipsis for what is left out. `width` 0: no limit. */
void trials_cut(const char *text, size_t width, bool utf8, char *out, size_t size);

#endif
