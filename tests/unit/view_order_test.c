/* The fold over records as a whole: it does not depend on the order in which they come (invariant 6), and what is deleted or
 * malformed leaves nothing else changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/ground/state.h"
#include "node/core/view/rows.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "tests/unit/view_fixture.h"

#define SET_MAX 500

struct set {
    uint32_t count;
    struct made items[SET_MAX];
};

static uint32_t below(struct random *random, uint32_t bound)
{
    return (uint32_t)(random_u64(random) % bound);
}

/* Versions follow the order of writing, so that several of one key are an older and newer ones. */
static void add(struct set *set, node_id writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    assert_true(set->count < SET_MAX);
    make_record(&set->items[set->count], writer, 1, set->count + 1, kind, key, fact);
    set->count++;
}

static void add_unknown(struct set *set, node_id writer)
{
    struct record record = {.kind = 777, .writer = writer, .version = {1, set->count + 1}, .key = writer.bytes,
                            .key_bytes = NODE_ID_BYTES, .body = (const uint8_t *)"new", .body_bytes = 3};
    struct made *made = &set->items[set->count++];
    made->count = (uint32_t)record_encode(&record, made->bytes, sizeof made->bytes);
}

/* A small clock; of some a jump. */
static uint64_t some_clock(struct random *random, uint32_t bound)
{
    static const uint64_t jumps[] = {LAMPORT_JUMP_MAX, LAMPORT_JUMP_MAX + 2, 2 * LAMPORT_JUMP_MAX, 1ull << 62, UINT64_MAX};
    uint32_t small = below(random, bound);
    return below(random, 6) == 0 ? jumps[below(random, sizeof jumps / sizeof jumps[0])] : small;
}

static void add_about_nodes(struct set *set, struct random *random, const struct person *people)
{
    for (uint32_t i = 0; i + 1 < PEOPLE; i++) { /* the last one is a stranger */
        struct fact_member member = make_member(&people[i]);
        add(set, people[i == 0 ? 0 : below(random, i)].id, FACT_MEMBER, fact_key_node_id(people[i].id), &member);
    }
    for (uint32_t i = 0; i < PEOPLE; i++) {
        for (uint32_t twice = 0; twice < 2; twice++) {
            struct fact_node node = make_node(&people[i], below(random, 4));
            node.left = below(random, 4) == 0;
            add(set, people[i].id, FACT_NODE, fact_key_empty(), &node);
            struct fact_slot slot = {.state = below(random, LEASE_WITHHELD + 1),
                                     .attempt = make_attempt_id(0, below(random, 3), 1, 1, people[0].id),
                                     .withheld = below(random, 2) == 0};
            add(set, people[i].id, FACT_SLOT, fact_key_slot(below(random, 2)), &slot);
            struct fact_drain drain = {some_clock(random, 3) | 1, below(random, 2) == 0, below(random, 2) == 0,
                                       below(random, 2) == 0};
            add(set, people[i].id, FACT_DRAIN, fact_key_node_id(people[below(random, PEOPLE)].id), &drain);
        }
        struct fact_quarantine quarantine = {.is_active = below(random, 2) == 0, .level = 1, .minutes = 1, .why = "so"};
        add(set, people[i].id, FACT_QUARANTINE, fact_key_empty(), &quarantine);
        struct fact_programs programs = {.count = below(random, 3), .items = {{.name = "python"}, {.name = "torchrun"}}};
        add(set, people[i].id, FACT_PROGRAMS, fact_key_empty(), &programs);
        add_unknown(set, people[i].id);
    }
}

/* Some evict some, and let some of those stay whom they vouched for; some twice. */
static void add_evictions(struct set *set, struct random *random, const struct person *people)
{
    for (uint32_t count = below(random, 5); count > 0; count--) {
        uint32_t writer = below(random, PEOPLE), about = (writer + 1 + below(random, PEOPLE - 1)) % PEOPLE;
        struct fact_eviction fact = make_eviction(people, PEOPLE, below(random, 1u << PEOPLE));
        add(set, people[writer].id, FACT_EVICTION, fact_key_node_id(people[about].id), &fact);
    }
}

