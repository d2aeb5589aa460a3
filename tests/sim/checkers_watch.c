/* What is looked at once a virtual second: workers that should be gone (9, 10), reservations and leases (13), who is
 * believed to be dead (14), and how much is said, waits and is kept (15). */

#include "gossip/swim_parts.h"
#include "tests/sim/checkers_inside.h"

#include "base/check.h"
#include "node/core/coordinator/coordination.h"
#include "node/core/copies/acks.h"
#include "node/core/members/members.h"
#include "node/core/owner/owner.h"

#define UNWANTED_MS 3000   /* a node that knows that a worker should not run has ended it by then */
#define ORPHANED_MS 2500   /* a reservation whose gang has given up is returned */
#define LEASE_LATE_MS 2000 /* timers are looked at each time that anything happens */
#define DEAD_MS 8000       /* "known dead everywhere in 8 s" */
#define MESSAGES_MAX 4000  /* of one node in one second */
#define EFFECTS_MAX (NODE_EFFECTS_MAX - CORE_ROSTER_ROOM) /* of one step: from there on steps are cut short, which is for large meshes */
#define WAITING_MAX NODE_EFFECTS_MAX /* for the disk: each has an effect once it is there, and all may come there in one step */
#define MEMORY_BYTES (472u << 10)    /* of a core that has just begun, and of what its few trials (a gang takes 8 KiB), searches (8 KiB) and peers need */
#define PROGRAM_MEMORY_BYTES (56u << 10)
#define RECORD_MEMORY_BYTES 1024     /* a record, its envelope and its row in the view, in blocks of powers of two */

/* ---- 9 and 10: what should not run ------------------------------------------------------------------------------- */

static void watch_worker(struct sim *sim, int node, uint32_t slot)
{
    struct checkers_watch *watch = &sim->checkers->watch;
    const struct node_core *core = sim->nodes[node].core;
    const struct worker_process *process = &sim->nodes[node].processes[slot];
    uint64_t *since_ms = &watch->unwanted_ms[node][slot];
    const struct view_attempt *attempt = view_find_attempt(&core->view, &process->attempt);
    const struct view_experiment *experiment = view_find_experiment(&core->view, process->attempt.experiment);
    bool has_verdict = attempt != NULL && attempt->verdicts != NULL;
    bool is_cancelled = experiment != NULL && view_experiment_cancelled(experiment);
    /* What runs of it saves first; so it is only asked to, and ended when it takes too long. */
    bool is_paused = experiment != NULL && view_experiment_state(experiment) == VIEW_PAUSED && attempt != NULL && attempt->assigned;
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, process->attempt.trial) : NULL;
    bool is_searched = trial != NULL && experiment->known && view_attempt_is_paused(trial, &process->attempt);
    bool is_stopped = experiment != NULL && experiment->known && (view_trial_stopped(trial) || is_searched);
    const struct view_member *self = view_find_member(&core->view, sim->nodes[node].id);
    bool is_out = self != NULL && view_member_is_out(self);
    if (is_out) {
        checkers_met(sim, PREMISE_2_OUT);
    }
    if (process->is_killed && process->is_alive && (has_verdict || is_cancelled)) {
        checkers_met(sim, is_cancelled ? PREMISE_10_STOPPED : PREMISE_9_ENDED);
    }
    if (process->is_alive && (process->is_stopping || process->is_killed) && is_paused) {
        checkers_met(sim, PREMISE_10_PAUSED);
    }
    if (process->is_alive && (process->is_stopping || process->is_killed) && is_stopped) {
        checkers_met(sim, PREMISE_10_TRIAL_STOPPED);
    }
    if (process->is_alive && (process->is_stopping || process->is_killed) && is_searched) {
        checkers_met(sim, PREMISE_18_PAUSE_OBEYED);
    }
    bool is_same = process->serial == watch->serial[node][slot];
    watch->serial[node][slot] = process->serial;
    if (!process->is_alive || process->is_killed || process->is_stopping || !is_same ||
        (!has_verdict && !is_cancelled && !is_out && !is_paused && !is_stopped)) {
        *since_ms = 0;
        return;
    }
    if (*since_ms == 0) {
        *since_ms = sim->now_ms;
    } else if (sim->now_ms - *since_ms > UNWANTED_MS) {
        sim_fail(sim,
                 is_cancelled  ? 10
                 : is_out      ? 2
                 : has_verdict ? 9
                               : 10,
                 "n%d still runs trial %u in slot %u, %llu ms after it knew %s", node, process->attempt.trial, slot,
                 (unsigned long long)(sim->now_ms - *since_ms),
                 is_cancelled  ? "that it is cancelled"
                 : is_out      ? "that it is out of the mesh itself"
                 : has_verdict ? "the verdict"
                 : is_stopped  ? "that it is stopped"
                               : "that it is paused");
    }
}

