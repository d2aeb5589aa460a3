#include "train/plan/ledger.h"

#include "base/check.h"
#include "base/format.h"

void ledger_share(uint32_t total, uint32_t rank, uint32_t size, uint32_t *first, uint32_t *count)
{
    CHECK(rank < size);
    uint64_t from = (uint64_t)total * rank / size, to = (uint64_t)total * (rank + 1) / size;
    *first = (uint32_t)from;
    *count = (uint32_t)(to - from);
}

struct ledger_range ledger_batch_of(uint32_t samples, uint32_t batch, uint64_t applied)
{
    CHECK(samples > 0 && batch > 0);
    uint64_t steps_per_epoch = ((uint64_t)samples + batch - 1) / batch;
    struct ledger_range range = {.epoch = applied / steps_per_epoch};
    range.batch_first = (uint32_t)(applied % steps_per_epoch * batch);
    uint32_t left = samples - range.batch_first;
    range.batch_count = left < batch ? left : batch;
    range.first = range.batch_first;
    range.count = range.batch_count;
    return range;
}

/* ---- the proof ---- */

static int order(uint64_t one, uint64_t other)
{
    return (one > other) - (one < other);
}

static int compare_groups(const struct ledger_line *a, const struct ledger_line *b)
{
    int by_attempt = order(a->attempt, b->attempt);
    return by_attempt != 0 ? by_attempt : order(a->generation, b->generation);
}

int ledger_compare(const void *one, const void *other)
{
    const struct ledger_line *a = one, *b = other;
    int by_group = compare_groups(a, b), by_step = order(a->step, b->step);
    return by_group != 0 ? by_group : by_step != 0 ? by_step : order(a->rank, b->rank);
}

/* Goes from the last group to the first: lines from the start of a later group on are void. The first line of a group is of its
 * first step. */
static void mark_void(struct ledger_line *lines, size_t count)
{
    uint64_t bound = UINT64_MAX;
    for (size_t end = count; end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && compare_groups(&lines[begin - 1], &lines[begin]) == 0) {
            begin--;
        }
        for (size_t i = begin; i < end; i++) {
            lines[i].is_void = lines[i].step > bound;
        }
        bound = lines[begin].step - 1 < bound ? lines[begin].step - 1 : bound;
        end = begin;
    }
}

static void say(char *error, const struct ledger_line *line, const char *what)
{
    format_text(error, LEDGER_ERROR_BYTES, "step %llu (attempt %u, generation %u): %s", (unsigned long long)line->step,
                line->attempt, line->generation, what);
}

static struct ledger_line equal_part(const struct ledger_line *of_step, uint32_t rank)
{
    struct ledger_line line = *of_step;
    line.rank = rank;
    ledger_share(line.batch_count, rank, line.size, &line.first, &line.count);
    line.first += line.batch_first;
    return line;
}

/* The part of a rank without a line in a balanced step: the samples left between the lines beside it, except one sample for
 * each rank behind it that has no line either. If no samples are left, the check of the next line finds the fault. `next` lines
 * are of ranks before this rank and end at `place`. */
static struct ledger_line rest_of(const struct ledger_line *lines, size_t count, size_t next, uint32_t rank, uint64_t place)
{
    struct ledger_line line = lines[0];
    bool has_next = next < count && lines[next].rank > rank;
    uint64_t until = has_next ? lines[next].first : (uint64_t)line.batch_first + line.batch_count;
    uint64_t kept = (has_next ? lines[next].rank : line.size) - rank - 1;
    line.rank = rank;
    line.first = (uint32_t)place;
    line.count = (uint32_t)(until > place + kept ? until - place - kept : 1);
    return line;
}

