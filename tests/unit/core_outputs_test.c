/* Files that workers leave: their copies, and which an attempt begins with. The tests build the room copies alone. Each story
 * returns whether it went as it should: the same file is built a second time with breakable rules (BUG), and then a story must
 * notice its broken rule. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/probe.h"
#include "base/rendezvous.h"
#include "node/core/copies/collection.h"
#include "node/core/copies/outputs.h"
#include "node/core/ground/disk.h"
#include "tests/unit/core_room.h"

#define SELF 2 /* the worker's node */

static attempt_id attempt_of(const struct room *room, uint32_t number)
{
    return make_attempt_id(0, 0, number, 1, room->people[0].id);
}

static hash256 blob_of(uint8_t number, uint8_t what)
{
    return (hash256){{7, number, what}};
}

static void submit(struct room *room, uint32_t replicas, enum config_keep_ranks ranks)
{
    struct config config;
    make_config(&config, 4, 5);
    config.checkpoint_replicas = replicas;
    config.keep_ranks = ranks;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct fact_experiment fact = {.config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    room_hear(room, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
}

/* An attempt whose ranks run on the nodes 2, 3, 4, 5, 2, 3, ... */
static void assign(struct room *room, uint32_t number, uint32_t ranks, const hash256 *beginning)
{
    static struct fact_attempt fact;
    fact = (struct fact_attempt){.member_count = ranks};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        fact.members[rank].node = room->people[SELF + rank % (ROOM_NODES - SELF)].id;
        fact.members[rank].slot = rank / (ROOM_NODES - SELF);
    }
    if (beginning != NULL) {
        fact.beginning_count = 1;
        fact.beginnings[0].blob = *beginning;
    }
    attempt_id attempt = attempt_of(room, number);
    room_hear(room, 0, FACT_ATTEMPT, fact_key_attempt(&attempt), &fact);
}

static void leave(struct room *room, uint32_t attempt, uint32_t number, uint8_t what, bool is_final)
{
    struct node_event event = {.kind = NODE_EVENT_OUTPUT};
    event.u.output.attempt = attempt_of(room, attempt);
    event.u.output.number = number;
    event.u.output.blob = blob_of((uint8_t)number, what);
    event.u.output.bytes = 10;
    event.u.output.is_final = is_final;
    room_pass(room, 10);
    core_outputs_left(&room->core, &event);
}

/* Every node that was sent something since the last call takes it, or refuses. */
static void answer_all(struct room *room, bool ok)
{
    static struct node_effect pushes[NODE_EFFECTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->effects.count; i++) {
        if (room->effects.items[i].kind == NODE_EFFECT_PUSH) {
            pushes[count++] = room->effects.items[i];
        }
    }
    room_pass(room, 10);
    for (uint32_t i = 0; i < count; i++) {
        struct node_event event = {.kind = NODE_EVENT_PUSHED};
        event.u.blob.attempt = pushes[i].u.push.attempt;
        event.u.blob.step = pushes[i].u.push.step;
        event.u.blob.blob = pushes[i].u.push.blob;
        event.u.blob.node = pushes[i].u.push.to;
        event.u.blob.ok = ok;
        (void)core_outputs_pushed(&room->core, &event);
    }
}

static uint32_t count_effects(const struct room *room, enum node_effect_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->effects.count; i++) {
        count += room->effects.items[i].kind == kind;
    }
    return count;
}

/* The record of another node about an output of a worker there; this node holds it, too. */
static void hear(struct room *room, uint32_t writer, uint32_t attempt, uint32_t number, uint32_t place, uint8_t what,
                 uint64_t sequence, uint64_t after)
{
    struct fact_output fact = {.blob = blob_of((uint8_t)number, what), .bytes = 10, .files = 1, .generation = 1,
                               .sequence = sequence, .after = after, .durable = true, .holder_count = 2};
    fact.holders[0] = room->people[writer].id;
    fact.holders[1] = room->people[5].id;
    attempt_id id = attempt_of(room, attempt);
    room_hear(room, writer, FACT_OUTPUT, fact_key_output(&id, number, place), &fact);
}

static const struct view_experiment *experiment_of(const struct room *room)
{
    return view_find_experiment(&room->core.view, make_experiment_id(0));
}

