/* Invariants 10 and 11, of what disks keep (tests/sim/copies.h): nobody deletes what is kept, or what a worker begins
 * with; what is kept is there; and of what is deleted nothing stays. */

#include <string.h>

#include "base/check.h"
#include "node/core/members/members.h"
#include "node/core/view/retention.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/copies.h"
#include "tests/unit/put_envelope.h"

#define AWAY_MS 90000 /* until all know that it is away, and what was begun before is over */
#define LET_GO_MS 120000 /* until what is kept is confirmed, and the rest let go */
#define COLLECT_SLACK_MS 120000 /* until a collection that is due is over, and the next one is counted from */

/* ---- what all who live know ------------------------------------------------------------------------------------------ */

struct united {
    struct arena arena;
    struct records records;
    struct view view;
};

static bool unite_record(void *context, const struct records_entry *entry)
{
    struct united *united = context;
    struct records_entry *taken;
    if (put_envelope(&united->records, entry->envelope, entry->envelope_bytes, true, &taken) == 0) {
        (void)view_apply(&united->view, taken);
    }
    return true;
}

/* The records of these machines as one fold, and what is to be kept of each experiment by it. Lives until the next one. */
static const struct view *unite(struct sim *sim, uint32_t machines)
{
    static struct united united;
    arena_init(&united.arena, sim->scratch, SIM_SCRATCH_BYTES);
    CHECK(records_init(&united.records, &united.arena) == 0);
    view_init(&united.view, &united.arena, &united.records, sim->mesh);
    for (int node = 0; node < (int)sim->machines; node++) {
        if ((machines >> node & 1) != 0 && sim->nodes[node].core != NULL) {
            records_each(&sim->nodes[node].core->records, unite_record, &united);
        }
    }
    for (uint32_t i = 0; i < united.view.experiment_count; i++) {
        if (united.view.experiments[i]->known) {
            retention_mark(united.view.experiments[i]);
        }
    }
    return &united.view;
}

/* A machine has had two keys, or a key two machines: who holds what is not to be told by names. */
static bool has_ambiguous_names(const struct sim *sim)
{
    return sim->plan.has[FAULT_CLONE];
}

static int find_holder(const struct sim *sim, node_id id)
{
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (node_id_equal(sim->nodes[node].id, id)) {
            return node;
        }
    }
    return -1;
}

/* ---- a disk is cleaned ------------------------------------------------------------------------------------------------ */

static bool is_named(const struct view_manifest *checkpoint, node_id node)
{
    for (uint32_t i = 0; i < checkpoint->holder_count; i++) {
        if (node_id_equal(checkpoint->holders[i], node)) {
            return true;
        }
    }
    return false;
}

static bool is_gone(const struct sim *sim, node_id id)
{
    int node = find_holder(sim, id);
    return node < 0 || sim->nodes[node].is_gone || sim->nodes[node].is_evicted || sim->nodes[node].leaves;
}

/* DESIGN 10: only with fresh confirmations from those that should hold it. So a copy goes when no record that anybody knows
 * says any more that it is there (but for those of writers that are gone for good); while the disk is full, of those who
 * can be reached. */
static void check_kept_by(struct sim *sim, int node, const struct sim_blob *blob, const struct view_manifest *rows, const char *does)
{
    for (const struct view_manifest *row = rows; row != NULL; row = row->next) {
        bool is_kept = row->set != NULL ? row->set->whole->is_kept : row->is_kept;
        if ((is_kept || !is_gone(sim, row->writer)) && hash256_equal(row->blob, blob->hash) &&
            is_named(row, sim->nodes[node].id)) {
            sim_fail(sim, 11, "n%d %s its copy of step %llu of trial %u, which %s there", node, does,
                     (unsigned long long)blob->step, blob->attempt.trial, is_kept ? "is kept" : "a record says to be");
        }
    }
}

