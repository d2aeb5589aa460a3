#include "store/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

static int read_all(int fd, char *bytes, size_t count, size_t *used)
{
    while (*used < count) {
        ssize_t got = read(fd, bytes + *used, count - *used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return ERR_IO;
        }
        if (got == 0) {
            break; /* the file has become shorter */
        }
        *used += (size_t)got;
    }
    return 0;
}

int small_file_read(int dir_fd, const char *name, bool follows, size_t bytes_max, char **text, size_t *text_bytes)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follows ? 0 : O_NOFOLLOW));
    struct stat info;
    if (fd < 0) {
        return errno == ENOENT || errno == ELOOP || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
    }
    int rc = fstat(fd, &info) != 0 ? ERR_IO : 0;
    if (rc == 0 && !S_ISREG(info.st_mode)) {
        rc = ERR_NOT_FOUND;
    } else if (rc == 0 && (uint64_t)info.st_size > bytes_max) {
        rc = ERR_FULL;
    }
    char *bytes = rc == 0 ? malloc((size_t)info.st_size + 1) : NULL;
    size_t used = 0;
    if (rc == 0) {
        rc = bytes != NULL ? read_all(fd, bytes, (size_t)info.st_size, &used) : ERR_MEMORY;
    }
    int reason = errno;
    close(fd);
    errno = reason;
    if (rc != 0) {
        free(bytes);
        return rc;
    }
    bytes[used] = '\0';
    *text = bytes;
    *text_bytes = used;
    return 0;
}
