#include "tests/unit/bulk_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#include "base/random.h"

uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int world_make(void **state)
{
    *state = calloc(1, sizeof(struct world));
    return *state != NULL ? 0 : -1;
}

int world_remove(void **state)
{
    struct world *world = *state;
    int result = 0;
    for (int i = 0; i < SIDES; i++) {
        struct side *side = &world->sides[i];
        if (!side->open) {
            continue;
        }
        bulk_stop(&side->bulk);
        chunks_close(&side->chunks);
        zap_close(&side->zap);
        result |= zmq_ctx_term(side->context);
        if (side->mounted) {
            result |= umount2(side->dir, MNT_DETACH);
        }
        char command[128];
        (void)snprintf(command, sizeof command, "rm -rf %s", side->dir);
        result |= system(command);
    }
    free(world);
    return result;
}

void bulk_open(struct side *side, uint64_t rate, uint64_t idle_ms)
{
    char error[256] = "";
    struct bulk_options options = {.context = side->context, .zap = side->zap, .keys = &side->keys,
                                   .listen = "127.0.0.1:0", .chunks = side->chunks, .bytes_per_s_max = rate,
                                   .idle_ms = idle_ms, .series = side->series};
    if (bulk_start(&options, &side->bulk, error) != 0) {
        fail_msg("%s", error);
    }
    assert_true(bulk_port(side->bulk) > 0);
}

bool side_open(struct side *side, uint64_t rate, const char *disk)
{
    char error[256] = "";
    side->open = true;
    (void)snprintf(side->dir, sizeof side->dir, "/tmp/shoal-bulk-test-XXXXXX");
    assert_non_null(mkdtemp(side->dir));
    side->mounted = disk != NULL && mount("none", side->dir, "tmpfs", 0, disk) == 0;
    keys_create(&side->keys);
    side->context = zmq_ctx_new();
    assert_non_null(side->context);
    assert_int_equal(zap_open(side->context, &side->zap, error), 0);
    assert_int_equal(chunks_open(side->dir, &side->chunks, error, sizeof error), 0);
    bulk_open(side, rate, 0);
    return disk == NULL || side->mounted;
}

void introduce(struct side *from, const struct side *to)
{
    assert_int_equal(bulk_peer(from->bulk, to->keys.id, to->keys.sign_public, "127.0.0.1", bulk_port(to->bulk)), 0);
}

void befriend(struct side *a, struct side *b)
{
    assert_int_equal(zap_admit_member(a->zap, b->keys.curve_public, b->keys.id), 0);
    assert_int_equal(zap_admit_member(b->zap, a->keys.curve_public, a->keys.id), 0);
    introduce(a, b);
    introduce(b, a);
}

static void side_take(struct side *side)
{
    struct bulk_event event;
    while (bulk_next(side->bulk, &event) == 0) {
        assert_true(side->seen_count < SEEN_MAX);
        for (uint32_t i = 0; i < event.item_count && i < 8; i++) {
            side->last_sequences[i] = event.items[i].sequence;
            side->last_item_bytes[i] = event.items[i].count;
            memcpy(side->last_items[i], event.items[i].bytes, event.items[i].count < 64 ? event.items[i].count : 64);
        }
        assert_true((event.code == 0) == (event.text[0] == '\0'));
        event.items = NULL;
        side->seen[side->seen_count++] = event;
    }
}

void world_turn(struct world *world)
{
    zmq_pollitem_t items[2 * SIDES];
    int count = 0;
    for (int i = 0; i < SIDES; i++) {
        if (world->sides[i].open) {
            items[count++] = (zmq_pollitem_t){.socket = zap_socket(world->sides[i].zap), .events = ZMQ_POLLIN};
        }
        if (world->sides[i].bulk != NULL) {
            items[count++] = (zmq_pollitem_t){.fd = bulk_fd(world->sides[i].bulk), .events = ZMQ_POLLIN};
        }
    }
    assert_true(zmq_poll(items, count, 20) >= 0);
    for (int i = 0; i < SIDES; i++) {
        if (world->sides[i].open) {
            zap_process(world->sides[i].zap);
        }
        if (world->sides[i].bulk != NULL) {
            side_take(&world->sides[i]);
        }
    }
}

