#include "node/core/facts/inside.h"

#include <sodium/crypto_generichash.h>

#include "base/bisect.h"
#include "base/err.h"
#include "gossip/lease.h"

_Static_assert(FACT_SLOTS_MAX == LEASE_SLOTS_MAX, "a node record lists every slot that can be leased");

void fact_member_pack(struct pack_writer *writer, const struct fact_member *fact)
{
    pack_array(writer, 3);
    pack_bin(writer, fact->public_key, sizeof fact->public_key);
    pack_text(writer, fact->name);
    pack_bin(writer, fact->nonce, sizeof fact->nonce);
}

int fact_member_read(const struct record *record, struct fact_member *out)
{
    struct pack_reader reader;
    struct fact_member fact;
    uint32_t extra;
    fact_body_open(&reader, record, 3, &extra);
    pack_read_bin_exact(&reader, fact.public_key, sizeof fact.public_key);
    pack_read_text_copy(&reader, fact.name, sizeof fact.name);
    pack_read_bin_exact(&reader, fact.nonce, sizeof fact.nonce);
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != NODE_ID_BYTES ||
        memcmp(node_id_of_key(fact.public_key).bytes, record->key, NODE_ID_BYTES) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_node_pack(struct pack_writer *writer, const struct fact_node *fact)
{
    bool has_door = fact->door.address[0] != '\0';
    pack_array(writer, fact->label_count > 0 ? 12 : has_door ? 11 : 9);
    pack_text(writer, fact->name);
    pack_text(writer, fact->version);
    pack_u64(writer, fact->protocol_min);
    pack_u64(writer, fact->protocol_max);
    pack_array(writer, fact->address_count);
    for (uint32_t i = 0; i < fact->address_count; i++) {
        pack_text(writer, fact->addresses[i]);
    }
    pack_u64(writer, fact->bulk_port);
    pack_bool(writer, fact->left);
    pack_array(writer, fact->slot_count);
    for (uint32_t i = 0; i < fact->slot_count; i++) {
        const struct fact_slot_info *slot = &fact->slots[i];
        pack_array(writer, 4);
        pack_text(writer, slot->uuid);
        pack_text(writer, slot->model);
        pack_u64(writer, slot->kind);
        pack_u64(writer, slot->memory_bytes);
    }
    pack_u64(writer, fact->reads);
    if (has_door || fact->label_count > 0) {
        pack_text(writer, fact->door.address);
        pack_bin(writer, fact->door.certificate, sizeof fact->door.certificate);
    }
    if (fact->label_count > 0) {
        pack_array(writer, fact->label_count);
        for (uint32_t i = 0; i < fact->label_count; i++) {
            pack_text(writer, fact->labels[i]);
        }
    }
}

int fact_node_read(const struct record *record, struct fact_node *out)
{
    struct pack_reader reader;
    uint32_t extra;
    memset(out, 0, sizeof *out);
    fact_body_open(&reader, record, 8, &extra);
    pack_read_text_copy(&reader, out->name, sizeof out->name);
    pack_read_text_copy(&reader, out->version, sizeof out->version);
    out->protocol_min = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    out->protocol_max = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    out->address_count = pack_read_array(&reader);
    if (out->address_count > FACT_ADDRESSES_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->address_count; i++) {
        pack_read_text_copy(&reader, out->addresses[i], sizeof out->addresses[i]);
    }
    out->bulk_port = (uint32_t)pack_read_u64_max(&reader, UINT16_MAX);
    out->left = pack_read_bool(&reader);
    out->slot_count = pack_read_array(&reader);
    if (out->slot_count > FACT_SLOTS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->slot_count; i++) {
        struct fact_slot_info *slot = &out->slots[i];
        if (pack_read_array(&reader) != 4) {
            return ERR_MALFORMED;
        }
        pack_read_text_copy(&reader, slot->uuid, sizeof slot->uuid);
        pack_read_text_copy(&reader, slot->model, sizeof slot->model);
        slot->kind = (enum fact_slot_kind)pack_read_u64_max(&reader, FACT_SLOT_CUDA);
        slot->memory_bytes = pack_read_u64(&reader);
    }
    if (extra > 0) { /* records of the first versions end here */
        out->reads = pack_read_u64(&reader);
        extra--;
    }
    if (extra > 1) {
        pack_read_text_copy(&reader, out->door.address, sizeof out->door.address);
        pack_read_bin_exact(&reader, out->door.certificate, sizeof out->door.certificate);
        extra -= 2;
    }
    if (extra > 0) {
        out->label_count = pack_read_array(&reader);
        if (out->label_count > FACT_NODE_LABELS_MAX) {
            return ERR_MALFORMED;
        }
        for (uint32_t i = 0; i < out->label_count; i++) {
            pack_read_text_copy(&reader, out->labels[i], sizeof out->labels[i]);
        }
        extra--;
    }
    return fact_body_close_unkeyed(&reader, extra, record);
}

void fact_invite_pack(struct pack_writer *writer, const struct fact_invite *fact)
{
    pack_array(writer, 2);
    pack_u64(writer, fact->expires_s);
    pack_bool(writer, fact->revoked);
}

int fact_invite_read(const struct record *record, struct fact_invite *out)
{
    struct pack_reader reader;
    uint32_t extra;
    fact_body_open(&reader, record, 2, &extra);
    struct fact_invite fact;
    fact.expires_s = pack_read_u64(&reader);
    fact.revoked = pack_read_bool(&reader);
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != PUBLIC_KEY_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_token_pack(struct pack_writer *writer, const struct fact_token *fact)
{
    pack_array(writer, 5);
    pack_u64(writer, fact->expires_s);
    pack_bool(writer, fact->revoked);
    pack_bool(writer, fact->read_only);
    pack_u64(writer, fact->created_s);
    pack_text(writer, fact->name);
}

int fact_token_read(const struct record *record, struct fact_token *out)
{
    struct pack_reader reader;
    uint32_t extra;
    fact_body_open(&reader, record, 5, &extra);
    struct fact_token fact;
    fact.expires_s = pack_read_u64(&reader);
    fact.revoked = pack_read_bool(&reader);
    fact.read_only = pack_read_bool(&reader);
    fact.created_s = pack_read_u64(&reader);
    pack_read_text_copy(&reader, fact.name, sizeof fact.name);
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != HASH_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_slot_pack(struct pack_writer *writer, const struct fact_slot *fact)
{
    pack_array(writer, 7);
    pack_u64(writer, fact->state);
    fact_attempt_id_pack(writer, &fact->attempt);
    pack_u64(writer, fact->rank);
    pack_bin(writer, fact->token_hash, sizeof fact->token_hash);
    pack_bool(writer, fact->withheld);
    pack_u64(writer, fact->withheld_s);
    pack_u64(writer, fact->since_s);
}

int fact_slot_read(const struct record *record, struct fact_slot *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_slot fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 4, &extra);
    fact.state = (uint32_t)pack_read_u64_max(&reader, LEASE_WITHHELD);
    fact_attempt_id_read(&reader, &fact.attempt);
    fact.rank = (uint32_t)pack_read_u64_max(&reader, UINT16_MAX);
    pack_read_bin_exact(&reader, fact.token_hash, sizeof fact.token_hash);
    if (extra >= 2) { /* records of older versions do not have these two */
        fact.withheld = pack_read_bool(&reader);
        fact.withheld_s = pack_read_u64_max(&reader, FACT_WITHHELD_S_MAX);
        extra -= 2;
    }
    if (extra >= 1) { /* nor this one */
        fact.since_s = pack_read_u64(&reader);
        extra--;
    }
    if (fact_body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

_Static_assert(FACT_STANDING_MAX * NODE_ID_BYTES + 8 <= RECORD_BODY_BYTES_MAX, "a full list fits into a record");

void fact_eviction_pack(struct pack_writer *writer, const struct fact_eviction *fact)
{
    pack_array(writer, 1);
    pack_bin(writer, fact->standing, fact->standing_count * sizeof fact->standing[0]);
}

int fact_eviction_read(const struct record *record, struct fact_eviction *out)
{
    struct pack_reader reader;
    uint32_t extra;
    node_id evicted;
    fact_body_open(&reader, record, 1, &extra);
    size_t count;
    const uint8_t *standing = pack_read_bin(&reader, &count);
    if (fact_body_close(&reader, extra) != 0 || fact_key_read_node(record, &evicted) != 0 ||
        node_id_equal(evicted, record->writer) || count % NODE_ID_BYTES != 0 ||
        count > sizeof out->standing) {
        return ERR_MALFORMED;
    }
    for (size_t at = NODE_ID_BYTES; at < count; at += NODE_ID_BYTES) {
        if (memcmp(standing + at - NODE_ID_BYTES, standing + at, NODE_ID_BYTES) >= 0) {
            return ERR_MALFORMED;
        }
    }
    out->standing_count = (uint32_t)(count / NODE_ID_BYTES);
    if (count > 0) {
        memcpy(out->standing, standing, count);
    }
    return 0;
}

bool fact_eviction_lists(const struct record *record, node_id node)
{
    struct pack_reader reader;
    uint32_t extra;
    fact_body_open(&reader, record, 1, &extra);
    size_t count;
    const uint8_t *standing = pack_read_bin(&reader, &count);
    struct bisection search = bisect_all(reader.failed ? 0 : (uint32_t)(count / NODE_ID_BYTES));
    uint32_t listed = search.high;
    while (bisect_next(&search)) {
        bisect_answer(&search, memcmp(standing + search.middle * NODE_ID_BYTES, node.bytes, NODE_ID_BYTES) < 0);
    }
    return search.low < listed && memcmp(standing + search.low * NODE_ID_BYTES, node.bytes, NODE_ID_BYTES) == 0;
}

void fact_drain_pack(struct pack_writer *writer, const struct fact_drain *fact)
{
    pack_array(writer, 4);
    pack_u64(writer, fact->lamport);
    pack_bool(writer, fact->drained);
    pack_bool(writer, fact->at_once);
    pack_bool(writer, fact->is_idle);
}

int fact_drain_read(const struct record *record, struct fact_drain *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_drain fact;
    node_id node;
    fact_body_open(&reader, record, 4, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.drained = pack_read_bool(&reader);
    fact.at_once = pack_read_bool(&reader);
    fact.is_idle = pack_read_bool(&reader);
    if (fact_body_close(&reader, extra) != 0 || fact.lamport == 0 || fact_key_read_node(record, &node) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

/* ---- names from keys ------------------------------------------------------------------------------------------------ */

node_id node_id_of_key(const uint8_t public_key[PUBLIC_KEY_BYTES])
{
    node_id id;
    (void)crypto_generichash(id.bytes, sizeof id.bytes, public_key, PUBLIC_KEY_BYTES, NULL, 0);
    return id;
}

mesh_id mesh_id_of_founder(const uint8_t public_key[PUBLIC_KEY_BYTES], const uint8_t nonce[16])
{
    uint8_t bytes[PUBLIC_KEY_BYTES + 16];
    memcpy(bytes, public_key, PUBLIC_KEY_BYTES);
    memcpy(bytes + PUBLIC_KEY_BYTES, nonce, 16);
    mesh_id id;
    (void)crypto_generichash(id.bytes, sizeof id.bytes, bytes, sizeof bytes, NULL, 0);
    return id;
}
