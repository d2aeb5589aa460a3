#include "tests/fuzz/seed_records.h"

#include <stdio.h>

#include "base/format.h"
#include "gossip/lease.h"

struct maker {
    struct made *out;
    uint32_t count;
};

static void say(struct maker *maker, node_id writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    make_record(&maker->out[maker->count], writer, 1ull << 32, maker->count + 1, kind, key, fact);
    maker->count++;
}

static void say_members(struct maker *maker, const struct person people[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        struct fact_member member = make_member(&people[i]);
        struct fact_node node = make_node(&people[i], 2);
        say(maker, people[0].id, FACT_MEMBER, fact_key_node_id(people[i].id), &member);
        say(maker, people[i].id, FACT_NODE, fact_key_empty(), &node);
    }
    struct fact_invite invite = {.expires_s = 2000000000};
    say(maker, people[0].id, FACT_INVITE, fact_key_public_key(people[1].public_key), &invite);
    struct fact_token token = {.expires_s = 2000000000, .read_only = true, .created_s = 1700000000, .name = "grafana"};
    say(maker, people[0].id, FACT_TOKEN, fact_key_public_key(people[1].public_key), &token);
    struct fact_policy policy = {.hours_count = 1, .hours = {{31, 540, 1080}}, .load_percent = 50, .activity = true,
                                 .back_after_s = 600, .why = FACT_POLICY_HOURS, .since_s = 1700000000, .until_s = 1700003600, .slots = 3};
    say(maker, people[0].id, FACT_POLICY, fact_key_empty(), &policy);
    static const uint8_t bytes[2 * FACT_SECRET_COPY_BYTES] = {1, 2, 3};
    struct fact_secret secret = {.lamport = 1, .set_s = 1700000000, .sealed = bytes, .sealed_bytes = 80, .copies = bytes, .copy_count = 2};
    say(maker, people[0].id, FACT_SECRET, fact_key_secret("API_KEY", 0), &secret);
    static const uint8_t hook[] = "\x82\xa3url\xa8http://a\xa2on\x91\xa6""failed";
    struct fact_webhook webhook = {.hook = hook, .hook_bytes = sizeof hook - 1, .created_s = 1700000000, .live = bytes, .live_count = 2};
    say(maker, people[0].id, FACT_WEBHOOK, fact_key_webhook(bytes), &webhook);
    struct fact_delivery delivery = {.state = FACT_DELIVERY_RETRYING, .tries = 1, .status = 503, .event = FACT_HOOK_TEST, .text = "refused"};
    say(maker, people[0].id, FACT_DELIVERY, fact_key_delivery((experiment_id){{0}}, bytes), &delivery);
    struct fact_usage usage = {.number = 20000, .row_count = 1, .rows = {{"ada", "project=vision", "cpu", 60000, 1000}}};
    say(maker, people[0].id, FACT_USAGE, fact_key_usage(FACT_USAGE_DAY, usage.number), &usage);
}

/* A model with two versions that claim one number, and an alias. */
static void say_model(struct maker *maker, const struct person people[2])
{
    static const uint8_t none[FACT_VERSION_BYTES] = {0};
    struct fact_model exists = {.lamport = 1, .name = "net", .number = 1700000000000};
    say(maker, people[0].id, FACT_MODEL, fact_key_model("net", FACT_MODEL_EXISTS, none, ""), &exists);
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t id[FACT_VERSION_BYTES] = {(uint8_t)(1 + i)};
        struct fact_model version = {.name = "net", .number = 1, .source = {.experiment = make_experiment_id(0), .trial = i, .source = "models:/m-1"}};
        say(maker, people[i].id, FACT_MODEL, fact_key_model("net", FACT_MODEL_VERSION, id, ""), &version);
    }
    struct fact_model alias = {.lamport = 1, .name = "net", .field = "champion", .number = 1, .target = {1}};
    say(maker, people[1].id, FACT_MODEL, fact_key_model("net", FACT_MODEL_ALIAS, none, "champion"), &alias);
}

