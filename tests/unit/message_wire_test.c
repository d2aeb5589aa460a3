#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/lease.h"
#include "gossip/message.h"

static void fill(struct random *random, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ((uint8_t *)out)[i] = (uint8_t)random_u64(random);
    }
}

static node_id random_node(struct random *random)
{
    node_id node = {{0}};
    if (random_below(random, 4) != 0) {
        fill(random, node.bytes, sizeof node.bytes);
        node.bytes[0] |= 1;
    }
    return node;
}

/* Numbers of all widths. */
static uint64_t random_number(struct random *random)
{
    return random_u64(random) >> random_below(random, 64);
}

static void random_swim(struct random *random, struct message *message)
{
    struct swim_message *swim = &message->u.swim;
    fill(random, &message->hash, sizeof message->hash);
    if (random_below(random, 2) == 0) {
        strcpy(message->address, "[fe80::1234:5678]:65535");
    }
    swim->kind = (enum swim_kind)(SWIM_PING + random_below(random, 4));
    swim->target = random_node(random);
    swim->sequence = (uint32_t)random_number(random);
    swim->incarnation = random_number(random) >> 2;
    swim->rumour_count = (uint8_t)random_below(random, SWIM_RUMOURS_MAX + 1);
    for (uint8_t i = 0; i < swim->rumour_count; i++) {
        swim->rumours[i].node = random_node(random);
        swim->rumours[i].node.bytes[15] |= 1;
        swim->rumours[i].incarnation = random_number(random) >> 2;
        swim->rumours[i].state = (enum swim_state)(SWIM_ALIVE + random_below(random, 4));
        swim->rumours[i].from = random_node(random);
    }
}

static void random_lease(struct random *random, struct message *message)
{
    bool has_asking = message->kind == MESSAGE_RESERVE || message->kind == MESSAGE_RESERVE_ANSWER;
    fill(random, message->u.lease.attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    message->u.lease.attempt.trial = (uint32_t)random_number(random);
    message->u.lease.attempt.number = (uint32_t)random_number(random);
    message->u.lease.attempt.term = random_number(random);
    message->u.lease.attempt.coordinator = random_node(random);
    message->u.lease.slot = (uint32_t)random_below(random, LEASE_SLOTS_MAX);
    uint16_t number = (uint16_t)random_below(random, 65536);
    message->u.lease.rank = has_asking ? 0 : number;
    message->u.lease.asking = has_asking ? number : 0;
    message->u.lease.priority = (uint32_t)random_number(random);
    message->u.lease.age = random_number(random);
    message->u.lease.code = -(int32_t)random_below(random, 17);
    message->u.lease.claim.term = random_number(random);
    message->u.lease.claim.node = random_node(random);
    if (random_below(random, 2) == 0) {
        fill(random, message->u.lease.group_key, MESSAGE_KEY_BYTES);
    }
}

static void random_message(struct random *random, enum message_kind kind, const uint8_t *bytes, struct message *message)
{
    memset(message, 0, sizeof *message);
    message->kind = kind;
    message->boot = random_number(random);
    if (kind == MESSAGE_SWIM) {
        random_swim(random, message);
    } else if (kind <= MESSAGE_RECORDS) {
        message->bytes = bytes;
        message->byte_count = (uint32_t)random_below(random, random_below(random, 2) ? 100 : 60 * 1024);
        message->want_stored = kind == MESSAGE_RECORDS && random_below(random, 2) == 0;
    } else if (kind == MESSAGE_STORED) {
        fill(random, message->u.stored.ident.bytes, 16);
        message->u.stored.version.boot = random_number(random);
        message->u.stored.version.seq = random_number(random);
    } else if (kind <= MESSAGE_INCUMBENT_ANSWER) {
        message->u.incumbent.about = random_node(random);
        message->u.incumbent.hears = random_below(random, 2) == 0;
    } else if (kind == MESSAGE_TWIN) {
        message->u.twin.life = random_number(random);
        message->u.twin.is_yielding = random_below(random, 2) == 0;
        bytes_copy_text(message->u.twin.address, sizeof message->u.twin.address, "127.0.0.1:7410");
    } else {
        random_lease(random, message);
        if (kind == MESSAGE_GROUP) {
            message->u.lease.age = 0;
            message->u.lease.generation = (uint32_t)random_number(random);
        }
    }
}

static void assert_message_equal(const struct message *a, const struct message *b)
{
    assert_int_equal(a->byte_count, b->byte_count);
    if (a->byte_count > 0) {
        assert_memory_equal(a->bytes, b->bytes, a->byte_count);
    }
    struct message copy = *b;
    copy.bytes = a->bytes;
    assert_memory_equal(a, &copy, sizeof copy);
}

static uint8_t payload[60 * 1024];
static uint8_t wire[MESSAGE_BYTES_MAX];

static void every_kind_comes_back_as_it_was(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 1);
    fill(&random, payload, sizeof payload);
    for (int i = 0; i < 20000; i++) {
        enum message_kind kind = (enum message_kind)(MESSAGE_SWIM + i % (MESSAGE_KINDS - 1));
        struct message message, decoded;
        random_message(&random, kind, payload, &message);
        size_t count = message_encode(&message, wire, sizeof wire);
        assert_true(count > 2);
        assert_int_equal(message_decode(wire, count, &decoded), 0);
        assert_message_equal(&message, &decoded);
    }
}

