/* Manifests: of checkpoints, code and configuration files, from any peer. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "store/blob.h"
#include "tests/fuzz/fuzz.h"

void fuzz_one(const uint8_t *data, size_t size)
{
    uint32_t chunk_count;
    uint64_t total_bytes;
    struct blob_manifest manifest, again;
    int counted = blob_decode_counts(data, size, &chunk_count, &total_bytes);
    if (counted != 0) {
        CHECK(blob_decode(data, size, NULL, 0, &manifest) == counted);
        return;
    }
    CHECK(chunk_count <= BLOB_CHUNKS_MAX && total_bytes <= BLOB_BYTES_MAX);
    struct blob_chunk *chunks = calloc(chunk_count + 1, sizeof *chunks), *others = calloc(chunk_count + 1, sizeof *others);
    struct blob_fetch_slot *slots = calloc(chunk_count + 1, sizeof *slots);
    uint8_t *encoded = malloc(BLOB_ENCODED_BYTES(chunk_count));
    CHECK(chunks != NULL && others != NULL && slots != NULL && encoded != NULL);
    CHECK(chunk_count == 0 || blob_decode(data, size, chunks, chunk_count - 1, &manifest) == ERR_FULL);
    CHECK(blob_decode(data, size, chunks, chunk_count, &manifest) == 0);
    CHECK(manifest.chunk_count == chunk_count && manifest.total_bytes == total_bytes);
    size_t encoded_bytes;
    CHECK(blob_encode(&manifest, encoded, BLOB_ENCODED_BYTES(chunk_count), &encoded_bytes) == 0);
    CHECK(blob_decode(encoded, encoded_bytes, others, chunk_count, &again) == 0);
    CHECK(again.total_bytes == total_bytes && memcmp(chunks, others, chunk_count * sizeof *chunks) == 0);
    struct blob_piece piece = {0};
    uint64_t end = 0;
    while (blob_next(&manifest, &piece)) {
        CHECK(piece.offset == end);
        end += piece.bytes;
    }
    CHECK(end == total_bytes);
    struct blob_fetch fetch;
    struct blob_ask ask;
    blob_fetch_init(&fetch, &manifest, slots, BLOB_IN_FLIGHT_MAX);
    CHECK(blob_fetch_add_holder(&fetch, (node_id){{1}}) == 0);
    (void)blob_fetch_next(&fetch, &ask);
    free(chunks);
    free(others);
    free(slots);
    free(encoded);
}

static void seed(uint64_t total_bytes, uint32_t chunk_bytes)
{
    static struct blob_chunk chunks[64];
    static uint8_t encoded[BLOB_ENCODED_BYTES(64)];
    struct blob_cut cut;
    CHECK(blob_cut_plan(total_bytes, chunk_bytes, &cut) == 0 && cut.chunk_count <= 64);
    for (uint32_t i = 0; i < cut.chunk_count; i++) {
        uint64_t offset;
        chunks[i].hash = (hash256){{(uint8_t)i, 7}};
        blob_cut_chunk(&cut, i, &offset, &chunks[i].bytes);
    }
    struct blob_manifest manifest = {chunks, cut.chunk_count, total_bytes};
    size_t count;
    CHECK(blob_encode(&manifest, encoded, sizeof encoded, &count) == 0);
    fuzz_seed(encoded, count);
}

void fuzz_seeds(void)
{
    seed(0, 0);
    seed(100, 0);
    seed((5u << 20) + 3, 0);
    seed(1000, 64);
    seed((200u << 20) - 1, BLOB_CHUNK_BYTES_MAX);
}
