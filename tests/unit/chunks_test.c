/* The chunks environment: chunks, blobs, series; damage, a full disk, threads. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <lmdb.h>

#include "base/err.h"
#include "base/random.h"
#include "store/chunks_env.h"
#include "store/hash.h"

#define ERROR_BYTES 512

struct place {
    char dir[64];
    char error[ERROR_BYTES];
    struct chunks *chunks;
    bool mounted;
};

/* The linker gives the store these in place of the system's. */
int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
ssize_t __real_pread(int fd, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset);

static uint32_t suspended_s;             /* what the clocks say that go on in a suspend */
static struct chunks *collected_at_read; /* not NULL: everything in it is collected when its third batch is read */

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = __real_clock_gettime(clock, out);
    out->tv_sec += clock != CLOCK_MONOTONIC ? suspended_s : 0;
    return rc;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset)
{
    if (collected_at_read != NULL && offset == 2 * CHUNKS_TRANSACTION_BYTES) {
        struct chunks_collected collected;
        assert_int_equal(chunks_collect(collected_at_read, NULL, 0, 0, &collected), 0);
        assert_true(collected.chunks > 0);
        collected_at_read = NULL;
    }
    return __real_pread(fd, bytes, count, offset);
}

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return -1;
    }
    snprintf(place->dir, sizeof place->dir, "/tmp/shoal-chunks-test-XXXXXX");
    *state = place;
    return mkdtemp(place->dir) != NULL ? 0 : -1;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    chunks_close(&place->chunks);
    if (place->mounted) {
        umount2(place->dir, MNT_DETACH);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", place->dir);
    int rc = system(command);
    free(place);
    return rc;
}

static void place_open(struct place *place)
{
    assert_int_equal(chunks_open(place->dir, &place->chunks, place->error, ERROR_BYTES), 0);
}

static uint8_t *random_bytes(uint64_t seed, size_t count)
{
    uint8_t *bytes = malloc(count + 8);
    assert_non_null(bytes);
    struct random random;
    random_init(&random, seed);
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = random_u64(&random);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

static int memfd_of(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("blob", MFD_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t done = 0; done < count;) {
        ssize_t put = write(fd, bytes + done, count - done);
        assert_true(put > 0);
        done += (size_t)put;
    }
    return fd;
}

static void assert_fd_holds(int fd, const uint8_t *bytes, size_t count)
{
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, count);
    uint8_t *map = count > 0 ? mmap(NULL, count, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    assert_true(map != MAP_FAILED);
    assert_true(count == 0 || memcmp(map, bytes, count) == 0);
    if (count > 0) {
        munmap(map, count);
    }
}

/* Changes one byte of a stored value behind the store's back, which is closed for it and opened again. */
static void damage(struct place *place, hash256 hash, size_t at)
{
    chunks_close(&place->chunks);
    char path[128];
    snprintf(path, sizeof path, "%s/chunks", place->dir);
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi table;
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_set_maxdbs(env, 2), 0);
    assert_int_equal(mdb_env_set_mapsize(env, 1u << 30), 0);
    assert_int_equal(mdb_env_open(env, path, 0, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "chunks", 0, &table), 0);
    MDB_val key = {.mv_size = HASH_BYTES, .mv_data = hash.bytes};
    MDB_val value;
    assert_int_equal(mdb_get(txn, table, &key, &value), 0);
    assert_true(at < value.mv_size);
    uint8_t *copy = malloc(value.mv_size);
    assert_non_null(copy);
    memcpy(copy, value.mv_data, value.mv_size);
    copy[at] ^= 0x10;
    value.mv_data = copy;
    assert_int_equal(mdb_put(txn, table, &key, &value, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    free(copy);
    mdb_env_close(env);
    place_open(place);
}

static void chunk_round_trip(void **state)
{
    struct place *place = *state;
    place_open(place);
    uint8_t *bytes = random_bytes(1, BLOB_CHUNK_BYTES_MAX + 1);
    uint8_t *back = malloc(BLOB_CHUNK_BYTES_MAX);
    assert_non_null(back);
    static const size_t sizes[] = {1, 100, 4096, 1 << 20, BLOB_CHUNK_BYTES_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        hash256 hash = hash_bytes(bytes, sizes[i]);
        assert_false(chunks_has(place->chunks, hash));
        assert_int_equal(chunks_put(place->chunks, hash, bytes, sizes[i]), 0);
        assert_int_equal(chunks_put(place->chunks, hash, bytes, sizes[i]), 0);
        assert_true(chunks_has(place->chunks, hash));
        size_t count = 0;
        assert_int_equal(chunks_get(place->chunks, hash, back, BLOB_CHUNK_BYTES_MAX, &count), 0);
        assert_int_equal(count, sizes[i]);
        assert_memory_equal(back, bytes, sizes[i]);
        assert_int_equal(chunks_get(place->chunks, hash, back, sizes[i] - 1, &count), ERR_FULL);
    }
    hash256 hash = hash_bytes(bytes, 100);
    size_t count;
    assert_int_equal(chunks_put(place->chunks, hash, bytes, 101), ERR_CORRUPT);
    assert_int_equal(chunks_put(place->chunks, hash_bytes(bytes, 0), bytes, 0), ERR_USAGE);
    assert_int_equal(
        chunks_put(place->chunks, hash_bytes(bytes, BLOB_CHUNK_BYTES_MAX + 1), bytes, BLOB_CHUNK_BYTES_MAX + 1),
        ERR_USAGE);
    assert_int_equal(chunks_delete(place->chunks, hash), 0);
    assert_int_equal(chunks_delete(place->chunks, hash), ERR_NOT_FOUND);
    assert_int_equal(chunks_get(place->chunks, hash, back, BLOB_CHUNK_BYTES_MAX, &count), ERR_NOT_FOUND);
    free(back);
    free(bytes);
}

static int count_chunk(void *context, hash256 hash, size_t count)
{
    (void)hash;
    size_t *sums = context;
    sums[0]++;
    sums[1] += count;
    return sums[0] == sums[2] ? 5 : 0;
}

static void blob_round_trip(void **state)
{
    struct place *place = *state;
    place_open(place);
    static const size_t sizes[] = {0, 1, 1 << 20, (5 << 20) + 3, 40 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *bytes = random_bytes(i + 10, sizes[i]);
        int fd = memfd_of(bytes, sizes[i]);
        hash256 name;
        hash256 again;
        assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, sizes[i], 0, &name, place->error, ERROR_BYTES), 0);
        assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, sizes[i], 0, &again, place->error, ERROR_BYTES), 0);
        assert_true(hash256_equal(name, again));
        struct blob_manifest manifest;
        assert_int_equal(chunks_manifest_get(place->chunks, name, &manifest), 0);
        assert_int_equal(manifest.total_bytes, sizes[i]);
        assert_int_equal(manifest.chunk_count, (sizes[i] + BLOB_CHUNK_BYTES - 1) / BLOB_CHUNK_BYTES);
        chunks_manifest_free(&manifest);
        /* The whole answer again after a restart. */
        chunks_close(&place->chunks);
        place_open(place);
        int out = memfd_create("out", MFD_CLOEXEC);
        assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, NULL, place->error, ERROR_BYTES), 0);
        assert_fd_holds(out, bytes, sizes[i]);
        assert_int_equal(chunks_verify_blob(place->chunks, name, NULL, place->error, ERROR_BYTES), 0);
        uint32_t missing;
        assert_int_equal(chunks_blob_missing(place->chunks, name, NULL, 0, &missing), 0);
        assert_int_equal(missing, 0);
        close(out);
        close(fd);
        free(bytes);
    }
    /* 5 manifests; 0 + 1 + 1 + 6 + 40 chunks. */
    size_t sums[3] = {0};
    assert_int_equal(chunks_each(place->chunks, count_chunk, sums), 0);
    assert_int_equal(sums[0], 5 + 48);
    assert_true(sums[1] > (46u << 20) + 4);
    size_t stopped[3] = {0, 0, 7};
    assert_int_equal(chunks_each(place->chunks, count_chunk, stopped), 5);
    assert_int_equal(stopped[0], 7);
}

