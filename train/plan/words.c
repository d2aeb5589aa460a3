/* Plans as text: names and lines. */
#include <string.h>

#include "base/check.h"
#include "base/format.h"
#include "train/plan/plan.h"

static const char *const kind_names[] = {"?", "all-reduce", "broadcast", "reduce-scatter", "all-gather", "barrier"};
static const char *const algorithm_names[] = {"?", "ring", "doubling", "halving", "chain", "tree"};

#define NAMES(array) (sizeof(array) / sizeof((array)[0]))

static const char *name_of(const char *const *names, size_t count, unsigned number)
{
    return names[number < count ? number : 0];
}

static unsigned number_of(const char *const *names, size_t count, const char *name)
{
    for (unsigned i = 1; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return 0;
}

const char *plan_kind_name(enum plan_kind kind)
{
    return name_of(kind_names, NAMES(kind_names), kind);
}

const char *plan_algorithm_name(enum plan_algorithm algorithm)
{
    return name_of(algorithm_names, NAMES(algorithm_names), algorithm);
}

enum plan_kind plan_kind_named(const char *name)
{
    return number_of(kind_names, NAMES(kind_names), name);
}

enum plan_algorithm plan_algorithm_named(const char *name)
{
    return number_of(algorithm_names, NAMES(algorithm_names), name);
}

size_t plan_line(const struct plan *plan, uint32_t step, char *out, size_t size)
{
    CHECK(step < plan->step_count);
    const struct plan_step *s = &plan->steps[step];
    CHECK(s->to != PLAN_NOBODY);
    return format_text(out, size, "step %u rank %u sends [%llu, %llu) to %u, which %s it", step, plan->rank,
                       (unsigned long long)s->send_offset, (unsigned long long)(s->send_offset + s->send_count), s->to,
                       s->sent_is_added ? "adds" : "copies");
}
