/* The request trace: a few steps of all ranks of a trial as one file. Each node with ranks is asked for its clock some
 * times, then to trace its ranks from a moment on that is the same for all, then for what they have recorded, and for its
 * clock again. A job writes the file. */

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "node/daemon/api/query.h"
#include "node/daemon/render/render.h"
#include "node/daemon/workers/workers.h"
#include "node/trace/chrome.h"

#define NODES_MAX 64
#define RANKS_MAX 256
#define TRIPS 8      /* for a clock */
#define LEAD_MS 1500 /* until all ranks have been told: a daemon looks at its questions at least once a second */
#define TAKE_MS 200
#define EMPTY_MAX 10 /* answers without a rank */
#define WAIT_S 50    /* of the door's clients, which wait a minute */
#define KEEP_S 30    /* that nodes keep a trace beyond the time that its asker waits */

enum phase { CLOCK_BEFORE, BEGIN, TAKE, CLOCK_AFTER, OVER };

struct trace_node {
    node_id node;
    bool is_here; /* this node, whose clock is ours */
    enum phase phase;
    uint32_t trips;
    uint64_t request, asked_ns; /* request 0: none is under way */
    uint64_t next_ms, from_slot;
    struct trace_clock before, after;
    uint32_t told, unconnected, seen; /* ranks, by the answers to TAKE since the last complete one */
    uint32_t empty;                   /* complete answers to TAKE without a rank */
    int code;                         /* of the answer that has failed for good */
};

/* The spans of one rank. */
struct trace_got {
    uint32_t node, number;
    struct chrome_rank rank;
    uint8_t *packed;
};

struct query_trace_run {
    struct job job;
    struct query_trace_run *next;
    uint64_t serial, id, until_ms;
    experiment_id experiment;
    struct trace_wish wish; /* from_ns by this node's clock; 0: not known yet */
    uint32_t node_count, got_count;
    struct trace_node nodes[NODES_MAX];
    struct trace_got got[RANKS_MAX];
    struct view_label labels[NODES_MAX];
    bool is_writing, is_written;
    int fd;
    uint64_t bytes;
    struct chrome_counts counts;
};

static void trace_free(struct daemon *daemon, struct query_trace_run *run)
{
    struct query_trace_run **link = &daemon->api->traces;
    while (*link != run) {
        link = &(*link)->next;
    }
    *link = run->next;
    for (uint32_t i = 0; i < run->got_count; i++) {
        free(run->got[i].packed);
    }
    if (run->fd >= 0) {
        (void)close(run->fd);
    }
    free(run);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
    const struct trace_got *one = a, *other = b;
    return one->rank.rank < other->rank.rank ? -1 : one->rank.rank > other->rank.rank;
}

static void trace_work(struct job *job)
{
    struct query_trace_run *run = (struct query_trace_run *)job;
    struct chrome_rank ranks[RANKS_MAX];
    run->fd = memfd_create("shoal-trace", MFD_CLOEXEC);
    int copy = run->fd >= 0 ? dup(run->fd) : -1;
    FILE *out = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (out == NULL) {
        if (copy >= 0) {
            (void)close(copy);
        }
        return;
    }
    qsort(run->got, run->got_count, sizeof run->got[0], by_rank);
    for (uint32_t i = 0; i < run->got_count; i++) {
        const struct trace_node *node = &run->nodes[run->got[i].node];
        ranks[i] = run->got[i].rank;
        ranks[i].node = run->labels[run->got[i].node].text;
        ranks[i].clock = trace_clock_between(&node->before, &node->after);
    }
    run->is_written = chrome_write(out, ranks, run->got_count, run->wish.steps, &run->counts);
    long end = ftell(out);
    run->is_written = fclose(out) == 0 && end >= 0 && run->is_written;
    run->bytes = end >= 0 ? (uint64_t)end : 0;
}

/* Ranks that are not in the file, and nodes that did not answer, which may have some. */
static uint64_t missing_of(const struct query_trace_run *run)
{
    uint64_t missing = 0;
    for (uint32_t i = 0; i < run->node_count; i++) {
        const struct trace_node *node = &run->nodes[i];
        missing += node->code != 0 ? 1u : node->told + node->unconnected;
    }
    return missing;
}

