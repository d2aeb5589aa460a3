#include "tests/scenario/core_world_inside.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "node/core/coordinator/coordination.h"
#include "node/core/members/members.h"

#define CORE_BYTES (16u << 20)
#define WALL_S 1700000000u

/* Something that will happen to a node, with copies of all that the event borrows. */
struct world_event {
    struct world_event *next;
    uint64_t at_ms;
    uint32_t node;
    uint64_t boot; /* meant for this life of the node; 0: for any */
    struct node_event event;
    struct message message;
    uint8_t *bytes;
};

/* ---- the log -------------------------------------------------------------------------------------------------------------- */

void world_say(struct world *world, uint32_t node, char mark, const char *text)
{
    int written = snprintf(world->log + world->log_bytes, WORLD_LOG_BYTES - world->log_bytes, "%s%c %s\n",
                           world->nodes[node].person.name, mark, text);
    world->log_bytes += (size_t)written;
    CHECK(world->log_bytes < WORLD_LOG_BYTES);
}

struct tracer {
    struct world *world;
    uint32_t node;
};

static void trace_line(void *context, const struct event_about *about, const char *text)
{
    (void)about;
    struct tracer *tracer = context;
    world_say(tracer->world, tracer->node, ':', text);
}

size_t world_find(const struct world *world, size_t from, const char *part)
{
    const char *at = strstr(world->log + from, part);
    return at != NULL ? (size_t)(at - world->log) : SIZE_MAX;
}

uint32_t world_count(const struct world *world, const char *part)
{
    uint32_t count = 0;
    for (size_t at = 0; (at = world_find(world, at, part)) != SIZE_MAX; at++) {
        count++;
    }
    return count;
}

/* ---- events on their way -------------------------------------------------------------------------------------------------- */

static void enqueue(struct world *world, struct world_event *posted)
{
    struct world_event **link = &world->queue;
    while (*link != NULL && (*link)->at_ms <= posted->at_ms) {
        link = &(*link)->next;
    }
    posted->next = *link;
    *link = posted;
}

