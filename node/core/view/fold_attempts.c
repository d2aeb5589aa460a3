/* The fold of records about attempts, their groups, workers, verdicts and checkpoints. */

#include "node/core/view/fold.h"

#include "base/err.h"
#include "base/probe.h"

int view_rows_of(struct view *view, const struct record *record, attempt_id *id, struct view_experiment **experiment,
                 struct view_trial **trial, struct view_attempt **attempt)
{
    if (fact_key_read_attempt(record, id) != 0) {
        return ERR_MALFORMED;
    }
    *experiment = view_experiment_row(view, id->experiment);
    *trial = *experiment != NULL ? view_trial_row(view, *experiment, id->trial) : NULL;
    *attempt = *trial != NULL ? view_attempt_row(view, *trial, id) : NULL;
    return *attempt != NULL ? 0 : ERR_FULL;
}

static void choose_group(struct view_attempt *attempt)
{
    const struct view_group *last = attempt->groups;
    while (last != NULL && last->next != NULL &&
           !BUG(oldest_group_counts, "of all words on a group that of the highest (generation, term, writer) counts")) {
        last = last->next;
    }
    attempt->generation = last != NULL ? last->generation : 1;
    attempt->group_claim = last != NULL ? (struct election_claim){last->term, last->writer}
                                        : (struct election_claim){attempt->id.term, attempt->id.coordinator};
    attempt->is_leaving = last != NULL && last->is_leaving;
    attempt->group_step = last != NULL && last->generation > 1 ? last->start_step : attempt->start_step;
    attempt->member_count = last != NULL ? last->member_count : attempt->first_count;
    attempt->joiner_count = last != NULL ? last->joiner_count : 0;
    attempt->members = last != NULL ? last->places : attempt->first;
}

/* A coordinator writes one kind of record about an attempt. Should there be both, the one that every version can read counts. */
static int take_attempt(struct view *view, const struct record *record, const struct fact_attempt *fact, bool is_large)
{
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    if (attempt->assigned && is_large && !attempt->is_large) {
        return 0;
    }
    struct fact_place *first = arena_take(view->arena, fact->member_count * sizeof *first);
    if (first == NULL) {
        return ERR_FULL;
    }
    for (uint32_t rank = 0; rank < fact->member_count; rank++) {
        first[rank] = (struct fact_place){fact->members[rank].node, fact->members[rank].slot, rank, false};
    }
    double *point = fact->draw.count > 0 ? arena_take(view->arena, fact->draw.count * sizeof *point) : NULL;
    if (fact->draw.count > 0 && point == NULL) {
        arena_give(view->arena, first, fact->member_count * sizeof *first);
        return ERR_FULL;
    }
    struct fact_beginning *beginnings = NULL;
    if (fact->beginning_count > 0) {
        beginnings = arena_take(view->arena, fact->beginning_count * sizeof *beginnings);
        if (beginnings == NULL) {
            arena_give(view->arena, first, fact->member_count * sizeof *first);
            arena_give(view->arena, point, fact->draw.count * sizeof *point);
            return ERR_FULL;
        }
        memcpy(beginnings, fact->beginnings, fact->beginning_count * sizeof *beginnings);
    }
    arena_give(view->arena, attempt->beginnings, attempt->beginning_count * sizeof *beginnings);
    attempt->beginning_count = fact->beginning_count;
    attempt->beginnings = beginnings;
    arena_give(view->arena, attempt->first, attempt->first_count * sizeof *first);
    attempt->assigned = true;
    attempt->is_large = is_large;
    attempt->first_count = fact->member_count;
    attempt->first = first;
    attempt->start_step = fact->start_step;
    attempt->checkpoint = fact->checkpoint;
    attempt->retried = fact->retried;
    arena_give(view->arena, attempt->point, attempt->point_count * sizeof *point);
    attempt->point_count = fact->draw.count;
    attempt->parent = fact->draw.parent;
    attempt->point = point;
    if (point != NULL) {
        memcpy(point, fact->draw.point, fact->draw.count * sizeof *point);
    }
    choose_group(attempt);
    experiment->changed = true;
    return 0;
}

