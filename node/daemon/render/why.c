#include "node/daemon/render/why.h"

#include <math.h>

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/format.h"
#include "base/visible.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"
#include "node/daemon/wire/request.h"

#define NAMES_MAX 8
#define NAME_BYTES 160
#define TEXT_BYTES (RENDER_TRIAL_REASON_BYTES + NODE_CORE_WAITING_BYTES)

/* "1st", "2nd", "3rd", "4th", "11th", "21st". */
static const char *ordinal_end(uint32_t number)
{
    static const char *const ends[] = {"th", "st", "nd", "rd"};
    bool is_teen = number / 10 % 10 == 1;
    return is_teen || number % 10 > 3 ? "th" : ends[number % 10];
}

static const char *const decision_words[] = {[FACT_GOES_ON] = "went on at",
                                             [FACT_STOPS] = "stopped at",
                                             [FACT_TOPS_OUT] = "reached its whole length at",
                                             [FACT_PAUSES] = "paused at",
                                             [FACT_PROMOTES] = "promoted from",
                                             [FACT_CLOSES] = "paused for good at"};

void why_decision_text(const struct why_decision *stop, char out[WHY_DECISION_BYTES])
{
    if (stop->decision == FACT_ENDS) {
        (void)format_text(out, WHY_DECISION_BYTES, "its search goes on without it: it was over before another report (rung %u)", stop->rung);
        return;
    }
    size_t used = format_text(out, WHY_DECISION_BYTES, "%s rung %u (step %llu): ", decision_words[stop->decision], stop->rung,
                              (unsigned long long)stop->step);
    if (isnan(stop->value)) {
        (void)format_text(out + used, WHY_DECISION_BYTES - used, "its metric was not a number");
        return;
    }
    char value[32];
    (void)snprintf(value, sizeof value, "%.4g", stop->value);
    used += format_text(out + used, WHY_DECISION_BYTES - used, "%s, %u%s of %u", value, stop->place, ordinal_end(stop->place), stop->of);
    if (stop->decision != FACT_TOPS_OUT) {
        (void)format_text(out + used, WHY_DECISION_BYTES - used, ", %u %s on", stop->go_on, stop->go_on == 1 ? "goes" : "go");
    }
}

void why_result_text(const struct why_decision *result, char out[WHY_DECISION_BYTES])
{
    char value[32];
    if (isnan(result->value)) {
        (void)format_text(out, WHY_DECISION_BYTES, "the search knows no result of it that is a number");
        return;
    }
    (void)snprintf(value, sizeof value, "%.4g", result->value);
    (void)format_text(out, WHY_DECISION_BYTES, "its result for the search: %s (step %llu), %u%s of %u by then", value,
                      (unsigned long long)result->step, result->place, ordinal_end(result->place), result->of);
}

/* A list of sentences under construction. */
struct why {
    msgpack_packer *packer;
    struct render_list list;
};

static void add(struct why *why, uint64_t at_s, const char *text)
{
    (void)msgpack_pack_map(why->packer, 2);
    render_put_text(why->packer, "text", text);
    render_put_time(why->packer, "at_s", at_s);
    why->list.count++;
}

/* How the trial stands in its round of pbt, by what is known now. */
static void add_standing_in_round(const struct view_experiment *experiment, const struct view_judged *last, struct why *why)
{
    const struct view_search *search = &experiment->search;
    uint32_t population = experiment->config->population_size, index = last->fact.attempt.trial, first = index - index % population;
    struct view_standing standing = {0};
    char text[WHY_DECISION_BYTES];
    for (uint32_t t = first; t < first + population && t < search->trial_count; t++) {
        const struct view_judged *other = t != index ? view_search_last(experiment, t) : NULL;
        standing.entries += other != NULL;
        standing.better += other != NULL && other->fact.decision != FACT_ENDS &&
                           (isnan(last->fact.metric) ? !isnan(other->fact.metric)
                                                     : search_is_better(other->fact.metric, last->fact.metric, experiment->config->smaller_is_better));
    }
    if (last->fact.decision == FACT_ENDS) {
        (void)format_text(text, sizeof text, "it was over before a report at the end of round %u, so another trial takes its place", first / population + 1);
    } else {
        char value[32];
        (void)snprintf(value, sizeof value, "%.4g", last->fact.metric);
        (void)format_text(text, sizeof text, "round %u ended with %s (step %llu), %u%s of %u", first / population + 1,
                          isnan(last->fact.metric) ? "a metric that is not a number" : value, (unsigned long long)last->fact.step,
                          standing.better + 1, ordinal_end(standing.better + 1), standing.entries + 1);
    }
    add(why, 0, text);
    uint32_t next = index + population, parent = next < search->trial_count ? search->trials[next].parent : FACT_NO_TRIAL;
    if (parent != FACT_NO_TRIAL) {
        (void)format_text(text, sizeof text,
                          parent == index ? "it goes on as trial %u" : "trial %u takes its place, a copy of trial %u", next,
                          parent);
        add(why, 0, text);
    }
}

