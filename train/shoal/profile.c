/* Where a rank's time goes: how long steps take, and how much of that it waits for data and in collectives; once a second
 * the daemon gets the sums. And traces: for some steps each span is kept, and goes to the daemon when they are over. Costs a
 * step a few reads of the clock. */

#include <stdlib.h>

#include "base/err.h"
#include "train/shoal/link.h"

#define REPORT_NS 1000000000u
#define TRACE_NS 20000000u  /* a trace lasts at least so long: ranks whose steps are short do not begin with the same one */
#define TRACE_STEPS_MORE 2u /* so that the traces of all ranks have as many steps in common as are wanted */

/* ---- the split --------------------------------------------------------------------------------------------------- */

static void send_split(struct shoal *s, uint64_t now_ns)
{
    struct client_profile *p = &s->profile;
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    if (p->sum.steps == 0 || s->state != CLIENT_OPEN || now_ns - p->sent_ns < REPORT_NS) {
        return;
    }
    client_link_begin(&writer, bytes, 0, "worker_profile", 5);
    pack_text(&writer, "step");
    pack_u64(&writer, p->step);
    pack_text(&writer, "steps");
    pack_u64(&writer, p->sum.steps);
    pack_text(&writer, "step_ns");
    pack_u64(&writer, p->sum.step_ns);
    pack_text(&writer, "collective_ns");
    pack_u64(&writer, p->sum.collective_ns);
    pack_text(&writer, "data_ns");
    pack_u64(&writer, p->sum.data_ns);
    if (client_link_push(s, &writer, 0, -1, CLIENT_QUEUE_SLOTS - 4) == 0) {
        p->sum = (struct client_split){0};
        p->sent_ns = now_ns;
        client_link_send(s); /* it does not stand in the way of what the program sends next */
    }
}

/* ---- traces ------------------------------------------------------------------------------------------------------ */

static void record(struct shoal *s, const struct span *span)
{
    struct client_profile *p = &s->profile;
    if (p->spans != NULL && p->span_count < SPANS_MAX) {
        p->spans[p->span_count++] = *span;
    } else if (p->spans != NULL) {
        p->lost_spans++;
    }
}

static void note(struct shoal *s, enum span_kind kind, uint64_t begin_ns, uint64_t end_ns, uint64_t bytes)
{
    const struct span span = {
        .kind = kind, .step = s->profile.step + 1, .begin_ns = begin_ns, .end_ns = end_ns, .bytes = bytes};
    record(s, &span);
}

static void end_trace(struct shoal *s)
{
    struct client_profile *p = &s->profile;
    free(p->spans);
    p->spans = NULL;
    p->span_count = p->lost_spans = p->traced_steps = 0;
    p->trace = 0;
}

static void send_trace(struct shoal *s)
{
    struct client_profile *p = &s->profile;
    size_t capacity = (size_t)p->span_count * SPAN_PACKED_BYTES_MAX + 256;
    uint8_t *bytes = malloc(capacity);
    struct pack_writer writer;
    if (bytes != NULL) {
        client_link_begin_in(&writer, bytes, capacity, 0, "worker_spans", 4);
        pack_text(&writer, "rank");
        pack_u64(&writer, s->rank);
        pack_text(&writer, "trace");
        pack_u64(&writer, p->trace);
        pack_text(&writer, "lost");
        pack_u64(&writer, p->lost_spans);
        pack_text(&writer, "spans");
        pack_array(&writer, p->span_count);
        for (uint32_t i = 0; i < p->span_count; i++) {
            span_pack(&writer, &p->spans[i]);
        }
        /* Where there is no room, the daemon tells that nothing came. */
        if (client_link_push(s, &writer, 0, -1, CLIENT_QUEUE_SLOTS - 4) == 0) {
            client_link_send(s);
        }
        free(bytes);
    }
    end_trace(s);
}

void client_profile_trace(struct shoal *s, uint64_t trace, uint64_t steps, uint64_t from_ns)
{
    struct client_profile *p = &s->profile;
    if (trace != p->trace) {
        end_trace(s);
        p->trace = trace;
        p->trace_steps = steps;
        p->trace_from_ns = from_ns;
    }
}

