#include "tests/sim/plan.h"

#include <string.h>

#include "base/check.h"
#include "base/format.h"
#include "node/core/facts/config.h"
#include "node/core/facts/options.h"
#include "node/core/limits.h"
#include "tests/sim/world.h"

/* From version 7 on, of 100 seeds. */
#define SEEDS_WITHOUT 5
#define SEEDS_OF_ONE 19 /* one in five of the others */
#define SEEDS_OF_FEW 10 /* from version 8 on: where what only calm shows has a cause */
#define FEW_PERMILLE 100
#define CLASS_PERMILLE 500 /* each, in the rest of them */
#define LAST_ONE_PERMILLE 150 /* from version 8 on: one node is to live on, if it has the slots */
#define STREAM_OF_SWARM 970
#define PROGRAM_MS 240000 /* from the heal on the program of a search may need so long to be itself again */

static const char *const fault_names[FAULT_COUNT] = {
    "loss",      "delay",     "duplicates", "reordering", "partition",   "one-way cuts",  "daemon crash", "machine crash",
    "pause",     "suspend",   "full disk",  "lost keep",  "slow disk",   "worker crash",  "zombies",      "bad entrypoint",
    "a node cut off", "triangles", "clogged links", "slow node", "calendar jumps", "old disk", "no disk",
    "crash at a commit", "leave", "hung worker", "drifting clocks", "narrow links", "poison trial",
    "eviction", "copied disk", "a cut through a group", "a group struck twice", "owners", "slow slots", "rot",
    "another version", "bad machine", "moves", "a pair without a link", "endless hang", "quiet end",
};

bool plan_fault_is_timed(enum plan_fault fault)
{
    return (fault >= FAULT_PARTITION && fault <= FAULT_LOSE_KEEP) || (fault >= FAULT_ALONE && fault <= FAULT_HUNG_WORKER) ||
           fault == FAULT_EVICT || fault == FAULT_CLONE || fault == FAULT_GROUP_CUT || fault == FAULT_GROUP_STRUCK ||
           fault == FAULT_OWNERS || fault == FAULT_SLOW_SLOT || fault == FAULT_ROT ||
           fault == FAULT_OTHER_VERSION || fault == FAULT_BAD_MACHINE || fault == FAULT_MOVE;
}

const char *plan_fault_name(enum plan_fault fault)
{
    return fault_names[fault];
}

static bool has_any(const struct plan *plan, const enum plan_fault *faults, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (plan->has[faults[i]]) {
            return true;
        }
    }
    return false;
}

bool plan_isolates(const struct plan *plan)
{
    static const enum plan_fault crashes[] = {FAULT_CRASH_HOST, FAULT_CRASH_DAEMON, FAULT_LOSE_KEEP,
                                              FAULT_OLD_DISK,   FAULT_NO_DISK,      FAULT_CRASH_COMMIT, FAULT_POISON,
                                              FAULT_GROUP_STRUCK, FAULT_OTHER_VERSION};
    return plan_hides_ends(plan) || has_any(plan, crashes, sizeof crashes / sizeof crashes[0]);
}

bool plan_hides_ends(const struct plan *plan)
{
    static const enum plan_fault hiding[] = {FAULT_LOSS,    FAULT_DELAY, FAULT_REORDER, FAULT_PARTITION,
                                             FAULT_ONE_WAY, FAULT_PAUSE, FAULT_SUSPEND, FAULT_ALONE, FAULT_TRIANGLE,
                                             FAULT_CLOG, FAULT_SLOW_NODE, FAULT_CAPACITY, FAULT_OLD_DISK, FAULT_NO_DISK,
                                             FAULT_EVICT, FAULT_CLONE, FAULT_GROUP_CUT, FAULT_OTHER_VERSION, FAULT_MOVE,
                                             FAULT_PAIR};
    return has_any(plan, hiding, sizeof hiding / sizeof hiding[0]);
}

static void draw_strengths(struct plan *plan, struct random *random)
{
    plan->loss_permille = (uint32_t)sim_log_between(random, 1, 200);
    plan->duplicate_permille = (uint32_t)sim_log_between(random, 1, 300);
    plan->reorder_permille = (uint32_t)sim_log_between(random, 1, 300);
    plan->delay_ms = (uint32_t)sim_log_between(random, 2, 400);
    plan->disk_ms = (uint32_t)(plan->has[FAULT_DISK_SLOW] ? sim_log_between(random, 30, 2000) : sim_log_between(random, 1, 20));
    plan->zombie_permille = (uint32_t)sim_log_between(random, 20, 800);
    plan->worker_crash_ms = sim_log_between(random, 15000, 300000);
}

static void draw_more_strengths(struct plan *plan, struct random *random)
{
    plan->drift_ppm = (uint32_t)sim_log_between(random, 10, 5000);
    plan->link_bytes_per_ms = (uint32_t)sim_log_between(random, 20, 2000);
    plan->uses_streams = sim_chance(random, 400);
}

static void draw_faults(struct plan *plan, struct random *random)
{
    uint64_t dice = random_below(random, 20);
    if (dice == 0) {
        plan->fault_count = 0;
    } else if (dice <= 4) {
        plan->has[random_below(random, FAULT_VERSION_2)] = true;
    } else {
        for (int i = 0; i < FAULT_VERSION_2; i++) {
            plan->has[i] = sim_chance(random, 500);
        }
    }
    for (int i = 0; i < FAULT_VERSION_2; i++) {
        plan->fault_count += plan->has[i];
        plan->mean_ms[i] = sim_log_between(random, 6000, 200000);
    }
    draw_strengths(plan, random);
}

