/* What runs on one node, for the owner of the machine. */

#include "node/config/hours.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"

static void put_worker(const struct node_core *core, const struct view_slot *slot, msgpack_packer *packer)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(core), slot->attempt.experiment);
    bool is_known = experiment != NULL && experiment->known;
    render_put_string(packer, "experiment");
    render_put_experiment_id(packer, slot->attempt.experiment);
    render_put_string(packer, "name");
    render_put_text_or_nil(packer, is_known ? experiment->config->name : "");
    render_put_u64(packer, "trial", slot->attempt.trial);
    render_put_u64(packer, "attempt", slot->attempt.number);
    render_put_string(packer, "user");
    render_put_text_or_nil(packer, is_known ? experiment->config->user : "");
    render_put_string(packer, "submitter");
    render_put_text_or_nil(packer, is_known ? render_node_label(core, experiment->submitter).text : "");
}

static const char *why_name(enum fact_policy_why why)
{
    static const char *const names[] = {
        [FACT_POLICY_HOURS] = "hours", [FACT_POLICY_ACTIVITY] = "activity", [FACT_POLICY_LOAD] = "load"};
    return why == FACT_POLICY_NONE ? "" : names[why];
}

const char *render_slot_why(const struct view_member *member, uint32_t slot)
{
    struct fact_policy policy;
    bool is_held = view_member_policy(member, &policy) && (policy.slots >> slot & 1) != 0;
    return is_held ? why_name(policy.why) : "";
}

void render_put_policy(const struct view_member *member, msgpack_packer *packer)
{
    struct fact_policy policy;
    char hours[HOURS_BYTES];
    if (member == NULL || !view_member_policy(member, &policy) ||
        (policy.hours_count == 0 && policy.load_percent == 0 && !policy.activity && policy.why == FACT_POLICY_NONE)) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    hours_write(hours, policy.hours, policy.hours_count);
    (void)msgpack_pack_map(packer, 7);
    render_put_string(packer, "hours");
    render_put_text_or_nil(packer, hours);
    render_put_u64(packer, "load_percent", policy.load_percent);
    render_put_bool(packer, "activity", policy.activity);
    render_put_u64(packer, "back_after_s", policy.back_after_s);
    render_put_string(packer, "why");
    render_put_text_or_nil(packer, why_name(policy.why));
    render_put_time(packer, "since_s", policy.since_s);
    render_put_time(packer, "until_s", policy.until_s);
}

static void put_slot(const struct node_core *core, const struct view_member *member, uint32_t index, msgpack_packer *packer)
{
    static const char *const of_worker[] = {"experiment", "name", "trial", "attempt", "user", "submitter"};
    struct view_slot slot = render_slot_now(core, member, index);
    const struct view_slot *published = view_member_slot(member, index);
    bool has_worker = slot.state != LEASE_FREE && slot.state != LEASE_WITHHELD;
    bool has_end = published != NULL && published->withheld && published->withheld_s > 0 && published->since_s > 0;
    (void)msgpack_pack_map(packer, 11);
    render_put_u64(packer, "index", index);
    render_put_text(packer, "state", render_slot_state(&slot));
    render_put_string(packer, "why");
    render_put_text_or_nil(packer, render_slot_why(member, index));
    render_put_time(packer, "since_s", published != NULL ? published->since_s : 0);
    render_put_time(packer, "until_s", has_end ? published->since_s + published->withheld_s : 0);
    if (has_worker) {
        put_worker(core, &slot, packer);
        return;
    }
    for (size_t i = 0; i < sizeof of_worker / sizeof of_worker[0]; i++) {
        render_put_string(packer, of_worker[i]);
        (void)msgpack_pack_nil(packer);
    }
}

void render_owner(const struct node_core *core, node_id node, struct pack_writer *frame)
{
    const struct view_member *member = view_find_member(node_core_view(core), node);
    uint32_t count = member != NULL ? member->slot_count : 0;
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "node");
    render_put_node_id(&packer, node);
    render_put_text(&packer, "name", render_node_name(core, node));
    render_put_text(&packer, "label", render_node_label(core, node).text);
    render_put_text(&packer, "state", render_node_state(core, node));
    render_put_bool(&packer, "drained", node_core_is_drained(core, node));
    render_put_string(&packer, "policy");
    render_put_policy(member, &packer);
    render_put_string(&packer, "slots");
    (void)msgpack_pack_array(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        put_slot(core, member, i, &packer);
    }
}
