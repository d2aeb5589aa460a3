/* Why a queued trial has not begun. The causes in the order in which coordinator.c, pending.c and placing.c meet them: the
 * experiment rests, no node coordinates it, the trial has to wait after losses or deaths, slots are missing, nodes have no
 * network in common. */

#include "base/bytes.h"
#include "base/format.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/custom.h"
#include "node/core/coordinator/pending.h"
#include "node/core/coordinator/placing.h"
#include "node/core/coordinator/search.h"
#include "node/core/coordinator/waiting.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/facts/program.h"
#include "node/core/members/clocks.h"
#include "node/core/members/quarantine.h"
#include "node/core/members/versions.h"

/* What keeps a trial from a slot of the wanted kind. */
enum obstacle {
    FREE,
    TAKEN,
    ENDING,
    RESERVED,
    WITHHELD,
    BUSY,
    OTHER_DEVICES,
    AWAY,
    DRAINED,
    UNREADABLE,
    NO_COPY,
    UNWILLING,
    LACKING,
    QUARANTINED,
    FAILED_THERE
};

/* Slots with one obstacle: of one experiment if TAKEN, else on one node. */
struct row {
    enum obstacle obstacle;
    uint32_t slots;
    node_id node;
    experiment_id experiment;
};

#define ROWS_MAX 64
#define ROWS_SHOWN 5
#define CONSTRAINTS_BYTES 400 /* of their words in a sentence */

struct ledger {
    uint32_t total, free;
    struct row rows[ROWS_MAX]; /* the obstacles; slots beyond ROWS_MAX rows are in `total` only */
    uint32_t row_count;
};

static enum obstacle obstacle_of_node(const struct node_core *core, const struct view_experiment *experiment,
                                      const struct view_member *member)
{
    char secret[FACT_NAME_BYTES];
    return !core_node_alive(core, member->id)                  ? AWAY
           : core_node_drained(core, member->id)               ? DRAINED
           : !core_node_speaks(core, member->id) ||
                   !core_node_reads(core, member->id, experiment) ? UNREADABLE
           : view_secrets_lack(&core->view, experiment->config, &member->id, secret) ? NO_COPY
                                                               : UNWILLING;
}

/* The node has granted nothing since it last refused this one, not long ago. It is asked again and again, each time for a moment. */
static bool grants_nothing(const struct node_core *core, node_id node)
{
    const struct core_peer *peer = core_find_peer(core, node);
    return peer != NULL && peer->unwilling_ms != 0 && core->now_ms < peer->unwilling_ms + CORE_OWNER_UNWILLING_MS;
}

static bool has_unwilling(const struct node_core *core, const struct placing_choice *choice)
{
    for (uint32_t i = 0; i < choice->member_count; i++) {
        if (grants_nothing(core, choice->members[i].node)) {
            return true;
        }
    }
    return false;
}

/* `node`: the member in the snapshot; NULL: placing does not look at the member. */
static enum obstacle obstacle_of_slot(const struct view_member *member, uint32_t slot, const struct placing_node *node,
                                      enum placing_omission omission, enum obstacle of_node)
{
    const struct view_slot *row = view_member_slot(member, slot);
    if (node == NULL) {
        return of_node;
    }
    if (row == NULL || row->withheld || row->state == LEASE_WITHHELD) {
        return row == NULL || row->withheld ? WITHHELD : BUSY;
    }
    if (omission != PLACING_INCLUDED) {
        return omission == PLACING_LACKS_PROGRAM ? LACKING : omission == PLACING_QUARANTINED ? QUARANTINED : FAILED_THERE;
    }
    if ((node->usable >> slot & 1) == 0) {
        return OTHER_DEVICES;
    }
    return row->state == LEASE_LEASED                        ? TAKEN
           : row->state == LEASE_RELEASING                   ? ENDING
           : row->state == LEASE_FREE && (node->idle >> slot & 1) ? FREE
                                                             : RESERVED;
}