/* At the end of a step: begins the trace that is asked for, or ends it. */
static void follow_trace(struct shoal *s, uint64_t now_ns)
{
    struct client_profile *p = &s->profile;
    if (p->trace == 0 || now_ns < p->trace_from_ns) {
        return;
    }
    if (p->spans == NULL) {
        p->spans = malloc(SPANS_MAX * sizeof *p->spans);
        p->trace = p->spans != NULL ? p->trace : 0;
    } else if (p->lost_spans > 0 ||
               (++p->traced_steps >= p->trace_steps + TRACE_STEPS_MORE && now_ns >= p->trace_from_ns + TRACE_NS)) {
        send_trace(s);
    }
}

/* ---- what is measured -------------------------------------------------------------------------------------------- */

void client_profile_restart(struct shoal *s)
{
    struct client_profile *p = &s->profile;
    p->is_stepping = true;
    p->now = (struct client_split){0};
    p->since_ns = client_link_now_ns();
}

void client_profile_interrupt(struct shoal *s)
{
    s->profile.is_stepping = false;
}

void client_profile_step(struct shoal *s, uint64_t step)
{
    struct client_profile *p = &s->profile;
    uint64_t now_ns = client_link_now_ns();
    if (p->is_stepping && step > p->step) {
        note(s, SPAN_STEP, p->since_ns, now_ns, 0);
        p->sum.steps += step - p->step;
        p->sum.step_ns += now_ns - p->since_ns;
        p->sum.collective_ns += p->now.collective_ns;
        p->sum.data_ns += p->now.data_ns;
    }
    p->is_stepping = true;
    p->step = step;
    p->since_ns = now_ns;
    p->now = (struct client_split){0};
    if (s->state != CLIENT_ALONE) {
        follow_trace(s, now_ns);
        send_split(s, now_ns);
    }
}

void client_profile_collective(struct shoal *s, enum span_kind kind, uint64_t begin_ns, uint64_t bytes)
{
    uint64_t now_ns = client_link_now_ns();
    s->profile.now.collective_ns += now_ns - begin_ns;
    note(s, kind, begin_ns, now_ns, bytes);
}

void client_profile_begun(struct shoal *s, const struct client_begun *begun)
{
    const struct span span = {.kind = SPAN_ALL_REDUCE,
                              .lane = begun->is_thread ? SPAN_LANE_THREAD : SPAN_LANE_PROGRAM,
                              .step = s->profile.step + 1,
                              .begin_ns = begun->begin_ns,
                              .end_ns = begun->end_ns,
                              .bytes = begun->count * element_type_bytes(begun->type)};
    if (begun->end_ns != 0) {
        record(s, &span);
    }
}

void client_profile_save(struct shoal *s, uint64_t begin_ns)
{
    note(s, SPAN_SAVE, begin_ns, client_link_now_ns(), 0);
}

void client_profile_close(struct shoal *s)
{
    end_trace(s);
}

/* ---- what programs tell ------------------------------------------------------------------------------------------ */

void shoal_span(struct shoal *s, enum shoal_span_kind kind, uint64_t begin_ns, uint64_t end_ns)
{
    if (end_ns < begin_ns) {
        return;
    }
    if (kind == SHOAL_SPAN_DATA) {
        s->profile.now.data_ns += end_ns - begin_ns;
    }
    note(s, (enum span_kind)kind, begin_ns, end_ns, 0);
}

void shoal_step_mark(struct shoal *s, uint64_t step)
{
    if (!s->elastic.is_on && (step != s->profile.step || !s->profile.is_stepping)) {
        client_profile_step(s, step);
    }
}

_Static_assert((int)SHOAL_SPAN_DATA == (int)SPAN_DATA && (int)SHOAL_SPAN_FORWARD == (int)SPAN_FORWARD &&
                   (int)SHOAL_SPAN_BACKWARD == (int)SPAN_BACKWARD,
               "one list of kinds");
