/* The sample ledger: whatever becomes of a group, each sample of an epoch is used once, and the log shows it. */
#include "train/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/random.h"
#include "train/ledger_command.h"

#define SAMPLES_MAX 60
#define RANKS_MAX 7
#define LINES_MAX 20000

/* What training has in memory, and hands on: how often it has used each sample. */
struct memory {
    uint64_t applied;
    uint32_t used[SAMPLES_MAX];
};

/* A trial that is made up: groups of random sizes that break in random steps, in all the ways in which one can. */
struct history {
    struct random random;
    uint32_t samples, batch, epochs;
    uint64_t steps;
    uint32_t attempt, generation, size;
    struct memory memory, checkpoint;
    struct ledger_line *lines;
    size_t count;
};

static bool chance(struct history *h, uint32_t percent)
{
    return random_below(&h->random, 100) < percent;
}

static void write_line(struct history *h, uint32_t rank)
{
    struct ledger_range range = ledger_range_of(h->samples, h->batch, h->memory.applied, rank, h->size);
    assert_true(h->count < LINES_MAX);
    h->lines[h->count++] = (struct ledger_line){
        .attempt = h->attempt,
        .generation = h->generation,
        .rank = rank,
        .size = h->size,
        .step = h->memory.applied + 1,
        .batch_first = range.batch_first,
        .batch_count = range.batch_count,
        .first = range.first,
        .count = range.count,
    };
}

static void apply(struct history *h)
{
    for (uint32_t rank = 0; rank < h->size; rank++) {
        struct ledger_range range = ledger_range_of(h->samples, h->batch, h->memory.applied, rank, h->size);
        for (uint32_t i = range.first; i < range.first + range.count; i++) {
            assert_true(i < h->samples);
            h->memory.used[i]++;
        }
    }
    h->memory.applied++;
}

/* A step in which nothing happens. */
static void whole_step(struct history *h)
{
    for (uint32_t rank = 0; rank < h->size; rank++) {
        write_line(h, rank);
    }
    apply(h);
    if (chance(h, 20)) {
        h->checkpoint = h->memory;
    }
}

/* Some ranks die in a step, perhaps all; some apply it, perhaps none. Who survives and has applied it has written it down; who
 * dies may have. If one who has applied it survives, the next group has it from there. */
static void broken_step(struct history *h)
{
    bool is_applied = false, is_anybody_left = false;
    for (uint32_t rank = 0; rank < h->size; rank++) {
        bool dies = chance(h, 40), applies = chance(h, 50);
        is_anybody_left |= !dies;
        is_applied |= applies && !dies;
        if (applies && (!dies || chance(h, 50))) {
            write_line(h, rank);
        }
    }
    if (is_applied) {
        apply(h);
    }
    if (!is_anybody_left) {
        h->attempt++;
        h->generation = 0;
        h->memory = h->checkpoint;
    }
    h->generation++;
    h->size = 1 + (uint32_t)random_below(&h->random, RANKS_MAX);
}

static void make_history(struct history *h, uint64_t seed, struct ledger_line *lines)
{
    *h = (struct history){.attempt = 1, .generation = 1, .lines = lines};
    random_init(&h->random, seed);
    h->samples = 1 + (uint32_t)random_below(&h->random, SAMPLES_MAX);
    h->batch = 1 + (uint32_t)random_below(&h->random, h->samples);
    h->epochs = 1 + (uint32_t)random_below(&h->random, 3);
    h->steps = (uint64_t)h->epochs * ((h->samples + h->batch - 1) / h->batch);
    h->size = 1 + (uint32_t)random_below(&h->random, RANKS_MAX);
    while (h->memory.applied < h->steps && h->attempt < 6) {
        if (chance(h, 15)) {
            broken_step(h);
        } else {
            whole_step(h);
        }
    }
    while (h->memory.applied < h->steps) {
        whole_step(h);
    }
}

static bool prove(const struct history *h, struct ledger_verdict *out, char *error)
{
    qsort(h->lines, h->count, sizeof *h->lines, ledger_compare);
    return ledger_prove(h->lines, h->count, h->samples, out, error);
}

