/* Stories of the tokens that open the HTTP doors: made at one node, good at all, and ended by anybody for ever. */
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

static const uint8_t hash[HASH_BYTES] = {7, 7, 7}, other_hash[HASH_BYTES] = {7, 7, 8};

static void ask(struct world *world, uint32_t node, enum node_request_kind kind, uint64_t lives_s, bool read_only)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.client = 5;
    memcpy(event.u.request.public_key, hash, sizeof hash);
    event.u.request.expires_s = lives_s != 0 ? node_core_mesh_wall_s(world->nodes[node].core) + lives_s : 0;
    event.u.request.read_only = read_only;
    bytes_copy_text(event.u.request.label, sizeof event.u.request.label, "prometheus");
    world->reply.code = -1;
    world_step(world, node, &event);
    world_run(world, 2000);
    assert_int_equal(world->reply.code, 0);
}

static bool opens(const struct world *world, uint32_t node)
{
    struct fact_token fact = {.created_s = 1};
    bool is_found = node_core_find_door_token(world->nodes[node].core, hash, &fact);
    assert_true(is_found ? strcmp(fact.name, "prometheus") == 0 && !fact.revoked
                         : fact.created_s == 1 && fact.name[0] == '\0');
    return is_found;
}

static void a_token_of_one_node_opens_the_doors_of_all(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct fact_token fact;
    world_start_all(world);
    assert_false(opens(world, 0));
    ask(world, 0, NODE_REQUEST_TOKEN, 3600, true);
    assert_int_equal(world->reply.stored_on, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(opens(world, i));
        assert_true(node_core_find_door_token(world->nodes[i].core, hash, &fact));
        assert_true(fact.read_only && fact.created_s != 0 && fact.expires_s > fact.created_s);
        assert_false(node_core_find_door_token(world->nodes[i].core, other_hash, &fact));
    }
    world_crash(world, 2);
    world_restart(world, 2, true); /* as its disk has it */
    world_run(world, 5000);
    assert_true(opens(world, 2));
    world_free(world);
}

static void whoever_revokes_a_token_ends_it_everywhere_for_ever(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    ask(world, 0, NODE_REQUEST_TOKEN, 3600, false);
    ask(world, 2, NODE_REQUEST_TOKEN_REVOKE, 0, false);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(opens(world, i));
    }
    ask(world, 1, NODE_REQUEST_TOKEN, 3600, false); /* the same again by another, as a liar might */
    ask(world, 0, NODE_REQUEST_TOKEN, 3600, false);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(opens(world, i));
    }
    world_free(world);
}

static void who_made_a_token_revokes_it_with_its_name(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    ask(world, 0, NODE_REQUEST_TOKEN, 3600, true);
    ask(world, 0, NODE_REQUEST_TOKEN_REVOKE, 0, false);
    assert_false(opens(world, 0));
    assert_false(opens(world, 1));
    struct fact_key key = fact_key_public_key(hash);
    const struct records_entry *entry =
        records_find(node_core_records(world->nodes[1].core),
                     record_ident_of(world->nodes[0].person.id, FACT_TOKEN, key.bytes, key.count));
    struct fact_token fact;
    assert_non_null(entry);
    assert_int_equal(fact_token_read(&entry->record, &fact), 0);
    assert_true(fact.revoked && fact.read_only && fact.expires_s != 0);
    assert_string_equal(fact.name, "prometheus");
    world_free(world);
}

static void a_token_ends_with_its_time(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    ask(world, 0, NODE_REQUEST_TOKEN, 20, false);
    assert_true(opens(world, 0) && opens(world, 1));
    world_run(world, 25000);
    assert_false(opens(world, 0) || opens(world, 1));
    world_free(world);
}

static void the_token_of_an_evicted_node_opens_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    ask(world, 2, NODE_REQUEST_TOKEN, 3600, false);
    assert_true(opens(world, 0));
    world->reply.code = -1;
    world_evict(world, 0, 2, false);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_false(opens(world, 0) || opens(world, 1));
    world_free(world);
}

static void a_revocation_on_the_other_side_of_a_partition_arrives_with_it(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    ask(world, 0, NODE_REQUEST_TOKEN, 3600, false);
    cut(world, 2);
    world_run(world, 20000);
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_TOKEN_REVOKE;
    event.u.request.client = 5;
    memcpy(event.u.request.public_key, hash, sizeof hash);
    world_step(world, 2, &event);
    world_run(world, 10000);
    assert_true(opens(world, 0) && opens(world, 1));
    assert_false(opens(world, 2));
    heal(world);
    world_run(world, 30000);
    assert_false(opens(world, 0) || opens(world, 1) || opens(world, 2));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_of_one_node_opens_the_doors_of_all),
        cmocka_unit_test(whoever_revokes_a_token_ends_it_everywhere_for_ever),
        cmocka_unit_test(who_made_a_token_revokes_it_with_its_name),
        cmocka_unit_test(a_token_ends_with_its_time),
        cmocka_unit_test(the_token_of_an_evicted_node_opens_nothing),
        cmocka_unit_test(a_revocation_on_the_other_side_of_a_partition_arrives_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