/* Of pbt: which trial this one goes on from, and how its own round ended. */
static void add_population(const struct view_experiment *experiment, uint32_t index, const struct view_attempt *shown, struct why *why)
{
    const struct view_judged *last = view_search_last(experiment, index);
    if (last != NULL) {
        add_standing_in_round(experiment, last, why);
    }
    if (shown == NULL || shown->point_count == 0 || shown->parent == FACT_NO_TRIAL) {
        return;
    }
    char text[WHY_DECISION_BYTES];
    uint32_t population = experiment->config->population_size;
    bool is_same = shown->parent % population == index % population;
    bool has_checkpoint = shown->beginning_count > 0 || !hash256_is_none(shown->checkpoint);
    (void)format_text(text, sizeof text, is_same ? "it goes on from trial %u, the same member, with its hyperparameters%s"
                                                 : "it is a copy of trial %u, one of the best of its round, with other hyperparameters%s",
                      shown->parent, has_checkpoint ? "" : ", and begins from nothing: that trial left no checkpoint");
    add(why, 0, text);
}

/* What a search that stops trials early has last decided of the trial. */
static void add_search(const struct view_experiment *experiment, uint32_t index, struct why *why)
{
    const struct view_judged *last = view_search_last(experiment, index);
    if (last == NULL) {
        return;
    }
    const struct fact_judged *judged = &last->fact;
    uint32_t bracket = experiment->search.trials[index].bracket, at = (uint32_t)(last - experiment->search.judged);
    if (experiment->needs_promotion && judged->decision == FACT_PAUSES) {
        at = experiment->search.judged_count; /* what counts for a paused trial is how it compares now */
    }
    struct view_standing standing = experiment->needs_promotion
                                        ? view_promotion_standing(experiment, at, last)
                                        : view_search_standing(experiment, at, bracket, judged->rung, judged->metric);
    uint32_t of = standing.entries + 1, best = (uint32_t)(of / experiment->config->divisor);
    const struct why_decision stop = {.decision = judged->decision,
                                        .rung = judged->rung,
                                        .step = judged->step,
                                        .value = judged->metric,
                                        .place = standing.better + 1,
                                        .of = of,
                                        .go_on = best > 0 || experiment->needs_promotion ? best : 1};
    char text[WHY_DECISION_BYTES];
    if (experiment->is_custom && (judged->decision == FACT_STOPS || judged->decision == FACT_CLOSES)) {
        (void)format_text(text, sizeof text, "the program of the search (searcher.entrypoint) has stopped it");
    } else if (!search_halves(experiment->config->searcher)) {
        why_result_text(&stop, text);
    } else {
        why_decision_text(&stop, text);
    }
    add(why, 0, text);
}

/* "training/loss, validation/acc": the metrics of the attempt. False: it has none. */
static bool write_names(const uint8_t *metrics, uint32_t count, char *out, size_t size)
{
    struct pack_reader reader;
    size_t used = 0;
    uint32_t shown = 0;
    pack_reader_init(&reader, metrics, count);
    for (uint32_t groups = count > 0 ? pack_read_map(&reader) : 0; groups > 0 && !reader.failed; groups--) {
        char group[REQUEST_GROUP_BYTES], name[REQUEST_METRIC_BYTES], visible[NAME_BYTES];
        pack_read_text_copy(&reader, group, sizeof group);
        for (uint32_t names = pack_read_map(&reader); names > 0 && !reader.failed; names--) {
            char both[REQUEST_GROUP_BYTES + REQUEST_METRIC_BYTES];
            pack_read_text_copy(&reader, name, sizeof name);
            (void)pack_read_double(&reader);
            (void)format_text(both, sizeof both, "%s/%s", group, name);
            (void)visible_text(visible, sizeof visible, both);
            if (shown++ < NAMES_MAX) {
                used += format_text(out + used, size - used, "%s%s", used > 0 ? ", " : "", visible);
            }
        }
    }
    if (shown > NAMES_MAX) {
        (void)format_text(out + used, size - used, " and %u more", shown - NAMES_MAX);
    }
    return shown > 0 && !reader.failed;
}

