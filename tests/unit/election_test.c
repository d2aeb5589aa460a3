/* Election: every transition alone, then small meshes under random deaths, partitions and late messages. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "base/rendezvous.h"
#include "gossip/election.h"

#define NODES 5

static const experiment_id experiment = {{0xe1}};

static node_id node(uint8_t number)
{
    return (node_id){{number}};
}

/* The roster 1..NODES, sorted by id, all alive for long; `by_rank` in the order of succession. */
struct fixture {
    struct election election;
    struct election_member members[NODES];
    node_id by_rank[NODES];
};

static int setup(void **state)
{
    static struct fixture f;
    election_init(&f.election);
    for (uint8_t i = 0; i < NODES; i++) {
        f.members[i] = (struct election_member){.node = node((uint8_t)(i + 1)), .alive = true};
        f.by_rank[i] = f.members[i].node;
    }
    rendezvous_sort(f.by_rank, NODES, experiment.bytes, sizeof experiment.bytes);
    *state = &f;
    return 0;
}

static struct election_member *member(struct fixture *f, node_id id)
{
    return &f->members[id.bytes[0] - 1];
}

static enum election_action step(struct fixture *f, uint64_t now_ms, node_id self)
{
    return election_step(&f->election, now_ms, self, experiment, f->members, NODES);
}

static enum election_action observe(struct fixture *f, uint64_t term, node_id who, bool released, node_id self)
{
    enum election_action action = ELECTION_ASK;
    assert_int_equal(election_observe(&f->election, (struct election_claim){term, who}, released, self, &action), 0);
    return action;
}

/* Self leads with term 1. */
static void lead(struct fixture *f, node_id self)
{
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 1);
    election_led(&f->election, (struct election_claim){1, self});
    assert_int_equal(f->election.state, ELECTION_LEADING);
}

static void test_claims_are_ordered_by_term_then_node(void **state)
{
    (void)state;
    struct election_claim ascending[] = {{0, node(9)}, {1, node(1)}, {1, node(2)}, {2, node(1)}};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            int order = election_claim_compare(ascending[i], ascending[j]);
            assert_int_equal(order < 0, i < j);
            assert_int_equal(order > 0, i > j);
        }
    }
}

static void test_the_first_of_the_order_claims_a_new_experiment_unasked(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[0];
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 1);
    /* Until the claim is on disk nothing is decided and nothing waited for. */
    assert_int_equal(step(f, 1001, self), ELECTION_NOTHING);
    assert_int_equal(step(f, 100000, self), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), UINT64_MAX);
    assert_int_not_equal(f->election.state, ELECTION_LEADING);
    election_led(&f->election, (struct election_claim){1, self});
    assert_int_equal(f->election.state, ELECTION_LEADING);
    assert_int_equal(election_next_term(&f->election), 2);
    assert_int_equal(step(f, 100001, self), ELECTION_NOTHING);
    assert_int_equal(f->election.state, ELECTION_LEADING);
    assert_int_equal(election_next_ms(&f->election), UINT64_MAX);
}

static void test_the_others_wait_their_turn(void **state)
{
    struct fixture *f = *state;
    for (uint32_t rank = 1; rank < NODES; rank++) {
        (void)setup(state);
        node_id self = f->by_rank[rank];
        uint64_t turn_ms = 1000 + rank * ELECTION_TURN_MS;
        assert_int_equal(step(f, 1000, self), ELECTION_NOTHING);
        assert_int_equal(f->election.state, ELECTION_FOLLOWING);
        assert_int_equal(election_next_ms(&f->election), turn_ms);
        assert_int_equal(step(f, turn_ms - 1, self), ELECTION_NOTHING);
        assert_int_equal(step(f, turn_ms, self), ELECTION_CLAIM);
    }
}

