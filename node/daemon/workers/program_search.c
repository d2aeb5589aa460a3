#include "node/daemon/workers/program_search.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VERSION_BYTES 32
#define ANSWER_BYTES 256
#define ASK_MS 10000 /* the time that a Python has for its answer */
#define KNOWN_MAX 32
#define LOWEST_PRIORITY 19

/* The versions that a Python told. */
struct python {
    char path[PATH_MAX];
    dev_t device;
    ino_t inode;
    char version[VERSION_BYTES], torch[VERSION_BYTES];
};

/* What was asked before. "python" is often a link to the "python3" beside it; a link in another directory may be a virtual
 * environment, with packages of its own. */
static struct python known[KNOWN_MAX];
static size_t known_count;

static const char question[] = "import sys\n"
                               "print('%d.%d.%d' % sys.version_info[:3])\n"
                               "sys.stdout.flush()\n"
                               "try:\n"
                               "    from importlib.metadata import version\n"
                               "    print(version('torch'))\n"
                               "except Exception:\n"
                               "    pass\n";

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

enum found { FOUND, MISSING, UNKNOWN };

static enum found look_at(const char *path, struct stat *info)
{
    if (stat(path, info) != 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP || errno == ENAMETOOLONG ? MISSING
                                                                                                              : UNKNOWN;
    }
    return S_ISREG(info->st_mode) && access(path, X_OK) == 0 ? FOUND : MISSING;
}

/* The file that a name means. An unreadable directory of PATH makes the answer unknown, unless a later one has the file. */
static enum found find(const char *directories, const char *name, char path[PATH_MAX], struct stat *info)
{
    if (strchr(name, '/') != NULL) {
        return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX ? look_at(path, info) : MISSING;
    }
    enum found result = MISSING;
    for (const char *at = directories; *at != '\0'; at += strcspn(at, ":"), at += *at == ':') {
        int bytes = (int)strcspn(at, ":");
        int length = snprintf(path, PATH_MAX, "%.*s/%s", bytes, at, name);
        if (bytes == 0 || *at != '/' || length >= PATH_MAX) {
            continue; /* a relative directory is another one for every worker */
        }
        enum found here = look_at(path, info);
        if (here == FOUND) {
            return FOUND;
        }
        result = here == UNKNOWN ? UNKNOWN : result;
    }
    return result;
}

static bool is_python(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.")] == '\0';
}

/* The Python in the first line of a script: "#!/usr/bin/python3" or "#!/usr/bin/env python3". */
static bool python_of_script(const char *directories, const char *script, char path[PATH_MAX], struct stat *info)
{
    char line[PATH_MAX];
    FILE *file = fopen(script, "re");
    if (file == NULL) {
        return false;
    }
    bool is_script = fgets(line, sizeof line, file) != NULL && strncmp(line, "#!", 2) == 0;
    (void)fclose(file);
    if (!is_script) {
        return false;
    }
    char *rest = NULL, *word = strtok_r(line + 2, " \t\r\n", &rest);
    const char *slash = word != NULL ? strrchr(word, '/') : NULL;
    if (slash != NULL && strcmp(slash, "/env") == 0) {
        word = strtok_r(NULL, " \t\r\n", &rest);
    }
    return word != NULL && find(directories, word, path, info) == FOUND && is_python(path);
}

/* Runs the Python with the question in a process group of its own; the answer is at most size - 1 bytes. */
static void ask(const char *path, char *answer, size_t size)
{
    int pipe_fds[2];
    size_t used = 0;
    answer[0] = '\0';
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(pipe_fds[1], STDOUT_FILENO);
        (void)execl(path, path, "-c", question, (char *)NULL);
        _exit(127);
    }
    (void)close(pipe_fds[1]);
    for (uint64_t until_ms = now_ms() + ASK_MS; pid > 0 && used + 1 < size;) {
        uint64_t ms = now_ms();
        struct pollfd item = {.fd = pipe_fds[0], .events = POLLIN};
        if (ms >= until_ms || (poll(&item, 1, (int)(until_ms - ms)) < 0 && errno != EINTR)) {
            break;
        }
        ssize_t got = item.revents != 0 ? read(pipe_fds[0], answer + used, size - 1 - used) : -1;
        if (got == 0) {
            break;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    answer[used] = '\0';
    (void)close(pipe_fds[0]);
    if (pid > 0) {
        (void)setpgid(pid, pid);
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
}

/* Takes a line of the answer as a version: letters, digits and what versions have between them. */
static void take_version(char **line, char out[VERSION_BYTES])
{
    size_t bytes = strcspn(*line, "\r\n");
    bool is_good = bytes > 0 && bytes < VERSION_BYTES &&
                   strspn(*line, "0123456789.+-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") >= bytes;
    (void)snprintf(out, VERSION_BYTES, "%.*s", is_good ? (int)bytes : 0, *line);
    *line += bytes + strspn(*line + bytes, "\r\n");
}

static const struct python *ask_once(const char *path, const struct stat *info)
{
    size_t directory = (size_t)(strrchr(path, '/') - path);
    for (size_t i = 0; i < known_count; i++) {
        size_t of_known = (size_t)(strrchr(known[i].path, '/') - known[i].path);
        if (known[i].device == info->st_dev && known[i].inode == info->st_ino && of_known == directory &&
            memcmp(known[i].path, path, directory) == 0) {
            return &known[i];
        }
    }
    struct python *python = &known[known_count < KNOWN_MAX ? known_count++ : KNOWN_MAX - 1];
    char answer[ANSWER_BYTES], *line = answer;
    (void)snprintf(python->path, sizeof python->path, "%s", path);
    python->device = info->st_dev;
    python->inode = info->st_ino;
    ask(path, answer, sizeof answer);
    take_version(&line, python->version);
    take_version(&line, python->torch);
    return python;
}

int program_search_main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    (void)prctl(PR_SET_NAME, "shoal-look");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A daemon that has a real-time policy shall not give it to this: no Python that starts may hold up a worker. */
    (void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    (void)setpriority(PRIO_PROCESS, 0, LOWEST_PRIORITY);
    if (chdir("/") != 0) {
        return 1;
    }
    const char *directories = argv[2];
    for (int i = 3; i < argc; i++) {
        static const struct python none;
        const struct python *python = &none;
        char path[PATH_MAX], interpreter[PATH_MAX];
        struct stat info, of_interpreter;
        enum found found = find(directories, argv[i], path, &info);
        if (found == UNKNOWN) {
            continue;
        }
        if (found == FOUND && is_python(path)) {
            python = ask_once(path, &info);
        } else if (found == FOUND && python_of_script(directories, path, interpreter, &of_interpreter)) {
            python = ask_once(interpreter, &of_interpreter);
        }
        (void)printf("%s\t%d\t%s\t%s\n", argv[i], found == FOUND, python->version, python->torch);
        if (fflush(stdout) != 0) {
            return 1;
        }
    }
    return 0;
}
