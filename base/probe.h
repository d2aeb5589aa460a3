#ifndef BASE_PROBE_H
#define BASE_PROBE_H
/* Two macros that mark places in the cores for tests/sim, in the simulator's own build (-DSHOAL_BUGS). In every other
 * build they compile to nothing, so the shipped objects contain neither.
 *
 *   BUG(name, "rule")   true in a run that breaks this rule on purpose: the simulator must notice
 *   MARK(name)          counts how often a run has passed: a place that no run passes is not tested
 *
 * Each place puts a pointer into a section of its own, which the simulator walks; no other code sees the section. */

#include <stdbool.h>
#include <stdint.h>

#ifdef SHOAL_BUGS

/* A place marked with BUG, and a place marked with MARK. */
struct probe_bug {
    const char *name, *rule; /* `rule`: the rule that the bug breaks, in words */
    bool is_on;
};

struct probe_mark {
    const char *name; /* several places may share a name */
    uint64_t count;
};

#define BUG(name_, rule_)                                                                              \
    (__extension__({                                                                                   \
        static struct probe_bug bug_ = {#name_, rule_, false};                                         \
        static struct probe_bug *const place_ __attribute__((section("shoal_bugs"), used)) = &bug_;    \
        bug_.is_on;                                                                                    \
    }))

#define MARK(name_)                                                                                    \
    do {                                                                                               \
        static struct probe_mark mark_ = {#name_, 0};                                                  \
        static struct probe_mark *const place_ __attribute__((section("shoal_marks"), used)) = &mark_; \
        mark_.count++;                                                                                 \
    } while (0)

#else

#define BUG(name_, rule_) false
#define MARK(name_) ((void)0)

#endif

#endif
