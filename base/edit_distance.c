#include "base/edit_distance.h"

#include <stdint.h>
#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment (Damerau 1964, restricted: a swapped pair is not edited again), with three rows of the usual
 * table. */
size_t edit_distance(const char *a, const char *b)
{
    size_t a_count = strlen(a), b_count = strlen(b);
    if (a_count > EDIT_DISTANCE_LETTERS_MAX || b_count > EDIT_DISTANCE_LETTERS_MAX) {
        return SIZE_MAX;
    }
    size_t rows[3][EDIT_DISTANCE_LETTERS_MAX + 1] = {{0}};
    for (size_t j = 0; j <= b_count; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= a_count; i++) {
        const size_t *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3];
        size_t *row = rows[i % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_count; j++) {
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], before[j - 2] + 1);
            }
        }
    }
    return rows[a_count % 3][b_count];
}