void world_post(struct world *world, uint64_t at_ms, uint32_t node, uint64_t boot, const struct node_event *event)
{
    struct world_event *posted = calloc(1, sizeof *posted);
    posted->at_ms = at_ms;
    posted->node = node;
    posted->boot = boot;
    posted->event = *event;
    const uint8_t *bytes = event->bytes;
    uint32_t count = event->byte_count;
    if (event->kind == NODE_EVENT_MESSAGE) {
        posted->message = *event->u.message.message;
        bytes = posted->message.bytes;
        count = posted->message.byte_count;
    }
    posted->bytes = malloc(count + 1);
    if (count > 0) {
        memcpy(posted->bytes, bytes, count);
    }
    enqueue(world, posted);
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------- */

/* Which another node with this number's disk becomes. */
static struct person new_person(const struct world *world, uint32_t number)
{
    return make_person(WORLD_NODES_MAX * (1 + world->nodes[number].keys_made) + number);
}

static void perform(struct world *world, uint32_t number, const struct node_effect *effect)
{
    switch (effect->kind) {
    case NODE_EFFECT_SEND:
        world_send_message(world, number, effect);
        break;
    case NODE_EFFECT_PERSIST_RECORD:
    case NODE_EFFECT_PERSIST_FENCE:
        world_persist(world, number, effect);
        break;
    case NODE_EFFECT_FORGET_RECORD:
    case NODE_EFFECT_FORGET_FENCE:
        world_forget(&world->nodes[number], effect);
        break;
    case NODE_EFFECT_CHECK_LINK:
        world_answer_link(world, number, effect);
        break;
    case NODE_EFFECT_PREPARE:
    case NODE_EFFECT_SPAWN:
    case NODE_EFFECT_KILL:
    case NODE_EFFECT_STOP_WORKER:
    case NODE_EFFECT_GROUP:
    case NODE_EFFECT_DURABLE:
        world_worker_effect(world, number, effect);
        break;
    case NODE_EFFECT_OUTPUT_DONE:
        break;
    case NODE_EFFECT_PUSH:
        world_push_blob(world, number, effect);
        break;
    case NODE_EFFECT_CONFIRM:
        world_confirm_blob(world, number, effect);
        break;
    case NODE_EFFECT_COLLECT:
        world_collect(world, number, effect);
        break;
    case NODE_EFFECT_REPLY:
        world->reply.count++;
        world->reply.code = effect->u.reply.code;
        world->reply.stored_on = effect->u.reply.stored_on;
        world->reply.already = effect->u.reply.already;
        memcpy(world->reply.text, effect->u.reply.text, sizeof world->reply.text);
        world_say(world, number, '>', "reply");
        break;
    case NODE_EFFECT_WELCOME:
        world->reply.code = effect->u.reply.code;
        memcpy(world->reply.text, effect->u.reply.text, sizeof world->reply.text);
        world_say(world, number, '>', effect->u.reply.code == 0 ? "welcome" : "no welcome");
        break;
    case NODE_EFFECT_ADMIT:
        world_say(world, number, '>', effect->u.peer.gone ? "shut out" : effect->u.peer.invite ? "admit invite" : "admit");
        break;
    case NODE_EFFECT_PEER:
        world_connect_peer(world, number, effect);
        break;
    case NODE_EFFECT_LEAVE_GROUP:
        world_told_to_leave(world, number, effect);
        break;
    case NODE_EFFECT_SEARCHER_START:
    case NODE_EFFECT_SEARCHER_TELL:
    case NODE_EFFECT_SEARCHER_STOP:
        world_searcher_effect(world, number, effect);
        break;
    case NODE_EFFECT_NEW_KEY: {
        world_say(world, number, '>', "new key");
        world->nodes[number].keys_made += effect->u.new_key.afresh;
        struct person person = new_person(world, number);
        struct node_event event = {.kind = NODE_EVENT_KEY};
        event.u.key.ok = true;
        memcpy(event.u.key.public_key, person.public_key, sizeof event.u.key.public_key);
        world_post(world, world->now_ms, number, world->nodes[number].boots, &event);
        break;
    }
    case NODE_EFFECT_BECOME:
        world_say(world, number, '>', "become another node");
        world->nodes[number].becomes = true;
        break;
    }
}

static uint64_t wall_of(const struct world *world, uint32_t number)
{
    return WALL_S + world->wall_shift_s + world->nodes[number].wall_shift_s + world->now_ms / 1000;
}

void world_step(struct world *world, uint32_t number, struct node_event *event)
{
    struct world_node *node = &world->nodes[number];
    event->now_ms = world->now_ms;
    event->wall_s = wall_of(world, number);
    if (event->kind == NODE_EVENT_PERSISTED) {
        char line[64];
        snprintf(line, sizeof line, "%s %llu", event->u.persisted.ok ? "persisted" : "refused",
                 (unsigned long long)event->u.persisted.ticket);
        world_say(world, number, '<', line);
    }
    node->pushes -= event->kind == NODE_EVENT_PUSHED;
    node->effects.count = 0;
    node->effects.used_bytes = 0;
    node_core_step(node->core, event, &node->effects);
    for (uint32_t i = 0; i < node->effects.count; i++) {
        perform(world, number, &node->effects.items[i]);
    }
    if (node->becomes) {
        node->becomes = false;
        node->is_up = false;
        node->person = new_person(world, number);
        world_restart(world, number, false);
    }
}

/* True if something was waiting for this moment. */
static bool step_queue(struct world *world)
{
    struct world_event *first = world->queue;
    if (first == NULL || first->at_ms > world->now_ms) {
        return false;
    }
    world->queue = first->next;
    const struct world_node *node = &world->nodes[first->node];
    if (node->is_up && (first->boot == 0 || first->boot == node->boots)) {
        first->event.bytes = first->bytes;
        if (first->event.kind == NODE_EVENT_MESSAGE) {
            first->message.bytes = first->bytes;
            first->event.u.message.message = &first->message;
        }
        world_step(world, first->node, &first->event);
    }
    free(first->bytes);
    free(first);
    return true;
}

/* Moves to the next moment at which something happens, `until_ms` at the latest. */
static void step_time(struct world *world, uint64_t until_ms)
{
    uint64_t next_ms = world->queue != NULL && world->queue->at_ms < until_ms ? world->queue->at_ms : until_ms;
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct world_node *node = &world->nodes[i];
        if (world_is_asleep(world, i)) {
            next_ms = node->asleep_until_ms < next_ms ? node->asleep_until_ms : next_ms;
            continue;
        }
        uint64_t tick_ms = node->is_up ? node_core_next_ms(node->core) : UINT64_MAX;
        next_ms = tick_ms < next_ms ? tick_ms : next_ms;
        for (uint32_t slot = 0; slot < node->slot_count && node->is_up; slot++) {
            const struct world_worker *worker = &node->workers[slot];
            next_ms = worker->runs && worker->status_ms < next_ms ? worker->status_ms : next_ms;
        }
    }
    world->now_ms = next_ms > world->now_ms ? next_ms : world->now_ms + 1;
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];
        if (world_is_asleep(world, i)) {
            continue;
        }
        for (uint32_t slot = 0; slot < node->slot_count && node->is_up; slot++) {
            if (node->workers[slot].runs && node->workers[slot].status_ms <= world->now_ms) {
                world_worker_works(world, i, slot);
            }
        }
        if (node->is_up && node_core_next_ms(node->core) <= world->now_ms) {
            struct node_event tick = {.kind = NODE_EVENT_TICK};
            world_step(world, i, &tick);
        }
    }
}

