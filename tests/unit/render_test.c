/* What users see of a core that holds these records, as JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/format.h"
#include "base/json.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/members/twin.h"
#include "node/daemon/render/curves.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "node/daemon/render/why.h"
#include "tests/unit/facts_make.h"

#define CORE_BYTES (64u << 20)

/* A core of the founder `a` that holds records of `b` and `c`, neither of which it has heard of yet. */
struct fixture {
    struct node_core *core;
    void *memory;
    struct node_effects effects;
    struct person a, b, c;
    uint64_t seq;
};

static void step(struct fixture *f, const struct node_event *event)
{
    f->effects.count = 0;
    f->effects.used_bytes = 0;
    node_core_step(f->core, event, &f->effects);
}

static void load(struct fixture *f, const struct person *writer, enum fact_kind kind, struct fact_key key,
                 const void *fact)
{
    struct made made;
    make_record(&made, writer->id, 1, ++f->seq, kind, key, fact);
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made.bytes, .byte_count = made.count};
    step(f, &event);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    f->a = make_person(0);
    f->b = make_person(1);
    f->c = make_person(2);
    f->memory = aligned_alloc(16, CORE_BYTES);
    f->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *f->effects.items);
    f->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    struct node_options options = {.self = f->a.id, .mesh = make_mesh(), .boot = 2ull << 32, .seed = 1, .now_ms = 1000,
                                   .wall_s = 1700000000, .memory = f->memory, .memory_bytes = CORE_BYTES};
    options.node = make_node(&f->a, 2);
    f->core = node_core_init(&options);
    assert_non_null(f->core);
    const struct person *people[] = {&f->a, &f->b, &f->c};
    for (int i = 0; i < 3; i++) {
        struct fact_member member = make_member(people[i]);
        load(f, &f->a, FACT_MEMBER, fact_key_node_id(people[i]->id), &member);
    }
    struct fact_node node = make_node(&f->b, 1);
    load(f, &f->b, FACT_NODE, fact_key_empty(), &node);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    free(f->memory);
    free(f->effects.items);
    free(f->effects.bytes);
    free(f);
    return 0;
}

static void start(struct fixture *f)
{
    struct node_event event = {.kind = NODE_EVENT_START, .now_ms = 1000, .wall_s = 1700000000};
    step(f, &event);
}

static void load_configured(struct fixture *f, uint32_t number, const struct config *config)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct fact_experiment fact = {.submitted_s = 1600000000, .config = packed};
    fact.config_bytes = make_packed_config(config, packed);
    load(f, &f->b, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(number)), &fact);
}

static void load_experiment(struct fixture *f, uint32_t number, uint32_t trials, uint32_t max_restarts)
{
    struct config config;
    make_config(&config, trials, max_restarts);
    (void)snprintf(config.user, sizeof config.user, "ada");
    load_configured(f, number, &config);
}

static void load_attempt(struct fixture *f, const attempt_id *id, const struct person *const *members, uint32_t count,
                         uint64_t start_step)
{
    struct fact_attempt fact = {.member_count = count, .start_step = start_step};
    for (uint32_t i = 0; i < count; i++) {
        fact.members[i] = (struct fact_assignment){members[i]->id, i};
    }
    load(f, &f->b, FACT_ATTEMPT, fact_key_attempt(id), &fact);
}

static void load_worker(struct fixture *f, const attempt_id *id, const struct person *owner, uint32_t rank,
                        struct fact_worker fact)
{
    load(f, owner, FACT_WORKER, fact_key_worker(id, rank), &fact);
}

static void load_verdict(struct fixture *f, const attempt_id *id, const struct person *writer, enum fact_reason reason,
                         uint64_t at_step, double accuracy, const char *why)
{
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_verdict fact = {.reason = reason, .step = at_step, .metrics = metrics};
    fact.metrics_bytes = make_metrics(metrics, accuracy);
    bytes_copy_text(fact.why, sizeof fact.why, why);
    load(f, writer, FACT_VERDICT, fact_key_verdict(id), &fact);
}

/* Without the spaces between tokens, so that expectations are short. */
static void squeeze(char *text)
{
    bool quoted = false;
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        quoted ^= *from == '"' && from[-(from > text)] != '\\';
        if (quoted || *from != ' ') {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static const char *json_of(const struct pack_writer *writer)
{
    static char text[1u << 20];
    struct pack_reader reader;
    assert_false(writer->failed);
    pack_reader_init(&reader, writer->bytes, writer->used_bytes);
    assert_int_equal(json_from_pack(&reader, text, sizeof text), 0);
    assert_true(pack_at_end(&reader));
    squeeze(text);
    return text;
}

static uint8_t frame[1u << 20];

static void open_map(struct pack_writer *writer, uint32_t pairs)
{
    pack_writer_init(writer, frame, sizeof frame);
    pack_map(writer, pairs);
}

static const char *show(struct fixture *f, uint32_t number)
{
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_SHOW_PAIRS);
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(number));
    assert_non_null(experiment);
    assert_false(render_show(f->core, experiment, experiment->config, &from, &writer));
    return json_of(&writer);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\n  is not in\n%s", part, text);
    }
}

static void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("%s\n  is in\n%s", part, text);
    }
}

static void nodes_are_listed_with_their_states(void **state)
{
    struct fixture *f = *state;
    start(f);
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_NODES_PAIRS);
    assert_false(render_nodes(f->core, &from, &writer));
    const char *text = json_of(&writer);
    assert_has(text, "\"name\":\"a\",\"address\":\"a.host:7400\",\"state\":\"alive\",\"slots\":2,\"version\":\"9.9.9\","
                     "\"protocol\":{\"min\":1,\"max\":1,\"common\":1},\"drained\":false,\"emptied\":false,\"policy\":null,\"quarantined\":null,\"https\":null,\"labels\":[],\"voucher\":");
    assert_has(text, "\"name\":\"b\",\"address\":\"b.host:7400\",\"state\":\"dead\",\"slots\":1,\"version\":\"9.9.9\"");
    assert_has(text, "\"name\":\"c\",\"address\":null,\"state\":\"dead\",\"slots\":0,\"version\":null,\"protocol\":null");
    assert_int_equal(render_nodes_alive(f->core), 1);

    struct fact_drain drain = {.lamport = 1, .drained = true, .is_idle = true};
    load(f, &f->b, FACT_DRAIN, fact_key_node_id(f->b.id), &drain);
    from = 0;
    open_map(&writer, RENDER_NODES_PAIRS);
    assert_false(render_nodes(f->core, &from, &writer));
    assert_has(json_of(&writer), "\"state\":\"dead\",\"slots\":1,\"version\":\"9.9.9\","
                                 "\"protocol\":{\"min\":1,\"max\":1,\"common\":1},\"drained\":true,\"emptied\":true,");

    struct fact_quarantine apart = {.is_active = true, .level = 2, .minutes = 2, .why = "3 trials failed on it"};
    load(f, &f->b, FACT_QUARANTINE, fact_key_empty(), &apart);
    from = 0;
    open_map(&writer, RENDER_NODES_PAIRS);
    assert_false(render_nodes(f->core, &from, &writer));
    assert_has(json_of(&writer), "\"quarantined\":{\"minutes\":2,\"reason\":\"3 trials failed on it\"}");

    struct fact_node gone = make_node(&f->b, 1);
    gone.left = true;
    load(f, &f->b, FACT_NODE, fact_key_empty(), &gone);
    assert_string_equal(render_node_state(f->core, f->b.id), "left");
    from = 0;
    open_map(&writer, RENDER_SLOTS_PAIRS);
    assert_false(render_slots(f->core, &from, &writer));
    assert_lacks(json_of(&writer), "\"node_name\":\"b\"");
}

static void who_speaks_no_version_of_ours_is_shown_so(void **state)
{
    struct fixture *f = *state;
    start(f);
    struct fact_node later = make_node(&f->b, 1);
    later.protocol_min = 2;
    later.protocol_max = 3;
    load(f, &f->b, FACT_NODE, fact_key_empty(), &later);
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_NODES_PAIRS);
    assert_false(render_nodes(f->core, &from, &writer));
    assert_has(json_of(&writer), "\"protocol\":{\"min\":2,\"max\":3,\"common\":null}");
}

