/* The invariants by name, and which file looks at what comes: the checks stand in checkers_*.c. */

#include "tests/sim/checkers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/core/members/members.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

const char *const checkers_premise_names[PREMISE_COUNT] = {
    [PREMISE_1_WORKER_ACCEPTED] = "1: a live worker's token is accepted",
    [PREMISE_1_ADOPTED] = "1: a daemon came back and found a worker",
    [PREMISE_1_ZOMBIE] = "1: a slot was taken back while its process still lived",
    [PREMISE_2_REVOKED] = "2: a revoked token was tried",
    [PREMISE_2_ELSEWHERE] = "2: a token was tried at a node that has not given it out",
    [PREMISE_2_REVOKED_ELSEWHERE] = "2: a revoked token was tried at a node that had not given it out",
    [PREMISE_2_NOT_FOUND] = "2: a daemon came back and did not find a worker",
    [PREMISE_2_OUT] = "2: a node knew that it is out of the mesh",
    [PREMISE_2_SHUT_OUT] = "2: a node knew that another is out of the mesh",
    [PREMISE_2_RETURNED] = "2: its machine came back with a new key",
    [PREMISE_2_TWINS] = "2: two daemons with one key ran",
    [PREMISE_2_BECAME] = "2: ... and one became another node",
    [PREMISE_3_SUBMIT_ON_TWO] = "3: a submit was acknowledged as stored on two or more",
    [PREMISE_3_CANCEL_ON_TWO] = "3: a cancel was acknowledged as stored on two or more",
    [PREMISE_3_STOP_ON_TWO] = "3: a stop was acknowledged as stored on two or more",
    [PREMISE_3_RETRY_ON_TWO] = "3: a retry was acknowledged as stored on two or more",
    [PREMISE_3_OTHER_DISK] = "3: a node came back with an old disk or with none",
    [PREMISE_3_LOST_ONE] = "3: a holder of an acknowledged submit was lost for ever",
    [PREMISE_3_PAUSED] = "3: a node knew of a pause, acknowledged and not taken back",
    [PREMISE_3_RESUMED] = "3: a node knew of a resume, acknowledged and the last word",
    [PREMISE_3_PAUSE_SPREAD] = "3: a node had to know of an acknowledged pause",
    [PREMISE_3_RESUME_SPREAD] = "3: a node had to know of an acknowledged resume",
    [PREMISE_4_RESULT_SPREAD] = "4: at the heal a result was on some nodes only",
    [PREMISE_4_RESULT_KEPT] = "4: a node was asked for a result that it knew",
    [PREMISE_4_COMPLETED] = "4: an attempt was called completed",
    [PREMISE_5_SAME_STATE] = "5: heal and quiet on two or more nodes",
    [PREMISE_6_REFOLDED] = "6: a node's records were folded in another order",
    [PREMISE_6_UNKNOWN_KIND] = "6: a node got a record of a kind that it does not know",
    [PREMISE_6_LATER_KIND] = "6: at the end a node had a record that a program of a later version wrote",
    [PREMISE_6_REFUSED_VERSION] = "6: a message of a version that its receiver does not speak was refused",
    [PREMISE_7_RESTART] = "7: a disk was read back",
    [PREMISE_7_STORED] = "7: a node said that it stored a record",
    [PREMISE_8_FINISHED] = "8: an experiment was live at the heal",
    [PREMISE_8_HUNG] = "8: an attempt was ended since a rank hung",
    [PREMISE_8_LEFT_BEHIND] = "8: an attempt was ended since a rank had ended and others had not",
    [PREMISE_8_ALONE] = "8: ... and one node was left",
    [PREMISE_9_ONCE] = "9: an attempt of a trial without other attempts",
    [PREMISE_9_REPEATED] = "9: a further attempt, the earlier one's end on record",
    [PREMISE_9_LOST] = "9: an attempt that ran is called lost",
    [PREMISE_9_ENDED] = "9: a worker was ended after its attempt's verdict",
    [PREMISE_9_RENUMBERED] = "9: a successor spoke of a group by its number",
    [PREMISE_9_SIDE] = "9: one side of a cut began a trial",
    [PREMISE_9_REGROUPED] = "9: a group went on with other members",
    [PREMISE_9_GROUP_LOST] = "9: an attempt whose group can change is called lost in calm",
    [PREMISE_9_MINORITY] = "9: a minority that is to pause",
    [PREMISE_9_TWICE] = "9: two attempts of a trial lived at once",
    [PREMISE_9_TWICE_TOGETHER] = "9: ... on machines that reached each other",
    [PREMISE_9_RETRIED] = "9: an attempt of a trial that was retried",
    [PREMISE_9_RETRIED_FAILED] = "9: ... and that had been given up before",
    [PREMISE_9_GIVEN_UP] = "9: a trial that is given up was looked at by its coordinator",
    [PREMISE_9_QUARANTINED] = "9: a node put itself in quarantine",
    [PREMISE_9_BESIDE_QUARANTINE] = "9: an attempt was made while a node was in quarantine",
    [PREMISE_10_CANCELLED] = "10: a node that knew of a cancel was looked at",
    [PREMISE_10_STOPPED] = "10: a worker was ended because of a cancel",
    [PREMISE_10_PAUSED] = "10: a worker was asked to stop because of a pause",
    [PREMISE_10_STOP_KNOWN] = "10: a node that knew of the stop of a trial was looked at",
    [PREMISE_10_TRIAL_STOPPED] = "10: a worker was asked to stop because its trial was stopped",
    [PREMISE_10_STOP_UNDONE] = "10: a node that knew of a stop learned of a later retry",
    [PREMISE_10_DELETED] = "10: at the end a node knew that an experiment is deleted",
    [PREMISE_10_RAN] = "10: ... and had run some of it",
    [PREMISE_10_COLLECTED] = "10: a disk was cleaned of what is deleted",
    [PREMISE_10_CLEANED] = "10: at the end a disk was looked through for what is deleted",
    [PREMISE_10_UNASKED] = "10: a node knew of an experiment that nobody had asked to end, pause or delete",
    [PREMISE_11_HANDED_ON] = "11: a member of a group got steps from another's memory",
    [PREMISE_11_PARTS_BEGUN] = "11: an attempt began with a checkpoint of several parts",
    [PREMISE_11_PARTS_TOLD] = "11: a worker was told that a checkpoint of several parts is durable",
    [PREMISE_11_DURABLE] = "11: a checkpoint was called durable",
    [PREMISE_11_RESUMED] = "11: an attempt began at a checkpoint",
    [PREMISE_11_FILES] = "11: an attempt began with files of an earlier one",
    [PREMISE_11_UNITED] = "11: an attempt began with files of several ranks",
    [PREMISE_11_SAVED] = "11: a checkpoint that nothing hindered was looked for",
    [PREMISE_11_IN_REACH] = "11: a further attempt was made where what was saved could be reached",
    [PREMISE_11_MISSED] = "11: a worker was no more, and its attempt not over yet",
    [PREMISE_11_NEWEST] = "11: the newest checkpoint of a live trial was looked for at who should hold it",
    [PREMISE_11_ON_SIDE] = "11: a disk was cleaned on a side that has the newest of a live trial",
    [PREMISE_11_LET_GO] = "11: a checkpoint was let go",
    [PREMISE_11_COLLECTED] = "11: a copy that is kept no longer was deleted",
    [PREMISE_11_COLLECTED_BESIDE] = "11: ... while its trial ran",
    [PREMISE_11_ROTTEN] = "11: a copy was found rotten",
    [PREMISE_11_GOES] = "11: at the end of what nobody keeps nothing was to be held",
    [PREMISE_11_KEPT] = "11: at the end a copy that is kept was looked for",
    [PREMISE_12_LED] = "12: a coordinator asked an owner",
    [PREMISE_12_OBEYED] = "12: an owner obeyed a second coordinator",
    [PREMISE_12_FENCE] = "12: a fence was read back after a restart",
    [PREMISE_12_ONE_COORDINATOR] = "12: stable long enough, with a live experiment",
    [PREMISE_13_RESERVED] = "13: a slot was reserved",
    [PREMISE_13_LEASED] = "13: a lease was looked at",
    [PREMISE_13_REFUSED] = "13: a gang that held a slot was refused one that was reserved for another",
    [PREMISE_13_FITS] = "13: a trial waited while enough slots were free",
    [PREMISE_13_WITHHELD] = "13: a worker lived in a slot that was withheld",
    [PREMISE_13_EMPTIED] = "13: a worker lived on a node that is to be empty at once",
    [PREMISE_13_DRAINED] = "13: a node that knew that it is drained was looked at",
    [PREMISE_14_SUSPECTED] = "14: a node was called dead, once suspected",
    [PREMISE_14_CALM] = "14: a node that can be reached was looked at by another",
    [PREMISE_14_DEAD] = "14: a node was dead for long enough to be known dead",
    [PREMISE_15_MESSAGES] = "15: messages of a node in one second were counted",
    [PREMISE_15_WAITING] = "15: what waits for a node's disk was counted",
    [PREMISE_17_JUDGED] = "17: a decision of a search was computed anew",
    [PREMISE_17_DRAWN] = "17: values were drawn anew from the results before them",
    [PREMISE_17_WITH_PARENT] = "17: a trial went on from one of the generation before",
    [PREMISE_17_DRAWN_BESIDE_PAUSED] = "17: ... some of them of paused trials",
    [PREMISE_17_TAKEN_OVER] = "17: a later attempt of a trial had its values",
    [PREMISE_17_ADOPTED] = "17: ... in a log that had taken over decisions of another",
    [PREMISE_18_STOPPED_BY_SEARCH] = "18: a stop by a search was compared with its log",
    [PREMISE_19_BRACKET_FULL] = "19: a trial took the last place of its bracket",
    [PREMISE_21_WAITED] = "21: a slot for which an attempt had waited was given",
    [PREMISE_21_TAKEN_OVER] = "21: a reserved slot was taken over",
    [PREMISE_3_EXTENDED_ON_TWO] = "3: further trials were acknowledged as stored on two or more",
    [PREMISE_9_ADDED] = "9: an attempt of a further trial",
    [PREMISE_17_ADDED] = "17: a decision about a further trial",
    [PREMISE_17_PROMOTED] = "17: a log promoted a paused trial",
    [PREMISE_17_CLOSED] = "17: a log closed a paused trial",
    [PREMISE_18_PAUSED_BY_SEARCH] = "18: a pause by a search was compared with its log",
    [PREMISE_17_PROGRAM_ANSWERED] = "17: an answer of the program of a search was computed anew",
    [PREMISE_17_PROGRAM_ADOPTED] = "17: ... in a log that had taken over events of another",
    [PREMISE_17_PROGRAM_MORE] = "17: ... and it had more to say",
    [PREMISE_17_PROGRAM_REPLAYED] = "17: a program was told of an event again",
    [PREMISE_17_PROGRAM_OTHER] = "17: a program heard of an event that another log had before",
    [PREMISE_17_PROGRAM_CLOSED] = "17: a log closed its search",
    [PREMISE_17_PROGRAM_GIVEN_UP] = "17: a program that was given up was tried once more",
    [PREMISE_18_STOPPED_BY_PROGRAM] = "18: a stop was compared with the answer of its program",
    [PREMISE_20_COUNTED] = "20: a node's records of usage were compared with the time that its slots were held",
    [PREMISE_20_COMPLETE] = "20: ... without faults, for all of that time",
    [PREMISE_18_PAUSE_OBEYED] = "18: a worker of a paused attempt was asked to leave",
};

