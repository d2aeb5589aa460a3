/* The requests metrics, logs and tail. */

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/daemon/api/query.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/points.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"

#define LOG_FOLLOW_MS 500

/* A worker whose series are read. */
struct source {
    attempt_id attempt;
    uint32_t number; /* the worker's first rank, or its rank when it joined */
    node_id owner;
    uint64_t from_seq;
    uint64_t last_step; /* metrics only: later steps were made anew by a later attempt; UINT64_MAX: none were */
    bool is_silent; /* nothing is missed: metrics of a worker that never was rank 0 (rank 0 reports for all), or a tail, of
                       which the worker's record has the end */
};

#define CANDIDATES_MAX 8
#define MISSED_MAX 8 /* most missed nodes that the answer names */

/* Reads one series after another, each from the node that ran the worker if the node lives, else from a node with a
 * copy. */
struct query_series {
    struct query_series *next;
    uint64_t serial, id;
    char kind;
    bool follow;
    experiment_id experiment;
    uint32_t trial;
    uint32_t only; /* a log: the worker of this number; UINT32_MAX: all */
    struct source *sources;
    uint32_t source_count, source_at;
    node_id candidates[CANDIDATES_MAX];
    uint32_t candidate_count, candidate_at;
    uint64_t request; /* number of the bulk request under way; 0: none */
    uint64_t next_ms;
    bool got_any;    /* the present candidate has sent entries of the present source */
    bool was_missed; /* a candidate for the present source did not answer */
    bool was_cut;    /* a candidate for the present source stopped answering after some entries */
    node_id missed[MISSED_MAX];
    uint32_t missed_count; /* nodes that ran a source of which entries may be missing */
    bool is_looking; /* first pass: where a group has changed, metrics are read twice, first for the starts of the
                        generations */
    struct points_starts starts;
};

static bool was_rank_0(const struct view_attempt *attempt, uint32_t number, node_id owner)
{
    bool was = number == 0;
    for (const struct view_group *group = attempt->groups; group != NULL; group = group->next) {
        was |= group->member_count > 0 && group->places[0].number == number && node_id_equal(group->places[0].node, owner);
    }
    return was;
}

static bool has_begun(const struct view_attempt *attempt)
{
    bool has_begun = false;
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        has_begun |= worker->has_started;
    }
    return has_begun;
}

/* The last step of the attempt from which a later one went on; UINT64_MAX: no later attempt has begun. */
static uint64_t last_step_of(const struct view_attempt *attempt)
{
    uint64_t last = UINT64_MAX;
    for (const struct view_attempt *later = attempt->next; later != NULL; later = later->next) {
        last = has_begun(later) && later->start_step < last ? later->start_step : last;
    }
    return last;
}

static bool series_add(struct query_series *series, const struct view_attempt *attempt, uint32_t number, node_id owner)
{
    struct source *bigger = realloc(series->sources, (series->source_count + 1) * sizeof *bigger);
    if (bigger == NULL) {
        return false;
    }
    series->sources = bigger;
    bigger[series->source_count++] =
        (struct source){.attempt = attempt->id,
                        .number = number,
                        .owner = owner,
                        .last_step = series->kind == 'm' ? last_step_of(attempt) : UINT64_MAX,
                        .is_silent = series->kind == 't' || (series->kind == 'm' && !was_rank_0(attempt, number, owner))};
    return true;
}

/* Adds one worker of the attempt, or all: the first workers and the workers that have joined since. Metrics come from
 * rank 0, and only in a changed group can rank 0 have been another worker. */
static void series_add_workers(struct query_series *series, const struct view_attempt *attempt, uint32_t only)
{
    for (uint32_t number = 0; attempt->assigned && number < attempt->first_count; number++) {
        bool is_wanted = series->kind == 'l' || number == 0 || attempt->groups != NULL;
        if (is_wanted && (only == UINT32_MAX || number == only)) {
            (void)series_add(series, attempt, number, attempt->first[number].node);
        }
    }
    for (const struct view_worker *worker = attempt->workers; worker != NULL && attempt->assigned; worker = worker->next) {
        if (worker->number >= attempt->first_count && (only == UINT32_MAX || worker->number == only)) {
            (void)series_add(series, attempt, worker->number, worker->writer);
        }
    }
}

