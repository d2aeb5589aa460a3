/* Facts: what is packed is read back; whatever else arrives is refused or within its bounds. Every record is read from
 * heap copies of its exact size, so that the address sanitizer sees a read behind the end. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "gossip/lease.h"
#include "tests/unit/facts_make.h"
#include "train/search/search.h"

static const enum fact_kind kinds[] = {FACT_MEMBER,  FACT_NODE,    FACT_INVITE,  FACT_SLOT,     FACT_EXPERIMENT,
                                       FACT_CONTROL, FACT_CLAIM,   FACT_ATTEMPT, FACT_WORKER,   FACT_VERDICT,
                                       FACT_MANIFEST, FACT_TOMBSTONE, FACT_EVICTION, FACT_DRAIN, FACT_DEATH, FACT_QUARANTINE,
                                       FACT_GENERATION, FACT_ADDRESSES, FACT_LINKS, FACT_OUTPUT, FACT_PROGRAMS, FACT_POLICY,
                                       FACT_EXPERIMENT_LARGE, FACT_ATTEMPT_LARGE, FACT_GENERATION_LARGE, FACT_STOP,
                                       FACT_RESULT, FACT_SEARCH_LOG, FACT_SEARCH_STOP, FACT_SEARCH_PAUSE, FACT_SEARCHER, FACT_ANNOTATION,
                                       FACT_PART, FACT_TOKEN, FACT_SECRET, FACT_WEBHOOK, FACT_DELIVERY, FACT_USAGE, FACT_MODEL};
#define KINDS (sizeof kinds / sizeof kinds[0])

union any_fact {
    struct fact_member member;
    struct fact_node node;
    struct fact_invite invite;
    struct fact_secret secret;
    struct fact_webhook webhook;
    struct fact_delivery delivery;
    struct fact_usage usage;
    struct fact_model model;
    struct fact_token token;
    struct fact_slot slot;
    struct fact_experiment experiment;
    struct fact_control control;
    struct fact_result result;
    struct fact_search_log search_log;
    struct fact_search_stop search_stop;
    struct fact_search_pause search_pause;
    struct fact_searcher searcher;
    struct fact_stop stop;
    struct fact_annotation annotation;
    struct fact_claim claim;
    struct fact_attempt attempt;
    struct fact_worker worker;
    struct fact_verdict verdict;
    struct fact_manifest manifest;
    struct fact_output output;
    struct fact_eviction eviction;
    struct fact_drain drain;
    struct fact_death death;
    struct fact_quarantine quarantine;
    struct fact_generation generation;
    struct fact_addresses addresses;
    struct fact_links links;
    struct fact_programs programs;
    struct fact_policy policy;
};

static void random_bytes(struct random *random, void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ((uint8_t *)out)[i] = (uint8_t)random_u64(random);
    }
}

/* Any bytes but NUL, of any length that fits; the rest stays zero. */
static void random_text(struct random *random, char *out, size_t size)
{
    size_t length = random_u64(random) % size;
    for (size_t i = 0; i < length; i++) {
        out[i] = (char)(1 + random_u64(random) % 255);
    }
}

static uint32_t below(struct random *random, uint32_t bound)
{
    return (uint32_t)(random_u64(random) % bound);
}

/* Small and huge numbers alike. */
static uint64_t random_number(struct random *random)
{
    return random_u64(random) >> below(random, 64);
}

static attempt_id random_attempt(struct random *random)
{
    attempt_id id;
    memset(&id, 0, sizeof id);
    random_bytes(random, id.experiment.bytes, sizeof id.experiment.bytes);
    id.experiment.bytes[0] |= 1;
    id.trial = below(random, SEARCH_TRIALS_MAX);
    id.number = 1 + (uint32_t)(random_number(random) >> 33);
    id.term = random_number(random);
    random_bytes(random, id.coordinator.bytes, sizeof id.coordinator.bytes);
    id.coordinator.bytes[0] |= 1;
    return id;
}

static uint8_t metrics[FACT_METRICS_BYTES_MAX];
static uint8_t packed_config[CONFIG_PACKED_BYTES_MAX];

static struct fact_key random_node(struct random *random, struct fact_node *out)
{
    random_text(random, out->name, sizeof out->name);
    random_text(random, out->version, sizeof out->version);
    out->protocol_min = below(random, 9);
    out->protocol_max = below(random, UINT32_MAX);
    out->address_count = below(random, FACT_ADDRESSES_MAX + 1);
    for (uint32_t i = 0; i < out->address_count; i++) {
        random_text(random, out->addresses[i], sizeof out->addresses[i]);
    }
    out->bulk_port = below(random, 65536);
    out->left = below(random, 2) == 1;
    out->slot_count = below(random, FACT_SLOTS_MAX + 1);
    for (uint32_t i = 0; i < out->slot_count; i++) {
        random_text(random, out->slots[i].uuid, sizeof out->slots[i].uuid);
        random_text(random, out->slots[i].model, sizeof out->slots[i].model);
        out->slots[i].kind = (enum fact_slot_kind)below(random, 2);
        out->slots[i].memory_bytes = random_number(random);
    }
    out->reads = random_number(random);
    if (below(random, 2) == 1) {
        random_text(random, out->door.address, sizeof out->door.address);
    }
    if (out->door.address[0] != '\0') {
        random_bytes(random, out->door.certificate, sizeof out->door.certificate);
    }
    out->label_count = below(random, 2) == 1 ? below(random, FACT_NODE_LABELS_MAX + 1) : 0;
    for (uint32_t i = 0; i < out->label_count; i++) {
        random_text(random, out->labels[i], sizeof out->labels[i]);
    }
    return fact_key_empty();
}

static struct fact_key random_worker(struct random *random, const attempt_id *id, struct fact_worker *out)
{
    out->state = (enum fact_worker_state)below(random, 3);
    random_text(random, out->host, sizeof out->host);
    out->master_port = below(random, 65536);
    out->data_port = below(random, 65536);
    out->generation = (uint32_t)random_u64(random);
    out->step = random_number(random);
    out->reason = (enum fact_reason)below(random, FACT_REASONS);
    out->exit_code = (int32_t)below(random, 65536) + INT16_MIN;
    out->started_s = random_number(random);
    out->metrics = metrics;
    out->metrics_bytes = below(random, FACT_METRICS_BYTES_MAX + 1);
    random_text(random, out->tail, sizeof out->tail);
    out->stall = (enum fact_stall)below(random, FACT_STALLS);
    out->stall_s = random_number(random);
    out->is_overdue = below(random, 2) == 1;
    out->is_past_barrier = below(random, 2) == 1;
    out->ended_s = random_number(random);
    out->cause = (enum fact_cause)below(random, FACT_CAUSES);
    out->failure = random_u64(random);
    out->error_ms = random_u64(random);
    out->ran_s = below(random, 2) == 1 ? random_number(random) : 0;
    return fact_key_worker(id, below(random, FACT_MEMBERS_MAX));
}

static void random_draw(struct random *random, uint32_t most, struct fact_draw *out)
{
    out->count = most > 0 ? 1 + below(random, most) : 0;
    out->parent = below(random, 2) == 1 ? below(random, SEARCH_TRIALS_MAX) : FACT_NO_TRIAL;
    for (uint32_t i = 0; i < out->count; i++) {
        out->point[i] = below(random, 5) == 0 ? (double)NAN : (double)below(random, 1000) / 7;
    }
}

static struct fact_key random_assignment(struct random *random, const attempt_id *id, uint32_t members_max,
                                         struct fact_attempt *out)
{
    out->member_count = 1 + below(random, members_max);
    for (uint32_t i = 0; i < out->member_count; i++) {
        random_bytes(random, out->members[i].node.bytes, NODE_ID_BYTES);
        out->members[i].slot = below(random, FACT_SLOTS_MAX);
    }
    out->start_step = random_number(random);
    random_bytes(random, out->checkpoint.bytes, HASH_BYTES);
    out->checkpoint_bytes = random_number(random);
    random_text(random, out->network, sizeof out->network);
    uint32_t most = out->member_count > FACT_MEMBERS_PLAIN ? 1 : FACT_OUTPUTS_MAX;
    out->beginning_count = below(random, 2) == 1 ? below(random, most + 1) : 0;
    for (uint32_t i = 0; i < out->beginning_count; i++) {
        out->beginnings[i].number = below(random, UINT16_MAX + 1);
        random_bytes(random, out->beginnings[i].blob.bytes, HASH_BYTES);
        out->beginnings[i].bytes = random_number(random);
    }
    out->retried = below(random, 2) == 1 ? random_number(random) : 0;
    random_draw(random, below(random, 2) == 1 ? FACT_POINT_MAX : 0, &out->draw);
    return fact_key_attempt(id);
}

