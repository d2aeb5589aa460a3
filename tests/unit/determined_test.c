/* Configuration files in the shapes that Determined has them: what is read, what is told, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/config/advice.h"
#include "node/core/facts/config.h"

static char told[8192], error_text[CONFIG_ERROR_BYTES];
static struct config config;

static void tell(void *context, const char *sentence)
{
    (void)context;
    size_t used = strlen(told);
    (void)snprintf(told + used, sizeof told - used, "%s\n", sentence);
}

/* Reads a file, and collects in `told` what its sender is told. */
static int parse(const char *text, const char *override)
{
    static uint8_t scratch[CONFIG_SCRATCH_BYTES];
    const size_t count = override != NULL;
    told[0] = '\0';
    int result = config_parse_yaml("exp.yaml", text, strlen(text), &override, count, scratch, sizeof scratch, &config, error_text);
    if (result == 0) {
        advice_give_file("exp.yaml", text, strlen(text), &override, count, tell, NULL);
    }
    return result;
}

static void expect_told(const char *text, const char *override, const char *wanted)
{
    if (parse(text, override) != 0) {
        fail_msg("%s", error_text);
    }
    if (wanted[0] == '\0' ? told[0] != '\0' : strstr(told, wanted) == NULL) {
        fail_msg("'%s' is wanted, told is '%s'", wanted, told);
    }
}

static void keys_without_a_meaning_are_told_with_their_place_and_what_happens_instead(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"debug: true\n", "exp.yaml:2: debug has no effect: "},
        {"bind_mounts:\n  - {host_path: /srv, container_path: /srv}\n", "exp.yaml:2: bind_mounts has no effect: there are no containers"},
        {"environment:\n  image: some/image:1\n", "exp.yaml:3: environment.image has no effect: there are no containers"},
        {"environment:\n  image: {cpu: a, gpu: b}\n  force_pull_image: true\n", "exp.yaml:4: environment.force_pull_image has no effect"},
        {"environment:\n  proxy_ports:\n  - proxy_port: 9000\n    proxy_tcp: true\n", "environment.proxy_ports has no effect: there is no proxy"},
        {"resources: {resource_pool: big}\n", "use slot_kind"},
        {"resources: {shm_size: 1000000}\n", "/dev/shm"},
        {"records_per_epoch: 500\n", "records_per_epoch has no effect"},
        {"checkpoint_storage: {type: shared_fs, save_trial_latest: 3}\n", "below checkpoint"},
        {"min_validation_period: {batches: 7}\n", "min_validation_period has no effect"},
        {"min_checkpoint_period: {epochs: 1}\n", "min_checkpoint_period has no effect"},
        {"profiling: {enabled: true, begin_on_batch: 0}\n", "profiling has no effect: shoal show"},
        {"searcher: {name: single, metric: m, max_length: {batches: 50}}\n", "searcher.max_length has no effect"},
        {"searcher: {name: grid, metric: m, max_concurrent_trials: 2}\n", ""},
        {"searcher: {name: adaptive_asha, metric: m, max_trials: 10, time_metric: batches, max_time: 100}\n", ""},
        {"searcher: {name: adaptive_asha, metric: m, max_trials: 5, max_time: 400, max_rungs: 2, mode: aggressive, divisor: 2}\n", ""},
        {"searcher: {name: adaptive_asha, metric: m, max_trials: 5, max_length: {epochs: 5}, stop_once: true}\n", ""},
        {"searcher: {name: async_halving, metric: m, max_trials: 5, num_rungs: 2, max_length: {batches: 50}}\n", ""},
        {"data: {root: /srv/data}\n", "data has no effect: "},
        {"reproducibility: {experiment_seed: 4}\n", "write seed"},
        {"bind_mounts: []\nenvironment: {}\nhyperparameters: {}\nresources: {}\n", "bind_mounts has no effect"},
        /* Keys that are not given, and hyperparameters of such names, are not told. */
        {"debug:\nenvironment: {image: null}\n", ""},
        {"hyperparameters: {debug: true, data: {a: 1}, none: {}, nothing: null, listed: []}\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "entrypoint: python3 t.py\n%s", cases[i].text);
        expect_told(text, NULL, cases[i].wanted);
    }
    expect_told("entrypoint: x\n", "debug=true", "--set debug=true: debug has no effect");
}

static void no_slot_is_one_slot(void **state)
{
    (void)state;
    expect_told("entrypoint: x\nresources:\n  slots_per_trial: 0\n", NULL,
                "exp.yaml:3: resources.slots_per_trial is 0, and a trial gets one slot");
    assert_int_equal(config.slots_per_trial, 1);
    assert_int_equal(config.min_slots, 1);
    assert_int_equal(config.max_slots, 1);
    assert_int_equal(parse("entrypoint: x\nresources: {slots_per_trial: '0'}\n", NULL), ERR_MALFORMED);
    expect_told("entrypoint: x\nresources:\n  slots: 0\n", NULL, "exp.yaml:3: resources.slots is 0, and a trial gets one slot");
}

