/* The options of a configuration as they are in force: all of them, and none that has no value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "node/config/config_document.h"
#include "tests/unit/facts_make.h"

static char *document_of(const char *yaml)
{
    static uint8_t scratch[CONFIG_SCRATCH_BYTES], packed[65536];
    static char text[65536], error[CONFIG_ERROR_BYTES];
    struct config config;
    struct pack_writer writer;
    struct pack_reader reader;
    if (config_parse_yaml("exp.yaml", yaml, strlen(yaml), NULL, 0, scratch, sizeof scratch, &config, error) != 0) {
        fail_msg("%s", error);
    }
    pack_writer_init(&writer, packed, sizeof packed);
    config_document(&writer, &config);
    assert_false(writer.failed);
    pack_reader_init(&reader, packed, writer.used_bytes);
    assert_int_equal(json_from_pack(&reader, text, sizeof text), 0);
    return text;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("'%s' is not in:\n%s", part, text);
    }
}

static void defaults_are_filled_in_and_sections_are_whole(void **state)
{
    (void)state;
    const char *text = document_of("entrypoint: python3 train.py\nsearcher: {name: random, max_trials: 4, metric: loss}\n"
                                   "resources: {max_slots: 4}\nhyperparameters: {x: 1}\n");
    assert_has(text, "{\"name\": \"exp\", \"entrypoint\": \"python3 train.py\", \"context\": {\"links\": \"refuse\"}, ");
    assert_has(text, "\"searcher\": {\"name\": \"random\", \"metric\": \"loss\", \"smaller_is_better\": true, \"max_trials\": 4, "
                     "\"max_concurrent_trials\": 16}");
    assert_has(text, "\"resources\": {\"slots_per_trial\": 1, \"min_slots\": 1, \"max_slots\": 4, \"even_hosts\": false, \"priority\": 42,");
    assert_has(text, "\"seed\": 0, ");
    assert_null(strstr(text, "hyperparameters"));
    assert_null(strstr(text, "labels"));
    assert_has(text, "\"environment\": {\"warm\": false}");
}

static void lists_maps_and_a_long_command_are_there(void **state)
{
    (void)state;
    char yaml[4096], command[1500];
    memset(command, 'x', sizeof command - 1);
    command[sizeof command - 1] = '\0';
    (void)snprintf(yaml, sizeof yaml, "entrypoint: %s\nlabels: [a, b]\nkeep: [out]\nenvironment: {variables: {A: 1}}\n", command);
    const char *text = document_of(yaml);
    assert_has(text, "\"labels\": [\"a\", \"b\"]");
    assert_has(text, "\"keep\": [\"out\"]");
    assert_has(text, "\"environment\": {\"variables\": {\"A\": \"1\"}, \"warm\": false}");
    assert_has(text, command);
    assert_null(strstr(text, "max_trials"));
}

static void what_it_waits_for_reads_back(void **state)
{
    (void)state;
    static uint8_t packed[65536];
    static char text[65536];
    struct config config;
    struct pack_writer writer;
    struct pack_reader reader;
    assert_has(document_of("entrypoint: x\nstart_after: 2026-12-01 18:00Z\n"), "\"start_after\": \"2026-12-01T18:00:00Z\"");
    assert_has(document_of("entrypoint: x\nresources: {constraints: {labels: [room=12], memory: 1G, model: A100}}\n"),
               "\"constraints\": {\"model\": [\"A100\"], \"memory\": 1073741824, \"labels\": [\"room=12\"]}");
    make_config(&config, 1, 1);
    (void)snprintf(config.depends_on, sizeof config.depends_on, "a1b2c3d4e5f60718 00000000000000ff");
    pack_writer_init(&writer, packed, sizeof packed);
    config_document(&writer, &config);
    pack_reader_init(&reader, packed, writer.used_bytes);
    assert_int_equal(json_from_pack(&reader, text, sizeof text), 0);
    assert_has(text, "\"depends_on\": [\"a1b2c3d4e5f60718\", \"00000000000000ff\"]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_filled_in_and_sections_are_whole),
        cmocka_unit_test(lists_maps_and_a_long_command_are_there),
        cmocka_unit_test(what_it_waits_for_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
