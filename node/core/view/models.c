/* The model registry: which models and versions there are, and what is said of them (struct fact_model). */

#include "node/core/view/fold.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

#define SUBJECT_AT FACT_MODEL_HASH_BYTES
#define VERSION_AT (SUBJECT_AT + 1)
#define DIGITS 1000000 /* six digits of an id, behind a number that another version keeps */

static int model_order(const void *row, const void *wanted)
{
    const struct view_model *a = row, *b = wanted;
    int order = memcmp(a->key, b->key, sizeof a->key);
    return order != 0 ? order : node_id_compare(a->writer, b->writer);
}

static bool same_model(const struct view_model *a, const struct view_model *b)
{
    return memcmp(a->key, b->key, FACT_MODEL_HASH_BYTES) == 0;
}

static bool same_key(const struct view_model *a, const struct view_model *b)
{
    return memcmp(a->key, b->key, sizeof a->key) == 0;
}

/* The next row of the same model. */
static const struct view_model *next_of(const struct view_model *row)
{
    return row->next != NULL && same_model(row, row->next) ? row->next : NULL;
}

/* The first row of the model that is about something else. */
static const struct view_model *behind(const struct view_model *row)
{
    const struct view_model *next = next_of(row);
    while (next != NULL && same_key(next, row)) {
        next = next_of(next);
    }
    return next;
}

const uint8_t *view_model_id(const struct view_model *row)
{
    return row->key + VERSION_AT;
}

enum fact_model_subject view_model_subject(const struct view_model *row)
{
    return (enum fact_model_subject)row->key[SUBJECT_AT];
}

static bool is_of_model(const struct view_model *row)
{
    static const uint8_t none[FACT_VERSION_BYTES] = {0};
    return memcmp(view_model_id(row), none, sizeof none) == 0;
}

static bool is_version(const struct view_model *row)
{
    return row != NULL && view_model_subject(row) == FACT_MODEL_VERSION;
}

/* ---- registers -------------------------------------------------------------------------------------------------- */

/* Of the register that begins with `first`. */
static struct lamport_top top_of(const struct view_model *first, const node_id *but, uint64_t *own)
{
    struct lamport_top top = {0};
    for (const struct view_model *row = first; row != NULL && same_key(row, first); row = row->next) {
        bool is_own = but != NULL && node_id_equal(row->writer, *but);
        lamport_see(&top, is_own ? 0 : row->lamport);
        *own = is_own ? row->lamport : *own;
    }
    return top;
}

/* Whether `a` counts rather than `b`. The rows are by writer, so of equal ones the last counts. */
static bool wins(const struct view_model *a, const struct view_model *b)
{
    if (a->lamport != b->lamport || a->removed != b->removed) {
        return a->lamport != b->lamport ? a->lamport > b->lamport : !a->removed;
    }
    return a->number >= b->number;
}

/* The row of the register whose value counts; NULL: there is only a jump. */
static const struct view_model *winner(const struct view_model *first)
{
    uint64_t own = 0;
    struct lamport_top top = top_of(first, NULL, &own);
    const struct view_model *now = NULL;
    for (const struct view_model *row = first; row != NULL && same_key(row, first); row = row->next) {
        if (lamport_counts(&top, row->lamport) && (now == NULL || wins(row, now))) {
            now = row;
        }
    }
    return now;
}

static void make_key(struct view_model *out, const char *name, enum fact_model_subject subject,
                     const uint8_t version[FACT_VERSION_BYTES], const char *field)
{
    struct fact_key key = fact_key_model(name, subject, version, field);
    memset(out->key, 0, sizeof out->key);
    memcpy(out->key, key.bytes, key.count);
}

static const struct view_model *first_of(const struct view *view, const struct view_model *wanted)
{
    const struct view_model *row = view->models;
    while (row != NULL && memcmp(row->key, wanted->key, sizeof row->key) < 0) {
        row = row->next;
    }
    return row != NULL && same_key(row, wanted) ? row : NULL;
}

const struct view_model *view_model_register(const struct view *view, const char *name, enum fact_model_subject subject,
                                             const uint8_t version[FACT_VERSION_BYTES], const char *field)
{
    struct view_model wanted;
    make_key(&wanted, name, subject, version, field);
    const struct view_model *first = first_of(view, &wanted);
    return first != NULL ? winner(first) : NULL;
}

