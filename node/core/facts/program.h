#ifndef NODE_CORE_FACTS_PROGRAM_H
#define NODE_CORE_FACTS_PROGRAM_H
/* Which program an entrypoint runs first, as far as a simple rule can tell. A core. */

#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"

/* Writes the name of the program that the entrypoint begins with, such as "python3", "torchrun" or "/opt/x/bin/python". False, and
 * `out` is empty, where the rule cannot tell.
 *
 * The program is the first word of the command line, behind any of: NAME=value; exec, nohup, nice, time and env without options;
 * `cd DIR`, `set ...` and `export NAME=value` with a `&&`, a `;` or the end of the line behind them. A word counts if it is of
 * letters, digits and . _ + - / only, or is such a word in single quotes. There is no name if the word is a word or a builtin of the
 * shell (if, source, conda ...), if it is a path that does not begin with '/', or, for a name without '/', if the entrypoint or the
 * configuration sets PATH. */
bool program_of_config(const struct config *config, char out[FACT_PROGRAM_BYTES]);

/* True if the name consists of letters, digits and . _ + - / only. */
bool program_name_is_good(const char *name);

#endif
