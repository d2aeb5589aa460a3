#include "base/rendezvous.h"
#include "base/probe.h"
#include "node/core/state.h"

const struct view_manifest *core_replicas_newest(const struct node_core *core, const struct view_trial *trial)
{
    for (const struct view_manifest *manifest = trial->manifests; manifest != NULL; manifest = manifest->next) {
        for (uint32_t i = 0; i < manifest->holder_count; i++) {
            if (core_node_alive(core, manifest->holders[i])) {
                return manifest;
            }
        }
    }
    return NULL;
}

/* The manifest record is written last: once the copies are confirmed, or nobody is left to ask (DESIGN 10). */
static void finish(struct node_core *core, const struct core_push *push)
{
    struct fact_manifest fact = {.blob = push->blob,
                                 .bytes = push->bytes,
                                 .holder_count = push->holder_count,
                                 .durable = push->holder_count >= push->wanted ||
                                            BUG(durable_on_fewer, "a checkpoint is durable on as many disks as asked"),
                                 .has_metric = push->has_metric,
                                 .metric = push->metric};
    memcpy(fact.holders, push->holders, sizeof fact.holders);
    uint8_t bytes[FACT_HOLDERS_MAX * 32 + 128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_manifest_pack(&writer, &fact);
    struct core_pending *pending =
        core_put(core, FACT_MANIFEST, fact_key_manifest(&push->attempt, push->step), &writer);
    if (pending != NULL && fact.durable && !push->is_repair) {
        pending->action = CORE_ACTION_DURABLE; /* copies that no record on a disk names are not found again */
        pending->attempt = push->attempt;
        pending->slot = push->slot;
        pending->step = push->step;
    }
}

void core_replicas_durable(struct node_core *core, const attempt_id *attempt, uint32_t slot, uint64_t step)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_DURABLE);
    effect->u.worker.slot = slot;
    effect->u.worker.attempt = *attempt;
    effect->u.worker.step = step;
}

/* Asks the next nodes in rendezvous order of the trial until as many are asked or have confirmed as are wanted. Returns
 * false when the push is over. */
static bool advance(struct node_core *core, struct core_push *push)
{
    node_id candidates[NODE_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->peer_count; i++) {
        if (core_node_accepts(core, core->peers[i]->id)) {
            candidates[count++] = core->peers[i]->id;
        }
    }
    uint8_t key[EXPERIMENT_ID_BYTES + 4];
    memcpy(key, push->attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    bytes_put_u32(key + EXPERIMENT_ID_BYTES, push->attempt.trial);
    rendezvous_sort(candidates, count, key, sizeof key);
    for (uint32_t i = 0; i < count && push->holder_count + push->waiting_count < push->wanted; i++) {
        bool asked = false;
        for (uint32_t j = 0; j < push->asked_count; j++) {
            asked |= node_id_equal(push->asked[j], candidates[i]);
        }
        if (asked || push->asked_count == FACT_HOLDERS_MAX * 2 || !core_has_room(core, 8, 1u << 14)) {
            continue;
        }
        push->asked[push->asked_count++] = candidates[i];
        push->waiting_count++;
        struct node_effect *effect = core_effect(core, NODE_EFFECT_PUSH);
        effect->u.push.blob = push->blob;
        effect->u.push.to = candidates[i];
        effect->u.push.attempt = push->attempt;
        effect->u.push.step = push->step;
    }
    return push->waiting_count > 0;
}

static void push_drop(struct node_core *core, struct core_push *push)
{
    struct core_push **link = &core->pushes;
    while (*link != push) {
        link = &(*link)->next;
    }
    *link = push->next;
    arena_give(&core->arena, push, sizeof *push);
}

void core_replicas_forget(struct node_core *core, experiment_id experiment)
{
    for (struct core_push *push = core->pushes, *next; push != NULL; push = next) {
        next = push->next;
        if (experiment_id_equal(push->attempt.experiment, experiment)) {
            push_drop(core, push); /* answers that still come are nobody's */
        }
    }
    for (struct core_code **link = &core->codes; *link != NULL; link = &(*link)->next) {
        struct core_code *code = *link;
        if (experiment_id_equal(code->experiment, experiment)) {
            *link = code->next;
            arena_give(&core->arena, code, sizeof *code);
            return;
        }
    }
}

void core_replicas_checkpoint(struct node_core *core, const struct node_event *event)
{
    if (core_is_deleted(core, event->u.blob.attempt.experiment)) {
        return; /* its worker is being ended */
    }
    const struct view_experiment *experiment = view_find_experiment(&core->view, event->u.blob.attempt.experiment);
    struct core_push *push = arena_take(&core->arena, sizeof *push);
    if (push == NULL) {
        core->counters.full++;
        return;
    }
    push->attempt = event->u.blob.attempt;
    push->slot = event->u.blob.slot;
    push->step = event->u.blob.step;
    push->blob = event->u.blob.blob;
    push->bytes = event->u.blob.bytes;
    push->wanted = experiment != NULL && experiment->known ? experiment->config->checkpoint_replicas
                                                               : FACT_HOLDERS_MAX; /* who knows how many it asked for */
    if ((experiment == NULL || !experiment->known) && BUG(copies_guessed, "copies of the unknown are not called enough")) {
        push->wanted = 2;
    }
    push->has_metric = experiment != NULL && experiment->known && event->byte_count > 0 &&
                       view_metric(event->bytes, event->byte_count, "validation", experiment->config->metric,
                                   &push->metric) &&
                       push->metric - push->metric == 0;
    push->metric = push->has_metric ? push->metric : 0;
    push->wanted = push->wanted > FACT_HOLDERS_MAX ? FACT_HOLDERS_MAX : push->wanted;
    push->holders[0] = core->options.self;
    push->holder_count = 1;
    push->next = core->pushes;
    core->pushes = push;
    bool is_over = !advance(core, push);
    if (!is_over && BUG(durable_too_soon, "a manifest is durable once its copies are confirmed")) {
        memcpy(push->holders + 1, push->asked, push->waiting_count * sizeof push->asked[0]);
        push->holder_count += push->waiting_count;
        is_over = true;
    }
    if (is_over) {
        finish(core, push);
        push_drop(core, push);
    }
}

void core_replicas_stopped(struct node_core *core, const attempt_id *attempt)
{
    for (const struct core_push *push = core->pushes; push != NULL; push = push->next) {
        if (!push->is_repair && !push->is_check && attempt_id_equal(&push->attempt, attempt)) {
            finish(core, push);
        }
    }
}

/* ---- code ---------------------------------------------------------------------------------------------------------------- */

static struct core_code *find_code(struct node_core *core, experiment_id experiment)
{
    struct core_code **link = &core->codes;
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

static void push_code(struct node_core *core, hash256 blob, node_id to)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PUSH);
    effect->u.push.blob = blob;
    effect->u.push.to = to;
}

