/* Which Python an entrypoint runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/workers/platform.h"

static void the_interpreter_of_an_entrypoint_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *entrypoint, *python; /* NULL: none */
    } cases[] = {
        {"python3 train.py --lr 0.1", "python3"},
        {"exec python -u train.py", "python"},
        {"A=1 /opt/py/bin/python3.11 train.py", "/opt/py/bin/python3.11"},
        {"venv/bin/python train.py", "/run/work/venv/bin/python"},
        {". /home/anna/env/bin/activate && python train.py", "/home/anna/env/bin/python"},
        {"source env/bin/activate\npython train.py\n", "/run/work/env/bin/python"},
        {"torchrun --nproc_per_node=1 train.py", "python3"},
        {"cd x; '/usr/bin/python3' train.py", "/usr/bin/python3"},
        {"bash run.sh", NULL},
        {"true", NULL},
        {"", NULL},
        {"conda run -n lab python train.py", NULL},
        {". '/opt/conda/etc/profile.d/conda.sh'\nconda activate lab; python train.py", NULL},
        {"docker run image python3 train.py", NULL},
        {"./pythonic train.py", NULL},
        {"cat python3.txt", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char python[PLATFORM_PYTHON_BYTES] = "unchanged";
        assert_int_equal(platform_python(cases[i].entrypoint, "/run/work", python), cases[i].python != NULL);
        if (cases[i].python != NULL) {
            assert_string_equal(python, cases[i].python);
        }
    }
}

static void a_path_that_is_too_long_is_none(void **state)
{
    (void)state;
    char entrypoint[2 * PLATFORM_PYTHON_BYTES], python[PLATFORM_PYTHON_BYTES];
    memset(entrypoint, 'x', sizeof entrypoint);
    entrypoint[0] = '/';
    memcpy(entrypoint + sizeof entrypoint - 9, "/python3", 9);
    assert_false(platform_python(entrypoint, "/run/work", python));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interpreter_of_an_entrypoint_is_found),
        cmocka_unit_test(a_path_that_is_too_long_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
