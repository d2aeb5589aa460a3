/* The slots for the next trial: fills the snapshots for choice.c, and makes the gangs. */

#include "base/format.h"
#include "base/probe.h"
#include "node/core/coordinator/choice.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/elastic.h"
#include "node/core/coordinator/gangs.h"
#include "node/core/coordinator/pending.h"
#include "node/core/coordinator/placing.h"
#include "node/core/coordinator/watch.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/facts/program.h"
#include "node/core/ground/effects.h"
#include "node/core/members/links.h"
#include "node/core/members/quarantine.h"
#include "node/core/members/versions.h"
#include "node/core/owner/owner.h"

/* CUDA shows a process one part of a GPU (a MIG device) and nothing beside it, so the ranks of a host with whole GPUs and parts
 * would not see the same devices. Hence a gang of several slots has no parts, or only parts. */
enum devices { DEVICES_ANY, DEVICES_WHOLE, DEVICES_PARTS };

/* A trial or a joiner to be placed. */
struct wish {
    enum devices devices;
    const struct view_experiment *experiment;
    const struct view_trial *trial; /* NULL: the trial has not begun yet */
    uint32_t index;                 /* of the trial; FACT_NO_TRIAL: any that has not begun */
    uint64_t waited_ms;             /* as in struct placing_snapshot */
    uint64_t had_least_ms;          /* as in struct placing_snapshot */
    const struct view_attempt *attempt; /* a joiner: of this attempt; else NULL */
};

void placing_back_off(struct node_core *core, node_id node, uint32_t slot, uint64_t ms)
{
    struct core_backoff *oldest = &core->coordinator->backoffs[0];
    for (uint32_t i = 0; i < CORE_BACKOFFS_MAX; i++) {
        oldest = core->coordinator->backoffs[i].until_ms < oldest->until_ms ? &core->coordinator->backoffs[i] : oldest;
    }
    *oldest = (struct core_backoff){node, slot, core->now_ms + ms};
}

/* True if at_ms, now or later, is before the end of the slot's back-off. */
static bool is_backed_off(const struct node_core *core, node_id node, uint32_t slot, uint64_t at_ms)
{
    for (uint32_t i = 0; i < CORE_BACKOFFS_MAX; i++) {
        const struct core_backoff *b = &core->coordinator->backoffs[i];
        if (b->until_ms > at_ms && b->slot == slot && node_id_equal(b->node, node)) {
            return true;
        }
    }
    return false;
}