static void add_experiments(struct set *set, struct random *random, const struct person *people)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    for (uint32_t i = 0; i < 3; i++) { /* the first one twice, by two writers who do not agree */
        struct config config;
        make_config(&config, 1 + below(random, 4), below(random, 3));
        struct fact_experiment fact = {.submitted_s = 100 + i, .config = packed};
        fact.config_bytes = make_packed_config(&config, packed);
        add(set, people[i].id, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(i / 2)), &fact);
    }
    for (uint32_t i = 0; i < PEOPLE; i++) {
        for (uint32_t twice = 0; twice < 2; twice++) {
            struct fact_key key = fact_key_experiment(make_experiment_id(below(random, 2)));
            struct fact_control control = {some_clock(random, 3), below(random, 2) == 0, below(random, 12) == 0, below(random, 4) == 0};
            struct fact_claim claim = {some_clock(random, 3) | 1, below(random, 3) == 0};
            add(set, people[i].id, FACT_CONTROL, key, &control);
            if (below(random, 12) == 0) {
                struct fact_control cancel = {.cancelled = true};
                add(set, people[i].id, FACT_CONTROL, fact_key_cancel(make_experiment_id(below(random, 2))), &cancel);
            }
            add(set, people[i].id, FACT_CLAIM, key, &claim);
        }
    }
    for (uint32_t count = below(random, 4); count > 0; count--) {
        struct fact_stop stop = {some_clock(random, 3) | 1, below(random, 3) > 0, below(random, 3), below(random, 4) == 0};
        add(set, people[below(random, PEOPLE)].id, FACT_STOP,
            fact_key_trial(make_experiment_id(below(random, 2)), below(random, 4)), &stop);
        const struct fact_search_stop search_stop = {.number = 1 + below(random, 3)};
        add(set, people[below(random, PEOPLE)].id, FACT_SEARCH_STOP,
            fact_key_trial(make_experiment_id(below(random, 2)), below(random, 4)), &search_stop);
        const struct fact_search_pause search_pause = {.number = 1 + below(random, 3), .term = 1, .coordinator = people[0].id};
        add(set, people[below(random, PEOPLE)].id, FACT_SEARCH_PAUSE,
            fact_key_trial(make_experiment_id(below(random, 2)), below(random, 4)), &search_pause);
    }
}

/* Notes of several writers about one thing, some concurrent, some far ahead. */
static void add_annotations(struct set *set, struct random *random, const struct person *people)
{
    static const char *const labels[] = {"a", "ab", "b"}, *const numbers[] = {"1", "7", "70"};
    for (uint32_t count = below(random, 16); count > 0; count--) {
        struct fact_annotation fact = {.lamport = some_clock(random, 3) | 1, .is_set = below(random, 3) > 0};
        enum fact_subject subject = (enum fact_subject)below(random, FACT_SUBJECTS);
        fact.value[0] = (char)('a' + below(random, 3));
        add(set, people[below(random, PEOPLE)].id, FACT_ANNOTATION,
            fact_key_annotation(make_experiment_id(below(random, 2)), subject,
                                subject == FACT_LABEL        ? labels[below(random, 3)]
                                : subject == FACT_MAX_TRIALS || subject == FACT_TRIAL_DESCRIPTION ? numbers[below(random, 3)]
                                                             : ""),
            &fact);
    }
}

/* Several coordinators change the group, some of them twice, now and then under one term. */
static void add_generations(struct set *set, struct random *random, const struct person *people, attempt_id id)
{
    for (uint32_t count = below(random, 4); count > 0; count--) {
        struct fact_generation fact;
        memset(&fact, 0, sizeof fact);
        fact.generation = 1 + below(random, 3);
        fact.term = 1 + below(random, 2);
        fact.start_step = below(random, 50);
        fact.is_leaving = below(random, 2) == 0;
        fact.member_count = 1 + below(random, 3);
        fact.joiner_count = below(random, 3);
        for (uint32_t i = 0; i < fact.member_count; i++) {
            fact.members[i] = (struct fact_place){people[below(random, PEOPLE)].id, i, i + below(random, 2) * 5, true};
        }
        for (uint32_t i = 0; i < fact.joiner_count; i++) {
            fact.joiners[i] = (struct fact_place){people[below(random, PEOPLE)].id, i, 20 + i, false};
        }
        add(set, people[below(random, 3)].id, FACT_GENERATION, fact_key_verdict(&id), &fact);
    }
}

