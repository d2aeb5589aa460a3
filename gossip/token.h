#ifndef GOSSIP_TOKEN_H
#define GOSSIP_TOKEN_H
/* Joining a mesh: the invite token, a text that a member hands to a human, and the two messages of joining
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

/* A member that answers joiners. */
struct token_member {
    uint8_t sign_public[32];                                  /* Ed25519 */
    uint32_t address_count;                                   /* 1 ... TOKEN_ADDRESSES_MAX */
    char addresses[TOKEN_ADDRESSES_MAX][TOKEN_ADDRESS_BYTES]; /* numeric HOST:PORT of the control socket */
};

/* A decoded token; secret. Overwrite it after use. */
struct token {
    mesh_id mesh;
    uint8_t secret[32];    /* CURVE secret key; its public half is the key of the invite record */
    uint64_t expires_s;    /* end of validity, wall time in seconds */
    uint32_t member_count; /* 1 ... TOKEN_MEMBERS_MAX */
    struct token_member members[TOKEN_MEMBERS_MAX];
};

/* Draws the secret of a new invite, and computes its public half. */
void token_create(uint8_t secret[32], uint8_t invite_key[32]);

/* The public half of the token's secret: the key of the invite record. */
void token_invite_key(const struct token *token, uint8_t out[32]);

/* Writes the token as text with a NUL at the end; returns the length. The text lets any reader join: never log it. */
size_t token_write(const struct token *token, char out[TOKEN_TEXT_BYTES]);

/* Reads a token; white space, which copying may add, is skipped. 0, or: ERR_USAGE (no token), ERR_CLOSED (cut short),
 * ERR_CORRUPT (garbled), ERR_VERSION (of another version). `error` is then one sentence, and `*out` is unchanged. Whether the
 * token has expired is for members to say: the reader's clock may be wrong. */
int token_read(const char *text, struct token *out, char error[256]);

/* ---- the messages of joining ------------------------------------------------------------------------------------- */

#define JOIN_NAME_BYTES 64
#define JOIN_TEXT_BYTES 256
#define JOIN_NAME_BYTES 64 /* of a node or a mesh, with the NUL */
#define JOIN_REQUEST_BYTES_MAX 256

/* The request to vouch for a key. Signed with that key, over the mesh and the invite too, so that a joiner cannot have
 * the key of another node admitted. */
struct join_request {
    uint8_t sign_public[32];
    char name[JOIN_NAME_BYTES];
};

/* Writes a signed request for `keys` under a name of at most JOIN_NAME_BYTES - 1 printable chars; returns its length. */
size_t join_request_encode(const struct keys *keys, mesh_id mesh, const uint8_t invite_key[32], const char *name,
                           uint8_t out[JOIN_REQUEST_BYTES_MAX]);

/* Reads a request and checks its signature. ERR_MALFORMED, ERR_VERSION, ERR_AUTH (the signature): `*out` is unchanged
 * then. Takes about 0.1 ms: call it on the verifying thread. */
int join_request_decode(const uint8_t *bytes, size_t count, mesh_id mesh, const uint8_t invite_key[32],
                        struct join_request *out);

/* The answer to a request: code 0 with records laid end to end, or an error of base/err.h with a sentence. */
struct join_answer {
    int32_t code;
    char text[JOIN_TEXT_BYTES]; /* with code 0: see join_greeting_write; empty from older members, and older joiners skip it */
    const uint8_t *records; /* borrowed; not verified yet */
    uint32_t record_bytes;
};

/* What a member tells a joiner beside the records. */
struct join_greeting {
    char member[JOIN_NAME_BYTES]; /* the member's name; without blanks */
    uint64_t wall_s;              /* its clock, in seconds since 1970 */
    char mesh[JOIN_NAME_BYTES];   /* the mesh's name; "": the member does not know it */
};

/* Writes and reads the text of an answer with code 0: the member's name, a blank, its clock and, if it knows the mesh's name, a
 * blank and this name. Reading fails with ERR_MALFORMED, also where a name has other than printable characters or is too
 * long; `out` is then unchanged. */
void join_greeting_write(const struct join_greeting *greeting, char out[JOIN_TEXT_BYTES]);
int join_greeting_read(const char *text, struct join_greeting *out);

/* Writes an answer; returns the length, or 0 if the answer does not fit `capacity` or MESSAGE_BYTES_MAX. */
size_t join_answer_encode(const struct join_answer *answer, uint8_t *out, size_t capacity);

/* Reads an answer; `out->records` points into `bytes`. ERR_MALFORMED, ERR_VERSION. */
int join_answer_decode(const uint8_t *bytes, size_t count, struct join_answer *out);

#endif
