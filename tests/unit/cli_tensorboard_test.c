/* shoal tensorboard: what stands in the event files, what a second call adds, names, files of programs, and the viewer. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/random.h"
#include "store/tfevents.h"
#include "tests/unit/cli_fixture.h"
#include "tools/shoal/board_names.h"
#include "tools/shoal/cli.h"

#define EXP "a1b2c3d4e5f60718"
#define OTHER "a1b2ffffffffffff"

static char logdir[128];

/* A fresh directory for the event files. */
static const char *fresh(void)
{
    static int number;
    (void)snprintf(logdir, sizeof logdir, "%s/log-%d", root, number++);
    return logdir;
}

static const char *in_root(const char *name)
{
    static char path[2][256];
    static int at;
    at = !at;
    (void)snprintf(path[at], sizeof path[at], "%s/%s", root, name);
    return path[at];
}

/* ---- reading what was written ------------------------------------------------------------------------------------ */

static void dump_event(FILE *out, const struct tfevents_event *event)
{
    struct protobuf_reader summary = event->summary;
    struct tfevents_value value;
    if (event->has_version) {
        (void)fprintf(out, "version %.*s\n", (int)event->source_bytes, (const char *)event->source);
    } else if (event->is_start) {
        (void)fprintf(out, "start at %lld: %.*s\n", (long long)event->step, (int)event->start_text_bytes,
                      (const char *)event->start_text);
    } else {
        (void)fprintf(out, "%lld @%.3f", (long long)event->step, event->wall_s);
        while (tfevents_next_value(&summary, &value)) {
            (void)fprintf(out, " %.*s", (int)value.tag_bytes, (const char *)value.tag);
            if (value.has_scalar) {
                (void)fprintf(out, "=%g", value.scalar);
            }
        }
        (void)fputc('\n', out);
        assert_false(summary.failed);
    }
}

/* The events of a file; "cut" if its last record is cut short. */
static void dump_file(FILE *out, const char *path)
{
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file), at = 0, count;
    (void)fclose(file);
    while (size - at >= TFEVENTS_HEAD_BYTES && tfevents_read_head(bytes + at, &count) == 0 &&
           size - at >= TFEVENTS_HEAD_BYTES + count + TFEVENTS_FOOT_BYTES) {
        struct tfevents_event event;
        const uint8_t *message = bytes + at + TFEVENTS_HEAD_BYTES;
        assert_int_equal(tfevents_check_foot(message, count, message + count), 0);
        assert_int_equal(tfevents_read_event(message, count, &event), 0);
        dump_event(out, &event);
        at += TFEVENTS_HEAD_BYTES + count + TFEVENTS_FOOT_BYTES;
    }
    (void)fputs(at < size ? "cut\n" : "", out);
}