int fold_attempt(struct view *view, const struct records_entry *entry)
{
    struct fact_attempt fact;
    int error = fact_attempt_read(&entry->record, &fact);
    return error != 0 ? error : take_attempt(view, &entry->record, &fact, false);
}

int fold_attempt_large(struct view *view, const struct records_entry *entry)
{
    struct fact_attempt fact;
    int error = fact_attempt_large_read(&entry->record, &fact);
    return error != 0 ? error : take_attempt(view, &entry->record, &fact, true);
}

static int group_compare(const struct view_group *a, const struct view_group *b)
{
    if (a->generation != b->generation) {
        return a->generation < b->generation ? -1 : 1;
    }
    int order = election_claim_compare((struct election_claim){a->term, a->writer}, (struct election_claim){b->term, b->writer});
    return order != 0 ? order : (int)b->is_large - (int)a->is_large;
}

static int take_generation(struct view *view, const struct record *record, const struct fact_generation *fact, bool is_large)
{
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    uint32_t count = fact->member_count + fact->joiner_count;
    struct view_group *group = arena_take(view->arena, sizeof *group);
    struct fact_place *places = arena_take(view->arena, count * sizeof *places);
    if (group == NULL || places == NULL) {
        arena_give(view->arena, group, sizeof *group);
        arena_give(view->arena, places, count * sizeof *places);
        return ERR_FULL;
    }
    memcpy(places, fact->members, fact->member_count * sizeof *places);
    memcpy(places + fact->member_count, fact->joiners, fact->joiner_count * sizeof *places);
    *group = (struct view_group){.writer = record->writer,
                                 .generation = fact->generation,
                                 .term = fact->term,
                                 .start_step = fact->start_step,
                                 .is_leaving = fact->is_leaving,
                                 .member_count = fact->member_count,
                                 .joiner_count = fact->joiner_count,
                                 .is_large = is_large,
                                 .places = places};
    struct view_group **link = &attempt->groups;
    while (*link != NULL && ((*link)->is_large != is_large || !node_id_equal((*link)->writer, record->writer))) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        struct view_group *before = *link;
        *link = before->next;
        view_group_free(view->arena, before);
    }
    link = &attempt->groups;
    while (*link != NULL && group_compare(*link, group) < 0) {
        link = &(*link)->next;
    }
    group->next = *link;
    *link = group;
    choose_group(attempt);
    experiment->changed = true;
    return 0;
}

int fold_generation(struct view *view, const struct records_entry *entry)
{
    struct fact_generation fact;
    int error = fact_generation_read(&entry->record, &fact);
    return error != 0 ? error : take_generation(view, &entry->record, &fact, false);
}

int fold_generation_large(struct view *view, const struct records_entry *entry)
{
    struct fact_generation fact;
    int error = fact_generation_large_read(&entry->record, &fact);
    return error != 0 ? error : take_generation(view, &entry->record, &fact, true);
}

static int worker_order(const void *row, const void *wanted)
{
    const struct view_worker *a = row, *b = wanted;
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    return node_id_compare(a->writer, b->writer);
}

int fold_worker(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_worker fact;
    uint32_t number;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_worker_read(record, &fact) != 0 || fact_key_read_number(record, &number) != 0) {
        return ERR_MALFORMED;
    }
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    const struct view_worker wanted = {.writer = record->writer, .number = number};
    struct view_worker *worker = view_row(view, &attempt->workers, &wanted, sizeof wanted, worker_order);
    if (worker == NULL) {
        return ERR_FULL;
    }
    worker->ident = record_ident_of(record->writer, record->kind, record->key, record->key_bytes);
    worker->boot = record->version.boot;
    worker->state = fact.state;
    worker->reason = fact.reason;
    worker->exit_code = fact.exit_code;
    worker->generation = fact.generation;
    worker->master_port = fact.master_port;
    worker->data_port = fact.data_port;
    worker->step = fact.step;
    worker->has_started = fact.started_s != 0;
    worker->is_elastic = fact.is_elastic;
    worker->waits = fact.waits;
    worker->has_state = fact.has_state;
    worker->applied_step = fact.applied_step;
    worker->stall = fact.stall;
    worker->is_overdue = fact.is_overdue;
    worker->is_past_barrier = fact.is_past_barrier;
    worker->failure = fact.failure;
    worker->ran_s = fact.ran_s;
    experiment->changed = true;
    return 0;
}