static void the_evicted_are_listed_but_count_nowhere(void **state)
{
    struct fixture *f = *state;
    start(f);
    struct fact_eviction eviction = {0};
    load(f, &f->c, FACT_EVICTION, fact_key_node_id(f->b.id), &eviction);
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_NODES_PAIRS);
    assert_false(render_nodes(f->core, &from, &writer));
    char row[320], evictor[33], voucher[33];
    bytes_to_hex(evictor, f->c.id.bytes, NODE_ID_BYTES);
    bytes_to_hex(voucher, f->a.id.bytes, NODE_ID_BYTES);
    (void)snprintf(row, sizeof row, "\"state\":\"evicted\",\"slots\":1,\"version\":\"9.9.9\","
                                    "\"protocol\":{\"min\":1,\"max\":1,\"common\":1},\"drained\":false,"
                                    "\"emptied\":false,\"policy\":null,\"quarantined\":null,\"https\":null,\"labels\":[],\"voucher\":\"%s\",\"evictor\":\"%s\"",
                   voucher, evictor);
    assert_has(json_of(&writer), row);
    from = 0;
    open_map(&writer, RENDER_SLOTS_PAIRS);
    assert_false(render_slots(f->core, &from, &writer));
    assert_lacks(json_of(&writer), "\"node_name\":\"b\"");
    struct render_status_extra extra = {.mesh_name = "", .version = "", .address = ""};
    open_map(&writer, RENDER_STATUS_PAIRS);
    render_status(f->core, &extra, &writer);
    assert_has(json_of(&writer), "\"nodes\":2,\"nodes_alive\":1,\"nodes_drained\":0,\"slots\":2,");
    open_map(&writer, RENDER_EVICTION_PAIRS);
    render_eviction(f->core, f->b.id, &writer);
    assert_has(json_of(&writer), "\"name\":\"b\",\"standing\":[],\"void\":[]");

    load(f, &f->c, FACT_EVICTION, fact_key_node_id(f->a.id), &eviction); /* the founder, this node: c hung on it */
    assert_string_equal(render_node_state(f->core, f->a.id), "evicted");
    assert_string_equal(render_node_state(f->core, f->c.id), "void");
    assert_int_equal(render_nodes_alive(f->core), 0);
}

static void invites_are_listed_with_their_states(void **state)
{
    struct fixture *f = *state;
    uint8_t keys[4][PUBLIC_KEY_BYTES] = {{0xa0}, {0xb0}, {0xc0}, {0xd0}};
    struct fact_invite good = {.expires_s = 1700000100}, late = {.expires_s = 1700000000}, word = {.revoked = true};
    load(f, &f->c, FACT_INVITE, fact_key_public_key(keys[0]), &good);
    load(f, &f->c, FACT_INVITE, fact_key_public_key(keys[1]), &late);
    load(f, &f->c, FACT_INVITE, fact_key_public_key(keys[2]), &good);
    load(f, &f->a, FACT_INVITE, fact_key_public_key(keys[2]), &word);
    load(f, &f->b, FACT_INVITE, fact_key_public_key(keys[3]), &good);
    start(f);
    struct fact_eviction eviction = {0};
    load(f, &f->c, FACT_EVICTION, fact_key_node_id(f->b.id), &eviction);
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_INVITES_PAIRS);
    assert_false(render_invites(f->core, &from, &writer));
    const char *text = json_of(&writer);
    const char *states[] = {"a0", "good", "b0", "expired", "c0", "revoked", "d0", "void"};
    for (size_t i = 0; i < 8; i += 2) {
        char id[32], ending[32];
        (void)snprintf(id, sizeof id, "\"id\":\"%s00000000000000\"", states[i]);
        (void)snprintf(ending, sizeof ending, "\"state\":\"%s\"}", states[i + 1]);
        const char *row = strstr(text, id);
        assert_non_null(row);
        assert_null(strstr(row + 1, id)); /* another member's word is not another invite */
        const char *close = strchr(row, '}');
        assert_int_equal(strncmp(close + 1 - strlen(ending), ending, strlen(ending)), 0);
    }
}

static void slots_show_whose_they_are(void **state)
{
    struct fixture *f = *state;
    attempt_id id = make_attempt_id(0, 3, 2, 5, f->b.id);
    struct fact_slot fact = {.state = LEASE_LEASED, .attempt = id, .rank = 0};
    load(f, &f->b, FACT_SLOT, fact_key_slot(0), &fact);
    start(f);
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_SLOTS_PAIRS);
    assert_false(render_slots(f->core, &from, &writer));
    const char *text = json_of(&writer);
    assert_has(text, "\"node_name\":\"b\",\"node_state\":\"dead\",\"index\":0,\"uuid\":\"cpu-b-0\",\"kind\":\"cpu\",\"model\":\"test\","
                     "\"memory_bytes\":1073741824,\"state\":\"leased\",\"why\":null,\"experiment\":\"e0e0e0e000000001\",\"trial\":3,"
                     "\"attempt\":2");
    assert_has(text, "\"node_name\":\"a\",\"node_state\":\"alive\",\"index\":1,\"uuid\":\"cpu-a-1\",\"kind\":\"cpu\",\"model\":\"test\","
                     "\"memory_bytes\":1073741824,\"state\":\"free\",\"why\":null,\"experiment\":null,\"trial\":null,\"attempt\":null");

    fact.withheld = true; /* its owner takes it back, and the worker has been asked to leave */
    load(f, &f->b, FACT_SLOT, fact_key_slot(0), &fact);
    from = 0;
    open_map(&writer, RENDER_SLOTS_PAIRS);
    assert_false(render_slots(f->core, &from, &writer));
    assert_has(json_of(&writer), "\"state\":\"releasing\",\"why\":null,\"experiment\":\"e0e0e0e000000001\",\"trial\":3,");
}

static void what_is_on_a_node_is_told_slot_by_slot(void **state)
{
    struct fixture *f = *state;
    attempt_id id = make_attempt_id(0, 3, 2, 5, f->b.id);
    struct fact_slot fact = {.state = LEASE_LEASED, .attempt = id, .since_s = 1700000000};
    load(f, &f->b, FACT_SLOT, fact_key_slot(0), &fact);
    start(f);
    struct pack_writer writer;
    open_map(&writer, RENDER_OWNER_PAIRS);
    render_owner(f->core, f->b.id, &writer);
    const char *text = json_of(&writer);
    assert_has(text, "\"name\":\"b\",\"label\":\"b\",\"state\":\"dead\",\"drained\":false,\"policy\":null,\"slots\":[{\"index\":0,\"state\":\"leased\",\"why\":null,"
                     "\"since_s\":1700000000,\"until_s\":null,\"experiment\":\"e0e0e0e000000001\",\"name\":null,\"trial\":3,"
                     "\"attempt\":2,\"user\":null,\"submitter\":null}");
    fact = (struct fact_slot){.state = LEASE_WITHHELD, .withheld = true, .withheld_s = 60, .since_s = 1700000000};
    load(f, &f->b, FACT_SLOT, fact_key_slot(0), &fact);
    open_map(&writer, RENDER_OWNER_PAIRS);
    render_owner(f->core, f->b.id, &writer);
    assert_has(json_of(&writer), "\"state\":\"withheld\",\"why\":null,\"since_s\":1700000000,\"until_s\":1700000060,\"experiment\":null,\"name\":null,"
                                 "\"trial\":null,\"attempt\":null,\"user\":null,\"submitter\":null}");
    struct fact_policy policy = {.hours_count = 1, .hours = {{31, 540, 1080}}, .load_percent = 50, .back_after_s = 600,
                                 .why = FACT_POLICY_LOAD, .since_s = 1700000000, .slots = 1};
    load(f, &f->b, FACT_POLICY, fact_key_empty(), &policy);
    open_map(&writer, RENDER_OWNER_PAIRS);
    render_owner(f->core, f->b.id, &writer);
    text = json_of(&writer);
    assert_has(text, "\"policy\":{\"hours\":\"9-18 mon-fri\",\"load_percent\":50,\"activity\":false,\"back_after_s\":600,\"why\":\"load\","
                     "\"since_s\":1700000000,\"until_s\":null}");
    assert_has(text, "\"state\":\"withheld\",\"why\":\"load\",");
    policy = (struct fact_policy){.hours_count = 0}; /* it has ended */
    load(f, &f->b, FACT_POLICY, fact_key_empty(), &policy);
    fact = (struct fact_slot){.state = LEASE_WITHHELD, .withheld = true, .withheld_s = 60}; /* of a node of an older version */
    load(f, &f->b, FACT_SLOT, fact_key_slot(0), &fact);
    open_map(&writer, RENDER_OWNER_PAIRS);
    render_owner(f->core, f->b.id, &writer);
    assert_has(json_of(&writer), "\"policy\":null,\"slots\":[{\"index\":0,\"state\":\"withheld\",\"why\":null,\"since_s\":null,\"until_s\":null,");
}

