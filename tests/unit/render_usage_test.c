/* The document of usage: sums over the records of all nodes, by what is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/document.h"
#include "base/frame.h"
#include "node/daemon/render/usage_totals.h"
#include "tests/unit/facts_make.h"

#define CORE_BYTES (16u << 20)
#define TODAY 20421 /* 2025-11-29 */
#define DAY_S 86400ull

struct fixture {
    struct node_core *core;
    void *memory;
    struct node_effects effects;
    struct person a, b;
    uint64_t seq;
    struct usage_total *totals;
    uint8_t bytes[FRAME_BYTES_MAX];
    msgpack_unpacked document;
};

static void load(struct fixture *f, const struct person *writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    make_record(&made, writer->id, 1, ++f->seq, kind, key, fact);
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made.bytes, .byte_count = made.count};
    f->effects.count = 0;
    f->effects.used_bytes = 0;
    node_core_step(f->core, &event, &f->effects);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    f->a = make_person(0);
    f->b = make_person(1);
    f->memory = aligned_alloc(16, CORE_BYTES);
    f->totals = malloc(USAGE_TOTALS_MAX * sizeof *f->totals);
    f->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *f->effects.items);
    f->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    struct node_options options = {.self = f->a.id, .mesh = make_mesh(), .boot = 2ull << 32, .seed = 1, .now_ms = 1000,
                                   .wall_s = TODAY * DAY_S + 5000, .memory = f->memory, .memory_bytes = CORE_BYTES};
    options.node = make_node(&f->a, 2);
    f->core = node_core_init(&options);
    const struct person *people[] = {&f->a, &f->b};
    for (int i = 0; i < 2; i++) {
        struct fact_member member = make_member(people[i]);
        load(f, &f->a, FACT_MEMBER, fact_key_node_id(people[i]->id), &member);
    }
    msgpack_unpacked_init(&f->document);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    msgpack_unpacked_destroy(&f->document);
    free(f->memory);
    free(f->totals);
    free(f->effects.items);
    free(f->effects.bytes);
    free(f);
    return 0;
}

static void count(struct fixture *f, const struct person *writer, uint32_t day, const char *user, const char *label, uint64_t used_ms,
                  uint64_t lost_ms)
{
    struct fact_usage fact = {.number = day, .row_count = 1, .rows = {{.model = "cpu", .used_ms = used_ms, .lost_ms = lost_ms}}};
    (void)snprintf(fact.rows[0].user, sizeof fact.rows[0].user, "%s", user);
    (void)snprintf(fact.rows[0].label, sizeof fact.rows[0].label, "%s", label);
    load(f, writer, FACT_USAGE, fact_key_usage(FACT_USAGE_DAY, day), &fact);
    fact.number = fact_usage_month(day);
    load(f, writer, FACT_USAGE, fact_key_usage(FACT_USAGE_MONTH, fact.number), &fact);
}

static msgpack_object_array ask(struct fixture *f, const char *by, uint64_t since_s)
{
    struct usage_wish wish;
    struct pack_writer writer;
    assert_true(usage_wish_read(by, &wish));
    usage_wish_since(&wish, since_s, TODAY * DAY_S + 5000);
    pack_writer_init(&writer, f->bytes, sizeof f->bytes);
    pack_map(&writer, RENDER_USAGE_TOTALS_PAIRS);
    assert_true(render_usage_totals(f->core, &wish, f->totals, &writer));
    assert_false(writer.failed);
    size_t offset = 0;
    msgpack_unpacked_destroy(&f->document);
    assert_int_equal(msgpack_unpack_next(&f->document, (const char *)f->bytes, writer.used_bytes, &offset), MSGPACK_UNPACK_SUCCESS);
    return document_list(&f->document.data, "usage");
}

static void assert_row(const msgpack_object *row, const char *key, const char *text, double used_s, double lost_s)
{
    char found[128];
    double number = -1;
    document_text(row, key, found, sizeof found);
    assert_string_equal(found, text);
    assert_true(document_double(document_find(row, "used_s"), &number) && number == used_s);
    assert_true(document_double(document_find(row, "lost_s"), &number) && number == lost_s);
}

