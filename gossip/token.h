#ifndef GOSSIP_TOKEN_H
#define GOSSIP_TOKEN_H
/* How one joins: the invite token, a text that a member hands to a human, and the two messages of joining
 * (docs/wire.md, "Invite token", "Join"). A shell: libsodium, no I/O. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/keys.h"

#define TOKEN_PREFIX "shoal1-"
#define TOKEN_MEMBERS_MAX 4
#define TOKEN_ADDRESSES_MAX 2
#define TOKEN_ADDRESS_BYTES 64
#define TOKEN_TEXT_BYTES 1200 /* room for any token, with its NUL */

/* Somebody who will answer a join. */
struct token_member {
    uint8_t sign_public[32];                                  /* Ed25519 */
    uint32_t address_count;                                   /* 1 ... TOKEN_ADDRESSES_MAX */
    char addresses[TOKEN_ADDRESSES_MAX][TOKEN_ADDRESS_BYTES]; /* numeric HOST:PORT of the control socket */
};

struct token {
    mesh_id mesh;
    uint8_t secret[32];    /* CURVE; its public half is the key of the invite record */
    uint64_t expires_s;    /* wall time */
    uint32_t member_count; /* 1 ... TOKEN_MEMBERS_MAX */
    struct token_member members[TOKEN_MEMBERS_MAX];
};

/* Draws the secret of a new invite and computes its public half. */
void token_create(uint8_t secret[32], uint8_t invite_key[32]);
void token_invite_key(const struct token *token, uint8_t out[32]);

/* Writes the text; returns its length. Whoever reads it can join: it never goes to a log. */
size_t token_write(const struct token *token, char out[TOKEN_TEXT_BYTES]);

/* Reads one; white space in it is skipped, as it comes with copying. `error` is one sentence: ERR_USAGE not a token at
 * all, ERR_CLOSED cut short, ERR_CORRUPT garbled, ERR_VERSION of another version, ERR_STALE expired (by `wall_s`). */
int token_read(const char *text, uint64_t wall_s, struct token *out, char error[256]);

/* ---- the messages of joining ------------------------------------------------------------------------------------- */

#define JOIN_NAME_BYTES 64
#define JOIN_TEXT_BYTES 256
#define JOIN_REQUEST_BYTES_MAX 256

/* "Vouch for my key." Signed with it, over the mesh and the invite too, so that nobody can have another's key admitted.
 */
struct join_request {
    uint8_t sign_public[32];
    char name[JOIN_NAME_BYTES];
};

size_t join_request_encode(const struct keys *keys, mesh_id mesh, const uint8_t invite_key[32], const char *name,
                           uint8_t out[JOIN_REQUEST_BYTES_MAX]);

/* ERR_MALFORMED, ERR_VERSION, ERR_AUTH (the signature). Takes about 0.1 ms: for the verifying thread. */
int join_request_decode(const uint8_t *bytes, size_t count, mesh_id mesh, const uint8_t invite_key[32],
                        struct join_request *out);

/* The answer: code 0 with records laid end to end, or an error of base/err.h and a sentence. */
struct join_answer {
    int32_t code;
    char text[JOIN_TEXT_BYTES];
    const uint8_t *records; /* borrowed; not verified yet */
    uint32_t record_bytes;
};

/* Length, or 0 if it does not fit `capacity` or MESSAGE_BYTES_MAX. */
size_t join_answer_encode(const struct join_answer *answer, uint8_t *out, size_t capacity);
int join_answer_decode(const uint8_t *bytes, size_t count, struct join_answer *out);

#endif
