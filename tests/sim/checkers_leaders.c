/* Invariant 12: who coordinates, who claims to, and whom owners obey. */

#include "node/core/coordinator/coordination.h"
#include "node/core/ground/disk.h"
#include "node/core/members/members.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

#define CLAIMS_FROM_MS 15000
#define CLAIMS_MAX 2 /* of one experiment without faults, from then on */
#define STEADY_MS 4000
#define ASKED_MS 10000 /* who has asked claims soon or asks again */
#define ELECT_MS 45000 /* a node on an old disk that hears nobody waits 30 s before it coordinates */

void checkers_obey(struct sim *sim, int node, experiment_id id, struct election_claim claim,
                   struct election_claim highest[PLAN_EXPERIMENTS_MAX])
{
    int experiment = checkers_experiment(sim, id);
    if (experiment < 0) {
        return;
    }
    struct election_claim *held = &highest[experiment];
    if (!node_id_is_none(held->node) && !node_id_equal(held->node, claim.node)) {
        checkers_met(sim, PREMISE_12_OBEYED);
    }
    if (!node_id_is_none(held->node) && election_claim_compare(claim, *held) < 0) {
        sim_fail(sim, 12, "n%d obeys term %llu of n%d for experiment %d after term %llu of n%d", node,
                 (unsigned long long)claim.term, sim_find_node(sim, claim.node), experiment,
                 (unsigned long long)held->term, sim_find_node(sim, held->node));
        return;
    }
    *held = claim;
}

/* To the maker of an attempt, or, of a group that changes, to whoever coordinates it since. */
void checkers_on_grant(struct sim *sim, int node, const struct node_effect *effect)
{
    const struct message *message = &effect->u.send.message;
    const attempt_id *attempt = &message->u.lease.attempt;
    int experiment = checkers_experiment(sim, attempt->experiment);
    struct election_claim claim = {attempt->term, attempt->coordinator};
    if (experiment >= 0 && sim->plan.experiments[experiment].is_elastic) {
        claim = message->u.lease.claim;
    }
    if (!node_id_equal(claim.node, effect->u.send.to)) {
        sim_fail(sim, 12, "n%d grants a slot to n%d, which it does not obey", node,
                 sim_find_node(sim, effect->u.send.to));
        return;
    }
    checkers_obey(sim, node, attempt->experiment, claim, sim->checkers->answered[node]);
}

void checkers_on_slot(struct sim *sim, int node, const struct record *record)
{
    struct fact_slot fact;
    uint32_t slot;
    if (fact_slot_read(record, &fact) != 0 || fact_key_read_slot(record, &slot) != 0 || slot >= PLAN_SLOTS_MAX) {
        return;
    }
    attempt_id *last = &sim->checkers->slot_attempt[node][slot];
    if (fact.state == LEASE_LEASED && !attempt_id_equal(last, &fact.attempt)) {
        int experiment = checkers_experiment(sim, fact.attempt.experiment);
        if (experiment >= 0 && !sim->plan.experiments[experiment].is_elastic) { /* else under a later claim, perhaps */
            checkers_obey(sim, node, fact.attempt.experiment,
                          (struct election_claim){fact.attempt.term, fact.attempt.coordinator},
                          sim->checkers->leased[node]);
        }
    }
    *last = fact.attempt;
}

static void see_gangs(struct sim *sim, int node, uint32_t index, const struct core_coordination *coordination)
{
    struct checkers_watch *watch = &sim->checkers->watch;
    for (const struct core_gang *gang = coordination != NULL ? coordination->gangs : NULL; gang != NULL; gang = gang->next) {
        if (gang->attempt.trial < PLAN_TRIALS_MAX) {
            struct checkers_gang *seen = &watch->gangs[node][index][gang->attempt.trial];
            bool is_same = seen->step + 1 >= watch->steps[node];
            if (!is_same) {
                checkers_see_side(sim, node);
            }
            seen->since_ms = is_same ? seen->since_ms : sim->now_ms;
            seen->step = watch->steps[node];
            seen->seen_ms = sim->now_ms;
        }
    }
}

void checkers_incumbents(struct sim *sim, int node)
{
    sim->checkers->watch.steps[node]++;
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        const struct core_coordination *seen =
            core_find_coordination(sim->nodes[node].core, sim->plan.experiments[e].id);
        bool is_held = seen != NULL && !seen->election.highest_released && seen->election.highest.term > 0;
        node_id now = is_held ? seen->election.highest.node : (node_id){{0}};
        if (!node_id_equal(now, sim->checkers->watch.incumbent[node][e])) {
            sim->checkers->watch.incumbent_ms[node][e] = sim->now_ms;
        }
        sim->checkers->watch.incumbent[node][e] = now;
        see_gangs(sim, node, e, seen);
    }
}

/* Who claims while the incumbent lives has not looked, or not asked: a successor has first "asked the living nodes whether any
 * of them still hears the incumbent" (DESIGN 7), the one that it knew before this step, since its own claim is the highest
 * now. */
