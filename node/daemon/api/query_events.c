/* The request events: what happened on a node. Of this node from the ring of lines, and what is older from the journal;
 * of another node by bulk, from that node's journal. */

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/daemon/api/query.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/event.h"
#include "node/daemon/wire/request.h"

#define JOURNAL_REPLY_BYTES (128u * 1024) /* of the journal in one reply: maps are at most four times as large */
#define ANSWER_READ_BYTES (1u << 20)      /* of the journal for one answer to a peer */
#define TAIL_LINE_BYTES 320u              /* of a line of the journal, about */
#define NEAR_BYTES (16u * 1024)
#define FOLLOW_MS 500
#define UNKNOWN_MS 5000 /* so long the address of a node that has just come may not be known */

/* Events of another node, for a client. */
struct query_events_run {
    struct query_events_run *next;
    uint64_t serial, id;
    node_id node;
    uint64_t request; /* number of the bulk request under way; 0: none */
    uint64_t next_ms, since_ms;
    uint64_t from;
    struct event_choice choice;
    bool follow, was_answered;
};

/* ---- this node's ----------------------------------------------------------------------------------------------- */

/* Events on their way into a reply. */
struct event_list {
    struct client_stream *stream;
    uint64_t newest; /* event; a higher number is no event's */
    struct pack_writer packed;
    uint32_t count;
};

static void reply_list(struct daemon *daemon, struct client *client, struct client_stream *stream,
                       struct event_list *list, bool end)
{
    struct client_reply reply;
    if (!client_reply_begin(&reply, stream->id, end, 1u + stream->is_reset)) {
        client->broken = true;
        return;
    }
    if (stream->is_reset) {
        pack_text(&reply.writer, "reset");
        pack_bool(&reply.writer, true);
    }
    stream->is_reset = false;
    pack_text(&reply.writer, "events");
    pack_array(&reply.writer, list->count);
    pack_raw(&reply.writer, list->packed.bytes, list->packed.used_bytes);
    reply.writer.failed |= list->packed.failed;
    client_reply_send(daemon, client, &reply, -1);
}

static void take_event(void *context, const struct journal_event *event)
{
    struct event_list *list = context;
    struct client_stream *stream = list->stream;
    if (event->seq < stream->seq || event->seq > list->newest) {
        return;
    }
    stream->journal_seq = event->seq > stream->journal_seq ? event->seq : stream->journal_seq;
    if (event_is_wanted(&stream->events, &event->about, event->wall_ms)) {
        event_pack(&list->packed, event);
        list->count++;
    }
}

/* Takes the next piece of the journal; behind the last piece the ring has the rest, such as lines that a full disk
 * refused. */
static void take_journal(struct daemon *daemon, struct client_stream *stream, struct event_list *list)
{
    stream->reads_journal = journal_read(&daemon->journal, &stream->place, JOURNAL_REPLY_BYTES, take_event, list);
    stream->next_ms = 0;
    if (!stream->reads_journal && stream->seq <= stream->journal_seq) {
        stream->seq = stream->journal_seq + 1;
    }
}

static void take_ring(struct daemon *daemon, struct client_stream *stream, struct event_list *list)
{
    for (uint32_t i = 0; i < lines_count(daemon); i++) {
        const struct daemon_line *line = lines_at(daemon, i);
        take_event(list, &(struct journal_event){line->seq, line->wall_ms, line->about, line->text});
    }
    stream->seq = daemon->line_seq + 1;
}

