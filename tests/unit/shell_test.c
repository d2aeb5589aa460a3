/* What travels for commands beside workers: the request between nodes, and the frames between the command line and
 * shoal-keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/pack.h"
#include "node/daemon/wire/shell_request.h"
#include "node/keep/shell_wire.h"

static const struct shell_request wishes[] = {
    {.attempt = {.experiment = {{1, 2}}, .trial = 3, .number = 4, .term = 1ull << 60, .coordinator = {{5, 6}}},
     .worker = 7},
    {.is_forward = true,
     .attempt = {.experiment = {{9}}, .trial = UINT32_MAX, .number = 1, .coordinator = {{5}}},
     .port = 65535},
};

static void a_request_survives_the_wire(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        uint8_t bytes[SHELL_REQUEST_BYTES];
        struct shell_request read = {0};
        size_t count = shell_request_write(&wishes[i], bytes);
        assert_int_equal(shell_request_read(bytes, count, &read), 0);
        assert_int_equal(read.is_forward, wishes[i].is_forward);
        assert_int_equal(read.worker, wishes[i].worker);
        assert_int_equal(read.port, wishes[i].port);
        assert_int_equal(read.attempt.trial, wishes[i].attempt.trial);
        assert_true(read.attempt.term == wishes[i].attempt.term);
        assert_true(experiment_id_equal(read.attempt.experiment, wishes[i].attempt.experiment));
        assert_true(node_id_equal(read.attempt.coordinator, wishes[i].attempt.coordinator));
        for (size_t cut = 0; cut < count; cut++) {
            assert_int_equal(shell_request_read(bytes, cut, &read), ERR_MALFORMED);
        }
    }
}

static void a_connection_needs_a_port_and_other_kinds_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[SHELL_REQUEST_BYTES];
    struct shell_request wish = wishes[1], read;
    wish.port = 0;
    assert_int_equal(shell_request_read(bytes, shell_request_write(&wish, bytes), &read), ERR_MALFORMED);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 1);
    pack_text(&writer, "kind");
    pack_text(&writer, "other");
    assert_int_equal(shell_request_read(bytes, writer.used_bytes, &read), ERR_MALFORMED);
}

static struct shell_frame frame, again;
static uint8_t wire[SHELL_FRAME_BYTES_MAX];

static void a_command_survives_the_wire(void **state)
{
    (void)state;
    size_t count;
    frame = (struct shell_frame){
        .kind = SHELL_RUN, .has_terminal = true, .window = {50, 200}, .term = "xterm", .word_count = 3};
    memcpy(frame.words, "sh\0-c\0echo $HOME", sizeof "sh\0-c\0echo $HOME");
    assert_int_equal(shell_frame_encode(&frame, wire, sizeof wire, &count), 0);
    assert_int_equal(shell_frame_decode(wire, count, &again), 0);
    assert_int_equal(again.word_count, 3);
    assert_memory_equal(again.words, "sh\0-c\0echo $HOME", sizeof "sh\0-c\0echo $HOME");
    assert_true(again.has_terminal && again.window.rows == 50 && again.window.columns == 200);
    assert_string_equal(again.term, "xterm");
    for (size_t cut = 0; cut < count; cut++) {
        assert_int_equal(shell_frame_decode(wire, cut, &again), ERR_MALFORMED);
    }
}

static void a_command_of_no_words_or_too_many_bytes_is_refused(void **state)
{
    (void)state;
    size_t count;
    frame = (struct shell_frame){.kind = SHELL_RUN};
    assert_int_equal(shell_frame_encode(&frame, wire, sizeof wire, &count), 0);
    assert_int_equal(shell_frame_decode(wire, count, &again), ERR_MALFORMED);
    struct pack_writer writer;
    static char word[SHELL_COMMAND_BYTES + 1];
    memset(word, 'x', SHELL_COMMAND_BYTES);
    wire[0] = SHELL_RUN;
    for (size_t length = SHELL_COMMAND_BYTES - 1; length <= SHELL_COMMAND_BYTES; length++) {
        pack_writer_init(&writer, wire + 1, sizeof wire - 1);
        pack_array(&writer, 6);
        pack_u64(&writer, 1);
        pack_bool(&writer, false);
        pack_u64(&writer, 1);
        pack_u64(&writer, 1);
        pack_text(&writer, "");
        pack_array(&writer, 1);
        pack_text_n(&writer, word, length);
        assert_false(writer.failed);
        assert_int_equal(shell_frame_decode(wire, 1 + writer.used_bytes, &again),
                         length < SHELL_COMMAND_BYTES ? 0 : ERR_MALFORMED);
    }
}

static void other_frames_survive_the_wire(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {SHELL_INPUT,  SHELL_INPUT_END, SHELL_WINDOW, SHELL_SIGNAL, SHELL_OUTPUT,
                                    SHELL_ERRORS, SHELL_EXIT,      SHELL_FAILED, 'Z'};
    for (size_t i = 0; i < sizeof kinds; i++) {
        size_t count;
        bool has_bytes = strchr("iopfZ", kinds[i]) != NULL;
        frame = (struct shell_frame){.kind = kinds[i], .window = {1, 2}, .signal = 15, .code = -9};
        frame.bytes = (const uint8_t *)"bytes";
        frame.count = has_bytes ? 5 : 0;
        assert_int_equal(shell_frame_encode(&frame, wire, sizeof wire, &count), 0);
        assert_int_equal(shell_frame_decode(wire, count, &again), 0);
        assert_int_equal(again.kind, kinds[i]);
        assert_int_equal(again.count, frame.count);
        assert_int_equal(again.code, kinds[i] == SHELL_EXIT ? -9 : 0);
        assert_int_equal(again.signal, kinds[i] == SHELL_SIGNAL ? 15 : 0);
        assert_int_equal(again.window.columns, kinds[i] == SHELL_WINDOW ? 2 : 0);
    }
    wire[0] = SHELL_SIGNAL;
    wire[1] = 64;
    assert_int_equal(shell_frame_decode(wire, 2, &again), ERR_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_survives_the_wire),
        cmocka_unit_test(a_connection_needs_a_port_and_other_kinds_are_refused),
        cmocka_unit_test(a_command_survives_the_wire),
        cmocka_unit_test(a_command_of_no_words_or_too_many_bytes_is_refused),
        cmocka_unit_test(other_frames_survive_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
