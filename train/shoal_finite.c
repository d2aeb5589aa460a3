/* Numbers that are not finite, found where they come from. A sum has the same bits on every rank, so all ranks see by
 * themselves that it is not finite, and nobody needs to ask in the steps that are well. Whose values made it so is known
 * only by who had them: each rank looks at its own before they are summed in place. */

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "train/finite.h"
#include "train/shoal_link.h"

struct shoal_finite shoal_finite_look(const struct shoal *s, const float *values, size_t count)
{
    struct shoal_finite own = {0};
    size_t bad = s->checks_finite ? finite_f32(values, count) : count;
    if (bad < count) {
        uint32_t bits;
        memcpy(&bits, &values[bad], sizeof bits);
        own = (struct shoal_finite){.bad = bad + 1, .bits = bits};
    }
    return own;
}

static const char *word(uint64_t bits)
{
    return (bits & 0x7fffffu) != 0 ? "NaN" : (bits >> 31 & 1) != 0 ? "-infinity" : "infinity";
}

/* "step 17, collective 2: ", or without steps "collective 40: ". */
static void say_where(const struct shoal *s, char *out, size_t size)
{
    const struct shoal_call *call = &s->calls[(s->call_count - 1) % SHOAL_CALLS_KEPT];
    if (s->elastic.is_on) {
        (void)snprintf(out, size, "step %llu, collective %llu", (unsigned long long)call->step,
                       (unsigned long long)call->index);
    } else {
        (void)snprintf(out, size, "collective %llu", (unsigned long long)call->number);
    }
}

int shoal_finite_judge(struct shoal *s, const struct shoal_finite *own, const float *sums, size_t count)
{
    size_t bad = s->checks_finite ? finite_f32(sums, count) : count;
    if (bad == count) {
        return 0;
    }
    struct shoal_finite all[PLAN_RANKS_MAX];
    memset(all, 0, sizeof all);
    all[s->rank] = *own;
    int error = shoal_gather(s, all, sizeof all[0]);
    if (error != 0) {
        return error;
    }
    shoal_settle(s);
    uint32_t first = s->size, ranks = 0;
    for (uint32_t rank = 0; rank < s->size; rank++) {
        ranks += all[rank].bad != 0;
        first = all[rank].bad != 0 && first == s->size ? rank : first;
    }
    char where[64];
    say_where(s, where, sizeof where);
    if (ranks == 0) {
        return shoal_fail(s, ERR_NOT_FINITE, "%s: the sum of value %zu of %zu is not finite, though each of the %u ranks brought a "
                                             "finite one",
                          where, bad, count, s->size);
    }
    char more[48] = "";
    if (ranks > 1) {
        (void)snprintf(more, sizeof more, " (and so did %u other rank%s)", ranks - 1, ranks > 2 ? "s" : "");
    }
    return shoal_fail(s, ERR_NOT_FINITE, "%s: rank %u brought %s as value %llu of %zu%s", where, first, word(all[first].bits),
                      (unsigned long long)all[first].bad - 1, count, more);
}