void query_events_stream(struct daemon *daemon, struct client *client, struct client_stream *stream)
{
    struct event_list list = {.stream = stream, .newest = daemon->line_seq};
    bool reads_journal = stream->reads_journal, is_last = !reads_journal && !stream->follow;
    if (!reads_journal && stream->seq > daemon->line_seq && !is_last && stream->was_answered) {
        return;
    }
    uint8_t *bytes = malloc(FRAME_BYTES_MAX - 1024);
    if (bytes == NULL) {
        client->broken = true;
        return;
    }
    _Static_assert(DAEMON_EVENTS_MAX * 448u < FRAME_BYTES_MAX - 1024, "the ring fits");
    pack_writer_init(&list.packed, bytes, FRAME_BYTES_MAX - 1024);
    if (reads_journal) {
        take_journal(daemon, stream, &list);
    } else {
        take_ring(daemon, stream, &list);
    }
    if (list.count > 0 || is_last || !stream->was_answered) {
        stream->was_answered = true;
        reply_list(daemon, client, stream, &list, is_last);
    }
    stream->kind = is_last ? STREAM_NONE : stream->kind;
    free(bytes);
}

static void begin_stream(struct daemon *daemon, struct client_request *request, uint64_t from, bool is_since,
                         const struct event_choice *choice)
{
    struct client_stream *stream = query_new_stream(daemon, request, STREAM_EVENTS);
    if (stream == NULL) {
        return;
    }
    uint64_t oldest;
    stream->follow = request_flag(&request->map, "follow");
    stream->events = *choice;
    stream->reads_journal = is_since || from > 0;
    stream->place = stream->reads_journal ? journal_find(&daemon->journal, from, &oldest) : (struct journal_place){0};
    if (from > daemon->line_seq + 1) { /* counted by a daemon on another directory */
        stream->is_reset = true;
        from = daemon->line_seq + 1;
    } else if (from > 1) {
        stream->is_reset = oldest > from;
    }
    stream->seq = from;
    query_step_stream(daemon, request->client, stream);
}

/* ---- what other nodes are told ---------------------------------------------------------------------------------- */

/* Events on their way into an answer. */
struct answering {
    const struct event_choice *choice;
    struct pack_writer *out;
    size_t bytes_max;
    uint64_t from, seen;
    bool is_full;
};

static void answer_event(void *context, const struct journal_event *event)
{
    struct answering *answering = context;
    uint8_t bytes[EVENT_BYTES_MAX];
    struct pack_writer writer;
    answering->is_full |= answering->out->used_bytes + sizeof bytes > answering->bytes_max;
    if (event->seq < answering->from || event->seq <= answering->seen || answering->is_full) {
        return;
    }
    answering->seen = event->seq;
    if (event_is_wanted(answering->choice, &event->about, event->wall_ms)) {
        pack_writer_init(&writer, bytes, sizeof bytes);
        event_pack(&writer, event);
        bulk_wire_entry_write(answering->out, event->seq, bytes, writer.failed ? 0 : writer.used_bytes);
    }
}

struct seen {
    uint64_t first, last;
};

static void see(void *context, const struct journal_event *event)
{
    struct seen *seen = context;
    seen->first = seen->first == 0 ? event->seq : seen->first;
    seen->last = event->seq;
}

/* Where the events from a number on begin; `reset_to`: not 0 if events that were asked for are not here, and those from
 * this number on are the next. */
struct begin {
    struct journal_place place;
    uint64_t reset_to;
};

/* A client that follows asks for events at the end, again and again. */
static struct begin find_begin(const struct journal *journal, uint64_t from, uint64_t tail)
{
    struct begin begin = {.place = journal_near_end(journal, NEAR_BYTES)};
    struct journal_place place = begin.place;
    struct seen seen = {0};
    uint64_t oldest = 0;
    if (from <= 1) {
        uint64_t lines = tail < DAEMON_EVENTS_MAX ? tail : DAEMON_EVENTS_MAX;
        begin.place = tail > 0 ? journal_near_end(journal, lines * TAIL_LINE_BYTES) : (struct journal_place){0};
        return begin;
    }
    while (journal_read(journal, &place, NEAR_BYTES, see, &seen)) {
    }
    if (seen.last + 1 < from) { /* counted by a daemon on another directory */
        begin.reset_to = seen.last + 1;
    } else if (seen.first == 0 || seen.first > from) {
        begin.place = journal_find(journal, from, &oldest);
        begin.reset_to = oldest > from ? oldest : 0;
    }
    return begin;
}