/* All event files of a run, in the order of their names; each name without the host. Valid until the next call. */
static const char *dump(const char *run)
{
    static char *text;
    char path[512];
    size_t bytes;
    struct dirent **entries;
    free(text);
    FILE *out = open_memstream(&text, &bytes);
    (void)snprintf(path, sizeof path, "%s/%s", logdir, run);
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char file[1024];
        if (strncmp(entries[i]->d_name, "events.out.tfevents.", 20) == 0) {
            (void)snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
            (void)fprintf(out, "-- %.10s\n", entries[i]->d_name + 20);
            dump_file(out, file);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
    (void)fclose(out);
    return text;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

#define SHOW_OF(id_, name_, state_, rows)                                                                      \
    {"show",                                                                                                   \
     {"\"ok\":true,\"end\":true,\"experiment\":{\"id\":\"" id_ "\",\"name\":\"" name_ "\",\"state\":\"" state_ \
      "\",\"metric\":\"accuracy\",\"submitted_s\":1764200000,\"trials\":[" rows "]}"},                         \
     NULL}
#define SHOW(state_, rows) SHOW_OF(EXP, "mlp", state_, rows)
#define ROW(index_, state_, attempt_, more)                                  \
    "{\"index\":" #index_ ",\"state\":\"" state_ "\",\"attempt\":" #attempt_ \
    ",\"generation\":1,\"step\":20,\"started_s\":1764207000,"                \
    "\"ended_s\":1764208000," more "\"metrics\":{\"training\":{\"loss\":1},\"validation\":{\"accuracy\":0.5}}}"
#define VALUES "\"hyperparameters\":{\"lr\":0.1,\"nesterov\":true,\"optimizer\":{\"name\":\"sgd\"},\"hidden\":[64,32]},"
#define QUEUED \
    "{\"index\":1,\"state\":\"queued\",\"attempt\":null,\"step\":null,\"hyperparameters\":{\"lr\":0.2},\"metrics\":{}}"
#define POINT(attempt_, generation_, step_, wall_, more)                                                                    \
    "{\"trial\":0,\"attempt\":" #attempt_ ",\"generation\":" #generation_ ",\"step\":" #step_ ",\"wall_ms\":1764207" #wall_ \
    "," more "}"
#define TRAINING(loss) "\"group\":\"training\",\"metrics\":{\"loss\":" #loss "}"
#define NO_FILES {"output_ls", {"\"ok\":false,\"end\":true,\"code\":4,\"error\":\"Trial 0 has left no files.\""}, NULL}
#define END {NULL, {NULL}, NULL}

static void points_of_a_trial_become_event_files_one_for_each_attempt(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        SHOW("completed", ROW(0, "completed", 2, VALUES) "," QUEUED),
        {"metrics",
         {"\"ok\":true,\"end\":false,\"points\":[" POINT(1, 1, 10, 123456, TRAINING(0.5)) "," POINT(
              1, 1, 20, 124000,
              "\"group\":\"validation\",\"metrics\":{\"accuracy\":\"NaN\",\"loss\":2}") "," POINT(1, 1, 30, 125000,
                                                                                                  "\"void\":true," TRAINING(
                                                                                                      7)) "]",
          "\"ok\":true,\"end\":true,\"points\":[" POINT(2, 1, 30, 225000, TRAINING(0.25)) "," POINT(2, 2, 35, 226000,
                                                                                                    TRAINING(0.125)) "]"},
         NULL},
        NO_FILES,
        END};
    fake_start(answers);
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", (char *)fresh()), CLI_DONE);
    assert_string_equal(err_text_written, "");
    assert_has(out_text, "1 trial of 1 experiment, 4 points and 0 files of programs in ");
    assert_string_equal(dump("mlp/0"),
                        "-- 1764207000\nversion shoal " EXP "/0\n0 @1764207000.000 _hparams_/session_start_info\n"
                        "start at 0: attempt 1 generation 1\n"
                        "10 @1764207123.456 training/loss=0.5\n"
                        "20 @1764207124.000 validation/loss=2\n"
                        "-- 1764207225\nversion shoal " EXP "/0\nstart at 21: attempt 2 generation 1\n"
                        "30 @1764207225.000 training/loss=0.25\n"
                        "start at 31: attempt 2 generation 2\n"
                        "35 @1764207226.000 training/loss=0.125\n"
                        "0 @1764208000.000 _hparams_/session_end_info\n");
    assert_has(dump("mlp"), "version shoal " EXP "\n0 @1764200000.000 _hparams_/experiment\n");
    assert_string_equal(dump("mlp/1"), ""); /* it has not begun */
    fake_stop();
}

static const struct answer first_look[] = {
    SHOW("running", ROW(0, "running", 1, VALUES)),
    {"metrics",
     {"\"ok\":true,\"end\":true,\"points\":[" POINT(1, 1, 10, 123456, TRAINING(0.5)) "," POINT(1, 1, 20, 124000,
                                                                                               TRAINING(0.25)) "]"},
     NULL},
    NO_FILES,
    END};
static const struct answer second_look[] = {
    SHOW("completed", ROW(0, "completed", 1, VALUES)),
    {"metrics",
     {"\"ok\":true,\"end\":true,\"points\":[" POINT(1, 1, 10, 123456, TRAINING(0.5)) "," POINT(
         1, 1, 20, 124000, TRAINING(0.25)) "," POINT(1, 1, 30, 125000, TRAINING(0.125)) "]"},
     NULL},
    NO_FILES,
    END};

static void a_second_call_adds_what_is_new_in_a_new_file(void **state)
{
    (void)state;
    fake_start(first_look);
    fake.next_answers = second_look;
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", (char *)fresh()), CLI_DONE);
    char before[4096], path[512];
    (void)snprintf(before, sizeof before, "%s", dump("mlp/0"));
    assert_has(before, "20 @1764207124.000 training/loss=0.25\n");
    /* the writer was killed within its last record */
    (void)snprintf(path, sizeof path, "cd %s/mlp/0 && truncate -s -5 events*", logdir);
    assert_int_equal(system(path), 0);
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", logdir), CLI_DONE);
    assert_has(out_text, " 2 points ");
    assert_string_equal(dump("mlp/0"),
                        "-- 1764207000\nversion shoal " EXP "/0\n0 @1764207000.000 _hparams_/session_start_info\n"
                        "start at 0: attempt 1 generation 1\n"
                        "10 @1764207123.456 training/loss=0.5\ncut\n"
                        "-- 1764207124\nversion shoal " EXP "/0\n"
                        "20 @1764207124.000 training/loss=0.25\n30 @1764207125.000 training/loss=0.125\n"
                        "0 @1764208000.000 _hparams_/session_end_info\n");
    (void)snprintf(before, sizeof before, "%s", dump("mlp/0"));
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", logdir), CLI_DONE);
    assert_has(out_text, " 0 points ");
    assert_string_equal(dump("mlp/0"), before);
    fake_stop();
}

static void following_ends_with_the_experiment(void **state)
{
    (void)state;
    fake_start(second_look);
    assert_int_equal(RUN("tensorboard", EXP "/0", "--logdir", (char *)fresh(), "--follow", "--json"), CLI_DONE);
    assert_has(out_text, "\"experiments\": 1, \"trials\": 1, \"points\": 3, \"files\": 0}");
    assert_int_equal(RUN("tensorboard", EXP "/5", "--logdir", logdir), CLI_NO_SUCH_THING);
    assert_sentence("mlp has no trial 5");
    fake_stop();
}

static void of_two_metrics_with_one_tag_the_second_gets_a_suffix(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        SHOW("running", ROW(0, "running", 1, VALUES)),
        {"metrics",
         {"\"ok\":true,\"end\":true,\"points\":[" POINT(
             1, 1, 10, 123456,
             "\"group\":\"a\",\"metrics\":{\"b/c\":1}") "," POINT(1, 1, 10, 123457,
                                                                  "\"group\":\"a/b\",\"metrics\":{\"c\":2,\"\\u00e4 "
                                                                  "<b>\":3}") "]"},
         NULL},
        NO_FILES,
        END};
    fake_start(answers);
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", (char *)fresh()), CLI_DONE);
    assert_has(dump("mlp/0"), "10 @1764207123.456 a/b/c=1\n10 @1764207123.457 a/b/c~2=2 a/b/\xc3\xa4 <b>=3\n");
    assert_sentence("two metrics of mlp are the same text as group/name; the second one is written as a/b/c~2");
    fake_stop();
}