/* What came later has draws of its own, so that the seeds of version 1 keep their meaning. */
static void draw_more_faults(struct plan *plan, struct random *random)
{
    uint64_t dice = random_below(random, 20);
    bool has_none = dice < 4 || plan->fault_count == 0;
    bool has_one = !has_none && (dice < 8 || plan->fault_count == 1);
    if (has_one) {
        plan->has[FAULT_VERSION_2 + random_below(random, FAULT_VERSION_3 - FAULT_VERSION_2)] = true;
    }
    for (int i = FAULT_VERSION_2; i < FAULT_VERSION_3; i++) {
        bool is_in = sim_chance(random, 300);
        plan->has[i] |= !has_none && !has_one && is_in;
        plan->fault_count += plan->has[i];
        plan->mean_ms[i] = sim_log_between(random, 6000, 200000);
    }
    draw_more_strengths(plan, random);
}

/* Each with draws of its own. One seed in ten has nothing else. */
static void draw_newest_faults(struct plan *plan, uint64_t seed)
{
    bool has_none = plan->fault_count == 0;
    for (int i = FAULT_VERSION_3; i < FAULT_VERSION_5; i++) {
        struct random random;
        random_init_stream(&random, seed, 900 + (uint64_t)i);
        uint64_t dice = random_below(&random, 10);
        plan->mean_ms[i] = sim_log_between(&random, 20000, 200000);
        if (!has_none && dice == 0) {
            memset(plan->has, 0, sizeof plan->has);
            plan->fault_count = 0;
            plan->disk_ms = 1 + plan->disk_ms % 20; /* it may have been drawn for a slow one */
        }
        plan->has[i] = !has_none && dice < 3;
        plan->fault_count += plan->has[i];
    }
}

/* Where groups change, they are struck more often than by chance. */
static void draw_group_faults(struct plan *plan, uint64_t seed)
{
    bool has_none = plan->fault_count == 0;
    for (int i = FAULT_VERSION_5; i < FAULT_VERSION_7; i++) {
        struct random random;
        random_init_stream(&random, seed, 900 + (uint64_t)i);
        plan->has[i] = !has_none && sim_chance(&random, 300);
        plan->mean_ms[i] = sim_log_between(&random, 6000, 100000);
        plan->fault_count += plan->has[i];
    }
}

static void draw_older_faults(struct plan *plan, struct random *streams, uint64_t seed)
{
    draw_faults(plan, &streams[STREAM_PLAN]);
    if (plan->version > 1) {
        draw_more_faults(plan, &streams[STREAM_PLAN_TOO]);
    }
    if (plan->version > 2) {
        draw_newest_faults(plan, seed);
    }
    if (plan->version > 4) {
        draw_group_faults(plan, seed);
    }
}

static uint64_t count_classes(const struct plan *plan)
{
    return plan->version > 11  ? FAULT_COUNT
           : plan->version > 8 ? FAULT_VERSION_12
           : plan->version > 7 ? FAULT_VERSION_9
                               : FAULT_VERSION_8;
}

static void draw_classes(struct plan *plan, struct random *random)
{
    uint64_t dice = random_below(random, 100);
    uint64_t only = random_below(random, count_classes(plan));
    bool are_few = plan->version > 7 && dice >= 100 - SEEDS_OF_FEW;
    for (uint64_t i = 0; i < count_classes(plan); i++) {
        bool is_in = sim_chance(random, are_few ? FEW_PERMILLE : CLASS_PERMILLE);
        plan->has[i] = dice >= SEEDS_WITHOUT && (dice < SEEDS_WITHOUT + SEEDS_OF_ONE ? i == only : is_in);
        plan->fault_count += plan->has[i];
    }
}

/* Many at once share what a mesh can take and still do something between two of them: as many strikes as a few classes
 * have by themselves. */
static void draw_rates(struct plan *plan, struct random *random)
{
    uint64_t striking = plan->has[FAULT_WORKER_CRASH], few = sim_log_between(random, 2, 16);
    for (int i = 0; i < (int)count_classes(plan); i++) {
        bool is_rare = i == FAULT_EVICT || i == FAULT_CLONE, is_of_groups = i == FAULT_GROUP_CUT || i == FAULT_GROUP_STRUCK;
        plan->mean_ms[i] = sim_log_between(random, is_rare ? 20000 : 6000, is_of_groups ? 100000 : 200000);
        striking += plan->has[i] && plan_fault_is_timed((enum plan_fault)i);
    }
    striking = striking > few ? striking : few;
    for (int i = 0; i < FAULT_COUNT; i++) {
        plan->mean_ms[i] = plan->mean_ms[i] * striking / few;
    }
    draw_strengths(plan, random);
    draw_more_strengths(plan, random);
    plan->worker_crash_ms = plan->worker_crash_ms * striking / few;
    if (plan->fault_count == 1 && (plan->has[FAULT_DUPLICATE] || plan->has[FAULT_REORDER])) {
        plan->uses_streams = false; /* where neither occurs */
    }
}

/* From version 7 on all classes are drawn alike. */
static void draw_swarm(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init_stream(&random, seed, STREAM_OF_SWARM);
    draw_classes(plan, &random);
    draw_rates(plan, &random);
}

static void pack_hyperparameters(struct pack_writer *writer, struct random *random)
{
    struct search_parameter rate = {.kind = SEARCH_LOG, .minval = -3, .maxval = -1, .base = 10, .count = 4};
    struct search_parameter hidden = {.kind = SEARCH_INT, .minval = 16, .maxval = 256, .count = 2};
    bytes_copy_text(rate.name, sizeof rate.name, "learning_rate");
    bytes_copy_text(hidden.name, sizeof hidden.name, "hidden");
    bool both = sim_chance(random, 500);
    pack_array(writer, both ? 2 : 1);
    search_parameter_pack(writer, &rate);
    if (both) {
        search_parameter_pack(writer, &hidden);
    }
}

