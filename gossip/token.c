#include "gossip/token.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/pack.h"
#include "gossip/message.h"

/* A token: u8 format, u16 length of the whole, MessagePack, 4 bytes of BLAKE2b over the preceding bytes. */
#define TOKEN_FORMAT 1
#define TOKEN_HEAD_BYTES 3
#define TOKEN_SUM_BYTES 4
#define TOKEN_BYTES_MAX 840
#define TOKEN_VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING

_Static_assert(TOKEN_BYTES_MAX >= TOKEN_HEAD_BYTES + TOKEN_SUM_BYTES + 70 +
                                      TOKEN_MEMBERS_MAX * (36 + TOKEN_ADDRESSES_MAX * (TOKEN_ADDRESS_BYTES + 2)),
               "any token fits");
_Static_assert(TOKEN_TEXT_BYTES >= sizeof TOKEN_PREFIX + (TOKEN_BYTES_MAX + 2) / 3 * 4, "any token's text fits");

void token_create(uint8_t secret[32], uint8_t invite_key[32])
{
    CHECK(crypto_box_keypair(invite_key, secret) == 0);
}

void token_invite_key(const struct token *token, uint8_t out[32])
{
    CHECK(crypto_scalarmult_base(out, token->secret) == 0);
}

static void token_sum(const uint8_t *bytes, size_t count, uint8_t out[TOKEN_SUM_BYTES])
{
    uint8_t hash[crypto_generichash_BYTES_MIN];
    (void)crypto_generichash(hash, sizeof hash, bytes, count, NULL, 0);
    memcpy(out, hash, TOKEN_SUM_BYTES);
}

size_t token_write(const struct token *token, char out[TOKEN_TEXT_BYTES])
{
    CHECK(token->member_count >= 1 && token->member_count <= TOKEN_MEMBERS_MAX);
    uint8_t bytes[TOKEN_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes + TOKEN_HEAD_BYTES, sizeof bytes - TOKEN_HEAD_BYTES - TOKEN_SUM_BYTES);
    pack_bin(&writer, token->mesh.bytes, MESH_ID_BYTES);
    pack_bin(&writer, token->secret, sizeof token->secret);
    pack_u64(&writer, token->expires_s);
    pack_array(&writer, token->member_count);
    for (uint32_t i = 0; i < token->member_count; i++) {
        const struct token_member *member = &token->members[i];
        CHECK(member->address_count >= 1 && member->address_count <= TOKEN_ADDRESSES_MAX);
        pack_array(&writer, 1 + member->address_count);
        pack_bin(&writer, member->sign_public, sizeof member->sign_public);
        for (uint32_t a = 0; a < member->address_count; a++) {
            pack_text(&writer, member->addresses[a]);
        }
    }
    CHECK(!writer.failed);
    size_t before = TOKEN_HEAD_BYTES + writer.used_bytes;
    bytes[0] = TOKEN_FORMAT;
    bytes_put_u16(bytes + 1, (uint16_t)(before + TOKEN_SUM_BYTES));
    token_sum(bytes, before, bytes + before);
    size_t prefix = strlen(TOKEN_PREFIX);
    memcpy(out, TOKEN_PREFIX, prefix);
    (void)sodium_bin2base64(out + prefix, TOKEN_TEXT_BYTES - prefix, bytes, before + TOKEN_SUM_BYTES, TOKEN_VARIANT);
    sodium_memzero(bytes, sizeof bytes);
    return strlen(out);
}

static int refuse(char error[256], int code, const char *sentence)
{
    (void)snprintf(error, 256, "%s", sentence);
    return code;
}

/* Reads HOST:PORT; only chars that may be shown, logged and dialled. */
static void read_address(struct pack_reader *reader, char out[TOKEN_ADDRESS_BYTES])
{
    pack_read_text_copy(reader, out, TOKEN_ADDRESS_BYTES);
    for (const char *p = out; !reader->failed && *p != '\0'; p++) {
        reader->failed = *p <= ' ' || *p > '~';
    }
    if (out[0] == '\0') {
        reader->failed = true;
    }
}

