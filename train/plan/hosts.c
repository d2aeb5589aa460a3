#include "train/plan/hosts.h"

#include <string.h>

#include "base/check.h"

static bool same(const struct host_name *one, const struct host_name *other)
{
    static const struct host_name none;
    return memcmp(one, other, sizeof *one) == 0 && memcmp(one, &none, sizeof none) != 0;
}

void hosts_init(struct hosts *hosts, uint32_t size, const struct host_name *names)
{
    CHECK(size >= 1 && size <= PLAN_RANKS_MAX);
    *hosts = (struct hosts){.size = size};
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t first = 0;
        while (first < rank && !same(&names[first], &names[rank])) {
            first++;
        }
        hosts->leader[rank] = first;
    }
}

void hosts_split(struct hosts *hosts, const bool *shares)
{
    bool splits[PLAN_RANKS_MAX] = {false};
    for (uint32_t rank = 0; rank < hosts->size; rank++) {
        splits[hosts->leader[rank]] |= !shares[rank];
    }
    for (uint32_t rank = 0; rank < hosts->size; rank++) {
        if (splits[hosts->leader[rank]]) {
            hosts->leader[rank] = rank;
        }
    }
}

uint32_t hosts_around(const struct hosts *hosts, uint32_t rank, uint32_t out[PLAN_RANKS_MAX])
{
    CHECK(rank < hosts->size);
    uint32_t count = 0;
    for (uint32_t other = 0; other < hosts->size; other++) {
        if (hosts->leader[other] == hosts->leader[rank]) {
            out[count++] = other;
        }
    }
    return count;
}

uint32_t hosts_leaders(const struct hosts *hosts, uint32_t out[PLAN_RANKS_MAX])
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < hosts->size; rank++) {
        if (hosts->leader[rank] == rank) {
            out[count++] = rank;
        }
    }
    return count;
}
