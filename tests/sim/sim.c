/* The simulator's command line, of sim and of sim_bugs: `sim --help`. */

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/sim/checkers.h"
#include "tests/sim/command_line.h"
#include "tests/sim/commit.h"
#include "tests/sim/hunt.h"
#include "tests/sim/premises.h"
#include "tests/sim/probes.h"
#include "tests/sim/world.h"

#define JOBS_MAX 64
#define LONG_SEEDS 20000 /* with --bugs and --marks, unless told */
#define STRIKES_NAMED 64 /* a bit each, in --skip */
#define MINUTES 10 /* of virtual time, unless told */
#define MINUTES_MAX 500 /* the busiest seeds have 17,000 events a minute, and world.c fails one that has 20,000,000 */
#define COMMAND_BYTES 320
#define COMMAND_WORDS_MAX 16
#define TEXT_OF(value) TEXT_OF_WORD(value)
#define TEXT_OF_WORD(word) #word

struct options {
    uint64_t seeds, first, minutes, seconds; /* seconds 0: without a limit */
    uint32_t jobs, ranges, plan_version;
    int bug; /* -1: none */
    uint64_t without, skipped;
    bool one, verbose, shrinks, all_bugs, leaves_rare, marks, keeps_going;
};

/* Shared by the processes of a run. */
struct shared {
    volatile bool failed;
    uint64_t done[JOBS_MAX], events[JOBS_MAX];
    uint64_t premises[JOBS_MAX][PREMISE_COUNT];
    uint64_t marks[JOBS_MAX][PROBES_MAX];
};

static const char *program = "sim"; /* as it was called */
static int broken_rule = -1;

/* "sim --plan 3 --seed 7 --verbose". With the version of plans also where it is the newest: that is another one some day. */
static void format_command(char *out, size_t size, const struct sim_run *run, const char *last)
{
    int used = snprintf(out, size, "%s --plan %u --seed %llu", program, run->plan_version != 0 ? run->plan_version : PLAN_DEFAULT,
                        (unsigned long long)run->seed);
    if (run->minutes != MINUTES) {
        used += snprintf(out + used, size - (size_t)used, " --minutes %llu", (unsigned long long)run->minutes);
    }
    if (run->without != 0 || run->skipped != 0) {
        used += snprintf(out + used, size - (size_t)used, " --without 0x%llx --skip 0x%llx", (unsigned long long)run->without,
                         (unsigned long long)run->skipped);
    }
    if (broken_rule >= 0) {
        used += snprintf(out + used, size - (size_t)used, " --bug %s", probes_bug((uint32_t)broken_rule).name);
    }
    (void)snprintf(out + used, size - (size_t)used, " %s", last);
}

static void format_commands(char *out, size_t size, const struct sim_run *run)
{
    char replay[COMMAND_BYTES], shrinks[COMMAND_BYTES];
    format_command(replay, sizeof replay, run, "--verbose");
    format_command(shrinks, sizeof shrinks, run, "--shrink");
    (void)snprintf(out, size, "built from commit %s\nsee it all: %s\nshrink it: %s\n", sim_commit, replay, shrinks);
}

/* The run under way, for whoever may neither format nor allocate: a signal's handler. */
static struct {
    const struct sim_memory *memory;
    bool is_traced;
    char head[64], commands[3 * COMMAND_BYTES];
    char again[COMMAND_BYTES]; /* the command that runs it with its trace, and its words */
    char *words[COMMAND_WORDS_MAX + 1];
} current;

static void note_run(const struct sim_memory *memory, const struct sim_run *run)
{
    current.memory = memory;
    current.is_traced = run->tracing;
    (void)snprintf(current.head, sizeof current.head, "in seed %llu, which the core itself stopped:\n", (unsigned long long)run->seed);
    format_commands(current.commands, sizeof current.commands, run);
    format_command(current.again, sizeof current.again, run, "");
    uint32_t count = 0;
    for (char *word = strtok(current.again, " "); word != NULL && count < COMMAND_WORDS_MAX; word = strtok(NULL, " ")) {
        current.words[count++] = word;
    }
    current.words[count] = NULL;
}