static void sums_are_over_all_nodes_and_days(void **state)
{
    struct fixture *f = *state;
    count(f, &f->a, TODAY, "ada", "project=x", 1000, 0);
    count(f, &f->a, TODAY - 1, "bob", "", 2500, 500);
    count(f, &f->b, TODAY, "ada", "project=y", 4000, 250);
    msgpack_object_array rows = ask(f, "user", (TODAY - 5) * DAY_S);
    assert_int_equal(rows.size, 2);
    assert_row(&rows.ptr[0], "user", "ada", 5, 0.25);
    assert_row(&rows.ptr[1], "user", "bob", 2.5, 0.5);
    rows = ask(f, "label", (TODAY - 5) * DAY_S);
    assert_int_equal(rows.size, 3);
    assert_row(&rows.ptr[1], "label", "project=x", 1, 0);
    rows = ask(f, "day,user", (TODAY - 5) * DAY_S);
    assert_int_equal(rows.size, 2);
    assert_row(&rows.ptr[0], "day", "2025-11-28", 2.5, 0.5);
    assert_row(&rows.ptr[1], "day", "2025-11-29", 5, 0.25);
    rows = ask(f, "user", TODAY * DAY_S + 3000); /* the whole day */
    assert_int_equal(rows.size, 1);
    assert_row(&rows.ptr[0], "user", "ada", 5, 0.25);
    rows = ask(f, "node", TODAY * DAY_S);
    assert_int_equal(rows.size, 2);
    assert_true(document_has(&rows.ptr[0], "node_label"));
    rows = ask(f, "month", TODAY * DAY_S);
    assert_row(&rows.ptr[0], "month", "2025-11", 5, 0.25);
}

/* What is older than the days that are kept is told by months, from the first of a month on. */
static void months_take_over_where_days_end(void **state)
{
    struct fixture *f = *state;
    struct usage_wish wish;
    assert_true(usage_wish_read("user", &wish));
    usage_wish_since(&wish, (TODAY - FACT_USAGE_DAYS + 1) * DAY_S, TODAY * DAY_S);
    assert_int_equal(wish.span, FACT_USAGE_DAY);
    assert_true(usage_wish_start_s(&wish) == (TODAY - FACT_USAGE_DAYS + 1) * DAY_S);
    usage_wish_since(&wish, (TODAY - FACT_USAGE_DAYS) * DAY_S, TODAY * DAY_S);
    assert_int_equal(wish.span, FACT_USAGE_MONTH);
    assert_true(usage_wish_start_s(&wish) == (TODAY - 59) * DAY_S); /* 2025-10-01 */
    usage_wish_since(&wish, 0, TODAY * DAY_S);
    assert_int_equal(wish.span, FACT_USAGE_MONTH);
    assert_true(usage_wish_start_s(&wish) == 0);
    usage_wish_since(&wish, (TODAY + 3) * DAY_S, TODAY * DAY_S); /* a clock that is ahead */
    assert_int_equal(wish.since, TODAY);
    count(f, &f->a, TODAY, "ada", "", 1000, 0);
    count(f, &f->a, TODAY - 200, "ada", "", 2000, 0);
    msgpack_object_array rows = ask(f, "user", 0);
    assert_row(&rows.ptr[0], "user", "ada", 3, 0);
    rows = ask(f, "user", (TODAY - 60) * DAY_S);
    assert_row(&rows.ptr[0], "user", "ada", 1, 0);
}

static void words_are_known_and_there_once(void **state)
{
    (void)state;
    struct usage_wish wish;
    assert_true(usage_wish_read("user,label,model,node,day,month", &wish));
    assert_int_equal(wish.by_count, USAGE_KEYS);
    static const char *const wrong[] = {"", ",", "user,", ",user", "users", "user,user", "user,label,model,node,day,month,user", "User"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(usage_wish_read(wrong[i], &wish));
    }
}

static void too_many_sums_are_refused(void **state)
{
    struct fixture *f = *state;
    struct usage_wish wish;
    struct pack_writer writer;
    for (uint32_t p = 0; p < USAGE_TOTALS_MAX / (FACT_USAGE_DAYS * FACT_USAGE_ROWS_MAX) + 1; p++) {
        struct person person = make_person(p + 2);
        for (uint32_t day = 0; day < FACT_USAGE_DAYS; day++) {
            struct fact_usage fact = {.number = TODAY - day, .row_count = FACT_USAGE_ROWS_MAX};
            for (uint32_t i = 0; i < FACT_USAGE_ROWS_MAX; i++) {
                (void)snprintf(fact.rows[i].user, sizeof fact.rows[i].user, "user %u", i);
                fact.rows[i].used_ms = 1;
            }
            load(f, &person, FACT_USAGE, fact_key_usage(FACT_USAGE_DAY, fact.number), &fact);
        }
    }
    assert_true(usage_wish_read("user,day,node", &wish));
    usage_wish_since(&wish, (TODAY - 30) * DAY_S, TODAY * DAY_S);
    pack_writer_init(&writer, f->bytes, sizeof f->bytes);
    assert_false(render_usage_totals(f->core, &wish, f->totals, &writer));
    assert_int_equal(writer.used_bytes, 0);
    assert_int_equal(ask(f, "user,day", (TODAY - 30) * DAY_S).size, 31 * FACT_USAGE_ROWS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sums_are_over_all_nodes_and_days, setup, teardown),
        cmocka_unit_test_setup_teardown(months_take_over_where_days_end, setup, teardown),
        cmocka_unit_test(words_are_known_and_there_once),
        cmocka_unit_test_setup_teardown(too_many_sums_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
