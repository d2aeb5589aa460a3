/* Parts of a step's items by the ranks' speeds (train/plan/balance.h). The measure is the time from shoal_share to
 * shoal_step_commit without the collectives in between: the rank's work on its items. All ranks receive all measures in the
 * same commits, so they cut the same parts in the same steps. */

#include "base/bytes.h"
#include "train/plan/ledger.h"
#include "train/shoal/link.h"

#define WARM_UP_STEPS 1 /* of a group: memory is touched for the first time, links and communicators are made */

static bool has_use(const struct shoal *s)
{
    return s->balance.is_on && s->size > 1;
}

/* Exchanges two values per rank: words[rank] of this rank goes to all ranks, and all values come back. */
static int exchange(struct shoal *s, uint64_t words[PLAN_RANKS_MAX][2])
{
    uint8_t all[PLAN_RANKS_MAX][16] = {{0}};
    bytes_put_u64(all[s->rank], words[s->rank][0]);
    bytes_put_u64(all[s->rank] + 8, words[s->rank][1]);
    int error = client_gather(s, all, sizeof all[0]);
    for (uint32_t rank = 0; rank < s->size && error == 0; rank++) {
        words[rank][0] = bytes_get_u64(all[rank]);
        words[rank][1] = bytes_get_u64(all[rank] + 8);
    }
    return error;
}

int client_balance_join(struct shoal *s)
{
    struct client_balance *b = &s->balance;
    uint64_t words[PLAN_RANKS_MAX][2] = {{0}}, speeds[PLAN_RANKS_MAX];
    b->steps = 0;
    b->own = (struct balance_measure){0};
    if (!has_use(s)) {
        return 0;
    }
    words[s->rank][0] = b->own_speed;
    int error = exchange(s, words);
    for (uint32_t rank = 0; rank < s->size; rank++) {
        speeds[rank] = words[rank][0];
    }
    if (error == 0) {
        balance_init(&b->parts, s->size, speeds);
    }
    return error;
}

void client_balance_begin(struct shoal *s)
{
    s->balance.items = s->balance.ns = 0;
    s->balance.is_working = false;
}

bool client_balance_pause(struct shoal *s)
{
    struct client_balance *b = &s->balance;
    bool was_working = b->is_working;
    if (was_working) {
        client_gpu_settle(s);
        b->ns += client_link_now_ns() - b->since_ns;
        b->is_working = false;
    }
    return was_working;
}

void client_balance_resume(struct shoal *s, bool was_working)
{
    if (was_working) {
        s->balance.is_working = true;
        s->balance.since_ns = client_link_now_ns();
    }
}

int shoal_share(struct shoal *s, uint32_t total, uint32_t *first, uint32_t *count)
{
    struct client_balance *b = &s->balance;
    if (s->elastic.is_on && !s->elastic.in_group) {
        return SHOAL_AGAIN;
    }
    if (!has_use(s)) {
        ledger_share(total, s->rank, s->size, first, count);
        return 0;
    }
    balance_share(&b->parts, total, s->rank, first, count);
    b->items += *count;
    client_balance_resume(s, !b->is_working);
    return 0;
}

bool shoal_is_balanced(const struct shoal *s)
{
    return has_use(s);
}

int client_balance_commit(struct shoal *s)
{
    struct client_balance *b = &s->balance;
    uint64_t words[PLAN_RANKS_MAX][2] = {{0}};
    if (!has_use(s)) {
        return 0;
    }
    if (b->steps++ >= WARM_UP_STEPS) {
        b->own.items += b->items;
        b->own.ns += b->ns;
    }
    if (!balance_is_due(b->steps)) {
        return 0;
    }
    words[s->rank][0] = b->own.items;
    words[s->rank][1] = b->own.ns;
    int error = exchange(s, words);
    if (error != 0) {
        return error;
    }
    struct balance_measure measures[PLAN_RANKS_MAX];
    for (uint32_t rank = 0; rank < s->size; rank++) {
        measures[rank] = (struct balance_measure){words[rank][0], words[rank][1]};
    }
    balance_agree(&b->parts, measures);
    b->own_speed = b->parts.speeds[s->rank];
    b->own = (struct balance_measure){0};
    return 0;
}