static bool slot_is_promised(const struct node_core *core, node_id node, uint32_t slot)
{
    for (const struct core_coordination *c = core->coordinator->coordinations; c != NULL; c = c->next) {
        for (const struct core_gang *gang = c->gangs; gang != NULL; gang = gang->next) {
            for (uint32_t i = 0; i < gang->member_count; i++) {
                if (gang->members[i].slot == slot && node_id_equal(gang->members[i].node, node)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool holds_suspect(const struct node_core *core, const struct view_member *member)
{
    for (const struct core_coordination *c = core->coordinator->coordinations; c != NULL; c = c->next) {
        const struct view_experiment *experiment =
            c->gangs != NULL ? view_find_experiment(&core->view, c->experiment) : NULL;
        for (const struct core_gang *gang = c->gangs; gang != NULL && experiment != NULL; gang = gang->next) {
            const struct view_trial *trial = view_find_trial(experiment, gang->attempt.trial);
            for (uint32_t i = 0; trial != NULL && i < gang->member_count; i++) {
                if (node_id_equal(gang->members[i].node, member->id) && core_quarantine_is_suspect(trial)) {
                    return true;
                }
            }
        }
    }
    for (uint32_t slot = 0; slot < member->slot_count; slot++) {
        const struct view_attempt *attempt = member->slots[slot].state == LEASE_LEASED
                                                 ? view_find_attempt(&core->view, &member->slots[slot].attempt)
                                                 : NULL;
        const struct view_experiment *experiment =
            attempt != NULL ? view_find_experiment(&core->view, attempt->id.experiment) : NULL;
        if (experiment != NULL && core_quarantine_is_suspect(view_find_trial(experiment, attempt->id.trial))) {
            return true;
        }
    }
    return false;
}

/* The node was asked just now and grants nothing, for example because its disk is full. */
static bool is_unwilling(const struct node_core *core, node_id node)
{
    const struct core_peer *peer = core_find_peer(core, node);
    return peer != NULL ? peer->unwilling_ms != 0 && core->now_ms < peer->unwilling_ms + CORE_SLOT_BACKOFF_MS
                        : !core->owner->lease.granting;
}

static bool is_doubtful(const struct node_core *core, const struct core_peer *peer)
{
    return peer != NULL &&
           ((peer->silent_until_ms != 0 && core->now_ms < peer->silent_until_ms + CORE_OWNER_DOUBTED_MS) ||
            (peer->unwilling_ms != 0 && core->now_ms < peer->unwilling_ms + CORE_OWNER_UNWILLING_MS));
}

/* The slots of a member that the wish can use, as the masks of struct placing_node. */
static void look_at_slots(const struct node_core *core, const struct wish *wish, const struct view_member *member,
                          struct placing_node *out)
{
    uint64_t fitting = view_member_fitting(member, wish->experiment->config);
    for (uint32_t slot = 0; slot < member->slot_count; slot++) {
        uint64_t bit = UINT64_C(1) << slot;
        bool is_free = member->slots[slot].state == LEASE_FREE;
        bool is_part = (member->slot_parts & bit) != 0;
        if ((fitting & bit) == 0 || member->slots[slot].state == LEASE_WITHHELD || member->slots[slot].withheld) {
            continue;
        }
        out->slot_count++;
        if (wish->devices != DEVICES_ANY && is_part != (wish->devices == DEVICES_PARTS)) {
            continue;
        }
        bool is_idle = is_free && !slot_is_promised(core, member->id, slot);
        bool is_refused = is_idle && is_backed_off(core, member->id, slot, core->now_ms);
        bool is_refused_long = is_free && is_backed_off(core, member->id, slot, core->now_ms + CORE_SLOT_BACKOFF_MS);
        out->usable |= bit;
        out->idle |= is_idle ? bit : 0;
        out->refused |= is_refused ? bit : 0;
        out->refused_long |= is_refused_long ? bit : 0;
    }
}

/* True if a member that gets no new work now might get some later: it is away, and not known to lack the program. */
static bool is_awaited(const struct node_core *core, const struct wish *wish, const struct view_member *member,
                       const char *program)
{
    struct fact_program found;
    return view_member_fitting(member, wish->experiment->config) != 0 && member->has_node && member->admitted && !member->left && !core_node_drained(core, member->id) &&
           view_member_program(member, program, &found) != VIEW_PROGRAM_LACKING;
}

/* The nodes that may get new work, now or as soon as they answer again. Returns how many. `*awaited`: is_awaited of the
 * snapshot. */
static uint32_t look_at_nodes(const struct node_core *core, const struct wish *wish,
                              struct placing_node nodes[NODE_MEMBERS_MAX], bool *awaited)
{
    char program[FACT_PROGRAM_BYTES], secret[FACT_NAME_BYTES];
    struct fact_program found;
    bool has_program = program_of_config(wish->experiment->config, program);
    const struct view_trial *trial = wish->trial;
    bool is_suspect = trial != NULL && core_quarantine_is_suspect(trial);
    bool is_checkpoint_awaited;
    const struct view_manifest *newest = core_checkpoints_beginning(core, wish->experiment, wish->index, &is_checkpoint_awaited);
    struct view_manifest united = {0};
    if (newest != NULL) {
        (void)core_checkpoints_unite(core, newest, &united);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->view.member_count && count < NODE_MEMBERS_MAX; i++) {
        const struct view_member *member = core->view.members[i];
        const struct core_peer *peer = core_find_peer(core, member->id);
        bool is_suspected = peer != NULL && peer->state == SWIM_SUSPECT && !member->left &&
                            core_node_speaks(core, member->id) && !core_node_drained(core, member->id);
        if (!member->has_node || member->slots == NULL || (!core_node_accepts(core, member->id) && !is_suspected) ||
            is_unwilling(core, member->id) || !core_node_reads(core, member->id, wish->experiment) ||
            view_secrets_lack(&core->view, wish->experiment->config, &member->id, secret)) {
            *awaited |= has_program && is_awaited(core, wish, member, program);
            continue;
        }
        struct placing_node *node = &nodes[count++];
        *node = (struct placing_node){
            .node = member->id,
            .unstarted_count = trial != NULL ? core_quarantine_unstarted_count(trial, &member->id) : 0,
            .is_quarantined = member->quarantine.is_active || core_quarantine_is_false(core, member->id),
            .has_failed = trial != NULL && core_quarantine_avoids(trial, member->id),
            .is_silent = is_suspected || (peer != NULL && peer->silent_until_ms > core->now_ms),
            .is_doubtful = is_doubtful(core, peer),
            .has_suspect = is_suspect && holds_suspect(core, member),
            .lacks_program = has_program && view_member_program(member, program, &found) == VIEW_PROGRAM_LACKING,
        };
        for (uint32_t h = 0; h < united.holder_count; h++) {
            node->has_copy |= node_id_equal(united.holders[h], member->id);
        }
        look_at_slots(core, wish, member, node);
    }
    return count;
}

/* True if a living node has a free slot of the experiment's kind. A drained node counts, too: without any free slot no lost
 * trial would be looked at, and its wait would not begin. False with little memory left: a new attempt could not be recorded
 * to its end. */
static bool has_free_slot(const struct node_core *core, const struct view_experiment *experiment)
{
    for (uint32_t i = 0; i < core->view.member_count && !core->memory.is_short; i++) {
        const struct view_member *member = core->view.members[i];
        uint64_t fitting = view_member_fitting(member, experiment->config);
        bool has_one = false;
        for (uint32_t slot = 0; slot < member->slot_count && member->slots != NULL && !has_one; slot++) {
            has_one = member->slots[slot].state == LEASE_FREE && (fitting >> slot & 1) != 0;
        }
        if (has_one && core_node_trusted(core, member->id)) {
            return true;
        }
    }
    return false;
}

/* ---- networks ------------------------------------------------------------------------------------------------------------ */

/* The different nodes of a choice, and of the group that it joins. */
static uint32_t nodes_of(const struct wish *wish, const struct placing_choice *choice, node_id out[2 * FACT_MEMBERS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; wish->attempt != NULL && i < wish->attempt->member_count && count < FACT_MEMBERS_MAX; i++) {
        out[count++] = wish->attempt->members[i].node;
    }
    for (uint32_t i = 0; i < choice->member_count; i++) {
        out[count++] = choice->members[i].node;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_new = true;
        for (uint32_t j = 0; j < kept; j++) {
            is_new &= !node_id_equal(out[j], out[i]);
        }
        if (is_new) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

/* True if the nodes of the choice have a network in common on which all pairs reached each other; choice->network is then
 * that network. A group that runs already keeps its network. A node of a version without LINKS records is taken as before, and
 * then no network is named. */
static bool has_network(const struct node_core *core, const struct wish *wish, struct placing_choice *choice, node_id apart[2])
{
    node_id nodes[2 * FACT_MEMBERS_MAX];
    uint32_t count = nodes_of(wish, choice, nodes);
    choice->network[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        if (count > 1 && links_is_older(core, nodes[i])) {
            return true;
        }
    }
    if (wish->attempt != NULL) {
        links_of_attempt(core, &wish->attempt->id, choice->network);
        for (uint32_t i = 0; i < count && choice->network[0] != '\0'; i++) {
            for (uint32_t j = i + 1; j < count; j++) {
                if (!links_joins(core, nodes[i], nodes[j], choice->network)) {
                    apart[0] = nodes[i];
                    apart[1] = nodes[j];
                    return false;
                }
            }
        }
        return true;
    }
    return links_common(core, nodes, count, choice->network, &apart[0], &apart[1]) || count == 1;
}

#define SEEDS_MAX 16    /* nodes from which a group on one network is sought */
#define REACHED_MAX 128 /* nodes that such a search looks at */
#define JOINS_MAX 20000 /* pairs that such a search looks at, which takes some milliseconds: for the rules, then for the choice */

/* A search for nodes that reached one another on one network. */
struct search {
    const struct node_core *core;
    const struct placing_snapshot *all;
    uint32_t joins_left;                   /* pairs that the search may still look at */
    bool is_left_out[NODE_MEMBERS_MAX];    /* by the place in `all` */
    struct placing_node some[REACHED_MAX]; /* the nodes of the latest set */
};

/* False: a member of the group and the node did not reach each other on the network of the group. `network` is empty if the wish
 * joins no group, or a group without a network. */
static bool joins_group(const struct node_core *core, const struct wish *wish, const char *network, node_id node)
{
    for (uint32_t i = 0; network[0] != '\0' && i < wish->attempt->member_count; i++) {
        node_id member = wish->attempt->members[i].node;
        if (!node_id_equal(member, node) && !links_joins(core, member, node, network)) {
            return false;
        }
    }
    return true;
}

/* Takes the node at `seed`, and every node that reached it and all nodes taken before. */
static struct placing_snapshot take_joined(struct search *search, uint32_t seed, const char *network)
{
    struct placing_snapshot joined = *search->all;
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->all->node_count && count < REACHED_MAX && search->joins_left > 0; i++) {
        const struct placing_node *nodes = search->all->nodes;
        search->joins_left--;
        bool joins = !search->is_left_out[i] &&
                     (i == seed || links_joins(search->core, nodes[seed].node, nodes[i].node, network));
        for (uint32_t j = 0; j < count && joins; j++) {
            search->joins_left -= search->joins_left > 0;
            joins = links_joins(search->core, search->some[j].node, nodes[i].node, network);
        }
        if (joins) {
            search->some[count++] = nodes[i];
        }
    }
    joined.nodes = search->some;
    joined.node_count = count;
    return joined;
}

/* True if nodes on one network, none of them left out, could hold the gang if none were busy. */
static bool could_hold(struct search *search, enum placing_care care)
{
    for (uint32_t s = 0; s < search->all->node_count && search->joins_left > 0; s++) {
        char networks[FACT_NETWORKS_MAX][FACT_NETWORK_BYTES];
        struct placing_snapshot alone = *search->all;
        alone.nodes = &search->all->nodes[s];
        alone.node_count = 1;
        if (search->is_left_out[s]) {
            continue;
        }
        if (placing_could_hold(&alone, care)) {
            return true;
        }
        uint32_t network_count = links_networks(search->core, alone.nodes->node, networks);
        for (uint32_t n = 0; n < network_count; n++) {
            const struct placing_snapshot joined = take_joined(search, s, networks[n]);
            if (placing_could_hold(&joined, care)) {
                return true;
            }
        }
    }
    return false;
}

/* Leaves out nodes that the wish cannot have, and others by the strictest rules under which nodes on one network could hold the
 * gang if none were busy. All nodes decide, as in placing_choose: else a set with a node in quarantine would be taken because
 * other sets are busy. */
static void leave_out(struct search *search, const struct wish *wish)
{
    const struct placing_snapshot *all = search->all;
    bool leaves_out = placing_leaves_out_lacking(all); /* by all nodes, not by those of one network */
    bool is_unfit[NODE_MEMBERS_MAX];
    char network[FACT_NETWORK_BYTES] = "";
    if (wish->attempt != NULL) {
        links_of_attempt(search->core, &wish->attempt->id, network);
    }
    for (uint32_t i = 0; i < all->node_count; i++) {
        is_unfit[i] = (leaves_out && all->nodes[i].lacks_program) || !joins_group(search->core, wish, network, all->nodes[i].node);
    }
    search->joins_left = JOINS_MAX;
    for (enum placing_care care = PLACING_CARE_FOR_ALL;; care++) {
        bool any = false;
        for (uint32_t i = 0; i < all->node_count; i++) {
            bool is_omitted = placing_omits(all, care, &all->nodes[i]);
            any |= is_omitted;
            search->is_left_out[i] = is_unfit[i] || is_omitted;
        }
        if (!any || could_hold(search, care)) {
            break;
        }
    }
    search->joins_left = JOINS_MAX;
}

/* Looks for a choice among nodes that reached one another on one network: from each of the first nodes with free slots, on each
 * of its networks. Gives up after JOINS_MAX pairs. */
static bool find_on_one_network(const struct node_core *core, const struct wish *wish, const struct placing_snapshot *all,
                                struct placing_choice *out)
{
    struct search search = {.core = core, .all = all};
    uint32_t seeds = 0;
    leave_out(&search, wish);
    for (uint32_t s = 0; s < all->node_count && seeds < SEEDS_MAX; s++) {
        char networks[FACT_NETWORKS_MAX][FACT_NETWORK_BYTES];
        if ((all->nodes[s].idle & ~all->nodes[s].refused) == 0 || search.is_left_out[s]) {
            continue;
        }
        seeds++;
        uint32_t network_count = links_networks(core, all->nodes[s].node, networks);
        for (uint32_t n = 0; n < network_count && search.joins_left > 0; n++) {
            const struct placing_snapshot joined = take_joined(&search, s, networks[n]);
            node_id apart[2];
            bool has_least = out->has_least;
            if (placing_choose(&joined, out) && has_network(core, wish, out, apart)) {
                MARK(gang_on_one_network);
                return true;
            }
            out->has_least |= has_least;
        }
    }
    return false;
}

static bool any_parts(const struct node_core *core)
{
    uint64_t parts = 0;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        parts |= core->view.members[i]->slot_parts;
    }
    return parts != 0;
}

static bool write_apart(const struct node_core *core, const node_id apart[2], char *out, size_t size)
{
    if (view_find_member(&core->view, apart[0]) == NULL || view_find_member(&core->view, apart[1]) == NULL) {
        return false;
    }
    format_text(out, size, "%s and %s have no network in common on which both were reached: no group is made of them",
                view_label(&core->view, apart[0]).text, view_label(&core->view, apart[1]).text);
    return true;
}

/* Tells now and then why a trial waits though enough slots are free. */
static void tell_apart(struct node_core *core, const node_id apart[2])
{
    struct core_coordinator *coordinator = core->coordinator;
    bool was_told = coordinator->apart_told_ms != 0 && core->now_ms - coordinator->apart_told_ms < CORE_APART_LINE_MS;
    char text[256];
    if (!was_told && write_apart(core, apart, text, sizeof text)) {
        coordinator->apart_told_ms = core->now_ms;
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_UNREACHABLE, apart[1]), "%s", text);
    }
}

static uint32_t count_usable(const struct placing_node *nodes, uint32_t count)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < count; i++) {
        slots += placing_count(nodes[i].usable);
    }
    return slots;
}

struct placing_snapshot placing_look(const struct node_core *core, const struct view_experiment *experiment,
                                     const struct view_trial *trial, struct placing_node nodes[NODE_MEMBERS_MAX])
{
    struct wish wish = {.experiment = experiment, .trial = trial, .index = trial != NULL ? trial->index : FACT_NO_TRIAL};
    bool awaited = false;
    uint32_t count;
    if (view_experiment_max_slots(experiment) > 1 && any_parts(core)) {
        wish.devices = DEVICES_PARTS;
        uint32_t parts = count_usable(nodes, look_at_nodes(core, &wish, nodes, &awaited));
        wish.devices = DEVICES_WHOLE;
        count = look_at_nodes(core, &wish, nodes, &awaited);
        wish.devices = parts > count_usable(nodes, count) ? DEVICES_PARTS : DEVICES_WHOLE;
    }
    count = look_at_nodes(core, &wish, nodes, &awaited);
    return (struct placing_snapshot){.wanted = experiment->config->slots_per_trial,
                                     .least = experiment->config->min_slots,
                                     .is_even = experiment->config->even_hosts,
                                     .is_awaited = awaited,
                                     .nodes = nodes,
                                     .node_count = count};
}

bool placing_apart_reason(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                          const struct placing_snapshot *snapshot, char *out, size_t size)
{
    struct placing_choice choice;
    node_id apart[2];
    const struct wish wish = {.experiment = experiment, .trial = trial, .index = trial != NULL ? trial->index : FACT_NO_TRIAL};
    return placing_choose(snapshot, &choice) && !has_network(core, &wish, &choice, apart) &&
           !find_on_one_network(core, &wish, snapshot, &choice) && write_apart(core, apart, out, size);
}

static bool find_place_on(struct node_core *core, const struct wish *wish, uint32_t wanted, struct placing_choice *out)
{
    struct placing_node nodes[NODE_MEMBERS_MAX];
    node_id apart[2];
    bool awaited = false;
    uint32_t node_count = look_at_nodes(core, wish, nodes, &awaited);
    const struct placing_snapshot snapshot = {.wanted = wanted,
                                              .least = wish->experiment->config->min_slots,
                                              .waited_ms = wish->waited_ms,
                                              .had_least_ms = wish->had_least_ms,
                                              .is_even = wish->experiment->config->even_hosts && wish->attempt == NULL,
                                              .is_awaited = awaited,
                                              .nodes = nodes,
                                              .node_count = node_count};
    if (!placing_choose(&snapshot, out)) {
        return false;
    }
    if (has_network(core, wish, out, apart) || find_on_one_network(core, wish, &snapshot, out)) {
        return true;
    }
    if (wish->waited_ms >= CORE_APART_WAIT_MS) { /* addresses of a node that has just come are still tried */
        tell_apart(core, apart);
    }
    return false;
}

/* A gang of several slots takes the devices of which it gets more; of both as many: whole ones. */
static bool find_place(struct node_core *core, const struct wish *wish, uint32_t wanted, struct placing_choice *out)
{
    bool is_fixed = wish->devices != DEVICES_ANY || view_experiment_max_slots(wish->experiment) == 1 || !any_parts(core);
    if (is_fixed) {
        return find_place_on(core, wish, wanted, out);
    }
    struct wish whole = *wish, parts = *wish;
    struct placing_choice other;
    whole.devices = DEVICES_WHOLE;
    parts.devices = DEVICES_PARTS;
    bool is_found = find_place_on(core, &whole, wanted, out);
    if (is_found && out->member_count == wanted) {
        return true;
    }
    bool is_other = find_place_on(core, &parts, wanted, &other), has_least = out->has_least || other.has_least;
    if (is_other && (!is_found || other.member_count > out->member_count)) {
        *out = other;
    }
    out->has_least = has_least;
    return is_found || is_other;
}

/* The devices of a group: the devices of its first member. */
static enum devices devices_of(const struct node_core *core, const struct view_attempt *attempt)
{
    const struct view_member *member =
        attempt->member_count > 0 ? view_find_member(&core->view, attempt->members[0].node) : NULL;
    bool is_part = member != NULL && (member->slot_parts >> attempt->members[0].slot & 1) != 0;
    return is_part ? DEVICES_PARTS : DEVICES_WHOLE;
}

/* True for a trial with nodes to avoid: while it waits for another node, other trials may use the slots that are free. */
static bool is_picky(const struct view_trial *trial)
{
    return trial != NULL && (view_trial_failures(trial) > 0 || core_quarantine_is_suspect(trial) ||
                             core_quarantine_unstarted_count(trial, NULL) > 0);
}
#define PICKY_MAX 16 /* such trials are passed over at a time */

static bool has_begun(const struct node_core *core, experiment_id id, uint32_t index)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, id);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, index) : NULL;
    return trial != NULL && view_trial_highest(trial) != NULL;
}

