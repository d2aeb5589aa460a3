/* The requests metrics, logs, tail and platform. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "node/daemon/api/query.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/points.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"
#include "node/series/levels.h"
#include "node/series/log_search.h"

#define LOG_FOLLOW_MS 500
#define REPLY_POINTS_BYTES (512u << 10) /* of points in one answer, and one more */
#define HELD_BYTES_MAX (4u << 20) /* of the last lines of a log, kept until the log's end is known */

/* A worker whose series are read. */
struct source {
    attempt_id attempt;
    uint32_t number; /* the worker's first rank, or its rank when it joined */
    uint32_t local_rank; /* then, among the workers on its node */
    node_id owner;
    uint64_t from_seq;
    uint64_t log_at; /* a log: its byte behind what was sent, or is known to be gone */
    uint64_t last_step; /* metrics only: later steps were made anew by a later attempt; UINT64_MAX: none were */
    uint64_t width; /* `points` only: entries of a bucket, once the holder has chosen them */
    bool has_tail;  /* `tail` only: the last lines that there were have been sent */
    bool is_silent; /* nothing is missed: metrics of a worker that never was rank 0 (rank 0 reports for all), or a tail, of
                       which the worker's record has the end */
};

#define CANDIDATES_MAX 8
#define MISSED_MAX 8 /* most missed nodes that the answer names */
#define ATTEMPTS_MAX 32 /* most attempts that the answer names */

/* Reads one series after another, each from the node that ran the worker if the node lives, else from a node with a
 * copy. */
struct query_series {
    struct query_series *next;
    uint64_t serial, id;
    char kind;
    bool follow;
    experiment_id experiment;
    uint32_t trial;
    uint64_t points; /* metrics: into so many buckets each attempt's points are summed up; 0: each point is sent */
    bool shows_void; /* `points` only */
    bool is_chosen;  /* a log: the holder chooses lines */
    struct log_question lines;
    char *held; /* `tail` only: the last lines of the present source so far */
    size_t held_bytes;
    bool is_foreign; /* a candidate for the present source is of a version that cannot answer */
    node_id foreign;
    uint32_t only; /* a log: the worker of this number; UINT32_MAX: all */
    uint64_t attempt; /* a log: the attempts of this number; 0: the newest, and with `follow` those that begin later */
    struct source *sources;
    uint32_t source_count, source_at;
    uint64_t shown;   /* a log: the number of the attempt whose output was sent last; 0: none was */
    uint32_t newest; /* the highest number of an attempt of which there was a source */
    node_id candidates[CANDIDATES_MAX];
    uint32_t candidate_count, candidate_at;
    uint64_t request; /* number of the bulk request under way; 0: none */
    uint64_t next_ms;
    bool got_any;    /* the present candidate has sent entries of the present source */
    bool was_missed; /* a candidate for the present source did not answer */
    bool was_cut;    /* a candidate for the present source stopped answering after some entries */
    node_id missed[MISSED_MAX];
    uint32_t missed_count; /* nodes that ran a source of which entries may be missing, and that may come back */
    node_id lost[MISSED_MAX];
    uint32_t lost_count; /* nodes that ran a source of which nothing was found, and that do not come back */
    uint32_t over_count; /* `follow`: the first so many sources are of attempts that are over, and are read for the last time */
    uint32_t missed_for_good; /* the first so many of `missed` ran such sources */
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

/* The step from which the attempt goes on. UINT64_MAX: it begins with files of its program's, which do not tell the step. */
static uint64_t begins_at(const struct view_trial *trial, const struct view_attempt *attempt)
{
    if (attempt->start_step > 0 || attempt->beginning_count == 0) {
        return attempt->start_step;
    }
    for (const struct view_output *output = trial->outputs; output != NULL; output = output->next) {
        for (uint32_t i = 0; i < attempt->beginning_count; i++) {
            if (hash256_equal(output->fact.blob, attempt->beginnings[i].blob) && output->fact.saved.step > 0) {
                return output->fact.saved.step;
            }
        }
    }
    return UINT64_MAX;
}

/* The last step of the attempt from which a later one went on; UINT64_MAX: no later attempt has begun, or none that tells. */
static uint64_t last_step_of(const struct view_trial *trial, const struct view_attempt *attempt)
{
    uint64_t last = UINT64_MAX;
    for (const struct view_attempt *later = attempt->next; later != NULL; later = later->next) {
        uint64_t step = has_begun(later) ? begins_at(trial, later) : UINT64_MAX;
        last = step < last ? step : last;
    }
    return last;
}

static bool find_place(const struct fact_place *places, uint32_t count, uint32_t number, node_id node, uint32_t *local_rank)
{
    *local_rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (places[i].number == number && node_id_equal(places[i].node, node)) {
            return true;
        }
        *local_rank += node_id_equal(places[i].node, node);
    }
    return false;
}