/* The slots of a node that is away may come back; those of one that has left do not. */
static void what_all_nodes_together_cannot_hold_is_said(void **state)
{
    struct fixture *f = *state;
    struct config config;
    make_config(&config, 1, 0);
    config.slots_per_trial = config.max_slots = 4;
    config.min_slots = 3;
    load_configured(f, 0, &config);
    config.min_slots = 4;
    load_configured(f, 1, &config);
    config.slots_per_trial = config.max_slots = config.min_slots = 1;
    config.slot_kind = CONFIG_SLOT_CUDA;
    load_configured(f, 2, &config);
    start(f);
    assert_has(show(f, 0), "\"slots_per_trial\":4,\"replicas\":2,\"trouble\":null,\"halted\":false,\"lacks\":null,");
    assert_has(show(f, 1), "\"lacks\":{\"slots\":4,\"kind\":\"any\",\"present\":3},");
    assert_has(show(f, 2), "\"lacks\":{\"slots\":1,\"kind\":\"cuda\",\"present\":0},");
    struct fact_node gone = make_node(&f->b, 1);
    gone.left = true;
    load(f, &f->b, FACT_NODE, fact_key_empty(), &gone);
    assert_has(show(f, 0), "\"lacks\":{\"slots\":3,\"kind\":\"any\",\"present\":2},");
}

/* Only nodes that may get the work are listed: the second node of the mesh is not alive here. */
static void which_nodes_have_the_program_is_shown(void **state)
{
    struct fixture *f = *state;
    struct config config;
    struct fact_programs programs = {.count = 2, .items = {{"python3", true, "3.11.2", "2.6.0"}, {"train", false, "", ""}}};
    make_config(&config, 1, 0);
    (void)bytes_copy_text(config.entrypoint, sizeof config.entrypoint, "python3 x.py");
    load_configured(f, 0, &config);
    (void)bytes_copy_text(config.entrypoint, sizeof config.entrypoint, "train");
    load_configured(f, 1, &config);
    (void)bytes_copy_text(config.entrypoint, sizeof config.entrypoint, "./train");
    load_configured(f, 2, &config);
    start(f);
    assert_has(show(f, 0), "\"program\":{\"name\":\"python3\",\"nodes\":[{\"node\":");
    assert_has(show(f, 0), "\"name\":\"a\",\"has\":null,\"version\":\"\",\"torch\":\"\"}]}");
    load(f, &f->a, FACT_PROGRAMS, fact_key_empty(), &programs);
    load(f, &f->b, FACT_PROGRAMS, fact_key_empty(), &programs);
    assert_has(show(f, 0), "\"name\":\"a\",\"has\":true,\"version\":\"3.11.2\",\"torch\":\"2.6.0\"}]}");
    assert_has(show(f, 1), "\"name\":\"a\",\"has\":false,\"version\":\"\",\"torch\":\"\"}]}");
    assert_has(show(f, 2), "\"program\":null,");
}

static void an_experiment_is_shown_before_anything_runs(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 2, 5);
    const char *text = show(f, 0);
    assert_has(text, "\"id\":\"e0e0e0e000000001\",\"name\":\"exp\",\"state\":\"queued\",\"coordinator_label\":null,\"coordinator\":null,"
                     "\"coordinator_name\":null,\"term\":null,\"best\":null,\"submitted_s\":1600000000,\"user\":\"ada\",\"labels\":{},\"description\":null,"
                     "\"archived\":false,\"pinned\":false,\"priority\":42,\"counts\":"
                     "{\"total\":2,\"queued\":2,\"paused\":0,\"cancelled\":0,\"running\":0,\"completed\":0,\"failed\":0,\"stopped\":0},\"metric\":\"accuracy\","
                     "\"smaller_is_better\":false,\"slots_per_trial\":1,\"replicas\":2,\"trouble\":null,\"halted\":false,"
                     "\"lacks\":null,\"program\":null,"
                     "\"waiting\":[{\"first\":0,\"last\":1,\"count\":2,\"reason\":\"no node coordinates the experiment yet; the nodes "
                     "choose one within seconds\"}],\"trials\":[{\"index\":0,\"state\":\"queued\","
                     "\"attempt\":null,\"generation\":null,\"step\":null,\"started_s\":null,\"ended_s\":null,\"before_s\":0,\"hyperparameters\":{\"learning_rate\":0.");
    assert_has(text, "},\"metrics\":{},\"slots\":[],\"checkpoint\":null,\"restarts\":0,\"tail\":null,\"reason\":null},"
                     "{\"index\":1,");
}

static void what_users_note_is_shown_with_the_experiment(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 2, 5);
    struct fact_annotation label = {.lamport = 1, .is_set = true, .value = "low"}, note = {.lamport = 1, .is_set = true, .value = "why"};
    load(f, &f->a, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_LABEL, "lr"), &label);
    load(f, &f->b, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_DESCRIPTION, ""), &note);
    load(f, &f->b, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_PINNED, ""), &note);
    assert_has(show(f, 0), "\"labels\":{\"lr\":\"low\"},\"description\":\"why\",\"archived\":false,\"pinned\":true,");
    load(f, &f->b, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_TRIAL_DESCRIPTION, "1"), &note);
    assert_has(show(f, 0), "{\"index\":0,\"state\":\"queued\",");
    assert_has(show(f, 0), "{\"index\":1,\"description\":\"why\",\"state\":\"queued\",");
}

static void nothing_is_queued_where_nothing_will_begin(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 3, 5);
    attempt_id runs = make_attempt_id(0, 1, 1, 1, f->b.id);
    const struct person *members[] = {&f->b};
    load_attempt(f, &runs, members, 1, 0);
    struct fact_control control = {.lamport = 1, .paused = true};
    load(f, &f->a, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &control);
    const char *text = show(f, 0);
    assert_has(text, "{\"total\":3,\"queued\":0,\"paused\":2,\"cancelled\":0,\"running\":1,");
    assert_has(text, "{\"index\":0,\"state\":\"paused\",");
    assert_has(text, "{\"index\":1,\"state\":\"running\","); /* until its workers have ended */
    assert_has(text, "{\"index\":2,\"state\":\"paused\",");
    control = (struct fact_control){.lamport = 2};
    load(f, &f->a, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &control);
    assert_has(show(f, 0), "{\"index\":2,\"state\":\"queued\",");
    control = (struct fact_control){.cancelled = true};
    load(f, &f->a, FACT_CONTROL, fact_key_cancel(make_experiment_id(0)), &control);
    load_verdict(f, &runs, &f->b, FACT_STOPPED, 0, 0.1, "");
    text = show(f, 0);
    assert_has(text, "{\"total\":3,\"queued\":0,\"paused\":0,\"cancelled\":3,\"running\":0,");
    assert_has(text, "{\"index\":1,\"state\":\"cancelled\",");
}

static void a_stopped_trial_is_stopping_until_its_workers_have_ended(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 3, 5);
    attempt_id runs = make_attempt_id(0, 1, 1, 1, f->b.id);
    const struct person *members[] = {&f->b};
    load_attempt(f, &runs, members, 1, 0);
    const struct fact_stop stop = {.lamport = 1, .stopped = true};
    load(f, &f->a, FACT_STOP, fact_key_trial(make_experiment_id(0), 0), &stop);
    load(f, &f->a, FACT_STOP, fact_key_trial(make_experiment_id(0), 1), &stop);
    const char *text = show(f, 0);
    assert_has(text, "{\"total\":3,\"queued\":1,\"paused\":0,\"cancelled\":0,\"running\":1,\"completed\":0,\"failed\":0,\"stopped\":1}");
    assert_has(text, "{\"index\":0,\"state\":\"stopped\",\"attempt\":null,");
    assert_has(text, "{\"index\":1,\"state\":\"stopping\",\"attempt\":1,");
    assert_has(text, "{\"index\":2,\"state\":\"queued\",");
    load_verdict(f, &runs, &f->b, FACT_STOPPED, 30, 0.75, "the trial is stopped");
    text = show(f, 0);
    assert_has(text, "{\"index\":1,\"state\":\"stopped\",\"attempt\":1,");
    assert_has(text, "\"reason\":\"the trial is stopped\"");
    assert_has(text, "\"best\":{\"trial\":1,");
}

