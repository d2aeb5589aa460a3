/* Why trials have not begun: what each waits for, the slots that are lacking, the nodes without the program. */

#include <string.h>

#include "base/bytes.h"
#include "node/core/facts/program.h"
#include "node/core/view/population.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"

#define WAITING_ROWS_MAX 32  /* so that a document has room for them */
#define WAITING_LOOKS_MAX 48 /* trials with attempts, each looked at by itself; each look goes through all slots of the mesh */

/* The reasons of an experiment's queued trials. Trials that have not begun wait for the same, so one look does for all, but
 * for those that their search does not let begin: trials of custom without values, and of a round of pbt that has no parents
 * yet. */
struct waiting {
    bool has_unbegun, has_held;
    uint32_t looks, held_round;
    char unbegun[NODE_CORE_WAITING_BYTES], held[NODE_CORE_WAITING_BYTES];
};

/* The search does not let the trial begin. `*round`: of which such trials wait for the same. */
static bool is_held(const struct view_experiment *experiment, uint32_t index, uint32_t *round)
{
    bool is_pbt = experiment->config->searcher == SEARCH_PBT;
    *round = is_pbt ? index / experiment->config->population_size : 0;
    return experiment->is_custom ? !view_custom_is_created(experiment, index)
                                 : is_pbt && !view_population_has_parent(experiment, index);
}

/* Writes why the trial waits; an empty text: it does not. */
static void find_waiting(const struct node_core *core, const struct view_experiment *experiment, uint32_t index, struct waiting *waiting,
                         char out[NODE_CORE_WAITING_BYTES])
{
    out[0] = '\0';
    if (view_trial_state(experiment, index) != VIEW_TRIAL_QUEUED) {
        return;
    }
    const struct view_trial *trial = view_find_trial(experiment, index);
    bool is_paused = view_search_paused(experiment, index) != NULL; /* a short look */
    if (trial != NULL && trial->attempts != NULL && (is_paused || waiting->looks < WAITING_LOOKS_MAX)) {
        waiting->looks += is_paused ? 0 : 1;
        (void)node_core_waiting_reason(core, experiment, index, out, NODE_CORE_WAITING_BYTES);
        return;
    }
    uint32_t round;
    if (is_held(experiment, index, &round)) {
        if (!waiting->has_held || waiting->held_round != round) {
            waiting->has_held = true;
            waiting->held_round = round;
            waiting->held[0] = '\0';
            (void)node_core_waiting_reason(core, experiment, index, waiting->held, NODE_CORE_WAITING_BYTES);
        }
        bytes_copy_text(out, NODE_CORE_WAITING_BYTES, waiting->held);
        return;
    }
    if (!waiting->has_unbegun) {
        waiting->has_unbegun = true;
        (void)node_core_waiting_reason(core, experiment, index, waiting->unbegun, NODE_CORE_WAITING_BYTES);
    }
    bytes_copy_text(out, NODE_CORE_WAITING_BYTES, waiting->unbegun);
}

static void put_waiting_row(uint32_t first, uint32_t last, uint32_t count, const char *reason, msgpack_packer *packer)
{
    (void)msgpack_pack_map(packer, 4);
    render_put_u64(packer, "first", first);
    render_put_u64(packer, "last", last);
    render_put_u64(packer, "count", count);
    render_put_text(packer, "reason", reason);
}

void render_put_waiting(const struct node_core *core, const struct view_experiment *experiment, msgpack_packer *packer)
{
    struct waiting waiting = {0};
    char texts[2][NODE_CORE_WAITING_BYTES], *now = texts[0], *before = texts[1];
    uint32_t first = 0, last = 0, count = 0;
    struct render_list list = render_list_open(packer);
    uint32_t trials = view_experiment_over(experiment) ? 0 : experiment->trial_count;
    for (uint32_t i = 0; i < trials && list.count < WAITING_ROWS_MAX; i++) {
        find_waiting(core, experiment, i, &waiting, now);
        if (now[0] == '\0') {
            continue;
        }
        if (count > 0 && strcmp(now, before) != 0) {
            put_waiting_row(first, last, count, before, packer);
            list.count++;
            count = 0;
        }
        first = count == 0 ? i : first;
        last = i;
        count++;
        char *other = before;
        before = now;
        now = other;
    }
    if (count > 0 && list.count < WAITING_ROWS_MAX) {
        put_waiting_row(first, last, count, before, packer);
        list.count++;
    }
    render_list_close(&list);
}

void render_put_first_waiting(const struct node_core *core, const struct view_experiment *experiment, msgpack_packer *packer)
{
    struct waiting waiting = {0};
    char text[NODE_CORE_WAITING_BYTES] = "";
    uint32_t trials = view_experiment_over(experiment) ? 0 : experiment->trial_count, round;
    for (uint32_t i = 0; i < trials && text[0] == '\0';
         i++) { /* what a search holds back as it should is not worth a line */
        if (view_search_paused(experiment, i) == NULL && !is_held(experiment, i, &round)) {
            find_waiting(core, experiment, i, &waiting, text);
        }
    }
    if (text[0] == '\0') {
        (void)node_core_search_trouble(experiment, text, sizeof text);
    }
    render_put_text_or_nil(packer, text);
}

