#include "tests/sim/hunt.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "tests/sim/probes.h"
#include "tests/sim/world.h"

#define RANGE_SEEDS 1000000 /* from one range's first seed to the next one's */

struct hunt {
    volatile uint64_t tried;
    volatile bool found;
    struct sim_run run; /* in which it was found */
    int invariant;
    char failure[SIM_TEXT_BYTES];
    struct sim_run other; /* the last one that failed with no rule broken, too, if any */
    bool has_other;
};

/* Of plans of the newest version and of version 6 in turns: where more classes strike at once, some rules are met more rarely. */
static struct sim_run nth_run(const struct hunt_options *options, uint32_t range, uint64_t nth)
{
    bool in_turns = options->plan_version == 0;
    return (struct sim_run){.seed = options->first + range * RANGE_SEEDS + (in_turns ? nth / 2 : nth),
                            .plan_version = in_turns ? nth % 2 == 0 ? PLAN_VERSION : 6 : options->plan_version,
                            .minutes = options->minutes};
}

static bool runs_well(struct sim_memory *memory, struct sim_run run, struct sim_result *result)
{
    sim_run(memory, &run, result);
    return !result->failed;
}

/* It fails with no rule broken, too: so what was found is no work of that rule. */
static bool fails_without(struct sim_memory *memory, struct sim_run run, int bug)
{
    struct sim_result result;
    probes_break(-1);
    bool fails = !runs_well(memory, run, &result);
    probes_break(bug);
    return fails;
}

/* A CHECK of the core, or what it does not survive; not a kill from without. */
static bool stopped_by_core(int status)
{
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS ||
                                   WTERMSIG(status) == SIGFPE);
}

/* The same in a process of its own, for a run that the core itself stopped: its end with no rule broken may be the same. */
static bool fails_without_in_child(struct sim_run run)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct sim_memory *memory = sim_memory_new();
        (void)signal(SIGABRT, SIG_DFL);
        (void)signal(SIGSEGV, SIG_DFL);
        _exit(fails_without(memory, run, -1));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) != 0 : stopped_by_core(status);
}

/* In a process of its own: a broken rule may also end in a CHECK of the core, which counts as found. */
static void hunt(const struct hunt_options *options, uint32_t bug, uint32_t range, struct hunt *out)
{
    struct sim_memory *memory = sim_memory_new();
    probes_break((int)bug);
    (void)signal(SIGABRT, SIG_DFL);
    (void)signal(SIGSEGV, SIG_DFL);
    if (freopen("/dev/null", "w", stderr) == NULL) {
        _exit(1);
    }
    for (uint64_t i = 0; i < options->seeds && !out->found; i++) {
        struct sim_run run = nth_run(options, range, i);
        struct sim_result result;
        out->tried = i + 1;
        out->run = run;
        if (runs_well(memory, run, &result)) {
            continue;
        }
        if (fails_without(memory, run, (int)bug)) {
            out->other = run;
            out->has_other = true;
        } else {
            out->invariant = result.invariant;
            memcpy(out->failure, result.failure, sizeof out->failure);
            out->found = true;
        }
    }
    _exit(0);
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static bool print_hunt(const struct hunt_options *options, uint32_t bug, const struct hunt *hunts)
{
    uint64_t tried[HUNT_RANGES_MAX];
    uint32_t found = 0;
    const struct hunt *one = NULL;
    for (uint32_t range = 0; range < options->ranges; range++) {
        tried[range] = hunts[range].tried;
        found += hunts[range].found;
        one = hunts[range].found ? &hunts[range] : one;
    }
    qsort(tried, options->ranges, sizeof tried[0], by_number);
    struct probes_bug broken = probes_bug(bug);
    printf("%2u %-24s %s\n", bug, broken.name, broken.rule);
    if (found < options->ranges) {
        printf("   NOT FOUND in %u of %u ranges of %llu seeds\n", options->ranges - found, options->ranges,
               (unsigned long long)options->seeds);
    } else {
        printf("   found in %llu seeds in the median, %llu at worst\n",
               (unsigned long long)tried[options->ranges / 2], (unsigned long long)tried[options->ranges - 1]);
    }
    if (one != NULL) {
        printf("   invariant %d: %s (seed %llu of version %u)\n", one->invariant, one->failure, (unsigned long long)one->run.seed,
               one->run.plan_version);
    }
    for (uint32_t range = 0; range < options->ranges; range++) {
        if (hunts[range].has_other) {
            printf("   NOT THIS RULE: seed %llu of version %u fails with no rule broken, too\n",
                   (unsigned long long)hunts[range].other.seed, hunts[range].other.plan_version);
        }
    }
    (void)fflush(stdout);
    return found == options->ranges;
}

/* What it takes to notice them is rare: of the first 76 rules these took the most seeds in some run, and most of the time. */
static bool is_rare_bug(uint32_t bug)
{
    static const char *const rare[] = {
        "becomes_too_soon", "boot_not_synced", "both_halves_go_on", "bracket_overfull",
        "collected_too_early", "copies_guessed", "custom_creations_lost", "evicted_goes_on", "gang_keeps",
        "gang_never_unwanted", "gang_of_the_failed", "idle_goes_on", "index_order",
        "let_go_unconfirmed", "loss_ends_attempt", "lower_goes_on", "parent_collected", "pause_of_every_attempt",
        "pause_undoes_cancel", "paused_for_ever", "quarantine_stays", "result_undone",
        "search_pause_unheeded", "silent_asked_again", "stale_word_taken", "values_mixed",
    };
    bool is_rare_one = false;
    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++) {
        is_rare_one |= strcmp(probes_bug(bug).name, rare[i]) == 0;
    }
    return is_rare_one;
}

