#include "node/daemon/workers/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/daemon/workers/workers.h"
#include "node/keep/processes.h"
#include "store/hash.h"

#define ANSWER_BYTES (256u * 1024) /* more packages than that are not listed */
#define ANSWER_MS_MAX 60000
#define KNOWN_MAX 8
#define WANTED_MAX 256

static const char script[] =
    "import os, platform, sys\n"
    "sys.path[:] = [p for p in sys.path if p not in ('', os.getcwd())]\n"
    "print('python', platform.python_version())\n"
    "print('executable', sys.executable)\n"
    "try:\n"
    "    from importlib.metadata import distributions\n"
    "except ImportError:\n"
    "    distributions = list\n"
    "for p in sys.path:\n"
    "    print('dir', p)\n"
    "found = {}\n"
    "for d in distributions():\n"
    "    try:\n"
    "        found.setdefault(str(d.metadata['Name']).lower().replace('_', '-'), str(d.version))\n"
    "    except Exception:\n"
    "        pass\n"
    "for name in sorted(found):\n"
    "    print('package', name + '==' + found[name])\n";

/* Whose packages are known. */
struct known {
    hash256 key, stamp; /* what decided it, and the times of the directories of packages */
    char *answer;       /* NULL: the place is free */
    uint64_t used;      /* the larger, the later */
};

/* A worker whose platform is not noted yet. */
struct wanted {
    struct wanted *next;
    attempt_id attempt;
    uint32_t number, slot;
    char python[PLATFORM_PYTHON_BYTES];
    hash256 key;
    char **variables; /* ends in NULL */
};

struct daemon_platform {
    struct known known[KNOWN_MAX];
    uint64_t uses;
    struct wanted *wanted; /* the process, if there is one, answers for the first */
    uint32_t wanted_count;
    pid_t pid, ended; /* 0: none; `ended` was killed and is not reaped yet */
    int fd;
    uint64_t until_ms;
    size_t answer_bytes;
    char answer[ANSWER_BYTES + 1];
};

/* ---- which interpreter ------------------------------------------------------------------------------------------- */

/* The next word behind `*at`, cut at blanks and the shell's signs. */
static size_t next_word(const char **at)
{
    static const char ends[] = " \t\n;|&()'\"`<>$={}";
    *at += strspn(*at, ends);
    return strcspn(*at, ends);
}

static const char *base_of(const char *word, size_t *bytes)
{
    const char *slash = memrchr(word, '/', *bytes);
    if (slash != NULL) {
        *bytes -= (size_t)(slash + 1 - word);
        return slash + 1;
    }
    return word;
}