/* A search that compares trials by a metric which a trial has not reported cannot choose it. A single trial that reports nothing
 * at all is not compared, and needs no advice. */
static void add_unreported(const struct node_core *core, const struct view_experiment *experiment, const struct view_attempt *shown,
                           enum view_trial_state state, struct why *why)
{
    bool is_over = view_trial_over(state), is_compared = state == VIEW_TRIAL_COMPLETED || state == VIEW_TRIAL_STOPPED;
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    double value;
    char names[NAMES_MAX * (NAME_BYTES + 2) + 32], text[sizeof names + 512], metric[4 * CONFIG_METRIC_BYTES];
    if (shown == NULL || experiment->config->metric[0] == '\0') {
        return;
    }
    uint32_t count = view_attempt_metrics(node_core_view(core), experiment, shown, metrics);
    bool has_any = write_names(metrics, count, names, sizeof names);
    bool has_it = has_any && view_metric(metrics, count, "validation", experiment->config->metric, &value);
    if ((has_it && isfinite(value)) || (!has_any && (!is_compared || experiment->trial_count == 1))) {
        return;
    }
    (void)visible_text(metric, sizeof metric, experiment->config->metric);
    if (has_it) {
        (void)format_text(text, sizeof text, "the last %s that it reported is no finite number%s", metric,
                          is_over ? "; so it cannot be the best trial" : "");
        add(why, 0, text);
        return;
    }
    bool is_in_training = has_any && view_metric(metrics, count, "training", experiment->config->metric, &value);
    (void)format_text(text, sizeof text,
                      "searcher.metric is %s, and the trial has not reported it in group validation%s%s%s%s", metric,
                      has_any ? "; it has reported: " : ", nor any other metric", has_any ? names : "",
                      is_in_training ? " (run.report(..., group=\"validation\") reports what trials are compared by)" : "",
                      is_over ? "; so it cannot be the best trial" : "");
    add(why, 0, text);
}

/* The trial waits, or its experiment keeps it from beginning. */
static void add_waiting(const struct node_core *core, const struct view_experiment *experiment, uint32_t index, struct why *why)
{
    char text[NODE_CORE_WAITING_BYTES];
    if (view_experiment_cancelled(experiment)) {
        add(why, 0, "the experiment was cancelled before the trial was over");
    } else if (view_experiment_over(experiment)) {
        add(why, 0, "the experiment is over: no trial begins any more");
    } else if (view_experiment_paused(experiment)) {
        add(why, 0, "the experiment is paused; shoal resume lets it go on");
    } else if (view_search_paused(experiment, index) != NULL) {
        return; /* add_search says it, with where the trial stands */
    } else if (node_core_waiting_reason(core, experiment, index, text, sizeof text)) {
        add(why, 0, text);
    } else {
        add(why, 0, "the trial is about to begin");
    }
}

static void add_running(const struct node_core *core, const struct view_attempt *shown, const struct view_trial *trial, struct why *why)
{
    char text[TEXT_BYTES];
    size_t used = format_text(text, sizeof text, "attempt %u runs on ", shown->id.number);
    for (uint32_t rank = 0; rank < shown->member_count && rank < 4; rank++) {
        used += format_text(text + used, sizeof text - used, "%s%s", rank > 0 ? ", " : "",
                            render_node_label(core, shown->members[rank].node).text);
    }
    if (shown->member_count > 4) {
        used += format_text(text + used, sizeof text - used, " and %u more slots", shown->member_count - 4);
    }
    (void)format_text(text + used, sizeof text - used, " since its start");
    add(why, render_attempt_times(core, shown).started_s, text);
    if (view_trial_stopped(trial)) {
        const struct fact_stop stop = view_trial_stop(trial);
        add(why, 0,
            stop.overran   ? "the trial has run for its max_runtime: its workers save and leave"
            : stop.stopped ? "a user has stopped the trial: its workers save and leave"
                           : "the search has stopped the trial: its workers save and leave");
    } else if (view_attempt_is_paused(trial, &shown->id)) {
        add(why, 0, "the search has paused the trial: its workers save and leave");
    }
}

