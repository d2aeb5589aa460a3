#include "node/core/owner/usage.h"

#include <string.h>

#include "base/bytes.h"
#include "base/format.h"
#include "base/probe.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/clocks.h"

#define DAY_S 86400
#define LABEL_FIRST "project" /* the label that counts where an experiment has several */

static bool counts(const struct node_core *core)
{
    return (core->options.node.reads & FACT_READS_USAGE) != 0;
}

/* ---- slots --------------------------------------------------------------------------------------------------------------- */

/* The label by which an experiment is counted, "NAME" or "NAME=VALUE": `project`, else the first by name; "" if it has none. */
static void label_of(const struct view_experiment *experiment, char out[FACT_USAGE_TEXT_BYTES])
{
    struct view_label_text labels[VIEW_LABELS_MAX];
    uint32_t count = view_experiment_labels(experiment, labels), chosen = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_first = strcmp(labels[i].name, LABEL_FIRST) == 0, is_earlier = strcmp(labels[i].name, labels[chosen].name) < 0;
        chosen = is_first || (is_earlier && strcmp(labels[chosen].name, LABEL_FIRST) != 0) ? i : chosen;
    }
    out[0] = '\0';
    if (count > 0) {
        const struct view_label_text *label = &labels[chosen];
        char text[sizeof label->name + sizeof label->value];
        (void)format_text(text, sizeof text, "%s%s%s", label->name, label->value[0] != '\0' ? "=" : "", label->value);
        (void)bytes_copy_text(out, FACT_USAGE_TEXT_BYTES, text);
    }
}

/* Names the newest checkpoint of the attempt, of whichever kind; 0: there is none yet. */
static uint64_t saved_by(const struct node_core *core, const attempt_id *attempt)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, attempt->trial) : NULL;
    uint64_t saved = 0;
    for (const struct view_manifest *row = trial != NULL ? trial->manifests : NULL; row != NULL && saved == 0; row = row->next) {
        saved = attempt_id_equal(&row->attempt, attempt) ? row->step : 0;
    }
    for (const struct view_output *row = trial != NULL ? trial->outputs : NULL; row != NULL; row = row->next) {
        bool is_one = attempt_id_equal(&row->attempt, attempt) && row->fact.saved.name[0] != '\0';
        saved += is_one ? row->fact.saved.step + row->fact.saved.bytes : 0; /* another checkpoint, another number */
    }
    return saved;
}

static void describe(const struct node_core *core, uint32_t slot, const attempt_id *attempt, struct fact_usage_row *row)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    (void)bytes_copy_text(row->model, sizeof row->model, core->options.node.slots[slot].model);
    if (experiment != NULL && experiment->known) { /* else it is deleted: what was known of it counts */
        (void)bytes_copy_text(row->user, sizeof row->user, experiment->config->user);
        label_of(experiment, row->label);
    }
}

/* The days of most living members, as the end of invites: a node with a wrong clock counts with the others. */
static uint32_t today(const struct node_core *core)
{
    return (uint32_t)(core_mesh_wall_s(core) / DAY_S);
}

/* Notes time that no record has yet. */
static void note(struct node_core *core, const struct fact_usage_row *texts, uint64_t used_ms, uint64_t lost_ms)
{
    struct core_usage *usage = &core->owner->usage;
    uint32_t at = 0;
    while (at < usage->row_count &&
           (usage->rows[at].day != usage->day || usage->rows[at].is_in[FACT_USAGE_DAY] || usage->rows[at].is_in[FACT_USAGE_MONTH] ||
            strcmp(usage->rows[at].row.user, texts->user) != 0 ||
            strcmp(usage->rows[at].row.label, texts->label) != 0 || strcmp(usage->rows[at].row.model, texts->model) != 0)) {
        at++;
    }
    if (at == CORE_USAGE_ROWS) {
        at--; /* the records were not written for long: the time counts, under another name */
    } else if (at == usage->row_count) {
        usage->rows[usage->row_count++] = (struct core_usage_row){.day = usage->day, .row = *texts};
        usage->rows[at].row.used_ms = usage->rows[at].row.lost_ms = 0;
    }
    struct fact_usage_row *row = &usage->rows[at].row;
    row->used_ms = row->used_ms + used_ms < FACT_USAGE_MS_MAX ? row->used_ms + used_ms : FACT_USAGE_MS_MAX;
    row->lost_ms = row->lost_ms + lost_ms < FACT_USAGE_MS_MAX ? row->lost_ms + lost_ms : FACT_USAGE_MS_MAX;
}

static void count_slot(struct node_core *core, uint32_t slot)
{
    const struct lease_slot *lease = &core->owner->lease.slots[slot];
    const struct core_worker *worker = &core->owner->workers[slot];
    struct core_usage_slot *counted = &core->owner->usage.slots[slot];
    if (worker->phase == CORE_WORKER_NONE || (lease->state != LEASE_LEASED && lease->state != LEASE_RELEASING)) {
        memset(counted, 0, sizeof *counted);
        return;
    }
    describe(core, slot, &worker->attempt, &counted->row);
    uint64_t since_ms = counted->counted_ms != 0     ? counted->counted_ms
                        : worker->confirmed_ms != 0 ? worker->confirmed_ms
                                                     : core->now_ms;
    uint64_t used_ms = core->now_ms > since_ms ? core->now_ms - since_ms : 0;
    counted->counted_ms = core->now_ms;
    counted->unsaved_ms += used_ms;
    uint64_t saved = saved_by(core, &worker->attempt);
    counted->unsaved_ms = saved != counted->saved ? 0 : counted->unsaved_ms;
    counted->saved = saved;
    if (used_ms > 0) {
        note(core, &counted->row, used_ms, 0);
    }
}

