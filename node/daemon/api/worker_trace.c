/* Traces of this node's workers: asked for by a node of the mesh (node/trace/box.h), told to the workers by a notice, and
 * taken from them. */

#include "node/daemon/api/worker.h"

#include "base/spans.h"
#include "node/daemon/api/query.h"
#include "node/daemon/workers/workers.h"

static void tell(struct client *client, const struct trace_wish *wish)
{
    uint8_t bytes[128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 4);
    pack_text(&writer, "notice");
    pack_text(&writer, "trace");
    pack_text(&writer, "trace");
    pack_u64(&writer, wish->trace);
    pack_text(&writer, "steps");
    pack_u64(&writer, wish->steps);
    pack_text(&writer, "from_ns");
    pack_u64(&writer, wish->from_ns);
    client_send(client, bytes, writer.used_bytes);
}

static bool is_of_trial(const struct daemon_worker *worker, const struct trace_wish *wish)
{
    const attempt_id *attempt = &worker->prepare.u.worker.attempt;
    return worker->state == WORKER_RUNNING && !worker->ended && attempt->trial == wish->trial &&
           experiment_id_equal(attempt->experiment, wish->experiment);
}

void api_worker_trace_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct trace_box *box = &daemon->workers->traces;
    for (uint32_t place = 0; place < TRACES_MAX; place++) {
        struct trace_wish wish;
        struct trace_row rows[SLOTS_MAX];
        if (!trace_box_get(box, place, now_ms, &wish, rows)) {
            continue;
        }
        for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
            struct daemon_worker *worker = &daemon->workers->slots[slot];
            bool has_client = worker->client != NULL && !worker->client->broken;
            bool is_news = !rows[slot].is_there || (rows[slot].state == TRACE_UNCONNECTED && has_client);
            if (!is_news || !is_of_trial(worker, &wish)) {
                continue;
            }
            trace_box_set(box, wish.trace, slot, worker->prepare.u.worker.number, worker->prepare.u.worker.rank,
                          has_client ? TRACE_TOLD : TRACE_UNCONNECTED);
            if (has_client) {
                tell(worker->client, &wish);
            }
        }
    }
}

void api_worker_spans(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    uint64_t trace = 0, rank = 0, lost = 0;
    size_t count = 0;
    struct pack_reader value = pack_find(&request->map, "spans"), walk = value;
    const uint8_t *spans = pack_read_any(&value, &count);
    uint32_t elements = pack_read_array(&walk);
    struct span span;
    for (uint32_t i = 0; i < elements && i < SPANS_MAX; i++) {
        (void)span_read(&walk, &span);
    }
    bool is_whole = client_argument_u64(request, "trace", &trace) && client_argument_u64(request, "rank", &rank) &&
                    client_argument_u64(request, "lost", &lost);
    if (!is_whole || value.failed || walk.failed || elements > SPANS_MAX || rank > UINT16_MAX) {
        client_reply_no_request(daemon, request);
        return;
    }
    trace_box_put(&daemon->workers->traces, trace, (uint32_t)request->client->slot, (uint32_t)rank, lost, spans, count);
    client_reply_empty(daemon, request->client, request->id);
}
