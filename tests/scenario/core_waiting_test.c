/* Stories of what users read of a trial that waits: every cause is told, on every node, in one sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/format.h"
#include "node/core/coordinator/placing.h"
#include "tests/scenario/core_elastic.h"

#define SETTLES_MS 20000

/* Why the trial waits, as this node tells; NULL: it does not wait. */
static const char *reason_at(const struct world *world, uint32_t node, uint32_t trial)
{
    static char text[640];
    bool waits = node_core_waiting_reason(world->nodes[node].core, world_experiment(world, node), trial, text, sizeof text);
    return waits ? text : NULL;
}

static void assert_reason(const struct world *world, uint32_t trial, const char *expected)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (!world->nodes[i].is_up || world->nodes[i].is_cut) {
            continue;
        }
        const char *reason = reason_at(world, i, trial);
        assert_non_null(reason);
        assert_string_equal(reason, expected);
    }
}

static void submit_gangs(struct world *world, uint32_t trials, uint32_t slots, uint32_t least)
{
    struct config config;
    make_config(&config, trials, 5);
    config.slots_per_trial = config.max_slots = slots;
    config.min_slots = least;
    bytes_copy_text(config.name, sizeof config.name, "mnist");
    world->program = WORLD_RUNS_FOREVER;
    world_submit(world, 0, &config);
    world_run(world, SETTLES_MS);
}

static struct world *started(uint32_t nodes, uint32_t slots_each)
{
    struct world *world = world_new(nodes, slots_each);
    world_start_all(world);
    return world;
}

static void taken_slots_are_told_with_the_experiment_that_has_them(void **state)
{
    (void)state;
    struct world *world = started(2, 2);
    submit_gangs(world, 5, 1, 1);
    assert_null(reason_at(world, 1, 0));
    assert_reason(world, 4, "no slot is free: 4 taken by this experiment");
    world_free(world);
}

static void a_gang_tells_how_many_slots_it_can_have(void **state)
{
    (void)state;
    struct world *world = started(2, 2);
    submit_gangs(world, 2, 3, 3);
    assert_reason(world, 1, "it needs 3 slots at once and 1 can be had now: 3 taken by this experiment");
    world_free(world);
}

static void a_gang_that_no_mesh_can_hold_tells_so(void **state)
{
    (void)state;
    struct world *world = started(2, 2);
    submit_gangs(world, 1, 5, 5);
    assert_reason(world, 0, "it needs 5 slots, and all nodes together have 4");
    world_free(world);
}

static void nodes_that_are_away_drained_or_withheld_are_told(void **state)
{
    (void)state;
    struct world *world = started(4, 1);
    withhold(world, 1, 0);
    drain_at_once(world, 2);
    world_die(world, 3);
    world_run(world, SETTLES_MS);
    submit_gangs(world, 2, 1, 1);
    const char *reason = reason_at(world, 0, 0); /* beyond a cut trials begin in another order than by their numbers */
    reason = reason != NULL ? reason : reason_at(world, 0, 1);
    assert_non_null(reason);
    assert_non_null(strstr(reason, "no slot is free: "));
    assert_non_null(strstr(reason, "1 taken by this experiment"));
    assert_non_null(strstr(reason, "1 on b withheld by the owner"));
    assert_non_null(strstr(reason, "1 on c, which is drained"));
    assert_non_null(strstr(reason, "1 on d, which is away"));
    world_free(world);
}

static void whole_gpus_and_mig_devices_are_told_apart(void **state)
{
    (void)state;
    struct world *world = world_new(1, 5);
    world->nodes[0].parts = 0x1c;
    world_start_all(world);
    submit_gangs(world, 1, 4, 4);
    assert_reason(world, 0, "it needs 4 slots at once and 3 can be had now: "
                            "2 on a that cannot be in one group with the others (whole GPUs and MIG devices)");
    world_free(world);
}

