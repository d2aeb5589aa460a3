/* Stories of copies: of code and of checkpoints, on nodes that die, refuse, or never were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rendezvous.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/members/members.h"
#include "tests/scenario/core_story.h"

/* The nodes in rendezvous order of experiment 0. */
static void order_nodes(const struct world *world, uint32_t out[WORLD_NODES_MAX])
{
    node_id order[WORLD_NODES_MAX];
    for (uint32_t i = 0; i < world->node_count; i++) {
        order[i] = world->nodes[i].person.id;
    }
    experiment_id id = make_experiment_id(0);
    rendezvous_sort(order, world->node_count, id.bytes, sizeof id.bytes);
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t n = 0; n < world->node_count; n++) {
            out[i] = node_id_equal(order[i], world->nodes[n].person.id) ? n : out[i];
        }
    }
}

static uint32_t pushes_to(const struct world *world, uint32_t node, const char *what)
{
    char line[128];
    snprintf(line, sizeof line, "> push %s %s\n", what, world->nodes[node].person.name);
    return world_count(world, line);
}

/* Node `from` tells all others of `count` experiments whose code only node 0 has. */
static void submit_many(struct world *world, uint32_t from, uint32_t count)
{
    struct config config;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    make_config(&config, 1, 5);
    uint32_t packed_bytes = make_packed_config(&config, packed);
    for (uint32_t i = 0; i < count; i++) {
        struct fact_experiment fact = {.config = packed, .config_bytes = packed_bytes, .code_bytes = 10};
        fact.code.bytes[0] = WORLD_CODE_BYTE;
        fact.config_text.bytes[0] = WORLD_CODE_BYTE + 1;
        bytes_put_u32(fact.code.bytes + 1, i);
        bytes_put_u32(fact.config_text.bytes + 1, i);
        struct made made;
        make_record(&made, world->nodes[from].person.id, world->nodes[from].core->options.boot, 800000 + i,
                    FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(i)), &fact);
        for (uint32_t to = 0; to < world->node_count; to++) {
            if (to != from) {
                world_deliver(world, from, to, &made);
            }
        }
    }
}

static uint32_t codes_copied(const struct node_core *core)
{
    uint32_t copied = 0;
    for (const struct core_code *code = core->copies->codes; code != NULL; code = code->next) {
        bool is_copied = false;
        for (uint32_t i = 0; i < FACT_HOLDERS_MAX; i++) {
            is_copied |= code->copies[i].has_code && code->copies[i].has_config_text;
        }
        copied += is_copied;
    }
    return copied;
}

static void the_code_of_many_experiments_goes_out_a_few_pieces_at_a_time(void **state)
{
    (void)state;
    enum { EXPERIMENTS = 100 };
    struct world *world = world_new(3, 1);
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world->nodes[1].lacks_code = world->nodes[2].lacks_code = true;
    world->push_ms = 20000;
    submit_many(world, 1, EXPERIMENTS);
    world_run(world, 15000); /* nobody has answered: it may be that nobody does */
    assert_int_equal(pushes_to(world, 1, "code"), 2); /* from a, and from c, which does not know what it lacks */
    assert_int_equal(pushes_to(world, 2, "code"), 2);
    world->push_ms = 100;
    world_run(world, 120000);
    assert_int_equal(codes_copied(world->nodes[0].core), EXPERIMENTS);
    assert_in_range(world->nodes[0].pushes_most, CORE_PUSHES_PEER_MAX, CORE_CODE_PUSHES_MAX);
    world_free(world);
}

static void a_full_disk_does_not_hold_up_the_code_of_the_others(void **state)
{
    (void)state;
    enum { EXPERIMENTS = 40 };
    struct world *world = world_new(3, 1);
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world->nodes[1].lacks_code = world->nodes[2].lacks_code = true;
    world->nodes[2].disk_is_full = true;
    world->push_ms = 100;
    submit_many(world, 1, EXPERIMENTS);
    world_run(world, 120000);
    assert_int_equal(codes_copied(world->nodes[0].core), EXPERIMENTS); /* all on b, in whatever order */
    world_free(world);
}

