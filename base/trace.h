#ifndef BASE_TRACE_H
#define BASE_TRACE_H
/* Lets a core report facts, one line each in the words of the domain, without the time or the reporter's own id: the
 * hook adds both. Without a hook nothing is formatted. */

#include "base/event.h"
#include "base/format.h"

/* Where the lines of a core go. */
struct trace {
    /* NULL: no hook. `about` and `text` are valid during the call. */
    void (*line)(void *context, const struct event_about *about, const char *text);
    void *context;
};

#define TRACE_LINE_BYTES 256

/* TRACE_EVENT(trace, event_of_node(EVENT_NODE_DEAD, id), "%s is dead", name) formats a line (base/format.h) of at most
 * TRACE_LINE_BYTES - 1 chars and passes it to the hook, with what it is about. */
#define TRACE_EVENT(trace, about, ...)                                    \
    do {                                                                  \
        if ((trace)->line != NULL) {                                      \
            char trace_text_[TRACE_LINE_BYTES];                           \
            const struct event_about trace_about_ = (about);              \
            format_text(trace_text_, sizeof trace_text_, __VA_ARGS__);    \
            (trace)->line((trace)->context, &trace_about_, trace_text_);  \
        }                                                                 \
    } while (0)

/* A line without a subject and of no kind of its own. */
#define TRACE(trace, ...) TRACE_EVENT(trace, event_of_kind(EVENT_OTHER), __VA_ARGS__)

#endif