static void say_experiment(struct maker *maker, const struct person people[2])
{
    static uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    experiment_id id = make_experiment_id(0);
    struct config config;
    make_config(&config, 3, 1);
    struct fact_experiment experiment = {.submitted_s = 1700000000, .code = {{1}}, .code_bytes = 1234, .config_text = {{2}}};
    experiment.config = packed;
    experiment.config_bytes = make_packed_config(&config, packed);
    say(maker, people[0].id, FACT_EXPERIMENT, fact_key_experiment(id), &experiment);
    static uint8_t packed_lean[CONFIG_PACKED_BYTES_MAX];
    struct config lean;
    config_make_lean(&config, &lean);
    experiment.config = packed_lean;
    experiment.config_bytes = make_packed_config(&lean, packed_lean);
    experiment.trial_count = 3;
    say(maker, people[0].id, FACT_EXPERIMENT_LARGE, fact_key_experiment(make_experiment_id(1)), &experiment);
    for (uint32_t i = 0; i < 2; i++) {
        struct fact_control control = {.lamport = 3 + i, .paused = i == 0};
        struct fact_claim claim = {.term = 4 + i, .released = i == 0};
        say(maker, people[i].id, FACT_CONTROL, fact_key_experiment(id), &control);
        struct fact_stop stop = {.lamport = 1 + i, .stopped = i == 0, .since = i};
        say(maker, people[i].id, FACT_CLAIM, fact_key_experiment(id), &claim);
        say(maker, people[i].id, FACT_STOP, fact_key_trial(id, i), &stop);
        const attempt_id attempt = make_attempt_id(0, i, 1, 4 + i, people[0].id);
        const struct fact_log_name name = {{(uint8_t)(7 + i)}};
        const struct fact_result result = {.step = 15, .length = 15, .metric = 0.5 + i};
        const struct fact_search_stop search_stop = {.number = 1, .rung = i, .writer = people[0].id, .log = name};
        const struct fact_search_pause search_pause = {
            .number = 1, .term = 4 + i, .coordinator = people[0].id, .rung = i, .writer = people[0].id, .log = name};
        const struct fact_search_log log = {
            .term = 4 + i,
            .boot = 2,
            .adopted_count = i,
            .adopted = {{.writer = people[0].id, .log = {{7}}, .until = 1}},
            .judged_count = 1,
            .judged = {{.attempt = attempt, .decision = (enum fact_decision)i, .step = 15, .length = 15, .metric = 0.5 + i}},
        };
        say(maker, people[i].id, FACT_RESULT, fact_key_result(&attempt, i), &result);
        say(maker, people[i].id, FACT_SEARCH_LOG, fact_key_search_log(id, name, 0), &log);
        say(maker, people[i].id, FACT_SEARCH_STOP, fact_key_trial(id, i), &search_stop);
        say(maker, people[i].id, FACT_SEARCH_PAUSE, fact_key_trial(id, i), &search_pause);
        struct fact_annotation annotation = {.lamport = 1 + i, .is_set = i == 0, .value = "warm restarts"};
        say(maker, people[i].id, FACT_ANNOTATION, fact_key_annotation(id, i == 0 ? FACT_LABEL : FACT_DESCRIPTION, i == 0 ? "lr" : ""),
            &annotation);
    }
}

/* The second group of an elastic attempt, with one member that has the state, one without, and somebody on the way. */
static void say_generation(struct maker *maker, const struct person people[2])
{
    attempt_id id = make_attempt_id(0, 0, 1, 5, people[1].id);
    struct fact_worker worker = {.state = FACT_WORKER_RUNNING, .host = "b.host", .data_port = 4001, .generation = 1,
                                 .is_elastic = true, .waits = true, .has_state = true, .applied_step = 69, .step = 69};
    struct fact_generation fact;
    memset(&fact, 0, sizeof fact);
    fact.generation = 2;
    fact.term = 6;
    fact.start_step = 69;
    fact.is_leaving = true;
    fact.member_count = 2;
    fact.members[0] = (struct fact_place){people[0].id, 0, 0, true};
    fact.members[1] = (struct fact_place){people[1].id, 0, 1, false};
    fact.joiner_count = 1;
    fact.joiners[0] = (struct fact_place){people[1].id, 1, 2, false};
    say(maker, people[1].id, FACT_WORKER, fact_key_worker(&id, 1), &worker);
    say(maker, people[1].id, FACT_GENERATION, fact_key_verdict(&id), &fact);
}

static void say_attempt(struct maker *maker, const struct person people[2], uint32_t trial, enum fact_reason reason)
{
    attempt_id id = make_attempt_id(0, trial, 1, 5, people[1].id);
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    uint32_t metrics_bytes = make_metrics(metrics, 0.5 + trial);
    struct fact_attempt attempt = {.member_count = 1, .members = {{people[0].id, trial}}, .retried = trial};
    struct fact_slot slot = {.state = LEASE_LEASED, .attempt = id, .token_hash = {9}};
    struct fact_worker worker = {.state = FACT_WORKER_ENDED, .host = "a.host", .master_port = 4000, .data_port = 4001,
                                 .generation = 1, .step = 70, .reason = reason, .exit_code = reason == FACT_FAILED ? 3 : 0,
                                 .started_s = 1700000010, .metrics = metrics, .metrics_bytes = metrics_bytes,
                                 .tail = "the last line\n"};
    struct fact_verdict verdict = {.reason = reason, .step = 70, .metrics = metrics, .metrics_bytes = metrics_bytes,
                                   .duration_s = 60, .why = "It ended."};
    struct fact_manifest manifest = {.blob = {{7}}, .bytes = 4096, .holder_count = 2,
                                     .holders = {people[0].id, people[1].id}, .durable = true};
    say(maker, people[1].id, FACT_ATTEMPT, fact_key_attempt(&id), &attempt);
    say(maker, people[0].id, FACT_SLOT, fact_key_slot(trial), &slot);
    say(maker, people[0].id, FACT_WORKER, fact_key_worker(&id, 0), &worker);
    say(maker, people[1].id, FACT_VERDICT, fact_key_verdict(&id), &verdict);
    say(maker, people[0].id, FACT_MANIFEST, fact_key_manifest(&id, 70), &manifest);
    for (uint32_t part = 0; part < 2; part++) {
        struct fact_part_key key = {.step = 80, .save = 9, .count = 2, .part = part};
        say(maker, people[part].id, FACT_PART, fact_key_part(&id, &key), &manifest);
    }
    struct fact_output output = {.bytes = 7, .files = 2, .generation = 1, .sequence = 3, .after = 2, .holder_count = 1};
    output.holders[0] = people[0].id;
    say(maker, people[0].id, FACT_OUTPUT, fact_key_output(&id, 0, 1), &output);
}