static void say(const char *text)
{
    ssize_t written = write(STDOUT_FILENO, text, strlen(text));
    (void)written;
}

/* A CHECK of the core has failed: says in which run, and how it ended. One without a trace runs once more for that, in a
 * process of its own. */
static void on_abort(int number)
{
    say(current.head);
    pid_t child = current.is_traced ? -1 : fork();
    if (child == 0) {
        sigset_t none;
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)execv("/proc/self/exe", current.words);
        _exit(127);
    }
    if (child > 0) {
        (void)waitpid(child, NULL, 0);
    } else {
        sim_write_events(current.memory, STDOUT_FILENO);
        say(current.head);
        say(current.commands);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void print_failure(const struct sim_run *run, const struct sim_result *result)
{
    char commands[3 * COMMAND_BYTES];
    format_commands(commands, sizeof commands, run);
    printf("seed %llu breaks invariant %d: %s\n    %s\n%s", (unsigned long long)run->seed, result->invariant,
           checkers_invariant_text(result->invariant), result->failure, commands);
}

/* The same in one line. */
static void print_failure_line(const struct sim_run *run, const struct sim_result *result)
{
    char replay[COMMAND_BYTES];
    format_command(replay, sizeof replay, run, "--verbose");
    printf("seed %llu breaks invariant %d: %s; commit %s: %s\n", (unsigned long long)run->seed, result->invariant, result->failure,
           sim_commit, replay);
}

/* Runs the failed seed once more, to see its end. */
static void show_failure(struct sim_memory *memory, struct sim_run run, const struct sim_result *failed)
{
    struct sim_result again;
    run.tracing = true;
    run.premises = NULL;
    note_run(memory, &run);
    sim_run(memory, &run, &again);
    if (!again.failed) {
        (void)fflush(stdout);
        sim_write_events(memory, STDOUT_FILENO);
    }
    print_failure(&run, failed);
    if (!again.failed || strcmp(again.failure, failed->failure) != 0) {
        printf("and does not fail in the same way when run again: nothing here may depend on anything but the seed\n");
    }
    (void)fflush(stdout);
}

static bool run_seed(struct sim_memory *memory, struct sim_run run, struct sim_result *result)
{
    note_run(memory, &run);
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

static double seconds_since(const struct timespec *began)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

static int run_job(const struct options *options, uint32_t job, const struct timespec *began, struct shared *shared)
{
    struct sim_memory *memory = sim_memory_new();
    int status = 0;
    for (uint64_t i = job; i < options->seeds && !shared->failed; i += options->jobs) {
        if (options->seconds > 0 && seconds_since(began) >= (double)options->seconds) {
            break;
        }
        struct sim_run run = {.seed = options->first + i,
                              .plan_version = options->plan_version,
                              .minutes = options->minutes,
                              .premises = shared->premises[job]};
        struct sim_result result;
        if (!run_seed(memory, run, &result)) {
            status = 1;
            if (options->keeps_going) {
                print_failure_line(&run, &result);
                (void)fflush(stdout);
            } else {
                shared->failed = true;
                show_failure(memory, run, &result);
            }
        }
        shared->done[job]++;
        shared->events[job] += result.events;
    }
    for (uint32_t i = 0; i < probes_mark_count(); i++) {
        shared->marks[job][i] = probes_mark_passed(i);
    }
    sim_memory_destroy(&memory);
    return status;
}

static int check_marks(const struct options *options, const struct shared *shared)
{
    int missing = 0;
    for (uint32_t i = 0; i < probes_mark_count(); i++) {
        uint64_t count = 0;
        for (uint32_t job = 0; job < options->jobs; job++) {
            count += shared->marks[job][i];
        }
        printf("%12llu  %s\n", (unsigned long long)count, probes_mark_name(i));
        missing += count == 0;
    }
    if (missing > 0) {
        printf("%d of %u marks never passed: what they stand for is not tested\n", missing, probes_mark_count());
    }
    return missing > 0;
}

static bool check_premises(const struct options *options, const struct shared *shared, uint64_t done)
{
    uint64_t counts[PREMISE_COUNT] = {0};
    for (int i = 0; i < PREMISE_COUNT; i++) {
        for (uint32_t job = 0; job < options->jobs; job++) {
            counts[i] += shared->premises[job][i];
        }
    }
    return premises_suffice(counts, done, options->plan_version == 0 ? PLAN_DEFAULT : options->plan_version, stdout);
}

static int run_many(const struct options *options)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    struct timespec began;
    (void)clock_gettime(CLOCK_MONOTONIC, &began);
    int status = 0;
    for (uint32_t job = 0; job < options->jobs; job++) {
        (void)fflush(stdout);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int failed = run_job(options, job, &began, shared);
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
    uint64_t done = 0, events = 0;
    for (uint32_t job = 0; job < options->jobs; job++) {
        done += shared->done[job];
        events += shared->events[job];
    }
    if (!shared->failed) {
        status |= !check_premises(options, shared, done);
        status |= options->marks ? check_marks(options, shared) : 0;
    }
    printf("%llu of %llu seeds, %llu events, %.1f s: %s\n", (unsigned long long)done, (unsigned long long)options->seeds,
           (unsigned long long)events, seconds_since(&began), status == 0 ? "all invariants hold" : "FAILED");
    (void)munmap(shared, sizeof *shared);
    return status;
}

/* Leaves out this class of faults, or this strike (from FAULT_COUNT on), if the same invariant breaks without it. */
static bool drop(struct sim_memory *memory, struct sim_run *run, struct sim_result *result, uint32_t part)
{
    struct sim_run less = *run;
    if (part < FAULT_COUNT) {
        less.without |= (result->classes >> part & 1) << part;
    } else if (part - FAULT_COUNT < result->strikes) {
        less.skipped |= UINT64_C(1) << (part - FAULT_COUNT);
    }
    if (less.without == run->without && less.skipped == run->skipped) {
        return false;
    }
    struct sim_result tried;
    note_run(memory, &less);
    sim_run(memory, &less, &tried);
    if (!tried.failed || tried.invariant != result->invariant) {
        return false;
    }
    *run = less;
    *result = tried;
    return true;
}

static void print_left(const struct sim_run *run, const struct sim_result *result)
{
    printf("what is left:");
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        if ((result->classes >> fault & 1) != 0) {
            printf(" %s;", plan_fault_name((enum plan_fault)fault));
        }
    }
    char replay[COMMAND_BYTES];
    format_command(replay, sizeof replay, run, "--verbose");
    printf(" %u strikes, less those left out\n%s\n", result->strikes, replay);
}

/* Leaves out classes of faults and single ones of the first STRIKES_NAMED strikes, again and again, until nothing more can be;
 * and says what is left. */
static int shrink(const struct options *options)
{
    struct sim_memory *memory = sim_memory_new();
    struct sim_run run = {.seed = options->first,
                          .plan_version = options->plan_version,
                          .minutes = options->minutes,
                          .without = options->without,
                          .skipped = options->skipped};
    struct sim_result result;
    note_run(memory, &run);
    sim_run(memory, &run, &result);
    if (!result.failed) {
        printf("seed %llu holds: there is nothing to shrink\n", (unsigned long long)run.seed);
        sim_memory_destroy(&memory);
        return 0;
    }
    for (bool is_smaller = true; is_smaller;) {
        is_smaller = false;
        for (uint32_t part = 0; part < FAULT_COUNT + STRIKES_NAMED; part++) {
            is_smaller |= drop(memory, &run, &result, part);
        }
    }
    show_failure(memory, run, &result);
    print_left(&run, &result);
    sim_memory_destroy(&memory);
    return 1;
}

static int run_one(const struct options *options)
{
    struct sim_memory *memory = sim_memory_new();
    struct sim_run run = {.seed = options->first,
                          .plan_version = options->plan_version,
                          .minutes = options->minutes,
                          .without = options->without,
                          .skipped = options->skipped,
                          .tracing = true,
                          .verbose = options->verbose};
    struct sim_result result;
    note_run(memory, &run);
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

/* ---- what it was told ------------------------------------------------------------------------------------------------- */

/* Says in one sentence what cannot be used, and ends. */
__attribute__((format(printf, 1, 2), noreturn)) static void refuse(const char *format, ...)
{
    const char *slash = strrchr(program, '/');
    fprintf(stderr, "%s: ", slash != NULL ? slash + 1 : program);
    va_list values;
    va_start(values, format);
    (void)vfprintf(stderr, format, values);
    va_end(values);
    fputs("\n", stderr);
    exit(2);
}

static int bug_of(const char *name)
{
    int bug = probes_bug_find(name);
    if (bug < 0) {
        refuse("no rule that can be broken is called '%.80s'; sim_bugs --list names them.", name);
    }
    return bug;
}

/* Those whose values do not tell. */
struct given {
    bool seeds, first, jobs, seconds, ranges, without, skip, bug, lists;
};

/* What would do nothing beside another option is refused: who gave it believes that it did something. */
static void check_together(const struct options *options, const struct given *given, bool has_others)
{
    const struct {
        bool is_wrong;
        const char *text;
    } rules[] = {
        {probes_bug_count() == 0 && (given->lists || given->bug || options->all_bugs || options->marks),
         "this one runs the cores as they ship, without bugs and marks; use sim_bugs."},
        {given->lists && has_others, "--list names the rules and runs nothing; give it alone."},
        {options->one && (options->all_bugs || options->marks),
         "--bugs and --marks are about many seeds; give --first and --seeds instead of --seed."},
        {options->one && (given->seeds || given->first || given->jobs || given->seconds || options->keeps_going),
         "--first, --seeds, --jobs, --seconds and --keep-going are about many seeds; leave them out, or --seed."},
        {!options->one && (options->verbose || options->shrinks || given->without || given->skip),
         "--verbose, --shrink, --without and --skip are about one seed; give it with --seed."},
        {options->verbose && options->shrinks, "--verbose and --shrink are two runs; give one of them."},
        {options->all_bugs && options->marks, "--bugs and --marks are two runs; give one of them."},
        {options->all_bugs && (given->seconds || options->keeps_going),
         "--bugs runs until each rule is found; leave --seconds and --keep-going out."},
        {!options->all_bugs && (given->ranges || options->leaves_rare),
         "--ranges and --without-rare are about the rules that --bugs breaks; give --bugs, too."},
        {given->bug && options->leaves_rare, "--bug names the only rule to break; leave --without-rare out."},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].is_wrong) {
            refuse("%s", rules[i].text);
        }
    }
}

