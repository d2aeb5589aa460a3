#include "node/core/members/clocks.h"

#include "base/check.h"
#include "node/core/ground/effects.h"
#include "node/core/limits.h"

#define CLOCK_S_MAX (1ull << 40) /* a later time is nonsense */

/* Our clock is told anew where it has been set since. */
static bool was_set(struct node_core *core)
{
    int64_t offset_s = (int64_t)core->wall_s - (int64_t)(core->now_ms / 1000);
    int64_t moved_s = offset_s - core->members->clock_offset_s;
    if (moved_s < CORE_CLOCK_SET_S && moved_s > -CORE_CLOCK_SET_S) {
        return false;
    }
    core->members->clock_offset_s = offset_s;
    return true;
}

void core_clocks_housekeep(struct node_core *core)
{
    bool is_new = was_set(core);
    for (uint32_t i = 0; i < core->members->peer_count && is_new; i++) {
        core->members->peers[i]->clock_told_ms = 0;
    }
    struct message message = {.kind = MESSAGE_STORED};
    message.u.stored.ident = MESSAGE_CLOCK_IDENT;
    message.u.stored.version = (struct record_version){core->options.boot, core->wall_s};
    for (uint32_t i = 0; i < core->members->peer_count && !core->is_out && core->wall_s > 0 && core_has_room(core, 64, 0); i++) {
        struct core_peer *peer = core->members->peers[i];
        bool is_due = peer->clock_told_ms == 0 || peer->clock_told_ms < peer->up_since_ms ||
                      core->now_ms - peer->clock_told_ms >= CORE_CLOCK_MS;
        if (peer->state == SWIM_ALIVE && is_due) {
            peer->clock_told_ms = core->now_ms;
            core_send(core, peer->id, &message);
        }
    }
}

bool core_clocks_receive(struct node_core *core, node_id from, const struct message *message)
{
    if (!record_ident_equal(message->u.stored.ident, MESSAGE_CLOCK_IDENT)) {
        return false;
    }
    struct core_peer *peer = core_find_peer(core, from);
    if (peer != NULL && message->u.stored.version.seq < CLOCK_S_MAX) {
        peer->clock_s = message->u.stored.version.seq;
        peer->clock_ms = core->now_ms;
    }
    return true;
}

static bool peer_ahead_s(const struct node_core *core, const struct core_peer *peer, int64_t *ahead_s)
{
    if (peer->clock_s == 0) {
        return false;
    }
    *ahead_s = (int64_t)(peer->clock_s + (core->now_ms - peer->clock_ms) / 1000) - (int64_t)core->wall_s;
    return true;
}

bool core_clock_ahead_s(const struct node_core *core, node_id node, int64_t *ahead_s)
{
    const struct core_peer *peer = core_find_peer(core, node);
    return peer != NULL && peer_ahead_s(core, peer, ahead_s);
}

/* The number of living members, ourselves included, whose clock is known and at most `ahead_s` ahead of ours. */
static uint32_t count_up_to(const struct node_core *core, int64_t ahead_s)
{
    uint32_t count = ahead_s >= 0 ? 1 : 0;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        int64_t theirs_s;
        bool is_alive = peer->state == SWIM_ALIVE || peer->state == SWIM_SUSPECT;
        count += is_alive && peer_ahead_s(core, peer, &theirs_s) && theirs_s <= ahead_s;
    }
    return count;
}

uint64_t core_mesh_wall_s(const struct node_core *core)
{
    int64_t low = -(int64_t)CLOCK_S_MAX, high = (int64_t)(2 * CLOCK_S_MAX);
    uint32_t all = count_up_to(core, high);
    while (low < high) { /* the smallest value that half of the clocks do not exceed */
        int64_t middle = low + (high - low) / 2;
        if (count_up_to(core, middle) >= (all + 1) / 2) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    bool is_apart = low >= CORE_CLOCK_APART_S || low <= -CORE_CLOCK_APART_S;
    CHECK(all > 0);
    return !is_apart ? core->wall_s : low < 0 && core->wall_s < (uint64_t)-low ? 0 : core->wall_s + (uint64_t)low;
}
