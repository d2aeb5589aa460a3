/* The requests metrics, texts, logs, tail and platform. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/series.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"
#include "node/series/levels.h"

#define LOG_FOLLOW_MS 500

static void series_candidates(const struct daemon *daemon, struct query_series *series)
{
    const struct series_source *source = &series->sources[series->source_at];
    series->candidate_count = 0;
    series->candidate_at = 0;
    series->got_any = series->was_cut = series->is_foreign = false;
    series->was_missed = !node_core_is_alive(daemon->core, source->owner);
    if (!series->was_missed) {
        series->candidates[series->candidate_count++] = source->owner;
    }
    node_id holders[SERIES_CANDIDATES_MAX - 1];
    uint32_t count = daemon_holders_series(daemon, &source->attempt, holders, SERIES_CANDIDATES_MAX - 1);
    for (uint32_t i = 0; i < count; i++) {
        if (!node_id_equal(holders[i], source->owner)) {
            series->candidates[series->candidate_count++] = holders[i];
        }
    }
}

static void add_node(node_id list[SERIES_MISSED_MAX], uint32_t *count, node_id node)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (node_id_equal(list[i], node)) {
            return;
        }
    }
    if (*count < SERIES_MISSED_MAX) {
        list[(*count)++] = node;
    }
}

/* Notes that entries of the present source may be missing: no node that answers may have all of them. (Perhaps there
 * never were any; this cannot be known.) A node that left or is out brings nothing more: what it alone had is lost. A
 * following client has read the earlier entries already. */
static void series_miss(const struct daemon *daemon, struct query_series *series)
{
    const struct series_source *source = &series->sources[series->source_at];
    const struct view_member *member = view_find_member(node_core_view(daemon->core), source->owner);
    bool is_awaited = member != NULL && member->admitted && !member->left;
    bool comes_again = series_is_points(series) && series->follow && !source->is_last && !series->ends;
    if (source->is_silent || comes_again || (source->from_seq > 0 && !series->was_cut)) {
        return;
    }
    if (is_awaited) {
        add_node(series->missed, &series->missed_count, source->owner);
        series->missed_for_good = series->source_at < series->over_count ? series->missed_count : series->missed_for_good;
    } else if (series->kind == 'l' && source->from_seq == 0) {
        add_node(series->lost, &series->lost_count, source->owner);
    }
}

static void series_free(struct daemon *daemon, struct query_series *series)
{
    struct query_series **link = &daemon->api->series;
    while (*link != series) {
        link = &(*link)->next;
    }
    *link = series->next;
    free(series->sources);
    free(series->done);
    free(series->held);
    free(series);
}

static bool trial_is_over(const struct daemon *daemon, const struct query_series *series)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), series->experiment);
    if (experiment == NULL) {
        return true;
    }
    return view_trial_over(view_trial_state(experiment, series->trial)) || view_experiment_over(experiment);
}

/* True once nothing more comes for the attempts that the client asked for. */
static bool is_over(const struct daemon *daemon, const struct query_series *series)
{
    bool is_open = false;
    const struct view_trial *trial = series_trial(daemon, series);
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        is_open |= a->assigned && a->id.number == series->attempt && view_attempt_verdict(a) == NULL;
    }
    return (series->attempt != 0 && !is_open) || trial_is_over(daemon, series);
}

/* Adds the workers of the attempts that have begun since, in their order. */
static void series_add_later(const struct daemon *daemon, struct query_series *series)
{
    const struct view_trial *trial = series_trial(daemon, series);
    uint32_t newest = series->newest;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        if (a->id.number > newest) {
            series_add_workers(series, trial, a, series->only);
        }
    }
}

/* A following client has had all that there was of each source: reads on where it stopped, and also what has begun since.
 * The sources of attempts that are over by now are read for a last time, since their last lines may have come meanwhile.
 * False: there is no source that is not over, and none will come. */
