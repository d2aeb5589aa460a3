#include "node/core/view/rows.h"

#include "base/err.h"
#include "base/probe.h"
#include "train/search/search.h"

void view_init(struct view *view, struct arena *arena, const struct records *records, mesh_id mesh)
{
    *view = (struct view){.arena = arena, .records = records, .mesh = mesh};
}

static int apply_tombstone(struct view *view, const struct record *record)
{
    experiment_id id;
    if (fact_tombstone_read(record) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    uint32_t at = view_tombstone_position(view, id);
    if (view_find_tombstone(view, id) != NULL) {
        struct view_tombstone *known = &view->tombstones[at];
        known->writer = node_id_compare(record->writer, known->writer) < 0 ? record->writer : known->writer;
        return 0;
    }
    if (view->tombstone_count == view->tombstone_slots) {
        uint32_t wanted = view->tombstone_slots == 0 ? 8 : view->tombstone_slots * 2;
        void *bigger = arena_grow(view->arena, view->tombstones, view->tombstone_slots * sizeof *view->tombstones,
                                  wanted * sizeof *view->tombstones);
        if (bigger == NULL) {
            return ERR_FULL;
        }
        view->tombstones = bigger;
        view->tombstone_slots = wanted;
    }
    view_experiment_drop(view, id);
    memmove(view->tombstones + at + 1, view->tombstones + at, (view->tombstone_count - at) * sizeof *view->tombstones);
    view->tombstones[at] = (struct view_tombstone){id, record->writer};
    view->tombstone_count++;
    return 0;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static int apply_drain(struct view *view, const struct record *record)
{
    struct fact_drain fact;
    node_id id;
    if (fact_drain_read(record, &fact) != 0 || fact_key_read_node(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, id);
    if (member == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_drain_top(member, NULL);
    struct view_drain **link = &member->drains;
    while (*link != NULL && node_id_compare((*link)->writer, record->writer) < 0) {
        link = &(*link)->next;
    }
    struct view_drain *drain = *link;
    if (drain == NULL || !node_id_equal(drain->writer, record->writer)) {
        drain = arena_take(view->arena, sizeof *drain);
        if (drain == NULL) {
            return ERR_FULL;
        }
        drain->writer = record->writer;
        drain->next = *link;
        *link = drain;
    }
    drain->fact = fact;
    view_count_jumps(view, before, view_drain_top(member, NULL));
    view->nodes_changed = true;
    return 0;
}

/* Room for at least `wanted` slots; false if memory is full. */
static bool member_slots(struct view *view, struct view_member *member, uint32_t wanted)
{
    uint32_t room = member->slot_room == 0 ? 1 : member->slot_room;
    while (room < wanted) {
        room *= 2;
    }
    if (room == member->slot_room) {
        return true;
    }
    void *bigger = arena_grow(view->arena, member->slots, member->slot_room * sizeof *member->slots,
                              room * sizeof *member->slots);
    if (bigger != NULL) {
        member->slots = bigger;
        member->slot_room = room;
    }
    return bigger != NULL;
}

const struct view_slot *view_member_slot(const struct view_member *member, uint32_t slot)
{
    return slot < member->slot_room ? &member->slots[slot] : NULL;
}

static int apply_node(struct view *view, const struct record *record)
{
    struct fact_node fact;
    if (fact_node_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, record->writer);
    if (member == NULL || !member_slots(view, member, fact.slot_count)) {
        return ERR_FULL;
    }
    member->has_node = true;
    member->node_boot = record->version.boot;
    member->left = fact.left;
    member->protocol = (struct version_range){fact.protocol_min, fact.protocol_max};
    bytes_copy_text(member->name, sizeof member->name, fact.name);
    member->address_count = fact.address_count;
    memcpy(member->addresses, fact.addresses, sizeof member->addresses);
    member->bulk_port = fact.bulk_port;
    member->slot_count = fact.slot_count;
    for (uint32_t i = 0; i < fact.slot_count; i++) {
        member->slot_kinds[i] = fact.slots[i].kind;
    }
    view->nodes_changed = true;
    view->slots_changed = true;
    return 0;
}

static int apply_slot(struct view *view, const struct record *record)
{
    struct fact_slot fact;
    uint32_t index;
    if (fact_slot_read(record, &fact) != 0 || fact_key_read_slot(record, &index) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, record->writer);
    if (member == NULL || !member_slots(view, member, index + 1)) {
        return ERR_FULL;
    }
    member->slots[index] = (struct view_slot){fact.state, fact.attempt, fact.rank, fact.withheld, fact.withheld_s};
    view->slots_changed = true;
    return 0;
}

/* ---- experiments ------------------------------------------------------------------------------------------------------ */

static int apply_experiment(struct view *view, const struct record *record)
{
    struct fact_experiment fact;
    experiment_id id;
    struct config config;
    if (fact_experiment_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    if (experiment->known && node_id_compare(experiment->submitter, record->writer) < 0) {
        return 0; /* of two writers of one id the smaller counts */
    }
    uint8_t *bytes = arena_take(view->arena, fact.config_bytes);
    struct config *kept = experiment->config != NULL ? experiment->config : arena_take(view->arena, sizeof *kept);
    if (bytes == NULL || kept == NULL) {
        arena_give(view->arena, bytes, fact.config_bytes);
        arena_give(view->arena, kept != experiment->config ? kept : NULL, sizeof *kept);
        return ERR_FULL;
    }
    experiment->config = kept; /* the row's from now on, whatever becomes of these bytes; looked at only if known */
    memcpy(bytes, fact.config, fact.config_bytes);
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, fact.config_bytes);
    uint32_t trial_count = 0;
    struct search_space space;
    if (config_unpack(&reader, &config) != 0 || (space = config_search_space(&config), false) ||
        search_trial_count(&space, &trial_count) != 0) {
        arena_give(view->arena, bytes, fact.config_bytes);
        return ERR_MALFORMED;
    }
    if (!view_strays_settle(view, experiment, trial_count)) {
        arena_give(view->arena, bytes, fact.config_bytes);
        return ERR_FULL;
    }
    arena_give(view->arena, experiment->config_bytes, experiment->config_byte_count);
    *kept = config;
    experiment->config = kept;
    experiment->config_bytes = bytes;
    experiment->config_byte_count = fact.config_bytes;
    experiment->trial_count = trial_count;
    experiment->known = true;
    experiment->submitter = record->writer;
    experiment->submitted_s = fact.submitted_s;
    experiment->code = fact.code;
    experiment->code_bytes = fact.code_bytes;
    experiment->config_text = fact.config_text;
    experiment->changed = true;
    return 0;
}

static int apply_control(struct view *view, const struct record *record)
{
    struct fact_control fact;
    experiment_id id;
    if (fact_control_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_control_top(experiment, NULL);
    struct view_control **link = &experiment->controls;
    bool is_cancel = record->key_bytes > sizeof id.bytes;
    while (*link != NULL && (node_id_compare((*link)->writer, record->writer) < 0 ||
                             (node_id_equal((*link)->writer, record->writer) && (*link)->is_cancel < is_cancel))) {
        link = &(*link)->next;
    }
    struct view_control *control = *link;
    if (control == NULL || !node_id_equal(control->writer, record->writer) || control->is_cancel != is_cancel) {
        control = arena_take(view->arena, sizeof *control);
        if (control == NULL) {
            return ERR_FULL;
        }
        control->writer = record->writer;
        control->is_cancel = is_cancel;
        control->next = *link;
        *link = control;
    }
    control->fact = fact;
    view_count_jumps(view, before, view_control_top(experiment, NULL));
    experiment->changed = true;
    return 0;
}

static int apply_claim(struct view *view, const struct record *record)
{
    struct fact_claim fact;
    experiment_id id;
    if (fact_claim_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_claim_top(experiment, NULL);
    struct view_claim **link = &experiment->claims;
    while (*link != NULL && node_id_compare((*link)->writer, record->writer) < 0) {
        link = &(*link)->next;
    }
    struct view_claim *claim = *link;
    if (claim == NULL || !node_id_equal(claim->writer, record->writer)) {
        claim = arena_take(view->arena, sizeof *claim);
        if (claim == NULL) {
            return ERR_FULL;
        }
        claim->writer = record->writer;
        claim->next = *link;
        *link = claim;
    }
    claim->fact = fact;
    claim->boot = record->version.boot;
    view_count_jumps(view, before, view_claim_top(experiment, NULL));
    experiment->changed = true;
    return 0;
}

/* The rows that an attempt's record, worker, verdict or manifest belongs to, made where missing. */
static int rows_of(struct view *view, const struct record *record, attempt_id *id, struct view_experiment **experiment,
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

static int apply_attempt(struct view *view, const struct record *record)
{
    struct fact_attempt fact;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_attempt_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    int error = rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    struct fact_place *first = arena_take(view->arena, fact.member_count * sizeof *first);
    if (first == NULL) {
        return ERR_FULL;
    }
    for (uint32_t rank = 0; rank < fact.member_count; rank++) {
        first[rank] = (struct fact_place){fact.members[rank].node, fact.members[rank].slot, rank, false};
    }
    arena_give(view->arena, attempt->first, attempt->first_count * sizeof *first);
    attempt->assigned = true;
    attempt->first_count = fact.member_count;
    attempt->first = first;
    attempt->start_step = fact.start_step;
    attempt->checkpoint = fact.checkpoint;
    choose_group(attempt);
    experiment->changed = true;
    return 0;
}

static int group_compare(const struct view_group *a, const struct view_group *b)
{
    if (a->generation != b->generation) {
        return a->generation < b->generation ? -1 : 1;
    }
    return election_claim_compare((struct election_claim){a->term, a->writer}, (struct election_claim){b->term, b->writer});
}

static int apply_generation(struct view *view, const struct record *record)
{
    struct fact_generation fact;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_generation_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    int error = rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    uint32_t count = fact.member_count + fact.joiner_count;
    struct view_group *group = arena_take(view->arena, sizeof *group);
    struct fact_place *places = arena_take(view->arena, count * sizeof *places);
    if (group == NULL || places == NULL) {
        arena_give(view->arena, group, sizeof *group);
        arena_give(view->arena, places, count * sizeof *places);
        return ERR_FULL;
    }
    memcpy(places, fact.members, fact.member_count * sizeof *places);
    memcpy(places + fact.member_count, fact.joiners, fact.joiner_count * sizeof *places);
    *group = (struct view_group){.writer = record->writer,
                                 .generation = fact.generation,
                                 .term = fact.term,
                                 .start_step = fact.start_step,
                                 .is_leaving = fact.is_leaving,
                                 .member_count = fact.member_count,
                                 .joiner_count = fact.joiner_count,
                                 .places = places};
    struct view_group **link = &attempt->groups;
    while (*link != NULL && !node_id_equal((*link)->writer, record->writer)) {
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

static int apply_worker(struct view *view, const struct record *record)
{
    struct fact_worker fact;
    uint32_t number;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_worker_read(record, &fact) != 0 || fact_key_read_number(record, &number) != 0) {
        return ERR_MALFORMED;
    }
    int error = rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    struct view_worker **link = &attempt->workers;
    while (*link != NULL && ((*link)->number < number || ((*link)->number == number &&
                                                          node_id_compare((*link)->writer, record->writer) < 0))) {
        link = &(*link)->next;
    }
    struct view_worker *worker = *link;
    if (worker == NULL || worker->number != number || !node_id_equal(worker->writer, record->writer)) {
        worker = arena_take(view->arena, sizeof *worker);
        if (worker == NULL) {
            return ERR_FULL;
        }
        worker->number = number;
        worker->writer = record->writer;
        worker->next = *link;
        *link = worker;
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
    experiment->changed = true;
    return 0;
}

/* What cannot be read has taken the place of what this writer said before, and so nothing is left of that. */
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
        view_find_experiment(view, id.experiment)->changed = true;
    }
}

static int apply_verdict(struct view *view, const struct record *record)
{
    struct fact_verdict fact;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_verdict_read(record, &fact) != 0) {
        take_verdict_back(view, record);
        return ERR_MALFORMED;
    }
    int error = rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    struct view_verdict **link = &attempt->verdicts;
    while (*link != NULL && node_id_compare((*link)->writer, record->writer) < 0) {
        link = &(*link)->next;
    }
    struct view_verdict *verdict = *link;
    if (verdict == NULL || !node_id_equal(verdict->writer, record->writer)) {
        verdict = arena_take(view->arena, sizeof *verdict);
        if (verdict == NULL) {
            return ERR_FULL;
        }
        verdict->writer = record->writer;
        verdict->next = *link;
        *link = verdict;
    }
    verdict->ident = record_ident_of(record->writer, record->kind, record->key, record->key_bytes);
    verdict->reason = fact.reason;
    verdict->step = fact.step;
    experiment->changed = true;
    return 0;
}

static int apply_death(struct view *view, const struct record *record)
{
    struct fact_death fact;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_death_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    int error = rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    struct view_death **link = &attempt->deaths;
    while (*link != NULL && node_id_compare((*link)->writer, record->writer) < 0) {
        link = &(*link)->next;
    }
    struct view_death *death = *link;
    if (death == NULL || !node_id_equal(death->writer, record->writer)) {
        death = arena_take(view->arena, sizeof *death);
        if (death == NULL) {
            return ERR_FULL;
        }
        death->writer = record->writer;
        death->next = *link;
        *link = death;
    }
    death->fact = fact;
    experiment->changed = true;
    return 0;
}

static int apply_quarantine(struct view *view, const struct record *record)
{
    struct fact_quarantine fact;
    if (fact_quarantine_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, record->writer);
    if (member == NULL) {
        return ERR_FULL;
    }
    member->quarantine = fact;
    view->slots_changed = true;
    return 0;
}

static int manifest_compare(const struct view_manifest *a, uint64_t step, const attempt_id *attempt, node_id writer)
{
    if (a->step != step) {
        return a->step > step ? -1 : 1;
    }
    int order = attempt_id_compare_order(attempt, &a->attempt);
    return order != 0 ? order : node_id_compare(a->writer, writer);
}

static int apply_manifest(struct view *view, const struct record *record)
{
    struct fact_manifest fact;
    uint64_t step;
    attempt_id id;
    struct view_experiment *experiment;
    struct view_trial *trial;
    struct view_attempt *attempt;
    if (fact_manifest_read(record, &fact) != 0 || fact_key_read_step(record, &step) != 0) {
        return ERR_MALFORMED;
    }
    int error = rows_of(view, record, &id, &experiment, &trial, &attempt);
    if (error != 0) {
        return error;
    }
    struct view_manifest **link = &trial->manifests;
    while (*link != NULL && manifest_compare(*link, step, &id, record->writer) < 0) {
        link = &(*link)->next;
    }
    struct view_manifest *manifest = *link;
    if (manifest == NULL || manifest_compare(manifest, step, &id, record->writer) != 0) {
        manifest = arena_take(view->arena, sizeof *manifest);
        if (manifest == NULL) {
            return ERR_FULL;
        }
        manifest->attempt = id;
        manifest->step = step;
        manifest->writer = record->writer;
        manifest->next = *link;
        *link = manifest;
    }
    manifest->blob = fact.blob;
    manifest->bytes = fact.bytes;
    manifest->holder_count = fact.holder_count;
    memcpy(manifest->holders, fact.holders, sizeof manifest->holders);
    manifest->durable = fact.durable;
    manifest->has_metric = fact.has_metric;
    manifest->metric = fact.metric;
    manifest->is_passed_over = false;
    experiment->changed = true;
    return 0;
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
    case FACT_MEMBER:
        error = roster_apply_voucher(view, entry);
        break;
    case FACT_EVICTION:
        error = roster_apply_eviction(view, entry);
        break;
    case FACT_NODE:
        error = apply_node(view, record);
        break;
    case FACT_SLOT:
        error = apply_slot(view, record);
        break;
    case FACT_EXPERIMENT:
        error = apply_experiment(view, record);
        break;
    case FACT_CONTROL:
        error = apply_control(view, record);
        break;
    case FACT_CLAIM:
        error = apply_claim(view, record);
        break;
    case FACT_ATTEMPT:
        error = apply_attempt(view, record);
        break;
    case FACT_WORKER:
        error = apply_worker(view, record);
        break;
    case FACT_VERDICT:
        error = apply_verdict(view, record);
        break;
    case FACT_MANIFEST:
        error = apply_manifest(view, record);
        break;
    case FACT_DRAIN:
        error = apply_drain(view, record);
        break;
    case FACT_DEATH:
        error = apply_death(view, record);
        break;
    case FACT_QUARANTINE:
        error = apply_quarantine(view, record);
        break;
    case FACT_GENERATION:
        error = apply_generation(view, record);
        break;
    case FACT_TOMBSTONE:
        error = apply_tombstone(view, record);
        break;
    default:
        break; /* invites are looked up in the table; unknown kinds are only relayed */
    }
    if (error == ERR_MALFORMED) {
        view->malformed_count++;
    }
    return error;
}
