/* The sample ledger: whatever becomes of a group, each sample of an epoch is used once, and the log shows it. */
#include "train/plan/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/random.h"
#include "train/plan/balance.h"
#include "train/trainer/ledger_command.h"

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
    bool balances; /* parts follow speeds, which are made up, too */
    struct balance parts;
    struct memory memory, checkpoint;
    struct ledger_line *lines;
    size_t count;
};

static bool chance(struct history *h, uint32_t percent)
{
    return random_below(&h->random, 100) < percent;
}

static void agree(struct history *h)
{
    uint64_t speeds[RANKS_MAX];
    for (uint32_t rank = 0; rank < h->size; rank++) {
        speeds[rank] = h->balances ? 1 + random_below(&h->random, 100) : 0;
    }
    balance_init(&h->parts, h->size, speeds);
}

static struct ledger_range range_of(const struct history *h, uint64_t applied, uint32_t rank)
{
    struct ledger_range range = ledger_batch_of(h->samples, h->batch, applied);
    balance_share(&h->parts, range.batch_count, rank, &range.first, &range.count);
    range.first += range.batch_first;
    return range;
}

static void write_line(struct history *h, uint32_t rank)
{
    struct ledger_range range = range_of(h, h->memory.applied, rank);
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
        .is_balanced = h->balances && h->size > 1,
    };
}