/* 2: nothing comes in from whom this node knows to be out. */
static void watch_doors(struct sim *sim, int node)
{
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        const struct view_member *member =
            other != node ? view_find_member(&sim->nodes[node].core->view, sim->nodes[other].id) : NULL;
        if (member == NULL || !view_member_is_out(member)) {
            continue;
        }
        checkers_met(sim, PREMISE_2_SHUT_OUT);
        if (twins_admits(sim, node, other, member->id)) {
            sim_fail(sim, 2, "n%d knows that n%d is out of the mesh, and still admits it", node, other);
        }
    }
}

static void watch_cancels(struct sim *sim, int node)
{
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        if (!sim->checkers->watch.cancelled[node][e]) {
            continue;
        }
        checkers_met(sim, PREMISE_10_CANCELLED);
        const struct view_experiment *seen =
            view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[e].id);
        bool is_deleted = view_is_deleted(&sim->nodes[node].core->view, sim->plan.experiments[e].id);
        if (!is_deleted && (seen == NULL || !view_experiment_cancelled(seen))) {
            sim_fail(sim, 10, "n%d has forgotten that experiment %u was cancelled", node, e);
        }
    }
}

bool checkers_in_minority(const struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    uint32_t alive = 1, total = 1;
    node_id lowest = sim->nodes[node].id;
    bool has_lowest = true;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        const struct view_member *member = view_find_member(&core->view, peer->id);
        if (member != NULL && member->left) {
            continue; /* it has left by its own word, and does not count */
        }
        if (peer->state != SWIM_LEFT && node_id_compare(peer->id, lowest) < 0) {
            lowest = peer->id;
            has_lowest = peer->state == SWIM_ALIVE || peer->state == SWIM_SUSPECT;
        }
        total += peer->state != SWIM_LEFT;
        alive += peer->state == SWIM_ALIVE || peer->state == SWIM_SUSPECT;
    }
    return alive * 2 < total || (alive * 2 == total && !has_lowest); /* DESIGN 7 */
}

static void watch_minority(struct sim *sim, int node)
{
    uint64_t *since_ms = &sim->checkers->watch.minority_ms[node];
    *since_ms = !checkers_in_minority(sim, node) ? 0 : *since_ms == 0 ? sim->now_ms : *since_ms;
}

/* ---- 13: reservations and leases --------------------------------------------------------------------------------- */

