/* The queue in front of the disk: tickets, what waits for them, and what the disk refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/roof/roof.h"
#include "tests/unit/core_ground.h"

/* This node's invite of this number: a record of which each value is another version. Returns the write. */
static struct core_pending *put(struct ground *ground, uint8_t number, uint64_t value)
{
    uint8_t bytes[32], public_key[PUBLIC_KEY_BYTES] = {number};
    struct fact_invite fact = {.expires_s = ground->core.wall_s + value};
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_invite_pack(&writer, &fact);
    return core_put(&ground->core, FACT_INVITE, fact_key_public_key(public_key), &writer);
}

static struct records_entry *entry_of(struct ground *ground, uint8_t number)
{
    uint8_t public_key[PUBLIC_KEY_BYTES] = {number};
    struct fact_key key = fact_key_public_key(public_key);
    return records_find(&ground->core.records, record_ident_of(ground->people[0].id, FACT_INVITE, key.bytes, key.count));
}

static void refuse(struct ground *ground, uint64_t ticket)
{
    ground_persisted(ground, ticket, false);
}

static void store(struct ground *ground, uint64_t ticket)
{
    ground_persisted(ground, ticket, true);
}

/* The next housekeeping in which refused writes are due again. */
static void retry(struct ground *ground)
{
    ground_wait(ground, CORE_RETRY_MS);
    on_disk_housekeep(&ground->core);
}

/* A message to people[1] that is told from others by its slot. */
static void send(struct ground *ground, uint32_t slot)
{
    struct message message = {.kind = MESSAGE_RELEASE};
    message.u.lease.slot = slot;
    core_send_after_disk(&ground->core, ground->people[1].id, &message);
}

/* The slot in the next RELEASE that went out, or -1: none did. */
static int sent(struct ground *ground)
{
    const struct node_effect *effect = ground_next(ground, NODE_EFFECT_SEND);
    while (effect != NULL && effect->u.send.message.kind != MESSAGE_RELEASE) {
        effect = ground_next(ground, NODE_EFFECT_SEND);
    }
    return effect == NULL ? -1 : (int)effect->u.send.message.u.lease.slot;
}

/* The ticket of the next write of a record that went to the shell, or 0. */
static uint64_t written(struct ground *ground)
{
    const struct node_effect *effect = ground_next(ground, NODE_EFFECT_PERSIST_RECORD);
    return effect == NULL ? 0 : effect->u.persist.ticket;
}

/* The version in the next write of a record. */
static struct record_version written_version(struct ground *ground)
{
    const struct node_effect *effect = ground_next(ground, NODE_EFFECT_PERSIST_RECORD);
    struct record record = {0};
    assert_non_null(effect);
    assert_int_equal(record_decode(effect->bytes, effect->byte_count, &record), 0);
    return record.version;
}

/* ---- tickets and what waits for them -------------------------------------------------------------------------------------- */

static void every_write_has_the_next_ticket(void **state)
{
    struct ground *ground = *state;
    assert_int_equal(put(ground, 1, 1)->ticket, 1);
    assert_int_equal(core_fence_put(&ground->core, make_experiment_id(0), (struct election_claim){1, ground->people[1].id}), 0);
    assert_int_equal(put(ground, 2, 1)->ticket, 3);
    assert_int_equal(written(ground), 1);
    assert_int_equal(written(ground), 3);
}

static void a_message_goes_at_once_when_nothing_is_on_its_way_to_the_disk(void **state)
{
    struct ground *ground = *state;
    send(ground, 7);
    assert_int_equal(sent(ground), 7);
}

static void a_message_waits_for_every_write_before_it(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    put(ground, 2, 1);
    send(ground, 7);
    store(ground, 1);
    assert_int_equal(sent(ground), -1);
    store(ground, 2);
    assert_int_equal(sent(ground), 7);
}

static void a_message_does_not_wait_for_a_later_write(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    send(ground, 7);
    put(ground, 2, 1);
    store(ground, 1);
    assert_int_equal(sent(ground), 7);
}

static void messages_keep_their_order(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    send(ground, 7);
    send(ground, 8);
    put(ground, 2, 1);
    send(ground, 9);
    store(ground, 1);
    store(ground, 2);
    assert_int_equal(sent(ground), 7);
    assert_int_equal(sent(ground), 8);
    assert_int_equal(sent(ground), 9);
}

static void a_report_of_a_ticket_that_was_never_given_out_is_ignored(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    send(ground, 7);
    store(ground, 5);
    assert_int_equal(sent(ground), -1);
    assert_int_equal(ground->disk.ticket_done, 0);
}

