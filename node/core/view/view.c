#include "node/core/view/view.h"

#include "base/err.h"
#include "node/core/view/fold.h"

void view_init(struct view *view, struct arena *arena, const struct records *records, mesh_id mesh)
{
    *view = (struct view){.arena = arena, .records = records, .mesh = mesh};
}

int view_apply(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    experiment_id id;
    if (fact_is_of_experiment(record, &id) && view_find_tombstone(view, id) != NULL) {
        return 0;
    }
    int error = 0;
    switch (record->kind) {
#define FOLD(name, number, word, of_experiment, folds) \
    case FACT_##name:                                  \
        error = folds(view, entry);                    \
        break;
        FACT_KINDS(FOLD)
#undef FOLD
    default:
        break; /* a kind of a later version: the record is relayed, and not folded */
    }
    if (error == ERR_MALFORMED) {
        view->malformed_count++;
    }
    return error;
}