static void add_attempt(struct set *set, struct random *random, const struct person *people, attempt_id id)
{
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_attempt attempt = {.member_count = 2, .start_step = below(random, 9)};
    attempt.members[0] = (struct fact_assignment){people[below(random, PEOPLE)].id, 0};
    attempt.members[1] = (struct fact_assignment){people[below(random, PEOPLE)].id, 1};
    attempt.retried = below(random, 3);
    if (below(random, 5) > 0) {
        add(set, id.coordinator, FACT_ATTEMPT, fact_key_attempt(&id), &attempt);
    }
    add_generations(set, random, people, id);
    for (uint32_t twice = 0; twice < 2; twice++) {
        uint32_t rank = below(random, 3);
        node_id owner = below(random, 4) > 0 && rank < 2 ? attempt.members[rank].node : people[below(random, PEOPLE)].id;
        struct fact_worker worker = {.state = (enum fact_worker_state)below(random, 3), .generation = 1,
                                     .step = below(random, 50), .reason = (enum fact_reason)below(random, FACT_REASONS),
                                     .exit_code = (int32_t)below(random, 3), .metrics = metrics};
        worker.is_elastic = below(random, 2) == 0;
        worker.metrics_bytes = make_metrics(metrics, (double)below(random, 100) / 128);
        worker.tail[0] = (char)('a' + below(random, 3));
        add(set, owner, FACT_WORKER, fact_key_worker(&id, rank), &worker);
        struct fact_manifest manifest = {.bytes = below(random, 99), .holder_count = 1, .holders = {owner},
                                         .durable = below(random, 2) == 0};
        add(set, owner, FACT_MANIFEST, fact_key_manifest(&id, 10 * below(random, 3)), &manifest);
        for (uint32_t part = 0; part < 2; part++) { /* some are missing, some are let go, some name other bytes */
            struct fact_part_key key = {10 * below(random, 3), below(random, 2), 2, below(random, 2)};
            manifest.blob.bytes[0] = (uint8_t)(key.part + (below(random, 4) == 0 ? 2 : 0));
            manifest.holder_count = below(random, 4) > 0;
            add(set, owner, FACT_PART, fact_key_part(&id, &key), &manifest);
        }
        if (below(random, 2) == 0) {
            struct fact_verdict verdict = {.reason = (enum fact_reason)below(random, FACT_REASONS),
                                           .step = below(random, 50), .metrics = metrics, .why = "so"};
            verdict.metrics_bytes = make_metrics(metrics, (double)below(random, 100) / 128);
            add(set, people[below(random, PEOPLE)].id, FACT_VERDICT, fact_key_verdict(&id), &verdict);
            struct fact_death death = {.node = owner, .boot = 1 + below(random, 2), .suspects = below(random, 2)};
            add(set, people[below(random, PEOPLE)].id, FACT_DEATH, fact_key_verdict(&id), &death);
        }
    }
}

static void make_set(struct set *set, uint64_t seed)
{
    struct random random;
    struct person people[PEOPLE];
    random_init(&random, seed);
    for (uint32_t i = 0; i < PEOPLE; i++) {
        people[i] = make_person(i);
    }
    set->count = 0;
    add_about_nodes(set, &random, people);
    add_evictions(set, &random, people);
    add_experiments(set, &random, people);
    add_annotations(set, &random, people);
    for (uint32_t i = 0; i < 20; i++) {
        attempt_id id = make_attempt_id(below(&random, 2), below(&random, 3), 1 + below(&random, 3),
                                        1 + below(&random, 2), people[below(&random, 3)].id);
        add_attempt(set, &random, people, id);
    }
    for (uint32_t i = 0; i < 3; i++) { /* some before the trial has begun */
        struct fact_stop stop = {.lamport = 1 + below(&random, 3), .stopped = below(&random, 3) > 0, .since = below(&random, 3)};
        add(set, people[i].id, FACT_STOP, fact_key_trial(make_experiment_id(below(&random, 2)), below(&random, 4)), &stop);
    }
    for (uint32_t i = 0; seed % 3 == 0 && i < 2; i++) { /* by two of them */
        add(set, people[below(&random, PEOPLE)].id, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(1)), NULL);
    }
}

/* What coordinators and owners go by, whether it is shown or not. */
static void pack_groups(const struct view_experiment *experiment, struct pack_writer *writer)
{
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        pack_u64(writer, trial != NULL ? view_trial_failures(trial) : 0);
        for (const struct view_manifest *row = trial != NULL ? trial->manifests : NULL; row != NULL; row = row->next) {
            pack_bin(writer, row->blob.bytes, sizeof row->blob.bytes);
            pack_u64(writer, row->bytes);
            pack_u64(writer, row->holder_count);
            pack_bool(writer, row->durable);
        }
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            pack_u64(writer, a->generation);
            pack_u64(writer, a->group_claim.term);
            pack_bin(writer, a->group_claim.node.bytes, sizeof a->group_claim.node.bytes);
            pack_bool(writer, a->is_leaving);
            pack_u64(writer, a->group_step);
            pack_u64(writer, a->member_count);
            for (uint32_t rank = 0; rank < a->member_count + a->joiner_count; rank++) {
                const struct fact_place *place = &a->members[rank];
                pack_bin(writer, place->node.bytes, sizeof place->node.bytes);
                pack_u64(writer, place->slot);
                pack_u64(writer, place->number);
                pack_bool(writer, place->has_state);
            }
        }
    }
}

