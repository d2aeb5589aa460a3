#ifndef GOSSIP_LAMPORT_H
#define GOSSIP_LAMPORT_H
/* The one rule for Lamport clocks and terms: jumps are refused (DESIGN 5). A core.
 *
 * Several writers hold one record each, with a clock, and the record with the highest clock is the register's value. A
 * malicious writer could take a clock near 2^64, so that no value could ever replace the writer's. "Too far ahead of
 * the clocks seen so far" would refuse such a clock, but nodes see records in different orders, and a newer record of a
 * writer hides the older records. So the rule looks only at the newest clock of each writer: the highest counts if at
 * most LAMPORT_JUMP_MAX above the second highest (0, if there is no second); all the rest count. Whatever the order of
 * arrival, the same records give the same answer.
 *
 *      0 ......... second ... highest              counts
 *      0 ......... second ........................ highest     is refused: `second` decides
 *
 * No single writer can run away: its clock counts only as far as another writer's clock confirms it, and every other
 * node can find, with lamport_next, a clock above all clocks that count, whatever the one writer holds (proof by cases
 * in lamport.c). A writer that goes back withdraws a confirmation, and so can undo a value written above; but the
 * writer could as well have written the opposite value, and the next value counts again.
 *
 * Known weakness: two writers that conspire confirm each other, and can take the last clock there is. */

#include <stdbool.h>
#include <stdint.h>

#define LAMPORT_JUMP_MAX (1u << 20)

/* The two highest clocks of one register. All zero: no writer has written yet. */
struct lamport_top {
    uint64_t first, second;
};

/* True if `clock` is not a jump for a node that knows of `base`: below, or at most LAMPORT_JUMP_MAX above. */
bool lamport_follows(uint64_t base, uint64_t clock);

/* Takes note of one more writer's newest clock; 0: that writer has written nothing. Each writer once, in any order. */
void lamport_see(struct lamport_top *top, uint64_t clock);

/* True if `clock`, one of the clocks seen, counts. 0 never counts. */
bool lamport_counts(const struct lamport_top *top, uint64_t clock);

/* True if the highest clock is refused. */
bool lamport_jumps(const struct lamport_top *top);

/* The highest clock that counts; 0 if none does. */
uint64_t lamport_highest(const struct lamport_top *top);

/* The clock to write next, for a writer that holds `own` (0: nothing) beside the `others`. The result counts, and is
 * higher than every other clock that then counts. At least `own` + 1, unless `own` + 1 would be a jump. UINT64_MAX if
 * two other writers hold the last clocks there are. */
uint64_t lamport_next(const struct lamport_top *others, uint64_t own);

#endif