static void the_failure_of_which_a_trial_fails_is_no_restart(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1, 5);
    load_experiment(f, 1, 1, 0);
    struct fact_worker worker = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .exit_code = 3, .generation = 1};
    const struct person *hosts[] = {&f->a, &f->b, &f->c}; /* on three nodes: that is enough, though five restarts are allowed */
    for (uint32_t i = 0; i < 3; i++) {
        attempt_id id = make_attempt_id(0, 0, i + 1, 1, f->b.id);
        load_attempt(f, &id, &hosts[i], 1, 0);
        load_worker(f, &id, hosts[i], 0, worker);
        load_verdict(f, &id, &f->b, FACT_FAILED, 0, 0.1, "a worker failed");
        assert_has(show(f, 0), i < 2 ? "\"state\":\"queued\"" : "\"state\":\"failed\"");
        assert_has(show(f, 0), i == 0 ? "\"restarts\":1," : "\"restarts\":2,");
    }
    attempt_id only = make_attempt_id(1, 0, 1, 1, f->b.id);
    load_attempt(f, &only, &hosts[1], 1, 0);
    load_worker(f, &only, hosts[1], 0, worker);
    load_verdict(f, &only, &f->b, FACT_FAILED, 0, 0.1, "a worker failed");
    assert_has(show(f, 1), "\"restarts\":0,");
    assert_has(show(f, 1), "\"reason\":\"a worker failed: rank 0 ended with status 3\",\"exit_code\":3}");
    load_experiment(f, 2, 1, 5); /* one failure, and then it takes three hosts down: of that it fails */
    for (uint32_t i = 0; i < 4; i++) {
        attempt_id id = make_attempt_id(2, 0, i + 1, 1, f->b.id);
        struct fact_death death = {.node = hosts[i % 3]->id};
        load_attempt(f, &id, &hosts[i % 3], 1, 0);
        if (i == 0) {
            load_worker(f, &id, hosts[i], 0, worker);
        } else {
            load(f, &f->b, FACT_DEATH, fact_key_verdict(&id), &death);
        }
        load_verdict(f, &id, &f->b, i == 0 ? FACT_FAILED : FACT_LOST, 0, 0.1, "");
    }
    assert_has(show(f, 2), "\"state\":\"failed\"");
    assert_has(show(f, 2), "\"restarts\":1,");
}

static void a_failed_attempt_leaves_its_last_lines(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1, 5);
    attempt_id first = make_attempt_id(0, 0, 1, 1, f->b.id), second = make_attempt_id(0, 0, 2, 1, f->b.id);
    const struct person *members[] = {&f->b, &f->c};
    struct fact_worker worker = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .exit_code = 3, .generation = 1};
    bytes_copy_text(worker.tail, sizeof worker.tail, "no such file: x\n");
    load_attempt(f, &first, members, 2, 0);
    load_worker(f, &first, &f->c, 1, worker);
    load_verdict(f, &first, &f->b, FACT_FAILED, 0, 0.1, "a worker failed");
    const char *text = show(f, 0);
    assert_has(text, "\"state\":\"queued\",\"attempt\":1,\"generation\":null,\"step\":0,");
    assert_has(text, "\"restarts\":1,\"tail\":\"no such file: x\\n\",\"tail_attempt\":1,\"reason\":\"a worker failed: rank 1 ended with status 3\"");
    assert_has(text, "\"slots\":[],");

    /* The next one runs: its numbers are shown, and the reason of the restart still. */
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_worker runs = {.state = FACT_WORKER_RUNNING, .generation = 1, .step = 40, .metrics = metrics};
    runs.metrics_bytes = make_metrics(metrics, 0.5);
    load_attempt(f, &second, members, 2, 20);
    load_worker(f, &second, &f->b, 0, runs);
    text = show(f, 0);
    assert_has(text, "\"state\":\"running\",\"attempt\":2,\"generation\":1,\"step\":40,");
    assert_has(text, "\"metrics\":{\"validation\":{\"accuracy\":0.5}},\"slots\":[{\"node\":");
    assert_has(text, "\"node_name\":\"b\",\"index\":0},{\"node\":");
    assert_has(text, "\"tail\":\"no such file: x\\n\",\"tail_attempt\":1,\"reason\":null,\"attempts\":[{\"attempt\":1,\"coordinator_name\":\"b\","
                     "\"state\":\"failed\",\"reason\":\"a worker failed: rank 1 ended with status 3\",\"step\":0,");
    assert_has(text, "{\"attempt\":2,\"coordinator_name\":\"b\",\"state\":\"running\",\"reason\":null,\"step\":40,");

    /* Completed twice, as after a merge: the lower one is the trial's result, both are listed. */
    attempt_id third = make_attempt_id(0, 0, 3, 2, f->c.id);
    load_verdict(f, &second, &f->b, FACT_COMPLETED, 100, 0.75, "every rank is done");
    load_verdict(f, &third, &f->c, FACT_COMPLETED, 100, 0.875, "every rank is done");
    text = show(f, 0);
    assert_has(text, "\"state\":\"completed\",\"attempt\":2,");
    assert_has(text, "\"best\":{\"trial\":0,\"metric\":\"accuracy\",\"value\":0.75}");
    assert_has(text, "\"step\":100,\"metrics\":{\"validation\":{\"accuracy\":0.875}},\"coordinator_label\":\"c\"}]");
    assert_has(text, "\"tail\":null");
}

static void a_worker_that_could_not_begin_says_why(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1, 5);
    attempt_id first = make_attempt_id(0, 0, 1, 1, f->b.id);
    const struct person *members[] = {&f->b, &f->c};
    struct fact_worker worker = {.state = FACT_WORKER_ENDED, .reason = FACT_LOST};
    load_attempt(f, &first, members, 2, 0);
    load_worker(f, &first, &f->b, 0, worker);
    load_verdict(f, &first, &f->b, FACT_LOST, 0, 0.1, "a worker was lost");
    assert_has(show(f, 0), "\"tail\":null,\"reason\":\"a worker was lost\"");
    bytes_copy_text(worker.tail, sizeof worker.tail, "its code cannot be fetched");
    load_worker(f, &first, &f->c, 1, worker);
    assert_has(show(f, 0), "\"tail\":null,\"reason\":\"a worker was lost: on c its code cannot be fetched\"");

    /* One that ran says no more why it ended than its log does. */
    worker.started_s = 1;
    load_worker(f, &first, &f->c, 1, worker);
    assert_has(show(f, 0), "\"tail\":null,\"reason\":\"a worker was lost\"");
}

/* ---- one trial ----------------------------------------------------------------------------------------------------- */

static const char *trial(struct fixture *f, uint32_t number, uint32_t index)
{
    struct pack_writer writer;
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(number));
    open_map(&writer, RENDER_TRIAL_PAIRS);
    render_trial(f->core, experiment, experiment->config, index, &writer);
    return json_of(&writer);
}

static void the_times_of_a_trial_are_of_all_its_attempts(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1, 5);
    const struct person *members[] = {&f->b};
    attempt_id first = make_attempt_id(0, 0, 1, 1, f->b.id), second = make_attempt_id(0, 0, 2, 1, f->b.id);
    struct fact_worker ended = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .generation = 1, .started_s = 1000, .ended_s = 1070};
    struct fact_worker runs = {.state = FACT_WORKER_RUNNING, .generation = 1, .started_s = 1100, .step = 40};
    load_attempt(f, &first, members, 1, 0);
    load_worker(f, &first, &f->b, 0, ended);
    load_verdict(f, &first, &f->b, FACT_FAILED, 30, 0.1, "a worker failed");
    assert_has(show(f, 0), "\"started_s\":1000,\"ended_s\":1070,\"before_s\":0,");
    load_attempt(f, &second, members, 1, 30);
    load_worker(f, &second, &f->b, 0, runs);
    assert_has(show(f, 0), "\"started_s\":1100,\"ended_s\":null,\"before_s\":70,");
    const char *text = trial(f, 0, 0);
    assert_has(text, "\"attempts\":[{\"attempt\":1,\"state\":\"failed\",\"start_step\":0,\"step\":30,\"workers\":1,\"started_s\":1000,"
                     "\"ended_s\":1070,\"reason\":\"a worker failed: rank 0 ended with status 0\",\"nodes\":[\"b\"]},"
                     "{\"attempt\":2,\"state\":\"running\",\"start_step\":30,\"step\":40,\"workers\":1,\"started_s\":1100,"
                     "\"ended_s\":null,\"reason\":null,\"nodes\":[\"b\"]}]");
    assert_has(text, "\"why\":[{\"text\":\"attempt 2 runs on b since its start\",\"at_s\":1100}],");
    assert_has(text, "\"replicas\":2}");
}

