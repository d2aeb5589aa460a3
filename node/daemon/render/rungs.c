#include "node/daemon/render/rungs.h"

#include <stdlib.h>

#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"

static const char *const decisions[] = {[FACT_GOES_ON] = "goes on", [FACT_STOPS] = "stops", [FACT_TOPS_OUT] = "top",
                                        [FACT_PAUSES] = "pauses", [FACT_PROMOTES] = "promotes", [FACT_CLOSES] = "closes", [FACT_ENDS] = "ends"};

static void put_brackets(const struct view_experiment *experiment, msgpack_packer *packer)
{
    const struct search_halving halving = config_search_halving(experiment->config);
    struct search_brackets brackets;
    search_brackets_make(&halving, &brackets);
    search_brackets_extend(&halving, experiment->trial_count, &brackets);
    render_put_string(packer, "brackets");
    (void)msgpack_pack_array(packer, brackets.count);
    for (uint32_t b = 0; b < brackets.count; b++) {
        (void)msgpack_pack_map(packer, 3);
        render_put_u64(packer, "trials", brackets.list[b].trials + brackets.list[b].added);
        render_put_u64(packer, "concurrent", brackets.list[b].concurrent);
        render_put_string(packer, "rungs");
        (void)msgpack_pack_array(packer, brackets.list[b].rungs);
        for (uint32_t rung = 0; rung < brackets.list[b].rungs; rung++) {
            (void)msgpack_pack_uint64(packer, search_rung_target(&halving, brackets.list[b].rungs, rung));
        }
    }
}

/* `place` counts from 1: how the result compared with those before it, `of` how many there were then. */
static void put_judged(const struct view_experiment *experiment, uint32_t i, msgpack_packer *packer)
{
    const struct fact_judged *judged = &experiment->search.judged[i].fact;
    uint32_t bracket = experiment->search.trials[judged->attempt.trial].bracket;
    struct view_standing standing = experiment->needs_promotion
                                        ? view_promotion_standing(experiment, i, &experiment->search.judged[i])
                                        : view_search_standing(experiment, i, bracket, judged->rung, judged->metric);
    (void)msgpack_pack_map(packer, 10);
    render_put_u64(packer, "trial", judged->attempt.trial);
    render_put_u64(packer, "attempt", judged->attempt.number);
    render_put_u64(packer, "bracket", bracket);
    render_put_u64(packer, "rung", judged->rung);
    render_put_u64(packer, "step", judged->step);
    render_put_u64(packer, "length", judged->length);
    render_put_string(packer, "metric");
    (void)msgpack_pack_double(packer, judged->metric);
    render_put_text(packer, "decision", decisions[judged->decision]);
    render_put_u64(packer, "place", standing.better + 1);
    render_put_u64(packer, "of", standing.entries + 1);
}