static void test_a_living_incumbent_stays(void **state)
{
    struct fixture *f = *state;
    node_id incumbent = f->by_rank[3], self = f->by_rank[0]; /* the first of the order does not take it away */
    assert_int_equal(observe(f, 4, incumbent, false, self), ELECTION_NOTHING);
    assert_int_equal(step(f, 1000, self), ELECTION_NOTHING);
    assert_int_equal(step(f, 900000, self), ELECTION_NOTHING);
    assert_int_equal(f->election.state, ELECTION_FOLLOWING);
    assert_int_equal(election_next_ms(&f->election), UINT64_MAX);
}

static void test_successor_asks_then_claims(void **state)
{
    struct fixture *f = *state;
    node_id incumbent = f->by_rank[0], self = f->by_rank[1];
    (void)observe(f, 4, incumbent, false, self);
    member(f, incumbent)->alive = false;
    assert_int_equal(step(f, 1000, self), ELECTION_ASK);
    assert_int_equal(f->election.state, ELECTION_ASKING);
    assert_int_equal(election_next_ms(&f->election), 1000 + ELECTION_ASK_MS);
    election_answer(&f->election, 1100, false);
    assert_int_equal(step(f, 1000 + ELECTION_ASK_MS - 1, self), ELECTION_NOTHING); /* asked once */
    assert_int_equal(step(f, 1000 + ELECTION_ASK_MS, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 5);
    assert_int_equal(step(f, 5000, self), ELECTION_NOTHING);
    election_led(&f->election, (struct election_claim){5, self});
    assert_int_equal(f->election.state, ELECTION_LEADING);
}

static void test_heard_by_another_waits_and_asks_again(void **state)
{
    struct fixture *f = *state;
    node_id incumbent = f->by_rank[0], self = f->by_rank[1];
    (void)observe(f, 4, incumbent, false, self);
    member(f, incumbent)->alive = false;
    assert_int_equal(step(f, 1000, self), ELECTION_ASK);
    election_answer(&f->election, 1200, true);
    assert_int_equal(f->election.state, ELECTION_WAITING);
    assert_int_equal(election_next_ms(&f->election), 1200 + ELECTION_RETRY_MS);
    assert_int_equal(step(f, 1000 + ELECTION_ASK_MS, self), ELECTION_NOTHING);
    election_answer(&f->election, 1900, true); /* late: ignored */
    assert_int_equal(election_next_ms(&f->election), 1200 + ELECTION_RETRY_MS);
    assert_int_equal(step(f, 1200 + ELECTION_RETRY_MS, self), ELECTION_ASK);
    assert_int_equal(step(f, 1200 + ELECTION_RETRY_MS + ELECTION_ASK_MS, self), ELECTION_CLAIM);
}

static void test_the_incumbent_turns_out_to_live(void **state)
{
    struct fixture *f = *state;
    node_id incumbent = f->by_rank[0], self = f->by_rank[1];
    (void)observe(f, 4, incumbent, false, self);
    for (int waiting = 0; waiting < 2; waiting++) {
        member(f, incumbent)->alive = false;
        assert_int_equal(step(f, 1000, self), ELECTION_ASK);
        if (waiting == 1) {
            election_answer(&f->election, 1100, true);
        }
        member(f, incumbent)->alive = true;
        assert_int_equal(step(f, 1200, self), ELECTION_NOTHING);
        assert_int_equal(f->election.state, ELECTION_FOLLOWING);
        assert_int_equal(election_next_ms(&f->election), UINT64_MAX);
        election_answer(&f->election, 1300, true);
        assert_int_equal(f->election.state, ELECTION_FOLLOWING);
    }
}

static void test_an_incumbent_off_the_roster_counts_as_gone(void **state)
{
    struct fixture *f = *state;
    (void)observe(f, 4, node(99), false, f->by_rank[0]);
    assert_int_equal(step(f, 1000, f->by_rank[0]), ELECTION_ASK);
}

static void test_alone_asks_nobody(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[4];
    (void)observe(f, 4, f->by_rank[0], false, self);
    for (int i = 0; i < NODES; i++) {
        f->members[i].alive = node_id_equal(f->members[i].node, self);
    }
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 5);
}

