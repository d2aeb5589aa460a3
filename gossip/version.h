#ifndef GOSSIP_VERSION_H
#define GOSSIP_VERSION_H
/* Versions of the protocol between nodes (docs/wire.md, "Versions"). A program speaks a contiguous range of versions,
 * and its node record announces the range. Two nodes understand each other if a version is in both ranges, and then use
 * the highest common one.
 *
 * The first byte of a message is its version, in all versions. A program that does not speak that version can read
 * nothing else of the message. Versions count from 1. */

#include <stdbool.h>
#include <stdint.h>

#define VERSION_OLDEST 1 /* the oldest that this program speaks */
/* The newest that this program speaks. */
#define VERSION_NEWEST 1

struct version_range {
    uint32_t oldest, newest; /* both included */
};

/* The range of this program. */
static inline struct version_range version_ours(void)
{
    return (struct version_range){VERSION_OLDEST, VERSION_NEWEST};
}

/* True if `version` is in the range. */
bool version_is_spoken(struct version_range range, uint32_t version);

/* The highest version in both ranges; 0: there is none, and the nodes cannot talk to each other. */
uint32_t version_common(struct version_range one, struct version_range other);

#endif