static void check_kept(struct sim *sim, int node, const struct sim_blob *blob, const struct view_trial *trial,
                       const char *does)
{
    check_kept_by(sim, node, blob, trial->manifests, does);
    for (const struct view_set *set = trial->sets; set != NULL; set = set->next) {
        check_kept_by(sim, node, blob, set->rows, does);
    }
}

/* DESIGN 10: while a roster member is unreachable nothing is collected unless space is short. */
static void check_all_there(struct sim *sim, int node)
{
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        const struct sim_node *away = &sim->nodes[other];
        bool is_known = !is_gone(sim, away->id) || (away->is_gone && sim->now_ms < CORE_COLLECT_AWAY_MS);
        is_known &= !away->is_evicted && !away->leaves && !away->is_twin && node_id_is_none(away->was);
        if (away->core == NULL && is_known && away->down_since_ms != 0 && sim->now_ms >= away->down_since_ms + AWAY_MS) {
            sim_fail(sim, 11, "n%d cleans its disk, which is not full, though n%d has been away for %llu s", node, other,
                     (unsigned long long)(sim->now_ms - away->down_since_ms) / 1000);
        }
    }
}

/* What an attempt begins with, until it has its verdict. */
static void check_beginning(struct sim *sim, int node, const struct sim_blob *blob, const struct view_trial *trial)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (!a->assigned || a->verdicts != NULL) {
            continue;
        }
        checkers_met(sim, PREMISE_11_COLLECTED_BESIDE);
        bool runs_here = false;
        for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
            const struct worker_process *process = &sim->nodes[node].processes[slot];
            runs_here |= process->is_alive && attempt_id_equal(&process->attempt, &a->id);
        }
        bool is_last = (copies_good(blob) & sim->plan.core & ~(1u << node)) == 0;
        bool is_its = hash256_equal(a->checkpoint, blob->hash) || (blob->parts > 0 && hash256_equal(a->checkpoint, blob->set));
        if (is_its && (runs_here || is_last)) {
            sim_fail(sim, 11, "n%d deletes its copy of step %llu of trial %u, with which attempt %u begins%s", node,
                     (unsigned long long)blob->step, blob->attempt.trial, a->id.number, runs_here ? " there" : "");
        }
    }
}

/* A trial of the next generation of pbt waits, and may go on from this one. */
static bool is_awaited(const struct sim *sim, const struct view_experiment *experiment, uint32_t index)
{
    int e = checkers_experiment(sim, experiment->id);
    uint32_t population = e >= 0 ? sim->plan.experiments[e].population : 0;
    bool is_found = false;
    for (uint32_t t = population > 0 ? index - index % population + population : 0, m = 0; m < population && t < experiment->trial_count; t++, m++) {
        const struct view_trial *next = view_find_trial(experiment, t);
        is_found |= view_trial_state(experiment, t) == VIEW_TRIAL_QUEUED && (next == NULL || next->attempts == NULL);
    }
    return is_found;
}

/* The newest checkpoint of each live trial that is on this side is there afterwards, too: on some disk of `machines`. */
static void check_side(struct sim *sim, int node, struct sim_blob *const *blobs, uint32_t count, const struct view *view,
                       uint32_t machines)
{
    for (uint32_t e = 0; e < view->experiment_count; e++) {
        const struct view_experiment *experiment = view->experiments[e];
        bool is_over = !experiment->known || view_experiment_over(experiment) || view_find_tombstone(view, experiment->id) != NULL;
        for (uint32_t t = 0; !is_over && t < experiment->trial_slots; t++) {
            const struct view_manifest *row = experiment->trials[t] != NULL ? experiment->trials[t]->manifests : NULL;
            enum view_trial_state state = view_trial_state(experiment, t);
            while (row != NULL && row->holder_count == 0) {
                row = row->next;
            }
            const struct sim_blob *blob = row != NULL ? blobs_find(sim, row->blob) : NULL;
            uint32_t there = blob != NULL ? copies_good(blob) & machines : 0;
            if (there == 0 || (state != VIEW_TRIAL_QUEUED && state != VIEW_TRIAL_RUNNING && !is_awaited(sim, experiment, t)) ||
                checkers_is_before_retry(experiment->trials[t], row)) {
                continue;
            }
            checkers_met(sim, PREMISE_11_ON_SIDE);
            for (uint32_t i = 0; i < count; i++) {
                there &= blobs[i] == blob ? ~(1u << node) : UINT32_MAX;
            }
            if (there == 0) {
                sim_fail(sim, 11, "n%d deletes step %llu of trial %u, which lives: its newest, and no other node of its side has it",
                         node, (unsigned long long)row->step, t);
            }
        }
    }
}

