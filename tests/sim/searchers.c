#include "tests/sim/searchers.h"

#include "base/check.h"
#include "tests/sim/checkers.h"
#include "tests/sim/world.h"

#define STREAM_OF_PROGRAMS (UINT64_C(1) << 50) /* with the process' serial and the event */
#define OF_START 0xffff                        /* in place of an event */
#define OF_FIRST_WORD 0xfffe
#define WORD_BYTES 1024

/* What a process is about to say. */
struct word {
    enum node_event_kind kind;
    uint64_t life, event, until_ms; /* until_ms: for its code */
    bool has_more;
    const char *text;
    uint32_t byte_count;
    uint8_t bytes[WORD_BYTES];
};

static struct word *push_word(struct sim *sim, int node, uint32_t e, uint64_t delay_ms, enum node_event_kind kind,
                              const char *text)
{
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_SEARCHER, node);
    event->arg = (uint8_t)e;
    event->serial = sim->searchers.processes[node][e].serial;
    struct word *word = sim_payload(sim, event, sizeof *word);
    word->kind = kind;
    word->life = sim->searchers.processes[node][e].life;
    word->until_ms = sim->now_ms + SEARCHERS_FETCH_MS;
    word->text = text;
    return word;
}

/* Each life and each event of it has draws of its own. */
static struct random draws(const struct sim *sim, const struct searchers_process *process, uint64_t event)
{
    struct random random;
    random_init_stream(&random, sim->seed, STREAM_OF_PROGRAMS + ((uint64_t)process->serial << 16) + event);
    return random;
}

static void start(struct sim *sim, int node, uint32_t e, uint64_t life)
{
    const struct plan_program *plan = &sim->plan.experiments[e].program;
    struct searchers_process *process = &sim->searchers.processes[node][e];
    if (process->is_alive) {
        sim_fail(sim, 17, "n%d starts a second program for experiment %u beside the first", node, e);
        return;
    }
    *process = (struct searchers_process){.is_alive = true, .serial = ++sim->searchers.serial, .life = life};
    own_program_begin(&plan->style, &process->program);
    struct random random = draws(sim, process, OF_START);
    SIM_TRACE(sim, node, "PROGRAM of experiment %u starts, life %llu", e, (unsigned long long)life);
    (void)push_word(sim, node, e, sim_log_between(&random, 20, 1500), NODE_EVENT_SEARCHER_STARTED, NULL);
}

/* Its process is there: it speaks for the first time, or fails. */
static void begin(struct sim *sim, int node, uint32_t e)
{
    const struct plan_program *plan = &sim->plan.experiments[e].program;
    struct random random = draws(sim, &sim->searchers.processes[node][e], OF_FIRST_WORD);
    uint64_t delay_ms = sim_log_between(&random, 1, plan->slow_ms);
    if (sim_chance(&random, plan->fails_permille) && !sim->healed) {
        (void)push_word(sim, node, e, delay_ms, NODE_EVENT_SEARCHER_ENDED, "has ended with status 1: it fails");
    } else {
        (void)push_word(sim, node, e, delay_ms, NODE_EVENT_SEARCHER_READY, NULL);
    }
}

static void tell(struct sim *sim, int node, uint32_t e, const struct node_effect *effect)
{
    const struct plan_program *plan = &sim->plan.experiments[e].program;
    struct searchers_process *process = &sim->searchers.processes[node][e];
    struct own_event event;
    struct own_answer answer;
    uint64_t number;
    bool is_replay;
    if (!process->is_alive || process->life != effect->u.searcher.life || process->was_asked) {
        sim_fail(sim, 17, "n%d asks a program of experiment %u that does not wait for an event", node, e);
        return;
    }
    if (!own_event_read(effect->bytes, effect->byte_count, &event, &number, &is_replay) ||
        number != effect->u.searcher.event) {
        sim_fail(sim, 17, "n%d tells the program of experiment %u something that is no event", node, e);
        return;
    }
    SIM_TRACE(sim, node, "PROGRAM of experiment %u is told of event %llu%s: kind %d, trial %u, %g", e,
              (unsigned long long)number, is_replay ? " again" : "", (int)event.kind, event.trial, event.metric);
    checkers_on_told(sim, node, e, process->told, number, is_replay, &event);
    process->told++;
    process->was_asked = true;
    own_program_hear(&process->program, &event, &answer);
    struct random random = draws(sim, process, number % OF_FIRST_WORD);
    uint64_t delay_ms = sim_log_between(&random, 1, sim->healed ? 50 : plan->slow_ms);
    bool crashes = sim_chance(&random, plan->crash_permille), hangs = sim_chance(&random, plan->hang_permille);
    if (crashes && !sim->healed) {
        (void)push_word(sim, node, e, delay_ms, NODE_EVENT_SEARCHER_ENDED, "was ended by signal 11");
    } else if (!hangs || sim->healed) {
        struct word *word = push_word(sim, node, e, delay_ms, NODE_EVENT_SEARCHER_ANSWER, NULL);
        struct pack_writer writer;
        pack_writer_init(&writer, word->bytes, sizeof word->bytes);
        own_answer_pack(&answer, &writer);
        CHECK(!writer.failed);
        word->byte_count = (uint32_t)writer.used_bytes;
        word->event = number;
        word->has_more = answer.has_more;
    }
}