static void check_claim(struct sim *sim, int node, uint32_t index, uint64_t term)
{
    node_id held_by = sim->checkers->watch.incumbent[node][index];
    int incumbent = node_id_is_none(held_by) ? -1 : sim_find_node(sim, held_by);
    bool is_new = sim->now_ms < sim->checkers->watch.incumbent_ms[node][index] + STEADY_MS;
    if (incumbent < 0 || incumbent == node || is_new || sim->plan.has[FAULT_LEAVE] || sim->nodes[incumbent].is_evicted ||
        sim->nodes[node].is_evicted || sim->nodes[incumbent].is_twin || sim->nodes[node].is_twin) {
        return; /* nobody to miss; or it led itself in an earlier life */
    }
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[index].id);
    struct election_claim replaced = {0, held_by};
    for (const struct view_claim *claim = seen != NULL ? seen->claims : NULL; claim != NULL; claim = claim->next) {
        replaced.term = node_id_equal(claim->writer, held_by) ? claim->fact.term : replaced.term;
    }
    struct election_claim own = {sim->checkers->claimed[node][index], sim->nodes[node].id};
    if (replaced.term + 1 < term || election_claim_compare(own, replaced) > 0) {
        return; /* it replaces a higher one: its own of an earlier life, that came in this step, or one that no record bears out */
    }
    for (const struct view_claim *claim = seen != NULL ? seen->claims : NULL; claim != NULL; claim = claim->next) {
        struct election_claim other = {claim->fact.term, claim->writer};
        if (claim->fact.released && election_claim_compare(other, replaced) >= 0) {
            return; /* drained, it has handed over; or a higher one has, and both its claim and its word came in this step */
        }
    }
    bool is_calm = sim->now_ms >= sim->shaken_until_ms + CALM_MS;
    bool had_peer = false;
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        const struct core_peer *peer = core_find_peer(sim->nodes[node].core, sim->nodes[other].id);
        had_peer |= other != incumbent && other != node && sim->checkers->watch.knew_alive[node][other] &&
                    peer != NULL && peer->state == SWIM_ALIVE &&
                    peer->up_since_ms + STEADY_MS < sim->nodes[node].core->now_ms;
    }
    uint64_t asked_ms = sim->checkers->watch.asked_ms[node][incumbent];
    bool is_long_ago = sim->now_ms > asked_ms + ASKED_MS && sim->now_ms > sim->nodes[node].calm_from_ms + ASKED_MS;
    if (had_peer && !sim->plan.blurs_time && (asked_ms == 0 || is_long_ago)) {
        sim_fail(sim, 12, "n%d claims experiment %u and has not asked who still hears n%d", node, index, incumbent);
    }
    if (!sim_runs(sim, incumbent) || sim->plan.blurs_time) {
        return;
    }
    const struct node_core *core = sim->nodes[incumbent].core;
    const struct core_coordination *held = core_find_coordination(core, sim->plan.experiments[index].id);
    if (is_calm && held != NULL && held->election.state == ELECTION_LEADING) {
        sim_fail(sim, 12, "n%d claims experiment %u though n%d coordinates it and can be reached by all", node, index,
                 incumbent);
    }
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        bool is_witness = other != node && other != incumbent && sim_runs(sim, other) && !sim->plan.has[FAULT_LOSS] &&
                          network_is_steady(sim, node, other, STEADY_MS) &&
                          network_is_steady(sim, incumbent, other, STEADY_MS) &&
                          sim->nodes[node].calm_from_ms + STEADY_MS <= sim->now_ms &&
                          sim->nodes[other].calm_from_ms + STEADY_MS <= sim->now_ms &&
                          sim->nodes[incumbent].calm_from_ms + STEADY_MS <= sim->now_ms &&
                          swim_state_of(&sim->nodes[other].core->members->swim, sim->nodes[incumbent].id) == SWIM_ALIVE &&
                          swim_state_of(&sim->nodes[node].core->members->swim, sim->nodes[other].id) == SWIM_ALIVE;
        if (is_witness && held != NULL && held->election.state == ELECTION_LEADING) {
            sim_fail(sim, 12, "n%d claims experiment %u though n%d, which it can ask, hears the coordinator n%d", node,
                     index, other, incumbent);
        }
    }
}

void checkers_on_claim(struct sim *sim, int node, const struct record *record)
{
    struct fact_claim fact;
    experiment_id id;
    int experiment;
    if (fact_claim_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0 ||
        (experiment = checkers_experiment(sim, id)) < 0) {
        return;
    }
    if (fact.released) { /* a drained node hands over: for as long as a fault's, the time without a coordinator is right
                          */
        sim->unstable_until_ms = sim->now_ms > sim->unstable_until_ms ? sim->now_ms : sim->unstable_until_ms;
        return;
    }
    check_claim(sim, node, (uint32_t)experiment, fact.term);
    uint64_t *claimed = &sim->checkers->claimed[node][experiment];
    *claimed = fact.term > *claimed ? fact.term : *claimed;
    if (sim->now_ms < CLAIMS_FROM_MS) {
        return; /* while the mesh comes up, nodes disagree for a moment about who has been up for long enough */
    }
    if (++sim->checkers->claims[experiment] > CLAIMS_MAX && plan_is_quiet(&sim->plan)) {
        sim_fail(sim, 12, "without any fault n%d makes claim %u of experiment %d", node,
                 sim->checkers->claims[experiment], experiment);
    }
}

