/* Stories of usage: what nodes count of their slots, which records have it, and that nothing is counted twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/owner/usage_check.h"
#include "tests/scenario/core_story.h"

/* What the records that a node holds have counted of the slots of a writer, or of all (NULL). */
struct counted {
    const node_id *writer;
    enum fact_usage_span span;
    uint32_t records;
    uint64_t used_ms, lost_ms;
    struct fact_usage_row last;
};

static bool count_record(void *context, const struct records_entry *entry)
{
    struct counted *counted = context;
    struct fact_usage fact;
    enum fact_usage_span span;
    uint32_t place;
    if (entry->record.kind != FACT_USAGE || (counted->writer != NULL && !node_id_equal(entry->record.writer, *counted->writer))) {
        return true;
    }
    assert_int_equal(fact_usage_read(&entry->record, &fact), 0);
    assert_int_equal(fact_key_read_usage(&entry->record, &span, &place), 0);
    for (uint32_t i = 0; i < fact.row_count && span == counted->span; i++) {
        counted->used_ms += fact.rows[i].used_ms;
        counted->lost_ms += fact.rows[i].lost_ms;
        counted->last = fact.rows[i];
    }
    counted->records += span == counted->span;
    return true;
}

static struct counted count(const struct world *world, uint32_t viewer, const node_id *writer, enum fact_usage_span span)
{
    struct counted counted = {.writer = writer, .span = span};
    records_each(&world->nodes[viewer].core->records, count_record, &counted);
    return counted;
}

/* Both records of a writer say the same, on each node that is up. */
static uint64_t used_by(const struct world *world, uint32_t writer)
{
    uint64_t used_ms = UINT64_MAX;
    for (uint32_t viewer = 0; viewer < world->node_count; viewer++) {
        if (world->nodes[viewer].is_up) {
            const node_id *id = &world->nodes[writer].person.id;
            uint64_t seen_ms = count(world, viewer, id, FACT_USAGE_DAY).used_ms;
            assert_true(used_ms == UINT64_MAX || seen_ms == used_ms);
            assert_true(count(world, viewer, id, FACT_USAGE_MONTH).used_ms == seen_ms);
            used_ms = seen_ms;
        }
    }
    return used_ms;
}

static void assert_about(uint64_t ms, uint64_t least_ms, uint64_t most_ms)
{
    if (ms < least_ms || ms > most_ms) {
        fail_msg("%llu ms are not between %llu and %llu", (unsigned long long)ms, (unsigned long long)least_ms, (unsigned long long)most_ms);
    }
}

static struct config labelled(uint32_t trials)
{
    static const uint8_t labels[] = "\x93\xa1" "a" "\xae" "project=vision" "\xa1" "z";
    struct config config;
    make_config(&config, trials, 5);
    bytes_copy_text(config.user, sizeof config.user, "ada");
    config.labels = labels;
    config.labels_bytes = sizeof labels - 1;
    return config;
}

static struct world *begin(uint32_t nodes, uint32_t slots, uint32_t trials)
{
    struct world *world = world_new(nodes, slots);
    struct config config = labelled(trials);
    world->counts_usage = true;
    (void)story_begin_with(world, &config, 10000);
    return world;
}

static void slots_are_counted_by_user_label_and_model_until_they_are_free(void **state)
{
    (void)state;
    struct world *world = begin(2, 2, 3);
    world_run(world, 110000);
    uint64_t all_ms = used_by(world, 0) + used_by(world, 1);
    assert_about(all_ms, 3 * 50000, 3 * 120000); /* written every minute */
    world_request(world, 0, NODE_REQUEST_CANCEL);
    world_run(world, 20000);
    all_ms = used_by(world, 0) + used_by(world, 1);
    assert_about(all_ms, 3 * 108000, 3 * 126000);
    struct counted row = count(world, 1, NULL, FACT_USAGE_DAY);
    assert_string_equal(row.last.user, "ada");
    assert_string_equal(row.last.label, "project=vision");
    assert_string_equal(row.last.model, world->nodes[0].core->options.node.slots[0].model);
    assert_int_equal(row.lost_ms, 0); /* people have stopped it */
    world_run(world, 200000);
    assert_true(used_by(world, 0) + used_by(world, 1) == all_ms);
    world_free(world);
}