int query_events_answer(const struct journal *journal, uint64_t from, const uint8_t *question, size_t question_bytes,
                        size_t bytes_max, struct pack_writer *out, bool *more)
{
    static const uint8_t nil[1] = {0xc0};
    struct event_choice choice;
    int code = event_question_read(question, question_bytes, &choice);
    if (code != 0) {
        return code;
    }
    struct begin begin = find_begin(journal, from, from == 0 ? choice.tail : 0);
    if (begin.reset_to != 0) {
        bulk_wire_entry_write(out, begin.reset_to, nil, sizeof nil);
        from = begin.reset_to;
    }
    struct answering answering = {.choice = &choice, .out = out, .bytes_max = bytes_max, .from = from};
    size_t read = 0;
    bool has_more = true;
    while (has_more && !answering.is_full && (read < ANSWER_READ_BYTES || answering.seen == 0)) {
        has_more = journal_read(journal, &begin.place, JOURNAL_REPLY_BYTES, answer_event, &answering);
        read += JOURNAL_REPLY_BYTES;
    }
    if (answering.seen != 0) { /* behind this one the next question goes on */
        bulk_wire_entry_write(out, answering.seen, nil, 0);
    }
    *more = answering.seen != 0 && (has_more || answering.is_full);
    return 0;
}

/* ---- another node's --------------------------------------------------------------------------------------------- */

static void run_free(struct daemon *daemon, struct query_events_run *run)
{
    struct query_events_run **link = &daemon->api->events;
    while (*link != run) {
        link = &(*link)->next;
    }
    *link = run->next;
    free(run);
}

static void fail(struct daemon *daemon, struct client *client, struct query_events_run *run, int code)
{
    const char *label = render_node_label(daemon->core, run->node).text;
    if (code == ERR_VERSION) {
        client_reply_error(daemon, client, run->id, EXIT_REFUSED,
                           "%s is of an older version, which tells its events to nobody; ask there, or update it.",
                           label);
    } else {
        client_reply_error(daemon, client, run->id, EXIT_REFUSED, "%s does not tell its events now: %s.", label,
                           err_text(code));
    }
    run_free(daemon, run);
}

/* Sends what the node has answered; `is_last`: nothing follows. */
static void pass_on(struct daemon *daemon, struct client *client, struct query_events_run *run,
                    const struct bulk_event *answer, bool is_last)
{
    struct client_reply reply;
    bool is_reset = false;
    uint32_t count = 0;
    struct event_held held;
    for (uint32_t i = 0; i < answer->item_count; i++) {
        is_reset |= answer->items[i].count == 1;
        count += event_read(answer->items[i].bytes, answer->items[i].count, &held) == 0;
    }
    if (count == 0 && !is_reset && !is_last && run->was_answered) {
        return;
    }
    run->was_answered = true;
    if (!client_reply_begin(&reply, run->id, is_last, 1u + is_reset)) {
        client->broken = true;
        return;
    }
    if (is_reset) {
        pack_text(&reply.writer, "reset");
        pack_bool(&reply.writer, true);
    }
    pack_text(&reply.writer, "events");
    pack_array(&reply.writer, count);
    for (uint32_t i = 0; i < answer->item_count; i++) {
        if (event_read(answer->items[i].bytes, answer->items[i].count, &held) == 0) {
            event_pack(&reply.writer, &held.event);
        }
    }
    client_reply_send(daemon, client, &reply, -1);
}

