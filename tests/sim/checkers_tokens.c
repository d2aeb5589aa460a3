/* Invariants 1 and 2: which worker of which slot is believed. */

#include "node/core/ground/state.h"
#include "tests/sim/checkers_inside.h"

#define TOKENS_TRIED 24 /* of them are tried again every time */
#define TOKENS_TURN 6   /* of one node, the oldest too, are tried at all nodes each virtual second */

void checkers_on_spawn(struct sim *sim, int node, const struct node_effect *effect)
{
    struct checkers *checkers = sim->checkers;
    uint32_t slot = effect->u.worker.slot;
    if (sim->nodes[node].processes[slot].is_alive) {
        sim_fail(sim, 1, "n%d starts trial %u in slot %u, where the process of trial %u still lives", node,
                 effect->u.worker.attempt.trial, slot, sim->nodes[node].processes[slot].attempt.trial);
        return;
    }
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, effect->u.worker.attempt.experiment);
    if (seen != NULL && view_experiment_cancelled(seen)) {
        sim_fail(sim, 10, "n%d starts trial %u though it knows that the experiment is cancelled", node,
                 effect->u.worker.attempt.trial);
        return;
    }
    if (seen != NULL && view_experiment_state(seen) == VIEW_PAUSED) {
        sim_fail(sim, 10, "n%d starts trial %u though it knows that the experiment is paused", node,
                 effect->u.worker.attempt.trial);
        return;
    }
    checkers_begins_stopped(sim, node, &effect->u.worker.attempt, "starts");
    lease_token token = effect->u.worker.token;
    if (lease_token_is_none(token)) {
        sim_fail(sim, 2, "n%d starts a worker in slot %u without a token", node, slot);
        return;
    }
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        uint32_t count = checkers->token_count[other] < TOKENS_MAX ? checkers->token_count[other] : TOKENS_MAX;
        for (uint32_t i = 0; i < count; i++) {
            if (lease_token_equal(checkers->tokens[other][i].token, token)) {
                sim_fail(sim, 2, "n%d gives out a token that n%d has given out before", node, other);
                return;
            }
        }
    }
    int experiment = checkers_experiment(sim, effect->u.worker.attempt.experiment);
    checkers->ran[node] |= 1u << experiment;
    if (view_is_deleted(&sim->nodes[node].core->view, effect->u.worker.attempt.experiment)) {
        sim_fail(sim, 10, "n%d starts a worker of experiment %d, which it knows to be deleted", node, experiment);
        return;
    }
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
        struct trial *trial = &checkers->trials[experiment][t];
        for (uint32_t i = 0; i < trial->attempt_count; i++) {
            trial->has_run[i] |= attempt_id_equal(&trial->attempts[i], &effect->u.worker.attempt);
        }
    }
    checkers->tokens[node][checkers->token_count[node]++ % TOKENS_MAX] =
        (struct token){.token = token, .slot = slot, .attempt = effect->u.worker.attempt};
}

/* DESIGN 8: a token is its owner's word on one slot. So nobody else takes it, be it revoked or not: no copy of that owner's
 * disk, and no other member. */
static void try_elsewhere(struct sim *sim, int issuer, const struct token *token)
{
    for (int node = 0; node < (int)sim->machines; node++) {
        const struct node_core *core = node != issuer ? sim->nodes[node].core : NULL;
        if (core == NULL) {
            continue;
        }
        checkers_met(sim, token->is_revoked ? PREMISE_2_REVOKED_ELSEWHERE : PREMISE_2_ELSEWHERE);
        if (node_core_find_token(core, token->token) >= 0) {
            sim_fail(sim, 2, "n%d accepts the token of trial %u attempt %u, which n%d has given out and %s", node,
                     token->attempt.trial, token->attempt.number, issuer, token->is_revoked ? "revoked" : "still takes itself");
        }
    }
}

void checkers_on_revoked(struct sim *sim, int node, uint32_t slot, const attempt_id *attempt)
{
    struct checkers *checkers = sim->checkers;
    for (uint32_t i = 0; i < TOKENS_TRIED && i < checkers->token_count[node]; i++) {
        struct token *token = &checkers->tokens[node][(checkers->token_count[node] - 1 - i) % TOKENS_MAX];
        if (token->slot == slot && attempt_id_equal(&token->attempt, attempt) && !token->is_revoked) {
            token->is_revoked = true;
            try_elsewhere(sim, node, token);
            if (sim->nodes[node].processes[slot].is_alive) {
                checkers_met(sim, PREMISE_1_ZOMBIE);
            }
        }
    }
}

void checkers_tokens_everywhere(struct sim *sim)
{
    struct checkers *checkers = sim->checkers;
    uint64_t second = sim->now_ms / 1000;
    int issuer = (int)(second % sim->machines);
    uint32_t count = checkers->token_count[issuer] < TOKENS_MAX ? checkers->token_count[issuer] : TOKENS_MAX;
    const struct node_core *core = sim->nodes[issuer].core;
    for (uint32_t i = 0; i < TOKENS_TURN && i < count; i++) {
        const struct token *token = &checkers->tokens[issuer][(second / sim->machines * TOKENS_TURN + i) % count];
        try_elsewhere(sim, issuer, token);
        if (core != NULL && token->is_revoked && node_core_find_token(core, token->token) >= 0) {
            sim_fail(sim, 2, "n%d accepts the token of trial %u attempt %u, which it revoked long ago", issuer,
                     token->attempt.trial, token->attempt.number);
        }
    }
}