/* A coordinator asks for slots under a claim that is on its disk. */
void checkers_on_reserve(struct sim *sim, int node, const attempt_id *attempt)
{
    checkers_met(sim, PREMISE_12_LED);
    struct fact_key key = fact_key_experiment(attempt->experiment);
    const struct disk_entry *entry =
        disk_find(&sim->nodes[node].disk, record_ident_of(sim->nodes[node].id, FACT_CLAIM, key.bytes, key.count));
    struct record record;
    struct fact_claim claim;
    bool is_there = entry != NULL && entry->is_stored && record_decode(entry->bytes, entry->byte_count, &record) == 0 &&
                    fact_claim_read(&record, &claim) == 0;
    if (!is_there || claim.term < attempt->term) {
        sim_fail(sim, 12, "n%d asks for a slot with term %llu, and no such claim is on its disk", node,
                 (unsigned long long)attempt->term);
    }
}

/* A fence is [experiment, term, node]; none was forgotten. */
void checkers_fences(struct sim *sim, int node)
{
    const struct disk *disk = &sim->nodes[node].disk;
    for (uint32_t i = 0; i < disk->capacity; i++) {
        const struct disk_entry *entry = &disk->entries[i];
        if (!entry->is_used || !entry->is_stored || !entry->is_fence) {
            continue;
        }
        struct pack_reader reader;
        experiment_id experiment;
        struct election_claim claim;
        pack_reader_init(&reader, entry->bytes, entry->byte_count);
        (void)pack_read_array(&reader);
        pack_read_bin_exact(&reader, experiment.bytes, sizeof experiment.bytes);
        claim.term = pack_read_u64(&reader);
        pack_read_bin_exact(&reader, claim.node.bytes, sizeof claim.node.bytes);
        if (view_is_deleted(&sim->nodes[node].core->view, experiment)) {
            continue; /* a crash came before it was taken off the disk */
        }
        checkers_met(sim, PREMISE_12_FENCE);
        if (reader.failed || election_claim_compare(core_fence_get(sim->nodes[node].core, experiment), claim) < 0) {
            sim_fail(sim, 12, "n%d has forgotten in a restart that it obeyed term %llu", node,
                     (unsigned long long)claim.term);
        }
    }
}

static void describe_elections(const struct sim *sim, uint32_t experiment, char *out, size_t size)
{
    static const char *const states[] = {"follows", "asks", "waits", "leads"};
    size_t used = 0;
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        const struct node_core *core = sim->nodes[node].core;
        const struct core_coordination *coordination =
            core != NULL ? core_find_coordination(core, sim->plan.experiments[experiment].id) : NULL;
        if (coordination != NULL) {
            const struct election *election = &coordination->election;
            used += format_text(out + used, size - used, " n%d %s (term %llu of n%d);", node, states[election->state],
                                (unsigned long long)election->highest.term, sim_find_node(sim, election->highest.node));
        }
    }
}

void checkers_one_coordinator(struct sim *sim)
{
    if (sim->now_ms < sim->unstable_until_ms + ELECT_MS) {
        return;
    }
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        const struct users_promise *promise = &sim->users->experiments[e].submitted;
        uint64_t retried_ms = sim->users->experiments[e].retried_ms; /* from then on it may be live again */
        if (!promise->is_acknowledged || sim->now_ms < promise->at_ms + ELECT_MS || (retried_ms != 0 && sim->now_ms < retried_ms + ELECT_MS)) {
            continue;
        }
        uint32_t leaders = 0, live = 0, up = 0;
        for (int node = 0; node < (int)sim->machines; node++) {
            const struct node_core *core = sim->nodes[node].core;
            if (core == NULL || sim->nodes[node].is_evicted) {
                continue;
            }
            const struct core_coordination *coordination = core_find_coordination(core, sim->plan.experiments[e].id);
            const struct view_experiment *seen = view_find_experiment(&core->view, sim->plan.experiments[e].id);
            up++;
            live += seen != NULL && seen->known && view_experiment_live(seen);
            leaders += coordination != NULL && coordination->election.state == ELECTION_LEADING;
        }
        if (live < up || up == 0) {
            continue; /* over for some already */
        }
        checkers_met(sim, PREMISE_12_ONE_COORDINATOR);
        if (leaders != 1) {
            char who[SIM_TEXT_BYTES / 2];
            describe_elections(sim, e, who, sizeof who);
            sim_fail(sim, 12, "experiment %u has %u coordinators %llu ms after the last fault:%s", e, leaders,
                     (unsigned long long)(sim->now_ms - sim->unstable_until_ms), who);
        }
    }
}
