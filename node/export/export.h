#ifndef NODE_EXPORT_EXPORT_H
#define NODE_EXPORT_EXPORT_H
/* An experiment as a file for somebody who has no account: one page of HTML with everything inside (no script, nothing
 * that is loaded), its trials as CSV, or its curves as SVG. Written from documents of the local socket (docs/wire.md)
 * and nothing else, so that the command line and the HTTP door give the same. No I/O but to the stream. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/document.h"

#define EXPORT_CURVES_MAX 10  /* trials with curves: the best */
#define EXPORT_POINTS 400     /* that are to be asked for of each of them */
#define EXPORT_ROWS_MAX 5000u /* trials in the table of a page: the best; CSV has all */

struct export_documents {
    const msgpack_object *show;   /* the answer to `show`, with all trials */
    const msgpack_object *config; /* the answer to `config`, or a nil */
    size_t curve_count;
    struct {
        uint64_t trial;
        const msgpack_object *metrics; /* the answer to `metrics` with `points` */
    } curves[EXPORT_CURVES_MAX];
    uint64_t now_s; /* seconds since 1970 */
};

/* The trials whose curves are shown, the best first: at most EXPORT_CURVES_MAX. Returns how many. */
size_t export_choose(const msgpack_object *show, uint64_t trials[EXPORT_CURVES_MAX]);

/* Write the file. False: no memory is left. The stream's own errors are the caller's to look for. */
bool export_html(FILE *out, const struct export_documents *documents);
bool export_csv(FILE *out, const struct export_documents *documents);
bool export_svg(FILE *out, const struct export_documents *documents);

#endif