uint64_t view_model_clock(const struct view *view, const char *name, enum fact_model_subject subject,
                          const uint8_t version[FACT_VERSION_BYTES], const char *field, node_id self)
{
    struct view_model wanted;
    uint64_t own = 0;
    make_key(&wanted, name, subject, version, field);
    const struct view_model *first = first_of(view, &wanted);
    struct lamport_top others = {0};
    if (first != NULL) {
        others = top_of(first, &self, &own);
    }
    return lamport_next(&others, own);
}

/* ---- the fold --------------------------------------------------------------------------------------------------- */

static int pin_order(const void *row, const void *wanted)
{
    const struct view_pin *a = row, *b = wanted;
    return memcmp(a->version, b->version, sizeof a->version);
}

/* What a version is stays, as long as the version does. */
static int pin(struct view *view, const struct fact_model *fact, const uint8_t version[FACT_VERSION_BYTES])
{
    struct view_pin wanted = {.trial = fact->source.trial, .blob = fact->source.blob};
    memcpy(wanted.version, version, sizeof wanted.version);
    if (experiment_id_is_none(fact->source.experiment) || view_find_tombstone(view, fact->source.experiment) != NULL) {
        return 0;
    }
    struct view_experiment *experiment = view_experiment_row(view, fact->source.experiment);
    struct view_pin *row =
        experiment != NULL ? view_row(view, &experiment->pins, &wanted, sizeof wanted, pin_order) : NULL;
    if (row == NULL) {
        return ERR_FULL;
    }
    row->is_removed |= fact->removed;
    experiment->changed = true;
    return 0;
}

/* Two versions that claim one number: that with the smaller id keeps it, also when it is removed: numbers never get another meaning. */
static void settle_number(struct view *view, struct view_model *version)
{
    struct view_model *row = view->models;
    while (row != NULL && !same_model(row, version)) {
        row = row->next;
    }
    for (; row != NULL && same_model(row, version) && is_version(row); row = row->next) {
        int order = row->number == version->number ? memcmp(row->key, version->key, sizeof row->key) : 0;
        row->is_moved |= order > 0;
        version->is_moved |= order < 0;
    }
}

