/* `swim_sim --help` has the options.
 *
 * Each seed is one mesh of 2 to 16 nodes and its own rates of loss (up to 5 %) and doubling: a storm of crashes,
 * restarts, leaves, pauses, partitions and one-way cuts; then quiet, in which all views must come to agree within 60 s;
 * then a calm with loss, in which nobody may be taken for dead; then one silent death, which all must know within 8 s.
 * Exits 1 if a seed fails, and says which; the same seed gives the same run. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/command_line.h"
#include "tests/sim/swim_world.h"

#define STORM_MS 60000
#define QUIET_MS 60000
#define LOSSLESS_MS 5000 /* the last part of the quiet, so that no suspicion is under way when views are compared */
#define DETECT_MS 8000
#define NODES_MAX 16
#define SAMPLES_MAX 200000

struct totals {
    uint64_t seeds, failed, suspicions, false_deaths, calm_node_ms, calm_packets, steps;
    uint64_t crashes, restarts, leaves, pauses, partitions, one_way_cuts;
    uint32_t *samples[NODES_MAX + 1]; /* per mesh size: how long each death took until the last survivor knew */
    size_t sample_count[NODES_MAX + 1];
};

struct run {
    struct totals *totals;
    bool calm;
    uint64_t calm_deaths;
};

static void on_changed(struct world *world, int node, int about, enum swim_state old_state, enum swim_state new_state)
{
    struct run *run = world->context;
    (void)node;
    (void)old_state;
    if (!run->calm) {
        return;
    }
    if (new_state == SWIM_SUSPECT) {
        run->totals->suspicions++;
    }
    if (new_state == SWIM_DEAD && world->nodes[about].running) {
        run->calm_deaths++;
    }
}

static void partition(struct world *world, bool one_way)
{
    uint64_t side = random_u64(&world->random);
    world_heal(world);
    for (int i = 0; i < world->count; i++) {
        for (int j = 0; j < world->count; j++) {
            bool a = (side >> i) & 1;
            bool b = (side >> j) & 1;
            world->cut[i][j] = one_way ? (a && !b) : (a != b);
        }
    }
}

static void one_fault(struct world *world, struct totals *totals)
{
    int index = (int)random_below(&world->random, (uint64_t)world->count);
    struct world_node *node = &world->nodes[index];
    if (!node->running) {
        world_start(world, index);
        totals->restarts++;
        return;
    }
    switch (random_below(&world->random, 8)) {
    case 0:
    case 1:
        world_crash(world, index);
        totals->crashes++;
        break;
    case 2:
        if (node->paused_until_ms == 0) {
            world_leave(world, index);
            totals->leaves++;
            world_run(world, world->now_ms + 200);
            world_crash(world, index);
        }
        break;
    case 3:
    case 4:
        if (node->paused_until_ms == 0) {
            world_pause(world, index, 200 + random_below(&world->random, 15000));
            totals->pauses++;
        }
        break;
    case 5:
        partition(world, false);
        totals->partitions++;
        break;
    case 6:
        partition(world, true);
        totals->one_way_cuts++;
        break;
    default:
        world_heal(world);
    }
}

static void storm(struct world *world, struct totals *totals)
{
    uint64_t end_ms = world->now_ms + STORM_MS;
    while (world->now_ms < end_ms && world->failure[0] == '\0') {
        world_run(world, world->now_ms + 100 + random_below(&world->random, 6000));
        one_fault(world, totals);
    }
    world_heal(world);
    for (int i = 0; i < world->count; i++) {
        if (!world->nodes[i].running) {
            world_start(world, i);
        }
    }
}

/* The time until all survivors know, or 0 if DETECT_MS was not enough. */
static uint32_t silent_death(struct world *world)
{
    int victim = (int)random_below(&world->random, (uint64_t)world->count);
    world_run(world, world->now_ms + random_below(&world->random, 5000));
    world_crash(world, victim);
    uint64_t start_ms = world->now_ms;
    while (world->now_ms < start_ms + DETECT_MS && world->failure[0] == '\0') {
        world_run(world, world->now_ms + 10);
        bool known = true;
        for (int i = 0; i < world->count; i++) {
            known = known && (i == victim || world_view(world, i, victim) == SWIM_DEAD);
        }
        if (known) {
            return (uint32_t)(world->now_ms - start_ms);
        }
    }
    return 0;
}

static bool expect(struct world *world, bool condition, const char *text)
{
    if (!condition && world->failure[0] == '\0') {
        snprintf(world->failure, sizeof world->failure, "at %" PRIu64 " ms: %s", world->now_ms, text);
    }
    return world->failure[0] == '\0';
}

