/* Stories of an update of the mesh: nodes that speak other versions of the protocol than others (docs/wire.md, "Versions"). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/members/versions.h"
#include "tests/scenario/core_story.h"

static const struct version_range old = {1, 1}, both = {1, 2}, later = {2, 2};

static void update(struct world *world, uint32_t node, struct version_range speaks)
{
    world_crash(world, node);
    world->nodes[node].speaks = speaks;
    world_restart(world, node, true);
}

static bool speak(const struct world *world, uint32_t node, uint32_t other)
{
    return core_node_speaks(world->nodes[node].core, world->nodes[other].person.id);
}

static void assert_in_step(const struct world *world)
{
    for (uint32_t i = 1; i < world->node_count; i++) {
        assert_true(records_hash_equal(world->nodes[0].core->records.hash, world->nodes[i].core->records.hash));
    }
}

/* b speaks what a does not, and c both: through c each of the two hears that the other lives, and has all of its records. */
static void work_goes_to_those_who_understand_the_coordinator(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 6, 5);
    struct world *world = world_new(3, 2);
    world->nodes[1].speaks = later;
    world->nodes[2].speaks = both;
    world_start_all(world);
    world_run(world, 10000);
    assert_true(core_node_alive(world->nodes[0].core, world->nodes[1].person.id));
    assert_in_step(world);
    assert_false(speak(world, 0, 1));
    assert_false(speak(world, 1, 0));
    assert_true(speak(world, 0, 2) && speak(world, 1, 2) && speak(world, 2, 0) && speak(world, 2, 1) && speak(world, 0, 0));
    world_submit(world, 0, &config);
    world_run(world, 60000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.stored_on, 2);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    assert_int_equal(world_count(world, "a> send reserve b"), 0);
    assert_int_equal(world_count(world, "b> send reserve a"), 0);
    assert_in_step(world);
    world_free(world);
}

static void two_sides_without_a_common_version_are_a_partition_that_an_update_heals(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    world->program = WORLD_RUNS_FOREVER;
    struct config config;
    make_config(&config, 4, 5);
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_true(world_run_until(world, 30000, 0, "> spawn trial 3 "));
    update(world, 2, later);
    update(world, 3, later);
    world_run(world, 60000);
    for (uint32_t i = 0; i < 4; i++) {
        bool is_later = i >= 2;
        for (uint32_t j = 0; j < 4; j++) {
            assert_int_equal(core_node_alive(world->nodes[i].core, world->nodes[j].person.id), is_later == (j >= 2));
            assert_int_equal(speak(world, i, j), is_later == (j >= 2));
        }
        assert_int_equal(running(world, i), 1); /* whose leases nobody renews any more are looked after by their own side */
    }
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "a: c speaks protocol 2 and this node protocol 1, so they do not understand each other: "
                                        "update this node"),
                     1);
    assert_int_equal(world_count(world, "d: b speaks protocol 1 and this node protocol 2, so they do not understand each other: "
                                        "update b"),
                     1);
    for (uint32_t i = 0; i < 2; i++) {
        update(world, i, both);
        world_run(world, 5000);
    }
    world_run(world, 60000);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t j = 0; j < 4; j++) {
            assert_true(core_node_alive(world->nodes[i].core, world->nodes[j].person.id) && speak(world, i, j));
        }
        assert_int_equal(running(world, i), 1);
    }
    assert_true(world_coordinator(world) >= 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_in_step(world);
    world_free(world);
}

/* The record that its neighbours have of b is of its program before; what comes from b itself is newer. */
static void the_line_about_another_version_is_said_once_in_ten_minutes(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    update(world, 1, later);
    world_run(world, CORE_FOREIGN_LINE_MS - 1000);
    assert_int_equal(world_count(world, "a: b speaks protocol 2 and"), 1);
    struct version_range seen = core_node_versions(world->nodes[0].core, world->nodes[1].person.id);
    assert_int_equal(seen.oldest, 2);
    assert_int_equal(seen.newest, 2);
    world_run(world, 10000);
    assert_int_equal(world_count(world, "a: b speaks protocol 2 and"), 2);
    update(world, 1, old);
    world_run(world, 5000);
    assert_true(speak(world, 0, 1) && speak(world, 1, 0));
    world_free(world);
}

static struct config search_config(void)
{
    struct config config;
    make_config(&config, 9, 5);
    config.searcher = SEARCH_ADAPTIVE_ASHA;
    config.max_time = 1000;
    return config;
}

