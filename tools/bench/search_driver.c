/* Shoal's searchers without a mesh, for tools/bench/search-quality: which trial begins, with which values, and whether a trial goes on
 * after a report. The values, brackets, rungs, decisions and TPE are train/search's; what a coordinator keeps in records is kept
 * in memory here (node/core/coordinator/search.c).
 *
 * usage: bench_search SEARCHER SAMPLER MAX_TRIALS RUNGS DIVISOR MAX_TIME CONCURRENT SEED PARAMETER...
 *   SEARCHER random, asha, adaptive_asha; SAMPLER random, sobol, tpe; PARAMETER int:LOW:HIGH, double:LOW:HIGH. The smallest metric is
 *   the best. A line from standard input has one answer:
 *   begin                      TRIAL VALUE..., or "none": no trial may begin now
 *   report TRIAL TIME METRIC   "on", "stop", or "top": the trial has reached MAX_TIME */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pack.h"
#include "train/search/asha.h"
#include "train/search/tpe.h"

#define DIMENSIONS_MAX 16
#define LINE_BYTES 256

struct trial {
    uint32_t bracket, rung;
    bool has_begun;
    struct tpe_observation seen;
    double point[DIMENSIONS_MAX];
};

struct entry {
    uint32_t bracket, rung;
    double metric;
};

static struct {
    enum search_kind kind;
    bool is_tpe, is_sobol;
    uint64_t seed;
    struct search_halving halving;
    struct search_brackets brackets;
    uint32_t under_way[SEARCH_BRACKETS_MAX], begun;
    uint32_t dimensions;
    uint8_t bytes[8192];
    struct search_space space;
    struct trial *trials; /* max_trials */
    struct entry *entries; /* max_trials * rungs */
    uint32_t entry_count;
    struct tpe_observation *observations; /* max_trials */
    void *room;
    size_t room_bytes;
} s;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "bench_search: %s\n", what);
    exit(2);
}

static void *room_of(size_t count, size_t bytes)
{
    void *room = calloc(count > 0 ? count : 1, bytes);
    if (room == NULL) {
        die("no memory");
    }
    return room;
}

static struct search_parameter parameter_of(const char *text, int number)
{
    struct search_parameter parameter = {.kind = text[0] == 'i' ? SEARCH_INT : SEARCH_DOUBLE};
    const char *low = strchr(text, ':'), *high = low != NULL ? strchr(low + 1, ':') : NULL;
    if (high == NULL) {
        die("a parameter is int:LOW:HIGH or double:LOW:HIGH");
    }
    parameter.minval = strtod(low + 1, NULL);
    parameter.maxval = strtod(high + 1, NULL);
    (void)snprintf(parameter.name, sizeof parameter.name, "x%d", number);
    return parameter;
}

static void make_space(char **words, int count)
{
    const struct search_head head = {.sampler = s.is_sobol ? SEARCH_SAMPLER_SOBOL : SEARCH_SAMPLER_RANDOM};
    struct pack_writer writer;
    if (count < 1 || count > DIMENSIONS_MAX) {
        die("1 to 16 parameters are possible");
    }
    pack_writer_init(&writer, s.bytes, sizeof s.bytes);
    search_head_pack(&writer, &head, (uint32_t)count);
    for (int i = 0; i < count; i++) {
        struct search_parameter parameter = parameter_of(words[i], i);
        search_parameter_pack(&writer, &parameter);
    }
    if (writer.failed) {
        die("the space is too large");
    }
    s.dimensions = (uint32_t)count;
    s.space = (struct search_space){.kind = s.kind, .max_trials = s.halving.max_trials, .bytes = s.bytes, .byte_count = (uint32_t)writer.used_bytes};
}

/* ---- trials ---- */

/* The lowest trial that has not begun, and whose bracket has a place. max_trials: none. */
static uint32_t next_trial(void)
{
    for (uint32_t t = 0; t < s.halving.max_trials; t++) {
        const struct trial *trial = &s.trials[t];
        if (!trial->has_begun && (!search_halves(s.kind) || s.under_way[trial->bracket] < s.brackets.list[trial->bracket].concurrent)) {
            return t;
        }
    }
    return s.halving.max_trials;
}

static int draw(uint32_t index, double *point)
{
    if (!s.is_tpe) {
        return search_trial_point(&s.space, s.seed, index, point);
    }
    uint32_t count = 0;
    for (uint32_t t = 0; t < s.halving.max_trials; t++) {
        if (s.trials[t].has_begun) {
            s.observations[count++] = s.trials[t].seen;
        }
    }
    return tpe_draw(&s.space, s.observations, count, true, s.seed, index, s.room, s.room_bytes, point);
}

