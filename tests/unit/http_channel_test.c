/* The door's connections to the daemon: replies of one and of several parts, files, and ends. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/document.h"
#include "base/err.h"
#include "base/pack.h"
#include "node/daemon/local/http.h"
#include "node/http/channel.h"

static int control[2]; /* ours, and the daemon's */
static int daemon_fd;  /* the daemon's end of the channel */
static struct channel channel;

static int take_descriptor(char *first)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } room;
    char bytes[HTTP_MESSAGE_BYTES_MAX];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    assert_true(recvmsg(control[1], &message, 0) > 0);
    *first = bytes[0];
    int fd = -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head != NULL) {
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    }
    return fd;
}

static int begin(void **state)
{
    (void)state;
    char first;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control) != 0) {
        return -1;
    }
    channel_init(control[0]);
    if (channel_open(&channel) != 0) {
        return -1;
    }
    daemon_fd = take_descriptor(&first);
    return first == HTTP_CHANNEL && daemon_fd >= 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    channel_close(&channel);
    (void)close(daemon_fd);
    (void)close(control[0]);
    (void)close(control[1]);
    return 0;
}

/* One part: {"id": 1, "ok": ok, "end": end, "more": more, "rows": [row]}. */
static void send_part(bool ok, bool is_end, bool more, uint64_t row, int fd)
{
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 4u + more);
    pack_text(&writer, "id");
    pack_u64(&writer, 1);
    pack_text(&writer, "ok");
    pack_bool(&writer, ok);
    pack_text(&writer, "end");
    pack_bool(&writer, is_end);
    if (more) {
        pack_text(&writer, "more");
        pack_bool(&writer, true);
    }
    pack_text(&writer, "rows");
    pack_array(&writer, 1);
    pack_u64(&writer, row);
    assert_int_equal(frame_send(daemon_fd, bytes, writer.used_bytes, fd), 0);
}

static void a_reply_of_several_parts_ends_as_its_last_part_says(void **state)
{
    (void)state;
    msgpack_object reply;
    send_part(true, false, true, 7, -1);
    send_part(true, false, true, 8, -1);
    send_part(true, true, false, 9, -1);
    assert_int_equal(channel_next(&channel, 1000, &reply, NULL), 0);
    msgpack_object_array rows = document_list(&reply, "rows");
    assert_int_equal(rows.size, 3);
    assert_true(rows.ptr[2].via.u64 == 9);
    assert_true(document_true(&reply, "end"));
    send_part(true, false, true, 7, -1); /* one of a stream that goes on */
    send_part(true, false, false, 8, -1);
    assert_int_equal(channel_next(&channel, 1000, &reply, NULL), 0);
    assert_false(document_true(&reply, "end"));
    assert_true(document_true(&reply, "ok"));
}

static void a_reply_that_breaks_off_is_refused(void **state)
{
    (void)state;
    msgpack_object reply;
    send_part(true, false, true, 7, -1);
    send_part(false, true, false, 8, -1);
    assert_int_equal(channel_next(&channel, 1000, &reply, NULL), 0);
    assert_false(document_true(&reply, "ok"));
    assert_true(document_true(&reply, "end"));
    send_part(true, false, true, 7, -1);
    (void)shutdown(daemon_fd, SHUT_RDWR);
    assert_int_equal(channel_next(&channel, 1000, &reply, NULL), ERR_CLOSED);
}

static void a_reply_that_does_not_come_is_waited_for_and_not_lost(void **state)
{
    (void)state;
    msgpack_object reply;
    assert_int_equal(channel_next(&channel, 0, &reply, NULL), ERR_TIMEOUT);
    static const uint8_t early[] = {0, 0, 0, 20, 0x81, 0xa2, 'o', 'k'}; /* the begin of a frame */
    static const uint8_t rest[] = {0xc3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(write(daemon_fd, early, sizeof early), sizeof early);
    assert_int_equal(channel_next(&channel, 0, &reply, NULL), ERR_TIMEOUT);
    assert_int_equal(write(daemon_fd, rest, sizeof rest), sizeof rest);
    assert_int_equal(channel_next(&channel, 1000, &reply, NULL),
                     ERR_MALFORMED); /* whole now: a map, and bytes behind it */
    send_part(true, true, false, 5, -1);
    assert_int_equal(channel_next(&channel, 1000, &reply, NULL), 0);
    assert_true(document_list(&reply, "rows").ptr[0].via.u64 == 5);
}

static void a_file_comes_with_its_reply_or_is_closed(void **state)
{
    (void)state;
    msgpack_object reply;
    int ends[2], got = -1;
    assert_int_equal(pipe(ends), 0);
    send_part(true, true, false, 1, ends[1]);
    assert_int_equal(channel_next(&channel, 1000, &reply, &got), 0);
    assert_true(got >= 0);
    (void)close(got);
    send_part(true, true, false, 1, ends[1]); /* nobody asks for this one */
    assert_int_equal(channel_next(&channel, 1000, &reply, NULL), 0);
    (void)close(ends[1]);
    channel_close(&channel);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 0); /* no end for writing is left */
    (void)close(ends[0]);
    char first;
    assert_int_equal(channel_open(&channel), 0);
    (void)close(daemon_fd);
    daemon_fd = take_descriptor(&first);
}

static void without_a_daemon_no_channel_opens(void **state)
{
    (void)state;
    struct channel other;
    (void)shutdown(control[1], SHUT_RDWR);
    assert_int_equal(channel_open(&other), ERR_IO);
    channel_tell_line("nobody hears it");
    channel_tell_port(7412);
}

static void a_line_is_cut_to_a_packet(void **state)
{
    (void)state;
    char text[2 * HTTP_MESSAGE_BYTES_MAX], first;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    channel_tell_line(text);
    assert_int_equal(take_descriptor(&first), -1);
    assert_int_equal(first, HTTP_LINE);
    channel_tell_port(0x1234);
    char bytes[8];
    assert_int_equal(recv(control[1], bytes, sizeof bytes, 0), 3);
    assert_memory_equal(bytes, "p\x12\x34", 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reply_of_several_parts_ends_as_its_last_part_says),
        TEST(a_reply_that_breaks_off_is_refused),
        TEST(a_reply_that_does_not_come_is_waited_for_and_not_lost),
        TEST(a_file_comes_with_its_reply_or_is_closed),
        TEST(without_a_daemon_no_channel_opens),
        TEST(a_line_is_cut_to_a_packet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
