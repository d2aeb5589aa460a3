#include "node/daemon/api/series.h"

#include <stdlib.h>
#include <string.h>

#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"

#define REPLY_POINTS_BYTES (512u << 10) /* of points in one answer, and one more */
#define HELD_BYTES_MAX (4u << 20) /* of the last lines of a log, kept until the log's end is known */

/* Finds why the attempt before the given one ended. False: there was none, or it is not known to have ended. */
static bool find_before(const struct daemon *daemon, const struct query_series *series, const attempt_id *id, uint32_t *number,
                        char reason[RENDER_REASON_BYTES])
{
    const struct view_trial *trial = series_trial(daemon, series);
    const struct view_attempt *before = NULL;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL && a->id.number < id->number; a = a->next) {
        before = a->assigned ? a : before;
    }
    *number = before != NULL ? before->id.number : 0;
    return before != NULL && render_attempt_reason(daemon->core, before, reason);
}

/* `dropped`: so many bytes before these are not kept. */
static void emit_log(struct daemon *daemon, struct client *client, struct query_series *series, const struct series_source *source,
                     const struct bulk_item *item, uint64_t dropped)
{
    struct client_reply reply;
    char reason[RENDER_REASON_BYTES];
    uint32_t before;
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), source->attempt.experiment);
    bool is_known = experiment != NULL && experiment->known;
    bool has_before = series->kind == 'l' && series->shown != source->attempt.number &&
                      find_before(daemon, series, &source->attempt, &before, reason);
    series->shown = source->attempt.number;
    if (!client_reply_begin(&reply, series->id, false, 5u + is_known + has_before + series->is_chosen + (dropped > 0))) {
        return;
    }
    if (series->is_chosen) {
        pack_text(&reply.writer, "chosen");
        pack_bool(&reply.writer, true);
    }
    if (dropped > 0) {
        pack_text(&reply.writer, "dropped");
        pack_u64(&reply.writer, dropped);
    }
    if (has_before) {
        pack_text(&reply.writer, "before");
        pack_map(&reply.writer, 2);
        pack_text(&reply.writer, "attempt");
        pack_u64(&reply.writer, before);
        pack_text(&reply.writer, "reason");
        pack_text(&reply.writer, reason);
    }
    if (is_known) {
        pack_text(&reply.writer, "workers_max");
        pack_u64(&reply.writer, experiment->config->max_slots);
    }
    pack_text(&reply.writer, "local_rank");
    pack_u64(&reply.writer, source->local_rank);
    pack_text(&reply.writer, "host");
    pack_text(&reply.writer, render_node_label(daemon->core, source->owner).text);
    pack_text(&reply.writer, "attempt");
    pack_u64(&reply.writer, source->attempt.number);
    pack_text(&reply.writer, "rank");
    pack_u64(&reply.writer, source->number);
    pack_text(&reply.writer, "bytes");
    pack_bin(&reply.writer, item->bytes, item->count);
    client_reply_send(daemon, client, &reply, -1);
}

/* Adds lines to those that are held, and lets go all but the last. False: no memory is left. */
static bool hold(struct query_series *series, const struct bulk_item *item)
{
    char *bigger = realloc(series->held, series->held_bytes + item->count + 1);
    if (bigger == NULL) {
        return false;
    }
    series->held = bigger;
    memcpy(bigger + series->held_bytes, item->bytes, item->count);
    series->held_bytes += item->count;
    uint64_t lines = 0;
    size_t from = series->held_bytes;
    while (from > 0 && (bigger[from - 1] != '\n' || ++lines <= series->lines.tail) &&
           series->held_bytes - from < HELD_BYTES_MAX) {
        from--;
    }
    series->held_bytes -= from;
    memmove(bigger, bigger + from, series->held_bytes);
    return true;
}