/* As much as a record can hold. */
static void say_full(struct maker *maker, const struct person people[2])
{
    attempt_id id = make_attempt_id(0, 2, 1, 5, people[1].id);
    struct fact_node node = make_node(&people[1], FACT_SLOTS_MAX);
    struct fact_attempt attempt = {.member_count = FACT_MEMBERS_PLAIN};
    struct fact_generation generation;
    struct fact_manifest manifest = {.blob = {{8}}, .bytes = 1, .holder_count = FACT_HOLDERS_MAX};
    for (uint32_t i = 0; i < FACT_MEMBERS_PLAIN; i++) {
        attempt.members[i] = (struct fact_assignment){people[1].id, i};
    }
    memset(&generation, 0, sizeof generation);
    generation.generation = UINT32_MAX;
    generation.term = 5;
    generation.start_step = UINT64_MAX;
    generation.member_count = generation.joiner_count = FACT_MEMBERS_PLAIN;
    for (uint32_t i = 0; i < FACT_MEMBERS_PLAIN; i++) {
        generation.members[i] = (struct fact_place){people[0].id, i, 65000 + i, true};
        generation.joiners[i] = (struct fact_place){people[1].id, i, 65100 + i, false};
    }
    for (uint32_t i = 0; i < FACT_HOLDERS_MAX; i++) {
        manifest.holders[i] = people[1].id;
    }
    for (node.address_count = 1; node.address_count < FACT_ADDRESSES_MAX; node.address_count++) {
        memcpy(node.addresses[node.address_count], node.addresses[0], FACT_ADDRESS_BYTES);
    }
    static struct fact_addresses addresses;
    static struct fact_links links;
    addresses.count = FACT_ANNOUNCED_MAX;
    for (uint32_t i = 0; i < FACT_ANNOUNCED_MAX; i++) {
        format_text(addresses.items[i].text, FACT_ADDRESS_BYTES, i % 2 == 0 ? "10.0.0.%u:7410" : "[fe80::%u]:7410", (unsigned)i);
        addresses.items[i].prefix = 64;
        addresses.items[i].speed = 1000;
    }
    links.network_count = FACT_NETWORKS_MAX;
    links.unreached_count = FACT_UNREACHED_MAX;
    for (uint32_t i = 0; i < FACT_NETWORKS_MAX; i++) {
        format_text(links.networks[i], FACT_NETWORK_BYTES, "10.0.%u.0/24", (unsigned)i);
    }
    for (uint32_t i = 0; i < FACT_UNREACHED_MAX; i++) {
        links.unreached[i] = (struct fact_unreached){{0, 0, 0, 0, 0, (uint8_t)i}, 1 + i % 255};
    }
    say(maker, people[1].id, FACT_ADDRESSES, fact_key_empty(), &addresses);
    say(maker, people[1].id, FACT_LINKS, fact_key_empty(), &links);
    say(maker, people[1].id, FACT_NODE, fact_key_empty(), &node);
    say(maker, people[1].id, FACT_ATTEMPT, fact_key_attempt(&id), &attempt);
    say(maker, people[1].id, FACT_MANIFEST, fact_key_manifest(&id, 5), &manifest);
    say(maker, people[1].id, FACT_GENERATION, fact_key_verdict(&id), &generation);
    struct fact_programs programs = {.count = FACT_PROGRAMS_MAX};
    for (uint32_t i = 0; i < FACT_PROGRAMS_MAX; i++) {
        (void)snprintf(programs.items[i].name, FACT_PROGRAM_BYTES, "/opt/%02u/python", i);
        programs.items[i].is_there = i % 2 == 0;
        (void)snprintf(programs.items[i].version, FACT_PROGRAM_VERSION_BYTES, "3.%u.0", i);
    }
    say(maker, people[1].id, FACT_PROGRAMS, fact_key_empty(), &programs);
    attempt_id large = make_attempt_id(1, 2, 1, 5, people[1].id);
    say(maker, people[1].id, FACT_ATTEMPT_LARGE, fact_key_attempt(&large), &attempt);
    say(maker, people[1].id, FACT_GENERATION_LARGE, fact_key_verdict(&large), &generation);
}

uint32_t seed_records_make(struct made out[SEED_RECORDS_MAX])
{
    struct person people[2] = {make_person(0), make_person(1)};
    struct maker maker = {out, 0};
    say_members(&maker, people);
    say_model(&maker, people);
    say_experiment(&maker, people);
    say_attempt(&maker, people, 0, FACT_COMPLETED);
    say_attempt(&maker, people, 1, FACT_FAILED);
    say_generation(&maker, people);
    say_full(&maker, people);
    return maker.count;
}