/* The wait of a trial; NULL when memory is full. Trials that never began have a common wait: only the first of them is
 * considered, and the first changes as nodes come and go. */
static struct core_waiting *waiting_of(struct node_core *core, struct core_coordination *coordination,
                                       const struct view_trial *trial, uint32_t index)
{
    const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
    if (highest != NULL) {
        struct core_watch *watch = watch_row(core, coordination, &highest->id);
        if (watch == NULL) {
            return NULL;
        }
        watch->seen_pass = coordination->pass;
        return &watch->waiting;
    }
    if (has_begun(core, coordination->experiment, coordination->waiting_trial)) {
        coordination->waiting = (struct core_waiting){0, 0};
    }
    coordination->waiting_trial = index;
    return &coordination->waiting;
}

static uint64_t since(const struct node_core *core, uint64_t since_ms)
{
    return since_ms != 0 ? core->now_ms - since_ms : 0;
}

static bool find_place_for(struct node_core *core, struct core_coordination *coordination,
                           const struct view_experiment *experiment, uint32_t index, struct placing_choice *out)
{
    struct wish wish = {.experiment = experiment, .trial = view_find_trial(experiment, index), .index = index};
    struct core_waiting none = {0, 0}, *waiting = waiting_of(core, coordination, wish.trial, index);
    waiting = waiting != NULL ? waiting : &none;
    wish.waited_ms = since(core, waiting->since_ms);
    wish.had_least_ms = since(core, waiting->least_ms);
    if (find_place(core, &wish, experiment->config->slots_per_trial, out)) {
        return true;
    }
    watch_since(&waiting->since_ms, true, core->now_ms);
    watch_since(&waiting->least_ms, out->has_least, core->now_ms);
    return false;
}