static void two_experiments_of_one_name_have_directories_of_their_own(void **state)
{
    (void)state;
    static const struct answer other[] = {
        SHOW_OF(OTHER, "mlp", "running", ROW(0, "running", 1, VALUES)),
        {"metrics", {"\"ok\":true,\"end\":true,\"points\":[" POINT(1, 1, 10, 123456, TRAINING(0.75)) "]"}, NULL},
        NO_FILES,
        END};
    fake_start(first_look);
    fake.next_answers = other;
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", (char *)fresh()), CLI_DONE);
    assert_int_equal(RUN("tensorboard", OTHER, "--logdir", logdir), CLI_DONE);
    assert_sentence("is written into");
    assert_has(dump("mlp~a1b2ffff/0"), "10 @1764207123.456 training/loss=0.75\n");
    assert_lacks(dump("mlp/0"), "0.75");
    assert_int_equal(RUN("tensorboard", OTHER, "--logdir", logdir), CLI_DONE);
    assert_has(out_text, " 0 points ");
    fake_stop();
}

static void a_writer_that_was_killed_at_its_first_record_leaves_no_strangers_directory(void **state)
{
    (void)state;
    char command[512];
    fake_start(first_look);
    (void)snprintf(command, sizeof command, "mkdir -p %s/mlp && touch %s/mlp/events.out.tfevents.1764200000.x", fresh(),
                   logdir);
    assert_int_equal(system(command), 0);
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", logdir), CLI_DONE);
    assert_string_equal(err_text_written, "");
    assert_has(dump("mlp/0"), "training/loss=0.25\n");
    fake_stop();
}

static void a_name_leads_to_no_other_directory(void **state)
{
    (void)state;
    static const struct answer answers[] = {
        SHOW_OF(EXP, "../../up", "running", ROW(0, "running", 1, VALUES)),
        {"metrics", {"\"ok\":true,\"end\":true,\"points\":[" POINT(1, 1, 10, 123456, TRAINING(0.75)) "]"}, NULL},
        NO_FILES,
        END};
    fake_start(answers);
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", (char *)fresh()), CLI_DONE);
    assert_has(dump(".._.._up/0"), "training/loss=0.75\n");
    fake_stop();
}

/* A snapshot: [1, [["output/tensorboard/tfevents", 1, 420, bytes, 1, ""], ["output/x", 1, 420, 1, 1, ""]]], then the bytes
 * of the two files. */
#define LISTED                                               \
    "hex:92019296c41b"                                       \
    "6f75747075742f74656e736f72626f6172642f74666576656e7473" \
    "01cd01a4"