static void draw_config(struct plan_experiment *experiment, struct random *random, uint32_t index)
{
    uint8_t parameters[512];
    struct pack_writer writer;
    pack_writer_init(&writer, parameters, sizeof parameters);
    pack_hyperparameters(&writer, random);
    CHECK(!writer.failed);
    static const uint8_t no_labels[] = {0x90}, no_environment[] = {0x80};
    struct config config;
    config_options_set_standard(&config);
    config.searcher = experiment->trials == 1 ? SEARCH_SINGLE : SEARCH_RANDOM;
    config.max_trials = experiment->trials;
    config.slots_per_trial = experiment->slots;
    config.min_slots = experiment->min_slots;
    config.max_slots = experiment->max_slots;
    config.priority = (uint32_t)sim_between(random, 40, 44);
    config.max_restarts = experiment->max_restarts;
    config.seed = random_below(random, 1000);
    config.preemption_timeout_s = (uint32_t)sim_between(random, 1, 60);
    config.checkpoint_replicas = (uint32_t)sim_between(random, 1, 3);
    config.on_partition = experiment->pauses_minority ? CONFIG_PARTITION_PAUSE_MINORITY : CONFIG_PARTITION_CONTINUE;
    config.environment = no_environment;
    config.environment_bytes = sizeof no_environment;
    config.labels = no_labels;
    config.labels_bytes = sizeof no_labels;
    config.hyperparameters = parameters;
    config.hyperparameters_bytes = (uint32_t)writer.used_bytes;
    experiment->replicas = config.checkpoint_replicas;
    format_text(config.name, sizeof config.name, "experiment %u", index);
    bytes_copy_text(config.entrypoint, sizeof config.entrypoint, "shoal-train mlp");
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

/* Programs that can change their group, with draws of their own. */
static void draw_elastic(struct plan_experiment *experiment, uint64_t seed, uint32_t index, uint32_t version)
{
    struct random random;
    random_init_stream(&random, seed, 950 + index);
    experiment->is_elastic = sim_chance(&random, 500);
    if (experiment->is_elastic) {
        experiment->min_slots = (uint32_t)sim_between(&random, 1, experiment->slots);
        experiment->max_slots = experiment->slots + (uint32_t)random_below(&random, 4);
        experiment->fails_fast = false;
    }
    if (experiment->is_elastic && version > 4 && sim_chance(&random, 200)) {
        experiment->hears_late = true;
        experiment->step_ms = (uint32_t)sim_log_between(&random, 5000, 60000);
        experiment->steps = 2 + 60000 / experiment->step_ms;
        experiment->save_every = (uint32_t)sim_between(&random, 1, experiment->steps);
    }
}

static void draw_experiment(struct plan *plan, struct random *random, uint64_t seed, uint32_t index)
{
    struct plan_experiment *experiment = &plan->experiments[index];
    for (size_t i = 0; i < sizeof experiment->id.bytes; i++) {
        experiment->id.bytes[i] = (uint8_t)random_u64(random);
    }
    for (size_t i = 0; i < sizeof experiment->code.bytes; i++) {
        experiment->code.bytes[i] = (uint8_t)random_u64(random);
    }
    experiment->trials = (uint32_t)sim_between(random, 1, PLAN_TRIALS_MAX);
    experiment->slots = (uint32_t)sim_between(random, 1, 3);
    uint64_t trial_ms = sim_log_between(random, 10000, 60000);
    experiment->min_slots = experiment->max_slots = experiment->slots;
    experiment->step_ms = (uint32_t)sim_log_between(random, 250, 2000);
    experiment->steps = (uint32_t)(trial_ms / experiment->step_ms) + 1;
    experiment->save_every = (uint32_t)sim_between(random, 2000 / experiment->step_ms + 1, experiment->steps / 2 + 4);
    experiment->max_restarts = sim_chance(random, 700) ? 5 : (uint32_t)random_below(random, 4);
    experiment->fails_at_once = plan->version < 7 && plan->has[FAULT_ENTRYPOINT] && index == 0;
    experiment->fails_fast = sim_chance(random, 300);
    experiment->pauses_minority = sim_chance(random, 200);
    experiment->submit_ms = sim_log_between(random, 1000, 120000);
    if (sim_chance(random, 200)) {
        experiment->cancel_ms = experiment->submit_ms + sim_log_between(random, 100, 200000);
    }
    if (sim_chance(random, 300)) {
        experiment->pause_ms = experiment->submit_ms + sim_log_between(random, 100, 100000);
        experiment->resume_ms = experiment->pause_ms + sim_log_between(random, 100, 100000);
    }
    if (plan->version > 3) {
        draw_elastic(experiment, seed, index, plan->version);
    }
    draw_config(experiment, random, index);
}

bool plan_is_quiet(const struct plan *plan)
{
    return plan->fault_count == 0 && plan->core == (1u << plan->node_count) - 1;
}

static uint32_t slots_of(const struct plan *plan, uint32_t nodes)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        slots += (nodes >> i & 1) != 0 ? plan->slots[i] : 0;
    }
    return slots;
}

bool plan_fits(const struct plan *plan, const struct plan_experiment *experiment)
{
    return slots_of(plan, plan->core) >= experiment->min_slots;
}

/* How long all the work takes on the core, should nothing be done before: what bounds the time to wait. */
static uint64_t work_ms(const struct plan *plan, uint32_t slots)
{
    uint64_t sum_ms = 0;
    for (uint32_t i = 0; i < plan->experiment_count; i++) {
        const struct plan_experiment *e = &plan->experiments[i];
        /* A group that grew while no other trial could start keeps its slots; one may be smaller than it would like to be. */
        uint32_t each = plan->version > 4 && e->is_elastic ? e->max_slots : e->slots;
        /* Whatever its brackets may have at a time, and however many a program creates: one after the other. */
        bool is_in_turns = (plan->version > 15 && e->is_crowded) || e->program.is_there;
        uint32_t at_once = slots / each > 0 && !is_in_turns ? slots / each : 1;
        if (!plan_fits(plan, e)) {
            continue;
        }
        uint32_t trials = e->extend_ms != 0 ? e->trials_then : e->trials;
        uint64_t rounds = (trials + at_once - 1) / at_once;
        sum_ms += rounds * ((uint64_t)e->steps * e->step_ms + 8000);
    }
    return sum_ms;
}

