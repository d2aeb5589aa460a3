#include "node/core/facts/inside.h"

#include "base/err.h"
#include "train/search/search.h"

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

struct fact_key fact_key_trial(experiment_id experiment, uint32_t trial)
{
    struct fact_key key = fact_key_experiment(experiment);
    bytes_put_u32(key.bytes + key.count, trial);
    key.count += 4;
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

struct fact_key fact_key_output(const attempt_id *attempt, uint32_t number, uint32_t place)
{
    struct fact_key key = fact_key_worker(attempt, number);
    key.bytes[key.count++] = (uint8_t)place;
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

const char *fact_kind_name(uint16_t kind)
{
    switch (kind) {
#define NAME(name, number, word, of_experiment, folds) \
    case number:                                       \
        return #word;
        FACT_KINDS(NAME)
#undef NAME
    default:
        return "unknown";
    }
}

static bool kind_is_of_experiment(uint16_t kind)
{
    switch (kind) {
#define OF(name, number, word, of_experiment, folds) \
    case number:                                     \
        return of_experiment;
        FACT_KINDS(OF)
#undef OF
    default:
        return false;
    }
}

bool fact_is_of_experiment(const struct record *record, experiment_id *out)
{
    return kind_is_of_experiment(record->kind) && fact_key_read_experiment(record, out) == 0;
}

int fact_key_read_attempt(const struct record *record, attempt_id *out)
{
    bool is_own = record->kind == FACT_ATTEMPT || record->kind == FACT_ATTEMPT_LARGE;
    size_t expected = is_own                                  ? KEY_ATTEMPT_BYTES
                      : record->kind == FACT_VERDICT          ? KEY_VERDICT_BYTES
                      : record->kind == FACT_DEATH            ? KEY_VERDICT_BYTES
                      : record->kind == FACT_GENERATION       ? KEY_VERDICT_BYTES
                      : record->kind == FACT_GENERATION_LARGE ? KEY_VERDICT_BYTES
                      : record->kind == FACT_WORKER           ? KEY_WORKER_BYTES
                      : record->kind == FACT_OUTPUT           ? KEY_OUTPUT_BYTES
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
    if (record->key_bytes != (record->kind == FACT_OUTPUT ? KEY_OUTPUT_BYTES : KEY_WORKER_BYTES)) {
        return ERR_MALFORMED;
    }
    *out = bytes_get_u16(record->key + KEY_VERDICT_BYTES);
    return 0;
}

int fact_key_read_place(const struct record *record, uint32_t *out)
{
    if (record->key_bytes != KEY_OUTPUT_BYTES || record->key[KEY_WORKER_BYTES] >= FACT_OUTPUT_PLACES) {
        return ERR_MALFORMED;
    }
    *out = record->key[KEY_WORKER_BYTES];
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

void fact_body_open(struct pack_reader *reader, const struct record *record, uint32_t least, uint32_t *extra)
{
    pack_reader_init(reader, record->body, record->body_bytes);
    uint32_t count = pack_read_array(reader);
    if (count < least) {
        reader->failed = true;
    }
    *extra = reader->failed ? 0 : count - least;
}

int fact_body_close(struct pack_reader *reader, uint32_t extra)
{
    for (uint32_t i = 0; i < extra; i++) {
        pack_skip(reader);
    }
    return pack_at_end(reader) ? 0 : ERR_MALFORMED;
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

void fact_attempt_id_pack(struct pack_writer *writer, const attempt_id *attempt)
{
    struct fact_key key = fact_key_verdict(attempt);
    pack_bin(writer, key.bytes, key.count);
}

void fact_attempt_id_read(struct pack_reader *reader, attempt_id *out)
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
