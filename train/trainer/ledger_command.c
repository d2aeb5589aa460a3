#include "train/trainer/ledger_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* A line with its trial. */
struct entry {
    struct ledger_line line; /* first, so that ledger_compare accepts an entry */
    char experiment[64];
    uint32_t trial;
};

struct log {
    struct entry *entries;
    size_t count, capacity;
};

bool ledger_line_read(const char *text, char experiment[64], uint32_t *trial, struct ledger_line *out)
{
    struct ledger_line line = {0};
    char name[64], balanced[2], rest;
    uint32_t of_trial;
    uint64_t us; /* of the monotonic clock; not judged here */
    int fields = sscanf(text, "%*20[0-9] %63s %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32
                              " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64 " %1[01] %c",
                        name, &of_trial, &line.attempt, &line.rank, &line.step, &line.generation, &line.size,
                        &line.batch_first, &line.batch_count, &line.first, &line.count, &us, balanced, &rest);
    if (fields != 13) {
        return false;
    }
    line.is_balanced = balanced[0] == '1';
    bytes_copy_text(experiment, 64, name);
    *trial = of_trial;
    *out = line;
    return true;
}

static bool log_add(struct log *log, const struct entry *entry)
{
    if (log->count == log->capacity) {
        size_t capacity = log->capacity > 0 ? 2 * log->capacity : 1024;
        struct entry *entries = realloc(log->entries, capacity * sizeof *entries);
        if (entries == NULL) {
            return false;
        }
        log->entries = entries;
        log->capacity = capacity;
    }
    log->entries[log->count++] = *entry;
    return true;
}

/* 0, or 1 with a sentence. */
static int read_log(struct log *log, const char *path, FILE *errors)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        (void)fprintf(errors, "shoal-train ledger: cannot read %s: %s\n", path, strerror(errno));
        return 1;
    }
    char text[512];
    int result = 0;
    for (size_t number = 1; result == 0 && fgets(text, sizeof text, file) != NULL; number++) {
        struct entry entry = {0};
        if (strchr(text, '\n') == NULL && feof(file) != 0) {
            break; /* the writer was killed in the middle of the line, or is still writing: other ranks' lines prove the step */
        }
        if (!ledger_line_read(text, entry.experiment, &entry.trial, &entry.line)) {
            (void)fprintf(errors, "shoal-train ledger: %s, line %zu is no line of a log of steps (SHOAL_STEP_LOG)\n", path,
                          number);
            result = 1;
        } else if (!log_add(log, &entry)) {
            (void)fputs("shoal-train ledger: no memory is left\n", errors);
            result = 1;
        }
    }
    if (result == 0 && ferror(file) != 0) {
        (void)fprintf(errors, "shoal-train ledger: cannot read %s: %s\n", path, strerror(errno));
        result = 1;
    }
    (void)fclose(file);
    return result;
}

static int compare_entries(const void *one, const void *other)
{
    const struct entry *a = one, *b = other;
    int by_experiment = strcmp(a->experiment, b->experiment);
    if (by_experiment != 0) {
        return by_experiment;
    }
    return a->trial != b->trial ? (a->trial > b->trial) - (a->trial < b->trial) : ledger_compare(&a->line, &b->line);
}

static int judge_trial(const struct entry *entries, size_t count, uint32_t samples, FILE *out, FILE *errors)
{
    struct ledger_line *lines = malloc(count * sizeof *lines);
    if (lines == NULL) {
        (void)fputs("shoal-train ledger: no memory is left\n", errors);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        lines[i] = entries[i].line;
    }
    struct ledger_verdict v;
    char error[LEDGER_ERROR_BYTES];
    bool holds = ledger_prove(lines, count, samples, &v, error);
    if (holds) {
        (void)fprintf(out,
                      "%s/%u: %llu steps, %llu complete epochs of %u samples, each sample used once, by %llu groups; "
                      "%llu lines are void, %llu inferred\n",
                      entries->experiment, entries->trial, (unsigned long long)v.steps, (unsigned long long)v.epochs, v.samples,
                      (unsigned long long)v.groups, (unsigned long long)v.void_lines, (unsigned long long)v.inferred);
    } else {
        (void)fprintf(errors, "shoal-train ledger: %s/%u: %s\n", entries->experiment, entries->trial, error);
    }
    free(lines);
    return holds ? 0 : 1;
}

static int judge(struct log *log, uint32_t samples, FILE *out, FILE *errors)
{
    int result = 0;
    qsort(log->entries, log->count, sizeof *log->entries, compare_entries);
    for (size_t i = 0, end; i < log->count; i = end) {
        for (end = i + 1; end < log->count && log->entries[end].trial == log->entries[i].trial &&
                          strcmp(log->entries[end].experiment, log->entries[i].experiment) == 0;) {
            end++;
        }
        result |= judge_trial(&log->entries[i], end - i, samples, out, errors);
    }
    return result;
}

static bool read_samples(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    *out = (uint32_t)value;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && value > 0 && value <= UINT32_MAX;
}

int ledger_command(int argc, char *const *argv, FILE *out, FILE *errors)
{
    struct log log = {0};
    uint32_t samples = 0;
    int files = 0, result = 0;
    for (int i = 0; i < argc && result == 0; i++) {
        if (strcmp(argv[i], "--samples") == 0) {
            if (++i == argc || !read_samples(argv[i], &samples)) {
                (void)fputs("shoal-train ledger: --samples is a whole number from 1; see shoal-train --help\n", errors);
                result = 2;
            }
        } else if (argv[i][0] == '-') {
            (void)fprintf(errors, "shoal-train ledger: there is no option %s; see shoal-train --help\n", argv[i]);
            result = 2;
        } else {
            files++;
            result = read_log(&log, argv[i], errors);
        }
    }
    if (result == 0 && files == 0) {
        (void)fputs("shoal-train ledger: name a log of steps; see shoal-train --help\n", errors);
        result = 2;
    }
    if (result == 0 && log.count == 0) {
        (void)fputs("shoal-train ledger: the logs are empty\n", errors);
        result = 1;
    }
    result = result == 0 ? judge(&log, samples, out, errors) : result;
    free(log.entries);
    return result;
}
