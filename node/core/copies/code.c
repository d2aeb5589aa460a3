/* Copies of the code directories and configuration texts of experiments that are not over. */

#include "base/rendezvous.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/code.h"
#include "node/core/ground/effects.h"
#include "node/core/members/members.h"

static struct core_code *find_code(struct node_core *core, experiment_id experiment)
{
    struct core_code **link = &core->copies->codes;
    while (*link != NULL && experiment_id_compare((*link)->experiment, experiment) < 0) {
        link = &(*link)->next;
    }
    struct core_code *code = *link;
    if (code == NULL || !experiment_id_equal(code->experiment, experiment)) {
        code = arena_take(&core->arena, sizeof *code);
        if (code != NULL) {
            code->experiment = experiment;
            code->next = *link;
            *link = code;
        }
    }
    return code;
}

static void push_code(struct node_core *core, experiment_id experiment, hash256 blob, node_id to)
{
    struct core_code_push *free_one = NULL;
    for (uint32_t i = 0; i < CORE_CODE_PUSHES_MAX; i++) {
        struct core_code_push *push = &core->copies->code_pushes[i];
        if (!push->used) {
            free_one = push;
        } else if (node_id_equal(push->to, to) && hash256_equal(push->blob, blob)) {
            return; /* under way already, perhaps for another experiment */
        }
    }
    if (free_one == NULL || !copies_may_push_to(core, to)) {
        copies_put_off(core, experiment);
        return;
    }
    *free_one = (struct core_code_push){.used = true, .blob = blob, .to = to};
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PUSH);
    effect->u.push.blob = blob;
    effect->u.push.to = to;
}

static struct core_code_copy *find_copy(struct core_code *code, node_id node)
{
    for (uint32_t i = 0; i < FACT_HOLDERS_MAX; i++) {
        if (node_id_equal(code->copies[i].node, node)) {
            return &code->copies[i];
        }
    }
    return NULL;
}

/* The row of nodes[at], or else the row of a node that is not in `nodes`. */
static struct core_code_copy *make_copy(struct core_code *code, const node_id *nodes, uint32_t count, uint32_t at)
{
    struct core_code_copy *copy = find_copy(code, nodes[at]);
    for (uint32_t i = 0; copy == NULL && i < FACT_HOLDERS_MAX; i++) {
        copy = copies_list_has(nodes, count, code->copies[i].node) ? NULL : &code->copies[i];
    }
    return copy;
}

/* Every node with the code pushes the code to the first nodes in rendezvous order of the experiment, and to the next nodes in
 * place of nodes that refuse. Several nodes may push at once: a receiver that has the code answers immediately. */
static void repair_code(struct node_core *core, const struct view_experiment *experiment, struct core_code *code)
{
    if (core->now_ms < code->retry_ms) {
        return;
    }
    node_id nodes[NODE_MEMBERS_MAX];
    uint32_t count = 0;
    if (core_node_accepts(core, core->options.self)) {
        nodes[count++] = core->options.self;
    }
    for (uint32_t i = 0; i < core->members->peer_count && count < NODE_MEMBERS_MAX; i++) {
        bool keeps = core_node_reads(core, core->members->peers[i]->id, experiment); /* else the copies are collected there */
        if (keeps && core_node_accepts(core, core->members->peers[i]->id)) {
            nodes[count++] = core->members->peers[i]->id;
        }
    }
    rendezvous_sort(nodes, count, experiment->id.bytes, sizeof experiment->id.bytes);
    count = count < FACT_HOLDERS_MAX ? count : FACT_HOLDERS_MAX;
    for (uint32_t i = 0, copies = 0; i < count && copies < CORE_CODE_COPIES; i++) {
        const struct core_peer *peer = core_find_peer(core, nodes[i]);
        if (peer == NULL) {
            copies++; /* this node */
            continue;
        }
        struct core_code_copy *copy = make_copy(code, nodes, count, i);
        if (!node_id_equal(copy->node, nodes[i]) || copy->boot != peer->boot) {
            *copy = (struct core_code_copy){.node = nodes[i], .boot = peer->boot}; /* a new boot may have another disk */
        }
        bool has_all = copy->has_code && (copy->has_config_text || hash256_is_none(experiment->config_text));
        bool refuses = core->now_ms < copy->retry_ms ||
                       (peer->code_refused_ms != 0 && core->now_ms - peer->code_refused_ms < CORE_CODE_RETRY_MS);
        if (!has_all && refuses) {
            continue;
        }
        copies++;
        if (!has_all) {
            push_code(core, experiment->id, copy->has_code ? experiment->config_text : experiment->code, nodes[i]);
        }
    }
}

