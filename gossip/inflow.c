#include "gossip/inflow.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

#define FDS_MAX 65536

struct inflow_link {
    bool open, brought; /* brought: a message arrived since the last look */
    uint64_t bytes;     /* received when that message was seen */
};

void inflow_close(struct inflow *inflow)
{
    free(inflow->links);
    *inflow = (struct inflow){0};
}

static struct inflow_link *link_at(struct inflow *inflow, int fd)
{
    return fd >= 0 && (size_t)fd < inflow->room ? &inflow->links[fd] : NULL;
}

static void link_forget(struct inflow *inflow, struct inflow_link *link)
{
    if (link != NULL && link->open) {
        *link = (struct inflow_link){0};
        inflow->count--;
    }
}

static void link_add(struct inflow *inflow, int fd)
{
    if (fd < 0 || fd >= FDS_MAX) {
        return;
    }
    if ((size_t)fd >= inflow->room) {
        size_t room = inflow->room == 0 ? 256 : inflow->room;
        while (room <= (size_t)fd) {
            room *= 2;
        }
        struct inflow_link *bigger = realloc(inflow->links, room * sizeof *bigger);
        if (bigger == NULL) {
            return;
        }
        memset(bigger + inflow->room, 0, (room - inflow->room) * sizeof *bigger);
        inflow->links = bigger;
        inflow->room = room;
    }
    link_forget(inflow, &inflow->links[fd]); /* an older connection with the same descriptor */
    inflow->links[fd].open = true;
    inflow->count++;
}

void inflow_event(struct inflow *inflow, uint16_t event, int32_t value)
{
    if (event == ZMQ_EVENT_ACCEPTED) {
        link_add(inflow, value);
    } else if (event == ZMQ_EVENT_DISCONNECTED) {
        link_forget(inflow, link_at(inflow, value));
    }
}

void inflow_brought(struct inflow *inflow, int fd)
{
    struct inflow_link *link = link_at(inflow, fd);
    if (link != NULL) {
        link->brought = true;
    }
}

/* False: the connection is closed, and its number may belong to another file by now. */
static bool received(int fd, uint16_t port, uint64_t *bytes)
{
    struct sockaddr_storage local;
    struct tcp_info info;
    socklen_t local_bytes = sizeof local, info_bytes = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockname(fd, (struct sockaddr *)&local, &local_bytes) != 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_bytes) != 0) {
        return false;
    }
    bool is_ours = local.ss_family == AF_INET    ? ntohs(((struct sockaddr_in *)&local)->sin_port) == port
                   : local.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&local)->sin6_port) == port
                                                 : false;
    *bytes = info.tcpi_bytes_received;
    return is_ours;
}

unsigned inflow_look(struct inflow *inflow, uint64_t now_ms)
{
    unsigned shut = 0;
    if (inflow->count == 0 || now_ms < inflow_next_ms(inflow)) {
        return 0;
    }
    inflow->looked_ms = now_ms;
    for (size_t fd = 0; fd < inflow->room; fd++) {
        struct inflow_link *link = &inflow->links[fd];
        uint64_t bytes;
        if (!link->open) {
            continue;
        }
        if (!received((int)fd, inflow->port, &bytes)) {
            link_forget(inflow, link);
        } else if (link->brought || bytes < link->bytes) { /* fewer bytes than before: another connection with the same
                                                              descriptor */
            link->brought = false;
            link->bytes = bytes;
        } else if (bytes - link->bytes > inflow->bytes_max) {
            shut += shutdown((int)fd, SHUT_RDWR) == 0;
            link_forget(inflow, link);
        }
    }
    return shut;
}

uint64_t inflow_next_ms(const struct inflow *inflow)
{
    return inflow->count > 0 ? inflow->looked_ms + INFLOW_LOOK_MS : UINT64_MAX;
}