const char *checkers_invariant_text(int number)
{
    static const char *const texts[] = {
        [1] = "at most one live worker per slot holds a valid token, zombies counted",
        [2] = "no revoked token is accepted anywhere; no token is valid twice, across crash, old disk and clone; who is out of the "
              "mesh is shut out and runs nothing",
        [3] = "a submit, cancel or delete acknowledged as stored on k nodes survives the loss of any k-1 (a node back with an old "
              "disk counts as lost), a pause or resume until the next; the latest one counts, of concurrent ones a pause",
        [4] =
            "a completed result stored on any node that is not lost for ever finally reaches all, and never regresses; what is "
            "called completed has made all its steps",
        [5] = "after a heal and quiet, all nodes have byte-identical state within 5 s",
        [6] = "the fold is commutative, associative and idempotent, unknown kinds included; they reach all, byte for byte; no node "
              "takes a message of a protocol version that it does not speak",
        [7] = "a node's state only grows; after a restart it is no less than what it acknowledged (old and empty disks excepted), and "
              "its boot is a new one",
        [8] = "any healed core of one or more nodes with enough slots finishes every live experiment in bounded time",
        [9] = "without faults no trial runs twice; with them duplicates stay within the policy's bound and each has a recorded cause",
        [10] = "cancel and delete start nothing once known, stop all within a bounded time, and never un-happen; a "
               "pause that is known starts nothing and stops all until it is taken back; none comes about that nobody asked for",
        [11] = "the newest complete checkpoint of a live trial exists on every side that had it, on as many disks as asked if it is "
               "called durable; manifests never mix lineages: a trial goes on from its own newest one, which restores the step that "
               "it says; lost progress is at most one checkpoint interval plus detection; what is kept, and what an attempt begins with, is "
               "not deleted",
        [12] =
            "owners never obey a lower (term, id); a stable component soon has exactly one coordinator per experiment; "
            "hand-overs without faults are bounded",
        [13] = "no reservation and no lease outlives its time; there is no circular wait; every gang that fits finally runs; a drained "
               "node gives no slot, and a slot that its owner withholds or that is to be empty at once is empty soon",
        [14] = "a reachable, unpaused node is not declared dead at up to 5 % loss; a dead one is known dead everywhere in 8 s",
        [15] = "the same seed gives the same trace and the same trials; queues, memory and messages per node and second stay under "
               "stated caps",
        [16] = "each rung of a trial is judged once in a log of a search, in order",
        [17] = "each decision of a search follows from what stands before it in its log",
        [18] = "a search stops or pauses a trial only as its log says",
        [19] = "without faults no more trials of a bracket train at a time than may",
        [20] = "no record has more time of a node's slots than they were held, whatever was cut, healed, copied or brought back; without "
               "faults all of it is counted",
        [21] = "a slot goes to no trial while another has asked for it that comes first by the owner's records",
    };
    return number >= 0 && number < (int)(sizeof texts / sizeof texts[0]) && texts[number] != NULL ? texts[number] : "?";
}

