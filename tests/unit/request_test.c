/* Requests of the local socket as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/facts/config.h"
#include "node/daemon/wire/request.h"

static uint8_t bytes[256 * 1024];
static struct pack_writer writer;

static void begin(uint32_t pairs, uint64_t version, const char *op)
{
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 3 + pairs);
    pack_text(&writer, "v");
    pack_u64(&writer, version);
    pack_text(&writer, "id");
    pack_u64(&writer, 9);
    pack_text(&writer, "op");
    pack_text(&writer, op);
}

static int read_request(struct request *out)
{
    assert_false(writer.failed);
    return request_read(bytes, writer.used_bytes, out);
}

static void begin_submit(uint32_t more_pairs)
{
    begin(4 + more_pairs, 1, "submit");
    pack_text(&writer, "experiment");
    pack_text(&writer, "00000000000000ff");
    pack_text(&writer, "file");
    pack_text(&writer, "exp.yaml");
    pack_text(&writer, "config");
    pack_text(&writer, "name: a\n");
    pack_text(&writer, "bytes");
    pack_u64(&writer, 77);
}

static int read_submit(struct request_submit *out)
{
    struct request request;
    assert_int_equal(read_request(&request), 0);
    return request_submit_read(&request.map, out);
}

static void a_request_is_a_map_with_v_id_and_op(void **state)
{
    (void)state;
    struct request request;
    begin(0, 1, "status");
    assert_int_equal(read_request(&request), 0);
    assert_int_equal(request.id, 9);
    assert_true(pack_text_is(request.op, request.op_bytes, "status"));
    assert_false(request.wants_fd);
    pack_nil(&writer);
    assert_int_equal(read_request(&request), ERR_MALFORMED); /* bytes behind the map */
    assert_int_equal(request.id, 9);
    assert_int_equal(request_read(bytes, 0, &request), ERR_MALFORMED);
    assert_int_equal(request.id, 0);
    assert_int_equal(request.op_bytes, 0);
}

static void a_request_of_another_version_is_told_apart(void **state)
{
    (void)state;
    struct request request;
    begin(0, 2, "worker_save");
    assert_int_equal(read_request(&request), ERR_VERSION);
    assert_int_equal(request.version, 2);
    assert_true(request.wants_fd);
}

static void a_submission_is_read_whole(void **state)
{
    (void)state;
    struct request_submit submit;
    begin_submit(1);
    pack_text(&writer, "overrides");
    pack_array(&writer, 2);
    pack_text(&writer, "seed=1");
    pack_text(&writer, "name=b");
    assert_int_equal(read_submit(&submit), 0);
    assert_int_equal(submit.experiment.bytes[EXPERIMENT_ID_BYTES - 1], 0xff);
    assert_string_equal(submit.file, "exp.yaml");
    assert_true(pack_text_is(submit.config, submit.config_bytes, "name: a\n"));
    assert_int_equal(submit.archive_bytes, 77);
    assert_int_equal(submit.override_count, 2);
    assert_true(pack_text_is(submit.overrides[1].text, submit.overrides[1].bytes, "name=b"));
    begin_submit(0);
    assert_int_equal(read_submit(&submit), 0);
    assert_int_equal(submit.override_count, 0);
}

static void overrides_that_cannot_all_be_taken_are_refused(void **state)
{
    (void)state;
    struct request_submit submit;
    for (uint32_t count = REQUEST_OVERRIDES_MAX; count <= REQUEST_OVERRIDES_MAX + 1; count++) {
        begin_submit(1);
        pack_text(&writer, "overrides");
        pack_array(&writer, count);
        for (uint32_t i = 0; i < count; i++) {
            pack_text(&writer, "seed=1");
        }
        assert_int_equal(read_submit(&submit), count <= REQUEST_OVERRIDES_MAX ? 0 : ERR_MALFORMED);
    }
    begin_submit(1);
    pack_text(&writer, "overrides");
    pack_array(&writer, 1);
    pack_u64(&writer, 5); /* no text */
    assert_int_equal(read_submit(&submit), ERR_MALFORMED);
    begin_submit(1);
    pack_text(&writer, "overrides");
    pack_array(&writer, 1);
    pack_text_n(&writer, "seed=1\0more", 11);
    assert_int_equal(read_submit(&submit), ERR_MALFORMED);
}

