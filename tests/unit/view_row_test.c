/* view_row: the one function that finds or makes a row in a sorted list of the fold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/view/rows.h"

struct row {
    struct row *next;
    int key;
    int seen; /* how often the row was asked for */
};

/* A view that has nothing but an arena, and one list. */
struct list {
    _Alignas(16) uint8_t memory[4096];
    struct arena arena;
    struct view view;
    struct row *first;
};

static int row_order(const void *row, const void *wanted)
{
    const struct row *a = row, *b = wanted;
    return a->key < b->key ? -1 : a->key > b->key;
}

static void list_init(struct list *list)
{
    memset(list, 0, sizeof *list);
    arena_init(&list->arena, list->memory, sizeof list->memory);
    view_init(&list->view, &list->arena, NULL, (mesh_id){{0}});
}

static struct row *row_of(struct list *list, int key)
{
    const struct row wanted = {.key = key};
    struct row *row = view_row(&list->view, &list->first, &wanted, sizeof wanted, row_order);
    if (row != NULL) {
        row->seen++;
    }
    return row;
}

static void assert_keys(const struct list *list, const int *keys, size_t count)
{
    const struct row *row = list->first;
    for (size_t i = 0; i < count; i++, row = row->next) {
        assert_non_null(row);
        assert_int_equal(row->key, keys[i]);
    }
    assert_null(row);
}

static void the_first_row_is_a_copy_of_what_is_wanted(void **state)
{
    (void)state;
    struct list list;
    list_init(&list);
    const struct row wanted = {.next = (struct row *)&list, .key = 5, .seen = 7};
    const struct row *row = view_row(&list.view, &list.first, &wanted, sizeof wanted, row_order);
    assert_ptr_equal(list.first, row);
    assert_ptr_not_equal(row, &wanted);
    assert_int_equal(row->key, 5);
    assert_int_equal(row->seen, 7);
    assert_null(row->next);
}

static void rows_are_in_order_however_they_come(void **state)
{
    (void)state;
    static const int orders[][4] = {{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 4, 1, 3}, {3, 1, 4, 2}};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct list list;
        list_init(&list);
        for (size_t k = 0; k < 4; k++) {
            assert_non_null(row_of(&list, orders[i][k]));
        }
        assert_keys(&list, (const int[]){1, 2, 3, 4}, 4);
    }
}

static void a_row_that_is_there_is_found_and_not_made_again(void **state)
{
    (void)state;
    struct list list;
    list_init(&list);
    struct row *rows[3];
    for (int key = 0; key < 3; key++) {
        rows[key] = row_of(&list, key);
    }
    size_t used_bytes = list.arena.used_bytes;
    for (int key = 2; key >= 0; key--) {
        assert_ptr_equal(row_of(&list, key), rows[key]);
        assert_int_equal(rows[key]->seen, 2);
    }
    assert_int_equal(list.arena.used_bytes, used_bytes);
    assert_keys(&list, (const int[]){0, 1, 2}, 3);
}

static void a_full_arena_leaves_the_list_unchanged(void **state)
{
    (void)state;
    struct list list;
    list_init(&list);
    for (int key = 0; key < 8; key += 2) {
        assert_non_null(row_of(&list, key));
    }
    while (arena_take(&list.arena, sizeof(struct row)) != NULL) {
    }
    for (int key = -1; key < 8; key += 2) { /* before, between and behind the rows that are there */
        assert_null(row_of(&list, key));
    }
    assert_keys(&list, (const int[]){0, 2, 4, 6}, 4);
    assert_non_null(row_of(&list, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_row_is_a_copy_of_what_is_wanted),
        cmocka_unit_test(rows_are_in_order_however_they_come),
        cmocka_unit_test(a_row_that_is_there_is_found_and_not_made_again),
        cmocka_unit_test(a_full_arena_leaves_the_list_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
