#ifndef NODE_DAEMON_RENDER_PUT_H
#define NODE_DAEMON_RENDER_PUT_H
/* The way in which render.c and experiment.c write: msgpack-c's packer over the caller's frame; values, pairs and lists
 * in parts.
 *
 * The packer's write callback is bounded: bytes without room in the frame mark the frame as `failed`, and a failed
 * frame takes nothing more. So the results of msgpack_pack_... need not be looked at. */

#include <msgpack.h>

#include "base/id.h"
#include "base/pack.h"

/* Makes a packer over a frame; the frame is borrowed. */
msgpack_packer render_packer(struct pack_writer *frame);

/* Returns the frame under a packer of render_packer. */
struct pack_writer *render_frame(const msgpack_packer *packer);

/* An array whose length is filled in at its end. Rows are written one by one; a row without room is taken back. */
struct render_list {
    msgpack_packer *packer;
    size_t length_at;
    size_t row_at;
    uint32_t count;
};

/* Opens an array; the caller writes rows and calls render_list_took_row after each. */
struct render_list render_list_open(msgpack_packer *packer);

/* Ends a row. False: the row did not fit, and is taken back. */
bool render_list_took_row(struct render_list *list);

/* Fills in the array's length. */
void render_list_close(struct render_list *list);

#define RENDER_HEX_BYTES_MAX 32

/* Each writes one value. put_hex: at most RENDER_HEX_BYTES_MAX, as hexadecimal digits. put_text_or_nil: an empty text is nil.
 * put_packed: `bytes` are MessagePack already. */
void render_put_string(msgpack_packer *packer, const char *text);
void render_put_hex(msgpack_packer *packer, const uint8_t *bytes, size_t count);
void render_put_node_id(msgpack_packer *packer, node_id node);
void render_put_experiment_id(msgpack_packer *packer, experiment_id experiment);
void render_put_text_or_nil(msgpack_packer *packer, const char *text);
void render_put_packed(msgpack_packer *packer, const uint8_t *bytes, size_t count);

/* Each writes one pair of a map. */
void render_put_u64(msgpack_packer *packer, const char *key, uint64_t value);
void render_put_bool(msgpack_packer *packer, const char *key, bool value);
void render_put_text(msgpack_packer *packer, const char *key, const char *value);

#endif