static void series_candidates(const struct daemon *daemon, struct query_series *series)
{
    const struct source *source = &series->sources[series->source_at];
    series->candidate_count = 0;
    series->candidate_at = 0;
    series->got_any = series->was_cut = false;
    series->was_missed = !node_core_is_alive(daemon->core, source->owner);
    if (!series->was_missed) {
        series->candidates[series->candidate_count++] = source->owner;
    }
    node_id holders[CANDIDATES_MAX - 1];
    uint32_t count = daemon_holders_series(daemon, &source->attempt, holders, CANDIDATES_MAX - 1);
    for (uint32_t i = 0; i < count; i++) {
        if (!node_id_equal(holders[i], source->owner)) {
            series->candidates[series->candidate_count++] = holders[i];
        }
    }
}

/* Notes that entries of the present source may be missing: no node that answers may have all of them. (Perhaps there
 * never were any; this cannot be known.) Nodes that left or are out bring nothing more. A following client has read the
 * earlier entries already. */
static void series_miss(const struct daemon *daemon, struct query_series *series)
{
    const struct source *source = &series->sources[series->source_at];
    const node_id owner = source->owner;
    const struct view_member *member = view_find_member(node_core_view(daemon->core), owner);
    bool is_awaited = member != NULL && member->admitted && !member->left && !source->is_silent;
    bool is_new = is_awaited && (source->from_seq == 0 || series->was_cut) && series->missed_count < MISSED_MAX;
    for (uint32_t i = 0; i < series->missed_count; i++) {
        is_new &= !node_id_equal(series->missed[i], owner);
    }
    if (is_new) {
        series->missed[series->missed_count++] = owner;
    }
}

static void series_end(struct daemon *daemon, struct client *client, const struct query_series *series)
{
    struct client_reply reply;
    if (!client_reply_begin(&reply, series->id, true, series->missed_count > 0)) {
        return;
    }
    if (series->missed_count > 0) {
        pack_text(&reply.writer, "unreachable");
        pack_array(&reply.writer, series->missed_count);
        for (uint32_t i = 0; i < series->missed_count; i++) {
            pack_text(&reply.writer, render_node_label(daemon->core, series->missed[i]).text);
        }
    }
    client_reply_send(daemon, client, &reply, -1);
}

static void series_free(struct daemon *daemon, struct query_series *series)
{
    struct query_series **link = &daemon->api->series;
    while (*link != series) {
        link = &(*link)->next;
    }
    *link = series->next;
    free(series->sources);
    free(series);
}

static bool trial_is_over(const struct daemon *daemon, const struct query_series *series)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), series->experiment);
    if (experiment == NULL) {
        return true;
    }
    enum view_trial_state state = view_trial_state(experiment, series->trial);
    return state == VIEW_TRIAL_COMPLETED || state == VIEW_TRIAL_FAILED || view_experiment_over(experiment);
}

/* Goes on with the attempts that have begun since, in their order. False: there are none. */
static bool series_next_attempt(const struct daemon *daemon, struct query_series *series)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), series->experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, series->trial) : NULL;
    uint32_t before = series->source_count, newest = 0;
    for (uint32_t i = 0; i < before; i++) {
        newest = series->sources[i].attempt.number > newest ? series->sources[i].attempt.number : newest;
    }
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        if (a->id.number > newest) {
            series_add_workers(series, a, series->only);
        }
    }
    if (series->source_count == before) {
        return false;
    }
    series->source_count -= before;
    memmove(series->sources, series->sources + before, series->source_count * sizeof *series->sources);
    series->source_at = 0;
    series->candidate_count = 0;
    return true;
}