/* The bytes of the actions live until eight further answers are made. */
static void random_answer(struct random *random, struct fact_search_log *out)
{
    static uint8_t room[8][2][RECORD_BODY_BYTES_MAX];
    static uint32_t next;
    struct pack_writer creates, stops;
    struct fact_draw draw;
    uint8_t(*bytes)[RECORD_BODY_BYTES_MAX] = room[next++ % 8];
    pack_writer_init(&creates, bytes[0], sizeof bytes[0]);
    pack_writer_init(&stops, bytes[1], sizeof bytes[1]);
    out->adopted_count = 0; /* a record of its own, as coordinators write it */
    out->judged_count = out->judged_count > 0;
    out->answer = (struct fact_answer){.is_start = below(random, 2) == 1,
                                       .has_more = below(random, 2) == 1,
                                       .finishes = below(random, 2) == 1,
                                       .create_count = below(random, 5),
                                       .stop_count = below(random, FACT_ACTIONS_MAX + 1)};
    for (uint32_t i = 0; i < out->answer.create_count; i++) {
        random_draw(random, FACT_POINT_MAX, &draw);
        fact_create_pack(&creates, below(random, SEARCH_TRIALS_MAX), &draw);
    }
    for (uint32_t i = 0; i < out->answer.stop_count; i++) {
        fact_stopped_pack(&stops, below(random, SEARCH_TRIALS_MAX), 1 + below(random, UINT32_MAX));
    }
    out->answer.creates = bytes[0];
    out->answer.creates_bytes = (uint32_t)creates.used_bytes;
    out->answer.stops = bytes[1];
    out->answer.stops_bytes = (uint32_t)stops.used_bytes;
}

static struct fact_key random_log(struct random *random, const attempt_id *id, struct fact_search_log *out)
{
    struct fact_log_name log;
    random_bytes(random, log.bytes, sizeof log.bytes);
    out->term = 1 + random_number(random) / 2;
    out->boot = random_number(random);
    out->adopted_count = below(random, FACT_ADOPTED_MAX + 1);
    for (uint32_t i = 0; i < out->adopted_count; i++) {
        random_bytes(random, &out->adopted[i].writer, NODE_ID_BYTES);
        random_bytes(random, out->adopted[i].log.bytes, sizeof out->adopted[i].log.bytes);
        out->adopted[i].until = below(random, UINT32_MAX);
    }
    out->judged_count = below(random, FACT_JUDGED_MAX + 1);
    for (uint32_t i = 0; i < out->judged_count; i++) {
        struct fact_judged *judged = &out->judged[i];
        memset(judged, 0, sizeof *judged);
        judged->attempt = *id;
        judged->attempt.trial = below(random, SEARCH_TRIALS_MAX);
        judged->rung = below(random, FACT_RUNGS_MAX);
        judged->decision = below(random, FACT_ENDS + 1);
        if (judged->decision == FACT_ENDS && below(random, 2) == 0) {
            judged->attempt = (attempt_id){.experiment = id->experiment, .trial = judged->attempt.trial};
        }
        judged->step = random_number(random);
        judged->length = random_number(random);
        judged->metric = (double)below(random, 1000) / 7;
    }
    out->has_created = below(random, 2) == 1;
    if (out->has_created) { /* a record of its own, as coordinators write it */
        out->adopted_count = out->judged_count = 0;
        out->created.attempt = *id;
        out->created.attempt.trial = below(random, SEARCH_TRIALS_MAX);
        out->created.is_drawn = below(random, 2) == 1;
        random_draw(random, FACT_POINT_MAX, &out->created.draw);
    }
    out->has_answer = !out->has_created && below(random, 3) == 0;
    if (out->has_answer) {
        random_answer(random, out);
    }
    return fact_key_search_log(id->experiment, log, below(random, UINT32_MAX));
}

static bool same_draw(const struct fact_draw *a, const struct fact_draw *b)
{
    bool same = a->count == b->count && (a->count == 0 || a->parent == b->parent);
    for (uint32_t i = 0; i < a->count && same; i++) {
        same = a->point[i] == b->point[i] || (isnan(a->point[i]) && isnan(b->point[i]));
    }
    return same;
}

static bool same_answer(const struct fact_answer *a, const struct fact_answer *b)
{
    return a->is_start == b->is_start && a->has_more == b->has_more && a->finishes == b->finishes && a->create_count == b->create_count &&
           a->stop_count == b->stop_count && a->creates_bytes == b->creates_bytes && a->stops_bytes == b->stops_bytes &&
           memcmp(a->creates, b->creates, a->creates_bytes) == 0 && memcmp(a->stops, b->stops, a->stops_bytes) == 0;
}

static bool same_log(const struct fact_search_log *a, const struct fact_search_log *b)
{
    bool same = a->term == b->term && a->boot == b->boot && a->adopted_count == b->adopted_count && a->judged_count == b->judged_count;
    same = same && a->has_created == b->has_created && a->has_answer == b->has_answer && (!a->has_answer || same_answer(&a->answer, &b->answer));
    if (same && a->has_created) {
        same = attempt_id_equal(&a->created.attempt, &b->created.attempt) && a->created.is_drawn == b->created.is_drawn &&
               same_draw(&a->created.draw, &b->created.draw);
    }
    for (uint32_t i = 0; i < a->adopted_count && same; i++) {
        same = memcmp(&a->adopted[i], &b->adopted[i], sizeof a->adopted[i]) == 0;
    }
    for (uint32_t i = 0; i < a->judged_count && same; i++) {
        const struct fact_judged *x = &a->judged[i], *y = &b->judged[i];
        same = attempt_id_equal(&x->attempt, &y->attempt) && x->rung == y->rung && x->decision == y->decision && x->step == y->step &&
               x->length == y->length && x->metric == y->metric;
    }
    return same;
}

static struct fact_key random_output(struct random *random, const attempt_id *id, struct fact_output *out)
{
    random_bytes(random, out->blob.bytes, HASH_BYTES);
    out->bytes = random_number(random);
    out->files = random_number(random);
    out->generation = (uint32_t)random_number(random);
    out->sequence = random_number(random) >> 2 | 1;
    out->after = random_number(random);
    out->is_final = below(random, 2) == 1;
    out->durable = below(random, 2) == 1;
    out->holder_count = below(random, FACT_HOLDERS_MAX + 1);
    random_bytes(random, out->holders, out->holder_count * sizeof out->holders[0]);
    if (below(random, 2) == 1) {
        bytes_copy_text(out->saved.name, sizeof out->saved.name, "step_300.pt");
        out->saved.bytes = random_number(random);
        out->saved.step = random_number(random);
    }
    return fact_key_output(id, below(random, UINT16_MAX + 1), below(random, FACT_OUTPUT_PLACES));
}

static struct fact_key random_manifest(struct random *random, const attempt_id *id, struct fact_manifest *out)
{
    random_bytes(random, out->blob.bytes, HASH_BYTES);
    out->bytes = random_number(random);
    out->holder_count = below(random, FACT_HOLDERS_MAX + 1);
    random_bytes(random, out->holders, out->holder_count * sizeof out->holders[0]);
    out->durable = below(random, 2) == 1;
    out->has_metric = below(random, 2) == 1;
    out->metric = out->has_metric ? below(random, 1000) / 8.0 : 0;
    return fact_key_manifest(id, random_number(random));
}

static struct fact_key random_part(struct random *random, const attempt_id *id)
{
    struct fact_part_key part = {.step = random_number(random), .save = random_number(random), .count = 1 + below(random, FACT_PARTS_MAX)};
    part.part = below(random, part.count);
    return fact_key_part(id, &part);
}

static struct fact_key random_eviction(struct random *random, struct fact_eviction *out)
{
    out->standing_count = below(random, 4) == 0 ? FACT_STANDING_MAX : below(random, 4);
    for (uint32_t i = 0; i < out->standing_count; i++) {
        random_bytes(random, out->standing[i].bytes, NODE_ID_BYTES);
        bytes_put_u16(out->standing[i].bytes, (uint16_t)i);
    }
    node_id evicted;
    random_bytes(random, evicted.bytes, NODE_ID_BYTES);
    return fact_key_node_id(evicted);
}

static struct fact_key random_usage(struct random *random, struct fact_usage *out)
{
    enum fact_usage_span span = below(random, 2) == 0 ? FACT_USAGE_DAY : FACT_USAGE_MONTH;
    out->number = below(random, UINT32_MAX);
    out->row_count = below(random, FACT_USAGE_ROWS_MAX + 1);
    for (uint32_t i = 0; i < out->row_count; i++) {
        struct fact_usage_row *row = &out->rows[i];
        memset(row, 0, sizeof *row);
        random_text(random, row->user, sizeof row->user);
        random_text(random, row->label, sizeof row->label);
        random_text(random, row->model, sizeof row->model);
        row->used_ms = random_number(random) % (FACT_USAGE_MS_MAX + 1);
        row->lost_ms = row->used_ms > 0 ? random_number(random) % row->used_ms : 0;
    }
    return fact_key_usage(span, out->number);
}

