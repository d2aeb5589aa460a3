#ifndef TOOLS_SHOAL_PRINT_H
#define TOOLS_SHOAL_PRINT_H
/* Output that several commands share. Functions read documents of the daemon (docs/wire.md); texts are cut at their size. */

#include <msgpack.h>

#include "tools/shoal/cli.h"
#include "tools/shoal/client.h"
#include "tools/shoal/render.h"
#include "tools/shoal/trials.h"

typedef void print_fn(struct cli *cli, const msgpack_object *document); /* writes a reply for people to cli->out */

/* Connects, sends `op` without arguments, and writes the reply: with --json as JSON, else through `render`. Returns an exit
 * code. */
int print_simple(struct cli *cli, const char *op, print_fn *render);

/* Sends the request packed in `client`, and writes the reply as print_simple does. Returns an exit code. */
int print_reply(struct client *client, print_fn *render);

/* Adds a cell with the value of `key`: text, number or JSON; "-" if absent or nil. */
void print_cell_text(struct table *table, const msgpack_object *item, const char *key);

#define PRINT_SUMMARY_BYTES 256

/* "3 of 8 completed, 2 running, 1 failed" from a map of counts. */
void print_counts(const msgpack_object *counts, char out[PRINT_SUMMARY_BYTES]);

/* "3 of 4 alive, 1 drained" from a document with `nodes`, `nodes_alive`, `nodes_drained`. */
void print_nodes(const msgpack_object *document, char out[PRINT_SUMMARY_BYTES]);

/* "trial 3 (accuracy 0.8812)" from an experiment's `best`; "-" without one. */
void print_best(const msgpack_object *experiment, char out[PRINT_SUMMARY_BYTES]);

#define PRINT_NAMED_BYTES 192

/* What an answer calls an experiment or a node: its id, behind the name if the user typed the name ("mlp (a1b2...)"). */
void print_named(char out[PRINT_NAMED_BYTES], const char *typed, const char *id);

/* Name, else short id, of an experiment's coordinator; "-" without one. */
void print_coordinator(const msgpack_object *experiment, char out[PRINT_SUMMARY_BYTES]);

/* "hidden=256 learning_rate=0.01" from a map. */
void print_pairs(const msgpack_object *map, char *out, size_t size);

/* "best lr=low" from the labels of an experiment, a map. */
void print_labels(const msgpack_object *labels, char *out, size_t size);

/* Reads the number metrics[group][name]; false, and `*out` unchanged, if there is no such number. */
bool print_metric(const msgpack_object *trial, const char *group, const char *name, double *out);

/* From a map with `lacks`: why no trial can begin, as the part of the sentence before PRINT_LACKS_ADVICE. False if nothing is
 * lacking. */
bool print_lacks(const msgpack_object *map, char out[PRINT_SUMMARY_BYTES]);

/* Warns if the document says that the node tells no webhooks; older daemons say nothing. */
void print_untold_webhooks(struct cli *cli, const msgpack_object *document);

#define PRINT_LACKS_ADVICE "machines must join, or the configuration ask for less"

#define PRINT_TROUBLE_BYTES 640

/* What is wrong with the program of a search, from a document with `trouble`. False: nothing is known to be. */
bool print_trouble(const msgpack_object *document, char out[PRINT_TROUBLE_BYTES]);

/* Says, as an error, why nothing of the experiment happens any more, if a document with `trouble` and `halted` says that it
 * is so: CLI_REFUSED, else CLI_DONE. */
int print_halted(struct cli *cli, const msgpack_object *document);

/* Writes for each run of trials that wait for the same why they do, on `lines_max` lines at most, from `waiting` of a `show`
 * document, unless `lacks` says it all. */
void print_waiting(FILE *out, const struct trials_style *style, size_t lines_max, const msgpack_object *experiment);

/* Writes a line for each experiment of `list` with a text `waiting` or `reason`: `before`, the name and the reason. */
void print_waiting_experiments(FILE *out, msgpack_object_array list, const char *key, const char *before);

/* Writes the lines above the table of trials: name, state, coordinator, counts, best trial. */
void print_experiment_head(FILE *out, const struct trials_style *style, const msgpack_object *document);

/* Writes a line if trials are completed and none has reported the metric that they are compared by, with what they have reported
 * instead. Nothing for a single trial that has reported nothing at all. */
void print_no_best(FILE *out, const msgpack_object *experiment);

/* Writes the last log lines of failed trials, and why the last attempt of a queued or failed trial ended: of the first
 * `trials_max` trials that have such lines, 0: of all. */
void print_tails(FILE *out, const msgpack_object *experiment, uint32_t trials_max);

/* Writes the last lines of one trial's log, from its row. */
void print_trial_tail(FILE *out, const msgpack_object *trial);

/* Writes a line if a reason of a node's policy holds now: that the machine is its owner's, until when, and why. `policy` may be nil. */
void print_policy(FILE *out, const char *label, const msgpack_object *policy);

/* Writes a line for each item of `blocked`: `before`, the sentence, and since when. */
void print_blocked(FILE *out, const msgpack_object *document, const char *before);

/* "2 d 0 h ahead" or "3 min 5 s behind", by how many seconds one clock is ahead of another; false, and `out` unchanged, below
 * 10 s: messages may take some seconds. */
bool print_clock(double ahead_s, char out[RENDER_UNIT_BYTES]);

#endif
