#include "node/core/view/rows.h"

#include "base/bisect.h"
#include "base/probe.h"

void *view_row(struct view *view, void *list, const void *wanted, size_t bytes, int order(const void *row, const void *wanted))
{
    void *link = list, *row;
    for (memcpy(&row, link, sizeof row); row != NULL && order(row, wanted) < 0; memcpy(&row, link, sizeof row)) {
        link = row;
    }
    if (row != NULL && order(row, wanted) == 0) {
        return row;
    }
    void *made = arena_take(view->arena, bytes);
    if (made != NULL) {
        memcpy(made, wanted, bytes);
        memcpy(made, &row, sizeof row);
        memcpy(link, &made, sizeof made);
    }
    return made;
}

/* Makes room for one more pointer; the array doubles. False: the arena is full, and nothing has changed. */
static bool room_for_one(struct arena *arena, void **array, uint32_t count, uint32_t *slots)
{
    if (count < *slots) {
        return true;
    }
    uint32_t wanted = *slots == 0 ? 8 : *slots * 2;
    void *bigger = arena_grow(arena, *array, *slots * sizeof(void *), wanted * sizeof(void *));
    if (bigger == NULL) {
        return false;
    }
    *array = bigger;
    *slots = wanted;
    return true;
}

static uint32_t member_position(const struct view *view, node_id id)
{
    struct bisection search = bisect_all(view->member_count);
    while (bisect_next(&search)) {
        bisect_answer(&search, node_id_compare(view->members[search.middle]->id, id) < 0);
    }
    return search.low;
}

struct view_member *view_find_member(const struct view *view, node_id id)
{
    uint32_t at = member_position(view, id);
    return at < view->member_count && node_id_equal(view->members[at]->id, id) ? view->members[at] : NULL;
}

struct view_member *view_member_row(struct view *view, node_id id)
{
    struct view_member *member = view_find_member(view, id);
    if (member != NULL) {
        return member;
    }
    void *array = view->members;
    bool has_room = room_for_one(view->arena, &array, view->member_count, &view->member_slots);
    view->members = array;
    member = has_room ? arena_take(view->arena, sizeof *member) : NULL;
    if (member == NULL) {
        return NULL;
    }
    member->id = id;
    uint32_t at = member_position(view, id);
    memmove(view->members + at + 1, view->members + at, (view->member_count - at) * sizeof *view->members);
    view->members[at] = member;
    view->member_count++;
    return member;
}

static uint32_t experiment_position(const struct view *view, experiment_id id)
{
    struct bisection search = bisect_all(view->experiment_count);
    while (bisect_next(&search)) {
        bisect_answer(&search, experiment_id_compare(view->experiments[search.middle]->id, id) < 0);
    }
    return search.low;
}

struct view_experiment *view_find_experiment(const struct view *view, experiment_id id)
{
    uint32_t at = experiment_position(view, id);
    return at < view->experiment_count && experiment_id_equal(view->experiments[at]->id, id) ? view->experiments[at]
                                                                                              : NULL;
}

struct view_experiment *view_experiment_row(struct view *view, experiment_id id)
{
    struct view_experiment *experiment = view_find_experiment(view, id);
    if (experiment != NULL) {
        return experiment;
    }
    void *array = view->experiments;
    bool has_room = room_for_one(view->arena, &array, view->experiment_count, &view->experiment_slots);
    view->experiments = array;
    experiment = has_room ? arena_take(view->arena, sizeof *experiment) : NULL;
    if (experiment == NULL) {
        return NULL;
    }
    experiment->id = id;
    uint32_t at = experiment_position(view, id);
    memmove(view->experiments + at + 1, view->experiments + at,
            (view->experiment_count - at) * sizeof *view->experiments);
    view->experiments[at] = experiment;
    view->experiment_count++;
    return experiment;
}

struct view_experiment *view_experiment_take_out(struct view *view, experiment_id id)
{
    struct view_experiment *experiment = view_find_experiment(view, id);
    if (experiment != NULL) {
        uint32_t at = experiment_position(view, id);
        view->experiment_count--;
        memmove(view->experiments + at, view->experiments + at + 1,
                (view->experiment_count - at) * sizeof *view->experiments);
    }
    return experiment;
}

static uint32_t stray_position(const struct view_experiment *experiment, uint32_t index)
{
    struct bisection search = bisect_all(experiment->stray_count);
    while (bisect_next(&search)) {
        bisect_answer(&search, experiment->strays[search.middle]->index < index);
    }
    return search.low;
}

struct view_trial *view_find_trial(const struct view_experiment *experiment, uint32_t index)
{
    struct view_trial *trial = index < experiment->trial_slots ? experiment->trials[index] : NULL;
    if (trial != NULL || experiment->stray_count == 0) {
        return trial;
    }
    uint32_t at = stray_position(experiment, index);
    return at < experiment->stray_count && experiment->strays[at]->index == index ? experiment->strays[at] : NULL;
}

static size_t rest_bytes(uint32_t slots)
{
    return (slots + 63) / 64 * sizeof(uint64_t);
}