void world_run(struct world *world, uint64_t ms)
{
    (void)world_run_until(world, ms, 0, "\n\n"); /* never in the log */
}

bool world_run_until(struct world *world, uint64_t max_ms, size_t from, const char *line)
{
    uint64_t until_ms = world->now_ms + max_ms;
    size_t looked = from;
    for (;;) {
        while (step_queue(world)) {
        }
        if (world_find(world, looked, line) != SIZE_MAX) {
            return true;
        }
        looked = world->log_bytes;
        if (world->now_ms >= until_ms) {
            return false;
        }
        step_time(world, until_ms);
    }
}

/* ---- life ----------------------------------------------------------------------------------------------------------------- */

static void build_node(struct world_node *node, uint32_t slots)
{
    node->slot_count = slots;
    node->memory = aligned_alloc(16, CORE_BYTES);
    node->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *node->effects.items);
    node->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    node->records = malloc(WORLD_DISK_MAX * sizeof *node->records);
}

uint32_t world_copy(struct world *world, uint32_t number)
{
    CHECK(world->node_count < WORLD_NODES_MAX);
    struct world_node *node = &world->nodes[world->node_count];
    const struct world_node *from = &world->nodes[number];
    build_node(node, from->slot_count);
    node->person = from->person;
    bytes_copy_text(node->person.name, sizeof node->person.name, "copy");
    bytes_copy_text(node->address, sizeof node->address, "10.0.0.200:7410");
    node->boots = from->boots;
    node->record_count = from->record_count;
    memcpy(node->records, from->records, from->record_count * sizeof *from->records);
    node->fence_count = from->fence_count;
    memcpy(node->fences, from->fences, sizeof from->fences);
    return world->node_count++;
}

struct world *world_new(uint32_t node_count, uint32_t slots_each)
{
    struct world *world = calloc(1, sizeof *world);
    world->now_ms = 1000;
    world->node_count = node_count;
    world->log = calloc(1, WORLD_LOG_BYTES);
    CHECK(node_count <= WORLD_NODES_MAX && slots_each <= WORLD_SLOTS_MAX);
    struct person founder = make_person(0);
    for (uint32_t i = 0; i < node_count; i++) {
        struct world_node *node = &world->nodes[i];
        node->person = make_person(i);
        build_node(node, slots_each);
        bytes_copy_text(node->address, sizeof node->address, make_node(&node->person, 0).addresses[0]);
        for (uint32_t j = 0; j < node_count; j++) {
            struct person person = make_person(j);
            struct fact_member member = make_member(&person);
            struct made made;
            make_record(&made, founder.id, 1, j + 1, FACT_MEMBER, fact_key_node_id(person.id), &member);
            world_store(world, i, &made);
        }
    }
    return world;
}

void world_free(struct world *world)
{
    while (world->queue != NULL) {
        struct world_event *next = world->queue->next;
        free(world->queue->bytes);
        free(world->queue);
        world->queue = next;
    }
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];
        if (node->core != NULL) {
            free(node->core->options.trace.context);
        }
        free(node->memory);
        free(node->effects.items);
        free(node->effects.bytes);
        free(node->records);
        free(node->named);
    }
    free(world->log);
    free(world);
}

static void adopt_workers(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];
    for (uint32_t slot = 0; slot < node->slot_count; slot++) {
        const struct world_worker *worker = &node->workers[slot];
        if (worker->runs) {
            struct node_event event = {.kind = NODE_EVENT_ADOPT};
            event.u.adopt.slot = slot;
            event.u.adopt.attempt = worker->attempt;
            event.u.adopt.number = (uint16_t)worker->number;
            event.u.adopt.token = worker->token;
            event.u.adopt.data_port = worker->data_port;
            event.u.adopt.draw = worker->draw;
            memcpy(event.u.adopt.group_key, worker->group_key, sizeof event.u.adopt.group_key);
            world_step(world, number, &event);
        }
    }
}