/* Of who made the attempt, or of a successor that fills its group up again; and this slot is of it. */
static bool gang_lives(const struct sim *sim, const attempt_id *attempt, int owner, uint32_t slot)
{
    int coordinator = sim_find_node(sim, attempt->coordinator);
    if (coordinator < 0 || sim->nodes[coordinator].core == NULL) {
        return true; /* nobody is left to return it: it ends by itself */
    }
    for (uint32_t node = 0; node < sim->machines; node++) {
        const struct node_core *core = sim->nodes[node].core;
        const struct core_coordination *coordination = core != NULL ? core_find_coordination(core, attempt->experiment) : NULL;
        for (const struct core_gang *gang = coordination != NULL ? coordination->gangs : NULL; gang != NULL;
             gang = gang->next) {
            for (uint32_t i = 0; i < gang->member_count && attempt_id_equal(&gang->attempt, attempt); i++) {
                if (gang->members[i].slot == slot && node_id_equal(gang->members[i].node, sim->nodes[owner].id)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void watch_slot(struct sim *sim, int node, uint32_t slot, bool is_calm)
{
    struct checkers_watch *watch = &sim->checkers->watch;
    const struct node_core *core = sim->nodes[node].core;
    const struct lease_slot *held = &core->owner->lease.slots[slot];
    if (held->state == LEASE_LEASED || held->state == LEASE_RESERVED) {
        bool is_leased = held->state == LEASE_LEASED;
        checkers_met(sim, is_leased ? PREMISE_13_LEASED : PREMISE_13_RESERVED);
        uint64_t core_ms = core->now_ms;
        if (held->until_ms + LEASE_LATE_MS < core_ms ||
            held->until_ms > core_ms + (is_leased ? LEASE_MS : LEASE_RESERVE_MS)) {
            sim_fail(sim, 13, "n%d slot %u: the %s of trial %u was to end at %llu, and it is %llu", node, slot,
                     is_leased ? "lease" : "reservation", held->attempt.trial, (unsigned long long)held->until_ms,
                     (unsigned long long)core_ms);
        }
    }
    bool is_same = held->state == LEASE_RESERVED && watch->reserved_ms[node][slot] != 0 &&
                   attempt_id_equal(&watch->reserved[node][slot], &held->attempt);
    if (!is_same) {
        watch->reserved_ms[node][slot] = held->state == LEASE_RESERVED ? sim->now_ms : 0;
        watch->reserved[node][slot] = held->attempt;
        watch->orphaned_ms[node][slot] = 0;
        return;
    }
    bool is_shifted = sim->now_ms < sim->nodes[node].calm_from_ms + LEASE_RESERVE_MS + LEASE_LATE_MS; /* by a stall */
    if (core->disk_full && !is_shifted && held->until_ms > LEASE_RESERVE_MS &&
        held->until_ms - LEASE_RESERVE_MS > sim_clock(sim, node, sim->nodes[node].disk.full_since_ms)) {
        sim_fail(sim, 13, "n%d reserves slot %u though its disk is full", node, slot);
    }
    if (gang_lives(sim, &held->attempt, node, slot) || !is_calm || sim->plan.has[FAULT_LOSS] || sim->plan.blurs_time) {
        watch->orphaned_ms[node][slot] = 0;
        return;
    }
    if (watch->orphaned_ms[node][slot] == 0) {
        watch->orphaned_ms[node][slot] = sim->now_ms;
    } else if (sim->now_ms - watch->orphaned_ms[node][slot] > ORPHANED_MS) {
        sim_fail(sim, 13, "n%d slot %u is kept reserved for trial %u, whose gang gave up %llu ms ago", node, slot,
                 held->attempt.trial, (unsigned long long)(sim->now_ms - watch->orphaned_ms[node][slot]));
    }
}

/* No circle of waits, without a search for one: whoever is refused a slot gives back what it has at once, and who gets no
 * answer does so at an end that is set once, when it begins to ask, and reservations end by themselves as soon. So
 * nobody in a circle would wait longer than a reservation lives. That gangs that fit run at last is seen by 8. */
static void watch_gangs(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        struct checkers_asking *before = sim->checkers->watch.asking[node][e], now[PLAN_TRIALS_MAX];
        memset(now, 0, sizeof now);
        const struct core_coordination *coordination = core_find_coordination(core, sim->plan.experiments[e].id);
        for (const struct core_gang *gang = coordination != NULL ? coordination->gangs : NULL; gang != NULL; gang = gang->next) {
            if (gang->state != CORE_GANG_RESERVING || gang->attempt.trial >= PLAN_TRIALS_MAX) {
                continue;
            }
            const struct checkers_asking *asked = &before[gang->attempt.trial];
            struct checkers_asking *asks = &now[gang->attempt.trial];
            memcpy(asks->group_key, gang->group_key, sizeof asks->group_key);
            asks->until_ms = gang->until_ms;
            bool is_same = memcmp(asked->group_key, asks->group_key, sizeof asks->group_key) == 0 && !gang->is_joining &&
                           core->woke_ms + CORE_GANG_RESERVE_MS < asked->until_ms; /* a stall moves all ends */
            if (gang->until_ms + LEASE_LATE_MS < core->now_ms || gang->until_ms > core->now_ms + CORE_GANG_RESERVE_MS ||
                (is_same && gang->until_ms != asked->until_ms)) {
                sim_fail(sim, 13, "n%d was to ask for the slots of trial %u until %llu, and asks at %llu until %llu", node,
                         gang->attempt.trial, (unsigned long long)asked->until_ms, (unsigned long long)core->now_ms,
                         (unsigned long long)gang->until_ms);
            }
        }
        memcpy(before, now, sizeof now);
    }
}

/* The owner of a slot says no to a gang that holds others, because of one that is as far. */
void checkers_on_refused(struct sim *sim, int node, const struct node_effect *effect)
{
    const struct message *message = &effect->u.send.message;
    int asking = sim_find_node(sim, effect->u.send.to);
    const struct node_core *core = asking >= 0 ? sim->nodes[asking].core : NULL;
    const struct lease *lease = &sim->nodes[node].core->owner->lease;
    const struct core_coordination *coordination =
        core != NULL ? core_find_coordination(core, message->u.lease.attempt.experiment) : NULL;
    for (const struct core_gang *gang = coordination != NULL ? coordination->gangs : NULL; gang != NULL; gang = gang->next) {
        if (gang->reserved_count > 0 && attempt_id_equal(&gang->attempt, &message->u.lease.attempt) &&
            message->u.lease.slot < lease->count && lease->slots[message->u.lease.slot].state == LEASE_RESERVED) {
            checkers_met(sim, PREMISE_13_REFUSED);
        }
    }
}

static void note_suspects(struct sim *sim, int node)
{
    const struct swim *swim = &sim->nodes[node].core->members->swim;
    for (int other = 0; swim->counts[SWIM_SUSPECT] > 0 && other < (int)sim->plan.node_count; other++) {
        struct suspicion *known = &sim->checkers->watch.suspicion[other];
        uint64_t incarnation = swim_incarnation_of(swim, sim->nodes[other].id);
        if (swim_state_of(swim, sim->nodes[other].id) == SWIM_SUSPECT && incarnation >= known->next_incarnation) {
            *known = (struct suspicion){incarnation + 1, sim->now_ms};
        }
    }
}

/* ---- 15: what waits, and what is kept ---------------------------------------------------------------------------- */

void checkers_on_step(struct sim *sim, int node)
{
    if (sim->effects.count > EFFECTS_MAX || sim->effects.used_bytes > NODE_EFFECT_BYTES_MAX / 2) {
        sim_fail(sim, 15, "one step of n%d has %u effects with %u bytes", node, sim->effects.count, sim->effects.used_bytes);
    }
    if (sim->nodes[node].core->disk->outbox_bytes > 0) {
        sim_fail(sim, 15, "n%d leaves %u bytes in its outbox at the end of a step", node, sim->nodes[node].core->disk->outbox_bytes);
    }
    note_suspects(sim, node);
    checkers_drained(sim, node);
}

/* Of each search in which a program decides there is room for all that one more answer may create and stop. */
static size_t program_bytes(const struct sim *sim)
{
    size_t bytes = 0;
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        bytes += sim->plan.experiments[e].program.is_there ? PROGRAM_MEMORY_BYTES : 0;
    }
    return bytes;
}

static void watch_queues(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    uint32_t waiting = core->disk->refused_count, clients = core_ack_count(core);
    for (const struct core_pending *pending = core->disk->pending_first; pending != NULL; pending = pending->next) {
        waiting++;
    }
    if (waiting > 0) {
        checkers_met(sim, PREMISE_15_WAITING);
    }
    if (waiting > WAITING_MAX || clients > CORE_ACKS_MAX) {
        sim_fail(sim, 15, "on n%d %u writes and answers wait for the disk, %u clients for a second one", node, waiting, clients);
    }
    size_t allowed_bytes = MEMORY_BYTES + program_bytes(sim) +
                           (size_t)core->records.count * RECORD_MEMORY_BYTES + waiting * sizeof(struct core_pending) * 2;
    if (core->arena.used_bytes > allowed_bytes) {
        sim_fail(sim, 15, "n%d uses %zu bytes for %u records and %u that wait; %zu are allowed", node, core->arena.used_bytes,
                 core->records.count, waiting, allowed_bytes);
    }
}

/* ---- 14: who is believed to be dead ------------------------------------------------------------------------------ */

static void watch_beliefs(struct sim *sim, int node)
{
    bool is_calm = sim->now_ms >= sim->shaken_until_ms + CALM_MS && !sim->plan.blurs_time;
    const struct node_core *core = sim->nodes[node].core;
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        enum swim_state state = swim_state_of(&core->members->swim, sim->nodes[other].id);
        bool is_alive = state == SWIM_ALIVE || state == SWIM_SUSPECT;
        bool was_alive = sim->checkers->watch.knew_alive[node][other];
        sim->checkers->watch.knew_alive[node][other] = is_alive;
        if (other == node || !is_calm || sim->nodes[other].leaves || sim->nodes[other].is_evicted ||
            sim->nodes[node].is_evicted || sim->nodes[other].is_twin || sim->nodes[node].is_twin) {
            continue;
        }
        if (sim_runs(sim, other) && state != SWIM_UNKNOWN) {
            checkers_met(sim, PREMISE_14_CALM);
            if (was_alive && !is_alive) {
                sim_fail(sim, 14, "n%d calls n%d %s, which runs and can be reached", node, other,
                         swim_state_name(state));
            }
        }
    }
}

/* DESIGN 5: death comes after a suspicion that lasts. Not the first word of it is looked at, but each one. */
static void check_suspected(struct sim *sim, int node, int about, const struct swim_rumour *rumour)
{
    const struct suspicion *known = &sim->checkers->watch.suspicion[about];
    uint64_t least_ms = swim_suspect_min_ms(&sim->nodes[node].core->members->swim) * 3 / 4; /* clocks drift */
    bool is_former = !node_id_equal(rumour->node, sim->nodes[about].id); /* thrown out, and back with a new key */
    if (is_former || sim->nodes[about].is_twin || rumour->incarnation + 1 < known->next_incarnation) {
        return; /* else it is an old word */
    }
    checkers_met(sim, PREMISE_14_SUSPECTED);
    if (rumour->incarnation >= known->next_incarnation || sim->now_ms - known->since_ms < least_ms) {
        sim_fail(sim, 14, "n%d says that n%d is dead, which has not been suspected for %llu ms", node, about,
                 (unsigned long long)least_ms);
    }
}

/* At up to 5 % loss nobody says of a node that runs and can be reached that it is dead. */
void checkers_rumours(struct sim *sim, int node, const struct swim_message *message)
{
    for (uint32_t i = 0; i < message->rumour_count; i++) {
        int about = message->rumours[i].state == SWIM_DEAD ? sim_find_node(sim, message->rumours[i].node) : -1;
        if (about >= 0) {
            check_suspected(sim, node, about, &message->rumours[i]);
        }
    }
    if (sim->plan.blurs_time || sim->now_ms < sim->shaken_until_ms + CALM_MS) {
        return;
    }
    for (uint32_t i = 0; i < message->rumour_count; i++) {
        const struct swim_rumour *rumour = &message->rumours[i];
        int about = rumour->state == SWIM_DEAD ? sim_find_node(sim, rumour->node) : -1;
        if (about >= 0 && sim_runs(sim, about) && !sim->nodes[about].is_evicted && !sim->nodes[node].is_evicted &&
            !sim->nodes[about].is_twin && !sim->nodes[node].is_twin &&
            rumour->incarnation >= swim_incarnation_of(&sim->nodes[about].core->members->swim, rumour->node)) {
            sim_fail(sim, 14, "n%d says that n%d is dead, which runs and can be reached", node, about);
        }
    }
}

/* All who run have been undisturbed for a while, and `dead` has been gone for long enough. */
static void watch_death(struct sim *sim, int dead)
{
    const struct sim_node *gone = &sim->nodes[dead];
    if (gone->core != NULL || gone->life == 0 || gone->leaves || gone->is_evicted || gone->is_twin ||
        sim->now_ms < gone->down_since_ms + DEAD_MS || sim->plan.blurs_time) {
        return;
    }
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (sim->nodes[node].core != NULL && sim->now_ms < sim->nodes[node].calm_from_ms + CALM_MS) {
            return;
        }
    }
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (sim->nodes[node].core == NULL || sim->nodes[node].is_evicted || sim->nodes[node].is_twin) {
            continue;
        }
        checkers_met(sim, PREMISE_14_DEAD);
        const struct node_core *core = sim->nodes[node].core;
        const struct core_peer *peer = core_find_peer(core, gone->id);
        enum swim_state state = swim_state_of(&core->members->swim, gone->id);
        /* A late word of one who was cut off may bring it back to life once more, until the next suspicion is over. */
        bool is_new = peer != NULL && core->now_ms < peer->up_since_ms + DEAD_MS;
        if ((state == SWIM_ALIVE || state == SWIM_SUSPECT) && !is_new) {
            sim_fail(sim, 14, "n%d calls n%d %s, which has been gone for %llu ms", node, dead, swim_state_name(state),
                     (unsigned long long)(sim->now_ms - gone->down_since_ms));
        }
    }
}

