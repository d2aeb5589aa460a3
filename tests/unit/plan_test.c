/* Plans of collectives, carried out in memory: each rank a pair of cursors, each directed pair of ranks a queue. Any rank may
 * move at any time, so what two senders have sent one rank arrives in any order. Elements are real floats with the set of
 * the ranks that are in them: a plan whose ranks add in different orders shows in the bits. */
#include "train/plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/plan/element.h"

#define RANKS_MAX 17
#define COUNT_MAX 128
#define QUEUE_MAX 256

struct element {
    float value;
    uint32_t ranks; /* whose values are in it, as bits */
};

struct message {
    struct plan_transfer transfer;
    struct element elements[];
};

struct queue {
    struct message *messages[QUEUE_MAX]; /* [head, tail), modulo QUEUE_MAX; full, it makes the sender wait */
    size_t head, tail;
};

struct world {
    uint32_t size;
    uint64_t count;
    struct plan plans[RANKS_MAX];
    struct plan_cursor sent[RANKS_MAX], received[RANKS_MAX];
    bool received_yet[RANKS_MAX][PLAN_STEPS_MAX][COUNT_MAX]; /* by step and element: what readiness is checked against */
    struct element data[RANKS_MAX][COUNT_MAX];
    struct queue queues[RANKS_MAX][RANKS_MAX];
    uint64_t elements_sent;
};

static struct world *world_new(const struct plan_options *options, uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->size = options->size;
    w->count = options->count;
    struct random random;
    random_init(&random, seed);
    for (uint32_t rank = 0; rank < w->size; rank++) {
        struct plan_options own = *options;
        own.rank = rank;
        plan_init(&w->plans[rank], &own);
        w->sent[rank] = plan_begin(&w->plans[rank], true);
        w->received[rank] = plan_begin(&w->plans[rank], false);
        for (uint64_t i = 0; i < w->count; i++) {
            w->data[rank][i] = (struct element){(float)(random_double(&random) - 0.5) * 1000.0f, 1u << rank};
        }
    }
    return w;
}

/* What a send needs, found the slow way: all that earlier steps receive into its range. */
static void assert_ready(const struct world *w, uint32_t rank, const struct plan_transfer *t)
{
    const struct plan *plan = &w->plans[rank];
    for (uint32_t s = 0; s < t->step; s++) {
        const struct plan_step *step = &plan->steps[s];
        for (uint64_t i = t->offset; i < t->offset + t->count && step->from != PLAN_NOBODY; i++) {
            bool touched = i >= step->receive_offset && i < step->receive_offset + step->receive_count;
            assert_true(!touched || w->received_yet[rank][s][i]);
        }
    }
}

static bool send_one(struct world *w, uint32_t rank)
{
    struct plan_transfer t;
    const struct plan *plan = &w->plans[rank];
    if (!plan_send(plan, &w->sent[rank], &t) || !plan_send_ready(plan, &w->sent[rank], &w->received[rank])) {
        return false;
    }
    struct queue *queue = t.peer < w->size ? &w->queues[rank][t.peer] : NULL;
    assert_non_null(queue);
    if (queue->tail - queue->head == QUEUE_MAX) {
        return false;
    }
    assert_true(t.offset + t.count <= w->count);
    assert_true(t.count <= plan->piece_count);
    assert_true(plan_linked(w->size, rank, t.peer));
    assert_true(plan_sends_to(plan, &w->sent[rank], t.peer));
    assert_ready(w, rank, &t);
    struct message *m = queue->messages[queue->tail++ % QUEUE_MAX] = malloc(sizeof *m + t.count * sizeof m->elements[0]);
    assert_non_null(m);
    m->transfer = t;
    memcpy(m->elements, &w->data[rank][t.offset], t.count * sizeof *m->elements);
    w->elements_sent += t.count;
    plan_send_advance(plan, &w->sent[rank]);
    return true;
}

static bool receive_one(struct world *w, uint32_t rank)
{
    struct plan_transfer t;
    const struct plan *plan = &w->plans[rank];
    if (!plan_receive(plan, &w->received[rank], &t) ||
        !plan_receive_ready(plan, &w->received[rank], &w->sent[rank])) {
        return false;
    }
    struct queue *queue = &w->queues[t.peer][rank];
    if (queue->head == queue->tail) {
        return false;
    }
    assert_true(plan_receives_from(plan, &w->received[rank], t.peer));
    struct message *m = queue->messages[queue->head++ % QUEUE_MAX];
    /* Both ends of a link have computed the same transfer. */
    assert_int_equal(m->transfer.peer, rank);
    assert_int_equal(m->transfer.step, t.step);
    assert_int_equal(m->transfer.offset, t.offset);
    assert_int_equal(m->transfer.count, t.count);
    assert_int_equal(m->transfer.add, t.add);
    for (uint64_t i = 0; i < t.count; i++) {
        struct element *mine = &w->data[rank][t.offset + i];
        if (t.add) {
            assert_int_equal(mine->ranks & m->elements[i].ranks, 0); /* nobody is added twice */
            mine->value += m->elements[i].value;
            mine->ranks |= m->elements[i].ranks;
        } else {
            *mine = m->elements[i];
        }
        w->received_yet[rank][t.step][t.offset + i] = true;
    }
    free(m);
    plan_receive_advance(plan, &w->received[rank]);
    return true;
}

