#include "train/group/revoke.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"

int revoke_open(struct revoke *revoke)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        return ERR_IO;
    }
    atomic_init(&revoke->is_set, false);
    revoke->fd = fd;
    revoke->watch_fd = -1;
    revoke->watch = NULL;
    return 0;
}

void revoke_close(struct revoke *revoke)
{
    if (revoke->fd >= 0) {
        (void)close(revoke->fd);
        revoke->fd = -1;
    }
}

void revoke_poll(const struct revoke *revoke, struct pollfd fds[REVOKE_FDS])
{
    fds[0] = (struct pollfd){.fd = revoke != NULL ? revoke->fd : -1, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = revoke != NULL ? revoke->watch_fd : -1, .events = POLLIN};
}

bool revoke_check(struct revoke *revoke, const struct pollfd fds[REVOKE_FDS])
{
    if (revoke == NULL) {
        return false;
    }
    if (fds[1].revents != 0 && revoke->watch != NULL) {
        revoke->watch(revoke->context);
    }
    return revoke_is_set(revoke);
}

void revoke_set(struct revoke *revoke)
{
    int saved = errno;
    atomic_store(&revoke->is_set, true);
    (void)eventfd_write(revoke->fd, 1);
    errno = saved;
}

bool revoke_is_set(const struct revoke *revoke)
{
    return atomic_load(&revoke->is_set);
}
