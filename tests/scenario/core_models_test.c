/* Stories of the model registry: it reaches every node and outlives them, and both sides of a cut write into it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/format.h"
#include "tests/scenario/core_story.h"

static void ask(struct world *world, uint32_t node, enum node_request_kind kind, enum fact_model_subject subject, uint8_t id,
                const struct fact_model *fact)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.client = 7;
    event.u.request.model_subject = subject;
    event.u.request.public_key[0] = id;
    event.u.request.model = fact;
    world_step(world, node, &event);
}

static void make_version(struct world *world, uint32_t node, uint8_t id)
{
    const struct fact_model fact = {.name = "net", .number = 1, .source = {.experiment = make_experiment_id(0), .trial = id, .blob = {{id}}}};
    ask(world, node, NODE_REQUEST_MODEL_VERSION, FACT_MODEL_VERSION, id, &fact);
}

static void move_alias(struct world *world, uint32_t node, uint8_t id)
{
    const struct fact_model fact = {.name = "net", .field = "champion", .target = {id}};
    ask(world, node, NODE_REQUEST_MODEL_SET, FACT_MODEL_ALIAS, 0, &fact);
}

/* Of the whole model with id 0. */
static void take_away(struct world *world, uint32_t node, uint8_t id)
{
    const struct fact_model fact = {.name = "net", .removed = true};
    ask(world, node, NODE_REQUEST_MODEL_SET, id == 0 ? FACT_MODEL_EXISTS : FACT_MODEL_VERSION, id, &fact);
}

/* What a node knows: ids of the versions by their numbers, and whose the alias is: "1:7 2:8 champion:8"; "-": no model. */
static const char *look(const struct world *world, uint32_t node)
{
    static char text[256];
    const struct view_model *model = view_model_find(&world->nodes[node].core->view, "net"), *row = NULL;
    size_t used = 0;
    if (model == NULL) {
        return "-";
    }
    text[0] = '\0';
    while ((row = view_model_version_next(model, row)) != NULL) {
        used += format_text(text + used, sizeof text - used, "%s%llu:%u", used > 0 ? " " : "",
                            (unsigned long long)view_model_version_number(row), view_model_id(row)[0]);
    }
    for (row = NULL; (row = view_model_value_next(model, row)) != NULL;) {
        struct fact_model fact;
        if (!view_model_value_is_held(model, row)) {
            continue;
        }
        assert_int_equal(fact_model_read(&row->entry->record, &fact), 0);
        used += format_text(text + used, sizeof text - used, " %s:%u", fact.field, fact.target[0]);
    }
    return text;
}

static void assert_all(const struct world *world, uint32_t nodes, const char *expected)
{
    for (uint32_t i = 0; i < nodes; i++) {
        assert_string_equal(look(world, i), expected);
    }
}

static void assert_done(struct world *world)
{
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
}

static void versions_are_acknowledged_and_outlive_their_writer(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 20, 5);
    make_version(world, 1, 7);
    assert_done(world);
    assert_int_equal(world->reply.stored_on, 2);
    make_version(world, 2, 8);
    assert_done(world);
    move_alias(world, 0, 8);
    assert_done(world);
    assert_all(world, 3, "1:7 2:8 champion:8");
    world_die(world, 1);
    world_run(world, 20000);
    world_crash(world, 0);
    world_restart(world, 0, true);
    world_run(world, 10000);
    assert_string_equal(look(world, 0), "1:7 2:8 champion:8");
    make_version(world, 0, 9);
    assert_done(world);
    assert_string_equal(look(world, 2), "1:7 2:8 3:9 champion:8");
    world_free(world);
}

static void both_sides_of_a_cut_write_and_the_heal_loses_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 20, 5);
    make_version(world, 0, 7);
    assert_done(world);
    cut(world, 2);
    world_run(world, 20000);
    make_version(world, 0, 9); /* both sides go on with number 2 */
    assert_done(world);
    move_alias(world, 1, 9);
    assert_done(world);
    make_version(world, 3, 8);
    assert_done(world);
    move_alias(world, 2, 8);
    assert_done(world);
    take_away(world, 3, 7);
    assert_done(world);
    assert_string_equal(look(world, 1), "1:7 2:9 champion:9");
    assert_string_equal(look(world, 2), "2:8 champion:8");
    heal(world);
    world_run(world, 20000);
    /* 9 << 56 ends in 223040; the two moves are concurrent, and each is to number 2: the greater writer's counts. */
    bool is_greater = node_id_compare(world->nodes[1].person.id, world->nodes[2].person.id) > 0;
    uint64_t digits = (UINT64_C(9) << 56) % 1000000;
    char expected[64];
    format_text(expected, sizeof expected, "2:8 %llu:9 champion:%u", (unsigned long long)(2000000 + digits), is_greater ? 9u : 8u);
    assert_all(world, 4, expected);
    make_version(world, 2, 10);
    assert_done(world);
    assert_int_equal(view_model_free_number(&world->nodes[0].core->view, "net"), 4);
    world_free(world);
}

static void a_model_is_removed_but_for_what_the_other_side_adds(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 20, 5);
    for (uint8_t id = 1; id <= 5; id++) {
        make_version(world, id % 4u, id);
        assert_done(world);
    }
    move_alias(world, 1, 3);
    assert_done(world);
    cut(world, 2);
    world_run(world, 20000);
    take_away(world, 0, 0);
    assert_done(world);
    assert_string_equal(look(world, 1), "-");
    make_version(world, 3, 6);
    assert_done(world);
    heal(world);
    world_run(world, 20000);
    assert_all(world, 4, "6:6");
    take_away(world, 1, 0);
    assert_done(world);
    assert_all(world, 4, "-");
    move_alias(world, 1, 6);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    make_version(world, 2, 11); /* numbers are not used again */
    assert_done(world);
    assert_all(world, 4, "7:11");
    world_free(world);
}

static void an_experiment_with_a_version_is_not_deleted(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 20, 5);
    make_version(world, 0, 7);
    assert_done(world);
    world_request(world, 1, NODE_REQUEST_DELETE);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    take_away(world, 1, 7);
    assert_done(world);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_null(world_experiment(world, 1));
    world_free(world);
}

static void an_older_version_forbids_to_write(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->nodes[1].lacks = FACT_READS_MODELS;
    (void)story_begin(world, 20, 5);
    make_version(world, 0, 7);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(look(world, 0), "-");
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_acknowledged_and_outlive_their_writer),
        cmocka_unit_test(both_sides_of_a_cut_write_and_the_heal_loses_nothing),
        cmocka_unit_test(a_model_is_removed_but_for_what_the_other_side_adds),
        cmocka_unit_test(an_experiment_with_a_version_is_not_deleted),
        cmocka_unit_test(an_older_version_forbids_to_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