/* True if nothing goes on from what the worker had in memory. */
static bool is_lost(const struct node_core *core, const struct core_worker *worker, enum fact_reason reason)
{
    const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
    bool goes_on = worker->is_elastic && attempt != NULL && view_attempt_verdict(attempt) == NULL; /* its group, without it */
    return (reason == FACT_FAILED || reason == FACT_LOST) && !goes_on;
}

void usage_ended(struct node_core *core, uint32_t slot, enum fact_reason reason)
{
    struct core_usage_slot *counted = &core->owner->usage.slots[slot];
    const struct core_worker *worker = &core->owner->workers[slot];
    if (!counts(core) || slot >= core->owner->lease.count) {
        return;
    }
    core->owner->usage.day = today(core);
    bool is_of_this_boot = counted->counted_ms != 0 || worker->confirmed_ms != 0;
    if (is_of_this_boot) {
        count_slot(core, slot);
    }
    if (is_of_this_boot && is_lost(core, worker, reason) && counted->unsaved_ms > 0) {
        note(core, &counted->row, 0, counted->unsaved_ms);
    }
    core->owner->usage.has_end |= is_of_this_boot;
    memset(counted, 0, sizeof *counted);
}

/* ---- records ------------------------------------------------------------------------------------------------------------- */

/* What this node's record of the day or the month has so far; nothing, if the place has another one. */
static void read_own(const struct node_core *core, enum fact_usage_span span, uint32_t number, struct fact_usage *out)
{
    struct fact_key key = fact_key_usage(span, number);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_USAGE, key.bytes, key.count));
    if (entry == NULL || fact_usage_read(&entry->record, out) != 0 || out->number != number) {
        out->number = number;
        out->row_count = 0;
    }
}

static uint32_t number_of(enum fact_usage_span span, uint32_t day)
{
    return span == FACT_USAGE_DAY ? day : fact_usage_month(day);
}

/* Writes the record with all that is noted for it. False: there was no memory. */
static bool write_record(struct node_core *core, enum fact_usage_span span, uint32_t number)
{
    struct core_usage *usage = &core->owner->usage;
    struct fact_usage fact;
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    bool is_published;
    read_own(core, span, number, &fact);
    for (uint32_t i = 0; i < usage->row_count; i++) {
        if (!usage->rows[i].is_in[span] && number_of(span, usage->rows[i].day) == number) {
            fact_usage_add(&fact, &usage->rows[i].row);
        }
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_usage_pack(&writer, &fact);
    (void)core_try_put(core, FACT_USAGE, fact_key_usage(span, number), &writer, &is_published);
    for (uint32_t i = 0; i < usage->row_count && is_published; i++) {
        usage->rows[i].is_in[span] |= number_of(span, usage->rows[i].day) == number;
    }
    return is_published;
}

static void write_records(struct node_core *core)
{
    struct core_usage *usage = &core->owner->usage;
    uint32_t kept = 0;
    bool has_room = true;
    for (uint32_t i = 0; i < usage->row_count; i++) {
        for (enum fact_usage_span span = FACT_USAGE_DAY; span < FACT_USAGE_SPANS; span++) {
            has_room = has_room && core_has_room(core, 64, 2 * RECORD_BODY_BYTES_MAX);
            has_room = has_room &&
                       (usage->rows[i].is_in[span] || write_record(core, span, number_of(span, usage->rows[i].day)));
        }
    }
    for (uint32_t i = 0; i < usage->row_count; i++) {
        if (!usage->rows[i].is_in[FACT_USAGE_DAY] || !usage->rows[i].is_in[FACT_USAGE_MONTH]) {
            usage->rows[kept++] = usage->rows[i];
        }
    }
    usage->row_count = kept;
    usage->tried_ms = core->now_ms;
    usage->has_end = false;
}

void usage_housekeep(struct node_core *core)
{
    struct core_usage *usage = &core->owner->usage;
    if (!counts(core)) {
        return;
    }
    usage->day = today(core);
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        count_slot(core, slot);
    }
    uint64_t pause_ms = usage->has_end ? CORE_USAGE_END_MS : CORE_USAGE_MS;
    bool is_due = core->now_ms - usage->tried_ms >= pause_ms || usage->row_count > CORE_USAGE_ROWS / 2 || core->leaving;
    /* A node that has not caught up may lack newer records of its own. */
    if (usage->row_count > 0 && is_due && !core->members->syncing && !core->is_out) {
        write_records(core);
    }
}

/* Records of this node's that others hold replace those of its disk, and what is noted comes on top when it is written: nothing is
 * to be added here. */
void usage_restate(struct node_core *core)
{
    struct fact_usage fact;
    if (counts(core) && BUG(usage_counted_twice, "what a record of usage has is not added to it once more after a heal")) {
        core->owner->usage.day = today(core);
        read_own(core, FACT_USAGE_DAY, core->owner->usage.day, &fact);
        for (uint32_t i = 0; i < fact.row_count; i++) {
            note(core, &fact.rows[i], fact.rows[i].used_ms, 0);
        }
    }
}
