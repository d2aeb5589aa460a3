#ifndef BASE_TRACE_H
#define BASE_TRACE_H
/* Facts that a core reports, one line each in the domain's words, without time or the reporter's own id: the hook adds
 * both. With no hook nothing is formatted. */

#include "base/format.h"

struct trace {
    void (*line)(void *context, const char *text); /* NULL: nobody listens */
    void *context;
};

#define TRACE_LINE_BYTES 256

/* TRACE(trace, "trial %u started on %s", index, name); the formats are those of base/format.h. */
#define TRACE(trace, ...)                                              \
    do {                                                               \
        if ((trace)->line != NULL) {                                   \
            char trace_text_[TRACE_LINE_BYTES];                        \
            format_text(trace_text_, sizeof trace_text_, __VA_ARGS__); \
            (trace)->line((trace)->context, trace_text_);              \
        }                                                              \
    } while (0)

#endif