/* Moves single pieces in a random order until nothing moves, then checks that every plan and queue is at its end. */
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
        struct plan_transfer t;
        assert_false(plan_send(&w->plans[rank], &w->sent[rank], &t));
        assert_false(plan_receive(&w->plans[rank], &w->received[rank], &t));
        for (uint32_t to = 0; to < w->size; to++) {
            assert_int_equal(w->queues[rank][to].head, w->queues[rank][to].tail);
        }
    }
}

static const uint64_t counts[] = {0, 1, 2, 3, 5, 8, 17, 40, 128};
static const uint64_t pieces[] = {1, 7, 200};

/* Calls `each` for every algorithm of a kind, number of ranks, length and size of pieces, after the plan has run. */
static void for_all(enum plan_kind kind, uint32_t root, void (*each)(const struct world *w))
{
    for (enum plan_algorithm algorithm = PLAN_RING; algorithm < PLAN_ALGORITHMS; algorithm++) {
        for (uint32_t size = root + 1; plan_exists(kind, algorithm) && size <= RANKS_MAX; size++) {
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
                    struct plan_options options = {.kind = kind,
                                                   .algorithm = algorithm,
                                                   .size = size,
                                                   .root = root,
                                                   .count = kind == PLAN_BARRIER ? 0 : counts[c],
                                                   .piece_count = pieces[p]};
                    struct world *w = world_new(&options, size);
                    run(w, size * 1000 + c);
                    each(w);
                    free(w);
                }
            }
        }
    }
}

static void twins_of(uint32_t size, uint32_t *p, uint64_t *levels, uint64_t *twins)
{
    *p = 1;
    *levels = 0;
    while (*p * 2 <= size) {
        *p *= 2;
        *levels += 1;
    }
    *twins = size - *p;
}

static void check_all_reduce(const struct world *w)
{
    for (uint64_t i = 0; i < w->count; i++) {
        assert_int_equal(w->data[0][i].ranks, (1u << w->size) - 1);
        for (uint32_t rank = 1; rank < w->size; rank++) {
            assert_memory_equal(&w->data[rank][i], &w->data[0][i], sizeof w->data[0][i]);
        }
    }
    uint32_t p;
    uint64_t levels, twins, sent;
    twins_of(w->size, &p, &levels, &twins);
    switch (w->plans[0].algorithm) {
    case PLAN_RING:
        sent = 2 * (w->size - 1);
        break;
    case PLAN_DOUBLING:
        sent = p * levels + 2 * twins;
        break;
    default:
        sent = 2 * (p - 1) + 2 * twins;
        break;
    }
    assert_int_equal(w->elements_sent, sent * w->count);
}

static void test_all_reduce_adds_each_rank_once_to_the_same_bits(void **state)
{
    (void)state;
    for_all(PLAN_ALL_REDUCE, 0, check_all_reduce);
}

static void check_reduce_scatter(const struct world *w)
{
    uint64_t to_twins = 0;
    uint32_t p;
    uint64_t levels, twins;
    twins_of(w->size, &p, &levels, &twins);
    for (uint32_t rank = 0; rank < w->size; rank++) {
        uint64_t start = plan_slice_start(w->count, w->size, rank), end = plan_slice_start(w->count, w->size, rank + 1);
        for (uint64_t i = start; i < end; i++) {
            assert_int_equal(w->data[rank][i].ranks, (1u << w->size) - 1);
        }
        to_twins += rank < 2 * twins && rank % 2 == 0 ? w->count + end - start : 0;
    }
    uint64_t sent = w->plans[0].algorithm == PLAN_RING ? (w->size - 1) * w->count : (p - 1) * w->count + to_twins;
    assert_int_equal(w->elements_sent, sent);
}

static void test_reduce_scatter_leaves_each_rank_its_slice(void **state)
{
    (void)state;
    for_all(PLAN_REDUCE_SCATTER, 0, check_reduce_scatter);
}

