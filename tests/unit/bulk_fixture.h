#ifndef TESTS_UNIT_BULK_FIXTURE_H
#define TESTS_UNIT_BULK_FIXTURE_H
/* Bulk transfer between two or three nodes of one process over loopback, with real keys, a door per node and real chunk
 * stores. Every wait is for a condition, with a deadline that only a failure meets. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/bulk/bulk.h"

#define PATIENCE_MS 60000
#define SIDES 3
#define SEEN_MAX 64
#define MIB (1u << 20)
#define BLOB_BYTES (20u * MIB)

struct side {
    bool open, mounted;
    char dir[64];
    void *context;
    struct zap *zap;
    struct keys keys;
    struct chunks *chunks;
    struct bulk *bulk;
    struct bulk_series_hooks series; /* set before side_open */
    struct bulk_event seen[SEEN_MAX]; /* without items */
    size_t seen_count;
    uint8_t last_items[8][64]; /* of the last BULK_SERIES */
    size_t last_item_bytes[8];
    uint64_t last_sequences[8];
};

struct world {
    struct side sides[SIDES];
};

uint64_t now_ms(void);
void bulk_open(struct side *side, uint64_t rate, uint64_t idle_ms);

/* `disk`: the size of a tmpfs to live on, or NULL. False: it cannot be mounted here. */
bool side_open(struct side *side, uint64_t rate, const char *disk);
void introduce(struct side *from, const struct side *to);

/* Both admit each other and know where the other listens. */
void befriend(struct side *a, struct side *b);

/* The doors are answered and the events taken. */
void world_turn(struct world *world);
const struct bulk_event *find_event(const struct side *side, enum bulk_event_kind kind, uint64_t id);
const struct bulk_event *wait_event(struct world *world, const struct side *side, enum bulk_event_kind kind,
                                    uint64_t id);
void wait_ok(struct world *world, const struct side *side, enum bulk_event_kind kind, uint64_t id);
uint64_t received_bytes(const struct side *side);

/* ---- blobs ---- */

uint8_t *blob_bytes(uint64_t seed, size_t count);
hash256 blob_put(struct side *side, uint64_t seed, size_t count);

/* Flips one byte of a stored chunk in the file below the store, which sees it at once: it maps that file. */
void damage(const struct side *side, const uint8_t *chunk);

/* ---- another program in the place of a peer ---- */

/* A CURVE ROUTER of `keys`, introduced to `to`. */
void *pretender_open(struct side *to, struct keys *keys, void *context);

/* A DEALER of a member's keys, which are made and admitted first; between opening and connecting it may get options. */
void rogue_admit(struct side *to, struct keys *keys);
void *rogue_open(struct side *to, const struct keys *keys);
void rogue_connect(void *socket, const struct side *to);

/* ---- for cmocka ---- */

int world_make(void **state);
int world_remove(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_remove)

#endif
