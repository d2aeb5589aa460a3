#include "train/group/shm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"

static int map(int fd, size_t bytes, void *at, void **out)
{
    void *memory = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at != NULL ? MAP_FIXED : 0), fd, 0);
    if (memory == MAP_FAILED) {
        return errno == ENOMEM ? ERR_MEMORY : ERR_MALFORMED;
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* has an effect where the administrator allows huge pages for shared memory */
    *out = memory;
    return 0;
}

int shm_memory_create(size_t bytes, void *at, int *fd, void **out)
{
    if (bytes > PTRDIFF_MAX) {
        return ERR_MEMORY;
    }
    int created = memfd_create("shoal-group", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (created < 0) {
        return ERR_IO;
    }
    void *memory;
    int result = ERR_MEMORY;
    if (ftruncate(created, (off_t)bytes) != 0) {
        goto err_close;
    }
    result = ERR_IO;
    if (fcntl(created, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        goto err_close;
    }
    result = map(created, bytes, at, &memory);
    if (result != 0) {
        memory = at;
        goto err_unmap;
    }
    /* Pages now, so that lack of memory is an error here and not a signal later. Linux before 5.14 cannot. */
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
        result = ERR_MEMORY;
        goto err_unmap;
    }
    *fd = created;
    *out = memory;
    return 0;
err_unmap:
    if (memory != NULL) {
        shm_memory_end(memory, bytes, at != NULL);
    }
err_close:
    (void)close(created);
    return result;
}

void shm_memory_end(void *memory, size_t bytes, bool is_placed)
{
    if (is_placed) {
        (void)mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    } else {
        (void)munmap(memory, bytes);
    }
}

int shm_memory_map(int fd, size_t bytes, void **out)
{
    struct stat status;
    struct statfs system;
    int seals = fcntl(fd, F_GET_SEALS);
    /* Huge pages of hugetlbfs can run out at any access, so they are not accepted, sealed or not. */
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstatfs(fd, &system) != 0 || system.f_type != TMPFS_MAGIC ||
        fstat(fd, &status) != 0 || bytes == 0 || status.st_size < 0 || (uint64_t)status.st_size != bytes) {
        return ERR_MALFORMED;
    }
    return map(fd, bytes, NULL, out);
}

union control {
    struct cmsghdr header;
    uint8_t bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

int shm_message_send(int socket, const void *message, size_t bytes, int fd)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = bytes};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        packet.msg_control = &control;
        packet.msg_controllen = CMSG_SPACE(sizeof fd);
        struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    ssize_t sent = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)bytes) {
        return 0;
    }
    return sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) ? ERR_FULL : ERR_CLOSED;
}

int shm_message_want_sender(int socket)
{
    int on = 1;
    return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 ? 0 : ERR_IO;
}

/* Takes the control data of a packet: the first descriptor, or -1, and the sender; all other descriptors are closed. */
static int take_beside(struct msghdr *packet, size_t *count, int *sender)
{
    int first = -1;
    *count = 0;
    *sender = 0;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(packet); h != NULL; h = CMSG_NXTHDR(packet, h)) {
        struct ucred credentials;
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_CREDENTIALS &&
            h->cmsg_len == CMSG_LEN(sizeof credentials)) {
            memcpy(&credentials, CMSG_DATA(h), sizeof credentials);
            *sender = credentials.pid;
        }
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        for (size_t at = 0; at + sizeof(int) <= h->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + at, sizeof fd);
            if (++*count == 1) {
                first = fd;
            } else {
                (void)close(fd);
            }
        }
    }
    return first;
}

int shm_message_receive(int socket, void *message, size_t bytes, int *fd, int *sender)
{
    struct iovec part = {.iov_base = message, .iov_len = bytes};
    union control control;
    memset(&control, 0, sizeof control);
    struct msghdr packet = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? ERR_AGAIN : ERR_CLOSED;
    }
    size_t count;
    int process, taken = take_beside(&packet, &count, &process);
    bool good = (size_t)n == bytes && (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && count <= (fd != NULL);
    if (!good) {
        if (taken >= 0) {
            (void)close(taken);
        }
        return n == 0 ? ERR_CLOSED : ERR_MALFORMED;
    }
    if (fd != NULL) {
        *fd = taken;
    }
    if (sender != NULL) {
        *sender = process;
    }
    return 0;
}