static void series_ask(struct daemon *daemon, struct query_series *series)
{
    const struct source *source = &series->sources[series->source_at];
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t bytes = daemon_series_prefix(series->kind, &source->attempt, source->number, prefix);
    series->request = ++daemon->request_id;
    if (bulk_series_fetch(daemon->bulk, series->request, prefix, bytes, source->from_seq,
                          series->candidates[series->candidate_at]) != 0) {
        series->request = 0;
        series->next_ms = daemon_now_ms() + LOG_FOLLOW_MS;
    }
}

/* Goes on to the next source. After the last source the stream ends, or, when the client follows, reads on where it
 * stopped. */
static void series_step(struct daemon *daemon, struct query_series *series, uint64_t now_ms)
{
    struct client *client = client_find(daemon, series->serial);
    if (client == NULL) {
        series_free(daemon, series);
        return;
    }
    if (series->request != 0 || now_ms < series->next_ms || !client_may_stream(client)) {
        return;
    }
    if (series->source_at == series->source_count && series->follow && series_next_attempt(daemon, series)) {
        return;
    }
    if (series->source_at == series->source_count && series->follow && series->source_count > 0 &&
        !trial_is_over(daemon, series)) {
        series->source_at = 0;
        series->missed_count = 0;
        series->next_ms = now_ms + LOG_FOLLOW_MS;
        series_candidates(daemon, series);
        return;
    }
    if (series->source_at == series->source_count && series->is_looking) {
        series->is_looking = false;
        series->source_at = 0;
        series->missed_count = 0;
        for (uint32_t i = 0; i < series->source_count; i++) {
            series->sources[i].from_seq = 0;
        }
        return;
    }
    if (series->source_at == series->source_count) {
        series_end(daemon, client, series);
        series_free(daemon, series);
        return;
    }
    if (series->candidate_count == 0) {
        series_candidates(daemon, series);
    }
    if (series->candidate_at >= series->candidate_count) {
        if (series->was_missed) {
            series_miss(daemon, series);
        }
        series->source_at++;
        series->candidate_count = 0;
        return;
    }
    series_ask(daemon, series);
}

static void emit_points(struct daemon *daemon, struct client *client, struct query_series *series,
                        const struct source *source, const struct bulk_event *event)
{
    struct client_reply reply;
    uint32_t shown = 0;
    for (uint32_t i = 0; i < event->item_count; i++) {
        const struct bulk_item *item = &event->items[i];
        if (series->is_looking) {
            points_note(&series->starts, &source->attempt, item->bytes, item->count);
        } else {
            shown += !points_is_void(&series->starts, &source->attempt, item->bytes, item->count);
        }
    }
    if (series->is_looking || !client_reply_begin(&reply, series->id, false, 1)) {
        return;
    }
    pack_text(&reply.writer, "points");
    pack_array(&reply.writer, shown);
    for (uint32_t i = 0; i < event->item_count; i++) {
        const struct bulk_item *item = &event->items[i];
        if (!points_is_void(&series->starts, &source->attempt, item->bytes, item->count)) {
            points_show(&reply.writer, item->bytes, item->count,
                        points_is_after(source->last_step, item->bytes, item->count));
        }
    }
    client_reply_send(daemon, client, &reply, -1);
}

static void emit_log(struct daemon *daemon, struct client *client, uint64_t id, const struct source *source,
                     const struct bulk_item *item)
{
    struct client_reply reply;
    if (!client_reply_begin(&reply, id, false, 3)) {
        return;
    }
    pack_text(&reply.writer, "attempt");
    pack_u64(&reply.writer, source->attempt.number);
    pack_text(&reply.writer, "rank");
    pack_u64(&reply.writer, source->number);
    pack_text(&reply.writer, "bytes");
    pack_bin(&reply.writer, item->bytes, item->count);
    client_reply_send(daemon, client, &reply, -1);
}

