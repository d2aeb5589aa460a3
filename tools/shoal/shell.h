#ifndef TOOLS_SHOAL_SHELL_H
#define TOOLS_SHOAL_SHELL_H
/* Streams of bytes to the node of a trial (docs/wire.md, "Streams"). Each function that returns an `int` returns an
 * exit code; on failure its sentence is written, unless it says otherwise. */

#include "tools/shoal/target.h"

/* Opens a stream to the node on which the rank of the trial runs: `exec`, or with a port other than 0 `forward`. The
 * daemon gets a copy of `passed_fd`, the other end of which is the stream; this one stays the caller's. After CLI_DONE
 * `*client` is open: its next reply comes at the stream's end (shell_ended). */
int shell_open(struct cli *cli, const struct target *target, uint64_t rank, uint16_t port, int passed_fd,
               struct client *client);

/* After the stream has ended: waits for the daemon's word, and writes the sentence if it is an error. */
int shell_ended(struct client *client);

/* Runs `sh -c SCRIPT` beside rank 0 of the trial, and gives what it writes to its standard output, at most `size` - 1
 * bytes, with a NUL. CLI_REFUSED without a sentence: the script has failed. With `is_quiet` no failure has a sentence.
 */
int shell_read(struct cli *cli, const struct target *target, const char *script, bool is_quiet, char *out, size_t size);

#endif
