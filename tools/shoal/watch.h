#ifndef TOOLS_SHOAL_WATCH_H
#define TOOLS_SHOAL_WATCH_H
/* Following one experiment until it is over. */

#include "tools/shoal/client.h"

/* Watches over an open client: a screen on a terminal, else a line per change, with --json a document per line. A
 * daemon that is restarted meanwhile is waited for (CLIENT_RETURN_MS). Returns
 * CLI_DONE when the experiment is over, whatever its end; `state` (32 bytes) is its last state. */
int watch_experiment(struct client *client, const char *id, char *state);

#endif