const struct bulk_event *find_event(const struct side *side, enum bulk_event_kind kind, uint64_t id)
{
    for (size_t i = 0; i < side->seen_count; i++) {
        if (side->seen[i].kind == kind && side->seen[i].id == id) {
            return &side->seen[i];
        }
    }
    return NULL;
}

const struct bulk_event *wait_event(struct world *world, const struct side *side, enum bulk_event_kind kind,
                                    uint64_t id)
{
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    const struct bulk_event *event;
    while ((event = find_event(side, kind, id)) == NULL) {
        if (now_ms() > end_ms) {
            fail_msg("no event of kind %d with id %llu came", kind, (unsigned long long)id);
        }
        world_turn(world);
    }
    return event;
}

void wait_ok(struct world *world, const struct side *side, enum bulk_event_kind kind, uint64_t id)
{
    const struct bulk_event *event = wait_event(world, side, kind, id);
    if (event->code != 0) {
        fail_msg("request %llu: %s", (unsigned long long)id, event->text);
    }
}

uint64_t received_bytes(const struct side *side)
{
    struct bulk_statistics statistics;
    bulk_statistics(side->bulk, &statistics);
    return statistics.received_bytes;
}

/* ---- blobs ---- */

uint8_t *blob_bytes(uint64_t seed, size_t count)
{
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    struct random random;
    random_init(&random, seed);
    for (size_t i = 0; i + 8 <= count; i += 8) {
        uint64_t word = random_u64(&random);
        memcpy(bytes + i, &word, 8);
    }
    return bytes;
}

hash256 blob_put(struct side *side, uint64_t seed, size_t count)
{
    char error[256] = "";
    hash256 manifest;
    uint8_t *bytes = blob_bytes(seed, count);
    int fd = memfd_create("blob", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, 0), (ssize_t)count);
    assert_int_equal(chunks_put_blob_from_fd(side->chunks, fd, count, 0, &manifest, error, sizeof error), 0);
    assert_int_equal(close(fd), 0);
    free(bytes);
    return manifest;
}

void damage(const struct side *side, const uint8_t *chunk)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/chunks/data.mdb", side->dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat info;
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    uint8_t *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    const uint8_t *found = memmem(map, (size_t)info.st_size, chunk, 256);
    assert_non_null(found);
    uint8_t flipped = (uint8_t)(found[1000] ^ 0x20);
    assert_int_equal(pwrite(fd, &flipped, 1, found - map + 1000), 1);
    assert_int_equal(munmap(map, (size_t)info.st_size), 0);
    assert_int_equal(close(fd), 0);
}

/* ---- another program in the place of a peer ---- */

void *pretender_open(struct side *to, struct keys *keys, void *context)
{
    keys_create(keys);
    void *router = zmq_socket(context, ZMQ_ROUTER);
    int one = 1, zero = 0;
    char endpoint[64];
    size_t bytes = sizeof endpoint;
    assert_true(zmq_setsockopt(router, ZMQ_CURVE_SERVER, &one, sizeof one) == 0 &&
                zmq_setsockopt(router, ZMQ_LINGER, &zero, sizeof zero) == 0 &&
                zmq_setsockopt(router, ZMQ_CURVE_SECRETKEY, keys->curve_secret, 32) == 0 &&
                zmq_bind(router, "tcp://127.0.0.1:*") == 0 &&
                zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &bytes) == 0);
    uint16_t port = (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
    assert_int_equal(bulk_peer(to->bulk, keys->id, keys->sign_public, "127.0.0.1", port), 0);
    return router;
}

void rogue_admit(struct side *to, struct keys *keys)
{
    keys_create(keys);
    assert_int_equal(zap_admit_member(to->zap, keys->curve_public, keys->id), 0);
}

void *rogue_open(struct side *to, const struct keys *keys)
{
    void *socket = zmq_socket(to->context, ZMQ_DEALER);
    int zero = 0;
    assert_true(zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero) == 0 &&
                zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->curve_public, 32) == 0 &&
                zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->curve_secret, 32) == 0 &&
                zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, to->keys.curve_public, 32) == 0);
    return socket;
}

void rogue_connect(void *socket, const struct side *to)
{
    char endpoint[64];
    (void)snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", bulk_port(to->bulk));
    assert_int_equal(zmq_connect(socket, endpoint), 0);
}
