#ifndef TOOLS_SHOAL_CURVE_H
#define TOOLS_SHOAL_CURVE_H
/* Curves as text: a line of blocks in a table, and a picture of several lines. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CURVE_LINE_COLUMNS 12
#define CURVE_LINE_BYTES (3 * CURVE_LINE_COLUMNS + 1)
#define CURVE_POINTS_KEPT 512

/* Points by step, ascending; at most CURVE_POINTS_KEPT, evenly thinned out. All zero: none. */
struct curve_points {
    size_t count;
    uint64_t steps[CURVE_POINTS_KEPT];
    double values[CURVE_POINTS_KEPT];
    uint64_t every, since; /* of so many added points one stays; so many came since that one */
};

/* Adds a point. A step that is not beyond the last one takes back the points from this step on: a later attempt makes them anew.
 * Values that are no finite numbers are left out. */
void curve_points_add(struct curve_points *points, uint64_t step, double value);

/* Writes one line of at most CURVE_LINE_COLUMNS columns: each shows the value at its part of the steps, as a block of eighths, or in
 * ASCII as one of "_.-=^" from low to high. Empty for fewer than two points. */
void curve_line(const struct curve_points *points, bool utf8, char out[CURVE_LINE_BYTES]);

/* Writes a picture of `width` columns and `height` lines with its highest and lowest value and its steps: dots of braille, or
 * asterisks in ASCII. Nothing for fewer than two points, or below 24 columns or 2 lines. */
void curve_picture(FILE *out, const struct curve_points *points, size_t width, size_t height, bool utf8);

#endif
