/* The fold over records: what it says, and that it does not depend on the order in which they come (invariant 6). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/daemon/render.h"
#include "node/daemon/render_experiment.h"
#include "tests/unit/facts_make.h"
#include "train/search.h"

#define CORE_BYTES (16u << 20)
#define PEOPLE 5
#define NAN_DOUBLE (0.0 / 0.0)

/* A core that is never started: a table and the fold over it, as the daemon has them. */
struct mesh {
    void *memory;
    struct node_core *core;
    struct node_effects effects;
    struct person people[PEOPLE];
    uint64_t seq;
};

static void mesh_open(struct mesh *mesh)
{
    memset(mesh, 0, sizeof *mesh);
    for (uint32_t i = 0; i < PEOPLE; i++) {
        mesh->people[i] = make_person(i);
    }
    mesh->memory = aligned_alloc(16, CORE_BYTES);
    mesh->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *mesh->effects.items);
    mesh->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    struct node_options options = {.self = mesh->people[0].id, .mesh = make_mesh(), .boot = 9ull << 32, .now_ms = 1000,
                                   .memory = mesh->memory, .memory_bytes = CORE_BYTES};
    mesh->core = node_core_init(&options);
    assert_non_null(mesh->core);
}

static void mesh_close(struct mesh *mesh)
{
    free(mesh->memory);
    free(mesh->effects.items);
    free(mesh->effects.bytes);
}

static int setup(void **state)
{
    *state = malloc(sizeof(struct mesh));
    mesh_open(*state);
    return 0;
}

static int teardown(void **state)
{
    mesh_close(*state);
    free(*state);
    return 0;
}

static void load(struct mesh *mesh, const struct made *made)
{
    mesh->effects.count = 0;
    mesh->effects.used_bytes = 0;
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made->bytes,
                               .byte_count = made->count};
    node_core_step(mesh->core, &event, &mesh->effects);
}

static void say(struct mesh *mesh, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    make_record(&made, mesh->people[writer].id, 1, ++mesh->seq, kind, key, fact);
    load(mesh, &made);
}

/* ---- random sets of records ---- */

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
            struct fact_control control = {some_clock(random, 3), below(random, 2) == 0, below(random, 12) == 0};
            struct fact_claim claim = {some_clock(random, 3) | 1, below(random, 3) == 0};
            add(set, people[i].id, FACT_CONTROL, key, &control);
            if (below(random, 12) == 0) {
                struct fact_control cancel = {.cancelled = true};
                add(set, people[i].id, FACT_CONTROL, fact_key_cancel(make_experiment_id(below(random, 2))), &cancel);
            }
            add(set, people[i].id, FACT_CLAIM, key, &claim);
        }
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
    for (uint32_t i = 0; i < 20; i++) {
        attempt_id id = make_attempt_id(below(&random, 2), below(&random, 3), 1 + below(&random, 3),
                                        1 + below(&random, 2), people[below(&random, 3)].id);
        add_attempt(set, &random, people, id);
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
        assert_false(render_show(mesh->core, view->experiments[i], &from, &writer));
        from = 0;
        assert_false(render_checkpoints(mesh->core, view->experiments[i], RENDER_ALL_TRIALS, &from, &writer));
    }
    render_status(mesh->core, &extra, &writer);
    assert_false(writer.failed);
    return (uint32_t)writer.used_bytes;
}

static uint8_t reference[1u << 20], document[1u << 20];

static void the_order_of_records_does_not_matter(void **state)
{
    (void)state;
    static struct set set;
    struct random random;
    random_init(&random, 99);
    uint32_t completed = 0, with_jumps = 0;
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
}

/* ---- the roster ---- */

static void admit(struct mesh *mesh, uint32_t voucher, uint32_t member)
{
    struct fact_member fact = make_member(&mesh->people[member]);
    say(mesh, voucher, FACT_MEMBER, fact_key_node_id(mesh->people[member].id), &fact);
}

static bool is_admitted(const struct mesh *mesh, uint32_t number)
{
    const struct view_member *member = view_find_member(&mesh->core->view, mesh->people[number].id);
    return member != NULL && member->admitted;
}