/* An older node would take the experiment's record for a broken one. */
static void refuse_beside_older(const struct config *config, const char *name)
{
    struct world *world = world_new(3, 1);
    char refusal[256];
    world->nodes[1].is_older = true;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, config);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    (void)snprintf(refusal, sizeof refusal, "b runs a version of Shoal that does not know searcher.%s; update that node first, or use random.",
                   name);
    assert_string_equal(world->reply.text, refusal);
    world_crash(world, 1);
    world_run(world, 20000);
    world_submit(world, 0, config);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_restart(world, 1, true);
    world_run(world, 60000);
    assert_int_equal(running(world, 1), 0); /* trials wait, and its slot is free */
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_free(world);
}

static void a_search_is_refused_while_a_node_lives_that_does_not_know_its_searcher(void **state)
{
    (void)state;
    struct config config = search_config();
    refuse_beside_older(&config, "name adaptive_asha");
    make_config(&config, 9, 5);
    config.searcher = SEARCH_TPE;
    refuse_beside_older(&config, "name tpe");
}

static void promoting_what_is_drawn_is_refused_while_a_node_lives_that_does_not_know_both_together(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config = search_config();
    uint8_t space[64];
    struct pack_writer writer;
    const struct search_head head = {.sampler = SEARCH_SAMPLER_TPE};
    const struct search_parameter x = {.name = "x", .kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1};
    pack_writer_init(&writer, space, sizeof space);
    search_head_pack(&writer, &head, 1);
    search_parameter_pack(&writer, &x);
    config.hyperparameters = space;
    config.hyperparameters_bytes = (uint32_t)writer.used_bytes;
    world->nodes[1].lacks = FACT_READS_DRAWN_PROMOTION;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    config.promotes = true;
    world_submit(world, 0, &config);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not know searcher.sampler tpe together with "
                                           "searcher.stop_once: false; update that node first, or leave one of them out.");
    world_crash(world, 1);
    world_run(world, 20000);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_restart(world, 1, true);
    world_run(world, 60000);
    assert_int_equal(running(world, 1), 0); /* it would take the record for a broken one */
    world_free(world);
}

static void a_search_space_is_refused_while_a_node_lives_that_would_draw_other_values(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct search_parameter steps = {.name = "n", .kind = SEARCH_INT, .minval = 0, .maxval = 8, .step = 2};
    struct config config;
    struct pack_writer writer;
    uint8_t space[64];
    pack_writer_init(&writer, space, sizeof space);
    pack_array(&writer, 1);
    search_parameter_pack(&writer, &steps);
    make_config(&config, 9, 5);
    config.hyperparameters = space;
    config.hyperparameters_bytes = (uint32_t)writer.used_bytes;
    world->nodes[1].is_older = true;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not know log, step and when of hyperparameters, "
                                           "searcher.sampler and searcher.initial; update that node first, or leave them out.");
    world_crash(world, 1);
    world_run(world, 20000);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_restart(world, 1, true);
    world_run(world, 60000);
    assert_int_equal(running(world, 1), 0); /* trials wait, and its slot is free */
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_free(world);
}

static void an_experiment_that_waits_is_refused_while_a_node_lives_that_would_begin_it_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 9, 3);
    bytes_copy_text(config.start_after, sizeof config.start_after, "2001-01-01T00:00:00Z");
    world->nodes[1].lacks = FACT_READS_WAITS;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not know start_after; update that node first.");
    world_crash(world, 1);
    world_run(world, 20000);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_restart(world, 1, true);
    world_run(world, 60000);
    assert_int_equal(running(world, 1), 0);
    world_free(world);
}

static void event_files_are_not_asked_for_while_a_node_lives_that_does_not_read_them(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 9, 3);
    config.tensorboard = CONFIG_TENSORBOARD_READ;
    world->nodes[1].lacks = FACT_READS_SECRETS;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not know tensorboard: read; update that node first.");
    world_crash(world, 1);
    world_run(world, 20000);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_restart(world, 1, true);
    world_run(world, 60000);
    assert_int_equal(running(world, 1), 0); /* what its programs write would not count */
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_goes_to_those_who_understand_the_coordinator),
        cmocka_unit_test(two_sides_without_a_common_version_are_a_partition_that_an_update_heals),
        cmocka_unit_test(the_line_about_another_version_is_said_once_in_ten_minutes),
        cmocka_unit_test(a_search_is_refused_while_a_node_lives_that_does_not_know_its_searcher),
        cmocka_unit_test(promoting_what_is_drawn_is_refused_while_a_node_lives_that_does_not_know_both_together),
        cmocka_unit_test(a_search_space_is_refused_while_a_node_lives_that_would_draw_other_values),
        cmocka_unit_test(an_experiment_that_waits_is_refused_while_a_node_lives_that_would_begin_it_at_once),
        cmocka_unit_test(event_files_are_not_asked_for_while_a_node_lives_that_does_not_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
