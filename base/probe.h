#ifndef BASE_PROBE_H
#define BASE_PROBE_H
/* Two kinds of places in the cores that tests/sim knows of in its own build (-DSHOAL_BUGS). Everywhere else they compile to
 * nothing, and the objects that ship have neither.
 *
 *   BUG(name, "rule")   true in a run that breaks this rule on purpose: the simulator must notice
 *   MARK(name)          counts how often a run has come by: what no run ever passes is not tested
 *
 * Each place stands in a section of pointers of its own, which the simulator walks; the rest of the program never sees it. */

#include <stdbool.h>
#include <stdint.h>

#ifdef SHOAL_BUGS

struct probe_bug {
    const char *name, *rule; /* the rule that is broken, in words */
    bool is_on;
};

struct probe_mark {
    const char *name; /* one name may stand at several places */
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
