#include "tests/sim/users.h"

#include "base/check.h"
#include "base/err.h"
#include "base/format.h"
#include "node/core/ground/state.h"
#include "tests/sim/checkers.h"
#include "tests/sim/world.h"

#define USERS_AFTER_HEAL 1 /* in place of a trial: a pause of what is resumed soon */
#define PROGRAM_LOOK_MS 30000
#define LOOK_MS 10000 /* so often people look whether a trial that they want to retry is over */

/* `trial`: of a stop or a retry; else 0. */
static void push_act_on(struct sim *sim, uint64_t at_ms, uint32_t experiment, uint32_t trial, enum node_request_kind kind)
{
    struct sim_event *event = sim_push(sim, at_ms, SIM_USER, 0);
    event->arg = (uint8_t)experiment;
    event->slot = (uint8_t)kind;
    event->serial = trial;
}

static void push_act(struct sim *sim, uint64_t at_ms, uint32_t experiment, enum node_request_kind kind)
{
    push_act_on(sim, at_ms, experiment, 0, kind);
}

void users_init(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.experiment_count; i++) {
        const struct plan_experiment *experiment = &sim->plan.experiments[i];
        push_act(sim, experiment->submit_ms, i, NODE_REQUEST_SUBMIT);
        if (experiment->cancel_ms != 0) {
            push_act(sim, experiment->cancel_ms, i, NODE_REQUEST_CANCEL);
        }
        if (experiment->pause_ms != 0) {
            push_act(sim, experiment->pause_ms, i, NODE_REQUEST_PAUSE);
            push_act(sim, experiment->resume_ms, i, NODE_REQUEST_RESUME);
        }
        if (experiment->delete_ms != 0) {
            push_act(sim, experiment->delete_ms, i, NODE_REQUEST_DELETE);
        }
        if (experiment->extend_ms != 0) {
            push_act(sim, experiment->extend_ms, i, NODE_REQUEST_ANNOTATE);
        }
        for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
            if (experiment->stop_ms[t] != 0) {
                push_act_on(sim, experiment->stop_ms[t], i, t, NODE_REQUEST_STOP);
            }
            if (experiment->retry_ms[t] != 0) {
                push_act_on(sim, experiment->retry_ms[t], i, t, NODE_REQUEST_RETRY);
            }
        }
    }
}

void users_heal(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan.experiment_count; i++) {
        if (sim->plan.experiments[i].pause_ms != 0) {
            push_act(sim, sim->now_ms + 15000, i, NODE_REQUEST_RESUME);
        }
        if (sim->plan.experiments[i].program.is_there) {
            sim_push(sim, sim->now_ms + PROGRAM_LOOK_MS, SIM_LOOKS, 0)->arg = (uint8_t)i;
        }
    }
}

static int pick_node(struct sim *sim)
{
    struct random *random = &sim->random[STREAM_USERS];
    for (int tries = 0; tries < 20; tries++) {
        int node = (int)random_below(random, sim->plan.node_count);
        if (sim_runs(sim, node)) {
            return node;
        }
    }
    return -1;
}

static bool is_over(const struct sim *sim, int node, uint32_t experiment)
{
    if (view_is_deleted(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id)) {
        return true;
    }
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    return seen != NULL && seen->known && !view_experiment_live(seen);
}

static bool is_trial_over(const struct sim *sim, int node, uint32_t experiment, uint32_t trial)
{
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    return seen != NULL && seen->known && view_trial_over(view_trial_state(seen, trial)) &&
           !view_trial_stopped(view_find_trial(seen, trial));
}

/* The node knows that the trial is over and not completed, in an experiment that is not cancelled. */
static bool can_be_retried(const struct sim *sim, int node, uint32_t experiment, uint32_t trial)
{
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    enum view_trial_state state = seen != NULL && seen->known ? view_trial_state(seen, trial) : VIEW_TRIAL_QUEUED;
    return (state == VIEW_TRIAL_FAILED || state == VIEW_TRIAL_STOPPED) && !view_experiment_cancelled(seen);
}

static uint64_t stop_lamport(const struct sim *sim, int node, uint32_t experiment, uint32_t trial)
{
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    return seen != NULL ? view_trial_stop(view_find_trial(seen, trial)).lamport : 0;
}

static bool is_paused(const struct sim *sim, int node, uint32_t experiment)
{
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    return seen != NULL && view_experiment_paused(seen);
}

static bool is_given_up(const struct sim *sim, int node, uint32_t experiment)
{
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    const struct view_searcher *program = seen != NULL && seen->known ? view_custom_searcher(seen) : NULL;
    return program != NULL && program->fact.is_given_up;
}

