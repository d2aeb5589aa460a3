#include "node/daemon/render/rungs.h"

#include "node/daemon/render/put.h"

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