void world_restart(struct world *world, uint32_t number, bool adopt)
{
    struct world_node *node = &world->nodes[number];
    CHECK(!node->is_up);
    if (node->core != NULL) {
        free(node->core->options.trace.context);
    }
    struct tracer *tracer = malloc(sizeof *tracer);
    *tracer = (struct tracer){world, number};
    node->boots++;
    node->pushes = 0;
    memset(node->memory, 0xa5, CORE_BYTES); /* nothing of an earlier life is to be found there */
    struct node_options options = {.self = node->person.id, .mesh = make_mesh(), .boot = node->boots << 32 | (number + 1),
                                   .seed = 100 * number + node->boots, .now_ms = world->now_ms,
                                   .wall_s = wall_of(world, number), .memory = node->memory,
                                   .memory_bytes = world->core_bytes != 0 ? world->core_bytes : CORE_BYTES,
                                   .trace = {trace_line, tracer}};
    options.node = make_node(&node->person, node->slot_count);
    for (uint32_t slot = 0; slot < node->slot_count && node->parts != 0; slot++) {
        options.node.slots[slot].kind = FACT_SLOT_CUDA;
        format_text(options.node.slots[slot].uuid, sizeof options.node.slots[slot].uuid, "%s-%u-%u",
                    (node->parts >> slot & 1) != 0 ? "MIG" : "GPU", number, slot);
    }
    options.node.reads = node->is_older ? 0 : FACT_READS_LARGE | FACT_READS_STOP | FACT_READS_ANNOTATION | FACT_READS_SEARCH | FACT_READS_RETRY |
                                                    FACT_READS_DRAWN | FACT_READS_PROMOTION | FACT_READS_EXTENSION |
                                                    FACT_READS_POPULATION | FACT_READS_DRAWN_PROMOTION | FACT_READS_CUSTOM | FACT_READS_PARTS | FACT_READS_SECRETS | FACT_READS_WAITS | FACT_READS_MODELS;
    options.node.reads |= world->counts_usage ? FACT_READS_USAGE : 0;
    options.node.reads &= ~node->lacks;
    options.node.label_count = node->label != NULL ? 1 : 0;
    if (node->label != NULL) {
        bytes_copy_text(options.node.labels[0], sizeof options.node.labels[0], node->label);
    }
    bytes_copy_text(options.node.addresses[0], sizeof options.node.addresses[0], node->address);
    if (node->speaks.newest != 0) {
        options.node.protocol_min = node->speaks.oldest;
        options.node.protocol_max = node->speaks.newest;
    }
    node->link_count = 0;
    memcpy(options.public_key, node->person.public_key, sizeof options.public_key);
    options.secret[0] = (uint8_t)(1 + number);
    options.secret[1] = (uint8_t)node->boots;
    node->core = node_core_init(&options);
    CHECK(node->core != NULL);
    node->is_up = true;
    for (uint32_t i = 0; i < node->record_count; i++) {
        struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .bytes = node->records[i].bytes,
                                   .byte_count = node->records[i].count};
        world_step(world, number, &event);
    }
    for (uint32_t i = 0; i < node->fence_count; i++) {
        struct node_event event = {.kind = NODE_EVENT_LOAD_FENCE, .bytes = node->fences[i].bytes,
                                   .byte_count = node->fences[i].count};
        world_step(world, number, &event);
    }
    if (adopt) {
        adopt_workers(world, number);
    } else {
        memset(node->workers, 0, sizeof node->workers);
    }
    struct node_event event = {.kind = NODE_EVENT_START};
    world_step(world, number, &event);
    for (uint32_t slot = 0; slot < node->slot_count && world->is_elastic; slot++) {
        if (node->workers[slot].runs && node->workers[slot].group_size == 0) {
            world_waits(world, number, slot); /* on a new connection it asks again */
        }
    }
}

void world_crash(struct world *world, uint32_t number)
{
    CHECK(world->nodes[number].is_up);
    world->nodes[number].is_up = false;
    world_say(world, number, '<', "crash");
}

void world_die(struct world *world, uint32_t number)
{
    struct world_node *node = &world->nodes[number];
    node->is_up = false;
    node->is_cut = true;
    memset(node->workers, 0, sizeof node->workers);
    world_say(world, number, '<', "dies");
}

