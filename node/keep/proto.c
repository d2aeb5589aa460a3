#include "node/keep/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/descriptors.h"
#include "base/err.h"

int keep_proto_send(int fd, const uint8_t *bytes, size_t count)
{
    CHECK(count <= KEEP_FRAME_BYTES_MAX);
    uint8_t frame[4 + KEEP_FRAME_BYTES_MAX];
    bytes_put_u32(frame, (uint32_t)count);
    memcpy(frame + 4, bytes, count);
    ssize_t n;
    do {
        n = send(fd, frame, count + 4, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? ERR_AGAIN
               : errno == EPIPE || errno == ECONNRESET ? ERR_CLOSED
                                                       : ERR_IO;
    }
    /* a Unix stream socket takes so few bytes whole or not at all */
    return (size_t)n == count + 4 ? 0 : ERR_IO;
}

int keep_proto_unpack_command(const uint8_t *bytes, size_t count, uint64_t *kind, uint64_t *grace_ms,
                              bool *stacks)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t elements = pack_read_array(&reader);
    uint64_t command = pack_read_u64(&reader);
    uint64_t grace = command == KEEP_COMMAND_KILL && elements >= 2 ? pack_read_u64(&reader) : 0;
    bool wants_stacks = command == KEEP_COMMAND_KILL && elements >= 3 && pack_read_bool(&reader);
    if (reader.failed) {
        return ERR_MALFORMED;
    }
    *kind = command;
    *grace_ms = grace;
    *stacks = wants_stacks;
    return 0;
}

int keep_proto_unpack_event(const uint8_t *bytes, size_t count, struct keep_event *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t elements = pack_read_array(&reader);
    uint64_t kind = pack_read_u64(&reader);
    struct keep_event event = {0};
    if (kind == KEEP_TOLD_STARTED && elements >= 4) {
        event.kind = KEEP_EVENT_STARTED;
        (void)pack_read_u64(&reader);
        event.keep_pid = (int32_t)pack_read_u64_max(&reader, INT32_MAX);
        event.worker_pid = (int32_t)pack_read_u64_max(&reader, INT32_MAX);
    } else if (kind == KEEP_TOLD_ENDED && elements >= 2) {
        event.kind = KEEP_EVENT_ENDED;
        int error = keep_proto_unpack_status(&reader, &event.status);
        if (error != 0) {
            return error;
        }
    } else if (!reader.failed) {
        return ERR_AGAIN;
    }
    if (reader.failed) {
        return ERR_MALFORMED;
    }
    *out = event;
    return 0;
}

void keep_proto_pack_status(struct pack_writer *writer, const struct keep_status *status)
{
    pack_map(writer, 6);
    pack_text(writer, "reason");
    pack_u64(writer, (uint64_t)status->reason);
    pack_text(writer, "code");
    pack_i64(writer, status->code);
    pack_text(writer, "signal");
    pack_i64(writer, status->signal);
    pack_text(writer, "text");
    pack_text(writer, status->text);
    pack_text(writer, "stopping");
    pack_bool(writer, status->is_stopping);
    pack_text(writer, "memory");
    pack_u64(writer, (uint64_t)status->memory);
}

int keep_proto_unpack_status(struct pack_reader *reader, struct keep_status *out)
{
    struct pack_reader reason = pack_find(reader, "reason");
    struct pack_reader code = pack_find(reader, "code");
    struct pack_reader signal = pack_find(reader, "signal");
    struct pack_reader text = pack_find(reader, "text");
    struct pack_reader stopping = pack_find(reader, "stopping"); /* an older shoal-keep leaves these out */
    struct pack_reader memory = pack_find(reader, "memory");
    struct keep_status status = {0};
    uint64_t reason_number = pack_read_u64_max(&reason, KEEP_NOT_STARTED);
    int64_t code_number = pack_read_i64(&code);
    int64_t signal_number = pack_read_i64(&signal);
    pack_read_text_copy(&text, status.text, sizeof status.text);
    if (reason.failed || code.failed || signal.failed || text.failed || reason_number < KEEP_EXITED || code_number < -1 ||
        code_number > 255 || signal_number < 0 || signal_number > 255) {
        return ERR_MALFORMED;
    }
    status.reason = (enum keep_reason)reason_number;
    status.code = (int32_t)code_number;
    status.signal = (int32_t)signal_number;
    uint64_t memory_number = pack_read_u64_max(&memory, KEEP_MEMORY_MACHINE);
    status.memory = memory.failed ? KEEP_MEMORY_NONE : (enum keep_memory_cause)memory_number;
    status.is_stopping = pack_read_bool(&stopping) && !stopping.failed;
    *out = status;
    return 0;
}

int keep_proto_read_file(int directory_fd, const char *name, size_t bytes_max, uint8_t **bytes, size_t *count)
{
    int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    }
    struct stat info;
    uint8_t *memory = NULL;
    int error = 0;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        error = ERR_IO;
    } else if ((uint64_t)info.st_size > bytes_max) {
        error = ERR_FULL;
    } else if ((memory = malloc((size_t)info.st_size + 1)) == NULL) {
        error = ERR_MEMORY;
    } else {
        error = descriptor_read_at(fd, memory, (size_t)info.st_size, 0) == 0 ? 0 : ERR_IO;
    }
    (void)close(fd);
    if (error != 0) {
        free(memory);
        return error;
    }
    memory[info.st_size] = '\0';
    *bytes = memory;
    *count = (size_t)info.st_size;
    return 0;
}

void keep_proto_address(int directory_fd, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(out->sun_path, sizeof out->sun_path, "/proc/self/fd/%d/" KEEP_FILE_SOCKET, directory_fd);
}
