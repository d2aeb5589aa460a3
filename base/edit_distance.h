#ifndef BASE_EDIT_DISTANCE_H
#define BASE_EDIT_DISTANCE_H
/* How near a word that somebody typed is to one that exists. */

#include <stddef.h>

#define EDIT_DISTANCE_LETTERS_MAX 63

/* How many single-letter edits (insert, remove, replace, swap neighbours) lead from one word to the other; SIZE_MAX if
 * one of them is longer than EDIT_DISTANCE_LETTERS_MAX. */
size_t edit_distance(const char *a, const char *b);

#endif
