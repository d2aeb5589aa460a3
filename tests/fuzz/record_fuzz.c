/* Records laid end to end, as they come from peers and disks: envelopes, keys and bodies of every kind, the table, and the
 * fold. What is taken must be the same fold in whatever order it comes. */
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "node/core/ground/state.h"
#include "node/core/view/view.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seed_records.h"

#define CORE_BYTES (8u << 20)
#define RECORDS_MAX 64

union fact {
    struct fact_member member;
    struct fact_node node;
    struct fact_invite invite;
    struct fact_token token;
    struct fact_secret secret;
    struct fact_policy policy;
    struct fact_webhook webhook;
    struct fact_delivery delivery;
    struct fact_usage usage;
    struct fact_model model;
    struct fact_slot slot;
    struct fact_experiment experiment, experiment_large;
    struct fact_control control;
    struct fact_claim claim;
    struct fact_attempt attempt, attempt_large;
    struct fact_generation generation_large;
    struct fact_worker worker;
    struct fact_verdict verdict;
    struct fact_manifest manifest, part;
    struct fact_output output;
    struct fact_stop stop;
    struct fact_result result;
    struct fact_search_log search_log;
    struct fact_search_stop search_stop;
    struct fact_search_pause search_pause;
    struct fact_annotation annotation;
};

/* Each kind's reader, and its packer on what was read. */
#define KINDS(X)                                                                                                         \
    X(FACT_MEMBER, member) X(FACT_NODE, node) X(FACT_INVITE, invite) X(FACT_TOKEN, token) X(FACT_SECRET, secret) X(FACT_POLICY, policy) X(FACT_WEBHOOK, webhook) X(FACT_DELIVERY, delivery) X(FACT_USAGE, usage) X(FACT_MODEL, model) X(FACT_SLOT, slot) X(FACT_EXPERIMENT, experiment)    \
    X(FACT_CONTROL, control) X(FACT_CLAIM, claim) X(FACT_ATTEMPT, attempt) X(FACT_WORKER, worker)                         \
    X(FACT_VERDICT, verdict) X(FACT_MANIFEST, manifest) X(FACT_PART, part) X(FACT_OUTPUT, output) X(FACT_EXPERIMENT_LARGE, experiment_large) \
    X(FACT_ATTEMPT_LARGE, attempt_large) X(FACT_GENERATION_LARGE, generation_large) X(FACT_STOP, stop)     \
    X(FACT_RESULT, result) X(FACT_SEARCH_LOG, search_log) X(FACT_SEARCH_STOP, search_stop) X(FACT_SEARCH_PAUSE, search_pause) X(FACT_ANNOTATION, annotation)

static int read_fact(const struct record *record, union fact *out)
{
    switch (record->kind) {
#define CASE(kind, name) \
    case kind:           \
        return fact_##name##_read(record, &out->name);
        KINDS(CASE)
#undef CASE
    default:
        return ERR_MALFORMED;
    }
}

static void pack_fact(struct pack_writer *writer, uint16_t kind, const union fact *fact)
{
    switch (kind) {
#define CASE(number, name)                       \
    case number:                                 \
        fact_##name##_pack(writer, &fact->name); \
        break;
        KINDS(CASE)
#undef CASE
    default:
        break;
    }
}

/* What was read is packed, read again and packed again to the same bytes. */
static void check_body(const struct record *record)
{
    static union fact fact, again;
    uint8_t first[RECORD_BODY_BYTES_MAX], second[RECORD_BODY_BYTES_MAX];
    if (read_fact(record, &fact) != 0) {
        return;
    }
    struct pack_writer writer, other;
    pack_writer_init(&writer, first, sizeof first);
    pack_fact(&writer, record->kind, &fact);
    CHECK(!writer.failed);
    struct record packed = *record;
    packed.body = first;
    packed.body_bytes = (uint16_t)writer.used_bytes;
    CHECK(read_fact(&packed, &again) == 0);
    pack_writer_init(&other, second, sizeof second);
    pack_fact(&other, record->kind, &again);
    CHECK(other.used_bytes == writer.used_bytes && memcmp(first, second, writer.used_bytes) == 0);
}

static void check_keys(const struct record *record)
{
    experiment_id experiment;
    attempt_id attempt;
    uint32_t number;
    uint64_t step;
    (void)fact_key_read_experiment(record, &experiment);
    if (fact_key_read_attempt(record, &attempt) == 0) {
        CHECK(attempt.trial < SEARCH_TRIALS_MAX && attempt.number > 0);
    }
    (void)fact_key_read_number(record, &number);
    (void)fact_key_read_step(record, &step);
    (void)fact_key_read_place(record, &number);
    (void)fact_key_read_slot(record, &number);
}

struct fold {
    void *memory;
    struct node_core *core;
    struct node_effects effects;
};

static struct node_core *fold_begin(struct fold *fold)
{
    if (fold->memory == NULL) {
        fold->memory = aligned_alloc(16, CORE_BYTES);
        fold->effects.items = calloc(NODE_EFFECTS_MAX, sizeof *fold->effects.items);
        fold->effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
        CHECK(fold->memory != NULL && fold->effects.items != NULL && fold->effects.bytes != NULL);
    }
    struct node_options options = {.self = make_person(0).id, .mesh = make_mesh(), .boot = 9ull << 32, .now_ms = 1000,
                                   .memory = fold->memory, .memory_bytes = CORE_BYTES};
    fold->core = node_core_init(&options);
    CHECK(fold->core != NULL);
    return fold->core;
}

