/* Which entrypoints a warm process can run, and what their words are. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/daemon/workers/warm_command.h"

static void expect_words(const char *entrypoint, const char *const *words, size_t count, size_t options, size_t arguments)
{
    struct warm_command command;
    char why[WARM_WHY_BYTES] = "";
    assert_int_equal(warm_command_read(entrypoint, &command, why), 0);
    size_t at = 0, found_options = SIZE_MAX, found_arguments = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        found_options = i == options ? at : found_options;
        found_arguments = i == arguments ? at : found_arguments;
        assert_true(at < command.bytes);
        assert_string_equal(command.text + at, words[i]);
        at += strlen(words[i]) + 1;
    }
    assert_int_equal(at, command.bytes);
    assert_int_equal(command.options, found_options);
    assert_int_equal(command.arguments, found_arguments);
    warm_command_close(&command);
}

static void a_program_of_python_is_its_words(void **state)
{
    (void)state;
    static const char *const plain[] = {"python3", "train.py", "--lr", "0.1"};
    expect_words("python3 train.py --lr 0.1", plain, 4, 1, 1);
    expect_words("  exec\tpython3  train.py --lr 0.1 \n", plain, 4, 1, 1);
    static const char *const quoted[] = {"/opt/my env/bin/python3.11", "-u", "-X", "dev", "-Wignore", "it's.py", "", "a \"b\" $c", "d\\e \\"};
    expect_words("'/opt/my env/bin/python3.11' -u -X dev -Wignore it\\'s.py '' 'a \"b\" $c' \"d\\e \\\\\"", quoted, 9, 1, 5);
    static const char *const module[] = {"python", "-m", "package.train", "-c", "x=1"};
    expect_words("python -m package.train -c x=1", module, 5, 1, 1);
}

static void the_line_of_a_search_has_a_choice(void **state)
{
    (void)state;
    const char *choice = "p='/home/a b/bin/python'; \"$p\" -c 'import sys; sys.exit(1)' 2>/dev/null || p=python3.11; exec \"$p\" ";
    char line[300], why[WARM_WHY_BYTES];
    (void)snprintf(line, sizeof line, "%s-m shoal._search_worker shoal_function.pickle loss", choice);
    struct warm_command command;
    assert_int_equal(warm_command_read(line, &command, why), 0);
    assert_string_equal(command.choice, choice);
    assert_int_equal(command.options, 0);
    assert_string_equal(command.text + command.arguments, "-m");
    warm_command_close(&command);
}

static void what_needs_a_shell_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *entrypoint, *why;
    } bad[] = {{"python3 train.py | tee log", "(for the |)"},
               {"cd src && python3 train.py", "no python"},
               {"LR=1 python3 train.py", "runs LR=1"},
               {"python3 train.py --data $DATA", "(for the $)"},
               {"python3 train.py \"$DATA\"", "(for the $)"},
               {"python3 train.py *.csv", "(for the *)"},
               {"python3 a.py\npython3 b.py", "(for the end of a line)"},
               {"python3 a.py \\\n b.py", "needs a shell"},
               {"python3 'a.py", "not closed"},
               {"python3 -c pass", "python with -c"},
               {"python3 -i train.py", "python with -i"},
               {"python3 -", "python with -"},
               {"python3", "without a script"},
               {"python3 -u", "without a script"},
               {"python3 -m", "without a script"},
               {"python3-config x", "no python"},
               {"./venv/bin/python3 train.py", "part of its code"},
               {"torchrun train.py", "runs torchrun"},
               {"p=python3; rm -rf x; exec \"$p\" train.py", "needs a shell"},
               {" \n", "empty"},
               {"", "empty"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct warm_command command;
        char why[WARM_WHY_BYTES] = "";
        assert_int_equal(warm_command_read(bad[i].entrypoint, &command, why), ERR_USAGE);
        if (strstr(why, bad[i].why) == NULL) {
            fail_msg("'%s' is refused since %s", bad[i].entrypoint, why);
        }
    }
}

static void variables_of_one_trial_do_not_tell_warm_processes_apart(void **state)
{
    (void)state;
    static const char *const own[] = {"SHOAL_TOKEN=00", "SHOAL_TRIAL=3", "SHOAL_HP_LR=0.1", "SHOAL_HPARAMS={}", "MASTER_PORT=7413",
                                      "TORCHELASTIC_RUN_ID=a-3", "SHOAL_SEED=1", "SHOAL_RESTORE_DIR=/x"};
    static const char *const shared[] = {"PATH=/bin", "RANK=0", "CUDA_VISIBLE_DEVICES=1", "SHOAL_RANK=0", "SHOAL_HPARAM=1", "SHOAL_TOKENS=1",
                                         "SHOAL_EXPERIMENT=a", "OMP_NUM_THREADS=4", "MASTER", ""};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        assert_true(warm_differs(own[i]));
    }
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        assert_false(warm_differs(shared[i]));
    }
}

static void less_than_a_tenth_of_the_memory_is_short(void **state)
{
    (void)state;
    assert_true(warm_memory_is_short(0, 1000) && warm_memory_is_short(99, 1000));
    assert_false(warm_memory_is_short(100, 1000) || warm_memory_is_short(UINT64_MAX, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_of_python_is_its_words),
        cmocka_unit_test(the_line_of_a_search_has_a_choice),
        cmocka_unit_test(what_needs_a_shell_is_refused_with_a_reason),
        cmocka_unit_test(variables_of_one_trial_do_not_tell_warm_processes_apart),
        cmocka_unit_test(less_than_a_tenth_of_the_memory_is_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