static void vouchers_form_chains_that_end_at_the_founder(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 2, 3); /* the links come last one first */
    admit(mesh, 1, 2);
    assert_false(is_admitted(mesh, 2) || is_admitted(mesh, 3));
    admit(mesh, 0, 1);
    assert_false(is_admitted(mesh, 1) || is_admitted(mesh, 2) || is_admitted(mesh, 3));
    admit(mesh, 0, 0);
    assert_true(is_admitted(mesh, 0) && is_admitted(mesh, 1) && is_admitted(mesh, 2) && is_admitted(mesh, 3));
    assert_true(node_id_equal(view_find_member(&mesh->core->view, mesh->people[3].id)->voucher, mesh->people[2].id));
    assert_string_equal(view_find_member(&mesh->core->view, mesh->people[3].id)->name, "d");
}

static void nobody_admits_themselves(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 4, 4);
    admit(mesh, 3, 4); /* nor by somebody who is not believed */
    assert_false(is_admitted(mesh, 4));
    struct fact_member forged = make_member(&mesh->people[4]);
    memcpy(forged.nonce, make_member(&mesh->people[0]).nonce, sizeof forged.nonce);
    say(mesh, 4, FACT_MEMBER, fact_key_node_id(mesh->people[4].id), &forged);
    assert_false(is_admitted(mesh, 4));
    admit(mesh, 0, 3);
    assert_true(is_admitted(mesh, 4));
}

/* ---- experiments ---- */

static const struct view_experiment *submit(struct mesh *mesh, uint32_t writer, uint32_t trials, uint32_t max_restarts,
                                            uint64_t submitted_s)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, trials, max_restarts);
    struct fact_experiment fact = {.submitted_s = submitted_s, .config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(mesh, writer, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    assert_non_null(experiment);
    return experiment;
}

static attempt_id assign(struct mesh *mesh, uint32_t trial, uint32_t number)
{
    attempt_id id = make_attempt_id(0, trial, number, 1, mesh->people[1].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{mesh->people[2].id, 0}}};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    return id;
}

static void judge(struct mesh *mesh, uint32_t writer, const attempt_id *id, enum fact_reason reason, double accuracy)
{
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_verdict fact = {.reason = reason, .metrics = metrics};
    fact.metrics_bytes = make_metrics(metrics, accuracy);
    say(mesh, writer, FACT_VERDICT, fact_key_verdict(id), &fact);
}

/* A failure on this person's node, of an attempt that began at this step. */
static void fail_on(struct mesh *mesh, uint32_t trial, uint32_t number, uint32_t node, uint64_t start_step)
{
    attempt_id id = make_attempt_id(0, trial, number, 1, mesh->people[1].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{mesh->people[node].id, 0}}, .start_step = start_step};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    judge(mesh, 1, &id, FACT_FAILED, 0.5);
}

static void failures_on_three_nodes_without_progress_quarantine_a_trial(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 3, 100, 1);
    for (uint32_t number = 1; number <= 3; number++) {
        fail_on(mesh, 0, number, number, 7);
        fail_on(mesh, 1, number, number, 10 * number); /* this one gets on */
        fail_on(mesh, 2, number, 2, 0);                /* this one has not been anywhere else */
        assert_int_equal(view_trial_state(experiment, 0), number < 3 ? VIEW_TRIAL_QUEUED : VIEW_TRIAL_FAILED);
    }
    assert_int_equal(view_trial_state(experiment, 1), VIEW_TRIAL_QUEUED);
    assert_int_equal(view_trial_state(experiment, 2), VIEW_TRIAL_QUEUED);
    node_id nodes[VIEW_QUARANTINE_NODES];
    uint32_t count;
    assert_int_equal(view_trial_quarantine(experiment->trials[0], nodes, &count), VIEW_QUARANTINE_FAILURES);
    assert_int_equal(count, 3);
    assert_true(node_id_equal(nodes[2], mesh->people[3].id));
}

static void lose_host(struct mesh *mesh, uint32_t trial, uint32_t number, uint32_t suspects)
{
    attempt_id id = assign(mesh, trial, number);
    judge(mesh, 1, &id, FACT_LOST, 0.5);
    struct fact_death death = {.node = mesh->people[2].id, .boot = 5, .lived_ms = 1000, .suspects = suspects};
    say(mesh, 1, FACT_DEATH, fact_key_verdict(&id), &death);
}

