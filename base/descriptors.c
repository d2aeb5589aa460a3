#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

int descriptors_fill_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
            continue;
        }
        /* All lower descriptors are open by now, so open() returns `fd`. No close-on-exec: a child needs all three as
         * well. */
        if (open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd) {
            return ERR_IO;
        }
    }
    return 0;
}

int descriptor_read_at(int fd, void *bytes, size_t count, uint64_t offset)
{
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(fd, (char *)bytes + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0 ? ERR_AGAIN : ERR_IO;
        }
        done += (size_t)got;
    }
    return 0;
}

int descriptor_write_at(int fd, const void *bytes, size_t count, uint64_t offset)
{
    for (size_t done = 0; done < count;) {
        errno = 0;
        ssize_t put = pwrite(fd, (const char *)bytes + done, count - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return ERR_IO;
        }
        done += (size_t)put;
    }
    return 0;
}

bool descriptors_are_left(unsigned count)
{
    int opened[DESCRIPTORS_LEFT_MAX];
    unsigned got = 0;
    CHECK(count <= DESCRIPTORS_LEFT_MAX);
    while (got < count && (opened[got] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0) {
        got++;
    }
    for (unsigned i = 0; i < got; i++) {
        (void)close(opened[i]);
    }
    return got == count;
}
