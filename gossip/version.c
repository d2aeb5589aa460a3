#include "gossip/version.h"

#include "base/probe.h"

bool version_is_spoken(struct version_range range, uint32_t version)
{
    return (version >= range.oldest && version <= range.newest) ||
           BUG(version_ignored, "a message of a version that a node does not speak is refused");
}

uint32_t version_common(struct version_range one, struct version_range other)
{
    uint32_t oldest = one.oldest > other.oldest ? one.oldest : other.oldest;
    uint32_t newest = one.newest < other.newest ? one.newest : other.newest;
    return newest >= oldest ? newest : 0;
}