void users_look(struct sim *sim, struct sim_event *event)
{
    uint32_t index = event->arg;
    int node = pick_node(sim);
    if (node >= 0 && is_over(sim, node, index)) {
        return;
    }
    if (node >= 0 && is_given_up(sim, node, index) && !is_paused(sim, node, index)) {
        checkers_on_given_up(sim);
        push_act_on(sim, sim->now_ms + 1, index, USERS_AFTER_HEAL, NODE_REQUEST_PAUSE);
    }
    sim_push(sim, sim->now_ms + PROGRAM_LOOK_MS, SIM_LOOKS, 0)->arg = (uint8_t)index;
}

/* Changes whenever the node writes another pause or resume. */
static struct record_version own_control(const struct sim *sim, int node, uint32_t experiment)
{
    struct fact_key key = fact_key_experiment(sim->plan.experiments[experiment].id);
    const struct records_entry *entry =
        records_find(&sim->nodes[node].core->records, record_ident_of(sim->nodes[node].id, FACT_CONTROL, key.bytes, key.count));
    return entry != NULL ? entry->record.version : (struct record_version){0};
}

void users_act(struct sim *sim, struct sim_event *event)
{
    uint32_t index = event->arg;
    const struct plan_experiment *experiment = &sim->plan.experiments[index];
    struct users *users = sim->users;
    enum node_request_kind kind = (enum node_request_kind)event->slot;
    if (kind == NODE_REQUEST_SUBMIT && users->experiments[index].submitted.is_acknowledged) {
        return;
    }
    if (kind == NODE_REQUEST_PAUSE && sim->healed && event->serial != USERS_AFTER_HEAL) {
        return; /* too late: nobody would resume it */
    }
    if ((kind == NODE_REQUEST_RETRY || kind == NODE_REQUEST_ANNOTATE) && sim->healed) {
        return; /* what is left has to be finished */
    }
    int node = pick_node(sim);
    struct users_request *request = NULL;
    for (int i = 0; i < USERS_REQUESTS_MAX && request == NULL; i++) {
        request = users->requests[i].client == 0 ? &users->requests[i] : NULL;
    }
    bool is_early = kind != NODE_REQUEST_SUBMIT && !users->experiments[index].submitted.is_acknowledged;
    if (node < 0 || request == NULL || is_early) {
        push_act_on(sim, sim->now_ms + 2000, index, event->serial, kind);
        return;
    }
    if (kind == NODE_REQUEST_STOP && is_trial_over(sim, node, index, event->serial)) {
        return;
    }
    if (kind == NODE_REQUEST_RETRY && !can_be_retried(sim, node, index, event->serial)) {
        push_act_on(sim, sim->now_ms + LOOK_MS, index, event->serial, kind);
        return;
    }
    bool may_revive = kind == NODE_REQUEST_RETRY || kind == NODE_REQUEST_ANNOTATE;
    bool may_be_over = kind == NODE_REQUEST_SUBMIT || kind == NODE_REQUEST_DELETE || may_revive;
    if (!may_be_over && is_over(sim, node, index)) {
        return;
    }
    if (kind == NODE_REQUEST_RESUME && sim->healed && !is_paused(sim, node, index)) {
        push_act(sim, sim->now_ms + 15000, index, kind);
        return;
    }
    *request = (struct users_request){++users->clients, sim->now_ms, (uint8_t)index, (uint8_t)kind, (uint8_t)node,
                                      (uint8_t)event->serial, 0, 0};
    sim_push(sim, sim->now_ms + USERS_PATIENCE_MS, SIM_USER_WAITS, node)->serial = (uint32_t)request->client;
    struct node_event core_event = {.kind = NODE_EVENT_REQUEST};
    core_event.u.request.client = request->client;
    core_event.u.request.kind = kind;
    core_event.u.request.experiment = experiment->id;
    core_event.u.request.trial = event->serial;
    if (kind == NODE_REQUEST_SUBMIT) {
        blobs_put(sim, experiment->code, node, true, 0); /* the client has uploaded it */
        core_event.u.request.code = experiment->code;
        core_event.u.request.code_bytes = 1000;
        core_event.u.request.config_text = experiment->code;
        core_event.bytes = experiment->config;
        core_event.byte_count = experiment->config_bytes;
    }
    if (kind == NODE_REQUEST_ANNOTATE) {
        core_event.u.request.subject = FACT_MAX_TRIALS;
        core_event.u.request.is_set = true;
        format_text(core_event.u.request.label, sizeof core_event.u.request.label, "%u", experiment->trials_then);
    }
    SIM_TRACE(sim, node, "USER: request %d about experiment %u", (int)kind, index);
    struct record_version before = own_control(sim, node, index);
    sim_step(sim, node, &core_event);
    users->experiments[index].controls += record_version_compare(own_control(sim, node, index), before) != 0;
    request->control = users->experiments[index].controls;
    request->lamport = stop_lamport(sim, node, index, event->serial);
    users->experiments[index].retried_ms = may_revive ? sim->now_ms : users->experiments[index].retried_ms;
}