static void why_a_trial_is_in_its_state_is_told(void **state)
{
    struct fixture *f = *state;
    const struct person *members[] = {&f->b};
    load_experiment(f, 0, 3, 0);
    assert_has(trial(f, 0, 0), "\"why\":[{\"text\":\"no node coordinates the experiment yet; the nodes choose one within seconds\",\"at_s\":null}]");
    attempt_id id = make_attempt_id(0, 0, 1, 1, f->b.id);
    struct fact_worker ended = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .exit_code = 3, .generation = 1, .started_s = 1000, .ended_s = 1070};
    load_attempt(f, &id, members, 1, 0);
    load_worker(f, &id, &f->b, 0, ended);
    load_verdict(f, &id, &f->b, FACT_FAILED, 30, 0.5, "a worker failed");
    assert_has(trial(f, 0, 0), "\"why\":[{\"text\":\"a worker failed: rank 0 ended with status 3\",\"at_s\":1070},"
                               "{\"text\":\"its program failed 1 time, and max_restarts is 0\",\"at_s\":null}]");
    const struct fact_stop stop = {.lamport = 1, .stopped = true};
    load(f, &f->a, FACT_STOP, fact_key_trial(make_experiment_id(0), 1), &stop);
    assert_has(trial(f, 0, 1), "\"why\":[{\"text\":\"a user stopped the trial before it began\",\"at_s\":null}]");
    struct fact_control control = {.lamport = 1, .paused = true};
    load(f, &f->a, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &control);
    assert_has(trial(f, 0, 2), "\"text\":\"the experiment is paused; shoal resume lets it go on\"");
}

static void attempts_that_never_began_are_accounted_for(void **state)
{
    struct fixture *f = *state;
    const struct person *members[] = {&f->b};
    load_experiment(f, 0, 1, 0);
    attempt_id ids[3];
    for (uint32_t i = 0; i < 3; i++) {
        ids[i] = make_attempt_id(0, 0, i + 1, 1, f->b.id);
        load_attempt(f, &ids[i], members, 1, 0);
    }
    struct fact_worker runs = {.state = FACT_WORKER_RUNNING, .generation = 1, .started_s = 1100};
    load_verdict(f, &ids[0], &f->b, FACT_LOST, 0, 0, "a slot was not confirmed");
    load_verdict(f, &ids[1], &f->b, FACT_LOST, 0, 0, "a slot was not confirmed");
    load_worker(f, &ids[2], &f->b, 0, runs);
    assert_has(trial(f, 0, 0), "\"why\":[{\"text\":\"attempt 3 runs on b since its start\",\"at_s\":1100},{\"text\":\"before it 2 attempts ended "
                               "without beginning the program, which counts as no failure: a slot was not confirmed\",\"at_s\":null}]");
    runs.started_s = 1050; /* one of them began, so it is listed as any */
    load_worker(f, &ids[1], &f->b, 0, runs);
    assert_has(trial(f, 0, 0), "before it 1 attempt ended without beginning the program");
}

/* Another metric than searcher.metric, in the group in which that one is looked up. */
static void a_trial_that_never_reports_the_metric_is_told_what_it_reports(void **state)
{
    struct fixture *f = *state;
    struct config config;
    const struct person *members[] = {&f->b};
    make_config(&config, 2, 0);
    bytes_copy_text(config.metric, sizeof config.metric, "loss");
    load_configured(f, 0, &config);
    attempt_id id = make_attempt_id(0, 0, 1, 1, f->b.id), mute = make_attempt_id(0, 1, 1, 1, f->b.id);
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_worker runs = {.state = FACT_WORKER_RUNNING, .generation = 1, .step = 40, .metrics = metrics};
    load_attempt(f, &id, members, 1, 0);
    load_worker(f, &id, &f->b, 0, runs);
    assert_lacks(trial(f, 0, 0), "searcher.metric"); /* it has reported nothing yet */
    runs.metrics_bytes = make_metrics(metrics, 0.5);
    runs.step = 41;
    load_worker(f, &id, &f->b, 0, runs);
    assert_has(trial(f, 0, 0), "{\"text\":\"searcher.metric is loss, and the trial has not reported it in group validation; it has reported: "
                               "validation/accuracy\",\"at_s\":null}");
    load_attempt(f, &mute, members, 1, 0);
    struct fact_verdict done = {.reason = FACT_COMPLETED, .step = 10};
    load(f, &f->b, FACT_VERDICT, fact_key_verdict(&mute), &done);
    assert_has(trial(f, 0, 1), "has not reported it in group validation, nor any other metric; so it cannot be the best trial\"");
}

static void an_early_stop_is_told_in_one_sentence(void **state)
{
    (void)state;
    static const struct { struct why_decision stop; const char *said; } rows[] = {
        {{FACT_STOPS, 1, 859, 0.81, 5, 9, 2}, "stopped at rung 1 (step 859): 0.81, 5th of 9, 2 go on"},
        {{FACT_STOPS, 0, 100, 0.123456, 2, 3, 1}, "stopped at rung 0 (step 100): 0.1235, 2nd of 3, 1 goes on"},
        {{FACT_STOPS, 2, 100, 12, 11, 21, 3}, "stopped at rung 2 (step 100): 12, 11th of 21, 3 go on"},
        {{FACT_STOPS, 2, 100, 12, 23, 91, 3}, "stopped at rung 2 (step 100): 12, 23rd of 91, 3 go on"},
        {{FACT_GOES_ON, 0, 15, 0.5, 1, 3, 1}, "went on at rung 0 (step 15): 0.5, 1st of 3, 1 goes on"},
        {{FACT_TOPS_OUT, 2, 90, 0.5, 1, 2, 1}, "reached its whole length at rung 2 (step 90): 0.5, 1st of 2"},
        {{FACT_STOPS, 1, 30, NAN, 1, 4, 1}, "stopped at rung 1 (step 30): its metric was not a number"},
        {{FACT_STOPS, 2, 100, 12, 111, 200, 3}, "stopped at rung 2 (step 100): 12, 111th of 200, 3 go on"},
        {{FACT_PAUSES, 1, 30, 0.5, 3, 7, 1}, "paused at rung 1 (step 30): 0.5, 3rd of 7, 1 goes on"},
        {{FACT_PAUSES, 0, 30, 0.5, 1, 2, 0}, "paused at rung 0 (step 30): 0.5, 1st of 2, 0 go on"},
        {{FACT_PROMOTES, 1, 30, 0.5, 2, 8, 2}, "promoted from rung 1 (step 30): 0.5, 2nd of 8, 2 go on"},
        {{FACT_CLOSES, 1, 30, 0.5, 3, 8, 2}, "paused for good at rung 1 (step 30): 0.5, 3rd of 8, 2 go on"},
        {{FACT_ENDS, 1, 0, NAN, 1, 8, 2}, "its search goes on without it: it was over before another report (rung 1)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char said[WHY_DECISION_BYTES];
        why_decision_text(&rows[i].stop, said);
        assert_string_equal(said, rows[i].said);
    }
}

static void a_curve_has_what_the_node_has_seen(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 3, 5);
    const struct person *members[] = {&f->b};
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(0));
    attempt_id first = make_attempt_id(0, 1, 1, 1, f->b.id), second = make_attempt_id(0, 1, 2, 1, f->b.id);
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_worker runs = {.state = FACT_WORKER_RUNNING, .generation = 1, .metrics = metrics};
    struct curves *curves = curves_new();
    static const double values[] = {0.25, 0.75, 0.5};
    load_attempt(f, &first, members, 1, 0);
    for (uint64_t i = 0; i < 3; i++) {
        runs.step = 10 * (i + 1);
        runs.metrics_bytes = make_metrics(metrics, values[i]);
        load_worker(f, &first, &f->b, 0, runs);
        curves_note(curves, f->core, experiment, 2000 * i);
        curves_note(curves, f->core, experiment, 2000 * i + 500); /* nothing is new */
    }
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_CURVES_PAIRS);
    assert_false(render_curves(curves, experiment, &from, &writer));
    assert_string_equal(json_of(&writer), "{\"curves\":[{\"index\":1,\"best\":0.75,\"best_step\":20,\"rate\":5.0,\"steps\":[10,20,30],"
                                          "\"values\":[0.25,0.75,0.5]}]}");
    load_verdict(f, &first, &f->b, FACT_LOST, 30, 0.5, "a node was lost"); /* the next attempt begins with the checkpoint of step 10 */
    load_attempt(f, &second, members, 1, 10);
    curves_tick(curves, f->core, 9000);
    const struct curve *curve = curves_find(curves, make_experiment_id(0), 1);
    assert_non_null(curve);
    assert_true(curve->count == 1 && curve->points[0].step == 10 && curve->best.step == 10);
    curves_free(curves);
}