static uint32_t count_queued(const struct view_experiment *experiment)
{
    uint32_t queued = 0;
    for (uint32_t i = 0; i < experiment->trial_count; i++) {
        queued += view_trial_state(experiment, i) == VIEW_TRIAL_QUEUED && view_search_paused(experiment, i) == NULL;
    }
    return queued;
}

void render_waiting(const struct node_core *core, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    const struct view *view = node_core_view(core);
    render_put_string(&packer, "waiting");
    struct render_list list = render_list_open(&packer);
    for (uint32_t i = 0; i < view->experiment_count && list.count < RENDER_WAITING_EXPERIMENTS; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        if (!experiment->known || view_experiment_over(experiment) || count_queued(experiment) == 0) {
            continue;
        }
        (void)msgpack_pack_map(&packer, 4);
        render_put_string(&packer, "experiment");
        render_put_experiment_id(&packer, experiment->id);
        render_put_text(&packer, "name", experiment->config->name);
        render_put_u64(&packer, "trials", count_queued(experiment));
        render_put_string(&packer, "reason");
        render_put_first_waiting(core, experiment, &packer);
        list.count++;
    }
    render_list_close(&list);
}

/* The slots that one trial could have if all were free: parts of GPUs and other slots do not go together. */
static uint32_t slots_of(const struct node_core *core, const struct config *config)
{
    uint32_t whole = 0, parts = 0;
    for (uint32_t i = 0; i < node_core_view(core)->member_count; i++) {
        const struct view_member *member = node_core_view(core)->members[i];
        bool counts = member->admitted && !view_member_is_out(member) && !member->left;
        uint64_t fitting = counts ? view_member_fitting(member, config) : 0;
        parts += (uint32_t)__builtin_popcountll(fitting & member->slot_parts);
        whole += (uint32_t)__builtin_popcountll(fitting & ~member->slot_parts);
    }
    return whole > parts ? whole : parts;
}

void render_lacks(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    static const char *const kinds[] = {"any", "cpu", "cuda"};
    const struct config *config = experiment->config;
    uint32_t present = slots_of(core, config);
    render_put_string(&packer, "lacks");
    if (!view_experiment_live(experiment) || present >= config->min_slots) {
        (void)msgpack_pack_nil(&packer);
        return;
    }
    (void)msgpack_pack_map(&packer, 3);
    render_put_u64(&packer, "slots", config->min_slots);
    render_put_text(&packer, "kind", kinds[config->slot_kind]);
    render_put_u64(&packer, "present", present);
}

static bool may_get_work(const struct node_core *core, const struct view_member *member, const struct config *config)
{
    return view_member_fitting(member, config) != 0 && member->admitted && !view_member_is_out(member) && !member->left &&
           node_core_is_alive(core, member->id) && !node_core_is_drained(core, member->id);
}

static void put_program_of(const struct node_core *core, const struct view_member *member, enum view_program state, const struct fact_program *program,
                           msgpack_packer *packer)
{
    bool is_there = state == VIEW_PROGRAM_THERE;
    (void)msgpack_pack_map(packer, 6);
    render_put_string(packer, "node");
    render_put_node_id(packer, member->id);
    render_put_text(packer, "label", render_node_label(core, member->id).text);
    render_put_text(packer, "name", render_node_name(core, member->id));
    render_put_string(packer, "has");
    if (state == VIEW_PROGRAM_UNKNOWN) {
        (void)msgpack_pack_nil(packer);
    } else if (is_there) {
        (void)msgpack_pack_true(packer);
    } else {
        (void)msgpack_pack_false(packer);
    }
    render_put_text(packer, "version", is_there ? program->version : "");
    render_put_text(packer, "torch", is_there ? program->torch : "");
}

void render_program(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    const struct view *view = node_core_view(core);
    char name[FACT_PROGRAM_BYTES];
    render_put_string(&packer, "program");
    if (!view_experiment_live(experiment) || !program_of_config(experiment->config, name)) {
        (void)msgpack_pack_nil(&packer);
        return;
    }
    (void)msgpack_pack_map(&packer, 2);
    render_put_text(&packer, "name", name);
    render_put_string(&packer, "nodes");
    struct render_list list = render_list_open(&packer);
    for (uint32_t i = 0; i < 2 * view->member_count && list.count < RENDER_PROGRAM_NODES; i++) {
        const struct view_member *member = view->members[i % view->member_count];
        struct fact_program program;
        enum view_program state = view_member_program(member, name, &program);
        bool is_turn = (i < view->member_count) == (state == VIEW_PROGRAM_LACKING);
        if (is_turn && may_get_work(core, member, experiment->config)) {
            put_program_of(core, member, state, &program, &packer);
            list.count++;
        }
    }
    render_list_close(&list);
}
