/* Plans of collectives, simulated in memory: each rank a pair of cursors, each link a queue. */
#include "train/ring_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

#define RANKS_MAX 9
#define COUNT_MAX 200
#define LINK_MAX 4096

/* The history of an element: which ranks' values went in, in which order. */
struct history {
    uint8_t ranks[RANKS_MAX];
    uint8_t count;
};

struct message {
    struct ring_transfer transfer;
    struct history *elements;
};

struct link {
    struct message messages[LINK_MAX];
    size_t head, tail;
};

struct world {
    uint32_t size;
    uint64_t count;
    struct ring_plan plans[RANKS_MAX];
    struct ring_cursor sent[RANKS_MAX], received[RANKS_MAX];
    struct history data[RANKS_MAX][COUNT_MAX];
    struct link links[RANKS_MAX]; /* from rank i to the next */
};

static bool send_one(struct world *w, uint32_t rank)
{
    struct ring_transfer t;
    if (!ring_plan_send(&w->plans[rank], &w->sent[rank], &t) ||
        !ring_plan_send_ready(&w->plans[rank], &w->sent[rank], &w->received[rank])) {
        return false;
    }
    struct link *link = &w->links[rank];
    assert_true(link->tail < LINK_MAX);
    assert_true(t.offset + t.count <= w->count);
    assert_true(t.count <= w->plans[rank].piece_count);
    struct message *m = &link->messages[link->tail++];
    m->transfer = t;
    m->elements = malloc((t.count + 1) * sizeof *m->elements);
    assert_non_null(m->elements);
    memcpy(m->elements, &w->data[rank][t.offset], t.count * sizeof *m->elements);
    ring_plan_send_advance(&w->plans[rank], &w->sent[rank]);
    return true;
}

static bool receive_one(struct world *w, uint32_t rank)
{
    struct link *link = &w->links[(rank + w->size - 1) % w->size];
    struct ring_transfer t;
    if (!ring_plan_receive(&w->plans[rank], &w->received[rank], &t) || link->head == link->tail) {
        return false;
    }
    struct message *m = &link->messages[link->head++];
    /* Both ends of a link have computed the same sequence. */
    assert_int_equal(m->transfer.step, t.step);
    assert_int_equal(m->transfer.offset, t.offset);
    assert_int_equal(m->transfer.count, t.count);
    for (uint64_t i = 0; i < t.count; i++) {
        struct history *mine = &w->data[rank][t.offset + i], arrived = m->elements[i];
        if (t.add) {
            for (uint8_t k = 0; k < mine->count; k++) {
                assert_true(arrived.count < RANKS_MAX);
                arrived.ranks[arrived.count++] = mine->ranks[k];
            }
        }
        *mine = arrived;
    }
    free(m->elements);
    ring_plan_receive_advance(&w->plans[rank], &w->received[rank]);
    return true;
}

/* Moves single pieces in a random order until nothing moves, then checks that every plan and link is at its end. */
static void run(struct world *w, uint64_t seed)
{
    struct random random;
    random_init(&random, seed);
    for (;;) {
        bool moved = false;
        for (unsigned tries = 0; tries < 4 * w->size; tries++) {
            uint32_t rank = (uint32_t)random_below(&random, w->size);
            moved = (random_below(&random, 2) == 0 ? send_one(w, rank) : receive_one(w, rank)) || moved;
        }
        for (uint32_t rank = 0; rank < w->size && !moved; rank++) {
            moved = send_one(w, rank) || receive_one(w, rank);
        }
        if (!moved) {
            break;
        }
    }
    for (uint32_t rank = 0; rank < w->size; rank++) {
        struct ring_transfer t;
        assert_false(ring_plan_send(&w->plans[rank], &w->sent[rank], &t));
        assert_false(ring_plan_receive(&w->plans[rank], &w->received[rank], &t));
        assert_int_equal(w->links[rank].head, w->links[rank].tail);
    }
}

static struct world *world_new(uint32_t size, uint64_t count)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->size = size;
    w->count = count;
    for (uint32_t rank = 0; rank < size; rank++) {
        for (uint64_t i = 0; i < count; i++) {
            w->data[rank][i] = (struct history){{(uint8_t)rank}, 1};
        }
    }
    return w;
}