static bool is_word(const char *word, size_t bytes, const char *const *list)
{
    for (; *list != NULL; list++) {
        if (strlen(*list) == bytes && memcmp(word, *list, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_python(const char *word, size_t bytes)
{
    return bytes >= 6 && memcmp(word, "python", 6) == 0 && strspn(word + 6, "0123456789.") >= bytes - 6;
}

/* Writes a path, of `work` if it is relative. */
static bool write_path(const char *work, const char *word, size_t bytes, const char *more, char out[PLATFORM_PYTHON_BYTES])
{
    bool is_relative = word[0] != '/';
    int used = snprintf(out, PLATFORM_PYTHON_BYTES, "%s%s%.*s%s", is_relative ? work : "", is_relative ? "/" : "", (int)bytes, word, more);
    return used > 0 && used < PLATFORM_PYTHON_BYTES;
}

bool platform_python(const char *entrypoint, const char *work, char out[PLATFORM_PYTHON_BYTES])
{
    static const char *const foreign[] = {"conda", "mamba", "micromamba", "poetry", "uv", "pipenv", "pixi", "docker", "podman",
                                          "apptainer", "singularity", NULL};
    static const char *const launchers[] = {"torchrun", "accelerate", "deepspeed", "fabric", "jupyter", "ipython", NULL};
    static const char activate[] = "/bin/activate";
    char found[PLATFORM_PYTHON_BYTES] = "";
    size_t bytes;
    for (const char *at = entrypoint; (bytes = next_word(&at)) > 0; at += bytes) {
        size_t base_bytes = bytes;
        const char *base = base_of(at, &base_bytes);
        bool activates = bytes > sizeof activate - 1 && memcmp(at + bytes - (sizeof activate - 1), activate, sizeof activate - 1) == 0;
        if (is_word(base, base_bytes, foreign)) {
            return false;
        }
        if (activates && write_path(work, at, bytes - (sizeof "activate" - 1), "python", out)) {
            return true;
        }
        if (found[0] == '\0' && is_word(base, base_bytes, launchers)) {
            (void)snprintf(found, sizeof found, "python3");
        } else if (found[0] == '\0' && is_python(base, base_bytes)) {
            bool is_path = base != at;
            bool fits = is_path ? write_path(work, at, bytes, "", found) : bytes < sizeof found;
            if (!is_path && fits) {
                memcpy(found, at, bytes);
                found[bytes] = '\0';
            } else if (!fits) {
                return false;
            }
        }
    }
    (void)bytes_copy_text(out, PLATFORM_PYTHON_BYTES, found);
    return found[0] != '\0';
}

/* ---- the entry ----------------------------------------------------------------------------------------------------- */

/* The version in /proc/driver/nvidia/version: the word behind "Module", or behind "for x86_64" of the open module. "": no driver. */
static void read_driver(char out[32])
{
    char line[256] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    out[0] = '\0';
    if (file == NULL) {
        return;
    }
    bool is_read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    char *rest = NULL;
    for (char *word = is_read ? strtok_r(line, " \t\n", &rest) : NULL; word != NULL; word = strtok_r(NULL, " \t\n", &rest)) {
        if (word[0] >= '1' && word[0] <= '9' && strchr(word, '.') != NULL && strspn(word, "0123456789.") == strlen(word)) {
            (void)bytes_copy_text(out, 32, word);
            return;
        }
    }
}

struct pairs {
    struct pack_writer writer;
    uint32_t count;
};

static void put(struct pairs *pairs, const char *key, const char *text, size_t bytes)
{
    if (bytes > 0) {
        pack_text(&pairs->writer, key);
        pack_text_n(&pairs->writer, text, bytes);
        pairs->count++;
    }
}

/* The value of the answer's line "KEY VALUE"; "": it has none. */
static const char *line_of(const char *answer, const char *key, size_t *bytes)
{
    size_t key_bytes = strlen(key);
    for (const char *at = answer; *at != '\0';) {
        size_t line = strcspn(at, "\n");
        if (line > key_bytes && memcmp(at, key, key_bytes) == 0 && at[key_bytes] == ' ') {
            *bytes = line - key_bytes - 1;
            return at + key_bytes + 1;
        }
        at += line + (at[line] == '\n');
    }
    *bytes = 0;
    return "";
}

/* All values of lines "package VALUE", a line each. */
static size_t packages_of(const char *answer, char *out)
{
    static const char key[] = "package ";
    size_t used = 0;
    for (const char *at = answer; *at != '\0';) {
        size_t line = strcspn(at, "\n");
        if (at[line] == '\n' && line > sizeof key - 1 && memcmp(at, key, sizeof key - 1) == 0) {
            memcpy(out + used, at + sizeof key - 1, line - (sizeof key - 1) + 1);
            used += line - (sizeof key - 1) + 1;
        }
        at += line + (at[line] == '\n');
    }
    return used;
}

/* Appends the entry. `answer`: of the interpreter, "" if there is none. */
static void note(struct daemon *daemon, const struct wanted *wanted, const char *answer)
{
    struct utsname name;
    char system[512] = "", driver[32];
    uint8_t *bytes = malloc(PLATFORM_BYTES_MAX);
    char *packages = malloc(strlen(answer) + 1);
    if (bytes != NULL && packages != NULL) {
        struct pairs pairs = {.count = 0};
        size_t value_bytes;
        if (uname(&name) == 0) {
            (void)snprintf(system, sizeof system, "%s %s %s", name.sysname, name.release, name.machine);
        }
        read_driver(driver);
        pack_writer_init(&pairs.writer, bytes + 1, PLATFORM_BYTES_MAX - 1);
        put(&pairs, "shoal", SHOAL_VERSION, strlen(SHOAL_VERSION));
        put(&pairs, "system", system, strlen(system));
        put(&pairs, "model", daemon->slots[wanted->slot].model, strlen(daemon->slots[wanted->slot].model));
        put(&pairs, "driver", driver, strlen(driver));
        for (int i = 0; i < 2; i++) {
            const char *key = i == 0 ? "python" : "executable", *value = line_of(answer, key, &value_bytes);
            put(&pairs, key, value, value_bytes);
        }
        put(&pairs, "packages", packages, packages_of(answer, packages));
        bytes[0] = (uint8_t)(0x80 | pairs.count); /* a map of at most 15 pairs has one byte as its head */
        if (!pairs.writer.failed) {
            (void)daemon_series_append(daemon, 0, &wanted->attempt, 'e', wanted->number, 1, bytes, pairs.writer.used_bytes + 1);
        }
    }
    free(packages);
    free(bytes);
}

/* ---- what is known ------------------------------------------------------------------------------------------------- */

/* The times of the directories of packages. */
static hash256 stamp_of(const char *answer)
{
    static const char key[] = "dir ";
    struct {
        int64_t seconds, nanoseconds;
    } times[64];
    size_t count = 0;
    memset(times, 0, sizeof times);
    for (const char *at = answer; *at != '\0' && count < sizeof times / sizeof times[0];) {
        size_t line = strcspn(at, "\n");
        char path[PATH_MAX];
        struct stat info;
        if (line > sizeof key - 1 && line < sizeof path && memcmp(at, key, sizeof key - 1) == 0) {
            memcpy(path, at + sizeof key - 1, line - (sizeof key - 1));
            path[line - (sizeof key - 1)] = '\0';
            if (stat(path, &info) == 0) {
                times[count].seconds = info.st_mtim.tv_sec;
                times[count].nanoseconds = info.st_mtim.tv_nsec;
            }
            count++;
        }
        at += line + (at[line] == '\n');
    }
    return hash_bytes(times, count * sizeof times[0]);
}

/* NULL: the interpreter has to be asked. */
static const char *find_known(struct daemon_platform *platform, hash256 key)
{
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        struct known *known = &platform->known[i];
        if (known->answer != NULL && hash256_equal(known->key, key) && hash256_equal(known->stamp, stamp_of(known->answer))) {
            known->used = ++platform->uses;
            return known->answer;
        }
    }
    return NULL;
}

static void keep_known(struct daemon_platform *platform, hash256 key, const char *answer)
{
    struct known *place = &platform->known[0];
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        struct known *known = &platform->known[i];
        bool is_same = known->answer != NULL && hash256_equal(known->key, key);
        place = is_same || (place->answer != NULL && (known->answer == NULL || known->used < place->used)) ? known : place;
        if (is_same) {
            break;
        }
    }
    free(place->answer);
    *place = (struct known){.key = key, .stamp = stamp_of(answer), .answer = strdup(answer), .used = ++platform->uses};
}

/* ---- the process --------------------------------------------------------------------------------------------------- */

static void wanted_free(struct wanted *wanted)
{
    for (size_t i = 0; wanted->variables != NULL && wanted->variables[i] != NULL; i++) {
        free(wanted->variables[i]);
    }
    free(wanted->variables);
    free(wanted);
}

static int start_process(const struct wanted *wanted, int output_fd, pid_t *pid)
{
    const char *const arguments[] = {"env", wanted->python, "-c", script, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_addchdir_np(&actions, "/")) == 0) {
        error = keep_process_start(pid, "/usr/bin/env", &actions, (char *const *)(uintptr_t)arguments, wanted->variables);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Asks for the first that waits. False: that cannot be. */
static bool ask_first(struct daemon_platform *platform, uint64_t now_ms)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return false;
    }
    bool starts = start_process(platform->wanted, fds[1], &platform->pid) == 0;
    (void)close(fds[1]);
    if (!starts) {
        platform->pid = 0;
        (void)close(fds[0]);
        return false;
    }
    platform->fd = fds[0];
    platform->until_ms = now_ms + ANSWER_MS_MAX;
    platform->answer_bytes = 0;
    return true;
}

static void end_process(struct daemon_platform *platform)
{
    (void)kill(-platform->pid, SIGKILL); /* its session has a process group of its own */
    (void)close(platform->fd);
    platform->ended = platform->pid;
    platform->pid = 0;
}

/* Takes the answer for the first that waits, and for all others that wait for the same. */
static void take_answer(struct daemon *daemon, struct daemon_platform *platform)
{
    hash256 key = platform->wanted->key;
    platform->answer[platform->answer_bytes] = '\0';
    for (size_t i = 0; i < platform->answer_bytes; i++) {
        platform->answer[i] = platform->answer[i] == '\0' ? '?' : platform->answer[i];
    }
    if (platform->answer_bytes > 0) {
        keep_known(platform, key, platform->answer);
    }
    for (struct wanted **link = &platform->wanted; *link != NULL;) {
        struct wanted *wanted = *link;
        if (!hash256_equal(wanted->key, key)) {
            link = &wanted->next;
            continue;
        }
        note(daemon, wanted, platform->answer);
        *link = wanted->next;
        platform->wanted_count--;
        wanted_free(wanted);
    }
}

/* Reads on; at the end of the output, or of the time, takes the answer. */
static void read_answer(struct daemon *daemon, struct daemon_platform *platform, uint64_t now_ms)
{
    for (;;) {
        ssize_t got = read(platform->fd, platform->answer + platform->answer_bytes, ANSWER_BYTES - platform->answer_bytes);
        if (got > 0) {
            platform->answer_bytes += (size_t)got;
            continue;
        }
        bool waits = got < 0 && (errno == EAGAIN || errno == EINTR);
        if (!waits || now_ms >= platform->until_ms) {
            end_process(platform);
            take_answer(daemon, platform);
        }
        return;
    }
}

void daemon_platform_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_platform *platform = daemon->workers->platform;
    if (platform == NULL) {
        return;
    }
    if (platform->ended != 0 && waitpid(platform->ended, NULL, WNOHANG) != 0) {
        platform->ended = 0;
    }
    if (platform->pid != 0) {
        read_answer(daemon, platform, now_ms);
    }
    if (platform->pid == 0 && platform->ended == 0 && platform->wanted != NULL && !ask_first(platform, now_ms)) {
        platform->answer_bytes = 0;
        take_answer(daemon, platform);
    }
}