static void a_deletion_takes_no_usage_away(void **state)
{
    (void)state;
    struct world *world = begin(2, 1, 2);
    world_run(world, 30000);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 20000);
    assert_null(world_experiment(world, 1));
    uint64_t all_ms = used_by(world, 0) + used_by(world, 1);
    assert_about(all_ms, 2 * 28000, 2 * 45000);
    assert_string_equal(count(world, 0, NULL, FACT_USAGE_DAY).last.user, "ada"); /* also of what was written after it */
    assert_int_equal(count(world, 0, NULL, FACT_USAGE_DAY).last.used_ms > 0, 1);
    world_free(world);
}

static void a_worker_that_fails_has_lost_the_time_since_its_checkpoint(void **state)
{
    (void)state;
    struct world *world = begin(1, 1, 1);
    world_run(world, 30000);
    world_end_worker(world, 0, 0, 1);
    world_run(world, 10000);
    struct counted counted = count(world, 0, NULL, FACT_USAGE_DAY);
    assert_about(counted.lost_ms, 28000, 42000);
    assert_true(counted.lost_ms <= counted.used_ms);
    world_free(world);
}

static void a_restart_counts_on_and_nothing_twice(void **state)
{
    (void)state;
    struct world *world = begin(2, 1, 2);
    world_run(world, 65000);
    uint64_t before_ms = used_by(world, 0);
    assert_true(before_ms > 0);
    world_crash(world, 0);
    world_run(world, 3000);
    world_restart(world, 0, true);
    world_run(world, 130000);
    assert_about(used_by(world, 0), before_ms + 60000, before_ms + 135000);
    world_free(world);
}

static void an_old_disk_learns_what_was_counted_and_adds_to_it(void **state)
{
    (void)state;
    struct world *world = begin(2, 1, 2);
    struct saved_disk saved = save_disk(world, 0);
    world_run(world, 125000);
    uint64_t before_ms = used_by(world, 0);
    assert_about(before_ms, 60000, 140000);
    world_crash(world, 0);
    world_run(world, 40000); /* its worker's keep hears no daemon */
    restart_with(world, 0, &saved, false);
    world_run(world, 20000);
    assert_true(used_by(world, 0) >= before_ms);
    world_run(world, 130000);
    assert_about(used_by(world, 0), before_ms + 60000, before_ms + 155000);
    world_free(world);
}

static void a_cut_and_a_heal_count_nothing_twice(void **state)
{
    (void)state;
    struct world *world = begin(3, 1, 3);
    world_run(world, 60000);
    cut(world, 1);
    world_run(world, 100000);
    heal(world);
    world_run(world, 70000);
    world_request(world, 1, NODE_REQUEST_CANCEL);
    world_run(world, 20000);
    for (uint32_t node = 0; node < 3; node++) { /* no slot was used for longer than there was time */
        assert_about(used_by(world, node), 100000, 265000);
    }
    world_free(world);
}

static void a_suspend_does_not_count(void **state)
{
    (void)state;
    struct world *world = begin(1, 1, 1);
    world_run(world, 10000);
    world_sleep(world, 0, 3600000);
    world_run(world, 3600000 + 10000);
    world_request(world, 0, NODE_REQUEST_CANCEL);
    world_run(world, 20000);
    assert_about(used_by(world, 0), 10000, 60000);
    world_free(world);
}

static void days_and_months_have_records_of_their_own_and_old_ones_give_way(void **state)
{
    (void)state;
    struct world *world = begin(1, 1, 1);
    for (uint32_t day = 0; day < FACT_USAGE_DAYS + 5; day++) {
        world_run(world, 121000);
        world->wall_shift_s += 86400;
    }
    world_run(world, 70000);
    struct counted days = count(world, 0, NULL, FACT_USAGE_DAY), months = count(world, 0, NULL, FACT_USAGE_MONTH);
    assert_int_equal(days.records, FACT_USAGE_DAYS);
    assert_true(months.records >= 2 && months.records <= 3);
    assert_true(months.used_ms > days.used_ms); /* what the places of days have lost */
    assert_about(months.used_ms, FACT_USAGE_DAYS * 121000, (FACT_USAGE_DAYS + 7) * 122000);
    world_free(world);
}

