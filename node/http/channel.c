#include "node/http/channel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/err.h"
#include "node/daemon/local/http.h"

#define DOCUMENT_BYTES_MAX (256u << 20)
#define ZONE_BYTES (64u << 10)

static int control = -1;
static pthread_mutex_t control_lock = PTHREAD_MUTEX_INITIALIZER;

void channel_init(int control_fd)
{
    control = control_fd;
}

/* One packet to the daemon; `passed` is -1 or a descriptor to go with it. */
static int tell(const char *bytes, size_t count, int passed)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } room;
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        memset(&room, 0, sizeof room);
        message.msg_control = &room;
        message.msg_controllen = sizeof room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &passed, sizeof passed);
    }
    (void)pthread_mutex_lock(&control_lock);
    ssize_t sent = sendmsg(control, &message, MSG_NOSIGNAL);
    (void)pthread_mutex_unlock(&control_lock);
    return sent == (ssize_t)count ? 0 : ERR_IO;
}

void channel_tell_line(const char *text)
{
    char bytes[HTTP_MESSAGE_BYTES_MAX];
    size_t count = strlen(text);
    count = count < sizeof bytes - 1 ? count : sizeof bytes - 1;
    bytes[0] = HTTP_LINE;
    memcpy(bytes + 1, text, count);
    (void)tell(bytes, count + 1, -1);
}

void channel_tell_port(uint16_t port)
{
    uint8_t bytes[3] = {HTTP_PORT};
    bytes_put_u16(bytes + 1, port);
    (void)tell((const char *)bytes, sizeof bytes, -1);
}

int channel_open(struct channel *out)
{
    static const char message[] = {HTTP_CHANNEL};
    int ends[2];
    *out = (struct channel){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return ERR_IO;
    }
    int code = tell(message, sizeof message, ends[1]);
    (void)close(ends[1]);
    out->buffer = code == 0 ? malloc(FRAME_BYTES_MAX + FRAME_HEAD_BYTES) : NULL;
    out->zone = out->buffer != NULL ? msgpack_zone_new(ZONE_BYTES) : NULL;
    if (out->zone == NULL) {
        (void)close(ends[0]);
        free(out->buffer);
        return code != 0 ? code : ERR_MEMORY;
    }
    out->fd = ends[0];
    frame_reader_init(&out->reader, out->buffer, FRAME_BYTES_MAX + FRAME_HEAD_BYTES);
    return 0;
}

void channel_close(struct channel *channel)
{
    frame_reader_close(&channel->reader);
    (void)close(channel->fd);
    msgpack_zone_free(channel->zone);
    free(channel->buffer);
}

int channel_send(struct channel *channel, const uint8_t *bytes, size_t count, int passed_fd)
{
    return frame_send(channel->fd, bytes, count, passed_fd);
}

void channel_forget(struct channel *channel)
{
    msgpack_zone_clear(channel->zone);
    channel->document_bytes = 0;
}

/* Joins the parts of a reply. What ends it stands in its last part, which says `end`, or why the rest does not come. */
static int join(struct channel *channel, const msgpack_object *parts, size_t count, msgpack_object *out)
{
    const msgpack_object *last = &parts[count - 1];
    if (!document_true(last, "ok")) {
        *out = *last;
        return 0;
    }
    int code = document_join(channel->zone, parts, count, out);
    msgpack_object_map pairs = code == 0 && count > 1 ? document_pairs(out) : (msgpack_object_map){.size = 0};
    for (uint32_t i = 0; i < pairs.size; i++) {
        const msgpack_object *key = &pairs.ptr[i].key;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == 3 && memcmp(key->via.str.ptr, "end", 3) == 0) {
            pairs.ptr[i].val = *document_find(last, "end");
        }
    }
    return code;
}

int channel_next(struct channel *channel, int timeout_ms, msgpack_object *out, int *passed_fd)
{
    msgpack_object *parts = NULL;
    size_t count = 0;
    int code = 0;
    bool more = true;
    while (more && code == 0) {
        const uint8_t *bytes;
        size_t byte_count;
        int fd = -1;
        code = frame_reader_wait(&channel->reader, channel->fd, count == 0 ? timeout_ms : CHANNEL_ANSWER_MS, &bytes,
                                 &byte_count, 0, &fd);
        if (code != 0) {
            break;
        }
        channel->document_bytes += byte_count;
        if (channel->document_bytes > DOCUMENT_BYTES_MAX) {
            code = ERR_FULL;
            break;
        }
        msgpack_object *grown = realloc(parts, (count + 1) * sizeof *parts);
        if (grown == NULL) {
            code = ERR_MEMORY;
            break;
        }
        parts = grown;
        code = document_read(channel->zone, bytes, byte_count, &parts[count]);
        more = code == 0 && document_true(&parts[count], "more");
        count++;
    }
    if (code == 0) {
        code = join(channel, parts, count, out);
    }
    if (code == 0 && passed_fd != NULL) {
        *passed_fd = frame_reader_take_fd(&channel->reader);
    }
    free(parts);
    return code;
}