/* Up to PICKY_MAX trials without a place are passed over if they have nodes to avoid. Any other trial without a place holds up
 * the trials behind it. */
bool placing_start_one(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment)
{
    struct order_claim order, after;
    struct placing_choice place;
    if (!has_free_slot(core, experiment)) {
        return false;
    }
    struct order_sides sides;
    pending_look_at_sides(core, &sides);
    bool has_place = false, found = pending_next(core, coordination, experiment, &sides, NULL, &order);
    for (uint32_t tries = 0; found && tries < PICKY_MAX; tries++) {
        has_place = find_place_for(core, coordination, experiment, order.index, &place);
        if (has_place || !is_picky(view_find_trial(experiment, order.index))) {
            break;
        }
        MARK(picky_trial_passed_over);
        after = order;
        found = pending_next(core, coordination, experiment, &sides, &after, &order);
    }
    if (!has_place) {
        return false;
    }
    uint32_t index = order.index;
    const struct view_trial *trial = view_find_trial(experiment, index);
    attempt_id attempt = {.experiment = experiment->id,
                          .trial = index,
                          .number = trial != NULL ? view_trial_next_number(trial) : 1,
                          .term = coordination->election.highest.term,
                          .coordinator = core->options.self};
    struct core_gang *gang = gangs_make(core, coordination, &attempt, place.members, place.member_count);
    if (gang == NULL) {
        return false;
    }
    bytes_copy_text(gang->network, sizeof gang->network, place.network);
    core_secret(core, gang->group_key, sizeof gang->group_key);
    gangs_reserve_next(core, experiment, gang);
    return true;
}