/* What it takes to notice them hardly occurs in these worlds: they have stories of their own (tests/unit/core_outputs_test.c). */
static bool is_of_outputs(uint32_t bug)
{
    static const char *const names[] = {"begun_output_collected", "durable_output_replaced"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        is_one |= strcmp(probes_bug(bug).name, names[i]) == 0;
    }
    return is_one;
}

/* The rules to be broken, in order; returns how many they are. */
static uint32_t choose_bugs(const struct hunt_options *options, uint32_t *out)
{
    uint32_t count = 0;
    for (uint32_t bug = 0; bug < probes_bug_count(); bug++) {
        bool is_meant = options->bug < 0 ? !(options->leaves_rare && is_rare_bug(bug)) && !is_of_outputs(bug) : bug == (uint32_t)options->bug;
        if (is_meant) {
            out[count++] = bug;
        }
    }
    return count;
}

bool hunt_all(const struct hunt_options *options)
{
    uint32_t *chosen = calloc(probes_bug_count(), sizeof *chosen);
    CHECK(chosen != NULL);
    uint32_t bugs = choose_bugs(options, chosen);
    uint32_t hunt_count = bugs * options->ranges, started = 0, running = 0, printed = 0;
    struct hunt *hunts =
        mmap(NULL, hunt_count * sizeof *hunts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *children = calloc(hunt_count, sizeof *children);
    CHECK(hunts != MAP_FAILED && children != NULL);
    int missed = 0;
    while (printed < bugs) {
        while (started < hunt_count && running < options->jobs) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                hunt(options, chosen[started / options->ranges], started % options->ranges, &hunts[started]);
            }
            children[started++] = child;
            running++;
        }
        int status;
        pid_t ended = wait(&status);
        CHECK(ended > 0);
        running--;
        for (uint32_t i = 0; i < started; i++) {
            if (children[i] == ended) {
                children[i] = 0;
                if (hunts[i].found || !stopped_by_core(status)) {
                    continue;
                }
                if (fails_without_in_child(hunts[i].run)) {
                    hunts[i].other = hunts[i].run;
                    hunts[i].has_other = true;
                } else {
                    hunts[i].found = true;
                    bytes_copy_text(hunts[i].failure, sizeof hunts[i].failure, "the core itself saw it and stopped");
                }
            }
        }
        for (bool is_done = true; is_done && printed < bugs && (printed + 1) * options->ranges <= started;) {
            for (uint32_t range = 0; range < options->ranges; range++) {
                is_done &= children[printed * options->ranges + range] == 0;
            }
            if (is_done) {
                missed += !print_hunt(options, chosen[printed], hunts + printed * options->ranges);
                printed++;
            }
        }
    }
    uint32_t others = 0;
    for (uint32_t i = 0; i < hunt_count; i++) {
        others += hunts[i].has_other;
    }
    printf("%u rules broken on purpose, %d of them not found in %llu seeds", bugs, missed, (unsigned long long)options->seeds);
    if (others > 0) {
        printf("; seeds that fail with none broken, too, were met %u times", others);
    }
    printf("\n");
    free(children);
    free(chosen);
    (void)munmap(hunts, hunt_count * sizeof *hunts);
    return missed == 0 && others == 0;
}