static void test_a_released_experiment_is_claimed_unasked(void **state)
{
    struct fixture *f = *state;
    node_id incumbent = f->by_rank[2], self = f->by_rank[0];
    (void)observe(f, 4, incumbent, false, self);
    assert_int_equal(step(f, 1000, self), ELECTION_NOTHING);
    (void)observe(f, 4, incumbent, true, self);
    assert_int_equal(step(f, 1001, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 5);

    /* Never taken back by an older copy of the record. */
    (void)setup(state);
    (void)observe(f, 4, incumbent, true, self);
    (void)observe(f, 4, incumbent, false, self);
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
}

static void test_who_released_is_the_last_choice(void **state)
{
    struct fixture *f = *state;
    node_id leaver = f->by_rank[0], next = f->by_rank[1];
    lead(f, leaver);
    assert_int_equal(observe(f, 1, leaver, true, leaver), ELECTION_NOTHING);
    assert_int_equal(f->election.state, ELECTION_FOLLOWING);
    assert_int_equal(step(f, 2000, leaver), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), 2000 + (NODES - 1) * ELECTION_TURN_MS);

    (void)setup(state);
    (void)observe(f, 1, leaver, true, next);
    assert_int_equal(step(f, 2000, next), ELECTION_CLAIM);
}

/* A claim that only it has seen counts as released: it does not wait for turns that do not come. */
static void test_whom_the_others_take_for_the_incumbent_does_not_wait(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[NODES - 1], ghost = f->by_rank[0];
    (void)observe(f, 2, ghost, true, self);
    election_expect(&f->election, self);
    assert_int_equal(step(f, 3000, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 3);

    (void)setup(state); /* though it is drained: nobody else would claim, and so hand over */
    (void)observe(f, 2, ghost, true, self);
    election_expect(&f->election, self);
    member(f, self)->drained = true;
    assert_int_equal(step(f, 3000, self), ELECTION_CLAIM);

    (void)setup(state); /* whoever else doubts it gives way for a turn */
    (void)observe(f, 2, ghost, true, f->by_rank[1]);
    election_expect(&f->election, self);
    assert_int_equal(step(f, 3000, f->by_rank[1]), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), 3000 + ELECTION_TURN_MS);

    (void)setup(state); /* a node that has died is missed as ever */
    (void)observe(f, 2, ghost, false, self);
    election_expect(&f->election, self);
    member(f, ghost)->alive = false;
    assert_int_equal(step(f, 3000, self), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), 3000 + (NODES - 2) * ELECTION_TURN_MS);
}

static void test_drained_nodes_are_the_last_choice(void **state)
{
    struct fixture *f = *state;
    node_id first = f->by_rank[0], second = f->by_rank[1];
    member(f, first)->drained = true;
    assert_int_equal(step(f, 1000, first), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), 1000 + (NODES - 1) * ELECTION_TURN_MS);
    (void)setup(state);
    member(f, first)->drained = true;
    assert_int_equal(step(f, 1000, second), ELECTION_CLAIM);

    /* Where all are drained somebody coordinates all the same: what runs there is to be brought to its end. */
    (void)setup(state);
    for (uint32_t i = 0; i < NODES; i++) {
        f->members[i].drained = true;
    }
    assert_int_equal(step(f, 1000, first), ELECTION_CLAIM);
}

static void test_a_restarted_coordinator_takes_a_new_term_at_once(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[3];
    (void)observe(f, 7, self, false, self); /* from our own disk */
    assert_int_equal(f->election.state, ELECTION_FOLLOWING);
    member(f, self)->up_since_ms = 999;
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 8);
    assert_int_equal(step(f, 1001, self), ELECTION_NOTHING);
    election_led(&f->election, (struct election_claim){8, self});
    assert_int_equal(f->election.state, ELECTION_LEADING);
}