static struct fact_key random_fact(struct random *random, enum fact_kind kind, union any_fact *out)
{
    attempt_id id = random_attempt(random);
    memset(out, 0, sizeof *out);
    random_bytes(random, metrics, sizeof metrics);
    switch (kind) {
    case FACT_MEMBER:
        random_bytes(random, out->member.public_key, sizeof out->member.public_key);
        random_bytes(random, out->member.nonce, sizeof out->member.nonce);
        random_text(random, out->member.name, sizeof out->member.name);
        return fact_key_node_id(node_id_of_key(out->member.public_key));
    case FACT_NODE:
        return random_node(random, &out->node);
    case FACT_INVITE:
        out->invite = (struct fact_invite){random_number(random), below(random, 2) == 1};
        return fact_key_public_key(metrics);
    case FACT_TOKEN:
        out->token = (struct fact_token){random_number(random), below(random, 2) == 1, below(random, 2) == 1, random_number(random), ""};
        random_text(random, out->token.name, sizeof out->token.name);
        return fact_key_public_key(metrics);
    case FACT_SECRET:
        out->secret = (struct fact_secret){.lamport = 1 + random_number(random) / 2, .removed = below(random, 4) == 0, .set_s = random_number(random)};
        memcpy(out->secret.value, metrics, sizeof out->secret.value);
        if (!out->secret.removed) {
            out->secret.sealed = metrics;
            out->secret.sealed_bytes = 1 + below(random, sizeof metrics);
            out->secret.copies = metrics;
            out->secret.copy_count = below(random, sizeof metrics / FACT_SECRET_COPY_BYTES);
        }
        return fact_key_secret("API_KEY", below(random, 256));
    case FACT_MODEL: {
        static const char text[] = "what is said";
        enum fact_model_subject subject = (enum fact_model_subject)below(random, FACT_MODEL_SUBJECTS);
        bool is_version = subject == FACT_MODEL_VERSION, may_have_version = subject == FACT_MODEL_DESCRIPTION || subject == FACT_MODEL_TAG;
        uint8_t version[FACT_VERSION_BYTES] = {(uint8_t)(is_version || (may_have_version && below(random, 2) == 0))};
        out->model = (struct fact_model){.lamport = is_version ? 0 : 1 + random_number(random) / 2, .removed = below(random, 2) == 0,
                                         .number = 1 + below(random, FACT_MODEL_NUMBER_MAX), .value = text, .value_bytes = below(random, sizeof text)};
        bytes_copy_text(out->model.name, sizeof out->model.name, "net");
        if (subject == FACT_MODEL_TAG || subject == FACT_MODEL_ALIAS) {
            bytes_copy_text(out->model.field, sizeof out->model.field, "champion");
        }
        if (is_version) {
            out->model.source.created_ms = random_number(random);
            out->model.source.trial = below(random, 1000);
            out->model.source.attempt = below(random, 1000);
            out->model.source.step = random_number(random);
            out->model.source.blob.bytes[0] = (uint8_t)below(random, 256);
            bytes_copy_text(out->model.source.source, sizeof out->model.source.source, "models:/m-1");
        }
        return fact_key_model("net", subject, version, out->model.field);
    }
    case FACT_WEBHOOK:
        out->webhook = (struct fact_webhook){.removed = below(random, 2) == 1, .created_s = random_number(random), .live = metrics, .away = metrics};
        out->webhook.live_count = below(random, sizeof metrics / EXPERIMENT_ID_BYTES);
        out->webhook.away_count = below(random, sizeof metrics / (NODE_ID_BYTES + 8));
        if (below(random, 2) == 0) {
            bytes_copy_text(out->webhook.host, sizeof out->webhook.host, "127.0.0.1");
        } else {
            static const uint8_t hook[] = "\x82\xa3url\xa8http://a\xa2on\x92\xa6""failed\x81\xa9log_match\xa1x";
            out->webhook.hook = hook;
            out->webhook.hook_bytes = sizeof hook - 1;
        }
        return fact_key_webhook(metrics);
    case FACT_USAGE:
        return random_usage(random, &out->usage);
    case FACT_DELIVERY:
        out->delivery = (struct fact_delivery){.number = random_number(random),
                                               .state = (enum fact_delivery_state)below(random, FACT_DELIVERY_STATES),
                                               .tries = below(random, UINT32_MAX),
                                               .status = below(random, 1000),
                                               .tried_s = random_number(random),
                                               .event = (enum fact_hook_event)below(random, FACT_HOOK_EVENTS),
                                               .trial = below(random, UINT32_MAX),
                                               .attempt = below(random, UINT32_MAX),
                                               .rank = below(random, UINT32_MAX)};
        memcpy(out->delivery.hook, metrics, sizeof out->delivery.hook);
        random_text(random, out->delivery.text, sizeof out->delivery.text);
        return fact_key_delivery(id.experiment, metrics);
    case FACT_SLOT:
        out->slot.state = below(random, LEASE_WITHHELD + 1);
        out->slot.attempt = id;
        out->slot.rank = below(random, UINT16_MAX + 1);
        random_bytes(random, out->slot.token_hash, sizeof out->slot.token_hash);
        out->slot.withheld = below(random, 2) == 1;
        out->slot.withheld_s = below(random, FACT_WITHHELD_S_MAX + 1);
        out->slot.since_s = below(random, UINT32_MAX);
        return fact_key_slot(below(random, FACT_SLOTS_MAX));
    case FACT_EXPERIMENT:
    case FACT_EXPERIMENT_LARGE: {
        struct config config, lean;
        make_config(&config, 1 + below(random, 1000), below(random, 10));
        if (kind == FACT_EXPERIMENT_LARGE) {
            config_make_lean(&config, &lean);
            config = lean;
            out->experiment.trial_count = 1 + below(random, SEARCH_TRIALS_MAX);
        }
        out->experiment.config = packed_config;
        out->experiment.config_bytes = make_packed_config(&config, packed_config);
        out->experiment.submitted_s = random_number(random);
        out->experiment.code_bytes = random_number(random);
        random_bytes(random, out->experiment.code.bytes, HASH_BYTES);
        random_bytes(random, out->experiment.config_text.bytes, HASH_BYTES);
        return fact_key_experiment(id.experiment);
    }
    case FACT_CONTROL:
        if (below(random, 3) == 0) {
            out->control = (struct fact_control){.cancelled = true};
            return fact_key_cancel(id.experiment);
        }
        out->control = (struct fact_control){random_number(random), below(random, 2) == 1, below(random, 2) == 1, below(random, 2) == 1};
        return fact_key_experiment(id.experiment);
    case FACT_STOP:
        out->stop = (struct fact_stop){1 + random_number(random) / 2, below(random, 2) == 1, (uint32_t)random_number(random), below(random, 2) == 1};
        return fact_key_trial(id.experiment, id.trial);
    case FACT_RESULT:
        out->result = (struct fact_result){random_number(random), random_number(random), (double)below(random, 1000) / 7,
                                           below(random, 2) == 1 ? random_number(random) : 0};
        return fact_key_result(&id, below(random, FACT_RUNGS_MAX));
    case FACT_SEARCH_LOG:
        return random_log(random, &id, &out->search_log);
    case FACT_SEARCH_STOP:
        memset(&out->search_stop, 0, sizeof out->search_stop);
        out->search_stop.number = 1 + (uint32_t)random_number(random) / 2;
        out->search_stop.rung = below(random, FACT_RUNGS_MAX);
        out->search_stop.is_top = below(random, 2) == 1;
        out->search_stop.writer = id.coordinator;
        random_bytes(random, out->search_stop.log.bytes, sizeof out->search_stop.log.bytes);
        out->search_stop.record = (uint32_t)random_number(random);
        return fact_key_trial(id.experiment, id.trial);
    case FACT_SEARCHER:
        memset(&out->searcher, 0, sizeof out->searcher);
        out->searcher.starts = random_number(random);
        out->searcher.failures = random_number(random);
        out->searcher.is_given_up = below(random, 2) == 1;
        out->searcher.differs = below(random, 2) == 1;
        memset(out->searcher.text, 'w', below(random, sizeof out->searcher.text));
        return fact_key_experiment(id.experiment);
    case FACT_SEARCH_PAUSE:
        memset(&out->search_pause, 0, sizeof out->search_pause);
        out->search_pause.number = 1 + (uint32_t)random_number(random) / 2;
        out->search_pause.term = random_number(random);
        out->search_pause.coordinator = id.coordinator;
        out->search_pause.rung = below(random, FACT_RUNGS_MAX);
        out->search_pause.writer = id.coordinator;
        random_bytes(random, out->search_pause.log.bytes, sizeof out->search_pause.log.bytes);
        out->search_pause.record = (uint32_t)random_number(random);
        return fact_key_trial(id.experiment, id.trial);
    case FACT_ANNOTATION:
        out->annotation.lamport = 1 + random_number(random) / 2;
        out->annotation.is_set = below(random, 2) == 1;
        random_text(random, out->annotation.value, sizeof out->annotation.value);
        return fact_key_annotation(id.experiment, FACT_DESCRIPTION, "");
    case FACT_CLAIM:
        out->claim = (struct fact_claim){random_number(random), below(random, 2) == 1};
        return fact_key_experiment(id.experiment);
    case FACT_ATTEMPT:
    case FACT_ATTEMPT_LARGE:
        return random_assignment(random, &id, kind == FACT_ATTEMPT ? FACT_MEMBERS_PLAIN : FACT_MEMBERS_MAX, &out->attempt);
    case FACT_WORKER:
        return random_worker(random, &id, &out->worker);
    case FACT_VERDICT:
        out->verdict.reason = (enum fact_reason)below(random, FACT_REASONS);
        out->verdict.step = random_number(random);
        out->verdict.metrics = metrics;
        out->verdict.metrics_bytes = below(random, FACT_METRICS_BYTES_MAX + 1);
        out->verdict.duration_s = random_number(random);
        random_text(random, out->verdict.why, sizeof out->verdict.why);
        return fact_key_verdict(&id);
    case FACT_MANIFEST:
        return random_manifest(random, &id, &out->manifest);
    case FACT_PART:
        (void)random_manifest(random, &id, &out->manifest);
        return random_part(random, &id);
    case FACT_OUTPUT:
        return random_output(random, &id, &out->output);
    case FACT_EVICTION:
        return random_eviction(random, &out->eviction);
    case FACT_DRAIN:
        out->drain = (struct fact_drain){1 + random_number(random) / 2, below(random, 2) == 1, below(random, 2) == 1,
                                         below(random, 2) == 1};
        return fact_key_node_id(id.coordinator);
    case FACT_DEATH:
        random_bytes(random, out->death.node.bytes, sizeof out->death.node.bytes);
        out->death.boot = random_number(random);
        out->death.lived_ms = random_number(random);
        out->death.suspects = (uint32_t)random_number(random);
        return fact_key_verdict(&id);
    case FACT_GENERATION:
    case FACT_GENERATION_LARGE: {
        struct fact_generation *g = &out->generation;
        memset(g, 0, sizeof *g);
        g->generation = 1 + below(random, 1000);
        g->term = 1 + random_number(random) / 2;
        g->start_step = random_number(random);
        g->is_leaving = below(random, 2) == 1;
        uint32_t most = kind == FACT_GENERATION ? FACT_MEMBERS_PLAIN : FACT_MEMBERS_MAX;
        g->member_count = 1 + below(random, most);
        g->joiner_count = below(random, (kind == FACT_GENERATION ? most : most - g->member_count) + 1);
        for (uint32_t i = 0; i < g->member_count + g->joiner_count; i++) {
            struct fact_place *place = i < g->member_count ? &g->members[i] : &g->joiners[i - g->member_count];
            *place = (struct fact_place){make_person(i / 3).id, i % 3, i * 7, below(random, 2) == 1};
        }
        return fact_key_verdict(&id);
    }
    case FACT_QUARANTINE:
        out->quarantine.is_active = below(random, 2) == 1;
        out->quarantine.level = below(random, FACT_QUARANTINE_LEVEL_MAX + 1);
        out->quarantine.minutes = below(random, 61);
        random_text(random, out->quarantine.why, sizeof out->quarantine.why);
        return fact_key_empty();
    case FACT_ADDRESSES:
        out->addresses.count = below(random, FACT_ANNOUNCED_MAX + 1);
        for (uint32_t i = 0; i < out->addresses.count; i++) {
            random_text(random, out->addresses.items[i].text, FACT_ADDRESS_BYTES);
            out->addresses.items[i].text[0] = '1';
            out->addresses.items[i].prefix = below(random, 129);
            out->addresses.items[i].speed = 1 + below(random, 100000);
        }
        return fact_key_empty();
    case FACT_LINKS:
        out->links.network_count = below(random, FACT_NETWORKS_MAX + 1);
        for (uint32_t i = 0; i < out->links.network_count; i++) {
            random_text(random, out->links.networks[i], FACT_NETWORK_BYTES);
        }
        out->links.unreached_count = below(random, FACT_UNREACHED_MAX + 1);
        for (uint32_t i = 0; i < out->links.unreached_count; i++) {
            out->links.unreached[i].node[4] = (uint8_t)(i >> 8);
            out->links.unreached[i].node[5] = (uint8_t)i;
            out->links.unreached[i].networks = 1 + below(random, 255);
        }
        return fact_key_empty();
    case FACT_POLICY:
        memset(&out->policy, 0, sizeof out->policy);
        out->policy.hours_count = below(random, FACT_HOURS_MAX + 1);
        for (uint32_t i = 0; i < out->policy.hours_count; i++) {
            out->policy.hours[i] = (struct fact_hours){1 + below(random, 127), below(random, FACT_DAY_MINUTES), below(random, FACT_DAY_MINUTES)};
        }
        out->policy.load_percent = below(random, 101);
        out->policy.activity = below(random, 2) == 1;
        out->policy.back_after_s = below(random, FACT_BACK_AFTER_S_MAX + 1);
        out->policy.why = (enum fact_policy_why)below(random, FACT_POLICY_LOAD + 1);
        out->policy.since_s = random_number(random);
        out->policy.until_s = random_number(random);
        out->policy.slots = random_number(random);
        return fact_key_empty();
    case FACT_PROGRAMS:
        out->programs.count = below(random, FACT_PROGRAMS_MAX + 1);
        for (uint32_t i = 0; i < out->programs.count; i++) {
            struct fact_program *program = &out->programs.items[i];
            random_text(random, program->name, sizeof program->name - 4);
            memmove(program->name + 2, program->name, strlen(program->name) + 1);
            program->name[0] = (char)('a' + i / 5); /* ascending */
            program->name[1] = (char)('a' + i % 5);
            program->is_there = below(random, 2) == 1;
            random_text(random, program->version, sizeof program->version);
            random_text(random, program->torch, sizeof program->torch);
        }
        return fact_key_empty();
    case FACT_TOMBSTONE:
        return fact_key_experiment(id.experiment);
    }
    abort();
}