/* What an attempt would begin with now: the last parts of the blobs' names. */
static uint32_t chosen(const struct room *room, uint8_t whats[FACT_OUTPUTS_MAX])
{
    const struct view_output *out[FACT_OUTPUTS_MAX];
    const struct view_trial *trial = view_find_trial(experiment_of(room), 0);
    uint32_t count = core_outputs_choose(&room->core, experiment_of(room), trial, out);
    for (uint32_t i = 0; i < count; i++) {
        whats[i] = out[i]->fact.blob.bytes[2];
    }
    return count;
}

static bool chooses(const struct room *room, uint32_t count, uint8_t first, uint8_t second)
{
    uint8_t whats[FACT_OUTPUTS_MAX] = {0};
    return chosen(room, whats) == count && (count < 1 || whats[0] == first) && (count < 2 || whats[1] == second);
}

static void die(struct room *room, uint32_t node)
{
    room->peers[node].state = SWIM_DEAD;
    room->peers[node].died_ms = room->core.now_ms;
}

/* ---- stories ------------------------------------------------------------------------------------------------------- */

/* An output is recorded once its copies are there; the next attempt begins with it, whichever of its holders dies. */
static bool an_output_is_recorded_with_its_copies(struct room *room)
{
    submit(room, 2, CONFIG_KEEP_FIRST);
    assign(room, 1, 1, NULL);
    leave(room, 1, 0, 1, false);
    bool is_silent = chooses(room, 0, 0, 0) && count_effects(room, NODE_EFFECT_PUSH) == 1;
    answer_all(room, false); /* the first node refuses: another one is asked */
    bool asks_again = count_effects(room, NODE_EFFECT_PUSH) == 1 && count_effects(room, NODE_EFFECT_OUTPUT_DONE) == 0;
    answer_all(room, true);
    bool is_done = count_effects(room, NODE_EFFECT_OUTPUT_DONE) == 1 && chooses(room, 1, 1, 0);
    const struct view_output *row = view_find_trial(experiment_of(room), 0)->outputs;
    return is_silent && asks_again && is_done && row->fact.durable && row->fact.holder_count == 2 && row->fact.sequence == 1;
}

/* The last output of a worker is recorded at its end with the holders so far. If its only holder dies then, the durable one
 * before it is still there; so it is after outputs that nobody took. */
static bool the_last_durable_output_is_never_replaced(struct room *room)
{
    submit(room, 2, CONFIG_KEEP_FIRST);
    assign(room, 1, 1, NULL);
    leave(room, 1, 0, 1, false);
    answer_all(room, true);
    bool has_first = chooses(room, 1, 1, 0);
    for (uint8_t what = 2; what < 4; what++) {
        leave(room, 1, 0, what, false);
        for (uint32_t i = 0; i < ROOM_NODES; i++) {
            answer_all(room, false);
        }
    }
    leave(room, 1, 0, 4, true);
    attempt_id attempt = attempt_of(room, 1);
    core_outputs_ended(&room->core, &attempt);
    bool has_last = chooses(room, 1, 4, 0);
    /* As another node sees it after the death of this one: its copies are gone. */
    struct view_trial *trial = view_find_trial(experiment_of(room), 0);
    for (struct view_output *row = trial->outputs; row != NULL; row = row->next) {
        for (uint32_t i = 0; i < row->fact.holder_count; i++) {
            if (node_id_equal(row->fact.holders[i], room->people[SELF].id)) {
                row->fact.holders[i] = row->fact.holders[--row->fact.holder_count];
            }
        }
    }
    return has_first && has_last && chooses(room, 1, 1, 0);
}

/* With all ranks: rank 0's third output was left before rank 1 had looked again, so it may name files that rank 1's does not
 * have: the second is used. After rank 1 has looked the third is. The death of a holder of a part leaves the attempt before. */
static bool outputs_of_all_ranks_belong_together(struct room *room)
{
    submit(room, 2, CONFIG_KEEP_ALL);
    assign(room, 1, 2, NULL);
    hear(room, 3, 1, 0, 0, 2, 2, 0);
    bool is_alone = chooses(room, 0, 0, 0); /* rank 1 has left nothing yet */
    hear(room, 4, 1, 1, 0, 12, 3, 2);
    hear(room, 3, 1, 0, 1, 3, 4, 0);
    bool is_old = chooses(room, 2, 2, 12);
    attempt_id attempt = attempt_of(room, 1);
    bool is_behind = !core_outputs_are_united(&room->core, &attempt, core_outputs_sequence(&room->core, &attempt));
    hear(room, 4, 1, 1, 1, 13, 5, 4);
    bool is_new = chooses(room, 2, 3, 13) && core_outputs_are_united(&room->core, &attempt, 4);
    assign(room, 2, 2, NULL);
    hear(room, 3, 2, 0, 0, 5, 1, 0);
    bool is_before = chooses(room, 2, 3, 13); /* the second attempt has none that belong together */
    die(room, 4);
    return is_alone && is_old && is_behind && is_new && is_before && chooses(room, 2, 3, 13) && (die(room, 5), chooses(room, 0, 0, 0));
}