static void check_all_gather(const struct world *w)
{
    for (uint32_t slice = 0; slice < w->size; slice++) {
        for (uint64_t i = plan_slice_start(w->count, w->size, slice); i < plan_slice_start(w->count, w->size, slice + 1);
             i++) {
            assert_int_equal(w->data[slice][i].ranks, 1u << slice);
            for (uint32_t rank = 0; rank < w->size; rank++) {
                assert_memory_equal(&w->data[rank][i], &w->data[slice][i], sizeof w->data[0][i]);
            }
        }
    }
}

static void test_all_gather_gives_every_rank_every_slice(void **state)
{
    (void)state;
    for_all(PLAN_ALL_GATHER, 0, check_all_gather);
}

static void check_broadcast(const struct world *w)
{
    uint32_t root = w->plans[0].root;
    for (uint64_t i = 0; i < w->count; i++) {
        for (uint32_t rank = 0; rank < w->size; rank++) {
            assert_int_equal(w->data[rank][i].ranks, 1u << root);
            assert_memory_equal(&w->data[rank][i], &w->data[root][i], sizeof w->data[0][i]);
        }
    }
    assert_int_equal(w->elements_sent, (w->size - 1) * w->count);
}

static void test_broadcast_reaches_every_rank(void **state)
{
    (void)state;
    for (uint32_t root = 0; root < RANKS_MAX; root++) {
        for_all(PLAN_BROADCAST, root, check_broadcast);
    }
}

/* One rank does not begin. Nobody may be at the end of its plan. */
static void test_no_rank_leaves_a_barrier_that_another_has_not_reached(void **state)
{
    (void)state;
    for (enum plan_kind kind = PLAN_ALL_REDUCE; kind <= PLAN_BARRIER; kind++) {
        for (enum plan_algorithm algorithm = PLAN_RING; algorithm < PLAN_ALGORITHMS; algorithm++) {
            bool waits_for_all = kind == PLAN_ALL_REDUCE || kind == PLAN_BARRIER;
            for (uint32_t size = 2; waits_for_all && plan_exists(kind, algorithm) && size <= RANKS_MAX; size++) {
                for (uint32_t late = 0; late < size; late++) {
                    struct plan_options options = {
                        .kind = kind, .algorithm = algorithm, .size = size, .piece_count = 8};
                    struct world *w = world_new(&options, 1);
                    for (bool moved = true; moved;) {
                        moved = false;
                        for (uint32_t rank = 0; rank < size; rank++) {
                            moved = (rank != late && (send_one(w, rank) || receive_one(w, rank))) || moved;
                        }
                    }
                    for (uint32_t rank = 0; rank < size; rank++) {
                        struct plan_transfer t;
                        assert_true(plan_send(&w->plans[rank], &w->sent[rank], &t) ||
                                    plan_receive(&w->plans[rank], &w->received[rank], &t));
                    }
                    run(w, late); /* frees what is on its way */
                    free(w);
                }
            }
        }
    }
}

static void test_slices_cover_the_array_evenly(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= RANKS_MAX; size++) {
        for (uint64_t count = 0; count < 50; count++) {
            assert_int_equal(plan_slice_start(count, size, 0), 0);
            assert_int_equal(plan_slice_start(count, size, size), count);
            for (uint32_t i = 0; i < size; i++) {
                uint64_t part = plan_slice_start(count, size, i + 1) - plan_slice_start(count, size, i);
                assert_true(part == count / size || part == count / size + 1);
            }
        }
    }
    assert_true(plan_slice_start(UINT64_MAX, 64, 64) == UINT64_MAX);
}

/* Every rank of a ring sends the same 2 (n - 1) / n; and the largest plan fits its array. */
static void test_every_rank_of_a_ring_sends_its_fair_part(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= PLAN_RANKS_MAX; size++) {
        struct plan plan;
        plan_init(&plan, &(struct plan_options){.kind = PLAN_ALL_REDUCE,
                                                .algorithm = PLAN_RING,
                                                .rank = size / 2,
                                                .size = size,
                                                .count = size * 100,
                                                .piece_count = 64});
        struct plan_cursor sent = plan_begin(&plan, true);
        struct plan_transfer t;
        uint64_t elements = 0;
        while (plan_send(&plan, &sent, &t)) {
            elements += t.count;
            plan_send_advance(&plan, &sent);
        }
        assert_int_equal(elements, 2 * (size - 1) * 100);
    }
}

