#include "node/config/packed.h"

#include "base/err.h"
#include "node/config/scalar.h"

int packed_value(struct tree *tree, const struct tree_node *node, const char *path, struct pack_writer *writer)
{
    uint32_t count = 0;
    for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
        count++;
    }
    if (node->kind != TREE_SCALAR) {
        if (node->kind == TREE_MAP) {
            pack_map(writer, count);
        } else {
            pack_array(writer, count);
        }
        int error = 0;
        for (const struct tree_node *child = node->first; child != NULL && error == 0; child = child->next) {
            if (node->kind == TREE_MAP) {
                pack_text(writer, child->key);
            }
            error = packed_value(tree, child, path, writer);
        }
        return error;
    }
    char quoted[TREE_QUOTED_BYTES];
    struct scalar scalar = scalar_read(node->text, node->is_plain);
    switch (scalar.type) {
    case SCALAR_NULL:
        pack_nil(writer);
        break;
    case SCALAR_TRUTH:
        pack_bool(writer, scalar.truth);
        break;
    case SCALAR_INTEGER:
        if (scalar.is_negative) {
            pack_i64(writer, (int64_t)(0 - scalar.magnitude));
        } else {
            pack_u64(writer, scalar.magnitude);
        }
        break;
    case SCALAR_NUMBER:
        pack_double(writer, scalar.number);
        break;
    case SCALAR_TEXT:
        pack_text(writer, node->text);
        break;
    case SCALAR_NOT_FINITE:
    case SCALAR_HUGE:
        return tree_fail(tree, node, "%s is %s; allowed are finite numbers, integers of up to 64 bits", path,
                         tree_describe(node, quoted));
    }
    return 0;
}

int packed_since(struct tree *tree, const struct tree_node *node, const struct pack_writer *writer, size_t start,
                 const uint8_t **bytes, uint32_t *count)
{
    if (writer->failed) {
        return tree_fail(tree, node, "the configuration is too large; allowed are %u bytes packed",
                         CONFIG_WHOLE_BYTES_MAX);
    }
    *bytes = writer->bytes + start;
    *count = (uint32_t)(writer->used_bytes - start);
    return 0;
}