static bool read_body(const uint8_t *bytes, size_t count, struct token *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    memset(out, 0, sizeof *out);
    pack_read_bin_exact(&reader, out->mesh.bytes, MESH_ID_BYTES);
    pack_read_bin_exact(&reader, out->secret, sizeof out->secret);
    out->expires_s = pack_read_u64(&reader);
    out->member_count = pack_read_array(&reader);
    if (out->member_count < 1 || out->member_count > TOKEN_MEMBERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < out->member_count; i++) {
        uint32_t values = pack_read_array(&reader);
        if (values < 2 || values > 1 + TOKEN_ADDRESSES_MAX) {
            return false;
        }
        struct token_member *member = &out->members[i];
        pack_read_bin_exact(&reader, member->sign_public, sizeof member->sign_public);
        member->address_count = values - 1;
        for (uint32_t a = 0; a < member->address_count; a++) {
            read_address(&reader, member->addresses[a]);
        }
    }
    return pack_at_end(&reader);
}

/* Copies the text without white space; false if it is longer than any token. */
static bool squeeze(const char *text, char out[TOKEN_TEXT_BYTES])
{
    size_t used = 0;
    for (; *text != '\0'; text++) {
        if (strchr(" \t\r\n\v\f", *text) != NULL) {
            continue;
        }
        if (used == TOKEN_TEXT_BYTES - 1) {
            return false;
        }
        out[used++] = *text;
    }
    out[used] = '\0';
    return true;
}

static int decode_text(const char *text, uint8_t bytes[TOKEN_BYTES_MAX], size_t *count, char error[256])
{
    static const char garbled[] = "The token is garbled: a character was lost, added or changed; copy it again, or ask "
                                  "for a new one with shoal invite.";
    static const char cut[] = "The token is cut short: its end is missing; copy all of it.";
    size_t length = strlen(text);
    uint8_t head[TOKEN_HEAD_BYTES];
    size_t head_bytes = 0;
    if (length < 4) {
        return refuse(error, ERR_CLOSED, cut);
    }
    if (sodium_base642bin(head, sizeof head, text, 4, NULL, &head_bytes, NULL, TOKEN_VARIANT) != 0 ||
        head_bytes != sizeof head) {
        return refuse(error, ERR_CORRUPT, garbled);
    }
    if (head[0] != TOKEN_FORMAT) {
        return refuse(error, ERR_VERSION,
                      "The token is of another version, or garbled; use the version of shoal that the mesh runs.");
    }
    size_t announced = bytes_get_u16(head + 1);
    if (announced <= TOKEN_HEAD_BYTES + TOKEN_SUM_BYTES || announced > TOKEN_BYTES_MAX) {
        return refuse(error, ERR_CORRUPT, garbled);
    }
    size_t wanted = sodium_base64_encoded_len(announced, TOKEN_VARIANT) - 1;
    if (length < wanted) {
        return refuse(error, ERR_CLOSED, cut);
    }
    uint8_t sum[TOKEN_SUM_BYTES];
    if (length > wanted ||
        sodium_base642bin(bytes, TOKEN_BYTES_MAX, text, length, NULL, count, NULL, TOKEN_VARIANT) != 0 ||
        *count != announced) {
        return refuse(error, ERR_CORRUPT, garbled);
    }
    token_sum(bytes, announced - TOKEN_SUM_BYTES, sum);
    return memcmp(sum, bytes + announced - TOKEN_SUM_BYTES, TOKEN_SUM_BYTES) == 0 ? 0
                                                                                  : refuse(error, ERR_CORRUPT, garbled);
}