static int read_fact(const struct record *record, union any_fact *out)
{
    switch ((enum fact_kind)record->kind) {
    case FACT_MEMBER:
        return fact_member_read(record, &out->member);
    case FACT_NODE:
        return fact_node_read(record, &out->node);
    case FACT_INVITE:
        return fact_invite_read(record, &out->invite);
    case FACT_TOKEN:
        return fact_token_read(record, &out->token);
    case FACT_SECRET:
        return fact_secret_read(record, &out->secret);
    case FACT_WEBHOOK:
        return fact_webhook_read(record, &out->webhook);
    case FACT_MODEL:
        return fact_model_read(record, &out->model);
    case FACT_DELIVERY:
        return fact_delivery_read(record, &out->delivery);
    case FACT_USAGE:
        return fact_usage_read(record, &out->usage);
    case FACT_SLOT:
        return fact_slot_read(record, &out->slot);
    case FACT_EXPERIMENT:
        return fact_experiment_read(record, &out->experiment);
    case FACT_EXPERIMENT_LARGE:
        return fact_experiment_large_read(record, &out->experiment);
    case FACT_CONTROL:
        return fact_control_read(record, &out->control);
    case FACT_STOP:
        return fact_stop_read(record, &out->stop);
    case FACT_RESULT:
        return fact_result_read(record, &out->result);
    case FACT_SEARCH_LOG:
        return fact_search_log_read(record, &out->search_log);
    case FACT_SEARCH_STOP:
        return fact_search_stop_read(record, &out->search_stop);
    case FACT_SEARCH_PAUSE:
        return fact_search_pause_read(record, &out->search_pause);
    case FACT_SEARCHER:
        return fact_searcher_read(record, &out->searcher);
    case FACT_ANNOTATION:
        return fact_annotation_read(record, &out->annotation);
    case FACT_CLAIM:
        return fact_claim_read(record, &out->claim);
    case FACT_ATTEMPT:
        return fact_attempt_read(record, &out->attempt);
    case FACT_ATTEMPT_LARGE:
        return fact_attempt_large_read(record, &out->attempt);
    case FACT_WORKER:
        return fact_worker_read(record, &out->worker);
    case FACT_VERDICT:
        return fact_verdict_read(record, &out->verdict);
    case FACT_MANIFEST:
        return fact_manifest_read(record, &out->manifest);
    case FACT_PART:
        return fact_part_read(record, &out->manifest);
    case FACT_OUTPUT:
        return fact_output_read(record, &out->output);
    case FACT_EVICTION:
        return fact_eviction_read(record, &out->eviction);
    case FACT_DRAIN:
        return fact_drain_read(record, &out->drain);
    case FACT_DEATH:
        return fact_death_read(record, &out->death);
    case FACT_GENERATION:
        return fact_generation_read(record, &out->generation);
    case FACT_POLICY:
        return fact_policy_read(record, &out->policy);
    case FACT_PROGRAMS:
        return fact_programs_read(record, &out->programs);
    case FACT_GENERATION_LARGE:
        return fact_generation_large_read(record, &out->generation);
    case FACT_QUARANTINE:
        return fact_quarantine_read(record, &out->quarantine);
    case FACT_ADDRESSES:
        return fact_addresses_read(record, &out->addresses);
    case FACT_LINKS:
        return fact_links_read(record, &out->links);
    case FACT_TOMBSTONE:
        return fact_tombstone_read(record);
    }
    abort();
}