static void the_second_death_of_a_host_convicts_the_only_suspect_and_the_third_anybody(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 2, 0, 1);
    for (uint32_t number = 1; number <= 3; number++) {
        lose_host(mesh, 0, number, 0);
        lose_host(mesh, 1, number, 1);
        assert_int_equal(view_trial_state(experiment, 0), number < 2 ? VIEW_TRIAL_QUEUED : VIEW_TRIAL_FAILED);
        assert_int_equal(view_trial_state(experiment, 1), number < 3 ? VIEW_TRIAL_QUEUED : VIEW_TRIAL_FAILED);
    }
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0); /* restarts have nothing to do with it */

    /* The host of the first attempt tells, in the boot that was called dead, how its worker ended. */
    attempt_id id = make_attempt_id(0, 0, 1, 1, mesh->people[1].id);
    struct fact_worker fact = {.state = FACT_WORKER_ENDED, .reason = FACT_LOST};
    struct made made;
    make_record(&made, mesh->people[2].id, 5, ++mesh->seq, FACT_WORKER, fact_key_worker(&id, 0), &fact);
    load(mesh, &made);
    assert_null(view_attempt_death(view_find_attempt(&mesh->core->view, &id)));
}

static void control(struct mesh *mesh, uint32_t writer, uint64_t lamport, bool paused, bool cancelled)
{
    struct fact_control fact = {lamport, paused, cancelled};
    say(mesh, writer, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &fact);
}

static void cancel(struct mesh *mesh, uint32_t writer)
{
    struct fact_control fact = {.cancelled = true};
    say(mesh, writer, FACT_CONTROL, fact_key_cancel(make_experiment_id(0)), &fact);
}

/* ---- evictions ---- */

/* `standing`: a bit for each of the people. */
static struct made eviction(const struct mesh *mesh, uint32_t writer, uint32_t about, uint32_t standing)
{
    struct fact_eviction fact = make_eviction(mesh->people, PEOPLE, standing);
    struct made made;
    make_record(&made, mesh->people[writer].id, 1, 100 + about, FACT_EVICTION,
                fact_key_node_id(mesh->people[about].id), &fact);
    return made;
}

static struct made voucher(const struct mesh *mesh, uint32_t writer, uint32_t about)
{
    struct fact_member fact = make_member(&mesh->people[about]);
    struct made made;
    make_record(&made, mesh->people[writer].id, 1, 1 + about, FACT_MEMBER, fact_key_node_id(mesh->people[about].id),
                &fact);
    return made;
}

static uint32_t admitted_set(const struct mesh *mesh)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        set |= is_admitted(mesh, i) ? 1u << i : 0;
    }
    return set;
}

static uint32_t evicted_set(const struct mesh *mesh)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        const struct view_member *member = view_find_member(&mesh->core->view, mesh->people[i].id);
        set |= member != NULL && member->evicted ? 1u << i : 0;
    }
    return set;
}

/* Loads the records in every order there is. The founder's own is taken for granted. */
static void assert_in_all_orders(const struct made *records, uint32_t count, uint32_t admitted, uint32_t evicted)
{
    uint32_t orders = 1;
    for (uint32_t i = 2; i <= count; i++) {
        orders *= i;
    }
    struct mesh mesh;
    mesh_open(&mesh);
    struct made root = voucher(&mesh, 0, 0);
    for (uint32_t order = 0; order < orders; order++) {
        struct node_options options = mesh.core->options;
        mesh.core = node_core_init(&options);
        assert_non_null(mesh.core);
        uint32_t left[8], rest = order;
        for (uint32_t i = 0; i < count; i++) {
            left[i] = i;
        }
        for (uint32_t i = count; i > 0; i--) {
            uint32_t take = rest % i;
            rest /= i;
            load(&mesh, &records[left[take]]);
            left[take] = left[i - 1];
            if (i == (order % count) + 1) {
                load(&mesh, &root);
            }
        }
        assert_int_equal(evicted_set(&mesh), evicted);
        assert_int_equal(admitted_set(&mesh), admitted);
    }
    mesh_close(&mesh);
}

