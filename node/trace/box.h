#ifndef NODE_TRACE_BOX_H
#define NODE_TRACE_BOX_H
/* The traces that nodes have asked this node's workers for. The bulk's thread takes questions and answers them (series that
 * begin with TRACE_PREFIX are none, but such questions); the protocol thread tells the workers, and puts what they have
 * recorded. Memory is bounded: TRACES_MAX at a time, each forgotten after its time. */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "node/slots/slots.h"

#define TRACE_PREFIX "trace"
#define TRACES_MAX 4
#define TRACE_STEPS_MAX 64u
#define TRACE_SECONDS_MAX 3600u
#define TRACE_QUESTION_BYTES 64u

/* A trace, as it is asked for. */
struct trace_wish {
    uint64_t trace; /* random; 0: none */
    experiment_id experiment;
    uint32_t trial;
    uint64_t steps, from_ns; /* from_ns: by the clock of the node that is asked */
    uint64_t seconds;        /* how long to keep it */
};

enum trace_question { TRACE_CLOCK, TRACE_BEGIN, TRACE_TAKE };

/* A rank of this node: whether its program has no connection that could be told, was told, or has sent its spans. */
enum trace_state { TRACE_UNCONNECTED, TRACE_TOLD, TRACE_DONE };

struct trace_row {
    bool is_there;
    uint32_t number; /* of the worker */
    uint32_t rank;
    enum trace_state state;
    uint64_t lost;
    uint8_t *spans; /* packed; owned */
    size_t span_bytes;
};

struct trace_box {
    pthread_mutex_t mutex;
    struct {
        struct trace_wish wish;
        uint64_t until_ms; /* 0: the protocol thread has not seen it yet */
        struct trace_row rows[SLOTS_MAX];
    } traces[TRACES_MAX];
};

void trace_box_init(struct trace_box *box);
void trace_box_close(struct trace_box *box);

/* Writes a question; of `wish` only `trace` counts for TRACE_TAKE, and nothing for TRACE_CLOCK. */
size_t trace_question_pack(enum trace_question kind, const struct trace_wish *wish, uint8_t out[TRACE_QUESTION_BYTES]);

/* Answers a question with entries, each a bin behind a number, as the bulk has them. TRACE_CLOCK and TRACE_BEGIN: 0, the
 * clock in ns. TRACE_TAKE: for each slot of the trial from from_sequence on, an array of the worker's number, its rank, an
 * enum trace_state, the spans without room, and the spans (an array; nil before they are there). `*more`: further slots
 * follow. ERR_MALFORMED: no such question; ERR_FULL: TRACES_MAX are under way. */
int trace_box_answer(struct trace_box *box, uint64_t from_sequence, const uint8_t *question, size_t question_bytes,
                     size_t bytes_max, uint64_t now_ns, struct pack_writer *out, bool *more);

/* A copy of the trace at a place, 0 to TRACES_MAX - 1, with its rows' states. False: there is none. Forgets those whose time
 * is over. */
bool trace_box_get(struct trace_box *box, uint32_t place, uint64_t now_ms, struct trace_wish *wish,
                   struct trace_row rows[SLOTS_MAX]);

/* Notes a worker of the trial, and whether it was told. */
void trace_box_set(struct trace_box *box, uint64_t trace, uint32_t slot, uint32_t number, uint32_t rank,
                   enum trace_state state);

/* Puts what the slot's worker has recorded. Ignored: it was not asked. Copies the spans. */
void trace_box_put(struct trace_box *box, uint64_t trace, uint32_t slot, uint32_t rank, uint64_t lost, const uint8_t *spans,
                   size_t count);

#endif
