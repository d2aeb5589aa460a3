/* What a program writes to the local socket: u8 how much of it arrives at a time (times 64, and 64 more), then the stream. Frames come out
 * the same however the stream is cut, and each is read as every kind of request. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/frame.h"
#include "node/core/facts/config.h"
#include "node/daemon/wire/request.h"
#include "tests/fuzz/fuzz.h"

#define BUFFER_BYTES 8192

static void read_arguments(const struct pack_reader *map)
{
    static const char *const keys[] = {"v", "id", "trial", "rank", "step", "from", "timeout_s", "expires_s", "port", "bytes"};
    uint64_t number;
    char text[32];
    lease_token token;
    experiment_id experiment;
    struct request_submit submit;
    struct request_report report;
    struct request_save save;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        (void)request_u64(map, keys[i], &number);
    }
    (void)request_text(map, "group", text, sizeof text);
    (void)request_flag(map, "follow");
    (void)request_token(map, &token);
    if (request_experiment_id(map, &experiment)) {
        CHECK(!experiment_id_is_none(experiment));
    }
    if (request_submit_read(map, &submit) == 0) {
        CHECK(submit.config_bytes <= CONFIG_TEXT_BYTES_MAX && submit.override_count <= REQUEST_OVERRIDES_MAX);
        CHECK(strlen(submit.file) < sizeof submit.file);
        for (uint32_t i = 0; i < submit.override_count; i++) {
            CHECK(memchr(submit.overrides[i].text, 0, submit.overrides[i].bytes) == NULL);
        }
    }
    if (request_save_read(map, &save) == 0) {
        CHECK(save.cut_count <= REQUEST_CUTS_MAX);
    }
    if (request_report_read(map, &report) == 0) {
        CHECK(pack_read_map(&report.metrics) <= BUFFER_BYTES && strlen(report.group) < sizeof report.group);
    }
}

static void take_frames(struct frame_reader *reader, const uint8_t *stream, size_t *at, bool *broken)
{
    const uint8_t *bytes;
    size_t count;
    int fd, error;
    while ((error = frame_reader_next(reader, &bytes, &count, 1, &fd)) == 0) {
        CHECK(fd == -1);
        CHECK(bytes_get_u32(stream + *at) == count && memcmp(stream + *at + 4, bytes, count) == 0);
        *at += 4 + count;
        struct request request;
        uint8_t *exact = malloc(count > 0 ? count : 1);
        CHECK(exact != NULL);
        memcpy(exact, bytes, count);
        (void)request_read(exact, count, &request);
        read_arguments(&request.map);
        free(exact);
    }
    CHECK(error == ERR_AGAIN || error == ERR_MALFORMED);
    *broken = error == ERR_MALFORMED;
}

void fuzz_one(const uint8_t *data, size_t size)
{
    static uint8_t buffer[BUFFER_BYTES];
    int pair[2];
    if (size == 0) {
        return;
    }
    size_t part = 64 * ((size_t)data[0] + 1), at = 0;
    const uint8_t *stream = data + 1;
    struct frame_reader reader;
    bool broken = false;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    frame_reader_init(&reader, buffer, sizeof buffer);
    for (size_t sent = 0; sent < size - 1 && !broken;) {
        size_t count = part < size - 1 - sent ? part : size - 1 - sent;
        CHECK(send(pair[0], stream + sent, count, 0) == (ssize_t)count);
        sent += count;
        CHECK(frame_reader_fill(&reader, pair[1]) == 0);
        take_frames(&reader, stream, &at, &broken);
    }
    frame_reader_close(&reader);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
}

struct stream {
    uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    size_t count;
};

static void begin(struct pack_writer *writer, uint8_t bytes[1024], const char *op, uint32_t pairs)
{
    pack_writer_init(writer, bytes, 1024);
    pack_map(writer, 3 + pairs);
    pack_text(writer, "v");
    pack_u64(writer, REQUEST_PROTOCOL_VERSION);
    pack_text(writer, "id");
    pack_u64(writer, 3);
    pack_text(writer, "op");
    pack_text(writer, op);
}

static void end(struct stream *all, const struct pack_writer *writer)
{
    uint8_t alone[2048] = {255};
    CHECK(!writer->failed);
    bytes_put_u32(alone + 1, (uint32_t)writer->used_bytes);
    memcpy(alone + 5, writer->bytes, writer->used_bytes);
    fuzz_seed(alone, 5 + writer->used_bytes);
    memcpy(all->bytes + all->count, alone + 1, 4 + writer->used_bytes);
    all->count += 4 + writer->used_bytes;
}

void fuzz_seeds(void)
{
    static const char *const about_experiment[] = {"show", "wait", "watch", "cancel", "logs", "checkpoint_get"};
    static struct stream all = {.bytes = {0}, .count = 1};
    uint8_t bytes[1024];
    struct pack_writer writer;
    begin(&writer, bytes, "status", 0);
    end(&all, &writer);
    for (size_t i = 0; i < sizeof about_experiment / sizeof about_experiment[0]; i++) {
        begin(&writer, bytes, about_experiment[i], 4);
        pack_text(&writer, "experiment");
        pack_text(&writer, "00000000000000ff");
        pack_text(&writer, "trial");
        pack_u64(&writer, 2);
        pack_text(&writer, "follow");
        pack_bool(&writer, true);
        pack_text(&writer, "timeout_s");
        pack_u64(&writer, 60);
        end(&all, &writer);
    }
    begin(&writer, bytes, "submit", 5);
    pack_text(&writer, "experiment");
    pack_text(&writer, "00000000000000ff");
    pack_text(&writer, "file");
    pack_text(&writer, "exp.yaml");
    pack_text(&writer, "config");
    pack_text(&writer, "name: a\n");
    pack_text(&writer, "bytes");
    pack_u64(&writer, 77);
    pack_text(&writer, "overrides");
    pack_array(&writer, 2);
    pack_text(&writer, "seed=1");
    pack_text(&writer, "name=b");
    end(&all, &writer);
    for (uint32_t more = 0; more < 2; more++) { /* as many overrides as there may be, and one more */
        begin(&writer, bytes, "submit", 5);
        pack_text(&writer, "experiment");
        pack_text(&writer, "00000000000000ff");
        pack_text(&writer, "file");
        pack_text(&writer, "exp.yaml");
        pack_text(&writer, "config");
        pack_text(&writer, "");
        pack_text(&writer, "bytes");
        pack_u64(&writer, 0);
        pack_text(&writer, "overrides");
        pack_array(&writer, REQUEST_OVERRIDES_MAX + more);
        for (uint32_t i = 0; i < REQUEST_OVERRIDES_MAX + more; i++) {
            pack_text(&writer, "a");
        }
        end(&all, &writer);
    }
    begin(&writer, bytes, "worker_open", 1);
    pack_text(&writer, "token");
    pack_text(&writer, "000102030405060708090a0b0c0d0e0f");
    end(&all, &writer);
    begin(&writer, bytes, "worker_save", 3);
    pack_text(&writer, "step");
    pack_u64(&writer, 100);
    pack_text(&writer, "bytes");
    pack_u64(&writer, 1 << 20);
    pack_text(&writer, "cuts");
    pack_u64(&writer, 44);
    end(&all, &writer);
    begin(&writer, bytes, "worker_report", 3);
    pack_text(&writer, "group");
    pack_text(&writer, "validation");
    pack_text(&writer, "step");
    pack_u64(&writer, 100);
    pack_text(&writer, "metrics");
    pack_map(&writer, 2);
    pack_text(&writer, "accuracy");
    pack_double(&writer, 0.5);
    pack_text(&writer, "count");
    pack_i64(&writer, -3);
    end(&all, &writer);
    fuzz_seed(all.bytes, all.count);
}
