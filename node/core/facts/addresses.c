/* The records ADDRESSES and LINKS: where a node can be reached, and on which networks it reached others. */

#include "node/core/facts/inside.h"

#include <string.h>

#include "base/err.h"

void fact_addresses_pack(struct pack_writer *writer, const struct fact_addresses *fact)
{
    pack_array(writer, 1);
    pack_array(writer, fact->count);
    for (uint32_t i = 0; i < fact->count; i++) {
        pack_array(writer, 3);
        pack_text(writer, fact->items[i].text);
        pack_u64(writer, fact->items[i].prefix);
        pack_u64(writer, fact->items[i].speed);
    }
}

static void read_address(struct pack_reader *reader, struct fact_address *out)
{
    uint32_t extra = fact_element_open(reader, 3);
    pack_read_text_copy(reader, out->text, sizeof out->text);
    out->prefix = (uint32_t)pack_read_u64_max(reader, 128);
    out->speed = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    out->speed = out->speed == 0 ? 1 : out->speed;
    reader->failed |= out->text[0] == '\0';
    fact_element_close(reader, extra);
}

int fact_addresses_read(const struct record *record, struct fact_addresses *out)
{
    struct pack_reader reader;
    uint32_t extra;
    memset(out, 0, sizeof *out);
    fact_body_open(&reader, record, 1, &extra);
    out->count = pack_read_array(&reader);
    if (out->count > FACT_ANNOUNCED_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->count && !reader.failed; i++) {
        read_address(&reader, &out->items[i]);
    }
    return fact_body_close_unkeyed(&reader, extra, record);
}

void fact_links_pack(struct pack_writer *writer, const struct fact_links *fact)
{
    pack_array(writer, 2);
    pack_array(writer, fact->network_count);
    for (uint32_t i = 0; i < fact->network_count; i++) {
        pack_text(writer, fact->networks[i]);
    }
    pack_array(writer, fact->unreached_count);
    for (uint32_t i = 0; i < fact->unreached_count; i++) {
        pack_array(writer, 2);
        pack_bin(writer, fact->unreached[i].node, sizeof fact->unreached[i].node);
        pack_u64(writer, fact->unreached[i].networks);
    }
}

int fact_links_read(const struct record *record, struct fact_links *out)
{
    struct pack_reader reader;
    uint32_t extra;
    memset(out, 0, sizeof *out);
    fact_body_open(&reader, record, 2, &extra);
    out->network_count = pack_read_array(&reader);
    if (out->network_count > FACT_NETWORKS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->network_count; i++) {
        pack_read_text_copy(&reader, out->networks[i], sizeof out->networks[i]);
    }
    out->unreached_count = pack_read_array(&reader);
    if (out->unreached_count > FACT_UNREACHED_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->unreached_count; i++) {
        struct fact_unreached *item = &out->unreached[i];
        uint32_t more = fact_element_open(&reader, 2);
        pack_read_bin_exact(&reader, item->node, sizeof item->node);
        item->networks = (uint32_t)pack_read_u64_max(&reader, (1u << FACT_NETWORKS_MAX) - 1);
        fact_element_close(&reader, more);
        bool follows = i == 0 || memcmp(out->unreached[i - 1].node, item->node, sizeof item->node) < 0;
        if (!follows || item->networks == 0) {
            return ERR_MALFORMED;
        }
    }
    return fact_body_close_unkeyed(&reader, extra, record);
}