int token_read(const char *text, struct token *out, char error[256])
{
    char squeezed[TOKEN_TEXT_BYTES];
    size_t prefix = strlen(TOKEN_PREFIX);
    bool fits = squeeze(text, squeezed);
    if (!fits || strncmp(squeezed, TOKEN_PREFIX, prefix) != 0) {
        return refuse(error, ERR_USAGE,
                      "This is not an invite token: tokens begin with " TOKEN_PREFIX " and come from shoal invite.");
    }
    uint8_t bytes[TOKEN_BYTES_MAX];
    size_t count = 0;
    int result = decode_text(squeezed + prefix, bytes, &count, error);
    struct token token;
    if (result == 0 && !read_body(bytes + TOKEN_HEAD_BYTES, count - TOKEN_HEAD_BYTES - TOKEN_SUM_BYTES, &token)) {
        result = refuse(error, ERR_CORRUPT,
                        "The token is whole but its content makes no sense; ask for a new one with "
                        "shoal invite.");
    }
    if (result == 0) {
        *out = token;
    }
    sodium_memzero(&token, sizeof token);
    sodium_memzero(bytes, sizeof bytes);
    sodium_memzero(squeezed, sizeof squeezed);
    return result;
}

/* ---- the messages of joining ------------------------------------------------------------------------------------- */

#define JOIN_KIND_REQUEST 0x40
#define JOIN_KIND_ANSWER 0x41
#define JOIN_HEAD_BYTES 2
#define JOIN_CONTEXT "shoal join 1"
#define JOIN_CODE_LOWEST (-255)

struct join_signed {
    uint8_t bytes[sizeof JOIN_CONTEXT + MESH_ID_BYTES + 32 + 32 + JOIN_NAME_BYTES];
};

/* The signed bytes; every part has a fixed width: the name includes its zero padding. */
static void join_signed_fill(struct join_signed *part, mesh_id mesh, const uint8_t invite_key[32],
                             const struct join_request *request)
{
    uint8_t *p = part->bytes;
    memcpy(p, JOIN_CONTEXT, sizeof JOIN_CONTEXT);
    p += sizeof JOIN_CONTEXT;
    memcpy(p, mesh.bytes, MESH_ID_BYTES);
    p += MESH_ID_BYTES;
    memcpy(p, invite_key, 32);
    memcpy(p + 32, request->sign_public, 32);
    memcpy(p + 64, request->name, JOIN_NAME_BYTES);
}

size_t join_request_encode(const struct keys *keys, mesh_id mesh, const uint8_t invite_key[32], const char *name,
                           uint8_t out[JOIN_REQUEST_BYTES_MAX])
{
    struct join_request request = {0};
    memcpy(request.sign_public, keys->sign_public, 32);
    (void)bytes_copy_text(request.name, sizeof request.name, name);
    struct join_signed part;
    join_signed_fill(&part, mesh, invite_key, &request);
    uint8_t signature[crypto_sign_BYTES];
    CHECK(crypto_sign_detached(signature, NULL, part.bytes, sizeof part.bytes, keys->sign_secret) == 0);
    out[0] = VERSION_OLDEST; /* the version of the reader is unknown */
    out[1] = JOIN_KIND_REQUEST;
    struct pack_writer writer;
    pack_writer_init(&writer, out + JOIN_HEAD_BYTES, JOIN_REQUEST_BYTES_MAX - JOIN_HEAD_BYTES);
    pack_bin(&writer, request.sign_public, sizeof request.sign_public);
    pack_text(&writer, request.name);
    pack_bin(&writer, signature, sizeof signature);
    CHECK(!writer.failed);
    return JOIN_HEAD_BYTES + writer.used_bytes;
}

static int check_head(const uint8_t *bytes, size_t count, uint8_t kind)
{
    if (count < JOIN_HEAD_BYTES) {
        return ERR_MALFORMED;
    }
    return version_is_spoken(version_ours(), bytes[0]) && bytes[1] == kind ? 0 : ERR_VERSION;
}

int join_request_decode(const uint8_t *bytes, size_t count, mesh_id mesh, const uint8_t invite_key[32],
                        struct join_request *out)
{
    int error = check_head(bytes, count, JOIN_KIND_REQUEST);
    if (error != 0) {
        return error;
    }
    struct join_request request = {0};
    uint8_t signature[crypto_sign_BYTES] = {0};
    struct pack_reader reader;
    pack_reader_init(&reader, bytes + JOIN_HEAD_BYTES, count - JOIN_HEAD_BYTES);
    pack_read_bin_exact(&reader, request.sign_public, sizeof request.sign_public);
    pack_read_text_copy(&reader, request.name, sizeof request.name);
    pack_read_bin_exact(&reader, signature, sizeof signature);
    if (!pack_at_end(&reader)) {
        return ERR_MALFORMED;
    }
    for (const char *p = request.name; *p != '\0'; p++) {
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~') { /* names go into log lines */
            return ERR_MALFORMED;
        }
    }
    struct join_signed part;
    join_signed_fill(&part, mesh, invite_key, &request);
    if (crypto_sign_verify_detached(signature, part.bytes, sizeof part.bytes, request.sign_public) != 0) {
        return ERR_AUTH;
    }
    *out = request;
    return 0;
}