static void code_goes_to_the_next_node_when_one_refuses_it(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    uint32_t order[WORLD_NODES_MAX];
    order_nodes(world, order);
    uint32_t full = order[1];
    world->nodes[full].disk_is_full = true;
    (void)story_begin(world, 1, 5);
    world_run(world, 5000);
    assert_int_not_equal(pushes_to(world, order[0], "code"), 0);
    char in_its_place[128], line[128];
    snprintf(in_its_place, sizeof in_its_place, "the code of exp is on %s\n", world->nodes[order[2]].person.name);
    assert_int_not_equal(world_count(world, in_its_place), 0);
    assert_int_equal(pushes_to(world, order[3], "code"), 0);
    uint32_t asked = pushes_to(world, order[2], "code");
    world_run(world, 600000);
    assert_int_equal(pushes_to(world, order[2], "code"), asked);
    assert_int_equal(pushes_to(world, order[3], "code"), 0);
    /* Each of the other three asks the full one less and less often: after 30 s, 60 s, ... */
    assert_in_range(pushes_to(world, full, "code"), 6, 18);

    snprintf(line, sizeof line, "the code of exp is on %s\n", world->nodes[full].person.name);
    assert_int_equal(world_count(world, line), 0);
    world->nodes[full].disk_is_full = false;
    assert_line(world, CORE_CODE_RETRY_MAX_MS + 10000, line);
    world_free(world);
}

/* A step that has too much else to say looks after no code, and forgets nothing of what it knows about it. */
static void a_look_without_room_forgets_no_copies(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 1, 5);
    world_run(world, 10000);
    struct world_node *node = &world->nodes[0];
    assert_int_equal(codes_copied(node->core), 1);
    uint64_t pass = node->core->copies->repair_pass;
    node->core->housekeep_ms = node->core->copies->repair_ms = 0;
    struct node_event tick = {.kind = NODE_EVENT_TICK, .now_ms = world->now_ms, .wall_s = node->core->wall_s};
    node->effects.count = 0;
    node->effects.used_bytes = NODE_EFFECT_BYTES_MAX - (1u << 15);
    node_core_step(node->core, &tick, &node->effects);
    assert_int_equal(node->core->copies->repair_pass, pass + 1);
    assert_int_equal(codes_copied(node->core), 1);
    world_free(world);
}

/* A row that names holders for a checkpoint of trial 0 that nobody made, as if the node with the smallest id had written
 * it: `strangers` nodes that never were, then `holder`. */
static struct view_manifest forge(struct world *world, uint32_t strangers, uint32_t writer, uint32_t holder)
{
    struct view_manifest row = {.attempt = world_experiment(world, 0)->trials[0]->attempts->id, .step = 900000};
    struct fact_manifest fact = {.bytes = 10, .holder_count = strangers + 1, .durable = true};
    fact.blob.bytes[0] = 0x77;
    for (uint32_t i = 0; i < strangers; i++) {
        struct person person = make_person(100 + i);
        fact.holders[i] = person.id;
    }
    fact.holders[strangers] = world->nodes[holder].person.id;
    struct made made;
    make_record(&made, world->nodes[writer].person.id, world->nodes[writer].core->options.boot, 900000, FACT_MANIFEST,
                fact_key_manifest(&row.attempt, row.step), &fact);
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (i != writer) {
            world_deliver(world, writer, i, &made);
        }
    }
    return row;
}

static uint32_t smallest(const struct world *world)
{
    uint32_t low = 0;
    for (uint32_t i = 1; i < world->node_count; i++) {
        low = node_id_compare(world->nodes[i].person.id, world->nodes[low].person.id) < 0 ? i : low;
    }
    return low;
}

static void a_checkpoint_is_repaired_once_however_many_holders_are_dead(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 1, 5);
    uint32_t writer = smallest(world), holder = writer == 0 ? 1 : 0;
    struct view_manifest forged = forge(world, FACT_HOLDERS_MAX - 1, writer, holder);
    world_run(world, 120000);
    assert_int_equal(world_count(world, "> push checkpoint"), 1);
    for (uint32_t n = 0; n < world->node_count; n++) { /* the coordinator and who asks for it see both copies */
        const struct node_core *core = world->nodes[n].core;
        const struct view_manifest *row = world_experiment(world, n)->trials[0]->manifests;
        struct view_manifest united;
        assert_true(core_checkpoints_next(core, &row, &united));
        assert_int_equal(united.step, forged.step);
        assert_int_equal(united.holder_count, FACT_HOLDERS_MAX);
        assert_true(core_node_alive(core, united.holders[0]) && core_node_alive(core, united.holders[1]));
    }
    world_free(world);
}