void checkers_on_collected(struct sim *sim, int node, struct sim_blob *const *blobs, uint32_t count, bool is_full)
{
    const struct node_core *core = sim->nodes[node].core;
    uint32_t machines = 0;
    for (int other = 0; other < (int)sim->machines; other++) {
        /* Who has lost its disk may never have heard of the key that another has by now. */
        bool is_reached = other == node || (sim_runs(sim, other) && network_talks(sim, node, other) &&
                                            (sim->checkers->forgot_ms[node] == 0 ||
                                             core_find_peer(core, sim->nodes[other].id) != NULL));
        machines |= (is_full ? is_reached : sim_daemon_up(sim, other)) ? 1u << other : 0;
    }
    if (!is_full) {
        check_all_there(sim, node);
    }
    const struct view *view = unite(sim, machines);
    if (!has_ambiguous_names(sim)) {
        check_side(sim, node, blobs, count, view, machines);
    }
    for (uint32_t i = 0; i < count && !sim->failed; i++) {
        int index = copies_experiment(sim, blobs[i]);
        CHECK(index >= 0);
        experiment_id id = sim->plan.experiments[index].id;
        const struct view_experiment *own = view_find_experiment(&core->view, id);
        const struct view_experiment *experiment = view_find_experiment(view, id);
        if (view_is_deleted(&core->view, id)) {
            checkers_met(sim, PREMISE_10_COLLECTED);
            continue;
        }
        if (blobs[i]->is_code) {
            if (own != NULL && own->known) {
                sim_fail(sim, 11, "n%d deletes the code of experiment %d, which it knows", node, index);
            }
            continue;
        }
        checkers_met(sim, PREMISE_11_COLLECTED);
        const struct view_trial *trial =
            experiment != NULL && experiment->known ? view_find_trial(experiment, blobs[i]->attempt.trial) : NULL;
        if (trial != NULL && view_find_tombstone(view, id) == NULL && !has_ambiguous_names(sim)) {
            check_kept(sim, node, blobs[i], trial, "deletes");
            check_beginning(sim, node, blobs[i], trial);
        }
    }
}

static bool is_in(const hash256 *hashes, uint32_t count, hash256 hash)
{
    for (uint32_t i = 0; i < count; i++) {
        if (hash256_equal(hashes[i], hash)) {
            return true;
        }
    }
    return false;
}

/* The list that a disk is cleaned by: it names what is there by the records of this node, and has not been let go, however
 * new. */
void checkers_on_listed(struct sim *sim, int node, const hash256 *named, uint32_t count)
{
    const struct view *view = &sim->nodes[node].core->view;
    for (uint32_t i = 0; i < BLOBS_MAX && !has_ambiguous_names(sim); i++) {
        const struct sim_blob *blob = &sim->blobs.all[i];
        if ((blob->holders >> node & 1) == 0 || blob->is_code || is_in(named, count, blob->hash)) {
            continue;
        }
        int index = copies_experiment(sim, blob);
        const struct view_experiment *experiment =
            index >= 0 ? view_find_experiment(view, sim->plan.experiments[index].id) : NULL;
        const struct view_trial *trial =
            experiment != NULL && experiment->known ? view_find_trial(experiment, blob->attempt.trial) : NULL;
        if (trial != NULL && !view_is_deleted(&sim->nodes[node].core->view, experiment->id)) {
            check_kept(sim, node, blob, trial, "is to delete");
        }
    }
}

