/* The simulator's command line.
 *
 *     sim [--seeds N] [--first S] [--jobs J] [--minutes M]    run N seeds; exit 1 at the first that fails
 *     sim ... --keep-going                                    run all of them, one line for each that fails
 *     sim --seed S [--verbose] [--bug NAME]                   run one, with its trace
 *     sim --bugs [--seeds N]                                  every deliberately broken rule must be found within N
 *
 * The same seed gives the same run, on every machine; one seed in a hundred is run twice to see that it does. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/sim/checkers.h"
#include "tests/sim/world.h"

#define JOBS_MAX 64
#define PREMISES_NEED_SEEDS 500 /* fewer need not meet every premise */
#define BUG_SEEDS 400

struct options {
    uint64_t seeds, first, minutes;
    uint32_t jobs, bugs;
    bool one, verbose, all_bugs, keeps_going;
};

/* Shared by the processes of a run. */
struct shared {
    volatile bool failed;
    uint64_t done[JOBS_MAX], events[JOBS_MAX];
    uint64_t premises[JOBS_MAX][PREMISE_COUNT];
};

static const struct {
    const char *name;
    uint32_t bit;
} bugs[] = {
    {"token_after_restart", NODE_BUG_TOKEN_AFTER_RESTART},
    {"equal_term", NODE_BUG_EQUAL_TERM},
    {"gap_never_pulled", NODE_BUG_GAP_NEVER_PULLED},
};
#define BUG_COUNT (sizeof bugs / sizeof bugs[0])

static char current_text[64];

/* A CHECK of the core has failed: say in which seed. */
static void on_abort(int number)
{
    ssize_t written = write(STDOUT_FILENO, current_text, strlen(current_text));
    (void)written;
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void note_seed(uint64_t seed)
{
    (void)snprintf(current_text, sizeof current_text, "in seed %llu\n", (unsigned long long)seed);
}

static void print_failure(const struct sim_run *run, const struct sim_result *result)
{
    printf("seed %llu breaks invariant %d: %s\n    %s\n", (unsigned long long)run->seed, result->invariant,
           checkers_invariant_text(result->invariant), result->failure);
}

/* Runs the failed seed once more, to see its end. */
static void show_failure(struct sim_memory *memory, struct sim_run run, const struct sim_result *failed)
{
    struct sim_result again;
    run.tracing = true;
    run.premises = NULL;
    sim_run(memory, &run, &again);
    print_failure(&run, failed);
    if (!again.failed || strcmp(again.failure, failed->failure) != 0) {
        printf("and does not fail in the same way when run again: nothing here may depend on anything but the seed\n");
    }
    printf("see it all: sim --seed %llu --verbose\n", (unsigned long long)run.seed);
    (void)fflush(stdout);
}

static bool run_seed(struct sim_memory *memory, struct sim_run run, struct sim_result *result)
{
    note_seed(run.seed);
    sim_run(memory, &run, result);
    if (!result->failed && run.seed % 100 == 0) {
        struct sim_result again;
        run.premises = NULL;
        sim_run(memory, &run, &again);
        if (again.digest != result->digest || again.events != result->events) {
            result->failed = true;
            result->invariant = 15;
            (void)snprintf(result->failure, sizeof result->failure, "run twice, the traces differ");
        }
    }
    return !result->failed;
}

static int run_job(const struct options *options, uint32_t job, struct shared *shared)
{
    struct sim_memory *memory = sim_memory_new();
    int status = 0;
    for (uint64_t i = job; i < options->seeds && !shared->failed; i += options->jobs) {
        struct sim_run run = {.seed = options->first + i,
                              .bugs = options->bugs,
                              .minutes = options->minutes,
                              .premises = shared->premises[job]};
        struct sim_result result;
        if (!run_seed(memory, run, &result)) {
            status = 1;
            if (options->keeps_going) {
                print_failure(&run, &result);
                (void)fflush(stdout);
            } else {
                shared->failed = true;
                show_failure(memory, run, &result);
            }
        }
        shared->done[job]++;
        shared->events[job] += result.events;
    }
    sim_memory_destroy(&memory);
    return status;
}

static int check_premises(const struct options *options, const struct shared *shared)
{
    int missing = 0;
    for (int i = 0; i < PREMISE_COUNT; i++) {
        uint64_t count = 0;
        for (uint32_t job = 0; job < options->jobs; job++) {
            count += shared->premises[job][i];
        }
        printf("%12llu  %s\n", (unsigned long long)count, checkers_premise_names[i]);
        missing += count == 0;
    }
    if (missing > 0 && options->seeds >= PREMISES_NEED_SEEDS) {
        printf("%d premises never occurred: their checkers have shown nothing\n", missing);
        return 1;
    }
    return 0;
}

static int run_many(const struct options *options)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    struct timespec began, ended;
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    int status = 0;
    for (uint32_t job = 0; job < options->jobs; job++) {
        (void)fflush(stdout);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int failed = run_job(options, job, shared);
            (void)fflush(stdout);
            _exit(failed);
        }
    }
    for (uint32_t job = 0; job < options->jobs; job++) {
        int ended_with;
        CHECK(wait(&ended_with) > 0);
        if (ended_with != 0) {
            status = 1;
            shared->failed = !options->keeps_going;
        }
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ended);
    uint64_t done = 0, events = 0;
    for (uint32_t job = 0; job < options->jobs; job++) {
        done += shared->done[job];
        events += shared->events[job];
    }
    if (status == 0) {
        status = check_premises(options, shared);
    }
    double seconds = (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
    printf("%llu of %llu seeds, %llu events, %.1f s: %s\n", (unsigned long long)done, (unsigned long long)options->seeds,
           (unsigned long long)events, seconds, status == 0 ? "all invariants hold" : "FAILED");
    (void)munmap(shared, sizeof *shared);
    return status;
}