int fold_model(struct view *view, const struct records_entry *entry)
{
    struct fact_model fact;
    struct view_model wanted = {.writer = entry->record.writer};
    uint8_t version[FACT_VERSION_BYTES];
    uint32_t subject;
    uint64_t own = 0;
    if (fact_key_read_model(&entry->record, &subject, version) != 0) {
        return ERR_MALFORMED;
    }
    if (subject >= FACT_MODEL_SUBJECTS) {
        return 0; /* of a later version, which may say something else */
    }
    if (fact_model_read(&entry->record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    make_key(&wanted, fact.name, (enum fact_model_subject)subject, version, fact.field);
    const struct view_model *first = first_of(view, &wanted);
    struct lamport_top before = {0};
    if (first != NULL) {
        before = top_of(first, NULL, &own);
    }
    struct view_model *row = view_row(view, &view->models, &wanted, sizeof wanted, model_order);
    if (row == NULL) {
        return ERR_FULL;
    }
    row->entry = entry;
    row->lamport = fact.lamport;
    row->removed = fact.removed;
    row->number = fact.number;
    view_count_jumps(view, before, top_of(first_of(view, &wanted), NULL, &own));
    if (subject != FACT_MODEL_VERSION) {
        return 0;
    }
    settle_number(view, row);
    return pin(view, &fact, version);
}

/* ---- versions --------------------------------------------------------------------------------------------------- */

/* One member's word that the version is removed counts. */
static bool is_removed(const struct view_model *first)
{
    bool removed = false;
    for (const struct view_model *row = first; row != NULL && same_key(row, first); row = row->next) {
        removed |= row->removed;
    }
    return removed;
}

const struct view_model *view_model_version_next(const struct view_model *model, const struct view_model *row)
{
    const struct view_model *first = row == NULL ? model : behind(row);
    while (is_version(first) && is_removed(first)) {
        first = behind(first);
    }
    return is_version(first) ? first : NULL;
}

uint64_t view_model_version_number(const struct view_model *version)
{
    return version->is_moved ? version->number * DIGITS + bytes_get_u64(view_model_id(version)) % DIGITS : version->number;
}

const struct view_model *view_model_version(const struct view_model *model, uint64_t number)
{
    const struct view_model *row = NULL;
    do {
        row = view_model_version_next(model, row);
    } while (row != NULL && view_model_version_number(row) != number);
    return row;
}

const struct view_model *view_model_version_by_id(const struct view_model *model, const uint8_t id[FACT_VERSION_BYTES])
{
    const struct view_model *row = NULL;
    do {
        row = view_model_version_next(model, row);
    } while (row != NULL && memcmp(view_model_id(row), id, FACT_VERSION_BYTES) != 0);
    return row;
}

/* The first row of the model, whether it exists or not; NULL: none. */
static const struct view_model *rows_of(const struct view *view, const char *name)
{
    static const uint8_t none[FACT_VERSION_BYTES] = {0};
    struct view_model wanted;
    make_key(&wanted, name, FACT_MODEL_VERSION, none, "");
    const struct view_model *row = view->models;
    while (row != NULL && memcmp(row->key, wanted.key, FACT_MODEL_HASH_BYTES) < 0) {
        row = row->next;
    }
    return row != NULL && same_model(row, &wanted) ? row : NULL;
}

uint64_t view_model_free_number(const struct view *view, const char *name)
{
    uint64_t highest = 0;
    for (const struct view_model *row = rows_of(view, name); is_version(row); row = next_of(row)) {
        highest = row->number > highest ? row->number : highest;
    }
    return highest < FACT_MODEL_NUMBER_MAX ? highest + 1 : 0;
}

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* `model`: the first row of its model. */
static bool exists(const struct view_model *model)
{
    if (view_model_version_next(model, NULL) != NULL) {
        return true;
    }
    const struct view_model *row = model;
    while (row != NULL && view_model_subject(row) < FACT_MODEL_EXISTS) {
        row = behind(row);
    }
    const struct view_model *now = row != NULL && view_model_subject(row) == FACT_MODEL_EXISTS ? winner(row) : NULL;
    return now != NULL && !now->removed;
}

const struct view_model *view_model_next(const struct view *view, const struct view_model *row)
{
    const struct view_model *first = row == NULL ? view->models : row->next;
    while (first != NULL && ((row != NULL && same_model(first, row)) || !exists(first))) {
        row = first;
        while (first != NULL && same_model(first, row)) {
            first = first->next;
        }
    }
    return first;
}

const struct view_model *view_model_find(const struct view *view, const char *name)
{
    const struct view_model *row = rows_of(view, name);
    return row != NULL && exists(row) ? row : NULL;
}

bool view_model_value_is_held(const struct view_model *model, const struct view_model *row)
{
    struct fact_model fact;
    if (view_model_subject(row) == FACT_MODEL_ALIAS) {
        return fact_model_read(&row->entry->record, &fact) == 0 && view_model_version_by_id(model, fact.target) != NULL;
    }
    return is_of_model(row) || view_model_version_by_id(model, view_model_id(row)) != NULL;
}

const struct view_model *view_model_value_next(const struct view_model *model, const struct view_model *row)
{
    for (row = row == NULL ? model : behind(row); row != NULL; row = behind(row)) {
        const struct view_model *now = view_model_subject(row) > FACT_MODEL_EXISTS ? winner(row) : NULL;
        if (now != NULL && !now->removed) {
            return now;
        }
    }
    return NULL;
}

const struct view_model *view_model_note_next(const struct view_model *model, const struct view_model *row)
{
    for (row = row == NULL ? model : behind(row); row != NULL; row = behind(row)) {
        bool is_note = view_model_subject(row) == FACT_MODEL_DESCRIPTION || view_model_subject(row) == FACT_MODEL_TAG;
        const struct view_model *now = is_note && is_of_model(row) ? winner(row) : NULL;
        if (now != NULL && !now->removed) {
            return now;
        }
    }
    return NULL;
}

bool view_pins_checkpoint(const struct view_experiment *experiment, uint32_t trial, hash256 blob)
{
    for (const struct view_pin *row = experiment->pins; row != NULL; row = row->next) {
        if (!row->is_removed && row->trial == trial && hash256_equal(row->blob, blob)) {
            return true;
        }
    }
    return false;
}

bool view_pins_any(const struct view_experiment *experiment)
{
    bool is_pinned = false;
    for (const struct view_pin *row = experiment->pins; row != NULL; row = row->next) {
        is_pinned |= !row->is_removed;
    }
    return is_pinned;
}