static void apply(struct history *h)
{
    for (uint32_t rank = 0; rank < h->size; rank++) {
        struct ledger_range range = range_of(h, h->memory.applied, rank);
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
    if (h->balances && chance(h, 10)) {
        agree(h);
    }
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
    agree(h);
}

static void make_history(struct history *h, uint64_t seed, bool balances, struct ledger_line *lines)
{
    *h = (struct history){.attempt = 1, .generation = 1, .balances = balances, .lines = lines};
    random_init(&h->random, seed);
    h->samples = 1 + (uint32_t)random_below(&h->random, SAMPLES_MAX);
    h->batch = 1 + (uint32_t)random_below(&h->random, h->samples);
    h->epochs = 1 + (uint32_t)random_below(&h->random, 3);
    h->steps = (uint64_t)h->epochs * ((h->samples + h->batch - 1) / h->batch);
    h->size = 1 + (uint32_t)random_below(&h->random, RANKS_MAX);
    agree(h);
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

static void prove_histories(bool balances)
{
    struct ledger_line *lines = calloc(LINES_MAX, sizeof *lines);
    assert_non_null(lines);
    uint64_t voids = 0, inferred = 0, groups = 0;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        struct history h;
        make_history(&h, seed, balances, lines);
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
    assert_true(voids > 2000 && inferred > 5000 && groups > 5000); /* such histories were among them */
    free(lines);
}

static void test_each_sample_is_used_once_in_every_history(void **state)
{
    (void)state;
    prove_histories(false);
}

static void test_and_so_it_is_where_parts_follow_speeds(void **state)
{
    (void)state;
    prove_histories(true);
}

static uint32_t lines_of_step(const struct history *h, const struct ledger_line *of)
{
    uint32_t count = 0;
    for (size_t i = 0; i < h->count; i++) {
        const struct ledger_line *line = &h->lines[i];
        count += line->attempt == of->attempt && line->generation == of->generation && line->step == of->step;
    }
    return count;
}

static bool is_last_of_group(const struct history *h, const struct ledger_line *of)
{
    bool is_last = true;
    for (size_t i = 0; i < h->count; i++) {
        const struct ledger_line *line = &h->lines[i];
        is_last &= line->attempt != of->attempt || line->generation != of->generation || line->step <= of->step;
    }
    return is_last;
}

#define DAMAGES 9

/* Damages one line that counts, or a step. Returns false if this history has none that would show: nobody knows the part of a
 * rank that left no line, if it need not be an equal one. */
static bool damage(struct history *h, uint32_t how)
{
    struct ledger_line *line = &h->lines[random_below(&h->random, h->count)];
    if (line->is_void || (line->is_balanced && lines_of_step(h, line) < line->size)) {
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
    case 6: /* ranks that cut by different rules */
        line->is_balanced = !line->is_balanced;
        return lines_of_step(h, line) > 1;
    case 7: { /* a rank without a line, whose group went on */
        bool shows = !is_last_of_group(h, line);
        *line = h->lines[--h->count];
        return shows;
    }
    default: { /* a step that the last group makes as the batch of the one before */
        struct ledger_range range = ledger_batch_of(h->samples, h->batch, line->step);
        uint32_t first;
        ledger_share(range.batch_count, line->rank, line->size, &first, &range.count);
        range.first = range.batch_first + first;
        line->batch_first = range.batch_first;
        line->batch_count = range.batch_count;
        line->first = range.first;
        line->count = range.count;
        return h->steps / h->epochs > 1;
    }
    }
}

static void find_damages(bool balances)
{
    struct ledger_line *lines = calloc(LINES_MAX + 1, sizeof *lines);
    assert_non_null(lines);
    size_t found[DAMAGES] = {0};
    for (uint64_t seed = 1; seed <= 500 * DAMAGES; seed++) {
        struct history h;
        struct ledger_verdict v;
        char error[LEDGER_ERROR_BYTES] = "";
        make_history(&h, seed, balances, lines);
        assert_true(prove(&h, &v, error));
        uint32_t how = (uint32_t)(seed % DAMAGES);
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
    for (size_t how = 0; how < DAMAGES; how++) {
        assert_true(found[how] > 100);
    }
    free(lines);
}

static void test_every_damage_to_the_log_is_found(void **state)
{
    (void)state;
    find_damages(false);
}

static void test_and_so_it_is_in_steps_of_unequal_parts(void **state)
{
    (void)state;
    find_damages(true);
}

/* ---- the command ---- */

#define HEAD "1700000000000 00112233aabbccdd 4 "
#define END " 86400000000 0\n"
#define BALANCED " 86400000000 1\n"

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

/* Three ranks, of which the second is slow; it dies in step 2. */
#define UNEQUAL_LOG                     \
    HEAD "1 0 1 1 3 0 9 0 4" BALANCED \
    HEAD "1 1 1 1 3 0 9 4 1" BALANCED \
    HEAD "1 2 1 1 3 0 9 5 4" BALANCED \
    HEAD "1 0 2 1 3 9 9 9 4" BALANCED

static void test_a_part_without_a_line_is_what_the_others_left(void **state)
{
    (void)state;
    assert_int_equal(run_command(UNEQUAL_LOG HEAD "1 2 2 1 3 9 9 14 4" BALANCED, (char *[]){"--samples", "18"}, 2), 0);
    assert_non_null(strstr(said, "2 steps, 1 complete epochs of 18 samples, each sample used once, by 1 groups; 0 lines are void, 1 "
                                 "inferred"));
    assert_int_equal(run_command(UNEQUAL_LOG, NULL, 0), 0); /* two without lines: the rest is theirs */
    assert_int_equal(run_command(UNEQUAL_LOG HEAD "1 2 2 1 3 9 9 13 5" BALANCED, NULL, 0), 1); /* it has had one sample at least */
    assert_non_null(strstr(said, "step 2 (attempt 1, generation 1): rank 2 begins at sample 13 of the epoch, and the ranks before it "
                                 "end at 14"));
    assert_int_equal(run_command(UNEQUAL_LOG HEAD "1 2 2 1 3 9 9 14 3" BALANCED, NULL, 0), 1);
    assert_non_null(strstr(said, "its ranks have not used its whole batch"));
    assert_int_equal(run_command(UNEQUAL_LOG HEAD "1 0 2 1 3 9 9 9 4" BALANCED, NULL, 0), 1);
    assert_non_null(strstr(said, "a rank has two lines"));
}

#define EQUAL_STEP HEAD "1 0 1 1 2 0 4 0 2" BALANCED HEAD "1 1 1 1 2 0 4 2 2" BALANCED

/* Parts were equal as yet, and in the first step in which they are not rank 1 is killed before its line. */
static void test_the_first_step_of_unequal_parts_may_lack_a_line(void **state)
{
    (void)state;
    assert_int_equal(run_command(EQUAL_STEP HEAD "1 0 2 1 2 4 4 4 3" BALANCED HEAD "1 0 3 2 1 0 4 0 4" END,
                                 (char *[]){"--samples", "8"}, 2), 0);
    assert_non_null(strstr(said, "3 steps, 1 complete epochs of 8 samples, each sample used once, by 2 groups; 0 lines are void, 1 "
                                 "inferred"));
}

static void test_each_step_is_judged_by_its_own_rule(void **state)
{
    (void)state;
    assert_int_equal(run_command(UNEQUAL_LOG HEAD "1 2 2 1 3 9 9 14 4" BALANCED HEAD "1 0 3 2 2 18 4 18 3" END, NULL, 0), 1);
    assert_non_null(strstr(said, "step 3 (attempt 1, generation 2): rank 0 has used 3 samples, and its equal part is 2"));
    assert_int_equal(run_command(HEAD "1 0 1 1 1 0 4 0 4" END HEAD "1 0 2 2 2 4 4 4 3" END HEAD "1 1 2 2 2 4 4 7 1" END, NULL, 0), 1);
    assert_non_null(strstr(said, "step 2 (attempt 1, generation 2): rank 0 has used 3 samples, and its equal part is 2"));
    assert_int_equal(run_command(HEAD "1 0 1 1 2 0 4 0 2" END HEAD "1 1 1 1 2 0 4 2 2" BALANCED, NULL, 0), 1);
    assert_non_null(strstr(said, "step 1 (attempt 1, generation 1): its ranks do not agree whether it is balanced"));
    /* With fewer samples than ranks parts are equal, and some are none. */
    assert_int_equal(run_command(HEAD "1 0 1 1 3 0 2 0 0" BALANCED HEAD "1 2 1 1 3 0 2 1 1" BALANCED, NULL, 0), 0);
    assert_int_equal(run_command(HEAD "1 0 1 1 3 0 2 0 1" BALANCED HEAD "1 2 1 1 3 0 2 1 1" BALANCED, NULL, 0), 1);
    assert_non_null(strstr(said, "rank 0 has used 1 samples, and its equal part is 0"));
}

#define ALONE(step, first) HEAD "1 0 " step " 1 2 " first " 4 " first " 2"

static void test_only_in_the_last_step_of_its_group_a_line_is_missing(void **state)
{
    (void)state;
    static const char went_on[] = "step 1 (attempt 1, generation 1): a rank has no line of this step, and its group went on";
    assert_int_equal(run_command(ALONE("1", "0") END, NULL, 0), 0);
    assert_int_equal(run_command(ALONE("1", "0") END ALONE("2", "4") END, NULL, 0), 1);
    assert_non_null(strstr(said, went_on));
    assert_int_equal(run_command(ALONE("1", "0") BALANCED ALONE("2", "4") BALANCED, NULL, 0), 1);
    assert_non_null(strstr(said, went_on));
    /* What is void says that the group went on, and must be such as a group writes. */
    assert_int_equal(run_command(ALONE("1", "0") END ALONE("2", "4") END HEAD "1 0 2 2 1 4 4 4 4" END, NULL, 0), 1);
    assert_non_null(strstr(said, went_on));
    assert_int_equal(run_command(ALONE("1", "0") END ALONE("2", "4") END HEAD "1 0 1 2 1 0 4 0 4" END, NULL, 0), 1);
    assert_non_null(strstr(said, went_on));
    assert_int_equal(run_command(ALONE("1", "0") END HEAD "1 0 1 2 1 0 4 0 4" END, NULL, 0), 0);
}

/* Its writer was killed between two pages of the file. */
static void test_half_a_line_at_the_end_is_none(void **state)
{
    (void)state;
    assert_int_equal(run_command(GOOD_LOG, NULL, 0), 0);
    assert_int_equal(run_command(GOOD_LOG HEAD "1 0 5 2 1 4 4", NULL, 0), 0);
    assert_int_equal(run_command(GOOD_LOG HEAD "1 0 5 2 1 4 4\n", NULL, 0), 1);
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
        {GOOD_LOG HEAD "1 0 5 2 1 4 4 4 4 86400000000\n", {NULL}, 0, 1, "line 7 is no line"},
        {GOOD_LOG HEAD "1 0 5 2 1 4 4 4 4 86400000000 2\n", {NULL}, 0, 1, "line 7 is no line"},
        {HEAD "1 0 0 2 1 4 4 4 4" END, {NULL}, 0, 1, "steps count from 1"},
        {HEAD "1 0 1 2 0 4 4 4 4" END, {NULL}, 0, 1, "a group has at least 1 rank"},
        {HEAD "1 0 1 2 1 0 0 0 0" END, {NULL}, 0, 1, "its batch is empty"},
        {HEAD "1 3 1 2 1 0 4 0 4" END, {NULL}, 0, 1, "is not in the group"},
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
        cmocka_unit_test(test_and_so_it_is_where_parts_follow_speeds),
        cmocka_unit_test(test_every_damage_to_the_log_is_found),
        cmocka_unit_test(test_and_so_it_is_in_steps_of_unequal_parts),
        cmocka_unit_test(test_the_command_proves_a_log),
        cmocka_unit_test(test_a_part_without_a_line_is_what_the_others_left),
        cmocka_unit_test(test_the_first_step_of_unequal_parts_may_lack_a_line),
        cmocka_unit_test(test_each_step_is_judged_by_its_own_rule),
        cmocka_unit_test(test_only_in_the_last_step_of_its_group_a_line_is_missing),
        cmocka_unit_test(test_half_a_line_at_the_end_is_none),
        cmocka_unit_test(test_the_command_refuses_in_one_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