static void count_slot(struct ledger *ledger, enum obstacle obstacle, const struct view_member *member, uint32_t slot)
{
    const struct view_slot *taken = obstacle == TAKEN ? view_member_slot(member, slot) : NULL;
    struct row row = {.obstacle = obstacle, .slots = 1};
    if (taken != NULL) {
        row.experiment = taken->attempt.experiment;
    } else {
        row.node = member->id;
    }
    ledger->total++;
    ledger->free += obstacle == FREE;
    for (uint32_t i = 0; i < ledger->row_count && obstacle != FREE; i++) {
        struct row *other = &ledger->rows[i];
        if (other->obstacle == obstacle && node_id_equal(other->node, row.node) &&
            experiment_id_equal(other->experiment, row.experiment)) {
            other->slots++;
            return;
        }
    }
    if (obstacle != FREE && ledger->row_count < ROWS_MAX) {
        ledger->rows[ledger->row_count++] = row;
    }
}

static void count_slots(const struct node_core *core, const struct view_experiment *experiment,
                        const struct placing_snapshot *snapshot, struct ledger *ledger)
{
    enum placing_omission omissions[NODE_MEMBERS_MAX];
    uint32_t at = 0;
    *ledger = (struct ledger){0};
    placing_omissions(snapshot, omissions);
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        bool is_looked_at = at < snapshot->node_count && node_id_equal(snapshot->nodes[at].node, member->id);
        const struct placing_node *node = is_looked_at ? &snapshot->nodes[at++] : NULL; /* both are in the order of ids */
        if (!member->has_node || !member->admitted || view_member_is_out(member) || member->left) {
            continue;
        }
        enum placing_omission omission = node != NULL ? omissions[at - 1] : PLACING_INCLUDED;
        enum obstacle of_node = obstacle_of_node(core, experiment, member);
        bool is_unwilling = grants_nothing(core, member->id);
        uint64_t fitting = view_member_fitting(member, experiment->config);
        for (uint32_t slot = 0; slot < member->slot_count; slot++) {
            if ((fitting >> slot & 1) != 0) {
                enum obstacle obstacle = obstacle_of_slot(member, slot, node, omission, of_node);
                count_slot(ledger, obstacle == FREE && is_unwilling ? UNWILLING : obstacle, member, slot);
            }
        }
    }
}

static size_t write_row(const struct node_core *core, const struct view_experiment *experiment, const struct row *row, char *out,
                        size_t size)
{
    static const char *const texts[] = {
        [ENDING] = "whose worker is still ending",
        [RESERVED] = "about to be given out",
        [WITHHELD] = "withheld by the owner",
        [BUSY] = "used by another program",
        [OTHER_DEVICES] = "that cannot be in one group with the others (whole GPUs and MIG devices)",
        [AWAY] = "which is away",
        [DRAINED] = "which is drained",
        [UNREADABLE] = "whose version cannot run the experiment",
        [NO_COPY] = "which has no copy yet of a secret that the trial asks for",
        [UNWILLING] = "which grants nothing now (its disk or memory may be full)",
        [LACKING] = "which lacks ",
        [QUARANTINED] = "which is quarantined",
        [FAILED_THERE] = "where the trial failed or could not start",
    };
    if (row->obstacle == TAKEN) {
        const struct view_experiment *taker = view_find_experiment(&core->view, row->experiment);
        bool is_own = experiment_id_equal(row->experiment, experiment->id);
        return format_text(out, size, "%u taken by %s", row->slots,
                           is_own                          ? "this experiment"
                           : taker != NULL && taker->known ? taker->config->name
                                                           : "another experiment");
    }
    char program[FACT_PROGRAM_BYTES] = "";
    if (row->obstacle == LACKING) {
        (void)program_of_config(experiment->config, program);
    }
    bool is_of_node = row->obstacle >= AWAY;
    return format_text(out, size, "%u on %s%s %s%s", row->slots, view_label(&core->view, row->node).text, is_of_node ? "," : "",
                       texts[row->obstacle], program);
}

/* Writes the obstacles, the ones with the most slots first. */
static void write_rows(const struct node_core *core, const struct view_experiment *experiment, struct ledger *ledger, char *out,
                       size_t size)
{
    size_t used = 0;
    uint32_t left = ledger->total - ledger->free;
    for (uint32_t shown = 0; shown < ROWS_SHOWN; shown++) {
        struct row *most = NULL;
        for (uint32_t i = 0; i < ledger->row_count; i++) {
            most = ledger->rows[i].slots > 0 && (most == NULL || ledger->rows[i].slots > most->slots) ? &ledger->rows[i] : most;
        }
        if (most == NULL) {
            break;
        }
        used += format_text(out + used, size - used, "%s", shown == 0 ? "" : "; ");
        used += write_row(core, experiment, most, out + used, size - used);
        left -= most->slots;
        most->slots = 0;
    }
    if (left > 0) {
        (void)format_text(out + used, size - used, "; %u more", left);
    }
}

