#include "tests/unit/control_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void side_open_at(struct side *side, const char *listen)
{
    char error[256] = "";
    memset(side, 0, sizeof *side);
    keys_create(&side->keys);
    side->context = zmq_ctx_new();
    assert_non_null(side->context);
    assert_int_equal(zap_open(side->context, &side->zap, error), 0);
    struct control_options options = {
        .context = side->context, .zap = side->zap, .keys = &side->keys, .listen = listen};
    if (control_open(&options, &side->control, error) != 0) {
        fail_msg("%s", error);
    }
    assert_true(control_port(side->control) > 0);
    (void)snprintf(side->address, sizeof side->address, "%s:%u", listen[0] == '[' ? "[::1]" : "127.0.0.1",
                   control_port(side->control));
}

void side_open(struct side *side)
{
    side_open_at(side, "127.0.0.1:0");
}

void side_close(struct side *side)
{
    control_close(&side->control);
    zap_close(&side->zap);
    assert_int_equal(zmq_ctx_term(side->context), 0);
}

void side_turn(struct side *side, long wait_ms)
{
    zmq_pollitem_t items[CONTROL_POLL_MAX];
    size_t count = control_poll_items(side->control, items);
    assert_true(zmq_poll(items, (int)count, wait_ms) >= 0);
    control_process(side->control);
}

void introduce(struct side *a, struct side *b)
{
    assert_int_equal(control_admit(a->control, b->keys.sign_public, false, false), 0);
    assert_int_equal(control_peer(a->control, b->keys.id, b->keys.sign_public, b->address), 0);
}

void befriend(struct side *a, struct side *b)
{
    introduce(a, b);
    introduce(b, a);
}

bool deliver(struct side *a, struct side *b, const char *text, uint64_t patience_ms)
{
    uint64_t end_ms = now_ms() + patience_ms, next_send_ms = 0;
    while (now_ms() < end_ms) {
        if (now_ms() >= next_send_ms) {
            (void)control_send(a->control, b->keys.id, (const uint8_t *)text, strlen(text));
            next_send_ms = now_ms() + 50;
        }
        side_turn(a, 1);
        side_turn(b, 5);
        struct control_incoming in;
        while (control_receive(b->control, &in) == 0) {
            if (in.from.kind == ZAP_MEMBER && node_id_equal(in.from.node, a->keys.id) && in.count == strlen(text) &&
                memcmp(in.bytes, text, in.count) == 0) {
                assert_int_equal(in.client, 0);
                return true;
            }
        }
    }
    return false;
}

uint32_t side_connections(const struct side *side, int *out_fd)
{
    uint32_t count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in local = {0}, peer;
        socklen_t bytes = sizeof local, peer_bytes = sizeof peer;
        if (getsockname(fd, (struct sockaddr *)&local, &bytes) == 0 && local.sin_family == AF_INET &&
            ntohs(local.sin_port) == control_port(side->control) &&
            getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0) {
            *out_fd = fd;
            count++;
        }
    }
    return count;
}
