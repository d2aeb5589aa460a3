/* shoal config, code, fork, reproduce and compare: what was submitted comes back, and goes out again with changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/document.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

#define FILE_TEXT "entrypoint: python3 train.py\n# shoal: set max_restarts=2\n# shoal: commit 0123abcd\n# shoal: version 0.0.1\n"
#define FILE_BYTES "105"

#define FILE_REPLY(more) "\"ok\":true,\"end\":true,\"experiment\":\"a1b2c3d4e5f60718\",\"links\":false,\"large\":false," more
#define SUBMITTED "\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":3"
#define CONFIG "\"ok\":true,\"end\":true,\"config\":{\"seed\":7,\"seed_of_trial\":0,\"resources\":{\"priority\":42}}"

#define CHECKPOINTS                                                                                                                 \
    "\"ok\":true,\"end\":true,\"checkpoints\":[{\"trial\":0,\"step\":100},{\"trial\":0,\"step\":300},{\"trial\":1,\"step\":900}," \
    "{\"trial\":0,\"step\":700,\"path\":\"a.pt\"}]"

static const struct answer answers[] = {{"ls", {EXPERIMENTS}, NULL},
                                        {"config_get", {FILE_REPLY("\"bytes\":" FILE_BYTES)}, FILE_TEXT},
                                        {"code_get", {FILE_REPLY("\"bytes\":4")}, "code"},
                                        {"config", {CONFIG}, NULL},
                                        {"show", {SHOWN("completed", "\"end\":true")}, NULL},
                                        {"slots", {"\"ok\":true,\"end\":true,\"slots\":[{\"node\":\"01\",\"index\":1,\"model\":\"RTX\"}]"}, NULL},
                                        {"submit", {SUBMITTED}, NULL},
                                        {"checkpoint_ls", {CHECKPOINTS}, NULL},
                                        {"platform", {"\"ok\":true,\"end\":true,\"bytes\":0"}, NULL},
                                        {NULL, {NULL}, NULL}};

static void the_file_is_shown_as_it_was_submitted(void **state)
{
    (void)state;
    fake_start(answers);
    assert_int_equal(RUN("config", "mlp", "--file"), CLI_DONE);
    assert_string_equal(out_text, FILE_TEXT);
    assert_int_equal(RUN("config", "mlp"), CLI_DONE);
    assert_string_equal(out_text, "seed: 7\nseed_of_trial: 0\nresources.priority: 42\n");
    assert_int_equal(RUN("config", "mlp", "--json"), CLI_DONE);
    assert_has(out_text, "{\"config\": {\"seed\": 7,");
    assert_int_equal(RUN("config", "mlp", "--json", "--file"), CLI_USAGE);
    fake_stop();
}

#define SEARCH_TEXT                                                                                                    \
    "entrypoint: x\nhyperparameters: {x: {type: int, minval: 0, maxval: 9}}\n"                                         \
    "searcher: {name: random, metric: loss, max_trials: 8}\n# shoal: version 0.0.1\n"
#define SEARCH_BYTES "147"

/* As `answers`, of an experiment whose priority and trials users have changed. */
static const struct answer changed_answers[] = {
    {"ls", {EXPERIMENTS}, NULL},
    {"config_get", {FILE_REPLY("\"bytes\":" SEARCH_BYTES)}, SEARCH_TEXT},
    {"code_get", {FILE_REPLY("\"bytes\":4")}, "code"},
    {"config",
     {"\"ok\":true,\"end\":true,\"config\":{\"seed_of_trial\":0,\"searcher\":{\"max_trials\":12},\"resources\":{\"priority\":5}},"
      "\"changed\":{\"resources.priority\":42,\"searcher.max_trials\":8}"},
     NULL},
    {"show", {SHOWN("completed", "\"end\":true")}, NULL},
    {"submit", {SUBMITTED}, NULL},
    {"checkpoint_ls", {CHECKPOINTS}, NULL},
    {NULL, {NULL}, NULL}};

