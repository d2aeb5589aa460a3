#include "node/daemon/render/curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/daemon/render/put.h"
#include "node/daemon/render/render.h"
#include "node/daemon/render/rows.h"

#define STANDSTILL_MS 15000 /* a worker's record shows progress at most every 2 s, and a slow step may take some seconds */
#define RATE_SPAN_MS 1000   /* shorter spans tell nothing */

struct curves_experiment {
    experiment_id id;
    uint32_t slots;
    struct curve **trials; /* [slots], by index; NULL: no curve */
};

struct curves {
    struct curves_experiment *experiments;
    uint32_t count, capacity;
    uint32_t curve_count;
};

/* ---- one trial ---------------------------------------------------------------------------------------------------- */

static bool is_better(double value, double than, bool smaller_is_better)
{
    return smaller_is_better ? value < than : value > than;
}

static void note_best(struct curve *curve, struct curve_point point, bool smaller_is_better)
{
    if (!curve->has_best || is_better(point.value, curve->best.value, smaller_is_better)) {
        curve->has_best = true;
        curve->best = point;
    }
}

static void thin_out(struct curve *curve)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < curve->count; i += 2) {
        curve->points[kept++] = curve->points[i];
    }
    curve->count = kept;
    curve->every *= 2;
}

void curve_add(struct curve *curve, uint64_t step, double value, bool smaller_is_better)
{
    const struct curve_point point = {step, value};
    if (!isfinite(value)) {
        return;
    }
    curve->every = curve->every == 0 ? 1 : curve->every;
    bool stays = curve->count == 0 || curve->since >= curve->every; /* the last point stays, the new one comes behind it */
    if (stays && curve->count == CURVE_POINTS_MAX) {
        thin_out(curve);
    }
    if (stays) {
        curve->points[curve->count++] = point;
        curve->since = 1;
    } else {
        curve->points[curve->count - 1] = point;
        curve->since++;
    }
    note_best(curve, point, smaller_is_better);
}

void curve_take_back(struct curve *curve, uint64_t step, bool smaller_is_better)
{
    bool is_best_gone = curve->has_best && curve->best.step > step;
    while (curve->count > 0 && curve->points[curve->count - 1].step > step) {
        curve->count--;
        curve->since = curve->every;
    }
    curve->has_best &= !is_best_gone;
    for (uint32_t i = 0; is_best_gone && i < curve->count; i++) {
        note_best(curve, curve->points[i], smaller_is_better);
    }
}

void curve_note_step(struct curve *curve, uint64_t now_ms, uint64_t step)
{
    uint32_t count = curve->sample_count;
    curve->now_ms = now_ms;
    if (count > 0 && curve->samples[count - 1].step == step) {
        return;
    }
    if (count > 0 && curve->samples[count - 1].step > step) {
        count = 0;
    }
    if (count == CURVE_SAMPLES_MAX) {
        count--;
        memmove(curve->samples, curve->samples + 1, count * sizeof curve->samples[0]);
    }
    curve->samples[count].ms = now_ms;
    curve->samples[count].step = step;
    curve->sample_count = count + 1;
}

double curve_rate(const struct curve *curve)
{
    /* Before the first step a program reads its data: that time says nothing of its speed. */
    uint32_t first = curve->sample_count > 0 && curve->samples[0].step == curve->start_step ? 1 : 0;
    if (!curve->runs || curve->sample_count < first + 2) {
        return 0;
    }
    uint64_t last_ms = curve->samples[curve->sample_count - 1].ms, first_ms = curve->samples[first].ms;
    uint64_t until_ms = curve->now_ms > last_ms + STANDSTILL_MS ? curve->now_ms : last_ms;
    uint64_t steps = curve->samples[curve->sample_count - 1].step - curve->samples[first].step;
    return until_ms - first_ms < RATE_SPAN_MS ? 0 : 1000.0 * (double)steps / (double)(until_ms - first_ms);
}

/* ---- all trials ---------------------------------------------------------------------------------------------------- */

struct curves *curves_new(void)
{
    return calloc(1, sizeof(struct curves));
}

static void forget(struct curves *curves, uint32_t at)
{
    struct curves_experiment *experiment = &curves->experiments[at];
    for (uint32_t i = 0; i < experiment->slots; i++) {
        curves->curve_count -= experiment->trials[i] != NULL;
        free(experiment->trials[i]);
    }
    free(experiment->trials);
    memmove(experiment, experiment + 1, (curves->count - at - 1) * sizeof *experiment);
    curves->count--;
}

void curves_free(struct curves *curves)
{
    while (curves != NULL && curves->count > 0) {
        forget(curves, curves->count - 1);
    }
    if (curves != NULL) {
        free(curves->experiments);
    }
    free(curves);
}

static struct curves_experiment *find(const struct curves *curves, experiment_id id)
{
    for (uint32_t i = 0; i < curves->count; i++) {
        if (experiment_id_equal(curves->experiments[i].id, id)) {
            return &curves->experiments[i];
        }
    }
    return NULL;
}

const struct curve *curves_find(const struct curves *curves, experiment_id experiment, uint32_t trial)
{
    const struct curves_experiment *found = find(curves, experiment);
    return found != NULL && trial < found->slots ? found->trials[trial] : NULL;
}

