/* shoal ls: which experiments, in which order, with which columns; and the labels that it shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cli_fixture.h"
#include "tools/shoal/cli.h"

#define ROW(id, name, state, submitted, best, more)                                                                          \
    "{\"id\":\"" id "\",\"name\":\"" name "\",\"state\":\"" state "\",\"coordinator\":null,\"term\":3,\"submitted_s\":" submitted \
    ",\"trials\":{\"total\":2,\"queued\":0,\"running\":0,\"completed\":2,\"failed\":0},\"best\":" best more "}"
#define VALUE(value) "{\"trial\":1,\"metric\":\"loss\",\"value\":" value "}"
#define LIST                                                                                                                  \
    "\"ok\":true,\"end\":true,\"experiments\":["                                                                              \
    ROW("a000000000000001", "mlp", "completed", "1763700000", VALUE("0.25"),                                                  \
        ",\"user\":\"ada\",\"labels\":{\"lr\":\"low\",\"best\":\"\"},\"description\":\"it is, so to say, \\\"the\\\" one\"") ","                        \
    ROW("b000000000000002", "cnn", "failed", "1763800000", "null", ",\"user\":\"bob\",\"labels\":{\"lr\":\"high\"}") ","                         \
    ROW("c000000000000003", "rnn", "completed", "1763750000", VALUE("0.125"), ",\"labels\":{}") ","                           \
    ROW("d000000000000004", "old", "completed", "1763600000", VALUE("0.5"), ",\"archived\":true") "]"

static const struct answer lists[] = {{"ls", {LIST}, NULL}, {NULL, {NULL}, NULL}};

/* The names that were listed, in order: "mlp rnn". */
static const char *names(void)
{
    static char text[256];
    size_t used = 0;
    text[0] = '\0';
    const char *at = strchr(out_text, '\n');
    for (at = at != NULL ? at + 1 : ""; *at != '\0'; at = strchr(at, '\n') + 1) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", used > 0 ? " " : "", (int)strcspn(at, " \n"), at);
    }
    return text;
}

#define NAMES(...) (RUN("ls", "--columns", "name", __VA_ARGS__) == CLI_DONE ? names() : err_text_written)

static void archived_ones_are_left_out_unless_asked_for(void **state)
{
    (void)state;
    fake_start(lists);
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_lacks(out_text, "old");
    assert_has(out_text, "LABELS\n");
    assert_has(out_text, "lr=low best\n");
    assert_string_equal(NAMES("--archived"), "old mlp rnn cnn");
    assert_int_equal(RUN("ls", "--json"), CLI_DONE);
    assert_lacks(out_text, "d000000000000004");
    assert_has(out_text, "[{\"id\": \"a000000000000001\"");
    fake_stop();
}

static void users_are_shown_where_there_are_several(void **state)
{
    (void)state;
    fake_start(lists);
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_has(out_text, "  USER  ");
    assert_has(out_text, "  bob ");
    assert_int_equal(RUN("ls", "--state", "failed"), CLI_DONE);
    assert_lacks(out_text, "USER");
    fake_stop();
}

static void filters_leave_what_fits_all_of_them(void **state)
{
    (void)state;
    fake_start(lists);
    assert_string_equal(NAMES("--state", "failed,queued"), "cnn");
    assert_string_equal(NAMES("--label", "lr"), "mlp cnn");
    assert_string_equal(NAMES("--label", "lr=low"), "mlp");
    assert_string_equal(NAMES("--label", "l"), "");
    assert_string_equal(NAMES("--label", "lr", "--label", "best"), "mlp");
    assert_string_equal(NAMES("--state", "failed", "--label", "best"), "");
    assert_string_equal(NAMES("--user", "ada"), "mlp");
    assert_string_equal(NAMES("--user", "ada", "--user", "bob"), "mlp cnn");
    assert_string_equal(NAMES("--user", "ad"), "");
    assert_string_equal(NAMES("--since", "2025-11-21 12:00"), "rnn cnn");
    assert_int_equal(RUN("ls", "--json", "--state", "failed"), CLI_DONE);
    assert_has(out_text, "{\"experiments\": [{\"id\": \"b000000000000002\"");
    assert_lacks(out_text, "a000000000000001");
    fake_stop();
}