/* All that anybody gave out, on a node that has just begun a life: that is when slots are taken over from a disk. */
void checkers_tokens_of_others(struct sim *sim, int node)
{
    const struct checkers *checkers = sim->checkers;
    for (int issuer = 0; issuer < (int)sim->machines; issuer++) {
        uint32_t count = checkers->token_count[issuer] < TOKENS_MAX ? checkers->token_count[issuer] : TOKENS_MAX;
        for (uint32_t i = 0; issuer != node && i < count; i++) {
            checkers_met(sim, checkers->tokens[issuer][i].is_revoked ? PREMISE_2_REVOKED_ELSEWHERE : PREMISE_2_ELSEWHERE);
            if (node_core_find_token(sim->nodes[node].core, checkers->tokens[issuer][i].token) >= 0) {
                sim_fail(sim, 2, "n%d comes up and accepts a token that n%d has given out", node, issuer);
            }
        }
    }
}

void checkers_tokens(struct sim *sim, int node)
{
    struct checkers *checkers = sim->checkers;
    const struct node_core *core = sim->nodes[node].core;
    if (core == NULL) {
        return;
    }
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        const struct worker_process *process = &sim->nodes[node].processes[slot];
        int found = process->is_alive ? node_core_find_token(core, process->token) : -1;
        if (found >= 0 && found != (int)slot) {
            sim_fail(sim, 1, "n%d takes the worker of slot %u for that of slot %d", node, slot, found);
        }
        if (found >= 0) {
            checkers_met(sim, PREMISE_1_WORKER_ACCEPTED);
        }
    }
    if (checkers->token_count[node] != checkers->tried_elsewhere[node]) {
        checkers->tried_elsewhere[node] = checkers->token_count[node];
        try_elsewhere(sim, node, &checkers->tokens[node][(checkers->token_count[node] - 1) % TOKENS_MAX]);
    }
    for (uint32_t i = 0; i < TOKENS_TRIED && i < checkers->token_count[node]; i++) {
        const struct token *token = &checkers->tokens[node][(checkers->token_count[node] - 1 - i) % TOKENS_MAX];
        const struct worker_process *process = &sim->nodes[node].processes[token->slot];
        bool is_running = process->is_alive && lease_token_equal(process->token, token->token);
        if (!token->is_revoked && is_running && node_core_find_token(core, token->token) < 0) {
            sim_fail(sim, 2, "n%d refuses the token of the worker in slot %u, though nothing ended its lease", node,
                     token->slot);
        }
        if (!token->is_revoked) {
            continue;
        }
        checkers_met(sim, PREMISE_2_REVOKED);
        if (node_core_find_token(core, token->token) >= 0) {
            sim_fail(sim, 2, "n%d accepts the token of trial %u attempt %u in slot %u, which was revoked", node,
                     token->attempt.trial, token->attempt.number, token->slot);
        }
    }
}

static const struct disk_entry *slot_on_disk(struct sim *sim, int node, uint32_t slot)
{
    struct fact_key key = fact_key_slot(slot);
    return disk_find(&sim->nodes[node].disk, record_ident_of(sim->nodes[node].id, FACT_SLOT, key.bytes, key.count));
}

/* A daemon is back. Tokens of workers that it found are valid again, if its disk did not say already that the lease was
 * over; all others never. */
void checkers_on_adopted(struct sim *sim, int node)
{
    struct checkers *checkers = sim->checkers;
    for (uint32_t i = 0; i < TOKENS_TRIED && i < checkers->token_count[node]; i++) {
        struct token *token = &checkers->tokens[node][(checkers->token_count[node] - 1 - i) % TOKENS_MAX];
        const struct worker_process *process = &sim->nodes[node].processes[token->slot];
        const struct worker_report *note = &sim->nodes[node].reports[token->slot];
        bool is_same = lease_token_equal(process->token, token->token);
        if (is_same && (process->is_alive || note->is_waiting)) {
            struct record record;
            struct fact_slot fact;
            const struct disk_entry *entry = slot_on_disk(sim, node, token->slot);
            bool is_leased = entry != NULL && entry->is_stored &&
                             record_decode(entry->bytes, entry->byte_count, &record) == 0 &&
                             fact_slot_read(&record, &fact) == 0 && fact.state == LEASE_LEASED &&
                             attempt_id_equal(&fact.attempt, &token->attempt);
            checkers_met(sim, PREMISE_1_ADOPTED);
            token->is_revoked = token->is_revoked && !is_leased;
        } else if (!token->is_revoked) {
            checkers_met(sim, PREMISE_2_NOT_FOUND);
            token->is_revoked = true;
        }
    }
}