/* Beside the node's own records: says that its slots were used for so much longer. */
static void say_more(struct world *world, uint32_t writer, uint64_t ms)
{
    struct counted before = count(world, 0, &world->nodes[writer].person.id, FACT_USAGE_MONTH);
    uint32_t month = fact_usage_month((uint32_t)(node_core_mesh_wall_s(world->nodes[0].core) / 86400));
    struct fact_usage fact = {.number = month, .row_count = 1, .rows = {before.last}};
    struct made made;
    fact.rows[0].used_ms = before.used_ms + ms;
    make_record(&made, world->nodes[writer].person.id, 99ull << 32, 1, FACT_USAGE, fact_key_usage(FACT_USAGE_MONTH, month), &fact);
    world_deliver(world, writer, 0, &made);
}

static void a_node_that_counts_wrongly_is_named(void **state)
{
    (void)state;
    struct world *world = begin(2, 2, 4);
    world_run(world, 2 * CORE_USAGE_CHECK_MS + 60000);
    assert_int_equal(world_count(world, "says that its slots were used for"), 0); /* both count well */
    say_more(world, 1, 30 * 60000);
    world_run(world, CORE_USAGE_CHECK_MS);
    assert_int_equal(world_count(world, "a: b says that its slots were used for 15"), 1);
    world_run(world, CORE_USAGE_CHECK_MS);
    assert_int_equal(world_count(world, "says that its slots were used for"), 1);
    world_free(world);
}

static void a_difference_is_told_beyond_what_records_are_late_by(void **state)
{
    (void)state;
    const uint64_t hour_ms = 3600000;
    assert_false(usage_check_differs(hour_ms, hour_ms, 1));
    assert_false(usage_check_differs(hour_ms, hour_ms - 170000, 1));
    assert_false(usage_check_differs(hour_ms, hour_ms + 290000, 1));
    assert_true(usage_check_differs(hour_ms, hour_ms - 310000, 1));
    assert_true(usage_check_differs(hour_ms, hour_ms + 310000, 1));
    assert_true(usage_check_differs(0, hour_ms, 1));
    assert_true(usage_check_differs(64 * hour_ms, 0, 64));
    assert_false(usage_check_differs(60000, 0, 1)); /* less than a slot-hour */
}

static void a_version_that_does_not_count_writes_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->counts_usage = true;
    world->nodes[1].lacks = FACT_READS_USAGE;
    struct config config = labelled(2);
    (void)story_begin_with(world, &config, 10000);
    world_run(world, 70000);
    assert_true(count(world, 1, &world->nodes[0].person.id, FACT_USAGE_DAY).used_ms > 0); /* it keeps what others write */
    assert_int_equal(count(world, 0, &world->nodes[1].person.id, FACT_USAGE_DAY).records, 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_counted_by_user_label_and_model_until_they_are_free),
        cmocka_unit_test(a_deletion_takes_no_usage_away),
        cmocka_unit_test(a_worker_that_fails_has_lost_the_time_since_its_checkpoint),
        cmocka_unit_test(a_restart_counts_on_and_nothing_twice),
        cmocka_unit_test(an_old_disk_learns_what_was_counted_and_adds_to_it),
        cmocka_unit_test(a_cut_and_a_heal_count_nothing_twice),
        cmocka_unit_test(a_suspend_does_not_count),
        cmocka_unit_test(days_and_months_have_records_of_their_own_and_old_ones_give_way),
        cmocka_unit_test(a_node_that_counts_wrongly_is_named),
        cmocka_unit_test(a_difference_is_told_beyond_what_records_are_late_by),
        cmocka_unit_test(a_version_that_does_not_count_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
