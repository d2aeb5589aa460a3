#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/message.h"
#include "gossip/token.h"

#define EXPIRES_S 2000000000u

static struct token sample(uint32_t members, uint32_t addresses)
{
    struct token token = {.mesh = {{1, 2, 3}}, .expires_s = EXPIRES_S, .member_count = members};
    uint8_t invite_key[32], again[32];
    token_create(token.secret, invite_key);
    token_invite_key(&token, again);
    assert_memory_equal(invite_key, again, 32);
    for (uint32_t i = 0; i < members; i++) {
        struct keys keys;
        keys_create(&keys);
        memcpy(token.members[i].sign_public, keys.sign_public, 32);
        token.members[i].address_count = addresses;
        for (uint32_t a = 0; a < addresses; a++) {
            (void)snprintf(token.members[i].addresses[a], TOKEN_ADDRESS_BYTES,
                           "[fd00:1234:5678:9abc:def0:1234:5678:%u]:%u", i, 7410 + a);
        }
    }
    return token;
}

static void tokens_of_all_sizes_come_back(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= TOKEN_MEMBERS_MAX; members++) {
        for (uint32_t addresses = 1; addresses <= TOKEN_ADDRESSES_MAX; addresses++) {
            struct token token = sample(members, addresses), read;
            char text[TOKEN_TEXT_BYTES], error[256] = "";
            size_t length = token_write(&token, text);
            assert_int_equal(length, strlen(text));
            assert_memory_equal(text, TOKEN_PREFIX, strlen(TOKEN_PREFIX));
            assert_int_equal(token_read(text, &read, error), 0);
            assert_memory_equal(&token, &read, sizeof token);
        }
    }
}

static void the_longest_token_fits(void **state)
{
    (void)state;
    struct token token = sample(TOKEN_MEMBERS_MAX, TOKEN_ADDRESSES_MAX), read;
    token.expires_s = UINT64_MAX;
    for (int i = 0; i < TOKEN_MEMBERS_MAX; i++) {
        for (int a = 0; a < TOKEN_ADDRESSES_MAX; a++) {
            memset(token.members[i].addresses[a], 'x', TOKEN_ADDRESS_BYTES - 1);
        }
    }
    char text[TOKEN_TEXT_BYTES], error[256];
    assert_true(token_write(&token, text) < TOKEN_TEXT_BYTES);
    assert_int_equal(token_read(text, &read, error), 0);
}

static void white_space_from_copying_does_not_matter(void **state)
{
    (void)state;
    struct token token = sample(2, 1), read;
    char text[TOKEN_TEXT_BYTES], spaced[2 * TOKEN_TEXT_BYTES], error[256];
    (void)token_write(&token, text);
    (void)snprintf(spaced, sizeof spaced, "  \n%.70s\r\n %s\n", text, text + 70);
    assert_int_equal(token_read(spaced, &read, error), 0);
    assert_memory_equal(&token, &read, sizeof token);
}

static void a_joiner_hears_the_members_clock_and_the_name_of_the_mesh(void **state)
{
    (void)state;
    char text[JOIN_TEXT_BYTES], longest[JOIN_TEXT_BYTES];
    struct join_greeting greeting, lab = {"alder", 1700000000, "my lab 2"}, nameless = {"alder", 1700000000, ""};
    join_greeting_write(&nameless, text);
    assert_string_equal(text, "alder 1700000000"); /* what older joiners read */
    assert_int_equal(join_greeting_read(text, &greeting), 0);
    assert_string_equal(greeting.mesh, "");
    join_greeting_write(&lab, text);
    assert_int_equal(join_greeting_read(text, &greeting), 0);
    assert_string_equal(greeting.member, "alder");
    assert_int_equal(greeting.wall_s, 1700000000);
    assert_string_equal(greeting.mesh, "my lab 2");
    (void)snprintf(longest, sizeof longest, "alder 17 %064d", 0);
    assert_int_equal(join_greeting_read(longest, &greeting), ERR_MALFORMED);
    assert_int_equal(join_greeting_read("alder 17 a\nb", &greeting), ERR_MALFORMED);
    static const char *const bad[] = {"", "alder", "alder ", " 17", "alder x", "alder 17 ", "alder 17", "alder 1234567890123"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(join_greeting_read(bad[i], &greeting), ERR_MALFORMED);
        assert_string_equal(greeting.member, "alder");
    }
}

static void a_token_without_its_end_is_cut_short(void **state)
{
    (void)state;
    struct token token = sample(1, 1), read;
    char text[TOKEN_TEXT_BYTES], error[256];
    size_t length = token_write(&token, text);
    for (size_t cut = strlen(TOKEN_PREFIX); cut < length; cut++) {
        char part[TOKEN_TEXT_BYTES] = "";
        memcpy(part, text, cut);
        assert_int_equal(token_read(part, &read, error), ERR_CLOSED);
        assert_non_null(strstr(error, "cut short"));
    }
}