#define A 1u
#define B 2u
#define C 4u
#define D 8u
#define E 16u

static void an_evicted_key_is_out_and_its_word_with_it(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 2, 3), eviction(mesh, 0, 1, 0)};
    assert_in_all_orders(records, 4, A, B); /* d hung on c, which hung on b */
}

static void whom_the_eviction_lists_stays_and_so_does_what_hangs_on_it(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 2, 3), voucher(mesh, 1, 4),
                             eviction(mesh, 0, 1, C)};
    assert_in_all_orders(records, 5, A | C | D, B); /* e was vouched for by b, too, and is not listed */
}

static void who_is_vouched_for_twice_hangs_on_neither(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 0, 2), eviction(mesh, 0, 1, 0)};
    assert_in_all_orders(records, 4, A | C, B);
}

static void both_of_two_who_evict_each_other_are_out(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 0, 2), voucher(mesh, 0, 3), eviction(mesh, 1, 2, 0),
                             eviction(mesh, 2, 1, 0)};
    assert_in_all_orders(records, 5, A | D, B | C);
}

static void the_founder_can_be_evicted_and_its_chain_holds_for_those_listed(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 0, 2), voucher(mesh, 1, 3), voucher(mesh, 0, 4),
                             eviction(mesh, 1, 0, B | C)};
    assert_in_all_orders(records, 5, B | C | D, A);
}

static void a_second_eviction_never_brings_anybody_back(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 0, 3), eviction(mesh, 0, 1, 0),
                             eviction(mesh, 3, 1, C)};
    assert_in_all_orders(records, 5, A | D, B);
    records[3] = eviction(mesh, 0, 1, C);
    assert_in_all_orders(records, 5, A | C | D, B);
}

/* a evicted b with c standing. Later c is evicted with d standing: d's chain goes through both. */
static void chains_go_through_those_who_were_evicted(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), voucher(mesh, 1, 2), voucher(mesh, 2, 3), eviction(mesh, 0, 1, C),
                             eviction(mesh, 3, 2, D)};
    assert_in_all_orders(records, 5, A | D, B | C);
}

static void nobody_evicts_who_was_never_believed(void **state)
{
    struct mesh *mesh = *state;
    struct made records[] = {voucher(mesh, 0, 1), eviction(mesh, 4, 1, 0), eviction(mesh, 4, 0, 0),
                             voucher(mesh, 4, 3), voucher(mesh, 0, 2)};
    assert_in_all_orders(records, 5, A | B | C, 0);
}

/* What an evicted node says for others after its eviction is in no list. */
static void vouchers_of_the_evicted_are_void_whenever_they_come(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 0, 1);
    admit(mesh, 1, 2);
    struct made out = eviction(mesh, 0, 1, C);
    load(mesh, &out);
    admit(mesh, 1, 3);
    assert_int_equal(admitted_set(mesh), A | C);
    assert_true(view_member_is_out(view_find_member(&mesh->core->view, mesh->people[3].id)));
    admit(mesh, 2, 3); /* unless somebody else vouches for them */
    assert_int_equal(admitted_set(mesh), A | C | D);
}

static void an_eviction_that_is_not_understood_lists_nobody(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 0, 1);
    admit(mesh, 1, 2);
    struct record record = {.kind = FACT_EVICTION, .writer = mesh->people[0].id, .version = {1, 900},
                            .key = mesh->people[1].id.bytes, .key_bytes = NODE_ID_BYTES,
                            .body = (const uint8_t *)"\xc1", .body_bytes = 1};
    struct made made;
    made.count = (uint32_t)record_encode(&record, made.bytes, sizeof made.bytes);
    load(mesh, &made);
    assert_int_equal(admitted_set(mesh), A);
    assert_int_equal(evicted_set(mesh), B);
    assert_int_equal(mesh->core->view.malformed_count, 1);
}