static const char *kind_word(const struct config *config)
{
    return config->slot_kind == CONFIG_SLOT_CUDA ? "cuda " : config->slot_kind == CONFIG_SLOT_CPU ? "cpu " : "";
}

/* Writes that there are enough slots, and that no place for an even gang can be made of them: of those that are idle or, if `all`,
 * of any. */
static void write_uneven(const struct node_core *core, const struct placing_snapshot *snapshot, bool all, char *out, size_t size)
{
    size_t used = format_text(out, size,
                              "resources.even_hosts wants the same number of ranks on every node, and no nodes have %s%u slots in "
                              "such parts%s: ",
                              snapshot->least < snapshot->wanted ? "at least " : "", snapshot->least, all ? "" : " now");
    uint32_t shown = 0;
    for (uint32_t i = 0; i < snapshot->node_count; i++) {
        uint32_t slots = placing_count(all ? snapshot->nodes[i].usable : snapshot->nodes[i].idle);
        if (slots > 0 && shown < ROWS_SHOWN) {
            used += format_text(out + used, size - used, "%s%u on %s", shown == 0 ? "" : "; ", slots,
                                view_label(&core->view, snapshot->nodes[i].node).text);
            shown++;
        } else if (slots > 0) {
            (void)format_text(out + used, size - used, "; and others");
            return;
        }
    }
}

/* True, with the sentence, if the trial could begin but for resources.even_hosts. */
static bool write_even(const struct node_core *core, const struct placing_snapshot *snapshot, char *out, size_t size)
{
    struct placing_choice choice;
    struct placing_snapshot any = *snapshot;
    any.is_even = false;
    if (!snapshot->is_even) {
        return false;
    }
    if (placing_most(snapshot) < snapshot->least && placing_most(&any) >= snapshot->least) {
        write_uneven(core, snapshot, true, out, size);
        return true;
    }
    if (!placing_choose(snapshot, &choice) && placing_choose(&any, &choice)) {
        write_uneven(core, snapshot, false, out, size);
        return true;
    }
    return false;
}

/* Writes which slots are missing. False: enough slots are free. */
static bool write_missing(const struct node_core *core, const struct view_experiment *experiment,
                          const struct placing_snapshot *snapshot, char *out, size_t size)
{
    struct ledger ledger;
    struct placing_choice choice;
    const struct config *config = experiment->config;
    uint32_t wanted = config->slots_per_trial, least = config->min_slots;
    const char *kind = kind_word(config), *at_least = least < wanted ? "at least " : "";
    size_t used;
    count_slots(core, experiment, snapshot, &ledger);
    if (ledger.total < least) {
        char constraints[CONSTRAINTS_BYTES];
        bool are_any = config->constraints[0] != '\0';
        config_constraints_write(config, constraints, sizeof constraints);
        format_text(out, size, "it needs %s%u %sslot%s%s%s%s, and all nodes together have %u", at_least, least, kind,
                    least == 1 ? "" : "s", are_any ? " that resources.constraints allow (" : "", constraints, are_any ? ")" : "",
                    ledger.total);
        return true;
    }
    if (write_even(core, snapshot, out, size)) {
        return true;
    }
    if ((placing_choose(snapshot, &choice) && !has_unwilling(core, &choice)) || ledger.free >= wanted) {
        return false; /* a slot that has just refused is asked again soon */
    }
    if (ledger.free >= least) {
        used = format_text(out, size,
                           "it needs %u %sslots for its full group and %u can be had now (it begins with them after 10 min): ",
                           wanted, kind, ledger.free);
    } else if (least == 1 && wanted == 1) {
        used = format_text(out, size, "no %sslot is free: ", kind);
    } else {
        used = format_text(out, size, "it needs %s%u %sslot%s at once and %u can be had now: ", at_least, least, kind,
                           least == 1 ? "" : "s", ledger.free);
    }
    write_rows(core, experiment, &ledger, out + used, size - used);
    return true;
}