static void test_a_higher_claim_makes_the_leader_yield(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[0], other = f->by_rank[1];
    lead(f, self);
    assert_int_equal(observe(f, 1, self, false, self), ELECTION_NOTHING); /* our own claim comes back */
    assert_int_equal(f->election.state, ELECTION_LEADING);
    assert_int_equal(observe(f, 2, other, false, self), ELECTION_YIELD);
    assert_int_equal(f->election.state, ELECTION_FOLLOWING);
    assert_int_equal(observe(f, 2, other, false, self), ELECTION_NOTHING); /* once */
    assert_int_equal(observe(f, 1, other, false, self), ELECTION_NOTHING); /* lower: no matter */
    assert_int_equal(step(f, 2000, self), ELECTION_NOTHING);
    assert_int_equal(f->election.state, ELECTION_FOLLOWING);
}

static void test_an_equal_term_is_decided_by_node(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[0];
    if (self.bytes[0] > 1) {
        lead(f, self);
        assert_int_equal(observe(f, 1, node((uint8_t)(self.bytes[0] - 1)), false, self), ELECTION_NOTHING);
        assert_int_equal(f->election.state, ELECTION_LEADING);
    }
    (void)setup(state);
    lead(f, self);
    assert_int_equal(observe(f, 1, node(200), false, self), ELECTION_YIELD);
}

static void test_claims_that_are_refused(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[0], other = f->by_rank[1];
    lead(f, self);
    struct election start = f->election;
    enum election_action action = ELECTION_ASK;
    struct election_claim bad[] = {{LAMPORT_JUMP_MAX + 2, other}, {UINT64_MAX, other}, {0, other}, {2, node(0)}};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(election_observe(&f->election, bad[i], false, self, &action), ERR_REFUSED);
        assert_int_equal(action, ELECTION_ASK);
        assert_memory_equal(&f->election, &start, sizeof start);
    }
    assert_int_equal(observe(f, LAMPORT_JUMP_MAX + 1, other, false, self), ELECTION_YIELD);
}

static void test_claims_that_cross_on_the_way_to_disk(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[0];

    /* A higher one ends ours, also when our write completes later. */
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
    assert_int_equal(observe(f, 1, node(200), false, self), ELECTION_NOTHING);
    election_led(&f->election, (struct election_claim){1, self});
    assert_int_equal(f->election.state, ELECTION_FOLLOWING);
    assert_int_equal(f->election.highest.node.bytes[0], 200);

    /* A lower one does not: it will yield to ours. */
    (void)setup(state);
    (void)observe(f, 1, node(99), true, self);
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
    assert_int_equal(observe(f, 2, (node_id){{0, 1}}, false, self), ELECTION_NOTHING);
    assert_int_equal(election_next_term(&f->election), 2);
    assert_int_equal(step(f, 1001, self), ELECTION_NOTHING);
    assert_int_equal(observe(f, 2, self, false, self), ELECTION_NOTHING); /* our record before the news of its write */
    assert_int_equal(step(f, 1002, self), ELECTION_NOTHING);
    election_led(&f->election, (struct election_claim){2, self});
    assert_int_equal(f->election.state, ELECTION_LEADING);

    /* The news of an old write does not end a newer claim, nor lead. */
    (void)setup(state);
    assert_int_equal(step(f, 1000, self), ELECTION_CLAIM);
    (void)observe(f, 5, f->by_rank[1], true, self);
    assert_int_equal(step(f, 1001, self), ELECTION_CLAIM);
    assert_int_equal(election_next_term(&f->election), 6);
    election_led(&f->election, (struct election_claim){1, self});
    assert_int_equal(f->election.state, ELECTION_FOLLOWING);
    assert_int_equal(step(f, 1002, self), ELECTION_NOTHING);
    election_led(&f->election, (struct election_claim){6, self});
    assert_int_equal(f->election.state, ELECTION_LEADING);
}