static void a_cut_or_longer_message_is_malformed(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 2);
    for (int i = 0; i < 600; i++) {
        enum message_kind kind = (enum message_kind)(MESSAGE_SWIM + i % (MESSAGE_KINDS - 1));
        struct message message, decoded;
        random_message(&random, kind, payload, &message);
        message.byte_count %= 300;
        size_t count = message_encode(&message, wire, sizeof wire - 1);
        for (size_t cut = 0; cut < count; cut++) {
            uint8_t *exact = malloc(cut + 1); /* of its own, so that the address sanitizer sees an overrun */
            assert_non_null(exact);
            memcpy(exact, wire, cut);
            exact = realloc(exact, cut > 0 ? cut : 1);
            assert_int_equal(message_decode(exact, cut, &decoded), ERR_MALFORMED);
            free(exact);
        }
        wire[count] = 0;
        assert_int_equal(message_decode(wire, count + 1, &decoded), ERR_MALFORMED);
    }
}

static void a_changed_message_is_refused_or_within_bounds(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 3);
    size_t accepted = 0, refused = 0;
    for (int i = 0; i < 200000; i++) {
        enum message_kind kind = (enum message_kind)(MESSAGE_SWIM + i % (MESSAGE_KINDS - 1));
        struct message message, decoded;
        random_message(&random, kind, payload, &message);
        message.byte_count %= 64;
        size_t count = message_encode(&message, wire, sizeof wire);
        for (uint64_t changes = 1 + random_below(&random, 4); changes > 0; changes--) {
            wire[2 + random_below(&random, count - 2)] = (uint8_t)random_u64(&random);
        }
        int error = message_decode(wire, count, &decoded);
        if (error != 0) {
            assert_int_equal(error, ERR_MALFORMED);
            refused++;
            continue;
        }
        accepted++;
        assert_in_range(decoded.kind, MESSAGE_SWIM, MESSAGE_KINDS - 1);
        if (decoded.kind == MESSAGE_SWIM) {
            assert_in_range(decoded.u.swim.kind, SWIM_PING, SWIM_NACK);
            assert_in_range(decoded.u.swim.rumour_count, 0, SWIM_RUMOURS_MAX);
            assert_true(decoded.u.swim.incarnation < SWIM_INCARNATION_MAX);
            assert_non_null(memchr(decoded.address, '\0', sizeof decoded.address));
            for (unsigned r = 0; r < decoded.u.swim.rumour_count; r++) {
                assert_in_range(decoded.u.swim.rumours[r].state, SWIM_ALIVE, SWIM_LEFT);
                assert_false(node_id_is_none(decoded.u.swim.rumours[r].node));
            }
        } else if (decoded.kind == MESSAGE_TWIN) {
            assert_non_null(memchr(decoded.u.twin.address, '\0', sizeof decoded.u.twin.address));
        } else if (decoded.kind >= MESSAGE_RESERVE) {
            assert_in_range(decoded.u.lease.slot, 0, LEASE_SLOTS_MAX - 1);
            assert_in_range(decoded.u.lease.rank, 0, 65535);
            assert_true(decoded.u.lease.code <= 0);
        } else if (decoded.byte_count > 0) {
            assert_true(decoded.bytes >= wire && decoded.bytes + decoded.byte_count <= wire + count);
        }
    }
    assert_true(accepted > 1000 && refused > 1000);
}

static void single_fields_out_of_range_are_malformed(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 4);
    struct message message, decoded;
    for (int field = 0; field < 8; field++) {
        random_message(&random, field < 4 ? MESSAGE_SWIM : MESSAGE_CONFIRM, payload, &message);
        if (field < 4) {
            message.u.swim.rumour_count = 1;
            message.u.swim.rumours[0] = (struct swim_rumour){.node = {{1}}, .incarnation = 1, .state = SWIM_DEAD};
        }
        size_t count = message_encode(&message, wire, sizeof wire);
        assert_int_equal(message_decode(wire, count, &decoded), 0);
        switch (field) {
        case 0:
            message.u.swim.kind = (enum swim_kind)5;
            break;
        case 1:
            message.u.swim.rumours[0].state = SWIM_UNKNOWN;
            break;
        case 2:
            message.u.swim.incarnation = SWIM_INCARNATION_MAX;
            break;
        case 3:
            strcpy(message.address, "10.0.0.1:1\nlevel=error");
            break;
        case 4:
            message.u.lease.slot = LEASE_SLOTS_MAX;
            break;
        case 5:
            message.u.lease.rank = 65536;
            break;
        case 6:
            message.u.lease.code = 1;
            break;
        default:
            message.u.lease.code = -256;
            break;
        }
        count = message_encode(&message, wire, sizeof wire);
        assert_int_equal(message_decode(wire, count, &decoded), ERR_MALFORMED);
    }
}