void checkers_on_rotten(struct sim *sim)
{
    checkers_met(sim, PREMISE_11_ROTTEN);
}

/* ---- a checkpoint is let go ------------------------------------------------------------------------------------------- */

/* Copies of it that are whole, or were when they could have been asked last. */
static uint32_t count_confirmed(struct sim *sim, const struct view_manifest *checkpoint)
{
    if (checkpoint->set != NULL &&
        node_id_equal(checkpoint->set->whole->writer, checkpoint->writer)) {
        uint32_t least = UINT32_MAX;
        for (uint32_t part = 0; part < checkpoint->set->key.count; part++) {
            struct view_manifest united = {0};
            const struct view_manifest *first = view_set_part(checkpoint->set, part);
            if (first != NULL) {
                (void)view_manifest_unite(first, &united);
            }
            uint32_t count = count_confirmed(sim, &united);
            least = count < least ? count : least;
        }
        return least;
    }
    const struct sim_blob *blob = blobs_find(sim, checkpoint->blob);
    uint32_t count = 0;
    for (uint32_t i = 0; blob != NULL && i < checkpoint->holder_count; i++) {
        int holder = sim_find_node(sim, checkpoint->holders[i]);
        bool was_there = holder >= 0 && (blob->struck >> holder & 1) != 0 &&
                         sim->now_ms - blob->struck_ms[holder] <= COPIES_FRESH_MS;
        count += holder >= 0 && ((copies_good(blob) >> holder & 1) != 0 || was_there);
    }
    return count;
}

/* Its writer says that nobody needs to hold it any more. Then as many newer ones as are kept are on as many disks as they
 * should: who is away does not count, for nobody is, unless the disk is full. */
void checkers_on_let_go(struct sim *sim, int node, const struct record *record)
{
    const struct node_core *core = sim->nodes[node].core;
    attempt_id attempt;
    uint64_t step;
    struct fact_part_key part = {0};
    bool is_part = record->kind == FACT_PART;
    if (fact_key_read_attempt(record, &attempt) != 0 ||
        (is_part ? fact_key_read_part(record, &part) : fact_key_read_step(record, &step)) != 0 || has_ambiguous_names(sim)) {
        return;
    }
    step = is_part ? part.step : step;
    hash256 name = is_part ? fact_part_name(&attempt, &part) : (hash256){{0}};
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt.experiment);
    const struct view_trial *trial =
        experiment != NULL && experiment->known ? view_find_trial(experiment, attempt.trial) : NULL;
    if (trial == NULL) {
        return;
    }
    struct fact_manifest fact;
    CHECK(fact_manifest_read(record, &fact) == 0);
    if (!checkers_has_values(trial, &attempt)) {
        return; /* of the other side's draw: nothing goes on from it any more */
    }
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a->assigned && a->verdicts == NULL && hash256_equal(a->checkpoint, is_part ? name : fact.blob)) {
            sim_fail(sim, 11, "n%d lets step %llu of trial %u go, with which attempt %u begins", node,
                     (unsigned long long)step, attempt.trial, a->id.number);
        }
    }
    uint32_t nodes = 1, newer = 0, latest = experiment->config->save_trial_latest;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct view_member *member = view_find_member(&core->view, core->members->peers[i]->id);
        nodes += core->members->peers[i]->state == SWIM_ALIVE && (member == NULL || !member->left); /* who leaves takes its copies along */
    }
    enum view_trial_state state = view_trial_state(experiment, attempt.trial);
    bool lives = !view_experiment_over(experiment) && (state == VIEW_TRIAL_QUEUED || state == VIEW_TRIAL_RUNNING);
    uint32_t wanted = experiment->config->checkpoint_replicas < nodes ? experiment->config->checkpoint_replicas : nodes;
    for (const struct view_manifest *row = trial->manifests; row != NULL;) {
        struct view_manifest united;
        row = view_manifest_unite(row, &united);
        /* A step may have both: a checkpoint of one blob, and one in parts, which is the newer one then. */
        bool is_same = is_part ? hash256_equal(united.blob, name) : united.set == NULL;
        bool is_it = united.step == step && attempt_id_equal(&united.attempt, &attempt) && is_same;
        if (united.step < step || is_it) {
            break;
        }
        newer += united.holder_count > 0 && checkers_has_values(trial, &united.attempt) && count_confirmed(sim, &united) >= wanted;
    }
    checkers_met(sim, PREMISE_11_LET_GO);
    if (newer < (latest == 0 && lives ? 1 : latest)) {
        sim_fail(sim, 11, "n%d lets step %llu of trial %u go, and of the newer ones %u are on %u disks", node,
                 (unsigned long long)step, attempt.trial, newer, wanted);
    }
}