/* Asks for one more member of the first group in need of members: one at a time, so that no gang depends on more than one
 * answer. */
static bool bring_to(struct node_core *core, struct core_coordination *coordination,
                     const struct view_experiment *experiment, uint32_t size)
{
    struct placing_choice place;
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_slots; i = view_next_unsettled(experiment, i + 1)) {
        const struct view_trial *trial = experiment->trials[i];
        const struct view_attempt *attempt = trial != NULL ? view_trial_highest(trial) : NULL;
        if (attempt == NULL || view_trial_completed(trial) != NULL ||
            elastic_wants(core, coordination, experiment, attempt, size) == 0) {
            continue;
        }
        struct core_watch *watch = watch_row(core, coordination, &attempt->id);
        if (watch == NULL) {
            continue;
        }
        const struct wish wish = {.devices = devices_of(core, attempt),
                                  .experiment = experiment,
                                  .trial = trial,
                                  .index = trial->index,
                                  .waited_ms = since(core, watch->wants_ms),
                                  .attempt = attempt};
        watch_since(&watch->wants_ms, true, core->now_ms);
        if (!find_place(core, &wish, 1, &place)) {
            continue;
        }
        struct core_gang *gang = gangs_make(core, coordination, &attempt->id, place.members, place.member_count);
        if (gang == NULL) {
            return false;
        }
        gang->is_joining = true;
        gang->first_number = elastic_next_number(attempt); /* if given up, the gang releases leases from this number on */
        gangs_reserve_next(core, experiment, gang);
        return true;
    }
    return false;
}

