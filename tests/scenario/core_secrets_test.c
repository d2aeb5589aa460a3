/* Stories of secrets: which value counts on which side of a cut, who gets a copy, and that old copies are taken back.
 * The values are made up here: the core never looks into them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/scenario/core_story.h"

#define NAME "API_KEY"

static void say(struct world *world, uint32_t node, enum node_request_kind kind, const uint8_t *bytes, uint32_t count)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = bytes, .byte_count = count};
    event.u.request.kind = kind;
    event.u.request.client = 5;
    bytes_copy_text(event.u.request.label, sizeof event.u.request.label, NAME);
    world->reply.code = -1;
    world_step(world, node, &event);
}

/* Sets the value `mark`, with copies for the first `copies` nodes. */
static void set(struct world *world, uint32_t node, uint8_t mark, uint32_t copies)
{
    static const uint8_t sealed[80];
    uint8_t bytes[1024], all[8 * FACT_SECRET_COPY_BYTES] = {0}, value[FACT_SECRET_VALUE_BYTES] = {mark};
    struct pack_writer writer;
    for (uint32_t i = 0; i < copies; i++) {
        memcpy(all + i * FACT_SECRET_COPY_BYTES, world->nodes[i].person.id.bytes, NODE_ID_BYTES);
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 3);
    pack_bin(&writer, value, sizeof value);
    pack_bin(&writer, sealed, sizeof sealed);
    pack_bin(&writer, all, copies * FACT_SECRET_COPY_BYTES);
    assert_false(writer.failed);
    say(world, node, NODE_REQUEST_SECRET, bytes, (uint32_t)writer.used_bytes);
}

/* The value that counts on the node, as its mark; 0: none. */
static uint8_t value_on(const struct world *world, uint32_t node)
{
    const struct view *view = node_core_view(world->nodes[node].core);
    const struct view_secret *now = view_secret_find(view, NAME);
    return now != NULL && !now->removed ? now->value[0] : 0;
}

static bool has_copy(const struct world *world, uint32_t seen_by, uint32_t of)
{
    const struct view *view = node_core_view(world->nodes[seen_by].core);
    const struct view_secret *now = view_secret_find(view, NAME);
    struct fact_secret fact;
    return now != NULL && view_secret_copy(view, now, world->nodes[of].person.id, &fact) != NULL;
}

/* Records of the secret that still hold sealed bytes. */
static uint32_t sealed_records(const struct world *world, uint32_t node)
{
    uint32_t count = 0;
    for (const struct view_secret *row = node_core_view(world->nodes[node].core)->secrets; row != NULL;
         row = row->next) {
        struct fact_secret fact;
        assert_int_equal(fact_secret_read(&row->entry->record, &fact), 0);
        count += fact.sealed_bytes > 0;
    }
    return count;
}

/* What the shell does once a second: gives the copies that the core says are due. */
static bool give(struct world *world, uint32_t node)
{
    struct node_secret_due due;
    if (!node_core_secret_due(world->nodes[node].core, &due)) {
        return false;
    }
    uint8_t copies[NODE_SECRET_DUE_MAX * FACT_SECRET_COPY_BYTES] = {0}, bytes[4096];
    struct pack_writer writer;
    for (uint32_t i = 0; i < due.count; i++) {
        memcpy(copies + i * FACT_SECRET_COPY_BYTES, due.nodes[i].bytes, NODE_ID_BYTES);
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 3);
    pack_text(&writer, due.name);
    pack_bin(&writer, due.value, sizeof due.value);
    pack_bin(&writer, copies, due.count * FACT_SECRET_COPY_BYTES);
    struct node_event event = {
        .kind = NODE_EVENT_SECRET_COPIES, .bytes = bytes, .byte_count = (uint32_t)writer.used_bytes};
    world_step(world, node, &event);
    return true;
}