static void a_ticket_that_is_reported_twice_counts_once(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    put(ground, 2, 1);
    store(ground, 1);
    refuse(ground, 1);
    assert_int_equal(ground->disk.refused_count, 0);
}

static void a_message_waits_for_the_next_step_when_this_one_has_no_room(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    send(ground, 7);
    uint32_t count = ground->effects.count;
    ground->effects.count = NODE_EFFECTS_MAX - 100;
    store(ground, 1);
    assert_true(ground->disk.waiting_left);
    ground->effects.count = count;
    on_disk_tick(&ground->core);
    assert_int_equal(sent(ground), 7);
    assert_false(ground->disk.waiting_left);
}

static void the_welcome_of_a_node_is_found_while_it_waits(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1)->action = CORE_ACTION_NONE;
    struct core_pending *welcome = core_after_disk(&ground->core, CORE_ACTION_WELCOME);
    welcome->node = ground->people[3].id;
    assert_ptr_equal(core_find_welcome(&ground->core, ground->people[3].id), welcome);
    assert_null(core_find_welcome(&ground->core, ground->people[2].id));
}

/* ---- what the disk refuses -------------------------------------------------------------------------------------------------- */

static void a_refused_write_holds_every_message_back(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    send(ground, 7);
    put(ground, 2, 1);
    refuse(ground, 1);
    store(ground, 2);
    send(ground, 8);
    assert_int_equal(sent(ground), -1);
    retry(ground);
    store(ground, 3);
    assert_int_equal(sent(ground), 7);
    assert_int_equal(sent(ground), 8);
}

static void a_refused_write_is_tried_again_after_a_second_under_a_new_ticket(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    assert_int_equal(written(ground), 1);
    refuse(ground, 1);
    ground_wait(ground, CORE_RETRY_MS - 1);
    on_disk_housekeep(&ground->core);
    assert_int_equal(written(ground), 0);
    ground_wait(ground, 1);
    on_disk_housekeep(&ground->core);
    assert_int_equal(written(ground), 2);
    assert_int_equal(ground->disk.refused_count, 1);
    store(ground, 2);
    assert_int_equal(ground->disk.refused_count, 0);
    assert_true(entry_of(ground, 1)->on_disk);
}

static void a_write_that_is_refused_again_stays_refused(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    for (uint64_t ticket = 1; ticket <= 4; ticket++) {
        refuse(ground, ticket);
        assert_int_equal(ground->disk.refused_count, 1);
        retry(ground);
    }
    store(ground, 5);
    assert_int_equal(ground->disk.refused_count, 0);
}

static void a_refused_record_is_tried_again_in_its_newest_version(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    refuse(ground, 1);
    put(ground, 1, 2);
    struct record_version newest = entry_of(ground, 1)->record.version;
    ground->effects_seen = ground->effects.count;
    retry(ground);
    assert_int_equal(record_version_compare(written_version(ground), newest), 0);
}

static void a_refused_version_is_not_tried_again_once_a_newer_one_is_on_disk(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    put(ground, 1, 2);
    refuse(ground, 1);
    store(ground, 2);
    ground->effects_seen = ground->effects.count;
    retry(ground);
    assert_int_equal(written(ground), 0);
    assert_int_equal(ground->disk.refused_count, 0);
}

static void a_refused_record_that_was_forgotten_is_not_tried_again(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    refuse(ground, 1);
    assert_int_equal(records_forget(&ground->core.records, entry_of(ground, 1)->ident), 0);
    ground->effects_seen = ground->effects.count;
    retry(ground);
    assert_int_equal(written(ground), 0);
    assert_int_equal(ground->disk.refused_count, 0);
}

static void one_write_is_kept_of_a_record_that_is_refused_often(void **state)
{
    struct ground *ground = *state;
    for (uint64_t value = 1; value <= 5; value++) {
        refuse(ground, put(ground, 1, value)->ticket);
    }
    assert_int_equal(ground->disk.refused_count, 1);
    assert_non_null(ground->disk.refused);
    assert_null(ground->disk.refused->next);
    assert_int_equal(record_version_compare(ground->disk.refused->version, entry_of(ground, 1)->record.version), 0);
}

static void refused_writes_of_two_records_are_both_kept(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    put(ground, 2, 1);
    refuse(ground, 1);
    refuse(ground, 2);
    assert_int_equal(ground->disk.refused_count, 2);
}