static bool is_named(struct room *room, hash256 blob)
{
    bool is_found = false;
    room->copies.retention_ms = room->copies.collect_ms = 0;
    room->core.started_ms = 0;
    room->core.memory.refold_bucket = RECORDS_BUCKETS;
    room_pass(room, 86400000);
    core_collection_housekeep(&room->core);
    for (uint32_t i = 0; i < room->effects.count; i++) {
        const struct node_effect *effect = &room->effects.items[i];
        for (uint32_t at = 0; effect->kind == NODE_EFFECT_COLLECT && at < effect->byte_count; at += HASH_BYTES) {
            is_found |= memcmp(effect->bytes + at, blob.bytes, HASH_BYTES) == 0;
        }
    }
    return is_found;
}

/* Of the durable outputs those of the last two attempts are kept, and what a running attempt began with. */
static bool what_a_running_attempt_began_with_is_kept(struct room *room)
{
    hash256 first = blob_of(0, 1), second = blob_of(0, 2), third = blob_of(0, 3), fourth = blob_of(0, 4);
    submit(room, 2, CONFIG_KEEP_FIRST);
    assign(room, 1, 1, NULL);
    hear(room, 3, 1, 0, 0, 1, 1, 0);
    assign(room, 2, 1, &first); /* a cut: it runs on while others begin */
    hear(room, 3, 2, 0, 0, 2, 1, 0);
    hear(room, 3, 3, 0, 0, 3, 1, 0);
    hear(room, 3, 4, 0, 0, 4, 1, 0);
    return is_named(room, fourth) && is_named(room, third) && !is_named(room, second) && is_named(room, first);
}

/* A holder dies: the other one copies the output on, and says so in a record of its own. */
static bool lost_copies_are_made_again(struct room *room)
{
    submit(room, 2, CONFIG_KEEP_FIRST);
    assign(room, 1, 1, NULL);
    leave(room, 1, 0, 1, false);
    answer_all(room, true);
    const struct view_output *row = view_find_trial(experiment_of(room), 0)->outputs;
    uint32_t other = room_number(room, row->fact.holders[1]);
    die(room, other);
    room_pass(room, CORE_REPAIR_MS);
    core_outputs_repair(&room->core, experiment_of(room), view_find_trial(experiment_of(room), 0), false);
    bool is_sent = count_effects(room, NODE_EFFECT_PUSH) == 1;
    answer_all(room, true);
    node_id holders[FACT_HOLDERS_MAX];
    row = view_find_trial(experiment_of(room), 0)->outputs;
    uint32_t count = core_outputs_holders(&room->core, view_find_trial(experiment_of(room), 0), row, holders);
    return is_sent && count == 2 && !node_id_equal(holders[1], room->people[other].id) &&
           count_effects(room, NODE_EFFECT_OUTPUT_DONE) == 0;
}

/* Answers all questions of the last step: the copies of `lost` are missing. Returns the number of questions. */
static uint32_t confirm_all(struct room *room, hash256 lost)
{
    static struct node_effect questions[NODE_EFFECTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->effects.count; i++) {
        if (room->effects.items[i].kind == NODE_EFFECT_CONFIRM) {
            questions[count++] = room->effects.items[i];
        }
    }
    room_pass(room, 10);
    for (uint32_t i = 0; i < count; i++) {
        struct node_event event = {.kind = NODE_EVENT_CONFIRMED};
        event.u.blob.blob = questions[i].u.push.blob;
        event.u.blob.node = questions[i].u.push.to;
        event.u.blob.is_missing = hash256_equal(lost, questions[i].u.push.blob);
        event.u.blob.ok = !event.u.blob.is_missing;
        core_collection_confirmed(&room->core, &event);
    }
    return count;
}

/* Attempt 2 could not start, since the files of one of five ranks are on no disk. There are more copies of what it began with than
 * may be asked about at a time, and there are many more files: all the same the next attempt does not begin with the lost files. */