static void options_that_users_have_changed_are_said_to_be_so(void **state)
{
    (void)state;
    fake_start(changed_answers);
    assert_int_equal(RUN("config", "mlp"), CLI_DONE);
    assert_string_equal(out_text, "seed_of_trial: 0\nsearcher.max_trials: 12  # changed; it was submitted with 8\n"
                                  "resources.priority: 5  # changed; it was submitted with 42\n");
    assert_int_equal(RUN("config", "mlp", "--json"), CLI_DONE);
    assert_has(out_text, "\"changed\": {\"resources.priority\": 42, \"searcher.max_trials\": 8}");
    fake_stop();
}

/* The overrides of the last request, a line each. */
static const char *overrides_sent(void)
{
    static char text[1024];
    msgpack_object request = last_request();
    msgpack_object_array list = document_list(&request, "overrides");
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < list.size; i++) {
        char value[512];
        document_value_text(&list.ptr[i], value, sizeof value);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\n", value);
    }
    return text;
}

static const char *text_sent(void)
{
    static char text[1024];
    msgpack_object request = last_request();
    uint64_t bytes = document_number(&request, "config_bytes");
    assert_true(bytes < sizeof text);
    assert_int_equal(pread(fake.passed_fd, text, bytes, (off_t)document_number(&request, "bytes")), bytes);
    text[bytes] = '\0';
    return text;
}

static void a_fork_has_the_same_code_and_file_and_what_was_changed(void **state)
{
    (void)state;
    fake_start(answers);
    assert_int_equal(RUN("fork", "mlp", "--set", "seed=9"), CLI_DONE);
    assert_string_equal(overrides_sent(), "max_restarts=2\nname='mlp-2'\nseed=9\n");
    assert_string_equal(text_sent(), "entrypoint: python3 train.py\n# shoal: set max_restarts=2\n# shoal: set name='mlp-2'\n"
                                     "# shoal: set seed=9\n# shoal: commit 0123abcd\n# shoal: version " SHOAL_VERSION
                                     "\n# shoal: from a1b2c3d4e5f60718\n");
    char code[5] = "";
    assert_int_equal(pread(fake.passed_fd, code, 4, 0), 4);
    assert_string_equal(code, "code");
    (void)close(fake.passed_fd);
    assert_has(out_text, "submitted mlp-2 (");
    assert_int_equal(RUN("fork", "mlp", "--set", "max_restart=9"), CLI_REFUSED);
    assert_sentence("max_restart");
    assert_int_equal(RUN("fork", "unknown"), CLI_NO_SUCH_THING);
    fake_stop();
}

static void a_fork_takes_over_what_users_have_changed(void **state)
{
    (void)state;
    fake_start(changed_answers);
    assert_int_equal(RUN("fork", "mlp", "--set", "resources.priority=7"), CLI_DONE);
    assert_string_equal(overrides_sent(), "name='mlp-2'\nresources.priority=5\nsearcher.max_trials=12\nresources.priority=7\n");
    assert_has(err_text_written, "resources.priority=5 is taken over; mlp was submitted with 42\n");
    (void)close(fake.passed_fd);
    assert_int_equal(RUN("fork", "mlp/0"), CLI_DONE); /* one trial has a searcher of its own */
    assert_has(overrides_sent(), "resources.priority=5\n");
    assert_lacks(overrides_sent(), "max_trials");
    (void)close(fake.passed_fd);
    fake_stop();
}

static void a_trial_is_reproduced_with_its_values_and_its_seed(void **state)
{
    (void)state;
    fake_start(answers);
    assert_int_equal(RUN("reproduce", "mlp/0"), CLI_DONE);
    assert_string_equal(overrides_sent(), "max_restarts=2\nname='mlp-2'\n"
                                          "searcher={name: single, metric: 'accuracy', smaller_is_better: false}\n"
                                          "hyperparameters={\"hidden\" : {type: const, val: [64, 32] }, \"learning_rate\" : {type: const, "
                                          "val: 0.0125 }}\nseed_of_trial=0\n");
    assert_has(text_sent(), "# shoal: from a1b2c3d4e5f60718/0\n");
    (void)close(fake.passed_fd);
    assert_has(out_text, "shoal compare mlp/0 ");
    assert_sentence("it was submitted by Shoal 0.0.1, and is now by " SHOAL_VERSION);
    assert_int_equal(RUN("reproduce", "mlp/9"), CLI_NO_SUCH_THING);
    assert_sentence("mlp has no trial 9");
    assert_int_equal(RUN("reproduce", "mlp"), CLI_USAGE);
    fake_stop();
}

