#ifndef TOOLS_SHOAL_TABLE_CHOICE_H
#define TOOLS_SHOAL_TABLE_CHOICE_H
/* Lists of words that a user chooses from, such as the columns of a table, and rows of CSV. */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "tools/shoal/cli.h"

struct choice {
    const char *option; /* without "--", for the error */
    const char *thing;  /* what a word names, for the error: "column" */
    const char *(*name)(size_t i); /* the words; NULL ends */
    bool allows_minus;  /* a word may begin with '-' */
};

/* Reads "WORD,WORD" as positions of the words, at least one and at most `max`. `descends` (may be NULL): which have a '-' before them.
 * An exit code; on failure the sentence is written, with all words. */
int choice_read(struct cli *cli, const struct choice *choice, const char *text, size_t max, size_t *at, bool *descends, size_t *count);

/* Writes a field of CSV (RFC 4180, with a plain newline at the end of a row), and what separates it from the next one. */
void choice_write_csv(FILE *out, const char *text, bool is_last);

#endif