static void fold_load(struct fold *fold, const uint8_t *bytes, size_t count)
{
    fold->effects.count = 0;
    fold->effects.used_bytes = 0;
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = bytes, .byte_count = (uint32_t)count};
    node_core_step(fold->core, &event, &fold->effects);
}

/* Everything that users are shown; returns its length, 0 if it is more than fits. */
static size_t fold_render(const struct node_core *core, uint8_t *out, size_t size)
{
    struct pack_writer writer;
    struct render_status_extra extra = {.mesh_name = "", .version = "", .address = ""};
    const struct view *view = &core->view;
    uint32_t from = 0;
    pack_writer_init(&writer, out, size);
    bool more = render_nodes(core, &from, &writer);
    from = 0;
    more |= render_slots(core, &from, &writer);
    from = 0;
    more |= render_ls(core, &from, &writer);
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        if (experiment->known && experiment->trial_count < 1000) {
            from = 0;
            more |= render_show(core, experiment, experiment->config, &from, &writer);
            from = 0;
            more |= render_checkpoints(core, experiment, RENDER_ALL_TRIALS, &from, &writer);
        }
    }
    render_status(core, &extra, &writer);
    return more || writer.failed ? 0 : writer.used_bytes;
}

static bool is_plain(const struct node_core *core)
{
    return core->counters.malformed == 0 && core->counters.equivocations == 0 && core->counters.full == 0 &&
           core->view.malformed_count == 0;
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static struct fold forwards, backwards;
    static uint8_t first[1u << 19], second[1u << 19];
    size_t starts[RECORDS_MAX], lengths[RECORDS_MAX], count = 0;
    for (size_t offset = 0; count < RECORDS_MAX && record_length(data + offset, size - offset, &lengths[count]) == 0; count++) {
        struct record record;
        starts[count] = offset;
        offset += lengths[count];
        CHECK(record_decode(data + starts[count], lengths[count], &record) == 0);
        check_keys(&record);
        check_body(&record);
    }
    const struct node_core *a = fold_begin(&forwards), *b = fold_begin(&backwards);
    for (size_t i = 0; i < count; i++) {
        fold_load(&forwards, data + starts[i], lengths[i]);
        fold_load(&backwards, data + starts[count - 1 - i], lengths[count - 1 - i]);
    }
    /* A writer that contradicts itself, or replaces what can be read by what cannot, is seen differently by those who heard
     * the one before the other; that is about itself only. */
    bool comparable = is_plain(a) && is_plain(b) && records_hash_equal(a->records.hash, b->records.hash);
    size_t bytes = fold_render(a, first, sizeof first);
    size_t other_bytes = fold_render(b, second, sizeof second);
    if (comparable && bytes > 0 && other_bytes > 0) {
        CHECK(bytes == other_bytes && memcmp(first, second, bytes) == 0);
    }
}

/* A body that ends in a list of `items` equal things, and one more of them than there may be. `shorter` has one less. */
static void seed_one_more(uint16_t kind, struct fact_key key, const union fact *full, const union fact *shorter, size_t items)
{
    uint8_t body[RECORD_BODY_BYTES_MAX], envelope[RECORD_ENVELOPE_BYTES_MAX];
    struct pack_writer writer, other;
    pack_writer_init(&other, body, sizeof body);
    pack_fact(&other, kind, shorter);
    pack_writer_init(&writer, body, sizeof body);
    pack_fact(&writer, kind, full);
    CHECK(!writer.failed && !other.failed);
    size_t count = writer.used_bytes, item_bytes = count - other.used_bytes;
    pack_raw(&writer, body + count - item_bytes, item_bytes);
    CHECK(!writer.failed);
    body[count - items * item_bytes - 1]++;
    struct record record = {.kind = kind, .writer = make_person(1).id, .version = {1ull << 32, 99}, .key = key.bytes,
                            .key_bytes = key.count, .body = body, .body_bytes = (uint16_t)writer.used_bytes};
    fuzz_seed(envelope, record_encode(&record, envelope, sizeof envelope));
}

static void seed_bounds(void)
{
    static union fact full, shorter;
    struct person person = make_person(1);
    full.node = make_node(&person, FACT_SLOTS_MAX);
    for (uint32_t i = 0; i < FACT_SLOTS_MAX; i++) {
        full.node.slots[i] = full.node.slots[0];
    }
    shorter = full;
    shorter.node.slot_count--;
    seed_one_more(FACT_NODE, fact_key_empty(), &full, &shorter, FACT_SLOTS_MAX);
}

void fuzz_seeds(void)
{
    seed_bounds();
    static struct made made[SEED_RECORDS_MAX];
    static uint8_t all[FUZZ_INPUT_BYTES_MAX];
    uint32_t count = seed_records_make(made);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        fuzz_seed(made[i].bytes, made[i].count);
        memcpy(all + used, made[i].bytes, made[i].count);
        used += made[i].count;
    }
    fuzz_seed(all, used);
}
