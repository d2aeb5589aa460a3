/* An experiment as a file: what is in it, in which order, and that no name becomes markup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/pack.h"
#include "node/export/export.h"

static uint8_t bytes[1 << 16];
static msgpack_zone *zone;
static msgpack_object show, config, metrics;

static void put(struct pack_writer *writer, const char *key, const char *value)
{
    pack_text(writer, key);
    pack_text(writer, value);
}

static void put_trial(struct pack_writer *writer, uint64_t index, double lr, const char *optimizer, double loss)
{
    pack_map(writer, 9);
    pack_text(writer, "index");
    pack_u64(writer, index);
    put(writer, "state", "completed");
    pack_text(writer, "attempt");
    pack_u64(writer, 1);
    pack_text(writer, "step");
    pack_u64(writer, 20);
    pack_text(writer, "started_s");
    pack_u64(writer, 1000);
    pack_text(writer, "ended_s");
    pack_u64(writer, 1090);
    pack_text(writer, "hyperparameters");
    pack_map(writer, 2);
    pack_text(writer, "net");
    pack_map(writer, 1);
    pack_text(writer, "lr");
    pack_double(writer, lr);
    put(writer, "optimizer", optimizer);
    pack_text(writer, "metrics");
    pack_map(writer, 1);
    pack_text(writer, "validation");
    pack_map(writer, 1);
    pack_text(writer, "loss");
    pack_double(writer, loss);
    put(writer, "reason", "said \"no\", and left");
}

static void put_sum(struct pack_writer *writer, uint64_t step, double min, double max, double last)
{
    pack_map(writer, 4);
    pack_text(writer, "attempt");
    pack_u64(writer, 1);
    pack_text(writer, "step");
    pack_u64(writer, step);
    put(writer, "group", "validation");
    pack_text(writer, "metrics");
    pack_map(writer, 1);
    pack_text(writer, "loss");
    pack_map(writer, 3);
    pack_text(writer, "min");
    pack_double(writer, min);
    pack_text(writer, "max");
    pack_double(writer, max);
    pack_text(writer, "last");
    pack_double(writer, last);
}

static void read(struct pack_writer *writer, msgpack_object *out)
{
    assert_false(writer->failed);
    assert_int_equal(document_read(zone, writer->bytes, writer->used_bytes, out), 0);
}

static int begin(void **state)
{
    (void)state;
    struct pack_writer writer;
    zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 1);
    pack_text(&writer, "experiment");
    pack_map(&writer, 5);
    put(&writer, "name", "<b>bold</b> & \"quoted\"");
    put(&writer, "description", "<script>alert(1)</script>");
    put(&writer, "metric", "loss");
    pack_text(&writer, "smaller_is_better");
    pack_bool(&writer, true);
    pack_text(&writer, "trials");
    pack_array(&writer, 3);
    put_trial(&writer, 0, 0.001, "adam", 0.5);
    put_trial(&writer, 1, 0.1, "sgd, with \"momentum\"", 0.25);
    put_trial(&writer, 2, 0.01, "<img src=x>", 0);
    read(&writer, &show);
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 1);
    pack_text(&writer, "config");
    pack_map(&writer, 1);
    put(&writer, "entrypoint", "echo one\necho '</pre>'");
    read(&writer, &config);
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 1);
    pack_text(&writer, "points");
    pack_array(&writer, 2);
    put_sum(&writer, 1, 0.5, 40, 0.75);
    put_sum(&writer, 20, 0.25, 0.5, 0.25);
    read(&writer, &metrics);
    return 0;
}

static int end(void **state)
{
    (void)state;
    msgpack_zone_free(zone);
    return 0;
}

static char *written(bool (*write)(FILE *out, const struct export_documents *documents))
{
    char *text = NULL;
    size_t count = 0;
    struct export_documents documents = {.show = &show, .config = &config, .curve_count = 1, .now_s = 2000};
    documents.curves[0].trial = 1;
    documents.curves[0].metrics = &metrics;
    FILE *out = open_memstream(&text, &count);
    assert_non_null(out);
    assert_true(write(out, &documents));
    assert_int_equal(fclose(out), 0);
    return text;
}

static void the_best_trials_come_first(void **state)
{
    (void)state;
    uint64_t trials[EXPORT_CURVES_MAX];
    assert_int_equal(export_choose(&show, trials), 3);
    assert_true(trials[0] == 2 && trials[1] == 1 && trials[2] == 0);
}

static void a_page_has_no_markup_of_users_and_no_script(void **state)
{
    (void)state;
    char *page = written(export_html);
    assert_null(strstr(page, "<b>bold"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<img"));
    assert_null(strstr(page, "echo '</pre>"));
    assert_non_null(strstr(page, "&lt;b&gt;bold&lt;/b&gt; &amp; &quot;quoted&quot;"));
    assert_non_null(strstr(page, "default-src 'none'"));
    assert_non_null(strstr(page, "entrypoint: |\n  echo one\n"));
    assert_null(strstr(page, "://"));
    assert_null(strstr(page, "nan"));
    free(page);
}

static void a_page_has_curves_with_bands_and_points(void **state)
{
    (void)state;
    char *page = written(export_html);
    assert_non_null(strstr(page, "class=\"band f0\""));
    assert_non_null(strstr(page, "class=\"curve s0\""));
    assert_non_null(strstr(page, "loss against net.lr"));
    assert_null(strstr(page, "against optimizer"));
    free(page);
}

static void values_with_commas_and_quotes_stay_whole_in_csv(void **state)
{
    (void)state;
    char *text = written(export_csv);
    assert_non_null(strstr(
        text, "trial,state,attempt,step,restarts,started,ended,took_s,validation/loss,net.lr,optimizer,reason\r\n"));
    assert_non_null(strstr(text, "1,completed,1,20,,1970-01-01 00:16:40 UTC,1970-01-01 00:18:10 UTC,90,0.25,0.1,"
                                 "\"sgd, with \"\"momentum\"\"\",\"said \"\"no\"\", and left\"\r\n"));
    free(text);
}

static void a_drawing_is_one_file_and_tells_when_there_is_nothing(void **state)
{
    (void)state;
    char *text = written(export_svg);
    assert_int_equal(strncmp(text, "<?xml", 5), 0);
    assert_non_null(strstr(text, "class=\"curve s0\""));
    free(text);
    metrics = (msgpack_object){.type = MSGPACK_OBJECT_NIL};
    text = written(export_svg);
    assert_non_null(strstr(text, "No trial has reported a metric."));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_best_trials_come_first, begin, end),
        cmocka_unit_test_setup_teardown(a_page_has_no_markup_of_users_and_no_script, begin, end),
        cmocka_unit_test_setup_teardown(a_page_has_curves_with_bands_and_points, begin, end),
        cmocka_unit_test_setup_teardown(values_with_commas_and_quotes_stay_whole_in_csv, begin, end),
        cmocka_unit_test_setup_teardown(a_drawing_is_one_file_and_tells_when_there_is_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