static void trace_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct query_trace_run *run = (struct query_trace_run *)job;
    struct client *client = client_find(daemon, run->serial);
    struct client_reply reply;
    if (client != NULL && !run->is_written) {
        client_reply_error(daemon, client, run->id, EXIT_REFUSED, "The trace cannot be written: no memory is left.");
    } else if (client != NULL && client_reply_begin(&reply, run->id, true, 8)) {
        pack_text(&reply.writer, "bytes");
        pack_u64(&reply.writer, run->bytes);
        pack_text(&reply.writer, "ranks");
        pack_u64(&reply.writer, run->got_count);
        pack_text(&reply.writer, "missing");
        pack_u64(&reply.writer, missing_of(run));
        pack_text(&reply.writer, "steps");
        pack_u64(&reply.writer, run->counts.steps);
        pack_text(&reply.writer, "spans");
        pack_u64(&reply.writer, run->counts.spans);
        pack_text(&reply.writer, "clock_error_us");
        pack_double(&reply.writer, (double)run->counts.error_ns / 1000);
        pack_text(&reply.writer, "apart");
        pack_bool(&reply.writer, run->counts.is_apart);
        pack_text(&reply.writer, "cut");
        pack_bool(&reply.writer, run->counts.is_cut);
        client_reply_send(daemon, client, &reply, run->fd);
        run->fd = -1;
    }
    trace_free(daemon, run);
}

/* ---- the nodes --------------------------------------------------------------------------------------------------- */

static void node_ask(struct daemon *daemon, struct query_trace_run *run, struct trace_node *node, enum trace_question kind)
{
    uint8_t question[TRACE_QUESTION_BYTES];
    struct trace_wish wish = run->wish;
    wish.from_ns = trace_clock_theirs(&node->before, run->wish.from_ns);
    size_t bytes = trace_question_pack(kind, &wish, question);
    node->request = ++daemon->request_id;
    node->asked_ns = daemon_monotonic_ns();
    if (bulk_series_ask(daemon->bulk, node->request, TRACE_PREFIX, sizeof TRACE_PREFIX - 1, node->from_slot, question, bytes,
                        node->node) != 0) {
        node->request = 0;
        node->next_ms = daemon_now_ms() + TAKE_MS;
    }
}

/* True once the clocks of all nodes are known, or the nodes have failed: then the moment from which on all trace is set. */
static bool may_begin(struct query_trace_run *run)
{
    bool is_ready = true;
    for (uint32_t i = 0; i < run->node_count; i++) {
        is_ready &= run->nodes[i].phase != CLOCK_BEFORE;
    }
    if (is_ready && run->wish.from_ns == 0) {
        run->wish.from_ns = daemon_monotonic_ns() + LEAD_MS * 1000000ull;
    }
    return is_ready;
}

static void node_step(struct daemon *daemon, struct query_trace_run *run, struct trace_node *node, uint64_t now_ms)
{
    if (node->request != 0 || now_ms < node->next_ms || node->phase == OVER) {
        return;
    }
    if (node->phase == CLOCK_BEFORE || node->phase == CLOCK_AFTER) {
        node_ask(daemon, run, node, TRACE_CLOCK);
    } else if (node->phase == BEGIN && may_begin(run)) {
        node_ask(daemon, run, node, TRACE_BEGIN);
    } else if (node->phase == TAKE) {
        node_ask(daemon, run, node, TRACE_TAKE);
    }
}

/* The next phase of a node, or another round of this one. */
static void node_goes_on(struct trace_node *node, enum phase phase)
{
    node->phase = phase == CLOCK_AFTER && node->is_here ? OVER : phase;
    node->trips = 0;
    node->from_slot = 0;
}

static bool has_got(const struct query_trace_run *run, uint32_t node, uint32_t number)
{
    bool has = false;
    for (uint32_t i = 0; i < run->got_count; i++) {
        has |= run->got[i].node == node && run->got[i].number == number;
    }
    return has;
}

static void take_row(struct query_trace_run *run, uint32_t place, const struct bulk_item *item)
{
    struct trace_node *node = &run->nodes[place];
    struct pack_reader reader;
    pack_reader_init(&reader, item->bytes, item->count);
    (void)pack_read_array(&reader);
    uint32_t number = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX),
             rank = (uint32_t)pack_read_u64_max(&reader, UINT16_MAX);
    uint64_t state = pack_read_u64(&reader), lost = pack_read_u64(&reader);
    size_t count = 0;
    const uint8_t *spans = pack_read_any(&reader, &count);
    if (reader.failed) {
        return;
    }
    node->seen++;
    node->told += state == TRACE_TOLD;
    node->unconnected += state == TRACE_UNCONNECTED;
    uint8_t *copy = state == TRACE_DONE && run->got_count < RANKS_MAX && !has_got(run, place, number) ? malloc(count) : NULL;
    if (copy != NULL) {
        memcpy(copy, spans, count);
        run->got[run->got_count++] =
            (struct trace_got){.node = place,
                               .number = number,
                               .packed = copy,
                               .rank = {.rank = rank, .lost = lost, .packed = copy, .packed_bytes = count}};
    }
}

