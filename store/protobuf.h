#ifndef STORE_PROTOBUF_H
#define STORE_PROTOBUF_H
/* The wire format of protocol buffers (version 3), as far as event files need it (store/tfevents.h): varints, fixed 32 and
 * 64 bits, and fields with a length. A writer into a buffer of the caller, and a bounded reader of bytes from any source.
 * Errors are sticky, as in base/pack.h. A core. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf_writer {
    uint8_t *bytes; /* borrowed */
    size_t capacity_bytes;
    size_t used_bytes;
    bool failed; /* the buffer was too small: what was written is no message */
};

void protobuf_writer_init(struct protobuf_writer *writer, uint8_t *bytes, size_t capacity_bytes);

/* Each function appends one field with its number. */
void protobuf_put_u64(struct protobuf_writer *writer, uint32_t field, uint64_t value); /* also for int64, enum and bool */
void protobuf_put_double(struct protobuf_writer *writer, uint32_t field, double value);
void protobuf_put_float(struct protobuf_writer *writer, uint32_t field, float value);
void protobuf_put_bytes(struct protobuf_writer *writer, uint32_t field, const void *bytes, size_t count);
void protobuf_put_text(struct protobuf_writer *writer, uint32_t field, const char *text); /* ends in NUL */

/* Everything between begin and end, with the mark that begin returned, is the message in this field. Messages nest. */
size_t protobuf_begin(struct protobuf_writer *writer, uint32_t field);
void protobuf_end(struct protobuf_writer *writer, size_t mark);

/* A reader; a plain value, so a copy of it reads the same fields again. */
struct protobuf_reader {
    const uint8_t *bytes; /* borrowed: must outlive the reader and the fields */
    size_t count, offset;
    bool failed; /* the bytes are no message */
};

enum protobuf_type { PROTOBUF_VARINT = 0, PROTOBUF_FIXED64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_FIXED32 = 5 };

struct protobuf_field {
    uint32_t number;
    enum protobuf_type type;
    uint64_t value;       /* of a varint, or the bits of a fixed number */
    const uint8_t *bytes; /* BYTES: inside the reader's bytes, with their `count` */
    size_t count;
};

void protobuf_reader_init(struct protobuf_reader *reader, const uint8_t *bytes, size_t count);

/* Takes the next field. False: the message is at its end, or `failed` is set. */
bool protobuf_next(struct protobuf_reader *reader, struct protobuf_field *out);

/* Reads a field BYTES that is one packed varint and nothing more. False: it is not. */
bool protobuf_single_varint(const struct protobuf_field *field, uint64_t *out);

/* The number in a field of a fixed size: a double from 64 bits, a float from 32. 0 for fields of another type. */
double protobuf_number(const struct protobuf_field *field);

#endif
