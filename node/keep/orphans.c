#include "node/keep/orphans.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "node/keep/processes.h"

#define PIECE_BYTES (64u * 1024)
#define WANTED_BYTES (sizeof "SHOAL_TOKEN=" + 2 * TOKEN_BYTES)

/* True if the process has the variable in its environment, which /proc shows as texts that end in NUL. */
static bool has_variable(pid_t pid, const char *wanted, char piece[PIECE_BYTES])
{
    char path[48];
    size_t length = strlen(wanted) + 1, kept = 0; /* with its NUL */
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    while (fd >= 0 && !found) {
        ssize_t n = read(fd, piece + kept, PIECE_BYTES - kept);
        if (n <= 0) {
            break;
        }
        size_t count = kept + (size_t)n;
        found = memmem(piece, count, wanted, length) != NULL;
        kept = count < length - 1 ? count : length - 1; /* the variable may go on in the next piece */
        memmove(piece, piece + count - kept, kept);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return found;
}

static bool is_own(pid_t pid)
{
    char path[48];
    struct stat info;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &info) == 0 && info.st_uid == geteuid();
}

size_t keep_orphans_end(const lease_token *token)
{
    char wanted[WANTED_BYTES] = "SHOAL_TOKEN=";
    bytes_to_hex(wanted + strlen(wanted), token->bytes, TOKEN_BYTES);
    char *piece = malloc(PIECE_BYTES);
    DIR *proc = piece != NULL ? opendir("/proc") : NULL;
    size_t count = 0;
    pid_t pid;
    while (proc != NULL && (pid = keep_process_next(proc)) != 0) {
        if (!is_own(pid) || !has_variable(pid, wanted, piece)) {
            continue;
        }
        /* The descriptor fixes the process before the second look, so no stranger with the id of a dead process is ended. */
        int pidfd = pid != getpid() ? keep_process_open(pid) : -1;
        if (pidfd >= 0 && has_variable(pid, wanted, piece)) {
            count += keep_process_signal(pidfd, SIGKILL) == 0;
        }
        if (pidfd >= 0) {
            (void)close(pidfd);
        }
    }
    if (proc != NULL) {
        (void)closedir(proc);
    }
    if (piece != NULL) {
        explicit_bzero(piece, PIECE_BYTES);
        free(piece);
    }
    explicit_bzero(wanted, sizeof wanted);
    return count;
}
