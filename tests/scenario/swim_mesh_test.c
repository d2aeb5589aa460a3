/* Stories of whole meshes of swim cores, without loss: who sees whom in which state, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/swim_world.h"

/* What the nodes saw, in order. */
struct log {
    struct {
        uint64_t at_ms;
        int node, about;
        enum swim_state state;
    } lines[4096];
    size_t count;
};

static struct log seen;

static void write_log(struct world *world, int node, int about, enum swim_state old_state, enum swim_state new_state)
{
    (void)old_state;
    assert_true(seen.count < sizeof seen.lines / sizeof seen.lines[0]);
    seen.lines[seen.count].at_ms = world->now_ms;
    seen.lines[seen.count].node = node;
    seen.lines[seen.count].about = about;
    seen.lines[seen.count].state = new_state;
    seen.count++;
}

/* When `node` first saw `about` in that state after from_ms; 0 if never. */
static uint64_t first_seen(int node, int about, enum swim_state state, uint64_t from_ms)
{
    for (size_t i = 0; i < seen.count; i++) {
        if (seen.lines[i].at_ms > from_ms && seen.lines[i].node == node && seen.lines[i].about == about &&
            seen.lines[i].state == state) {
            return seen.lines[i].at_ms;
        }
    }
    return 0;
}

static size_t times_seen(enum swim_state state, uint64_t from_ms)
{
    size_t times = 0;
    for (size_t i = 0; i < seen.count; i++) {
        times += seen.lines[i].at_ms > from_ms && seen.lines[i].state == state ? 1 : 0;
    }
    return times;
}

static struct world *mesh(int count)
{
    struct world *world = malloc(sizeof *world);
    world_init(world, (uint64_t)count * 77 + 5, count);
    world->changed = write_log;
    seen.count = 0;
    return world;
}

static struct world *running_mesh(int count)
{
    struct world *world = mesh(count);
    for (int i = 0; i < count; i++) {
        world_start(world, i);
    }
    world_run(world, world->now_ms + 3000);
    assert_string_equal(world->failure, "");
    assert_true(world_agrees(world));
    assert_int_equal(times_seen(SWIM_SUSPECT, 0), 0);
    return world;
}

static void end(struct world *world)
{
    assert_string_equal(world->failure, "");
    world_free(world);
    free(world);
}

static void nodes_started_together_know_each_other_at_once(void **state)
{
    (void)state;
    struct world *world = mesh(16);
    for (int i = 0; i < 16; i++) {
        world_start(world, i);
    }
    world_run(world, world->now_ms + 500);
    assert_true(world_agrees(world));
    end(world);
}

static void a_late_starter_is_known_to_all_within_a_second(void **state)
{
    (void)state;
    struct world *world = mesh(5);
    for (int i = 0; i < 4; i++) {
        world_start(world, i);
    }
    world_run(world, world->now_ms + 20000);
    assert_int_equal(world_view(world, 0, 4), SWIM_UNKNOWN);
    assert_int_equal(times_seen(SWIM_SUSPECT, 0), 0);
    world_start(world, 4);
    world_run(world, world->now_ms + 1000);
    assert_true(world_agrees(world));
    end(world);
}

static void a_silent_death_is_suspected_then_known_to_all(void **state)
{
    (void)state;
    const int sizes[] = {2, 3, 5, 16, 32};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct world *world = running_mesh(sizes[s]);
        uint64_t died_ms = world->now_ms;
        world_crash(world, 1);
        world_run(world, died_ms + 8000);
        for (int i = 0; i < sizes[s]; i++) {
            if (i == 1) {
                continue;
            }
            uint64_t suspect_ms = first_seen(i, 1, SWIM_SUSPECT, died_ms);
            uint64_t dead_ms = first_seen(i, 1, SWIM_DEAD, died_ms);
            assert_in_range(suspect_ms, died_ms + 1, died_ms + 3000);
            assert_in_range(dead_ms, died_ms + 2500, died_ms + 5500);
            assert_true(suspect_ms < dead_ms);
        }
        /* Nobody else is accused. */
        for (size_t i = 0; i < seen.count; i++) {
            assert_true(seen.lines[i].state != SWIM_DEAD || seen.lines[i].about == 1);
        }
        end(world);
    }
}

static void half_of_the_mesh_dies_at_once(void **state)
{
    (void)state;
    struct world *world = running_mesh(9);
    for (int i = 0; i < 6; i++) {
        world_crash(world, i);
    }
    world_run(world, world->now_ms + 8000);
    for (int i = 6; i < 9; i++) {
        for (int j = 0; j < 9; j++) {
            assert_int_equal(world_view(world, i, j), j < 6 ? SWIM_DEAD : SWIM_ALIVE);
        }
    }
    end(world);
}

static void a_short_pause_is_suspected_and_refuted(void **state)
{
    (void)state;
    struct world *world = running_mesh(5);
    uint64_t start_ms = world->now_ms;
    world_pause(world, 2, 2000);
    world_run(world, start_ms + 5000);
    assert_true(first_seen(0, 2, SWIM_SUSPECT, start_ms) != 0);
    assert_int_equal(times_seen(SWIM_DEAD, 0), 0);
    assert_true(world_agrees(world));
    end(world);
}