void query_events_answered(struct daemon *daemon, const struct bulk_event *answer)
{
    struct query_events_run *run = daemon->api->events;
    while (run != NULL && run->request != answer->id) {
        run = run->next;
    }
    struct client *client = run != NULL ? client_find(daemon, run->serial) : NULL;
    if (client == NULL) {
        return; /* the next tick frees the run */
    }
    run->request = 0;
    if (answer->code == ERR_NOT_FOUND && daemon_now_ms() - run->since_ms < UNKNOWN_MS) {
        run->next_ms = daemon_now_ms() + FOLLOW_MS;
        return;
    }
    if (answer->code != 0) {
        fail(daemon, client, run, answer->code);
        return;
    }
    bool is_last = !answer->more && !run->follow;
    pass_on(daemon, client, run, answer, is_last);
    if (answer->item_count > 0) {
        const struct bulk_item *last = &answer->items[answer->item_count - 1];
        run->from = last->count == 1 ? last->sequence : last->sequence + 1;
    }
    run->next_ms = answer->more ? 0 : daemon_now_ms() + FOLLOW_MS;
    if (is_last) {
        run_free(daemon, run);
    }
}

static void ask(struct daemon *daemon, struct query_events_run *run)
{
    uint8_t question[EVENT_QUESTION_BYTES];
    size_t bytes = event_question_pack(&run->choice, question);
    run->request = ++daemon->request_id;
    if (bulk_series_ask(daemon->bulk, run->request, EVENTS_PREFIX, sizeof EVENTS_PREFIX - 1, run->from, question, bytes,
                        run->node) != 0) {
        run->request = 0;
        run->next_ms = daemon_now_ms() + FOLLOW_MS;
    }
}

void query_events_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct query_events_run *run = daemon->api->events, *next; run != NULL; run = next) {
        next = run->next;
        const struct client *client = client_find(daemon, run->serial);
        if (client == NULL) {
            run_free(daemon, run);
        } else if (run->request == 0 && now_ms >= run->next_ms && client_may_stream(client)) {
            ask(daemon, run);
        }
    }
}

void query_events_close(struct daemon *daemon)
{
    while (daemon->api->events != NULL) {
        run_free(daemon, daemon->api->events);
    }
}

static void begin_run(struct daemon *daemon, const struct client_request *request, node_id node, uint64_t from,
                      const struct event_choice *choice)
{
    uint32_t open = 0;
    for (const struct query_events_run *run = daemon->api->events; run != NULL; run = run->next) {
        open += run->serial == request->client->serial;
    }
    if (open >= CLIENT_STREAMS_MAX) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "This connection has %d streams open already; close one.", CLIENT_STREAMS_MAX);
        return;
    }
    if (!node_core_is_alive(daemon->core, node)) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "%s is not alive now, and its events are on its disk only.",
                           render_node_label(daemon->core, node).text);
        return;
    }
    struct query_events_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "No memory is left to ask another node.");
        return;
    }
    *run = (struct query_events_run){.serial = request->client->serial,
                                     .id = request->id,
                                     .node = node,
                                     .since_ms = daemon_now_ms(),
                                     .from = from,
                                     .choice = *choice,
                                     .follow = request_flag(&request->map, "follow"),
                                     .next = daemon->api->events};
    run->choice.tail = from == 0 && choice->since_ms == 0 ? DAEMON_EVENTS_MAX : 0;
    daemon->api->events = run;
    ask(daemon, run);
}

void query_events(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct event_choice choice = {0};
    node_id node;
    uint64_t from = 0;
    (void)client_argument_u64(request, "from", &from);
    bool is_since = client_argument_u64(request, "since_ms", &choice.since_ms);
    bool has_kind = !pack_find(&request->map, "kind").failed;
    if (has_kind &&
        (!request_text(&request->map, "kind", choice.kind, sizeof choice.kind) || !event_kind_is_known(choice.kind))) {
        client_reply_error(
            daemon, request->client, request->id, EXIT_USAGE,
            "There is no kind of events '%s'; kinds are such as trial, trial.failed, node.dead, slot, experiment.",
            choice.kind);
        return;
    }
    bool has_experiment = !pack_find(&request->map, "experiment").failed;
    if ((has_experiment && !client_argument_any_experiment(daemon, request, &choice.experiment)) ||
        !client_argument_node(daemon, request, &node)) {
        return;
    }
    if (node_id_equal(node, daemon->keys.id)) {
        begin_stream(daemon, request, from, is_since, &choice);
    } else {
        begin_run(daemon, request, node, from, &choice);
    }
}
