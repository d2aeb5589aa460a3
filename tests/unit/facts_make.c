#include "tests/unit/facts_make.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "node/core/facts/options.h"

struct person make_person(uint32_t number)
{
    struct person person;
    memset(&person, 0, sizeof person);
    struct random random;
    random_init(&random, 0x5eed + number);
    for (size_t i = 0; i < sizeof person.public_key; i++) {
        person.public_key[i] = (uint8_t)random_u64(&random);
    }
    person.id = node_id_of_key(person.public_key);
    person.name[0] = (char)('a' + number % 26);
    return person;
}

static const uint8_t nonce[16] = {1, 2, 3};

mesh_id make_mesh(void)
{
    return mesh_id_of_founder(make_person(0).public_key, nonce);
}

struct fact_member make_member(const struct person *member)
{
    struct fact_member fact;
    memset(&fact, 0, sizeof fact);
    memcpy(fact.public_key, member->public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(fact.name, sizeof fact.name, member->name);
    if (node_id_equal(member->id, make_person(0).id)) {
        memcpy(fact.nonce, nonce, sizeof fact.nonce);
    }
    return fact;
}

struct fact_eviction make_eviction(const struct person *people, uint32_t count, uint32_t standing)
{
    struct fact_eviction fact = {0};
    for (uint32_t i = 0; i < count; i++) {
        if ((standing & 1u << i) == 0) {
            continue;
        }
        uint32_t at = fact.standing_count++;
        for (; at > 0 && node_id_compare(fact.standing[at - 1], people[i].id) > 0; at--) {
            fact.standing[at] = fact.standing[at - 1];
        }
        fact.standing[at] = people[i].id;
    }
    return fact;
}

struct fact_node make_node(const struct person *person, uint32_t slot_count)
{
    struct fact_node fact;
    memset(&fact, 0, sizeof fact);
    bytes_copy_text(fact.name, sizeof fact.name, person->name);
    bytes_copy_text(fact.version, sizeof fact.version, "9.9.9");
    fact.protocol_min = fact.protocol_max = 1;
    fact.address_count = 1;
    format_text(fact.addresses[0], FACT_ADDRESS_BYTES, "%s.host:7400", person->name);
    fact.bulk_port = 7401;
    fact.slot_count = slot_count;
    for (uint32_t i = 0; i < slot_count; i++) {
        format_text(fact.slots[i].uuid, sizeof fact.slots[i].uuid, "cpu-%s-%u", person->name, i);
        bytes_copy_text(fact.slots[i].model, sizeof fact.slots[i].model, "test");
        fact.slots[i].memory_bytes = 1u << 30;
    }
    return fact;
}

experiment_id make_experiment_id(uint32_t number)
{
    experiment_id id;
    memset(&id, 0, sizeof id);
    bytes_put_u32(id.bytes, 0xe0e0e0e0u);
    bytes_put_u32(id.bytes + 4, number + 1);
    return id;
}

attempt_id make_attempt_id(uint32_t experiment, uint32_t trial, uint32_t number, uint64_t term, node_id coordinator)
{
    attempt_id id;
    memset(&id, 0, sizeof id);
    id.experiment = make_experiment_id(experiment);
    id.trial = trial;
    id.number = number;
    id.term = term;
    id.coordinator = coordinator;
    return id;
}

void make_config(struct config *out, uint32_t trials, uint32_t max_restarts)
{
    static uint8_t hyperparameters[256];
    static const uint8_t empty_map[] = {0x80}, empty_array[] = {0x90};
    struct search_parameter rate = {
        .name = "learning_rate", .kind = SEARCH_LOG, .minval = -3, .maxval = -1, .base = 10};
    struct pack_writer writer;
    pack_writer_init(&writer, hyperparameters, sizeof hyperparameters);
    pack_array(&writer, 1);
    search_parameter_pack(&writer, &rate);
    CHECK(!writer.failed);
    config_options_set_standard(out);
    (void)bytes_copy_text(out->name, sizeof out->name, "exp");
    (void)bytes_copy_text(out->entrypoint, sizeof out->entrypoint, "true");
    out->searcher = SEARCH_RANDOM;
    out->max_trials = trials;
    out->max_restarts = max_restarts;
    out->seed = 7;
    out->environment = empty_map;
    out->environment_bytes = sizeof empty_map;
    out->labels = empty_array;
    out->labels_bytes = sizeof empty_array;
    out->hyperparameters = hyperparameters;
    out->hyperparameters_bytes = (uint32_t)writer.used_bytes;
}

uint32_t make_packed_config(const struct config *config, uint8_t out[CONFIG_PACKED_BYTES_MAX])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, CONFIG_PACKED_BYTES_MAX);
    config_pack(&writer, config);
    CHECK(!writer.failed);
    return (uint32_t)writer.used_bytes;
}

