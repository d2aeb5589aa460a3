#include "node/keep/sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_BYTES 32768
#define LISTENING_STATE 10u /* TCP_LISTEN of the kernel: such a socket carries nothing */
#define ANSWER_S 2

struct list {
    struct keep_socket *items;
    size_t count, capacity;
    bool failed;
};

static void add(struct list *list, const struct inet_diag_msg *message, size_t bytes)
{
    struct keep_socket item = {.inode = message->idiag_inode};
    bool has_counts = false;
    size_t at = NLMSG_ALIGN(sizeof *message);
    while (at + sizeof(struct nlattr) <= bytes) {
        struct nlattr head;
        memcpy(&head, (const uint8_t *)message + at, sizeof head);
        if (head.nla_len < sizeof head || at + head.nla_len > bytes) {
            break;
        }
        size_t info_bytes = head.nla_len - sizeof head;
        if (head.nla_type == INET_DIAG_INFO &&
            info_bytes >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(uint64_t)) {
            struct tcp_info info = {0};
            memcpy(&info, (const uint8_t *)message + at + sizeof head, info_bytes < sizeof info ? info_bytes : sizeof info);
            item.sent_bytes = info.tcpi_bytes_acked;
            item.received_bytes = info.tcpi_bytes_received;
            has_counts = true;
        }
        at += NLMSG_ALIGN(head.nla_len);
    }
    if (!has_counts || item.inode == 0) { /* 0: closed by its program already */
        return;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        struct keep_socket *grown = list->count < KEEP_SOCKETS_MAX ? realloc(list->items, capacity * sizeof *grown) : NULL;
        if (grown == NULL) {
            list->failed = true;
            return;
        }
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

/* Takes one reply. True: it was the last. */
static bool take_reply(struct list *list, const uint8_t *bytes, size_t count)
{
    size_t at = 0;
    while (at + NLMSG_HDRLEN <= count && !list->failed) {
        struct nlmsghdr head;
        memcpy(&head, bytes + at, sizeof head);
        if (head.nlmsg_len < NLMSG_HDRLEN || at + head.nlmsg_len > count) {
            list->failed = true;
        } else if (head.nlmsg_type == NLMSG_DONE) {
            return true;
        } else if (head.nlmsg_type == SOCK_DIAG_BY_FAMILY && head.nlmsg_len >= NLMSG_HDRLEN + sizeof(struct inet_diag_msg)) {
            add(list, (const struct inet_diag_msg *)(const void *)(bytes + at + NLMSG_HDRLEN),
                head.nlmsg_len - NLMSG_HDRLEN);
        } else {
            list->failed = true; /* an error */
        }
        at += NLMSG_ALIGN(head.nlmsg_len);
    }
    return list->failed;
}

static void ask(struct list *list, int fd, uint8_t family, uint8_t *buffer)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 request;
    } question = {
        .head = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request = {.sdiag_family = family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_ext = 1u << (INET_DIAG_INFO - 1),
                    .idiag_states = ~(1u << LISTENING_STATE)},
    };
    bool is_over = send(fd, &question, sizeof question, 0) != (ssize_t)sizeof question;
    list->failed |= is_over;
    while (!is_over) {
        ssize_t bytes = recv(fd, buffer, REPLY_BYTES, 0);
        list->failed |= bytes <= 0;
        is_over = bytes <= 0 || take_reply(list, buffer, (size_t)bytes);
    }
}

static int by_inode(const void *a, const void *b)
{
    const struct keep_socket *one = a, *other = b;
    return one->inode < other->inode ? -1 : one->inode > other->inode;
}

bool keep_sockets_list(struct keep_socket **out, size_t *count)
{
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    uint8_t *buffer = malloc(REPLY_BYTES);
    struct list list = {.failed = fd < 0 || buffer == NULL};
    struct timeval limit = {.tv_sec = ANSWER_S};
    *out = NULL;
    *count = 0;
    if (!list.failed && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0) {
        ask(&list, fd, AF_INET, buffer);
    }
    if (!list.failed) {
        ask(&list, fd, AF_INET6, buffer);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    free(buffer);
    if (list.failed) {
        free(list.items);
        return false;
    }
    if (list.count > 0) {
        qsort(list.items, list.count, sizeof *list.items, by_inode);
    }
    *out = list.items;
    *count = list.count;
    return true;
}

struct keep_socket *keep_sockets_find(struct keep_socket *sockets, size_t count, uint64_t inode)
{
    const struct keep_socket wanted = {.inode = inode};
    return count > 0 ? bsearch(&wanted, sockets, count, sizeof *sockets, by_inode) : NULL;
}

void keep_sockets_of(pid_t pid, keep_socket_fn *take, void *context)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char target[64];
        unsigned long long inode;
        ssize_t bytes = readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1);
        target[bytes > 0 ? bytes : 0] = '\0';
        if (sscanf(target, "socket:[%llu]", &inode) == 1) {
            take(context, inode);
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
}