static void rows_are_sorted_and_those_without_a_value_are_last(void **state)
{
    (void)state;
    fake_start(lists);
    assert_string_equal(NAMES("--sort", "best"), "rnn mlp cnn");
    assert_string_equal(NAMES("--sort", "-best"), "mlp rnn cnn");
    assert_string_equal(NAMES("--sort", "name"), "cnn mlp rnn");
    assert_string_equal(NAMES("--sort", "state,-submitted"), "rnn mlp cnn");
    assert_string_equal(NAMES("--sort", "trials"), "mlp rnn cnn"); /* alike: the newest last */
    assert_int_equal(RUN("ls", "--json", "--sort", "-name"), CLI_DONE);
    assert_has(out_text, "{\"experiments\": [{\"id\": \"c000000000000003\"");
    fake_stop();
}

static void csv_has_numbers_in_full_and_quotes_what_needs_it(void **state)
{
    (void)state;
    fake_start(lists);
    assert_int_equal(RUN("ls", "--csv", "--columns", "id,best,completed,labels,description,pinned"), CLI_DONE);
    assert_string_equal(out_text, "id,best,completed,labels,description,pinned\n"
                                  "a000000000000001,0.25,2,lr=low best,\"it is, so to say, \"\"the\"\" one\",no\n"
                                  "c000000000000003,0.125,2,,,no\n"
                                  "b000000000000002,,2,lr=high,,no\n");
    assert_int_equal(RUN("ls", "--csv", "--label", "nothing"), CLI_DONE);
    assert_string_equal(out_text, "id,name,state,submitted,total,queued,running,completed,failed,stopped,best_trial,metric,best,labels,"
                                  "description,user\n");
    fake_stop();
}

static void wrong_words_are_named_with_those_that_are_allowed(void **state)
{
    (void)state;
    assert_int_equal(RUN("ls", "--state", "runing"), CLI_USAGE);
    assert_sentence("--state: there is no state 'runing'; allowed are queued, running, paused, completed, cancelled, failed");
    assert_int_equal(RUN("ls", "--columns", "id,,name"), CLI_USAGE);
    assert_sentence("--columns: there is no column ''; allowed are id, name, state,");
    assert_int_equal(RUN("ls", "--columns", "-id"), CLI_USAGE);
    assert_sentence("there is no column '-id'");
    assert_int_equal(RUN("ls", "--sort", "size"), CLI_USAGE);
    assert_sentence("there is no column 'size'");
    assert_int_equal(RUN("ls", "--since", "tuesday"), CLI_USAGE);
    assert_sentence("--since tuesday is no time");
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    static const struct answer wide[] = {
        {"ls",
         {"\"ok\":true,\"end\":true,\"experiments\":["
          ROW("a000000000000001", "resnet-50-imagenet-\u00e4\u00e4\u00e4-augmented-with-mixup-and-cutmix", "completed", "1763700000",
              VALUE("0.25"), ",\"labels\":{\"a-long-label\":\"with a long value, too\"},\"description\":\"none\"") "]"},
         NULL},
        {NULL, {NULL}, NULL}};
    fake_start(wide);
    draws = true;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(i == 0 ? RUN("ls") : RUN("ls", "--columns", "id,name,labels,submitted"), CLI_DONE);
        assert_has(out_text, "...");
        assert_has(out_text, i == 0 ? "a0000000  resnet-" : "2025-11-21");
        for (const char *at = out_text; *at != '\0'; at += strcspn(at, "\n") + 1) {
            size_t columns = 0;
            for (const char *c = at; *c != '\n'; c++) {
                columns += ((unsigned char)*c & 0xc0) != 0x80;
            }
            assert_true(columns <= 80);
        }
    }
    draws = false;
    assert_int_equal(RUN("ls"), CLI_DONE);
    assert_has(out_text, "augmented-with-mixup-and-cutmix"); /* into a pipe all goes */
    fake_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(archived_ones_are_left_out_unless_asked_for, stop_what_runs),
        cmocka_unit_test_teardown(users_are_shown_where_there_are_several, stop_what_runs),
        cmocka_unit_test_teardown(filters_leave_what_fits_all_of_them, stop_what_runs),
        cmocka_unit_test_teardown(rows_are_sorted_and_those_without_a_value_are_last, stop_what_runs),
        cmocka_unit_test_teardown(csv_has_numbers_in_full_and_quotes_what_needs_it, stop_what_runs),
        cmocka_unit_test_teardown(wrong_words_are_named_with_those_that_are_allowed, stop_what_runs),
        cmocka_unit_test_teardown(no_line_is_wider_than_the_terminal, stop_what_runs),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