/* An unreadable record has replaced the writer's earlier verdict in the table, so the row of that verdict goes, too. */
static void take_verdict_back(struct view *view, const struct record *record)
{
    attempt_id id;
    struct view_attempt *attempt = fact_key_read_attempt(record, &id) == 0 ? view_find_attempt(view, &id) : NULL;
    struct view_verdict **link = attempt != NULL ? &attempt->verdicts : NULL;
    while (link != NULL && *link != NULL && !node_id_equal((*link)->writer, record->writer)) {
        link = &(*link)->next;
    }
    if (link != NULL && *link != NULL) {
        struct view_verdict *verdict = *link;
        *link = verdict->next;
        arena_give(view->arena, verdict, sizeof *verdict);
        struct view_experiment *experiment = view_find_experiment(view, id.experiment);
        view_trial_wake(experiment, id.trial);
        experiment->changed = true;
    }
}

static int verdict_order(const void *row, const void *wanted)
{
    const struct view_verdict *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_verdict(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_verdict fact;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_verdict_read(record, &fact) != 0) {
        take_verdict_back(view, record);
        return ERR_MALFORMED;
    }
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    const struct view_verdict wanted = {.writer = record->writer};
    struct view_verdict *verdict = view_row(view, &attempt->verdicts, &wanted, sizeof wanted, verdict_order);
    if (verdict == NULL) {
        return ERR_FULL;
    }
    verdict->ident = record_ident_of(record->writer, record->kind, record->key, record->key_bytes);
    verdict->reason = fact.reason;
    verdict->is_hung = fact.is_hung;
    verdict->step = fact.step;
    experiment->changed = true;
    return 0;
}

static int death_order(const void *row, const void *wanted)
{
    const struct view_death *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_death(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_death fact;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_death_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    const struct view_death wanted = {.writer = record->writer};
    struct view_death *death = view_row(view, &attempt->deaths, &wanted, sizeof wanted, death_order);
    if (death == NULL) {
        return ERR_FULL;
    }
    death->fact = fact;
    experiment->changed = true;
    return 0;
}

static int manifest_order(const void *row, const void *wanted)
{
    const struct view_manifest *a = row, *b = wanted;
    if (a->step != b->step) {
        return a->step > b->step ? -1 : 1; /* the newest first */
    }
    int order = attempt_id_compare_order(&b->attempt, &a->attempt);
    return order != 0 ? order : node_id_compare(a->writer, b->writer);
}

static void manifest_take(struct view_manifest *manifest, const struct fact_manifest *fact)
{
    manifest->blob = fact->blob;
    manifest->bytes = fact->bytes;
    manifest->holder_count = fact->holder_count;
    memcpy(manifest->holders, fact->holders, sizeof manifest->holders);
    manifest->durable = fact->durable;
    manifest->has_metric = fact->has_metric;
    manifest->metric = fact->metric;
    manifest->is_passed_over = false;
}

int fold_manifest(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_manifest fact;
    uint64_t step;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_manifest_read(record, &fact) != 0 || fact_key_read_step(record, &step) != 0) {
        return ERR_MALFORMED;
    }
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    const struct view_manifest wanted = {.writer = record->writer, .attempt = id, .step = step};
    struct view_manifest *manifest = view_row(view, &trial->manifests, &wanted, sizeof wanted, manifest_order);
    if (manifest == NULL) {
        return ERR_FULL;
    }
    manifest_take(manifest, &fact);
    experiment->changed = true;
    return 0;
}

static int set_order(const void *row, const void *wanted)
{
    const struct view_set *a = row, *b = wanted;
    if (a->key.step != b->key.step) {
        return a->key.step > b->key.step ? -1 : 1;
    }
    int order = attempt_id_compare_order(&b->attempt, &a->attempt);
    if (order != 0) {
        return order;
    }
    if (a->key.save != b->key.save) {
        return a->key.save < b->key.save ? -1 : 1;
    }
    return a->key.count < b->key.count ? -1 : a->key.count > b->key.count;
}

