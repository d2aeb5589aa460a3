/* What submit warns of: braces that are almost placeholders, and variables that Shoal sets or needs itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/config/advice.h"

static char told[8192];

static void tell(void *context, const char *sentence)
{
    (void)context;
    size_t used = strlen(told);
    (void)snprintf(told + used, sizeof told - used, "%s\n", sentence);
}

/* Collects what is told of a configuration with these hyperparameters, and with this entrypoint and these variables. */
static void advise(const char *entrypoint, const char *variables)
{
    static uint8_t scratch[CONFIG_SCRATCH_BYTES];
    static char error[CONFIG_ERROR_BYTES];
    char text[4096];
    struct config config;
    told[0] = '\0';
    (void)snprintf(text, sizeof text,
                   "entrypoint: |\n  %s\n"
                   "hyperparameters: {lr: 0.1, opt: {mom: {type: int, minval: 1, maxval: 2}}, data: {type: const, val: {dir: x}}}\n"
                   "environment: {variables: {%s}}\n",
                   entrypoint, variables);
    if (config_parse_yaml("exp.yaml", text, strlen(text), NULL, 0, scratch, sizeof scratch, &config, error) != 0) {
        fail_msg("%s", error);
    }
    advice_give(&config, tell, NULL);
}

static void braces_that_are_almost_placeholders_are_told_with_the_right_spelling(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{{lr}}", "{{hp.lr}}"},
        {"{{ opt.mom }}", "{{hp.opt.mom}}"},
        {"{{hparams.lr}}", "{{hp.lr}}"},
        {"${{ hparams.lr }}", "{{hp.lr}}"},
        {"{{HP.lr}}", "{{hp.lr}}"},
        {"{{hp_lr}}", "{{hp.lr}}"},
        {"{{hp:lr}}", "{{hp.lr}}"},
        {"{{hparams['lr']}}", "{{hp.lr}}"},
        {"{{hyperparameters.data.dir}}", "{{hp.data.dir}}"},
        {"{{hparams.lrr}}", "{{hp.lr}}"},
        {"{{hparams.momentum_of_all}}", "{{hp.NAME}}"},
        {"${hp.lr}", "{{hp.lr}}"},
        {"{hp.lr}", "{{hp.lr}}"},
        {"'{{lr}}'", "{{hp.lr}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[128], wanted[160];
        (void)snprintf(line, sizeof line, "t --x %s", cases[i][0]);
        (void)snprintf(wanted, sizeof wanted, "is no placeholder and stays as it is; write %s if it stands for a hyperparameter\n",
                       cases[i][1]);
        advise(line, "");
        if (strstr(told, wanted) == NULL || strchr(told, '\n') != told + strlen(told) - 1) {
            fail_msg("of %s is told: '%s'", line, told);
        }
    }
}

static void placeholders_and_templates_of_programs_are_not_told(void **state)
{
    (void)state;
    static const char *const lines[] = {"t {{hp.lr}} {{ hp.lr }} ${{hp.lr}}", "docker inspect -f '{{.Id}}' {{x}} {{ hpx }}",
                                        "t ${lr} ${hp_lr} {lr} {} {{}} {{{lr}}}", "t x # {{lr}} is no more",
                                        "python3 -c 'print({\"a\": {1: 2}})'", "t \\{{hp.lr}}", "t {{hp_}} {{hp.lr}}{{", "t {{lr"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        advise(lines[i], "");
        assert_string_equal(told, "");
    }
}

static void variables_that_shoal_sets_or_needs_are_told(void **state)
{
    (void)state;
    advise("t", "CUDA_VISIBLE_DEVICES: '0', A: b");
    assert_non_null(strstr(told, "'CUDA_VISIBLE_DEVICES' has no effect on GPU slots, where each worker sees the GPUs of its trial"));
    advise("t", "CUDA_DEVICE_ORDER: FASTEST_FIRST");
    assert_non_null(strstr(told, "'CUDA_DEVICE_ORDER' has no effect on GPU slots, where it is PCI_BUS_ID"));
    advise("t", "TORCHELASTIC_USE_AGENT_STORE: 'True'");
    assert_non_null(strstr(told, "takes the place of False: with True all ranks wait"));
    advise("t", "LR: 'x {{hp.lr}}'");
    assert_non_null(strstr(told, "'LR' has {{hp.lr}}, which is filled in the entrypoint only"));
    /* Their values are used, and nothing of Shoal's needs another one. */
    advise("t", "ROLE_NAME: worker, OMP_NUM_THREADS: 4, NCCL_SOCKET_IFNAME: eth0, PATH: /opt/bin, LR: '{{lr}} {hp.lr}'");
    assert_string_equal(told, "");
}

/* What is told of a file with this searcher, and with an override if there is one. */
static void advise_searcher(const char *searcher, const char *override)
{
    char text[512];
    told[0] = '\0';
    (void)snprintf(text, sizeof text, "entrypoint: ./t\nsearcher: {name: single%s}\n", searcher);
    advice_give_file("exp.yaml", text, strlen(text), &override, override != NULL ? 1 : 0, tell, NULL);
}

static void a_metric_of_which_the_smallest_would_be_the_best_by_mistake_is_told(void **state)
{
    (void)state;
    static const char *const larger[] = {"accuracy", "val_Acc", "eval/F1", "test.roc_auc", "mAP50", "top1-precision", "IoU", "r2", "f1_score"};
    static const char *const smaller[] = {"loss", "accuracy_loss", "val/perplexity", "error", "macro", "wer"};
    char searcher[128], wanted[512];
    for (size_t i = 0; i < sizeof larger / sizeof larger[0]; i++) {
        (void)snprintf(searcher, sizeof searcher, ", metric: %s", larger[i]);
        (void)snprintf(wanted, sizeof wanted,
                       "the smallest %s counts as the best, since searcher.smaller_is_better is not set; set it to false if larger is "
                       "better (--set searcher.smaller_is_better=false)\n",
                       larger[i]);
        advise_searcher(searcher, NULL);
        assert_string_equal(told, wanted);
        advise_searcher(searcher, "searcher.smaller_is_better=false");
        assert_string_equal(told, "");
    }
    for (size_t i = 0; i < sizeof smaller / sizeof smaller[0]; i++) {
        (void)snprintf(searcher, sizeof searcher, ", metric: %s", smaller[i]);
        advise_searcher(searcher, NULL);
        assert_string_equal(told, "");
    }
    advise_searcher(", metric: acc, smaller_is_better: true", NULL); /* the user has said so */
    assert_string_equal(told, "");
    advise_searcher("", NULL); /* without a metric nothing is chosen by it */
    assert_string_equal(told, "");
    advise_searcher("", "searcher.metric=accuracy");
    assert_non_null(strstr(told, "the smallest accuracy counts as the best"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(braces_that_are_almost_placeholders_are_told_with_the_right_spelling),
        cmocka_unit_test(placeholders_and_templates_of_programs_are_not_told),
        cmocka_unit_test(variables_that_shoal_sets_or_needs_are_told),
        cmocka_unit_test(a_metric_of_which_the_smallest_would_be_the_best_by_mistake_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