static void test_all_reduce_adds_each_rank_once_in_one_order(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 2, 3, 5, 7, 8, 9, 10, 17, 64, 101, 200};
    for (uint32_t size = 1; size <= RANKS_MAX; size++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (uint64_t piece = 1; piece <= 16; piece = piece * 2 + 1) {
                struct world *w = world_new(size, counts[c]);
                for (uint32_t rank = 0; rank < size; rank++) {
                    w->plans[rank] = ring_plan_all_reduce(rank, size, counts[c], piece);
                }
                run(w, size * 1000 + c);
                for (uint64_t i = 0; i < counts[c]; i++) {
                    unsigned seen = 0;
                    assert_int_equal(w->data[0][i].count, size);
                    for (uint32_t k = 0; k < size; k++) {
                        seen |= 1u << w->data[0][i].ranks[k];
                    }
                    assert_int_equal(seen, (1u << size) - 1);
                    for (uint32_t rank = 1; rank < size; rank++) {
                        assert_memory_equal(&w->data[rank][i], &w->data[0][i], sizeof w->data[0][i]);
                    }
                }
                free(w);
            }
        }
    }
}

static void test_broadcast_reaches_every_rank(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= RANKS_MAX; size++) {
        for (uint32_t root = 0; root < size; root++) {
            for (uint64_t count = 0; count <= 40; count += 13) {
                struct world *w = world_new(size, count);
                for (uint32_t rank = 0; rank < size; rank++) {
                    w->plans[rank] = ring_plan_broadcast(rank, size, root, count, 4);
                }
                run(w, size * 100 + root);
                for (uint32_t rank = 0; rank < size; rank++) {
                    for (uint64_t i = 0; i < count; i++) {
                        assert_int_equal(w->data[rank][i].count, 1);
                        assert_int_equal(w->data[rank][i].ranks[0], root);
                    }
                }
                free(w);
            }
        }
    }
}

static void test_slices_cover_the_array_evenly(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= RANKS_MAX; size++) {
        for (uint64_t count = 0; count < 50; count++) {
            struct ring_plan plan = ring_plan_all_reduce(0, size, count, 8);
            assert_int_equal(ring_plan_slice_start(&plan, 0), 0);
            assert_int_equal(ring_plan_slice_start(&plan, size), count);
            for (uint32_t i = 0; i < size; i++) {
                uint64_t bytes = ring_plan_slice_start(&plan, i + 1) - ring_plan_slice_start(&plan, i);
                assert_true(bytes == count / size || bytes == count / size + 1);
            }
        }
    }
}

static void test_every_rank_sends_its_fair_part(void **state)
{
    (void)state;
    struct ring_plan plan = ring_plan_all_reduce(2, 5, 1000, 64);
    struct ring_cursor cursor = {0};
    struct ring_transfer t;
    uint64_t elements = 0;
    while (ring_plan_send(&plan, &cursor, &t)) {
        elements += t.count;
        ring_plan_send_advance(&plan, &cursor);
    }
    assert_int_equal(elements, 2 * 4 * 1000 / 5); /* 2 (size - 1) / size of the array */
}

static void test_a_plan_can_be_printed(void **state)
{
    (void)state;
    struct ring_plan plan = ring_plan_all_reduce(1, 3, 30, 16);
    struct ring_cursor cursor = {0};
    struct ring_transfer t;
    char all[512] = "", line[128];
    while (ring_plan_send(&plan, &cursor, &t)) {
        ring_plan_line(&plan, &t, line, sizeof line);
        strcat(all, line);
        strcat(all, "\n");
        ring_plan_send_advance(&plan, &cursor);
    }
    assert_string_equal(all, "step 0 rank 1 sends [10, 20) to 2\n"
                             "step 1 rank 1 sends [0, 10) to 2\n"
                             "step 2 rank 1 sends [20, 30) to 2\n"
                             "step 3 rank 1 sends [10, 20) to 2\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce_adds_each_rank_once_in_one_order),
        cmocka_unit_test(test_broadcast_reaches_every_rank),
        cmocka_unit_test(test_slices_cover_the_array_evenly),
        cmocka_unit_test(test_every_rank_sends_its_fair_part),
        cmocka_unit_test(test_a_plan_can_be_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
