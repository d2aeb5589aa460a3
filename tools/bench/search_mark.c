/* A trial of tools/bench/search: notes when its process begins and when it ends, and works for so long.
 * usage: search_mark FILE SECONDS; a line of FILE: "TRIAL ATTEMPT start|end NANOSECONDS" of the monotonic clock. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void mark(int fd, const char *what)
{
    const char *trial = getenv("SHOAL_TRIAL"), *attempt = getenv("SHOAL_ATTEMPT");
    char line[128];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int count = snprintf(line, sizeof line, "%s %s %s %lld\n", trial != NULL ? trial : "-", attempt != NULL ? attempt : "-", what,
                         (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    if (write(fd, line, (size_t)count) != count) { /* appended at once: lines of other trials do not mix in */
        _exit(1);
    }
}

int main(int argc, char **argv)
{
    int fd = argc == 3 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        return 1;
    }
    mark(fd, "start");
    double seconds = strtod(argv[2], NULL);
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (seconds > 0 && nanosleep(&left, &left) != 0) {
    }
    mark(fd, "end");
    return 0;
}