struct checkers *checkers_new(void)
{
    return calloc(1, sizeof(struct checkers));
}

void checkers_destroy(struct checkers **checkers)
{
    free(*checkers);
    *checkers = NULL;
}

void checkers_reset(struct checkers *checkers)
{
    memset(checkers, 0, sizeof *checkers);
}

void checkers_on_given_up(struct sim *sim)
{
    checkers_met(sim, PREMISE_17_PROGRAM_GIVEN_UP);
}

const uint64_t *checkers_premises(const struct checkers *checkers)
{
    return checkers->premises;
}

/* ---- as it comes ------------------------------------------------------------------------------------------------- */

void checkers_on_record(struct sim *sim, int node, const struct record *record, struct record_version seen, bool own)
{
    if (record_version_compare(record->version, seen) < 0) {
        sim_fail(sim, 7, "n%d takes an older version of a record of kind %u than it had", node, (unsigned)record->kind);
    }
    if (record->kind == FACT_VERDICT) {
        checkers_learn_result(sim, node, record);
    } else if (record->kind == FACT_CONTROL) {
        checkers_learn_cancel(sim, node, record);
    } else if (record->kind == FACT_QUARANTINE && !own) {
        checkers_learn_quarantine(sim, node, record);
    }
    if (!own) {
        return;
    }
    sim->checkers->last_own_ms = sim->now_ms;
    if (record_version_compare(record->version, seen) == 0) {
        return; /* refused by the disk and written once more: what it says was decided before */
    }
    switch (record->kind) {
    case FACT_ATTEMPT:
        checkers_on_attempt(sim, node, record);
        break;
    case FACT_VERDICT:
        checkers_on_verdict(sim, node, record);
        break;
    case FACT_MANIFEST:
    case FACT_PART:
        checkers_on_manifest(sim, node, record);
        break;
    case FACT_SLOT:
        checkers_on_slot(sim, node, record);
        checkers_usage_leased(sim, node, record);
        break;
    case FACT_CLAIM:
        checkers_on_claim(sim, node, record);
        break;
    case FACT_WORKER:
        checkers_on_worker(sim, node, record);
        break;
    case FACT_QUARANTINE:
        checkers_on_quarantine(sim, node, record);
        break;
    case FACT_GENERATION:
        checkers_on_generation(sim, node, record);
        break;
    default:
        break;
    }
}