static void node_takes(struct query_trace_run *run, uint32_t place, const struct bulk_event *event)
{
    struct trace_node *node = &run->nodes[place];
    if (node->from_slot == 0) {
        node->told = node->unconnected = node->seen = 0;
    }
    for (uint32_t i = 0; i < event->item_count; i++) {
        take_row(run, place, &event->items[i]);
        node->from_slot = event->items[i].sequence + 1;
    }
    if (event->more) {
        return;
    }
    node->empty += node->seen == 0;
    bool is_done = node->seen > 0 ? node->told == 0 : node->empty >= EMPTY_MAX; /* perhaps the ranks have ended */
    node_goes_on(node, is_done ? CLOCK_AFTER : TAKE);
    node->next_ms = is_done ? 0 : daemon_now_ms() + TAKE_MS;
}

static void node_answered(struct query_trace_run *run, uint32_t place, const struct bulk_event *event, uint64_t now_ns)
{
    struct trace_node *node = &run->nodes[place];
    node->request = 0;
    if (event->code != 0) {
        node->code = event->code;
        node->phase = OVER;
        return;
    }
    if (node->phase == TAKE) {
        node_takes(run, place, event);
        return;
    }
    struct pack_reader reader;
    pack_reader_init(&reader, event->item_count > 0 ? event->items[0].bytes : NULL,
                     event->item_count > 0 ? event->items[0].count : 0);
    uint64_t theirs_ns = pack_read_u64(&reader);
    if (!reader.failed) {
        trace_clock_note(node->phase == CLOCK_AFTER ? &node->after : &node->before, node->asked_ns, theirs_ns, now_ns);
    }
    if (node->phase == BEGIN) {
        node_goes_on(node, TAKE);
        node->next_ms = daemon_now_ms() + LEAD_MS;
    } else if (++node->trips == TRIPS) {
        node_goes_on(node, node->phase == CLOCK_BEFORE ? BEGIN : OVER);
    }
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

/* Nothing came from any rank: why not. */
static void refuse(struct daemon *daemon, struct client *client, const struct query_trace_run *run)
{
    const struct trace_node *failed = NULL;
    uint32_t unconnected = 0, told = 0;
    for (uint32_t i = 0; i < run->node_count; i++) {
        unconnected += run->nodes[i].unconnected;
        told += run->nodes[i].told;
        failed = run->nodes[i].code != 0 ? &run->nodes[i] : failed;
    }
    if (told > 0) {
        client_reply_error(
            daemon, client, run->id, EXIT_TIMEOUT,
            "Trial %u has not ended %llu step%s in the time that was given; wait longer (--timeout), or trace fewer "
            "steps. A program of PyTorch tells of its steps by run.batches(loader), run.step() or run.report(..., step=N).",
            run->wish.trial, (unsigned long long)run->wish.steps, run->wish.steps == 1 ? "" : "s");
    } else if (unconnected > 0) {
        client_reply_error(
            daemon, client, run->id, EXIT_REFUSED,
            "Trial %u cannot be traced: its program is not connected to Shoal, so nobody tells of its steps. Programs "
            "with libshoal or `import shoal` and shoal.init() are; a plain torchrun script has torch.profiler.",
            run->wish.trial);
    } else if (failed != NULL) {
        client_reply_error(daemon, client, run->id, EXIT_REFUSED, "Node %s %s.",
                           render_node_label(daemon->core, failed->node).text,
                           failed->code == ERR_VERSION ? "is of an older version and makes no traces; update it"
                           : failed->code == ERR_FULL  ? "traces as many trials as it can already; try again in a minute"
                                                       : "does not answer");
    } else {
        client_reply_error(daemon, client, run->id, EXIT_REFUSED, "Trial %u has ended before it could be traced.",
                           run->wish.trial);
    }
}

static void trace_step(struct daemon *daemon, struct query_trace_run *run, uint64_t now_ms)
{
    struct client *client = client_find(daemon, run->serial);
    bool is_over = true;
    if (run->is_writing) {
        return;
    }
    if (client == NULL) {
        trace_free(daemon, run);
        return;
    }
    for (uint32_t i = 0; i < run->node_count; i++) {
        node_step(daemon, run, &run->nodes[i], now_ms);
        is_over &= run->nodes[i].phase == OVER;
    }
    if (!is_over && now_ms < run->until_ms) {
        return;
    }
    if (run->got_count == 0) {
        refuse(daemon, client, run);
        trace_free(daemon, run);
        return;
    }
    for (uint32_t i = 0; i < run->node_count; i++) {
        run->labels[i] = render_node_label(daemon->core, run->nodes[i].node);
    }
    run->is_writing = true;
    run->job = (struct job){.work = trace_work, .done = trace_done};
    jobs_run(daemon->file_jobs, &run->job);
}

void query_trace_answered(struct daemon *daemon, const struct bulk_event *event)
{
    uint64_t now_ns = daemon_monotonic_ns();
    for (struct query_trace_run *run = daemon->api->traces; run != NULL; run = run->next) {
        for (uint32_t i = 0; i < run->node_count; i++) {
            if (run->nodes[i].request == event->id && !run->is_writing) {
                node_answered(run, i, event, now_ns);
                trace_step(daemon, run, daemon_now_ms());
                return;
            }
        }
    }
}

static void add_node(struct query_trace_run *run, node_id node, bool is_here)
{
    for (uint32_t i = 0; i < run->node_count; i++) {
        if (node_id_equal(run->nodes[i].node, node)) {
            return;
        }
    }
    if (run->node_count < NODES_MAX) {
        run->nodes[run->node_count++] = (struct trace_node){
            .node = node, .is_here = is_here, .phase = is_here ? BEGIN : CLOCK_BEFORE, .before = {.is_known = is_here}};
    }
}

/* Reads `steps` and `timeout_s`. False: one is wrong; this is answered. */
static bool read_bounds(struct daemon *daemon, const struct client_request *request, uint64_t *steps, uint64_t *seconds)
{
    *steps = 1;
    *seconds = WAIT_S;
    (void)client_argument_u64(request, "steps", steps);
    (void)client_argument_u64(request, "timeout_s", seconds);
    bool has_steps = *steps >= 1 && *steps <= TRACE_STEPS_MAX,
         has_time = *seconds >= 1 && *seconds <= TRACE_SECONDS_MAX - KEEP_S;
    if (!has_steps) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "`steps` is %llu; it has to be 1 to %u.",
                           (unsigned long long)*steps, TRACE_STEPS_MAX);
    } else if (!has_time) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "`timeout_s` is %llu; it has to be 1 to %u.",
                           (unsigned long long)*seconds, TRACE_SECONDS_MAX - KEEP_S);
    }
    return has_steps && has_time;
}