#define BEHIND         \
    "01c400"           \
    "96c408"           \
    "6f75747075742f78" \
    "01cd01a4"         \
    "01"               \
    "01c400"
#define FILES(hash_) \
    "\"ok\":true,\"end\":true,\"outputs\":[{\"number\":0,\"attempt\":1,\"bytes\":" hash_ ",\"hash\":\"" hash_ "\"}]"

static const struct answer short_file[] = {SHOW("running", ROW(0, "running", 1, VALUES)),
                                           {"metrics", {"\"ok\":true,\"end\":true,\"points\":[]"}, NULL},
                                           {"output_ls", {FILES("10")}, NULL},
                                           {"output_get",
                                            {"\"ok\":true,\"end\":true,\"bytes\":64"},
                                            LISTED "03" BEHIND "616263"
                                                   "78"},
                                           END};
static const struct answer long_file[] = {SHOW("running", ROW(0, "running", 1, VALUES)),
                                          {"metrics", {"\"ok\":true,\"end\":true,\"points\":[]"}, NULL},
                                          {"output_ls", {FILES("11")}, NULL},
                                          {"output_get",
                                           {"\"ok\":true,\"end\":true,\"bytes\":66"},
                                           LISTED "05" BEHIND "6162636465"
                                                  "78"},
                                          END};

static void event_files_of_programs_are_continued_and_never_replaced(void **state)
{
    (void)state;
    char path[256];
    fake_start(short_file);
    fake.next_answers = long_file;
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", (char *)fresh()), CLI_DONE);
    assert_string_equal(err_text_written, "");
    (void)snprintf(path, sizeof path, "%s/mlp/0/program/tfevents", logdir);
    assert_string_equal(read_text(path), "abc");
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", logdir), CLI_DONE);
    assert_string_equal(read_text(path), "abcde");
    assert_has(out_text, " and 1 files of programs in");
    FILE *file = fopen(path, "we");
    (void)fputs("other", file);
    (void)fclose(file);
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", logdir), CLI_DONE);
    assert_string_equal(read_text(path), "other");
    (void)snprintf(path, sizeof path, "%s/mlp/0/program/x", logdir);
    assert_int_equal(access(path, F_OK), -1);
    fake_stop();
}

static void large_files_are_fetched_only_when_asked_for(void **state)
{
    (void)state;
    static const struct answer answers[] = {SHOW("running", ROW(0, "running", 1, VALUES)),
                                            {"metrics", {"\"ok\":true,\"end\":true,\"points\":[]"}, NULL},
                                            {"output_ls", {FILES("900000000000")}, NULL},
                                            {"output_get",
                                             {"\"ok\":true,\"end\":true,\"bytes\":64"},
                                             LISTED "03" BEHIND "616263"
                                                    "78"},
                                            END};
    fake_start(answers);
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", (char *)fresh()), CLI_DONE);
    assert_sentence("1 trial keeps more than 64 MiB of files, not searched for event files of programs");
    assert_lacks(fake.ops, "output_get");
    assert_int_equal(RUN("tensorboard", EXP, "--logdir", logdir, "--files"), CLI_DONE);
    assert_has(fake.ops, "output_get");
    assert_string_equal(err_text_written, "");
    fake_stop();
}

