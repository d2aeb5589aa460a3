/* The fold over what members say of each other: whom they vouch for, whom they evict, and who is drained. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/format.h"
#include "node/core/ground/state.h"
#include "tests/unit/view_fixture.h"

/* ---- vouchers ---- */

static bool is_admitted(const struct mesh *mesh, uint32_t number)
{
    const struct view_member *member = view_find_member(&mesh->core->view, mesh->people[number].id);
    return member != NULL && member->admitted;
}

static void vouchers_form_chains_that_end_at_the_founder(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 2, 3); /* the links come last one first */
    admit(mesh, 1, 2);
    assert_false(is_admitted(mesh, 2) || is_admitted(mesh, 3));
    admit(mesh, 0, 1);
    assert_false(is_admitted(mesh, 1) || is_admitted(mesh, 2) || is_admitted(mesh, 3));
    admit(mesh, 0, 0);
    assert_true(is_admitted(mesh, 0) && is_admitted(mesh, 1) && is_admitted(mesh, 2) && is_admitted(mesh, 3));
    assert_true(node_id_equal(view_find_member(&mesh->core->view, mesh->people[3].id)->voucher, mesh->people[2].id));
    assert_string_equal(view_find_member(&mesh->core->view, mesh->people[3].id)->name, "d");
}

static void nobody_admits_themselves(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 4, 4);
    admit(mesh, 3, 4); /* nor by somebody who is not believed */
    assert_false(is_admitted(mesh, 4));
    struct fact_member forged = make_member(&mesh->people[4]);
    memcpy(forged.nonce, make_member(&mesh->people[0]).nonce, sizeof forged.nonce);
    say(mesh, 4, FACT_MEMBER, fact_key_node_id(mesh->people[4].id), &forged);
    assert_false(is_admitted(mesh, 4));
    admit(mesh, 0, 3);
    assert_true(is_admitted(mesh, 4));
}

/* ---- evictions ---- */

/* `standing`: a bit for each of the people. */
static struct made eviction(const struct mesh *mesh, uint32_t writer, uint32_t about, uint32_t standing)
{
    struct fact_eviction fact = make_eviction(mesh->people, PEOPLE, standing);
    struct made made;
    make_record(&made, mesh->people[writer].id, 1, 100 + about, FACT_EVICTION,
                fact_key_node_id(mesh->people[about].id), &fact);
    return made;
}

static struct made voucher(const struct mesh *mesh, uint32_t writer, uint32_t about)
{
    struct fact_member fact = make_member(&mesh->people[about]);
    struct made made;
    make_record(&made, mesh->people[writer].id, 1, 1 + about, FACT_MEMBER, fact_key_node_id(mesh->people[about].id),
                &fact);
    return made;
}

static uint32_t admitted_set(const struct mesh *mesh)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        set |= is_admitted(mesh, i) ? 1u << i : 0;
    }
    return set;
}

static uint32_t evicted_set(const struct mesh *mesh)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        const struct view_member *member = view_find_member(&mesh->core->view, mesh->people[i].id);
        set |= member != NULL && member->evicted ? 1u << i : 0;
    }
    return set;
}

/* Loads the records in every order there is. The founder's own is taken for granted. */
static void assert_in_all_orders(const struct made *records, uint32_t count, uint32_t admitted, uint32_t evicted)
{
    uint32_t orders = 1;
    for (uint32_t i = 2; i <= count; i++) {
        orders *= i;
    }
    struct mesh mesh;
    mesh_open(&mesh);
    struct made root = voucher(&mesh, 0, 0);
    for (uint32_t order = 0; order < orders; order++) {
        struct node_options options = mesh.core->options;
        mesh.core = node_core_init(&options);
        assert_non_null(mesh.core);
        uint32_t left[8], rest = order;
        for (uint32_t i = 0; i < count; i++) {
            left[i] = i;
        }
        for (uint32_t i = count; i > 0; i--) {
            uint32_t take = rest % i;
            rest /= i;
            load(&mesh, &records[left[take]]);
            left[take] = left[i - 1];
            if (i == (order % count) + 1) {
                load(&mesh, &root);
            }
        }
        assert_int_equal(evicted_set(&mesh), evicted);
        assert_int_equal(admitted_set(&mesh), admitted);
    }
    mesh_close(&mesh);
}

#define A 1u
#define B 2u
#define C 4u
#define D 8u
#define E 16u

static void an_evicted_key_is_out_and_its_word_with_it(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 2, 3), eviction(mesh, 0, 1, 0)};
    assert_in_all_orders(records, 4, A, B); /* d hung on c, which hung on b */
}

static void whom_the_eviction_lists_stays_and_so_does_what_hangs_on_it(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 2, 3), voucher(mesh, 1, 4),
                             eviction(mesh, 0, 1, C)};
    assert_in_all_orders(records, 5, A | C | D, B); /* e was vouched for by b, too, and is not listed */
}