bool render_rungs(const struct node_core *core, const struct view_experiment *experiment, uint32_t *from, struct pack_writer *frame)
{
    (void)core;
    msgpack_packer packer = render_packer(frame);
    const struct view_search *search = &experiment->search;
    render_put_string(&packer, "search");
    (void)msgpack_pack_map(&packer, 7);
    render_put_bool(&packer, "promotes", experiment->needs_promotion);
    render_put_text(&packer, "metric", experiment->config->metric);
    render_put_bool(&packer, "smaller_is_better", experiment->config->smaller_is_better);
    render_put_string(&packer, "divisor");
    (void)msgpack_pack_double(&packer, experiment->config->divisor);
    render_put_text(&packer, "unit", experiment->config->time_metric);
    if (*from == 0) {
        put_brackets(experiment, &packer);
    } else {
        render_put_string(&packer, "brackets");
        (void)msgpack_pack_array(&packer, 0); /* the client joins the lists of all parts */
    }
    render_put_string(&packer, "judged");
    struct render_list list = render_list_open(&packer);
    uint32_t i = *from;
    for (; i < search->judged_count; i++) {
        put_judged(experiment, i, &packer);
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    *from = i;
    return i < search->judged_count;
}

/* ---- pbt ---------------------------------------------------------------------------------------------------------------
 */

/* The places of the trials of one round, from 1 on; 0: the trial has no entry yet. */
struct places {
    uint32_t round; /* UINT32_MAX: of none */
    uint32_t *places, *order;
    struct pbt_result *results;
};

static void rank_round(const struct view_experiment *experiment, uint32_t round, struct places *out)
{
    uint32_t population = experiment->config->population_size;
    for (uint32_t m = 0; m < population; m++) {
        const struct view_judged *last = view_search_last(experiment, round * population + m);
        out->places[m] = 0;
        out->results[m] =
            (struct pbt_result){last != NULL ? last->fact.metric : 0, last == NULL || last->fact.decision == FACT_ENDS};
    }
    pbt_rank(out->results, population, experiment->config->smaller_is_better, out->order);
    for (uint32_t m = 0, place = 0; m < population; m++) {
        if (view_search_last(experiment, round * population + out->order[m]) != NULL) {
            out->places[out->order[m]] = ++place;
        }
    }
    out->round = round;
}

static void put_u64_or_nil(msgpack_packer *packer, const char *key, bool has_value, uint64_t value)
{
    if (has_value) {
        render_put_u64(packer, key, value);
    } else {
        render_put_string(packer, key);
        (void)msgpack_pack_nil(packer);
    }
}

/* `next`: the trial that trains in its place in the next round; `next_parent`: the trial from which that one goes on. */
static void put_member(const struct view_experiment *experiment, uint32_t index, uint32_t place, msgpack_packer *packer)
{
    const struct view_search *search = &experiment->search;
    const struct view_judged *last = view_search_last(experiment, index);
    uint32_t population = experiment->config->population_size, next = index + population;
    uint32_t parent = index < search->trial_count ? search->trials[index].parent : FACT_NO_TRIAL;
    uint32_t next_parent = next < search->trial_count ? search->trials[next].parent : FACT_NO_TRIAL;
    (void)msgpack_pack_map(packer, 10);
    render_put_u64(packer, "round", index / population + 1);
    render_put_u64(packer, "member", index % population);
    render_put_u64(packer, "trial", index);
    render_put_text(
        packer, "state",
        render_trial_state_name(experiment, view_find_trial(experiment, index), render_trial_state(experiment, index)));
    put_u64_or_nil(packer, "place", place > 0, place);
    render_put_string(packer, "metric");
    if (last != NULL && last->fact.decision != FACT_ENDS) {
        (void)msgpack_pack_double(packer, last->fact.metric);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    put_u64_or_nil(packer, "step", last != NULL, last != NULL ? last->fact.step : 0);
    put_u64_or_nil(packer, "parent", parent != FACT_NO_TRIAL, parent);
    put_u64_or_nil(packer, "next", next < experiment->trial_count, next);
    put_u64_or_nil(packer, "next_parent", next_parent != FACT_NO_TRIAL, next_parent);
}

bool render_generations(const struct node_core *core, const struct view_experiment *experiment, uint32_t *from,
                        struct pack_writer *frame)
{
    (void)core;
    msgpack_packer packer = render_packer(frame);
    const struct config *config = experiment->config;
    uint32_t population = config->population_size, i = *from;
    struct places places = {UINT32_MAX, malloc(population * sizeof(uint32_t)), malloc(population * sizeof(uint32_t)),
                            malloc(population * sizeof(struct pbt_result))};
    bool has_room = places.places != NULL && places.order != NULL && places.results != NULL;
    render_put_string(&packer, "search");
    (void)msgpack_pack_map(&packer, 7);
    render_put_u64(&packer, "population", population);
    render_put_u64(&packer, "rounds", config->num_rounds);
    render_put_text(&packer, "metric", config->metric);
    render_put_bool(&packer, "smaller_is_better", config->smaller_is_better);
    render_put_text(&packer, "unit", config->time_metric);
    render_put_u64(&packer, "length_per_round", config->max_time);
    render_put_string(&packer, "members");
    struct render_list list = render_list_open(&packer);
    frame->failed |= !has_room;
    for (; i < experiment->trial_count && has_room; i++) {
        if (places.round != i / population) {
            rank_round(experiment, i / population, &places);
        }
        put_member(experiment, i, places.places[i % population], &packer);
        if (!render_list_took_row(&list)) {
            break;
        }
    }
    render_list_close(&list);
    free(places.places);
    free(places.order);
    free(places.results);
    *from = i;
    return has_room && i < experiment->trial_count;
}
