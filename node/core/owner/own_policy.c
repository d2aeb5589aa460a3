#include "node/core/owner/own_policy.h"

#include <string.h>

#include "base/probe.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/owner/slots.h"

/* True once this node knows its own record; until then it decides nothing. A node on an old disk may be alone for long enough to
 * go on, and hear of a newer record of its own afterwards: so the record counts, unless there was no memory for a newer one. */
static bool has_own_policy(struct node_core *core)
{
    struct core_owner *owner = core->owner;
    struct fact_policy published;
    if (!core->started || core->members->syncing || core->is_out || core->leaving) {
        return false;
    }
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    if (!owner->is_policy_unpublished && self != NULL && view_member_policy(self, &published)) {
        if (published.why != owner->policy.why) { /* of an earlier boot: every reason that has begun in this one is published */
            policy_remember(published.why, core->now_ms, &owner->policy_memory);
        }
        owner->policy = published;
    }
    return true;
}

static struct core_pending *publish(struct node_core *core)
{
    uint8_t bytes[512];
    struct pack_writer writer;
    bool is_published;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_policy_pack(&writer, &core->owner->policy);
    struct core_pending *pending = core_try_put(core, FACT_POLICY, fact_key_empty(), &writer, &is_published);
    core->owner->is_policy_unpublished = !is_published;
    return pending;
}

static const char *const reasons[] = {[FACT_POLICY_NONE] = "no reason of its owner's policy holds any more",
                                      [FACT_POLICY_HOURS] = "these are its owner's hours",
                                      [FACT_POLICY_ACTIVITY] = "its owner uses the keyboard, the mouse or a terminal",
                                      [FACT_POLICY_LOAD] = "other processes use the processors"};

static void take_slots(struct node_core *core)
{
    struct core_owner *owner = core->owner;
    for (uint32_t slot = 0; slot < owner->lease.count; slot++) {
        if (!owner->lease.holds[slot].withheld) {
            owner->policy.slots |= UINT64_C(1) << slot;
            (void)core_owner_withhold(core, slot, 0);
        }
    }
}

static void give_slots(struct node_core *core)
{
    struct core_owner *owner = core->owner;
    for (uint32_t slot = 0; slot < owner->lease.count; slot++) {
        if ((owner->policy.slots >> slot & 1) != 0 && owner->lease.holds[slot].withheld) {
            (void)core_owner_return(core, slot);
        }
    }
    owner->policy.slots = 0;
}

void core_owner_look(struct node_core *core, const struct policy_look *look)
{
    if (!has_own_policy(core)) {
        return;
    }
    struct fact_policy *policy = &core->owner->policy;
    uint64_t until_s;
    enum fact_policy_why before = policy->why, why = policy_decide(policy, look, &core->owner->policy_memory, &until_s);
    if (why == before && until_s == policy->until_s && !core->owner->is_policy_unpublished) {
        return;
    }
    policy->why = why;
    policy->until_s = until_s;
    policy->since_s = why == FACT_POLICY_NONE ? 0 : before == FACT_POLICY_NONE ? core->wall_s : policy->since_s;
    if (why != before) {
        TRACE_EVENT(&core->options.trace, event_of_kind(why == FACT_POLICY_NONE ? EVENT_SLOT_RETURNED : EVENT_SLOT_WITHHELD),
                    "this machine is %s: %s", why == FACT_POLICY_NONE ? "the mesh's again" : "its owner's", reasons[why]);
    }
    if (why != FACT_POLICY_NONE && before == FACT_POLICY_NONE) {
        take_slots(core);
    } else if (why == FACT_POLICY_NONE && before != FACT_POLICY_NONE) {
        give_slots(core);
    }
    (void)publish(core);
}

bool core_owner_set_policy(struct node_core *core, const uint8_t *body, uint32_t body_bytes, struct core_pending **pending)
{
    struct record record = {.kind = FACT_POLICY, .body = body, .body_bytes = (uint16_t)body_bytes};
    struct fact_policy asked, before;
    *pending = NULL;
    if (body_bytes > RECORD_BODY_BYTES_MAX || fact_policy_read(&record, &asked) != 0) {
        return false;
    }
    if (!has_own_policy(core)) {
        return true;
    }
    before = core->owner->policy;
    asked.why = before.why;
    asked.since_s = before.since_s;
    asked.until_s = before.until_s;
    asked.slots = before.slots;
    core->owner->policy = asked;
    *pending = publish(core);
    if (*pending == NULL) {
        core->owner->policy = before;
    }
    return true;
}

void core_owner_policy_leaves(struct node_core *core, uint64_t slots)
{
    if (has_own_policy(core) && (core->owner->policy.slots & slots) != 0) {
        core->owner->policy.slots &= ~slots;
        (void)publish(core);
    }
}