static void load_manifest(struct fixture *f, const attempt_id *id, uint64_t at_step, const double *metric)
{
    struct fact_manifest manifest = {.blob = {{7}}, .bytes = 9, .holder_count = 1, .holders = {f->b.id}, .durable = true,
                                     .has_metric = metric != NULL, .metric = metric != NULL ? *metric : 0};
    load(f, &f->b, FACT_MANIFEST, fact_key_manifest(id, at_step), &manifest);
}

static void load_restored(struct fixture *f, const attempt_id *id, uint64_t start_step)
{
    struct fact_attempt fact = {.member_count = 1, .start_step = start_step, .checkpoint = {{7}}};
    fact.members[0] = (struct fact_assignment){f->b.id, 0};
    load(f, &f->b, FACT_ATTEMPT, fact_key_attempt(id), &fact);
    load_worker(f, id, &f->b, 0, (struct fact_worker){.state = FACT_WORKER_ENDED, .step = start_step});
}

static void load_done(struct fixture *f, const attempt_id *id, uint64_t at_step)
{
    struct fact_verdict fact = {.reason = FACT_COMPLETED, .step = at_step, .why = "every rank is done"};
    load(f, &f->b, FACT_VERDICT, fact_key_verdict(id), &fact);
}

/* The host died between the last checkpoint and the end of the program: the next attempt finds nothing left to do. */
static void an_attempt_that_begins_at_the_last_step_has_the_metrics_of_who_reached_it(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 3, 5);
    const struct person *members[] = {&f->b};
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    for (uint32_t trial = 0; trial < 3; trial++) {
        attempt_id first = make_attempt_id(0, trial, 1, 1, f->b.id), second = make_attempt_id(0, trial, 2, 1, f->b.id);
        attempt_id third = make_attempt_id(0, trial, 3, 1, f->b.id);
        /* Trial 0 said all; the last report of trial 1 was lost with the host; trial 2 had not reached the step that the
         * next attempt began from in its record, and its checkpoint tells of no metric. */
        struct fact_worker worker = {.state = FACT_WORKER_RUNNING, .step = trial == 0 ? 100 : 90, .metrics = metrics};
        worker.metrics_bytes = make_metrics(metrics, 0.5);
        double saved = 0.75;
        load_attempt(f, &first, members, 1, 0);
        load_worker(f, &first, &f->b, 0, worker);
        load_manifest(f, &first, 100, trial == 1 ? &saved : NULL);
        load_verdict(f, &first, &f->b, FACT_LOST, worker.step, 0.5, "its node was lost");
        load_restored(f, &second, 100); /* began, saved the same again, and was lost too */
        load_manifest(f, &second, 100, NULL);
        load_restored(f, &third, 100);
        assert_has(show(f, 0), "\"metrics\":{");
        load_done(f, &third, 100);
    }
    const char *text = show(f, 0);
    assert_has(text, "{\"index\":0,\"state\":\"completed\",\"attempt\":3,\"generation\":0,\"step\":100,");
    assert_has(text, "\"metrics\":{\"validation\":{\"accuracy\":0.5}},\"slots\":[");
    assert_has(text, "\"metrics\":{\"validation\":{\"accuracy\":0.75}},\"slots\":[");
    assert_has(text, "\"metrics\":{},\"slots\":[");
    assert_has(text, "\"best\":{\"trial\":1,\"metric\":\"accuracy\",\"value\":0.75}");
}

static void metrics_that_are_no_map_are_not_passed_on(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1, 5);
    attempt_id id = make_attempt_id(0, 0, 1, 1, f->b.id);
    const struct person *members[] = {&f->b};
    static const uint8_t bad[][6] = {{0x81, 0xa1, 'g', 0x01}, {0x82, 0xa1, 'g', 0x80}, {0xc1}, {0x81, 0xa1, 'g', 0x81, 0xa1, 'n'}};
    load_attempt(f, &id, members, 1, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fact_worker worker = {.state = FACT_WORKER_RUNNING, .metrics = bad[i], .metrics_bytes = sizeof bad[i]};
        load_worker(f, &id, &f->b, 0, worker);
        assert_has(show(f, 0), "\"metrics\":{},");
    }
}

static void checkpoints_are_listed_newest_first(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 2, 5);
    attempt_id id = make_attempt_id(0, 1, 1, 1, f->b.id);
    struct fact_manifest fact = {.bytes = 77, .holder_count = 2, .holders = {f->b.id, f->c.id}, .durable = true};
    load(f, &f->b, FACT_MANIFEST, fact_key_manifest(&id, 10), &fact);
    fact.holder_count = 1;
    fact.durable = false;
    load(f, &f->b, FACT_MANIFEST, fact_key_manifest(&id, 20), &fact);
    assert_has(show(f, 0), "\"checkpoint\":{\"step\":20,\"bytes\":77,\"durable\":false,\"holders\":[\"b\"]}");
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(0));
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_CHECKPOINTS_PAIRS);
    assert_false(render_checkpoints(f->core, experiment, RENDER_ALL_TRIALS, &from, &writer));
    const char *text = json_of(&writer);
    assert_has(text, "{\"checkpoints\":[{\"trial\":1,\"step\":20,\"attempt\":1,\"bytes\":77,\"durable\":false,\"holders\":[{\"node\":");
    assert_has(text, "{\"trial\":1,\"step\":10,");
    from = 0;
    open_map(&writer, RENDER_CHECKPOINTS_PAIRS);
    assert_false(render_checkpoints(f->core, experiment, 0, &from, &writer));
    assert_string_equal(json_of(&writer), "{\"checkpoints\":[]}");
    const char *states[] = {"ok"};
    pack_writer_init(&writer, frame, sizeof frame);
    render_checkpoint(f->core, 1, experiment->trials[1]->manifests, 0, states, &writer);
    assert_has(json_of(&writer), "\"name\":\"b\",\"state\":\"ok\"}]");
}

/* A document in parts: joined, they are the whole, and no part exceeds its frame. */
static void a_checkpoint_that_a_program_left_is_listed_with_its_name(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 2, 5);
    attempt_id id = make_attempt_id(0, 1, 1, 1, f->b.id);
    struct fact_output fact = {.saved = {.name = "step_300.pt", .bytes = 77, .step = 300}, .bytes = 99, .files = 2, .generation = 1,
                               .sequence = 1, .holder_count = 1, .holders = {f->a.id}};
    load(f, &f->b, FACT_OUTPUT, fact_key_output(&id, 0, 0), &fact);
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(0));
    struct pack_writer writer;
    uint32_t from = 0;
    open_map(&writer, RENDER_CHECKPOINTS_PAIRS);
    assert_false(render_checkpoints(f->core, experiment, RENDER_ALL_TRIALS, &from, &writer));
    assert_has(json_of(&writer), "{\"checkpoints\":[{\"trial\":1,\"step\":300,\"attempt\":1,\"bytes\":77,\"durable\":false,"
                                 "\"holders\":[{\"node\":");
    assert_has(json_of(&writer), "\"name\":\"a\"}],\"path\":\"step_300.pt\"}");
    fact.saved.step = 0;
    fact.sequence = 2;
    load(f, &f->b, FACT_OUTPUT, fact_key_output(&id, 0, 1), &fact);
    from = 0;
    open_map(&writer, RENDER_CHECKPOINTS_PAIRS);
    assert_false(render_checkpoints(f->core, experiment, 1, &from, &writer));
    assert_has(json_of(&writer), "[{\"trial\":1,\"step\":null,");
}