static bool run_seed(uint64_t seed, int nodes, uint64_t calm_ms, bool verbose, struct totals *totals, uint64_t *digest)
{
    struct world *world = malloc(sizeof *world);
    struct random dice;
    random_init_stream(&dice, seed, 2);
    int drawn = (int)(2 + random_below(&dice, 8));
    if (random_below(&dice, 16) == 0) {
        drawn = NODES_MAX;
    }
    int count = nodes != 0 ? nodes : drawn;
    uint32_t loss_permille = (uint32_t)random_below(&dice, 51);
    struct run run = {.totals = totals};
    world_init(world, seed, count);
    world->changed = on_changed;
    world->context = &run;
    world->verbose = verbose;
    world->loss_permille = loss_permille;
    world->double_permille = (uint32_t)random_below(&dice, 51);
    world->delay_max_ms = 2 + random_below(&dice, 40);
    for (int i = 0; i < count; i++) {
        if (random_below(&dice, 4) != 0) {
            world_start(world, i);
        }
    }
    storm(world, totals);
    uint64_t quiet_end_ms = world->now_ms + QUIET_MS;
    world_run(world, quiet_end_ms - LOSSLESS_MS);
    world->loss_permille = 0;
    world_run(world, quiet_end_ms);
    if (!expect(world, world_agrees(world), "views still differ 60 s after the last fault")) {
        goto out;
    }
    world->loss_permille = loss_permille;
    run.calm = true;
    uint64_t packets = world->packets_sent;
    world_run(world, world->now_ms + calm_ms);
    run.calm = false;
    totals->calm_packets += world->packets_sent - packets;
    totals->calm_node_ms += calm_ms * (uint64_t)count;
    totals->false_deaths += run.calm_deaths;
    /* A false death in the calm is counted, not fatal here: the sum has a bound. It heals before the last part. */
    world_run(world, world->now_ms + (run.calm_deaths > 0 ? 10000 : 0));
    uint32_t took_ms = silent_death(world);
    if (expect(world, took_ms != 0, "a silent death is not known to all after 8 s") &&
        totals->sample_count[count] < SAMPLES_MAX) {
        totals->samples[count][totals->sample_count[count]++] = took_ms;
    }
out:
    totals->steps += world->steps;
    *digest = world->digest;
    bool passed = world->failure[0] == '\0';
    if (!passed) {
        printf("seed %" PRIu64 " (%d nodes, %u permille loss) FAILED: %s\n", seed, count, loss_permille,
               world->failure);
    }
    world_free(world);
    free(world);
    return passed;
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void report(struct totals *totals)
{
    double hours = (double)totals->calm_node_ms / 3600000.0;
    printf("seeds %" PRIu64 ", failed %" PRIu64 ", steps %" PRIu64 "\n", totals->seeds, totals->failed, totals->steps);
    printf("faults: %" PRIu64 " crashes, %" PRIu64 " restarts, %" PRIu64 " leaves, %" PRIu64 " pauses, %" PRIu64
           " partitions, %" PRIu64 " one-way cuts\n",
           totals->crashes, totals->restarts, totals->leaves, totals->pauses, totals->partitions, totals->one_way_cuts);
    printf("calm: %.1f node-hours, %" PRIu64 " views turned suspect, %" PRIu64 " false deaths, %.1f messages per node "
           "and second\n",
           hours, totals->suspicions, totals->false_deaths, (double)totals->calm_packets / (hours * 3600.0));
    for (int n = 2; n <= NODES_MAX; n++) {
        size_t count = totals->sample_count[n];
        if (count > 0) {
            qsort(totals->samples[n], count, sizeof(uint32_t), compare_u32);
            printf("%2d nodes: a death is known to all after a median of %u ms, 99 %% %u ms, most %u ms (%zu deaths)\n",
                   n, totals->samples[n][count / 2], totals->samples[n][count * 99 / 100],
                   totals->samples[n][count - 1], count);
        }
    }
}

static bool totals_are_good(const struct totals *totals, uint64_t seeds)
{
    bool good = totals->failed == 0;
    if ((double)totals->false_deaths > 0.01 * (double)totals->calm_node_ms / 3600000.0) {
        printf("FAILED: more than 0.01 false deaths per node-hour\n");
        good = false;
    }
    if (seeds >= 20 && (totals->crashes == 0 || totals->leaves == 0 || totals->pauses == 0 || totals->partitions == 0 ||
                        totals->one_way_cuts == 0 || totals->suspicions == 0)) {
        printf("FAILED: some kind of fault never happened\n");
        good = false;
    }
    return good;
}

static const char purpose[] =
    "Membership alone: meshes of 2 to 16 nodes in storms, then quiet, then calm, then a silent death; exits 1 if a seed fails,\n"
    "and says which.\n";

int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = 100, one = 0, nodes_given = 0, calm_s = 120;
    bool verbose = false, is_one = false;
    const struct command_line_option rows[] = {
        {.name = "--seeds", .value = "N", .help = "this many; else 100", .number = &seeds, .min = 1},
        {.name = "--first", .value = "S", .help = "from this one on; else from 1", .number = &first},
        {.name = "--seed", .value = "S", .help = "this one only", .number = &one, .given = &is_one},
        {.name = "--nodes", .value = "N", .help = "in each mesh; else as the seed says", .number = &nodes_given, .min = 2,
         .max = NODES_MAX},
        {.name = "--calm", .value = "SECONDS", .help = "of calm with loss; else 120", .number = &calm_s, .max = 86400},
        {.name = "--verbose", .help = "with the trace", .given = &verbose},
    };
    const struct command_line line = {purpose, rows, sizeof rows / sizeof rows[0]};
    int status = command_line_read(&line, argc, argv, stdout, stderr);
    if (status != COMMAND_LINE_GO_ON) {
        return status;
    }
    if (is_one) {
        first = one;
        seeds = 1;
    }
    int nodes = (int)nodes_given;
    uint64_t calm_ms = calm_s * 1000;
    struct totals totals = {0};
    for (int n = 0; n <= NODES_MAX; n++) {
        totals.samples[n] = malloc(SAMPLES_MAX * sizeof(uint32_t));
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        uint64_t digest = 0;
        bool passed = run_seed(seed, nodes, calm_ms, verbose, &totals, &digest);
        if (passed && seed % 16 == 0) {
            uint64_t again = 0;
            passed = run_seed(seed, nodes, calm_ms, false, &totals, &again) && again == digest;
            if (!passed) {
                printf("seed %" PRIu64 " FAILED: the second run differs from the first\n", seed);
            }
        }
        totals.seeds++;
        totals.failed += passed ? 0 : 1;
    }
    report(&totals);
    bool good = totals_are_good(&totals, seeds);
    for (int n = 0; n <= NODES_MAX; n++) {
        free(totals.samples[n]);
    }
    return good ? 0 : 1;
}