/* Whoever has the code sees to it that the first nodes in rendezvous order of the experiment have it too. Several may do
 * so at once: a node that has it answers that at once. */
static void repair_code(struct node_core *core, const struct view_experiment *experiment)
{
    struct core_code *code = find_code(core, experiment->id);
    if (code == NULL) {
        return;
    }
    code->pass = core->repair_pass;
    if (core->now_ms < code->retry_ms) {
        return;
    }
    node_id nodes[NODE_MEMBERS_MAX];
    uint32_t count = 0;
    if (core_node_accepts(core, core->options.self)) {
        nodes[count++] = core->options.self;
    }
    for (uint32_t i = 0; i < core->peer_count && count < NODE_MEMBERS_MAX; i++) {
        if (core_node_accepts(core, core->peers[i]->id)) {
            nodes[count++] = core->peers[i]->id;
        }
    }
    rendezvous_sort(nodes, count, experiment->id.bytes, sizeof experiment->id.bytes);
    for (uint32_t i = 0; i < count && i < CORE_CODE_COPIES; i++) {
        const struct core_peer *peer = core_find_peer(core, nodes[i]);
        if (peer == NULL) {
            continue; /* ourselves */
        }
        struct core_code_copy *copy = NULL;
        for (uint32_t c = 0; c < FACT_HOLDERS_MAX; c++) {
            if (node_id_equal(code->copies[c].node, nodes[i])) {
                copy = &code->copies[c];
            }
        }
        if (copy == NULL) {
            copy = &code->copies[0]; /* newest first */
            memmove(copy + 1, copy, (FACT_HOLDERS_MAX - 1) * sizeof *copy);
            *copy = (struct core_code_copy){.node = nodes[i], .boot = peer->boot};
        } else if (copy->boot != peer->boot) {
            *copy = (struct core_code_copy){.node = nodes[i], .boot = peer->boot}; /* perhaps with another disk */
        }
        if (!copy->is_asked && !copy->has_code) {
            copy->is_asked = true;
            push_code(core, experiment->code, nodes[i]);
        } else if (!copy->is_asked && !copy->has_config_text && !hash256_is_none(experiment->config_text)) {
            copy->is_asked = true;
            push_code(core, experiment->config_text, nodes[i]);
        }
    }
}

