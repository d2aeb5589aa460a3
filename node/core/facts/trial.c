#include "node/core/facts/inside.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "train/search/search.h"

/* What both kinds of an experiment's record begin with. */
static void experiment_pack(struct pack_writer *writer, const struct fact_experiment *fact)
{
    pack_u64(writer, fact->submitted_s);
    pack_bin(writer, fact->code.bytes, HASH_BYTES);
    pack_u64(writer, fact->code_bytes);
    pack_bin(writer, fact->config_text.bytes, HASH_BYTES);
    pack_raw(writer, fact->config, fact->config_bytes);
}

static void experiment_read(struct pack_reader *reader, struct fact_experiment *fact)
{
    size_t bytes;
    fact->submitted_s = pack_read_u64(reader);
    pack_read_bin_exact(reader, fact->code.bytes, HASH_BYTES);
    fact->code_bytes = pack_read_u64(reader);
    pack_read_bin_exact(reader, fact->config_text.bytes, HASH_BYTES);
    fact->config = pack_read_any(reader, &bytes);
    fact->config_bytes = (uint32_t)bytes;
}

void fact_experiment_pack(struct pack_writer *writer, const struct fact_experiment *fact)
{
    pack_array(writer, 5);
    experiment_pack(writer, fact);
}

int fact_experiment_read(const struct record *record, struct fact_experiment *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_experiment fact;
    fact_body_open(&reader, record, 5, &extra);
    experiment_read(&reader, &fact);
    fact.trial_count = 0;
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != KEY_EXPERIMENT_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_experiment_large_pack(struct pack_writer *writer, const struct fact_experiment *fact)
{
    pack_array(writer, 6);
    experiment_pack(writer, fact);
    pack_u64(writer, fact->trial_count);
}

int fact_experiment_large_read(const struct record *record, struct fact_experiment *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_experiment fact;
    fact_body_open(&reader, record, 6, &extra);
    experiment_read(&reader, &fact);
    fact.trial_count = (uint32_t)pack_read_u64_max(&reader, SEARCH_TRIALS_MAX);
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != KEY_EXPERIMENT_BYTES || fact.trial_count == 0 ||
        hash256_is_none(fact.config_text)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_control_pack(struct pack_writer *writer, const struct fact_control *fact)
{
    pack_array(writer, fact->waived ? 4 : 3);
    pack_u64(writer, fact->lamport);
    pack_bool(writer, fact->paused);
    pack_bool(writer, fact->cancelled);
    if (fact->waived) {
        pack_bool(writer, true);
    }
}

int fact_control_read(const struct record *record, struct fact_control *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_control fact;
    fact_body_open(&reader, record, 3, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.paused = pack_read_bool(&reader);
    fact.cancelled = pack_read_bool(&reader);
    fact.waived = extra > 0 && pack_read_bool(&reader);
    extra -= extra > 0;
    bool is_cancel = record->key_bytes == KEY_CANCEL_BYTES && record->key[KEY_EXPERIMENT_BYTES] == 1 && fact.cancelled &&
                     fact.lamport == 0 && !fact.paused;
    if (fact_body_close(&reader, extra) != 0 || (record->key_bytes != KEY_EXPERIMENT_BYTES && !is_cancel)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_stop_pack(struct pack_writer *writer, const struct fact_stop *fact)
{
    pack_array(writer, fact->overran ? 4 : 3);
    pack_u64(writer, fact->lamport);
    pack_bool(writer, fact->stopped);
    pack_u64(writer, fact->since);
    if (fact->overran) {
        pack_bool(writer, true);
    }
}

int fact_stop_read(const struct record *record, struct fact_stop *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_stop fact;
    fact_body_open(&reader, record, 3, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.stopped = pack_read_bool(&reader);
    fact.since = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.overran = extra > 0 && pack_read_bool(&reader);
    extra -= extra > 0;
    if (fact_body_close(&reader, extra) != 0 || fact.lamport == 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_annotation_pack(struct pack_writer *writer, const struct fact_annotation *fact)
{
    pack_array(writer, 3);
    pack_u64(writer, fact->lamport);
    pack_bool(writer, fact->is_set);
    pack_text(writer, fact->value);
}

int fact_annotation_read(const struct record *record, struct fact_annotation *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_annotation fact;
    fact_body_open(&reader, record, 3, &extra);
    fact.lamport = pack_read_u64(&reader);
    fact.is_set = pack_read_bool(&reader);
    pack_read_text_copy(&reader, fact.value, sizeof fact.value);
    if (fact_body_close(&reader, extra) != 0 || fact.lamport == 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_claim_pack(struct pack_writer *writer, const struct fact_claim *fact)
{
    pack_array(writer, 2);
    pack_u64(writer, fact->term);
    pack_bool(writer, fact->released);
}

int fact_claim_read(const struct record *record, struct fact_claim *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_claim fact;
    fact_body_open(&reader, record, 2, &extra);
    fact.term = pack_read_u64(&reader);
    fact.released = pack_read_bool(&reader);
    if (fact_body_close(&reader, extra) != 0 || record->key_bytes != KEY_EXPERIMENT_BYTES) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

/* The parts that not every version has, at the end of a body. */
static uint32_t attempt_ending_count(const struct fact_attempt *fact)
{
    return fact->draw.count > 0 ? 4 : fact->retried > 0 ? 3 : fact->beginning_count > 0 ? 2 : fact->network[0] != '\0' ? 1 : 0;
}

/* What both kinds of an attempt's record have behind the members. */
static void attempt_rest_pack(struct pack_writer *writer, const struct fact_attempt *fact)
{
    pack_u64(writer, fact->start_step);
    pack_bin(writer, fact->checkpoint.bytes, HASH_BYTES);
    pack_u64(writer, fact->checkpoint_bytes);
    uint32_t endings = attempt_ending_count(fact);
    if (endings > 0) {
        pack_text(writer, fact->network);
    }
    if (endings > 1) {
        pack_array(writer, fact->beginning_count);
    }
    for (uint32_t i = 0; i < fact->beginning_count; i++) {
        pack_array(writer, 3);
        pack_u64(writer, fact->beginnings[i].number);
        pack_bin(writer, fact->beginnings[i].blob.bytes, HASH_BYTES);
        pack_u64(writer, fact->beginnings[i].bytes);
    }
    if (endings > 2) {
        pack_u64(writer, fact->retried);
    }
    if (endings > 3) {
        fact_draw_pack(writer, &fact->draw);
    }
}

void fact_attempt_pack(struct pack_writer *writer, const struct fact_attempt *fact)
{
    pack_array(writer, 4 + attempt_ending_count(fact));
    pack_array(writer, fact->member_count);
    for (uint32_t i = 0; i < fact->member_count; i++) {
        pack_array(writer, 2);
        pack_bin(writer, fact->members[i].node.bytes, NODE_ID_BYTES);
        pack_u64(writer, fact->members[i].slot);
    }
    attempt_rest_pack(writer, fact);
}

/* Records from before the beginnings have none. */
static void beginnings_read(struct pack_reader *reader, struct fact_attempt *fact)
{
    fact->beginning_count = pack_read_array(reader);
    reader->failed |= fact->beginning_count > FACT_OUTPUTS_MAX;
    for (uint32_t i = 0; i < fact->beginning_count && !reader->failed; i++) {
        uint32_t extra = fact_element_open(reader, 3);
        fact->beginnings[i].number = (uint32_t)pack_read_u64_max(reader, UINT16_MAX);
        pack_read_bin_exact(reader, fact->beginnings[i].blob.bytes, HASH_BYTES);
        fact->beginnings[i].bytes = pack_read_u64(reader);
        fact_element_close(reader, extra);
    }
}

/* Reads what attempt_rest_pack writes. `*extra`: how many elements of the body are left. */
static void attempt_rest_read(struct pack_reader *reader, struct fact_attempt *fact, uint32_t *extra)
{
    fact->start_step = pack_read_u64(reader);
    pack_read_bin_exact(reader, fact->checkpoint.bytes, HASH_BYTES);
    fact->checkpoint_bytes = pack_read_u64(reader);
    if (*extra > 0) { /* versions before networks end here */
        pack_read_text_copy(reader, fact->network, sizeof fact->network);
        --*extra;
    }
    if (*extra > 0) { /* versions before outputs end here */
        beginnings_read(reader, fact);
        --*extra;
    }
    if (*extra > 0) { /* a trial that was never retried ends here, too */
        fact->retried = pack_read_u64(reader);
        --*extra;
    }
    fact->draw.parent = FACT_NO_TRIAL;
    if (*extra > 0) { /* and a trial with values that follow from its number here */
        fact_draw_read(reader, &fact->draw);
        --*extra;
    }
}

int fact_attempt_read(const struct record *record, struct fact_attempt *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_attempt fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 4, &extra);
    fact.member_count = pack_read_array(&reader);
    if (fact.member_count == 0 || fact.member_count > FACT_MEMBERS_PLAIN) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < fact.member_count; i++) {
        if (pack_read_array(&reader) != 2) {
            return ERR_MALFORMED;
        }
        pack_read_bin_exact(&reader, fact.members[i].node.bytes, NODE_ID_BYTES);
        fact.members[i].slot = (uint32_t)pack_read_u64_max(&reader, FACT_SLOTS_MAX - 1);
    }
    attempt_rest_read(&reader, &fact, &extra);
    if (fact_body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

static void places_pack(struct pack_writer *writer, const struct fact_place *places, uint32_t count)
{
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_array(writer, 4);
        pack_bin(writer, places[i].node.bytes, NODE_ID_BYTES);
        pack_u64(writer, places[i].slot);
        pack_u64(writer, places[i].number);
        pack_bool(writer, places[i].has_state);
    }
}

void fact_generation_pack(struct pack_writer *writer, const struct fact_generation *fact)
{
    pack_array(writer, 6);
    pack_u64(writer, fact->generation);
    pack_u64(writer, fact->term);
    pack_u64(writer, fact->start_step);
    pack_bool(writer, fact->is_leaving);
    places_pack(writer, fact->members, fact->member_count);
    places_pack(writer, fact->joiners, fact->joiner_count);
}

static uint32_t places_read(struct pack_reader *reader, struct fact_place places[FACT_MEMBERS_MAX])
{
    uint32_t count = pack_read_array(reader);
    if (count > FACT_MEMBERS_PLAIN) {
        reader->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        uint32_t extra = fact_element_open(reader, 4);
        pack_read_bin_exact(reader, places[i].node.bytes, NODE_ID_BYTES);
        places[i].slot = (uint32_t)pack_read_u64_max(reader, FACT_SLOTS_MAX - 1);
        places[i].number = (uint32_t)pack_read_u64_max(reader, UINT16_MAX);
        places[i].has_state = pack_read_bool(reader);
        fact_element_close(reader, extra);
    }
    return count;
}

/* True if no worker is listed twice and no two members have one slot. A joiner may have the slot of a member that has ended. */
static bool places_differ(const struct fact_generation *fact)
{
    uint32_t count = fact->member_count + fact->joiner_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct fact_place *a = i < fact->member_count ? &fact->members[i] : &fact->joiners[i - fact->member_count];
        for (uint32_t j = 0; j < i; j++) {
            const struct fact_place *b =
                j < fact->member_count ? &fact->members[j] : &fact->joiners[j - fact->member_count];
            bool are_members = i < fact->member_count;
            if (a->number == b->number || (are_members && a->slot == b->slot && node_id_equal(a->node, b->node))) {
                return false;
            }
        }
    }
    return true;
}

int fact_generation_read(const struct record *record, struct fact_generation *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_generation fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 6, &extra);
    fact.generation = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.term = pack_read_u64(&reader);
    fact.start_step = pack_read_u64(&reader);
    fact.is_leaving = pack_read_bool(&reader);
    fact.member_count = places_read(&reader, fact.members);
    fact.joiner_count = places_read(&reader, fact.joiners);
    if (fact_body_close(&reader, extra) != 0 || fact.generation == 0 || fact.term == 0 || fact.member_count == 0 ||
        !places_differ(&fact)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

/* ---- large groups ---- */

/* A large group is packed as two texts of bytes: the ids of its nodes, each once, and for each place PLACE_BYTES: the number of
 * the node in the first text (u16), the slot (u8), the worker's number (u16), and whether it has the state (u8). So 256 workers
 * on as many nodes take 5.6 KiB. */
#define PLACE_BYTES 6

struct large_group {
    uint8_t nodes[FACT_MEMBERS_MAX * NODE_ID_BYTES];
    uint32_t node_count;
    uint8_t places[FACT_MEMBERS_MAX * PLACE_BYTES];
    uint32_t place_count;
};

static void large_add(struct large_group *group, node_id node, uint32_t slot, uint32_t number, bool has_state)
{
    uint32_t at = 0;
    CHECK(group->place_count < FACT_MEMBERS_MAX);
    while (at < group->node_count && memcmp(group->nodes + at * NODE_ID_BYTES, node.bytes, NODE_ID_BYTES) != 0) {
        at++;
    }
    if (at == group->node_count) {
        memcpy(group->nodes + at * NODE_ID_BYTES, node.bytes, NODE_ID_BYTES);
        group->node_count++;
    }
    uint8_t *place = group->places + group->place_count++ * PLACE_BYTES;
    bytes_put_u16(place, (uint16_t)at);
    place[2] = (uint8_t)slot;
    bytes_put_u16(place + 3, (uint16_t)number);
    place[5] = has_state;
}

static void large_pack(struct pack_writer *writer, const struct large_group *group)
{
    pack_bin(writer, group->nodes, group->node_count * NODE_ID_BYTES);
    pack_bin(writer, group->places, group->place_count * PLACE_BYTES);
}

/* Reads a large group. False, and the reader has failed, if a number is out of bounds. */
static bool large_read(struct pack_reader *reader, struct fact_place places[FACT_MEMBERS_MAX], uint32_t *count)
{
    size_t node_bytes = 0, place_bytes = 0;
    const uint8_t *nodes = pack_read_bin(reader, &node_bytes), *bytes = pack_read_bin(reader, &place_bytes);
    bool is_good = !reader->failed && node_bytes % NODE_ID_BYTES == 0 && place_bytes % PLACE_BYTES == 0 &&
                   place_bytes <= (size_t)FACT_MEMBERS_MAX * PLACE_BYTES;
    *count = is_good ? (uint32_t)(place_bytes / PLACE_BYTES) : 0;
    for (uint32_t i = 0; i < *count && is_good; i++) {
        const uint8_t *place = bytes + (size_t)i * PLACE_BYTES;
        uint32_t node = bytes_get_u16(place);
        is_good = node < node_bytes / NODE_ID_BYTES && place[2] < FACT_SLOTS_MAX && place[5] <= 1;
        if (is_good) {
            memcpy(places[i].node.bytes, nodes + (size_t)node * NODE_ID_BYTES, NODE_ID_BYTES);
            places[i].slot = place[2];
            places[i].number = bytes_get_u16(place + 3);
            places[i].has_state = place[5] == 1;
        }
    }
    reader->failed |= !is_good;
    return is_good;
}

void fact_attempt_large_pack(struct pack_writer *writer, const struct fact_attempt *fact)
{
    struct large_group group = {.node_count = 0};
    for (uint32_t i = 0; i < fact->member_count; i++) {
        large_add(&group, fact->members[i].node, fact->members[i].slot, i, false);
    }
    pack_array(writer, 5 + attempt_ending_count(fact));
    large_pack(writer, &group);
    attempt_rest_pack(writer, fact);
}

int fact_attempt_large_read(const struct record *record, struct fact_attempt *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_attempt fact;
    struct fact_place places[FACT_MEMBERS_MAX];
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 5, &extra);
    if (!large_read(&reader, places, &fact.member_count) || fact.member_count == 0) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < fact.member_count; i++) {
        fact.members[i] = (struct fact_assignment){places[i].node, places[i].slot};
    }
    attempt_rest_read(&reader, &fact, &extra);
    if (fact_body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_generation_large_pack(struct pack_writer *writer, const struct fact_generation *fact)
{
    struct large_group group = {.node_count = 0};
    for (uint32_t i = 0; i < fact->member_count + fact->joiner_count; i++) {
        const struct fact_place *place = i < fact->member_count ? &fact->members[i] : &fact->joiners[i - fact->member_count];
        large_add(&group, place->node, place->slot, place->number, place->has_state);
    }
    pack_array(writer, 7);
    pack_u64(writer, fact->generation);
    pack_u64(writer, fact->term);
    pack_u64(writer, fact->start_step);
    pack_bool(writer, fact->is_leaving);
    pack_u64(writer, fact->member_count);
    large_pack(writer, &group);
}

int fact_generation_large_read(const struct record *record, struct fact_generation *out)
{
    struct pack_reader reader;
    uint32_t extra, count;
    struct fact_generation fact;
    struct fact_place places[FACT_MEMBERS_MAX];
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 7, &extra);
    fact.generation = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.term = pack_read_u64(&reader);
    fact.start_step = pack_read_u64(&reader);
    fact.is_leaving = pack_read_bool(&reader);
    fact.member_count = (uint32_t)pack_read_u64_max(&reader, FACT_MEMBERS_MAX);
    if (!large_read(&reader, places, &count) || fact.member_count == 0 || fact.member_count > count) {
        return ERR_MALFORMED;
    }
    fact.joiner_count = count - fact.member_count;
    memcpy(fact.members, places, fact.member_count * sizeof places[0]);
    memcpy(fact.joiners, places + fact.member_count, fact.joiner_count * sizeof places[0]);
    if (fact_body_close(&reader, extra) != 0 || fact.generation == 0 || fact.term == 0 || !places_differ(&fact)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

static const uint8_t *metrics_read(struct pack_reader *reader, uint32_t *bytes)
{
    size_t count;
    const uint8_t *metrics = pack_read_bin(reader, &count);
    if (count > FACT_METRICS_BYTES_MAX) {
        reader->failed = true;
    }
    *bytes = (uint32_t)count;
    return metrics;
}

void fact_worker_pack(struct pack_writer *writer, const struct fact_worker *fact)
{
    pack_array(writer, 16);
    pack_u64(writer, fact->state);
    pack_text(writer, fact->host);
    pack_u64(writer, fact->master_port);
    pack_u64(writer, fact->data_port);
    pack_u64(writer, fact->generation);
    pack_u64(writer, fact->step);
    pack_u64(writer, fact->reason);
    pack_i64(writer, fact->exit_code);
    pack_u64(writer, fact->started_s);
    pack_bin(writer, fact->metrics, fact->metrics_bytes);
    pack_text(writer, fact->tail);
    pack_bool(writer, fact->is_elastic);
    pack_bool(writer, fact->waits);
    pack_bool(writer, fact->has_state);
    pack_u64(writer, fact->applied_step);
    pack_array(writer, fact->ran_s > 0 ? 9 : 8);
    pack_u64(writer, fact->stall);
    pack_u64(writer, fact->stall_s);
    pack_bool(writer, fact->is_overdue);
    pack_u64(writer, fact->ended_s);
    pack_u64(writer, fact->cause);
    pack_u64(writer, fact->failure);
    pack_bool(writer, fact->is_past_barrier);
    pack_u64(writer, fact->error_ms);
    if (fact->ran_s > 0) {
        pack_u64(writer, fact->ran_s);
    }
}

/* A stall or a cause of a later version reads as none. */
static void ending_read(struct pack_reader *reader, struct fact_worker *fact)
{
    uint32_t extra = fact_element_open(reader, 7);
    uint64_t stall = pack_read_u64(reader);
    fact->stall = stall < FACT_STALLS ? (enum fact_stall)stall : FACT_ACTIVE;
    fact->stall_s = pack_read_u64(reader);
    fact->is_overdue = pack_read_bool(reader);
    fact->ended_s = pack_read_u64(reader);
    uint64_t cause = pack_read_u64(reader);
    fact->cause = cause < FACT_CAUSES ? (enum fact_cause)cause : FACT_CAUSE_UNKNOWN;
    fact->failure = pack_read_u64(reader);
    fact->is_past_barrier = pack_read_bool(reader);
    if (extra > 0) { /* records of earlier versions end here */
        extra--;
        fact->error_ms = pack_read_u64(reader);
    }
    if (extra > 0) { /* and those of experiments without max_runtime here */
        extra--;
        fact->ran_s = pack_read_u64(reader);
    }
    fact_element_close(reader, extra);
}

int fact_worker_read(const struct record *record, struct fact_worker *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_worker fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 11, &extra);
    fact.state = (enum fact_worker_state)pack_read_u64_max(&reader, FACT_WORKER_ENDED);
    pack_read_text_copy(&reader, fact.host, sizeof fact.host);
    fact.master_port = (uint32_t)pack_read_u64_max(&reader, UINT16_MAX);
    fact.data_port = (uint32_t)pack_read_u64_max(&reader, UINT16_MAX);
    fact.generation = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.step = pack_read_u64(&reader);
    fact.reason = (enum fact_reason)pack_read_u64_max(&reader, FACT_REASONS - 1);
    int64_t exit_code = pack_read_i64(&reader);
    fact.started_s = pack_read_u64(&reader);
    fact.metrics = metrics_read(&reader, &fact.metrics_bytes);
    pack_read_text_copy(&reader, fact.tail, sizeof fact.tail);
    if (extra >= 4) {
        extra -= 4;
        fact.is_elastic = pack_read_bool(&reader);
        fact.waits = pack_read_bool(&reader);
        fact.has_state = pack_read_bool(&reader);
        fact.applied_step = pack_read_u64(&reader);
    }
    if (extra > 0) { /* records of earlier versions end here */
        extra--;
        ending_read(&reader, &fact);
    }
    if (fact_body_close(&reader, extra) != 0 || exit_code < INT16_MIN || exit_code > INT16_MAX) {
        return ERR_MALFORMED;
    }
    fact.exit_code = (int32_t)exit_code;
    *out = fact;
    return 0;
}

const char *fact_reason_name(enum fact_reason reason)
{
    static const char *const names[] = {"completed", "failed", "stopped", "lost"};
    CHECK(reason < FACT_REASONS);
    return names[reason];
}

void fact_verdict_pack(struct pack_writer *writer, const struct fact_verdict *fact)
{
    pack_array(writer, 6);
    pack_u64(writer, fact->reason);
    pack_u64(writer, fact->step);
    pack_bin(writer, fact->metrics, fact->metrics_bytes);
    pack_u64(writer, fact->duration_s);
    pack_text(writer, fact->why);
    pack_bool(writer, fact->is_hung);
}

int fact_verdict_read(const struct record *record, struct fact_verdict *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_verdict fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 5, &extra);
    fact.reason = (enum fact_reason)pack_read_u64_max(&reader, FACT_REASONS - 1);
    fact.step = pack_read_u64(&reader);
    fact.metrics = metrics_read(&reader, &fact.metrics_bytes);
    fact.duration_s = pack_read_u64(&reader);
    pack_read_text_copy(&reader, fact.why, sizeof fact.why);
    if (extra > 0) { /* records of earlier versions end here */
        extra--;
        fact.is_hung = pack_read_bool(&reader);
    }
    if (fact_body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

static void holders_pack(struct pack_writer *writer, const node_id *holders, uint32_t count)
{
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_bin(writer, holders[i].bytes, NODE_ID_BYTES);
    }
}

/* Returns how many holders there are; with more than FACT_HOLDERS_MAX the reader fails. */
static uint32_t holders_read(struct pack_reader *reader, node_id holders[FACT_HOLDERS_MAX])
{
    uint32_t count = pack_read_array(reader);
    reader->failed |= count > FACT_HOLDERS_MAX;
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        pack_read_bin_exact(reader, holders[i].bytes, NODE_ID_BYTES);
    }
    return count;
}

void fact_manifest_pack(struct pack_writer *writer, const struct fact_manifest *fact)
{
    pack_array(writer, 5);
    pack_bin(writer, fact->blob.bytes, HASH_BYTES);
    pack_u64(writer, fact->bytes);
    holders_pack(writer, fact->holders, fact->holder_count);
    pack_bool(writer, fact->durable);
    if (fact->has_metric) {
        pack_double(writer, fact->metric);
    } else {
        pack_nil(writer);
    }
}

int fact_manifest_read(const struct record *record, struct fact_manifest *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_manifest fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 4, &extra);
    pack_read_bin_exact(&reader, fact.blob.bytes, HASH_BYTES);
    fact.bytes = pack_read_u64(&reader);
    fact.holder_count = holders_read(&reader, fact.holders);
    fact.durable = pack_read_bool(&reader);
    if (extra > 0) { /* records of the first version have no metric */
        extra--;
        fact.has_metric = pack_peek(&reader) != PACK_NIL;
        if (fact.has_metric) {
            fact.metric = pack_read_double(&reader);
        } else {
            pack_skip(&reader);
        }
    }
    if (fact.metric - fact.metric != 0 || fact_body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_part_pack(struct pack_writer *writer, const struct fact_manifest *fact)
{
    fact_manifest_pack(writer, fact);
}

int fact_part_read(const struct record *record, struct fact_manifest *out)
{
    return fact_manifest_read(record, out);
}

void fact_output_pack(struct pack_writer *writer, const struct fact_output *fact)
{
    bool has_saved = fact->saved.name[0] != '\0';
    pack_array(writer, has_saved ? 10 : 9);
    pack_bin(writer, fact->blob.bytes, HASH_BYTES);
    pack_u64(writer, fact->bytes);
    pack_u64(writer, fact->files);
    pack_u64(writer, fact->generation);
    pack_u64(writer, fact->sequence);
    pack_u64(writer, fact->after);
    pack_bool(writer, fact->is_final);
    pack_bool(writer, fact->durable);
    holders_pack(writer, fact->holders, fact->holder_count);
    if (has_saved) {
        pack_array(writer, 3);
        pack_text(writer, fact->saved.name);
        pack_u64(writer, fact->saved.bytes);
        pack_u64(writer, fact->saved.step);
    }
}

/* The array may have grown in a later version. */
static void saved_read(struct pack_reader *reader, struct fact_saved *out)
{
    uint32_t count = pack_read_array(reader);
    if (count < 3) {
        reader->failed = true;
        return;
    }
    pack_read_text_copy(reader, out->name, sizeof out->name);
    out->bytes = pack_read_u64(reader);
    out->step = pack_read_u64(reader);
    for (uint32_t i = 3; i < count && !reader->failed; i++) {
        pack_skip(reader);
    }
}

int fact_output_read(const struct record *record, struct fact_output *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_output fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 9, &extra);
    pack_read_bin_exact(&reader, fact.blob.bytes, HASH_BYTES);
    fact.bytes = pack_read_u64(&reader);
    fact.files = pack_read_u64(&reader);
    fact.generation = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.sequence = pack_read_u64_max(&reader, FACT_SEQUENCE_MAX);
    fact.after = pack_read_u64(&reader);
    fact.is_final = pack_read_bool(&reader);
    fact.durable = pack_read_bool(&reader);
    fact.holder_count = holders_read(&reader, fact.holders);
    if (extra > 0) { /* records of earlier versions, and of files without a checkpoint, end here */
        saved_read(&reader, &fact.saved);
        extra--;
    }
    if (fact_body_close(&reader, extra) != 0 || fact.sequence == 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_death_pack(struct pack_writer *writer, const struct fact_death *fact)
{
    pack_array(writer, 4);
    pack_bin(writer, fact->node.bytes, NODE_ID_BYTES);
    pack_u64(writer, fact->boot);
    pack_u64(writer, fact->lived_ms);
    pack_u64(writer, fact->suspects);
}

int fact_death_read(const struct record *record, struct fact_death *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_death fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 4, &extra);
    pack_read_bin_exact(&reader, fact.node.bytes, NODE_ID_BYTES);
    fact.boot = pack_read_u64(&reader);
    fact.lived_ms = pack_read_u64(&reader);
    fact.suspects = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    if (fact_body_close(&reader, extra) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_quarantine_pack(struct pack_writer *writer, const struct fact_quarantine *fact)
{
    pack_array(writer, 4);
    pack_bool(writer, fact->is_active);
    pack_u64(writer, fact->level);
    pack_u64(writer, fact->minutes);
    pack_text(writer, fact->why);
}

int fact_quarantine_read(const struct record *record, struct fact_quarantine *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_quarantine fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 4, &extra);
    fact.is_active = pack_read_bool(&reader);
    fact.level = (uint32_t)pack_read_u64_max(&reader, FACT_QUARANTINE_LEVEL_MAX);
    fact.minutes = (uint32_t)pack_read_u64_max(&reader, 60);
    pack_read_text_copy(&reader, fact.why, sizeof fact.why);
    if (fact_body_close_unkeyed(&reader, extra, record) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_tombstone_pack(struct pack_writer *writer)
{
    pack_array(writer, 0);
}

int fact_tombstone_read(const struct record *record)
{
    struct pack_reader reader;
    uint32_t extra;
    fact_body_open(&reader, record, 0, &extra);
    return fact_body_close(&reader, extra) != 0 || record->key_bytes != KEY_EXPERIMENT_BYTES ? ERR_MALFORMED : 0;
}