static void allow_time(struct plan *plan, uint64_t whole_ms)
{
    uint64_t needed_ms = 60000 + work_ms(plan, slots_of(plan, plan->core)) * 3 / 2;
    needed_ms += plan->needs_patience ? 660000 : 0;
    needed_ms += plan->is_choosy ? CORE_BETTER_PLACE_MS : 0;
    for (uint32_t i = 0; i < plan->experiment_count; i++) { /* it stands still, is given up, is told of all again */
        needed_ms += plan->experiments[i].program.is_there ? PROGRAM_MS : 0;
    }
    needed_ms += plan->has[FAULT_ENDLESS_HANG] || plan->has[FAULT_QUIET_END] ? 120000 : 0; /* they are noticed, and made good */
    plan->end_ms = plan->heal_ms + needed_ms > whole_ms ? plan->heal_ms + needed_ms : whole_ms;
}

bool plan_has_retries(const struct plan *plan)
{
    return plan->version > 13;
}

void plan_leave_out(struct plan *plan, int node)
{
    plan->core &= ~(1u << node);
    plan->core_refuses |= 1u << node;
    allow_time(plan, plan->end_ms);
}

void plan_be_patient(struct plan *plan)
{
    plan->needs_patience = true;
    allow_time(plan, plan->end_ms);
}

bool plan_be_choosy(struct plan *plan)
{
    uint64_t end_ms = plan->end_ms;
    plan->is_choosy = true;
    allow_time(plan, end_ms);
    return plan->end_ms > end_ms;
}

static void draw_core(struct plan *plan, struct random *random)
{
    uint32_t all = (1u << plan->node_count) - 1;
    uint32_t wanted = 1;
    for (uint32_t i = 0; i < plan->experiment_count; i++) {
        wanted = plan->experiments[i].slots > wanted ? plan->experiments[i].slots : wanted;
    }
    bool whole = plan->fault_count == 0 || sim_chance(random, 300);
    uint32_t size = whole ? plan->node_count : (uint32_t)sim_between(random, 1, plan->node_count);
    if (!whole && plan->version > 7 && sim_chance(random, LAST_ONE_PERMILLE)) {
        size = 1;
    }
    while ((uint32_t)__builtin_popcount(plan->core) < size || slots_of(plan, plan->core) < wanted) {
        plan->core |= 1u << random_below(random, plan->node_count);
    }
    if (plan->is_partial_roster) {
        plan->core |= 1; /* who never met the others knows the founder alone; a beacon is not simulated */
    }
    bool silent = sim_chance(random, 250);
    plan->core_refuses = silent ? 0 : all & ~plan->core;
    plan->needs_patience = silent && plan->core != all;
}

/* The last experiment's program fails, not the first one's: that one has the poison trial. */
static void settle_strengths(struct plan *plan)
{
    plan->experiments[plan->experiment_count - 1].fails_at_once = plan->has[FAULT_ENTRYPOINT];
    if (!plan->has[FAULT_DISK_SLOW]) {
        plan->disk_ms = 1 + plan->disk_ms % 20; /* it was drawn for a slow one where that is left out */
    }
}

static void leave_out(struct plan *plan, uint64_t without)
{
    plan->fault_count = 0;
    for (int i = 0; i < FAULT_COUNT; i++) {
        plan->has[i] &= (without >> i & 1) == 0;
        plan->fault_count += plan->has[i];
    }
    uint32_t most = plan->version > 6 ? PLAN_LINK_MOST : 1;
    bool is_late = plan->has[FAULT_LOSS] && plan->uses_streams && plan->loss_permille * most > 10; /* sent again, not lost */
    if (plan->version > 6) {
        settle_strengths(plan);
    }
    plan->blurs_time = is_late || (plan->has[FAULT_LOSS] && plan->loss_permille * most > 50) ||
                       (plan->has[FAULT_REORDER] && !plan->uses_streams) ||
                       (plan->has[FAULT_DELAY] && plan->delay_ms * most > 20) || plan->has[FAULT_CAPACITY];
}

/* ---- what is kept, and for how long (version 7) --------------------------------------------------------------------- */