bool placing_refill_one(struct node_core *core, struct core_coordination *coordination,
                        const struct view_experiment *experiment)
{
    return has_free_slot(core, experiment) && bring_to(core, coordination, experiment, experiment->config->slots_per_trial);
}

bool placing_grow_one(struct node_core *core, struct core_coordination *coordination,
                      const struct view_experiment *experiment)
{
    return has_free_slot(core, experiment) && !pending_any(core, coordination, experiment) &&
           bring_to(core, coordination, experiment, view_experiment_max_slots(experiment));
}

/* An attempt on unreachable nodes alone comes last: only once patience is over, no other trial is pending, and there is room
 * for the trial. No verdict before: after a heal a verdict would end a healthy worker. */
bool placing_claim_overdue(struct node_core *core, struct core_coordination *coordination,
                           const struct view_experiment *experiment)
{
    struct placing_choice place;
    const struct view_attempt *claimed = NULL;
    struct order_claim best = {0, 0};
    struct order_sides sides;
    pending_look_at_sides(core, &sides);
    if (!sides.is_cut || !has_free_slot(core, experiment) || pending_any(core, coordination, experiment)) {
        return false;
    }
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_slots; i = view_next_unsettled(experiment, i + 1)) {
        const struct view_trial *trial = experiment->trials[i];
        const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
        if (highest == NULL || !highest->assigned || highest->verdicts != NULL || view_trial_completed(trial) != NULL ||
            view_trial_state(experiment, i) != VIEW_TRIAL_RUNNING) {
            continue;
        }
        struct core_watch *watch = watch_row(core, coordination, &highest->id);
        struct order_claim order = pending_claim(core, coordination, &sides, i);
        if (watch != NULL && attempts_look(core, experiment, highest, watch).overdue > 0 &&
            (claimed == NULL || order_is_before(order, best))) {
            claimed = highest;
            best = order;
        }
    }
    if (claimed == NULL || !find_place_for(core, coordination, experiment, best.index, &place)) {
        return false;
    }
    attempts_put_verdict(core, claimed, FACT_LOST,
                         "its node has not answered for a long time, and nothing else is left to do");
    return true;
}
