#include "node/config/space_names.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/edit_distance.h"
#include "base/number.h"
#include "node/config/packed.h"
#include "node/config/scalar.h"

bool space_names_find(const struct space_names *names, const char *name, struct search_parameter *out, uint32_t *index, bool *prefixed)
{
    struct pack_reader reader;
    size_t bytes = strlen(name);
    pack_reader_init(&reader, names->parameters->bytes, names->parameters->used_bytes);
    *prefixed = false;
    for (*index = 0; !pack_at_end(&reader) && search_parameter_read(&reader, out) == 0; ++*index) {
        if (strcmp(out->name, name) == 0) {
            return true;
        }
        *prefixed |= strncmp(out->name, name, bytes) == 0 && out->name[bytes] == '.';
    }
    return false;
}

void space_names_meant(const struct space_names *names, const char *name, char out[SEARCH_NAME_BYTES])
{
    struct search_parameter parameter;
    struct pack_reader reader;
    size_t best = 3;
    out[0] = '\0';
    pack_reader_init(&reader, names->parameters->bytes, names->parameters->used_bytes);
    while (!pack_at_end(&reader) && search_parameter_read(&reader, &parameter) == 0) {
        size_t distance = edit_distance(name, parameter.name);
        if (distance < best && distance < strlen(parameter.name)) {
            best = distance;
            (void)bytes_copy_text(out, SEARCH_NAME_BYTES, parameter.name);
        }
    }
}

static bool is_number(const struct pack_reader *value)
{
    enum pack_type type = pack_peek(value);
    return type == PACK_U64 || type == PACK_I64 || type == PACK_DOUBLE;
}

/* Whether two packed values are the same, 1 and 1.0 too. */
static bool is_same_value(struct pack_reader a, struct pack_reader b)
{
    if (a.count == b.count && memcmp(a.bytes, b.bytes, a.count) == 0) {
        return true;
    }
    bool one_is_double = pack_peek(&a) == PACK_DOUBLE || pack_peek(&b) == PACK_DOUBLE;
    return is_number(&a) && is_number(&b) && one_is_double && pack_read_double(&a) == pack_read_double(&b);
}

bool space_names_choice(const struct space_names *names, const struct search_parameter *parameter, const struct tree_node *node,
                        const char *path, uint64_t *out)
{
    struct pack_writer writer;
    struct pack_reader wanted, values;
    enum scalar_type type = node->kind == TREE_SCALAR ? scalar_read(node->text, node->is_plain).type : SCALAR_TEXT;
    if (type == SCALAR_NOT_FINITE || type == SCALAR_HUGE) {
        return false;
    }
    pack_writer_init(&writer, names->room, SEARCH_SPACE_BYTES_MAX);
    if (packed_value(names->tree, node, path, &writer) != 0 || writer.failed) {
        return false;
    }
    pack_reader_init(&wanted, writer.bytes, writer.used_bytes);
    pack_reader_init(&values, parameter->values, parameter->values_bytes);
    uint32_t count = parameter->kind == SEARCH_CATEGORICAL ? pack_read_array(&values) : 1;
    for (*out = 0; *out < count; ++*out) {
        struct pack_reader value;
        size_t bytes;
        const uint8_t *start = pack_read_any(&values, &bytes);
        pack_reader_init(&value, start, bytes);
        if (is_same_value(wanted, value)) {
            return true;
        }
    }
    return false;
}

bool space_names_number(const struct search_parameter *parameter, const struct tree_node *node, double *out)
{
    struct scalar scalar =
        node->kind == TREE_SCALAR ? scalar_read(node->text, node->is_plain) : (struct scalar){.type = SCALAR_TEXT};
    *out = scalar.number;
    return (scalar.type == SCALAR_INTEGER || scalar.type == SCALAR_NUMBER) && search_value_fits(parameter, scalar.number);
}

const char *space_names_describe(const struct search_parameter *parameter, char out[TREE_WORDS_BYTES])
{
    char low[32], high[32], step[32];
    bool is_log = parameter->kind == SEARCH_LOG;
    if (parameter->kind == SEARCH_CONST || parameter->kind == SEARCH_CATEGORICAL) {
        return parameter->kind == SEARCH_CONST ? "its value" : "its vals";
    }
    (void)number_format(low, is_log ? number_round9(number_pow(parameter->base, parameter->minval)) : parameter->minval);
    (void)number_format(high, is_log ? number_round9(number_pow(parameter->base, parameter->maxval)) : parameter->maxval);
    (void)number_format(step, parameter->step);
    (void)snprintf(out, TREE_WORDS_BYTES, "%s%s ... %s%s%s", parameter->kind == SEARCH_INT ? "whole numbers, " : "", low, high,
                   parameter->step > 0 ? " in steps of " : "", parameter->step > 0 ? step : "");
    return out;
}