static void test_nodes_that_are_up_for_long_come_first(void **state)
{
    struct fixture *f = *state;
    node_id fresh = f->by_rank[0], settled = f->by_rank[1];
    member(f, fresh)->up_since_ms = 10000;
    assert_int_equal(step(f, 10001, settled), ELECTION_CLAIM);
    (void)setup(state);
    member(f, fresh)->up_since_ms = 10000;
    assert_int_equal(step(f, 10001, fresh), ELECTION_NOTHING);
    assert_int_equal(f->election.until_ms, 10001 + (NODES - 1) * ELECTION_TURN_MS);
    /* Settled by now, it is first. */
    assert_int_equal(step(f, 10000 + ELECTION_UP_MS, fresh), ELECTION_CLAIM);
    /* Where all are new, the plain order counts. */
    (void)setup(state);
    for (int i = 0; i < NODES; i++) {
        f->members[i].up_since_ms = 10000;
    }
    assert_int_equal(step(f, 10001, fresh), ELECTION_CLAIM);
}

static void test_a_new_vacancy_begins_the_turns_anew(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[2];
    (void)observe(f, 1, f->by_rank[0], false, self);
    member(f, f->by_rank[0])->alive = false;
    assert_int_equal(step(f, 1000, self), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), 1000 + ELECTION_TURN_MS);
    (void)observe(f, 2, f->by_rank[1], false, self);
    assert_int_equal(step(f, 4000, self), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), UINT64_MAX);
    member(f, f->by_rank[1])->alive = false;
    assert_int_equal(step(f, 5000, self), ELECTION_ASK);
}

static void test_who_is_not_on_the_roster_never_claims(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(step(f, 1000, node(77)), ELECTION_NOTHING);
    assert_int_equal(step(f, 1000000, node(77)), ELECTION_NOTHING);
    assert_int_equal(election_next_ms(&f->election), UINT64_MAX);
}

static void test_shift_moves_what_is_waited_for(void **state)
{
    struct fixture *f = *state;
    node_id self = f->by_rank[1];
    assert_int_equal(step(f, 1000, self), ELECTION_NOTHING);
    election_shift(&f->election, 60000);
    assert_int_equal(election_next_ms(&f->election), 61000 + ELECTION_TURN_MS);
    assert_int_equal(step(f, 61001, self), ELECTION_NOTHING);
    assert_int_equal(step(f, 61000 + ELECTION_TURN_MS, self), ELECTION_CLAIM);
}

/* A small mesh. Membership is an oracle that tells each node after a delay; claims and questions travel with a delay
 * and are lost between the sides of a partition; claims are repeated every second, as the exchange of records does. */

struct peer {
    struct election election;
    bool up, stuck; /* stuck: it lives, but its disk never finishes a write */
    uint64_t up_since_ms, write_done_ms;
    struct election_claim writing, own; /* own: the highest of ours on disk; survives a restart */
    bool sees[NODES];                   /* whom it holds alive */
};

struct world {
    struct random random;
    struct peer peers[NODES];
    int side[NODES];
    uint64_t now_ms;
};

static void world_tell(struct world *w, int to, struct election_claim told, int from)
{
    struct peer *p = &w->peers[to];
    if (!p->up || w->side[from] != w->side[to] || told.term == 0) {
        return;
    }
    enum election_action action;
    assert_int_equal(election_observe(&p->election, told, false, node((uint8_t)(to + 1)), &action), 0);
    assert_true(action == ELECTION_NOTHING || action == ELECTION_YIELD);
    assert_true(action == ELECTION_NOTHING || p->election.state == ELECTION_FOLLOWING);
}