void core_code_look(struct node_core *core, const struct view_experiment *experiment)
{
    struct core_code *code = find_code(core, experiment->id);
    if (code == NULL) {
        return;
    }
    code->pass = core->copies->repair_pass; /* even without room to push code in this step */
    if (core_has_room(core, 64, 1u << 16)) {
        repair_code(core, experiment, code);
    } else {
        copies_put_off(core, experiment->id);
    }
}

static void refused(const struct node_core *core, struct core_code_copy *copy)
{
    uint64_t wait_ms = CORE_CODE_RETRY_MS;
    for (uint32_t i = 0; i < copy->refusals && wait_ms < CORE_CODE_RETRY_MAX_MS; i++) {
        wait_ms *= 2;
    }
    copy->refusals++;
    copy->retry_ms = core->now_ms + (wait_ms < CORE_CODE_RETRY_MAX_MS ? wait_ms : CORE_CODE_RETRY_MAX_MS);
}

void core_code_pushed(struct node_core *core, const struct node_event *event)
{
    bool ok = event->u.blob.ok;
    struct core_peer *peer = core_find_peer(core, event->u.blob.node);
    if (peer != NULL && !event->u.blob.is_missing) {
        peer->code_refused_ms = ok ? 0 : core->now_ms;
    }
    for (uint32_t i = 0; i < CORE_CODE_PUSHES_MAX; i++) {
        struct core_code_push *push = &core->copies->code_pushes[i];
        push->used &= !(node_id_equal(push->to, event->u.blob.node) && hash256_equal(push->blob, event->u.blob.blob));
    }
    for (struct core_code *code = core->copies->codes; code != NULL; code = code->next) {
        const struct view_experiment *experiment = view_find_experiment(&core->view, code->experiment);
        bool is_code = experiment != NULL && hash256_equal(experiment->code, event->u.blob.blob);
        bool is_text = experiment != NULL && hash256_equal(experiment->config_text, event->u.blob.blob);
        struct core_code_copy *copy = is_code || is_text ? find_copy(code, event->u.blob.node) : NULL;
        if (copy == NULL) {
            continue;
        }
        if (event->u.blob.is_missing) {
            code->retry_ms = core->now_ms + CORE_CODE_RETRY_MS;
        } else if (!ok) {
            refused(core, copy);
        } else {
            if (is_code && !copy->has_code) {
                TRACE_EVENT(&core->options.trace, event_of_experiment(EVENT_EXPERIMENT_COPIED, experiment->id),
                            "the code of %s is on %s", experiment->config->name,
                            view_label(&core->view, copy->node).text);
            }
            copy->has_code |= is_code;
            copy->has_config_text |= is_text;
            copy->refusals = 0;
            copy->retry_ms = 0;
        }
    }
}

void core_code_drop(struct node_core *core)
{
    for (struct core_code **link = &core->copies->codes; *link != NULL;) {
        struct core_code *code = *link;
        if (code->pass == core->copies->repair_pass) {
            link = &code->next;
        } else {
            *link = code->next;
            arena_give(&core->arena, code, sizeof *code);
        }
    }
}

void core_code_forget(struct node_core *core, experiment_id experiment)
{
    for (struct core_code **link = &core->copies->codes; *link != NULL; link = &(*link)->next) {
        struct core_code *code = *link;
        if (experiment_id_equal(code->experiment, experiment)) {
            *link = code->next;
            arena_give(&core->arena, code, sizeof *code);
            return;
        }
    }
}

void core_checkpoints_fetched(struct node_core *core, experiment_id experiment)
{
    for (struct core_code *code = core->copies->codes; code != NULL; code = code->next) {
        if (experiment_id_equal(code->experiment, experiment)) {
            code->retry_ms = 0;
        }
    }
}