/* `times`: how often its few trials do what they do once else. */
static void draw_kept(struct plan_experiment *experiment, struct random *random, uint32_t times, bool keeps_all)
{
    uint8_t bytes[PLAN_CONFIG_BYTES_MAX];
    struct config config;
    struct pack_reader reader;
    struct pack_writer writer;
    memcpy(bytes, experiment->config, experiment->config_bytes);
    pack_reader_init(&reader, bytes, experiment->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    config.save_experiment_best = (uint32_t)random_below(random, 4);
    config.save_trial_best = (uint32_t)random_below(random, 4);
    config.save_trial_latest = (uint32_t)random_below(random, 4);
    experiment->keeps_all = keeps_all;
    config.keep_ranks = keeps_all ? CONFIG_KEEP_ALL : CONFIG_KEEP_FIRST;
    if (times > 1) {
        experiment->trials = config.max_trials = experiment->trials < 2 ? 1 : 2;
        experiment->steps *= times;
        experiment->save_every *= 1 + times / 4;
    }
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

/* Single trials that people stop, of every second experiment (version 13). */
static void draw_stops(struct plan_experiment *experiment, uint64_t heal_ms, struct random *random)
{
    bool has_any = sim_chance(random, 500);
    for (uint32_t t = 0; t < experiment->trials; t++) {
        bool is_in = sim_chance(random, 400);
        uint64_t after_ms = sim_log_between(random, 100, heal_ms);
        experiment->stop_ms[t] = has_any && is_in ? experiment->submit_ms + after_ms : 0;
    }
}

/* A search that draws its trials from results, in every second of the other experiments (version 15). */
static void draw_tpe(struct plan_experiment *experiment, struct random *random)
{
    uint8_t bytes[PLAN_CONFIG_BYTES_MAX];
    struct config config;
    struct pack_reader reader;
    struct pack_writer writer;
    memcpy(bytes, experiment->config, experiment->config_bytes);
    pack_reader_init(&reader, bytes, experiment->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    config.searcher = SEARCH_TPE;
    config.max_trials = experiment->trials;
    config.n_startup_trials = experiment->startup = (uint32_t)sim_between(random, 0, 2);
    config.smaller_is_better = experiment->smaller_is_better = sim_chance(random, 500);
    config.max_time = sim_chance(random, 500) ? experiment->steps : 0;
    experiment->is_drawn = true;
    experiment->rungs = 1;
    experiment->divisor = config.divisor;
    experiment->is_crowded = sim_chance(random, 300);
    config.max_concurrent_trials = experiment->is_crowded ? (uint32_t)sim_between(random, 1, 3) : PLAN_TRIALS_MAX;
    brackets_make_one(experiment->rungs, experiment->trials, &experiment->brackets);
    brackets_share_places(config.max_concurrent_trials, config.divisor, false, &experiment->brackets);
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

/* The same space, from whose results trials are drawn. */
static void take_sampler(struct config *config, uint8_t space[512])
{
    struct search_head head;
    struct pack_reader reader;
    struct pack_writer writer;
    uint32_t parameters;
    pack_reader_init(&reader, config->hyperparameters, config->hyperparameters_bytes);
    CHECK(search_head_read(&reader, &head, &parameters) == 0);
    head.sampler = SEARCH_SAMPLER_TPE;
    pack_writer_init(&writer, space, 512);
    search_head_pack(&writer, &head, parameters);
    pack_raw(&writer, reader.bytes + reader.offset, reader.count - reader.offset);
    CHECK(!writer.failed);
    config->hyperparameters = space;
    config->hyperparameters_bytes = (uint32_t)writer.used_bytes;
}

/* A search that stops trials early, in every second experiment (version 15): one bracket of at most four rungs. */
static void draw_search(struct plan_experiment *experiment, uint32_t version, struct random *random)
{
    uint8_t bytes[PLAN_CONFIG_BYTES_MAX];
    struct config config;
    struct pack_reader reader;
    struct pack_writer writer;
    if (!sim_chance(random, 500)) {
        if (sim_chance(random, 500)) {
            draw_tpe(experiment, random);
        }
        return;
    }
    memcpy(bytes, experiment->config, experiment->config_bytes);
    pack_reader_init(&reader, bytes, experiment->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    config.searcher = SEARCH_ASHA;
    config.num_rungs = experiment->rungs = (uint32_t)sim_between(random, 1, 4);
    config.divisor = experiment->divisor = (double)sim_between(random, 3, 8) / 2;
    config.smaller_is_better = experiment->smaller_is_better = sim_chance(random, 500);
    config.max_time = experiment->steps;
    experiment->is_crowded = sim_chance(random, 300);
    config.max_concurrent_trials = experiment->is_crowded ? (uint32_t)sim_between(random, 1, 3) : PLAN_TRIALS_MAX;
    bytes_copy_text(config.time_metric, sizeof config.time_metric, "steps");
    uint8_t space[512];
    if (sim_chance(random, 400)) {
        take_sampler(&config, space);
        experiment->is_drawn = true;
        config.n_startup_trials = experiment->startup = (uint32_t)sim_between(random, 0, 3);
    }
    /* drawn last: what came before keeps its meaning. Of searches that draw only from version 16 on */
    config.promotes = experiment->promotes = (!experiment->is_drawn || version > 15) && sim_chance(random, 400);
    brackets_make_one(experiment->rungs, experiment->trials, &experiment->brackets);
    brackets_share_places(config.max_concurrent_trials, config.divisor, false, &experiment->brackets);
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

static void draw_brackets(struct plan_experiment *experiment, struct config *config, struct random *random)
{
    static const enum search_mode modes[] = {
        [BRACKETS_STANDARD] = SEARCH_STANDARD, [BRACKETS_AGGRESSIVE] = SEARCH_AGGRESSIVE, [BRACKETS_CONSERVATIVE] = SEARCH_CONSERVATIVE};
    enum brackets_mode mode = (enum brackets_mode)random_below(random, 3);
    config->searcher = SEARCH_ADAPTIVE_ASHA;
    config->num_rungs = 0;
    config->max_rungs = experiment->rungs;
    config->mode = modes[mode];
    if (sim_chance(random, 300)) {
        config->bracket_count = (uint32_t)sim_between(random, 1, BRACKETS_MAX);
        for (uint32_t b = 0; b < config->bracket_count; b++) {
            config->bracket_rungs[b] = (uint8_t)sim_between(random, 1, PLAN_RUNGS_MAX);
        }
        brackets_make_listed(config->bracket_rungs, config->bracket_count, experiment->divisor, experiment->trials, &experiment->brackets);
    } else {
        brackets_make_by_mode(mode, experiment->rungs, experiment->divisor, experiment->steps, experiment->trials, &experiment->brackets);
    }
}

/* Other forms of a search: several brackets, other divisors and numbers of rungs, from one trial at a time to as many as the
 * searcher itself can use (version 16). */
static void draw_forms(struct plan_experiment *experiment, struct random *random)
{
    static const double divisors[] = {1.25, 1.5, 2, 2.5, 3, 4, 10, 1000};
    uint8_t bytes[PLAN_CONFIG_BYTES_MAX];
    struct config config;
    struct pack_reader reader;
    struct pack_writer writer;
    if (experiment->rungs == 0 || experiment->is_drawn || !sim_chance(random, 750)) {
        return;
    }
    memcpy(bytes, experiment->config, experiment->config_bytes);
    pack_reader_init(&reader, bytes, experiment->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    config.num_rungs = experiment->rungs = (uint32_t)sim_between(random, 1, PLAN_RUNGS_MAX);
    config.divisor = experiment->divisor = divisors[random_below(random, sizeof divisors / sizeof divisors[0])];
    if (sim_chance(random, 650)) {
        draw_brackets(experiment, &config, random);
    } else {
        brackets_make_one(experiment->rungs, experiment->trials, &experiment->brackets);
    }
    experiment->is_crowded = sim_chance(random, 400);
    config.max_concurrent_trials = experiment->is_crowded ? (uint32_t)random_below(random, 4) : PLAN_TRIALS_MAX * BRACKETS_MAX;
    brackets_share_places(config.max_concurrent_trials, config.divisor, config.searcher == SEARCH_ADAPTIVE_ASHA, &experiment->brackets);
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

/* Single trials that people retry when they are over, of every second experiment (version 14). */
static void draw_retries(struct plan_experiment *experiment, uint64_t heal_ms, struct random *random)
{
    bool has_any = sim_chance(random, 500);
    for (uint32_t t = 0; t < experiment->trials; t++) {
        bool is_in = sim_chance(random, 600);
        uint64_t after_ms = sim_log_between(random, 1000, heal_ms);
        experiment->retries[t] = (uint32_t)sim_between(random, 1, 3);
        experiment->retry_ms[t] = has_any && is_in ? experiment->submit_ms + after_ms : 0;
    }
}

/* Further trials, in every third experiment that draws its trials (version 15); perhaps once it is over. */
static void draw_extension(struct plan_experiment *experiment, uint64_t heal_ms, struct random *random)
{
    bool is_in = sim_chance(random, 333) && (experiment->trials > 1 || experiment->rungs > 0) && experiment->trials < PLAN_TRIALS_MAX;
    uint32_t trials = (uint32_t)sim_between(random, experiment->trials + 1, PLAN_TRIALS_MAX + 1);
    uint64_t after_ms = sim_log_between(random, 1000, heal_ms);
    experiment->trials_then = is_in ? (trials < PLAN_TRIALS_MAX ? trials : PLAN_TRIALS_MAX) : experiment->trials;
    experiment->extend_ms = is_in ? experiment->submit_ms + after_ms : 0;
}

/* A population that trains in rounds, in place of a search that draws from results or of none (version 17). */
static void draw_population(struct plan_experiment *experiment, struct random *random)
{
    static const double fractions[] = {0, 0.25, 0.5}, odds[] = {0, 0.25, 1};
    uint8_t bytes[PLAN_CONFIG_BYTES_MAX];
    struct config config;
    struct pack_reader reader;
    struct pack_writer writer;
    uint32_t rounds = experiment->trials % 3 == 0 && sim_chance(random, 500) ? 3 : experiment->trials % 4 == 0 && sim_chance(random, 300) ? 4 : 2;
    memcpy(bytes, experiment->config, experiment->config_bytes);
    pack_reader_init(&reader, bytes, experiment->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    bool is_other = experiment->rungs > 0 ? config.searcher != SEARCH_TPE : config.searcher != SEARCH_RANDOM;
    if (is_other || experiment->trials < 2 * rounds || experiment->trials % rounds != 0 || experiment->steps < rounds || !sim_chance(random, 700)) {
        return;
    }
    config.searcher = SEARCH_PBT;
    config.max_trials = experiment->trials;
    config.num_rounds = rounds;
    config.population_size = experiment->population = experiment->trials / rounds;
    config.max_time = experiment->steps / rounds;
    config.smaller_is_better = experiment->smaller_is_better = sim_chance(random, 500);
    config.truncate_fraction = fractions[random_below(random, 3)];
    config.resample_probability = odds[random_below(random, 3)];
    experiment->replaced = (uint32_t)(config.truncate_fraction * experiment->population);
    experiment->is_drawn = true;
    experiment->rungs = 1;
    experiment->divisor = config.divisor;
    experiment->is_crowded = sim_chance(random, 300);
    config.max_concurrent_trials = experiment->is_crowded ? (uint32_t)sim_between(random, 1, 3) : PLAN_TRIALS_MAX;
    experiment->extend_ms = 0;
    experiment->trials_then = experiment->trials;
    brackets_make_one(experiment->rungs, experiment->trials, &experiment->brackets);
    brackets_share_places(config.max_concurrent_trials, config.divisor, false, &experiment->brackets);
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

/* A search in which a program of the user's decides, in place of one that draws from results or of none (version 19). */
static void draw_program(struct plan_experiment *experiment, uint64_t heal_ms, struct random *random)
{
    uint8_t bytes[PLAN_CONFIG_BYTES_MAX];
    struct config config;
    struct pack_reader reader, space;
    struct pack_writer writer;
    struct plan_program *program = &experiment->program;
    memcpy(bytes, experiment->config, experiment->config_bytes);
    pack_reader_init(&reader, bytes, experiment->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    bool is_plain = config.searcher == SEARCH_RANDOM || config.searcher == SEARCH_SINGLE;
    if (!(is_plain || config.searcher == SEARCH_TPE) || !sim_chance(random, 700)) {
        return;
    }
    pack_reader_init(&space, config.hyperparameters, config.hyperparameters_bytes);
    program->is_there = true;
    uint32_t says = sim_chance(random, 500) ? OWN_ACTIONS_MAX : (uint32_t)sim_between(random, 1, 2);
    program->style = (struct own_style){.says = says,
                                        .trials = experiment->trials,
                                        .has_hidden = pack_read_array(&space) > 1,
                                        .is_hasty = sim_chance(random, 200)};
    uint32_t shortest = (experiment->steps + PLAN_RUNGS_MAX - 1) / PLAN_RUNGS_MAX;
    program->every = (uint32_t)sim_between(random, shortest, experiment->steps);
    program->slow_ms = (uint32_t)sim_log_between(random, 10, 4000);
    program->crash_permille = sim_chance(random, 500) ? (uint32_t)sim_log_between(random, 5, 200) : 0;
    program->hang_permille = sim_chance(random, 300) ? (uint32_t)sim_log_between(random, 5, 100) : 0;
    bool is_bad = sim_chance(random, 200);
    program->fails_permille = is_bad ? (uint32_t)sim_between(random, 700, 1000) : 0;
    if (is_bad && experiment->pause_ms == 0) { /* people pause and resume what was given up */
        experiment->pause_ms = experiment->submit_ms + sim_log_between(random, 100, 100000);
        experiment->resume_ms = experiment->pause_ms + sim_log_between(random, 100, 100000);
    } else if (experiment->pause_ms == 0) { /* one that crashes too often, or so once the storm is over */
        experiment->pause_ms = heal_ms + 1;
        experiment->resume_ms = heal_ms + 2;
    }
    config.searcher = SEARCH_CUSTOM;
    config.max_trials = experiment->trials;
    config.max_time = experiment->steps;
    config.every = program->every;
    config.searcher_timeout_s = (uint32_t)sim_log_between(random, 5, 60);
    experiment->smaller_is_better = config.smaller_is_better;
    experiment->is_drawn = true;
    experiment->startup = 0;
    experiment->rungs = (experiment->steps - 1) / program->every + 1;
    experiment->divisor = config.divisor;
    experiment->is_crowded = sim_chance(random, 300);
    config.max_concurrent_trials = experiment->is_crowded ? (uint32_t)sim_between(random, 1, 3) : PLAN_TRIALS_MAX;
    experiment->extend_ms = 0;
    experiment->trials_then = experiment->trials;
    bytes_copy_text(config.searcher_entrypoint, sizeof config.searcher_entrypoint, "python3 own.py");
    bytes_copy_text(config.time_metric, sizeof config.time_metric, "steps");
    bytes_copy_text(config.metric, sizeof config.metric, "accuracy");
    brackets_make_one(experiment->rungs, experiment->trials, &experiment->brackets);
    brackets_share_places(config.max_concurrent_trials, config.divisor, false, &experiment->brackets);
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

/* How long ranks that hang or are left behind are waited for (version 12), also where none do. */
static void draw_waits(struct plan_experiment *experiment, struct random *random)
{
    uint8_t bytes[PLAN_CONFIG_BYTES_MAX];
    struct config config;
    struct pack_reader reader;
    struct pack_writer writer;
    memcpy(bytes, experiment->config, experiment->config_bytes);
    pack_reader_init(&reader, bytes, experiment->config_bytes);
    CHECK(config_unpack(&reader, &config) == 0);
    config.exit_barrier_s = experiment->exit_barrier_s = (uint32_t)sim_log_between(random, 10, 60);
    config.stall_timeout_s = experiment->stall_timeout_s = (uint32_t)sim_log_between(random, 5, 60);
    config.retry = (enum config_retry)random_below(random, 2); /* not never: a trial is to have a second try */
    pack_writer_init(&writer, experiment->config, sizeof experiment->config);
    config_pack(&writer, &config);
    CHECK(!writer.failed);
    experiment->config_bytes = (uint32_t)writer.used_bytes;
}

/* Its people come later, all by the same. */
static void put_off(struct plan_experiment *experiment, uint64_t by_ms)
{
    experiment->submit_ms += by_ms;
    experiment->cancel_ms += experiment->cancel_ms != 0 ? by_ms : 0;
    experiment->pause_ms += experiment->pause_ms != 0 ? by_ms : 0;
    experiment->resume_ms += experiment->resume_ms != 0 ? by_ms : 0;
    experiment->delete_ms += experiment->delete_ms != 0 ? by_ms : 0;
}

/* A daemon cleans its disk every ten minutes, of what was left alone for an hour: so some seeds take hours. In half of them
 * nobody is lost for ever, for while somebody is away nothing goes (DESIGN 10). */
static void draw_long(struct plan *plan, struct random *random)
{
    uint64_t whole_ms = sim_between(random, 40, 110) * 60000;
    uint64_t heal_ms = whole_ms * 6 / 10;
    uint64_t rarer = (heal_ms / plan->heal_ms + 1) * sim_log_between(random, 1, 4); /* no more strikes than else */
    plan->heal_ms = heal_ms;
    for (int i = 0; i < FAULT_COUNT; i++) {
        plan->mean_ms[i] *= rarer;
    }
    for (uint32_t i = 0; i < plan->experiment_count; i++) {
        put_off(&plan->experiments[i], random_below(random, plan->heal_ms * 7 / 10));
    }
    if (sim_chance(random, 500)) {
        plan->core = (1u << plan->node_count) - 1;
        plan->core_refuses = 0;
        plan->needs_patience = false;
    }
    uint64_t cleaned_ms = plan->heal_ms + CORE_COLLECT_IDLE_S * plan->idle_permille + 3 * (uint64_t)CORE_COLLECT_MS;
    allow_time(plan, cleaned_ms > whole_ms ? cleaned_ms : whole_ms);
}

static void draw_retention(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init_stream(&random, seed, 990);
    bool is_long = sim_chance(&random, 60);
    for (uint32_t i = 0; i < plan->experiment_count; i++) {
        uint32_t times = (uint32_t)sim_log_between(&random, 1, 40);
        draw_kept(&plan->experiments[i], &random, is_long ? times : 1, plan->version > 10 && (seed + i) % 2 == 0);
        bool is_deleted = sim_chance(&random, 250);
        uint64_t delete_ms = plan->experiments[i].submit_ms + sim_log_between(&random, 100, plan->heal_ms);
        if (is_deleted && plan->experiments[i].delete_ms == 0) {
            plan->experiments[i].delete_ms = delete_ms;
        }
    }
    plan->idle_permille = (uint32_t)sim_log_between(&random, 80, 1000);
    if (is_long) {
        draw_long(plan, &random);
    }
}

void plan_draw(struct plan *plan, struct random *streams, const struct sim_run *run)
{
    struct random *random = &streams[STREAM_PLAN];
    uint64_t minutes = run->minutes;
    memset(plan, 0, sizeof *plan);
    plan->liar = -1;
    plan->version = run->plan_version == 0 ? PLAN_DEFAULT : run->plan_version;
    if (plan->version > 6) {
        draw_swarm(plan, run->seed);
    }
    bool has_copy = plan->has[FAULT_CLONE]; /* which needs a machine of its own */
    plan->node_count = (uint32_t)sim_between(random, 3, has_copy ? PLAN_NODES_MAX - 1 : PLAN_NODES_MAX);
    uint32_t total = 0;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        plan->slots[i] = sim_chance(random, 100) ? 0 : (uint32_t)sim_between(random, 1, PLAN_SLOTS_MAX);
        total += plan->slots[i];
    }
    plan->slots[0] += total < 3 ? 3 - plan->slots[0] : 0; /* the largest gang fits somewhere */
    plan->is_partial_roster = sim_chance(random, 300);
    plan->uses_codec = sim_chance(random, 100);
    if (plan->version < 7) {
        draw_older_faults(plan, streams, run->seed);
    }
    bool needs_another = plan->version > 6 && plan->has[FAULT_ENTRYPOINT]; /* than the one that fails */
    plan->experiment_count = (uint32_t)sim_between(random, needs_another ? 2 : 1, PLAN_EXPERIMENTS_MAX);
    for (uint32_t i = 0; i < plan->experiment_count; i++) {
        draw_experiment(plan, random, run->seed, i);
    }
    draw_core(plan, random);
    leave_out(plan, run->without);
    if (plan->has[FAULT_CLONE] && plan->node_count < PLAN_NODES_MAX) {
        plan->slots[plan->node_count] = 1 + (uint32_t)(run->seed % PLAN_SLOTS_MAX); /* of the machine with the copy */
    } else if (plan->has[FAULT_CLONE]) { /* no machine is left for it */
        plan->has[FAULT_CLONE] = false;
        plan->fault_count--;
    }
    uint64_t whole_ms = minutes * 60000;
    plan->heal_ms = whole_ms * 6 / 10;
    allow_time(plan, whole_ms);
    for (uint32_t i = 0; i < plan->experiment_count; i++) {
        struct plan_experiment *experiment = &plan->experiments[i];
        if (sim_chance(random, 150)) {
            experiment->delete_ms = experiment->submit_ms + sim_log_between(random, 100, plan->heal_ms);
        }
    }
    if (plan->version > 6) {
        draw_retention(plan, run->seed);
    }
    for (uint32_t i = 0; i < plan->experiment_count && plan->version > 11; i++) {
        struct random waits;
        random_init_stream(&waits, run->seed, 1000 + i);
        draw_waits(&plan->experiments[i], &waits);
    }
    for (uint32_t i = 0; i < plan->experiment_count && plan->version > 12; i++) {
        struct random stops;
        random_init_stream(&stops, run->seed, 1010 + i);
        draw_stops(&plan->experiments[i], plan->heal_ms, &stops);
    }
    for (uint32_t i = 0; i < plan->experiment_count && plan->version > 14; i++) {
        struct random search;
        random_init_stream(&search, run->seed, 1030 + i);
        draw_search(&plan->experiments[i], plan->version, &search);
        random_init_stream(&search, run->seed, 1080 + i);
        if (plan->version > 15) {
            draw_forms(&plan->experiments[i], &search);
            allow_time(plan, plan->end_ms);
        }
    }
    for (uint32_t i = 0; i < plan->experiment_count && plan_has_retries(plan); i++) {
        struct random retries;
        random_init_stream(&retries, run->seed, 1020 + i);
        draw_retries(&plan->experiments[i], plan->heal_ms, &retries);
    }
    for (uint32_t i = 0; i < plan->experiment_count; i++) {
        struct random extension;
        random_init_stream(&extension, run->seed, 1040 + i);
        plan->experiments[i].trials_then = plan->experiments[i].trials;
        if (plan->version > 14) {
            draw_extension(&plan->experiments[i], plan->heal_ms, &extension);
        }
    }
    for (uint32_t i = 0; i < plan->experiment_count && plan->version > 16; i++) {
        struct random population;
        random_init_stream(&population, run->seed, 1090 + i);
        draw_population(&plan->experiments[i], &population);
    }
    for (uint32_t i = 0; i < plan->experiment_count && plan->version > 17; i++) {
        struct random parts;
        random_init_stream(&parts, run->seed, 1100 + i);
        plan->experiments[i].saves_parts = sim_chance(&parts, 400) && plan->experiments[i].population == 0;
    }
    for (uint32_t i = 0; i < plan->experiment_count && plan->version > 18; i++) {
        struct random program;
        random_init_stream(&program, run->seed, 1110 + i);
        draw_program(&plan->experiments[i], plan->heal_ms, &program);
    }
    if (plan->version > 20) {
        struct random liar;
        random_init_stream(&liar, run->seed, 1120);
        plan->liar = sim_chance(&liar, 500) ? (int)random_below(&liar, plan->node_count) : -1;
    }
    allow_time(plan, plan->end_ms); /* for the further trials, too */
}