static void code_pushed(struct node_core *core, const struct node_event *event)
{
    for (struct core_code *code = core->codes; code != NULL; code = code->next) {
        const struct view_experiment *experiment = view_find_experiment(&core->view, code->experiment);
        bool is_code = experiment != NULL && hash256_equal(experiment->code, event->u.blob.blob);
        bool is_text = experiment != NULL && hash256_equal(experiment->config_text, event->u.blob.blob);
        for (uint32_t i = 0; (is_code || is_text) && i < FACT_HOLDERS_MAX; i++) {
            struct core_code_copy *copy = &code->copies[i];
            if (node_id_equal(copy->node, event->u.blob.node)) {
                copy->is_asked = false;
                if (is_code && event->u.blob.ok && !copy->has_code) {
                    const struct view_member *member = view_find_member(&core->view, copy->node);
                    TRACE(&core->options.trace, "the code of %s is on %s", experiment->config->name,
                          member != NULL ? member->name : "?");
                }
                copy->has_code |= is_code && event->u.blob.ok;
                copy->has_config_text |= is_text && event->u.blob.ok;
                code->retry_ms = event->u.blob.ok ? code->retry_ms : core->now_ms + CORE_CODE_RETRY_MS;
            }
        }
    }
}

static void drop_codes(struct node_core *core)
{
    for (struct core_code **link = &core->codes; *link != NULL;) {
        struct core_code *code = *link;
        if (code->pass == core->repair_pass) {
            link = &code->next;
        } else {
            *link = code->next;
            arena_give(&core->arena, code, sizeof *code);
        }
    }
}

void core_replicas_fetched(struct node_core *core, experiment_id experiment)
{
    for (struct core_code *code = core->codes; code != NULL; code = code->next) {
        if (experiment_id_equal(code->experiment, experiment)) {
            code->retry_ms = 0;
        }
    }
}

/* ---- copies made --------------------------------------------------------------------------------------------------------- */

void core_replicas_pushed(struct node_core *core, const struct node_event *event)
{
    if (experiment_id_is_none(event->u.blob.attempt.experiment)) {
        code_pushed(core, event);
        return;
    }
    for (struct core_push *push = core->pushes; push != NULL; push = push->next) {
        if (!hash256_equal(push->blob, event->u.blob.blob) || push->step != event->u.blob.step ||
            !attempt_id_equal(&push->attempt, &event->u.blob.attempt) || push->waiting_count == 0) {
            continue;
        }
        push->waiting_count--;
        if (push->is_check) {
            push_drop(core, push);
            return;
        }
        bool is_kept = event->u.blob.ok && push->holder_count < FACT_HOLDERS_MAX;
        if (!event->u.blob.ok) {
            MARK(copy_refused);
        }
        if (is_kept) {
            push->holders[push->holder_count++] = event->u.blob.node;
        }
        if (!advance(core, push)) {
            if (is_kept || !push->is_repair) {
                finish(core, push);
            }
            push_drop(core, push);
        }
        return;
    }
}

/* ---- repair ------------------------------------------------------------------------------------------------------------- */

static bool list_has(const node_id *list, uint32_t count, node_id node)
{
    for (uint32_t i = 0; i < count; i++) {
        if (node_id_equal(list[i], node)) {
            return true;
        }
    }
    return false;
}

/* A holder died, or its copy: the living holder with the smallest id copies the checkpoint to one more node. What it
 * writes is a row of its own, since each record has one writer; readers unite the rows of one checkpoint. */
static void repair_checkpoint(struct node_core *core, const struct view_experiment *experiment,
                              const struct view_manifest *checkpoint)
{
    struct view_manifest united;
    (void)view_manifest_unite(checkpoint, &united);
    node_id alive[FACT_HOLDERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < united.holder_count; i++) {
        if (core_node_alive(core, united.holders[i]) && !core_copy_is_doubtful(core, united.blob, united.holders[i])) {
            alive[count++] = united.holders[i];
        }
    }
    uint32_t wanted = experiment->config->checkpoint_replicas;
    wanted = wanted > FACT_HOLDERS_MAX ? FACT_HOLDERS_MAX : wanted;
    bool is_mine = list_has(alive, count, core->options.self);
    for (uint32_t i = 0; i < count; i++) {
        is_mine &= node_id_compare(core->options.self, alive[i]) <= 0;
    }
    for (const struct core_push *push = core->pushes; push != NULL; push = push->next) {
        is_mine &= !hash256_equal(push->blob, united.blob);
    }
    struct core_push *push = is_mine && count < wanted ? arena_take(&core->arena, sizeof *push) : NULL;
    if (push == NULL) {
        return;
    }
    push->attempt = united.attempt;
    push->step = united.step;
    push->blob = united.blob;
    push->bytes = united.bytes;
    push->has_metric = united.has_metric;
    push->metric = united.metric;
    MARK(checkpoint_repaired);
    push->is_repair = true;
    push->wanted = wanted;
    push->holder_count = count;
    push->asked_count = count;
    memcpy(push->holders, alive, count * sizeof alive[0]);
    memcpy(push->asked, alive, count * sizeof alive[0]);
    push->next = core->pushes;
    core->pushes = push;
    if (!advance(core, push)) {
        push_drop(core, push); /* nobody is left to ask */
    }
}