/* Whoever makes up evictions takes so much memory and undoes its own at most. */
static void the_evictions_of_one_writer_are_bounded(void **state)
{
    struct mesh *mesh = *state;
    admit(mesh, 0, 0);
    admit(mesh, 0, 1);
    admit(mesh, 0, 2);
    struct made of_b = eviction(mesh, 0, 1, 0);
    load(mesh, &of_b);
    struct fact_eviction fact = {0};
    for (uint32_t i = 0; i < VIEW_EVICTIONS_MAX + 50; i++) {
        node_id made_up = {{0}};
        bytes_put_u32(made_up.bytes, i);
        say(mesh, 2, FACT_EVICTION, fact_key_node_id(made_up), &fact);
    }
    assert_int_equal(mesh->core->view.evictions.count, VIEW_EVICTIONS_MAX + 1);
    assert_int_equal(mesh->core->view.member_count, 3);
    assert_int_equal(evicted_set(mesh), B);
    struct made first = mesh->people[0].id.bytes[0] == 0 ? of_b : eviction(mesh, 2, 0, 0);
    load(mesh, &first); /* its key is larger than all of those: one of c's too many */
    assert_int_equal(evicted_set(mesh), B);
    assert_int_equal(mesh->core->view.evictions.count, VIEW_EVICTIONS_MAX + 1);
}

static void the_lowest_reason_of_concurrent_verdicts_counts(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 5, 1);
    attempt_id id = assign(mesh, 0, 1);
    const enum fact_reason order[] = {FACT_LOST, FACT_STOPPED, FACT_FAILED, FACT_COMPLETED};
    for (uint32_t i = 0; i < 4; i++) {
        judge(mesh, i, &id, order[i], 0.5);
        const struct view_verdict *verdict = view_attempt_verdict(experiment->trials[0]->attempts);
        assert_int_equal(verdict->reason, order[i]);
        assert_true(node_id_equal(verdict->writer, mesh->people[i].id));
    }
    judge(mesh, 4, &id, FACT_LOST, 0.5);
    assert_int_equal(view_attempt_verdict(experiment->trials[0]->attempts)->reason, FACT_COMPLETED);
}

static void trials_restart_until_their_failures_are_used_up(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    attempt_id first = assign(mesh, 0, 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_RUNNING);
    judge(mesh, 1, &first, FACT_LOST, 0); /* not the program's fault */
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0);
    attempt_id second = assign(mesh, 0, 2);
    judge(mesh, 1, &second, FACT_FAILED, 0);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    attempt_id third = assign(mesh, 0, 3);
    judge(mesh, 1, &third, FACT_FAILED, 0);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
    assert_int_equal(view_experiment_state(experiment), VIEW_FAILED);
    assert_false(view_experiment_live(experiment));
    attempt_id late = assign(mesh, 0, 4); /* from the other side of a partition */
    judge(mesh, 1, &late, FACT_COMPLETED, 0.5);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
}

/* Seed 732832 of plan 4. One coordinator gives the attempt up when a member of its group fails, another lets the group go on
 * without it. */
static void a_failure_that_one_judges_and_another_lets_pass_counts_once(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    attempt_id id = make_attempt_id(0, 0, 1, 1, mesh->people[1].id);
    struct fact_attempt both = {.member_count = 2, .members = {{mesh->people[2].id, 0}, {mesh->people[3].id, 0}}};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &both);
    struct fact_worker failed = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .generation = 1, .is_elastic = true};
    say(mesh, 2, FACT_WORKER, fact_key_worker(&id, 0), &failed);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0); /* while it lives, its group may yet go on */
    assert_int_equal(view_attempt_failures(experiment->trials[0]->attempts), 1);
    judge(mesh, 1, &id, FACT_FAILED, 0);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 1);
    struct fact_generation rest = {
        .generation = 2, .term = 2, .member_count = 1, .members = {{mesh->people[3].id, 0, 1, false}}};
    say(mesh, 4, FACT_GENERATION, fact_key_verdict(&id), &rest);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    say(mesh, 3, FACT_WORKER, fact_key_worker(&id, 1), &failed); /* before the verdict has come there */
    assert_int_equal(view_trial_failures(experiment->trials[0]), 2);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
}