static void equal_chunks_are_stored_once(void **state)
{
    struct place *place = *state;
    place_open(place);
    uint8_t *zeros = calloc(1, 50 << 20);
    assert_non_null(zeros);
    int fd = memfd_of(zeros, 50 << 20);
    hash256 name;
    assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, 50 << 20, 0, &name, place->error, ERROR_BYTES), 0);
    size_t sums[3] = {0};
    assert_int_equal(chunks_each(place->chunks, count_chunk, sums), 0);
    assert_int_equal(sums[0], 2);
    int out = memfd_create("out", MFD_CLOEXEC);
    assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, NULL, place->error, ERROR_BYTES), 0);
    assert_fd_holds(out, zeros, 50 << 20);
    close(out);
    close(fd);
    free(zeros);
}

/* Ten parts of 3 MiB and an odd rest, and a head before them that has another length the second time. */
static void parts_between_cuts_are_stored_once_wherever_they_lie(void **state)
{
    enum { PARTS = 10, PART = (3 << 20) + 1234, SIZE = 300000 + PARTS * PART };
    struct place *place = *state;
    place_open(place);
    uint8_t *parts = random_bytes(8, PARTS * PART);
    size_t stored[2] = {0};
    for (size_t round = 0; round < 2; round++) {
        size_t head = round == 0 ? 200000 : 200077;
        uint8_t *bytes = random_bytes(20 + round, SIZE);
        uint64_t cuts[PARTS + 1] = {0};
        parts[6 * PART + 77] ^= round == 1;
        memcpy(bytes + head, parts, PARTS * PART);
        for (size_t i = 0; i < PARTS; i++) {
            cuts[i + 1] = head + i * PART;
        }
        int fd = memfd_of(bytes, SIZE);
        hash256 name;
        assert_int_equal(chunks_put_blob_cut_at(place->chunks, fd, head + PARTS * PART, cuts, PARTS + 1, &name, place->error,
                                                ERROR_BYTES), 0);
        int out = memfd_create("out", MFD_CLOEXEC);
        assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, NULL, place->error, ERROR_BYTES), 0);
        assert_fd_holds(out, bytes, head + PARTS * PART);
        size_t sums[3] = {0};
        assert_int_equal(chunks_each(place->chunks, count_chunk, sums), 0);
        stored[round] = sums[1];
        close(out);
        close(fd);
        free(bytes);
    }
    assert_true(stored[0] >= PARTS * PART);
    assert_in_range(stored[1] - stored[0], PART / 4, SIZE * 12 / 100); /* the head, a chunk of part 6, the manifest */
    uint64_t backwards[] = {5, 5};
    hash256 name;
    assert_int_equal(chunks_put_blob_cut_at(place->chunks, -1, 100, backwards, 2, &name, place->error, ERROR_BYTES), ERR_USAGE);
    free(parts);
}

