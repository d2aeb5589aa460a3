/* shoal submit: what is sent, and what is refused before anything is sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/archive.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"
#include "tools/shoal/document.h"

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    (void)fclose(file);
}

static void submit_sends_the_file_and_the_code(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"submit",
         {"\"ok\":true,\"end\":false,\"progress\":{\"done_bytes\":1,\"bytes\":2}",
          "\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":3"},
         NULL},
        {NULL, {NULL}, NULL}};
    static const char yaml[] = "name: tiny\nentrypoint: ./train.sh\n";
    char code[128], file[192], train[192], copy[128], error[256];
    (void)snprintf(code, sizeof code, "%s/code", root);
    (void)snprintf(file, sizeof file, "%s/exp.yaml", code);
    (void)snprintf(train, sizeof train, "%s/train.sh", code);
    (void)snprintf(copy, sizeof copy, "%s/copy", root);
    assert_int_equal(mkdir(code, 0755), 0);
    write_text(file, yaml);
    write_text(train, "echo\n");
    fake_start(answers);
    assert_int_equal(RUN("submit", file, "--set", "max_restarts=2", "--set", "seed=4"), CLI_DONE);
    msgpack_object request = last_request();
    char id[32], text[128];
    document_text(&request, "experiment", id, sizeof id);
    assert_int_equal(strlen(id), 16);
    assert_has(out_text, "submitted tiny (");
    assert_has(out_text, "stored on 2 nodes: ");
    assert_string_equal(strrchr(out_text, ' ') + 1, strcat(memcpy(text, id, 17), "\n")); /* the last word */
    msgpack_object_array overrides = document_list(&request, "overrides");
    assert_int_equal(overrides.size, 2);
    document_value(&overrides.ptr[0], text, sizeof text);
    assert_string_equal(text, "max_restarts=2");
    struct stat status;
    assert_int_equal(fstat(fake.passed_fd, &status), 0);
    uint64_t archive_bytes = document_number(&request, "bytes");
    char config[sizeof yaml];
    assert_int_equal(document_number(&request, "config_bytes"), sizeof yaml - 1);
    assert_int_equal(archive_bytes + sizeof yaml - 1, status.st_size);
    assert_int_equal(pread(fake.passed_fd, config, sizeof yaml - 1, (off_t)archive_bytes), sizeof yaml - 1);
    assert_memory_equal(config, yaml, sizeof yaml - 1);
    assert_int_equal(lseek(fake.passed_fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack(fake.passed_fd, copy, 0, ARCHIVE_LINKS_INSIDE, error, sizeof error), 0);
    (void)close(fake.passed_fd);
    (void)snprintf(train, sizeof train, "%s/train.sh", copy);
    assert_string_equal(read_text(train), "echo\n");
    fake_stop();
}

static void what_cannot_run_anywhere_is_said_at_once(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"submit",
         {"\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":3,"
          "\"lacks\":{\"slots\":10,\"kind\":\"cuda\",\"present\":6}"},
         NULL},
        {"ls", {EXPERIMENTS}, NULL},
        {"show",
         {"\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"queued\","
          "\"lacks\":{\"slots\":1,\"kind\":\"any\",\"present\":0}}"},
         NULL},
        {NULL, {NULL}, NULL}};
    char code[128], file[192];
    (void)snprintf(code, sizeof code, "%s/wide", root);
    (void)snprintf(file, sizeof file, "%s/exp.yaml", code);
    assert_int_equal(mkdir(code, 0755), 0);
    write_text(file, "name: wide\nentrypoint: ./train.sh\n");
    fake_start(answers);
    assert_int_equal(RUN("submit", file), CLI_DONE);
    assert_sentence("no trial can begin, for each needs 10 cuda slots and all nodes together have 6;");
    assert_has(out_text, "submitted wide (");
    assert_int_equal(RUN("show", "mlp"), CLI_DONE);
    assert_has(out_text, "\nno trial can begin, for each needs 1 slot and all nodes together have 0\n"
               "machines must join, or the configuration ask for less\n");
    fake_stop();
}

#define NODE(id, name, has, version, torch) \
    "{\"node\":\"" id "\",\"name\":\"" name "\",\"has\":" has ",\"version\":\"" version "\",\"torch\":\"" torch "\"}"