/* The cause of a failure, and how often the trial was tried. */
static void add_failed(const struct node_core *core, const struct view_experiment *experiment, uint32_t index,
                       const struct view_attempt *shown, struct why *why)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    char reason[RENDER_TRIAL_REASON_BYTES], text[128];
    uint32_t failures = trial != NULL ? view_trial_failures(trial) : 0, most = config_restarts(experiment->config);
    if (render_trial_reason(core, experiment, index, shown, reason)) {
        add(why, shown != NULL ? render_attempt_times(core, shown).ended_s : 0, reason);
    }
    if (failures > most) {
        (void)format_text(text, sizeof text, "its program failed %u time%s, and max_restarts is %u", failures, failures == 1 ? "" : "s", most);
        add(why, 0, text);
    }
}

static void add_ended(const struct node_core *core, const struct view_attempt *shown, struct why *why)
{
    char reason[RENDER_REASON_BYTES], text[RENDER_REASON_BYTES + 128];
    if (shown != NULL && render_attempt_reason(core, shown, reason)) {
        (void)format_text(text, sizeof text, "attempt %u ended: %s", shown->id.number, reason);
        add(why, render_attempt_times(core, shown).ended_s, text);
    }
}

/* An attempt that is lost before its program begins has a number too: this tells why a trial seems to begin with attempt 3. */
static void add_unbegun(const struct node_core *core, const struct view_trial *trial, const struct view_attempt *shown, struct why *why)
{
    char reason[RENDER_REASON_BYTES] = "", text[RENDER_REASON_BYTES + 128];
    uint32_t count = 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL && a->id.number < shown->id.number; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        if (verdict != NULL && verdict->reason == FACT_LOST && render_attempt_times(core, a).started_s == 0) {
            count++;
            (void)render_attempt_reason(core, a, reason);
        }
    }
    if (count > 0) {
        (void)format_text(text, sizeof text, "before it %u attempt%s ended without beginning the program, which counts as no failure%s%s", count,
                          count == 1 ? "" : "s", reason[0] != '\0' ? ": " : "", reason);
        add(why, 0, text);
    }
}

void render_put_why(const struct node_core *core, const struct view_experiment *experiment, uint32_t index, msgpack_packer *packer)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    const struct view_attempt *shown = trial != NULL ? render_shown_attempt(trial) : NULL;
    enum view_trial_state state = view_trial_state(experiment, index);
    struct why why = {.packer = packer, .list = render_list_open(packer)};
    switch (state) {
    case VIEW_TRIAL_QUEUED:
        add_waiting(core, experiment, index, &why);
        add_ended(core, shown, &why);
        break;
    case VIEW_TRIAL_RUNNING:
        if (shown != NULL && shown->assigned && view_attempt_verdict(shown) == NULL) {
            add_running(core, shown, trial, &why);
        }
        break;
    case VIEW_TRIAL_FAILED:
        add_failed(core, experiment, index, shown, &why);
        break;
    case VIEW_TRIAL_STOPPED:
        if (view_trial_stop(trial).overran) {
            add(&why, shown != NULL ? render_attempt_times(core, shown).ended_s : 0,
                "the trial has run for its max_runtime, and its last worker has ended; shoal retry gives it as much time again");
        } else if (view_trial_stop(trial).stopped) {
            add(&why, shown != NULL ? render_attempt_times(core, shown).ended_s : 0,
                shown != NULL ? "a user stopped the trial, and its last worker has ended" : "a user stopped the trial before it began");
        } else if (render_trial_state(experiment, index) == VIEW_TRIAL_COMPLETED) {
            add(&why, shown != NULL ? render_attempt_times(core, shown).ended_s : 0, "its last worker has ended");
        } else {
            add(&why, shown != NULL ? render_attempt_times(core, shown).ended_s : 0, "the search stopped the trial, and its last worker has ended");
        }
        break;
    case VIEW_TRIAL_COMPLETED:
        add_ended(core, shown, &why);
        break;
    case VIEW_TRIAL_STATES:
        break;
    }
    if (shown != NULL) {
        add_unbegun(core, trial, shown, &why);
    }
    if (experiment->config->searcher == SEARCH_PBT) {
        add_population(experiment, index, shown, &why);
    } else {
        add_search(experiment, index, &why);
    }
    add_unreported(core, experiment, shown, state, &why);
    render_list_close(&why.list);
}