static void the_newer_of_two_refused_versions_is_kept_whichever_is_refused_first(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    refuse(ground, 1);
    put(ground, 1, 2);
    retry(ground); /* the first write carries the second version now, too: tickets 2 and 3 */
    refuse(ground, 2);
    refuse(ground, 3);
    assert_int_equal(ground->disk.refused_count, 1);
    assert_int_equal(record_version_compare(ground->disk.refused->version, entry_of(ground, 1)->record.version), 0);
}

static void of_two_writes_of_one_version_the_one_with_an_action_is_kept(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    refuse(ground, 1);
    put(ground, 1, 2)->action = CORE_ACTION_ASSIGNED;
    retry(ground);
    refuse(ground, 2);
    refuse(ground, 3);
    assert_int_equal(ground->disk.refused->action, CORE_ACTION_ASSIGNED);
}

static void the_action_of_an_older_version_is_dropped(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1)->action = CORE_ACTION_ASSIGNED;
    refuse(ground, 1);
    put(ground, 1, 2);
    retry(ground);
    for (const struct core_pending *pending = ground->disk.pending_first; pending != NULL; pending = pending->next) {
        assert_int_equal(pending->action, CORE_ACTION_NONE);
    }
}

static void a_claim_is_awaited_while_its_write_is_out_or_refused(void **state)
{
    struct ground *ground = *state;
    experiment_id experiment = make_experiment_id(0);
    struct core_pending *claim = put(ground, 1, 1);
    claim->action = CORE_ACTION_LED;
    claim->attempt.experiment = experiment;
    assert_true(core_claim_is_awaited(&ground->core, experiment));
    refuse(ground, 1);
    assert_true(core_claim_is_awaited(&ground->core, experiment));
    assert_false(core_claim_is_awaited(&ground->core, make_experiment_id(1)));
}

static void the_same_answer_waits_once_while_the_disk_refuses(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    refuse(ground, 1);
    for (uint32_t i = 0; i < 5; i++) {
        send(ground, 7);
    }
    send(ground, 8);
    retry(ground);
    store(ground, 2);
    assert_int_equal(sent(ground), 7);
    assert_int_equal(sent(ground), 8);
    assert_int_equal(sent(ground), -1);
}

/* ---- no memory ----------------------------------------------------------------------------------------------------------------- */

static void a_record_is_written_again_that_went_to_the_disk_without_memory_to_wait(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    store(ground, 1);
    ground_fill_memory(ground);
    ground->effects_seen = ground->effects.count;
    assert_null(put(ground, 1, 2)); /* no longer than the version before, so the table has room */
    assert_int_equal(written(ground), 2);
    ground_free_memory(ground);
    store(ground, 2);
    assert_false(entry_of(ground, 1)->on_disk); /* nobody was waiting for the ticket */
    for (uint32_t i = 0; i <= RECORDS_BUCKETS / CORE_SWEEP_BUCKETS; i++) {
        on_disk_housekeep(&ground->core);
    }
    assert_int_equal(written(ground), 3);
    store(ground, 3);
    assert_true(entry_of(ground, 1)->on_disk);
}

/* ---- what is published ---------------------------------------------------------------------------------------------------------- */

static void an_own_record_goes_to_every_living_peer_once_it_is_on_disk(void **state)
{
    struct ground *ground = *state;
    core_find_peer(&ground->core, ground->people[2].id)->state = SWIM_DEAD;
    put(ground, 1, 1);
    on_disk_flush(&ground->core);
    assert_null(ground_next(ground, NODE_EFFECT_SEND));
    store(ground, 1);
    assert_true(entry_of(ground, 1)->published);
    on_disk_flush(&ground->core);
    uint32_t count = 0;
    for (const struct node_effect *effect; (effect = ground_next(ground, NODE_EFFECT_SEND)) != NULL; count++) {
        assert_int_equal(effect->u.send.message.kind, MESSAGE_RECORDS);
        assert_false(node_id_equal(effect->u.send.to, ground->people[2].id));
        assert_int_equal(effect->u.send.message.byte_count, entry_of(ground, 1)->envelope_bytes);
    }
    assert_int_equal(count, GROUND_PEOPLE - 2);
    assert_int_equal(ground->disk.outbox_bytes, 0);
}

static void records_of_one_step_go_out_in_one_message(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    put(ground, 2, 1);
    store(ground, 1);
    store(ground, 2);
    on_disk_flush(&ground->core);
    const struct node_effect *effect = ground_next(ground, NODE_EFFECT_SEND);
    uint32_t bytes = entry_of(ground, 1)->envelope_bytes + entry_of(ground, 2)->envelope_bytes;
    assert_int_equal(effect->u.send.message.byte_count, bytes);
}