static void which_nodes_have_the_program_is_said_at_once(void **state)
{
    (void)state;
    static const char program[] =
        "\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":3,\"program\":{\"name\":\"python3.13\",\"nodes\":["
        NODE("a", "elm", "false", "", "") "," NODE("b", "oak", "true", "3.13.0", "2.13.0") "," NODE("c", "fir", "true", "3.13.1", "") ","
        NODE("d", "ash", "null", "", "") "]}";
    static const struct answer answers[] = {
        {"submit", {program}, NULL},
        {"ls", {EXPERIMENTS}, NULL},
        {"show",
         {"\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"a1b2c3d4e5f60718\",\"name\":\"mlp\",\"state\":\"running\",\"program\":{"
          "\"name\":\"python3\",\"nodes\":[" NODE("b", "oak", "true", "3.13.0", "2.13.0") ","
          NODE("c", "fir", "true", "3.11.2", "2.13.0") "," NODE("d", "ash", "true", "3.13.9", "2.13.0") "]},\"trials\":["
          "{\"index\":4,\"state\":\"running\",\"slots\":[{\"node\":\"b\"},{\"node\":\"d\"}]},"
          "{\"index\":7,\"state\":\"running\",\"slots\":[{\"node\":\"b\"},{\"node\":\"c\"}]}]}"},
         NULL},
        {NULL, {NULL}, NULL}};
    char code[128], file[192];
    (void)snprintf(code, sizeof code, "%s/python", root);
    (void)snprintf(file, sizeof file, "%s/exp.yaml", code);
    assert_int_equal(mkdir(code, 0755), 0);
    write_text(file, "name: py\nentrypoint: python3.13 x.py\nresources: {slots_per_trial: 2}\n");
    fake_start(answers);
    assert_int_equal(RUN("submit", file), CLI_DONE);
    assert_has(err_text_written,
               "python3.13, which the entrypoint names, is missing on elm; it is on oak (Python 3.13.0), fir (Python 3.13.1)\n");
    assert_has(err_text_written, "python3.13 finds no torch on fir; it does on oak (2.13.0)\n");
    assert_has(err_text_written, "a trial on several nodes may mix versions: Python 3.13.0 with torch 2.13.0 on oak, Python 3.13.1 on fir\n");
    assert_int_equal(RUN("show", "mlp"), CLI_DONE);
    assert_has(out_text, "\ntrial 7 mixes versions: Python 3.13.0 with torch 2.13.0 on oak, Python 3.11.2 with torch 2.13.0 on fir\n");
    assert_lacks(out_text, "trial 4 mixes");
    fake_stop();
}

static void a_dry_run_needs_no_daemon(void **state)
{
    (void)state;
    char code[128], file[192], large[192], venv[192];
    (void)snprintf(code, sizeof code, "%s/dry", root);
    (void)snprintf(file, sizeof file, "%s/exp.yaml", code);
    (void)snprintf(large, sizeof large, "%s/a\nb", code);
    (void)snprintf(venv, sizeof venv, "%s/.venv", code);
    assert_int_equal(mkdir(code, 0755), 0);
    assert_int_equal(mkdir(venv, 0755), 0);
    write_text(file, "name: x\nentrypoint: ./t\n");
    write_text(large, "0123456789012345678901234567890123456789");
    assert_int_equal(RUN("submit", file, "--dry-run"), CLI_DONE);
    assert_has(out_text, "2 files of ");
    assert_has(out_text, "SIZE  FILE\n40 B  a\\nb\n24 B  exp.yaml\n");
    assert_has(out_text, " 0 B  .venv/    never code\n");
    assert_string_equal(err_text_written, "");
    assert_int_equal(RUN("submit", file, "--dry-run", "--json"), CLI_DONE);
    assert_has(out_text, "{\"bytes\": 64, \"file_count\": 2, \"files\": [{\"path\": \"a\\nb\", \"bytes\": 40},");
    assert_has(out_text, "\"why\": \"never code\"");
    write_text(file, "name: x\nentrypoin: ./t\n");
    assert_int_equal(RUN("submit", file, "--dry-run"), CLI_REFUSED); /* a mistake in the file is told as without the option */
}

static void a_bad_file_is_refused_before_anything_is_sent(void **state)
{
    (void)state;
    char file[128];
    (void)snprintf(file, sizeof file, "%s/bad.yaml", root);
    write_text(file, "name: x\nentrypoint: true\nsearchr:\n  name: single\n");
    assert_int_equal(RUN("submit", file), CLI_REFUSED); /* no daemon is needed to see it */
    assert_sentence("bad.yaml:3");
    assert_int_equal(RUN("submit", "/nonexistent/x.yaml"), CLI_REFUSED);
    assert_sentence("/nonexistent/x.yaml cannot be read");
    write_text(file, "name: x\nentrypoint: ./t\n");
    assert_int_equal(RUN("submit", file, "--context", "/nonexistent"), CLI_REFUSED);
    assert_sentence("/nonexistent");
    assert_int_equal(RUN("submit"), CLI_USAGE);
    assert_int_equal(RUN("submit", "-"), CLI_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(submit_sends_the_file_and_the_code, stop_what_runs),
        cmocka_unit_test_teardown(what_cannot_run_anywhere_is_said_at_once, stop_what_runs),
        cmocka_unit_test_teardown(which_nodes_have_the_program_is_said_at_once, stop_what_runs),
        cmocka_unit_test_teardown(a_dry_run_needs_no_daemon, stop_what_runs),
        cmocka_unit_test_teardown(a_bad_file_is_refused_before_anything_is_sent, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