static void test_small_arrays_take_few_steps_and_large_ones_few_bytes(void **state)
{
    (void)state;
    assert_int_equal(plan_choose(PLAN_ALL_REDUCE, 4, 64), PLAN_DOUBLING);
    assert_int_equal(plan_choose(PLAN_ALL_REDUCE, 16, 4096), PLAN_DOUBLING);
    assert_int_equal(plan_choose(PLAN_ALL_REDUCE, 16, 64 << 10), PLAN_HALVING);
    assert_int_equal(plan_choose(PLAN_ALL_REDUCE, 4, 64 << 10), PLAN_RING);
    assert_int_equal(plan_choose(PLAN_ALL_REDUCE, 16, 64 << 20), PLAN_RING);
    assert_int_equal(plan_choose(PLAN_BROADCAST, 8, 100), PLAN_TREE);
    assert_int_equal(plan_choose(PLAN_BROADCAST, 8, 64 << 20), PLAN_CHAIN);
    assert_int_equal(plan_choose(PLAN_REDUCE_SCATTER, 6, 64 << 20), PLAN_RING);
    assert_int_equal(plan_choose(PLAN_BARRIER, 6, 0), PLAN_DOUBLING);
    for (enum plan_kind kind = PLAN_ALL_REDUCE; kind <= PLAN_BARRIER; kind++) {
        for (uint32_t size = 1; size <= PLAN_RANKS_MAX; size++) {
            for (uint64_t bytes = 0; bytes < (1ull << 62); bytes = bytes * 4 + 1) {
                enum plan_algorithm chosen = plan_choose(kind, size, bytes);
                assert_true(plan_exists(kind, chosen));
                for (enum plan_algorithm other = PLAN_RING; other < PLAN_ALGORITHMS; other++) {
                    assert_true(!plan_exists(kind, other) ||
                                plan_cost_ns(kind, chosen, size, bytes) <= plan_cost_ns(kind, other, size, bytes));
                }
            }
        }
    }
}

/* Beyond PLAN_ALL_LINKED_MAX ranks a rank has links to its neighbours and to one rank per bit, and no plan uses others. */
static void test_large_groups_need_few_links(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= PLAN_RANKS_MAX; size++) {
        for (uint32_t a = 0; a < size; a++) {
            unsigned links = 0;
            for (uint32_t b = 0; b < size; b++) {
                assert_int_equal(plan_linked(size, a, b), plan_linked(size, b, a));
                links += plan_linked(size, a, b);
            }
            assert_true(links <= 10);
            assert_true(links >= 1);
        }
    }
}

static void test_a_plan_can_be_printed(void **state)
{
    (void)state;
    struct plan plan;
    plan_init(&plan, &(struct plan_options){.kind = PLAN_ALL_REDUCE,
                                            .algorithm = PLAN_RING,
                                            .rank = 1,
                                            .size = 3,
                                            .count = 30,
                                            .piece_count = 16});
    char all[512] = "", line[128];
    for (uint32_t step = 0; step < plan.step_count; step++) {
        plan_line(&plan, step, line, sizeof line);
        strcat(all, line);
        strcat(all, "\n");
    }
    assert_string_equal(all, "step 0 rank 1 sends [0, 10) to 2, which adds it\n"
                             "step 1 rank 1 sends [20, 30) to 2, which adds it\n"
                             "step 2 rank 1 sends [10, 20) to 2, which copies it\n"
                             "step 3 rank 1 sends [0, 10) to 2, which copies it\n");
}

static void test_names_go_both_ways(void **state)
{
    (void)state;
    for (enum plan_kind kind = PLAN_ALL_REDUCE; kind <= PLAN_BARRIER; kind++) {
        assert_int_equal(plan_kind_named(plan_kind_name(kind)), kind);
    }
    for (enum plan_algorithm algorithm = PLAN_RING; algorithm < PLAN_ALGORITHMS; algorithm++) {
        assert_int_equal(plan_algorithm_named(plan_algorithm_name(algorithm)), algorithm);
    }
    for (enum element_type type = ELEMENT_F32; type <= ELEMENT_BYTES; type++) {
        assert_int_equal(element_type_named(element_type_name(type)), type);
    }
    assert_int_equal(plan_kind_named("?"), 0);
    assert_int_equal(plan_algorithm_named("rin"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce_adds_each_rank_once_to_the_same_bits),
        cmocka_unit_test(test_reduce_scatter_leaves_each_rank_its_slice),
        cmocka_unit_test(test_all_gather_gives_every_rank_every_slice),
        cmocka_unit_test(test_broadcast_reaches_every_rank),
        cmocka_unit_test(test_no_rank_leaves_a_barrier_that_another_has_not_reached),
        cmocka_unit_test(test_slices_cover_the_array_evenly),
        cmocka_unit_test(test_every_rank_of_a_ring_sends_its_fair_part),
        cmocka_unit_test(test_small_arrays_take_few_steps_and_large_ones_few_bytes),
        cmocka_unit_test(test_large_groups_need_few_links),
        cmocka_unit_test(test_a_plan_can_be_printed),
        cmocka_unit_test(test_names_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