static void world_peer_step(struct world *w, int i)
{
    struct peer *p = &w->peers[i];
    node_id self = node((uint8_t)(i + 1));
    if (p->write_done_ms != 0 && w->now_ms >= p->write_done_ms && !p->stuck) {
        p->write_done_ms = 0;
        p->own = p->writing;
        election_led(&p->election, p->own);
    }
    struct election_member members[NODES];
    for (int j = 0; j < NODES; j++) {
        members[j] = (struct election_member){
            .node = node((uint8_t)(j + 1)), .alive = j == i || p->sees[j], .up_since_ms = w->peers[j].up_since_ms};
    }
    enum election_action action = election_step(&p->election, w->now_ms, self, experiment, members, NODES);
    assert_true(election_next_ms(&p->election) > w->now_ms);
    if (action == ELECTION_CLAIM) {
        struct election_claim before = p->writing; /* perhaps on its way still, if a higher one overtook it */
        p->writing = (struct election_claim){election_next_term(&p->election), self};
        assert_true(election_claim_compare(p->writing, before) > 0); /* never a term twice in one life */
        assert_true(election_claim_compare(p->writing, p->own) > 0); /* nor one that is on disk */
        p->write_done_ms = w->now_ms + 1 + random_below(&w->random, 200);
    }
    if (action == ELECTION_ASK) {
        int asked = p->election.highest.node.bytes[0] - 1;
        for (int j = 0; j < NODES; j++) {
            if (j != i && w->peers[j].up && w->side[j] == w->side[i] && p->sees[j]) {
                election_answer(&p->election, w->now_ms, j == asked || w->peers[j].sees[asked]);
            }
        }
    }
}

static void world_step(struct world *w)
{
    w->now_ms += 100;
    for (int i = 0; i < NODES; i++) {
        if (!w->peers[i].up) {
            continue;
        }
        for (int j = 0; j < NODES; j++) {
            bool reachable = w->peers[j].up && w->side[i] == w->side[j];
            if (w->peers[i].sees[j] != reachable && random_below(&w->random, 30) == 0) {
                w->peers[i].sees[j] = reachable; /* noticed after some 3 s */
            }
        }
        world_peer_step(w, i);
        if (random_below(&w->random, 10) == 0) {
            world_tell(w, (int)random_below(&w->random, NODES), w->peers[i].own, i);
            world_tell(w, (int)random_below(&w->random, NODES), w->peers[i].election.highest, i);
        }
    }
}

static void world_start(struct world *w, int i)
{
    struct peer *p = &w->peers[i];
    election_init(&p->election);
    p->up = true;
    p->write_done_ms = 0;
    p->writing = (struct election_claim){.term = 0};
    p->up_since_ms = w->now_ms;
    enum election_action action;
    if (p->own.term > 0) {
        assert_int_equal(election_observe(&p->election, p->own, false, node((uint8_t)(i + 1)), &action), 0);
    }
}

static void world_fault(struct world *w)
{
    int i = (int)random_below(&w->random, NODES);
    switch (random_below(&w->random, 4)) {
    case 0:
        w->peers[i].up = false;
        break;
    case 1:
        if (!w->peers[i].up) {
            world_start(w, i);
        }
        break;
    case 2:
        w->side[i] = (int)random_below(&w->random, 2);
        break;
    default:
        w->side[i] = 0;
        break;
    }
}

static int world_leaders(const struct world *w, int *leader)
{
    int count = 0;
    for (int i = 0; i < NODES; i++) {
        if (w->peers[i].up && w->peers[i].election.state == ELECTION_LEADING) {
            count++;
            *leader = i;
        }
    }
    return count;
}

