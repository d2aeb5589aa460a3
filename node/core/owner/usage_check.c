#include "node/core/owner/usage_check.h"

#include "node/core/ground/effects.h"
#include "node/core/members/members.h"

#define SUMS_AT_ONCE 16  /* of records of nodes: each reads all months of one node */
#define PARTS 20         /* a difference of one in so many is told */
#define LATE_MS 120000   /* of each slot, at either end: records of usage come every minute */
#define LEAST_MS 3600000 /* less is not compared */
#define MINUTE_MS 60000

bool usage_check_differs(uint64_t seen_ms, uint64_t said_ms, uint32_t slots)
{
    uint64_t more_ms = seen_ms > said_ms ? seen_ms : said_ms, less_ms = seen_ms > said_ms ? said_ms : seen_ms;
    uint64_t allowed_ms = seen_ms / PARTS + slots * (uint64_t)LATE_MS;
    return more_ms >= LEAST_MS && more_ms - less_ms > allowed_ms;
}

void usage_check_begin_anew(struct node_core *core)
{
    for (struct core_usage_check *check = core->owner->usage_checks; check != NULL; check = check->next) {
        check->since_ms = 0;
    }
}

/* All that the node's records of months have. */
static uint64_t said_by(const struct node_core *core, node_id node)
{
    uint64_t sum_ms = 0;
    for (uint32_t place = 0; place < FACT_USAGE_MONTHS; place++) {
        struct fact_key key = fact_key_usage(FACT_USAGE_MONTH, place);
        const struct records_entry *entry =
            records_find(&core->records, record_ident_of(node, FACT_USAGE, key.bytes, key.count));
        struct fact_usage fact;
        if (entry != NULL && fact_usage_read(&entry->record, &fact) == 0) {
            for (uint32_t i = 0; i < fact.row_count; i++) {
                sum_ms += fact.rows[i].used_ms;
            }
        }
    }
    return sum_ms;
}

static void compare(struct node_core *core, const struct view_member *member, const struct core_usage_check *check)
{
    uint64_t said_ms = said_by(core, member->id);
    said_ms = said_ms > check->said_ms ? said_ms - check->said_ms : 0;
    if (usage_check_differs(check->seen_ms, said_ms, member->slot_count)) {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_FALSE, member->id),
                    "%s says that its slots were used for %llu min in the last hour, and its leases took %llu min: shoal usage goes by what "
                    "it says",
                    view_label(&core->view, member->id).text, (unsigned long long)(said_ms / MINUTE_MS),
                    (unsigned long long)(check->seen_ms / MINUTE_MS));
    }
}

static void look(struct node_core *core, const struct view_member *member, struct core_usage_check *check, uint32_t *sums)
{
    uint64_t passed_ms = core->now_ms - check->looked_ms;
    check->looked_ms = core->now_ms;
    if (!core_node_alive(core, member->id) || core->members->syncing || passed_ms > 2 * CORE_USAGE_LOOK_MS) {
        check->since_ms = 0; /* what its slots did meanwhile is not known */
        return;
    }
    for (uint32_t slot = 0; slot < member->slot_count; slot++) {
        uint32_t state = view_member_slot(member, slot)->state;
        check->seen_ms += state == LEASE_LEASED || state == LEASE_RELEASING ? passed_ms : 0;
    }
    bool is_over = check->since_ms != 0 && core->now_ms - check->since_ms >= CORE_USAGE_CHECK_MS;
    if ((is_over || check->since_ms == 0) && *sums > 0) {
        (*sums)--;
        if (is_over) {
            compare(core, member, check);
        }
        check->since_ms = core->now_ms;
        check->seen_ms = 0;
        check->said_ms = said_by(core, member->id);
    }
}

void usage_check_housekeep(struct node_core *core)
{
    struct core_usage_check **link = &core->owner->usage_checks;
    uint32_t sums = SUMS_AT_ONCE;
    if (core->rotate % (CORE_USAGE_LOOK_MS / CORE_HOUSEKEEP_MS) != 0 || (core->options.node.reads & FACT_READS_USAGE) == 0) {
        return;
    }
    for (uint32_t i = 0; i < core->view.member_count; i++) { /* members are sorted by id, and so is the list */
        const struct view_member *member = core->view.members[i];
        if (!member->admitted || (member->reads & FACT_READS_USAGE) == 0 || node_id_equal(member->id, core->options.self)) {
            continue;
        }
        while (*link != NULL && node_id_compare((*link)->node, member->id) < 0) {
            link = &(*link)->next;
        }
        if (*link == NULL || !node_id_equal((*link)->node, member->id)) {
            struct core_usage_check *made = core_has_room(core, 0, 1u << 16) ? arena_take(&core->arena, sizeof *made) : NULL;
            if (made == NULL) {
                return;
            }
            *made = (struct core_usage_check){.next = *link, .node = member->id, .looked_ms = core->now_ms};
            *link = made;
        }
        look(core, member, *link, &sums);
    }
}