/* Judges the lines of a step of a group: its ranks share its batch without gap or overlap. */
static bool prove_step(const struct ledger_line *lines, size_t count, uint64_t *inferred, char *error)
{
    const struct ledger_line *any = &lines[0];
    bool has_equal_parts = !any->is_balanced || any->batch_count < any->size;
    if (any->batch_count == 0) {
        say(error, any, "its batch is empty");
        return false;
    }
    uint64_t place = any->batch_first;
    size_t next = 0;
    for (uint32_t rank = 0; rank < any->size; rank++) {
        bool is_there = next < count && lines[next].rank == rank;
        struct ledger_line line = is_there          ? lines[next]
                                  : has_equal_parts ? equal_part(any, rank)
                                                    : rest_of(lines, count, next, rank, place);
        next += is_there;
        *inferred += !is_there;
        if (line.size != any->size || line.batch_first != any->batch_first || line.batch_count != any->batch_count) {
            say(error, &line, "its ranks do not agree on the group's size or batch");
            return false;
        }
        if (line.is_balanced != any->is_balanced) {
            say(error, &line, "its ranks do not agree whether it is balanced");
            return false;
        }
        if (line.first != place) {
            format_text(error, LEDGER_ERROR_BYTES,
                        "step %llu (attempt %u, generation %u): rank %u begins at sample %u of the epoch, and the ranks "
                        "before it end at %llu",
                        (unsigned long long)any->step, any->attempt, any->generation, rank, line.first,
                        (unsigned long long)place);
            return false;
        }
        if (has_equal_parts && line.count != equal_part(any, rank).count) {
            format_text(error, LEDGER_ERROR_BYTES,
                        "step %llu (attempt %u, generation %u): rank %u has used %u samples, and its equal part is %u",
                        (unsigned long long)any->step, any->attempt, any->generation, rank, line.count,
                        equal_part(any, rank).count);
            return false;
        }
        place += line.count;
    }
    if (next < count) {
        say(error, &lines[next], "a rank has two lines, or is not in the group");
        return false;
    }
    if (place != (uint64_t)any->batch_first + any->batch_count) {
        say(error, any, "its ranks have not used its whole batch");
        return false;
    }
    return true;
}

/* Follows the epoch into a step: the batch must continue at the epoch's place. */
static bool follow_epoch(const struct ledger_line *line, uint64_t *place, uint64_t *samples, uint64_t *epochs, char *error)
{
    if (*place > 0 && line->batch_first == 0) {
        *samples = *samples == 0 ? *place : *samples;
        if (*place != *samples) {
            say(error, line, "an epoch begins though the last one has not used all samples");
            return false;
        }
        (*epochs)++;
        *place = 0;
    }
    if (line->batch_first != *place) {
        format_text(error, LEDGER_ERROR_BYTES,
                    "step %llu (attempt %u, generation %u): its batch begins at sample %u of the epoch, and the steps "
                    "before it end at %llu",
                    (unsigned long long)line->step, line->attempt, line->generation, line->batch_first,
                    (unsigned long long)*place);
        return false;
    }
    *place += line->batch_count;
    if (*samples > 0 && *place > *samples) {
        say(error, line, "its batch goes beyond the epoch's samples");
        return false;
    }
    return true;
}

static size_t end_of_step(const struct ledger_line *lines, size_t count, size_t begin)
{
    size_t end = begin + 1;
    while (end < count && compare_groups(&lines[end], &lines[begin]) == 0 && lines[end].step == lines[begin].step) {
        end++;
    }
    return end;
}

bool ledger_prove(struct ledger_line *lines, size_t count, uint32_t samples, struct ledger_verdict *out,
                  char error[LEDGER_ERROR_BYTES])
{
    for (size_t i = 0; i < count; i++) {
        if (lines[i].step == 0 || lines[i].size == 0) {
            say(error, &lines[i], "steps count from 1, and a group has at least 1 rank");
            return false;
        }
        CHECK(i == 0 || ledger_compare(&lines[i - 1], &lines[i]) <= 0);
    }
    mark_void(lines, count);
    struct ledger_verdict verdict = {0};
    uint64_t place = 0, all = samples;
    const struct ledger_line *before = NULL;
    for (size_t i = 0, end; i < count; i = end) {
        end = end_of_step(lines, count, i);
        bool is_last = end == count || compare_groups(&lines[end], &lines[i]) != 0;
        if (!is_last && end - i < lines[i].size) {
            say(error, &lines[i], "a rank has no line of this step, and its group went on");
            return false;
        }
        if (lines[i].is_void) {
            verdict.void_lines += end - i;
            continue;
        }
        if (lines[i].step != verdict.steps + 1) {
            format_text(error, LEDGER_ERROR_BYTES, "step %llu is missing: attempt %u, generation %u goes on with step %llu",
                        (unsigned long long)(verdict.steps + 1), lines[i].attempt, lines[i].generation,
                        (unsigned long long)lines[i].step);
            return false;
        }
        if (!follow_epoch(&lines[i], &place, &all, &verdict.epochs, error) ||
            !prove_step(&lines[i], end - i, &verdict.inferred, error)) {
            return false;
        }
        verdict.groups += before == NULL || compare_groups(before, &lines[i]) != 0;
        verdict.steps++;
        before = &lines[i];
    }
    verdict.epochs += all > 0 && place == all;
    verdict.samples = (uint32_t)(all > 0 ? all : place);
    *out = verdict;
    return true;
}
