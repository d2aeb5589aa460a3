/* Manifests: of checkpoints, code and configuration files, from any peer; and the same bytes as cuts, from a worker. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "store/blob.h"
#include "tests/fuzz/fuzz.h"

#define CUTS_MAX 512

/* u64 total_bytes, then the cuts. */
static void plan_cuts(const uint8_t *data, size_t size)
{
    uint64_t cuts[CUTS_MAX];
    size_t count = 0;
    if (size < 8) {
        return;
    }
    for (size_t at = 8; at + 8 <= size && count < CUTS_MAX; at += 8) {
        cuts[count++] = bytes_get_u64(data + at);
    }
    struct blob_cut cut;
    uint64_t total_bytes = bytes_get_u64(data);
    int rc = blob_cut_plan_at(total_bytes, cuts, count, &cut);
    CHECK(rc == 0 || rc == ERR_USAGE || (rc == ERR_FULL && total_bytes > BLOB_BYTES_MAX));
    struct blob_cut_walk walk = {0};
    uint64_t end = 0;
    uint32_t chunks = 0;
    for (; rc == 0 && blob_cut_next(&cut, &walk); chunks++) {
        CHECK(walk.offset == end && walk.bytes > 0 && walk.bytes <= cut.chunk_bytes);
        end += walk.bytes;
    }
    CHECK(rc != 0 || (end == total_bytes && chunks == cut.chunk_count && chunks <= BLOB_CHUNKS_MAX));
}

void fuzz_one(const uint8_t *data, size_t size)
{
    plan_cuts(data, size);
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

static void seed_cuts(uint64_t total_bytes, uint64_t distance)
{
    uint8_t bytes[8 * 65];
    bytes_put_u64(bytes, total_bytes);
    for (uint64_t i = 0; i < 64; i++) {
        bytes_put_u64(bytes + 8 + 8 * i, i * distance);
    }
    fuzz_seed(bytes, sizeof bytes);
}

void fuzz_seeds(void)
{
    seed_cuts(64 << 20, (1 << 20) - 77);
    seed_cuts(1 << 20, 1000);
    seed_cuts(BLOB_BYTES_MAX, BLOB_BYTES_MAX / 64);
    seed(0, 0);
    seed(100, 0);
    seed((5u << 20) + 3, 0);
    seed(1000, 64);
    seed((200u << 20) - 1, BLOB_CHUNK_BYTES_MAX);
}
