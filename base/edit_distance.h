#ifndef BASE_EDIT_DISTANCE_H
#define BASE_EDIT_DISTANCE_H
/* How similar two words are, to suggest an existing word for a mistyped one. */

#include <stddef.h>

#define EDIT_DISTANCE_LETTERS_MAX 63

/* The number of single-letter edits (insert, remove, replace, swap neighbours) that lead from one word to the other;
 * SIZE_MAX if a word is longer than EDIT_DISTANCE_LETTERS_MAX. */
size_t edit_distance(const char *a, const char *b);

#endif
