#include "gossip/lamport.h"

bool lamport_follows(uint64_t base, uint64_t clock)
{
    return clock <= base || clock - base <= LAMPORT_JUMP_MAX;
}

void lamport_see(struct lamport_top *top, uint64_t clock)
{
    if (clock > top->first) {
        top->second = top->first;
        top->first = clock;
    } else if (clock > top->second) {
        top->second = clock;
    }
}

bool lamport_counts(const struct lamport_top *top, uint64_t clock)
{
    return clock > 0 && lamport_follows(top->second, clock);
}

bool lamport_jumps(const struct lamport_top *top)
{
    return !lamport_follows(top->second, top->first);
}

uint64_t lamport_highest(const struct lamport_top *top)
{
    return lamport_jumps(top) ? top->second : top->first;
}

/* Let x be the answer and J the largest jump.
 *   first - second <= J + 1: x is above `first` by at most J, so x is the highest clock, and `first` confirms it.
 *   first - second > J + 1:  x is above `second` and more than J below `first`, so `first` stays refused.
 * The bound is J + 1 because of a `first` that is refused now but would count with x just above `second`. */
uint64_t lamport_next(const struct lamport_top *others, uint64_t own)
{
    uint64_t floor = others->first, ceiling = others->first + LAMPORT_JUMP_MAX;
    if (ceiling < floor) {
        ceiling = UINT64_MAX;
    }
    if (others->first - others->second > LAMPORT_JUMP_MAX + 1) {
        floor = others->second;
        ceiling = others->first - LAMPORT_JUMP_MAX - 1;
    }
    floor = own > floor ? own : floor;
    return floor < ceiling ? floor + 1 : ceiling;
}