void checkers_on_send(struct sim *sim, int node, const struct node_effect *effect)
{
    const struct message *message = &effect->u.send.message;
    sim->checkers->watch.sent[node]++;
    sim->checkers->boots_heard[node] = sim->nodes[node].boot >> 32;
    switch (message->kind) {
    case MESSAGE_SWIM:
        checkers_rumours(sim, node, &message->u.swim);
        break;
    case MESSAGE_INCUMBENT_ASK: {
        int about = sim_find_node(sim, message->u.incumbent.about);
        if (about >= 0) {
            sim->checkers->watch.asked_ms[node][about] = sim->now_ms;
        }
        break;
    }
    case MESSAGE_RESERVE:
        checkers_on_reserve(sim, node, &message->u.lease.attempt);
        break;
    case MESSAGE_STORED:
        if (record_ident_equal(message->u.stored.ident, MESSAGE_CLOCK_IDENT)) {
            break;
        }
        checkers_met(sim, PREMISE_7_STORED);
        if (!checkers_is_on_disk(sim, node, message->u.stored.ident, message->u.stored.version)) {
            sim_fail(sim, 7, "n%d says that it stored a record that is not on its disk", node);
        }
        break;
    case MESSAGE_RECORDS:
        checkers_sent_records(sim, node, message);
        break;
    case MESSAGE_RESERVE_ANSWER:
    case MESSAGE_CONFIRM_ANSWER:
        if (message->u.lease.code == 0 && message->kind == MESSAGE_RESERVE_ANSWER && sim->nodes[node].core->members->syncing) {
            sim_fail(sim, 12, "n%d grants a slot before it has pulled from the others", node);
        }
        if (message->u.lease.code == 0) {
            checkers_on_grant(sim, node, effect);
        } else if (message->kind == MESSAGE_RESERVE_ANSWER) {
            checkers_on_refused(sim, node, effect);
        }
        break;
    default:
        break;
    }
}