static void a_full_outbox_is_sent_before_the_next_record_is_put_in(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    ground->disk.outbox_bytes = CORE_OUTBOX_BYTES - 10;
    store(ground, 1);
    assert_int_equal(ground->disk.outbox_bytes, entry_of(ground, 1)->envelope_bytes);
    assert_int_equal(ground_next(ground, NODE_EFFECT_SEND)->u.send.message.byte_count, CORE_OUTBOX_BYTES - 10);
}

static void a_version_that_was_replaced_before_it_was_on_disk_is_not_published(void **state)
{
    struct ground *ground = *state;
    put(ground, 1, 1);
    put(ground, 1, 2);
    store(ground, 1);
    assert_false(entry_of(ground, 1)->published);
    assert_int_equal(ground->disk.outbox_bytes, 0);
    store(ground, 2);
    assert_true(entry_of(ground, 1)->published);
}

/* ---- fences ------------------------------------------------------------------------------------------------------------------- */

static struct election_claim claim_of(const struct ground *ground, uint64_t term, uint32_t node)
{
    return (struct election_claim){term, ground->people[node].id};
}

static void a_fence_goes_to_the_disk_with_its_claim(void **state)
{
    struct ground *ground = *state;
    experiment_id experiment = make_experiment_id(3);
    assert_int_equal(core_fence_put(&ground->core, experiment, claim_of(ground, 4, 2)), 0);
    const struct node_effect *effect = ground_next(ground, NODE_EFFECT_PERSIST_FENCE);
    assert_int_equal(effect->u.persist.ticket, 1);
    assert_int_equal(election_claim_compare(core_fence_get(&ground->core, experiment), claim_of(ground, 4, 2)), 0);
}

static void a_fence_is_the_same_after_a_restart(void **state)
{
    struct ground *ground = *state;
    experiment_id experiment = make_experiment_id(3);
    (void)core_fence_put(&ground->core, experiment, claim_of(ground, 4, 2));
    const struct node_effect *effect = ground_next(ground, NODE_EFFECT_PERSIST_FENCE);
    core_fence_forget(&ground->core, experiment);
    assert_int_equal(core_fence_get(&ground->core, experiment).term, 0);
    core_fence_load(&ground->core, effect->bytes, effect->byte_count);
    assert_int_equal(election_claim_compare(core_fence_get(&ground->core, experiment), claim_of(ground, 4, 2)), 0);
}

static void bytes_that_are_no_fence_are_counted_and_ignored(void **state)
{
    struct ground *ground = *state;
    core_fence_load(&ground->core, (const uint8_t *)"\x93junk", 5);
    assert_int_equal(ground->core.counters.malformed, 1);
    assert_null(ground->disk.fences);
}

static void a_fence_without_memory_is_refused(void **state)
{
    struct ground *ground = *state;
    ground_fill_memory(ground);
    assert_int_equal(core_fence_put(&ground->core, make_experiment_id(3), claim_of(ground, 4, 2)), ERR_FULL);
    assert_int_equal(core_fence_get(&ground->core, make_experiment_id(3)).term, 0);
    assert_int_equal(ground->disk.ticket, 0);
}

static void a_refused_fence_is_tried_again_with_its_present_claim(void **state)
{
    struct ground *ground = *state;
    experiment_id experiment = make_experiment_id(3);
    (void)core_fence_put(&ground->core, experiment, claim_of(ground, 4, 2));
    (void)core_fence_put(&ground->core, experiment, claim_of(ground, 5, 1));
    const struct node_effect *first = ground_next(ground, NODE_EFFECT_PERSIST_FENCE);
    const struct node_effect *second = ground_next(ground, NODE_EFFECT_PERSIST_FENCE);
    refuse(ground, 1);
    refuse(ground, 2);
    assert_int_equal(ground->disk.refused_count, 1);
    retry(ground);
    const struct node_effect *again = ground_next(ground, NODE_EFFECT_PERSIST_FENCE);
    assert_int_equal(again->u.persist.ticket, 3);
    assert_int_equal(again->byte_count, second->byte_count);
    assert_memory_equal(again->bytes, second->bytes, second->byte_count);
    assert_memory_not_equal(again->bytes, first->bytes, first->byte_count);
    assert_null(ground_next(ground, NODE_EFFECT_PERSIST_FENCE));
}

