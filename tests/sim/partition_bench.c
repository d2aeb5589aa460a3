/* How much work a partition makes the mesh do twice (DESIGN 7). Eight node cores with two slots each run 120 trials of 8
 * to 12 minutes; somewhere in the first eight minutes (so that there is work for both sides until the end) four of them
 * are cut off from the other four for an hour. Of the slot time inside the partition at most 1 % may be spent twice: for
 * each trial, all but what its longest run took there. Trials save no checkpoints, which is the worst case.
 *
 * This world is smaller than the simulator's: nothing is lost but by the cut, and no daemon restarts. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/core/ground/state.h"
#include "tests/sim/command_line.h"
#include "tests/unit/facts_make.h"

#define NODES 8
#define SLOTS 2
#define TRIALS 120
#define CORE_BYTES ((size_t)64 << 20)
#define MINUTE_MS 60000u
#define SUBMIT_MS 20000u
#define CUT_FOR_MS (60u * MINUTE_MS)
#define GIVE_UP_MS (300u * MINUTE_MS)
#define LINK_MS 2
#define DISK_MS 5
#define WALL_S 1700000000u
#define HEAP_MAX (1u << 16)
#define RUNS_MAX 2048
#define TWICE_PERMILLE_MAX 10

struct happening {
    uint64_t at_ms, order;
    uint32_t node;
    uint32_t serial; /* of the worker's run; 0: none */
    struct node_event event;
    struct message message;
    uint8_t *bytes;
};

struct run {
    uint32_t trial, node, slot;
    attempt_id attempt;
    uint64_t start_ms, end_ms; /* end 0: it runs */
};

struct bench {
    uint64_t now_ms, order, cut_ms;
    struct random random;
    struct person people[NODES];
    struct node_core *cores[NODES];
    bool is_left[NODES]; /* of the cut */
    void *memory[NODES];
    uint64_t tick_ms[NODES];
    experiment_id experiment;
    uint64_t trial_ms[TRIALS];
    struct run runs[RUNS_MAX];
    uint32_t run_count;
    uint32_t running[NODES][SLOTS]; /* run number + 1; 0: none */
    struct happening *heap[HEAP_MAX];
    uint32_t heap_count;
    struct node_effects effects;
};

/* ---- the queue ------------------------------------------------------------------------------------------------------ */