static void a_trial_is_forked_from_one_of_its_checkpoints(void **state)
{
    (void)state;
    static const struct {
        const char *target, *wanted;
    } rows[] = {{"mlp/0", "@300"}, {"mlp/0@100", "@100"}, {"mlp/0@50", "@50"}}; /* the daemon knows that there is none */
    fake_start(answers);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char wanted[512], target[16];
        (void)snprintf(target, sizeof target, "%s", rows[i].target);
        assert_int_equal(RUN("fork", target, "--set", "hyperparameters.learning_rate=0.1"), CLI_DONE);
        (void)snprintf(wanted, sizeof wanted, "seed_of_trial=0\ncheckpoint.begin_from=a1b2c3d4e5f60718/0%s\n"
                                              "hyperparameters.learning_rate=0.1\n", rows[i].wanted);
        assert_has(overrides_sent(), wanted);
        assert_has(overrides_sent(), "searcher={name: single,");
        assert_has(text_sent(), "# shoal: from a1b2c3d4e5f60718/0\n");
        (void)close(fake.passed_fd);
    }
    assert_int_equal(RUN("fork", "mlp/9"), CLI_NO_SUCH_THING);
    assert_sentence("mlp has no trial 9");
    assert_int_equal(RUN("fork", "mlp/0@x"), CLI_USAGE);
    fake_stop();
}

static void what_differs_between_trials_is_shown_and_nothing_else(void **state)
{
    (void)state;
    fake_start(answers);
    assert_int_equal(RUN("compare", "mlp/0", "mlp/1", "--csv"), CLI_DONE);
    assert_string_equal(out_text, "key,mlp/0,mlp/1\n"
                                  "hyperparameters.hidden,\"[64, 32]\",\n"
                                  "hyperparameters.learning_rate,0.0125,\n"
                                  "state,completed,failed\n"
                                  "training.loss,0.25,\n"
                                  "validation.accuracy,0.9,\n"
                                  "step,300,0\n"
                                  "restarts,0,5\n"
                                  "slots,RTX,\n");
    assert_int_equal(RUN("compare", "mlp", "mlp/0"), CLI_DONE); /* the best trial is trial 0 */
    assert_string_equal(out_text, "nothing differs; --all shows what is equal\n");
    assert_int_equal(RUN("compare", "mlp", "mlp/0", "--all"), CLI_DONE);
    assert_has(out_text, "resources.priority");
    assert_has(out_text, "0123abcd");
    assert_int_equal(RUN("compare", "mlp/0", "mlp/1", "--json"), CLI_DONE);
    assert_has(out_text, "{\"compared\": [\"mlp/0\", \"mlp/1\"], \"rows\": [{\"key\": \"hyperparameters.hidden\", \"differs\": true, "
                         "\"values\": [\"[64, 32]\", null]}");
    assert_int_equal(RUN("compare", "mlp/0", "mlp/7"), CLI_NO_SUCH_THING);
    assert_sentence("mlp has no trial 7");
    assert_int_equal(RUN("compare", "mlp/0"), CLI_USAGE);
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_file_is_shown_as_it_was_submitted, stop_what_runs),
        cmocka_unit_test_teardown(a_fork_has_the_same_code_and_file_and_what_was_changed, stop_what_runs),
        cmocka_unit_test_teardown(options_that_users_have_changed_are_said_to_be_so, stop_what_runs),
        cmocka_unit_test_teardown(a_fork_takes_over_what_users_have_changed, stop_what_runs),
        cmocka_unit_test_teardown(a_trial_is_reproduced_with_its_values_and_its_seed, stop_what_runs),
        cmocka_unit_test_teardown(a_trial_is_forked_from_one_of_its_checkpoints, stop_what_runs),
        cmocka_unit_test_teardown(what_differs_between_trials_is_shown_and_nothing_else, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