static void who_is_vouched_for_twice_hangs_on_neither(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 0, 2), eviction(mesh, 0, 1, 0)};
    assert_in_all_orders(records, 4, A | C, B);
}

static void both_of_two_who_evict_each_other_are_out(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 0, 2), voucher(mesh, 0, 3), eviction(mesh, 1, 2, 0),
                             eviction(mesh, 2, 1, 0)};
    assert_in_all_orders(records, 5, A | D, B | C);
}

static void the_founder_can_be_evicted_and_its_chain_holds_for_those_listed(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 0, 2), voucher(mesh, 1, 3), voucher(mesh, 0, 4),
                             eviction(mesh, 1, 0, B | C)};
    assert_in_all_orders(records, 5, B | C | D, A);
}

static void a_second_eviction_never_brings_anybody_back(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 0, 3), eviction(mesh, 0, 1, 0),
                             eviction(mesh, 3, 1, C)};
    assert_in_all_orders(records, 5, A | D, B);
    records[3] = eviction(mesh, 0, 1, C);
    assert_in_all_orders(records, 5, A | C | D, B);
}

/* a evicted b with c standing. Later c is evicted with d standing: d's chain goes through both. */
static void chains_go_through_those_who_were_evicted(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 2, 3), eviction(mesh, 0, 1, C),
                             eviction(mesh, 3, 2, D)};
    assert_in_all_orders(records, 5, A | D, B | C);
}

static void nobody_evicts_who_was_never_believed(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), eviction(mesh, 4, 1, 0), eviction(mesh, 4, 0, 0),
                             voucher(mesh, 4, 3), voucher(mesh, 0, 2)};
    assert_in_all_orders(records, 5, A | B | C, 0);
}

/* What an evicted node says for others after its eviction is in no list. */
static void vouchers_of_the_evicted_are_void_whenever_they_come(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 0, 1);
    admit(mesh, 1, 2);
    struct made out = eviction(mesh, 0, 1, C);
    load(mesh, &out);
    admit(mesh, 1, 3);
    assert_int_equal(admitted_set(mesh), A | C);
    assert_true(view_member_is_out(view_find_member(&mesh->core->view, mesh->people[3].id)));
    admit(mesh, 2, 3); /* unless somebody else vouches for them */
    assert_int_equal(admitted_set(mesh), A | C | D);
}

static void an_eviction_that_is_not_understood_lists_nobody(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 0, 1);
    admit(mesh, 1, 2);
    struct record record = {.kind = FACT_EVICTION, .writer = mesh->people[0].id, .version = {1, 900},
                            .key = mesh->people[1].id.bytes, .key_bytes = NODE_ID_BYTES,
                            .body = (const uint8_t *)"\xc1", .body_bytes = 1};
    struct made made;
    made.count = (uint32_t)record_encode(&record, made.bytes, sizeof made.bytes);
    load(mesh, &made);
    assert_int_equal(admitted_set(mesh), A);
    assert_int_equal(evicted_set(mesh), B);
    assert_int_equal(mesh->core->view.malformed_count, 1);
}

/* Whoever makes up evictions takes so much memory and undoes its own at most. */
static void the_evictions_of_one_writer_are_bounded(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 0, 1);
    admit(mesh, 0, 2);
    struct made of_b = eviction(mesh, 0, 1, 0);
    load(mesh, &of_b);
    struct fact_eviction fact = {0};
    for (uint32_t i = 0; i < VIEW_EVICTIONS_MAX + 50; i++) {
        node_id made_up = {{0}};
        bytes_put_u32(made_up.bytes, i);
        say(mesh, 2, FACT_EVICTION, fact_key_node_id(made_up), &fact);
    }
    assert_int_equal(mesh->core->view.evictions.count, VIEW_EVICTIONS_MAX + 1);
    assert_int_equal(mesh->core->view.member_count, 3);
    assert_int_equal(evicted_set(mesh), B);
    struct made first = mesh->people[0].id.bytes[0] == 0 ? of_b : eviction(mesh, 2, 0, 0);
    load(mesh, &first); /* its key is larger than all of those: one of c's too many */
    assert_int_equal(evicted_set(mesh), B);
    assert_int_equal(mesh->core->view.evictions.count, VIEW_EVICTIONS_MAX + 1);
}

/* ---- drains ---- */

static struct fact_drain drain(struct mesh *mesh, uint32_t writer, struct fact_drain fact)
{
    say(mesh, writer, FACT_DRAIN, fact_key_node_id(mesh->people[2].id), &fact);
    return view_member_drain(view_find_member(&mesh->core->view, mesh->people[2].id));
}

