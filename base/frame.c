#include "base/frame.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"

static int wait_for(int fd, short events, int timeout_ms)
{
    struct pollfd item = {.fd = fd, .events = events};
    int ready;
    do {
        ready = poll(&item, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 ? 0 : ready == 0 ? ERR_TIMEOUT : ERR_IO;
}

/* One sendmsg of the rest of a frame, after `*sent` bytes of head and body. Results as frame_send_some. */
static int send_once(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd, int flags, size_t *sent)
{
    uint8_t head[FRAME_HEAD_BYTES];
    bytes_put_u32(head, (uint32_t)count);
    struct iovec parts[2];
    int part_count = 0;
    if (*sent < FRAME_HEAD_BYTES) {
        parts[part_count++] = (struct iovec){head + *sent, FRAME_HEAD_BYTES - *sent};
    }
    size_t body_sent = *sent > FRAME_HEAD_BYTES ? *sent - FRAME_HEAD_BYTES : 0;
    parts[part_count++] = (struct iovec){(void *)(uintptr_t)(bytes + body_sent), count - body_sent};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)part_count};
    if (*sent == 0 && passed_fd >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &passed_fd, sizeof(int));
    }
    ssize_t n;
    do {
        n = sendmsg(socket_fd, &message, MSG_NOSIGNAL | flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        bool is_full = errno == EAGAIN || errno == EWOULDBLOCK;
        return is_full ? ERR_AGAIN : errno == EPIPE || errno == ECONNRESET ? ERR_CLOSED : ERR_IO;
    }
    *sent += (size_t)n;
    return 0;
}

int frame_send_some(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd, size_t *sent)
{
    if (count > FRAME_BYTES_MAX) {
        return ERR_USAGE;
    }
    int error = 0;
    while (error == 0 && *sent < FRAME_HEAD_BYTES + count) {
        error = send_once(socket_fd, bytes, count, passed_fd, MSG_DONTWAIT, sent);
    }
    return error;
}

int frame_send(int socket_fd, const uint8_t *bytes, size_t count, int passed_fd)
{
    if (count > FRAME_BYTES_MAX) {
        return ERR_USAGE;
    }
    int error = 0;
    for (size_t sent = 0; error == 0 && sent < FRAME_HEAD_BYTES + count;) {
        error = send_once(socket_fd, bytes, count, passed_fd, 0, &sent);
        if (error == ERR_AGAIN) {
            error = wait_for(socket_fd, POLLOUT, 5000);
        }
    }
    return error;
}

void frame_reader_init(struct frame_reader *reader, uint8_t *buffer, size_t capacity_bytes)
{
    *reader = (struct frame_reader){.buffer = buffer, .capacity_bytes = capacity_bytes};
    for (int i = 0; i < FRAME_FDS_MAX; i++) {
        reader->fds[i] = -1;
    }
}

void frame_reader_close(struct frame_reader *reader)
{
    for (int i = 0; i < FRAME_FDS_MAX; i++) {
        if (reader->fds[i] >= 0) {
            (void)close(reader->fds[i]);
            reader->fds[i] = -1;
        }
    }
}

static void keep_fd(struct frame_reader *reader, int fd)
{
    for (int i = 0; i < FRAME_FDS_MAX; i++) {
        if (reader->fds[i] < 0) {
            reader->fds[i] = fd;
            return;
        }
    }
    (void)close(fd); /* the sender passed more descriptors than frames may carry */
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
        char space[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
    } control;
    struct iovec part = {reader->buffer + reader->used_bytes, reader->capacity_bytes - reader->used_bytes};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    ssize_t n;
    do {
        n = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC | (reader->never_waits ? MSG_DONTWAIT : 0));
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
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        return ERR_IO; /* this process had no room for a descriptor, so the next descriptor would be taken for the lost one */
    }
    reader->used_bytes += (size_t)n;
    return 0;
}

int frame_reader_take_fd(struct frame_reader *reader)
{
    int fd = reader->fds[0];
    memmove(reader->fds, reader->fds + 1, (FRAME_FDS_MAX - 1) * sizeof(int));
    reader->fds[FRAME_FDS_MAX - 1] = -1;
    return fd;
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
    *passed_fd = wants_fd ? frame_reader_take_fd(reader) : -1;
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