static void test_each_sample_is_used_once_in_every_history(void **state)
{
    (void)state;
    struct ledger_line *lines = calloc(LINES_MAX, sizeof *lines);
    assert_non_null(lines);
    uint64_t voids = 0, inferred = 0, groups = 0;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        struct history h;
        make_history(&h, seed, lines);
        for (uint32_t i = 0; i < h.samples; i++) {
            assert_int_equal(h.memory.used[i], h.epochs);
        }
        struct ledger_verdict v;
        char error[LEDGER_ERROR_BYTES] = "";
        bool holds = prove(&h, &v, error);
        assert_string_equal(error, "");
        assert_true(holds);
        assert_int_equal(v.steps, h.steps);
        assert_int_equal(v.epochs, h.epochs);
        assert_int_equal(v.samples, h.samples);
        voids += v.void_lines;
        inferred += v.inferred;
        groups += v.groups;
    }
    assert_true(voids > 5000 && inferred > 5000 && groups > 10000); /* such histories were among them */
    free(lines);
}

/* Damages one line that counts, or a step. Returns false if this history has none that would show. */
static bool damage(struct history *h, uint32_t how)
{
    struct ledger_line *line = &h->lines[random_below(&h->random, h->count)];
    if (line->is_void) {
        return false;
    }
    switch (how) {
    case 0:
        line->first++;
        return true;
    case 1:
        line->count++;
        return true;
    case 2:
        line->count--;
        return line->count != UINT32_MAX;
    case 3:
        line->batch_first++;
        return true;
    case 4:
        h->lines[h->count] = *line;
        h->count++;
        return true;
    case 5: { /* a step that nobody wrote down */
        uint64_t step = line->step;
        size_t kept = 0;
        for (size_t i = 0; i < h->count; i++) {
            if (h->lines[i].step != step) {
                h->lines[kept++] = h->lines[i];
            }
        }
        h->count = kept;
        return step < h->steps;
    }
    default: { /* a step that the last group makes as the batch of the one before */
        struct ledger_range range = ledger_range_of(h->samples, h->batch, line->step, line->rank, line->size);
        line->batch_first = range.batch_first;
        line->batch_count = range.batch_count;
        line->first = range.first;
        line->count = range.count;
        return h->steps / h->epochs > 1;
    }
    }
}

static void test_every_damage_to_the_log_is_found(void **state)
{
    (void)state;
    struct ledger_line *lines = calloc(LINES_MAX + 1, sizeof *lines);
    assert_non_null(lines);
    size_t found[7] = {0};
    for (uint64_t seed = 1; seed <= 3500; seed++) {
        struct history h;
        struct ledger_verdict v;
        char error[LEDGER_ERROR_BYTES] = "";
        make_history(&h, seed, lines);
        assert_true(prove(&h, &v, error));
        uint32_t how = (uint32_t)(seed % 7);
        if (!damage(&h, how)) {
            continue;
        }
        bool holds = prove(&h, &v, error);
        if (holds) {
            print_error("seed %llu, damage %u\n", (unsigned long long)seed, how);
        }
        assert_false(holds);
        assert_true(strncmp(error, "step ", 5) == 0);
        found[how]++;
    }
    for (size_t how = 0; how < 7; how++) {
        assert_true(found[how] > 100);
    }
    free(lines);
}

/* ---- the command ---- */

#define HEAD "1700000000000 00112233aabbccdd 4 "
#define END " 86400000000\n"

static char said[4096];

static int run_command(const char *log, char *const *more, int more_count)
{
    char path[] = "/tmp/shoal-ledger-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, log, strlen(log)), (ssize_t)strlen(log));
    (void)close(fd);
    char *words[8] = {path};
    for (int i = 0; i < more_count; i++) {
        words[1 + i] = more[i];
    }
    FILE *out = tmpfile();
    assert_non_null(out);
    int status = ledger_command(1 + more_count, words, out, out);
    rewind(out);
    said[fread(said, 1, sizeof said - 1, out)] = 0;
    (void)fclose(out);
    (void)unlink(path);
    return status;
}

