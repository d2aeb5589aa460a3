#include "node/core/facts.h"

#include <sodium/crypto_generichash.h>

#include "base/err.h"
#include "gossip/lease.h"
#include "train/search.h"

_Static_assert(FACT_SLOTS_MAX == LEASE_SLOTS_MAX, "a node record lists every slot that can be leased");

/* Bodies are arrays; a reader takes the elements that it knows and skips what a later version has added behind. */

static void body_open(struct pack_reader *reader, const struct record *record, uint32_t least, uint32_t *extra)
{
    pack_reader_init(reader, record->body, record->body_bytes);
    uint32_t count = pack_read_array(reader);
    if (count < least) {
        reader->failed = true;
    }
    *extra = reader->failed ? 0 : count - least;
}

static int body_close(struct pack_reader *reader, uint32_t extra)
{
    for (uint32_t i = 0; i < extra; i++) {
        pack_skip(reader);
    }
    return pack_at_end(reader) ? 0 : ERR_MALFORMED;
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

#define KEY_EXPERIMENT_BYTES EXPERIMENT_ID_BYTES
#define KEY_CANCEL_BYTES (EXPERIMENT_ID_BYTES + 1)
#define KEY_ATTEMPT_BYTES (EXPERIMENT_ID_BYTES + 4 + 4 + 8)
#define KEY_VERDICT_BYTES (KEY_ATTEMPT_BYTES + NODE_ID_BYTES)
#define KEY_WORKER_BYTES (KEY_VERDICT_BYTES + 2)
#define KEY_MANIFEST_BYTES (KEY_VERDICT_BYTES + 8)

static struct fact_key key_of(const void *bytes, size_t count)
{
    struct fact_key key = {.count = (uint8_t)count};
    memcpy(key.bytes, bytes, count);
    return key;
}

struct fact_key fact_key_node_id(node_id node)
{
    return key_of(node.bytes, sizeof node.bytes);
}

struct fact_key fact_key_empty(void)
{
    return key_of("", 0);
}

struct fact_key fact_key_public_key(const uint8_t key[PUBLIC_KEY_BYTES])
{
    return key_of(key, PUBLIC_KEY_BYTES);
}

struct fact_key fact_key_slot(uint32_t slot)
{
    uint8_t byte = (uint8_t)slot;
    return key_of(&byte, 1);
}

struct fact_key fact_key_experiment(experiment_id experiment)
{
    return key_of(experiment.bytes, sizeof experiment.bytes);
}

struct fact_key fact_key_cancel(experiment_id experiment)
{
    struct fact_key key = fact_key_experiment(experiment);
    key.bytes[key.count++] = 1;
    return key;
}

struct fact_key fact_key_attempt(const attempt_id *attempt)
{
    struct fact_key key = fact_key_experiment(attempt->experiment);
    bytes_put_u32(key.bytes + 8, attempt->trial);
    bytes_put_u32(key.bytes + 12, attempt->number);
    bytes_put_u64(key.bytes + 16, attempt->term);
    key.count = KEY_ATTEMPT_BYTES;
    return key;
}

struct fact_key fact_key_verdict(const attempt_id *attempt)
{
    struct fact_key key = fact_key_attempt(attempt);
    memcpy(key.bytes + KEY_ATTEMPT_BYTES, attempt->coordinator.bytes, NODE_ID_BYTES);
    key.count = KEY_VERDICT_BYTES;
    return key;
}

struct fact_key fact_key_worker(const attempt_id *attempt, uint32_t number)
{
    struct fact_key key = fact_key_verdict(attempt);
    bytes_put_u16(key.bytes + KEY_VERDICT_BYTES, (uint16_t)number);
    key.count = KEY_WORKER_BYTES;
    return key;
}

struct fact_key fact_key_manifest(const attempt_id *attempt, uint64_t step)
{
    struct fact_key key = fact_key_verdict(attempt);
    bytes_put_u64(key.bytes + KEY_VERDICT_BYTES, step);
    key.count = KEY_MANIFEST_BYTES;
    return key;
}

int fact_key_read_node(const struct record *record, node_id *out)
{
    if (record->key_bytes != NODE_ID_BYTES) {
        return ERR_MALFORMED;
    }
    node_id node;
    memcpy(node.bytes, record->key, sizeof node.bytes);
    if (node_id_is_none(node)) {
        return ERR_MALFORMED;
    }
    *out = node;
    return 0;
}

int fact_key_read_experiment(const struct record *record, experiment_id *out)
{
    if (record->key_bytes < KEY_EXPERIMENT_BYTES) {
        return ERR_MALFORMED;
    }
    memcpy(out->bytes, record->key, sizeof out->bytes);
    return experiment_id_is_none(*out) ? ERR_MALFORMED : 0;
}

bool fact_is_of_experiment(const struct record *record, experiment_id *out)
{
    bool is_of_one = (record->kind >= FACT_EXPERIMENT && record->kind <= FACT_MANIFEST) || record->kind == FACT_DEATH ||
                     record->kind == FACT_GENERATION;
    return is_of_one && fact_key_read_experiment(record, out) == 0;
}

int fact_key_read_attempt(const struct record *record, attempt_id *out)
{
    bool is_own = record->kind == FACT_ATTEMPT;
    size_t expected = is_own                            ? KEY_ATTEMPT_BYTES
                      : record->kind == FACT_VERDICT    ? KEY_VERDICT_BYTES
                      : record->kind == FACT_DEATH      ? KEY_VERDICT_BYTES
                      : record->kind == FACT_GENERATION ? KEY_VERDICT_BYTES
                      : record->kind == FACT_WORKER     ? KEY_WORKER_BYTES
                                                        : KEY_MANIFEST_BYTES;
    attempt_id id;
    memset(&id, 0, sizeof id);
    if (record->key_bytes != expected || fact_key_read_experiment(record, &id.experiment) != 0) {
        return ERR_MALFORMED;
    }
    id.trial = bytes_get_u32(record->key + 8);
    id.number = bytes_get_u32(record->key + 12);
    id.term = bytes_get_u64(record->key + 16);
    if (is_own) {
        id.coordinator = record->writer;
    } else {
        memcpy(id.coordinator.bytes, record->key + KEY_ATTEMPT_BYTES, NODE_ID_BYTES);
    }
    if (id.trial >= SEARCH_TRIALS_MAX || id.number == 0 || node_id_is_none(id.coordinator)) {
        return ERR_MALFORMED;
    }
    *out = id;
    return 0;
}

int fact_key_read_number(const struct record *record, uint32_t *out)
{
    if (record->key_bytes != KEY_WORKER_BYTES) {
        return ERR_MALFORMED;
    }
    *out = bytes_get_u16(record->key + KEY_VERDICT_BYTES);
    return 0;
}

int fact_key_read_step(const struct record *record, uint64_t *out)
{
    if (record->key_bytes != KEY_MANIFEST_BYTES) {
        return ERR_MALFORMED;
    }
    *out = bytes_get_u64(record->key + KEY_VERDICT_BYTES);
    return 0;
}

int fact_key_read_slot(const struct record *record, uint32_t *out)
{
    if (record->key_bytes != 1 || record->key[0] >= FACT_SLOTS_MAX) {
        return ERR_MALFORMED;
    }
    *out = record->key[0];
    return 0;
}

/* ---- bodies -------------------------------------------------------------------------------------------------------- */

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
    body_open(&reader, record, 3, &extra);
    pack_read_bin_exact(&reader, fact.public_key, sizeof fact.public_key);
    pack_read_text_copy(&reader, fact.name, sizeof fact.name);
    pack_read_bin_exact(&reader, fact.nonce, sizeof fact.nonce);
    if (body_close(&reader, extra) != 0 || record->key_bytes != NODE_ID_BYTES ||
        memcmp(node_id_of_key(fact.public_key).bytes, record->key, NODE_ID_BYTES) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_node_pack(struct pack_writer *writer, const struct fact_node *fact)
{
    pack_array(writer, 8);
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
}

int fact_node_read(const struct record *record, struct fact_node *out)
{
    struct pack_reader reader;
    uint32_t extra;
    memset(out, 0, sizeof *out);
    body_open(&reader, record, 8, &extra);
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
    return record->key_bytes == 0 ? body_close(&reader, extra) : ERR_MALFORMED;
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
    body_open(&reader, record, 2, &extra);
    struct fact_invite fact;
    fact.expires_s = pack_read_u64(&reader);
    fact.revoked = pack_read_bool(&reader);
    if (body_close(&reader, extra) != 0 || record->key_bytes != PUBLIC_KEY_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

static void attempt_pack(struct pack_writer *writer, const attempt_id *attempt)
{
    struct fact_key key = fact_key_verdict(attempt);
    pack_bin(writer, key.bytes, key.count);
}

static void attempt_read(struct pack_reader *reader, attempt_id *out)
{
    uint8_t bytes[KEY_VERDICT_BYTES];
    memset(out, 0, sizeof *out);
    pack_read_bin_exact(reader, bytes, sizeof bytes);
    memcpy(out->experiment.bytes, bytes, EXPERIMENT_ID_BYTES);
    out->trial = bytes_get_u32(bytes + 8);
    out->number = bytes_get_u32(bytes + 12);
    out->term = bytes_get_u64(bytes + 16);
    memcpy(out->coordinator.bytes, bytes + KEY_ATTEMPT_BYTES, NODE_ID_BYTES);
}

void fact_slot_pack(struct pack_writer *writer, const struct fact_slot *fact)
{
    pack_array(writer, 6);
    pack_u64(writer, fact->state);
    attempt_pack(writer, &fact->attempt);
    pack_u64(writer, fact->rank);
    pack_bin(writer, fact->token_hash, sizeof fact->token_hash);
    pack_bool(writer, fact->withheld);
    pack_u64(writer, fact->withheld_s);
}

int fact_slot_read(const struct record *record, struct fact_slot *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_slot fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 4, &extra);
    fact.state = (uint32_t)pack_read_u64_max(&reader, LEASE_WITHHELD);
    attempt_read(&reader, &fact.attempt);
    fact.rank = (uint32_t)pack_read_u64_max(&reader, FACT_MEMBERS_MAX - 1);
    pack_read_bin_exact(&reader, fact.token_hash, sizeof fact.token_hash);
    if (extra >= 2) { /* added later: a record of before says nothing of it */
        fact.withheld = pack_read_bool(&reader);
        fact.withheld_s = pack_read_u64_max(&reader, FACT_WITHHELD_S_MAX);
        extra -= 2;
    }
    if (body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_experiment_pack(struct pack_writer *writer, const struct fact_experiment *fact)
{
    pack_array(writer, 5);
    pack_u64(writer, fact->submitted_s);
    pack_bin(writer, fact->code.bytes, HASH_BYTES);
    pack_u64(writer, fact->code_bytes);
    pack_bin(writer, fact->config_text.bytes, HASH_BYTES);
    pack_raw(writer, fact->config, fact->config_bytes);
}

int fact_experiment_read(const struct record *record, struct fact_experiment *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_experiment fact;
    body_open(&reader, record, 5, &extra);
    fact.submitted_s = pack_read_u64(&reader);
    pack_read_bin_exact(&reader, fact.code.bytes, HASH_BYTES);
    fact.code_bytes = pack_read_u64(&reader);
    pack_read_bin_exact(&reader, fact.config_text.bytes, HASH_BYTES);
    size_t bytes;
    fact.config = pack_read_any(&reader, &bytes);
    fact.config_bytes = (uint32_t)bytes;
    if (body_close(&reader, extra) != 0 || record->key_bytes != KEY_EXPERIMENT_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_control_pack(struct pack_writer *writer, const struct fact_control *fact)
{
    pack_array(writer, 3);
    pack_u64(writer, fact->lamport);
    pack_bool(writer, fact->paused);
    pack_bool(writer, fact->cancelled);
}

int fact_control_read(const struct record *record, struct fact_control *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_control fact;
    body_open(&reader, record, 3, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.paused = pack_read_bool(&reader);
    fact.cancelled = pack_read_bool(&reader);
    bool is_cancel = record->key_bytes == KEY_CANCEL_BYTES && record->key[KEY_EXPERIMENT_BYTES] == 1 && fact.cancelled &&
                     fact.lamport == 0 && !fact.paused;
    if (body_close(&reader, extra) != 0 || (record->key_bytes != KEY_EXPERIMENT_BYTES && !is_cancel)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_claim_pack(struct pack_writer *writer, const struct fact_claim *fact)
{
    pack_array(writer, 2);
    pack_u64(writer, fact->term);
    pack_bool(writer, fact->released);
}

int fact_claim_read(const struct record *record, struct fact_claim *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_claim fact;
    body_open(&reader, record, 2, &extra);
    fact.term = pack_read_u64(&reader);
    fact.released = pack_read_bool(&reader);
    if (body_close(&reader, extra) != 0 || record->key_bytes != KEY_EXPERIMENT_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_attempt_pack(struct pack_writer *writer, const struct fact_attempt *fact)
{
    pack_array(writer, 4);
    pack_array(writer, fact->member_count);
    for (uint32_t i = 0; i < fact->member_count; i++) {
        pack_array(writer, 2);
        pack_bin(writer, fact->members[i].node.bytes, NODE_ID_BYTES);
        pack_u64(writer, fact->members[i].slot);
    }
    pack_u64(writer, fact->start_step);
    pack_bin(writer, fact->checkpoint.bytes, HASH_BYTES);
    pack_u64(writer, fact->checkpoint_bytes);
}

int fact_attempt_read(const struct record *record, struct fact_attempt *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_attempt fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 4, &extra);
    fact.member_count = pack_read_array(&reader);
    if (fact.member_count == 0 || fact.member_count > FACT_MEMBERS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < fact.member_count; i++) {
        if (pack_read_array(&reader) != 2) {
            return ERR_MALFORMED;
        }
        pack_read_bin_exact(&reader, fact.members[i].node.bytes, NODE_ID_BYTES);
        fact.members[i].slot = (uint32_t)pack_read_u64_max(&reader, FACT_SLOTS_MAX - 1);
    }
    fact.start_step = pack_read_u64(&reader);
    pack_read_bin_exact(&reader, fact.checkpoint.bytes, HASH_BYTES);
    fact.checkpoint_bytes = pack_read_u64(&reader);
    if (body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

static void places_pack(struct pack_writer *writer, const struct fact_place *places, uint32_t count)
{
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_array(writer, 4);
        pack_bin(writer, places[i].node.bytes, NODE_ID_BYTES);
        pack_u64(writer, places[i].slot);
        pack_u64(writer, places[i].number);
        pack_bool(writer, places[i].has_state);
    }
}

void fact_generation_pack(struct pack_writer *writer, const struct fact_generation *fact)
{
    pack_array(writer, 6);
    pack_u64(writer, fact->generation);
    pack_u64(writer, fact->term);
    pack_u64(writer, fact->start_step);
    pack_bool(writer, fact->is_leaving);
    places_pack(writer, fact->members, fact->member_count);
    places_pack(writer, fact->joiners, fact->joiner_count);
}

static uint32_t places_read(struct pack_reader *reader, struct fact_place places[FACT_MEMBERS_MAX])
{
    uint32_t count = pack_read_array(reader);
    if (count > FACT_MEMBERS_MAX) {
        reader->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        uint32_t fields = pack_read_array(reader);
        if (fields < 4) {
            reader->failed = true;
            return 0;
        }
        pack_read_bin_exact(reader, places[i].node.bytes, NODE_ID_BYTES);
        places[i].slot = (uint32_t)pack_read_u64_max(reader, FACT_SLOTS_MAX - 1);
        places[i].number = (uint32_t)pack_read_u64_max(reader, UINT16_MAX);
        places[i].has_state = pack_read_bool(reader);
        for (uint32_t more = 4; more < fields && !reader->failed; more++) {
            pack_skip(reader);
        }
    }
    return count;
}

/* No worker twice, and no slot among the members; who joins may take the place of one that has ended there. */
static bool places_differ(const struct fact_generation *fact)
{
    uint32_t count = fact->member_count + fact->joiner_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct fact_place *a = i < fact->member_count ? &fact->members[i] : &fact->joiners[i - fact->member_count];
        for (uint32_t j = 0; j < i; j++) {
            const struct fact_place *b =
                j < fact->member_count ? &fact->members[j] : &fact->joiners[j - fact->member_count];
            bool are_members = i < fact->member_count;
            if (a->number == b->number || (are_members && a->slot == b->slot && node_id_equal(a->node, b->node))) {
                return false;
            }
        }
    }
    return true;
}

int fact_generation_read(const struct record *record, struct fact_generation *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_generation fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 6, &extra);
    fact.generation = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.term = pack_read_u64(&reader);
    fact.start_step = pack_read_u64(&reader);
    fact.is_leaving = pack_read_bool(&reader);
    fact.member_count = places_read(&reader, fact.members);
    fact.joiner_count = places_read(&reader, fact.joiners);
    if (body_close(&reader, extra) != 0 || fact.generation == 0 || fact.term == 0 || fact.member_count == 0 ||
        !places_differ(&fact)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

static const uint8_t *metrics_read(struct pack_reader *reader, uint32_t *bytes)
{
    size_t count;
    const uint8_t *metrics = pack_read_bin(reader, &count);
    if (count > FACT_METRICS_BYTES_MAX) {
        reader->failed = true;
    }
    *bytes = (uint32_t)count;
    return metrics;
}

void fact_worker_pack(struct pack_writer *writer, const struct fact_worker *fact)
{
    pack_array(writer, 15);
    pack_u64(writer, fact->state);
    pack_text(writer, fact->host);
    pack_u64(writer, fact->master_port);
    pack_u64(writer, fact->data_port);
    pack_u64(writer, fact->generation);
    pack_u64(writer, fact->step);
    pack_u64(writer, fact->reason);
    pack_i64(writer, fact->exit_code);
    pack_u64(writer, fact->started_s);
    pack_bin(writer, fact->metrics, fact->metrics_bytes);
    pack_text(writer, fact->tail);
    pack_bool(writer, fact->is_elastic);
    pack_bool(writer, fact->waits);
    pack_bool(writer, fact->has_state);
    pack_u64(writer, fact->applied_step);
}

int fact_worker_read(const struct record *record, struct fact_worker *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_worker fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 11, &extra);
    fact.state = (enum fact_worker_state)pack_read_u64_max(&reader, FACT_WORKER_ENDED);
    pack_read_text_copy(&reader, fact.host, sizeof fact.host);
    fact.master_port = (uint32_t)pack_read_u64_max(&reader, UINT16_MAX);
    fact.data_port = (uint32_t)pack_read_u64_max(&reader, UINT16_MAX);
    fact.generation = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.step = pack_read_u64(&reader);
    fact.reason = (enum fact_reason)pack_read_u64_max(&reader, FACT_REASONS - 1);
    int64_t exit_code = pack_read_i64(&reader);
    fact.started_s = pack_read_u64(&reader);
    fact.metrics = metrics_read(&reader, &fact.metrics_bytes);
    pack_read_text_copy(&reader, fact.tail, sizeof fact.tail);
    if (extra >= 4) {
        extra -= 4;
        fact.is_elastic = pack_read_bool(&reader);
        fact.waits = pack_read_bool(&reader);
        fact.has_state = pack_read_bool(&reader);
        fact.applied_step = pack_read_u64(&reader);
    }
    if (body_close(&reader, extra) != 0 || exit_code < INT16_MIN || exit_code > INT16_MAX) {
        return ERR_MALFORMED;
    }
    fact.exit_code = (int32_t)exit_code;
    *out = fact;
    return 0;
}

void fact_verdict_pack(struct pack_writer *writer, const struct fact_verdict *fact)
{
    pack_array(writer, 5);
    pack_u64(writer, fact->reason);
    pack_u64(writer, fact->step);
    pack_bin(writer, fact->metrics, fact->metrics_bytes);
    pack_u64(writer, fact->duration_s);
    pack_text(writer, fact->why);
}

int fact_verdict_read(const struct record *record, struct fact_verdict *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_verdict fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 5, &extra);
    fact.reason = (enum fact_reason)pack_read_u64_max(&reader, FACT_REASONS - 1);
    fact.step = pack_read_u64(&reader);
    fact.metrics = metrics_read(&reader, &fact.metrics_bytes);
    fact.duration_s = pack_read_u64(&reader);
    pack_read_text_copy(&reader, fact.why, sizeof fact.why);
    if (body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_manifest_pack(struct pack_writer *writer, const struct fact_manifest *fact)
{
    pack_array(writer, 5);
    pack_bin(writer, fact->blob.bytes, HASH_BYTES);
    pack_u64(writer, fact->bytes);
    pack_array(writer, fact->holder_count);
    for (uint32_t i = 0; i < fact->holder_count; i++) {
        pack_bin(writer, fact->holders[i].bytes, NODE_ID_BYTES);
    }
    pack_bool(writer, fact->durable);
    if (fact->has_metric) {
        pack_double(writer, fact->metric);
    } else {
        pack_nil(writer);
    }
}

int fact_manifest_read(const struct record *record, struct fact_manifest *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_manifest fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 4, &extra);
    pack_read_bin_exact(&reader, fact.blob.bytes, HASH_BYTES);
    fact.bytes = pack_read_u64(&reader);
    fact.holder_count = pack_read_array(&reader);
    if (fact.holder_count > FACT_HOLDERS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < fact.holder_count; i++) {
        pack_read_bin_exact(&reader, fact.holders[i].bytes, NODE_ID_BYTES);
    }
    fact.durable = pack_read_bool(&reader);
    if (extra > 0) { /* as first landed it had no metric */
        extra--;
        fact.has_metric = pack_peek(&reader) != PACK_NIL;
        if (fact.has_metric) {
            fact.metric = pack_read_double(&reader);
        } else {
            pack_skip(&reader);
        }
    }
    if (fact.metric - fact.metric != 0 || body_close(&reader, extra) != 0) {
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
    body_open(&reader, record, 1, &extra);
    size_t count;
    const uint8_t *standing = pack_read_bin(&reader, &count);
    if (body_close(&reader, extra) != 0 || fact_key_read_node(record, &evicted) != 0 ||
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
    body_open(&reader, record, 1, &extra);
    size_t count;
    const uint8_t *standing = pack_read_bin(&reader, &count);
    size_t low = 0, high = reader.failed ? 0 : count / NODE_ID_BYTES;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = memcmp(standing + middle * NODE_ID_BYTES, node.bytes, NODE_ID_BYTES);
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
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
    body_open(&reader, record, 4, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.drained = pack_read_bool(&reader);
    fact.at_once = pack_read_bool(&reader);
    fact.is_idle = pack_read_bool(&reader);
    if (body_close(&reader, extra) != 0 || fact.lamport == 0 || fact_key_read_node(record, &node) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_death_pack(struct pack_writer *writer, const struct fact_death *fact)
{
    pack_array(writer, 4);
    pack_bin(writer, fact->node.bytes, NODE_ID_BYTES);
    pack_u64(writer, fact->boot);
    pack_u64(writer, fact->lived_ms);
    pack_u64(writer, fact->suspects);
}

int fact_death_read(const struct record *record, struct fact_death *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_death fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 4, &extra);
    pack_read_bin_exact(&reader, fact.node.bytes, NODE_ID_BYTES);
    fact.boot = pack_read_u64(&reader);
    fact.lived_ms = pack_read_u64(&reader);
    fact.suspects = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    if (body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_quarantine_pack(struct pack_writer *writer, const struct fact_quarantine *fact)
{
    pack_array(writer, 4);
    pack_bool(writer, fact->is_active);
    pack_u64(writer, fact->level);
    pack_u64(writer, fact->minutes);
    pack_text(writer, fact->why);
}

int fact_quarantine_read(const struct record *record, struct fact_quarantine *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_quarantine fact;
    memset(&fact, 0, sizeof fact);
    body_open(&reader, record, 4, &extra);
    fact.is_active = pack_read_bool(&reader);
    fact.level = (uint32_t)pack_read_u64_max(&reader, FACT_QUARANTINE_LEVEL_MAX);
    fact.minutes = (uint32_t)pack_read_u64_max(&reader, 60);
    pack_read_text_copy(&reader, fact.why, sizeof fact.why);
    if (body_close(&reader, extra) != 0 || record->key_bytes != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_tombstone_pack(struct pack_writer *writer)
{
    pack_array(writer, 0);
}

int fact_tombstone_read(const struct record *record)
{
    struct pack_reader reader;
    uint32_t extra;
    body_open(&reader, record, 0, &extra);
    return body_close(&reader, extra);
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
