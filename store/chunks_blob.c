/* Blobs in and out of the chunk store.
 *
 * Storing overlaps two slow steps: the caller's thread reads and hashes 16 MiB into one buffer while the writer's
 * thread commits the other buffer. They hand over one batch at a time:
 *
 *     caller   fill A | fill B      | wait, fill A ...
 *     writer          | commit A    | commit B     ... */
#include "store/chunks_lmdb.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "store/chunks_env.h"
#include "store/hash.h"

/* ---- the writer thread ---- */

struct writer {
    struct chunks *chunks;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const struct chunks_item *items; /* handed over and not committed yet; NULL: the writer is idle */
    size_t item_count;
    bool stopping;
    int rc; /* the first failure; no batch is written after a failure */
};

static void *writer_main(void *argument)
{
    struct writer *writer = argument;
    pthread_mutex_lock(&writer->mutex);
    for (;;) {
        while (writer->items == NULL && !writer->stopping) {
            pthread_cond_wait(&writer->changed, &writer->mutex);
        }
        if (writer->items == NULL) {
            break;
        }
        const struct chunks_item *items = writer->items;
        size_t item_count = writer->item_count;
        bool failed = writer->rc != 0;
        pthread_mutex_unlock(&writer->mutex);
        int rc = failed ? 0 : chunks_put_items(writer->chunks, items, item_count);
        pthread_mutex_lock(&writer->mutex);
        writer->rc = writer->rc != 0 ? writer->rc : rc;
        writer->items = NULL;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

static int writer_start(struct writer *writer, struct chunks *chunks)
{
    *writer = (struct writer){.chunks = chunks};
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    if (pthread_create(&writer->thread, NULL, writer_main, writer) != 0) {
        pthread_cond_destroy(&writer->changed);
        pthread_mutex_destroy(&writer->mutex);
        return ERR_MEMORY;
    }
    return 0;
}

/* Waits for the previous batch, then hands `items` over, which belongs to the writer until the next call or
 * writer_stop. */
static int writer_give(struct writer *writer, const struct chunks_item *items, size_t item_count)
{
    pthread_mutex_lock(&writer->mutex);
    while (writer->items != NULL) {
        pthread_cond_wait(&writer->changed, &writer->mutex);
    }
    int rc = writer->rc;
    if (rc == 0) {
        writer->items = items;
        writer->item_count = item_count;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
    return rc;
}

/* Lets the last batch finish, ends the thread, and returns the first failure. */
static int writer_stop(struct writer *writer)
{
    pthread_mutex_lock(&writer->mutex);
    writer->stopping = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    return writer->rc;
}

/* ---- in ---- */

#define STORE_PASSES_MAX 4
#define BATCH_ITEMS_MAX 256 /* of one transaction */

static int read_exactly(int fd, uint8_t *bytes, size_t count, uint64_t offset, char *error, size_t error_size)
{
    int rc = descriptor_read_at(fd, bytes, count, offset);
    if (rc == 0) {
        return 0;
    }
    snprintf(error, error_size, "cannot read %zu bytes at offset %llu of the data to store: %s", count, (unsigned long long)offset,
             rc == ERR_AGAIN ? "it ends before" : strerror(errno));
    return ERR_IO;
}

struct batch {
    uint8_t *bytes;
    struct chunks_item *items;
};

/* Where the chunks of a blob are read, and what has been read. */
struct reading {
    int fd;
    const struct blob_cut *cut;
    struct blob_cut_walk walk; /* at the next chunk to read */
    uint32_t index;            /* of that chunk */
    struct blob_manifest *manifest;
};

/* Reads and hashes chunks, as many as fit into one transaction, and adds them to the manifest. */
static int batch_fill(struct batch *batch, size_t batch_bytes, struct reading *reading, size_t *item_count, char *error,
                      size_t error_size)
{
    size_t used_bytes = 0;
    size_t items = 0;
    while (reading->index < reading->cut->chunk_count && items < BATCH_ITEMS_MAX &&
           used_bytes + reading->walk.bytes <= batch_bytes) {
        uint32_t bytes = reading->walk.bytes;
        uint8_t *at = batch->bytes + used_bytes;
        int rc = read_exactly(reading->fd, at, bytes, reading->walk.offset, error, error_size);
        if (rc != 0) {
            return rc;
        }
        struct chunks_item item = {.hash = hash_bytes(at, bytes), .bytes = at, .count = bytes};
        batch->items[items++] = item;
        reading->manifest->chunks[reading->index++] = (struct blob_chunk){.hash = item.hash, .bytes = bytes};
        used_bytes += bytes;
        bool has_next = blob_cut_next(reading->cut, &reading->walk);
        CHECK(has_next == (reading->index < reading->cut->chunk_count));
    }
    CHECK(items > 0);
    *item_count = items;
    return 0;
}

static int store_pieces(struct chunks *chunks, int fd, const struct blob_cut *cut, struct blob_manifest *manifest,
                        char *error, size_t error_size)
{
    size_t batch_bytes =
        cut->total_bytes < CHUNKS_TRANSACTION_BYTES ? (size_t)cut->total_bytes : CHUNKS_TRANSACTION_BYTES;
    struct batch batches[2] = {{0}};
    struct writer writer;
    int rc = ERR_MEMORY;
    for (int i = 0; i < 2; i++) {
        batches[i].bytes = malloc(batch_bytes);
        batches[i].items = malloc(BATCH_ITEMS_MAX * sizeof *batches[i].items);
        if (batches[i].bytes == NULL || batches[i].items == NULL) {
            goto out_free;
        }
    }
    rc = writer_start(&writer, chunks);
    if (rc != 0) {
        goto out_free;
    }
    struct reading reading = {.fd = fd, .cut = cut, .manifest = manifest};
    (void)blob_cut_next(cut, &reading.walk);
    for (int turn = 0; rc == 0 && reading.index < cut->chunk_count; turn ^= 1) {
        size_t item_count;
        rc = batch_fill(&batches[turn], batch_bytes, &reading, &item_count, error, error_size);
        if (rc == 0) {
            rc = writer_give(&writer, batches[turn].items, item_count);
        }
    }
    int write_rc = writer_stop(&writer);
    rc = rc != 0 ? rc : write_rc;
out_free:
    for (int i = 0; i < 2; i++) {
        free(batches[i].items);
        free(batches[i].bytes);
    }
    return rc;
}

/* Stores all chunks, again if some were collected before the last was stored: a slow disk, or a process that was
 * stopped. */
static int store_all_pieces(struct chunks *chunks, int fd, const struct blob_cut *cut, struct blob_manifest *manifest,
                            char *error, size_t error_size)
{
    int rc = store_pieces(chunks, fd, cut, manifest, error, error_size);
    for (uint32_t pass = 1; rc == 0 && !chunks_has_all(chunks, manifest); pass++) {
        rc = pass < STORE_PASSES_MAX ? store_pieces(chunks, fd, cut, manifest, error, error_size) : ERR_AGAIN;
    }
    return rc;
}

static int store_manifest(struct chunks *chunks, const struct blob_manifest *manifest, hash256 *manifest_hash)
{
    size_t capacity_bytes = BLOB_ENCODED_BYTES(manifest->chunk_count);
    uint8_t *encoded = malloc(capacity_bytes);
    if (encoded == NULL) {
        return ERR_MEMORY;
    }
    size_t encoded_bytes;
    int rc = blob_encode(manifest, encoded, capacity_bytes, &encoded_bytes);
    CHECK(rc == 0);
    struct chunks_item item = {.hash = hash_bytes(encoded, encoded_bytes), .bytes = encoded, .count = encoded_bytes};
    if (!chunks_has(chunks, item.hash)) {
        rc = chunks_put_items(chunks, &item, 1);
    }
    free(encoded);
    if (rc == 0) {
        *manifest_hash = item.hash;
    }
    return rc;
}

/* Stores a blob by its plan; `rc` is the plan's own error, which is told as the others are. */
static int store_planned(struct chunks *chunks, int fd, uint64_t total_bytes, int rc, const struct blob_cut *cut,
                         hash256 *manifest_hash, char *error, size_t error_size)
{
    char reason[200] = "";
    if (rc == 0) {
        struct blob_manifest manifest = {.chunk_count = cut->chunk_count, .total_bytes = total_bytes};
        manifest.chunks = malloc(((size_t)cut->chunk_count + 1) * sizeof *manifest.chunks);
        rc = manifest.chunks != NULL ? 0 : ERR_MEMORY;
        if (rc == 0 && cut->chunk_count > 0) {
            rc = store_all_pieces(chunks, fd, cut, &manifest, reason, sizeof reason);
        }
        if (rc == 0) {
            rc = store_manifest(chunks, &manifest, manifest_hash);
        }
        free(manifest.chunks);
    }
    if (rc != 0 && reason[0] != '\0') {
        snprintf(error, error_size, "%s", reason);
    } else if (rc != 0) {
        snprintf(error, error_size, "cannot store %llu bytes: %s%s", (unsigned long long)total_bytes, err_text(rc),
                 rc == ERR_NO_SPACE ? "; free some space on it" : "");
    }
    return rc;
}

int chunks_put_blob_from_fd(struct chunks *chunks, int fd, uint64_t total_bytes, uint32_t chunk_bytes,
                            hash256 *manifest_hash, char *error, size_t error_size)
{
    struct blob_cut cut = {0};
    int rc = blob_cut_plan(total_bytes, chunk_bytes, &cut);
    return store_planned(chunks, fd, total_bytes, rc, &cut, manifest_hash, error, error_size);
}

int chunks_put_blob_cut_at(struct chunks *chunks, int fd, uint64_t total_bytes, const uint64_t *cuts, size_t cut_count,
                           hash256 *manifest_hash, char *error, size_t error_size)
{
    struct blob_cut cut = {0};
    int rc = blob_cut_plan_at(total_bytes, cuts, cut_count, &cut);
    return store_planned(chunks, fd, total_bytes, rc, &cut, manifest_hash, error, error_size);
}

/* ---- out ---- */

static int manifest_get(struct chunks *chunks, hash256 manifest_hash, uint8_t *buffer, struct blob_manifest *out)
{
    size_t bytes;
    int rc = chunks_get(chunks, manifest_hash, buffer, BLOB_CHUNK_BYTES_MAX, &bytes);
    if (rc != 0) {
        return rc;
    }
    uint32_t chunk_count;
    uint64_t total_bytes;
    rc = blob_decode_counts(buffer, bytes, &chunk_count, &total_bytes);
    if (rc != 0) {
        return rc;
    }
    struct blob_chunk *array = malloc(((size_t)chunk_count + 1) * sizeof *array);
    if (array == NULL) {
        return ERR_MEMORY;
    }
    rc = blob_decode(buffer, bytes, array, chunk_count, out);
    CHECK(rc == 0);
    return 0;
}

int chunks_manifest_get(struct chunks *chunks, hash256 manifest_hash, struct blob_manifest *out)
{
    uint8_t *buffer = malloc(BLOB_CHUNK_BYTES_MAX);
    if (buffer == NULL) {
        return ERR_MEMORY;
    }
    int rc = manifest_get(chunks, manifest_hash, buffer, out);
    free(buffer);
    return rc;
}

void chunks_manifest_free(struct blob_manifest *manifest)
{
    free(manifest->chunks);
    *manifest = (struct blob_manifest){0};
}

static int write_exactly(int fd, const uint8_t *bytes, size_t count, uint64_t offset)
{
    int rc = descriptor_write_at(fd, bytes, count, offset);
    return rc != 0 && (errno == ENOSPC || errno == EDQUOT) ? ERR_NO_SPACE : rc;
}

/* Reads and checks one piece, and writes it if fd is not -1. */
static int piece_move(struct chunks *chunks, const struct blob_piece *piece, uint8_t *buffer, int fd, char *error,
                      size_t error_size)
{
    size_t bytes;
    int rc = chunks_get(chunks, piece->hash, buffer, BLOB_CHUNK_BYTES_MAX, &bytes);
    if (rc == 0 && bytes != piece->bytes) {
        rc = ERR_MALFORMED; /* the chunk matches its name, so the manifest is wrong */
    }
    char hex[2 * HASH_BYTES + 1];
    bytes_to_hex(hex, piece->hash.bytes, HASH_BYTES);
    if (rc != 0) {
        snprintf(error, error_size, "chunk %.16s (number %u of the blob, %u bytes): %s", hex, (unsigned)piece->index,
                 (unsigned)piece->bytes, err_text(rc));
        return rc;
    }
    rc = fd >= 0 ? write_exactly(fd, buffer, bytes, piece->offset) : 0;
    if (rc != 0) {
        snprintf(error, error_size, "chunk %.16s: cannot write %zu bytes at offset %llu: %s", hex, bytes,
                 (unsigned long long)piece->offset, err_text(rc));
    }
    return rc;
}

/* The pieces that the ranges want, all without ranges; fd -1: only checks. `*piece` is the one that failed. */
static int pieces_move(struct chunks *chunks, const struct blob_manifest *manifest, const struct blob_range *ranges, size_t range_count,
                       uint8_t *buffer, int fd, struct blob_piece *piece, char *error, size_t error_size)
{
    int rc = 0;
    while (rc == 0 && blob_next(manifest, piece)) {
        if (blob_is_wanted(piece, ranges, range_count)) {
            rc = piece_move(chunks, piece, buffer, fd, error, error_size);
        }
    }
    return rc;
}

static uint8_t *chunk_buffer(char *error, size_t error_size)
{
    uint8_t *buffer = malloc(BLOB_CHUNK_BYTES_MAX);
    if (buffer == NULL) {
        snprintf(error, error_size, "no memory to read a chunk of %u bytes", BLOB_CHUNK_BYTES_MAX);
    }
    return buffer;
}

static int blob_move(struct chunks *chunks, hash256 manifest_hash, int fd, hash256 *blamed, char *error,
                     size_t error_size)
{
    uint8_t *buffer = chunk_buffer(error, error_size);
    if (buffer == NULL) {
        return ERR_MEMORY;
    }
    struct blob_manifest manifest;
    struct blob_piece piece = {.hash = manifest_hash};
    int rc = manifest_get(chunks, manifest_hash, buffer, &manifest);
    if (rc != 0) {
        char hex[2 * HASH_BYTES + 1];
        bytes_to_hex(hex, manifest_hash.bytes, HASH_BYTES);
        snprintf(error, error_size, "manifest %.16s: %s", hex, err_text(rc));
    } else {
        rc = pieces_move(chunks, &manifest, NULL, 0, buffer, fd, &piece, error, error_size);
        chunks_manifest_free(&manifest);
    }
    free(buffer);
    if ((rc == ERR_NOT_FOUND || rc == ERR_CORRUPT) && blamed != NULL) {
        *blamed = piece.hash;
    }
    return rc;
}

int chunks_read_blob_to_fd(struct chunks *chunks, hash256 manifest_hash, int fd, hash256 *blamed, char *error,
                           size_t error_size)
{
    if (fd < 0) {
        snprintf(error, error_size, "cannot write a blob to the descriptor %d", fd);
        return ERR_USAGE;
    }
    return blob_move(chunks, manifest_hash, fd, blamed, error, error_size);
}

int chunks_read_ranges_to_fd(struct chunks *chunks, const void *encoded, size_t encoded_bytes, const struct blob_range *ranges,
                             size_t range_count, int fd, hash256 *blamed, char *error, size_t error_size)
{
    struct blob_manifest manifest = {0};
    struct blob_piece piece = {0};
    uint32_t chunk_count = 0;
    int rc = blob_decode_counts(encoded, encoded_bytes, &chunk_count, &manifest.total_bytes);
    if (rc != 0) {
        snprintf(error, error_size, "the manifest of the blob: %s", err_text(rc));
        return rc;
    }
    uint8_t *buffer = chunk_buffer(error, error_size);
    struct blob_chunk *pieces = calloc(chunk_count + 1u, sizeof *pieces);
    if (buffer == NULL || pieces == NULL) {
        free(buffer);
        free(pieces);
        return ERR_MEMORY;
    }
    CHECK(blob_decode(encoded, encoded_bytes, pieces, chunk_count, &manifest) == 0);
    if (ftruncate(fd, (off_t)manifest.total_bytes) != 0) {
        rc = ERR_IO;
        snprintf(error, error_size, "cannot give a file %llu bytes: %s", (unsigned long long)manifest.total_bytes, strerror(errno));
    } else {
        rc = pieces_move(chunks, &manifest, ranges, range_count, buffer, fd, &piece, error, error_size);
    }
    free(buffer);
    free(pieces);
    if (rc == ERR_NOT_FOUND || rc == ERR_CORRUPT) {
        *blamed = piece.hash;
    }
    return rc;
}

int chunks_verify_blob(struct chunks *chunks, hash256 manifest_hash, hash256 *blamed, char *error, size_t error_size)
{
    return blob_move(chunks, manifest_hash, -1, blamed, error, error_size);
}

bool chunks_has_all(struct chunks *chunks, const struct blob_manifest *manifest)
{
    bool has_all = true;
    for (uint32_t i = 0; i < manifest->chunk_count; i++) {
        has_all = chunks_has(chunks, manifest->chunks[i].hash) && has_all; /* no short cut: asking for a chunk keeps it */
    }
    return has_all;
}

int chunks_blob_missing(struct chunks *chunks, hash256 manifest_hash, struct blob_piece *missing, uint32_t capacity,
                        uint32_t *missing_count)
{
    struct blob_manifest manifest;
    int rc = chunks_manifest_get(chunks, manifest_hash, &manifest);
    if (rc != 0) {
        return rc;
    }
    uint32_t count = 0;
    struct blob_piece piece = {0};
    while (blob_next(&manifest, &piece)) {
        if (!chunks_look(chunks, piece.hash)) {
            if (count < capacity) {
                missing[count] = piece;
            }
            count++;
        }
    }
    chunks_manifest_free(&manifest);
    *missing_count = count;
    return 0;
}