static void a_pause_is_told(void **state)
{
    (void)state;
    struct world *world = started(2, 1);
    submit_gangs(world, 3, 1, 1);
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, SETTLES_MS);
    assert_reason(world, 2, "the experiment is paused");
    world_free(world);
}

/* The program never runs, so the losses come closer and closer to the longest wait. Only the coordinator knows the wait. */
static void a_wait_after_losses_is_told_with_its_length(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    world->nodes[0].prepares_nothing = true;
    world_start_all(world);
    submit_gangs(world, 1, 1, 1);
    world_run(world, 600000);
    assert_non_null(strstr(reason_at(world, 0, 0), "times in a row: its next attempt begins 120 s after the last one"));
    world_free(world);
}

static void nodes_without_a_common_network_are_told(void **state)
{
    (void)state;
    struct world *world = started(3, 1);
    world_run(world, SETTLES_MS);
    world->nodes[1].hidden = 1u << 2;
    world_run(world, 3 * CORE_CHECK_SPARE_MS);
    submit_gangs(world, 1, 3, 3);
    assert_non_null(strstr(reason_at(world, 0, 0), "have no network in common on which both were reached"));
    world_free(world);
}

/* Nodes a, b, c with three, one and two slots; c is not there yet. */
static struct world *uneven_nodes(struct config config)
{
    struct world *world = world_new(3, 3);
    config.even_hosts = true;
    world->program = WORLD_RUNS_FOREVER;
    world->is_elastic = true;
    world->nodes[1].slot_count = 1;
    world->nodes[2].slot_count = 2;
    world_start_all(world);
    world_run(world, SETTLES_MS);
    world_die(world, 2);
    world_run(world, SETTLES_MS);
    world_submit(world, 0, &config);
    world_run(world, SETTLES_MS);
    return world;
}

static uint32_t members_on(const struct world *world, uint32_t node)
{
    const struct view_attempt *attempt = attempt_of(world, 0, 0);
    uint32_t count = 0;
    assert_non_null(attempt);
    for (uint32_t i = 0; i < attempt->member_count; i++) {
        count += node_id_equal(attempt->members[i].node, world->nodes[node].person.id);
    }
    return count;
}

static void a_trial_that_wants_even_hosts_waits_for_them_and_tells_so(void **state)
{
    (void)state;
    struct world *world = uneven_nodes(elastic(1, 4, 4, 4));
    assert_reason(world, 0, "resources.even_hosts wants the same number of ranks on every node, and no nodes have 4 slots in such "
                            "parts: 3 on a; 1 on b");
    world->nodes[2].is_cut = false;
    world_restart(world, 2, false);
    world_run(world, 3 * SETTLES_MS);
    assert_null(reason_at(world, 0, 0));
    assert_true(members_on(world, 0) == 2 && members_on(world, 1) == 0 && members_on(world, 2) == 2);
    world_free(world);
}

/* Its program could go on with three, and grow again one by one: the group is even at any time instead. */
static void an_even_group_never_changes(void **state)
{
    (void)state;
    struct world *world = uneven_nodes(elastic(1, 4, 2, 4));
    assert_true(members_on(world, 0) == 3 && members_on(world, 1) == 0); /* three here; with the one on b it would be uneven */
    uint32_t number = attempt_of(world, 0, 0)->id.number;
    world_end_worker(world, 0, 1, -9);
    world_run(world, SETTLES_MS);
    assert_true(attempt_of(world, 0, 0)->id.number > number); /* a new attempt, not a smaller group */
    assert_true(members_on(world, 0) == 3 && members_on(world, 1) == 0);
    assert_int_equal(attempt_of(world, 0, 0)->generation, 1);
    number = attempt_of(world, 0, 0)->id.number;
    withhold(world, 0, 1);
    world_run(world, 2 * SETTLES_MS);
    assert_true(attempt_of(world, 0, 0)->id.number > number);
    assert_true(members_on(world, 0) == 2 && members_on(world, 1) == 0);
    assert_int_equal(attempt_of(world, 0, 0)->generation, 1);
    world_free(world);
}

