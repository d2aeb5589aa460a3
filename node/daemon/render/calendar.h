#ifndef NODE_DAEMON_RENDER_CALENDAR_H
#define NODE_DAEMON_RENDER_CALENDAR_H
/* The document `calendar`: which experiment held which slot when, by the records of workers. Pure functions. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "node/core/core.h"

#define CALENDAR_WORKERS_MAX 20000u /* whose records are read for one document, the newest experiments first */
#define CALENDAR_SPANS_MAX 3000u    /* of a document: what one message has room for */

struct calendar_window {
    uint64_t from_s, until_s; /* seconds since 1970; from_s <= until_s */
    uint64_t now_s;           /* until when what still runs has run */
    uint64_t gap_s; /* trials of one experiment in one slot that follow each other within this time are one span */
};

/* From when to when an experiment held a slot. */
struct calendar_span {
    node_id node;
    uint32_t slot;
    experiment_id experiment;
    uint64_t from_s, until_s;
    uint32_t trial;  /* the first */
    uint32_t trials; /* how many workers follow each other in it */
    bool is_open;    /* it goes on */
};

/* Sorts the spans by node, slot and time, and unites those of one experiment in one slot with at most `gap_s` between
 * them. Returns how many are left. */
uint32_t calendar_unite(struct calendar_span *spans, uint32_t count, uint64_t gap_s);

/* Writes `calendar from_s until_s cut`; `spans` is room for CALENDAR_WORKERS_MAX. `cut`: there is more than the
 * document has. */
#define RENDER_CALENDAR_PAIRS 4
void render_calendar(const struct node_core *core, const struct calendar_window *window, struct calendar_span *spans,
                     struct pack_writer *frame);

#endif
