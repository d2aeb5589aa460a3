/* Which nodes may hold a blob or a series: the order in which nodes hold a trial's series, and the nodes to ask for
 * code and checkpoints. */

#include <string.h>

#include "base/rendezvous.h"
#include "node/daemon/peers/peers.h"

_Static_assert(FACT_HOLDERS_MAX < DAEMON_HOLDERS_MAX, "all holders of a checkpoint, and more nodes");
_Static_assert(CORE_CODE_COPIES + 1 < DAEMON_HOLDERS_MAX, "all nodes that should hold the code, and the submitter");

/* Writes the living nodes, this node included, in rendezvous order; returns their number. */
static uint32_t ranked(const struct daemon *daemon, const void *key, size_t key_bytes, node_id out[NODE_MEMBERS_MAX + 1])
{
    uint32_t count = 0;
    out[count++] = daemon->keys.id;
    for (uint32_t i = 0; i < node_core_peer_count(daemon->core); i++) {
        node_id node = node_core_peer(daemon->core, i).id;
        if (node_core_is_alive(daemon->core, node)) {
            out[count++] = node;
        }
    }
    rendezvous_sort(out, count, key, key_bytes);
    return count;
}

static uint32_t ranked_of_trial(const struct daemon *daemon, const attempt_id *attempt, node_id out[NODE_MEMBERS_MAX + 1])
{
    struct fact_key key = fact_key_trial(attempt->experiment, attempt->trial);
    return ranked(daemon, key.bytes, key.count, out);
}

uint32_t daemon_holders_series(const struct daemon *daemon, const attempt_id *attempt, node_id *out, uint32_t capacity)
{
    node_id all[NODE_MEMBERS_MAX + 1];
    uint32_t count = ranked_of_trial(daemon, attempt, all);
    uint32_t taken = count < capacity ? count : capacity;
    memcpy(out, all, taken * sizeof *out);
    return taken;
}

/* Adds nodes to the list of holders, except this node and listed nodes, until the list is full; returns the new length. */
static uint32_t add(const struct daemon *daemon, node_id holders[DAEMON_HOLDERS_MAX], uint32_t holder_count,
                    const node_id *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count && holder_count < DAEMON_HOLDERS_MAX; i++) {
        bool is_listed = node_id_equal(nodes[i], daemon->keys.id);
        for (uint32_t j = 0; j < holder_count; j++) {
            is_listed |= node_id_equal(holders[j], nodes[i]);
        }
        if (!is_listed) {
            holders[holder_count++] = nodes[i];
        }
    }
    return holder_count;
}

uint32_t daemon_holders_code(const struct daemon *daemon, experiment_id id, uint32_t round, node_id out[DAEMON_HOLDERS_MAX])
{
    node_id all[NODE_MEMBERS_MAX + 1];
    uint32_t count = ranked(daemon, id.bytes, sizeof id.bytes, all), holder_count = 0;
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), id);
    if (experiment != NULL && round == 0) {
        holder_count = add(daemon, out, holder_count, &experiment->submitter, 1);
    }
    uint32_t from = round * (DAEMON_HOLDERS_MAX - 1) % count; /* the list of a round may skip one node: the submitter, or
                                                                 this node */
    holder_count = add(daemon, out, holder_count, all + from, count - from);
    return add(daemon, out, holder_count, all, from);
}

bool daemon_holders_any(const struct daemon *daemon, uint32_t round)
{
    return node_core_peers_alive(daemon->core) > round * (DAEMON_HOLDERS_MAX - 1);
}

/* The trial of the attempt, or with `of_parent` the trial whose checkpoint it begins with (pbt); NULL: none. */
static const struct view_trial *trial_of(const struct daemon *daemon, const attempt_id *attempt, bool of_parent)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), attempt->experiment);
    const struct view_attempt *row = of_parent ? view_find_attempt(node_core_view(daemon->core), attempt) : NULL;
    uint32_t parent = row != NULL && row->point_count > 0 ? row->parent : FACT_NO_TRIAL;
    return experiment != NULL ? view_find_trial(experiment, of_parent ? parent : attempt->trial) : NULL;
}

static const struct view_manifest *find_row(const struct view_manifest *rows, hash256 blob)
{
    while (rows != NULL && !hash256_equal(rows->blob, blob)) {
        rows = rows->next;
    }
    return rows;
}

static uint32_t add_holders_of_checkpoint(const struct daemon *daemon, const struct view_trial *trial, hash256 blob,
                                          node_id out[DAEMON_HOLDERS_MAX])
{
    const struct view_manifest *found = trial != NULL ? find_row(trial->manifests, blob) : NULL;
    for (const struct view_set *set = trial != NULL ? trial->sets : NULL; set != NULL && found == NULL; set = set->next) {
        found = find_row(set->rows, blob);
    }
    struct view_manifest united;
    if (found == NULL) {
        return 0;
    }
    (void)node_core_unite_checkpoint(daemon->core, found, &united);
    return add(daemon, out, 0, united.holders, united.holder_count);
}

uint32_t daemon_holders_checkpoint(const struct daemon *daemon, const attempt_id *attempt, hash256 blob,
                                   node_id out[DAEMON_HOLDERS_MAX])
{
    uint32_t holder_count = add_holders_of_checkpoint(daemon, trial_of(daemon, attempt, false), blob, out);
    if (holder_count == 0) {
        holder_count = add_holders_of_checkpoint(daemon, trial_of(daemon, attempt, true), blob, out);
    }
    node_id all[NODE_MEMBERS_MAX + 1];
    uint32_t count = ranked_of_trial(daemon, attempt, all);
    return add(daemon, out, holder_count, all, count);
}

const struct view_set *daemon_set(const struct daemon *daemon, const attempt_id *attempt, hash256 checkpoint)
{
    const struct view_set *set = NULL;
    for (int of_parent = 0; of_parent < 2 && set == NULL && !hash256_is_none(checkpoint); of_parent++) {
        const struct view_trial *trial = trial_of(daemon, attempt, of_parent != 0);
        set = trial != NULL ? view_find_set(trial, checkpoint) : NULL;
    }
    return set;
}

static uint32_t add_holders_of_output(const struct daemon *daemon, const struct view_trial *trial, hash256 blob,
                                      node_id out[DAEMON_HOLDERS_MAX])
{
    for (const struct view_output *row = trial != NULL ? trial->outputs : NULL; row != NULL; row = row->next) {
        if (hash256_equal(row->fact.blob, blob)) {
            node_id holders[FACT_HOLDERS_MAX];
            uint32_t count = node_core_output_holders(daemon->core, trial, row, holders);
            return add(daemon, out, 0, holders, count);
        }
    }
    return 0;
}

uint32_t daemon_holders_output(const struct daemon *daemon, const attempt_id *attempt, hash256 blob,
                               node_id out[DAEMON_HOLDERS_MAX])
{
    uint32_t holder_count = add_holders_of_output(daemon, trial_of(daemon, attempt, false), blob, out);
    if (holder_count == 0) {
        holder_count = add_holders_of_output(daemon, trial_of(daemon, attempt, true), blob, out);
    }
    node_id all[NODE_MEMBERS_MAX + 1];
    uint32_t count = ranked_of_trial(daemon, attempt, all);
    return add(daemon, out, holder_count, all, count);
}
