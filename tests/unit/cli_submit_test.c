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

#include "base/document.h"
#include "store/archive.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

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
    assert_int_equal(RUN("submit", file, "--dry-run"), CLI_DONE);
    assert_has(out_text, "would travel, 39 B in all");
    fake_start(answers);
    assert_int_equal(RUN("submit", file, "--set", "max_restarts=2", "--set", "seed=4"), CLI_DONE);
    msgpack_object request = last_request();
    char id[32], text[128];
    document_text(&request, "experiment", id, sizeof id);
    assert_int_equal(strlen(id), 16);
    assert_has(out_text, "submitted tiny (39 B of code)"); /* as --dry-run: without what the archive adds */
    assert_has(out_text, "stored on 2 nodes: ");
    assert_string_equal(strrchr(out_text, ' ') + 1, strcat(memcpy(text, id, 17), "\n")); /* the last word */
    msgpack_object_array overrides = document_list(&request, "overrides");
    assert_int_equal(overrides.size, 2);
    document_value(&overrides.ptr[0], text, sizeof text);
    assert_string_equal(text, "max_restarts=2");
    struct stat status;
    assert_int_equal(fstat(fake.passed_fd, &status), 0);
    uint64_t archive_bytes = document_number(&request, "bytes");
    static const char stored[] = "name: tiny\nentrypoint: ./train.sh\n# shoal: set max_restarts=2\n# shoal: set seed=4\n"
                                 "# shoal: version " SHOAL_VERSION "\n";
    char config[sizeof stored];
    assert_int_equal(document_number(&request, "config_bytes"), sizeof stored - 1);
    assert_int_equal(archive_bytes + sizeof stored - 1, status.st_size);
    assert_int_equal(pread(fake.passed_fd, config, sizeof stored - 1, (off_t)archive_bytes), sizeof stored - 1);
    assert_memory_equal(config, stored, sizeof stored - 1);
    assert_int_equal(lseek(fake.passed_fd, 0, SEEK_SET), 0);
    assert_int_equal(archive_unpack(fake.passed_fd, copy, 0, ARCHIVE_LINKS_INSIDE, error, sizeof error), 0);
    (void)close(fake.passed_fd);
    (void)snprintf(train, sizeof train, "%s/train.sh", copy);
    assert_string_equal(read_text(train), "echo\n");
    fake_stop();
}

/* Submits `name` of the directory and returns the text that was sent, or the sentence. */
static const char *text_sent(const char *name, const char *override)
{
    static const struct answer answers[] = {
        {"submit", {"\"ok\":true,\"end\":true,\"experiment\":\"x\",\"stored_on\":2,\"nodes_alive\":3"}, NULL}, {NULL, {NULL}, NULL}};
    static char text[4096];
    char file[192];
    (void)snprintf(file, sizeof file, "%s/%s", root, name);
    fake_start(answers);
    int code = override != NULL ? RUN("submit", file, "--context", root, "--set", (char *)override) : RUN("submit", file, "--context", root);
    if (code != CLI_DONE) {
        fake_stop();
        return err_text_written;
    }
    msgpack_object request = last_request();
    uint64_t bytes = document_number(&request, "config_bytes");
    assert_true(bytes < sizeof text);
    assert_int_equal(pread(fake.passed_fd, text, bytes, (off_t)document_number(&request, "bytes")), bytes);
    text[bytes] = '\0';
    (void)close(fake.passed_fd);
    fake_stop();
    return text;
}

static void write_beside(const char *name, const char *text)
{
    char file[192];
    (void)snprintf(file, sizeof file, "%s/%s", root, name);
    write_text(file, text);
}

#define END "# shoal: version " SHOAL_VERSION "\n"

static void a_file_adds_to_the_one_that_it_extends(void **state)
{
    (void)state;
    char dir[128];
    (void)snprintf(dir, sizeof dir, "%s/base", root);
    assert_int_equal(mkdir(dir, 0755), 0);
    write_beside("base/all.yaml", "entrypoint: |\n  python3 train.py\nmax_restarts: 1\nresources: {priority: 7, slots_per_trial: 4}\n");
    write_beside("base/two.yaml", "extends: all.yaml\nmax_restarts: 2\nlabels: [a, b]\n");
    write_beside("exp.yaml", "name: mine\nextends: base/two.yaml\n\nresources:\n  slots_per_trial: 2\nlabels: ['1']\n");
    assert_string_equal(text_sent("exp.yaml", NULL),
                        "{ \"name\": mine,\n\n\n \"resources\": {\n \"slots_per_trial\": 2, \"priority\": 7 },\n \"labels\": [ \"1\" ],\n"
                        " \"max_restarts\": 2,\n \"entrypoint\": \"python3 train.py\\x0a\"\n}\n" END);
}

