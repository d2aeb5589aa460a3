#include "node/daemon/render/calendar.h"

#include <stdlib.h>
#include <string.h>

#include "node/core/view/view.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/render.h"

/* ---- spans ----------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct calendar_span *one = a, *two = b;
    int order = memcmp(one->node.bytes, two->node.bytes, sizeof one->node.bytes);
    if (order != 0 || one->slot != two->slot) {
        return order != 0 ? order : one->slot < two->slot ? -1 : 1;
    }
    if (one->from_s != two->from_s) {
        return one->from_s < two->from_s ? -1 : 1;
    }
    if (one->until_s != two->until_s || one->is_open != two->is_open) { /* several in one second */
        return one->until_s < two->until_s || (one->until_s == two->until_s && two->is_open) ? -1 : 1;
    }
    order = memcmp(one->experiment.bytes, two->experiment.bytes, sizeof one->experiment.bytes);
    return order != 0 ? order : one->trial < two->trial ? -1 : one->trial > two->trial;
}

static bool is_one(const struct calendar_span *before, const struct calendar_span *next, uint64_t gap_s)
{
    return memcmp(before->node.bytes, next->node.bytes, sizeof next->node.bytes) == 0 && before->slot == next->slot &&
           memcmp(before->experiment.bytes, next->experiment.bytes, sizeof next->experiment.bytes) == 0 &&
           next->from_s <= before->until_s + gap_s;
}

uint32_t calendar_unite(struct calendar_span *spans, uint32_t count, uint64_t gap_s)
{
    uint32_t left = 0;
    qsort(spans, count, sizeof *spans, by_place);
    for (uint32_t i = 0; i < count; i++) {
        struct calendar_span *before = left > 0 ? &spans[left - 1] : NULL;
        if (before == NULL || !is_one(before, &spans[i], gap_s)) {
            spans[left++] = spans[i];
            continue;
        }
        before->until_s = spans[i].until_s > before->until_s ? spans[i].until_s : before->until_s;
        before->trials += spans[i].trials;
        before->is_open |= spans[i].is_open;
    }
    return left;
}

/* ---- from records ---------------------------------------------------------------------------------------------- */

struct gathering {
    const struct node_core *core;
    const struct calendar_window *window;
    struct calendar_span *spans;
    uint32_t count, read;
    bool cut;
};

static const struct fact_place *place_in(const struct fact_place *places, uint32_t count,
                                         const struct view_worker *worker)
{
    for (uint32_t i = 0; i < count; i++) {
        if (places[i].number == worker->number && node_id_equal(places[i].node, worker->writer)) {
            return &places[i];
        }
    }
    return NULL;
}

/* The worker's slot, by the groups that name the worker; NULL: none does. */
static const struct fact_place *place_of(const struct view_attempt *attempt, const struct view_worker *worker)
{
    const struct fact_place *place = place_in(attempt->first, attempt->first_count, worker);
    for (const struct view_group *group = attempt->groups; place == NULL && group != NULL; group = group->next) {
        place = place_in(group->places, group->member_count + group->joiner_count, worker);
    }
    return place;
}

/* When the worker ended; the present where it has not. Of a lost worker nobody knows: its attempt's verdict tells. */
static uint64_t end_of(const struct gathering *into, const struct view_attempt *attempt,
                       const struct fact_worker *worker, bool *is_open)
{
    const struct view_verdict *row = view_attempt_verdict(attempt);
    const struct records_entry *entry = row != NULL ? records_find(node_core_records(into->core), row->ident) : NULL;
    struct fact_verdict verdict;
    if (worker->state == FACT_WORKER_ENDED && worker->ended_s > 0) {
        return worker->ended_s;
    }
    if (entry != NULL && fact_verdict_read(&entry->record, &verdict) == 0) {
        return worker->started_s + verdict.duration_s;
    }
    *is_open = worker->state != FACT_WORKER_ENDED;
    return *is_open && into->window->now_s > worker->started_s ? into->window->now_s : worker->started_s;
}