/* "prep", or the id where the name is not known. */
static const char *name_of(const struct node_core *core, experiment_id id, char hex[2 * EXPERIMENT_ID_BYTES + 1])
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, id);
    bytes_to_hex(hex, id.bytes, EXPERIMENT_ID_BYTES);
    return experiment != NULL && experiment->known ? experiment->config->name : hex;
}

/* Writes for which other experiment or time the experiment waits. False: for none. */
static bool write_wait(const struct node_core *core, const struct view_experiment *experiment, char *out, size_t size)
{
    const struct view_wait wait = view_experiment_wait(&core->view, experiment, core_mesh_wall_s(core));
    const struct view_experiment *other = view_find_experiment(&core->view, wait.dependency);
    char hex[2 * EXPERIMENT_ID_BYTES + 1], more[32] = "", start[CONFIG_START_BYTES];
    const char *name = name_of(core, wait.dependency, hex);
    const char *state = view_is_deleted(&core->view, wait.dependency) ? "deleted"
                        : other != NULL && other->known               ? view_experiment_state_name(view_experiment_state(other))
                                                                      : NULL;
    if (wait.others > 0) {
        format_text(more, sizeof more, ", and for %u more", wait.others);
    }
    switch (wait.cause) {
    case VIEW_WAITS_NOT:
        return false;
    case VIEW_WAITS_ENDED:
        format_text(out, size, "it waits for the experiment %s, which %s%s; shoal resume %s begins it all the same", name,
                    strcmp(state, "failed") == 0 ? "has failed" : strcmp(state, "deleted") == 0 ? "was deleted" : "was cancelled", more,
                    experiment->config->name);
        return true;
    case VIEW_WAITS_UNFINISHED:
        if (state == NULL) {
            format_text(out, size, "it waits for the experiment %s, of which no record is here yet%s", name, more);
        } else {
            format_text(out, size, "it waits for the experiment %s, which is %s%s", name, state, more);
        }
        return true;
    case VIEW_WAITS_TIME:
        if (config_start_write(start, wait.start_s)) {
            start[sizeof "2026-12-01" - 1] = ' ';
            start[sizeof "2026-12-01 18:00:00" - 1] = '\0';
            format_text(out, size, "it starts after %s UTC", start);
        } else {
            format_text(out, size, "its record has no time in start_after");
        }
        return true;
    }
    return false;
}

/* Writes why no trial of the experiment begins, whatever slots are free. False: trials may begin. */
static bool write_rest(const struct node_core *core, const struct view_experiment *experiment,
                       const struct core_coordination *coordination, char *out, size_t size)
{
    struct election_claim highest = coordination != NULL ? coordination->election.highest : (struct election_claim){0};
    bool has_coordinator = highest.term > 0 && !coordination->election.highest_released;
    if (view_experiment_paused(experiment)) {
        format_text(out, size, "the experiment is paused");
    } else if (write_wait(core, experiment, out, size)) {
        return true;
    } else if (!has_coordinator) {
        format_text(out, size, "no node coordinates the experiment yet; the nodes choose one within seconds");
    } else if (!core_node_alive(core, highest.node)) {
        format_text(out, size, "its coordinator %s is away; another node takes over", view_label(&core->view, highest.node).text);
    } else if (coordinator_minority_pauses(core, experiment)) {
        format_text(out, size, "this side of the cut has the fewer nodes, and on_partition is pause_minority");
    } else if (core->memory.is_short && node_id_equal(highest.node, core->options.self)) {
        format_text(out, size, "its coordinator %s is short of memory: delete old experiments",
                    view_label(&core->view, highest.node).text);
    } else {
        return false;
    }
    return true;
}

/* Of pbt: the round before the trial's is not over. False: it is, or the searcher is another. */
static bool write_generation(const struct view_experiment *experiment, uint32_t index, char *out, size_t size)
{
    uint32_t population = experiment->config->searcher == SEARCH_PBT ? experiment->config->population_size : 0;
    if (population == 0 || index < population || index >= experiment->search.trial_count || view_population_has_parent(experiment, index)) {
        return false;
    }
    uint32_t first = index - index % population - population;
    format_text(out, size, "round %u goes on from round %u, of which %u of %u trials have come to the end",
                first / population + 2, first / population + 1, experiment->search.trials[first].judged_members, population);
    return true;
}

