/* 20: what nodes count of their slots. The simulator looks each virtual second which slots are held, and so knows their time to a
 * second for each lease; a node may have counted less (it was killed, or came back with an old disk), and never more. */

#include "node/core/owner/owner.h"
#include "tests/sim/checkers_inside.h"

#define LEASE_SLACK_MS 2000 /* a second at either end */
#define DRIFT_PARTS 50      /* clocks drift by less than one in so many */
#define UNWRITTEN_MS 2000   /* without faults: what a lease may lack */

static struct checkers_usage *usage_of(struct sim *sim, node_id id)
{
    struct checkers *checkers = sim->checkers;
    for (uint32_t i = 0; i < checkers->usage_count; i++) {
        if (node_id_equal(checkers->usage[i].id, id)) {
            return &checkers->usage[i];
        }
    }
    if (checkers->usage_count == CHECKERS_USAGE_MAX) {
        return NULL; /* so many machines became other nodes */
    }
    checkers->usage[checkers->usage_count] = (struct checkers_usage){.id = id};
    return &checkers->usage[checkers->usage_count++];
}

static void look_at_slots(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    struct checkers_usage *usage = usage_of(sim, core->options.self);
    for (uint32_t slot = 0; slot < core->owner->lease.count && usage != NULL; slot++) {
        enum lease_state state = core->owner->lease.slots[slot].state;
        usage->held_ms += state == LEASE_LEASED || state == LEASE_RELEASING ? 1000 : 0;
    }
}

/* Each lease begins with a record of its slot. */
void checkers_usage_leased(struct sim *sim, int node, const struct record *record)
{
    struct fact_slot fact;
    struct checkers_usage *usage = usage_of(sim, sim->nodes[node].core->options.self);
    if (usage != NULL && fact_slot_read(record, &fact) == 0 && fact.state == LEASE_LEASED) {
        usage->leases++;
    }
}

struct months {
    node_id writer;
    uint64_t used_ms;
    uint32_t records;
};

static bool add_month(void *context, const struct records_entry *entry)
{
    struct months *months = context;
    struct fact_usage fact;
    enum fact_usage_span span;
    uint32_t place;
    bool is_one = entry->record.kind == FACT_USAGE && node_id_equal(entry->record.writer, months->writer) &&
                  fact_usage_read(&entry->record, &fact) == 0 && fact_key_read_usage(&entry->record, &span, &place) == 0 &&
                  span == FACT_USAGE_MONTH;
    for (uint32_t i = 0; is_one && i < fact.row_count; i++) {
        months->used_ms += fact.rows[i].used_ms;
    }
    months->records += is_one;
    return true;
}

static void compare(struct sim *sim, int node, const struct checkers_usage *usage)
{
    struct months months = {.writer = usage->id};
    records_each(&sim->nodes[node].core->records, add_month, &months);
    if (months.records == 0) {
        return;
    }
    checkers_met(sim, PREMISE_20_COUNTED);
    uint64_t most_ms = usage->held_ms + usage->held_ms / DRIFT_PARTS + (usage->leases + 1) * (uint64_t)LEASE_SLACK_MS;
    if (months.used_ms > most_ms) {
        sim_fail(sim, 20, "n%d holds records by which the slots of a node were used for %llu ms; they were held for %llu ms at most", node,
                 (unsigned long long)months.used_ms, (unsigned long long)most_ms);
    }
}

void checkers_usage_second(struct sim *sim)
{
    bool is_due = (sim->now_ms / 1000) % 30 == 0;
    for (int node = 0; node < (int)sim->machines && sim->plan.version > 21; node++) {
        if (sim->nodes[node].core == NULL) {
            continue;
        }
        look_at_slots(sim, node);
        const struct checkers_usage *usage = usage_of(sim, sim->nodes[node].core->options.self);
        if (is_due && usage != NULL) {
            compare(sim, node, usage);
        }
    }
}

/* Without faults all that was used is counted, on every node. */
static void has_all(struct sim *sim, int node, const struct checkers_usage *usage)
{
    struct months months = {.writer = usage->id};
    records_each(&sim->nodes[node].core->records, add_month, &months);
    uint64_t lacks_ms = usage->held_ms / DRIFT_PARTS + (usage->leases + 1) * (uint64_t)(LEASE_SLACK_MS + UNWRITTEN_MS);
    checkers_met(sim, PREMISE_20_COMPLETE);
    if (months.used_ms + lacks_ms < usage->held_ms) {
        sim_fail(sim, 20, "n%d knows of %llu ms of a node's slots, which were held for %llu ms", node, (unsigned long long)months.used_ms,
                 (unsigned long long)usage->held_ms);
    }
}

void checkers_usage_end(struct sim *sim)
{
    for (int node = 0; node < (int)sim->plan.node_count && sim->plan.version > 21; node++) {
        for (uint32_t i = 0; i < sim->checkers->usage_count && checkers_in_core(sim, node); i++) {
            compare(sim, node, &sim->checkers->usage[i]);
            if (plan_is_quiet(&sim->plan)) {
                has_all(sim, node, &sim->checkers->usage[i]);
            }
        }
    }
}
