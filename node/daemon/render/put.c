#include "node/daemon/render/put.h"

#include <string.h>

#include "base/bytes.h"
#include "node/daemon/render/render.h"

/* ---- the packer ------------------------------------------------------------------------------------------------ */

/* The packer's msgpack_packer_write. */
static int write_to_frame(void *frame, const char *bytes, size_t count)
{
    struct pack_writer *writer = frame;
    pack_raw(writer, (const uint8_t *)bytes, count);
    return writer->failed ? -1 : 0;
}

msgpack_packer render_packer(struct pack_writer *frame)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, frame, write_to_frame);
    return packer;
}

struct pack_writer *render_frame(const msgpack_packer *packer)
{
    return packer->data;
}

/* ---- lists in parts -------------------------------------------------------------------------------------------- */

#define LONG_ARRAY 0x10000 /* the least length whose head has five bytes, four of them the length */

struct render_list render_list_open(msgpack_packer *packer)
{
    (void)msgpack_pack_array(packer, LONG_ARRAY);
    size_t used_bytes = render_frame(packer)->used_bytes;
    return (struct render_list){.packer = packer, .length_at = used_bytes - 4, .row_at = used_bytes};
}

bool render_list_took_row(struct render_list *list)
{
    struct pack_writer *frame = render_frame(list->packer);
    bool fits = !frame->failed && frame->capacity_bytes - frame->used_bytes >= RENDER_RESERVE_BYTES;
    if (fits) {
        list->row_at = frame->used_bytes;
        list->count++;
        return true;
    }
    frame->used_bytes = list->row_at;
    frame->failed = list->count == 0;
    return false;
}

void render_list_close(struct render_list *list)
{
    struct pack_writer *frame = render_frame(list->packer);
    if (!frame->failed) {
        bytes_put_u32(frame->bytes + list->length_at, list->count);
    }
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

void render_put_string(msgpack_packer *packer, const char *text)
{
    msgpack_object value = {.type = MSGPACK_OBJECT_STR, .via.str = {.size = (uint32_t)strlen(text), .ptr = text}};
    (void)msgpack_pack_object(packer, value);
}

void render_put_hex(msgpack_packer *packer, const uint8_t *bytes, size_t count)
{
    char text[2 * RENDER_HEX_BYTES_MAX + 1];
    bytes_to_hex(text, bytes, count);
    render_put_string(packer, text);
}

void render_put_node_id(msgpack_packer *packer, node_id node)
{
    render_put_hex(packer, node.bytes, sizeof node.bytes);
}

void render_put_experiment_id(msgpack_packer *packer, experiment_id experiment)
{
    render_put_hex(packer, experiment.bytes, sizeof experiment.bytes);
}

void render_put_text_or_nil(msgpack_packer *packer, const char *text)
{
    if (text[0] == '\0') {
        (void)msgpack_pack_nil(packer);
    } else {
        render_put_string(packer, text);
    }
}

void render_put_packed(msgpack_packer *packer, const uint8_t *bytes, size_t count)
{
    (void)packer->callback(packer->data, (const char *)bytes, count);
}

/* ---- pairs ----------------------------------------------------------------------------------------------------- */

void render_put_u64(msgpack_packer *packer, const char *key, uint64_t value)
{
    render_put_string(packer, key);
    (void)msgpack_pack_uint64(packer, value);
}

void render_put_bool(msgpack_packer *packer, const char *key, bool value)
{
    render_put_string(packer, key);
    (void)msgpack_pack_object(packer, (msgpack_object){.type = MSGPACK_OBJECT_BOOLEAN, .via.boolean = value});
}

void render_put_text(msgpack_packer *packer, const char *key, const char *value)
{
    render_put_string(packer, key);
    render_put_string(packer, value);
}
