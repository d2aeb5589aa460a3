/* What travels for commands beside workers: the first byte says 'n' what a node asks of another one, else the rest is a
 * frame between the command line and shoal-keep. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/daemon/wire/shell_request.h"
#include "node/keep/shell_wire.h"
#include "tests/fuzz/fuzz.h"

static struct shell_frame frame, again;

static void read_request(const uint8_t *bytes, size_t count)
{
    struct shell_request request, second;
    uint8_t out[SHELL_REQUEST_BYTES];
    if (shell_request_read(bytes, count, &request) == 0) {
        CHECK(request.is_forward == (request.port != 0));
        CHECK(shell_request_read(out, shell_request_write(&request, out), &second) == 0);
        CHECK(second.worker == request.worker && second.port == request.port &&
              second.attempt.term == request.attempt.term);
    }
}

static void read_frame(const uint8_t *bytes, size_t count)
{
    static uint8_t out[2 * SHELL_FRAME_BYTES_MAX];
    size_t out_bytes;
    if (shell_frame_decode(bytes, count, &frame) != 0) {
        return;
    }
    CHECK(frame.count < SHELL_FRAME_BYTES_MAX && strlen(frame.term) < sizeof frame.term);
    const char *word = frame.words;
    for (uint32_t i = 0; i < frame.word_count; i++) {
        word += strlen(word) + 1;
        CHECK(word <= frame.words + sizeof frame.words);
    }
    CHECK(shell_frame_encode(&frame, out, sizeof out, &out_bytes) == 0);
    CHECK(out_bytes > SHELL_FRAME_BYTES_MAX || shell_frame_decode(out, out_bytes, &again) == 0);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    uint8_t *bytes = malloc(size); /* the exact size */
    CHECK(bytes != NULL);
    memcpy(bytes, data, size);
    if (bytes[0] == 'n') {
        read_request(bytes + 1, size - 1);
    } else {
        read_frame(bytes, size);
    }
    free(bytes);
}

void fuzz_seeds(void)
{
    static const uint8_t kinds[] = {SHELL_RUN,    SHELL_INPUT,  SHELL_INPUT_END, SHELL_WINDOW,
                                    SHELL_SIGNAL, SHELL_OUTPUT, SHELL_EXIT,      SHELL_FAILED};
    uint8_t input[1024];
    size_t count;
    for (size_t i = 0; i < sizeof kinds; i++) {
        frame = (struct shell_frame){
            .kind = kinds[i], .window = {24, 80}, .signal = 2, .code = 3, .term = "xterm", .word_count = 2};
        memcpy(frame.words, "ls\0-l", sizeof "ls\0-l");
        CHECK(shell_frame_encode(&frame, input, sizeof input, &count) == 0);
        fuzz_seed(input, count);
    }
    struct shell_request request = {
        .is_forward = true, .attempt = {.experiment = {{1}}, .number = 1, .coordinator = {{2}}}, .port = 80};
    input[0] = 'n';
    fuzz_seed(input, 1 + shell_request_write(&request, input + 1));
}
