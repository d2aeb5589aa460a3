#include "node/daemon/render/put.h"

#include "node/daemon/render/render.h"

/* ---- lists in parts -------------------------------------------------------------------------------------------- */

struct render_list render_list_open(struct pack_writer *writer)
{
    static const uint8_t head[5] = {0xdd, 0, 0, 0, 0}; /* array 32 */
    pack_raw(writer, head, sizeof head);
    struct render_list list = {.writer = writer, .length_at = writer->used_bytes - 4, .row_at = writer->used_bytes};
    return list;
}

bool render_list_took_row(struct render_list *list)
{
    struct pack_writer *writer = list->writer;
    bool fits = !writer->failed && writer->capacity_bytes - writer->used_bytes >= RENDER_RESERVE_BYTES;
    if (fits) {
        list->row_at = writer->used_bytes;
        list->count++;
        return true;
    }
    writer->used_bytes = list->row_at;
    writer->failed = list->count == 0;
    return false;
}

void render_list_close(struct render_list *list)
{
    if (!list->writer->failed) {
        bytes_put_u32(list->writer->bytes + list->length_at, list->count);
    }
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

void render_put_hex(struct pack_writer *writer, const uint8_t *bytes, size_t count)
{
    char text[2 * MESH_ID_BYTES + 1];
    bytes_to_hex(text, bytes, count);
    pack_text(writer, text);
}

void render_put_node_id(struct pack_writer *writer, node_id node)
{
    render_put_hex(writer, node.bytes, sizeof node.bytes);
}

void render_put_experiment_id(struct pack_writer *writer, experiment_id experiment)
{
    render_put_hex(writer, experiment.bytes, sizeof experiment.bytes);
}

void render_put_text_or_nil(struct pack_writer *writer, const char *text)
{
    if (text[0] == '\0') {
        pack_nil(writer);
    } else {
        pack_text(writer, text);
    }
}

void render_put_u64(struct pack_writer *writer, const char *key, uint64_t value)
{
    pack_text(writer, key);
    pack_u64(writer, value);
}

void render_put_text(struct pack_writer *writer, const char *key, const char *value)
{
    pack_text(writer, key);
    pack_text(writer, value);
}