/* ---- a worker begins ----------------------------------------------------------------------------------------------- */

/* The variables but for Shoal's own, and without those the worker's own directory: what is left of two workers is often the same. */
static bool copy_variables(const struct worker_start *start, struct wanted *wanted)
{
    wanted->variables = calloc(start->count + 1, sizeof wanted->variables[0]);
    size_t used = 0;
    for (size_t i = 0; wanted->variables != NULL && i < start->count; i++) {
        if (strncmp(start->variables[i], "SHOAL_", 6) != 0) {
            wanted->variables[used] = strdup(start->variables[i]);
            if (wanted->variables[used++] == NULL) {
                return false;
            }
        }
    }
    return wanted->variables != NULL;
}

/* What decides the answer: the interpreter, and the variables by which Python finds itself and its packages. */
static hash256 key_of(const struct wanted *wanted, const char *directory)
{
    static const char *const names[] = {"PATH=", "PYTHONPATH=", "PYTHONHOME=", "PYTHONUSERBASE=", "PYTHONNOUSERSITE=", "HOME=", "VIRTUAL_ENV="};
    char *text = NULL;
    size_t bytes = 0, directory_bytes = strlen(directory);
    FILE *out = open_memstream(&text, &bytes);
    hash256 key = {{0}};
    if (out == NULL) {
        return key;
    }
    (void)fprintf(out, "%s\n", wanted->python);
    for (size_t i = 0; wanted->variables[i] != NULL; i++) {
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            const char *variable = wanted->variables[i];
            if (strncmp(variable, names[k], strlen(names[k])) != 0) {
                continue;
            }
            for (const char *part = variable; *part != '\0';) { /* parts below the worker's directory differ for each worker */
                size_t part_bytes = strcspn(part, ":");
                const char *value = part == variable ? part + strlen(names[k]) : part;
                if (strncmp(value, directory, directory_bytes) != 0) {
                    (void)fprintf(out, "%.*s\n", (int)part_bytes, part);
                }
                part += part_bytes + (part[part_bytes] == ':');
            }
        }
    }
    if (fclose(out) == 0) {
        key = hash_bytes(text, bytes);
    }
    free(text);
    return key;
}