static void a_repair_that_makes_nothing_better_waits_for_another_node(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 1, 5);
    uint32_t writer = smallest(world), holder = writer == 0 ? 1 : 0;
    for (uint32_t i = 0; i < 3; i++) {
        world->nodes[i].disk_is_full = i != holder;
    }
    (void)forge(world, 0, writer, holder);
    world_run(world, CORE_REPAIR_AGAIN_MS - 20000);
    assert_int_equal(world_count(world, "> push checkpoint"), 2); /* each of the others was asked once */
    world_run(world, 40000);
    assert_int_equal(world_count(world, "> push checkpoint"), 4); /* and once more, some minutes later */

    size_t before = world->log_bytes;
    uint32_t other = 3 - writer - holder;
    world->nodes[other].disk_is_full = false;
    world_crash(world, other);
    world_run(world, 1000);
    world_restart(world, other, true); /* whoever begins anew may have another disk */
    char line[128];
    snprintf(line, sizeof line, "> push checkpoint %s\n", world->nodes[other].person.name);
    assert_true(world_run_until(world, 20000, before, line));
    world_run(world, 20000);
    before = world->log_bytes;
    world_run(world, 2 * CORE_REPAIR_AGAIN_MS); /* now there are two */
    assert_true(world_find(world, before, "> push checkpoint") == SIZE_MAX);
    world_free(world);
}

/* Checkpoints of many trials that lost their second holder are copied a few at a time, and all of them in the end. */
static void many_repairs_go_out_a_few_at_a_time(void **state)
{
    (void)state;
    enum { STEPS = 40 };
    struct world *world = world_new(4, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.save_trial_latest = STEPS;
    (void)story_begin_with(world, &config, 10000);
    world->push_ms = 100;
    world_request(world, 0, NODE_REQUEST_PAUSE); /* its own checkpoint is not to be among them */
    world_run(world, 20000);
    uint32_t writer = smallest(world), holder = writer == 0 ? 1 : 0;
    attempt_id attempt = world_experiment(world, 0)->trials[0]->attempts->id;
    for (uint32_t i = 0; i < STEPS; i++) {
        struct fact_manifest fact = {.bytes = 10, .holder_count = 1};
        fact.blob.bytes[0] = 0x77;
        fact.blob.bytes[1] = (uint8_t)i;
        fact.holders[0] = world->nodes[holder].person.id;
        struct made made;
        make_record(&made, world->nodes[writer].person.id, world->nodes[writer].core->options.boot, 900000 + i,
                    FACT_MANIFEST, fact_key_manifest(&attempt, 900000 + i), &fact);
        for (uint32_t n = 0; n < world->node_count; n++) {
            if (n != writer) {
                world_deliver(world, writer, n, &made);
            }
        }
    }
    world->nodes[holder].pushes_most = 0;
    world_run(world, 60000);
    assert_in_range(world->nodes[holder].pushes_most, 2, CORE_REPAIRS_MAX);
    struct view_manifest united;
    uint32_t copied = 0;
    for (const struct view_manifest *row = world_experiment(world, holder)->trials[0]->manifests;
         core_checkpoints_next(world->nodes[holder].core, &row, &united);) {
        copied += united.step >= 900000 && united.holder_count == 2;
    }
    assert_int_equal(copied, STEPS);
    world_free(world);
}

/* The code of an experiment that is not over is on two living nodes, whoever dies: else nobody could go on with it. */
static void code_is_copied_again_when_its_holder_dies(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 1, 5);
    uint32_t first[WORLD_NODES_MAX];
    order_nodes(world, first);
    char lines[4][32];
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(lines[i], sizeof lines[i], "> push code %s", world->nodes[first[i]].person.name);
    }
    world_run(world, 5000);
    assert_int_not_equal(world_count(world, lines[0]), 0);
    assert_int_not_equal(world_count(world, lines[1]), 0);
    assert_int_equal(world_count(world, lines[2]), 0);
    assert_int_equal(world_count(world, lines[3]), 0);

    size_t before = world->log_bytes;
    world_run(world, 60000); /* nothing is asked twice while nothing changes */
    assert_true(world_find(world, before, "> push code") == SIZE_MAX);

    world_crash(world, first[0]);
    assert_true(world_run_until(world, 15000, before, lines[2]));
    assert_int_equal(world_count(world, lines[3]), 0);

    before = world->log_bytes;
    world_restart(world, first[0], true); /* perhaps with an empty disk */
    assert_true(world_run_until(world, 15000, before, lines[0]));

    world_request(world, 1, NODE_REQUEST_CANCEL);
    world_run(world, 10000);
    before = world->log_bytes;
    world_crash(world, first[1]);
    world_run(world, 30000);
    assert_true(world_find(world, before, "> push code") == SIZE_MAX); /* it is over */
    world_free(world);
}