static void take_worker(struct gathering *into, const struct view_experiment *experiment, uint32_t trial,
                        const struct view_attempt *attempt, const struct view_worker *row)
{
    const struct records_entry *entry = records_find(node_core_records(into->core), row->ident);
    const struct fact_place *place = place_of(attempt, row);
    struct fact_worker worker;
    into->read++;
    if (entry == NULL || place == NULL || fact_worker_read(&entry->record, &worker) != 0 || worker.started_s == 0) {
        return;
    }
    struct calendar_span span = {.node = row->writer,
                                 .slot = place->slot,
                                 .experiment = experiment->id,
                                 .from_s = worker.started_s,
                                 .trial = trial,
                                 .trials = 1};
    span.until_s = end_of(into, attempt, &worker, &span.is_open);
    span.until_s = span.until_s < span.from_s ? span.from_s : span.until_s;
    if (span.until_s >= into->window->from_s && span.from_s <= into->window->until_s) {
        into->spans[into->count++] = span;
    }
}

/* The newest trials first, so that the oldest are missing where there are too many. */
static void take_experiment(struct gathering *into, const struct view_experiment *experiment)
{
    for (uint32_t i = experiment->trial_slots; i-- > 0 && !into->cut;) {
        const struct view_trial *trial = experiment->trials[i];
        const struct view_attempt *attempt = trial != NULL ? trial->attempts : NULL;
        for (; attempt != NULL && !into->cut; attempt = attempt->next) {
            for (const struct view_worker *row = attempt->workers; row != NULL && !into->cut; row = row->next) {
                into->cut = into->read == CALENDAR_WORKERS_MAX;
                if (!into->cut) {
                    take_worker(into, experiment, i, attempt, row);
                }
            }
        }
    }
}

static int newest_first(const void *a, const void *b)
{
    const struct view_experiment *one = *(const struct view_experiment *const *)a,
                                 *two = *(const struct view_experiment *const *)b;
    if (one->submitted_s != two->submitted_s) {
        return one->submitted_s > two->submitted_s ? -1 : 1;
    }
    return memcmp(one->id.bytes, two->id.bytes, sizeof one->id.bytes);
}

static void gather(struct gathering *into)
{
    const struct view *view = node_core_view(into->core);
    const struct view_experiment **sorted =
        malloc((view->experiment_count + 1) * sizeof(const struct view_experiment *));
    uint32_t count = 0;
    if (sorted == NULL) {
        into->cut = true;
        return;
    }
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        if (experiment->known && experiment->submitted_s <= into->window->until_s) {
            sorted[count++] = experiment;
        }
    }
    qsort(sorted, count, sizeof(const struct view_experiment *), newest_first);
    for (uint32_t i = 0; i < count && !into->cut; i++) {
        take_experiment(into, sorted[i]);
    }
    free(sorted);
}

/* ---- the document ---------------------------------------------------------------------------------------------- */

static void put_span(const struct node_core *core, const struct calendar_span *span, msgpack_packer *packer)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(core), span->experiment);
    (void)msgpack_pack_map(packer, 10);
    render_put_string(packer, "node");
    render_put_node_id(packer, span->node);
    render_put_text(packer, "node_label", render_node_label(core, span->node).text);
    render_put_u64(packer, "index", span->slot);
    render_put_string(packer, "experiment");
    render_put_experiment_id(packer, span->experiment);
    render_put_text(packer, "name", experiment != NULL && experiment->known ? experiment->config->name : "?");
    render_put_u64(packer, "trial", span->trial);
    render_put_u64(packer, "workers", span->trials);
    render_put_u64(packer, "from_s", span->from_s);
    render_put_u64(packer, "until_s", span->until_s);
    render_put_bool(packer, "open", span->is_open);
}

void render_calendar(const struct node_core *core, const struct calendar_window *window, struct calendar_span *spans,
                     struct pack_writer *frame)
{
    struct gathering into = {.core = core, .window = window, .spans = spans};
    msgpack_packer packer = render_packer(frame);
    gather(&into);
    uint32_t count = calendar_unite(spans, into.count, window->gap_s);
    bool is_cut = into.cut;
    render_put_string(&packer, "calendar");
    struct render_list list = render_list_open(&packer);
    for (uint32_t i = 0; i < count && list.count < CALENDAR_SPANS_MAX; i++) {
        put_span(core, &spans[i], &packer);
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    is_cut |= list.count < count;
    render_put_u64(&packer, "from_s", window->from_s);
    render_put_u64(&packer, "until_s", window->until_s);
    render_put_bool(&packer, "cut", is_cut);
}
