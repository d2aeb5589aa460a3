#ifndef GOSSIP_VERSION_H
#define GOSSIP_VERSION_H
/* Versions of the protocol between nodes (docs/wire.md, "Versions"). A program speaks a contiguous range of versions,
 * and announces the range in the node record. Two nodes with a common version understand each other, and use the
 * highest.
 *
 * The first byte of a message is its version, in all versions. Without that version a program can read nothing else of
 * the message. Versions count from 1. */

#include <stdbool.h>
#include <stdint.h>

#define VERSION_OLDEST 1 /* the oldest version of this program */
#define VERSION_NEWEST 1 /* the newest version of this program */

/* The versions that a program speaks. */
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