static uint32_t render_all(const struct mesh *mesh, uint8_t *out, uint32_t size)
{
    struct pack_writer writer;
    struct render_status_extra extra = {.mesh_name = "", .version = "", .address = ""};
    uint32_t from = 0;
    const struct view *view = &mesh->core->view;
    pack_writer_init(&writer, out, size);
    assert_false(render_nodes(mesh->core, &from, &writer));
    from = 0;
    assert_false(render_slots(mesh->core, &from, &writer));
    from = 0;
    assert_false(render_ls(mesh->core, &from, &writer));
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        pack_groups(view->experiments[i], &writer);
        if (!view->experiments[i]->known) {
            continue;
        }
        from = 0;
        assert_false(render_show(mesh->core, view->experiments[i], view->experiments[i]->config, &from, &writer));
        from = 0;
        assert_false(render_checkpoints(mesh->core, view->experiments[i], RENDER_ALL_TRIALS, &from, &writer));
    }
    render_status(mesh->core, &extra, &writer);
    assert_false(writer.failed);
    return (uint32_t)writer.used_bytes;
}

/* Looks for trials at rest, after checking that those found earlier still are: a record takes the mark from its trial. Returns how
 * many there are. */
static uint32_t settle_all(struct view *view)
{
    uint32_t count = 0;
    for (uint32_t e = 0; e < view->experiment_count; e++) {
        struct view_experiment *experiment = view->experiments[e];
        uint32_t counts[VIEW_TRIAL_STATES] = {0};
        for (uint32_t i = 0; i < experiment->trial_slots; i++) {
            if (view_next_unsettled(experiment, i) != i) {
                assert_int_equal(view_trial_state(experiment, i), experiment->trials[i]->rest_state);
                counts[experiment->trials[i]->rest_state]++;
            }
        }
        assert_memory_equal(counts, experiment->rest_counts, sizeof counts);
        enum view_experiment_state state = view_experiment_state(experiment);
        view_trials_wake(experiment);
        assert_int_equal(view_experiment_state(experiment), state);
        view_trials_settle(experiment);
        assert_int_equal(view_experiment_state(experiment), state);
        for (uint32_t i = 0; i < experiment->trial_slots; i++) {
            bool is_at_rest = view_next_unsettled(experiment, i) != i;
            assert_true(!is_at_rest || view_trial_over(view_trial_state(experiment, i)));
            count += is_at_rest;
        }
    }
    return count;
}

static uint8_t reference[1u << 20], document[1u << 20];

static void the_order_of_records_does_not_matter(void **state)
{
    (void)state;
    static struct set set;
    struct random random;
    random_init(&random, 99);
    uint32_t completed = 0, with_jumps = 0, at_rest = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        make_set(&set, seed);
        uint32_t expected = 0;
        for (uint32_t order = 0; order < 4; order++) {
            struct mesh mesh;
            mesh_open(&mesh);
            for (uint32_t i = set.count - 1; order > 0 && i > 0; i--) {
                uint32_t other = below(&random, i + 1);
                struct made moved = set.items[i];
                set.items[i] = set.items[other];
                set.items[other] = moved;
            }
            for (uint32_t i = 0; i < set.count; i++) {
                load(&mesh, &set.items[i]);
                load(&mesh, &set.items[below(&random, i + 1)]); /* again, now and then long after */
                at_rest += order > 1 ? settle_all(&mesh.core->view) : 0;
            }
            assert_int_equal(mesh.core->view.malformed_count, 0);
            uint32_t bytes = render_all(&mesh, order == 0 ? reference : document, sizeof document);
            if (order == 0) {
                expected = bytes;
                with_jumps += mesh.core->view.jump_count > 0;
                completed += view_find_experiment(&mesh.core->view, make_experiment_id(0))->known;
            } else {
                assert_int_equal(bytes, expected);
                assert_memory_equal(document, reference, expected);
            }
            mesh_close(&mesh);
        }
    }
    assert_int_equal(completed, 60);
    assert_true(with_jumps > 30);
    assert_true(at_rest > 1000);
}

/* A client that repeats its submit makes its node write the record again: who saw both versions and who saw only the
 * newer one must agree. */
