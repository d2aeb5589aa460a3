/* The manual page shoal-config(5): its table of values says what the parser does, and the page has all keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "node/config/config_yaml.h"
#include "node/core/facts/config.h"

#define TEMPLATE "tools/man/shoal-config.5.in"

static uint8_t scratch[CONFIG_SCRATCH_BYTES];
static char error_text[CONFIG_ERROR_BYTES];

static int parse(const char *key, const char *value, struct config *out)
{
    char text[512];
    (void)snprintf(text, sizeof text, "entrypoint: x\n%s: %s\n", key, value);
    return config_parse_yaml("exp.yaml", text, strlen(text), NULL, 0, scratch, sizeof scratch, out, error_text);
}

/* The value as a hyperparameter, in JSON. */
static const char *hyperparameter(const char *written)
{
    static char out[256];
    static uint8_t bytes[SEARCH_VALUES_BYTES_MAX];
    struct config config;
    struct pack_writer writer;
    struct pack_reader reader;
    char value[256];
    (void)snprintf(value, sizeof value, "\n  x: {type: const, val: %s}", written);
    assert_int_equal(parse("hyperparameters", value, &config), 0);
    struct search_space space = config_search_space(&config);
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(search_trial_values(&space, 0, 0, &writer), 0);
    pack_reader_init(&reader, bytes, writer.used_bytes);
    struct pack_reader found = pack_find(&reader, "x");
    assert_int_equal(json_from_pack(&found, out, sizeof out), 0);
    return out;
}

static const char *variable(const char *written)
{
    static char out[256];
    struct config config;
    struct pack_reader map;
    char value[256];
    size_t bytes;
    (void)snprintf(value, sizeof value, "\n  variables:\n    X: %s", written);
    assert_int_equal(parse("environment", value, &config), 0);
    pack_reader_init(&map, config.environment, config.environment_bytes);
    assert_int_equal(pack_read_map(&map), 1);
    pack_skip(&map);
    const char *text = pack_read_text(&map, &bytes);
    (void)snprintf(out, sizeof out, "%.*s", (int)bytes, text);
    return out;
}

/* Cuts the line at the signs between columns; false if there are not three. "\&" is troff's for nothing. */
static bool split(char *line, char *columns[3])
{
    line[strcspn(line, "\n")] = '\0';
    for (size_t i = 0; i < 3; i++) {
        columns[i] = strncmp(line, "\\&", 2) == 0 ? line + 2 : line;
        line = strchr(line, '|');
        if (i < 2 && line == NULL) {
            return false;
        }
        if (line != NULL) {
            *line++ = '\0';
        }
    }
    return true;
}

static void the_table_of_values_says_what_the_parser_does(void **state)
{
    (void)state;
    static const char *const wanted[] = {"no", "1_000", "0777", "1:30"};
    FILE *file = fopen(TEMPLATE, "r");
    char line[1024], *columns[3];
    unsigned rows = 0, found = 0;
    bool is_table = false;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        bool is_head = strncmp(line, "written|", 8) == 0;
        is_table = (is_table || is_head) && strncmp(line, ".TE", 3) != 0;
        if (!is_table || is_head || !split(line, columns)) {
            continue;
        }
        rows++;
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
            found += strcmp(columns[0], wanted[i]) == 0;
        }
        assert_string_equal(hyperparameter(columns[0]), columns[1]);
        assert_string_equal(variable(columns[0]), columns[2]);
    }
    (void)fclose(file);
    assert_true(rows >= 15);
    assert_int_equal(found, sizeof wanted / sizeof wanted[0]);
}

static void the_sentences_about_values_hold(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"balance", "on"}, {"balance", "off"}, {"stall_timeout", "90"}, {"stall_timeout", "90s"}, {"stall_timeout", "1h30m"},
        {"keep_bytes_max", "512M"}, {"keep_bytes_max", "16GiB"}, {"seed", "0777"}, {"description", "null"}, {"x-a", "[&a 1]"}};
    static const char *const bad[][2] = {
        {"balance", "yes"}, {"balance", "no"}, {"stall_timeout", "5min"}, {"keep_bytes_max", "16GB"}, {"seed", "1_000"},
        {"seed", "1:30"}, {"hyperparameters", "{a: .inf}"}, {"hyperparameters", "{a: .nan}"}, {"seed", "!!int 3"},
        {"hyperparameters", "{a: 99999999999999999999}"}, {"environment", "{variables: {A: [1]}}"}};
    struct config config;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(parse(good[i][0], good[i][1], &config), 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_not_equal(parse(bad[i][0], bad[i][1], &config), 0);
    }
    assert_string_equal(hyperparameter("'no'"), "\"no\"");
}

static char page[256 * 1024];

static void see_row(void *context, const struct config_option_text *text)
{
    char wanted[256];
    (void)snprintf(wanted, sizeof wanted, ".TP\n\\fB%s\\fR (%s; default: ", text->key, text->type);
    if (strstr(page, wanted) == NULL) {
        fail_msg("the page lacks '%s'", wanted);
    }
    (*(unsigned *)context)++;
}

static void the_page_has_every_key(void **state)
{
    (void)state;
    unsigned rows = 0;
    FILE *file = popen(CONFIG_PAGE " " TEMPLATE " /dev/stdout", "re");
    assert_non_null(file);
    size_t bytes = fread(page, 1, sizeof page - 1, file);
    assert_int_equal(pclose(file), 0);
    page[bytes] = '\0';
    assert_null(strstr(page, "@KEYS@"));
    assert_non_null(strstr(page, "\n.SH SEE ALSO\n"));
    config_describe(see_row, &rows);
    assert_true(rows > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_values_says_what_the_parser_does),
        cmocka_unit_test(the_sentences_about_values_hold),
        cmocka_unit_test(the_page_has_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
