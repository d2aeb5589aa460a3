#include "node/core/facts/inside.h"

#include <sodium/crypto_generichash.h>

#include "base/check.h"
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

struct fact_key fact_key_annotation(experiment_id experiment, enum fact_subject subject, const char *name)
{
    size_t bytes = strlen(name);
    struct fact_key key = fact_key_experiment(experiment);
    CHECK(bytes < FACT_LABEL_BYTES);
    key.bytes[key.count++] = (uint8_t)subject;
    memcpy(key.bytes + key.count, name, bytes);
    key.count = (uint8_t)(key.count + bytes);
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

struct fact_key fact_key_part(const attempt_id *attempt, const struct fact_part_key *part)
{
    struct fact_key key = fact_key_manifest(attempt, part->step);
    bytes_put_u64(key.bytes + KEY_MANIFEST_BYTES, part->save);
    bytes_put_u16(key.bytes + KEY_MANIFEST_BYTES + 8, (uint16_t)part->count);
    bytes_put_u16(key.bytes + KEY_MANIFEST_BYTES + 10, (uint16_t)part->part);
    key.count = KEY_PART_BYTES;
    return key;
}

struct fact_key fact_key_output(const attempt_id *attempt, uint32_t number, uint32_t place)
{
    struct fact_key key = fact_key_worker(attempt, number);
    key.bytes[key.count++] = (uint8_t)place;
    return key;
}

struct fact_key fact_key_result(const attempt_id *attempt, uint32_t rung)
{
    struct fact_key key = fact_key_verdict(attempt);
    key.bytes[key.count++] = (uint8_t)rung;
    return key;
}

struct fact_key fact_key_search_log(experiment_id experiment, struct fact_log_name log, uint32_t number)
{
    struct fact_key key = fact_key_experiment(experiment);
    memcpy(key.bytes + KEY_EXPERIMENT_BYTES, log.bytes, sizeof log.bytes);
    bytes_put_u32(key.bytes + KEY_EXPERIMENT_BYTES + sizeof log.bytes, number);
    key.count = KEY_SEARCH_LOG_BYTES;
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

int fact_key_read_trial(const struct record *record, experiment_id *experiment, uint32_t *trial)
{
    if (record->key_bytes != KEY_TRIAL_BYTES || fact_key_read_experiment(record, experiment) != 0) {
        return ERR_MALFORMED;
    }
    *trial = bytes_get_u32(record->key + KEY_EXPERIMENT_BYTES);
    return *trial < SEARCH_TRIALS_MAX ? 0 : ERR_MALFORMED;
}

/* The name of an annotation as a number in decimal digits without leading zeros, at most `max`. */
static int read_number(const struct record *record, uint32_t max, uint32_t *out)
{
    uint32_t number = 0, digits = record->key_bytes - KEY_SUBJECT_BYTES;
    if (record->key_bytes <= KEY_SUBJECT_BYTES || (record->key[KEY_SUBJECT_BYTES] == '0' && digits > 1)) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = KEY_SUBJECT_BYTES; i < record->key_bytes; i++) {
        uint8_t digit = record->key[i];
        number = digit >= '0' && digit <= '9' ? 10 * number + (uint32_t)(digit - '0') : max + 1;
        if (number > max) {
            return ERR_MALFORMED;
        }
    }
    *out = number;
    return 0;
}

int fact_key_read_max_trials(const struct record *record, uint32_t *out)
{
    uint32_t number;
    if (read_number(record, SEARCH_TRIALS_MAX, &number) != 0 || number == 0) {
        return ERR_MALFORMED;
    }
    *out = number;
    return 0;
}

int fact_key_read_described(const struct record *record, uint32_t *trial)
{
    return read_number(record, SEARCH_TRIALS_MAX - 1, trial);
}

int fact_key_read_annotation(const struct record *record, experiment_id *experiment, uint32_t *subject)
{
    if (record->key_bytes < KEY_SUBJECT_BYTES || fact_key_read_experiment(record, experiment) != 0) {
        return ERR_MALFORMED;
    }
    const uint8_t *name = record->key + KEY_SUBJECT_BYTES;
    size_t bytes = (size_t)record->key_bytes - KEY_SUBJECT_BYTES;
    *subject = record->key[KEY_EXPERIMENT_BYTES];
    uint32_t number;
    bool is_sound = *subject == FACT_LABEL        ? bytes > 0 && bytes < FACT_LABEL_BYTES && memchr(name, '\0', bytes) == NULL
                    : *subject == FACT_MAX_TRIALS ? fact_key_read_max_trials(record, &number) == 0
                    : *subject == FACT_TRIAL_DESCRIPTION ? fact_key_read_described(record, &number) == 0
                                                  : bytes == 0;
    return is_sound || *subject >= FACT_SUBJECTS ? 0 : ERR_MALFORMED;
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
                      : record->kind == FACT_RESULT           ? KEY_RESULT_BYTES
                      : record->kind == FACT_PART             ? KEY_PART_BYTES
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

hash256 fact_part_name(const attempt_id *attempt, const struct fact_part_key *part)
{
    static const char label[] = "shoal parts 1";
    uint8_t bytes[sizeof label + KEY_PART_BYTES];
    const struct fact_part_key first = {part->step, part->save, part->count, 0};
    const struct fact_key key = fact_key_part(attempt, &first);
    hash256 name;
    memcpy(bytes, label, sizeof label);
    memcpy(bytes + sizeof label, key.bytes, KEY_PART_BYTES);
    (void)crypto_generichash(name.bytes, sizeof name.bytes, bytes, sizeof bytes, NULL, 0);
    return name;
}

int fact_key_read_part(const struct record *record, struct fact_part_key *out)
{
    if (record->key_bytes != KEY_PART_BYTES) {
        return ERR_MALFORMED;
    }
    const uint8_t *bytes = record->key + KEY_VERDICT_BYTES;
    struct fact_part_key key = {.step = bytes_get_u64(bytes),
                                .save = bytes_get_u64(bytes + 8),
                                .count = bytes_get_u16(bytes + 16),
                                .part = bytes_get_u16(bytes + 18)};
    if (key.count == 0 || key.count > FACT_PARTS_MAX || key.part >= key.count) {
        return ERR_MALFORMED;
    }
    *out = key;
    return 0;
}

int fact_key_read_rung(const struct record *record, uint32_t *out)
{
    if (record->key_bytes != KEY_RESULT_BYTES || record->key[KEY_VERDICT_BYTES] >= FACT_RUNGS_MAX) {
        return ERR_MALFORMED;
    }
    *out = record->key[KEY_VERDICT_BYTES];
    return 0;
}

int fact_key_read_log(const struct record *record, struct fact_log_name *log, uint32_t *number)
{
    if (record->key_bytes != KEY_SEARCH_LOG_BYTES) {
        return ERR_MALFORMED;
    }
    memcpy(log->bytes, record->key + KEY_EXPERIMENT_BYTES, sizeof log->bytes);
    *number = bytes_get_u32(record->key + KEY_EXPERIMENT_BYTES + sizeof log->bytes);
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

uint32_t fact_element_open(struct pack_reader *reader, uint32_t least)
{
    uint32_t count = pack_read_array(reader);
    reader->failed |= count < least;
    return reader->failed ? 0 : count - least;
}

void fact_element_close(struct pack_reader *reader, uint32_t extra)
{
    for (uint32_t i = 0; i < extra && !reader->failed; i++) {
        pack_skip(reader);
    }
}

void fact_body_open(struct pack_reader *reader, const struct record *record, uint32_t least, uint32_t *extra)
{
    pack_reader_init(reader, record->body, record->body_bytes);
    *extra = fact_element_open(reader, least);
}

int fact_body_close(struct pack_reader *reader, uint32_t extra)
{
    fact_element_close(reader, extra);
    return pack_at_end(reader) ? 0 : ERR_MALFORMED;
}

int fact_body_close_unkeyed(struct pack_reader *reader, uint32_t extra, const struct record *record)
{
    return record->key_bytes == 0 ? fact_body_close(reader, extra) : ERR_MALFORMED;
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