static void odd_chunk_sizes_fill_transactions(void **state)
{
    struct place *place = *state;
    place_open(place);
    size_t size = (23 << 20) + 12345;
    uint8_t *bytes = random_bytes(77, size);
    int fd = memfd_of(bytes, size);
    static const uint32_t chunk_sizes[] = {BLOB_CHUNK_BYTES_MAX, 3000001, 70001};
    for (size_t i = 0; i < 3; i++) {
        hash256 name;
        assert_int_equal(
            chunks_put_blob_from_fd(place->chunks, fd, size, chunk_sizes[i], &name, place->error, ERROR_BYTES), 0);
        int out = memfd_create("out", MFD_CLOEXEC);
        assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, NULL, place->error, ERROR_BYTES), 0);
        assert_fd_holds(out, bytes, size);
        close(out);
    }
    hash256 name;
    assert_int_equal(
        chunks_put_blob_from_fd(place->chunks, fd, size, BLOB_CHUNK_BYTES_MAX + 1, &name, place->error, ERROR_BYTES),
        ERR_USAGE);
    /* Fewer bytes than promised. */
    assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, size + 1, 0, &name, place->error, ERROR_BYTES), ERR_IO);
    assert_non_null(strstr(place->error, "it ends before"));
    close(fd);
    free(bytes);
}

static void flipped_byte_is_found_and_can_be_mended(void **state)
{
    struct place *place = *state;
    place_open(place);
    size_t size = (3 << 20) + 5;
    uint8_t *bytes = random_bytes(3, size);
    int fd = memfd_of(bytes, size);
    hash256 name;
    assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, size, 0, &name, place->error, ERROR_BYTES), 0);
    hash256 second = hash_bytes(bytes + (1 << 20), 1 << 20);
    damage(place, second, 123456);

    uint8_t *buffer = malloc(BLOB_CHUNK_BYTES_MAX);
    assert_non_null(buffer);
    size_t count;
    assert_int_equal(chunks_get(place->chunks, second, buffer, BLOB_CHUNK_BYTES_MAX, &count), ERR_CORRUPT);
    hash256 blamed = {{0}};
    int out = memfd_create("out", MFD_CLOEXEC);
    assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, &blamed, place->error, ERROR_BYTES), ERR_CORRUPT);
    assert_true(hash256_equal(blamed, second));
    assert_non_null(strstr(place->error, "number 1 of the blob"));
    memset(&blamed, 0, sizeof blamed);
    assert_int_equal(chunks_verify_blob(place->chunks, name, &blamed, place->error, ERROR_BYTES), ERR_CORRUPT);
    assert_true(hash256_equal(blamed, second));

    /* Deleted it is missing; put again all is well. */
    assert_int_equal(chunks_delete(place->chunks, second), 0);
    struct blob_piece missing[4];
    uint32_t missing_count;
    assert_int_equal(chunks_blob_missing(place->chunks, name, missing, 4, &missing_count), 0);
    assert_int_equal(missing_count, 1);
    assert_int_equal(missing[0].index, 1);
    assert_int_equal(missing[0].offset, 1 << 20);
    assert_true(hash256_equal(missing[0].hash, second));
    assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, &blamed, place->error, ERROR_BYTES),
                     ERR_NOT_FOUND);
    assert_int_equal(chunks_put(place->chunks, second, bytes + (1 << 20), 1 << 20), 0);
    assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, &blamed, place->error, ERROR_BYTES), 0);
    assert_fd_holds(out, bytes, size);

    /* The manifest itself. */
    damage(place, name, 9);
    memset(&blamed, 0, sizeof blamed);
    assert_int_equal(chunks_read_blob_to_fd(place->chunks, name, out, &blamed, place->error, ERROR_BYTES), ERR_CORRUPT);
    assert_true(hash256_equal(blamed, name));
    assert_int_equal(chunks_blob_missing(place->chunks, name, missing, 4, &missing_count), ERR_CORRUPT);
    assert_int_equal(chunks_delete(place->chunks, name), 0);
    assert_int_equal(chunks_blob_missing(place->chunks, name, missing, 4, &missing_count), ERR_NOT_FOUND);
    /* A chunk that is no manifest. */
    assert_int_equal(chunks_verify_blob(place->chunks, second, NULL, place->error, ERROR_BYTES), ERR_MALFORMED);
    close(out);
    close(fd);
    free(buffer);
    free(bytes);
}

/* ---- a full disk ---- */

