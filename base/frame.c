#include "base/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"

#define FDS_MAX 4

static int wait_for(int fd, short events, int timeout_ms)
{
    struct pollfd item = {.fd = fd, .events = events};
    int ready;
    do {
        ready = poll(&item, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 ? 0 : ready == 0 ? ERR_TIMEOUT : ERR_IO;
}

int frame_send(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd)
{
    if (count > FRAME_BYTES_MAX) {
        return ERR_USAGE;
    }
    uint8_t head[4];
    bytes_put_u32(head, (uint32_t)count);
    size_t sent = 0;
    while (sent < count + 4) {
        struct iovec parts[2];
        int part_count = 0;
        if (sent < 4) {
            parts[part_count++] = (struct iovec){head + sent, 4 - sent};
        }
        size_t body_sent = sent > 4 ? sent - 4 : 0;
        parts[part_count++] = (struct iovec){(void *)(uintptr_t)(bytes + body_sent), count - body_sent};
        union {
            struct cmsghdr header;
            char space[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)part_count};
        if (sent == 0 && passed_fd >= 0) {
            memset(&control, 0, sizeof control);
            message.msg_control = &control;
            message.msg_controllen = sizeof control.space;
            struct cmsghdr *c = CMSG_FIRSTHDR(&message);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(c), &passed_fd, sizeof(int));
        }
        ssize_t n = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            int error = wait_for(socket_fd, POLLOUT, 5000);
            if (error != 0) {
                return error;
            }
        } else if (n < 0 && errno != EINTR) {
            return errno == EPIPE || errno == ECONNRESET ? ERR_CLOSED : ERR_IO;
        } else if (n > 0) {
            sent += (size_t)n;
        }
    }
    return 0;
}

void frame_reader_init(struct frame_reader *reader, uint8_t *buffer, size_t capacity_bytes)
{
    *reader = (struct frame_reader){.buffer = buffer, .capacity_bytes = capacity_bytes};
    for (int i = 0; i < FDS_MAX; i++) {
        reader->fds[i] = -1;
    }
}

void frame_reader_close(struct frame_reader *reader)
{
    for (int i = 0; i < FDS_MAX; i++) {
        if (reader->fds[i] >= 0) {
            (void)close(reader->fds[i]);
            reader->fds[i] = -1;
        }
    }
}

static void keep_fd(struct frame_reader *reader, int fd)
{
    for (int i = 0; i < FDS_MAX; i++) {
        if (reader->fds[i] < 0) {
            reader->fds[i] = fd;
            return;
        }
    }
    (void)close(fd); /* more than a frame may carry: the sender is wrong */
}

int frame_reader_fill(struct frame_reader *reader, int socket_fd)
{
    if (reader->taken_bytes > 0) {
        memmove(reader->buffer, reader->buffer + reader->taken_bytes, reader->used_bytes - reader->taken_bytes);
        reader->used_bytes -= reader->taken_bytes;
        reader->taken_bytes = 0;
    }
    if (reader->used_bytes == reader->capacity_bytes) {
        return ERR_FULL;
    }
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec part = {reader->buffer + reader->used_bytes, reader->capacity_bytes - reader->used_bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    ssize_t n;
    do {
        n = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK ? ERR_AGAIN : errno == ECONNRESET ? ERR_CLOSED : ERR_IO;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t fd_count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < fd_count; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
                keep_fd(reader, fd);
            }
        }
    }
    if (n == 0) {
        return ERR_CLOSED;
    }
    reader->used_bytes += (size_t)n;
    return 0;
}

int frame_reader_next(struct frame_reader *reader, const uint8_t **bytes, size_t *count, int wants_fd, int *passed_fd)
{
    size_t left = reader->used_bytes - reader->taken_bytes;
    if (left < 4) {
        return ERR_AGAIN;
    }
    const uint8_t *head = reader->buffer + reader->taken_bytes;
    uint32_t length = bytes_get_u32(head);
    if (length > reader->capacity_bytes - 4) {
        return ERR_MALFORMED;
    }
    if (left - 4 < length) {
        return ERR_AGAIN;
    }
    *bytes = head + 4;
    *count = length;
    *passed_fd = -1;
    if (wants_fd) {
        *passed_fd = reader->fds[0];
        memmove(reader->fds, reader->fds + 1, (FDS_MAX - 1) * sizeof(int));
        reader->fds[FDS_MAX - 1] = -1;
    }
    reader->taken_bytes += 4 + (size_t)length;
    return 0;
}

int frame_reader_wait(struct frame_reader *reader, int socket_fd, int timeout_ms, const uint8_t **bytes, size_t *count,
                      int wants_fd, int *passed_fd)
{
    for (;;) {
        int error = frame_reader_next(reader, bytes, count, wants_fd, passed_fd);
        if (error != ERR_AGAIN) {
            return error;
        }
        error = wait_for(socket_fd, POLLIN, timeout_ms);
        if (error == 0) {
            error = frame_reader_fill(reader, socket_fd);
        }
        if (error != 0 && error != ERR_AGAIN) {
            return error;
        }
    }
}