void series_let_go(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source)
{
    for (size_t at = 0; at < series->held_bytes; at += REPLY_POINTS_BYTES) {
        size_t left = series->held_bytes - at;
        struct bulk_item item = {.bytes = (const uint8_t *)series->held + at,
                                 .count = left < REPLY_POINTS_BYTES ? left : REPLY_POINTS_BYTES};
        emit_log(daemon, client, series, source, &item, 0);
    }
    series->held_bytes = 0;
    source->has_tail = true;
}

static void emit_lines(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source,
                       const struct bulk_event *event)
{
    bool holds = series->lines.tail > 0 && !source->has_tail;
    for (uint32_t i = 0; i < event->item_count; i++) {
        const struct bulk_item *item = &event->items[i];
        if (item->count > 0 && !(holds && hold(series, item))) {
            emit_log(daemon, client, series, source, item, 0);
        }
    }
}

/* Tells if the oldest bytes of the log are gone: the first answer begins with an entry without bytes then (log_search.h). */
static void emit_begin(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source,
                       const struct bulk_event *event)
{
    bool is_first = source->log_at == 0;
    source->log_at = event->items[event->item_count - 1].sequence;
    if (is_first && event->item_count > 1 && event->items[0].count == 0 && event->items[0].sequence > 0) {
        emit_log(daemon, client, series, source, &(struct bulk_item){.bytes = (const uint8_t *)""}, event->items[0].sequence);
    }
}

/* A piece of a log: its number is the byte that it ends before. */
static void emit_piece(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source,
                       const struct bulk_item *item)
{
    uint64_t begin = item->count <= item->sequence ? item->sequence - item->count : 0;
    uint64_t dropped = series->kind == 'l' && begin > source->log_at ? begin - source->log_at : 0;
    source->log_at = item->sequence;
    emit_log(daemon, client, series, source, item, dropped);
}

void series_emit_nothing(struct daemon *daemon, struct client *client, const struct query_series *series)
{
    struct client_reply reply;
    if (client_reply_begin(&reply, series->id, false, 1)) {
        pack_text(&reply.writer, "points");
        pack_array(&reply.writer, 0);
        client_reply_send(daemon, client, &reply, -1);
    }
}

static bool is_shown(const struct query_series *series, const struct series_source *source, const struct bulk_item *item)
{
    return !points_is_void(&series->starts, &source->attempt, item->bytes, item->count) &&
           (series->since_ms == 0 || !points_is_before(series->since_ms, item->bytes, item->count));
}

static void emit_points(struct daemon *daemon, struct client *client, struct query_series *series,
                        const struct series_source *source, const struct bulk_event *event)
{
    struct client_reply reply;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < event->item_count; i++) {
        const struct bulk_item *item = &event->items[i];
        if (series->is_looking || series->follow) {
            points_note(&series->starts, &source->attempt, item->bytes, item->count);
        }
    }
    for (uint32_t i = 0; i < event->item_count && !series->is_looking; i++) {
        shown += is_shown(series, source, &event->items[i]);
    }
    if (series->is_looking || (series->follow && shown == 0) || !client_reply_begin(&reply, series->id, false, 1)) {
        return;
    }
    pack_text(&reply.writer, "points");
    pack_array(&reply.writer, shown);
    for (uint32_t i = 0; i < event->item_count; i++) {
        const struct bulk_item *item = &event->items[i];
        if (is_shown(series, source, item)) {
            points_show(&reply.writer, item->bytes, item->count,
                        points_is_after(source->last_step, item->bytes, item->count));
        }
    }
    client_reply_send(daemon, client, &reply, -1);
}

static void emit_texts(struct daemon *daemon, struct client *client, struct query_series *series,
                       const struct bulk_event *event)
{
    struct client_reply reply;
    if (client_reply_begin(&reply, series->id, false, 1)) {
        pack_text(&reply.writer, "texts");
        pack_array(&reply.writer, event->item_count);
        for (uint32_t i = 0; i < event->item_count; i++) {
            points_show(&reply.writer, event->items[i].bytes, event->items[i].count, false);
        }
        client_reply_send(daemon, client, &reply, -1);
    }
}