static void mistakes_in_a_file_that_extends_are_found_in_their_lines(void **state)
{
    (void)state;
    write_beside("base/plain.yaml", "entrypoint: 'true'\n");
    write_beside("bad.yaml", "extends: base/plain.yaml\nname: x\nresources:\n  slots_per_trial: none\n");
    assert_has(text_sent("bad.yaml", NULL), "bad.yaml:4: resources.slots_per_trial is 'none'");
    write_beside("gone.yaml", "extends: nothing.yaml\n");
    assert_has(text_sent("gone.yaml", NULL), "nothing.yaml, which cannot be read: No such file or directory\n");
    assert_sentence("gone.yaml extends");
    write_beside("list.yaml", "extends: [a, b]\n");
    assert_has(text_sent("list.yaml", NULL), "list.yaml:1: extends is no path of one file");
    write_beside("a.yaml", "extends: base/../b.yaml\n");
    write_beside("b.yaml", "extends: a.yaml\nentrypoint: x\n");
    assert_has(text_sent("a.yaml", NULL), "extends itself, by way of");
    assert_sentence("b.yaml; a file may extend only files that do not lead back to it");
    write_beside("self.yaml", "extends: self.yaml\n");
    (void)text_sent("self.yaml", NULL);
    assert_sentence("extends itself; a file");
    write_beside("wrong.yaml", "entrypoint: [\n");
    write_beside("onwrong.yaml", "extends: wrong.yaml\n");
    assert_has(text_sent("onwrong.yaml", NULL), "wrong.yaml:");
}

static void a_file_brings_the_overrides_of_its_first_submission_along(void **state)
{
    (void)state;
    write_beside("again.yaml", "entrypoint: x\n# shoal: set name='a\\\\b'\n# shoal: set description=\"1\\n2\"\n# shoal: from 1234\n" END);
    assert_string_equal(text_sent("again.yaml", "seed=3"),
                        "entrypoint: x\n# shoal: set name='a\\\\b'\n# shoal: set description=\"1\\n2\"\n# shoal: set seed=3\n" END);
    write_beside("open.yaml", "# shoal: set seed=9\nentrypoint: x"); /* no line at the end: a comment like any other */
    assert_string_equal(text_sent("open.yaml", NULL), "# shoal: set seed=9\nentrypoint: x\n" END);
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

static void that_the_smallest_accuracy_would_be_the_best_is_said_at_once(void **state)
{
    (void)state;
    static const char said[] = "the smallest accuracy counts as the best, since searcher.smaller_is_better is not set";
    char code[128], file[192];
    (void)snprintf(code, sizeof code, "%s/best", root);
    (void)snprintf(file, sizeof file, "%s/exp.yaml", code);
    assert_int_equal(mkdir(code, 0755), 0);
    write_text(file, "name: x\nentrypoint: ./t\nsearcher: {name: single, metric: accuracy}\n");
    assert_int_equal(RUN("submit", file, "--dry-run"), CLI_DONE);
    assert_sentence(said);
    assert_int_equal(RUN("submit", file, "--dry-run", "--set", "searcher.smaller_is_better=true"), CLI_DONE);
    assert_string_equal(err_text_written, "");
    assert_int_equal(RUN("run", "--metric", "accuracy", "--print", "--", "./t"), CLI_DONE);
    assert_sentence("(--set searcher.smaller_is_better=false)");
    assert_int_equal(RUN("run", "--print", "--", "./t"), CLI_DONE); /* without a metric the largest accuracy is the best */
    assert_string_equal(err_text_written, "");
}

static void requirements_that_do_not_travel_are_refused(void **state)
{
    (void)state;
    static const struct { const char *named; int code; const char *said; } rows[] = {
        {"requirements.txt", CLI_DONE, ""},
        {"deps/a.txt", CLI_DONE, ""},
        {"linked/a.txt", CLI_DONE, ""},
        {"nofile.txt", CLI_REFUSED, "environment.requirements names nofile.txt, which is not in the context directory "},
        {"torch", CLI_REFUSED, "it is the path of a file there that lists packages, such as requirements.txt"},
        {"deps", CLI_REFUSED, "environment.requirements names deps, which is not in"}, /* a directory */
        {"local.txt", CLI_REFUSED,
         "environment.requirements names local.txt, which is left out of the code (.gitignore:1); a line \"!/local.txt\" in .shoalignore sends it"},
        {"wandb/a.txt", CLI_REFUSED, "names wandb/a.txt, which is left out of the code (never code)"},
    };
    char code[128], path[192];
    (void)snprintf(code, sizeof code, "%s/packages", root);
    static const char *const directories[] = {"", "/deps", "/wandb"};
    static const char *const files[] = {"requirements.txt", "deps/a.txt", "local.txt", "wandb/a.txt"};
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", code, directories[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", code, files[i]);
        write_text(path, "torch\n");
    }
    (void)snprintf(path, sizeof path, "%s/linked", code);
    assert_int_equal(symlink("deps", path), 0);
    (void)snprintf(path, sizeof path, "%s/.gitignore", code);
    write_text(path, "local.txt\n");
    (void)snprintf(path, sizeof path, "%s/exp.yaml", code);
    write_text(path, "name: x\nentrypoint: ./t\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char set[96];
        (void)snprintf(set, sizeof set, "environment.requirements=%s", rows[i].named);
        assert_int_equal(RUN("submit", path, "--dry-run", "--set", set), rows[i].code);
        assert_has(out_text, "would travel");
        assert_has(err_text_written, rows[i].said);
    }
    /* Nothing is sent: no daemon is needed to see it. */
    assert_int_equal(RUN("submit", path, "--set", "environment.requirements=nofile.txt"), CLI_REFUSED);
    assert_has(err_text_written, "names nofile.txt, which is not in the context directory");
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