static void test_a_healed_mesh_has_exactly_one_coordinator(void **state)
{
    (void)state;
    unsigned changes = 0, rivals = 0, stuck_count = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world w = {.now_ms = 1000};
        random_init(&w.random, seed);
        for (int i = 0; i < NODES; i++) {
            world_start(&w, i);
        }
        int leader = -1;
        for (int i = 0; i < 600; i++) {
            if (random_below(&w.random, 40) == 0) {
                world_fault(&w);
            }
            world_step(&w);
            rivals += world_leaders(&w, &leader) > 1;
        }
        memset(w.side, 0, sizeof w.side);
        if (!w.peers[0].up) {
            world_start(&w, 0);
        }
        /* One living candidate may be stuck for ever, unless somebody holds it for the incumbent. */
        int stuck = 1 + (int)random_below(&w.random, NODES - 1);
        w.peers[stuck].stuck = true;
        for (int i = 0; i < NODES; i++) {
            w.peers[stuck].stuck &= w.peers[i].election.highest.node.bytes[0] != stuck + 1;
        }
        /* The incumbent dies, so that there is something to decide. */
        if (world_leaders(&w, &leader) > 0 && leader != 0) {
            w.peers[leader].up = false;
        }
        stuck_count += w.peers[stuck].stuck && w.peers[stuck].up;
        for (int i = 0; i < 600; i++) { /* all turns of one vacancy, detection and two writes: 60 s */
            world_step(&w);
        }
        assert_int_equal(world_leaders(&w, &leader), 1);
        for (int i = 0; i < NODES; i++) {
            if (w.peers[i].up) {
                assert_int_equal(w.peers[i].election.highest.node.bytes[0], leader + 1);
            }
        }
        /* It stays as long as nothing happens. */
        uint64_t term = w.peers[leader].election.highest.term;
        for (int i = 0; i < 200; i++) {
            world_step(&w);
            int now_leader = -1;
            assert_int_equal(world_leaders(&w, &now_leader), 1);
            assert_int_equal(now_leader, leader);
            assert_int_equal(w.peers[leader].election.highest.term, term);
        }
        changes += term > 1;
    }
    /* The storms did make new coordinators, and two at once on the sides of a partition. */
    assert_true(changes > 100);
    assert_true(rivals > 100);
    assert_true(stuck_count > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_claims_are_ordered_by_term_then_node, setup),
        cmocka_unit_test_setup(test_the_first_of_the_order_claims_a_new_experiment_unasked, setup),
        cmocka_unit_test_setup(test_the_others_wait_their_turn, setup),
        cmocka_unit_test_setup(test_a_living_incumbent_stays, setup),
        cmocka_unit_test_setup(test_successor_asks_then_claims, setup),
        cmocka_unit_test_setup(test_heard_by_another_waits_and_asks_again, setup),
        cmocka_unit_test_setup(test_the_incumbent_turns_out_to_live, setup),
        cmocka_unit_test_setup(test_an_incumbent_off_the_roster_counts_as_gone, setup),
        cmocka_unit_test_setup(test_alone_asks_nobody, setup),
        cmocka_unit_test_setup(test_a_released_experiment_is_claimed_unasked, setup),
        cmocka_unit_test_setup(test_who_released_is_the_last_choice, setup),
        cmocka_unit_test_setup(test_whom_the_others_take_for_the_incumbent_does_not_wait, setup),
        cmocka_unit_test_setup(test_drained_nodes_are_the_last_choice, setup),
        cmocka_unit_test_setup(test_a_restarted_coordinator_takes_a_new_term_at_once, setup),
        cmocka_unit_test_setup(test_a_higher_claim_makes_the_leader_yield, setup),
        cmocka_unit_test_setup(test_an_equal_term_is_decided_by_node, setup),
        cmocka_unit_test_setup(test_claims_that_are_refused, setup),
        cmocka_unit_test_setup(test_claims_that_cross_on_the_way_to_disk, setup),
        cmocka_unit_test_setup(test_nodes_that_are_up_for_long_come_first, setup),
        cmocka_unit_test_setup(test_a_new_vacancy_begins_the_turns_anew, setup),
        cmocka_unit_test_setup(test_who_is_not_on_the_roster_never_claims, setup),
        cmocka_unit_test_setup(test_shift_moves_what_is_waited_for, setup),
        cmocka_unit_test(test_a_healed_mesh_has_exactly_one_coordinator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
