#include "train/revoke.h"

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
    atomic_init(&revoke->said, false);
    revoke->fd = fd;
    return 0;
}

void revoke_close(struct revoke *revoke)
{
    if (revoke->fd >= 0) {
        (void)close(revoke->fd);
        revoke->fd = -1;
    }
}

void revoke_say(struct revoke *revoke)
{
    int saved = errno;
    atomic_store(&revoke->said, true);
    (void)eventfd_write(revoke->fd, 1);
    errno = saved;
}

bool revoke_said(const struct revoke *revoke)
{
    return atomic_load(&revoke->said);
}