static bool bytes_same(const uint8_t *a, uint32_t a_bytes, const uint8_t *b, uint32_t b_bytes)
{
    return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

#define SAME(field) (memcmp(&a->field, &b->field, sizeof a->field) == 0)

static bool same_beginnings(const struct fact_attempt *a, const struct fact_attempt *b)
{
    bool is_same = a->beginning_count == b->beginning_count;
    for (uint32_t i = 0; is_same && i < a->beginning_count; i++) {
        is_same = SAME(beginnings[i].number) && SAME(beginnings[i].blob) && SAME(beginnings[i].bytes);
    }
    return is_same;
}

static bool same_node(const struct fact_node *a, const struct fact_node *b)
{
    bool same = SAME(name) && SAME(version) && SAME(protocol_min) && SAME(protocol_max) && SAME(address_count) &&
                SAME(addresses) && SAME(bulk_port) && SAME(left) && SAME(slot_count) && SAME(reads) &&
                SAME(door.address) && SAME(door.certificate) && SAME(label_count) && SAME(labels);
    for (uint32_t i = 0; i < FACT_SLOTS_MAX; i++) {
        same = same && SAME(slots[i].uuid) && SAME(slots[i].model) && SAME(slots[i].kind) && SAME(slots[i].memory_bytes);
    }
    return same;
}

static bool same_worker(const struct fact_worker *a, const struct fact_worker *b)
{
    return SAME(state) && SAME(host) && SAME(master_port) && SAME(data_port) && SAME(generation) && SAME(step) &&
           SAME(reason) && SAME(exit_code) && SAME(started_s) && SAME(tail) && SAME(is_elastic) && SAME(waits) &&
           SAME(has_state) && SAME(applied_step) && SAME(stall) && SAME(stall_s) && SAME(is_overdue) && SAME(is_past_barrier) && SAME(ended_s) &&
           SAME(cause) && SAME(failure) && SAME(error_ms) && SAME(ran_s) &&
           bytes_same(a->metrics, a->metrics_bytes, b->metrics, b->metrics_bytes);
}

static bool same_places(const struct fact_place *a, const struct fact_place *b, uint32_t count)
{
    bool is_same = true;
    for (uint32_t i = 0; i < count; i++) {
        is_same &= node_id_equal(a[i].node, b[i].node) && a[i].slot == b[i].slot && a[i].number == b[i].number &&
                   a[i].has_state == b[i].has_state;
    }
    return is_same;
}

static bool same_generation(const struct fact_generation *a, const struct fact_generation *b)
{
    return SAME(generation) && SAME(term) && SAME(start_step) && SAME(is_leaving) && SAME(member_count) &&
           SAME(joiner_count) && same_places(a->members, b->members, a->member_count) &&
           same_places(a->joiners, b->joiners, a->joiner_count);
}

static bool same_experiment(const struct fact_experiment *a, const struct fact_experiment *b)
{
    return SAME(submitted_s) && SAME(code) && SAME(code_bytes) && SAME(config_text) &&
           bytes_same(a->config, a->config_bytes, b->config, b->config_bytes);
}

static bool same_verdict(const struct fact_verdict *a, const struct fact_verdict *b)
{
    return SAME(reason) && SAME(step) && SAME(duration_s) && SAME(why) &&
           bytes_same(a->metrics, a->metrics_bytes, b->metrics, b->metrics_bytes);
}

static bool same_fact(enum fact_kind kind, const union any_fact *a, const union any_fact *b)
{
    switch (kind) {
    case FACT_MEMBER:
        return SAME(member.public_key) && SAME(member.name) && SAME(member.nonce);
    case FACT_NODE:
        return same_node(&a->node, &b->node);
    case FACT_INVITE:
        return SAME(invite.expires_s) && SAME(invite.revoked);
    case FACT_TOKEN:
        return SAME(token.expires_s) && SAME(token.revoked) && SAME(token.read_only) && SAME(token.created_s) && SAME(token.name);
    case FACT_SECRET:
        return SAME(secret.lamport) && SAME(secret.removed) && SAME(secret.value) && SAME(secret.set_s) && SAME(secret.sealed_bytes) &&
               SAME(secret.copy_count) &&
               (a->secret.sealed_bytes == 0 || memcmp(a->secret.sealed, b->secret.sealed, a->secret.sealed_bytes) == 0) &&
               (a->secret.copy_count == 0 ||
                memcmp(a->secret.copies, b->secret.copies, (size_t)a->secret.copy_count * FACT_SECRET_COPY_BYTES) == 0);
    case FACT_WEBHOOK:
        return SAME(webhook.removed) && SAME(webhook.created_s) && SAME(webhook.live_count) && SAME(webhook.away_count) && SAME(webhook.host) &&
               (a->webhook.hook_bytes == 0 || (SAME(webhook.hook_bytes) && memcmp(a->webhook.hook, b->webhook.hook, a->webhook.hook_bytes) == 0));
    case FACT_USAGE:
        return SAME(usage.number) && SAME(usage.row_count) &&
               memcmp(a->usage.rows, b->usage.rows, a->usage.row_count * sizeof a->usage.rows[0]) == 0;
    case FACT_MODEL:
        return SAME(model.lamport) && SAME(model.removed) && SAME(model.name) && SAME(model.field) && SAME(model.number) && SAME(model.target) &&
               SAME(model.value_bytes) && memcmp(a->model.value, b->model.value, a->model.value_bytes) == 0 && SAME(model.source.created_ms) &&
               SAME(model.source.trial) && SAME(model.source.attempt) && SAME(model.source.step) && SAME(model.source.blob) &&
               SAME(model.source.source) && SAME(model.source.experiment);
    case FACT_DELIVERY:
        return SAME(delivery.number) && SAME(delivery.state) && SAME(delivery.tries) && SAME(delivery.status) && SAME(delivery.tried_s) &&
               SAME(delivery.event) && SAME(delivery.hook) && SAME(delivery.trial) && SAME(delivery.attempt) && SAME(delivery.rank) &&
               SAME(delivery.text);
    case FACT_SLOT:
        return SAME(slot.state) && SAME(slot.attempt) && SAME(slot.rank) && SAME(slot.token_hash) &&
               SAME(slot.withheld) && SAME(slot.withheld_s) && SAME(slot.since_s);
    case FACT_EXPERIMENT:
    case FACT_EXPERIMENT_LARGE:
        return same_experiment(&a->experiment, &b->experiment);
    case FACT_CONTROL:
        return SAME(control.lamport) && SAME(control.paused) && SAME(control.cancelled) && SAME(control.waived);
    case FACT_STOP:
        return SAME(stop.lamport) && SAME(stop.stopped) && SAME(stop.since) && SAME(stop.overran);
    case FACT_RESULT:
        return SAME(result.step) && SAME(result.length) && SAME(result.metric) && SAME(result.draw);
    case FACT_SEARCH_LOG:
        return same_log(&a->search_log, &b->search_log);
    case FACT_SEARCH_STOP:
        return SAME(search_stop.number) && SAME(search_stop.rung) && SAME(search_stop.is_top) && SAME(search_stop.writer) &&
               SAME(search_stop.log) && SAME(search_stop.record);
    case FACT_SEARCHER:
        return SAME(searcher.starts) && SAME(searcher.failures) && SAME(searcher.is_given_up) && SAME(searcher.differs) &&
               strcmp(a->searcher.text, b->searcher.text) == 0;
    case FACT_SEARCH_PAUSE:
        return SAME(search_pause.number) && SAME(search_pause.term) && SAME(search_pause.coordinator) && SAME(search_pause.rung) &&
               SAME(search_pause.writer) && SAME(search_pause.log) && SAME(search_pause.record);
    case FACT_ANNOTATION:
        return SAME(annotation.lamport) && SAME(annotation.is_set) && SAME(annotation.value);
    case FACT_CLAIM:
        return SAME(claim.term) && SAME(claim.released);
    case FACT_ATTEMPT:
    case FACT_ATTEMPT_LARGE:
        return SAME(attempt.member_count) && SAME(attempt.members) && SAME(attempt.start_step) &&
               SAME(attempt.checkpoint) && SAME(attempt.checkpoint_bytes) && SAME(attempt.network) &&
               SAME(attempt.retried) && same_beginnings(&a->attempt, &b->attempt) && same_draw(&a->attempt.draw, &b->attempt.draw);
    case FACT_WORKER:
        return same_worker(&a->worker, &b->worker);
    case FACT_VERDICT:
        return same_verdict(&a->verdict, &b->verdict);
    case FACT_MANIFEST:
    case FACT_PART:
        return SAME(manifest.blob) && SAME(manifest.bytes) && SAME(manifest.holder_count) && SAME(manifest.holders) &&
               SAME(manifest.durable) && SAME(manifest.has_metric) && SAME(manifest.metric);
    case FACT_OUTPUT:
        return SAME(output.blob) && SAME(output.bytes) && SAME(output.files) && SAME(output.generation) &&
               SAME(output.sequence) && SAME(output.after) && SAME(output.is_final) && SAME(output.durable) &&
               SAME(output.holder_count) && SAME(output.holders);
    case FACT_EVICTION:
        return SAME(eviction.standing_count) &&
               memcmp(a->eviction.standing, b->eviction.standing,
                      a->eviction.standing_count * sizeof a->eviction.standing[0]) == 0;
    case FACT_DRAIN:
        return SAME(drain.lamport) && SAME(drain.drained) && SAME(drain.at_once) && SAME(drain.is_idle);
    case FACT_DEATH:
        return SAME(death.node) && SAME(death.boot) && SAME(death.lived_ms) && SAME(death.suspects);
    case FACT_GENERATION:
    case FACT_GENERATION_LARGE:
        return same_generation(&a->generation, &b->generation);
    case FACT_QUARANTINE:
        return SAME(quarantine.is_active) && SAME(quarantine.level) && SAME(quarantine.minutes) && SAME(quarantine.why);
    case FACT_ADDRESSES:
        return memcmp(&a->addresses, &b->addresses, sizeof a->addresses) == 0;
    case FACT_LINKS:
        return memcmp(&a->links, &b->links, sizeof a->links) == 0;
    case FACT_POLICY:
        return SAME(policy.hours_count) && SAME(policy.hours) && SAME(policy.load_percent) && SAME(policy.activity) &&
               SAME(policy.back_after_s) && SAME(policy.why) && SAME(policy.since_s) && SAME(policy.until_s) && SAME(policy.slots);
    case FACT_PROGRAMS:
        return SAME(programs.count) && memcmp(a->programs.items, b->programs.items, sizeof a->programs.items) == 0;
    case FACT_TOMBSTONE:
        return true;
    }
    abort();
}

/* A record whose key and body are heap blocks of their exact sizes. */
struct exact {
    struct record record;
    uint8_t *key, *body;
};

static struct exact exact_copy(const struct record *record)
{
    struct exact exact = {.record = *record, .key = malloc(record->key_bytes), .body = malloc(record->body_bytes)};
    memcpy(exact.key, record->key, record->key_bytes);
    memcpy(exact.body, record->body, record->body_bytes);
    exact.record.key = exact.key;
    exact.record.body = exact.body;
    return exact;
}

static void exact_free(struct exact *exact)
{
    free(exact->key);
    free(exact->body);
}

static void check_text(const char *text, size_t size)
{
    assert_non_null(memchr(text, '\0', size));
}

static void check_within(const struct record *record, const uint8_t *bytes, uint32_t count, uint32_t max)
{
    assert_true(count <= max);
    if (count > 0) {
        assert_true(bytes >= record->body && bytes + count <= record->body + record->body_bytes);
    }
}

/* What a reader has accepted keeps the bounds that facts.h states. */
static void check_bounds(const struct record *record, const union any_fact *fact)
{
    switch ((enum fact_kind)record->kind) {
    case FACT_MEMBER:
        check_text(fact->member.name, sizeof fact->member.name);
        break;
    case FACT_NODE:
        check_text(fact->node.name, sizeof fact->node.name);
        check_text(fact->node.version, sizeof fact->node.version);
        assert_true(fact->node.address_count <= FACT_ADDRESSES_MAX && fact->node.slot_count <= FACT_SLOTS_MAX);
        assert_true(fact->node.bulk_port <= UINT16_MAX);
        assert_true(fact->node.label_count <= FACT_NODE_LABELS_MAX);
        for (uint32_t i = 0; i < fact->node.label_count; i++) {
            check_text(fact->node.labels[i], sizeof fact->node.labels[i]);
        }
        for (uint32_t i = 0; i < fact->node.slot_count; i++) {
            check_text(fact->node.slots[i].uuid, sizeof fact->node.slots[i].uuid);
            check_text(fact->node.slots[i].model, sizeof fact->node.slots[i].model);
            assert_true(fact->node.slots[i].kind <= FACT_SLOT_CUDA);
        }
        break;
    case FACT_SLOT:
        assert_true(fact->slot.state <= LEASE_WITHHELD && fact->slot.rank <= UINT16_MAX);
        assert_true(fact->slot.withheld_s <= FACT_WITHHELD_S_MAX);
        break;
    case FACT_EXPERIMENT_LARGE:
        assert_in_range(fact->experiment.trial_count, 1, SEARCH_TRIALS_MAX);
        check_within(record, fact->experiment.config, fact->experiment.config_bytes, record->body_bytes);
        break;
    case FACT_EXPERIMENT:
        check_within(record, fact->experiment.config, fact->experiment.config_bytes, record->body_bytes);
        break;
    case FACT_ATTEMPT:
    case FACT_ATTEMPT_LARGE:
        assert_in_range(fact->attempt.member_count, 1, FACT_MEMBERS_MAX);
        for (uint32_t i = 0; i < fact->attempt.member_count; i++) {
            assert_true(fact->attempt.members[i].slot < FACT_SLOTS_MAX);
        }
        assert_true(fact->attempt.beginning_count <= FACT_OUTPUTS_MAX);
        assert_true(fact->attempt.draw.count <= FACT_POINT_MAX);
        break;
    case FACT_OUTPUT:
        assert_true(fact->output.holder_count <= FACT_HOLDERS_MAX && fact->output.sequence > 0);
        break;
    case FACT_WORKER:
        check_text(fact->worker.host, sizeof fact->worker.host);
        check_text(fact->worker.tail, sizeof fact->worker.tail);
        check_within(record, fact->worker.metrics, fact->worker.metrics_bytes, FACT_METRICS_BYTES_MAX);
        assert_true(fact->worker.state <= FACT_WORKER_ENDED && fact->worker.reason < FACT_REASONS);
        assert_true(fact->worker.stall < FACT_STALLS && fact->worker.cause < FACT_CAUSES);
        break;
    case FACT_VERDICT:
        check_text(fact->verdict.why, sizeof fact->verdict.why);
        check_within(record, fact->verdict.metrics, fact->verdict.metrics_bytes, FACT_METRICS_BYTES_MAX);
        assert_true(fact->verdict.reason < FACT_REASONS);
        break;
    case FACT_MANIFEST:
    case FACT_PART:
        assert_true(fact->manifest.holder_count <= FACT_HOLDERS_MAX);
        break;
    case FACT_EVICTION:
        assert_true(fact->eviction.standing_count <= FACT_STANDING_MAX);
        break;
    case FACT_DRAIN:
        assert_true(fact->drain.lamport > 0);
        break;
    case FACT_GENERATION:
    case FACT_GENERATION_LARGE:
        assert_in_range(fact->generation.member_count, 1, FACT_MEMBERS_MAX);
        assert_true(fact->generation.joiner_count <= FACT_MEMBERS_MAX && fact->generation.generation >= 1 && fact->generation.term >= 1);
        break;
    case FACT_QUARANTINE:
        check_text(fact->quarantine.why, sizeof fact->quarantine.why);
        assert_true(fact->quarantine.level <= FACT_QUARANTINE_LEVEL_MAX && fact->quarantine.minutes <= 60);
        break;
    case FACT_ADDRESSES:
        assert_true(fact->addresses.count <= FACT_ANNOUNCED_MAX);
        for (uint32_t i = 0; i < fact->addresses.count; i++) {
            check_text(fact->addresses.items[i].text, FACT_ADDRESS_BYTES);
            assert_true(fact->addresses.items[i].prefix <= 128 && fact->addresses.items[i].speed > 0);
        }
        break;
    case FACT_LINKS:
        assert_true(fact->links.network_count <= FACT_NETWORKS_MAX && fact->links.unreached_count <= FACT_UNREACHED_MAX);
        for (uint32_t i = 0; i < fact->links.network_count; i++) {
            check_text(fact->links.networks[i], FACT_NETWORK_BYTES);
        }
        break;
    case FACT_POLICY:
        assert_true(fact->policy.hours_count <= FACT_HOURS_MAX && fact->policy.load_percent <= 100);
        for (uint32_t i = 0; i < fact->policy.hours_count; i++) {
            const struct fact_hours *hours = &fact->policy.hours[i];
            assert_true(hours->days > 0 && hours->days < 128 && hours->from < FACT_DAY_MINUTES && hours->until < FACT_DAY_MINUTES);
        }
        break;
    case FACT_PROGRAMS:
        assert_true(fact->programs.count <= FACT_PROGRAMS_MAX);
        for (uint32_t i = 0; i < fact->programs.count; i++) {
            const struct fact_program *program = &fact->programs.items[i];
            check_text(program->name, sizeof program->name);
            check_text(program->version, sizeof program->version);
            check_text(program->torch, sizeof program->torch);
            assert_true(i == 0 || strcmp(fact->programs.items[i - 1].name, program->name) < 0);
        }
        break;
    case FACT_STOP:
        assert_true(fact->stop.lamport > 0);
        break;
    case FACT_SEARCH_LOG:
        assert_true(fact->search_log.term > 0);
        assert_true(fact->search_log.adopted_count <= FACT_ADOPTED_MAX && fact->search_log.judged_count <= FACT_JUDGED_MAX);
        for (uint32_t i = 0; i < fact->search_log.judged_count; i++) {
            assert_true(fact->search_log.judged[i].rung < FACT_RUNGS_MAX);
            assert_true(fact->search_log.judged[i].decision <= FACT_ENDS);
            assert_true(fact->search_log.judged[i].attempt.number > 0 || fact->search_log.judged[i].decision == FACT_ENDS);
            assert_true(fact->search_log.judged[i].attempt.trial < SEARCH_TRIALS_MAX);
        }
        break;
    case FACT_SEARCH_STOP:
        assert_true(fact->search_stop.number > 0 && fact->search_stop.rung < FACT_RUNGS_MAX);
        break;
    case FACT_SEARCHER:
        assert_true(strlen(fact->searcher.text) < FACT_SEARCHER_BYTES);
        break;
    case FACT_SEARCH_PAUSE:
        assert_true(fact->search_pause.number > 0 && fact->search_pause.rung < FACT_RUNGS_MAX);
        assert_false(node_id_is_none(fact->search_pause.coordinator));
        break;
    case FACT_ANNOTATION:
        assert_true(fact->annotation.lamport > 0);
        check_text(fact->annotation.value, sizeof fact->annotation.value);
        break;
    case FACT_TOKEN:
        check_text(fact->token.name, sizeof fact->token.name);
        break;
    case FACT_WEBHOOK:
        check_text(fact->webhook.host, sizeof fact->webhook.host);
        break;
    case FACT_USAGE:
        assert_true(fact->usage.row_count <= FACT_USAGE_ROWS_MAX);
        for (uint32_t i = 0; i < fact->usage.row_count; i++) {
            const struct fact_usage_row *row = &fact->usage.rows[i];
            assert_true(row->used_ms <= FACT_USAGE_MS_MAX && row->lost_ms <= row->used_ms);
            check_text(row->user, sizeof row->user);
            check_text(row->label, sizeof row->label);
            check_text(row->model, sizeof row->model);
        }
        break;
    case FACT_MODEL:
        check_text(fact->model.name, sizeof fact->model.name);
        check_text(fact->model.field, sizeof fact->model.field);
        check_text(fact->model.source.source, sizeof fact->model.source.source);
        check_text(fact->model.source.path, sizeof fact->model.source.path);
        check_text(fact->model.source.link, sizeof fact->model.source.link);
        assert_true(fact->model.value_bytes <= FACT_MODEL_VALUE_MAX);
        break;
    case FACT_DELIVERY:
        assert_true(fact->delivery.state < FACT_DELIVERY_STATES && fact->delivery.event < FACT_HOOK_EVENTS);
        check_text(fact->delivery.text, sizeof fact->delivery.text);
        break;
    case FACT_SECRET:
        assert_true(fact->secret.lamport > 0 && fact->secret.sealed_bytes <= FACT_SECRET_SEALED_MAX);
        assert_true(fact->secret.copy_count <= RECORD_BODY_BYTES_MAX / FACT_SECRET_COPY_BYTES);
        break;
    case FACT_RESULT:
    case FACT_DEATH:
    case FACT_INVITE:
    case FACT_CONTROL:
    case FACT_CLAIM:
    case FACT_TOMBSTONE:
        break;
    }
}

static void check_keys(const struct record *record)
{
    attempt_id id;
    experiment_id experiment;
    uint32_t number;
    uint64_t step;
    node_id node;
    if (fact_key_read_attempt(record, &id) == 0) {
        assert_true(id.trial < SEARCH_TRIALS_MAX && id.number > 0);
        assert_false(node_id_is_none(id.coordinator) || experiment_id_is_none(id.experiment));
    }
    if (fact_key_read_number(record, &number) == 0) {
        assert_true(number <= UINT16_MAX);
    }
    if (fact_key_read_slot(record, &number) == 0) {
        assert_true(number < FACT_SLOTS_MAX);
    }
    if (fact_key_read_node(record, &node) == 0) {
        assert_false(node_id_is_none(node));
    }
    (void)fact_key_read_experiment(record, &experiment);
    (void)fact_key_read_step(record, &step);
}

static void make_random(struct random *random, enum fact_kind kind, union any_fact *fact, struct made *made,
                        struct record *record)
{
    node_id writer = make_person(0).id;
    struct fact_key key = random_fact(random, kind, fact);
    make_record(made, writer, 1, 1, kind, key, fact);
    assert_int_equal(record_decode(made->bytes, made->count, record), 0);
}

static void every_kind_reads_back_what_was_packed(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 1);
    for (uint32_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < KINDS; k++) {
            enum fact_kind kind = kinds[k];
            static union any_fact fact, back;
            static struct made made;
            struct record record;
            make_random(&random, kind, &fact, &made, &record);
            struct exact exact = exact_copy(&record);
            memset(&back, 0, sizeof back);
            assert_int_equal(read_fact(&exact.record, &back), 0);
            assert_true(same_fact(kind, &fact, &back));
            check_bounds(&exact.record, &back);
            exact_free(&exact);
        }
    }
}

