/* The secrets of the mesh: which value of each counts, and which nodes have a copy of it (struct fact_secret). */

#include "node/core/view/fold.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

static int secret_order(const void *row, const void *wanted)
{
    const struct view_secret *a = row, *b = wanted;
    int order = strcmp(a->name, b->name);
    order = order != 0 ? order : node_id_compare(a->writer, b->writer);
    return order != 0 ? order : (a->page > b->page) - (a->page < b->page);
}

int fold_secret(struct view *view, const struct records_entry *entry)
{
    struct fact_secret fact;
    struct view_secret wanted = {.writer = entry->record.writer};
    if (fact_secret_read(&entry->record, &fact) != 0 ||
        fact_key_read_secret(&entry->record, wanted.name, &wanted.page) != 0) {
        return ERR_MALFORMED;
    }
    struct view_secret *row = view_row(view, &view->secrets, &wanted, sizeof wanted, secret_order);
    if (row == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_secret_top(view, wanted.name, NULL);
    row->entry = entry;
    row->lamport = fact.lamport;
    row->removed = fact.removed;
    memcpy(row->value, fact.value, sizeof row->value);
    view_count_jumps(view, before, view_secret_top(view, wanted.name, NULL));
    view->secret_count++;
    view->slots_changed = true; /* a trial may have waited for it */
    return 0;
}

/* The first row of the name; NULL: nobody has set it. */
static const struct view_secret *first_of(const struct view *view, const char *name)
{
    const struct view_secret *row = view->secrets;
    while (row != NULL && strcmp(row->name, name) < 0) {
        row = row->next;
    }
    return row != NULL && strcmp(row->name, name) == 0 ? row : NULL;
}

static const struct view_secret *next_of(const struct view_secret *row)
{
    return row->next != NULL && strcmp(row->next->name, row->name) == 0 ? row->next : NULL;
}

struct lamport_top view_secret_top(const struct view *view, const char *name, const node_id *but)
{
    struct lamport_top top = {0};
    uint64_t of_writer = 0;
    for (const struct view_secret *row = first_of(view, name), *next; row != NULL; row = next) {
        next = next_of(row);
        of_writer = row->lamport > of_writer ? row->lamport : of_writer;
        if (next == NULL || !node_id_equal(next->writer, row->writer)) {
            lamport_see(&top, but != NULL && node_id_equal(row->writer, *but) ? 0 : of_writer);
            of_writer = 0;
        }
    }
    return top;
}

static int value_order(const struct view_secret *a, const struct view_secret *b)
{
    if (a->lamport != b->lamport || a->removed != b->removed) {
        return a->lamport != b->lamport ? (a->lamport < b->lamport ? -1 : 1) : b->removed ? -1 : 1;
    }
    return memcmp(a->value, b->value, sizeof a->value);
}

const struct view_secret *view_secret_find(const struct view *view, const char *name)
{
    const struct view_secret *now = NULL;
    struct lamport_top top = view_secret_top(view, name, NULL);
    for (const struct view_secret *row = first_of(view, name); row != NULL; row = next_of(row)) {
        if (row->lamport > 0 && lamport_counts(&top, row->lamport) && (now == NULL || value_order(now, row) < 0)) {
            now = row;
        }
    }
    return now;
}

const struct view_secret *view_secret_next(const struct view *view, const char *name)
{
    const struct view_secret *row = view->secrets;
    while (row != NULL && name != NULL && strcmp(row->name, name) <= 0) {
        row = row->next;
    }
    return row;
}

bool view_secret_is_same(const struct view_secret *a, const struct view_secret *b)
{
    return value_order(a, b) == 0;
}

const uint8_t *view_secret_copy(const struct view *view, const struct view_secret *now, node_id node,
                                struct fact_secret *fact)
{
    const uint8_t *copy = NULL;
    for (const struct view_secret *row = now->removed ? NULL : first_of(view, now->name); row != NULL && copy == NULL;
         row = next_of(row)) {
        if (view_secret_is_same(row, now) && fact_secret_read(&row->entry->record, fact) == 0) {
            copy = fact_secret_copy(fact, node);
        }
    }
    return copy;
}

bool view_secret_is_set(const struct view *view, const char *name)
{
    const struct view_secret *now = view_secret_find(view, name);
    return now != NULL && !now->removed;
}

bool view_secrets_lack(const struct view *view, const struct config *config, const node_id *node,
                       char name[FACT_NAME_BYTES])
{
    struct fact_secret fact;
    for (uint32_t i = 0; config_secret(config, i, name); i++) {
        const struct view_secret *now = view_secret_find(view, name);
        if (now == NULL || now->removed || (node != NULL && view_secret_copy(view, now, *node, &fact) == NULL)) {
            return true;
        }
    }
    return false;
}
