#include "node/http/sequence.h"

#include <stdbool.h>
#include <string.h>

#include "node/http/gate.h"

static size_t pass_head(struct sequence *sequence, const char *bytes, size_t count)
{
    struct gate_head head;
    int status;
    const char *why;
    const char *end = memrchr(bytes + sequence->looked, '\n', count - sequence->looked);
    size_t whole = count >= GATE_HEAD_BYTES_MAX ? count : end != NULL ? (size_t)(end - bytes) + 1 : 0;
    sequence->looked = count;
    if (whole == 0) {
        return 0; /* so that a head that comes byte by byte is not read anew for each of them */
    }
    /* Whole lines only, so that what is refused does not depend on where the network cuts. */
    switch (gate_read(bytes, whole, &status, &why, &head)) {
    case GATE_MORE:
        return 0;
    case GATE_BAD:
        sequence->state = sequence->heads == 0 ? SEQUENCE_RAW : SEQUENCE_BROKEN;
        return sequence->heads == 0 ? count : 0;
    case GATE_GOOD:
        break;
    }
    sequence->heads++;
    sequence->looked = 0;
    sequence->body_left = head.body_bytes;
    if (head.is_chunked) {
        sequence->state = SEQUENCE_RAW;
    } else if (head.has_length) {
        sequence->state = head.body_bytes > 0 ? SEQUENCE_BODY : SEQUENCE_DONE;
    } else if (head.is_old) {
        sequence->state = SEQUENCE_DONE;
    }
    return head.bytes;
}

size_t sequence_pass(struct sequence *sequence, const char *bytes, size_t count)
{
    size_t most;
    switch (sequence->state) {
    case SEQUENCE_HEAD:
        return count > 0 ? pass_head(sequence, bytes, count) : 0;
    case SEQUENCE_BODY:
        most = count < sequence->body_left ? count : (size_t)sequence->body_left;
        sequence->body_left -= most;
        sequence->state = sequence->body_left == 0 ? SEQUENCE_DONE : SEQUENCE_BODY;
        return most;
    case SEQUENCE_RAW:
        return count;
    case SEQUENCE_DONE:
    case SEQUENCE_BROKEN:
        return 0;
    }
    return 0;
}
