#include "tools/shoal/browser.h"

#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

bool browser_show(const char *dir, const char *url)
{
    char path[PATH_MAX];
    if (getenv("DISPLAY") == NULL && getenv("WAYLAND_DISPLAY") == NULL) {
        return false;
    }
    int bytes = snprintf(path, sizeof path, "%s/open.html", dir);
    if (bytes < 0 || (size_t)bytes >= sizeof path) {
        return false;
    }
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        return false;
    }
    (void)fprintf(file,
                  "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; "
                  "url=%s\"><title>Shoal</title>\n",
                  url);
    if (fclose(file) != 0) {
        return false;
    }
    const char *const arguments[] = {"xdg-open", path, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return false;
    }
    bool is_quiet = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
                    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
    bool is_started =
        is_quiet && posix_spawnp(&pid, arguments[0], &actions, NULL, (char *const *)(uintptr_t)arguments, environ) == 0;
    (void)posix_spawn_file_actions_destroy(&actions);
    return is_started;
}