static void who_fails_before_it_has_joined_a_group_is_no_failure_of_the_trial(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    attempt_id id = assign(mesh, 0, 1);
    struct fact_worker failed = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .is_elastic = true};
    say(mesh, 3, FACT_WORKER, fact_key_worker(&id, 1), &failed);
    assert_int_equal(view_attempt_failures(experiment->trials[0]->attempts), 0);
    failed.generation = 2;
    say(mesh, 3, FACT_WORKER, fact_key_worker(&id, 2), &failed);
    assert_int_equal(view_attempt_failures(experiment->trials[0]->attempts), 1);
    judge(mesh, 1, &id, FACT_LOST, 0);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 1);
}

static void pause_and_resume_are_one_register(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 5, 1);
    assert_int_equal(view_experiment_state(experiment), VIEW_QUEUED);
    control(mesh, 1, 1, true, false);
    assert_int_equal(view_experiment_state(experiment), VIEW_PAUSED);
    control(mesh, 2, 2, false, false);
    assert_false(view_experiment_paused(experiment));
    control(mesh, 3, 2, true, false); /* concurrent: the pause wins, whatever the ids */
    assert_true(view_experiment_paused(experiment));
    control(mesh, 0, 2, false, false);
    assert_true(view_experiment_paused(experiment));
    control(mesh, 0, 3, false, false);
    assert_false(view_experiment_paused(experiment));
    control(mesh, 4, 0, true, false); /* never paused nor resumed: a cancel record of an older time */
    assert_false(view_experiment_paused(experiment));
}

static struct fact_drain drain(struct mesh *mesh, uint32_t writer, struct fact_drain fact)
{
    say(mesh, writer, FACT_DRAIN, fact_key_node_id(mesh->people[2].id), &fact);
    return view_member_drain(view_find_member(&mesh->core->view, mesh->people[2].id));
}

static void drain_and_undrain_are_one_register(void **state)
{
    struct mesh *mesh = *state;
    assert_true(drain(mesh, 1, (struct fact_drain){.lamport = 1, .drained = true}).drained);
    assert_false(drain(mesh, 3, (struct fact_drain){.lamport = 2}).drained);
    struct fact_drain now = drain(mesh, 0, (struct fact_drain){.lamport = 2, .drained = true, .at_once = true});
    assert_true(now.drained && now.at_once && !now.is_idle); /* concurrent: the drain wins, whatever the ids */
    now = drain(mesh, 4, (struct fact_drain){.lamport = 2});
    assert_true(now.drained && now.at_once);
    now = drain(mesh, 4, (struct fact_drain){.lamport = 2, .drained = true, .is_idle = true});
    assert_false(now.is_idle); /* it is not for others to say */
    now = drain(mesh, 2, (struct fact_drain){.lamport = 1, .drained = true, .is_idle = true});
    assert_false(now.is_idle); /* it said so of an earlier drain */
    now = drain(mesh, 2, (struct fact_drain){.lamport = 2, .drained = true, .is_idle = true});
    assert_true(now.is_idle && now.drained && now.at_once);
    now = drain(mesh, 3, (struct fact_drain){.lamport = 3});
    assert_false(now.drained || now.at_once || now.is_idle);
    now = drain(mesh, 1, (struct fact_drain){.lamport = 4, .drained = true});
    assert_true(now.drained && !now.at_once && !now.is_idle);
}

static void cancel_absorbs_and_completion_outlives_it(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 2, 5, 1);
    attempt_id first = assign(mesh, 0, 1), second = assign(mesh, 1, 1);
    judge(mesh, 1, &first, FACT_COMPLETED, 0.5);
    control(mesh, 1, 1, true, false);
    cancel(mesh, 1);
    control(mesh, 1, 2, true, false); /* on an old disk it no longer knew */
    control(mesh, 2, 3, false, false);
    assert_int_equal(view_experiment_state(experiment), VIEW_CANCELLED);
    assert_true(view_experiment_live(experiment)); /* one attempt still wants its verdict */
    judge(mesh, 1, &second, FACT_STOPPED, 0);
    assert_false(view_experiment_live(experiment));
    judge(mesh, 2, &second, FACT_COMPLETED, 0.5);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
}