static void note_failed_on(struct sim *sim, int node, struct trial *trial)
{
    int known_as = sim_find_node(sim, sim->nodes[node].id); /* a copy that has become another node counts as two, */
    int as = known_as >= 0 ? known_as : node;
    trial->failed_on |= 1u << (node_id_is_none(sim->nodes[as].was) ? as : PLAN_NODES_MAX + as); /* ... so does a new key */
}

void checkers_on_gone(struct sim *sim, int node, const struct worker_process *process, int32_t code, bool is_killed)
{
    int experiment = checkers_experiment(sim, process->attempt.experiment);
    bool is_own_failure = !is_killed && code != 0 && code != WORKERS_ECHO_STATUS;
    if (experiment < 0 || !is_own_failure) {
        return;
    }
    struct trial *trial = &sim->checkers->trials[experiment][process->attempt.trial];
    note_failed_on(sim, node, trial);
    if (process->is_elastic || !attempt_id_equal(&trial->failed_last, &process->attempt)) { /* else one echoes the other */
        trial->failed_last = process->attempt;
        trial->failure_count++;
    }
}

/* A hang is a failure of the program: of its attempt, once. */
void checkers_on_hung(struct sim *sim, int node, const attempt_id *attempt)
{
    int experiment = checkers_experiment(sim, attempt->experiment);
    struct trial *trial = experiment >= 0 ? &sim->checkers->trials[experiment][attempt->trial] : NULL;
    if (trial != NULL) {
        note_failed_on(sim, node, trial);
    }
    if (trial != NULL && !attempt_id_equal(&trial->failed_last, attempt)) {
        trial->failed_last = *attempt;
        trial->failure_count++;
    }
}

