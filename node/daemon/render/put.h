#ifndef NODE_DAEMON_RENDER_PUT_H
#define NODE_DAEMON_RENDER_PUT_H
/* The small change of render.c and render_experiment.c: values, pairs and lists in parts. */

#include "base/id.h"
#include "base/pack.h"

/* An array whose length is filled in at its end: rows are written one by one, and one that does not fit is taken back. */
struct render_list {
    struct pack_writer *writer;
    size_t length_at;
    size_t row_at;
    uint32_t count;
};

struct render_list render_list_open(struct pack_writer *writer);

/* A row has been written: false if it does not fit and is gone again. */
bool render_list_took_row(struct render_list *list);
void render_list_close(struct render_list *list);

/* One value. At most MESH_ID_BYTES in hexadecimal digits; an empty text is nil. */
void render_put_hex(struct pack_writer *writer, const uint8_t *bytes, size_t count);
void render_put_node_id(struct pack_writer *writer, node_id node);
void render_put_experiment_id(struct pack_writer *writer, experiment_id experiment);
void render_put_text_or_nil(struct pack_writer *writer, const char *text);

/* One pair of a map. */
void render_put_u64(struct pack_writer *writer, const char *key, uint64_t value);
void render_put_text(struct pack_writer *writer, const char *key, const char *value);

#endif