static void slots_of_a_task_are_slots_of_a_trial(void **state)
{
    (void)state;
    expect_told("entrypoint: x\nresources: {slots: 3}\n", NULL, "");
    assert_int_equal(config.slots_per_trial, 3);
    assert_int_equal(parse("entrypoint: x\nresources: {slots: many}\n", NULL), ERR_MALFORMED);
    assert_int_equal(parse("entrypoint: x\nresources: {slots: 3, slots_per_trial: 2}\n", NULL), ERR_MALFORMED);
}

static void launchers_of_one_process_per_slot_are_dropped(void **state)
{
    (void)state;
    static const struct {
        const char *text, *command;
    } cases[] = {
        {"entrypoint: python3 -m determined.launch.torch_distributed python3 t.py --lr 1\n", "python3 t.py --lr 1"},
        {"entrypoint: >-\n  python -m determined.launch.deepspeed\n  python t.py\n", "python t.py"},
        {"entrypoint: |\n  python3 -m determined.launch.torch_distributed \\\n    python3 t.py \\\n    -a\n", "python3 t.py \\\n  -a"},
        {"entrypoint: [python3, -m, determined.launch.torch_distributed, python3, t.py, a b]\n", "python3 t.py 'a b'"},
        {"entrypoint: python3 -m determined.launch.torch_distributed --max_restarts 2 -- python3 t.py -- b\n", "python3 t.py -- b"},
        {"entrypoint: python3 -m determined.launch.tensorflow -- python3 t.py\n", "python3 t.py"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_told(cases[i].text, NULL, " is dropped from the entrypoint: Shoal starts one process per slot");
        assert_string_equal(config_entrypoint(&config), cases[i].command);
    }
    assert_non_null(strstr(told, "exp.yaml:1: determined.launch.tensorflow is dropped"));
    assert_non_null(strstr(told, "TF_CONFIG"));
}

static void a_long_command_behind_a_launcher_is_whole(void **state)
{
    (void)state;
    char text[3 * CONFIG_ENTRYPOINT_BYTES], command[2 * CONFIG_ENTRYPOINT_BYTES] = "python3 t.py ";
    size_t start = strlen(command);
    memset(command + start, 'a', sizeof command - start - 1);
    command[sizeof command - 1] = '\0';
    (void)snprintf(text, sizeof text, "entrypoint: python3 -m determined.launch.torch_distributed %s\nname: after\n", command);
    expect_told(text, NULL, "is dropped");
    assert_string_equal(config_entrypoint(&config), command);
    assert_string_equal(config.name, "after");
}

static void other_launchers_are_refused_with_one_sentence(void **state)
{
    (void)state;
    static const char *const entrypoints[] = {
        "python3 -m determined.launch.horovod python3 t.py", "python3 -m determined.launch.deepspeed --trial model:Trial",
        "python3 -m determined.launch.torch_distributed", "python3 -m determined.launch.torch_distributed --nnodes 2",
        "python3 -m determined.launch.torch_distributed --nnodes 2 --",
    };
    for (size_t i = 0; i < sizeof entrypoints / sizeof entrypoints[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "name: a\nentrypoint: %s\n", entrypoints[i]);
        assert_int_equal(parse(text, NULL), ERR_MALFORMED);
        if (strncmp(error_text, "exp.yaml:2: the launcher determined.launch.", 43) != 0 || strchr(error_text, '\n') != NULL) {
            fail_msg("%s", error_text);
        }
    }
}

static void programs_that_are_no_launchers_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "python3 -m determined_launch.torch_distributed python3 t.py", "echo python3 -m determined.launch.torch_distributed x",
        "python3 -m determined.launch. x", "python3 -m torch.distributed.run t.py", "python3 t.py ${HOME}/a ${B:-c}", "python3",
        "python3 -m",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "entrypoint: %s\n", commands[i]);
        expect_told(text, NULL, "");
        assert_string_equal(config_entrypoint(&config), commands[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_without_a_meaning_are_told_with_their_place_and_what_happens_instead),
        cmocka_unit_test(no_slot_is_one_slot),
        cmocka_unit_test(slots_of_a_task_are_slots_of_a_trial),
        cmocka_unit_test(launchers_of_one_process_per_slot_are_dropped),
        cmocka_unit_test(a_long_command_behind_a_launcher_is_whole),
        cmocka_unit_test(other_launchers_are_refused_with_one_sentence),
        cmocka_unit_test(programs_that_are_no_launchers_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