static void long_lists_come_in_parts(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1000, 5);
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(0));
    uint32_t from = 0, parts = 0, rows = 0;
    bool more = true;
    while (more) {
        struct pack_writer writer;
        pack_writer_init(&writer, frame, RENDER_BYTES_MIN);
        pack_map(&writer, RENDER_SHOW_PAIRS + 1);
        more = render_show(f->core, experiment, experiment->config, &from, &writer);
        pack_text(&writer, "more");
        pack_bool(&writer, more);
        const char *text = json_of(&writer);
        for (const char *at = text; (at = strstr(at, "{\"index\":")) != NULL; at++) {
            char expected[64];
            format_text(expected, sizeof expected, "{\"index\":%u,", rows++);
            assert_memory_equal(at, expected, strlen(expected));
        }
        parts++;
        assert_true(parts < 100);
    }
    assert_int_equal(rows, 1000);
    assert_int_equal(from, 1000);
    assert_true(parts > 1);

    for (uint32_t i = 1; i < 40; i++) {
        load_experiment(f, i, 1, 5);
    }
    for (from = 0, rows = 0, more = true; more;) {
        struct pack_writer writer;
        pack_writer_init(&writer, frame, 2000);
        pack_map(&writer, RENDER_LS_PAIRS);
        more = render_ls(f->core, &from, &writer);
        for (const char *at = json_of(&writer); (at = strstr(at, "\"submitted_s\"")) != NULL; at++) {
            rows++;
        }
    }
    assert_int_equal(rows, 40);

    /* No room for one row: it says so instead of going round for ever. */
    struct pack_writer writer;
    from = 0;
    pack_writer_init(&writer, frame, 300);
    (void)render_ls(f->core, &from, &writer);
    assert_true(writer.failed);
    assert_int_equal(from, 0);
}

/* The indices of a page, with commas, and how many match. */
static const char *page_of(struct fixture *f, const struct view_experiment *experiment, struct render_wish wish)
{
    static char text[128];
    struct render_chooser *chooser = render_chooser_new(experiment, &wish);
    assert_non_null(chooser);
    while (render_chooser_step(chooser, f->core, experiment, experiment->config)) {
    }
    struct render_choice choice = *render_chooser_choice(chooser);
    const char *unknown = render_chooser_unknown(chooser);
    size_t used = 0;
    for (uint32_t i = 0; i < choice.count; i++) {
        used += (size_t)format_text(text + used, sizeof text - used, "%u,", choice.trials[i]);
    }
    format_text(text + used, sizeof text - used, "of %u%s%s", choice.matching, unknown != NULL ? " without " : "",
                unknown != NULL ? unknown : "");
    render_chooser_free(chooser);
    return text;
}

static void a_page_has_the_wanted_trials_in_the_wanted_order(void **state)
{
    struct fixture *f = *state;
    static const double accuracies[] = {0.5, 0.75, NAN, 0.25};
    load_experiment(f, 0, 6, 5);
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(0));
    const struct person *members[] = {&f->b};
    for (uint32_t trial = 0; trial < 4; trial++) { /* trials 4 and 5 have not begun */
        attempt_id id = make_attempt_id(0, trial, 1, 1, f->b.id);
        load_attempt(f, &id, members, 1, 0);
        load_verdict(f, &id, &f->b, FACT_COMPLETED, 10 * (4 - trial), accuracies[trial], "");
    }
    assert_string_equal(page_of(f, experiment, (struct render_wish){0}), "0,1,2,3,4,5,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.descending = true}), "5,4,3,2,1,0,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.from = 2, .limit = 3}), "2,3,4,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.from = 6, .limit = 3}), "of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.from = UINT32_MAX, .limit = UINT32_MAX}), "of 6");
    /* Not a number, and no number, are last in either order. */
    assert_string_equal(page_of(f, experiment, (struct render_wish){.sort = RENDER_BY_METRIC}), "3,0,1,2,4,5,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.sort = RENDER_BY_METRIC, .descending = true}), "1,0,3,2,4,5,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.sort = RENDER_BY_METRIC, .descending = true, .limit = 1}), "1,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.sort = RENDER_BY_STEP}), "3,2,1,0,4,5,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.states = "completed"}), "0,1,2,3,of 4");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.states = "completed,queued", .from = 3, .limit = 2}), "3,4,of 6");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.states = "queued"}), "4,5,of 2");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.states = "complete,,x"}), "of 0");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.where = "metric>=0.5"}), "0,1,of 2");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.where = "step>10 and index!=0", .descending = true}), "2,1,of 2");
    struct render_wish wish;
    assert_true(render_sort_of("started_s", &wish) && wish.sort == RENDER_BY_START);
    assert_true(render_sort_of("hp.net.depth", &wish) && wish.sort == RENDER_BY_HYPERPARAMETER);
    assert_string_equal(wish.hyperparameter, "net.depth");
    assert_false(render_sort_of("", &wish));
    assert_false(render_sort_of("hp.", &wish));
}

/* A search of many trials: each order is that of a plain sort, and a step never takes long. */
static void trials_are_sorted_and_found_by_their_hyperparameters(void **state)
{
    struct fixture *f = *state;
    enum { TRIALS = 3000 };
    static double rates[TRIALS];
    load_experiment(f, 0, TRIALS, 5);
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(0));
    uint32_t below = 0;
    for (uint32_t i = 0; i < TRIALS; i++) {
        uint8_t bytes[1024];
        struct pack_writer values;
        pack_writer_init(&values, bytes, sizeof bytes);
        assert_int_equal(view_attempt_values(experiment->config, NULL, i, &values), 0);
        rates[i] = where_find(bytes, values.used_bytes, "learning_rate").number;
        below += rates[i] < 0.01;
    }
    assert_true(below > 0 && below < TRIALS);
    for (int descending = 0; descending < 2; descending++) {
        struct render_wish wish = {.descending = descending == 1, .where = "hp.learning_rate<0.01"};
        assert_true(render_sort_of("hp.learning_rate", &wish));
        struct render_chooser *chooser = render_chooser_new(experiment, &wish);
        uint32_t steps = 1;
        for (; render_chooser_step(chooser, f->core, experiment, experiment->config); steps++) {
        }
        assert_true(steps >= TRIALS / 16);
        const struct render_choice *choice = render_chooser_choice(chooser);
        assert_int_equal(choice->matching, below);
        for (uint32_t i = 0; i + 1 < choice->count; i++) {
            double one = rates[choice->trials[i]], two = rates[choice->trials[i + 1]];
            assert_true(descending ? one >= two : one <= two);
        }
        assert_null(render_chooser_unknown(chooser));
        render_chooser_free(chooser);
    }
    assert_string_equal(page_of(f, experiment, (struct render_wish){.where = "hp.rate<1"}), "of 0 without rate");
    assert_string_equal(page_of(f, experiment, (struct render_wish){.where = "hp.learning_rate>100 and index<3"}), "of 0");
}

static void conditions_are_read_and_compared(void **state)
{
    (void)state;
    static const char *const bad[] = {"hp.lr", "hp.lr<", "lr<1", "hp.<1", "hp.lr<small", "metric=x", "hp.lr<1 and", "hp.lr<1 and ",
                                      "<1", "hp.lr!1", "and", "hp.a=1 and hp.b"};
    struct where where;
    char error[WHERE_ERROR_BYTES];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (where_read(bad[i], &where, error)) {
            fail_msg("'%s' is read", bad[i]);
        }
        assert_non_null(strstr(error, "conditions are such as"));
    }
    assert_true(where_read("", &where, error) && where.count == 0);
    assert_true(where_read(" hp.opt.lr <= 1e-2 and  hp.net = 'a and b' and hp.bias!=true and trial==7", &where, error));
    assert_int_equal(where.count, 4);
    assert_string_equal(where.items[0].name, "opt.lr");
    assert_string_equal(where.items[1].text, "a and b");
    assert_int_equal(where.items[3].subject, WHERE_INDEX);
    assert_true(where_passes(&where.items[0], ((struct where_value){.kind = WHERE_NUMBER, .number = 0.01})));
    assert_false(where_passes(&where.items[0], ((struct where_value){.kind = WHERE_NUMBER, .number = NAN})));
    assert_false(where_passes(&where.items[0], ((struct where_value){.kind = WHERE_TEXT, .text = "0.001", .bytes = 5})));
    assert_true(where_passes(&where.items[1], ((struct where_value){.kind = WHERE_TEXT, .text = "a and b", .bytes = 7})));
    assert_true(where_passes(&where.items[2], ((struct where_value){.kind = WHERE_TEXT, .text = "false", .bytes = 5})));
    assert_true(where_passes(&where.items[2], ((struct where_value){.kind = WHERE_OTHER})));
    assert_false(where_passes(&where.items[2], ((struct where_value){.kind = WHERE_ABSENT})));

    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 3); /* {"a": {"b": -3, "c": "x"}, "a.d": true, "e": []} */
    pack_text(&writer, "a");
    pack_map(&writer, 2);
    pack_text(&writer, "b");
    pack_i64(&writer, -3);
    pack_text(&writer, "c");
    pack_text(&writer, "x");
    pack_text(&writer, "a.d");
    pack_bool(&writer, true);
    pack_text(&writer, "e");
    pack_array(&writer, 0);
    assert_true(where_find(bytes, writer.used_bytes, "a.b").number < -2.5);
    assert_int_equal(where_find(bytes, writer.used_bytes, "a.c").kind, WHERE_TEXT);
    assert_int_equal(where_find(bytes, writer.used_bytes, "a.d").bytes, 4);
    assert_int_equal(where_find(bytes, writer.used_bytes, "a").kind, WHERE_OTHER);
    assert_int_equal(where_find(bytes, writer.used_bytes, "e").kind, WHERE_OTHER);
    assert_int_equal(where_find(bytes, writer.used_bytes, "a.b.c").kind, WHERE_ABSENT);
    assert_int_equal(where_find(bytes, 3, "a.b").kind, WHERE_ABSENT);
    struct where_value small = {.kind = WHERE_TEXT, .text = "adam", .bytes = 4}, large = {.kind = WHERE_TEXT, .text = "sgd", .bytes = 3};
    assert_true(where_key(small) < where_key(large) && where_key(small) > 1e6);
    assert_true(isnan(where_key(((struct where_value){.kind = WHERE_OTHER}))));
}

