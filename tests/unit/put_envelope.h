#ifndef TESTS_UNIT_PUT_ENVELOPE_H
#define TESTS_UNIT_PUT_ENVELOPE_H

#include "base/err.h"
#include "gossip/records.h"

/* records_put for an envelope that nobody has decoded yet. ERR_MALFORMED: it is no record. */
static inline int put_envelope(struct records *records, const uint8_t *envelope, size_t count, bool published,
                               struct records_entry **out)
{
    struct record record;
    int error = record_decode(envelope, count, &record);
    return error != 0 ? error : records_put(records, &record, envelope, count, published, out);
}

#endif
