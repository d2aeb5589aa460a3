#ifndef STORE_TFEVENTS_H
#define STORE_TFEVENTS_H
/* Event files, which TensorBoard shows: a row of records, each one message `Event` of TensorFlow's event.proto, with
 * little-endian numbers around it:
 *
 *     record: u64 length | u32 masked CRC-32C of these 8 bytes | the message | u32 masked CRC-32C of the message
 *
 * The first record has the version of the format. A file grows by whole records: what a killed writer has left reads up to
 * the last whole record. Texts are UTF-8 (TensorBoard takes no other message). A core. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/protobuf.h"

#define TFEVENTS_HEAD_BYTES 12
#define TFEVENTS_FOOT_BYTES 4
#define TFEVENTS_MESSAGE_BYTES_MAX (64u << 20) /* a longer record is taken for damage: an image has some MiB */

/* The checksum of a record's parts: CRC-32C, turned and shifted, since the CRC of bytes that hold their own CRC says
 * nothing. */
uint32_t tfevents_masked_crc(const uint8_t *bytes, size_t count);

/* ---- writing: into a writer of the caller, a record after the other ----------------------------------------------- */

/* Begins a record; `wall_s` in seconds since 1970. The caller writes one content (below), then calls tfevents_end with the
 * mark. */
size_t tfevents_begin(struct protobuf_writer *writer, double wall_s, uint64_t step);
void tfevents_end(struct protobuf_writer *writer, size_t mark);

/* Contents: the version of the format, of the first record, with a text that tells what made the file. */
void tfevents_put_version(struct protobuf_writer *writer, const char *source);

/* The program starts (again): readers drop what earlier records hold of this record's step and later ones, except at the
 * first start in a directory. */
void tfevents_put_start(struct protobuf_writer *writer, const char *text);

/* Scalars, one or more, between begin and end. */
size_t tfevents_scalars_begin(struct protobuf_writer *writer);
void tfevents_put_scalar(struct protobuf_writer *writer, const char *tag, size_t tag_bytes, double value);
void tfevents_scalars_end(struct protobuf_writer *writer, size_t mark);

/* ---- hyperparameters: contents for TensorBoard's page HPARAMS (hparams/api.proto) ----------------------------------- */

enum tfevents_type { TFEVENTS_TEXT = 1, TFEVENTS_BOOLEAN = 2, TFEVENTS_NUMBER = 3 };
enum tfevents_status { TFEVENTS_UNKNOWN = 0, TFEVENTS_SUCCESS = 1, TFEVENTS_FAILURE = 2 };

#define TFEVENTS_EXPERIMENT_TAG "_hparams_/experiment"
#define TFEVENTS_SESSION_START_TAG "_hparams_/session_start_info"
#define TFEVENTS_SESSION_END_TAG "_hparams_/session_end_info"

/* Marks of the messages that are open. */
struct tfevents_hparams {
    size_t summary, value, metadata, plugin, content, data;
};

/* The columns of an experiment: any number of hyperparameters and metrics between begin and end. */
struct tfevents_hparams tfevents_experiment_begin(struct protobuf_writer *writer, const char *name, double created_s);
/* `differs`: not the same in all trials, so that its column is shown at first. */
void tfevents_put_hparam_column(struct protobuf_writer *writer, const char *name, enum tfevents_type type, bool differs);
void tfevents_put_metric_column(struct protobuf_writer *writer, const char *tag, size_t tag_bytes);

/* The hyperparameters of a trial, between begin and end; its start and its name. */
struct tfevents_hparams tfevents_session_begin(struct protobuf_writer *writer, const char *name, double start_s);
void tfevents_put_hparam_number(struct protobuf_writer *writer, const char *name, double value);
void tfevents_put_hparam_boolean(struct protobuf_writer *writer, const char *name, bool value);
void tfevents_put_hparam_text(struct protobuf_writer *writer, const char *name, const char *value);
void tfevents_hparams_end(struct protobuf_writer *writer, const struct tfevents_hparams *marks);

/* The end of a trial. */
void tfevents_put_session_end(struct protobuf_writer *writer, enum tfevents_status status, double end_s);

/* ---- reading: bytes from any source ---------------------------------------------------------------------------------- */

/* Reads a record's first TFEVENTS_HEAD_BYTES: `*count` becomes the length of the message. ERR_CORRUPT: a wrong checksum, or
 * longer than TFEVENTS_MESSAGE_BYTES_MAX. */
int tfevents_read_head(const uint8_t head[TFEVENTS_HEAD_BYTES], size_t *count);

/* Checks a message against the TFEVENTS_FOOT_BYTES behind it. ERR_CORRUPT. */
int tfevents_check_foot(const uint8_t *message, size_t count, const uint8_t foot[TFEVENTS_FOOT_BYTES]);

/* What of an event matters here; the pointers point into the message, and what is absent is zero. */
struct tfevents_event {
    double wall_s;
    int64_t step;
    const uint8_t *source; /* of the version's record, */
    size_t source_bytes;
    bool has_version, is_start;
    const uint8_t *start_text; /* of a start */
    size_t start_text_bytes;
    struct protobuf_reader summary; /* of the values, for tfevents_next_value */
};

/* ERR_MALFORMED: no such message. */
int tfevents_read_event(const uint8_t *message, size_t count, struct tfevents_event *out);

/* A value of a summary. */
struct tfevents_value {
    const uint8_t *tag;
    size_t tag_bytes;
    bool has_scalar; /* a number, as older writers have it; as newer ones do, a tensor without dimensions */
    double scalar;
    const uint8_t *metadata; /* NULL: it has none */
    size_t metadata_bytes;
};

/* A hyperparameter of a run. */
struct tfevents_hparam {
    const uint8_t *name;
    size_t name_bytes;
    enum tfevents_type type;
    double number; /* BOOLEAN: 0 or 1 */
    const uint8_t *text;
    size_t text_bytes;
};

/* Whether the value begins a session (TFEVENTS_SESSION_START_TAG); `*hparams` then reads its hyperparameters. */
bool tfevents_session_start(const struct tfevents_value *value, struct protobuf_reader *hparams);

/* Takes the next hyperparameter. False: there is none, or the rest is malformed. */
bool tfevents_next_hparam(struct protobuf_reader *hparams, struct tfevents_hparam *out);

/* Takes the next value. False: there is none, or the rest is malformed (`summary->failed`). */
bool tfevents_next_value(struct protobuf_reader *summary, struct tfevents_value *out);

#endif