static void a_suspended_node_accuses_nobody_and_is_taken_back(void **state)
{
    (void)state;
    struct world *world = running_mesh(5);
    uint64_t start_ms = world->now_ms;
    world_pause(world, 2, 60000);
    world_run(world, start_ms + 59000);
    assert_int_equal(world_view(world, 0, 2), SWIM_DEAD);
    world_run(world, start_ms + 63000);
    assert_true(world_agrees(world));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(first_seen(2, i, SWIM_SUSPECT, start_ms), 0);
    }
    end(world);
}

static void one_who_leaves_is_left_and_not_dead(void **state)
{
    (void)state;
    struct world *world = running_mesh(5);
    uint64_t start_ms = world->now_ms;
    world_leave(world, 3);
    world_run(world, start_ms + 200);
    world_crash(world, 3);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(world_view(world, i, 3), SWIM_LEFT);
    }
    world_run(world, start_ms + 20000);
    assert_int_equal(times_seen(SWIM_SUSPECT, 0), 0);
    assert_int_equal(times_seen(SWIM_DEAD, 0), 0);
    world_start(world, 3);
    world_run(world, world->now_ms + 1000);
    assert_true(world_agrees(world));
    end(world);
}

static void a_restart_beats_old_rumours(void **state)
{
    (void)state;
    for (int down_ms = 100; down_ms <= 20100; down_ms += 4000) {
        struct world *world = running_mesh(4);
        world_crash(world, 0);
        world_run(world, world->now_ms + (uint64_t)down_ms);
        world_start(world, 0);
        world_run(world, world->now_ms + 2000);
        assert_true(world_agrees(world));
        end(world);
    }
}

static void a_partition_heals(void **state)
{
    (void)state;
    struct world *world = running_mesh(9);
    uint64_t start_ms = world->now_ms;
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < 9; j++) {
            world->cut[i][j] = (i < 4) != (j < 4);
        }
    }
    world_run(world, start_ms + 60000);
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < 9; j++) {
            assert_int_equal(world_view(world, i, j), (i < 4) == (j < 4) ? SWIM_ALIVE : SWIM_DEAD);
        }
    }
    world_heal(world);
    world_run(world, world->now_ms + 5000);
    assert_true(world_agrees(world));
    end(world);
}

/* Two have left and come back on either side of a partition, where a third node tells each of them that the other has left.
 * When those two are gone for good, nobody is there who knows better. */
static void two_who_were_told_that_the_other_has_left_find_each_other(void **state)
{
    (void)state;
    struct world *world = running_mesh(4);
    for (int i = 0; i < 2; i++) {
        world_leave(world, i);
        world_run(world, world->now_ms + 1000);
        world_crash(world, i);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            world->cut[i][j] = i % 2 != j % 2;
        }
    }
    world_start(world, 0);
    world_start(world, 1);
    world_run(world, world->now_ms + 60000);
    assert_int_equal(world_view(world, 0, 1), SWIM_LEFT);
    assert_int_equal(world_view(world, 1, 0), SWIM_LEFT);
    world_crash(world, 2);
    world_crash(world, 3);
    world_heal(world);
    world_run(world, world->now_ms + 20000);
    assert_true(world_agrees(world));
    end(world);
}

static void one_broken_link_is_bridged_by_helpers(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        struct world *world = running_mesh(5);
        world->cut[0][1] = true;
        world->cut[1][0] = both == 1;
        world_run(world, world->now_ms + 60000);
        assert_int_equal(times_seen(SWIM_SUSPECT, 0), 0);
        end(world);
    }
}

static void a_node_that_hears_but_is_not_heard_is_dead_to_the_others(void **state)
{
    (void)state;
    struct world *world = running_mesh(5);
    for (int i = 0; i < 4; i++) {
        world->cut[4][i] = true;
    }
    world_run(world, world->now_ms + 8000);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(world_view(world, i, 4), SWIM_DEAD);
    }
    world_heal(world);
    world_run(world, world->now_ms + 5000);
    assert_true(world_agrees(world));
    end(world);
}

static void two_nodes_with_a_one_way_cut_both_give_up(void **state)
{
    (void)state;
    struct world *world = running_mesh(2);
    world->cut[0][1] = true;
    world_run(world, world->now_ms + 8000);
    assert_int_equal(world_view(world, 0, 1), SWIM_DEAD);
    assert_int_equal(world_view(world, 1, 0), SWIM_DEAD);
    world_heal(world);
    world_run(world, world->now_ms + 5000);
    assert_true(world_agrees(world));
    end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_started_together_know_each_other_at_once),
        cmocka_unit_test(a_late_starter_is_known_to_all_within_a_second),
        cmocka_unit_test(a_silent_death_is_suspected_then_known_to_all),
        cmocka_unit_test(half_of_the_mesh_dies_at_once),
        cmocka_unit_test(a_short_pause_is_suspected_and_refuted),
        cmocka_unit_test(a_suspended_node_accuses_nobody_and_is_taken_back),
        cmocka_unit_test(one_who_leaves_is_left_and_not_dead),
        cmocka_unit_test(a_restart_beats_old_rumours),
        cmocka_unit_test(a_partition_heals),
        cmocka_unit_test(two_who_were_told_that_the_other_has_left_find_each_other),
        cmocka_unit_test(one_broken_link_is_bridged_by_helpers),
        cmocka_unit_test(a_node_that_hears_but_is_not_heard_is_dead_to_the_others),
        cmocka_unit_test(two_nodes_with_a_one_way_cut_both_give_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