static bool series_goes_on(const struct daemon *daemon, struct query_series *series, uint64_t now_ms)
{
    if (series->over_count > 0) {
        series->source_count -= series->over_count;
        memmove(series->sources, series->sources + series->over_count, series->source_count * sizeof *series->sources);
    }
    series->over_count = series->source_at = 0;
    uint32_t before = series->source_count;
    bool may_come = series->attempt == 0 && !trial_is_over(daemon, series); /* before the look, so that none is missed */
    if (series->attempt == 0) {
        series_add_later(daemon, series);
    }
    if (series->source_count == 0 && !may_come) {
        return false;
    }
    series->over_count = series->source_count > before || is_over(daemon, series) ? before : 0;
    series->missed_count = series->missed_for_good;
    series->next_ms = series->over_count > 0 ? now_ms : now_ms + LOG_FOLLOW_MS;
    if (series->source_count > 0) {
        series_candidates(daemon, series);
    }
    return true;
}

static int pack_points_question(const struct query_series *series, const struct series_source *source, uint8_t *out, size_t *count)
{
    struct levels_start *starts = malloc(LEVELS_STARTS_MAX * sizeof *starts);
    struct levels_question question = {.points = series->points,
                                       .width = source->width,
                                       .last_step = source->last_step,
                                       .shows_void = series->shows_void,
                                       .starts = starts};
    _Static_assert(POINTS_STARTS_MAX <= LEVELS_STARTS_MAX, "each known start fits");
    if (starts == NULL) {
        return ERR_MEMORY;
    }
    for (uint32_t i = 0; i < series->starts.count; i++) {
        const struct points_start *start = &series->starts.items[i];
        if (attempt_id_equal(&start->attempt, &source->attempt)) {
            starts[question.start_count++] = (struct levels_start){start->generation, start->step};
        }
    }
    int code = levels_question_pack(&question, out, LEVELS_QUESTION_BYTES, count);
    free(starts);
    return code;
}

/* Packs the question for the present source; `out` has LEVELS_QUESTION_BYTES. */
static int pack_question(struct query_series *series, const struct series_source *source, uint8_t *out, size_t *count)
{
    _Static_assert((int)LOG_QUESTION_BYTES < (int)LEVELS_QUESTION_BYTES, "one buffer does for both");
    *count = 0;
    if (!series_is_question(series)) {
        return 0;
    }
    if (series_is_points(series)) {
        return pack_points_question(series, source, out, count);
    }
    series->lines.is_last = !series->follow || series->source_at < series->over_count;
    return log_question_pack(&series->lines, out, LEVELS_QUESTION_BYTES, count);
}

static void series_ask(struct daemon *daemon, struct query_series *series)
{
    const struct series_source *source = &series->sources[series->source_at];
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX], question[LEVELS_QUESTION_BYTES];
    size_t bytes = daemon_series_prefix(series->kind, &source->attempt, source->number, prefix), question_bytes;
    series->request = ++daemon->request_id;
    int code = pack_question(series, source, question, &question_bytes);
    if (code == 0) {
        code = bulk_series_ask(daemon->bulk, series->request, prefix, bytes, source->from_seq, question, question_bytes,
                               series->candidates[series->candidate_at]);
    }
    if (code != 0) {
        series->request = 0;
        series->next_ms = daemon_now_ms() + LOG_FOLLOW_MS;
    }
}

/* Goes on to the next source. After the last source the stream ends, or goes on if the client follows. */
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
    bool is_pass_over = series->source_at == series->source_count && !series->is_looking;
    if (is_pass_over && series->follow &&
        (series_is_points(series) ? series_begin_pass(daemon, series, now_ms) : series_goes_on(daemon, series, now_ms))) {
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
        series_emit_end(daemon, client, series);
        series_free(daemon, series);
        return;
    }
    if (series->candidate_count == 0) {
        series_candidates(daemon, series);
    }
    if (series->candidate_at >= series->candidate_count && series->is_foreign) {
        client_reply_error(daemon, client, series->id, EXIT_REFUSED,
                           "Node %s is of an older version and cannot %s; ask without %s, or update it.",
                           render_node_label(daemon->core, series->foreign).text,
                           series_is_points(series) ? "sum points up" : "choose lines of a log",
                           series_is_points(series) ? "--points" : "--grep, --since and --tail");
        series_free(daemon, series);
        return;
    }
    if (series->candidate_at >= series->candidate_count) {
        if (series->was_missed) {
            series_miss(daemon, series);
        }
        if (series->is_chosen) {
            series_let_go(daemon, client, series, &series->sources[series->source_at]);
        }
        series->source_at++;
        series->candidate_count = 0;
        return;
    }
    series_ask(daemon, series);
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
    struct series_source *source = &series->sources[series->source_at];
    if (event->code == 0 && event->item_count > 0) {
        series_take_items(daemon, client, series, source, event);
    }
    if (event->code == ERR_VERSION) {
        series->is_foreign = true;
        series->foreign = series->candidates[series->candidate_at];
    }
    if (event->code == 0 && event->more) {
        return; /* the same candidate goes on */
    }
    bool from_owner = node_id_equal(series->candidates[series->candidate_at], source->owner);
    if (event->code == 0 && (series->got_any || from_owner)) {
        if (series->is_chosen) {
            series_let_go(daemon, client, series, source);
        }
        series->source_at++;
        series->candidate_count = 0;
    } else { /* the next candidate goes on where the last one ended */
        series->was_missed |= event->code != 0;
        series->was_cut |= event->code != 0 && series->got_any;
        series->got_any = false;
        series->candidate_at++;
    }
}

