/* The records of a search that stops trials early: results, logs of decisions, stops. */

#include "node/core/facts/inside.h"

#include <math.h> /* NAN only */
#include <string.h>

#include "base/err.h"
#include "base/random.h"
#include "node/core/facts/config.h"
#include "train/search/promotion.h"
#include "train/search/search.h"

_Static_assert(FACT_POINT_MAX == CONFIG_DRAWN_PARAMETERS_MAX, "a point has a number for each parameter");
_Static_assert((int)FACT_PAUSES == (int)SEARCH_PAUSES && (int)FACT_ENDS == (int)SEARCH_ENDS && (int)FACT_TOPS_OUT == (int)SEARCH_TOPS_OUT,
               "decisions in records are the steps of a ladder");

void fact_draw_pack(struct pack_writer *writer, const struct fact_draw *draw)
{
    pack_array(writer, 1 + draw->count);
    pack_u64(writer, draw->parent == FACT_NO_TRIAL ? 0 : (uint64_t)draw->parent + 1);
    for (uint32_t i = 0; i < draw->count; i++) {
        pack_double(writer, draw->point[i]);
    }
}

void fact_draw_read(struct pack_reader *reader, struct fact_draw *out)
{
    uint32_t elements = pack_read_array(reader);
    reader->failed |= elements < 2 || elements > 1 + FACT_POINT_MAX;
    out->count = reader->failed ? 0 : elements - 1;
    uint64_t parent = pack_read_u64_max(reader, SEARCH_TRIALS_MAX);
    out->parent = parent == 0 ? FACT_NO_TRIAL : (uint32_t)parent - 1;
    for (uint32_t i = 0; i < out->count && !reader->failed; i++) {
        out->point[i] = pack_read_double(reader);
    }
}

uint64_t fact_draw_mark(uint32_t count, const double *point, uint32_t parent)
{
    uint64_t mark = random_mix(((uint64_t)count << 32) + parent);
    for (uint32_t i = 0; i < count; i++) {
        double number = point[i] != point[i] ? NAN : point[i] + 0.0; /* one bit pattern for all NaN, and one for both zeros */
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        mark = random_mix(mark ^ bits);
    }
    return count == 0 ? 0 : mark != 0 ? mark : 1;
}

void fact_result_pack(struct pack_writer *writer, const struct fact_result *fact)
{
    pack_array(writer, fact->draw != 0 ? 4 : 3);
    pack_u64(writer, fact->step);
    pack_u64(writer, fact->length);
    pack_double(writer, fact->metric);
    if (fact->draw != 0) {
        pack_u64(writer, fact->draw);
    }
}