/* Manifests as they were written first had no metric. */
static void a_manifest_without_a_metric_is_read(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0x94, 0xc4, 32};
    struct pack_writer writer;
    pack_writer_init(&writer, bytes + 35, sizeof bytes - 35);
    pack_u64(&writer, 7);
    pack_array(&writer, 0);
    pack_bool(&writer, true);
    struct record record = {.kind = FACT_MANIFEST, .body = bytes, .body_bytes = (uint16_t)(35 + writer.used_bytes)};
    struct fact_manifest fact;
    assert_int_equal(fact_manifest_read(&record, &fact), 0);
    assert_true(fact.durable && !fact.has_metric);
}

static void keys_read_back_what_was_written(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 2);
    for (uint32_t i = 0; i < 1000; i++) {
        attempt_id id = random_attempt(&random), back;
        uint64_t step = random_number(&random), step_back;
        uint32_t rank = below(&random, FACT_MEMBERS_MAX), rank_back;
        struct fact_key key = fact_key_attempt(&id);
        struct record record = {.kind = FACT_ATTEMPT, .writer = id.coordinator, .key = key.bytes, .key_bytes = key.count};
        assert_int_equal(fact_key_read_attempt(&record, &back), 0);
        assert_true(attempt_id_equal(&id, &back));
        key = fact_key_worker(&id, rank);
        record = (struct record){.kind = FACT_WORKER, .key = key.bytes, .key_bytes = key.count};
        assert_int_equal(fact_key_read_attempt(&record, &back), 0);
        assert_true(attempt_id_equal(&id, &back));
        assert_int_equal(fact_key_read_number(&record, &rank_back), 0);
        assert_int_equal(rank_back, rank);
        uint32_t place = rank % FACT_OUTPUT_PLACES, place_back;
        key = fact_key_output(&id, rank, place);
        record = (struct record){.kind = FACT_OUTPUT, .key = key.bytes, .key_bytes = key.count};
        assert_int_equal(fact_key_read_attempt(&record, &back), 0);
        assert_true(attempt_id_equal(&id, &back));
        assert_int_equal(fact_key_read_number(&record, &rank_back), 0);
        assert_int_equal(rank_back, rank);
        assert_int_equal(fact_key_read_place(&record, &place_back), 0);
        assert_int_equal(place_back, place);
        key.bytes[key.count - 1] = FACT_OUTPUT_PLACES;
        assert_int_equal(fact_key_read_place(&record, &place_back), ERR_MALFORMED);
        key = fact_key_manifest(&id, step);
        record = (struct record){.kind = FACT_MANIFEST, .key = key.bytes, .key_bytes = key.count};
        assert_int_equal(fact_key_read_step(&record, &step_back), 0);
        assert_true(step_back == step);
        assert_int_equal(fact_key_read_attempt(&record, &back), 0);
        record.key_bytes--;
        assert_int_equal(fact_key_read_attempt(&record, &back), ERR_MALFORMED);
        assert_int_equal(fact_key_read_step(&record, &step_back), ERR_MALFORMED);
        struct fact_part_key part = {step, random_number(&random), 1 + rank, below(&random, 1 + rank)}, part_back;
        key = fact_key_part(&id, &part);
        record = (struct record){.kind = FACT_PART, .key = key.bytes, .key_bytes = key.count};
        assert_int_equal(fact_key_read_attempt(&record, &back), 0);
        assert_true(attempt_id_equal(&id, &back));
        assert_int_equal(fact_key_read_part(&record, &part_back), 0);
        assert_true(part_back.step == step && part_back.save == part.save);
        assert_true(part_back.count == part.count && part_back.part == part.part);
        bytes_put_u16(key.bytes + key.count - 2, (uint16_t)part.count); /* there is no such part */
        assert_int_equal(fact_key_read_part(&record, &part_back), ERR_MALFORMED);
        bytes_put_u16(key.bytes + key.count - 4, FACT_PARTS_MAX + 1);
        assert_int_equal(fact_key_read_part(&record, &part_back), ERR_MALFORMED);
    }
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 3);
    for (size_t k = 0; k < KINDS; k++) {
        enum fact_kind kind = kinds[k];
        static union any_fact fact;
        static struct made made;
        struct record record;
        make_random(&random, kind, &fact, &made, &record);
        for (uint16_t bytes = 0; bytes < record.body_bytes; bytes++) {
            struct record cut = record;
            cut.body_bytes = bytes;
            struct exact exact = exact_copy(&cut);
            assert_int_equal(read_fact(&exact.record, &fact), ERR_MALFORMED);
            exact_free(&exact);
        }
        for (uint8_t bytes = 0; bytes < record.key_bytes; bytes++) {
            struct record cut = record;
            cut.key_bytes = bytes;
            struct exact exact = exact_copy(&cut);
            check_keys(&exact.record);
            exact_free(&exact);
        }
    }
}