static void a_configuration_longer_than_its_bound_is_refused(void **state)
{
    (void)state;
    struct request_submit submit;
    struct request request;
    begin(4, 1, "submit");
    pack_text(&writer, "experiment");
    pack_text(&writer, "00000000000000ff");
    pack_text(&writer, "file");
    pack_text(&writer, "exp.yaml");
    pack_text(&writer, "bytes");
    pack_u64(&writer, 0);
    pack_text(&writer, "config_bytes");
    struct pack_writer before = writer;
    pack_u64(&writer, CONFIG_TEXT_BYTES_MAX);
    assert_int_equal(read_submit(&submit), 0);
    assert_null(submit.config); /* it lies behind the archive */
    assert_int_equal(submit.config_bytes, CONFIG_TEXT_BYTES_MAX);
    writer = before;
    pack_u64(&writer, UINT64_C(1) << 40);
    assert_int_equal(read_request(&request), 0);
    assert_int_equal(request_submit_read(&request.map, &submit), ERR_MALFORMED);
}

static void ids_and_tokens_are_hexadecimal_of_their_length(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "00000000000000f", "00000000000000fff", "00000000000000fg", "0000000000000000"};
    struct request request;
    experiment_id id;
    lease_token token;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin(2, 1, "worker_open");
        pack_text(&writer, "experiment");
        pack_text(&writer, bad[i]);
        pack_text(&writer, "token");
        pack_text(&writer, bad[i]);
        assert_int_equal(read_request(&request), 0);
        assert_false(request_experiment_id(&request.map, &id));
        assert_false(request_token(&request.map, &token));
    }
    begin(1, 1, "worker_open");
    pack_text(&writer, "token");
    pack_text(&writer, "000102030405060708090a0b0c0d0e0f");
    assert_int_equal(read_request(&request), 0);
    assert_true(request_token(&request.map, &token));
    assert_int_equal(token.bytes[15], 15);
}

/* One value that is no number makes all of it void: a part of a report must not be shown. */
static void a_report_that_is_not_all_numbers_is_refused_whole(void **state)
{
    (void)state;
    for (int good = 0; good < 2; good++) {
        struct request request;
        struct request_report report;
        begin(3, 1, "worker_report");
        pack_text(&writer, "group");
        pack_text(&writer, "validation");
        pack_text(&writer, "step");
        pack_u64(&writer, 100);
        pack_text(&writer, "metrics");
        pack_map(&writer, 3);
        pack_text(&writer, "accuracy");
        pack_double(&writer, 0.5);
        pack_text(&writer, "count");
        pack_i64(&writer, -3);
        pack_text(&writer, "loss");
        if (good == 1) {
            pack_u64(&writer, 2);
        } else {
            pack_text(&writer, "low");
        }
        assert_int_equal(read_request(&request), 0);
        assert_int_equal(request_report_read(&request.map, &report), good == 1 ? 0 : ERR_MALFORMED);
    }
}

/* What is read is kept, all of it. */
static void a_report_has_room_for_so_many_names(void **state)
{
    (void)state;
    static uint8_t large[2 * REQUEST_METRICS_BYTES_MAX];
    for (uint32_t count = REQUEST_METRICS_BYTES_MAX / 16; count <= REQUEST_METRICS_BYTES_MAX / 16 + 1; count++) {
        struct pack_writer metrics;
        struct pack_reader map;
        struct request_report report;
        pack_writer_init(&metrics, large, sizeof large);
        pack_map(&metrics, 3);
        pack_text(&metrics, "group");
        pack_text(&metrics, "training");
        pack_text(&metrics, "step");
        pack_u64(&metrics, 100);
        pack_text(&metrics, "metrics");
        pack_map(&metrics, count);
        for (uint32_t i = 0; i < count; i++) {
            pack_text(&metrics, "loss");
            pack_u64(&metrics, 1);
        }
        assert_false(metrics.failed);
        pack_reader_init(&map, large, metrics.used_bytes);
        assert_int_equal(request_report_read(&map, &report), count * 16 <= REQUEST_METRICS_BYTES_MAX ? 0 : ERR_MALFORMED);
    }
}

static void cuts_of_a_save_are_optional_and_bounded(void **state)
{
    (void)state;
    static const struct {
        bool has_cuts;
        uint64_t cuts;
        int error;
    } tries[] = {{false, 0, 0}, {true, 0, 0}, {true, REQUEST_CUTS_MAX, 0}, {true, REQUEST_CUTS_MAX + 1, ERR_MALFORMED},
                 {true, UINT64_MAX, ERR_MALFORMED}};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        struct request request;
        struct request_save save = {0};
        begin(2 + tries[i].has_cuts, 1, "worker_save");
        pack_text(&writer, "step");
        pack_u64(&writer, 7);
        pack_text(&writer, "bytes");
        pack_u64(&writer, 1000);
        if (tries[i].has_cuts) {
            pack_text(&writer, "cuts");
            pack_u64(&writer, tries[i].cuts);
        }
        assert_int_equal(read_request(&request), 0);
        assert_int_equal(request_save_read(&request.map, &save), tries[i].error);
        assert_int_equal(save.step, tries[i].error == 0 ? 7 : 0);
        assert_int_equal(save.cut_count, tries[i].error == 0 ? tries[i].cuts : 0);
    }
    struct request request;
    struct request_save save;
    begin(3, 1, "worker_save");
    pack_text(&writer, "step");
    pack_u64(&writer, 7);
    pack_text(&writer, "bytes");
    pack_u64(&writer, 1000);
    pack_text(&writer, "cuts");
    pack_text(&writer, "all");
    assert_int_equal(read_request(&request), 0);
    assert_int_equal(request_save_read(&request.map, &save), ERR_MALFORMED);
}