void query_series_answered(struct daemon *daemon, struct bulk_event *event)
{
    struct query_series *series = daemon->api->series;
    while (series != NULL && series->request != event->id) {
        series = series->next;
    }
    struct client *client = series != NULL ? client_find(daemon, series->serial) : NULL;
    if (client == NULL) {
        return;
    }
    series->request = 0;
    struct source *source = &series->sources[series->source_at];
    if (event->code == 0 && event->item_count > 0) {
        series->got_any = true;
        source->from_seq = event->items[event->item_count - 1].sequence + 1;
        if (series->kind == 'm') {
            emit_points(daemon, client, series, source, event);
        }
        for (uint32_t i = 0; series->kind != 'm' && i < event->item_count; i++) {
            emit_log(daemon, client, series->id, source, &event->items[i]);
        }
    }
    if (event->code == 0 && event->more) {
        return; /* the same candidate goes on */
    }
    bool from_owner = node_id_equal(series->candidates[series->candidate_at], source->owner);
    if (event->code == 0 && (series->got_any || from_owner)) {
        series->source_at++;
        series->candidate_count = 0;
    } else { /* the next candidate goes on where the last one ended */
        series->was_missed |= event->code != 0;
        series->was_cut |= event->code != 0 && series->got_any;
        series->got_any = false;
        series->candidate_at++;
    }
}

void query_series_request(struct daemon *daemon, struct client_request *request, int kind)
{
    struct view_experiment *experiment;
    if (!client_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    uint64_t trial = 0, rank = 0;
    bool one_trial = client_argument_u64(request, "trial", &trial);
    bool one_rank = client_argument_u64(request, "rank", &rank);
    if (kind != 'm' && !one_trial) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The request names no trial; give its index.");
        return;
    }
    if (one_trial && trial >= experiment->trial_count) {
        query_reply_no_trial(daemon, request, experiment, trial);
        return;
    }
    struct query_series *series = calloc(1, sizeof *series);
    if (series == NULL) {
        return;
    }
    *series = (struct query_series){.serial = request->client->serial,
                                     .id = request->id,
                                     .kind = (char)kind,
                                     .follow = kind == 'l' && request_flag(&request->map, "follow"),
                                     .experiment = experiment->id,
                                     .trial = (uint32_t)trial,
                                     .only = one_rank && rank < UINT32_MAX ? (uint32_t)rank : UINT32_MAX,
                                     .next = daemon->api->series};
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *row = experiment->trials[i];
        if (row == NULL || (one_trial && row->index != trial)) {
            continue;
        }
        const struct view_attempt *newest = view_trial_highest(row);
        if (kind == 'l' && newest != NULL) {
            series_add_workers(series, newest, series->only);
        }
        const struct view_attempt *failed = NULL;
        const struct view_worker *tail = kind == 't' ? render_tail_worker(daemon->core, row, &failed) : NULL;
        if (tail != NULL) {
            (void)series_add(series, failed, tail->number, tail->writer);
        }
        for (const struct view_attempt *a = row->attempts; kind == 'm' && a != NULL; a = a->next) {
            series_add_workers(series, a, UINT32_MAX);
            if (a->generation > 1) {
                series->is_looking = true;
                points_add(&series->starts, &a->id, a->generation, a->group_step);
            }
        }
    }
    if (kind == 'l' && series->source_count == 0) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Trial %llu has no log (yet): it has no attempt, or no worker of that rank.",
                           (unsigned long long)trial);
        free(series->sources);
        free(series);
        return;
    }
    daemon->api->series = series;
}

void query_series_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct query_series *series = daemon->api->series, *next; series != NULL; series = next) {
        next = series->next;
        series_step(daemon, series, now_ms);
    }
}

void query_series_close(struct daemon *daemon)
{
    while (daemon->api->series != NULL) {
        series_free(daemon, daemon->api->series);
    }
}