/* Nothing is missing then, so no missing slots are told. */
static void a_slot_that_has_just_refused_is_asked_again(void **state)
{
    (void)state;
    struct world *world = started(1, 2);
    submit_gangs(world, 3, 1, 1);
    placing_back_off(world->nodes[0].core, world->nodes[0].person.id, 0, 60000);
    world_end_worker(world, 0, 0, 0);
    world_run(world, 2000);
    assert_string_equal(reason_at(world, 0, 2), "slots for it are free, and its coordinator a is about to ask for them");
    world_free(world);
}

/* Its coordinator leaves it alone for a moment after each refusal, and then asks it anew. */
static void a_node_whose_disk_is_full_is_told_all_the_time(void **state)
{
    (void)state;
    static const char said[] = "it needs 4 slots at once and 2 can be had now: 2 on b, which grants nothing now (its disk or memory may be full)";
    struct world *world = started(2, 2);
    struct node_event full = {.kind = NODE_EVENT_DISK};
    full.u.disk.full = true;
    world_step(world, 1, &full);
    submit_gangs(world, 1, 4, 4);
    assert_int_equal(world_coordinator(world), 0); /* a full node coordinates nothing new */
    assert_string_equal(reason_at(world, 0, 0), said);
    for (uint32_t slot = 0; slot < 2; slot++) {
        placing_back_off(world->nodes[0].core, world->nodes[1].person.id, slot, 60000);
    }
    world_run(world, 3000); /* the moment is over, and it is not asked yet */
    assert_string_equal(reason_at(world, 0, 0), said);
    world_free(world);
}

static void a_group_that_may_be_smaller_tells_when_it_begins(void **state)
{
    (void)state;
    struct world *world = started(1, 4);
    submit_gangs(world, 2, 3, 1);
    assert_reason(world, 1, "it needs 3 slots for its full group and 1 can be had now (it begins with them after 10 min): "
                            "3 taken by this experiment");
    world_free(world);
}

static void an_experiment_that_is_over_waits_for_nothing(void **state)
{
    (void)state;
    struct world *world = started(1, 1);
    submit_gangs(world, 2, 1, 1);
    world_request(world, 0, NODE_REQUEST_CANCEL);
    world_run(world, SETTLES_MS);
    assert_null(reason_at(world, 0, 1));
    world_free(world);
}

/* Experiment 0, which waits. */
static void submit_waiting(struct world *world, const char *depends_on, const char *start_after)
{
    struct config config;
    make_config(&config, 1, 5);
    bytes_copy_text(config.name, sizeof config.name, "train");
    bytes_copy_text(config.depends_on, sizeof config.depends_on, depends_on);
    bytes_copy_text(config.start_after, sizeof config.start_after, start_after);
    world->program = WORLD_RUNS_FOREVER;
    world_submit(world, 0, &config);
    world_run(world, SETTLES_MS);
    assert_int_equal(world->reply.code, 0);
}

static void an_experiment_begins_once_its_time_has_come_by_most_clocks(void **state)
{
    (void)state;
    struct world *world = started(3, 1);
    char start[CONFIG_START_BYTES], reason[64];
    assert_true(config_start_write(start, node_core_wall_s(world->nodes[0].core) + 86400));
    submit_waiting(world, "", start);
    start[strlen("2026-12-01")] = ' ';
    start[strlen("2026-12-01 18:00:00")] = '\0';
    format_text(reason, sizeof reason, "it starts after %s UTC", start);
    assert_reason(world, 0, reason);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    world->nodes[coordinator].wall_shift_s = 2 * 86400; /* its own clock is not most clocks */
    world_run(world, 3 * CORE_CLOCK_MS);
    assert_int_equal(world_spawns(world), 0);
    world->nodes[coordinator].wall_shift_s = 0;
    world_die(world, (uint32_t)coordinator);
    world_run(world, 3 * SETTLES_MS);
    assert_int_equal(world_spawns(world), 0);
    world->wall_shift_s = 86400;
    world_run(world, 3 * SETTLES_MS);
    assert_int_equal(world_spawns(world), 1);
    world_free(world);
}