static void full_disk_is_an_answer_and_deleting_makes_room(void **state)
{
    struct place *place = *state;
    if (mount("none", place->dir, "tmpfs", 0, "size=4m") != 0) {
        print_message("skipped: mounting a tmpfs on %s: %s\n", place->dir, strerror(errno));
        skip();
    }
    place->mounted = true;
    place_open(place);
    enum { CHUNK = 200 * 1024, CHUNKS = 40 };
    uint8_t *bytes = random_bytes(5, CHUNK * CHUNKS);
    uint8_t *back = malloc(CHUNK);
    assert_non_null(back);
    int stored = 0;
    int rc = 0;
    while (rc == 0 && stored < CHUNKS) {
        rc = chunks_put(place->chunks, hash_bytes(bytes + stored * CHUNK, CHUNK), bytes + stored * CHUNK, CHUNK);
        stored += rc == 0;
    }
    assert_int_equal(rc, ERR_NO_SPACE);
    assert_in_range(stored, 8, 20);
    /* A blob does not fit either, says so, and leaves no manifest. */
    int fd = memfd_of(bytes, CHUNK * CHUNKS);
    hash256 name = {{0}};
    assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, CHUNK * CHUNKS, 0, &name, place->error, ERROR_BYTES),
                     ERR_NO_SPACE);
    assert_true(hash256_is_none(name));
    assert_non_null(strstr(place->error, "the disk is full"));
    close(fd);
    for (int life = 0; life < 2; life++) {
        for (int i = 0; i < stored; i++) {
            size_t count;
            assert_int_equal(chunks_get(place->chunks, hash_bytes(bytes + i * CHUNK, CHUNK), back, CHUNK, &count), 0);
        }
        chunks_close(&place->chunks);
        place_open(place);
    }
    for (int i = 0; i < stored / 2; i++) {
        assert_int_equal(chunks_delete(place->chunks, hash_bytes(bytes + i * CHUNK, CHUNK)), 0);
    }
    struct chunks_space space;
    assert_int_equal(chunks_space(place->chunks, &space), 0);
    assert_true(space.reusable_bytes >= (uint64_t)(stored / 2) * CHUNK);
    assert_true(space.free_bytes >= space.reusable_bytes);
    assert_true(space.disk_bytes < 1 << 20);
    for (int i = 0; i < stored / 2 - 1; i++) {
        assert_int_equal(chunks_put(place->chunks, hash_bytes(bytes + i * CHUNK, CHUNK), bytes + i * CHUNK, CHUNK), 0);
    }
    free(back);
    free(bytes);
}

static void map_falls_back_where_addresses_are_short(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    print_message("skipped: a sanitizer needs the address space that this test takes away\n");
    skip();
#else
    struct place *place = *state;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = 20ull << 30, .rlim_max = 20ull << 30};
        bool good = setrlimit(RLIMIT_AS, &limit) == 0 &&
                    chunks_open(place->dir, &place->chunks, place->error, ERROR_BYTES) == 0 &&
                    chunks_put(place->chunks, hash_bytes("x", 1), "x", 1) == 0;
        limit.rlim_cur = 2ull << 30;
        chunks_close(&place->chunks);
        good = good && setrlimit(RLIMIT_AS, &limit) == 0 &&
               chunks_open(place->dir, &place->chunks, place->error, ERROR_BYTES) == ERR_MEMORY &&
               place->chunks == NULL && strstr(place->error, place->dir) != NULL;
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    place_open(place);
    assert_true(chunks_has(place->chunks, hash_bytes("x", 1)));
#endif
}

/* ---- threads ---- */

struct reader {
    struct place *place;
    const uint8_t *bytes;
    size_t chunk_count;
    atomic_bool *stop;
    unsigned found; /* in the last round */
    unsigned wrong;
};

static void *reader_main(void *argument)
{
    struct reader *reader = argument;
    uint8_t *buffer = malloc(BLOB_CHUNK_BYTES);
    for (bool last_round = buffer == NULL; !last_round;) {
        last_round = atomic_load(reader->stop); /* so the last round begins when all is stored */
        reader->found = 0;
        for (size_t i = 0; i < reader->chunk_count; i++) {
            const uint8_t *expected = reader->bytes + i * BLOB_CHUNK_BYTES;
            hash256 hash = hash_bytes(expected, BLOB_CHUNK_BYTES);
            size_t count;
            int rc = chunks_get(reader->place->chunks, hash, buffer, BLOB_CHUNK_BYTES, &count);
            if (rc == 0 && count == BLOB_CHUNK_BYTES && memcmp(buffer, expected, count) == 0) {
                reader->found++;
            } else if (rc != ERR_NOT_FOUND) {
                reader->wrong++;
            }
        }
    }
    free(buffer);
    return NULL;
}

static void readers_see_whole_chunks_while_a_blob_is_stored(void **state)
{
    struct place *place = *state;
    place_open(place);
    enum { COUNT = 40 };
    uint8_t *bytes = random_bytes(8, (size_t)COUNT << 20);
    int fd = memfd_of(bytes, (size_t)COUNT << 20);
    atomic_bool stop = false;
    struct reader readers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        readers[i] = (struct reader){.place = place, .bytes = bytes, .chunk_count = COUNT, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, reader_main, &readers[i]), 0);
    }
    hash256 name;
    int rc = chunks_put_blob_from_fd(place->chunks, fd, (uint64_t)COUNT << 20, 0, &name, place->error, ERROR_BYTES);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(readers[i].wrong, 0);
        assert_int_equal(readers[i].found, COUNT);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(chunks_verify_blob(place->chunks, name, NULL, place->error, ERROR_BYTES), 0);
    close(fd);
    free(bytes);
}

/* ---- series ---- */

struct heard {
    unsigned count;
    uint64_t sequences[16];
    char text[128];
    uint64_t stop_at;
};

static int hear(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct heard *heard = context;
    assert_true(heard->count < 16);
    heard->sequences[heard->count++] = sequence;
    size_t used = strlen(heard->text);
    snprintf(heard->text + used, sizeof heard->text - used, "%.*s ", (int)count, (const char *)bytes);
    return heard->stop_at == sequence ? 9 : 0;
}