/* The sums that fit into one answer, from `first` on: sets `*end` behind them, and returns their number. An entry without bytes
 * is none. */
static uint32_t sums_that_fit(const struct bulk_event *event, uint32_t first, uint32_t *end)
{
    size_t bytes = 0;
    uint32_t shown = 0;
    for (*end = first; *end < event->item_count && bytes < REPLY_POINTS_BYTES; ++*end) {
        bytes += event->items[*end].count;
        shown += event->items[*end].count > 0;
    }
    return shown;
}

static void emit_sums(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source,
                      const struct bulk_event *event)
{
    for (uint32_t at = 0, end; at < event->item_count; at = end) {
        struct client_reply reply;
        uint32_t shown = sums_that_fit(event, at, &end);
        if (shown == 0 || !client_reply_begin(&reply, series->id, false, 1)) {
            continue;
        }
        pack_text(&reply.writer, "points");
        pack_array(&reply.writer, shown);
        for (uint32_t i = at; i < end; i++) {
            if (event->items[i].count > 0) {
                points_show_sums(&reply.writer, &source->attempt, event->items[i].bytes, event->items[i].count, &source->width);
            }
        }
        client_reply_send(daemon, client, &reply, -1);
    }
}

void series_take_items(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source,
                       const struct bulk_event *event)
{
    uint64_t last = event->items[event->item_count - 1].sequence;
    if (series_is_question(series)) {
        series->got_any |= last > source->from_seq;
        source->from_seq = last;
        if (series_is_points(series)) {
            emit_sums(daemon, client, series, source, event);
        } else {
            emit_begin(daemon, client, series, source, event);
            emit_lines(daemon, client, series, source, event);
        }
        return;
    }
    series->got_any = true;
    source->from_seq = last + 1;
    if (series_is_points(series)) {
        emit_points(daemon, client, series, source, event);
    }
    if (series->kind == 'n') {
        emit_texts(daemon, client, series, event);
        return;
    }
    for (uint32_t i = 0; !series_is_points(series) && i < event->item_count; i++) {
        emit_piece(daemon, client, series, source, &event->items[i]);
    }
}

void series_emit_waiting(struct daemon *daemon, const struct client_request *request, const struct view_experiment *experiment,
                         uint32_t index)
{
    struct client_reply reply;
    char reason[NODE_CORE_WAITING_BYTES] = "";
    (void)node_core_waiting_reason(daemon->core, experiment, index, reason, sizeof reason);
    if (reason[0] != '\0' && client_reply_begin(&reply, request->id, false, 1)) {
        pack_text(&reply.writer, "waiting");
        pack_text(&reply.writer, reason);
        client_reply_send(daemon, request->client, &reply, -1);
    }
}

static void pack_labels(const struct daemon *daemon, struct pack_writer *writer, const char *key, const node_id *nodes, uint32_t count)
{
    if (count == 0) {
        return;
    }
    pack_text(writer, key);
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(writer, render_node_label(daemon->core, nodes[i]).text);
    }
}

void series_emit_end(struct daemon *daemon, struct client *client, const struct query_series *series)
{
    struct client_reply reply;
    bool is_log = series->kind == 'l';
    uint32_t pairs = (series->missed_count > 0 ? 1u : 0u) + (series->lost_count > 0 ? 1u : 0u) + (is_log ? 1u : 0u);
    if (!client_reply_begin(&reply, series->id, true, pairs)) {
        return;
    }
    pack_labels(daemon, &reply.writer, "unreachable", series->missed, series->missed_count);
    pack_labels(daemon, &reply.writer, "lost", series->lost, series->lost_count);
    if (is_log) {
        const struct attempt_numbers had = series_attempts_of(series_trial(daemon, series));
        pack_text(&reply.writer, "attempts");
        pack_array(&reply.writer, had.count);
        for (uint32_t i = 0; i < had.count; i++) {
            pack_u64(&reply.writer, had.numbers[i]);
        }
    }
    client_reply_send(daemon, client, &reply, -1);
}
