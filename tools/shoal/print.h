#ifndef TOOLS_SHOAL_PRINT_H
#define TOOLS_SHOAL_PRINT_H
/* What several commands print the same way. */

#include "base/pack.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/client.h"
#include "tools/shoal/render.h"

typedef void print_fn(struct cli *cli, const struct pack_reader *document);

/* Asks `op` without arguments; writes the reply as JSON or through `render`. */
int print_simple(struct cli *cli, const char *op, print_fn *render);

/* The same on an open client whose request is packed. */
int print_reply(struct client *client, print_fn *render);

/* A cell with the value of `key`: text, number or JSON; "-" for nothing. */
void print_cell_text(struct table *table, const struct pack_reader *item, const char *key);

#define PRINT_SUMMARY_BYTES 256

/* "3 of 8 completed, 2 running, 1 failed" of a map of counts. */
void print_counts(const struct pack_reader *counts, char out[PRINT_SUMMARY_BYTES]);

/* "3 of 4 alive, 1 drained" of a document with `nodes`, `nodes_alive`, `nodes_drained`. */
void print_nodes(const struct pack_reader *document, char out[PRINT_SUMMARY_BYTES]);

/* "trial 3 (accuracy 0.8812)" of an experiment's `best`, or "-". */
void print_best(const struct pack_reader *experiment, char out[PRINT_SUMMARY_BYTES]);

/* Name, or the short id, of an experiment's coordinator; "-". */
void print_coordinator(const struct pack_reader *experiment, char out[PRINT_SUMMARY_BYTES]);

/* "hidden=256 learning_rate=0.01" of a map. */
void print_pairs(struct pack_reader map, char *out, size_t size);

/* The number at metrics[group][name]; false if it is not there. */
bool print_metric(const struct pack_reader *trial, const char *group, const char *name, double *out);

/* Of a map with `lacks`: why no trial can begin, the part of the sentence before the advice; false if nothing is lacking. */
bool print_lacks(const struct pack_reader *map, char out[PRINT_SUMMARY_BYTES]);

#define PRINT_LACKS_ADVICE "machines must join, or the configuration ask for less"

/* The trials of a `show` document, in a table; `row_max` rows at most (0: all), those that run first when not all fit.
 */
void print_trials(FILE *out, bool colours, const struct pack_reader *experiment, size_t row_max);

/* The lines above that table. */
void print_experiment_head(FILE *out, bool colours, const struct pack_reader *document);

/* What failed trials wrote last, and why those that wait have ended before. */
void print_tails(FILE *out, const struct pack_reader *experiment);

#endif
