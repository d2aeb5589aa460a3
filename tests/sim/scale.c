/* `scale --help` has the options.
 *
 * What a mesh of N whole node cores costs and how fast it is, in a simulated network (tests/sim/scale_world.h): idle for
 * half a minute; then C changes, one after the other; then M minutes in which nobody dies; then D hosts that fall silent, one
 * after the other. The network loses what it loses all the time. One line of JSON. Exits 1 if a change did not reach all, a
 * death was not found, somebody who lived was declared dead before that, or not all were alive after half a minute. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "node/core/ground/state.h"
#include "tests/sim/command_line.h"
#include "tests/sim/scale_world.h"

#define SAMPLES_MAX 1000
#define SETTLE_MS 120000 /* the rumours of the start are told for so long: a few with each probe */
#define IDLE_MS 30000
#define PATIENCE_MS 120000

/* What --limits asks of a change, and of an idle node. */
#define LIMIT_NEAR_NODES 64 /* up to so many a change goes straight to everybody */
#define LIMIT_NEAR_MS 500
#define LIMIT_FAR_MS 2000
#define LIMIT_IDLE_BYTES_S 2000

struct samples {
    uint32_t count, missed;
    uint64_t values[SAMPLES_MAX];
};

static void sample_add(struct samples *samples, uint64_t value)
{
    uint32_t at = samples->count++;
    for (; at > 0 && samples->values[at - 1] > value; at--) {
        samples->values[at] = samples->values[at - 1];
    }
    samples->values[at] = value;
}

static void print_samples(const char *name, const struct samples *samples)
{
    printf(", \"%s_count\": %u, \"%s_missed\": %u", name, samples->count, name, samples->missed);
    if (samples->count == 0) {
        printf(", \"%s_median\": null, \"%s_worst\": null", name, name);
        return;
    }
    printf(", \"%s_median\": %llu, \"%s_worst\": %llu", name, (unsigned long long)samples->values[samples->count / 2], name,
           (unsigned long long)samples->values[samples->count - 1]);
}

struct idle {
    double bytes_s, bytes_s_most, messages_s;
};

static struct idle run_idle(struct scale_world *world)
{
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        world->nodes[i].sent_bytes = world->nodes[i].sent_messages = 0;
    }
    world->counts_bytes = true;
    scale_run(world, IDLE_MS);
    world->counts_bytes = false;
    struct idle idle = {0};
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        double bytes_s = (double)world->nodes[i].sent_bytes * 1000 / IDLE_MS;
        idle.bytes_s += bytes_s / world->options.nodes;
        idle.messages_s += (double)world->nodes[i].sent_messages * 1000 / IDLE_MS / world->options.nodes;
        idle.bytes_s_most = bytes_s > idle.bytes_s_most ? bytes_s : idle.bytes_s_most;
    }
    return idle;
}

static uint32_t any_node(struct scale_world *world)
{
    return (uint32_t)random_below(&world->random, world->options.nodes);
}

static bool within_limits(const struct scale_options *options, const struct samples *change, const struct idle *idle)
{
    uint64_t limit_ms = options->nodes <= LIMIT_NEAR_NODES ? LIMIT_NEAR_MS : LIMIT_FAR_MS;
    bool is_fast = change->missed == 0 && change->values[change->count - 1] < limit_ms;
    if (change->missed > 0) {
        fprintf(stderr, "%u of %u changes did not reach all of %u nodes within %d ms; the limit is %llu ms.\n", change->missed,
                change->count + change->missed, options->nodes, PATIENCE_MS, (unsigned long long)limit_ms);
    } else if (!is_fast) {
        fprintf(stderr, "A change reached all of %u nodes after %llu ms; the limit is %llu ms.\n", options->nodes,
                (unsigned long long)change->values[change->count - 1], (unsigned long long)limit_ms);
    }
    bool is_quiet = idle->bytes_s_most < LIMIT_IDLE_BYTES_S;
    if (!is_quiet) {
        fprintf(stderr, "An idle node of %u sends %.0f bytes a second; the limit is %d.\n", options->nodes, idle->bytes_s_most,
                LIMIT_IDLE_BYTES_S);
    }
    return is_fast && is_quiet;
}

