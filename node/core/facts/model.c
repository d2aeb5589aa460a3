/* Records of the model registry. */

#include "node/core/facts/inside.h"

#include <sodium/crypto_generichash.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"

#define SUBJECT_AT FACT_MODEL_HASH_BYTES
#define VERSION_AT (SUBJECT_AT + 1)
#define FIELD_AT (VERSION_AT + FACT_VERSION_BYTES)
#define KEY_BYTES_MAX (FIELD_AT + FACT_MODEL_HASH_BYTES)
_Static_assert(KEY_BYTES_MAX <= RECORD_KEY_BYTES_MAX, "a key fits");
_Static_assert(FACT_MODEL_VALUE_MAX + 3 * FACT_MODEL_NAME_BYTES + 64 < RECORD_BODY_BYTES_MAX, "a value fits");
_Static_assert(2 * FACT_MODEL_SOURCE_BYTES + FACT_MODEL_LINK_BYTES + 3 * FACT_MODEL_NAME_BYTES < RECORD_BODY_BYTES_MAX, "a source fits");

static bool is_none(const uint8_t version[FACT_VERSION_BYTES])
{
    static const uint8_t none[FACT_VERSION_BYTES] = {0};
    return memcmp(version, none, sizeof none) == 0;
}

static bool has_field(uint32_t subject)
{
    return subject == FACT_MODEL_TAG || subject == FACT_MODEL_ALIAS;
}

struct fact_key fact_key_model(const char *name, enum fact_model_subject subject, const uint8_t version[FACT_VERSION_BYTES],
                               const char *field)
{
    struct fact_key key = {.count = has_field(subject) ? KEY_BYTES_MAX : FIELD_AT};
    (void)crypto_generichash(key.bytes, FACT_MODEL_HASH_BYTES, (const unsigned char *)name, strlen(name), NULL, 0);
    key.bytes[SUBJECT_AT] = (uint8_t)subject;
    memcpy(key.bytes + VERSION_AT, version, FACT_VERSION_BYTES);
    if (has_field(subject)) {
        (void)crypto_generichash(key.bytes + FIELD_AT, FACT_MODEL_HASH_BYTES, (const unsigned char *)field, strlen(field), NULL, 0);
    }
    return key;
}

int fact_key_read_model(const struct record *record, uint32_t *subject, uint8_t version[FACT_VERSION_BYTES])
{
    if (record->key_bytes < FIELD_AT) {
        return ERR_MALFORMED;
    }
    *subject = record->key[SUBJECT_AT];
    memcpy(version, record->key + VERSION_AT, FACT_VERSION_BYTES);
    return 0;
}

bool fact_model_name_is_good(const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 127 || strchr("/:@", *c) != NULL) {
            return false;
        }
    }
    return name[0] != '\0' && strlen(name) < FACT_MODEL_NAME_BYTES;
}

bool fact_model_alias_is_good(const char *alias)
{
    size_t digits = 0, bytes = strlen(alias);
    for (const char *c = alias; *c != '\0'; c++) {
        bool is_digit = *c >= '0' && *c <= '9', is_letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (!is_digit && !is_letter && *c != '_' && *c != '-') {
            return false;
        }
        digits += is_digit;
    }
    bool is_like_version = digits == bytes || (digits > 0 && digits + 1 == bytes && (alias[0] == 'v' || alias[0] == 'V'));
    return bytes > 0 && bytes < FACT_MODEL_NAME_BYTES && !is_like_version && strcmp(alias, "latest") != 0;
}

static void source_pack(struct pack_writer *writer, const struct fact_model_source *source)
{
    pack_array(writer, 11);
    pack_u64(writer, source->created_ms);
    pack_bin(writer, source->experiment.bytes, EXPERIMENT_ID_BYTES);
    pack_u64(writer, source->trial);
    pack_u64(writer, source->attempt);
    pack_u64(writer, source->step);
    pack_bin(writer, source->blob.bytes, HASH_BYTES);
    pack_text(writer, source->run);
    pack_text(writer, source->model);
    pack_text(writer, source->source);
    pack_text(writer, source->path);
    pack_text(writer, source->link);
}