uint32_t make_metrics(uint8_t out[FACT_METRICS_BYTES_MAX], double value)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, FACT_METRICS_BYTES_MAX);
    pack_map(&writer, 1);
    pack_text(&writer, "validation");
    pack_map(&writer, 1);
    pack_text(&writer, "accuracy");
    pack_double(&writer, value);
    CHECK(!writer.failed);
    return (uint32_t)writer.used_bytes;
}

static void pack_fact(struct pack_writer *writer, enum fact_kind kind, const void *fact)
{
    switch (kind) {
    case FACT_MEMBER:
        fact_member_pack(writer, fact);
        break;
    case FACT_NODE:
        fact_node_pack(writer, fact);
        break;
    case FACT_INVITE:
        fact_invite_pack(writer, fact);
        break;
    case FACT_TOKEN:
        fact_token_pack(writer, fact);
        break;
    case FACT_SECRET:
        fact_secret_pack(writer, fact);
        break;
    case FACT_WEBHOOK:
        fact_webhook_pack(writer, fact);
        break;
    case FACT_DELIVERY:
        fact_delivery_pack(writer, fact);
        break;
    case FACT_USAGE:
        fact_usage_pack(writer, fact);
        break;
    case FACT_MODEL:
        fact_model_pack(writer, fact);
        break;
    case FACT_SLOT:
        fact_slot_pack(writer, fact);
        break;
    case FACT_EXPERIMENT:
        fact_experiment_pack(writer, fact);
        break;
    case FACT_EXPERIMENT_LARGE:
        fact_experiment_large_pack(writer, fact);
        break;
    case FACT_CONTROL:
        fact_control_pack(writer, fact);
        break;
    case FACT_STOP:
        fact_stop_pack(writer, fact);
        break;
    case FACT_RESULT:
        fact_result_pack(writer, fact);
        break;
    case FACT_SEARCH_LOG:
        fact_search_log_pack(writer, fact);
        break;
    case FACT_SEARCH_STOP:
        fact_search_stop_pack(writer, fact);
        break;
    case FACT_SEARCHER:
        fact_searcher_pack(writer, fact);
        break;
    case FACT_SEARCH_PAUSE:
        fact_search_pause_pack(writer, fact);
        break;
    case FACT_ANNOTATION:
        fact_annotation_pack(writer, fact);
        break;
    case FACT_CLAIM:
        fact_claim_pack(writer, fact);
        break;
    case FACT_ATTEMPT:
        fact_attempt_pack(writer, fact);
        break;
    case FACT_WORKER:
        fact_worker_pack(writer, fact);
        break;
    case FACT_VERDICT:
        fact_verdict_pack(writer, fact);
        break;
    case FACT_MANIFEST:
        fact_manifest_pack(writer, fact);
        break;
    case FACT_PART:
        fact_part_pack(writer, fact);
        break;
    case FACT_OUTPUT:
        fact_output_pack(writer, fact);
        break;
    case FACT_EVICTION:
        fact_eviction_pack(writer, fact);
        break;
    case FACT_DRAIN:
        fact_drain_pack(writer, fact);
        break;
    case FACT_DEATH:
        fact_death_pack(writer, fact);
        break;
    case FACT_QUARANTINE:
        fact_quarantine_pack(writer, fact);
        break;
    case FACT_GENERATION:
        fact_generation_pack(writer, fact);
        break;
    case FACT_ADDRESSES:
        fact_addresses_pack(writer, fact);
        break;
    case FACT_LINKS:
        fact_links_pack(writer, fact);
        break;
    case FACT_POLICY:
        fact_policy_pack(writer, fact);
        break;
    case FACT_PROGRAMS:
        fact_programs_pack(writer, fact);
        break;
    case FACT_ATTEMPT_LARGE:
        fact_attempt_large_pack(writer, fact);
        break;
    case FACT_GENERATION_LARGE:
        fact_generation_large_pack(writer, fact);
        break;
    case FACT_TOMBSTONE:
        fact_tombstone_pack(writer); /* there is no fact */
        break;
    }
}

void make_record(struct made *out, node_id writer, uint64_t boot, uint64_t seq, enum fact_kind kind,
                 struct fact_key key, const void *fact)
{
    uint8_t body[RECORD_BODY_BYTES_MAX];
    struct pack_writer packer;
    pack_writer_init(&packer, body, sizeof body);
    pack_fact(&packer, kind, fact);
    CHECK(!packer.failed);
    struct record record = {.kind = (uint16_t)kind,
                            .writer = writer,
                            .version = {boot, seq},
                            .key = key.bytes,
                            .key_bytes = key.count,
                            .body = body,
                            .body_bytes = (uint16_t)packer.used_bytes};
    out->count = (uint32_t)record_encode(&record, out->bytes, sizeof out->bytes);
    CHECK(out->count > 0);
}
