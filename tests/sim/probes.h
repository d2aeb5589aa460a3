#ifndef TESTS_SIM_PROBES_H
#define TESTS_SIM_PROBES_H
/* The places of base/probe.h that this program was linked with: rules that can be broken on purpose, and marks. Both in
 * the order of their names; a bug's number is its position in it. None in a program built without SHOAL_BUGS. */

#include <stdint.h>

#define PROBES_MAX 256

struct probes_bug {
    const char *name, *rule;
};

uint32_t probes_bug_count(void);
struct probes_bug probes_bug(uint32_t number);
int probes_bug_find(const char *name_or_number); /* -1: there is none */
void probes_break(int number);                   /* this rule from now on and no other; -1: none */

uint32_t probes_mark_count(void);
const char *probes_mark_name(uint32_t number);
uint64_t probes_mark_passed(uint32_t number); /* in this process so far */

#endif
