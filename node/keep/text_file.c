#include "node/keep/text_file.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#define PATH_BYTES 1152

bool keep_text_read(char *out, size_t size, const char *format, ...)
{
    char path[PATH_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    out[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t used = 0;
    ssize_t n = 1;
    while (n > 0 && used + 1 < size) {
        n = read(fd, out + used, size - 1 - used);
        used += n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    out[used] = '\0';
    return n >= 0;
}