/* The row of the experiment, made if there was none; NULL: no memory is left. */
static struct curves_experiment *row_of(struct curves *curves, experiment_id id)
{
    struct curves_experiment *found = find(curves, id);
    if (found == NULL && curves->count == curves->capacity) {
        uint32_t capacity = curves->capacity + 16;
        struct curves_experiment *more = realloc(curves->experiments, capacity * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        curves->experiments = more;
        curves->capacity = capacity;
    }
    if (found == NULL) {
        found = &curves->experiments[curves->count++];
        *found = (struct curves_experiment){.id = id};
    }
    return found;
}

/* The experiment that was added first gives its place to the curves of a later one. */
static void make_room(struct curves *curves, experiment_id for_this)
{
    for (uint32_t i = 0; i < curves->count && curves->curve_count >= CURVES_MAX; i++) {
        if (!experiment_id_equal(curves->experiments[i].id, for_this)) {
            forget(curves, i--);
        }
    }
}

/* The curve of a trial, made if there was none; NULL: there is no room. */
static struct curve *curve_of(struct curves *curves, experiment_id id, uint32_t trial)
{
    make_room(curves, id);
    struct curves_experiment *row = row_of(curves, id);
    if (row != NULL && trial >= row->slots) {
        uint32_t slots = trial + 16;
        struct curve **trials = realloc(row->trials, slots * sizeof(struct curve *));
        if (trials == NULL) {
            return NULL;
        }
        memset(trials + row->slots, 0, (slots - row->slots) * sizeof *trials);
        row->trials = trials;
        row->slots = slots;
    }
    if (row != NULL && row->trials[trial] == NULL && curves->curve_count < CURVES_MAX) {
        row->trials[trial] = calloc(1, sizeof(struct curve));
        curves->curve_count += row->trials[trial] != NULL;
    }
    return row != NULL ? row->trials[trial] : NULL;
}

/* Takes what the record of the attempt's first worker, or its verdict, says now. */
static void note_trial(struct curve *curve, const struct node_core *core, const struct view_experiment *experiment,
                       const struct view_attempt *attempt, uint64_t now_ms)
{
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    double value;
    bool smaller_is_better = experiment->config->smaller_is_better;
    const uint64_t step = render_attempt_step(attempt);
    if (!attempt_id_equal(&curve->attempt, &attempt->id)) {
        curve_take_back(curve, attempt->start_step, smaller_is_better);
        curve->attempt = attempt->id;
        curve->start_step = attempt->start_step;
        curve->sample_count = 0;
    }
    curve->runs = view_attempt_verdict(attempt) == NULL;
    curve_note_step(curve, now_ms, step);
    uint32_t bytes = view_attempt_metrics(node_core_view(core), experiment, attempt, metrics);
    if (bytes == 0 || !view_metric(metrics, bytes, "validation", experiment->config->metric, &value)) {
        return;
    }
    bool is_new = curve->count == 0 || value < curve->points[curve->count - 1].value || value > curve->points[curve->count - 1].value;
    if (is_new) {
        curve_add(curve, step, value, smaller_is_better);
    }
}

void curves_note(struct curves *curves, const struct node_core *core, const struct view_experiment *experiment, uint64_t now_ms)
{
    const struct curves_experiment *row = find(curves, experiment->id);
    for (uint32_t i = 0; i < experiment->trial_slots && i < experiment->trial_count; i++) {
        const struct view_trial *trial = experiment->trials[i];
        const struct view_attempt *shown = trial != NULL ? render_shown_attempt(trial) : NULL;
        const struct curve *known = shown != NULL && row != NULL && i < row->slots ? row->trials[i] : NULL;
        bool is_settled = known != NULL && !known->runs && attempt_id_equal(&known->attempt, &shown->id);
        if (shown == NULL || is_settled) {
            continue;
        }
        struct curve *curve = curve_of(curves, experiment->id, i);
        row = find(curves, experiment->id); /* rows may have moved */
        if (curve != NULL) {
            note_trial(curve, core, experiment, shown, now_ms);
        }
    }
}

void curves_tick(struct curves *curves, const struct node_core *core, uint64_t now_ms)
{
    const struct view *view = node_core_view(core);
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        if (view->experiments[i]->known && view_experiment_live(view->experiments[i])) {
            curves_note(curves, core, view->experiments[i], now_ms);
        }
    }
    for (uint32_t i = 0; i < curves->count; i++) {
        if (view_find_experiment(view, curves->experiments[i].id) == NULL) {
            forget(curves, i--);
        }
    }
}

static void put_number_or_nil(msgpack_packer *packer, const char *key, bool is_known, double value)
{
    render_put_string(packer, key);
    if (is_known) {
        (void)msgpack_pack_double(packer, value);
    } else {
        (void)msgpack_pack_nil(packer);
    }
}

static void put_curve(const struct curve *curve, uint32_t index, msgpack_packer *packer)
{
    double rate = curve_rate(curve);
    (void)msgpack_pack_map(packer, 6);
    render_put_u64(packer, "index", index);
    put_number_or_nil(packer, "best", curve->has_best, curve->best.value);
    render_put_u64(packer, "best_step", curve->best.step);
    put_number_or_nil(packer, "rate", rate > 0, rate);
    render_put_string(packer, "steps");
    (void)msgpack_pack_array(packer, curve->count);
    for (uint32_t i = 0; i < curve->count; i++) {
        (void)msgpack_pack_uint64(packer, curve->points[i].step);
    }
    render_put_string(packer, "values");
    (void)msgpack_pack_array(packer, curve->count);
    for (uint32_t i = 0; i < curve->count; i++) {
        (void)msgpack_pack_double(packer, curve->points[i].value);
    }
}

bool render_curves(const struct curves *curves, const struct view_experiment *experiment, uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    const struct curves_experiment *row = find(curves, experiment->id);
    uint32_t slots = row != NULL ? row->slots : 0, i = *from;
    render_put_string(&packer, "curves");
    struct render_list list = render_list_open(&packer);
    for (; i < slots; i++) {
        if (row->trials[i] == NULL) {
            continue;
        }
        put_curve(row->trials[i], i, &packer);
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    *from = i;
    return i < slots;
}