static void every_problem_of_a_file_has_its_line(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        {"submit", {"\"ok\":false,\"end\":true,\"code\":1,\"error\":\"e.yaml:1: a newer daemon says\\ne.yaml:2: more\""}, NULL},
        {NULL, {NULL}, NULL}};
    char file[128], code[128], wanted[512];
    (void)snprintf(file, sizeof file, "%s/two.yaml", root);
    (void)snprintf(code, sizeof code, "%s/two", root);
    assert_int_equal(mkdir(code, 0755), 0);
    write_text(file, "name: x\nentrypoint: ./t\nseed: y\nretry: z\n");
    (void)snprintf(wanted, sizeof wanted,
                   "shoal: %s:3: seed is 'y'; allowed are 0 ... 9223372036854775807\n"
                   "shoal: %s:4: retry is 'z'; allowed are node, any, never\n",
                   file, file);
    assert_int_equal(RUN("submit", file), CLI_REFUSED);
    assert_string_equal(err_text_written, wanted);
    assert_int_equal(RUN("submit", file, "--dry-run"), CLI_REFUSED);
    assert_string_equal(err_text_written, wanted);
    write_text(file, "name: x\nentrypoint: ./t\n");
    fake_start(answers);
    assert_int_equal(RUN("submit", file, "--context", code), CLI_REFUSED);
    assert_string_equal(err_text_written, "shoal: e.yaml:1: a newer daemon says\nshoal: e.yaml:2: more\n");
    (void)close(fake.passed_fd);
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(submit_sends_the_file_and_the_code, stop_what_runs),
        cmocka_unit_test_teardown(a_file_adds_to_the_one_that_it_extends, stop_what_runs),
        cmocka_unit_test_teardown(mistakes_in_a_file_that_extends_are_found_in_their_lines, stop_what_runs),
        cmocka_unit_test_teardown(a_file_brings_the_overrides_of_its_first_submission_along, stop_what_runs),
        cmocka_unit_test_teardown(what_cannot_run_anywhere_is_said_at_once, stop_what_runs),
        cmocka_unit_test_teardown(which_nodes_have_the_program_is_said_at_once, stop_what_runs),
        cmocka_unit_test_teardown(a_dry_run_needs_no_daemon, stop_what_runs),
        cmocka_unit_test_teardown(that_the_smallest_accuracy_would_be_the_best_is_said_at_once, stop_what_runs),
        cmocka_unit_test_teardown(requirements_that_do_not_travel_are_refused, stop_what_runs),
        cmocka_unit_test_teardown(a_bad_file_is_refused_before_anything_is_sent, stop_what_runs),
        cmocka_unit_test_teardown(every_problem_of_a_file_has_its_line, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
