/* The present group of an attempt: ranks, workers, and slots wanted back. */

#include "node/core/view/view.h"

#include "base/check.h"

const struct view_worker *view_attempt_worker(const struct view_attempt *attempt, uint32_t rank)
{
    if (!attempt->assigned || rank >= attempt->member_count + attempt->joiner_count) {
        return NULL;
    }
    const struct fact_place *place = &attempt->members[rank];
    for (const struct view_worker *worker = attempt->workers; worker != NULL; worker = worker->next) {
        if (worker->number > place->number) {
            break; /* by number */
        }
        if (worker->number == place->number && node_id_equal(worker->writer, place->node)) {
            return worker;
        }
    }
    return NULL;
}

uint32_t view_attempt_rank(const struct view_attempt *attempt, node_id node, uint32_t slot, uint32_t number)
{
    for (uint32_t rank = 0; attempt->assigned && rank < attempt->member_count + attempt->joiner_count; rank++) {
        const struct fact_place *place = &attempt->members[rank];
        if (place->number == number && place->slot == slot && node_id_equal(place->node, node)) {
            return rank;
        }
    }
    return UINT32_MAX;
}

static bool has_ended(const struct view_worker *worker)
{
    return worker != NULL && worker->state == FACT_WORKER_ENDED;
}

bool view_attempt_is_elastic(const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker == NULL || !worker->is_elastic) {
            return false;
        }
    }
    return attempt->assigned;
}

bool view_attempt_is_wanted_back(const struct view *view, const struct view_attempt *attempt, uint32_t rank)
{
    CHECK(rank < attempt->member_count + attempt->joiner_count);
    const struct fact_place *place = &attempt->members[rank];
    const struct view_member *node = view_find_member(view, place->node);
    const struct view_slot *slot = node != NULL ? view_member_slot(node, place->slot) : NULL;
    bool is_wanted = (slot != NULL && slot->withheld && attempt_id_equal(&slot->attempt, &attempt->id)) ||
                     (node != NULL && view_member_drain(node).at_once);
    /* After the end of the worker the slot concerns the group no more. Asked last: the way through a large group is long. */
    return is_wanted && !has_ended(view_attempt_worker(attempt, rank));
}

bool view_attempt_can_shrink(const struct view *view, const struct view_experiment *experiment,
                             const struct view_attempt *attempt, const node_id *leaver)
{
    uint32_t stay = 0;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        bool leaves = leaver != NULL && node_id_equal(attempt->members[rank].node, *leaver);
        stay += !leaves && !has_ended(view_attempt_worker(attempt, rank)) && !view_attempt_is_wanted_back(view, attempt, rank);
    }
    return experiment->known && view_attempt_is_elastic(attempt) && stay >= experiment->config->min_slots &&
           !experiment->config->even_hosts;
}

node_id view_attempt_node(const struct view_attempt *attempt)
{
    node_id none;
    memset(&none, 0, sizeof none);
    for (uint32_t i = 1; i < attempt->member_count; i++) {
        if (!node_id_equal(attempt->members[i].node, attempt->members[0].node)) {
            return none;
        }
    }
    return attempt->assigned ? attempt->members[0].node : none;
}