static void the_best_trial_is_the_first_of_the_best(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 4, 5, 1);
    uint32_t trial = 9;
    double value = 0;
    assert_false(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    const double accuracies[] = {0.25, 0.75, 0.75, 0.5};
    for (uint32_t i = 0; i < 4; i++) {
        attempt_id id = assign(mesh, 3 - i, 1);
        judge(mesh, 1, &id, FACT_COMPLETED, accuracies[3 - i]);
    }
    assert_true(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    assert_int_equal(trial, 1);
    assert_true(value > 0.74 && value < 0.76);
}

static void a_diverged_trial_is_not_the_best(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 2, 5, 1);
    attempt_id first = assign(mesh, 0, 1), second = assign(mesh, 1, 1);
    judge(mesh, 1, &first, FACT_COMPLETED, NAN_DOUBLE);
    judge(mesh, 1, &second, FACT_COMPLETED, 0.5);
    uint32_t trial = 9;
    double value = 0;
    assert_true(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    assert_int_equal(trial, 1);
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
    struct fact_key keys[FACT_DRAIN + 1] = {
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
    };
    static const uint8_t bodies[][4] = {{0xc1, 0, 0, 0}, {0x90, 0, 0, 0}, {0x9f, 1, 2, 3}, {0xdd, 0xff, 0xff, 0xff}};
    uint64_t before = mesh->core->view.malformed_count, sent = 0;
    uint32_t size = render_all(mesh, reference, sizeof reference);
    for (uint16_t kind = FACT_MEMBER; kind <= FACT_DRAIN; kind++) {
        bool is_folded = kind != FACT_INVITE && (kind <= FACT_MANIFEST || kind == FACT_DRAIN);
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
    mesh->core->records.count = records - 11;
    assert_int_equal(render_all(mesh, document, sizeof document), size);
    assert_memory_equal(document, reference, size);
    mesh->core->records.count = records;
    mesh->core->view.malformed_count = counted;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_records_does_not_matter),
        cmocka_unit_test_setup_teardown(vouchers_form_chains_that_end_at_the_founder, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_admits_themselves, setup, teardown),
        cmocka_unit_test_setup_teardown(an_evicted_key_is_out_and_its_word_with_it, setup, teardown),
        cmocka_unit_test_setup_teardown(whom_the_eviction_lists_stays_and_so_does_what_hangs_on_it, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_vouched_for_twice_hangs_on_neither, setup, teardown),
        cmocka_unit_test_setup_teardown(both_of_two_who_evict_each_other_are_out, setup, teardown),
        cmocka_unit_test_setup_teardown(the_founder_can_be_evicted_and_its_chain_holds_for_those_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_eviction_never_brings_anybody_back, setup, teardown),
        cmocka_unit_test_setup_teardown(chains_go_through_those_who_were_evicted, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_evicts_who_was_never_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(vouchers_of_the_evicted_are_void_whenever_they_come, setup, teardown),
        cmocka_unit_test_setup_teardown(an_eviction_that_is_not_understood_lists_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(the_evictions_of_one_writer_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(the_lowest_reason_of_concurrent_verdicts_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(trials_restart_until_their_failures_are_used_up, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_on_three_nodes_without_progress_quarantine_a_trial, setup, teardown),
        cmocka_unit_test_setup_teardown(the_second_death_of_a_host_convicts_the_only_suspect_and_the_third_anybody, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_failure_that_one_judges_and_another_lets_pass_counts_once, setup, teardown),
        cmocka_unit_test_setup_teardown(who_fails_before_it_has_joined_a_group_is_no_failure_of_the_trial, setup, teardown),
        cmocka_unit_test_setup_teardown(pause_and_resume_are_one_register, setup, teardown),
        cmocka_unit_test_setup_teardown(drain_and_undrain_are_one_register, setup, teardown),
        cmocka_unit_test_setup_teardown(cancel_absorbs_and_completion_outlives_it, setup, teardown),
        cmocka_unit_test_setup_teardown(the_best_trial_is_the_first_of_the_best, setup, teardown),
        cmocka_unit_test_setup_teardown(a_diverged_trial_is_not_the_best, setup, teardown),
        cmocka_unit_test_setup_teardown(a_repeated_submit_is_folded_alike_everywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tombstone_takes_all_of_its_experiment_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_bodies_change_nothing_and_are_counted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