void query_trace(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint32_t index;
    uint64_t steps, seconds;
    if (!query_argument_any_trial(daemon, request, &experiment, &index, &trial) ||
        !read_bounds(daemon, request, &steps, &seconds)) {
        return;
    }
    struct query_trace_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "No memory is left for a trace.");
        return;
    }
    run->fd = -1;
    run->serial = request->client->serial;
    run->id = request->id;
    run->until_ms = daemon_now_ms() + seconds * 1000;
    run->wish =
        (struct trace_wish){.experiment = experiment->id, .trial = index, .steps = steps, .seconds = seconds + KEEP_S};
    randombytes_buf(&run->wish.trace, sizeof run->wish.trace);
    run->wish.trace |= 1; /* not 0 */
    const struct view_attempt *attempt = trial != NULL ? view_trial_highest(trial) : NULL;
    attempt = attempt != NULL && view_attempt_verdict(attempt) == NULL ? attempt : NULL;
    for (const struct view_worker *worker = attempt != NULL ? attempt->workers : NULL; worker != NULL;
         worker = worker->next) {
        if (worker->state == FACT_WORKER_RUNNING && node_core_is_alive(daemon->core, worker->writer)) {
            add_node(run, worker->writer, node_id_equal(worker->writer, daemon->keys.id));
        }
    }
    if (run->node_count == 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "Trial %u has no rank that runs now, so there is nothing to trace; it is %s.", index,
                           view_trial_state_name(view_trial_state(experiment, index)));
        free(run);
        return;
    }
    run->next = daemon->api->traces;
    daemon->api->traces = run;
    trace_step(daemon, run, daemon_now_ms());
}

void query_trace_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct query_trace_run *run = daemon->api->traces, *next; run != NULL; run = next) {
        next = run->next;
        trace_step(daemon, run, now_ms);
    }
}

void query_trace_close(struct daemon *daemon)
{
    while (daemon->api->traces != NULL) {
        trace_free(daemon, daemon->api->traces);
    }
}
