#include "store/tfevents.h"

#include <string.h>

#include "base/err.h"
#include "store/crc32c.h"

/* The numbers of the fields, from tensorflow/core/util/event.proto, framework/summary.proto and
 * tensorboard/plugins/hparams/{plugin_data,api}.proto. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION_LOG = 7,
    EVENT_SOURCE = 10
};
enum { SOURCE_WRITER = 1 };
enum { SESSION_LOG_STATUS = 1, SESSION_LOG_MESSAGE = 3, SESSION_LOG_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
/* framework/tensor.proto, tensor_shape.proto, types.proto */
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_CONTENT = 4 };
enum { TENSOR_FLOATS = 5, TENSOR_DOUBLES = 6, TENSOR_INTS = 7, TENSOR_LONGS = 10 };
enum { SHAPE_DIMENSION = 2, TYPE_FLOAT = 1, TYPE_DOUBLE = 2, TYPE_INT = 3, TYPE_LONG = 9 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum { HPARAMS_EXPERIMENT = 2, HPARAMS_SESSION_START = 3, HPARAMS_SESSION_END = 4 };
enum { EXPERIMENT_TIME = 3, EXPERIMENT_HPARAM = 4, EXPERIMENT_METRIC = 5, EXPERIMENT_NAME = 6 };
enum { HPARAM_NAME = 1, HPARAM_TYPE = 4, HPARAM_DIFFERS = 7, METRIC_NAME = 1, METRIC_NAME_TAG = 2 };
enum { START_HPARAMS = 1, START_GROUP = 4, START_TIME = 5, END_STATUS = 1, END_TIME = 2 };
enum { PAIR_KEY = 1, PAIR_VALUE = 2, ANY_NUMBER = 2, ANY_TEXT = 3, ANY_BOOLEAN = 4 };

static const char version_text[] = "brain.Event:2";

uint32_t tfevents_masked_crc(const uint8_t *bytes, size_t count)
{
    uint32_t crc = crc32c(bytes, count);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void put_little(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint64_t get_little(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) {
        value = value << 8 | at[i];
    }
    return value;
}

/* Leaves room for the head or the foot. */
static void skip(struct protobuf_writer *writer, size_t bytes)
{
    if (writer->failed || writer->capacity_bytes - writer->used_bytes < bytes) {
        writer->failed = true;
        return;
    }
    writer->used_bytes += bytes;
}

size_t tfevents_begin(struct protobuf_writer *writer, double wall_s, uint64_t step)
{
    skip(writer, TFEVENTS_HEAD_BYTES);
    size_t mark = writer->used_bytes;
    protobuf_put_double(writer, EVENT_WALL_TIME, wall_s);
    if (step > 0) {
        protobuf_put_u64(writer, EVENT_STEP, step);
    }
    return mark;
}

void tfevents_end(struct protobuf_writer *writer, size_t mark)
{
    size_t count = writer->used_bytes - mark;
    skip(writer, TFEVENTS_FOOT_BYTES);
    if (writer->failed) {
        return;
    }
    uint8_t *message = writer->bytes + mark, *head = message - TFEVENTS_HEAD_BYTES;
    put_little(head, count, 8);
    put_little(head + 8, tfevents_masked_crc(head, 8), 4);
    put_little(message + count, tfevents_masked_crc(message, count), 4);
}

int tfevents_read_head(const uint8_t head[TFEVENTS_HEAD_BYTES], size_t *count)
{
    uint64_t length = get_little(head, 8);
    if (get_little(head + 8, 4) != tfevents_masked_crc(head, 8) || length > TFEVENTS_MESSAGE_BYTES_MAX) {
        return ERR_CORRUPT;
    }
    *count = (size_t)length;
    return 0;
}

int tfevents_check_foot(const uint8_t *message, size_t count, const uint8_t foot[TFEVENTS_FOOT_BYTES])
{
    return get_little(foot, TFEVENTS_FOOT_BYTES) == tfevents_masked_crc(message, count) ? 0 : ERR_CORRUPT;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

void tfevents_put_version(struct protobuf_writer *writer, const char *source)
{
    protobuf_put_text(writer, EVENT_FILE_VERSION, version_text);
    size_t mark = protobuf_begin(writer, EVENT_SOURCE);
    protobuf_put_text(writer, SOURCE_WRITER, source);
    protobuf_end(writer, mark);
}

void tfevents_put_start(struct protobuf_writer *writer, const char *text)
{
    size_t mark = protobuf_begin(writer, EVENT_SESSION_LOG);
    protobuf_put_u64(writer, SESSION_LOG_STATUS, SESSION_LOG_START);
    protobuf_put_text(writer, SESSION_LOG_MESSAGE, text);
    protobuf_end(writer, mark);
}

size_t tfevents_scalars_begin(struct protobuf_writer *writer)
{
    return protobuf_begin(writer, EVENT_SUMMARY);
}

void tfevents_put_scalar(struct protobuf_writer *writer, const char *tag, size_t tag_bytes, double value)
{
    size_t mark = protobuf_begin(writer, SUMMARY_VALUE);
    protobuf_put_bytes(writer, VALUE_TAG, tag, tag_bytes);
    protobuf_put_float(writer, VALUE_SIMPLE, (float)value);
    protobuf_end(writer, mark);
}

void tfevents_scalars_end(struct protobuf_writer *writer, size_t mark)
{
    protobuf_end(writer, mark);
}

/* ---- hyperparameters --------------------------------------------------------------------------------------------- */

static struct tfevents_hparams hparams_begin(struct protobuf_writer *writer, const char *tag, uint32_t field)
{
    struct tfevents_hparams marks;
    marks.summary = protobuf_begin(writer, EVENT_SUMMARY);
    marks.value = protobuf_begin(writer, SUMMARY_VALUE);
    protobuf_put_text(writer, VALUE_TAG, tag);
    marks.metadata = protobuf_begin(writer, VALUE_METADATA);
    marks.plugin = protobuf_begin(writer, METADATA_PLUGIN);
    protobuf_put_text(writer, PLUGIN_NAME, "hparams");
    marks.content = protobuf_begin(writer, PLUGIN_CONTENT);
    marks.data = protobuf_begin(writer, field);
    return marks;
}

void tfevents_hparams_end(struct protobuf_writer *writer, const struct tfevents_hparams *marks)
{
    protobuf_end(writer, marks->data);
    protobuf_end(writer, marks->content);
    protobuf_end(writer, marks->plugin);
    protobuf_end(writer, marks->metadata);
    protobuf_end(writer, marks->value);
    protobuf_end(writer, marks->summary);
}

struct tfevents_hparams tfevents_experiment_begin(struct protobuf_writer *writer, const char *name, double created_s)
{
    struct tfevents_hparams marks = hparams_begin(writer, TFEVENTS_EXPERIMENT_TAG, HPARAMS_EXPERIMENT);
    protobuf_put_text(writer, EXPERIMENT_NAME, name);
    protobuf_put_double(writer, EXPERIMENT_TIME, created_s);
    return marks;
}

void tfevents_put_hparam_column(struct protobuf_writer *writer, const char *name, enum tfevents_type type, bool differs)
{
    size_t mark = protobuf_begin(writer, EXPERIMENT_HPARAM);
    protobuf_put_text(writer, HPARAM_NAME, name);
    protobuf_put_u64(writer, HPARAM_TYPE, type);
    protobuf_put_u64(writer, HPARAM_DIFFERS, differs);
    protobuf_end(writer, mark);
}

void tfevents_put_metric_column(struct protobuf_writer *writer, const char *tag, size_t tag_bytes)
{
    size_t mark = protobuf_begin(writer, EXPERIMENT_METRIC), name = protobuf_begin(writer, METRIC_NAME);
    protobuf_put_bytes(writer, METRIC_NAME_TAG, tag, tag_bytes);
    protobuf_end(writer, name);
    protobuf_end(writer, mark);
}

struct tfevents_hparams tfevents_session_begin(struct protobuf_writer *writer, const char *name, double start_s)
{
    struct tfevents_hparams marks = hparams_begin(writer, TFEVENTS_SESSION_START_TAG, HPARAMS_SESSION_START);
    protobuf_put_text(writer, START_GROUP, name);
    protobuf_put_double(writer, START_TIME, start_s);
    return marks;
}

/* The two marks of a pair in the map of hyperparameters. */
struct pair {
    size_t pair, value;
};

static struct pair pair_begin(struct protobuf_writer *writer, const char *name)
{
    struct pair marks = {.pair = protobuf_begin(writer, START_HPARAMS)};
    protobuf_put_text(writer, PAIR_KEY, name);
    marks.value = protobuf_begin(writer, PAIR_VALUE);
    return marks;
}

static void pair_end(struct protobuf_writer *writer, const struct pair *marks)
{
    protobuf_end(writer, marks->value);
    protobuf_end(writer, marks->pair);
}

void tfevents_put_hparam_number(struct protobuf_writer *writer, const char *name, double value)
{
    struct pair marks = pair_begin(writer, name);
    protobuf_put_double(writer, ANY_NUMBER, value);
    pair_end(writer, &marks);
}

void tfevents_put_hparam_boolean(struct protobuf_writer *writer, const char *name, bool value)
{
    struct pair marks = pair_begin(writer, name);
    protobuf_put_u64(writer, ANY_BOOLEAN, value);
    pair_end(writer, &marks);
}

void tfevents_put_hparam_text(struct protobuf_writer *writer, const char *name, const char *value)
{
    struct pair marks = pair_begin(writer, name);
    protobuf_put_text(writer, ANY_TEXT, value);
    pair_end(writer, &marks);
}

void tfevents_put_session_end(struct protobuf_writer *writer, enum tfevents_status status, double end_s)
{
    struct tfevents_hparams marks = hparams_begin(writer, TFEVENTS_SESSION_END_TAG, HPARAMS_SESSION_END);
    protobuf_put_u64(writer, END_STATUS, status);
    protobuf_put_double(writer, END_TIME, end_s);
    tfevents_hparams_end(writer, &marks);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Finds the last field of this number that has a length. False: the message is malformed. */
static bool find_bytes(const struct protobuf_field *message, uint32_t number, const uint8_t **bytes, size_t *count)
{
    struct protobuf_reader reader;
    struct protobuf_field field;
    protobuf_reader_init(&reader, message->bytes, message->count);
    while (protobuf_next(&reader, &field)) {
        if (field.number == number && field.type == PROTOBUF_BYTES) {
            *bytes = field.bytes;
            *count = field.count;
        }
    }
    return !reader.failed;
}

static bool read_session_log(const struct protobuf_field *message, struct tfevents_event *out)
{
    struct protobuf_reader reader;
    struct protobuf_field field;
    protobuf_reader_init(&reader, message->bytes, message->count);
    while (protobuf_next(&reader, &field)) {
        if (field.number == SESSION_LOG_STATUS && field.type == PROTOBUF_VARINT) {
            out->is_start = field.value == SESSION_LOG_START;
        }
    }
    return !reader.failed && find_bytes(message, SESSION_LOG_MESSAGE, &out->start_text, &out->start_text_bytes);
}

static bool read_field(const struct protobuf_field *field, struct tfevents_event *out)
{
    bool is_bytes = field->type == PROTOBUF_BYTES;
    if (field->number == EVENT_WALL_TIME && field->type == PROTOBUF_FIXED64) {
        out->wall_s = protobuf_number(field);
    } else if (field->number == EVENT_STEP && field->type == PROTOBUF_VARINT) {
        out->step = (int64_t)field->value;
    } else if (field->number == EVENT_FILE_VERSION && is_bytes) {
        out->has_version = field->count == sizeof version_text - 1 && memcmp(field->bytes, version_text, field->count) == 0;
    } else if (field->number == EVENT_SUMMARY && is_bytes) {
        protobuf_reader_init(&out->summary, field->bytes, field->count);
    } else if (field->number == EVENT_SESSION_LOG && is_bytes) {
        return read_session_log(field, out);
    } else if (field->number == EVENT_SOURCE && is_bytes) {
        return find_bytes(field, SOURCE_WRITER, &out->source, &out->source_bytes);
    }
    return true;
}

int tfevents_read_event(const uint8_t *message, size_t count, struct tfevents_event *out)
{
    struct tfevents_event event = {0};
    struct protobuf_reader reader;
    struct protobuf_field field;
    bool is_good = true;
    protobuf_reader_init(&reader, message, count);
    while (is_good && protobuf_next(&reader, &field)) {
        is_good = read_field(&field, &event);
    }
    if (!is_good || reader.failed) {
        return ERR_MALFORMED;
    }
    *out = event;
    return 0;
}

/* Whether the metadata of a value say that it is of the page SCALARS. */
static bool is_scalars(const struct protobuf_field *metadata)
{
    struct protobuf_field plugin = {0};
    const uint8_t *name = NULL;
    size_t name_bytes = 0;
    return find_bytes(metadata, METADATA_PLUGIN, &plugin.bytes, &plugin.count) && plugin.bytes != NULL &&
           find_bytes(&plugin, PLUGIN_NAME, &name, &name_bytes) && name_bytes == 7 && memcmp(name, "scalars", 7) == 0;
}

static double number_of(uint64_t type, uint64_t bits)
{
    float narrow;
    double wide;
    uint32_t low = (uint32_t)bits;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    return type == TYPE_FLOAT    ? (double)narrow
           : type == TYPE_DOUBLE ? wide
           : type == TYPE_INT    ? (double)(int32_t)low
                                 : (double)(int64_t)bits;
}

/* Whether a shape has a dimension; one that is malformed counts as such. */
static bool has_dimension(const struct protobuf_field *shape)
{
    struct protobuf_reader reader;
    struct protobuf_field field;
    bool is_found = false;
    protobuf_reader_init(&reader, shape->bytes, shape->count);
    while (protobuf_next(&reader, &field)) {
        is_found |= field.number == SHAPE_DIMENSION;
    }
    return is_found || reader.failed;
}

/* The number of a tensor without dimensions, of a type that scalars have. False: it is no such tensor. */
static bool read_tensor(const struct protobuf_field *tensor, double *out)
{
    struct protobuf_reader reader;
    struct protobuf_field field;
    uint64_t type = 0, bits = 0;
    uint32_t numbers = 0;
    bool is_scalar = true;
    protobuf_reader_init(&reader, tensor->bytes, tensor->count);
    while (protobuf_next(&reader, &field)) {
        size_t width = field.number == TENSOR_FLOATS ? 4 : field.number == TENSOR_DOUBLES ? 8 : 0;
        if (field.number == TENSOR_TYPE && field.type == PROTOBUF_VARINT) {
            type = field.value;
        } else if (field.number == TENSOR_SHAPE && field.type == PROTOBUF_BYTES) {
            is_scalar &= !has_dimension(&field);
        } else if (field.number == TENSOR_CONTENT && field.type == PROTOBUF_BYTES &&
                   (field.count == 4 || field.count == 8)) {
            bits = get_little(field.bytes, field.count);
            numbers++;
        } else if (width > 0 && field.type == PROTOBUF_BYTES && field.count == width) { /* packed */
            bits = get_little(field.bytes, width);
            numbers++;
        } else if ((width == 4 && field.type == PROTOBUF_FIXED32) || (width == 8 && field.type == PROTOBUF_FIXED64) ||
                   ((field.number == TENSOR_INTS || field.number == TENSOR_LONGS) && field.type == PROTOBUF_VARINT)) {
            bits = field.value;
            numbers++;
        } else if ((field.number == TENSOR_INTS || field.number == TENSOR_LONGS) && field.type == PROTOBUF_BYTES) {
            numbers += protobuf_single_varint(&field, &bits) ? 1 : 2;
        }
    }
    bool is_known = type == TYPE_FLOAT || type == TYPE_DOUBLE || type == TYPE_INT || type == TYPE_LONG;
    *out = number_of(type, bits);
    return !reader.failed && is_scalar && is_known && numbers == 1;
}

bool tfevents_next_value(struct protobuf_reader *summary, struct tfevents_value *out)
{
    struct protobuf_field tensor = {0}, metadata = {0};
    struct protobuf_field value, field;
    do {
        if (!protobuf_next(summary, &value)) {
            return false;
        }
    } while (value.number != SUMMARY_VALUE || value.type != PROTOBUF_BYTES);
    struct protobuf_reader reader;
    *out = (struct tfevents_value){0};
    protobuf_reader_init(&reader, value.bytes, value.count);
    while (protobuf_next(&reader, &field)) {
        if (field.number == VALUE_TAG && field.type == PROTOBUF_BYTES) {
            out->tag = field.bytes;
            out->tag_bytes = field.count;
        } else if (field.number == VALUE_SIMPLE && field.type == PROTOBUF_FIXED32) {
            out->has_scalar = true;
            out->scalar = protobuf_number(&field);
        } else if (field.number == VALUE_TENSOR && field.type == PROTOBUF_BYTES) {
            tensor = field;
        } else if (field.number == VALUE_METADATA && field.type == PROTOBUF_BYTES) {
            metadata = field;
        }
    }
    out->metadata = metadata.bytes;
    out->metadata_bytes = metadata.count;
    if (!out->has_scalar && tensor.bytes != NULL && metadata.bytes != NULL && is_scalars(&metadata)) {
        out->has_scalar = read_tensor(&tensor, &out->scalar);
    }
    summary->failed |= reader.failed;
    return !reader.failed;
}

bool tfevents_session_start(const struct tfevents_value *value, struct protobuf_reader *hparams)
{
    struct protobuf_field metadata = {.bytes = value->metadata, .count = value->metadata_bytes}, plugin = {0}, data = {0};
    const uint8_t *start = NULL;
    size_t start_bytes = 0;
    if (value->metadata == NULL || !find_bytes(&metadata, METADATA_PLUGIN, &plugin.bytes, &plugin.count) ||
        plugin.bytes == NULL ||
        !find_bytes(&plugin, PLUGIN_CONTENT, &data.bytes, &data.count) || data.bytes == NULL ||
        !find_bytes(&data, HPARAMS_SESSION_START, &start, &start_bytes) || start == NULL) {
        return false;
    }
    protobuf_reader_init(hparams, start, start_bytes);
    return value->tag_bytes == sizeof TFEVENTS_SESSION_START_TAG - 1 &&
           memcmp(value->tag, TFEVENTS_SESSION_START_TAG, value->tag_bytes) == 0;
}

bool tfevents_next_hparam(struct protobuf_reader *hparams, struct tfevents_hparam *out)
{
    struct protobuf_field pair, field;
    struct protobuf_reader reader;
    const uint8_t *value = NULL;
    size_t value_bytes = 0;
    do {
        if (!protobuf_next(hparams, &pair)) {
            return false;
        }
    } while (pair.number != START_HPARAMS || pair.type != PROTOBUF_BYTES);
    *out = (struct tfevents_hparam){.type = TFEVENTS_TEXT};
    if (!find_bytes(&pair, PAIR_KEY, &out->name, &out->name_bytes) || !find_bytes(&pair, PAIR_VALUE, &value, &value_bytes)) {
        return false;
    }
    protobuf_reader_init(&reader, value, value != NULL ? value_bytes : 0);
    while (protobuf_next(&reader, &field)) {
        if (field.number == ANY_NUMBER && field.type == PROTOBUF_FIXED64) {
            out->type = TFEVENTS_NUMBER;
            out->number = protobuf_number(&field);
        } else if (field.number == ANY_BOOLEAN && field.type == PROTOBUF_VARINT) {
            out->type = TFEVENTS_BOOLEAN;
            out->number = field.value != 0;
        } else if (field.number == ANY_TEXT && field.type == PROTOBUF_BYTES) {
            out->type = TFEVENTS_TEXT;
            out->text = field.bytes;
            out->text_bytes = field.count;
        }
    }
    return !reader.failed && out->name != NULL;
}