static uint32_t experiment_of(const struct sim *sim, experiment_id id)
{
    uint32_t e = 0;
    while (e < sim->plan.experiment_count && !experiment_id_equal(sim->plan.experiments[e].id, id)) {
        e++;
    }
    CHECK(e < sim->plan.experiment_count);
    return e;
}

void searchers_effect(struct sim *sim, int node, const struct node_effect *effect)
{
    uint32_t e = experiment_of(sim, effect->u.searcher.experiment);
    struct searchers_process *process = &sim->searchers.processes[node][e];
    if (effect->kind == NODE_EFFECT_SEARCHER_START) {
        start(sim, node, e, effect->u.searcher.life);
    } else if (effect->kind == NODE_EFFECT_SEARCHER_TELL) {
        tell(sim, node, e, effect);
    } else if (process->life == effect->u.searcher.life) {
        process->is_alive = false;
    }
}

/* Its code is there, or there is time left to wait for it. */
static bool fetch_code(struct sim *sim, struct sim_event *event, struct word *word)
{
    if (word->kind != NODE_EVENT_SEARCHER_STARTED ||
        blobs_fetch(sim, sim->plan.experiments[event->arg].code, event->node, UINT32_MAX)) {
        return true;
    }
    if (sim->now_ms >= word->until_ms) {
        word->kind = NODE_EVENT_SEARCHER_ENDED;
        word->text = "cannot be started: its code cannot be fetched";
        return true;
    }
    return false;
}

void searchers_event(struct sim *sim, struct sim_event *event)
{
    struct word *word = event->payload;
    struct searchers_process *process = &sim->searchers.processes[event->node][event->arg];
    if (!process->is_alive || process->serial != event->serial || !sim_daemon_up(sim, event->node)) {
        return;
    }
    if (sim_paused(sim, event->node)) {
        sim_again(sim, event, sim->nodes[event->node].paused_until_ms);
        return;
    }
    if (!fetch_code(sim, event, word)) {
        sim_again(sim, event, sim->now_ms + 1000);
        return;
    }
    if (word->kind == NODE_EVENT_SEARCHER_ENDED) {
        process->is_alive = false;
        SIM_TRACE(sim, event->node, "PROGRAM of experiment %u %s", event->arg, word->text);
    }
    process->was_asked &= word->kind != NODE_EVENT_SEARCHER_ANSWER;
    if (word->kind == NODE_EVENT_SEARCHER_STARTED) {
        begin(sim, event->node, event->arg);
    }
    struct node_event core_event = {.kind = word->kind, .bytes = word->bytes, .byte_count = word->byte_count};
    core_event.u.searcher.experiment = sim->plan.experiments[event->arg].id;
    core_event.u.searcher.life = word->life;
    core_event.u.searcher.event = word->event;
    core_event.u.searcher.has_more = word->has_more;
    core_event.u.searcher.text = word->text;
    sim_step(sim, event->node, &core_event);
}

void searchers_daemon_down(struct sim *sim, int node)
{
    for (uint32_t e = 0; e < PLAN_EXPERIMENTS_MAX; e++) {
        sim->searchers.processes[node][e].is_alive = false;
    }
}