/* Writes why this trial may not begin, whatever slots are free. False: it may. */
static bool write_hold(const struct node_core *core, const struct core_coordination *coordination,
                       const struct view_experiment *experiment, uint32_t index, char *out, size_t size)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    uint32_t losses;
    if (view_search_course(experiment, index) == VIEW_ENDS) {
        format_text(out, size, "the search has decided to stop it");
        return true;
    }
    if (experiment->is_custom && !view_custom_is_created(experiment, index)) {
        if (!custom_reason(experiment, out, size)) {
            format_text(out, size, "not created yet by the program of the search (searcher.entrypoint)");
        }
        return true;
    }
    const struct view_judged *paused = view_search_paused(experiment, index);
    if (paused != NULL) {
        const struct view_standing standing = view_promotion_standing(experiment, experiment->search.judged_count, paused);
        uint32_t of = standing.entries + 1, go_on = search_promoted_of(experiment->config->divisor, of);
        format_text(out, size, "paused by the search at rung %u, where %u of %u go%s on so far", paused->fact.rung, go_on, of,
                    go_on == 1 ? "es" : "");
        return true;
    }
    if (write_generation(experiment, index, out, size)) {
        return true;
    }
    if (search_is_full(core, coordination, experiment, index)) {
        format_text(out, size, "as many trials are under way as the search lets train at a time (searcher.max_concurrent_trials)");
        return true;
    }
    if (pending_lacks_beginning(core, experiment, index)) {
        const struct view_trial *parent = view_population_parent(experiment, index);
        if (parent != NULL) {
            format_text(out, size, "the node with the checkpoint of trial %u, from which it goes on, has just fallen silent, and may answer again", parent->index);
        } else {
            format_text(out, size, "no node that can be reached holds the checkpoint that it begins with (%s)", experiment->config->begin_from);
        }
        return true;
    }
    char secret[FACT_NAME_BYTES];
    if (view_secrets_lack(&core->view, experiment->config, NULL, secret)) {
        format_text(out, size, "the secret %s, which it asks for, is not set; shoal secret set %s", secret, secret);
        return true;
    }
    if (trial == NULL) {
        return false;
    }
    uint64_t wait_ms = pending_lost_wait_ms(core, coordination, experiment, trial, &losses);
    if (wait_ms > 0) {
        format_text(out, size, "it was lost %u times in a row: its next attempt begins %llu s after the last one", losses,
                    (unsigned long long)((wait_ms + 999) / 1000));
    } else if (core_quarantine_waits(core, trial)) {
        format_text(out, size, "for some seconds it is open whether the trial took its node down");
    } else if (core_checkpoints_may_return(core, trial)) {
        format_text(out, size, "the node with its last checkpoint has just fallen silent, and may answer again");
    } else if (view_trial_next_number(trial) == 0) {
        format_text(out, size, "no number is left for another attempt");
    } else {
        return false;
    }
    return true;
}

bool waiting_reason(const struct node_core *core, const struct view_experiment *experiment, uint32_t index, char *out, size_t size)
{
    struct placing_node nodes[NODE_MEMBERS_MAX];
    if (!experiment->known || view_experiment_over(experiment) || view_trial_state(experiment, index) != VIEW_TRIAL_QUEUED) {
        return false;
    }
    const struct core_coordination *coordination = core_find_coordination(core, experiment->id);
    const struct view_trial *trial = view_find_trial(experiment, index);
    if (write_rest(core, experiment, coordination, out, size) ||
        write_hold(core, coordination, experiment, index, out, size)) {
        return true;
    }
    const struct placing_snapshot snapshot = placing_look(core, experiment, trial, nodes);
    if (write_missing(core, experiment, &snapshot, out, size)) {
        return true;
    }
    if (!placing_apart_reason(core, experiment, trial, &snapshot, out, size)) {
        format_text(out, size, "slots for it are free, and its coordinator %s is about to ask for them",
                    view_label(&core->view, coordination->election.highest.node).text);
    }
    return true;
}