static void the_coordinator_is_the_highest_living_claim(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1, 5);
    const struct view_experiment *experiment = view_find_experiment(&f->core->view, make_experiment_id(0));
    struct fact_claim claim = {.term = 3};
    node_id node;
    uint64_t term;
    load(f, &f->a, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
    assert_true(render_coordinator(f->core, experiment, &node, &term));
    assert_true(node_id_equal(node, f->a.id) && term == 3);
    claim.term = 4;
    load(f, &f->b, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
    assert_false(render_coordinator(f->core, experiment, &node, &term)); /* b was never heard of */
    assert_int_equal(term, 4);
    claim = (struct fact_claim){.term = 5, .released = true};
    load(f, &f->a, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &claim);
    assert_false(render_coordinator(f->core, experiment, &node, &term));
    struct pack_writer writer;
    open_map(&writer, RENDER_STATE_PAIRS);
    render_experiment_state(f->core, experiment, &writer);
    assert_string_equal(json_of(&writer), "{\"state\":\"queued\",\"trials\":{\"total\":1,\"queued\":1,\"paused\":0,"
                                          "\"cancelled\":0,\"running\":0,\"completed\":0,\"failed\":0,\"stopped\":0},\"best\":null,"
                                          "\"trouble\":null,\"halted\":false}");
}

static void status_adds_what_the_core_refused(void **state)
{
    struct fixture *f = *state;
    load_experiment(f, 0, 1, 5);
    start(f);
    struct message message = {.kind = MESSAGE_RECORDS};
    struct node_event event = {.kind = NODE_EVENT_MESSAGE, .now_ms = 1000};
    event.u.message.from = make_person(9).id;
    event.u.message.message = &message;
    step(f, &event);
    struct fact_drain drain = {.lamport = 1, .drained = true};
    load(f, &f->b, FACT_DRAIN, fact_key_node_id(f->core->options.self), &drain);
    struct render_status_extra extra = {.mesh_name = "lab", .version = "0.1.0", .address = "a.host:7400", .uptime_s = 5, .is_polite = true,
                                        .memory_bytes = 123, .handshakes = 2, .strangers = 1, .scrub_bytes = 9,
                                        .scrub_passes = 3, .scrub_damaged = 2, .scrub_restored = 1};
    struct pack_writer writer;
    open_map(&writer, RENDER_STATUS_PAIRS);
    render_status(f->core, &extra, &writer);
    const char *text = json_of(&writer);
    assert_has(text, ",\"name\":\"lab\"},\"node\":{\"id\":");
    assert_has(text, "\"name\":\"a\",\"state\":\"alive\",\"drained\":true},\"version\":\"0.1.0\",\"address\":\"a.host:7400\",\"addresses\":[\"a.host:7400\"],"
                     "\"uptime_s\":5,\"nodes\":3,\"nodes_alive\":1,\"nodes_drained\":1,\"slots\":2,\"slots_free\":2,\"experiments\":1,"
                     "\"experiments_live\":1,");
    assert_has(text, "\"memory_bytes\":123,\"polite\":true,\"tells_webhooks\":false,\"syncing\":true,\"disk_full\":false,\"memory_full\":false,\"refused\":{\"handshakes\":2,"
                     "\"strangers\":2,\"oversized\":0,");
    assert_has(text, "\"scrub\":{\"checked_bytes\":9,\"passes\":3,\"damaged\":2,\"restored\":1},\"twin\":null,\"was\":null");
    f->core->twin->life = 7;
    bytes_copy_text(f->core->twin->address, sizeof f->core->twin->address, "10.0.0.9:7410");
    extra.was = make_person(9).id;
    extra.was_address = "10.0.0.8:7410";
    open_map(&writer, RENDER_STATUS_PAIRS);
    render_status(f->core, &extra, &writer);
    text = json_of(&writer);
    assert_has(text, "\"twin\":{\"address\":\"10.0.0.9:7410\",\"yields\":true},\"was\":{\"id\":\"");
    assert_has(text, "\",\"address\":\"10.0.0.8:7410\"}");
}

static void blocked_ports_are_named_with_node_and_direction(void **state)
{
    struct fixture *f = *state;
    start(f);
    const struct render_blocked blocked[] = {
        {.node = f->b.id, .host = "10.0.0.2", .port = 7413, .since_s = 12},
        {.node = f->b.id, .host = "fe80::1", .port = 7500, .stalls = true},
    };
    struct pack_writer writer;
    open_map(&writer, RENDER_BLOCKED_PAIRS);
    render_blocked(f->core, blocked, 2, &writer);
    const char *text = json_of(&writer);
    assert_has(text, "\"name\":\"b\",\"host\":\"10.0.0.2\",\"port\":7413,\"stalls\":false,\"since_s\":12,"
                     "\"text\":\"port 7413/tcp of b (10.0.0.2) cannot be reached from a: ");
    assert_has(text, "\"stalls\":true,\"since_s\":0,\"text\":\"data between a and port 7500/tcp of b (fe80::1) stands still");
    open_map(&writer, RENDER_BLOCKED_PAIRS);
    render_blocked(f->core, blocked, 0, &writer);
    assert_has(json_of(&writer), "\"blocked\":[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_are_listed_with_their_states, setup, teardown),
        cmocka_unit_test_setup_teardown(who_speaks_no_version_of_ours_is_shown_so, setup, teardown),
        cmocka_unit_test_setup_teardown(the_evicted_are_listed_but_count_nowhere, setup, teardown),
        cmocka_unit_test_setup_teardown(invites_are_listed_with_their_states, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_show_whose_they_are, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_on_a_node_is_told_slot_by_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(what_all_nodes_together_cannot_hold_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(which_nodes_have_the_program_is_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(an_experiment_is_shown_before_anything_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(what_users_note_is_shown_with_the_experiment, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_queued_where_nothing_will_begin, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_trial_is_stopping_until_its_workers_have_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(the_failure_of_which_a_trial_fails_is_no_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_attempt_leaves_its_last_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_that_could_not_begin_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(an_attempt_that_begins_at_the_last_step_has_the_metrics_of_who_reached_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_times_of_a_trial_are_of_all_its_attempts, setup, teardown),
        cmocka_unit_test_setup_teardown(why_a_trial_is_in_its_state_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(attempts_that_never_began_are_accounted_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_trial_that_never_reports_the_metric_is_told_what_it_reports, setup, teardown),
        cmocka_unit_test(an_early_stop_is_told_in_one_sentence),
        cmocka_unit_test_setup_teardown(a_curve_has_what_the_node_has_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(metrics_that_are_no_map_are_not_passed_on, setup, teardown),
        cmocka_unit_test_setup_teardown(checkpoints_are_listed_newest_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_a_program_left_is_listed_with_its_name, setup, teardown),
        cmocka_unit_test_setup_teardown(long_lists_come_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_page_has_the_wanted_trials_in_the_wanted_order, setup, teardown),
        cmocka_unit_test_setup_teardown(trials_are_sorted_and_found_by_their_hyperparameters, setup, teardown),
        cmocka_unit_test_setup_teardown(conditions_are_read_and_compared, setup, teardown),
        cmocka_unit_test_setup_teardown(the_coordinator_is_the_highest_living_claim, setup, teardown),
        cmocka_unit_test_setup_teardown(status_adds_what_the_core_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(blocked_ports_are_named_with_node_and_direction, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