static bool run(const struct scale_options *options, double minutes, uint32_t changes, uint32_t deaths, bool has_limits)
{
    static struct samples change, first, all;
    struct timespec begin, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    struct scale_world *world = scale_new(options);
    bool was_alive = scale_run_until_alive(world, 30000);
    uint64_t warm_ms = world->now_ms;
    scale_run(world, SETTLE_MS);
    scale_observe(world);
    uint64_t calm_from_ms = world->now_ms;
    struct idle idle = run_idle(world);
    uint64_t relays = 0, relays_most = 0;
    for (uint32_t i = 0; i < changes; i++) {
        uint64_t ms = scale_change(world, any_node(world), PATIENCE_MS);
        if (ms == UINT64_MAX) {
            change.missed++;
        } else {
            sample_add(&change, ms);
        }
        scale_run(world, 3000); /* the last relays */
        for (uint32_t j = 0; j < options->nodes; j++) {
            relays += world->nodes[j].sent_records;
            relays_most = world->nodes[j].sent_records > relays_most ? world->nodes[j].sent_records : relays_most;
        }
    }
    scale_run(world, (uint64_t)(minutes * 60000));
    double node_hours = (double)(world->now_ms - calm_from_ms) * options->nodes / 3600000;
    uint64_t false_deaths = world->false_deaths, false_observers = world->false_observers, suspicions = world->suspicions;
    size_t memory = 0;
    for (uint32_t i = 0; i < options->nodes; i++) {
        size_t used = world->nodes[i].core->arena.fresh_bytes;
        memory = used > memory ? used : memory;
    }
    for (uint32_t i = 0; i < deaths; i++) {
        uint64_t first_ms, all_ms;
        uint32_t victim = any_node(world);
        if (scale_death(world, victim, PATIENCE_MS, &first_ms, &all_ms)) {
            sample_add(&first, first_ms);
            sample_add(&all, all_ms);
        } else {
            all.missed++;
        }
        scale_run(world, 5000);
        scale_revive(world, victim);
        (void)scale_run_until_alive(world, 60000);
        scale_run(world, 5000);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    bool limits_hold = !has_limits || within_limits(options, &change, &idle);
    printf("{\"nodes\": %u, \"model\": \"%s\", \"loss_percent\": %.1f, \"minutes\": %.2f, \"seed\": %llu, \"warm_ms\": %llu",
           options->nodes, options->model == SCALE_STREAM ? "stream" : "datagram", options->loss_permille / 10.0, minutes,
           (unsigned long long)options->seed, (unsigned long long)warm_ms);
    printf(", \"idle_bytes_s\": %.1f, \"idle_bytes_s_most\": %.1f, \"idle_messages_s\": %.2f", idle.bytes_s,
           idle.bytes_s_most, idle.messages_s);
    print_samples("change_ms", &change);
    printf(", \"relays_mean\": %.2f, \"relays_most\": %llu",
           changes == 0 ? 0 : (double)relays / options->nodes / changes, (unsigned long long)relays_most);
    print_samples("first_ms", &first);
    print_samples("all_ms", &all);
    printf(", \"node_hours\": %.1f, \"false_deaths\": %llu, \"false_declarations\": %llu, \"suspicions\": %llu", node_hours,
           (unsigned long long)false_deaths, (unsigned long long)false_observers, (unsigned long long)suspicions);
    printf(", \"limits_hold\": %s", !has_limits ? "null" : limits_hold ? "true" : "false");
    printf(", \"memory_bytes\": %zu, \"steps\": %llu, \"took_s\": %.1f}\n", memory, (unsigned long long)world->steps,
           (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    scale_free(world);
    bool is_good = (was_alive || options->loss_permille > 100) && change.missed == 0 && all.missed == 0 && false_deaths == 0;
    return is_good && limits_hold;
}

static const char purpose[] =
    "What a mesh of whole node cores costs and how fast it is, in a simulated network: idle for half a minute, then changes,\n"
    "then minutes in which nobody dies, then hosts that fall silent. One line of JSON; exits 1 if a change did not reach all,\n"
    "a death was not found, somebody who lived was declared dead before that, or not all were alive after half a minute.\n";

int main(int argc, char **argv)
{
    static const char *const models[] = {"datagram", "stream", NULL};
    struct scale_options options = {.seed = 1};
    uint64_t nodes = 64, slots = 1, changes = 20, deaths = 5;
    double minutes = 1, loss_percent = 0;
    const char *model = "datagram";
    bool has_limits = false;
    const struct command_line_option rows[] = {
        {.name = "--nodes", .value = "N", .help = "else 64", .number = &nodes, .min = 2, .max = SCALE_NODES_MAX},
        {.name = "--minutes", .value = "M", .help = "in which nobody dies; else 1", .real = &minutes, .max = 60000},
        {.name = "--loss", .value = "PERCENT", .help = "of packets, all the time; else 0", .real = &loss_percent, .max = 90},
        {.name = "--model", .value = "NAME", .help = "of the network; else datagram", .text = &model, .words = models},
        {.name = "--slots", .value = "S", .help = "of each node; else 1", .number = &slots, .max = FACT_SLOTS_MAX},
        {.name = "--changes", .value = "C", .help = "one after the other; else 20", .number = &changes, .max = SAMPLES_MAX},
        {.name = "--deaths", .value = "D", .help = "one after the other, each host comes back; else 5", .number = &deaths, .max = SAMPLES_MAX},
        {.name = "--seed", .value = "S", .help = "else 1", .number = &options.seed},
        {.name = "--limits", .help = "exit 1, too, if a change takes 0.5 s (of more than 64 nodes 2 s), or an idle node sends 2 kB/s, "
                                            "TCP's keepalives not counted",
         .given = &has_limits},
    };
    const struct command_line line = {purpose, rows, sizeof rows / sizeof rows[0]};
    int status = command_line_read(&line, argc, argv, stdout, stderr);
    if (status != COMMAND_LINE_GO_ON) {
        return status;
    }
    if (has_limits && changes == 0) {
        fputs("scale: --limits is about changes, and --changes 0 makes none; give 1 at least, or leave --limits out.\n", stderr);
        return COMMAND_LINE_REFUSED;
    }
    options.nodes = (uint32_t)nodes;
    options.slots = (uint32_t)slots;
    options.loss_permille = (uint32_t)(loss_percent * 10);
    options.model = strcmp(model, "stream") == 0 ? SCALE_STREAM : SCALE_DATAGRAM;
    return run(&options, minutes, (uint32_t)changes, (uint32_t)deaths, has_limits) ? 0 : 1;
}