static void a_part_of_a_save_is_below_their_number(void **state)
{
    (void)state;
    static const struct {
        uint64_t parts, part;
        int error;
    } tries[] = {{1, 0, 0},
                 {FACT_PARTS_MAX, FACT_PARTS_MAX - 1, 0},
                 {0, 0, ERR_MALFORMED},
                 {3, 3, ERR_MALFORMED},
                 {FACT_PARTS_MAX + 1, 0, ERR_MALFORMED},
                 {UINT64_MAX, UINT64_MAX - 1, ERR_MALFORMED}};
    static const char *const keys[] = {"step", "bytes", "save", "parts", "part"};
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        for (size_t missing = 0; missing <= 5; missing++) {
            struct request request;
            struct request_save save = {0};
            const uint64_t values[] = {7, 1000, UINT64_MAX, tries[i].parts, tries[i].part};
            begin(missing < 5 ? 4 : 5, 1, "worker_save_part");
            for (size_t key = 0; key < 5; key++) {
                if (key != missing) {
                    pack_text(&writer, keys[key]);
                    pack_u64(&writer, values[key]);
                }
            }
            assert_int_equal(read_request(&request), 0);
            assert_true(request.wants_fd);
            int error = missing < 5 ? ERR_MALFORMED : tries[i].error;
            assert_int_equal(request_save_part_read(&request.map, &save), error);
            assert_int_equal(save.part.count, error == 0 ? tries[i].parts : 0);
            assert_true(error != 0 || (save.part.part == tries[i].part && save.part.save == UINT64_MAX && save.part.step == 7));
        }
    }
}

static void ranges_of_a_part_are_optional_and_bounded(void **state)
{
    (void)state;
    static uint8_t packed[16 * (REQUEST_RANGES_MAX + 1)];
    static struct blob_range out[REQUEST_RANGES_MAX];
    static const size_t good[] = {16, 32, 16 * REQUEST_RANGES_MAX}, bad[] = {0, 8, 17, 16 * (REQUEST_RANGES_MAX + 1)};
    struct request request;
    uint32_t count = 9;
    bytes_put_u64(packed, 7);
    bytes_put_u64(packed + 8, UINT64_MAX);
    begin(0, 1, "worker_load");
    assert_int_equal(read_request(&request), 0);
    assert_true(request_ranges(&request.map, out, &count));
    assert_int_equal(count, 0);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        begin(1, 1, "worker_load");
        pack_text(&writer, "ranges");
        pack_bin(&writer, packed, good[i]);
        assert_int_equal(read_request(&request), 0);
        assert_true(request_ranges(&request.map, out, &count));
        assert_int_equal(count, good[i] / 16);
        assert_true(out[0].from == 7 && out[0].count == UINT64_MAX);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin(1, 1, "worker_load");
        pack_text(&writer, "ranges");
        pack_bin(&writer, packed, bad[i]);
        assert_int_equal(read_request(&request), 0);
        assert_false(request_ranges(&request.map, out, &count));
    }
    begin(1, 1, "worker_load");
    pack_text(&writer, "ranges");
    pack_u64(&writer, 1);
    assert_int_equal(read_request(&request), 0);
    assert_false(request_ranges(&request.map, out, &count));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_a_part_are_optional_and_bounded),
        cmocka_unit_test(a_part_of_a_save_is_below_their_number),
        cmocka_unit_test(a_request_is_a_map_with_v_id_and_op),
        cmocka_unit_test(a_request_of_another_version_is_told_apart),
        cmocka_unit_test(a_submission_is_read_whole),
        cmocka_unit_test(overrides_that_cannot_all_be_taken_are_refused),
        cmocka_unit_test(a_configuration_longer_than_its_bound_is_refused),
        cmocka_unit_test(ids_and_tokens_are_hexadecimal_of_their_length),
        cmocka_unit_test(a_report_that_is_not_all_numbers_is_refused_whole),
        cmocka_unit_test(a_report_has_room_for_so_many_names),
        cmocka_unit_test(cuts_of_a_save_are_optional_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