static void tensorboard_is_started_on_a_temporary_directory_that_is_removed(void **state)
{
    (void)state;
    char path[256], directory[512];
    assert_int_equal(mkdir(in_root("bin"), 0755), 0);
    FILE *script = fopen(in_root("bin/tensorboard"), "we");
    (void)fprintf(script, "#!/bin/sh\necho \"$@\" $2/*/*/events* >%s/seen\n", root);
    (void)fclose(script);
    assert_int_equal(chmod(in_root("bin/tensorboard"), 0755), 0);
    char *old_path = strdup(getenv("PATH"));
    (void)snprintf(path, sizeof path, "%s/bin:%s", root, old_path);
    assert_int_equal(setenv("PATH", path, 1), 0);
    fake_start(first_look);
    assert_int_equal(RUN("tensorboard", EXP), CLI_DONE);
    const char *seen = read_text(in_root("seen"));
    assert_int_equal(sscanf(seen, "--logdir %511s", directory), 1);
    assert_has(directory, "/shoal-tensorboard-");
    assert_has(seen, "/mlp/0/events.out.tfevents.1764207000.");
    assert_int_equal(access(directory, F_OK), -1);

    assert_int_equal(setenv("PATH", "/nowhere", 1), 0);
    assert_int_equal(RUN("tensorboard", EXP), CLI_DONE);
    assert_sentence("where there is one, type: tensorboard --logdir /");
    assert_int_equal(setenv("PATH", old_path, 1), 0);
    assert_int_equal(sscanf(strstr(err_text_written, "--logdir "), "--logdir %255s", path), 1);
    assert_int_equal(access(path, F_OK), 0);
    (void)snprintf(directory, sizeof directory, "rm -r %s", path);
    assert_int_equal(system(directory), 0);
    free(old_path);
    fake_stop();
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool is_utf8(const char *text, size_t bytes)
{
    for (size_t i = 0, count; i < bytes; i += count) {
        count = bytes_utf8((const uint8_t *)text + i, bytes - i);
        if (count == 0) {
            return false;
        }
    }
    return true;
}

/* Bytes of which many are '/', '~', digits, and beginnings of characters. */
static size_t draw_name(struct random *random, char *out, size_t size)
{
    static const char often[] = "//~2a\xc3\xa4\xe2\x82\xed\xff";
    size_t bytes = (size_t)random_below(random, size);
    for (size_t i = 0; i < bytes; i++) {
        uint64_t which = random_below(random, 2 * sizeof often);
        out[i] = which < sizeof often ? often[which] : (char)random_below(random, 256);
    }
    return bytes;
}

static void any_names_become_tags_that_differ(void **state)
{
    (void)state;
    struct random random;
    struct board_tags tags = {0};
    struct hash_set texts = {0};
    random_init(&random, 7);
    for (int i = 0; i < 20000; i++) {
        char group[8], name[8];
        size_t group_bytes = draw_name(&random, group, sizeof group), name_bytes = draw_name(&random, name, sizeof name);
        bool is_new, is_new_again;
        const struct board_tag *tag = board_tag(&tags, group, group_bytes, name, name_bytes, &is_new);
        assert_non_null(tag);
        assert_true(is_utf8(tag->text, tag->bytes) && tag->bytes > 0);
        assert_int_equal(hash_set_add(&texts, bytes_hash64(tag->text, tag->bytes, 0)), is_new);
        assert_ptr_equal(board_tag(&tags, group, group_bytes, name, name_bytes, &is_new_again), tag);
        assert_false(is_new_again);
    }
    hash_set_free(&texts);
    board_tags_free(&tags);
}

static void any_name_becomes_one_directory(void **state)
{
    (void)state;
    struct random random;
    char out[BOARD_DIRECTORY_BYTES], name[256];
    random_init(&random, 8);
    for (int i = 0; i < 20000; i++) {
        size_t bytes = draw_name(&random, name, i % 2 == 0 ? 4 : sizeof name);
        name[bytes] = '\0';
        board_directory(name, i % 3 == 0 ? "0123abcd" : "", out);
        size_t length = strlen(out);
        assert_true(length > 0 && length < BOARD_DIRECTORY_BYTES && is_utf8(out, length));
        assert_null(strchr(out, '/'));
        assert_true(strcmp(out, ".") != 0 && strcmp(out, "..") != 0);
    }
    board_directory("", "", out);
    assert_string_equal(out, "_");
    board_directory("..", "", out);
    assert_string_equal(out, ".._");
    board_directory("mlp <b> \xd7\x90", "12345678", out);
    assert_string_equal(out, "mlp <b> \xd7\x90~12345678");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(points_of_a_trial_become_event_files_one_for_each_attempt, stop_what_runs),
        cmocka_unit_test_teardown(a_second_call_adds_what_is_new_in_a_new_file, stop_what_runs),
        cmocka_unit_test_teardown(following_ends_with_the_experiment, stop_what_runs),
        cmocka_unit_test_teardown(of_two_metrics_with_one_tag_the_second_gets_a_suffix, stop_what_runs),
        cmocka_unit_test_teardown(two_experiments_of_one_name_have_directories_of_their_own, stop_what_runs),
        cmocka_unit_test_teardown(a_writer_that_was_killed_at_its_first_record_leaves_no_strangers_directory,
                                  stop_what_runs),
        cmocka_unit_test_teardown(a_name_leads_to_no_other_directory, stop_what_runs),
        cmocka_unit_test_teardown(event_files_of_programs_are_continued_and_never_replaced, stop_what_runs),
        cmocka_unit_test_teardown(large_files_are_fetched_only_when_asked_for, stop_what_runs),
        cmocka_unit_test_teardown(tensorboard_is_started_on_a_temporary_directory_that_is_removed, stop_what_runs),
        cmocka_unit_test(any_names_become_tags_that_differ),
        cmocka_unit_test(any_name_becomes_one_directory),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
