/* Which variables of the daemon pass to programs; the lists of the manual are those of the code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/workers/inherited.h"

static void a_lab_s_variables_pass_and_those_of_launchers_never(void **state)
{
    (void)state;
    static const char *const rules[] = {"WANDB_API_KEY", "MY_*", "GIVEN=1", "S*"};
    const struct inherited_rules none = {NULL, 0}, some = {rules, 4};
    static const char *const passing[] = {"HOME=/x", "http_proxy=p", "HTTPS_PROXY=p", "HF_HOME=/x", "HF_TOKEN=t", "CUDA_HOME=/c",
                                          "PYTHONPATH=/p", "XDG_RUNTIME_DIR=/r", "SSL_CERT_FILE=/s", "CONDA_EXE=/c", "LC_TIME=C"};
    static const char *const asked[] = {"WANDB_API_KEY=k", "MY_=1", "MY_DATA=/d", "SOME=1"};
    static const char *const never[] = {"SLURM_JOB_ID=1", "PMI_RANK=0", "PMIX_RANK=0", "OMPI_COMM_WORLD_RANK=0",
                                        "MV2_COMM_WORLD_RANK=0", "RANK=0", "MASTER_PORT=1", "TORCHELASTIC_RUN_ID=x",
                                        "SHOAL_TOKEN=x", "SHOAL_HP_LR=1"};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        assert_true(inherited_passes(passing[i], &none));
    }
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        assert_false(inherited_passes(asked[i], &none));
        assert_true(inherited_passes(asked[i], &some));
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        assert_false(inherited_passes(never[i], &some));
    }
    assert_false(inherited_passes("HOMES=1", &none));
    assert_false(inherited_passes("GIVEN=2", &some)); /* the rule gives the value itself */
}

static void rules_are_checked_with_a_sentence(void **state)
{
    (void)state;
    char text[256];
    static const char *const good[] = {"A", "A_1", "A=", "A=b=c", "A*", "WANDB_*"};
    static const char *const bad[] = {"", "*", "1A", "A B", "A-B=1", "A**", "A*=1", "=x"};
    static const char *const refused[] = {"SLURM_JOB_ID", "SLURM_JOB_ID=1", "OMPI_*", "RANK", "MASTER_ADDR=x",
                                          "SHOAL_OUTPUT_DIR", "SHOAL_CHECKPOINT_DIR", "SHOAL_RESTORE_DIR",
                                          "SHOAL_TENSORBOARD_DIR"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_null(inherited_refusal(good[i], text));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_non_null(inherited_refusal(bad[i], text));
        assert_non_null(strstr(text, "wants NAME, NAME=VALUE or PREFIX*"));
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_non_null(inherited_refusal(refused[i], text));
        assert_non_null(strstr(text, "never passes"));
    }
}

static void assert_listed(const char *manual, const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *found = manual;
        size_t bytes = strlen(*names);
        while ((found = strstr(found, *names)) != NULL && (strchr(" \n", found[-1]) == NULL || strchr(" ,.\n", found[bytes]) == NULL)) {
            found++;
        }
        if (found == NULL) {
            fail_msg("shoald(8) does not list %s", *names);
        }
    }
}

static void the_manual_lists_all_of_them(void **state)
{
    (void)state;
    static char manual[65536];
    FILE *file = fopen("tools/man/shoald.8", "r");
    assert_non_null(file);
    manual[fread(manual, 1, sizeof manual - 1, file)] = '\0';
    (void)fclose(file);
    assert_listed(manual, inherited_names);
    assert_listed(manual, inherited_never);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lab_s_variables_pass_and_those_of_launchers_never),
        cmocka_unit_test(rules_are_checked_with_a_sentence),
        cmocka_unit_test(the_manual_lists_all_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