static void series_are_ordered_and_apart(void **state)
{
    struct place *place = *state;
    place_open(place);
    struct chunks *chunks = place->chunks;
    uint64_t last;
    assert_int_equal(series_last(chunks, "t", 1, &last), ERR_NOT_FOUND);
    assert_int_equal(series_append(chunks, "t", 1, 300, "c", 1), 0);
    assert_int_equal(series_append(chunks, "t", 1, 1, "a", 1), 0);
    assert_int_equal(series_append(chunks, "t", 1, 2, "b", 1), 0);
    assert_int_equal(series_append(chunks, "t", 1, 2, "changed", 7), 0); /* kept as it was */
    assert_int_equal(series_append(chunks, "t\0", 2, 5, "other", 5), 0);
    assert_int_equal(series_append(chunks, "tt", 2, 0, "other", 5), 0);
    assert_int_equal(series_append(chunks, "s", 1, UINT64_MAX, "end", 3), 0);

    struct heard heard = {.stop_at = UINT64_MAX};
    assert_int_equal(series_read(chunks, "t", 1, 0, hear, &heard), 0);
    assert_string_equal(heard.text, "a b c ");
    assert_int_equal(heard.sequences[2], 300);
    heard = (struct heard){.stop_at = UINT64_MAX};
    assert_int_equal(series_read(chunks, "t", 1, 2, hear, &heard), 0);
    assert_string_equal(heard.text, "b c ");
    heard = (struct heard){.stop_at = 1};
    assert_int_equal(series_read(chunks, "t", 1, 0, hear, &heard), 9);
    assert_string_equal(heard.text, "a ");
    heard = (struct heard){.stop_at = UINT64_MAX};
    assert_int_equal(series_read(chunks, "t", 1, 301, hear, &heard), 0);
    assert_int_equal(heard.count, 0);

    assert_int_equal(series_last(chunks, "t", 1, &last), 0);
    assert_int_equal(last, 300);
    assert_int_equal(series_last(chunks, "tt", 2, &last), 0);
    assert_int_equal(last, 0);
    assert_int_equal(series_last(chunks, "s", 1, &last), 0);
    assert_true(last == UINT64_MAX);
    assert_int_equal(series_last(chunks, "zz", 2, &last), ERR_NOT_FOUND);
    assert_int_equal(series_last(chunks, "a", 1, &last), ERR_NOT_FOUND);

    assert_int_equal(series_delete(chunks, "t", 1), 0);
    assert_int_equal(series_delete(chunks, "t", 1), 0);
    assert_int_equal(series_last(chunks, "t", 1, &last), ERR_NOT_FOUND);
    assert_int_equal(series_last(chunks, "t\0", 2, &last), 0);
    assert_int_equal(last, 5);

    uint8_t prefix[SERIES_PREFIX_BYTES_MAX + 1] = {1};
    assert_int_equal(series_append(chunks, prefix, 0, 1, "x", 1), ERR_USAGE);
    assert_int_equal(series_append(chunks, prefix, sizeof prefix, 1, "x", 1), ERR_USAGE);
    assert_int_equal(series_append(chunks, prefix, SERIES_PREFIX_BYTES_MAX, 1, "x", 1), 0);
    assert_int_equal(series_append(chunks, prefix, 1, 1, prefix, SERIES_ENTRY_BYTES_MAX + 1), ERR_USAGE);
    assert_int_equal(series_append(chunks, prefix, 1, 1, NULL, 0), 0);
}

static int count_entry(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    (void)bytes;
    uint64_t *sums = context;
    sums[0]++;
    sums[1] += sequence;
    sums[2] += count;
    return 0;
}

static void series_batches_span_transactions(void **state)
{
    struct place *place = *state;
    place_open(place);
    enum { COUNT = 50 };
    uint8_t *bytes = random_bytes(9, SERIES_ENTRY_BYTES_MAX);
    struct series_entry entries[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        entries[i] = (struct series_entry){
            .prefix = "log", .prefix_bytes = 3, .sequence = i, .bytes = bytes, .count = SERIES_ENTRY_BYTES_MAX - i};
    }
    assert_int_equal(series_append_batch(place->chunks, entries, COUNT), 0);
    assert_int_equal(series_append_batch(place->chunks, entries, COUNT), 0);
    assert_int_equal(series_append_batch(place->chunks, entries, 0), 0);
    uint64_t sums[3] = {0};
    assert_int_equal(series_read(place->chunks, "log", 3, 0, count_entry, sums), 0);
    assert_int_equal(sums[0], COUNT);
    assert_int_equal(sums[1], COUNT * (COUNT - 1) / 2);
    assert_int_equal(sums[2], COUNT * (uint64_t)SERIES_ENTRY_BYTES_MAX - sums[1]);
    assert_int_equal(series_delete(place->chunks, "log", 3), 0);
    memset(sums, 0, sizeof sums);
    assert_int_equal(series_read(place->chunks, "log", 3, 0, count_entry, sums), 0);
    assert_int_equal(sums[0], 0);
    free(bytes);
}

#define COUNT_BYTES (3u << 20)