static bool is_before(const struct happening *a, const struct happening *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static struct happening *post(struct bench *bench, uint64_t after_ms, uint32_t node, const struct node_event *event)
{
    struct happening *posted = calloc(1, sizeof *posted);
    CHECK(posted != NULL && bench->heap_count < HEAP_MAX);
    posted->at_ms = bench->now_ms + after_ms;
    posted->order = ++bench->order;
    posted->node = node;
    posted->event = *event;
    if (event->kind == NODE_EVENT_MESSAGE) {
        posted->message = *event->u.message.message;
        posted->bytes = malloc(posted->message.byte_count + 1);
        CHECK(posted->bytes != NULL);
        if (posted->message.byte_count > 0) {
            memcpy(posted->bytes, posted->message.bytes, posted->message.byte_count);
        }
    }
    uint32_t i = bench->heap_count++;
    for (; i > 0 && is_before(posted, bench->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        bench->heap[i] = bench->heap[(i - 1) / 2];
    }
    bench->heap[i] = posted;
    return posted;
}

static struct happening *take_first(struct bench *bench)
{
    struct happening *first = bench->heap[0], *last = bench->heap[--bench->heap_count];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < bench->heap_count; i = child) {
        child += child + 1 < bench->heap_count && is_before(bench->heap[child + 1], bench->heap[child]);
        if (!is_before(bench->heap[child], last)) {
            break;
        }
        bench->heap[i] = bench->heap[child];
    }
    bench->heap[i] = last;
    return first;
}

/* ---- what nodes ask of the world -------------------------------------------------------------------------------------- */

static uint32_t number_of(const struct bench *bench, node_id id)
{
    uint32_t number = 0;
    while (number < NODES && !node_id_equal(bench->people[number].id, id)) {
        number++;
    }
    CHECK(number < NODES);
    return number;
}

static bool is_cut(const struct bench *bench, uint32_t a, uint32_t b)
{
    bool is_during = bench->now_ms >= bench->cut_ms && bench->now_ms < bench->cut_ms + CUT_FOR_MS;
    return is_during && bench->is_left[a] != bench->is_left[b];
}

static struct happening *post_worker(struct bench *bench, uint64_t after_ms, uint32_t node, enum node_event_kind kind,
                                     const struct node_effect *effect)
{
    struct node_event event = {.kind = kind};
    event.u.worker.slot = effect->u.worker.slot;
    event.u.worker.attempt = effect->u.worker.attempt;
    event.u.worker.port = 6000 + effect->u.worker.slot;
    return post(bench, after_ms, node, &event);
}

static void spawn(struct bench *bench, uint32_t node, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot, trial = effect->u.worker.attempt.trial;
    CHECK(bench->running[node][slot] == 0 && bench->run_count < RUNS_MAX && trial < TRIALS);
    bench->runs[bench->run_count++] = (struct run){trial, node, slot, effect->u.worker.attempt, bench->now_ms, 0};
    bench->running[node][slot] = bench->run_count;
    (void)post_worker(bench, 1, node, NODE_EVENT_WORKER_LISTENS, effect);
    post_worker(bench, bench->trial_ms[trial], node, NODE_EVENT_WORKER_EXITED, effect)->serial = bench->run_count;
}

/* The worker leaves now, if it still runs. */
static void end_run(struct bench *bench, uint32_t node, const struct node_effect *effect, bool is_killed)
{
    uint32_t number = bench->running[node][effect->u.worker.slot];
    if (number == 0 || !attempt_id_equal(&bench->runs[number - 1].attempt, &effect->u.worker.attempt)) {
        return;
    }
    struct happening *exited = post_worker(bench, 10, node, NODE_EVENT_WORKER_EXITED, effect);
    exited->serial = number;
    exited->event.u.worker.killed = is_killed;
}

static void perform(struct bench *bench, uint32_t node, const struct node_effect *effect)
{
    struct node_event event = {0};
    uint32_t other;
    switch (effect->kind) {
    case NODE_EFFECT_SEND:
        other = number_of(bench, effect->u.send.to);
        if (!is_cut(bench, node, other)) {
            event.kind = NODE_EVENT_MESSAGE;
            event.u.message.from = bench->people[node].id;
            event.u.message.message = &effect->u.send.message;
            (void)post(bench, LINK_MS, other, &event);
        }
        break;
    case NODE_EFFECT_PERSIST_RECORD:
    case NODE_EFFECT_PERSIST_FENCE:
        event.kind = NODE_EVENT_PERSISTED;
        event.u.persisted.ticket = effect->u.persist.ticket;
        event.u.persisted.ok = true;
        (void)post(bench, DISK_MS, node, &event);
        break;
    case NODE_EFFECT_CHECK_LINK:
        event.kind = NODE_EVENT_LINK;
        event.u.link.peer = effect->u.peer.node;
        event.u.link.open = !is_cut(bench, node, number_of(bench, effect->u.peer.node));
        event.u.link.reached = event.u.link.open;
        (void)post(bench, LINK_MS, node, &event);
        break;
    case NODE_EFFECT_PUSH:
        event.kind = NODE_EVENT_PUSHED;
        event.u.blob.attempt = effect->u.push.attempt;
        event.u.blob.step = effect->u.push.step;
        event.u.blob.blob = effect->u.push.blob;
        event.u.blob.node = effect->u.push.to;
        event.u.blob.ok = !is_cut(bench, node, number_of(bench, effect->u.push.to));
        (void)post(bench, LINK_MS, node, &event);
        break;
    case NODE_EFFECT_PREPARE:
        (void)post_worker(bench, 500, node, NODE_EVENT_PREPARED, effect);
        break;
    case NODE_EFFECT_SPAWN:
        spawn(bench, node, effect);
        break;
    case NODE_EFFECT_KILL:
    case NODE_EFFECT_STOP_WORKER:
        end_run(bench, node, effect, effect->kind == NODE_EFFECT_KILL);
        break;
    default:
        break;
    }
}

static void step(struct bench *bench, uint32_t node, struct node_event *event)
{
    event->now_ms = bench->now_ms;
    event->wall_s = WALL_S + bench->now_ms / 1000;
    bench->effects.count = 0;
    bench->effects.used_bytes = 0;
    node_core_step(bench->cores[node], event, &bench->effects);
    for (uint32_t i = 0; i < bench->effects.count; i++) {
        perform(bench, node, &bench->effects.items[i]);
    }
    uint64_t next_ms = node_core_next_ms(bench->cores[node]);
    bench->tick_ms[node] = next_ms > bench->now_ms ? next_ms : bench->now_ms + 1;
}

static void happen(struct bench *bench, struct happening *happening)
{
    struct node_event *event = &happening->event;
    uint32_t node = happening->node;
    if (event->kind == NODE_EVENT_MESSAGE) {
        if (is_cut(bench, node, number_of(bench, event->u.message.from))) {
            return;
        }
        happening->message.bytes = happening->bytes;
        event->u.message.message = &happening->message;
    }
    if (happening->serial != 0) {
        uint32_t *running = &bench->running[node][event->u.worker.slot];
        if (*running != happening->serial) {
            return; /* it has ended already */
        }
        bench->runs[*running - 1].end_ms = bench->now_ms;
        *running = 0;
    }
    step(bench, node, event);
}

/* ---- one seed ----------------------------------------------------------------------------------------------------------- */

static void load_roster(struct bench *bench, uint32_t node)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct fact_member member = make_member(&bench->people[i]);
        struct made made;
        make_record(&made, bench->people[0].id, 1, i + 1, FACT_MEMBER, fact_key_node_id(bench->people[i].id), &member);
        struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .bytes = made.bytes, .byte_count = made.count};
        step(bench, node, &event);
    }
}