void users_wait_over(struct sim *sim, struct sim_event *event)
{
    for (int i = 0; i < USERS_REQUESTS_MAX; i++) {
        struct users_request *request = &sim->users->requests[i];
        if (request->client == event->serial) {
            request->client = 0; /* a late answer is nobody's */
            push_act_on(sim, sim->now_ms + 1, request->experiment, request->trial, (enum node_request_kind)request->kind);
        }
    }
}

void users_reply(struct sim *sim, int node, const struct node_effect *effect)
{
    struct users *users = sim->users;
    struct users_request *request = NULL;
    for (int i = 0; i < USERS_REQUESTS_MAX && request == NULL; i++) {
        bool is_it = users->requests[i].client != 0 && users->requests[i].client == effect->u.reply.client;
        request = is_it ? &users->requests[i] : NULL;
    }
    if (request == NULL) {
        return;
    }
    struct users_experiment *experiment = &users->experiments[request->experiment];
    enum node_request_kind kind = (enum node_request_kind)request->kind;
    request->client = 0;
    if (effect->u.reply.code != 0) {
        bool may_wait = kind == NODE_REQUEST_RETRY || kind == NODE_REQUEST_ANNOTATE;
        push_act_on(sim, sim->now_ms + (may_wait ? LOOK_MS : 3000), request->experiment, request->trial, kind);
        return;
    }
    if (kind == NODE_REQUEST_STOP || kind == NODE_REQUEST_RETRY) {
        struct users_stop *stop = &experiment->stopped[request->trial];
        *stop = (struct users_stop){.promise = {.is_acknowledged = true, .asked_ms = request->asked_ms, .at_ms = sim->now_ms,
                                                .stored_on = effect->u.reply.stored_on},
                                    .stops = kind == NODE_REQUEST_STOP,
                                    .lamport = request->lamport};
        checkers_on_stop(sim, node, request->experiment, request->trial, stop);
        uint32_t most = sim->plan.experiments[request->experiment].retries[request->trial];
        if (kind == NODE_REQUEST_RETRY && ++experiment->retried[request->trial] < most) {
            push_act_on(sim, sim->now_ms + LOOK_MS, request->experiment, request->trial, kind);
        }
        return;
    }
    if (kind == NODE_REQUEST_ANNOTATE) {
        experiment->extended = (struct users_promise){
            .is_acknowledged = true, .asked_ms = request->asked_ms, .at_ms = sim->now_ms, .stored_on = effect->u.reply.stored_on};
        checkers_on_extension(sim, node, request->experiment, &experiment->extended);
        return;
    }
    if (kind == NODE_REQUEST_SUBMIT || kind == NODE_REQUEST_CANCEL || kind == NODE_REQUEST_DELETE) {
        struct users_promise *promise = kind == NODE_REQUEST_SUBMIT   ? &experiment->submitted
                                        : kind == NODE_REQUEST_CANCEL ? &experiment->cancelled
                                                                      : &experiment->deleted;
        enum fact_kind record = kind == NODE_REQUEST_SUBMIT   ? FACT_EXPERIMENT
                                : kind == NODE_REQUEST_CANCEL ? FACT_CONTROL
                                                              : FACT_TOMBSTONE;
        promise->is_acknowledged = true;
        promise->asked_ms = request->asked_ms;
        promise->at_ms = sim->now_ms;
        promise->stored_on = effect->u.reply.stored_on;
        promise->disks = checkers_disks_with(sim, request->experiment, record);
        checkers_on_promise(sim, node, request->experiment, promise, record);
    } else {
        experiment->control = (struct users_control){
            .promise = {.is_acknowledged = true, .asked_ms = request->asked_ms, .at_ms = sim->now_ms,
                        .stored_on = effect->u.reply.stored_on},
            .pauses = kind == NODE_REQUEST_PAUSE,
            .number = request->control,
        };
        checkers_on_control(sim, node, request->experiment, &experiment->control);
        if (kind == NODE_REQUEST_RESUME && sim->healed) {
            /* A pause that nobody had heard of may come to light, and wins over a resume beside it. */
            push_act(sim, sim->now_ms + 15000, request->experiment, kind);
        }
    }
}