static void source_read(struct pack_reader *reader, struct fact_model_source *out)
{
    uint32_t extra = fact_element_open(reader, 11);
    out->created_ms = pack_read_u64(reader);
    pack_read_bin_exact(reader, out->experiment.bytes, EXPERIMENT_ID_BYTES);
    out->trial = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    out->attempt = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    out->step = pack_read_u64(reader);
    pack_read_bin_exact(reader, out->blob.bytes, HASH_BYTES);
    pack_read_text_copy(reader, out->run, sizeof out->run);
    pack_read_text_copy(reader, out->model, sizeof out->model);
    pack_read_text_copy(reader, out->source, sizeof out->source);
    pack_read_text_copy(reader, out->path, sizeof out->path);
    pack_read_text_copy(reader, out->link, sizeof out->link);
    fact_element_close(reader, extra);
}

void fact_model_pack(struct pack_writer *writer, const struct fact_model *fact)
{
    bool is_version = fact->lamport == 0;
    pack_array(writer, is_version ? 8 : 7);
    pack_u64(writer, fact->lamport);
    pack_bool(writer, fact->removed);
    pack_text(writer, fact->name);
    pack_text(writer, fact->field);
    pack_u64(writer, fact->number);
    pack_bin(writer, fact->target, sizeof fact->target);
    pack_text_n(writer, fact->value != NULL ? fact->value : "", fact->value_bytes);
    if (is_version) {
        source_pack(writer, &fact->source);
    }
}

/* The key is the one of the body. */
static bool keys_agree(const struct record *record, const struct fact_model *fact, uint32_t subject,
                       const uint8_t version[FACT_VERSION_BYTES])
{
    if (subject >= FACT_MODEL_SUBJECTS || has_field(subject) != (fact->field[0] != '\0') || fact->name[0] == '\0') {
        return false;
    }
    struct fact_key key = fact_key_model(fact->name, (enum fact_model_subject)subject, version, fact->field);
    return record->key_bytes == key.count && memcmp(record->key, key.bytes, key.count) == 0;
}

int fact_model_read(const struct record *record, struct fact_model *out)
{
    struct pack_reader reader;
    struct fact_model fact = {.value = ""};
    uint8_t version[FACT_VERSION_BYTES];
    uint32_t extra, subject;
    size_t value_bytes = 0;
    if (fact_key_read_model(record, &subject, version) != 0) {
        return ERR_MALFORMED;
    }
    bool is_version = subject == FACT_MODEL_VERSION;
    fact_body_open(&reader, record, is_version ? 8 : 7, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.removed = pack_read_bool(&reader);
    pack_read_text_copy(&reader, fact.name, sizeof fact.name);
    pack_read_text_copy(&reader, fact.field, sizeof fact.field);
    fact.number = pack_read_u64(&reader);
    pack_read_bin_exact(&reader, fact.target, sizeof fact.target);
    fact.value = pack_read_text(&reader, &value_bytes);
    fact.value_bytes = (uint32_t)value_bytes;
    if (is_version) {
        source_read(&reader, &fact.source);
    }
    bool may_have_version = subject == FACT_MODEL_DESCRIPTION || subject == FACT_MODEL_TAG;
    if (fact_body_close(&reader, extra) != 0 || !keys_agree(record, &fact, subject, version) || (fact.lamport == 0) != is_version ||
        value_bytes > FACT_MODEL_VALUE_MAX || memchr(fact.value, '\0', value_bytes) != NULL || (!is_version && !may_have_version && !is_none(version)) ||
        (is_version && (is_none(version) || fact.number == 0 || fact.number > FACT_MODEL_NUMBER_MAX))) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}
