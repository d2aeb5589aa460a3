/* Messages of the bulk sockets: u16 length of the head, the head, then the second frame (none if nothing is left). */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "node/bulk/wire.h"
#include "tests/fuzz/fuzz.h"

static void check_entries(const struct bulk_message *message)
{
    struct pack_reader reader;
    pack_reader_init(&reader, message->body, message->body_bytes);
    uint64_t sequence;
    const uint8_t *bytes;
    size_t count;
    while (bulk_wire_entry_read(&reader, &sequence, &bytes, &count)) {
        CHECK(count <= BULK_WIRE_ENTRY_BYTES_MAX && bytes + count <= message->body + message->body_bytes);
    }
    CHECK(pack_at_end(&reader));
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static uint8_t first[BULK_WIRE_HEAD_BYTES_MAX], second[BULK_WIRE_HEAD_BYTES_MAX];
    if (size < 2) {
        return;
    }
    size_t head_bytes = bytes_get_u16(data);
    head_bytes = head_bytes < size - 2 ? head_bytes : size - 2;
    const uint8_t *body = data + 2 + head_bytes;
    size_t body_bytes = size - 2 - head_bytes;
    struct bulk_message message, again;
    if (bulk_wire_decode(data + 2, head_bytes, body_bytes > 0 ? body : NULL, body_bytes, &message) != 0) {
        return;
    }
    if (message.kind == BULK_APPEND || message.kind == BULK_ITEMS) {
        check_entries(&message);
    }
    size_t first_bytes, second_bytes;
    CHECK(bulk_wire_encode(&message, first, sizeof first, &first_bytes) == 0);
    CHECK(bulk_wire_decode(first, first_bytes, message.body, message.body_bytes, &again) == 0);
    CHECK(bulk_wire_encode(&again, second, sizeof second, &second_bytes) == 0);
    CHECK(first_bytes == second_bytes && memcmp(first, second, first_bytes) == 0);
}

void fuzz_seeds(void)
{
    static const uint8_t kinds[] = {BULK_GET,  BULK_PUT,  BULK_HAS,  BULK_APPEND, BULK_READ, BULK_ASK,
                                    BULK_VERIFY, BULK_DATA, BULK_HELD, BULK_ITEMS,  BULK_STATUS, BULK_OPEN,
                                    BULK_SEGMENT, BULK_RESET};
    uint8_t hashes[3 * HASH_BYTES] = {1, 2, 3}, bits[] = {5}, entries[64];
    struct pack_writer writer;
    pack_writer_init(&writer, entries, sizeof entries);
    bulk_wire_entry_write(&writer, 1, (const uint8_t *)"one", 3);
    bulk_wire_entry_write(&writer, 300, (const uint8_t *)"two", 3);
    for (size_t i = 0; i < sizeof kinds; i++) {
        struct bulk_message message = {.kind = kinds[i], .tag = 77, .hashes = hashes, .hash_count = 3,
                                       .prefix = (const uint8_t *)"m-prefix", .prefix_bytes = 8, .from_sequence = 4,
                                       .question = (const uint8_t *)"question", .question_bytes = 8,
                                       .bytes_max = 65536, .bits = bits, .bits_bytes = 1, .status = BULK_FULL, .more = true,
                                       .stream = 99, .offset = 70000, .received = 3, .limit = 200000, .ends = true, .code = 11,
                                       .bytes = (const uint8_t *)"bytes", .byte_count = 5};
        uint8_t input[512];
        size_t head_bytes = 0, used = 0;
        CHECK(bulk_wire_encode(&message, input + 2, 256, &head_bytes) == 0);
        bytes_put_u16(input, (uint16_t)head_bytes);
        used = 2 + head_bytes;
        if (kinds[i] == BULK_PUT || kinds[i] == BULK_DATA || kinds[i] == BULK_APPEND || kinds[i] == BULK_ITEMS) {
            memcpy(input + used, entries, writer.used_bytes);
            used += writer.used_bytes;
        }
        fuzz_seed(input, used);
    }
}