/* The interpreter of the worker: of its packages, else of its entrypoint. */
static bool find_python(const struct daemon_worker *worker, const struct worker_start *start, char out[PLATFORM_PYTHON_BYTES])
{
    char link[KEEP_PATH_BYTES + 16], whole[PATH_MAX], work[KEEP_PATH_BYTES + 8];
    (void)snprintf(link, sizeof link, "%s/packages", worker->directory);
    if (realpath(link, whole) != NULL) {
        int used = snprintf(out, PLATFORM_PYTHON_BYTES, "%s/bin/python", whole);
        return used > 0 && used < PLATFORM_PYTHON_BYTES;
    }
    (void)snprintf(work, sizeof work, "%s/work", worker->directory);
    return platform_python(start->entrypoint, work, out);
}

void platform_begin(struct daemon *daemon, uint32_t slot, const struct worker_start *start)
{
    const struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct daemon_platform *platform = daemon->workers->platform;
    if (platform == NULL) {
        platform = daemon->workers->platform = calloc(1, sizeof *platform);
    }
    struct wanted *wanted = platform != NULL ? calloc(1, sizeof *wanted) : NULL;
    if (wanted == NULL || worker->prepare.u.worker.rank != 0) {
        free(wanted);
        return;
    }
    wanted->attempt = worker->prepare.u.worker.attempt;
    wanted->number = worker->prepare.u.worker.number;
    wanted->slot = slot;
    bool has_python = platform->wanted_count < WANTED_MAX && find_python(worker, start, wanted->python) && copy_variables(start, wanted);
    const char *answer = "";
    if (has_python) {
        wanted->key = key_of(wanted, worker->directory);
        answer = find_known(platform, wanted->key);
    }
    if (answer != NULL) {
        note(daemon, wanted, answer);
        wanted_free(wanted);
        return;
    }
    struct wanted **end = &platform->wanted;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = wanted;
    platform->wanted_count++;
}

void daemon_platform_close(struct daemon *daemon)
{
    struct daemon_platform *platform = daemon->workers->platform;
    if (platform == NULL) {
        return;
    }
    if (platform->pid != 0) {
        end_process(platform);
        (void)waitpid(platform->ended, NULL, WNOHANG);
    }
    while (platform->wanted != NULL) {
        struct wanted *wanted = platform->wanted;
        platform->wanted = wanted->next;
        wanted_free(wanted);
    }
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        free(platform->known[i].answer);
    }
    free(platform);
    daemon->workers->platform = NULL;
}