/* A node that begins anew may have an old disk: whoever else holds a checkpoint sends it once more, and no more often. */
static void a_holder_that_begins_anew_is_sent_its_checkpoints_again(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 1, 5);
    world_request(world, 0, NODE_REQUEST_PAUSE); /* its worker saves and leaves */
    world_run(world, 10000);
    const struct view_trial *trial = world_experiment(world, 0)->trials[0];
    assert_non_null(trial->manifests);
    struct view_manifest united;
    (void)view_manifest_unite(trial->manifests, &united);
    assert_int_equal(united.holder_count, 2);
    uint32_t holder[2] = {3, 3};
    for (uint32_t n = 0; n < 3; n++) {
        for (uint32_t h = 0; h < 2; h++) {
            holder[h] = node_id_equal(united.holders[h], world->nodes[n].person.id) ? n : holder[h];
        }
    }
    uint32_t gone = holder[0], other = holder[1];
    char line[64];
    snprintf(line, sizeof line, "%s> push checkpoint %s", world->nodes[other].person.name, world->nodes[gone].person.name);
    size_t before = world->log_bytes;
    world_run(world, 30000); /* nothing is sent twice while nothing changes */
    assert_true(world_find(world, before, "> push checkpoint") == SIZE_MAX);

    world_crash(world, gone);
    world_run(world, 1000); /* so short that nobody makes another copy */
    world_restart(world, gone, true);
    assert_true(world_run_until(world, 20000, before, line));
    before = world->log_bytes;
    world_run(world, 30000);
    assert_true(world_find(world, before, line) == SIZE_MAX);
    world_free(world);
}

/* The node on which trial 0 runs, and its attempt. */
static uint32_t runner(const struct world *world, attempt_id *attempt)
{
    uint32_t node = 0;
    while (running(world, node) == 0) {
        node++;
    }
    *attempt = world_experiment(world, 0)->trials[0]->attempts->id;
    return node;
}

/* A worker saves step 900000; blobs of different numbers are different bytes. */
static void save(struct world *world, uint32_t node, const attempt_id *attempt, uint8_t blob)
{
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
    event.u.blob.attempt = *attempt;
    event.u.blob.step = 900000;
    event.u.blob.blob.bytes[0] = 0x77;
    event.u.blob.blob.bytes[1] = blob;
    event.u.blob.bytes = 1000;
    world_step(world, node, &event);
}

/* What is said of step 900000 to node `at`: these bytes are on so many disks. */
static void assert_saved(const struct world *world, uint32_t at, uint8_t blob, uint32_t holders)
{
    const struct view_manifest *row = world_experiment(world, at)->trials[0]->manifests;
    assert_non_null(row);
    struct view_manifest united;
    (void)view_manifest_unite(row, &united);
    assert_int_equal(united.step, 900000);
    assert_int_equal(united.blob.bytes[1], blob);
    assert_int_equal(united.holder_count, holders);
}

static void drain(struct world *world, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_DRAIN;
    event.u.request.client = 3;
    event.u.request.node = world->nodes[node].person.id;
    world_step(world, 0, &event);
}