static void begin(void)
{
    static double point[SEARCH_PARAMETERS_MAX];
    uint32_t index = next_trial();
    if (index == s.halving.max_trials) {
        (void)puts("none");
        return;
    }
    if (draw(index, point) != 0) {
        die("a trial has no values");
    }
    struct trial *trial = &s.trials[index];
    memcpy(trial->point, point, s.dimensions * sizeof point[0]);
    trial->has_begun = true;
    trial->seen = (struct tpe_observation){.trial = index, .state = TPE_RUNNING, .point = trial->point};
    s.under_way[trial->bracket]++;
    (void)printf("%u", index);
    for (uint32_t d = 0; d < s.dimensions; d++) {
        (void)printf(" %.17g", point[d]);
    }
    (void)puts("");
}

/* ---- decisions ---- */

static bool judge(const struct trial *trial, double metric)
{
    uint32_t better = 0, count = 0;
    for (uint32_t i = 0; i < s.entry_count; i++) {
        if (s.entries[i].bracket == trial->bracket && s.entries[i].rung == trial->rung) {
            count++;
            better += search_is_better(s.entries[i].metric, metric, true);
        }
    }
    s.entries[s.entry_count++] = (struct entry){trial->bracket, trial->rung, metric};
    return search_goes_on(s.halving.divisor, metric, better, count + 1);
}

/* A report counts at each rung that it reaches, as long as the trial goes on. */
static const char *decide(struct trial *trial, uint64_t time, double metric)
{
    if (!search_halves(s.kind)) {
        return time >= s.halving.max_time ? "top" : "on";
    }
    uint32_t rungs = s.brackets.list[trial->bracket].rungs;
    while (time >= search_rung_target(&s.halving, rungs, trial->rung)) {
        bool goes_on = judge(trial, metric);
        if (trial->rung + 1 == rungs) {
            return isnan(metric) ? "stop" : "top";
        }
        if (!goes_on) {
            return "stop";
        }
        trial->rung++;
    }
    return "on";
}

static void report(uint32_t index, uint64_t time, double metric)
{
    if (index >= s.halving.max_trials || s.trials[index].seen.state != TPE_RUNNING || !s.trials[index].has_begun) {
        die("no such trial runs");
    }
    struct trial *trial = &s.trials[index];
    const char *answer = decide(trial, time, metric);
    if (strcmp(answer, "on") != 0) {
        trial->seen.state = strcmp(answer, "top") == 0 ? TPE_COMPLETED : TPE_STOPPED;
        trial->seen.metric = metric;
        trial->seen.step = time;
        trial->seen.has_metric = true;
        s.under_way[trial->bracket]--;
    }
    (void)puts(answer);
}

int main(int argc, char **argv)
{
    if (argc < 10) {
        die("usage: bench_search SEARCHER SAMPLER MAX_TRIALS RUNGS DIVISOR MAX_TIME CONCURRENT SEED PARAMETER...");
    }
    s.kind = strcmp(argv[1], "asha") == 0 ? SEARCH_ASHA : strcmp(argv[1], "adaptive_asha") == 0 ? SEARCH_ADAPTIVE_ASHA : SEARCH_RANDOM;
    s.is_tpe = strcmp(argv[2], "tpe") == 0;
    s.is_sobol = strcmp(argv[2], "sobol") == 0;
    s.halving = (struct search_halving){.kind = search_halves(s.kind) ? s.kind : SEARCH_ASHA,
                                        .max_trials = (uint32_t)strtoul(argv[3], NULL, 10),
                                        .rungs = (uint32_t)strtoul(argv[4], NULL, 10),
                                        .divisor = strtod(argv[5], NULL),
                                        .max_time = strtoull(argv[6], NULL, 10),
                                        .max_concurrent_trials = (uint32_t)strtoul(argv[7], NULL, 10)};
    s.seed = strtoull(argv[8], NULL, 10);
    if (!search_halving_is_good(&s.halving)) {
        die("a number is out of its bounds");
    }
    make_space(argv + 9, argc - 9);
    search_brackets_make(&s.halving, &s.brackets);
    s.trials = (struct trial *)room_of(s.halving.max_trials, sizeof *s.trials);
    s.entries = (struct entry *)room_of((size_t)s.halving.max_trials * SEARCH_RUNGS_MAX, sizeof *s.entries);
    s.observations = (struct tpe_observation *)room_of(s.halving.max_trials, sizeof *s.observations);
    s.room_bytes = tpe_room_bytes(s.dimensions, s.halving.max_trials);
    s.room = room_of(s.room_bytes, 1);
    struct search_turns turns = {{0}};
    for (uint32_t t = 0; t < s.halving.max_trials; t++) {
        s.trials[t].bracket = search_halves(s.kind) ? search_next_bracket(&s.brackets, &turns) : 0;
    }
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "begin", 5) == 0) {
            begin();
        } else if (strncmp(line, "report ", 7) == 0) {
            char *end;
            uint32_t index = (uint32_t)strtoul(line + 7, &end, 10);
            uint64_t time = strtoull(end, &end, 10);
            report(index, time, strtod(end, NULL));
        } else {
            die("a line is begin or report TRIAL TIME METRIC");
        }
        (void)fflush(stdout);
    }
    return 0;
}
