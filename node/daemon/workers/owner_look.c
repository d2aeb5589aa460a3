/* Looks at the machine for the policy of its owner (facts/policy.h), every 2 s while there is one. */

#include <string.h>
#include <time.h>

#include "node/daemon/workers/workers.h"
#include "node/slots/machine.h"

#define LOOK_MS 2000

/* All that the workers use, in permille of one processor. */
static uint64_t used_by_workers(struct daemon *daemon)
{
    uint64_t permille = 0;
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct slot_usage usage = slots_usage_get(&daemon->workers->usage, slot);
        permille += usage.has_worker ? usage.cpu_permille : 0;
    }
    return permille;
}

static void look_at_load(struct daemon *daemon, struct policy_look *look)
{
    struct daemon_owner_look *last = &daemon->workers->owner_look;
    uint64_t busy, all;
    bool is_read = machine_processors("", &busy, &all);
    look->has_load = is_read && last->all != 0 && all > last->all && busy >= last->busy;
    if (look->has_load) {
        look->others_permille = machine_others_permille(busy - last->busy, all - last->all, used_by_workers(daemon), last->processors);
    }
    last->busy = is_read ? busy : 0;
    last->all = is_read ? all : 0;
}

void daemon_owner_look_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_owner_look *last = &daemon->workers->owner_look;
    const struct view_member *self = view_find_member(node_core_view(daemon->core), daemon->keys.id);
    struct fact_policy policy;
    struct node_event event = {.kind = NODE_EVENT_LOOK};
    time_t wall = (time_t)(daemon_wall_ms() / 1000);
    struct tm parts;
    if (now_ms < last->next_ms || self == NULL || !view_member_policy(self, &policy) || localtime_r(&wall, &parts) == NULL) {
        return;
    }
    last->next_ms = now_ms + LOOK_MS;
    last->processors = last->processors != 0 ? last->processors : machine_processor_count();
    event.u.look = (struct policy_look){.now_ms = now_ms,
                                        .wall_s = (uint64_t)wall,
                                        .weekday = (uint32_t)(parts.tm_wday + 6) % 7,
                                        .minute = (uint32_t)(parts.tm_hour * 60 + parts.tm_min)};
    if (policy.load_percent != 0) {
        look_at_load(daemon, &event.u.look);
    }
    if (policy.activity) {
        uint64_t activity = machine_activity("");
        event.u.look.is_active = last->has_activity && activity != last->activity;
        last->activity = activity;
    }
    last->has_activity = policy.activity;
    daemon_event(daemon, &event);
}