/* ---- at the end ------------------------------------------------------------------------------------------------------- */

/* Whoever is named as its holder has it, unless a fault has taken it there: then it may not have been mended yet. */
static void check_holders(struct sim *sim, const struct view_manifest *checkpoint)
{
    if (blobs_find(sim, checkpoint->blob) == NULL) { /* it has parts */
        for (uint32_t part = 0; part < checkpoint->set->key.count; part++) {
            struct view_manifest united;
            (void)view_manifest_unite(view_set_part(checkpoint->set, part), &united);
            check_holders(sim, &united);
        }
        return;
    }
    const struct sim_blob *blob = blobs_find(sim, checkpoint->blob);
    for (uint32_t i = 0; i < checkpoint->holder_count; i++) {
        int holder = find_holder(sim, checkpoint->holders[i]);
        if (holder < 0 || !checkers_in_core(sim, holder) || (blob->struck >> holder & 1) != 0) {
            continue;
        }
        checkers_met(sim, PREMISE_11_KEPT);
        if ((copies_good(blob) >> holder & 1) == 0) {
            sim_fail(sim, 11, "n%d does not have step %llu of trial %u, which is kept there", holder,
                     (unsigned long long)checkpoint->step, checkpoint->attempt.trial);
        }
    }
}

/* All members are there and know that it is over: nothing of it is saved any more, so what is kept stays the same. */
static bool is_over_everywhere(const struct sim *sim, uint32_t e)
{
    bool is_over = true;
    for (int node = 0; node < (int)sim->plan.node_count && is_over; node++) {
        const struct sim_node *each = &sim->nodes[node];
        const struct view_experiment *experiment =
            sim_runs(sim, node) && !each->core->members->syncing && !each->is_evicted && !each->leaves
                ? view_find_experiment(&each->core->view, sim->plan.experiments[e].id)
                : NULL;
        is_over = experiment != NULL && experiment->known && view_experiment_over(experiment);
    }
    return is_over;
}

/* Since when all who live have known that it is deleted. */
void checkers_copies_second(struct sim *sim)
{
    for (uint32_t e = 0; sim->plan.version > 6 && e < sim->plan.experiment_count; e++) {
        bool is_known = true;
        for (int node = 0; node < (int)sim->plan.node_count; node++) {
            const struct node_core *core = sim->nodes[node].core;
            is_known &= core != NULL && !core->members->syncing && view_is_deleted(&core->view, sim->plan.experiments[e].id);
        }
        uint64_t *since_ms = &sim->checkers->deleted_ms[e];
        *since_ms = !is_known ? 0 : *since_ms == 0 ? sim->now_ms : *since_ms;
        uint64_t *over_ms = &sim->checkers->over_ms[e];
        *over_ms = !is_over_everywhere(sim, e) ? 0 : *over_ms == 0 ? sim->now_ms : *over_ms;
    }
}

/* DESIGN 10: nothing is collected while a member is away. So all must be there, for as long as it takes; what a copied
 * disk became is a member, too, and its machine is lost. */