/* False: the trial has had no such attempt, or nothing of it began; this is answered. */
static bool has_log(struct daemon *daemon, const struct client_request *request, const struct view_trial *trial, uint64_t index,
                    uint64_t number)
{
    bool is_known = false, may_have = false;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        bool is_it = a->assigned && a->id.number == number;
        is_known |= is_it;
        may_have |= is_it && (series_has_begun(a) || view_attempt_verdict(a) == NULL);
    }
    if (may_have) {
        return true;
    }
    if (is_known) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Attempt %llu of trial %llu has no log: none of its workers began.", (unsigned long long)number,
                           (unsigned long long)index);
        return false;
    }
    const struct attempt_numbers had = series_attempts_of(trial);
    char list[SERIES_ATTEMPTS_MAX * 12 + 8] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < had.count; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%llu", i > 0 ? ", " : had.has_more ? "..., " : "",
                                 (unsigned long long)had.numbers[i]);
    }
    client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND, "Trial %llu has had no attempt %llu%s%s.",
                       (unsigned long long)index, (unsigned long long)number, had.count > 0 ? ", but these: " : ", and no other one",
                       list);
    return false;
}

/* Reads which lines of a log are wanted. False: an argument is wrong; this is answered. */
static bool read_lines(struct daemon *daemon, const struct client_request *request, struct query_series *out)
{
    struct pack_reader value = pack_find(&request->map, "pattern");
    size_t bytes;
    const char *text = pack_read_text(&value, &bytes), *wrong = NULL;
    struct log_question *lines = &out->lines;
    bool has_since = client_argument_u64(request, "since_ms", &lines->since_ms);
    bool has_tail = client_argument_u64(request, "tail", &lines->tail);
    out->is_chosen = !value.failed || has_since || has_tail;
    if (has_tail && (lines->tail == 0 || lines->tail > LOG_TAIL_MAX)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "`tail` is %llu; it has to be 1 to %d lines.",
                           (unsigned long long)lines->tail, LOG_TAIL_MAX);
        return false;
    }
    struct pattern *pattern = value.failed ? NULL : malloc(sizeof *pattern);
    if (!value.failed) {
        wrong = pattern != NULL ? pattern_compile(pattern, text, bytes) : "no memory is left";
    }
    free(pattern);
    if (wrong != NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The pattern '%.*s' cannot be used: %s.",
                           bytes < 80 ? (int)bytes : 80, text, wrong);
        return false;
    }
    if (!value.failed) {
        memcpy(lines->pattern, text, bytes);
        lines->pattern_bytes = bytes;
    }
    return true;
}

/* Reads into how many points series are to be summed up. False: the number is wrong; this is answered. */
static bool read_points(struct daemon *daemon, const struct client_request *request, struct query_series *out)
{
    bool has_points = client_argument_u64(request, "points", &out->points);
    out->shows_void = request_flag(&request->map, "void");
    (void)client_argument_u64(request, "since_ms", &out->since_ms);
    if (has_points && (out->follow || out->since_ms != 0)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "`points` asks for sums over whole attempts, and goes with neither `follow` nor `since_ms`.");
        return false;
    }
    if (has_points && (out->points == 0 || out->points > LEVELS_POINTS_MAX)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "`points` is %llu; it has to be 1 to %d.",
                           (unsigned long long)out->points, LEVELS_POINTS_MAX);
        return false;
    }
    return true;
}

