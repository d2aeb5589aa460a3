/* Values that are not finite, traced to their rank. A sum has the same bits on every rank, so each rank sees for itself whether
 * the sum is finite, and normal steps need no exchange. The rank that brought the value is known only from the values before
 * they are summed in place, so each rank examines its own beforehand. */

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "train/plan/finite.h"
#include "train/shoal/link.h"

void client_finite_look(struct shoal *s, struct client_begun *what)
{
    uint64_t bits = 0;
    size_t bad = s->checks_finite ? client_gpu_first_bad(s, what->type, what->values, what->count, &bits) : what->count;
    if (bad < what->count) {
        what->own = (struct client_finite){.bad = bad + 1, .bits = bits};
    }
}

/* Writes "step 17, collective 2", or outside elastic groups "collective 40". */
static void say_where(const struct shoal *s, const struct client_call *call, char *out, size_t size)
{
    if (s->elastic.is_on) {
        (void)snprintf(out, size, "step %llu, collective %llu", (unsigned long long)call->step,
                       (unsigned long long)call->index);
    } else {
        (void)snprintf(out, size, "collective %llu", (unsigned long long)call->number);
    }
}

int client_finite_judge(struct shoal *s, const struct client_begun *what)
{
    uint64_t bits;
    size_t count = what->count, bad = count;
    if (s->checks_finite) {
        bad = client_gpu_first_bad(s, what->type, what->values, count, &bits);
    }
    if (bad == count) {
        return 0;
    }
    struct client_finite all[PLAN_RANKS_MAX];
    memset(all, 0, sizeof all);
    all[s->rank] = what->own;
    int error = client_gather(s, all, sizeof all[0]);
    if (error != 0) {
        return error;
    }
    client_gather_heard(s);
    uint32_t first = s->size, ranks = 0;
    for (uint32_t rank = 0; rank < s->size; rank++) {
        ranks += all[rank].bad != 0;
        first = all[rank].bad != 0 && first == s->size ? rank : first;
    }
    char where[64];
    say_where(s, &what->call, where, sizeof where);
    if (ranks == 0) {
        return client_fail(s, ERR_NOT_FINITE,
                           "%s: the sum of value %zu of %zu is not finite, though each of the %u ranks brought a finite one",
                           where, bad, count, s->size);
    }
    char more[48] = "";
    if (ranks > 1) {
        (void)snprintf(more, sizeof more, " (and so did %u other rank%s)", ranks - 1, ranks > 2 ? "s" : "");
    }
    return client_fail(s, ERR_NOT_FINITE, "%s: rank %u brought %s as value %llu of %zu%s", where, first,
                       finite_word(what->type, all[first].bits), (unsigned long long)all[first].bad - 1, count, more);
}
