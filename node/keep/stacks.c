#include "node/keep/stacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/keep/text_file.h"
#include "node/keep/tree.h"

#define PROCESSES_MAX 32
#define THREADS_MAX 64
#define STACK_LINES_MAX 12
#define ENVIRONMENT_BYTES (256u * 1024)

static void end_line(char *text)
{
    text[strcspn(text, "\n")] = '\0';
}

static char state_of(const char *stat)
{
    const char *after = strrchr(stat, ')');
    return after != NULL && after[1] == ' ' && after[2] != '\0' ? after[2] : '?';
}

static const char *state_word(char state)
{
    return state == 'T' ? "stopped" : state == 'D' ? "waits for a disk or a device" : state == 'R' ? "runs" : state == 't' ? "traced"
           : state == 'Z' ? "has ended" : "sleeps";
}

static void write_thread(pid_t pid, const char *thread)
{
    char name[64], stat[1024], waits[128], call[256], stack[4096];
    (void)keep_text_read(name, sizeof name, "/proc/%d/task/%s/comm", (int)pid, thread);
    (void)keep_text_read(stat, sizeof stat, "/proc/%d/task/%s/stat", (int)pid, thread);
    (void)keep_text_read(waits, sizeof waits, "/proc/%d/task/%s/wchan", (int)pid, thread);
    (void)keep_text_read(call, sizeof call, "/proc/%d/task/%s/syscall", (int)pid, thread);
    (void)keep_text_read(stack, sizeof stack, "/proc/%d/task/%s/stack", (int)pid, thread);
    end_line(name);
    end_line(waits);
    end_line(call);
    bool waits_in = waits[0] != '\0' && strcmp(waits, "0") != 0;
    (void)printf("  thread %s (%s) %s%s%s%s%s\n", thread, name, state_word(state_of(stat)), waits_in ? " in " : "",
                 waits_in ? waits : "", call[0] != '\0' ? ", system call " : "", call);
    char *line = stack;
    for (int i = 0; i < STACK_LINES_MAX && *line != '\0'; i++) {
        size_t length = strcspn(line, "\n");
        (void)printf("    %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* The path of py-spy in the PATH of the process itself: its virtual environment may have one. */
static bool find_py_spy(pid_t pid, char *out, size_t size)
{
    char *environment = malloc(ENVIRONMENT_BYTES);
    if (environment == NULL) {
        return false;
    }
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n = 1;
    while (fd >= 0 && n > 0 && used + 1 < ENVIRONMENT_BYTES) {
        n = read(fd, environment + used, ENVIRONMENT_BYTES - 1 - used);
        used += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    environment[used] = '\0';
    bool found = false;
    for (size_t at = 0; at < used; at += strlen(environment + at) + 1) {
        if (strncmp(environment + at, "PATH=", 5) != 0) {
            continue;
        }
        const char *part = environment + at + 5;
        while (*part != '\0' && !found) {
            size_t length = strcspn(part, ":");
            int bytes = snprintf(out, size, "%.*s/py-spy", (int)length, part);
            found = *part == '/' && bytes > 0 && (size_t)bytes < size && access(out, X_OK) == 0;
            part += length + (part[length] == ':');
        }
    }
    free(environment);
    return found;
}

static void run_py_spy(const char *program, pid_t pid)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", (int)pid);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)alarm(KEEP_STACKS_MS_MAX / 2000);
        (void)execl(program, program, "dump", "--pid", number, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

static void write_process(pid_t pid)
{
    char name[64], command[256], path[64], program[1024];
    (void)keep_text_read(name, sizeof name, "/proc/%d/comm", (int)pid);
    (void)keep_text_read(command, sizeof command, "/proc/%d/cmdline", (int)pid); /* ends at the NUL behind the first word */
    end_line(name);
    (void)printf("[shoal] stacks of process %d (%s)\n", (int)pid, name);
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    struct dirent *entry;
    for (int count = 0; threads != NULL && count < THREADS_MAX && (entry = readdir(threads)) != NULL;) {
        if (entry->d_name[0] != '.') {
            write_thread(pid, entry->d_name);
            count++;
        }
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    bool is_python = strncmp(name, "python", 6) == 0 || strstr(command, "python") != NULL;
    if (is_python && find_py_spy(pid, program, sizeof program)) {
        run_py_spy(program, pid);
    }
}

pid_t keep_stacks_start(int *output_fd)
{
    int output[2];
    pid_t found[PROCESSES_MAX];
    size_t count = keep_tree_list(found, PROCESSES_MAX);
    if (pipe2(output, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)alarm(KEEP_STACKS_MS_MAX / 1000 - 1);
        (void)dup2(output[1], STDOUT_FILENO);
        (void)dup2(output[1], STDERR_FILENO);
        for (size_t i = 0; i < count; i++) {
            write_process(found[i]);
        }
        (void)fflush(stdout);
        _exit(0);
    }
    (void)close(output[1]);
    if (pid < 0) {
        (void)close(output[0]);
        return -1;
    }
    (void)fcntl(output[0], F_SETFL, O_NONBLOCK);
    *output_fd = output[0];
    return pid;
}
