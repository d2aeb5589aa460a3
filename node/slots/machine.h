#ifndef NODE_SLOTS_MACHINE_H
#define NODE_SLOTS_MACHINE_H
/* What a machine shows of the people who use it, without rights of its own. `root` is "" but in tests, where it holds `proc`, `sys`
 * and `dev`. Calls take a few ms at most. */

#include <stdbool.h>
#include <stdint.h>

/* The time that the processors have computed and have been there, in ticks since the machine began. False: not known. */
bool machine_processors(const char *root, uint64_t *busy, uint64_t *all);

/* How many processors the machine has, whichever this process may use; at least 1. */
uint32_t machine_processor_count(void);

/* The part of all processors that other processes than workers have used, in permille, from what was `busy` of `all` ticks between two
 * readings, and from what the workers use, in permille of one of the processors. */
uint32_t machine_others_permille(uint64_t busy, uint64_t all, uint64_t own_permille, uint32_t processors);

/* A number that changes when a keyboard, a mouse or a terminal is used: interrupts of their drivers, requests of such USB devices, and
 * the last use of terminals, which the kernel tells to 8 s. A device that comes or goes is activity, too. */
uint64_t machine_activity(const char *root);

#endif
