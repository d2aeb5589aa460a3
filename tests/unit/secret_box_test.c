/* Values of secrets in their boxes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/secret_box.h"

static struct keys alder, birch;

/* A value of so many bytes, sealed, with copies for alder and birch. */
struct sealed {
    uint8_t sealed[FACT_SECRET_SEALED_MAX], copies[2 * FACT_SECRET_COPY_BYTES];
    struct fact_secret fact;
};

static void seal(struct sealed *out, uint32_t bytes)
{
    struct secret_box_value value = {.bytes = bytes};
    memset(value.text, 'v', bytes);
    *out = (struct sealed){.fact = {.lamport = 1, .copy_count = 2}};
    out->fact.sealed_bytes = secret_box_seal(&value, out->fact.value, out->sealed);
    assert_int_equal(secret_box_copy(&value, alder.id, alder.sign_public, out->copies), 0);
    assert_int_equal(secret_box_copy(&value, birch.id, birch.sign_public, out->copies + FACT_SECRET_COPY_BYTES), 0);
    out->fact.sealed = out->sealed;
    out->fact.copies = out->copies;
}

static int open_as(const struct keys *keys, const struct sealed *sealed, struct secret_box_value *out)
{
    const uint8_t *box = fact_secret_copy(&sealed->fact, keys->id);
    assert_non_null(box);
    return secret_box_open(keys, &sealed->fact, box, out);
}

static void each_node_opens_its_copy_of_any_length(void **state)
{
    static const uint32_t lengths[] = {1, 63, 64, 65, 4095, FACT_SECRET_BYTES_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct sealed sealed;
        struct secret_box_value value;
        seal(&sealed, lengths[i]);
        assert_int_equal(open_as(&alder, &sealed, &value), 0);
        assert_int_equal(value.bytes, lengths[i]);
        assert_int_equal(strlen((const char *)value.text), lengths[i]);
        assert_int_equal(open_as(&birch, &sealed, &value), 0);
        assert_int_equal(strspn((const char *)value.text, "v"), lengths[i]);
        assert_true(sealed.fact.sealed_bytes <= FACT_SECRET_SEALED_MAX &&
                    fact_secret_copies_max(sealed.fact.sealed_bytes) >= 40);
    }
}

static void a_record_does_not_tell_how_long_a_short_value_is(void **state)
{
    (void)state;
    struct sealed one, other;
    seal(&one, 8);
    seal(&other, 40);
    assert_int_equal(one.fact.sealed_bytes, other.fact.sealed_bytes);
}

static void nobody_opens_the_box_of_another_node(void **state)
{
    (void)state;
    struct sealed sealed;
    struct secret_box_value value;
    seal(&sealed, 20);
    assert_int_equal(secret_box_open(&alder, &sealed.fact, fact_secret_copy(&sealed.fact, birch.id), &value), ERR_AUTH);
    node_id stranger = {{9}};
    assert_null(fact_secret_copy(&sealed.fact, stranger));
}

static void what_was_changed_does_not_open(void **state)
{
    (void)state;
    struct secret_box_value value;
    struct sealed sealed;
    for (uint32_t at = 0; at < 80; at += 7) {
        seal(&sealed, 20);
        sealed.sealed[at] ^= 1;
        assert_int_equal(open_as(&alder, &sealed, &value), ERR_AUTH);
        seal(&sealed, 20);
        sealed.copies[NODE_ID_BYTES + at] ^= 1;
        assert_int_equal(open_as(&alder, &sealed, &value), ERR_AUTH);
    }
    struct sealed another; /* a member gives a copy of another key under the name of this value */
    seal(&sealed, 20);
    seal(&another, 20);
    memcpy(another.fact.value, sealed.fact.value, sizeof another.fact.value);
    assert_int_equal(open_as(&alder, &another, &value), ERR_AUTH);
    sealed.fact.sealed_bytes = 16;
    assert_int_equal(open_as(&alder, &sealed, &value), ERR_AUTH);
}

static void a_node_that_has_a_copy_gives_further_ones(void **state)
{
    (void)state;
    struct sealed sealed;
    struct secret_box_value value, again;
    struct keys cedar;
    uint8_t copy[FACT_SECRET_COPY_BYTES];
    keys_create(&cedar);
    seal(&sealed, 100);
    assert_int_equal(open_as(&birch, &sealed, &value), 0);
    assert_int_equal(secret_box_copy(&value, cedar.id, cedar.sign_public, copy), 0);
    assert_int_equal(secret_box_open(&cedar, &sealed.fact, copy + NODE_ID_BYTES, &again), 0);
    assert_int_equal(again.bytes, 100);
    secret_box_wipe(&again);
    assert_int_equal(again.text[0], 0);
    static const uint8_t no_key[32] = {2};
    assert_int_equal(secret_box_copy(&value, cedar.id, no_key, copy), ERR_MALFORMED);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    keys_create(&alder);
    keys_create(&birch);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_node_opens_its_copy_of_any_length),
        cmocka_unit_test(a_record_does_not_tell_how_long_a_short_value_is),
        cmocka_unit_test(nobody_opens_the_box_of_another_node),
        cmocka_unit_test(what_was_changed_does_not_open),
        cmocka_unit_test(a_node_that_has_a_copy_gives_further_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