void view_trial_wake(struct view_experiment *experiment, uint32_t index)
{
    uint64_t bit = UINT64_C(1) << index % 64;
    if (index < experiment->trial_slots && (experiment->at_rest[index / 64] & bit) != 0) {
        experiment->at_rest[index / 64] &= ~bit;
        experiment->rest_counts[experiment->trials[index]->rest_state]--;
    }
}

void view_trials_wake(struct view_experiment *experiment)
{
    if (experiment->trial_slots > 0) {
        memset(experiment->at_rest, 0, rest_bytes(experiment->trial_slots));
    }
    memset(experiment->rest_counts, 0, sizeof experiment->rest_counts);
}

/* Makes room in the table of trials for this index. False: the arena is full, and nothing has changed. */
static bool table_reserve(struct view *view, struct view_experiment *experiment, uint32_t index)
{
    if (index < experiment->trial_slots) {
        return true;
    }
    uint32_t wanted = experiment->trial_slots == 0 ? 8 : experiment->trial_slots;
    while (wanted <= index) {
        wanted *= 2;
    }
    uint64_t *at_rest = arena_take(view->arena, rest_bytes(wanted));
    void *bigger = at_rest != NULL ? arena_grow(view->arena, experiment->trials, experiment->trial_slots * sizeof(void *),
                                                wanted * sizeof(void *))
                                   : NULL;
    if (bigger == NULL) {
        arena_give(view->arena, at_rest, rest_bytes(wanted));
        return false;
    }
    if (experiment->trial_slots > 0) {
        memcpy(at_rest, experiment->at_rest, rest_bytes(experiment->trial_slots));
        arena_give(view->arena, experiment->at_rest, rest_bytes(experiment->trial_slots));
    }
    experiment->at_rest = at_rest;
    experiment->trials = bigger;
    experiment->trial_slots = wanted;
    return true;
}

static bool stray_reserve(struct view *view, struct view_experiment *experiment)
{
    void *array = experiment->strays;
    bool has_room = room_for_one(view->arena, &array, experiment->stray_count, &experiment->stray_slots);
    experiment->strays = array;
    return has_room;
}

struct view_trial *view_trial_row(struct view *view, struct view_experiment *experiment, uint32_t index)
{
    struct view_trial *trial = view_find_trial(experiment, index);
    if (trial != NULL) {
        view_trial_wake(experiment, index);
        return trial;
    }
    bool is_stray = index >= VIEW_TRIALS_FEW && (!experiment->known || index >= experiment->trial_count);
    if (!(is_stray ? stray_reserve(view, experiment) : table_reserve(view, experiment, index))) {
        return NULL;
    }
    trial = arena_take(view->arena, sizeof *trial);
    if (trial == NULL) {
        return NULL;
    }
    trial->index = index;
    if (is_stray) {
        uint32_t at = stray_position(experiment, index);
        memmove(experiment->strays + at + 1, experiment->strays + at,
                (experiment->stray_count - at) * sizeof *experiment->strays);
        experiment->strays[at] = trial;
        experiment->stray_count++;
    } else {
        experiment->trials[index] = trial;
    }
    return trial;
}

bool view_strays_settle(struct view *view, struct view_experiment *experiment, uint32_t trial_count)
{
    uint32_t count = stray_position(experiment, trial_count);
    if (count == 0) {
        return true;
    }
    if (!table_reserve(view, experiment, experiment->strays[count - 1]->index)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        experiment->trials[experiment->strays[i]->index] = experiment->strays[i];
    }
    experiment->stray_count -= count;
    memmove(experiment->strays, experiment->strays + count, experiment->stray_count * sizeof *experiment->strays);
    if (experiment->stray_count == 0) {
        arena_give(view->arena, experiment->strays, experiment->stray_slots * sizeof(void *));
        experiment->strays = NULL;
        experiment->stray_slots = 0;
    }
    return true;
}

struct view_attempt *view_find_attempt(const struct view *view, const attempt_id *id)
{
    const struct view_experiment *experiment = view_find_experiment(view, id->experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, id->trial) : NULL;
    for (struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        if (attempt_id_compare_order(&a->id, id) == 0) {
            return a;
        }
    }
    return NULL;
}

struct view_attempt *view_attempt_row(struct view *view, struct view_trial *trial, const attempt_id *id)
{
    struct view_attempt **link = &trial->attempts;
    while (*link != NULL && attempt_id_compare_order(&(*link)->id, id) < 0) {
        link = &(*link)->next;
    }
    bool is_new = *link == NULL || attempt_id_compare_order(&(*link)->id, id) != 0;
    if (is_new && BUG(fold_in_arrival_order, "the fold does not depend on the order of records")) {
        link = &trial->attempts;
    }
    if (*link != NULL && attempt_id_compare_order(&(*link)->id, id) == 0) {
        return *link;
    }
    struct view_attempt *attempt = arena_take(view->arena, sizeof *attempt);
    if (attempt != NULL) {
        attempt->id = *id;
        attempt->next = *link;
        *link = attempt;
    }
    return attempt;
}

void view_group_free(struct arena *arena, struct view_group *group)
{
    arena_give(arena, group->places, (group->member_count + group->joiner_count) * sizeof *group->places);
    arena_give(arena, group, sizeof *group);
}