void world_sleep(struct world *world, uint32_t number, uint64_t ms)
{
    struct world_event *all = world->queue;
    world->queue = NULL;
    while (all != NULL) {
        struct world_event *event = all;
        all = event->next;
        event->at_ms += event->node == number ? ms : 0;
        enqueue(world, event);
    }
    world->nodes[number].asleep_until_ms = world->now_ms + ms;
    world_say(world, number, '<', "sleep");
}

void world_start_all(struct world *world)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        world_restart(world, i, false);
    }
    world_run(world, ELECTION_UP_MS + 2000); /* all are old enough to coordinate */
    for (uint32_t i = 0; i < world->node_count; i++) {
        CHECK(!world->nodes[i].core->members->syncing);
    }
}

/* ---- users ---------------------------------------------------------------------------------------------------------------- */

void world_submit(struct world *world, uint32_t node, const struct config *config)
{
    world_submit_as(world, node, 0, config);
}

void world_submit_as(struct world *world, uint32_t node, uint32_t number, const struct config *config)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = packed};
    struct config lean;
    if (!config_is_plain(config)) {
        struct search_space space = config_search_space(config);
        CHECK(search_trial_count(&space, &event.u.request.trial_count) == 0);
        config_make_lean(config, &lean);
        config = &lean;
    }
    event.byte_count = make_packed_config(config, packed);
    event.u.request.kind = NODE_REQUEST_SUBMIT;
    event.u.request.client = 1;
    event.u.request.experiment = make_experiment_id(number);
    event.u.request.code.bytes[0] = WORLD_CODE_BYTE;
    event.u.request.config_text.bytes[0] = 0xcf;
    event.u.request.checkpoint.bytes[0] = config->begin_from[0] != '\0' ? WORLD_BEGIN_BYTE : 0;
    event.u.request.checkpoint_bytes = config->begin_from[0] != '\0' ? 1000 : 0;
    world_step(world, node, &event);
}

void world_request(struct world *world, uint32_t node, enum node_request_kind kind)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.client = 2;
    event.u.request.experiment = make_experiment_id(0);
    world_step(world, node, &event);
}

void world_annotate(struct world *world, uint32_t node, enum fact_subject subject, bool is_set, const char *label, const char *value)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_ANNOTATE;
    event.u.request.client = 2;
    event.u.request.experiment = make_experiment_id(0);
    event.u.request.subject = subject;
    event.u.request.is_set = is_set;
    (void)bytes_copy_text(event.u.request.label, sizeof event.u.request.label, label);
    (void)bytes_copy_text(event.u.request.value, sizeof event.u.request.value, value);
    world_step(world, node, &event);
}

static void request_of_trial(struct world *world, uint32_t node, uint32_t trial, enum node_request_kind kind)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.client = 2;
    event.u.request.experiment = make_experiment_id(0);
    event.u.request.trial = trial;
    world_step(world, node, &event);
}

void world_stop(struct world *world, uint32_t node, uint32_t trial)
{
    request_of_trial(world, node, trial, NODE_REQUEST_STOP);
}

void world_retry(struct world *world, uint32_t node, uint32_t trial)
{
    request_of_trial(world, node, trial, NODE_REQUEST_RETRY);
}

void world_evict(struct world *world, uint32_t node, uint32_t evicted, bool with_vouched)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_EVICT;
    event.u.request.client = 2;
    event.u.request.node = world->nodes[evicted].person.id;
    event.u.request.with_vouched = with_vouched;
    world_step(world, node, &event);
}

void world_deliver(struct world *world, uint32_t from, uint32_t to, const struct made *made)
{
    struct message message = {.kind = MESSAGE_RECORDS, .bytes = made->bytes, .byte_count = made->count};
    message.boot = world->nodes[from].core->options.boot;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[from].person.id;
    event.u.message.message = &message;
    world_step(world, to, &event);
}

int world_coordinator(const struct world *world)
{
    int found = -1;
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct world_node *node = &world->nodes[i];
        const struct core_coordination *row =
            node->is_up ? core_find_coordination(node->core, make_experiment_id(0)) : NULL;
        if (row != NULL && row->election.state == ELECTION_LEADING) {
            if (found >= 0) {
                return -1;
            }
            found = (int)i;
        }
    }
    return found;
}

uint32_t world_spawns(const struct world *world)
{
    uint32_t spawns = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        spawns += world->nodes[i].spawn_count;
    }
    return spawns;
}

const struct view_experiment *world_experiment(const struct world *world, uint32_t node)
{
    return view_find_experiment(&world->nodes[node].core->view, make_experiment_id(0));
}