static void a_refused_fence_that_was_forgotten_is_not_tried_again(void **state)
{
    struct ground *ground = *state;
    (void)core_fence_put(&ground->core, make_experiment_id(3), claim_of(ground, 4, 2));
    refuse(ground, 1);
    core_fence_forget(&ground->core, make_experiment_id(3));
    ground->effects_seen = ground->effects.count;
    retry(ground);
    assert_null(ground_next(ground, NODE_EFFECT_PERSIST_FENCE));
    assert_int_equal(ground->disk.refused_count, 0);
}

static void fences_stand_in_the_order_of_their_experiments(void **state)
{
    struct ground *ground = *state;
    const uint32_t numbers[] = {4, 1, 3, 0, 2};
    for (uint32_t i = 0; i < 5; i++) {
        (void)core_fence_put(&ground->core, make_experiment_id(numbers[i]), claim_of(ground, 1, 1));
    }
    uint32_t count = 0;
    for (const struct core_fence *fence = ground->disk.fences; fence != NULL; fence = fence->next) {
        assert_true(experiment_id_equal(fence->experiment, make_experiment_id(count++)));
    }
    assert_int_equal(count, 5);
}

/* ---- is the queue sound -------------------------------------------------------------------------------------------------------- */

static void a_wrong_count_a_wrong_order_and_a_wrong_state_are_seen(void **state)
{
    struct ground *ground = *state;
    struct core_pending *first = put(ground, 1, 1);
    put(ground, 2, 1);
    assert_true(core_disk_is_sound(&ground->disk));
    ground->disk.refused_count = 1;
    assert_false(core_disk_is_sound(&ground->disk));
    ground->disk.refused_count = 0;
    first->ticket = 2;
    assert_false(core_disk_is_sound(&ground->disk));
    first->ticket = 1;
    first->state = CORE_PENDING_WAITING;
    assert_false(core_disk_is_sound(&ground->disk));
    first->state = CORE_PENDING_WRITING;
    assert_true(core_disk_is_sound(&ground->disk));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ground_setup, ground_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_write_has_the_next_ticket),
        TEST(a_message_goes_at_once_when_nothing_is_on_its_way_to_the_disk),
        TEST(a_message_waits_for_every_write_before_it),
        TEST(a_message_does_not_wait_for_a_later_write),
        TEST(messages_keep_their_order),
        TEST(a_report_of_a_ticket_that_was_never_given_out_is_ignored),
        TEST(a_ticket_that_is_reported_twice_counts_once),
        TEST(a_message_waits_for_the_next_step_when_this_one_has_no_room),
        TEST(the_welcome_of_a_node_is_found_while_it_waits),
        TEST(a_refused_write_holds_every_message_back),
        TEST(a_refused_write_is_tried_again_after_a_second_under_a_new_ticket),
        TEST(a_write_that_is_refused_again_stays_refused),
        TEST(a_refused_record_is_tried_again_in_its_newest_version),
        TEST(a_refused_version_is_not_tried_again_once_a_newer_one_is_on_disk),
        TEST(a_refused_record_that_was_forgotten_is_not_tried_again),
        TEST(one_write_is_kept_of_a_record_that_is_refused_often),
        TEST(refused_writes_of_two_records_are_both_kept),
        TEST(the_newer_of_two_refused_versions_is_kept_whichever_is_refused_first),
        TEST(of_two_writes_of_one_version_the_one_with_an_action_is_kept),
        TEST(the_action_of_an_older_version_is_dropped),
        TEST(a_claim_is_awaited_while_its_write_is_out_or_refused),
        TEST(the_same_answer_waits_once_while_the_disk_refuses),
        TEST(a_record_is_written_again_that_went_to_the_disk_without_memory_to_wait),
        TEST(an_own_record_goes_to_every_living_peer_once_it_is_on_disk),
        TEST(records_of_one_step_go_out_in_one_message),
        TEST(a_full_outbox_is_sent_before_the_next_record_is_put_in),
        TEST(a_version_that_was_replaced_before_it_was_on_disk_is_not_published),
        TEST(a_fence_goes_to_the_disk_with_its_claim),
        TEST(a_fence_is_the_same_after_a_restart),
        TEST(bytes_that_are_no_fence_are_counted_and_ignored),
        TEST(a_fence_without_memory_is_refused),
        TEST(a_refused_fence_is_tried_again_with_its_present_claim),
        TEST(a_refused_fence_that_was_forgotten_is_not_tried_again),
        TEST(fences_stand_in_the_order_of_their_experiments),
        TEST(a_wrong_count_a_wrong_order_and_a_wrong_state_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