/* Two ranks; the second dies in step 2, which the first makes anew with nobody, and then an epoch of 10 samples is done. */
#define GOOD_LOG                   \
    HEAD "1 0 1 1 2 0 4 0 2" END \
    HEAD "1 1 1 1 2 0 4 2 2" END \
    HEAD "1 1 2 1 2 4 4 6 2" END \
    HEAD "1 0 2 2 1 4 4 4 4" END \
    HEAD "1 0 3 2 1 8 2 8 2" END \
    HEAD "1 0 4 2 1 0 4 0 4" END

static void test_the_command_proves_a_log(void **state)
{
    (void)state;
    assert_int_equal(run_command(GOOD_LOG, NULL, 0), 0);
    assert_string_equal(said, "00112233aabbccdd/4: 4 steps, 1 complete epochs of 10 samples, each sample used once, by 2 groups; 1 "
                              "lines are void, 0 inferred\n");
    assert_int_equal(run_command(GOOD_LOG, (char *[]){"--samples", "10"}, 2), 0);
    assert_int_equal(run_command(GOOD_LOG, (char *[]){"--samples", "11"}, 2), 1);
    assert_non_null(strstr(said, "4: step 4 (attempt 1, generation 2): an epoch begins though the last one has not used all"));
    assert_int_equal(run_command(GOOD_LOG HEAD "1 0 6 2 1 8 2 8 2" END, NULL, 0), 1);
    assert_string_equal(said, "shoal-train ledger: 00112233aabbccdd/4: step 5 is missing: attempt 1, generation 2 goes on with step "
                              "6\n");
    assert_int_equal(run_command(GOOD_LOG HEAD "1 1 5 3 2 4 4 5 3" END HEAD "1 0 5 3 2 4 4 4 2" END, NULL, 0), 1);
    assert_non_null(strstr(said, "step 5 (attempt 1, generation 3): rank 1 begins at sample 5 of the epoch, and the ranks before it "
                                 "end at 6"));
}

static void test_the_command_refuses_in_one_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *log;
        char *more[2];
        int more_count, status;
        const char *sentence;
    } bad[] = {
        {"", {NULL}, 0, 1, "the logs are empty"},
        {"hello\n", {NULL}, 0, 1, "line 1 is no line of a log of steps (SHOAL_STEP_LOG)"},
        {GOOD_LOG HEAD "1 0 5 2 1 4 4 4" END, {NULL}, 0, 1, "line 7 is no line"},
        {GOOD_LOG HEAD "1 0 5 2 1 4 4 4 4 9" END, {NULL}, 0, 1, "line 7 is no line"},
        {HEAD "1 0 0 2 1 4 4 4 4" END, {NULL}, 0, 1, "there is no step 0"},
        {HEAD "1 0 1 2 0 4 4 4 4" END, {NULL}, 0, 1, "no group of nobody"},
        {HEAD "1 0 1 2 1 0 0 0 0" END, {NULL}, 0, 1, "its batch is empty"},
        {HEAD "1 3 1 2 1 0 4 0 4" END, {NULL}, 0, 1, "is none of the group"},
        {GOOD_LOG, {"--samples", "0"}, 2, 2, "--samples is a whole number from 1"},
        {GOOD_LOG, {"--quick"}, 1, 2, "there is no option --quick"},
        {GOOD_LOG, {"/nowhere/log"}, 1, 1, "cannot read /nowhere/log: No such file"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(run_command(bad[i].log, (char *const *)bad[i].more, bad[i].more_count), bad[i].status);
        if (strstr(said, bad[i].sentence) == NULL) {
            print_error("%s", said);
        }
        assert_non_null(strstr(said, bad[i].sentence));
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* one line */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_is_used_once_in_every_history),
        cmocka_unit_test(test_every_damage_to_the_log_is_found),
        cmocka_unit_test(test_the_command_proves_a_log),
        cmocka_unit_test(test_the_command_refuses_in_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
