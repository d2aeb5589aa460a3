/* The program that an entrypoint names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/random.h"
#include "node/core/facts/program.h"
#include "tests/unit/facts_make.h"

static const char *program_of(const char *entrypoint, const char *variable)
{
    static char name[FACT_PROGRAM_BYTES];
    static uint8_t environment[64];
    struct config config;
    struct pack_writer writer;
    make_config(&config, 1, 0);
    assert_true(bytes_copy_text(config.entrypoint, sizeof config.entrypoint, entrypoint));
    pack_writer_init(&writer, environment, sizeof environment);
    pack_map(&writer, variable != NULL);
    if (variable != NULL) {
        pack_text(&writer, variable);
        pack_text(&writer, "/opt/bin");
    }
    config.environment = environment;
    config.environment_bytes = (uint32_t)writer.used_bytes;
    bool found = program_of_config(&config, name);
    assert_true(found == (name[0] != '\0'));
    return name;
}

static void the_first_word_is_the_program(void **state)
{
    (void)state;
    static const struct {
        const char *entrypoint, *program;
    } rows[] = {
        {"python3 train.py", "python3"},
        {"  python train.py --lr {{hp.lr}} | tee log", "python"},
        {"python3.11", "python3.11"},
        {"/opt/x/bin/python train.py", "/opt/x/bin/python"},
        {"torchrun --nproc_per_node=2 x.py", "torchrun"},
        {"accelerate launch x.py", "accelerate"},
        {"'python3' '-m' 'x y'", "python3"},
        {"exec python3 x.py", "python3"},
        {"env python3 x.py", "python3"},
        {"env A=1 B=/x python3 x.py", "python3"},
        {"A=1 B=x,y python3 x.py", "python3"},
        {"nohup nice python3 x.py", "python3"},
        {"cd src && python3 x.py", "python3"},
        {"cd src/a; python3 x.py", "python3"},
        {"set -eu; export A=1 B=2; python3 x.py", "python3"},
        {"set -euo pipefail\n\n# trains\ncd src\npython3 x.py\n", "python3"},
        {"export PATH=/opt/bin; /usr/bin/python3 x.py", "/usr/bin/python3"},
        {"python3;", "python3"},
        {"python3>log", "python3"},
        /* Where the rule cannot tell. */
        {"", ""},
        {"   ", ""},
        {"source env/bin/activate && python3 x.py", ""},
        {". env/bin/activate; python3 x.py", ""},
        {"conda run python3 x.py", ""},
        {"if true; then python3 x.py; fi", ""},
        {"(python3 x.py)", ""},
        {"[ $RANK = 0 ] && python3 x.py", ""},
        {"./run.sh", ""},
        {"bin/python x.py", ""},
        {"~/venv/bin/python x.py", ""},
        {"$PYTHON x.py", ""},
        {"\"python3\" x.py", ""},
        {"{{hp.program}} x.py", ""},
        {"A=\"x y\" python3 x.py", ""},
        {"A=$B python3 x.py", ""},
        {"env -i python3 x.py", ""},
        {"cd $HOME && python3 x.py", ""},
        {"cd src || python3 x.py", ""},
        {"cd src", ""},
        {"PATH=/opt/bin python3 x.py", ""},
        {"export PATH=/opt/bin; python3 x.py", ""},
        {"exit 3", ""},
        {"python3\\ x", ""},
        {"pyth'on3'", ""},
        {"python=3 x=", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(program_of(rows[i].entrypoint, NULL), rows[i].program) != 0) {
            fail_msg("'%s': %s and not %s", rows[i].entrypoint, program_of(rows[i].entrypoint, NULL), rows[i].program);
        }
    }
    char name[FACT_PROGRAM_BYTES + 1];
    memset(name, 'n', sizeof name);
    name[FACT_PROGRAM_BYTES] = '\0';
    assert_string_equal(program_of(name, NULL), ""); /* a name too long for a record */
    assert_string_equal(program_of(name + 1, NULL), name + 1);
}

static void a_path_of_the_configuration_leaves_only_whole_paths(void **state)
{
    (void)state;
    assert_string_equal(program_of("python3 x.py", "HOME"), "python3");
    assert_string_equal(program_of("python3 x.py", "PATH"), "");
    assert_string_equal(program_of("/usr/bin/python3 x.py", "PATH"), "/usr/bin/python3");
}

static void any_text_has_an_answer(void **state)
{
    (void)state;
    static const char letters[] = "py3 \t\n;&|<>'\"\\$`=/.-#(){}[]~cdsetexportenvPATH";
    struct random random;
    random_init(&random, 11);
    for (int round = 0; round < 200000; round++) {
        char text[64];
        size_t count = (size_t)random_below(&random, sizeof text);
        for (size_t i = 0; i < count; i++) {
            text[i] = letters[random_below(&random, sizeof letters - 1)];
        }
        text[count] = '\0';
        const char *name = program_of(text, NULL);
        assert_true(strlen(name) == strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-/"));
    }
}

static void a_list_of_programs_is_searched_by_name(void **state)
{
    (void)state;
    struct fact_programs list = {.count = 2,
                                 .items = {{"python", false, "", ""}, {"python3", true, "3.11.2", "2.6.0+cpu"}}};
    uint8_t body[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    struct fact_program found;
    struct fact_programs read;
    pack_writer_init(&writer, body, sizeof body);
    fact_programs_pack(&writer, &list);
    struct record record = {.kind = FACT_PROGRAMS, .body = body, .body_bytes = (uint16_t)writer.used_bytes};
    assert_int_equal(fact_programs_read(&record, &read), 0);
    assert_true(fact_programs_find(&record, "python3", &found));
    assert_true(found.is_there);
    assert_string_equal(found.torch, "2.6.0+cpu");
    assert_true(fact_programs_find(&record, "python", &found) && !found.is_there);
    assert_false(fact_programs_find(&record, "python3.1", &found));
    (void)bytes_copy_text(list.items[0].name, sizeof list.items[0].name, "python3"); /* twice */
    pack_writer_init(&writer, body, sizeof body);
    fact_programs_pack(&writer, &list);
    record.body_bytes = (uint16_t)writer.used_bytes;
    assert_int_not_equal(fact_programs_read(&record, &read), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_word_is_the_program),
        cmocka_unit_test(a_path_of_the_configuration_leaves_only_whole_paths),
        cmocka_unit_test(any_text_has_an_answer),
        cmocka_unit_test(a_list_of_programs_is_searched_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