/* Nobody takes a copy any more, and the worker saves its last step again since it is asked to stop. */
static void a_step_saved_twice_keeps_the_copies_of_the_first_time(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 1, 5);
    attempt_id attempt;
    uint32_t node = runner(world, &attempt);
    save(world, node, &attempt, 1);
    world_run(world, 2000);
    assert_saved(world, node, 1, 2);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != node) {
            drain(world, i);
        }
    }
    world_run(world, 2000);
    save(world, node, &attempt, 1);
    world_run(world, 2000);
    assert_saved(world, node, 1, 2);
    save(world, node, &attempt, 2); /* other bytes, of which there is one copy */
    world_run(world, 2000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_saved(world, i, 1, 2);
    }
    world_free(world);
}

/* Node `from` says that it has what was saved last, or (not ok) that it does not take it. */
static void answer(struct world *world, uint32_t node, const attempt_id *attempt, uint32_t from, bool ok)
{
    struct node_event event = {.kind = NODE_EVENT_PUSHED};
    event.u.blob.attempt = *attempt;
    event.u.blob.step = 900000;
    event.u.blob.blob.bytes[0] = 0x77;
    event.u.blob.blob.bytes[1] = 1;
    event.u.blob.node = world->nodes[from].person.id;
    event.u.blob.ok = ok;
    world_step(world, node, &event);
}