static int part_order(const void *row, const void *wanted)
{
    const struct view_manifest *a = row, *b = wanted;
    if (a->part != b->part) {
        return a->part < b->part ? -1 : 1;
    }
    return node_id_compare(a->writer, b->writer);
}

/* What the records of the parts say together. The row is there from the first part on, so that it does not depend on the order in which
 * records came; without holders it is no checkpoint. */
static void set_settle(struct view_set *set)
{
    struct view_manifest *whole = set->whole;
    bool is_whole = true;
    view_manifest_clear_holders(whole);
    whole->bytes = 0;
    whole->durable = true;
    whole->has_metric = false;
    whole->metric = 0;
    for (uint32_t part = 0; part < set->key.count; part++) {
        const struct view_manifest *first = view_set_part(set, part);
        struct view_manifest united;
        if (first == NULL) {
            is_whole &= BUG(part_missing, "a checkpoint with a missing part is none");
            continue;
        }
        (void)view_manifest_unite(first, &united);
        whole->bytes += united.bytes;
        whole->durable &= united.durable;
        if (united.has_metric && !whole->has_metric) {
            whole->has_metric = true;
            whole->metric = united.metric;
        }
        for (uint32_t i = 0; i < united.holder_count; i++) {
            view_manifest_add_holder(whole, united.holders[i]);
        }
    }
    if (!is_whole) {
        MARK(part_is_missing);
        view_manifest_clear_holders(whole);
        whole->durable = false;
    }
    whole->is_passed_over = false;
}

/* Finds or makes the set, its row in the list of checkpoints, and the part's row. NULL: the arena is full. */
static struct view_manifest *part_row(struct view *view, struct view_trial *trial, const attempt_id *attempt,
                                      const struct fact_part_key *key, node_id writer)
{
    struct view_set wanted_set = {.attempt = *attempt, .key = *key, .name = fact_part_name(attempt, key)};
    wanted_set.key.part = 0;
    struct view_set *set = view_row(view, &trial->sets, &wanted_set, sizeof wanted_set, set_order);
    if (set == NULL) {
        return NULL;
    }
    struct view_manifest wanted = {.attempt = *attempt, .step = key->step, .blob = set->name, .set = set};
    memcpy(wanted.writer.bytes, set->name.bytes, sizeof wanted.writer.bytes); /* of no node: it gives sets of one step an order */
    set->whole = set->whole != NULL ? set->whole : view_row(view, &trial->manifests, &wanted, sizeof wanted, manifest_order);
    wanted.writer = writer;
    wanted.part = key->part;
    return set->whole != NULL ? view_row(view, &set->rows, &wanted, sizeof wanted, part_order) : NULL;
}

int fold_part(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_manifest fact;
    struct fact_part_key key;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_part_read(record, &fact) != 0 || fact_key_read_part(record, &key) != 0) {
        return ERR_MALFORMED;
    }
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    experiment->has_sets = true;
    struct view_manifest *row = part_row(view, trial, &id, &key, record->writer);
    if (row == NULL) {
        return ERR_FULL;
    }
    manifest_take(row, &fact);
    set_settle(row->set);
    experiment->changed = true;
    return 0;
}

static int output_order(const void *row, const void *wanted)
{
    const struct view_output *a = row, *b = wanted;
    int order = attempt_id_compare_order(&b->attempt, &a->attempt); /* the newest attempt first */
    if (order != 0) {
        return order;
    }
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    if (a->place != b->place) {
        return a->place < b->place ? -1 : 1;
    }
    return node_id_compare(a->writer, b->writer);
}

int fold_output(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_output fact;
    uint32_t number, place;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_output_read(record, &fact) != 0 || fact_key_read_number(record, &number) != 0 ||
        fact_key_read_place(record, &place) != 0) {
        return ERR_MALFORMED;
    }
    int error = view_rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    const struct view_output wanted = {.writer = record->writer, .attempt = id, .number = number, .place = place};
    struct view_output *output = view_row(view, &trial->outputs, &wanted, sizeof wanted, output_order);
    if (output == NULL) {
        return ERR_FULL;
    }
    output->fact = fact;
    experiment->changed = true;
    return 0;
}