static void a_trial_runs_only_on_nodes_that_its_constraints_allow(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 2, 5);
    bytes_copy_text(config.constraints, sizeof config.constraints, "label=room=12\nmemory=1073741824");
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, SETTLES_MS);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world_spawns(world), 0);
    assert_reason(world, 0, "it needs 1 slot that resources.constraints allow (label room=12, memory 1G), and all nodes together have 0");
    world_crash(world, 1);
    world->nodes[1].label = "room=12";
    world_restart(world, 1, false);
    world_run(world, 2 * SETTLES_MS);
    assert_int_equal(world->nodes[1].spawn_count, 1);
    assert_int_equal(world_spawns(world), 1);
    assert_reason(world, 1, "no slot is free: 1 taken by this experiment");
    world_free(world);
}

static void a_dependency_that_is_deleted_is_told_until_a_user_resumes(void **state)
{
    (void)state;
    struct world *world = started(3, 1);
    const experiment_id id = make_experiment_id(7);
    char hex[2 * EXPERIMENT_ID_BYTES + 1], reason[160];
    struct made made;
    bytes_to_hex(hex, id.bytes, EXPERIMENT_ID_BYTES);
    submit_waiting(world, hex, "");
    format_text(reason, sizeof reason, "it waits for the experiment %s, of which no record is here yet", hex);
    assert_reason(world, 0, reason);
    world_request(world, 1, NODE_REQUEST_RESUME); /* that alone lets nothing begin */
    world_run(world, SETTLES_MS);
    assert_reason(world, 0, reason);
    make_record(&made, world->nodes[0].person.id, 1ull << 40, 1, FACT_TOMBSTONE, fact_key_experiment(id), NULL);
    for (uint32_t i = 1; i < 3; i++) {
        world_deliver(world, 0, i, &made);
    }
    world_run(world, SETTLES_MS);
    format_text(reason, sizeof reason, "it waits for the experiment %s, which was deleted; shoal resume train begins it all the same", hex);
    assert_string_equal(reason_at(world, 1, 0), reason);
    assert_int_equal(world_spawns(world), 0);
    world_request(world, 1, NODE_REQUEST_RESUME);
    world_run(world, SETTLES_MS);
    assert_int_equal(world_spawns(world), 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_slots_are_told_with_the_experiment_that_has_them),
        cmocka_unit_test(a_gang_tells_how_many_slots_it_can_have),
        cmocka_unit_test(a_gang_that_no_mesh_can_hold_tells_so),
        cmocka_unit_test(nodes_that_are_away_drained_or_withheld_are_told),
        cmocka_unit_test(whole_gpus_and_mig_devices_are_told_apart),
        cmocka_unit_test(a_pause_is_told),
        cmocka_unit_test(an_experiment_begins_once_its_time_has_come_by_most_clocks),
        cmocka_unit_test(a_trial_runs_only_on_nodes_that_its_constraints_allow),
        cmocka_unit_test(a_dependency_that_is_deleted_is_told_until_a_user_resumes),
        cmocka_unit_test(a_wait_after_losses_is_told_with_its_length),
        cmocka_unit_test(nodes_without_a_common_network_are_told),
        cmocka_unit_test(a_trial_that_wants_even_hosts_waits_for_them_and_tells_so),
        cmocka_unit_test(an_even_group_never_changes),
        cmocka_unit_test(a_slot_that_has_just_refused_is_asked_again),
        cmocka_unit_test(a_node_whose_disk_is_full_is_told_all_the_time),
        cmocka_unit_test(a_group_that_may_be_smaller_tells_when_it_begins),
        cmocka_unit_test(an_experiment_that_is_over_waits_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
