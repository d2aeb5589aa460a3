#ifndef NODE_DAEMON_RENDER_PUT_H
#define NODE_DAEMON_RENDER_PUT_H
/* render.c and experiment.c write with msgpack-c's packer over the frame of the caller: values, pairs and lists in parts.
 *
 * The packer's write callback is bounded: bytes that do not fit into the frame mark the frame as `failed`, and a failed
 * frame takes nothing more, so the results of msgpack_pack_... need not be looked at. */

#include <msgpack.h>

#include "base/id.h"
#include "base/pack.h"

/* A packer over a frame, which it borrows. */
msgpack_packer render_packer(struct pack_writer *frame);

/* The frame under a packer of render_packer. */
struct pack_writer *render_frame(const msgpack_packer *packer);

/* An array whose length is filled in at its end: rows are written one by one, and one that does not fit is taken back. */
struct render_list {
    msgpack_packer *packer;
    size_t length_at;
    size_t row_at;
    uint32_t count;
};

struct render_list render_list_open(msgpack_packer *packer);

/* A row has been written: false if it does not fit and is gone again. */
bool render_list_took_row(struct render_list *list);
void render_list_close(struct render_list *list);

/* One value. At most MESH_ID_BYTES in hexadecimal digits; an empty text is nil; `bytes` are MessagePack already. */
void render_put_string(msgpack_packer *packer, const char *text);
void render_put_hex(msgpack_packer *packer, const uint8_t *bytes, size_t count);
void render_put_node_id(msgpack_packer *packer, node_id node);
void render_put_experiment_id(msgpack_packer *packer, experiment_id experiment);
void render_put_text_or_nil(msgpack_packer *packer, const char *text);
void render_put_packed(msgpack_packer *packer, const uint8_t *bytes, size_t count);

/* One pair of a map. */
void render_put_u64(msgpack_packer *packer, const char *key, uint64_t value);
void render_put_bool(msgpack_packer *packer, const char *key, bool value);
void render_put_text(msgpack_packer *packer, const char *key, const char *value);

#endif