static void check_deleted(struct sim *sim, uint32_t e)
{
    uint64_t since_ms = sim->checkers->deleted_ms[e];
    if (since_ms == 0 || sim->plan.has[FAULT_CLONE]) {
        return;
    }
    since_ms = since_ms > sim->unstable_until_ms + CALM_MS ? since_ms : sim->unstable_until_ms + CALM_MS;
    uint64_t idle_ms = (uint64_t)CORE_COLLECT_IDLE_S * sim->plan.idle_permille;
    idle_ms = idle_ms > PLAN_IDLE_MIN_S * 1000 ? idle_ms : PLAN_IDLE_MIN_S * 1000;
    for (uint32_t i = 0; i < BLOBS_MAX; i++) {
        const struct sim_blob *blob = &sim->blobs.all[i];
        for (int node = 0; copies_experiment(sim, blob) == (int)e && node < (int)sim->plan.node_count; node++) {
            uint64_t from_ms = since_ms > blob->touched_ms[node] ? since_ms : blob->touched_ms[node];
            from_ms = from_ms > sim->blobs.opened_ms[node] ? from_ms : sim->blobs.opened_ms[node];
            if (sim->now_ms < from_ms + idle_ms + CORE_COLLECT_MS + COLLECT_SLACK_MS) {
                continue;
            }
            checkers_met(sim, PREMISE_10_CLEANED);
            if ((blob->holders >> node & 1) != 0) {
                sim_fail(sim, 10, "n%d still has %s of experiment %u, step %llu, deleted %llu s ago", node,
                         blob->is_code ? "the code" : "a checkpoint", e, (unsigned long long)blob->step,
                         (unsigned long long)(sim->now_ms - sim->checkers->deleted_ms[e]) / 1000);
            }
        }
    }
}

static bool was_any_struck(const struct sim *sim)
{
    for (uint32_t i = 0; i < BLOBS_MAX; i++) {
        if (sim->blobs.all[i].struck != 0) {
            return true;
        }
    }
    return false;
}

/* What no rule keeps of an experiment that has been over for long is let go, if nobody is away and no copy was lost: then
 * all that is kept can be confirmed. */
static void check_let_go(struct sim *sim, const struct view_experiment *experiment, uint32_t e)
{
    uint64_t since_ms = sim->checkers->over_ms[e];
    uint64_t calm_ms = sim->unstable_until_ms + CALM_MS;
    since_ms = since_ms > calm_ms || since_ms == 0 ? since_ms : calm_ms;
    if (since_ms == 0 || sim->now_ms < since_ms + LET_GO_MS || was_any_struck(sim)) {
        return;
    }
    for (uint32_t t = 0; t < experiment->trial_slots; t++) {
        const struct view_trial *trial = experiment->trials[t];
        for (const struct view_manifest *row = trial != NULL ? trial->manifests : NULL; row != NULL; row = row->next) {
            checkers_met(sim, PREMISE_11_GOES);
            if (!row->is_kept && row->holder_count > 0) {
                sim_fail(sim, 11, "step %llu of trial %u is kept no longer, and not let go", (unsigned long long)row->step, t);
            }
        }
    }
}

void checkers_copies_end(struct sim *sim)
{
    if (sim->plan.version < 7) {
        return;
    }
    const struct view *view = unite(sim, sim->plan.core);
    for (uint32_t e = 0; e < view->experiment_count && !has_ambiguous_names(sim); e++) {
        const struct view_experiment *experiment = view->experiments[e];
        for (uint32_t t = 0; experiment->known && t < experiment->trial_slots; t++) {
            const struct view_trial *trial = experiment->trials[t];
            for (const struct view_manifest *row = trial != NULL ? trial->manifests : NULL, *next; row != NULL; row = next) {
                struct view_manifest united;
                next = view_manifest_unite(row, &united);
                if (row->is_kept && united.durable) {
                    check_holders(sim, &united);
                }
            }
        }
    }
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        check_deleted(sim, e);
        const struct view_experiment *experiment = view_find_experiment(view, sim->plan.experiments[e].id);
        if (experiment != NULL && experiment->known && !has_ambiguous_names(sim)) {
            check_let_go(sim, experiment, e);
        }
    }
}