/* LOCAL_RANK of the worker at its start. */
static uint32_t local_rank_of(const struct view_attempt *attempt, uint32_t number, node_id node)
{
    uint32_t local_rank;
    bool is_found = find_place(attempt->first, attempt->first_count, number, node, &local_rank);
    for (const struct view_group *group = attempt->groups; !is_found && group != NULL; group = group->next) {
        is_found = find_place(group->places, group->member_count, number, node, &local_rank);
    }
    return is_found ? local_rank : 0;
}

static bool series_add(struct query_series *series, const struct view_trial *trial, const struct view_attempt *attempt, uint32_t number,
                       node_id owner)
{
    struct source *bigger = realloc(series->sources, (series->source_count + 1) * sizeof *bigger);
    if (bigger == NULL) {
        return false;
    }
    series->sources = bigger;
    series->newest = attempt->id.number > series->newest ? attempt->id.number : series->newest;
    bigger[series->source_count++] =
        (struct source){.attempt = attempt->id,
                        .number = number,
                        .local_rank = local_rank_of(attempt, number, owner),
                        .owner = owner,
                        .last_step = series->kind == 'm' ? last_step_of(trial, attempt) : UINT64_MAX,
                        .is_silent = series->kind == 't' || series->kind == 'e' || (series->kind == 'm' && !was_rank_0(attempt, number, owner))};
    return true;
}

/* Adds one worker of the attempt, or all: the first workers and the workers that have joined since. Metrics come from
 * rank 0, and only in a changed group can rank 0 have been another worker. */
static void series_add_workers(struct query_series *series, const struct view_trial *trial, const struct view_attempt *attempt,
                               uint32_t only)
{
    for (uint32_t number = 0; attempt->assigned && number < attempt->first_count; number++) {
        bool is_wanted = series->kind == 'l' || number == 0 || attempt->groups != NULL;
        if (is_wanted && (only == UINT32_MAX || number == only)) {
            (void)series_add(series, trial, attempt, number, attempt->first[number].node);
        }
    }
    for (const struct view_worker *worker = attempt->workers; worker != NULL && attempt->assigned; worker = worker->next) {
        if (worker->number >= attempt->first_count && (only == UINT32_MAX || worker->number == only)) {
            (void)series_add(series, trial, attempt, worker->number, worker->writer);
        }
    }
}

static void series_candidates(const struct daemon *daemon, struct query_series *series)
{
    const struct source *source = &series->sources[series->source_at];
    series->candidate_count = 0;
    series->candidate_at = 0;
    series->got_any = series->was_cut = series->is_foreign = false;
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

static void add_node(node_id list[MISSED_MAX], uint32_t *count, node_id node)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (node_id_equal(list[i], node)) {
            return;
        }
    }
    if (*count < MISSED_MAX) {
        list[(*count)++] = node;
    }
}

/* Notes that entries of the present source may be missing: no node that answers may have all of them. (Perhaps there
 * never were any; this cannot be known.) A node that left or is out brings nothing more: what it alone had is lost. A
 * following client has read the earlier entries already. */
