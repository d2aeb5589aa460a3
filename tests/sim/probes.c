#include "tests/sim/probes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/probe.h"

#ifdef SHOAL_BUGS

/* The linker names the ends of a section whose name is a word. */
extern struct probe_bug *const __start_shoal_bugs[], *const __stop_shoal_bugs[];
extern struct probe_mark *const __start_shoal_marks[] __attribute__((weak));
extern struct probe_mark *const __stop_shoal_marks[] __attribute__((weak));

static const char *bug_name(uint32_t i)
{
    return __start_shoal_bugs[i]->name;
}

static const char *mark_name(uint32_t i)
{
    return __start_shoal_marks[i]->name;
}

/* Distinct names, sorted. Places are few, so insertion will do. */
static uint32_t sorted(uint32_t count, const char *(*name_of)(uint32_t), const char *names[PROBES_MAX])
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = name_of(i);
        uint32_t at = 0;
        while (at < known && strcmp(names[at], name) < 0) {
            at++;
        }
        if (at < known && strcmp(names[at], name) == 0) {
            continue;
        }
        CHECK(known < PROBES_MAX);
        memmove(names + at + 1, names + at, (known - at) * sizeof names[0]);
        names[at] = name;
        known++;
    }
    return known;
}

static uint32_t bug_places(void)
{
    return (uint32_t)(__stop_shoal_bugs - __start_shoal_bugs);
}

static uint32_t mark_places(void)
{
    return __start_shoal_marks == NULL ? 0 : (uint32_t)(__stop_shoal_marks - __start_shoal_marks);
}

uint32_t probes_bug_count(void)
{
    const char *names[PROBES_MAX];
    return sorted(bug_places(), bug_name, names);
}

struct probes_bug probes_bug(uint32_t number)
{
    const char *names[PROBES_MAX];
    CHECK(number < sorted(bug_places(), bug_name, names));
    struct probes_bug bug = {names[number], NULL};
    for (uint32_t i = 0; i < bug_places(); i++) {
        if (strcmp(bug_name(i), bug.name) == 0) {
            bug.rule = __start_shoal_bugs[i]->rule;
        }
    }
    return bug;
}

void probes_break(int number)
{
    const char *name = number >= 0 ? probes_bug((uint32_t)number).name : "";
    for (uint32_t i = 0; i < bug_places(); i++) {
        __start_shoal_bugs[i]->is_on = strcmp(bug_name(i), name) == 0;
    }
}

uint32_t probes_mark_count(void)
{
    const char *names[PROBES_MAX];
    return sorted(mark_places(), mark_name, names);
}

const char *probes_mark_name(uint32_t number)
{
    const char *names[PROBES_MAX];
    CHECK(number < sorted(mark_places(), mark_name, names));
    return names[number];
}

uint64_t probes_mark_passed(uint32_t number)
{
    const char *name = probes_mark_name(number);
    uint64_t passed = 0;
    for (uint32_t i = 0; i < mark_places(); i++) {
        passed += strcmp(mark_name(i), name) == 0 ? __start_shoal_marks[i]->count : 0;
    }
    return passed;
}

#else

uint32_t probes_bug_count(void)
{
    return 0;
}

struct probes_bug probes_bug(uint32_t number)
{
    (void)number;
    return (struct probes_bug){"", ""};
}

void probes_break(int number)
{
    CHECK(number < 0);
}

uint32_t probes_mark_count(void)
{
    return 0;
}

const char *probes_mark_name(uint32_t number)
{
    (void)number;
    return "";
}

uint64_t probes_mark_passed(uint32_t number)
{
    (void)number;
    return 0;
}

#endif

int probes_bug_find(const char *name_or_number)
{
    char *end;
    unsigned long number = strtoul(name_or_number, &end, 10);
    if (*name_or_number != '\0' && *end == '\0' && number < probes_bug_count()) {
        return (int)number;
    }
    for (uint32_t i = 0; i < probes_bug_count(); i++) {
        if (strcmp(probes_bug(i).name, name_or_number) == 0) {
            return (int)i;
        }
    }
    return -1;
}
