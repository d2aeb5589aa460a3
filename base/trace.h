#ifndef BASE_TRACE_H
#define BASE_TRACE_H
/* Lets a core report facts, one line each in the words of the domain, without the time or the reporter's own id: the
 * hook adds both. Without a hook nothing is formatted. */

#include "base/format.h"

/* Where the lines of a core go. */
struct trace {
    void (*line)(void *context, const char *text); /* NULL: no hook. `text` is valid during the call */
    void *context;
};

#define TRACE_LINE_BYTES 256

/* TRACE(trace, "trial %u started on %s", index, name) formats a line (base/format.h) of at most TRACE_LINE_BYTES - 1
 * chars and passes it to the hook. */
#define TRACE(trace, ...)                                              \
    do {                                                               \
        if ((trace)->line != NULL) {                                   \
            char trace_text_[TRACE_LINE_BYTES];                        \
            format_text(trace_text_, sizeof trace_text_, __VA_ARGS__); \
            (trace)->line((trace)->context, trace_text_);              \
        }                                                              \
    } while (0)

#endif