static void start_nodes(struct bench *bench, uint64_t seed)
{
    for (uint32_t i = 0; i < NODES; i++) {
        bench->people[i] = make_person(i == 0 ? 0 : (uint32_t)seed * NODES + i);
        bench->people[i].name[0] = (char)('a' + i);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        struct node_options options = {.self = bench->people[i].id, .mesh = make_mesh(), .boot = 1ull << 32 | (i + 1),
                                       .seed = random_u64(&bench->random), .now_ms = bench->now_ms, .wall_s = WALL_S,
                                       .memory = bench->memory[i], .memory_bytes = CORE_BYTES};
        options.node = make_node(&bench->people[i], SLOTS);
        memcpy(options.public_key, bench->people[i].public_key, sizeof options.public_key);
        options.secret[0] = (uint8_t)(i + 1);
        bench->cores[i] = node_core_init(&options);
        CHECK(bench->cores[i] != NULL);
        load_roster(bench, i);
        struct node_event event = {.kind = NODE_EVENT_START};
        step(bench, i, &event);
    }
}

static void draw(struct bench *bench, uint64_t seed)
{
    random_init(&bench->random, seed);
    bench->now_ms = 1000;
    for (uint32_t left = 0; left < NODES / 2;) {
        bool *side = &bench->is_left[random_below(&bench->random, NODES)];
        left += !*side;
        *side = true;
    }
    for (uint32_t i = 0; i < TRIALS; i++) {
        bench->trial_ms[i] = 8 * MINUTE_MS + random_below(&bench->random, 4 * MINUTE_MS);
    }
    for (size_t i = 0; i < sizeof bench->experiment.bytes; i++) {
        bench->experiment.bytes[i] = (uint8_t)random_u64(&bench->random);
    }
    bench->cut_ms = SUBMIT_MS + MINUTE_MS + random_below(&bench->random, 7 * MINUTE_MS);
}

static void submit(struct bench *bench)
{
    struct config config;
    make_config(&config, TRIALS, 5);
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = packed};
    event.byte_count = make_packed_config(&config, packed);
    event.u.request.kind = NODE_REQUEST_SUBMIT;
    event.u.request.client = 1;
    event.u.request.experiment = bench->experiment;
    event.u.request.code.bytes[0] = 1;
    event.u.request.config_text.bytes[0] = 2;
    step(bench, (uint32_t)random_below(&bench->random, NODES), &event);
}

static bool is_over(const struct bench *bench)
{
    for (uint32_t i = 0; i < NODES; i++) {
        const struct view_experiment *seen = view_find_experiment(&bench->cores[i]->view, bench->experiment);
        if (seen == NULL || view_experiment_live(seen)) {
            return false;
        }
    }
    return true;
}

static void run_until(struct bench *bench, uint64_t until_ms)
{
    while (bench->now_ms < until_ms) {
        uint32_t ticking = 0;
        for (uint32_t i = 1; i < NODES; i++) {
            ticking = bench->tick_ms[i] < bench->tick_ms[ticking] ? i : ticking;
        }
        if (bench->heap_count > 0 && bench->heap[0]->at_ms <= bench->tick_ms[ticking]) {
            struct happening *first = take_first(bench);
            bench->now_ms = first->at_ms;
            happen(bench, first);
            free(first->bytes);
            free(first);
        } else {
            bench->now_ms = bench->tick_ms[ticking] > bench->now_ms ? bench->tick_ms[ticking] : bench->now_ms;
            struct node_event tick = {.kind = NODE_EVENT_TICK};
            step(bench, ticking, &tick);
        }
    }
}