/* Two blobs of three chunks each, the first two of which they share. */
static void put_two(struct place *place, hash256 *a, hash256 *b)
{
    uint8_t *bytes = random_bytes(11, COUNT_BYTES);
    int fd = memfd_of(bytes, COUNT_BYTES);
    assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, COUNT_BYTES, 1u << 20, a, place->error, ERROR_BYTES), 0);
    close(fd);
    bytes[COUNT_BYTES - 1] ^= 1;
    fd = memfd_of(bytes, COUNT_BYTES);
    assert_int_equal(chunks_put_blob_from_fd(place->chunks, fd, COUNT_BYTES, 1u << 20, b, place->error, ERROR_BYTES), 0);
    close(fd);
    free(bytes);
}

static uint32_t count_chunks(struct place *place)
{
    uint32_t count = 0;
    hash256 at = {{0}};
    size_t bytes;
    while (chunks_next(place->chunks, at, &at, &bytes) == 0) {
        count++;
    }
    return count;
}

static void collection_takes_what_no_kept_blob_needs(void **state)
{
    struct place *place = *state;
    struct chunks_collected collected;
    hash256 blobs[3] = {{{0}}, {{0}}, {{99}}}; /* the last one is not here (yet) */
    place_open(place);
    put_two(place, &blobs[0], &blobs[1]);
    assert_int_equal(count_chunks(place), 4 + 2);
    assert_int_equal(chunks_collect(place->chunks, blobs, 3, 0, &collected), 0);
    assert_int_equal(collected.chunks, 0);
    assert_int_equal(chunks_collect(place->chunks, blobs + 1, 2, 0, &collected), 0);
    assert_int_equal(collected.chunks, 2); /* its last chunk, its manifest */
    assert_int_equal(count_chunks(place), 4);
    assert_int_equal(chunks_verify_blob(place->chunks, blobs[1], NULL, place->error, ERROR_BYTES), 0);
    assert_false(chunks_has(place->chunks, blobs[0]));
    assert_int_equal(chunks_collect(place->chunks, NULL, 0, 0, &collected), 0);
    assert_int_equal(count_chunks(place), 0);
    put_two(place, &blobs[0], &blobs[1]); /* what was collected can come again */
    assert_int_equal(chunks_verify_blob(place->chunks, blobs[0], NULL, place->error, ERROR_BYTES), 0);
}

static void what_was_touched_lately_is_not_collected(void **state)
{
    struct place *place = *state;
    struct chunks_collected collected;
    hash256 a, b;
    place_open(place);
    put_two(place, &a, &b);
    assert_int_equal(chunks_collect(place->chunks, NULL, 0, 3600, &collected), 0);
    assert_int_equal(count_chunks(place), 6);
    chunks_close(&place->chunks);
    place_open(place); /* nobody knows when an earlier life touched it */
    assert_int_equal(chunks_collect(place->chunks, NULL, 0, 3600, &collected), 0);
    assert_int_equal(count_chunks(place), 6);
}

static void nothing_is_collected_while_a_kept_manifest_is_damaged(void **state)
{
    struct place *place = *state;
    struct chunks_collected collected;
    hash256 a, b;
    place_open(place);
    put_two(place, &a, &b);
    damage(place, b, 5);
    assert_int_equal(chunks_collect(place->chunks, &b, 1, 0, &collected), ERR_CORRUPT);
    assert_int_equal(collected.chunks, 0);
    assert_int_equal(count_chunks(place), 6);
    assert_true(collected.damaged_count == 1 && hash256_equal(collected.damaged[0], b));
    assert_int_equal(chunks_delete(place->chunks, b), 0); /* it can be fetched again; if nobody has it, its chunks are no use */
    assert_int_equal(chunks_collect(place->chunks, &b, 1, 0, &collected), 0);
    assert_int_equal(count_chunks(place), 0);
}

/* Any member can write a record that names any hash. */
static void a_kept_chunk_that_is_no_manifest_ends_no_collection(void **state)
{
    struct place *place = *state;
    struct chunks_collected collected;
    uint8_t *bytes = random_bytes(11, COUNT_BYTES);
    hash256 a, b, kept[3];
    place_open(place);
    put_two(place, &a, &b);
    kept[0] = kept[1] = hash_bytes(bytes, 1u << 20); /* the first chunk of both */
    kept[2] = b;
    assert_int_equal(chunks_collect(place->chunks, kept, 3, 0, &collected), 0);
    assert_int_equal(collected.chunks, 2);
    assert_int_equal(chunks_collect(place->chunks, kept, 1, 0, &collected), 0);
    assert_int_equal(count_chunks(place), 1);
    free(bytes);
}

static void who_only_looks_keeps_nothing_from_being_collected(void **state)
{
    struct place *place = *state;
    struct chunks_collected collected;
    hash256 a, b;
    uint32_t missing;
    place_open(place);
    put_two(place, &a, &b);
    place->chunks->opened_s -= 7200;
    assert_int_equal(chunks_blob_missing(place->chunks, a, NULL, 0, &missing), 0);
    assert_int_equal(missing, 0);
    assert_int_equal(chunks_collect(place->chunks, NULL, 0, 3600, &collected), 0);
    assert_int_equal(count_chunks(place), 0);
}

static void a_suspend_does_not_make_chunks_idle(void **state)
{
    struct place *place = *state;
    struct chunks_collected collected;
    hash256 a, b;
    place_open(place);
    put_two(place, &a, &b);
    suspended_s = 7200;
    int rc = chunks_collect(place->chunks, NULL, 0, 3600, &collected);
    suspended_s = 0;
    assert_int_equal(rc, 0);
    assert_int_equal(count_chunks(place), 6);
}

