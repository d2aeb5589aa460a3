/* Whom a node of a large mesh asks for code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rendezvous.h"
#include "node/core/members/members.h"
#include "node/daemon/peers/peers.h"
#include "tests/unit/facts_make.h"

#define MEMBERS 150
#define BYTES (16u << 20)

/* This node is person 0, and all others live. The caller frees its core, which begins where its memory does, and itself. */
static struct daemon *daemon_of_many(void)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    struct person self = make_person(0);
    struct node_effects effects = {.items = calloc(NODE_EFFECTS_MAX, sizeof *effects.items),
                                   .bytes = malloc(NODE_EFFECT_BYTES_MAX)};
    struct node_options options = {.self = self.id, .mesh = make_mesh(), .boot = (uint64_t)1 << 32, .seed = 1, .now_ms = 1000,
                                   .node = make_node(&self, 1), .memory = aligned_alloc(16, BYTES), .memory_bytes = BYTES};
    memcpy(options.public_key, self.public_key, sizeof options.public_key);
    daemon->core = node_core_init(&options);
    daemon->keys.id = self.id;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct person person = make_person(i);
        struct fact_member member = make_member(&person);
        struct made made;
        make_record(&made, self.id, 1, i + 1, FACT_MEMBER, fact_key_node_id(person.id), &member);
        struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made.bytes, .byte_count = made.count};
        node_core_step(daemon->core, &event, &effects);
    }
    struct node_event start = {.kind = NODE_EVENT_START, .now_ms = 1000};
    node_core_step(daemon->core, &start, &effects);
    assert_int_equal(daemon->core->members->peer_count, MEMBERS - 1);
    for (uint32_t i = 0; i < daemon->core->members->peer_count; i++) {
        daemon->core->members->peers[i]->state = SWIM_ALIVE;
    }
    free(effects.items);
    free(effects.bytes);
    return daemon;
}

static void daemon_free(struct daemon *daemon)
{
    free(daemon->core);
    free(daemon);
}

static bool has(const node_id *list, uint32_t count, node_id node)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found |= node_id_equal(list[i], node);
    }
    return found;
}

/* repair_code in node/core/copies/code.c keeps copies on the first ones in rendezvous order of the experiment. */
static void those_who_keep_copies_of_the_code_are_asked_first(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_of_many();
    for (uint32_t number = 0; number < 50; number++) {
        experiment_id id = make_experiment_id(number);
        node_id all[MEMBERS], likely[DAEMON_HOLDERS_MAX];
        for (uint32_t i = 0; i < MEMBERS; i++) {
            all[i] = make_person(i).id;
        }
        rendezvous_sort(all, MEMBERS, id.bytes, sizeof id.bytes);
        uint32_t count = daemon_holders_code(daemon, id, 0, likely);
        assert_int_equal(count, DAEMON_HOLDERS_MAX);
        for (uint32_t i = 0; i < CORE_CODE_COPIES; i++) {
            assert_true(node_id_equal(all[i], daemon->keys.id) || has(likely, count, all[i]));
        }
    }
    daemon_free(daemon);
}

static void round_by_round_all_others_are_asked(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_of_many();
    bool asked[MEMBERS] = {false};
    for (uint32_t round = 0; round <= MEMBERS / (DAEMON_HOLDERS_MAX - 1); round++) {
        node_id likely[DAEMON_HOLDERS_MAX];
        uint32_t count = daemon_holders_code(daemon, make_experiment_id(1), round, likely);
        assert_false(has(likely, count, daemon->keys.id));
        for (uint32_t i = 0; i < MEMBERS; i++) {
            asked[i] |= has(likely, count, make_person(i).id);
        }
    }
    for (uint32_t i = 1; i < MEMBERS; i++) {
        assert_true(asked[i]);
    }
    assert_true(daemon_holders_any(daemon, (MEMBERS - 2) / (DAEMON_HOLDERS_MAX - 1)));
    assert_false(daemon_holders_any(daemon, (MEMBERS - 2) / (DAEMON_HOLDERS_MAX - 1) + 1));
    daemon_free(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_keep_copies_of_the_code_are_asked_first),
        cmocka_unit_test(round_by_round_all_others_are_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
