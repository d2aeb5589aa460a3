#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H
/* One machine's state store: writes queue up, one commit at a time takes all that wait, and only then are they told to
 * the core, in the order of tickets. A crash drops what is not committed; the commit under way is on disk or not, as
 * a whole. While the disk is full, records are refused and fences are not. */

#include <stdbool.h>
#include <stdint.h>

#include "gossip/record.h"

struct sim;
struct sim_event;
struct node_effect;

struct disk_entry {
    record_ident ident; /* of a fence: its key */
    bool is_used, is_fence;
    bool is_stored;                /* on disk; else only the core has it */
    struct record_version seen;    /* the newest that the core of the present life has taken */
    struct record_version version; /* of what is on disk */
    uint16_t kind;
    uint32_t byte_count;
    uint8_t *bytes;
};

struct disk_write {
    struct disk_write *next;
    uint64_t ticket;
    bool is_fence, is_forget;
    record_ident ident;
    uint32_t byte_count;
    uint8_t bytes[];
};

struct disk {
    struct disk_entry *entries; /* open hash table by ident */
    uint32_t capacity, count;
    struct disk_write *waiting_first, *waiting_last;
    struct disk_write *committing;
    bool is_full;
    uint64_t full_since_ms;
    uint32_t boots; /* the daemon's counter, as this disk has it */
    bool is_boot_synced;
};

/* NODE_EFFECT_PERSIST_RECORD and _FENCE, NODE_EFFECT_FORGET_RECORD and _FENCE. */
void disk_write(struct sim *sim, int node, const struct node_effect *effect);
void disk_commit_done(struct sim *sim, struct sim_event *event);
void disk_crash(struct sim *sim, int node);
void disk_set_full(struct sim *sim, int node, bool full);

/* The simulated signature of an envelope, and whether it stands at its end. */
void disk_sign(const uint8_t *envelope, size_t count, uint8_t out[RECORD_SIGNATURE_BYTES]);
bool disk_signature_holds(const uint8_t *envelope, size_t count);

/* Remembers what the disk of a node holds now; and puts that back, as a backup would. The daemon is down then. */
void disk_remember(struct sim *sim, int node);
void disk_put_back(struct sim *sim, int node);
void disk_wipe(struct sim *sim, int node); /* nothing is left of it */

/* The disk of the one becomes a copy of the other's, whose daemon may run. */
void disk_clone(struct sim *sim, int to, int from);

/* Puts a record there before the story begins. */
void disk_preload(struct sim *sim, int node, const uint8_t *envelope, uint32_t count);

struct disk_entry *disk_find(const struct disk *disk, record_ident ident);

#endif
