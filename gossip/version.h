#ifndef GOSSIP_VERSION_H
#define GOSSIP_VERSION_H
/* Versions of the protocol between nodes (docs/wire.md, "Versions"). A program speaks some in a row and its node record
 * announces which; two nodes understand each other if there is a version that both speak, and then use the highest.
 *
 * The first byte of every message is its version, in all of them. Nothing else of a message means anything to who does not
 * speak that version. Versions count from 1. */

#include <stdbool.h>
#include <stdint.h>

#define VERSION_OLDEST 1 /* that this program speaks */
#define VERSION_NEWEST 1

struct version_range {
    uint32_t oldest, newest; /* both spoken */
};

/* What this program speaks. */
static inline struct version_range version_ours(void)
{
    return (struct version_range){VERSION_OLDEST, VERSION_NEWEST};
}

bool version_is_spoken(struct version_range range, uint32_t version);

/* The highest version that both speak; 0: there is none, and they cannot talk to each other. */
uint32_t version_common(struct version_range one, struct version_range other);

#endif