int fact_result_read(const struct record *record, struct fact_result *out)
{
    struct pack_reader reader;
    uint32_t extra, rung;
    struct fact_result fact;
    fact_body_open(&reader, record, 3, &extra);
    fact.step = pack_read_u64(&reader);
    fact.length = pack_read_u64(&reader);
    fact.metric = pack_read_double(&reader);
    fact.draw = extra > 0 ? pack_read_u64(&reader) : 0;
    extra -= extra > 0;
    if (fact_body_close(&reader, extra) != 0 || fact_key_read_rung(record, &rung) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

/* ---- answers of a search's program ---- */

#define ANSWER_STARTS 1u
#define ANSWER_HAS_MORE 2u
#define ANSWER_FINISHES 4u

void fact_create_pack(struct pack_writer *writer, uint32_t trial, const struct fact_draw *draw)
{
    pack_array(writer, 2);
    pack_u64(writer, trial);
    fact_draw_pack(writer, draw);
}

void fact_stopped_pack(struct pack_writer *writer, uint32_t trial, uint32_t number)
{
    pack_array(writer, 2);
    pack_u64(writer, trial);
    pack_u64(writer, number);
}

static void pack_answer(struct pack_writer *writer, const struct fact_answer *answer)
{
    pack_array(writer, 3);
    pack_u64(writer, (answer->is_start ? ANSWER_STARTS : 0) | (answer->has_more ? ANSWER_HAS_MORE : 0) |
                         (answer->finishes ? ANSWER_FINISHES : 0));
    pack_array(writer, answer->create_count);
    pack_raw(writer, answer->creates, answer->creates_bytes);
    pack_array(writer, answer->stop_count);
    pack_raw(writer, answer->stops, answer->stops_bytes);
}

struct fact_actions fact_answer_creates(const struct fact_answer *answer)
{
    struct fact_actions actions = {.left = answer->create_count};
    pack_reader_init(&actions.reader, answer->creates, answer->creates_bytes);
    return actions;
}

bool fact_actions_create(struct fact_actions *actions, uint32_t *trial, struct fact_draw *draw)
{
    if (actions->left == 0) {
        return false;
    }
    actions->left--;
    uint32_t extra = fact_element_open(&actions->reader, 2);
    *trial = (uint32_t)pack_read_u64_max(&actions->reader, SEARCH_TRIALS_MAX - 1);
    fact_draw_read(&actions->reader, draw);
    fact_element_close(&actions->reader, extra);
    return !actions->reader.failed;
}

struct fact_actions fact_answer_stops(const struct fact_answer *answer)
{
    struct fact_actions actions = {.left = answer->stop_count};
    pack_reader_init(&actions.reader, answer->stops, answer->stops_bytes);
    return actions;
}

bool fact_actions_stop(struct fact_actions *actions, uint32_t *trial, uint32_t *number)
{
    if (actions->left == 0) {
        return false;
    }
    actions->left--;
    uint32_t extra = fact_element_open(&actions->reader, 2);
    *trial = (uint32_t)pack_read_u64_max(&actions->reader, SEARCH_TRIALS_MAX - 1);
    *number = (uint32_t)pack_read_u64_max(&actions->reader, UINT32_MAX);
    fact_element_close(&actions->reader, extra);
    actions->reader.failed |= *number == 0;
    return !actions->reader.failed;
}

/* The bytes of the next value of the reader, an array of at most FACT_ACTIONS_MAX elements, without its head. */
static const uint8_t *read_actions(struct pack_reader *reader, uint32_t *count, uint32_t *bytes)
{
    struct pack_reader whole = *reader;
    size_t all = 0;
    (void)pack_read_any(&whole, &all);
    *count = pack_read_array(reader);
    reader->failed |= whole.failed || *count > FACT_ACTIONS_MAX;
    const uint8_t *at = reader->failed ? NULL : reader->bytes + reader->offset;
    *bytes = reader->failed ? 0 : (uint32_t)(whole.offset - reader->offset);
    *count = reader->failed ? 0 : *count;
    if (!reader->failed) {
        *reader = whole;
    }
    return at;
}

static void read_answer(struct pack_reader *reader, struct fact_answer *out)
{
    uint32_t extra = fact_element_open(reader, 3), trial, number;
    uint64_t flags = pack_read_u64(reader);
    struct fact_draw draw;
    *out = (struct fact_answer){.is_start = (flags & ANSWER_STARTS) != 0,
                                .has_more = (flags & ANSWER_HAS_MORE) != 0,
                                .finishes = (flags & ANSWER_FINISHES) != 0};
    out->creates = read_actions(reader, &out->create_count, &out->creates_bytes);
    out->stops = read_actions(reader, &out->stop_count, &out->stops_bytes);
    struct fact_actions creates = fact_answer_creates(out), stops = fact_answer_stops(out);
    while (!reader->failed && fact_actions_create(&creates, &trial, &draw)) {
    }
    while (!reader->failed && fact_actions_stop(&stops, &trial, &number)) {
    }
    reader->failed |= creates.reader.failed || stops.reader.failed;
    fact_element_close(reader, extra);
}

/* ---- logs ---- */

void fact_search_log_pack(struct pack_writer *writer, const struct fact_search_log *fact)
{
    pack_array(writer, fact->has_answer ? 6 : fact->has_created ? 5 : 4);
    pack_u64(writer, fact->term);
    pack_u64(writer, fact->boot);
    pack_array(writer, fact->adopted_count);
    for (uint32_t i = 0; i < fact->adopted_count; i++) {
        pack_array(writer, 3);
        pack_bin(writer, fact->adopted[i].writer.bytes, NODE_ID_BYTES);
        pack_bin(writer, fact->adopted[i].log.bytes, sizeof fact->adopted[i].log.bytes);
        pack_u64(writer, fact->adopted[i].until);
    }
    pack_array(writer, fact->judged_count);
    for (uint32_t i = 0; i < fact->judged_count; i++) {
        const struct fact_judged *judged = &fact->judged[i];
        pack_array(writer, 9);
        pack_u64(writer, judged->attempt.trial);
        pack_u64(writer, judged->attempt.number);
        pack_u64(writer, judged->attempt.term);
        pack_bin(writer, judged->attempt.coordinator.bytes, NODE_ID_BYTES);
        pack_u64(writer, judged->rung);
        pack_u64(writer, (uint64_t)judged->decision);
        pack_u64(writer, judged->step);
        pack_u64(writer, judged->length);
        pack_double(writer, judged->metric);
    }
    if (fact->has_created) {
        pack_array(writer, 3);
        fact_attempt_id_pack(writer, &fact->created.attempt);
        pack_bool(writer, fact->created.is_drawn);
        fact_draw_pack(writer, &fact->created.draw);
    }
    if (fact->has_answer) {
        if (!fact->has_created) {
            pack_nil(writer);
        }
        pack_answer(writer, &fact->answer);
    }
}

static void read_created(struct pack_reader *reader, experiment_id experiment, struct fact_created *out)
{
    uint32_t extra = fact_element_open(reader, 3);
    fact_attempt_id_read(reader, &out->attempt);
    out->is_drawn = pack_read_bool(reader);
    fact_draw_read(reader, &out->draw);
    fact_element_close(reader, extra);
    reader->failed |= !experiment_id_equal(out->attempt.experiment, experiment) || out->attempt.number == 0 ||
                      out->attempt.trial >= SEARCH_TRIALS_MAX || node_id_is_none(out->attempt.coordinator);
}

static void read_judged(struct pack_reader *reader, experiment_id experiment, struct fact_judged *out)
{
    uint32_t extra = fact_element_open(reader, 9);
    memset(out, 0, sizeof *out);
    out->attempt.experiment = experiment;
    out->attempt.trial = (uint32_t)pack_read_u64_max(reader, SEARCH_TRIALS_MAX - 1);
    out->attempt.number = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
    out->attempt.term = pack_read_u64(reader);
    pack_read_bin_exact(reader, out->attempt.coordinator.bytes, NODE_ID_BYTES);
    out->rung = (uint32_t)pack_read_u64_max(reader, FACT_RUNGS_MAX - 1);
    out->decision = (enum fact_decision)pack_read_u64_max(reader, FACT_ENDS);
    out->step = pack_read_u64(reader);
    out->length = pack_read_u64(reader);
    out->metric = pack_read_double(reader);
    fact_element_close(reader, extra);
    bool has_attempt = out->attempt.number != 0 && !node_id_is_none(out->attempt.coordinator);
    reader->failed |= !has_attempt && out->decision != FACT_ENDS;
}

/* Reads the length of a list of at most `most` elements. */
static uint32_t read_count(struct pack_reader *reader, uint32_t most)
{
    uint32_t count = pack_read_array(reader);
    reader->failed |= count > most;
    return reader->failed ? 0 : count;
}

int fact_search_log_read(const struct record *record, struct fact_search_log *out)
{
    struct pack_reader reader;
    uint32_t extra, number;
    experiment_id experiment;
    struct fact_log_name log;
    if (fact_key_read_log(record, &log, &number) != 0 || fact_key_read_experiment(record, &experiment) != 0) {
        return ERR_MALFORMED;
    }
    fact_body_open(&reader, record, 4, &extra);
    out->term = pack_read_u64(&reader);
    out->boot = pack_read_u64(&reader);
    out->adopted_count = read_count(&reader, FACT_ADOPTED_MAX);
    for (uint32_t i = 0; i < out->adopted_count && !reader.failed; i++) {
        uint32_t more = fact_element_open(&reader, 3);
        pack_read_bin_exact(&reader, out->adopted[i].writer.bytes, NODE_ID_BYTES);
        pack_read_bin_exact(&reader, out->adopted[i].log.bytes, sizeof out->adopted[i].log.bytes);
        out->adopted[i].until = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
        fact_element_close(&reader, more);
    }
    out->judged_count = read_count(&reader, FACT_JUDGED_MAX);
    for (uint32_t i = 0; i < out->judged_count && !reader.failed; i++) {
        read_judged(&reader, experiment, &out->judged[i]);
    }
    out->has_created = extra > 0 && !reader.failed;
    bool has_nil = out->has_created && pack_peek(&reader) == PACK_NIL;
    if (has_nil) {
        pack_read_nil(&reader);
        out->has_created = false;
        extra--;
    } else if (out->has_created) {
        read_created(&reader, experiment, &out->created);
        extra--;
    }
    out->has_answer = extra > 0 && !reader.failed;
    if (out->has_answer) {
        read_answer(&reader, &out->answer);
        reader.failed |= out->judged_count > 1;
        extra--;
    }
    return out->term != 0 ? fact_body_close(&reader, extra) : ERR_MALFORMED;
}

void fact_searcher_pack(struct pack_writer *writer, const struct fact_searcher *fact)
{
    pack_array(writer, 5);
    pack_u64(writer, fact->starts);
    pack_u64(writer, fact->failures);
    pack_bool(writer, fact->is_given_up);
    pack_bool(writer, fact->differs);
    pack_text(writer, fact->text);
}

int fact_searcher_read(const struct record *record, struct fact_searcher *out)
{
    struct pack_reader reader;
    uint32_t extra;
    fact_body_open(&reader, record, 5, &extra);
    out->starts = pack_read_u64(&reader);
    out->failures = pack_read_u64(&reader);
    out->is_given_up = pack_read_bool(&reader);
    out->differs = pack_read_bool(&reader);
    pack_read_text_copy(&reader, out->text, sizeof out->text);
    return fact_body_close(&reader, extra);
}

void fact_search_stop_pack(struct pack_writer *writer, const struct fact_search_stop *fact)
{
    pack_array(writer, 6);
    pack_u64(writer, fact->number);
    pack_u64(writer, fact->rung);
    pack_bool(writer, fact->is_top);
    pack_bin(writer, fact->writer.bytes, NODE_ID_BYTES);
    pack_bin(writer, fact->log.bytes, sizeof fact->log.bytes);
    pack_u64(writer, fact->record);
}

int fact_search_stop_read(const struct record *record, struct fact_search_stop *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_search_stop fact;
    fact_body_open(&reader, record, 6, &extra);
    fact.number = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.rung = (uint32_t)pack_read_u64_max(&reader, FACT_RUNGS_MAX - 1);
    fact.is_top = pack_read_bool(&reader);
    pack_read_bin_exact(&reader, fact.writer.bytes, NODE_ID_BYTES);
    pack_read_bin_exact(&reader, fact.log.bytes, sizeof fact.log.bytes);
    fact.record = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    if (fact_body_close(&reader, extra) != 0 || fact.number == 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

void fact_search_pause_pack(struct pack_writer *writer, const struct fact_search_pause *fact)
{
    pack_array(writer, 7);
    pack_u64(writer, fact->number);
    pack_u64(writer, fact->term);
    pack_bin(writer, fact->coordinator.bytes, NODE_ID_BYTES);
    pack_u64(writer, fact->rung);
    pack_bin(writer, fact->writer.bytes, NODE_ID_BYTES);
    pack_bin(writer, fact->log.bytes, sizeof fact->log.bytes);
    pack_u64(writer, fact->record);
}

int fact_search_pause_read(const struct record *record, struct fact_search_pause *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_search_pause fact;
    fact_body_open(&reader, record, 7, &extra);
    fact.number = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    fact.term = pack_read_u64(&reader);
    pack_read_bin_exact(&reader, fact.coordinator.bytes, NODE_ID_BYTES);
    fact.rung = (uint32_t)pack_read_u64_max(&reader, FACT_RUNGS_MAX - 1);
    pack_read_bin_exact(&reader, fact.writer.bytes, NODE_ID_BYTES);
    pack_read_bin_exact(&reader, fact.log.bytes, sizeof fact.log.bytes);
    fact.record = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    if (fact_body_close(&reader, extra) != 0 || fact.number == 0 || node_id_is_none(fact.coordinator)) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}