static bool every_copy_that_an_attempt_lacked_is_asked_for(struct room *room)
{
    enum { RANKS = 5, OLDER = 6 };
    submit(room, 2, CONFIG_KEEP_ALL);
    assign(room, 1, RANKS, NULL);
    struct fact_attempt begun = {.member_count = 1, .members[0].node = room->people[SELF].id, .beginning_count = RANKS};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        hear(room, 3, 1, rank, 0, (uint8_t)(20 + rank), 5, 5); /* older files: usable if the newer ones of any rank are lost */
        hear(room, 3, 1, rank, 1, (uint8_t)(30 + rank), 6, 6);
        begun.beginnings[rank] = (struct fact_beginning){rank, blob_of((uint8_t)rank, (uint8_t)(30 + rank)), 10};
    }
    for (uint32_t number = 10; number < 10 + OLDER; number++) {
        hear(room, 4, 1, number, 0, (uint8_t)number, 1, 1); /* of workers that are in the group no more */
    }
    attempt_id second = attempt_of(room, 2);
    room_hear(room, 0, FACT_ATTEMPT, fact_key_attempt(&second), &begun);
    const struct view_trial *trial = view_find_trial(experiment_of(room), 0);
    hash256 lost = blob_of(RANKS - 1, 30 + RANKS - 1);
    bool is_first = chooses(room, RANKS, 30, 31);
    core_collection_doubt(&room->core, trial, view_find_attempt(&room->core.view, &second));
    bool is_bounded = count_effects(room, NODE_EFFECT_CONFIRM) <= CORE_CONFIRMS_MAX;
    while (confirm_all(room, lost) > 0) {
    }
    uint8_t whats[FACT_OUTPUTS_MAX];
    return is_first && is_bounded && chosen(room, whats) == RANKS && whats[RANKS - 1] == 20 + RANKS - 1;
}

/* Nothing of a deleted experiment goes on. */
static bool deleted_outputs_are_forgotten(struct room *room)
{
    submit(room, 3, CONFIG_KEEP_FIRST);
    assign(room, 1, 1, NULL);
    leave(room, 1, 0, 1, false);
    core_outputs_forget(&room->core, make_experiment_id(0));
    answer_all(room, true);
    return room->copies.outputs == NULL && chooses(room, 0, 0, 0);
}

/* ---- with and without broken rules --------------------------------------------------------------------------------- */

static const struct story {
    const char *name;
    bool (*tell)(struct room *room);
    const char *rule; /* the broken rule that the story notices, or NULL */
} stories[] = {
    {"an output is recorded with its copies", an_output_is_recorded_with_its_copies, NULL},
    {"the last durable output is never replaced", the_last_durable_output_is_never_replaced, "durable_output_replaced"},
    {"outputs of all ranks belong together", outputs_of_all_ranks_belong_together, "outputs_torn"},
    {"what a running attempt began with is kept", what_a_running_attempt_began_with_is_kept, "begun_output_collected"},
    {"lost copies are made again", lost_copies_are_made_again, NULL},
    {"every copy that an attempt lacked is asked for", every_copy_that_an_attempt_lacked_is_asked_for, NULL},
    {"deleted outputs are forgotten", deleted_outputs_are_forgotten, NULL},
};

static bool tell(const struct story *story)
{
    struct room *room = malloc(sizeof *room);
    room_open(room, SELF);
    bool went_well = story->tell(room);
    room_close(room);
    free(room);
    return went_well;
}

static void every_story_goes_well(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        print_message("%s\n", stories[i].name);
        assert_true(tell(&stories[i]));
    }
}

#ifdef SHOAL_BUGS
extern struct probe_bug *const __start_shoal_bugs[], *const __stop_shoal_bugs[];

static void turn(const char *rule, bool is_on)
{
    uint32_t count = 0;
    for (struct probe_bug *const *bug = __start_shoal_bugs; bug < __stop_shoal_bugs; bug++) {
        bool is_it = strcmp((*bug)->name, rule) == 0;
        (*bug)->is_on = is_it ? is_on : (*bug)->is_on;
        count += is_it;
    }
    assert_true(count > 0);
}

static void every_broken_rule_is_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        if (stories[i].rule != NULL) {
            turn(stories[i].rule, true);
            bool went_well = tell(&stories[i]);
            turn(stories[i].rule, false);
            assert_false(went_well);
        }
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_story_goes_well),
#ifdef SHOAL_BUGS
        cmocka_unit_test(every_broken_rule_is_noticed),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
