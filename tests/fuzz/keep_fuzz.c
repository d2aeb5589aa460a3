/* What the daemon and shoal-keep say to each other: the first byte says 's' the file of what to run, 'e' the file of how it
 * ended, 'c' a command, 'l' what arrives on the link of a daemon. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "node/keep/proto.h"
#include "node/keep/spec.h"
#include "tests/fuzz/fuzz.h"

static void check_status(const struct keep_status *status)
{
    uint8_t bytes[KEEP_STATUS_FILE_BYTES];
    struct keep_status again;
    struct pack_writer writer;
    struct pack_reader reader;
    pack_writer_init(&writer, bytes, sizeof bytes);
    keep_proto_pack_status(&writer, status);
    CHECK(!writer.failed);
    pack_reader_init(&reader, bytes, writer.used_bytes);
    CHECK(keep_proto_unpack_status(&reader, &again) == 0);
    CHECK(again.reason == status->reason && again.code == status->code && again.signal == status->signal);
    CHECK(again.is_stopping == status->is_stopping);
    CHECK(strcmp(again.text, status->text) == 0);
}

static void read_status(const uint8_t *bytes, size_t count)
{
    struct keep_status status;
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    if (keep_proto_unpack_status(&reader, &status) == 0) {
        check_status(&status);
    }
}

static void read_spec(const uint8_t *bytes, size_t count)
{
    struct keep_run run;
    if (keep_run_read(bytes, count, &run) == 0) {
        CHECK(run.lock_count <= KEEP_LOCKS_MAX && run.lease_ms > 0 && run.locks[run.lock_count] == NULL);
        keep_run_wipe(&run);
        keep_run_close(&run);
    }
}

static void read_command(const uint8_t *bytes, size_t count)
{
    uint64_t kind, grace_ms;
    bool stacks;
    struct keep_core core;
    keep_core_init(&core, 1000, 30000);
    if (keep_proto_unpack_command(bytes, count, &kind, &grace_ms, &stacks) == 0) {
        keep_core_heard(&core, 1001);
        if (kind == KEEP_COMMAND_KILL) {
            keep_core_told(&core, 1001, grace_ms);
        }
        (void)keep_core_tick(&core, 1002);
        CHECK(keep_core_next_ms(&core) > 1002);
    }
}

static void read_link(const uint8_t *bytes, size_t count)
{
    struct keep_link link = {.run_directory = "/nowhere"};
    struct keep_event event;
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    link.fd = pair[1];
    frame_reader_init(&link.reader, link.buffer, sizeof link.buffer);
    CHECK(count == 0 || send(pair[0], bytes, count, 0) == (ssize_t)count);
    CHECK(close(pair[0]) == 0);
    int error;
    while ((error = keep_read_event(&link, &event)) == 0) {
        if (event.kind == KEEP_EVENT_ENDED) {
            check_status(&event.status);
        }
        CHECK((event.kind == KEEP_EVENT_STARTED) == (link.fd >= 0));
    }
    CHECK(error == ERR_AGAIN && link.fd < 0);
    keep_close(&link);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    uint8_t *bytes = malloc(size);
    CHECK(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    bytes = realloc(bytes, size > 1 ? size - 1 : 1); /* the exact size */
    CHECK(bytes != NULL);
    switch (data[0]) {
    case 's':
        read_spec(bytes, size - 1);
        break;
    case 'e':
        read_status(bytes, size - 1);
        break;
    case 'c':
        read_command(bytes, size - 1);
        break;
    case 'l':
        read_link(bytes, size - 1);
        break;
    default:
        break;
    }
    free(bytes);
}

static size_t frame(uint8_t *out, const struct pack_writer *writer)
{
    bytes_put_u32(out, (uint32_t)writer->used_bytes);
    memcpy(out + 4, writer->bytes, writer->used_bytes);
    return 4 + writer->used_bytes;
}

void fuzz_seeds(void)
{
    static const char *const environment[] = {"PATH=/bin:/usr/bin", "A=1"}, *const locks[] = {"/tmp/lock"};
    static const char *const entrypoints[] = {"true --x 1", "cd x && ./run 'a b'", "./run \"$(date)\""};
    uint8_t input[2048], bytes[1024], all[2048] = {'l'};
    struct pack_writer writer;
    for (size_t i = 0; i < sizeof entrypoints / sizeof entrypoints[0]; i++) {
        struct keep_spec spec = {.run_directory = "/r", .working_directory = "/r/work", .entrypoint = entrypoints[i],
                                 .environment = environment, .environment_count = 2, .lock_paths = locks, .lock_count = 1,
                                 .lease_ms = 30000, .log_cap_bytes = 1 << 20, .identity = bytes, .identity_bytes = 0};
        input[0] = 's';
        pack_writer_init(&writer, input + 1, sizeof input - 1);
        keep_spec_pack(&writer, &spec);
        CHECK(!writer.failed);
        fuzz_seed(input, 1 + writer.used_bytes);
    }
    struct keep_status status = {.reason = KEEP_EXITED, .code = 3, .text = "It could not be started."};
    input[0] = 'e';
    pack_writer_init(&writer, input + 1, sizeof input - 1);
    keep_proto_pack_status(&writer, &status);
    fuzz_seed(input, 1 + writer.used_bytes);
    input[0] = 'c';
    pack_writer_init(&writer, input + 1, sizeof input - 1);
    pack_array(&writer, 2);
    pack_u64(&writer, KEEP_COMMAND_KILL);
    pack_u64(&writer, 5000);
    fuzz_seed(input, 1 + writer.used_bytes);
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 4);
    pack_u64(&writer, KEEP_TOLD_STARTED);
    pack_u64(&writer, KEEP_PROTO_VERSION);
    pack_u64(&writer, 100);
    pack_u64(&writer, 101);
    size_t used = 1 + frame(all + 1, &writer);
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 2);
    pack_u64(&writer, KEEP_TOLD_ENDED);
    keep_proto_pack_status(&writer, &status);
    used += frame(all + used, &writer);
    fuzz_seed(all, used);
}