void checkers_watch(struct sim *sim)
{
    struct checkers_watch *watch = &sim->checkers->watch;
    bool is_calm = sim->now_ms >= sim->shaken_until_ms + CALM_MS;
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (watch->sent[node] > 0) {
            checkers_met(sim, PREMISE_15_MESSAGES);
        }
        if (watch->sent[node] > MESSAGES_MAX) {
            sim_fail(sim, 15, "n%d sent %u messages within one second", node, watch->sent[node]);
        }
        watch->sent[node] = 0;
        if (!sim_runs(sim, node)) {
            memset(watch->unwanted_ms[node], 0, sizeof watch->unwanted_ms[node]);
            memset(watch->reserved_ms[node], 0, sizeof watch->reserved_ms[node]);
            memset(watch->knew_alive[node], 0, sizeof watch->knew_alive[node]);
            memset(watch->asking[node], 0, sizeof watch->asking[node]);
            watch->minority_ms[node] = 0;
            watch->side[node] = 0;
            watch_death(sim, node);
            continue;
        }
        watch_doors(sim, node);
        watch_cancels(sim, node);
        watch_minority(sim, node);
        watch_gangs(sim, node);
        watch_queues(sim, node);
        checkers_watch_side(sim, node);
        watch_beliefs(sim, node);
        for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
            watch_worker(sim, node, slot);
            watch_slot(sim, node, slot, is_calm);
        }
    }
}