static void a_later_value_counts_everywhere_and_takes_the_earlier_ones_copies_back(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    set(world, 0, 1, 3);
    world_run(world, 2000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(value_on(world, 2), 1);
    set(world, 2, 2, 3);
    world_run(world, 3000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(value_on(world, i), 2);
        assert_int_equal(sealed_records(world, i), 1);
    }
    say(world, 1, NODE_REQUEST_SECRET_REMOVE, NULL, 0);
    world_run(world, 3000);
    assert_int_equal(world->reply.code, 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(value_on(world, i), 0);
        assert_int_equal(sealed_records(world, i), 0);
    }
    say(world, 1, NODE_REQUEST_SECRET_REMOVE, NULL, 0);
    world_run(world, 1000);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    world_free(world);
}

static void two_sides_of_a_cut_agree_on_one_value_after_it(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    set(world, 0, 1, 3);
    world_run(world, 2000);
    cut(world, 2);
    world_run(world, 20000);
    set(world, 0, 5, 3);
    set(world, 2, 9, 3);
    world_run(world, 5000);
    assert_int_equal(value_on(world, 1), 5);
    assert_int_equal(value_on(world, 2), 9);
    heal(world);
    world_run(world, 20000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(value_on(world, i), 9);
        assert_true(has_copy(world, i, 0) && has_copy(world, i, 1) && has_copy(world, i, 2));
        assert_int_equal(sealed_records(world, i), 1);
    }
    world_free(world);
}

static void a_removal_beyond_a_cut_wins_over_a_value_set_meanwhile(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    set(world, 0, 1, 3);
    world_run(world, 2000);
    cut(world, 2);
    world_run(world, 20000);
    set(world, 0, 5, 3);
    say(world, 2, NODE_REQUEST_SECRET_REMOVE, NULL, 0);
    world_run(world, 5000);
    heal(world);
    world_run(world, 20000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(value_on(world, i), 0);
        assert_int_equal(sealed_records(world, i), 0);
    }
    world_free(world);
}

static void a_node_without_a_copy_gets_one_from_any_that_lives(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    set(world, 0, 1, 2); /* as if node 2 had come later */
    world_run(world, 2000);
    assert_false(has_copy(world, 0, 2));
    assert_false(give(world, 2)); /* it has none to give */
    struct node_secret_due first, second;
    assert_true(node_core_secret_due(world->nodes[0].core, &first) &&
                node_core_secret_due(world->nodes[1].core, &second));
    assert_int_equal(first.rank + second.rank, 1); /* one of them comes first */
    assert_int_equal(first.count, 1);
    world_crash(world, 0); /* who has set it, between the newcomer and the copy */
    world_run(world, 20000);
    assert_true(node_core_secret_due(world->nodes[1].core, &second));
    assert_int_equal(second.rank, 0);
    assert_true(give(world, 1));
    world_run(world, 3000);
    assert_true(has_copy(world, 1, 2) && has_copy(world, 2, 2));
    assert_false(give(world, 1));
    world_free(world);
}

static void copies_of_a_value_that_counts_no_more_are_not_written(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    set(world, 0, 1, 1);
    world_run(world, 2000);
    struct node_secret_due due;
    assert_true(node_core_secret_due(world->nodes[0].core, &due));
    set(world, 1, 2, 2); /* between the question and the answer */
    world_run(world, 3000);
    uint8_t bytes[512], copies[FACT_SECRET_COPY_BYTES] = {0};
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 3);
    pack_text(&writer, due.name);
    pack_bin(&writer, due.value, sizeof due.value);
    pack_bin(&writer, copies, sizeof copies);
    struct node_event event = {
        .kind = NODE_EVENT_SECRET_COPIES, .bytes = bytes, .byte_count = (uint32_t)writer.used_bytes};
    world_step(world, 0, &event);
    world_run(world, 2000);
    assert_int_equal(value_on(world, 0), 2);
    assert_int_equal(sealed_records(world, 1), 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_value_counts_everywhere_and_takes_the_earlier_ones_copies_back),
        cmocka_unit_test(two_sides_of_a_cut_agree_on_one_value_after_it),
        cmocka_unit_test(a_removal_beyond_a_cut_wins_over_a_value_set_meanwhile),
        cmocka_unit_test(a_node_without_a_copy_gets_one_from_any_that_lives),
        cmocka_unit_test(copies_of_a_value_that_counts_no_more_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