/* A collection takes what was stored first; the blob is whole all the same. */
static void what_is_collected_while_a_blob_is_stored_is_stored_again(void **state)
{
    struct place *place = *state;
    hash256 name;
    place_open(place);
    uint8_t *bytes = random_bytes(12, 3 * CHUNKS_TRANSACTION_BYTES);
    int fd = memfd_of(bytes, 3 * CHUNKS_TRANSACTION_BYTES);
    collected_at_read = place->chunks;
    int rc = chunks_put_blob_from_fd(place->chunks, fd, 3 * CHUNKS_TRANSACTION_BYTES, 1u << 20, &name, place->error,
                                     ERROR_BYTES);
    assert_int_equal(rc, 0);
    assert_null(collected_at_read);
    assert_int_equal(chunks_verify_blob(place->chunks, name, NULL, place->error, ERROR_BYTES), 0);
    close(fd);
    free(bytes);
}

/* All entries of a series, compared with a text for each that follows from its number. */
struct line_walk {
    uint64_t next, step;
    unsigned count;
};

static size_t line_of(uint64_t sequence, char out[128])
{
    return (size_t)snprintf(out, 128, "step %llu loss 0.%llu lr 0.001 | 12.3 samples/s%.*s\n", (unsigned long long)sequence,
                            (unsigned long long)(sequence * 2654435761u % 100000), (int)(sequence % 7), "......");
}

static int check_line(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct line_walk *walk = context;
    char line[128];
    assert_true(sequence == walk->next);
    assert_int_equal(count, line_of(sequence, line));
    assert_memory_equal(bytes, line, count);
    walk->next += walk->step;
    walk->count++;
    return 0;
}

static void check_lines(struct place *place, uint64_t from, uint64_t first, uint64_t step, unsigned count)
{
    struct line_walk walk = {.next = first, .step = step};
    assert_int_equal(series_read(place->chunks, "log", 3, from, check_line, &walk), 0);
    assert_int_equal(walk.count, count);
}

static void append_line(struct place *place, uint64_t sequence)
{
    char line[128];
    size_t bytes = line_of(sequence, line);
    assert_int_equal(series_append(place->chunks, "log", 3, sequence, line, bytes), 0);
}

#define LINES 20000

static void append_lines_behind(struct place *place, uint64_t sequence)
{
    static char text[LINES][128];
    static struct series_entry entries[LINES];
    for (uint64_t i = 0; i < LINES; i++) {
        entries[i] = (struct series_entry){.prefix = "log", .prefix_bytes = 3, .sequence = sequence + 10 + 10 * i, .bytes = text[i]};
        entries[i].count = line_of(entries[i].sequence, text[i]);
    }
    assert_int_equal(series_append_batch(place->chunks, entries, LINES), 0);
}

static void append_lines(struct place *place)
{
    append_lines_behind(place, 0);
}

static void packed_series_read_as_before_in_a_fraction_of_the_bytes(void **state)
{
    struct place *place = *state;
    struct chunks_space plain, packed;
    uint64_t last;
    place_open(place);
    append_lines(place);
    assert_int_equal(chunks_space(place->chunks, &plain), 0);
    assert_int_equal(series_pack(place->chunks, "log", 3, false), 0);
    check_lines(place, 0, 10, 10, LINES);
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    assert_int_equal(series_pack(place->chunks, "none", 4, true), 0);
    check_lines(place, 0, 10, 10, LINES);
    check_lines(place, 50001, 50010, 10, LINES - 5000);
    check_lines(place, 10 * LINES, 10 * LINES, 10, 1);
    check_lines(place, 10 * LINES + 1, 0, 10, 0);
    assert_int_equal(series_last(place->chunks, "log", 3, &last), 0);
    assert_int_equal(last, 10 * LINES);
    append_line(place, 10 * LINES + 10);
    check_lines(place, 10 * LINES, 10 * LINES, 10, 2);
    assert_int_equal(chunks_space(place->chunks, &packed), 0);
    uint64_t before = plain.file_bytes - plain.reusable_bytes, after = packed.file_bytes - packed.reusable_bytes;
    assert_true(after * 4 < before);
}

/* Large entries, each behind a small one. */
static void append_burst_behind(struct place *place, uint64_t sequence)
{
    static char large[64u << 10];
    memset(large, 'x', sizeof large);
    for (uint64_t i = 0; i < 5; i++) {
        append_line(place, sequence + 20 * i + 10);
        assert_int_equal(series_append(place->chunks, "log", 3, sequence + 20 * i + 20, large, sizeof large), 0);
    }
}

static uint64_t single_entries(struct place *place)
{
    MDB_txn *txn;
    MDB_stat stat;
    assert_int_equal(mdb_txn_begin(place->chunks->env, NULL, MDB_RDONLY, &txn), 0);
    assert_int_equal(mdb_stat(txn, place->chunks->series_table, &stat), 0);
    mdb_txn_abort(txn);
    return stat.ms_entries;
}

static void small_entries_are_packed_before_and_behind_large_ones(void **state)
{
    struct place *place = *state;
    place_open(place);
    append_line(place, 10);
    append_burst_behind(place, 10);
    assert_int_equal(series_pack(place->chunks, "log", 3, false), 0);
    assert_int_equal(single_entries(place), 4); /* one between two large ones saves nothing */
    append_lines_behind(place, 110);
    assert_int_equal(series_pack(place->chunks, "log", 3, false), 0);
    assert_in_range(single_entries(place), 4, LINES / 2);
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    assert_int_equal(single_entries(place), 4);
}