static void drain_and_undrain_are_one_register(void **state)
{
    struct mesh *mesh = *state;
    assert_true(drain(mesh, 1, (struct fact_drain){.lamport = 1, .drained = true}).drained);
    assert_false(drain(mesh, 3, (struct fact_drain){.lamport = 2}).drained);
    struct fact_drain now = drain(mesh, 0, (struct fact_drain){.lamport = 2, .drained = true, .at_once = true});
    assert_true(now.drained && now.at_once && !now.is_idle); /* concurrent: the drain wins, whatever the ids */
    now = drain(mesh, 4, (struct fact_drain){.lamport = 2});
    assert_true(now.drained && now.at_once);
    now = drain(mesh, 4, (struct fact_drain){.lamport = 2, .drained = true, .is_idle = true});
    assert_false(now.is_idle); /* it is not for others to say */
    now = drain(mesh, 2, (struct fact_drain){.lamport = 1, .drained = true, .is_idle = true});
    assert_false(now.is_idle); /* it said so of an earlier drain */
    now = drain(mesh, 2, (struct fact_drain){.lamport = 2, .drained = true, .is_idle = true});
    assert_true(now.is_idle && now.drained && now.at_once);
    now = drain(mesh, 3, (struct fact_drain){.lamport = 3});
    assert_false(now.drained || now.at_once || now.is_idle);
    now = drain(mesh, 1, (struct fact_drain){.lamport = 4, .drained = true});
    assert_true(now.drained && !now.at_once && !now.is_idle);
}

/* ---- labels ---- */

/* The founder vouches for the member under this name; the names of nodes that publish nothing come from their vouchers. */
static void admit_as(struct mesh *mesh, uint32_t member, const char *name)
{
    struct fact_member fact = make_member(&mesh->people[member]);
    bytes_copy_text(fact.name, sizeof fact.name, name);
    say(mesh, 0, FACT_MEMBER, fact_key_node_id(mesh->people[member].id), &fact);
}

static void assert_label(const struct mesh *mesh, uint32_t member, const char *name, uint32_t digits)
{
    char expected[VIEW_LABEL_BYTES], hex[2 * NODE_ID_BYTES + 1];
    bytes_to_hex(hex, mesh->people[member].id.bytes, NODE_ID_BYTES);
    hex[digits] = '\0';
    (void)format_text(expected, sizeof expected, "%s%s%s", name, digits > 0 ? "~" : "", hex);
    assert_string_equal(view_label(&mesh->core->view, mesh->people[member].id).text, expected);
}

static void a_label_has_digits_of_the_id_only_while_two_members_have_one_name(void **state)
{
    struct mesh *mesh = *state;
    admit_as(mesh, 0, "alder");
    admit_as(mesh, 1, "elm");
    assert_label(mesh, 1, "elm", 0);
    admit_as(mesh, 2, "elm");
    assert_label(mesh, 0, "alder", 0);
    assert_label(mesh, 1, "elm", 4);
    assert_label(mesh, 2, "elm", 4);
    struct made out = eviction(mesh, 0, 2, 0);
    load(mesh, &out);
    assert_label(mesh, 1, "elm", 0); /* the former member keeps digits, the present one needs none any more */
    assert_label(mesh, 2, "elm", 4);
    assert_string_equal(view_label(&mesh->core->view, mesh->people[4].id).text, "?");
}

static void no_name_is_another_nodes_label(void **state)
{
    struct mesh *mesh = *state;
    char forged[FACT_NAME_BYTES], hex[2 * NODE_ID_BYTES + 1];
    bytes_to_hex(hex, mesh->people[1].id.bytes, NODE_ID_BYTES);
    hex[4] = '\0';
    (void)format_text(forged, sizeof forged, "elm~%s", hex);
    admit_as(mesh, 0, "alder");
    admit_as(mesh, 1, "elm");
    admit_as(mesh, 2, "elm");
    admit_as(mesh, 3, forged);
    assert_label(mesh, 1, "elm", 4);
    assert_label(mesh, 3, forged, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(vouchers_form_chains_that_end_at_the_founder, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_admits_themselves, setup, teardown),
        cmocka_unit_test_setup_teardown(an_evicted_key_is_out_and_its_word_with_it, setup, teardown),
        cmocka_unit_test_setup_teardown(whom_the_eviction_lists_stays_and_so_does_what_hangs_on_it, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_vouched_for_twice_hangs_on_neither, setup, teardown),
        cmocka_unit_test_setup_teardown(both_of_two_who_evict_each_other_are_out, setup, teardown),
        cmocka_unit_test_setup_teardown(the_founder_can_be_evicted_and_its_chain_holds_for_those_listed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_second_eviction_never_brings_anybody_back, setup, teardown),
        cmocka_unit_test_setup_teardown(chains_go_through_those_who_were_evicted, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_evicts_who_was_never_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(vouchers_of_the_evicted_are_void_whenever_they_come, setup, teardown),
        cmocka_unit_test_setup_teardown(an_eviction_that_is_not_understood_lists_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(the_evictions_of_one_writer_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(drain_and_undrain_are_one_register, setup, teardown),
        cmocka_unit_test_setup_teardown(a_label_has_digits_of_the_id_only_while_two_members_have_one_name, setup, teardown),
        cmocka_unit_test_setup_teardown(no_name_is_another_nodes_label, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
