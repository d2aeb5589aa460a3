/* The webhooks of the mesh, and the events that only records of deliveries tell of. */

#include "node/core/view/fold.h"

#include <string.h>

#include "base/err.h"

static int webhook_order(const void *row, const void *wanted)
{
    const struct view_webhook *a = row, *b = wanted;
    int order = memcmp(a->id, b->id, sizeof a->id);
    return order != 0 ? order : node_id_compare(a->writer, b->writer);
}

int fold_webhook(struct view *view, const struct records_entry *entry)
{
    struct fact_webhook fact;
    struct view_webhook wanted = {.writer = entry->record.writer};
    if (fact_webhook_read(&entry->record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    memcpy(wanted.id, entry->record.key, sizeof wanted.id);
    struct view_webhook *row = view_row(view, &view->webhooks, &wanted, sizeof wanted, webhook_order);
    if (row == NULL) {
        return ERR_FULL;
    }
    row->entry = entry;
    row->removed = fact.removed;
    view->webhook_count++;
    return 0;
}

/* The first record of each id that does not remove it, unless another one does. */
const struct view_webhook *view_webhook_next(const struct view *view, const struct view_webhook *row)
{
    const struct view_webhook *first = row == NULL ? view->webhooks : row->next;
    while (row != NULL && first != NULL && memcmp(first->id, row->id, sizeof row->id) == 0) {
        first = first->next;
    }
    while (first != NULL) {
        const struct view_webhook *end = first;
        bool is_removed = false;
        for (; end != NULL && memcmp(end->id, first->id, sizeof first->id) == 0; end = end->next) {
            is_removed |= end->removed;
        }
        if (!is_removed) {
            return first;
        }
        first = end;
    }
    return NULL;
}

static int delivery_order(const void *row, const void *wanted)
{
    const struct view_delivery *a = row, *b = wanted;
    int order = experiment_id_compare(a->experiment, b->experiment);
    order = order != 0 ? order : memcmp(a->subject, b->subject, sizeof a->subject);
    return order != 0 ? order : node_id_compare(a->writer, b->writer);
}

int fold_delivery(struct view *view, const struct records_entry *entry)
{
    struct fact_delivery fact;
    struct view_delivery wanted = {.writer = entry->record.writer};
    if (fact_delivery_read(&entry->record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    bool is_told_here = fact.event == FACT_HOOK_LOG_MATCH || fact.event == FACT_HOOK_TEST;
    if (!is_told_here || fact.state == FACT_DELIVERY_GONE) {
        return 0; /* looked up in the table of records */
    }
    memcpy(wanted.experiment.bytes, entry->record.key, EXPERIMENT_ID_BYTES);
    memcpy(wanted.subject, entry->record.key + EXPERIMENT_ID_BYTES, sizeof wanted.subject);
    struct view_delivery *row = view_row(view, &view->deliveries, &wanted, sizeof wanted, delivery_order);
    if (row == NULL) {
        return ERR_FULL;
    }
    row->entry = entry;
    row->is_open = fact.state < FACT_DELIVERY_DONE;
    return 0;
}

void view_deliveries_forget(struct view *view, experiment_id experiment)
{
    for (struct view_delivery **link = &view->deliveries; *link != NULL;) {
        struct view_delivery *row = *link;
        if (experiment_id_equal(row->experiment, experiment)) {
            *link = row->next;
            arena_give(view->arena, row, sizeof *row);
        } else {
            link = &row->next;
        }
    }
}
