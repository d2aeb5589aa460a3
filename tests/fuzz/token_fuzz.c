/* Joining: the first byte says what follows. 't' an invite token as text; 'b' the body of one, which is given a head and a
 * sum that fit; 'q' a request to join; 'a' the answer to one. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "gossip/message.h"
#include "gossip/token.h"
#include "tests/fuzz/fuzz.h"

#define HEAD_BYTES 3
#define SUM_BYTES 4
#define WALL_S 1700000000
#define MESH ((mesh_id){{4, 5, 6}})

static const uint8_t invite_key[32] = {1, 2, 3};

static void check_token(const char *text)
{
    struct token token, again;
    char error[256] = "", written[TOKEN_TEXT_BYTES];
    if (token_read(text, &token, error) != 0) {
        CHECK(error[0] != '\0');
        return;
    }
    CHECK(token.member_count >= 1 && token.member_count <= TOKEN_MEMBERS_MAX);
    CHECK(token_write(&token, written) > 0);
    CHECK(token_read(written, &again, error) == 0);
    CHECK(memcmp(&token, &again, sizeof token) == 0);
}

static void check_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    check_token(text);
    free(text);
}

static void check_token_body(const uint8_t *data, size_t size)
{
    uint8_t bytes[TOKEN_TEXT_BYTES], hash[crypto_generichash_BYTES_MIN];
    char text[2 * TOKEN_TEXT_BYTES] = TOKEN_PREFIX;
    if (size > sizeof bytes - HEAD_BYTES - SUM_BYTES) {
        return;
    }
    size_t before = HEAD_BYTES + size;
    bytes[0] = 1;
    bytes_put_u16(bytes + 1, (uint16_t)(before + SUM_BYTES));
    memcpy(bytes + HEAD_BYTES, data, size);
    (void)crypto_generichash(hash, sizeof hash, bytes, before, NULL, 0);
    memcpy(bytes + before, hash, SUM_BYTES);
    size_t prefix = strlen(TOKEN_PREFIX);
    (void)sodium_bin2base64(text + prefix, sizeof text - prefix, bytes, before + SUM_BYTES,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    check_token(text);
}

static void check_answer(const uint8_t *data, size_t size)
{
    static uint8_t first[MESSAGE_BYTES_MAX];
    struct join_answer answer, again;
    if (join_answer_decode(data, size, &answer) == 0) {
        size_t count = join_answer_encode(&answer, first, sizeof first);
        CHECK(count == 0 || join_answer_decode(first, count, &again) == 0);
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    struct join_request request;
    if (size == 0) {
        return;
    }
    /* Bytes of the message itself, so that a read behind them is seen. */
    size_t count = size - 1;
    uint8_t *bytes = malloc(count > 0 ? count : 1);
    CHECK(bytes != NULL);
    memcpy(bytes, data + 1, count);
    switch (data[0]) {
    case 't':
        check_text(bytes, count);
        break;
    case 'b':
        check_token_body(bytes, count);
        break;
    case 'q':
        (void)join_request_decode(bytes, count, MESH, invite_key, &request);
        break;
    case 'a':
        check_answer(bytes, count);
        break;
    default:
        break;
    }
    free(bytes);
}

static void seed(char kind, const void *bytes, size_t count)
{
    uint8_t input[4096];
    CHECK(count < sizeof input);
    input[0] = (uint8_t)kind;
    memcpy(input + 1, bytes, count);
    fuzz_seed(input, count + 1);
}

void fuzz_seeds(void)
{
    struct token token = {.mesh = MESH, .secret = {8}, .expires_s = WALL_S + 1000, .member_count = TOKEN_MEMBERS_MAX};
    for (uint32_t i = 0; i < TOKEN_MEMBERS_MAX; i++) {
        token.members[i].sign_public[0] = (uint8_t)i;
        token.members[i].address_count = 1 + i % TOKEN_ADDRESSES_MAX;
        for (uint32_t a = 0; a < token.members[i].address_count; a++) {
            bytes_copy_text(token.members[i].addresses[a], TOKEN_ADDRESS_BYTES, "192.168.0.1:7400");
        }
    }
    char text[TOKEN_TEXT_BYTES];
    uint8_t bytes[TOKEN_TEXT_BYTES];
    size_t count = 0, text_bytes = token_write(&token, text), prefix = strlen(TOKEN_PREFIX);
    seed('t', text, text_bytes);
    CHECK(sodium_base642bin(bytes, sizeof bytes, text + prefix, text_bytes - prefix, NULL, &count, NULL,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0);
    seed('b', bytes + HEAD_BYTES, count - HEAD_BYTES - SUM_BYTES);
    struct keys keys = {0};
    uint8_t key_seed[crypto_sign_SEEDBYTES] = {3}, request[JOIN_REQUEST_BYTES_MAX];
    CHECK(crypto_sign_seed_keypair(keys.sign_public, keys.sign_secret, key_seed) == 0);
    seed('q', request, join_request_encode(&keys, MESH, invite_key, "node", request));
    struct join_answer answer = {.records = key_seed, .record_bytes = sizeof key_seed};
    seed('a', bytes, join_answer_encode(&answer, bytes, sizeof bytes));
    answer = (struct join_answer){.code = -5, .text = "No."};
    seed('a', bytes, join_answer_encode(&answer, bytes, sizeof bytes));
}