/* Four nodes, a trial of which copies are wanted, and a network so slow that a story answers in its place. */
static struct world *begin_slow(uint32_t copies, uint32_t *node, attempt_id *attempt)
{
    struct world *world = world_new(4, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.checkpoint_replicas = copies;
    (void)story_begin_with(world, &config, 10000);
    *node = runner(world, attempt);
    world->push_ms = 3600000;
    return world;
}

/* Those that were asked to take a checkpoint. */
static uint32_t asked_of(const struct world *world, uint32_t out[WORLD_NODES_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (pushes_to(world, i, "checkpoint") > 0) {
            out[count++] = i;
        }
    }
    return count;
}

static void two_answers_of_one_node_are_one_copy(void **state)
{
    (void)state;
    attempt_id attempt;
    uint32_t node;
    struct world *world = begin_slow(3, &node, &attempt);
    save(world, node, &attempt, 1);
    save(world, node, &attempt, 1); /* while the copies of the first time are under way */
    uint32_t asked[WORLD_NODES_MAX], count = asked_of(world, asked);
    assert_int_equal(count, 2);
    answer(world, node, &attempt, asked[0], true);
    answer(world, node, &attempt, asked[0], true);
    assert_null(world_experiment(world, node)->trials[0]->manifests); /* the other one has not answered */
    answer(world, node, &attempt, asked[1], true);
    assert_saved(world, node, 1, 3);
    world_free(world);
}

static void a_repair_says_what_it_made_though_others_refuse(void **state)
{
    (void)state;
    attempt_id attempt;
    uint32_t node;
    struct world *world = begin_slow(3, &node, &attempt);
    save(world, node, &attempt, 1);
    uint32_t asked[WORLD_NODES_MAX];
    assert_int_equal(asked_of(world, asked), 2);
    uint32_t third = 6 - node - asked[0] - asked[1];
    answer(world, node, &attempt, asked[0], false);
    answer(world, node, &attempt, asked[1], false);
    answer(world, node, &attempt, third, false);
    assert_saved(world, node, 1, 1);
    world_run(world, 2 * CORE_REPAIR_MS);
    assert_int_equal(pushes_to(world, asked[0], "checkpoint"), 2);
    assert_int_equal(pushes_to(world, asked[1], "checkpoint"), 2);
    answer(world, node, &attempt, asked[0], true);
    answer(world, node, &attempt, asked[1], false);
    answer(world, node, &attempt, third, false);
    assert_saved(world, node, 1, 2);
    world_free(world);
}

/* Two holders die and are back before the copy that is made in their place is confirmed. */
static void a_repair_names_who_is_back_too(void **state)
{
    (void)state;
    attempt_id attempt;
    uint32_t node;
    struct world *world = begin_slow(3, &node, &attempt);
    save(world, node, &attempt, 1);
    uint32_t asked[WORLD_NODES_MAX];
    assert_int_equal(asked_of(world, asked), 2);
    uint32_t third = 6 - node - asked[0] - asked[1];
    answer(world, node, &attempt, asked[0], true);
    answer(world, node, &attempt, asked[1], true);
    assert_saved(world, node, 1, 3);
    drain(world, asked[0]); /* it keeps what it has */
    world->push_ms = 0;
    world_run(world, 60000); /* the code goes elsewhere in the meantime */
    world->push_ms = 3600000;
    world_crash(world, asked[0]);
    world_crash(world, asked[1]);
    world_run(world, 20000);
    assert_int_equal(pushes_to(world, third, "checkpoint"), 1);
    world_restart(world, asked[0], true);
    world_restart(world, asked[1], true);
    world_run(world, 10000);
    answer(world, node, &attempt, third, true);
    answer(world, node, &attempt, asked[1], false); /* it has lost its copy */
    assert_saved(world, node, 1, 3);
    world_free(world);
}

static void bytes_that_are_under_way_are_sent_once(void **state)
{
    (void)state;
    attempt_id attempt;
    uint32_t node;
    struct world *world = begin_slow(3, &node, &attempt);
    save(world, node, &attempt, 1);
    save(world, node, &attempt, 1);
    assert_int_equal(world_count(world, "> push checkpoint"), 2);
    uint32_t asked[WORLD_NODES_MAX];
    assert_int_equal(asked_of(world, asked), 2);
    uint32_t third = 6 - node - asked[0] - asked[1];
    answer(world, node, &attempt, asked[0], false);
    answer(world, node, &attempt, asked[1], true);
    answer(world, node, &attempt, third, false);
    assert_saved(world, node, 1, 2);

    world_run(world, 2 * CORE_REPAIR_MS); /* a repair asks who refused */
    assert_int_equal(world_count(world, "> push checkpoint"), 4);
    save(world, node, &attempt, 1);
    assert_int_equal(world_count(world, "> push checkpoint"), 4);
    assert_int_equal(world_count(world, "> durable"), 0);
    answer(world, node, &attempt, asked[0], true);
    world_run(world, 1000);
    assert_saved(world, node, 1, 3);
    assert_int_equal(world_count(world, "> durable"), 1); /* the worker waits for what was begun as a repair */
    world_free(world);
}

/* The worker saves, and ends; copies take their time, and the daemon is started anew before they are there. What the worker was
 * told that it has handed over is what its trial ends with, or what its next attempt begins with. */
static void what_was_saved_before_the_end_is_not_forgotten_with_its_copies(void **state)
{
    (void)state;
    for (int32_t code = 0; code < 2; code++) {
        struct world *world = world_new(3, 1);
        world->program = WORLD_RUNS_FOREVER;
        (void)story_begin(world, 1, 5);
        uint32_t owner = 0;
        while (owner < 2 && !world->nodes[owner].workers[0].runs) {
            owner++;
        }
        assert_true(world->nodes[owner].workers[0].runs);
        world->push_ms = 20000;
        struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
        event.u.blob.attempt = world->nodes[owner].workers[0].attempt;
        event.u.blob.step = 777;
        event.u.blob.bytes = 1000;
        event.u.blob.blob.bytes[0] = 7;
        world_step(world, owner, &event);
        world_run(world, 100);
        world_end_worker(world, owner, 0, code);
        world_run(world, 1000);
        const struct view_manifest *row = view_find_trial(world_experiment(world, owner), 0)->manifests;
        assert_true(row != NULL && row->step == 777 && !row->durable); /* it is not called what it is not yet */
        world_crash(world, owner);
        world_run(world, 3000);
        world_restart(world, owner, false);
        world->push_ms = 100;
        world_run(world, 60000);
        row = view_find_trial(world_experiment(world, owner), 0)->manifests;
        assert_true(row != NULL && row->step == 777);
        world_free(world);
    }
}

/* The same of a worker that goes on: the daemon was started anew in the midst of copying. The copies are made all the same. */
static void what_was_saved_is_not_forgotten_with_its_copies(void **state)
{
    (void)state;
    attempt_id attempt;
    struct world *world = world_new(3, 1);
    world->program = WORLD_RUNS_FOREVER;
    (void)story_begin(world, 1, 5);
    uint32_t owner = runner(world, &attempt);
    world->push_ms = 10 * CORE_REPAIR_MS;
    save(world, owner, &attempt, 1);
    world_run(world, 3 * CORE_REPAIR_MS);
    world_crash(world, owner);
    world_run(world, 1000);
    world->push_ms = 100;
    world_restart(world, owner, true);
    world_run(world, 60000);
    const struct view_manifest *row = view_find_trial(world_experiment(world, owner), 0)->manifests;
    assert_true(row != NULL && row->step == 900000);
    assert_true(row->durable && row->holder_count == 2);
    world_free(world);
}

/* A node that comes back from behind a cut says of all others that they are dead. Of one who answers that is refuted within a
 * moment, and the checkpoint that it alone holds is not passed over for that. */
static void a_moments_word_of_a_death_passes_over_no_checkpoint(void **state)
{
    (void)state;
    attempt_id attempt;
    struct world *world = world_new(4, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.checkpoint_replicas = 1;
    world->program = WORLD_RUNS_FOREVER;
    (void)story_begin_with(world, &config, 10000);
    uint32_t holder = runner(world, &attempt), leader = 0, other = 0;
    while (!node_id_equal(world->nodes[leader].person.id, attempt.coordinator)) {
        leader++;
    }
    while (other == holder || other == leader) {
        other++;
    }
    assert_int_not_equal(holder, leader);
    save(world, holder, &attempt, 1);
    world_run(world, 2000);
    assert_saved(world, leader, 1, 1);
    world_request(world, leader, NODE_REQUEST_PAUSE);
    assert_line(world, 10000, "attempt 1: stopped");
    world_request(world, leader, NODE_REQUEST_RESUME);
    node_id said = world->nodes[holder].person.id;
    struct message message = {.kind = MESSAGE_SWIM, .boot = world->nodes[other].core->options.boot};
    message.u.swim.kind = SWIM_PING;
    message.u.swim.sequence = 1;
    message.u.swim.incarnation = swim_incarnation_of(&world->nodes[leader].core->members->swim, world->nodes[other].person.id);
    message.u.swim.rumour_count = 1;
    message.u.swim.rumours[0] = (struct swim_rumour){
        .node = said, .state = SWIM_DEAD, .incarnation = swim_incarnation_of(&world->nodes[leader].core->members->swim, said)};
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[other].person.id;
    event.u.message.message = &message;
    for (uint32_t i = 0; i < 2000; i++) {
        message.u.swim.rumours[0].incarnation = swim_incarnation_of(&world->nodes[leader].core->members->swim, said);
        world_step(world, leader, &event);
        assert_false(core_node_alive(world->nodes[leader].core, said));
        world_run(world, 1);
    }
    assert_line(world, 20000, "attempt 2 from step 900000");
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_code_of_many_experiments_goes_out_a_few_pieces_at_a_time),
        cmocka_unit_test(a_full_disk_does_not_hold_up_the_code_of_the_others),
        cmocka_unit_test(code_goes_to_the_next_node_when_one_refuses_it),
        cmocka_unit_test(a_look_without_room_forgets_no_copies),
        cmocka_unit_test(a_checkpoint_is_repaired_once_however_many_holders_are_dead),
        cmocka_unit_test(a_repair_that_makes_nothing_better_waits_for_another_node),
        cmocka_unit_test(many_repairs_go_out_a_few_at_a_time),
        cmocka_unit_test(code_is_copied_again_when_its_holder_dies),
        cmocka_unit_test(a_holder_that_begins_anew_is_sent_its_checkpoints_again),
        cmocka_unit_test(a_step_saved_twice_keeps_the_copies_of_the_first_time),
        cmocka_unit_test(two_answers_of_one_node_are_one_copy),
        cmocka_unit_test(a_repair_says_what_it_made_though_others_refuse),
        cmocka_unit_test(a_repair_names_who_is_back_too),
        cmocka_unit_test(bytes_that_are_under_way_are_sent_once),
        cmocka_unit_test(what_was_saved_before_the_end_is_not_forgotten_with_its_copies),
        cmocka_unit_test(what_was_saved_is_not_forgotten_with_its_copies),
        cmocka_unit_test(a_moments_word_of_a_death_passes_over_no_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