static void mutations_never_leave_their_bounds(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 4);
    uint32_t accepted = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        enum fact_kind kind = kinds[i % KINDS];
        static union any_fact fact;
        static struct made made;
        struct record record;
        make_random(&random, kind, &fact, &made, &record);
        struct exact exact = exact_copy(&record);
        for (uint32_t left = 1 + below(&random, 4); left > 0; left--) {
            /* Heads are near the front: half of the changes go there. */
            uint32_t reach = below(&random, 2) == 0 && record.body_bytes > 16 ? 16 : record.body_bytes;
            exact.body[below(&random, reach)] = (uint8_t)random_u64(&random);
            if (record.key_bytes > 0) {
                exact.key[below(&random, record.key_bytes)] ^= (uint8_t)(1u << below(&random, 8));
            }
        }
        check_keys(&exact.record);
        if (read_fact(&exact.record, &fact) == 0) {
            check_bounds(&exact.record, &fact);
            accepted++;
        }
        exact_free(&exact);
    }
    assert_true(accepted > 500); /* numbers and bytes changed, the format did not */
}

/* Bodies that are well-formed but beyond a bound. */
static void what_is_beyond_a_bound_is_refused(void **state)
{
    (void)state;
    uint8_t body[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    attempt_id id = make_attempt_id(0, 0, 1, 1, make_person(0).id);
    static union any_fact fact;

    struct fact_key key = fact_key_attempt(&id);
    for (uint32_t members = 0; members <= FACT_MEMBERS_PLAIN + 1; members += FACT_MEMBERS_PLAIN + 1) {
        pack_writer_init(&writer, body, sizeof body);
        pack_array(&writer, 4);
        pack_array(&writer, members);
        for (uint32_t i = 0; i < members; i++) {
            pack_array(&writer, 2);
            pack_bin(&writer, id.coordinator.bytes, NODE_ID_BYTES);
            pack_u64(&writer, 0);
        }
        pack_u64(&writer, 0);
        pack_bin(&writer, (uint8_t[HASH_BYTES]){0}, HASH_BYTES);
        pack_u64(&writer, 0);
        struct record record = {.kind = FACT_ATTEMPT, .writer = id.coordinator, .key = key.bytes, .key_bytes = key.count,
                                .body = body, .body_bytes = (uint16_t)writer.used_bytes};
        assert_int_equal(read_fact(&record, &fact), ERR_MALFORMED);
    }

    struct fact_slot slots[] = {
        {.state = LEASE_WITHHELD + 1}, {.rank = UINT16_MAX + 1}, {.withheld_s = FACT_WITHHELD_S_MAX + 1}};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        pack_writer_init(&writer, body, sizeof body);
        fact_slot_pack(&writer, &slots[i]);
        struct record record = {.kind = FACT_SLOT, .key = body, .key_bytes = 1, .body = body,
                                .body_bytes = (uint16_t)writer.used_bytes};
        assert_int_equal(read_fact(&record, &fact), ERR_MALFORMED);
    }

    static uint8_t big[FACT_METRICS_BYTES_MAX + 1];
    struct fact_verdict verdicts[] = {{.metrics = big, .metrics_bytes = sizeof big}, {.reason = FACT_REASONS}};
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        pack_writer_init(&writer, body, sizeof body);
        fact_verdict_pack(&writer, &verdicts[i]);
        struct record record = {.kind = FACT_VERDICT, .body = body, .body_bytes = (uint16_t)writer.used_bytes};
        assert_int_equal(read_fact(&record, &fact), ERR_MALFORMED);
    }

    /* A member record whose key is not the hash of the key that it names. */
    struct person one = make_person(1), two = make_person(2);
    struct fact_member member = make_member(&one);
    struct made made;
    make_record(&made, one.id, 1, 1, FACT_MEMBER, fact_key_node_id(two.id), &member);
    struct record record;
    assert_int_equal(record_decode(made.bytes, made.count, &record), 0);
    assert_int_equal(read_fact(&record, &fact), ERR_MALFORMED);

    /* Whom an eviction lets stand is listed in order, once each, and nobody evicts itself. */
    struct fact_eviction eviction = {.standing_count = 2, .standing = {{{1}}, {{2}}}};
    make_record(&made, one.id, 1, 1, FACT_EVICTION, fact_key_node_id(two.id), &eviction);
    assert_int_equal(record_decode(made.bytes, made.count, &record), 0);
    assert_int_equal(read_fact(&record, &fact), 0);
    eviction.standing[1] = eviction.standing[0];
    make_record(&made, one.id, 1, 1, FACT_EVICTION, fact_key_node_id(two.id), &eviction);
    assert_int_equal(record_decode(made.bytes, made.count, &record), 0);
    assert_int_equal(read_fact(&record, &fact), ERR_MALFORMED);
    eviction.standing_count = 0;
    make_record(&made, one.id, 1, 1, FACT_EVICTION, fact_key_node_id(one.id), &eviction);
    assert_int_equal(record_decode(made.bytes, made.count, &record), 0);
    assert_int_equal(read_fact(&record, &fact), ERR_MALFORMED);

    /* A later version may add fields behind those known. */
    pack_writer_init(&writer, body, sizeof body);
    pack_array(&writer, 3);
    pack_u64(&writer, 7);
    pack_bool(&writer, true);
    pack_text(&writer, "new");
    struct fact_key experiment = fact_key_experiment(id.experiment);
    record = (struct record){.kind = FACT_CLAIM, .key = experiment.bytes, .key_bytes = experiment.count, .body = body,
                             .body_bytes = (uint16_t)writer.used_bytes};
    assert_int_equal(read_fact(&record, &fact), 0);
    assert_true(fact.claim.term == 7 && fact.claim.released);

    /* ... as this one did: a slot's record of before says nothing of its owner's wish. */
    pack_writer_init(&writer, body, sizeof body);
    struct fact_slot slot = {.state = LEASE_LEASED, .rank = 3, .withheld = true, .withheld_s = 60, .since_s = 7};
    fact_slot_pack(&writer, &slot);
    assert_int_equal(body[0], 0x97); /* an array of seven */
    body[0] = 0x96;
    record = (struct record){.kind = FACT_SLOT, .key = (const uint8_t *)"", .key_bytes = 1, .body = body,
                             .body_bytes = (uint16_t)(writer.used_bytes - 1)};
    assert_int_equal(read_fact(&record, &fact), 0);
    assert_true(fact.slot.withheld_s == 60 && fact.slot.since_s == 0);
    body[0] = 0x94;
    record.body_bytes = (uint16_t)(writer.used_bytes - 3);
    assert_int_equal(read_fact(&record, &fact), 0);
    assert_true(fact.slot.rank == 3 && !fact.slot.withheld && fact.slot.withheld_s == 0 && fact.slot.since_s == 0);

    /* A worker's number rises with each that joins its group, beyond what one group holds at a time. */
    pack_writer_init(&writer, body, sizeof body);
    slot = (struct fact_slot){.state = LEASE_LEASED, .attempt = id, .rank = FACT_MEMBERS_MAX};
    fact_slot_pack(&writer, &slot);
    record = (struct record){.kind = FACT_SLOT, .key = (const uint8_t *)"", .key_bytes = 1, .body = body,
                             .body_bytes = (uint16_t)writer.used_bytes};
    assert_int_equal(read_fact(&record, &fact), 0);
    assert_int_equal(fact.slot.rank, FACT_MEMBERS_MAX);

    /* A cancel's key says nothing else, and no other key goes with it. */
    struct fact_key cancel = fact_key_cancel(id.experiment), other = cancel;
    other.bytes[other.count - 1] = 2;
    struct fact_control cancelled = {.cancelled = true}, paused = {.paused = true}, late = {.lamport = 1, .cancelled = true};
    const struct { const struct fact_key *key; const struct fact_control *fact; int error; } controls[] = {
        {&cancel, &cancelled, 0},
        {&experiment, &late, 0}, /* as a version before it did */
        {&cancel, &paused, ERR_MALFORMED},
        {&cancel, &late, ERR_MALFORMED},
        {&other, &cancelled, ERR_MALFORMED},
    };
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++) {
        pack_writer_init(&writer, body, sizeof body);
        fact_control_pack(&writer, controls[i].fact);
        record = (struct record){.kind = FACT_CONTROL, .key = controls[i].key->bytes, .key_bytes = controls[i].key->count,
                                 .body = body, .body_bytes = (uint16_t)writer.used_bytes};
        assert_int_equal(read_fact(&record, &fact), controls[i].error);
    }

    /* A drain of nobody, and one without a place in the register's order. */
    for (uint32_t i = 0; i < 2; i++) {
        struct fact_drain drain = {.lamport = i, .drained = true};
        struct fact_key whom = fact_key_node_id(i == 0 ? one.id : (node_id){{0}});
        pack_writer_init(&writer, body, sizeof body);
        fact_drain_pack(&writer, &drain);
        record = (struct record){.kind = FACT_DRAIN, .key = whom.bytes, .key_bytes = whom.count, .body = body,
                                 .body_bytes = (uint16_t)writer.used_bytes};
        assert_int_equal(read_fact(&record, &fact), ERR_MALFORMED);
    }
}