void checkers_on_down(struct sim *sim, int node)
{
    memset(sim->checkers->results[node], 0, sizeof sim->checkers->results[node]);
    memset(sim->checkers->leased[node], 0, sizeof sim->checkers->leased[node]);
    memset(sim->checkers->watch.incumbent[node], 0, sizeof sim->checkers->watch.incumbent[node]);
    memset(sim->checkers->watch.asked_ms[node], 0, sizeof sim->checkers->watch.asked_ms[node]);
    memset(sim->checkers->watch.cancelled[node], 0, sizeof sim->checkers->watch.cancelled[node]);
    memset(sim->checkers->watch.stops[node], 0, sizeof sim->checkers->watch.stops[node]);
    memset(sim->checkers->watch.searched[node], 0, sizeof sim->checkers->watch.searched[node]);
    memset(sim->checkers->watch.trials[node], 0, sizeof sim->checkers->watch.trials[node]);
}

/* DESIGN 2: a boot is on disk before anything of that life leaves the node. So its number never comes again. */
void checkers_on_life(struct sim *sim, int node)
{
    uint64_t number = sim->nodes[node].boot >> 32;
    if (number <= sim->checkers->boots_heard[node]) {
        sim_fail(sim, 7, "n%d begins boot %llu, though others have heard of boot %llu", node, (unsigned long long)number,
                 (unsigned long long)sim->checkers->boots_heard[node]);
    }
    checkers_wishes_began(sim, node);
}

void checkers_on_boot(struct sim *sim, int node)
{
    if (sim->nodes[node].life > 1) {
        checkers_met(sim, PREMISE_7_RESTART);
    }
    checkers_state(sim, node, true);
    checkers_fences(sim, node);
    checkers_tokens(sim, node);
    checkers_tokens_of_others(sim, node);
    checkers_policy_began(sim, node);
}

/* ---- now and then ------------------------------------------------------------------------------------------------ */

void checkers_second(struct sim *sim)
{
    bool is_tenth = (sim->now_ms / 1000) % 10 == 0;
    for (int node = 0; node < (int)sim->plan.node_count && !sim->failed; node++) {
        if (sim->nodes[node].core == NULL) {
            continue;
        }
        checkers_tokens(sim, node);
        checkers_stops(sim, node);
        checkers_search(sim, node);
        checkers_extensions(sim, node);
        if (is_tenth) {
            checkers_state(sim, node, false);
            checkers_newest(sim, node);
            checkers_results_hold(sim, node, sim->checkers->results[node], "it knew it before");
            checkers_unasked(sim, node);
        }
    }
    checkers_tokens_everywhere(sim);
    checkers_watch(sim);
    checkers_policy(sim);
    checkers_saves(sim);
    checkers_controls(sim);
    checkers_wishes(sim);
    twins_watch(sim);
    checkers_copies_second(sim);
    checkers_same_state(sim);
    checkers_one_coordinator(sim);
    checkers_usage_second(sim);
}

void checkers_end(struct sim *sim)
{
    uint32_t results[PLAN_EXPERIMENTS_MAX] = {0};
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        for (uint32_t e = 0; checkers_in_core(sim, node) && e < sim->plan.experiment_count; e++) {
            results[e] |= sim->checkers->results[node][e];
        }
    }
    for (int node = 0; node < (int)sim->plan.node_count && !sim->failed; node++) {
        if (!checkers_in_core(sim, node)) {
            continue;
        }
        CHECK(sim->nodes[node].core != NULL);
        checkers_state(sim, node, false);
        if (node == (int)(sim->seed % sim->plan.node_count) || (sim->plan.core & (sim->plan.core - 1)) == 0) {
            checkers_fold(sim, node);
        }
        checkers_results_hold(sim, node, results, "another node has its result");
        versions_kept(sim, node);
        checkers_unasked(sim, node);
        for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
            checkers_promise_kept(sim, node, e, &sim->users->experiments[e].submitted, FACT_EXPERIMENT);
            checkers_promise_kept(sim, node, e, &sim->users->experiments[e].cancelled, FACT_CONTROL);
            checkers_promise_kept(sim, node, e, &sim->users->experiments[e].deleted, FACT_TOMBSTONE);
            checkers_control_kept(sim, node, e, (sim->users->experiments[e].control.promise.disks & sim->plan.core) != 0);
            checkers_stops_kept(sim, node, e);
            checkers_extension_kept(sim, node, e);
            checkers_deleted(sim, node, e);
            checkers_finished(sim, node, e);
        }
    }
    checkers_copies_end(sim);
    checkers_usage_end(sim);
}