static void an_entry_that_comes_late_finds_its_place_in_a_block(void **state)
{
    struct place *place = *state;
    place_open(place);
    for (uint64_t sequence = 10; sequence <= 300; sequence += 10) {
        if (sequence != 150) {
            append_line(place, sequence);
        }
    }
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    assert_int_equal(series_append(place->chunks, "log", 3, 140, "other", 5), 0); /* is there: as it was */
    append_line(place, 150);
    check_lines(place, 0, 10, 10, 30);
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    append_line(place, 310);
    check_lines(place, 0, 10, 10, 31);
}

static void blocks_go_around_blocks_that_are_there(void **state)
{
    struct place *place = *state;
    place_open(place);
    for (uint64_t sequence = 110; sequence <= 200; sequence += 10) {
        append_line(place, sequence);
    }
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    for (uint64_t sequence = 10; sequence <= 300; sequence += 10) {
        append_line(place, sequence);
    }
    check_lines(place, 0, 10, 10, 30);
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    check_lines(place, 0, 10, 10, 30);
}

static void the_oldest_entries_go_with_their_blocks(void **state)
{
    struct place *place = *state;
    uint64_t last;
    place_open(place);
    append_lines(place);
    assert_int_equal(series_pack(place->chunks, "log", 3, false), 0);
    assert_int_equal(series_trim(place->chunks, "log", 3, 5), 0); /* before all */
    check_lines(place, 0, 10, 10, LINES);
    assert_int_equal(series_trim(place->chunks, "log", 3, 10 * LINES - 10), 0); /* blocks, and single entries behind them */
    check_lines(place, 0, 10 * LINES, 10, 1);
    append_lines(place);
    assert_int_equal(series_pack(place->chunks, "log", 3, true), 0);
    assert_int_equal(series_trim(place->chunks, "log", 3, 5 * LINES), 0);
    struct line_walk walk = {.next = 10 * LINES, .step = 10};
    assert_int_equal(series_read(place->chunks, "log", 3, 10 * LINES, check_line, &walk), 0);
    assert_int_equal(walk.count, 1);
    assert_int_equal(series_delete(place->chunks, "log", 3), 0);
    assert_int_equal(series_last(place->chunks, "log", 3, &last), ERR_NOT_FOUND);
    check_lines(place, 0, 0, 10, 0);
}

struct walk {
    struct chunks *chunks;
    uint32_t asked;
};

static int delete_if_x(void *context, const uint8_t *prefix, size_t prefix_bytes)
{
    struct walk *walk = context;
    walk->asked++;
    return prefix_bytes > 1 && prefix[1] == 'x' ? series_delete(walk->chunks, prefix, prefix_bytes) : 0;
}

static void dead_series_are_collected(void **state)
{
    struct place *place = *state;
    place_open(place);
    static const char *const prefixes[] = {"mxa", "mxb", "mya", "lxa", "m"};
    for (uint64_t i = 0; i < 5; i++) {
        for (uint64_t sequence = 0; sequence < 3; sequence++) {
            assert_int_equal(series_append(place->chunks, prefixes[i], strlen(prefixes[i]),
                                           sequence == 2 ? UINT64_MAX : sequence, "entry", 5),
                             0);
        }
    }
    struct walk walk = {.chunks = place->chunks};
    assert_int_equal(series_pack(place->chunks, "mxa", 3, true), 0);
    assert_int_equal(series_pack(place->chunks, "mya", 3, true), 0);
    assert_int_equal(series_each(place->chunks, delete_if_x, &walk), 0);
    assert_int_equal(walk.asked, 5);
    for (uint32_t i = 0; i < 5; i++) {
        uint64_t last;
        bool is_dead = prefixes[i][1] == 'x';
        assert_int_equal(series_last(place->chunks, prefixes[i], strlen(prefixes[i]), &last), is_dead ? ERR_NOT_FOUND : 0);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(packed_series_read_as_before_in_a_fraction_of_the_bytes),
        TEST(small_entries_are_packed_before_and_behind_large_ones),
        TEST(an_entry_that_comes_late_finds_its_place_in_a_block),
        TEST(blocks_go_around_blocks_that_are_there),
        TEST(the_oldest_entries_go_with_their_blocks),
        TEST(chunk_round_trip),
        TEST(blob_round_trip),
        TEST(equal_chunks_are_stored_once),
        TEST(parts_between_cuts_are_stored_once_wherever_they_lie),
        TEST(odd_chunk_sizes_fill_transactions),
        TEST(flipped_byte_is_found_and_can_be_mended),
        TEST(full_disk_is_an_answer_and_deleting_makes_room),
        TEST(map_falls_back_where_addresses_are_short),
        TEST(readers_see_whole_chunks_while_a_blob_is_stored),
        TEST(series_are_ordered_and_apart),
        TEST(series_batches_span_transactions),
        TEST(collection_takes_what_no_kept_blob_needs),
        TEST(what_was_touched_lately_is_not_collected),
        TEST(nothing_is_collected_while_a_kept_manifest_is_damaged),
        TEST(a_kept_chunk_that_is_no_manifest_ends_no_collection),
        TEST(who_only_looks_keeps_nothing_from_being_collected),
        TEST(a_suspend_does_not_make_chunks_idle),
        TEST(what_is_collected_while_a_blob_is_stored_is_stored_again),
        TEST(dead_series_are_collected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
