#ifndef TOOLS_SHOAL_SHOW_H
#define TOOLS_SHOAL_SHOW_H
/* Documents about experiments and trials as text, for `show`, `why` and the screen of `watch` (command_show.c). */

#include <msgpack.h>
#include <stdio.h>

#include "tools/shoal/cli.h"
#include "tools/shoal/client.h"
#include "tools/shoal/curve.h"
#include "tools/shoal/trials.h"

/* The style for text on cli->out: as wide as its terminal. */
struct trials_style show_style(const struct cli *cli);

/* Begins a request `trial`; the caller sends it. `id`: a whole id. */
void show_begin_trial(struct client *client, const char *id, uint64_t trial);

/* The points of one metric of one trial. */
struct show_curve {
    char group[64], name[128]; /* "": the trial has reported nothing */
    struct curve_points points;
};

/* Fetches the points of searcher.metric of the trial in a document `trial`, or of another metric if it has not reported that one,
 * for at most SHOW_CURVE_MS. What has not come by then is left out, and the client is then good for nothing but client_close. The
 * caller has kept the document (client_keep). */
#define SHOW_CURVE_MS 3000
void show_fetch_curve(struct client *client, const msgpack_object *document, struct show_curve *out);

/* Writes a document `trial`: state, values, curve, attempts, checkpoints, and why. `lines`: of the curve. */
void show_write_trial(FILE *out, const struct trials_style *style, const msgpack_object *document, const struct show_curve *curve,
                      size_t lines);

/* Writes why the trial is in its state, a sentence a line, each behind `before`. */
void show_write_why(FILE *out, const msgpack_object *document, const char *before);

#endif