static void the_largest_draws_fit_into_a_record(void **state)
{
    (void)state;
    static struct fact_attempt fact;
    static struct fact_search_log log;
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    memset(&fact, 0xff, sizeof fact);
    fact.member_count = FACT_MEMBERS_MAX;
    for (uint32_t i = 0; i < FACT_MEMBERS_MAX; i++) {
        memset(fact.members[i].node.bytes, (int)i, NODE_ID_BYTES); /* a node each: the longest form */
        fact.members[i].slot = FACT_SLOTS_MAX - 1;
    }
    memset(fact.network, 'x', sizeof fact.network);
    fact.network[sizeof fact.network - 1] = '\0';
    fact.beginning_count = 1;
    fact.draw.count = FACT_POINT_MAX;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_attempt_large_pack(&writer, &fact);
    assert_false(writer.failed);
    fact.member_count = FACT_MEMBERS_PLAIN;
    fact.beginning_count = FACT_OUTPUTS_MAX;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_attempt_pack(&writer, &fact);
    assert_false(writer.failed);
    log.has_created = true;
    log.created.draw.count = FACT_POINT_MAX;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_search_log_pack(&writer, &log);
    assert_false(writer.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_draws_fit_into_a_record),
        cmocka_unit_test(every_kind_reads_back_what_was_packed),
        cmocka_unit_test(a_manifest_without_a_metric_is_read),
        cmocka_unit_test(keys_read_back_what_was_written),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(mutations_never_leave_their_bounds),
        cmocka_unit_test(what_is_beyond_a_bound_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