static void series_miss(const struct daemon *daemon, struct query_series *series)
{
    const struct source *source = &series->sources[series->source_at];
    const struct view_member *member = view_find_member(node_core_view(daemon->core), source->owner);
    bool is_awaited = member != NULL && member->admitted && !member->left;
    if (source->is_silent || (source->from_seq > 0 && !series->was_cut)) {
        return;
    }
    if (is_awaited) {
        add_node(series->missed, &series->missed_count, source->owner);
        series->missed_for_good = series->source_at < series->over_count ? series->missed_count : series->missed_for_good;
    } else if (series->kind == 'l' && source->from_seq == 0) {
        add_node(series->lost, &series->lost_count, source->owner);
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

/* The numbers of the attempts that a trial has had, each once: the last ATTEMPTS_MAX. */
struct attempt_numbers {
    uint64_t numbers[ATTEMPTS_MAX];
    uint32_t count;
    bool has_more; /* there were earlier ones */
};

static struct attempt_numbers attempts_of(const struct view_trial *trial)
{
    struct attempt_numbers had = {.count = 0};
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        if (!a->assigned || (had.count > 0 && had.numbers[had.count - 1] == a->id.number)) {
            continue;
        }
        if (had.count == ATTEMPTS_MAX) {
            memmove(had.numbers, had.numbers + 1, --had.count * sizeof *had.numbers);
            had.has_more = true;
        }
        had.numbers[had.count++] = a->id.number;
    }
    return had;
}

static const struct view_trial *trial_of(const struct daemon *daemon, const struct query_series *series)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), series->experiment);
    return experiment != NULL ? view_find_trial(experiment, series->trial) : NULL;
}

static void series_end(struct daemon *daemon, struct client *client, const struct query_series *series)
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
        const struct attempt_numbers had = attempts_of(trial_of(daemon, series));
        pack_text(&reply.writer, "attempts");
        pack_array(&reply.writer, had.count);
        for (uint32_t i = 0; i < had.count; i++) {
            pack_u64(&reply.writer, had.numbers[i]);
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
    const struct view_trial *trial = trial_of(daemon, series);
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        is_open |= a->assigned && a->id.number == series->attempt && view_attempt_verdict(a) == NULL;
    }
    return (series->attempt != 0 && !is_open) || trial_is_over(daemon, series);
}