static void a_repeated_submit_is_folded_alike_everywhere(void **state)
{
    struct mesh *both = *state;
    (void)submit(both, 1, 2, 5, 100);
    const struct view_experiment *seen_both = submit(both, 1, 3, 5, 200);
    struct mesh newer;
    mesh_open(&newer);
    newer.seq = both->seq;
    const struct view_experiment *seen_newer = submit(&newer, 1, 3, 5, 200);
    assert_int_equal(seen_both->submitted_s, seen_newer->submitted_s);
    assert_int_equal(seen_both->trial_count, seen_newer->trial_count);
    mesh_close(&newer);
}

static void a_tombstone_takes_all_of_its_experiment_and_nothing_else(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    (void)submit(mesh, 0, 2, 5, 1);
    attempt_id id = assign(mesh, 0, 1);
    judge(mesh, 1, &id, FACT_FAILED, 0.5);
    size_t before_bytes = mesh->core->arena.used_bytes;
    uint32_t before = render_all(mesh, reference, sizeof reference);
    say(mesh, 3, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(1)), NULL); /* of one that nobody knows here */
    assert_int_equal(mesh->core->view.experiment_count, 1);
    mesh->core->records.count--; /* the number of records is part of the status document */
    assert_int_equal(render_all(mesh, document, sizeof document), before);
    mesh->core->records.count++;
    assert_memory_equal(document, reference, before);
    say(mesh, 3, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(0)), NULL);
    assert_int_equal(mesh->core->view.experiment_count, 0);
    assert_true(mesh->core->arena.used_bytes < before_bytes);
    judge(mesh, 2, &id, FACT_COMPLETED, 0.5);
    say(mesh, 3, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(0)), NULL);
    assert_int_equal(mesh->core->view.experiment_count, 0);
    assert_int_equal(mesh->core->view.tombstone_count, 2);
}

static void malformed_bodies_change_nothing_and_are_counted(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    (void)submit(mesh, 0, 2, 5, 1);
    attempt_id id = assign(mesh, 0, 1);
    judge(mesh, 1, &id, FACT_FAILED, 0.5);
    struct fact_key keys[FACT_STOP + 1] = {
        [FACT_MEMBER] = fact_key_node_id(mesh->people[3].id),
        [FACT_NODE] = fact_key_empty(),
        [FACT_SLOT] = fact_key_slot(0),
        [FACT_EXPERIMENT] = fact_key_experiment(id.experiment),
        [FACT_CONTROL] = fact_key_experiment(id.experiment),
        [FACT_CLAIM] = fact_key_experiment(id.experiment),
        [FACT_ATTEMPT] = fact_key_attempt(&id),
        [FACT_WORKER] = fact_key_worker(&id, 0),
        [FACT_VERDICT] = fact_key_verdict(&id),
        [FACT_MANIFEST] = fact_key_manifest(&id, 1),
        [FACT_DRAIN] = fact_key_node_id(mesh->people[0].id),
        [FACT_STOP] = fact_key_trial(id.experiment, id.trial),
    };
    static const uint8_t bodies[][4] = {{0xc1, 0, 0, 0}, {0x90, 0, 0, 0}, {0x9f, 1, 2, 3}, {0xdd, 0xff, 0xff, 0xff}};
    uint64_t before = mesh->core->view.malformed_count, sent = 0;
    uint32_t size = render_all(mesh, reference, sizeof reference);
    for (uint16_t kind = FACT_MEMBER; kind <= FACT_STOP; kind++) {
        bool is_folded = kind != FACT_INVITE && (kind <= FACT_MANIFEST || kind == FACT_DRAIN || kind == FACT_STOP);
        for (size_t i = 0; i < sizeof bodies / sizeof bodies[0] && is_folded; i++) {
            struct record record = {.kind = kind, .writer = mesh->people[4].id, .version = {2, ++mesh->seq},
                                    .key = keys[kind].bytes, .key_bytes = keys[kind].count, .body = bodies[i],
                                    .body_bytes = sizeof bodies[i]};
            struct made made;
            made.count = (uint32_t)record_encode(&record, made.bytes, sizeof made.bytes);
            load(mesh, &made);
            sent++;
        }
    }
    assert_int_equal(mesh->core->view.malformed_count - before, sent);
    uint64_t counted = mesh->core->view.malformed_count;
    mesh->core->view.malformed_count = before; /* part of the status document, as is the number of records */
    uint32_t records = mesh->core->records.count;
    mesh->core->records.count = records - 12;
    assert_int_equal(render_all(mesh, document, sizeof document), size);
    assert_memory_equal(document, reference, size);
    mesh->core->records.count = records;
    mesh->core->view.malformed_count = counted;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_records_does_not_matter),
        cmocka_unit_test_setup_teardown(a_repeated_submit_is_folded_alike_everywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tombstone_takes_all_of_its_experiment_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_bodies_change_nothing_and_are_counted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
