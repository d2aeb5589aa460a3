#include "node/core/queue/order.h"

#include <string.h>

/* Compares a/b with c/d, for b and d of at most 32 bits, without rounding: first the whole parts, then the rests. */
static int compare_parts(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    if (a / b != c / d) {
        return a / b < c / d ? -1 : 1;
    }
    uint64_t left = a % b * d, right = c % d * b;
    return (left > right) - (left < right);
}

static int compare_users(const struct queue_entry *a, const struct queue_entry *b)
{
    uint64_t share_a = a->share > 0 ? a->share : 1, share_b = b->share > 0 ? b->share : 1;
    int order = compare_parts(a->running, share_a, b->running, share_b);
    if (order == 0) {
        order = compare_parts(a->usage, share_a, b->usage, share_b);
    }
    return order != 0 ? order : strncmp(a->user, b->user, QUEUE_USER_BYTES);
}

bool queue_is_same_user(const struct queue_entry *a, const struct queue_entry *b)
{
    return strncmp(a->user, b->user, QUEUE_USER_BYTES) == 0;
}

int queue_compare(const struct queue_entry *a, const struct queue_entry *b)
{
    if (!queue_is_same_user(a, b)) {
        return compare_users(a, b);
    }
    if (a->priority != b->priority) {
        return a->priority < b->priority ? -1 : 1;
    }
    if (a->age != b->age) {
        return a->age < b->age ? -1 : 1;
    }
    return experiment_id_compare(a->experiment, b->experiment);
}
