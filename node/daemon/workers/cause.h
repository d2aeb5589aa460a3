#ifndef NODE_DAEMON_WORKERS_CAUSE_H
#define NODE_DAEMON_WORKERS_CAUSE_H
/* What the last lines of a worker's output tell of its end. Pure. */

#include <stdint.h>

#include "node/core/facts/facts.h"

/* The cause by the last lines: FACT_CAUSE_GPU_MEMORY if `code` is a failure and CUDA was out of memory, FACT_CAUSE_TRACEBACK
 * if `code` is 0 and a Python traceback is the last thing but a few lines, else FACT_CAUSE_UNKNOWN. */
enum fact_cause cause_of_lines(int32_t code, const char *text);

/* A hash of the code and the last line that is not blank, for struct fact_worker's `failure`. Left out are digits, long
 * hexadecimal words and `directory`, the run's own, since a time, a process id or an address differ between two equal
 * failures. 0, not to be compared: without such a line, after code 0 or a SIGKILL or SIGTERM from outside, and where the lines
 * tell of a lack that may be over at the next try (memory, an address in use). */
uint64_t cause_failure(int32_t code, const char *text, const char *directory);

#endif
