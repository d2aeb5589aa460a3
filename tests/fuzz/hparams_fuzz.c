/* Hyperparameters: JSON to MessagePack and back. The first byte says '{' or anything else: the input is JSON; NUL: what
 * follows is MessagePack, which is written as JSON. JSON that we wrote is read again to the same, once what is no UTF-8 has
 * been replaced. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/json.h"
#include "tests/fuzz/fuzz.h"
#include "train/shoal/hparams.h"

/* An escape takes six bytes for one and a text may have 4 KiB, so what is shorter than this can always be read again. */
#define AGAIN_BYTES_MAX 600

static uint8_t packed[HPARAMS_BYTES_MAX], again[HPARAMS_BYTES_MAX];
static char written[1u << 19], rewritten[1u << 19];

static void look_up(const uint8_t *bytes, size_t count)
{
    static const char *const paths[] = {"a", "a.b", "a.b.c", "", ".", "a.", "learning_rate"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct pack_reader value;
        int64_t whole;
        if (hparams_find(bytes, count, paths[i], &value) == 0) {
            (void)hparams_read_int(&value, &whole);
        }
    }
}

static size_t write_json(const uint8_t *bytes, size_t count, char *out, size_t size)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    int result = json_from_pack(&reader, out, size);
    CHECK(result != 0 || pack_at_end(&reader) || reader.offset < count);
    return result == 0 ? strlen(out) : 0;
}

static void read_and_write(const char *text, char *out, size_t size)
{
    struct pack_writer writer;
    pack_writer_init(&writer, again, sizeof again);
    CHECK(hparams_from_json(text, &writer) == 0);
    CHECK(write_json(again, writer.used_bytes, out, size) > 0);
}

static void check_again(void)
{
    read_and_write(written, rewritten, sizeof rewritten);
    read_and_write(rewritten, written, sizeof written);
    CHECK(strcmp(written, rewritten) == 0);
}

static void check_json(const char *text, size_t bytes)
{
    struct pack_writer writer;
    pack_writer_init(&writer, packed, sizeof packed);
    if (hparams_from_json(text, &writer) != 0) {
        return;
    }
    look_up(packed, writer.used_bytes);
    CHECK(write_json(packed, writer.used_bytes, written, sizeof written) > 0);
    if (bytes < AGAIN_BYTES_MAX) {
        check_again();
    }
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 0) {
        look_up(data + 1, size - 1);
        (void)write_json(data + 1, size - 1, written, sizeof written);
        (void)write_json(data + 1, size - 1, written, size); /* mostly too small */
        return;
    }
    char *text = malloc(size + 1);
    CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    check_json(text, size);
    free(text);
}

void fuzz_seeds(void)
{
    static const char *const texts[] = {
        "{\"learning_rate\": 0.001, \"hidden\": 128, \"a\": {\"b\": {\"c\": -7}}, \"names\": [\"x\", null, true, false, 1e-5]}",
        "{\"a\": {\"b\": 64.0}, \"t\": \"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\"}", "{}",
        "{\"a\": [[[[[[[[[]]]]]]]]], \"b\": 123456789012345678901234567890}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct pack_writer writer;
        pack_writer_init(&writer, packed + 1, sizeof packed - 1);
        fuzz_seed(texts[i], strlen(texts[i]));
        CHECK(hparams_from_json(texts[i], &writer) == 0);
        packed[0] = 0;
        fuzz_seed(packed, 1 + writer.used_bytes);
    }
}
