#include "node/daemon/workers/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "node/daemon/workers/environment.h"
#include "node/keep/polite.h"
#include "node/keep/processes.h"

/* packages.py as a text with a NUL at its end. */
static const char script[] = {
#include <packages_script.h>
};

static int start_process(const struct config *config, const char *environments, const char *directory, char **variables, pid_t *pid)
{
    char work[KEEP_PATH_BYTES + 8], log[KEEP_PATH_BYTES + 8];
    (void)snprintf(work, sizeof work, "%s/work", directory);
    (void)snprintf(log, sizeof log, "%s/log", directory);
    const char *const arguments[] = {
        "env", config->python[0] != '\0' ? config->python : "python3", "-c", script, environments, directory, config->requirements, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0600)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_addchdir_np(&actions, work)) == 0) {
        /* env finds the interpreter by the PATH of the worker, and writes a sentence if there is none. */
        error = keep_process_start(pid, "/usr/bin/env", &actions, (char *const *)(uintptr_t)arguments, variables);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

pid_t packages_start(const struct daemon *daemon, const struct config *config, const char *directory)
{
    struct worker_start start;
    char environments[KEEP_PATH_BYTES];
    pid_t pid = 0;
    (void)snprintf(environments, sizeof environments, "%.900s/packages", daemon->dir);
    environment_of_packages(daemon, config, &start);
    char **variables = calloc(start.count + 1, sizeof *variables);
    for (size_t i = 0; variables != NULL && i < start.count; i++) {
        variables[i] = start.variables[i];
    }
    bool has_memory = variables != NULL && !start.failed;
    int error = has_memory ? start_process(config, environments, directory, variables, &pid) : ENOMEM;
    if (error == 0 && daemon->options.is_polite) {
        keep_polite_process(pid);
        (void)keep_polite_session(pid);
    }
    free(variables);
    environment_close(&start);
    errno = error;
    return error == 0 ? pid : 0;
}

enum packages_state packages_poll(pid_t pid)
{
    int status;
    pid_t gone = waitpid(pid, &status, WNOHANG);
    if (gone == 0 || (gone < 0 && errno == EINTR)) {
        return PACKAGES_BUSY;
    }
    return gone == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? PACKAGES_READY : PACKAGES_FAILED;
}

void packages_kill(pid_t pid)
{
    (void)kill(-pid, SIGKILL); /* its session has a process group of its own */
}
