/* What users have noted about an experiment: labels, a description, whether it is archived and pinned. */

#include "node/core/view/rows.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/format.h"
#include "node/core/facts/options.h"

#define NAME_AT (EXPERIMENT_ID_BYTES + 1) /* of a label, in the key */

int view_annotation_compare(const struct view_annotation *a, const struct view_annotation *b)
{
    if (a->subject != b->subject) {
        return a->subject < b->subject ? -1 : 1;
    }
    size_t a_bytes = a->entry->record.key_bytes, b_bytes = b->entry->record.key_bytes;
    int order = memcmp(a->entry->record.key, b->entry->record.key, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

bool view_annotation_same(const struct view_annotation *a, const struct view_annotation *b)
{
    return view_annotation_compare(a, b) == 0;
}

struct lamport_top view_annotation_top(const struct view_experiment *experiment, const struct view_annotation *of, const node_id *but)
{
    struct lamport_top top = {0};
    const struct view_annotation *row = experiment->annotations;
    while (row != NULL && view_annotation_compare(row, of) < 0) {
        row = row->next;
    }
    for (; row != NULL && view_annotation_same(row, of); row = row->next) {
        lamport_see(&top, but != NULL && node_id_equal(row->writer, *but) ? 0 : row->lamport);
    }
    return top;
}

/* Of the register that begins with `first`: the row whose value counts, or NULL if only a jump is there. */
static const struct view_annotation *winner(const struct view_annotation *first)
{
    struct lamport_top top = {0};
    const struct view_annotation *now = NULL;
    for (const struct view_annotation *row = first; row != NULL && view_annotation_same(row, first); row = row->next) {
        lamport_see(&top, row->lamport);
    }
    for (const struct view_annotation *row = first; row != NULL && view_annotation_same(row, first); row = row->next) {
        bool is_newer = now == NULL || row->lamport > now->lamport;
        bool wins = now != NULL && row->lamport == now->lamport && row->is_set; /* the rows are by writer */
        if (lamport_counts(&top, row->lamport) && (is_newer || wins)) {
            now = row;
        }
    }
    return now;
}

/* The winner of the first register from `row` on, its first row, that has one. */
static const struct view_annotation *winner_from(const struct view_annotation *row)
{
    const struct view_annotation *found = NULL;
    while (row != NULL && found == NULL) {
        const struct view_annotation *first = row;
        found = winner(first);
        while (row != NULL && view_annotation_same(row, first)) {
            row = row->next;
        }
    }
    return found;
}

const struct view_annotation *view_annotation_first(const struct view_experiment *experiment)
{
    return winner_from(experiment->annotations);
}

const struct view_annotation *view_annotation_next(const struct view_annotation *row)
{
    const struct view_annotation *next = row;
    while (next != NULL && view_annotation_same(next, row)) {
        next = next->next;
    }
    return winner_from(next);
}

void view_annotation_name(const struct view_annotation *row, char out[FACT_LABEL_BYTES])
{
    size_t bytes = (size_t)row->entry->record.key_bytes - NAME_AT;
    CHECK(bytes < FACT_LABEL_BYTES);
    memcpy(out, row->entry->record.key + NAME_AT, bytes);
    out[bytes] = '\0';
}

void view_annotation_value(const struct view_annotation *row, char out[FACT_NOTE_BYTES])
{
    struct fact_annotation fact;
    out[0] = '\0';
    if (fact_annotation_read(&row->entry->record, &fact) == 0) {
        (void)bytes_copy_text(out, FACT_NOTE_BYTES, fact.value);
    }
}

const struct view_annotation *view_annotation_find(const struct view_experiment *experiment, enum fact_subject subject,
                                                   const char *name)
{
    for (const struct view_annotation *row = view_annotation_first(experiment); row != NULL && row->subject <= (uint32_t)subject;
         row = view_annotation_next(row)) { /* by subject: notes about trials, the last ones, cost the others nothing */
        char found[FACT_LABEL_BYTES];
        if (row->subject == (uint32_t)subject) {
            view_annotation_name(row, found);
            if (strcmp(found, name) == 0) {
                return row;
            }
        }
    }
    return NULL;
}

static bool is_set(const struct view_experiment *experiment, enum fact_subject subject)
{
    const struct view_annotation *row = view_annotation_find(experiment, subject, "");
    return row != NULL && row->is_set;
}

bool view_experiment_archived(const struct view_experiment *experiment)
{
    return is_set(experiment, FACT_ARCHIVED);
}

bool view_experiment_pinned(const struct view_experiment *experiment)
{
    return is_set(experiment, FACT_PINNED);
}

/* The number that users have set, if it is in the bounds of the option whose place it takes; 0: none. */
static uint32_t number_set(const struct view_experiment *experiment, enum fact_subject subject, const char *key)
{
    const struct config_option *option = config_option_find(key);
    const struct view_annotation *row = view_annotation_find(experiment, subject, "");
    char value[FACT_NOTE_BYTES] = "";
    if (row != NULL && row->is_set) {
        view_annotation_value(row, value);
    }
    uint64_t number = 0;
    const char *text = value;
    for (; *text >= '0' && *text <= '9' && number <= option->max; text++) {
        number = 10 * number + (uint64_t)(*text - '0');
    }
    return *text == '\0' && number >= option->min && number <= option->max ? (uint32_t)number : 0;
}

uint32_t view_experiment_priority(const struct view_experiment *experiment)
{
    uint32_t priority = number_set(experiment, FACT_PRIORITY, "resources.priority");
    return priority != 0 ? priority : experiment->config->priority;
}

uint32_t view_max_slots_bound(const struct view_experiment *experiment)
{
    return experiment->config->max_slots > FACT_MEMBERS_PLAIN ? FACT_MEMBERS_MAX : FACT_MEMBERS_PLAIN;
}

uint32_t view_experiment_max_slots(const struct view_experiment *experiment)
{
    const struct config *config = experiment->config;
    uint32_t slots = number_set(experiment, FACT_MAX_SLOTS, "resources.max_slots");
    bool is_good = slots >= config->slots_per_trial && slots <= view_max_slots_bound(experiment) && !config->even_hosts;
    return is_good ? slots : config->max_slots;
}

uint32_t view_extended_count(const struct view_experiment *experiment, const struct config *config, uint32_t configured)
{
    uint32_t count = configured, wanted;
    for (const struct view_annotation *row = experiment->annotations; row != NULL && search_extends(config->searcher); row = row->next) {
        if (row->subject == FACT_MAX_TRIALS && fact_key_read_max_trials(&row->entry->record, &wanted) == 0 && wanted > count) {
            count = wanted;
        }
    }
    return count;
}

bool view_experiment_is_extended(const struct view_experiment *experiment)
{
    return experiment->trial_count > experiment->configured_count;
}

void view_experiment_description(const struct view_experiment *experiment, char out[FACT_NOTE_BYTES])
{
    const struct view_annotation *row = view_annotation_find(experiment, FACT_DESCRIPTION, "");
    if (row != NULL && row->is_set) {
        view_annotation_value(row, out);
    } else {
        (void)bytes_copy_text(out, FACT_NOTE_BYTES, experiment->config->description);
    }
}

bool view_trial_description(const struct view_experiment *experiment, uint32_t trial, char out[FACT_NOTE_BYTES])
{
    char name[FACT_LABEL_BYTES];
    size_t bytes = format_text(name, sizeof name, "%u", trial);
    const struct view_annotation *row = experiment->annotations;
    while (row != NULL && (row->subject != FACT_TRIAL_DESCRIPTION || row->entry->record.key_bytes != NAME_AT + bytes ||
                           memcmp(row->entry->record.key + NAME_AT, name, bytes) != 0)) {
        row = row->next;
    }
    row = row != NULL ? winner(row) : NULL;
    if (row == NULL || !row->is_set) {
        return false;
    }
    view_annotation_value(row, out);
    return out[0] != '\0';
}

uint32_t view_described_trials(const struct view_experiment *experiment)
{
    uint32_t count = 0;
    const struct view_annotation *before = NULL;
    for (const struct view_annotation *row = experiment->annotations; row != NULL; before = row, row = row->next) {
        count += row->subject == FACT_TRIAL_DESCRIPTION && (before == NULL || !view_annotation_same(before, row));
    }
    return count;
}

/* Puts a label of the configuration into `out`, unless users have changed it, or it is there already. */
static uint32_t add_given(const struct view_experiment *experiment, const char *text, size_t bytes, struct view_label_text *out,
                          uint32_t count)
{
    const char *equals = memchr(text, '=', bytes);
    size_t name_bytes = equals != NULL ? (size_t)(equals - text) : bytes;
    size_t value_bytes = equals != NULL ? bytes - name_bytes - 1 : 0;
    struct view_label_text *label = &out[count];
    if (name_bytes == 0 || name_bytes >= sizeof label->name || value_bytes >= sizeof label->value) {
        return count;
    }
    memset(label, 0, sizeof *label);
    memcpy(label->name, text, name_bytes);
    memcpy(label->value, equals != NULL ? equals + 1 : "", value_bytes);
    bool is_known = view_annotation_find(experiment, FACT_LABEL, label->name) != NULL;
    for (uint32_t i = 0; i < count; i++) {
        is_known |= strcmp(out[i].name, label->name) == 0;
    }
    return is_known ? count : count + 1;
}

uint32_t view_experiment_labels(const struct view_experiment *experiment, struct view_label_text out[VIEW_LABELS_MAX])
{
    struct pack_reader reader;
    uint32_t count = 0;
    pack_reader_init(&reader, experiment->config->labels, experiment->config->labels_bytes);
    uint32_t given = pack_read_array(&reader);
    for (uint32_t i = 0; i < given && count < VIEW_LABELS_MAX; i++) {
        size_t bytes;
        const char *text = pack_read_text(&reader, &bytes);
        if (reader.failed) {
            break;
        }
        count = add_given(experiment, text, bytes, out, count);
    }
    for (const struct view_annotation *row = view_annotation_first(experiment); row != NULL && count < VIEW_LABELS_MAX;
         row = view_annotation_next(row)) {
        if (row->subject == FACT_LABEL && row->is_set) {
            view_annotation_name(row, out[count].name);
            view_annotation_value(row, out[count].value);
            count++;
        }
    }
    return count;
}