/* The newest one that somebody alive holds, from which the trial would go on, and all that are kept. */
static void repair_trial(struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial)
{
    const struct view_manifest *newest = core_replicas_newest(core, trial);
    if (newest != NULL) {
        repair_checkpoint(core, experiment, newest);
    }
    for (const struct view_manifest *row = trial->manifests, *next; row != NULL; row = next) {
        struct view_manifest united;
        next = view_manifest_unite(row, &united);
        if (united.is_kept && row != newest && core_has_room(core, 64, 1u << 16)) {
            repair_checkpoint(core, experiment, row);
        }
    }
}

/* A node that begins anew may have an old or an empty disk. Each trial's newest checkpoint that it should hold is sent to
 * it once more by the other living holder with the smallest id; if it has it, it says so at once. */
static bool check_copy(struct node_core *core, const struct core_peer *peer, const struct view_trial *trial)
{
    const struct view_manifest *newest = core_replicas_newest(core, trial);
    if (newest == NULL) {
        return false;
    }
    struct view_manifest united;
    (void)view_manifest_unite(newest, &united);
    bool is_mine = list_has(united.holders, united.holder_count, core->options.self) &&
                   list_has(united.holders, united.holder_count, peer->id);
    for (uint32_t i = 0; i < united.holder_count; i++) {
        bool is_other = node_id_equal(united.holders[i], peer->id) || !core_node_alive(core, united.holders[i]);
        is_mine &= is_other || node_id_compare(core->options.self, united.holders[i]) <= 0;
    }
    for (const struct core_push *push = core->pushes; push != NULL; push = push->next) {
        is_mine &= !hash256_equal(push->blob, newest->blob);
    }
    struct core_push *push = is_mine ? arena_take(&core->arena, sizeof *push) : NULL;
    if (push == NULL) {
        return false;
    }
    push->attempt = newest->attempt;
    push->step = newest->step;
    push->blob = newest->blob;
    push->bytes = newest->bytes;
    push->is_check = true;
    push->waiting_count = 1;
    push->next = core->pushes;
    core->pushes = push;
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PUSH);
    effect->u.push.blob = push->blob;
    effect->u.push.to = peer->id;
    effect->u.push.attempt = push->attempt;
    effect->u.push.step = push->step;
    return true;
}

static void check_copies(struct node_core *core, struct core_peer *peer)
{
    if (!core_node_trusted(core, peer->id) || peer->boot == 0 || (peer->copies_done && peer->copies_boot == peer->boot)) {
        return;
    }
    if (peer->copies_boot != peer->boot) {
        peer->copies_boot = peer->boot;
        memset(&peer->copies_experiment, 0, sizeof peer->copies_experiment);
        peer->copies_trial = 0;
    }
    peer->copies_done = false;
    uint32_t sent = 0;
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        int order = experiment_id_compare(experiment->id, peer->copies_experiment);
        if (order < 0) {
            continue; /* looked at in an earlier pass */
        }
        for (uint32_t t = order > 0 ? 0 : peer->copies_trial; t < experiment->trial_slots; t++) {
            if (sent == CORE_CHECKS_MAX || !core_has_room(core, 64, 1u << 16)) {
                peer->copies_experiment = experiment->id;
                peer->copies_trial = t;
                return;
            }
            sent += experiment->trials[t] != NULL && check_copy(core, peer, experiment->trials[t]);
        }
    }
    peer->copies_done = true;
}

void core_replicas_housekeep(struct node_core *core)
{
    if (core->now_ms < core->repair_ms || core->syncing || core->leaving) {
        return;
    }
    core->repair_ms = core->now_ms + CORE_REPAIR_MS;
    core->repair_pass++;
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        if (!experiment->known) {
            continue;
        }
        for (uint32_t t = 0; t < experiment->trial_slots; t++) {
            if (experiment->trials[t] != NULL && core_has_room(core, 64, 1u << 16)) {
                repair_trial(core, experiment, experiment->trials[t]);
            }
        }
        if (!view_experiment_over(experiment) && core_has_room(core, 64, 1u << 16)) {
            repair_code(core, experiment);
        }
    }
    drop_codes(core);
    for (uint32_t i = 0; i < core->peer_count; i++) {
        check_copies(core, core->peers[i]);
    }
}