static int run_one(const struct options *options)
{
    struct sim_memory *memory = sim_memory_new();
    struct sim_run run = {.seed = options->first,
                          .bugs = options->bugs,
                          .minutes = options->minutes,
                          .tracing = true,
                          .verbose = options->verbose};
    struct sim_result result;
    note_seed(run.seed);
    sim_run(memory, &run, &result);
    if (result.failed) {
        print_failure(&run, &result);
    } else {
        printf("seed %llu holds: %llu events, %llu steps, trace %016llx\n", (unsigned long long)run.seed,
               (unsigned long long)result.events, (unsigned long long)result.steps, (unsigned long long)result.digest);
    }
    sim_memory_destroy(&memory);
    return result.failed;
}

static int run_bugs(const struct options *options)
{
    struct sim_memory *memory = sim_memory_new();
    int missed = 0;
    for (size_t bug = 0; bug < BUG_COUNT; bug++) {
        struct sim_result result = {0};
        uint64_t i = 0;
        for (; i < options->seeds && !result.failed; i++) {
            struct sim_run run = {.seed = options->first + i, .bugs = bugs[bug].bit, .minutes = options->minutes};
            (void)run_seed(memory, run, &result);
        }
        if (result.failed) {
            printf("%s: found by seed %llu, the %llu. tried: invariant %d, %s\n", bugs[bug].name,
                   (unsigned long long)(options->first + i - 1), (unsigned long long)i, result.invariant,
                   result.failure);
        } else {
            printf("%s: NOT FOUND in %llu seeds\n", bugs[bug].name, (unsigned long long)options->seeds);
            missed++;
        }
        (void)fflush(stdout);
    }
    sim_memory_destroy(&memory);
    return missed > 0;
}

static uint32_t bug_of(const char *name)
{
    for (size_t i = 0; i < BUG_COUNT; i++) {
        if (strcmp(name, bugs[i].name) == 0) {
            return bugs[i].bit;
        }
    }
    fprintf(stderr, "sim: no bug is called '%s'; there are token_after_restart, equal_term, gap_never_pulled\n", name);
    exit(2);
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.seeds = 0, .first = 1, .minutes = 10, .jobs = 2};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--verbose") == 0) {
            options.verbose = true;
            continue;
        }
        if (strcmp(name, "--keep-going") == 0) {
            options.keeps_going = true;
            continue;
        }
        if (strcmp(name, "--bugs") == 0) {
            options.all_bugs = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : "";
        uint64_t number = strtoull(value, NULL, 10);
        if (strcmp(name, "--seeds") == 0 && number > 0) {
            options.seeds = number;
        } else if (strcmp(name, "--first") == 0) {
            options.first = number;
        } else if (strcmp(name, "--seed") == 0) {
            options.first = number;
            options.one = true;
        } else if (strcmp(name, "--jobs") == 0 && number > 0 && number <= JOBS_MAX) {
            options.jobs = (uint32_t)number;
        } else if (strcmp(name, "--minutes") == 0 && number > 0) {
            options.minutes = number;
        } else if (strcmp(name, "--bug") == 0) {
            options.bugs |= bug_of(value);
        } else {
            fprintf(stderr, "sim: cannot use '%s %s'; see the top of tests/sim/sim.c\n", name, value);
            exit(2);
        }
    }
    if (options.seeds == 0) {
        options.seeds = options.all_bugs ? BUG_SEEDS : 100;
    }
    return options;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    (void)signal(SIGABRT, on_abort);
    (void)signal(SIGSEGV, on_abort);
#ifndef SHOAL_BUGS
    if (options.all_bugs || options.bugs != 0) {
        fprintf(stderr, "sim: this one is built without the deliberate bugs; use sim_bugs\n");
        return 2;
    }
#endif
    if (options.all_bugs) {
        return run_bugs(&options);
    }
    return options.one ? run_one(&options) : run_many(&options);
}