void join_greeting_write(const struct join_greeting *greeting, char out[JOIN_TEXT_BYTES])
{
    (void)snprintf(out, JOIN_TEXT_BYTES, "%s %llu%s%s", greeting->member, (unsigned long long)greeting->wall_s,
                   greeting->mesh[0] != '\0' ? " " : "", greeting->mesh);
}

/* Copies the first `bytes` of a text, at least one, that are printable and at least `lowest`. */
static int copy_name(const char *text, size_t bytes, char lowest, char out[JOIN_NAME_BYTES])
{
    if (bytes == 0 || bytes >= JOIN_NAME_BYTES) {
        return ERR_MALFORMED;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < lowest || text[i] > '~') {
            return ERR_MALFORMED;
        }
    }
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return 0;
}

int join_greeting_read(const char *text, struct join_greeting *out)
{
    struct join_greeting greeting = {.wall_s = 0};
    const char *blank = strchr(text, ' ');
    size_t digits = blank == NULL ? 0 : strspn(blank + 1, "0123456789");
    const char *rest = blank == NULL ? "" : blank + 1 + digits;
    if (digits == 0 || digits > 12 || copy_name(text, (size_t)(blank - text), '!', greeting.member) != 0) {
        return ERR_MALFORMED;
    }
    if (*rest != '\0' && (*rest != ' ' || copy_name(rest + 1, strlen(rest + 1), ' ', greeting.mesh) != 0)) {
        return ERR_MALFORMED;
    }
    for (size_t i = 0; i < digits; i++) {
        greeting.wall_s = greeting.wall_s * 10 + (uint64_t)(blank[1 + i] - '0');
    }
    *out = greeting;
    return 0;
}

size_t join_answer_encode(const struct join_answer *answer, uint8_t *out, size_t capacity)
{
    size_t room = capacity < MESSAGE_BYTES_MAX ? capacity : MESSAGE_BYTES_MAX;
    if (room < JOIN_HEAD_BYTES) {
        return 0;
    }
    _Static_assert(VERSION_OLDEST == VERSION_NEWEST, "an answer is in the version of its request");
    out[0] = VERSION_OLDEST;
    out[1] = JOIN_KIND_ANSWER;
    struct pack_writer writer;
    pack_writer_init(&writer, out + JOIN_HEAD_BYTES, room - JOIN_HEAD_BYTES);
    pack_i64(&writer, answer->code);
    pack_text(&writer, answer->text);
    pack_bin(&writer, answer->records, answer->record_bytes);
    return writer.failed ? 0 : JOIN_HEAD_BYTES + writer.used_bytes;
}

int join_answer_decode(const uint8_t *bytes, size_t count, struct join_answer *out)
{
    int error = check_head(bytes, count, JOIN_KIND_ANSWER);
    if (error != 0) {
        return error;
    }
    struct join_answer answer = {0};
    struct pack_reader reader;
    pack_reader_init(&reader, bytes + JOIN_HEAD_BYTES, count - JOIN_HEAD_BYTES);
    int64_t code = pack_read_i64(&reader);
    pack_read_text_copy(&reader, answer.text, sizeof answer.text);
    size_t record_bytes = 0;
    answer.records = pack_read_bin(&reader, &record_bytes);
    if (!pack_at_end(&reader) || code > 0 || code < JOIN_CODE_LOWEST || record_bytes > MESSAGE_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    answer.code = (int32_t)code;
    answer.record_bytes = (uint32_t)record_bytes;
    *out = answer;
    return 0;
}