static void follow_metrics(struct daemon *daemon, struct client *client, struct query_series *series)
{
    daemon->api->series = series;
    series_emit_nothing(daemon, client, series);
    (void)series_begin_pass(daemon, series, daemon_now_ms());
    series->is_looking = series->starts.count > 0;
}

void query_series_request(struct daemon *daemon, struct client_request *request, int kind)
{
    struct view_experiment *experiment;
    if (!client_argument_experiment(daemon, request, &experiment)) {
        return;
    }
    uint64_t trial = 0, rank = 0, attempt = 0;
    bool one_trial = client_argument_u64(request, "trial", &trial);
    bool one_rank = client_argument_u64(request, "rank", &rank);
    bool one_attempt = kind == 'l' && client_argument_u64(request, "attempt", &attempt);
    bool all_attempts = kind == 'l' && !one_attempt && request_flag(&request->map, "all_attempts");
    if (kind != 'm' && kind != 'n' && !one_trial) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "The request names no trial; give its index.");
        return;
    }
    if (one_trial && trial >= experiment->trial_count) {
        query_reply_no_trial(daemon, request, experiment, trial);
        return;
    }
    if (one_attempt && !has_log(daemon, request, view_find_trial(experiment, (uint32_t)trial), trial, attempt)) {
        return;
    }
    if (kind == 'l' && daemon_logs_expired(daemon, experiment)) {
        char keep[UNITS_BYTES];
        units_write_time(keep, experiment->config->logs_keep_s);
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "The logs of %s are gone: its logs.keep is %s, and it ended longer ago. Pinned experiments keep theirs.",
                           experiment->config->name, keep);
        return;
    }
    struct query_series *series = calloc(1, sizeof *series);
    if (series == NULL) {
        return;
    }
    *series = (struct query_series){.serial = request->client->serial,
                                     .id = request->id,
                                     .kind = kind == 'm' && request_flag(&request->map, "profile") ? 's' : (char)kind,
                                     .follow = (kind == 'l' || kind == 'm') && request_flag(&request->map, "follow"),
                                     .all_trials = !one_trial,
                                     .experiment = experiment->id,
                                     .trial = (uint32_t)trial,
                                     .attempt = attempt,
                                     .only = one_rank && rank < UINT32_MAX ? (uint32_t)rank : UINT32_MAX,
                                     .next = daemon->api->series};
    if (kind == 'm' ? !read_points(daemon, request, series) : kind == 'l' && !read_lines(daemon, request, series)) {
        free(series);
        return;
    }
    if (kind == 'm' && series->follow) {
        follow_metrics(daemon, request->client, series);
        return;
    }
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *row = experiment->trials[i];
        if (row == NULL || (one_trial && row->index != trial)) {
            continue;
        }
        const struct view_attempt *newest = view_trial_highest(row);
        for (const struct view_attempt *a = row->attempts; kind == 'l' && a != NULL; a = a->next) {
            if (all_attempts || (one_attempt ? a->id.number == attempt : a == newest)) {
                series_add_workers(series, row, a, series->only);
            }
        }
        const struct view_attempt *failed = NULL;
        const struct view_worker *tail = kind == 't' ? render_tail_worker(daemon->core, row, &failed) : NULL;
        if (tail != NULL) {
            (void)series_add(series, row, failed, tail->number, tail->writer);
        }
        const struct view_attempt *shown = kind == 'e' ? render_shown_attempt(row) : NULL;
        if (shown != NULL && shown->assigned && shown->first_count > 0) {
            (void)series_add(series, row, shown, 0, shown->first[0].node);
        }
        for (const struct view_attempt *a = row->attempts; kind == 'n' && a != NULL; a = a->next) {
            series_add_workers(series, row, a, UINT32_MAX);
        }
        for (const struct view_attempt *a = row->attempts; kind == 'm' && a != NULL; a = a->next) {
            series_add_workers(series, row, a, UINT32_MAX);
            if (a->generation > 1 && series->kind == 'm') {
                series->is_looking = true;
                points_add(&series->starts, &a->id, a->generation, a->group_step);
            }
        }
    }
    bool waits = series->follow && series_attempts_of(view_find_trial(experiment, series->trial)).count == 0 && !trial_is_over(daemon, series);
    if (waits) {
        series_emit_waiting(daemon, request, experiment, series->trial);
    } else if (kind == 'l' && series->source_count == 0) {
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