/* Adds the workers of the attempts that have begun since, in their order. */
static void series_add_later(const struct daemon *daemon, struct query_series *series)
{
    const struct view_trial *trial = trial_of(daemon, series);
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

/* The holder makes the answer: sums, or lines that it chooses. */
static bool is_question(const struct query_series *series)
{
    return (series->points > 0 && !series->is_looking) || series->is_chosen;
}

static int pack_points_question(const struct query_series *series, const struct source *source, uint8_t *out, size_t *count)
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
static int pack_question(struct query_series *series, const struct source *source, uint8_t *out, size_t *count)
{
    _Static_assert((int)LOG_QUESTION_BYTES < (int)LEVELS_QUESTION_BYTES, "one buffer does for both");
    *count = 0;
    if (!is_question(series)) {
        return 0;
    }
    if (series->kind == 'm') {
        return pack_points_question(series, source, out, count);
    }
    series->lines.is_last = !series->follow || series->source_at < series->over_count;
    return log_question_pack(&series->lines, out, LEVELS_QUESTION_BYTES, count);
}

static void series_ask(struct daemon *daemon, struct query_series *series)
{
    const struct source *source = &series->sources[series->source_at];
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

static void let_go(struct daemon *daemon, struct client *client, struct query_series *series, struct source *source);

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
    if (series->source_at == series->source_count && series->follow && series_goes_on(daemon, series, now_ms)) {
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
    if (series->candidate_at >= series->candidate_count && series->is_foreign) {
        client_reply_error(daemon, client, series->id, EXIT_REFUSED,
                           "Node %s is of an older version and cannot %s; ask without %s, or update it.",
                           render_node_label(daemon->core, series->foreign).text,
                           series->kind == 'm' ? "sum points up" : "choose lines of a log",
                           series->kind == 'm' ? "--points" : "--grep, --since and --tail");
        series_free(daemon, series);
        return;
    }
    if (series->candidate_at >= series->candidate_count) {
        if (series->was_missed) {
            series_miss(daemon, series);
        }
        if (series->is_chosen) {
            let_go(daemon, client, series, &series->sources[series->source_at]);
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

static void emit_sums(struct daemon *daemon, struct client *client, struct query_series *series, struct source *source,
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

/* Finds why the attempt before the given one ended. False: there was none, or it is not known to have ended. */
static bool find_before(const struct daemon *daemon, const struct query_series *series, const attempt_id *id, uint32_t *number,
                        char reason[RENDER_REASON_BYTES])
{
    const struct view_trial *trial = trial_of(daemon, series);
    const struct view_attempt *before = NULL;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL && a->id.number < id->number; a = a->next) {
        before = a->assigned ? a : before;
    }
    *number = before != NULL ? before->id.number : 0;
    return before != NULL && render_attempt_reason(daemon->core, before, reason);
}

/* `dropped`: so many bytes before these are not kept. */
static void emit_log(struct daemon *daemon, struct client *client, struct query_series *series, const struct source *source,
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

/* ---- the last lines of a log ---- */

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

/* The end of the present source is reached: sends the lines that are held. What comes later is sent as it comes. */
static void let_go(struct daemon *daemon, struct client *client, struct query_series *series, struct source *source)
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

static void emit_lines(struct daemon *daemon, struct client *client, struct query_series *series, struct source *source,
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
static void emit_begin(struct daemon *daemon, struct client *client, struct query_series *series, struct source *source,
                       const struct bulk_event *event)
{
    bool is_first = source->log_at == 0;
    source->log_at = event->items[event->item_count - 1].sequence;
    if (is_first && event->item_count > 1 && event->items[0].count == 0 && event->items[0].sequence > 0) {
        emit_log(daemon, client, series, source, &(struct bulk_item){.bytes = (const uint8_t *)""}, event->items[0].sequence);
    }
}

/* A piece of a log: its number is the byte that it ends before. */
static void emit_piece(struct daemon *daemon, struct client *client, struct query_series *series, struct source *source,
                       const struct bulk_item *item)
{
    uint64_t begin = item->count <= item->sequence ? item->sequence - item->count : 0;
    uint64_t dropped = series->kind == 'l' && begin > source->log_at ? begin - source->log_at : 0;
    source->log_at = item->sequence;
    emit_log(daemon, client, series, source, item, dropped);
}

/* Takes entries of the present source. */
static void take_items(struct daemon *daemon, struct client *client, struct query_series *series, struct source *source,
                       const struct bulk_event *event)
{
    uint64_t last = event->items[event->item_count - 1].sequence;
    if (is_question(series)) {
        series->got_any |= last > source->from_seq;
        source->from_seq = last;
        if (series->kind == 'm') {
            emit_sums(daemon, client, series, source, event);
        } else {
            emit_begin(daemon, client, series, source, event);
            emit_lines(daemon, client, series, source, event);
        }
        return;
    }
    series->got_any = true;
    source->from_seq = last + 1;
    if (series->kind == 'm') {
        emit_points(daemon, client, series, source, event);
    }
    for (uint32_t i = 0; series->kind != 'm' && i < event->item_count; i++) {
        emit_piece(daemon, client, series, source, &event->items[i]);
    }
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
        take_items(daemon, client, series, source, event);
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
            let_go(daemon, client, series, source);
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
        may_have |= is_it && (has_begun(a) || view_attempt_verdict(a) == NULL);
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
    const struct attempt_numbers had = attempts_of(trial);
    char list[ATTEMPTS_MAX * 12 + 8] = "";
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

/* A client follows a trial that has no attempt yet: the stream waits for one, and begins with the reason why the trial waits. */
static void emit_waiting(struct daemon *daemon, const struct client_request *request, const struct view_experiment *experiment,
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
    if (has_points && (out->points == 0 || out->points > LEVELS_POINTS_MAX)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE, "`points` is %llu; it has to be 1 to %d.",
                           (unsigned long long)out->points, LEVELS_POINTS_MAX);
        return false;
    }
    return true;
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
    if (kind != 'm' && !one_trial) {
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
                                     .kind = (char)kind,
                                     .follow = kind == 'l' && request_flag(&request->map, "follow"),
                                     .experiment = experiment->id,
                                     .trial = (uint32_t)trial,
                                     .attempt = attempt,
                                     .only = one_rank && rank < UINT32_MAX ? (uint32_t)rank : UINT32_MAX,
                                     .next = daemon->api->series};
    if (kind == 'm' ? !read_points(daemon, request, series) : kind == 'l' && !read_lines(daemon, request, series)) {
        free(series);
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
        for (const struct view_attempt *a = row->attempts; kind == 'm' && a != NULL; a = a->next) {
            series_add_workers(series, row, a, UINT32_MAX);
            if (a->generation > 1) {
                series->is_looking = true;
                points_add(&series->starts, &a->id, a->generation, a->group_step);
            }
        }
    }
    bool waits = series->follow && attempts_of(view_find_trial(experiment, series->trial)).count == 0 && !trial_is_over(daemon, series);
    if (waits) {
        emit_waiting(daemon, request, experiment, series->trial);
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
