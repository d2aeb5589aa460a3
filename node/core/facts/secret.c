/* Records of secrets. */

#include "node/core/facts/inside.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/core/facts/config.h"

#define HEAD_BYTES 64 /* more than the body has beside the sealed value and the copies */

_Static_assert(CONFIG_SECRET_BYTES == FACT_NAME_BYTES, "a configuration can name every secret");

uint32_t fact_secret_copies_max(uint32_t sealed_bytes)
{
    return (RECORD_BODY_BYTES_MAX - HEAD_BYTES - sealed_bytes) / FACT_SECRET_COPY_BYTES;
}

const uint8_t *fact_secret_copy(const struct fact_secret *fact, node_id node)
{
    for (uint32_t i = 0; i < fact->copy_count; i++) {
        const uint8_t *copy = fact->copies + (size_t)i * FACT_SECRET_COPY_BYTES;
        if (memcmp(copy, node.bytes, NODE_ID_BYTES) == 0) {
            return copy + NODE_ID_BYTES;
        }
    }
    return NULL;
}

struct fact_key fact_key_secret(const char *name, uint32_t page)
{
    struct fact_key key = {.count = (uint8_t)(strlen(name) + 2)};
    CHECK(strlen(name) < FACT_NAME_BYTES && page <= UINT8_MAX);
    memcpy(key.bytes, name, strlen(name) + 1);
    key.bytes[key.count - 1] = (uint8_t)page;
    return key;
}

int fact_key_read_secret(const struct record *record, char name[FACT_NAME_BYTES], uint32_t *page)
{
    size_t bytes = record->key_bytes >= 3 ? record->key_bytes - 2u : 0;
    if (bytes == 0 || record->key[bytes] != '\0' || !config_secret_name_is_sound((const char *)record->key, bytes)) {
        return ERR_MALFORMED;
    }
    memcpy(name, record->key, bytes + 1);
    *page = record->key[bytes + 1];
    return 0;
}

void fact_secret_pack(struct pack_writer *writer, const struct fact_secret *fact)
{
    pack_array(writer, 6);
    pack_u64(writer, fact->lamport);
    pack_bool(writer, fact->removed);
    pack_bin(writer, fact->value, sizeof fact->value);
    pack_u64(writer, fact->set_s);
    pack_bin(writer, fact->sealed, fact->sealed_bytes);
    pack_bin(writer, fact->copies, (size_t)fact->copy_count * FACT_SECRET_COPY_BYTES);
}

int fact_secret_read(const struct record *record, struct fact_secret *out)
{
    struct pack_reader reader;
    struct fact_secret fact;
    char name[FACT_NAME_BYTES];
    uint32_t extra, page;
    size_t sealed = 0, copies = 0;
    fact_body_open(&reader, record, 6, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.removed = pack_read_bool(&reader);
    pack_read_bin_exact(&reader, fact.value, sizeof fact.value);
    fact.set_s = pack_read_u64(&reader);
    fact.sealed = pack_read_bin(&reader, &sealed);
    fact.copies = pack_read_bin(&reader, &copies);
    fact.sealed_bytes = (uint32_t)sealed;
    fact.copy_count = (uint32_t)(copies / FACT_SECRET_COPY_BYTES);
    if (fact_body_close(&reader, extra) != 0 || fact_key_read_secret(record, name, &page) != 0 || fact.lamport == 0 ||
        copies % FACT_SECRET_COPY_BYTES != 0 || sealed > FACT_SECRET_SEALED_MAX || (sealed == 0 && copies > 0) ||
        (fact.removed && sealed > 0)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}