static void any_other_character_is_noticed(void **state)
{
    (void)state;
    struct token token = sample(1, 2), read;
    char text[TOKEN_TEXT_BYTES], error[256];
    size_t length = token_write(&token, text);
    struct random random;
    random_init(&random, 7);
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_!+/.";
    for (size_t at = strlen(TOKEN_PREFIX); at < length; at++) {
        char old = text[at];
        text[at] = alphabet[random_below(&random, sizeof alphabet - 1)];
        if (text[at] != old) {
            int result = token_read(text, &read, error);
            assert_true(result == ERR_CORRUPT ||
                        (at < strlen(TOKEN_PREFIX) + 4 && (result == ERR_CLOSED || result == ERR_VERSION)));
        }
        text[at] = old;
    }
    strcat(text, "A");
    assert_int_equal(token_read(text, &read, error), ERR_CORRUPT);
    assert_non_null(strstr(error, "garbled"));
}

static void other_texts_are_no_tokens(void **state)
{
    (void)state;
    struct token read;
    char error[256], *long_text = malloc(100000);
    assert_non_null(long_text);
    memset(long_text, 'a', 99999);
    long_text[99999] = '\0';
    assert_int_equal(token_read("", &read, error), ERR_USAGE);
    assert_int_equal(token_read("10.0.0.5:7410", &read, error), ERR_USAGE);
    assert_int_equal(token_read(long_text, &read, error), ERR_USAGE);
    assert_non_null(strstr(error, "not an invite token"));
    free(long_text);
}

static void a_join_request_proves_its_key(void **state)
{
    (void)state;
    struct keys keys, other;
    keys_create(&keys);
    keys_create(&other);
    mesh_id mesh = {{9}}, other_mesh = {{8}};
    uint8_t invite[32] = {5}, other_invite[32] = {6}, bytes[JOIN_REQUEST_BYTES_MAX];
    struct join_request request;
    size_t count = join_request_encode(&keys, mesh, invite, "ws-17", bytes);
    assert_int_equal(join_request_decode(bytes, count, mesh, invite, &request), 0);
    assert_memory_equal(request.sign_public, keys.sign_public, 32);
    assert_string_equal(request.name, "ws-17");
    assert_int_equal(join_request_decode(bytes, count, other_mesh, invite, &request), ERR_AUTH);
    assert_int_equal(join_request_decode(bytes, count, mesh, other_invite, &request), ERR_AUTH);
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= 0x20;
        assert_int_not_equal(join_request_decode(bytes, count, mesh, invite, &request), 0);
        bytes[i] ^= 0x20;
        assert_int_not_equal(join_request_decode(bytes, i, mesh, invite, &request), 0);
    }
    count = join_request_encode(&keys, mesh, invite, "x\nlevel=error", bytes);
    assert_int_equal(join_request_decode(bytes, count, mesh, invite, &request), ERR_MALFORMED);
}

static void a_join_answer_comes_back(void **state)
{
    (void)state;
    static uint8_t records[60000], bytes[MESSAGE_BYTES_MAX];
    memset(records, 3, sizeof records);
    struct join_answer answer = {.code = ERR_REFUSED, .text = "The invite was revoked."}, read;
    size_t count = join_answer_encode(&answer, bytes, sizeof bytes);
    assert_int_equal(join_answer_decode(bytes, count, &read), 0);
    assert_int_equal(read.code, ERR_REFUSED);
    assert_string_equal(read.text, "The invite was revoked.");
    answer = (struct join_answer){.records = records, .record_bytes = sizeof records};
    count = join_answer_encode(&answer, bytes, sizeof bytes);
    assert_int_equal(join_answer_decode(bytes, count, &read), 0);
    assert_int_equal(read.record_bytes, sizeof records);
    assert_memory_equal(read.records, records, sizeof records);
    assert_int_equal(join_answer_decode(bytes, count - 1, &read), ERR_MALFORMED);
    assert_int_equal(join_answer_encode(&answer, bytes, 1000), 0);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_all_sizes_come_back),
        cmocka_unit_test(the_longest_token_fits),
        cmocka_unit_test(white_space_from_copying_does_not_matter),
        cmocka_unit_test(a_joiner_hears_the_members_clock_and_the_name_of_the_mesh),
        cmocka_unit_test(a_token_without_its_end_is_cut_short),
        cmocka_unit_test(any_other_character_is_noticed),
        cmocka_unit_test(other_texts_are_no_tokens),
        cmocka_unit_test(a_join_request_proves_its_key),
        cmocka_unit_test(a_join_answer_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
