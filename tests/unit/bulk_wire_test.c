/* The format of bulk messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "node/bulk/wire.h"
#include "store/hash.h"

struct sample {
    uint8_t head[BULK_WIRE_HEAD_BYTES_MAX];
    size_t head_bytes;
    uint8_t body[256];
    size_t body_bytes; /* 0: none */
};

static void sample_make(uint8_t kind, struct sample *sample)
{
    static uint8_t hashes[5 * HASH_BYTES];
    struct pack_writer writer;
    struct bulk_message message = {.kind = kind, .tag = 70000, .hash = {{1, 2, 3}}, .hashes = hashes, .hash_count = 5,
                                   .prefix = (const uint8_t *)"prefix", .prefix_bytes = 6, .from_sequence = 1ull << 40,
                                   .bytes_max = 4096, .question = (const uint8_t *)"what is", .question_bytes = 6, .bits = hashes, .bits_bytes = 1, .status = BULK_BUSY, .more = true,
                                   .stream = UINT64_MAX, .offset = 7, .received = 8, .limit = 9, .ends = true, .code = 5,
                                   .bytes = (const uint8_t *)"bytes", .byte_count = 5};
    memset(sample, 0, sizeof *sample);
    assert_int_equal(bulk_wire_encode(&message, sample->head, sizeof sample->head, &sample->head_bytes), 0);
    if (kind == BULK_APPEND || kind == BULK_ITEMS) {
        pack_writer_init(&writer, sample->body, sizeof sample->body);
        bulk_wire_entry_write(&writer, 3, (const uint8_t *)"three", 5);
        bulk_wire_entry_write(&writer, UINT64_MAX, (const uint8_t *)"", 0);
        sample->body_bytes = writer.used_bytes;
    } else if (kind == BULK_PUT || kind == BULK_DATA) {
        sample->body_bytes = 100;
    }
}

static int sample_decode(const struct sample *sample, struct bulk_message *out)
{
    return bulk_wire_decode(sample->head, sample->head_bytes, sample->body_bytes > 0 ? sample->body : NULL,
                            sample->body_bytes, out);
}

static const uint8_t kinds[] = {BULK_GET,  BULK_PUT,  BULK_HAS,   BULK_APPEND, BULK_READ, BULK_VERIFY, BULK_ASK,
                                BULK_DATA, BULK_HELD, BULK_ITEMS, BULK_STATUS, BULK_OPEN, BULK_SEGMENT, BULK_RESET};

static void messages_survive_the_wire(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds; k++) {
        struct sample sample;
        struct bulk_message message;
        sample_make(kinds[k], &sample);
        assert_int_equal(sample_decode(&sample, &message), 0);
        assert_int_equal(message.kind, kinds[k]);
        assert_int_equal(message.tag, 70000);
        bool hash = kinds[k] == BULK_GET || kinds[k] == BULK_PUT || kinds[k] == BULK_VERIFY;
        assert_int_equal(message.hash.bytes[2], hash ? 3 : 0);
        assert_int_equal(message.hash_count, kinds[k] == BULK_HAS ? 5 : 0);
        assert_int_equal(message.prefix_bytes, kinds[k] == BULK_APPEND || kinds[k] == BULK_READ || kinds[k] == BULK_ASK ? 6 : 0);
        assert_int_equal(message.question_bytes, kinds[k] == BULK_ASK || kinds[k] == BULK_OPEN ? 6 : 0);
        bool is_stream = kinds[k] == BULK_OPEN || kinds[k] == BULK_SEGMENT || kinds[k] == BULK_RESET;
        assert_true(message.stream == (is_stream ? UINT64_MAX : 0));
        assert_int_equal(message.limit, kinds[k] == BULK_SEGMENT ? 9 : 0);
        assert_int_equal(message.ends, kinds[k] == BULK_SEGMENT);
        assert_int_equal(message.code, kinds[k] == BULK_RESET ? 5 : 0);
        assert_int_equal(message.byte_count, kinds[k] == BULK_SEGMENT || kinds[k] == BULK_RESET ? 5 : 0);
        assert_int_equal(message.from_sequence, kinds[k] == BULK_READ || kinds[k] == BULK_ASK ? 1ull << 40 : 0);
        assert_int_equal(message.status, kinds[k] == BULK_STATUS ? BULK_BUSY : 0);
        assert_int_equal(message.more, kinds[k] == BULK_ITEMS);
        assert_int_equal(message.body_bytes, sample.body_bytes);
        for (size_t cut = 0; cut < sample.head_bytes; cut++) {
            struct sample shorter = sample;
            shorter.head_bytes = cut;
            assert_int_equal(sample_decode(&shorter, &message), ERR_MALFORMED);
        }
        struct sample other = sample; /* a body where none belongs, or none where one does */
        other.body_bytes = sample.body_bytes > 0 ? 0 : 10;
        assert_int_equal(sample_decode(&other, &message), ERR_MALFORMED);
    }
}

static void changed_messages_are_bounded(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 20);
    unsigned good = 0, bad = 0;
    for (int round = 0; round < 60000; round++) {
        struct sample sample;
        struct bulk_message message;
        sample_make(kinds[(size_t)round % sizeof kinds], &sample);
        for (uint64_t changes = 1 + random_u64(&random) % 3; changes > 0; changes--) {
            uint8_t *where = sample.body_bytes > 0 && random_u64(&random) % 2 == 0
                                 ? sample.body + random_u64(&random) % sample.body_bytes
                                 : sample.head + random_u64(&random) % sample.head_bytes;
            *where = (uint8_t)random_u64(&random);
        }
        /* Exact copies, so that the address sanitizer sees a byte too far. */
        uint8_t *head = malloc(sample.head_bytes), *body = malloc(sample.body_bytes + 1);
        assert_true(head != NULL && body != NULL);
        memcpy(head, sample.head, sample.head_bytes);
        memcpy(body, sample.body, sample.body_bytes);
        int code = bulk_wire_decode(head, sample.head_bytes, sample.body_bytes > 0 ? body : NULL, sample.body_bytes,
                                    &message);
        if (code == 0) {
            good++;
            assert_true(message.hash_count <= BULK_WIRE_HAS_MAX && message.prefix_bytes <= BULK_WIRE_PREFIX_BYTES_MAX);
            volatile uint8_t sum = 0;
            for (size_t i = 0; i < (size_t)message.hash_count * HASH_BYTES; i++) {
                sum = (uint8_t)(sum + message.hashes[i]);
            }
            for (size_t i = 0; i < message.prefix_bytes; i++) {
                sum = (uint8_t)(sum + message.prefix[i]);
            }
            for (size_t i = 0; i < message.bits_bytes; i++) {
                sum = (uint8_t)(sum + message.bits[i]);
            }
        } else {
            assert_true(code == ERR_MALFORMED || code == ERR_VERSION);
            bad++;
        }
        free(head);
        free(body);
    }
    assert_true(good > 1000 && bad > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_survive_the_wire),
        cmocka_unit_test(changed_messages_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