static int list_bugs(void)
{
    for (uint32_t i = 0; i < probes_bug_count(); i++) {
        printf("%2u %-24s %s\n", i, probes_bug(i).name, probes_bug(i).rule);
    }
    return 0;
}

static const char purpose[] =
    "Runs whole node cores in a simulated world of networks, disks, workers, users and faults, one world for each seed, and\n"
    "exits 1 at the first seed whose run breaks an invariant. The same seed gives the same run on every machine; to check\n"
    "that, one seed in a hundred is run twice.\n\n"
    "  sim --seeds 2000            runs many seeds\n"
    "  sim --seed 7 --verbose      runs one seed and prints the trace; with --shrink, prints the faults that still fail\n"
    "  sim_bugs --bugs             breaks one rule after another: the checks must find each broken rule within the seeds\n"
    "  sim_bugs --marks            counts how often the seeds pass each mark, and fails if a mark is never passed\n";

static struct options parse(int argc, char **argv)
{
    struct options options = {.first = 1, .minutes = MINUTES, .bug = -1};
    uint64_t one = 0, jobs = 2, ranges = 1, plan_version = 0;
    const char *bug = NULL;
    struct given given = {0};
    const struct command_line_option rows[] = {
        {.name = "--seeds", .value = "N", .help = "number of seeds; else 100, 20000 with --bugs and --marks",
         .number = &options.seeds, .given = &given.seeds, .min = 1},
        {.name = "--first", .value = "S", .help = "the first seed; else 1", .number = &options.first,
         .given = &given.first},
        {.name = "--jobs", .value = "J", .help = "processes; else 2", .number = &jobs, .given = &given.jobs, .min = 1, .max = JOBS_MAX},
        {.name = "--minutes", .value = "M", .help = "virtual minutes of each run; else " TEXT_OF(MINUTES),
         .number = &options.minutes, .min = 1, .max = MINUTES_MAX},
        {.name = "--seconds", .value = "T", .help = "begin no more seeds after T seconds", .number = &options.seconds,
         .given = &given.seconds, .min = 1},
        {.name = "--keep-going", .help = "go on after a failure; one line for each failing seed", .given = &options.keeps_going},
        {.name = "--plan", .value = "V",
         .help = "version of the rules that make a world from a seed (plan.h); else " TEXT_OF(PLAN_DEFAULT),
         .number = &plan_version, .min = 1, .max = PLAN_VERSION},
        {.name = "--seed", .value = "S", .help = "run only this seed", .number = &one, .given = &options.one},
        {.name = "--verbose", .help = "with --seed: print the trace", .given = &options.verbose},
        {.name = "--shrink", .help = "with --seed: leave out faults while the run still fails, and print the rest",
         .given = &options.shrinks},
        {.name = "--without", .value = "BITS", .help = "with --seed: without these classes of faults", .number = &options.without,
         .given = &given.without},
        {.name = "--skip", .value = "BITS", .help = "with --seed: without these of the first 64 faults",
         .number = &options.skipped,
         .given = &given.skip},
        {.name = "--bug", .value = "NAME", .help = "sim_bugs: run with this rule broken", .text = &bug, .given = &given.bug},
        {.name = "--bugs",
         .help = "sim_bugs: for each rule (with --bug NAME: for that rule), run seeds with the rule broken until a check fails",
         .given = &options.all_bugs},
        {.name = "--without-rare", .help = "with --bugs: leave out the rules that seeds rarely find",
         .given = &options.leaves_rare},
        {.name = "--ranges", .value = "R", .help = "with --bugs: search in each of R ranges of seeds; else 1", .number = &ranges,
         .given = &given.ranges, .min = 1, .max = HUNT_RANGES_MAX},
        {.name = "--list", .help = "sim_bugs: list the rules that can be broken", .given = &given.lists},
        {.name = "--marks", .help = "sim_bugs: count the marks", .given = &options.marks},
    };
    const struct command_line line = {purpose, rows, sizeof rows / sizeof rows[0]};
    int status = command_line_read(&line, argc, argv, stdout, stderr);
    if (status != COMMAND_LINE_GO_ON) {
        exit(status);
    }
    check_together(&options, &given, argc > 2);
    if (given.lists) {
        exit(list_bugs());
    }
    options.first = options.one ? one : options.first;
    options.jobs = (uint32_t)jobs;
    options.ranges = (uint32_t)ranges;
    options.plan_version = (uint32_t)plan_version;
    options.bug = bug != NULL ? bug_of(bug) : -1;
    if (options.seeds == 0) {
        options.seeds = options.all_bugs || options.marks ? LONG_SEEDS : 100;
    }
    return options;
}

int main(int argc, char **argv)
{
    program = argv[0];
    struct options options = parse(argc, argv);
    broken_rule = options.bug;
    (void)signal(SIGABRT, on_abort);
    (void)signal(SIGSEGV, on_abort);
    probes_break(options.bug);
    if (options.all_bugs) {
        const struct hunt_options hunts = {.first = options.first,
                                           .seeds = options.seeds,
                                           .minutes = options.minutes,
                                           .ranges = options.ranges,
                                           .jobs = options.jobs,
                                           .plan_version = options.plan_version,
                                           .bug = options.bug,
                                           .leaves_rare = options.leaves_rare};
        return hunt_all(&hunts) ? 0 : 1;
    }
    if (options.one && options.shrinks) {
        return shrink(&options);
    }
    return options.one ? run_one(&options) : run_many(&options);
}
