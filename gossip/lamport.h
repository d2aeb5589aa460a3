#ifndef GOSSIP_LAMPORT_H
#define GOSSIP_LAMPORT_H
/* Lamport clocks and terms that jump are refused (DESIGN 5): the one rule. A core.
 *
 * Several writers hold one record each, with a clock, and the highest clock says what is so. A writer that means harm
 * takes a clock near 2^64, and nobody could say anything after it. "Too far ahead of what I have seen" would refuse it,
 * but nodes see records in different orders, and a newer record of a writer hides its older ones. So the rule looks at
 * the newest clocks of all writers only: the highest counts if it is at most LAMPORT_JUMP_MAX above the second highest
 * (0, if there is no second); all others count. Whatever the order of arrival, the same records give the same answer.
 *
 *      0 ......... second ... highest              counts
 *      0 ......... second ........................ highest     is refused: `second` says what is so
 *
 * One writer alone cannot run away: its clock counts only as far as another's bears it out, and lamport_next finds a
 * clock above all that count for everybody else, whatever that one writer holds (a proof by cases beside it). A writer
 * that goes back takes away what it bore out, and so can undo what was said above it; but then it could as well have
 * said the contrary, and the next word counts again.
 *
 * Known weakness: two writers who conspire bear each other out, and can take the last clock there is. */

#include <stdbool.h>
#include <stdint.h>

#define LAMPORT_JUMP_MAX (1u << 20)

/* The two highest clocks of one register. Zeroes: nobody has written yet. */
struct lamport_top {
    uint64_t first, second;
};

/* Is `clock` no jump for who knows of `base`? */
bool lamport_follows(uint64_t base, uint64_t clock);

/* One more writer's clock; 0: it has said nothing. In any order. */
void lamport_see(struct lamport_top *top, uint64_t clock);

/* Is `clock`, one of those seen, taken into account? Never 0. */
bool lamport_counts(const struct lamport_top *top, uint64_t clock);

/* The highest one is refused. */
bool lamport_jumps(const struct lamport_top *top);

/* The highest clock that counts. */
uint64_t lamport_highest(const struct lamport_top *top);

/* The clock to write next, by a writer that holds `own` (0: nothing) beside the `others`: it counts, and of those that
 * count with it it is the only highest; not below `own` + 1 unless that would be a jump. If two others hold the last
 * clocks there are, UINT64_MAX. */
uint64_t lamport_next(const struct lamport_top *others, uint64_t own);

#endif