static void other_versions_and_kinds_are_told_apart(void **state)
{
    (void)state;
    struct message message = {.kind = MESSAGE_INCUMBENT_ASK, .u.incumbent = {.about = {{1}}}}, decoded;
    size_t count = message_encode(&message, wire, sizeof wire);
    wire[0] = VERSION_NEWEST + 1;
    assert_int_equal(message_decode(wire, count, &decoded), ERR_VERSION);
    wire[0] = VERSION_NEWEST;
    wire[1] = MESSAGE_KINDS;
    assert_int_equal(message_decode(wire, count, &decoded), ERR_VERSION);
    wire[1] = 0;
    assert_int_equal(message_decode(wire, count, &decoded), ERR_VERSION);
}

static void two_programs_use_the_highest_version_that_both_speak(void **state)
{
    (void)state;
    static const struct {
        struct version_range one, other;
        uint32_t common;
    } rows[] = {{{1, 1}, {1, 1}, 1}, {{1, 1}, {1, 2}, 1}, {{1, 2}, {1, 2}, 2}, {{1, 2}, {2, 3}, 2}, {{1, 3}, {2, 2}, 2},
                {{1, 1}, {2, 2}, 0}, {{1, 2}, {3, 4}, 0}, {{1, 1}, {0, 0}, 0}, {{1, 1}, {UINT32_MAX, 0}, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(version_common(rows[i].one, rows[i].other), rows[i].common);
        assert_int_equal(version_common(rows[i].other, rows[i].one), rows[i].common);
    }
}

/* The first byte of a later version's message is all that is understood of it. */
static void a_version_that_is_not_spoken_is_refused_whatever_follows(void **state)
{
    (void)state;
    struct message message = {.kind = MESSAGE_INCUMBENT_ASK, .u.incumbent = {.about = {{1}}}}, decoded;
    const struct version_range both = {1, 2}, later = {2, 2};
    size_t count = message_encode(&message, wire, sizeof wire);
    assert_int_equal(message_version(wire, count), VERSION_NEWEST);
    assert_int_equal(message_decode_as(both, wire, count, &decoded), 0);
    assert_int_equal(message_decode_as(later, wire, count, &decoded), ERR_VERSION);
    wire[0] = 2;
    assert_int_equal(message_decode_as(both, wire, count, &decoded), 0);
    assert_int_equal(message_decode_as(later, wire, count, &decoded), 0);
    for (size_t cut = 1; cut <= count; cut++) {
        assert_int_equal(message_decode(wire, cut, &decoded), ERR_VERSION);
        assert_int_equal(message_version(wire, cut), 2);
    }
    assert_int_equal(message_decode(wire, 0, &decoded), ERR_MALFORMED);
    assert_int_equal(message_version(wire, 0), 0);
}

static void a_bare_ping_is_small(void **state)
{
    (void)state;
    struct message message = {.kind = MESSAGE_SWIM, .boot = UINT64_MAX, .hash = {{UINT64_MAX, UINT64_MAX}}};
    message.u.swim =
        (struct swim_message){.kind = SWIM_PING, .sequence = UINT32_MAX, .incarnation = SWIM_INCARNATION_MAX - 1};
    size_t count = message_encode(&message, wire, sizeof wire);
    assert_in_range(count, 1, 59);
}

static void what_does_not_fit_is_not_encoded(void **state)
{
    (void)state;
    struct message message = {.kind = MESSAGE_RECORDS, .bytes = payload, .byte_count = 1000};
    assert_true(message_encode(&message, wire, sizeof wire) > 1000);
    for (size_t capacity = 0; capacity < 1000; capacity++) {
        assert_int_equal(message_encode(&message, wire, capacity), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_as_it_was),
        cmocka_unit_test(a_cut_or_longer_message_is_malformed),
        cmocka_unit_test(a_changed_message_is_refused_or_within_bounds),
        cmocka_unit_test(single_fields_out_of_range_are_malformed),
        cmocka_unit_test(other_versions_and_kinds_are_told_apart),
        cmocka_unit_test(two_programs_use_the_highest_version_that_both_speak),
        cmocka_unit_test(a_version_that_is_not_spoken_is_refused_whatever_follows),
        cmocka_unit_test(a_bare_ping_is_small),
        cmocka_unit_test(what_does_not_fit_is_not_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