/* Slot time inside the partition, in all and beyond each trial's longest run there. */
static void measure(const struct bench *bench, uint64_t *spent_ms, uint64_t *twice_ms)
{
    uint64_t heal_ms = bench->cut_ms + CUT_FOR_MS;
    *spent_ms = *twice_ms = 0;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        uint64_t sum_ms = 0, longest_ms = 0;
        for (uint32_t i = 0; i < bench->run_count; i++) {
            const struct run *run = &bench->runs[i];
            uint64_t from_ms = run->start_ms > bench->cut_ms ? run->start_ms : bench->cut_ms;
            uint64_t to_ms = run->end_ms != 0 && run->end_ms < heal_ms ? run->end_ms : heal_ms;
            uint64_t inside_ms = run->trial == trial && to_ms > from_ms ? to_ms - from_ms : 0;
            sum_ms += inside_ms;
            longest_ms = inside_ms > longest_ms ? inside_ms : longest_ms;
        }
        *spent_ms += sum_ms;
        *twice_ms += sum_ms - longest_ms;
    }
}

static void clear(struct bench *bench)
{
    while (bench->heap_count > 0) {
        struct happening *left = take_first(bench);
        free(left->bytes);
        free(left);
    }
    struct node_effects effects = bench->effects;
    void *memory[NODES];
    memcpy(memory, bench->memory, sizeof memory);
    memset(bench, 0, sizeof *bench);
    memcpy(bench->memory, memory, sizeof memory);
    bench->effects = effects;
}

/* Returns the part of the whole mesh's slot time inside the partition that was spent twice, in 1/100 of a percent. */
static uint64_t run_seed(struct bench *bench, uint64_t seed, bool *is_done)
{
    draw(bench, seed);
    start_nodes(bench, seed);
    run_until(bench, SUBMIT_MS);
    submit(bench);
    run_until(bench, bench->cut_ms + CUT_FOR_MS);
    while (!is_over(bench) && bench->now_ms < GIVE_UP_MS) {
        run_until(bench, bench->now_ms + 10000);
    }
    *is_done = is_over(bench);
    uint64_t spent_ms, twice_ms;
    measure(bench, &spent_ms, &twice_ms);
    uint64_t slot_ms = (uint64_t)NODES * SLOTS * CUT_FOR_MS;
    printf("seed %llu: cut after %llu s, %llu of %llu slot minutes used, %llu s of them twice (%.2f %%), %u runs, %s after "
           "%llu min\n",
           (unsigned long long)seed, (unsigned long long)(bench->cut_ms - SUBMIT_MS) / 1000,
           (unsigned long long)spent_ms / MINUTE_MS, (unsigned long long)slot_ms / MINUTE_MS,
           (unsigned long long)twice_ms / 1000, 100.0 * (double)twice_ms / (double)slot_ms, bench->run_count,
           *is_done ? "done" : "NOT DONE", (unsigned long long)(bench->now_ms - SUBMIT_MS) / MINUTE_MS);
    (void)fflush(stdout);
    clear(bench);
    return twice_ms * 10000 / slot_ms;
}

static const char purpose[] =
    "How much work a partition makes the mesh do twice: one line for each seed, then the worst; exits 1 above 1 % of the\n"
    "slot time inside the partition.\n";

int main(int argc, char **argv)
{
    uint64_t seeds = 20, first = 1, worst = 0;
    const struct command_line_option rows[] = {
        {.name = "--seeds", .value = "N", .help = "this many; else 20", .number = &seeds, .min = 1},
        {.name = "--first", .value = "S", .help = "from this one on; else from 1", .number = &first},
    };
    const struct command_line line = {purpose, rows, sizeof rows / sizeof rows[0]};
    int status = command_line_read(&line, argc, argv, stdout, stderr);
    if (status != COMMAND_LINE_GO_ON) {
        return status;
    }
    struct bench *bench = calloc(1, sizeof *bench);
    CHECK(bench != NULL);
    bench->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *bench->effects.items);
    bench->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    CHECK(bench->effects.items != NULL && bench->effects.bytes != NULL);
    for (uint32_t i = 0; i < NODES; i++) {
        bench->memory[i] = aligned_alloc(16, CORE_BYTES);
        CHECK(bench->memory[i] != NULL);
    }
    bool all_done = true;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        bool is_done;
        uint64_t twice = run_seed(bench, seed, &is_done);
        worst = twice > worst ? twice : worst;
        all_done &= is_done;
    }
    printf("worst of %llu seeds: %llu.%02llu %% of the slot time spent twice; allowed is 1 %%\n", (unsigned long long)seeds,
           (unsigned long long)worst / 100, (unsigned long long)worst % 100);
    for (uint32_t i = 0; i < NODES; i++) {
        free(bench->memory[i]);
    }
    free(bench->effects.items);
    free(bench->effects.bytes);
    free(bench);
    return worst <= TWICE_PERMILLE_MAX * 10 && all_done ? 0 : 1;
}
