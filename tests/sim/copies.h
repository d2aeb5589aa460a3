#ifndef TESTS_SIM_COPIES_H
#define TESTS_SIM_COPIES_H
/* What disks lose of blobs: garbage that the daemon's thread with time deletes, as node/daemon/disk/collect.c has it; and copies
 * that rot, until somebody reads them. Then they are dropped, and fetched again from another holder (scrub.c there). In
 * plans of version 7. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

struct random;
struct sim;
struct sim_event;
struct node_effect;
struct sim_blob;

#define COPIES_FRESH_MS 600000 /* a copy that was read is believed in for so long */

struct copies_collection {
    uint32_t life, idle_s, named_count;
    bool is_full;
    hash256 named[];
};

struct copies_rotten {
    hash256 hash;
};

/* NODE_EFFECT_COLLECT. */
void copies_collect(struct sim *sim, int node, const struct node_effect *effect);

/* SIM_COLLECTS, SIM_SCRUB, SIM_MEND. */
void copies_event(struct sim *sim, struct sim_event *event);

/* One copy on this machine's disk rots, if it has any. */
void copies_rot(struct sim *sim, int node, struct random *random);

/* Somebody has read the rotten copy there. */
void copies_found_rotten(struct sim *sim, hash256 hash, int node);

/* The copy there is lost with its disk. */
void copies_lost(struct sim *sim, struct sim_blob *blob, int node);

/* Its records are of a time before: they may say that it has what it has deleted since. */
void copies_unknown(struct sim *sim, int node);

/* Machines whose copy can be read, bits; of the checkpoint or code of which experiment, -1: none. */
uint32_t copies_good(const struct sim_blob *blob);
int copies_experiment(const struct sim *sim, const struct sim_blob *blob);

#endif
