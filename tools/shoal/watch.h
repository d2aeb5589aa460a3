#ifndef TOOLS_SHOAL_WATCH_H
#define TOOLS_SHOAL_WATCH_H
/* Following one experiment until it is over. */

#include "tools/shoal/client.h"

/* Follows experiment `id` (a whole id) through an open client: a screen on a terminal, with keys (watching.h) where `in` is one, too;
 * else a line for each change, with --json a document a line. Waits for a daemon that is restarted meanwhile (CLIENT_RETURN_MS).
 * Returns CLI_DONE when the experiment is over, completed or not, or when the user has pressed q, else another exit code; `state`
 * (32 bytes) is the last state seen. */
int watch_experiment(struct client *client, const char *id, char *state);

#endif
