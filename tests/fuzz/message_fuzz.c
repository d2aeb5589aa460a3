/* libFuzzer's entry for messages between nodes. Not part of the build:
 *   clang -std=gnu11 -D_GNU_SOURCE -I. -g -fsanitize=fuzzer,address,undefined tests/fuzz/message_fuzz.c \
 *       gossip/message_wire.c base/pack.c base/bytes.c base/check.c -o message_fuzz */
#include <stdlib.h>
#include <string.h>

#include "gossip/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What decodes must encode again, and the second decoding must agree with the first in its encoding. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t first[MESSAGE_BYTES_MAX], second[MESSAGE_BYTES_MAX];
    struct message message, again;
    if (message_decode(data, size, &message) != 0) {
        return 0;
    }
    size_t first_bytes = message_encode(&message, first, sizeof first);
    if (first_bytes == 0) {
        abort();
    }
    if (message_decode(first, first_bytes, &again) != 0) {
        abort();
    }
    if (message_encode(&again, second, sizeof second) != first_bytes || memcmp(first, second, first_bytes) != 0) {
        abort();
    }
    return 0;
}
