/* Which programs this machine has: the usual ones, and those that the newest experiments name. A process of its own looks for them
 * (program_search.h) at the start, every few minutes, and when an experiment names a new one; the core tells the mesh. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/core/facts/program.h"
#include "node/core/view/view.h"
#include "node/daemon/workers/environment.h"
#include "node/daemon/workers/program_search.h"
#include "node/daemon/workers/workers.h"
#include "node/keep/processes.h"

#define LOOK_FIRST_MS 1000     /* after the start, when the daemon has more urgent things to do */
#define LOOK_EVERY_MS 300000
#define LOOK_MS_MAX 120000     /* then the process is given up */
#define REPEAT_MS 30000        /* the core may have been catching up, or short of memory */
#define ASKED_MS 1000          /* how often the experiments are looked at */
#define ANSWER_BYTES 8192

struct name {
    char text[FACT_PROGRAM_BYTES];
    uint64_t submitted_s; /* of the newest experiment that names it; UINT64_MAX: a usual one */
};

struct daemon_programs {
    pid_t pid;     /* of the process that looks; 0: none */
    pid_t ended;   /* of one that was killed and is not reaped yet; 0: none */
    int fd;    /* its output */
    uint64_t until_ms;
    char answer[ANSWER_BYTES];
    size_t answer_bytes;
    uint64_t look_ms, asked_ms, repeat_ms; /* when each is due */
    struct name names[FACT_PROGRAMS_MAX];  /* by text */
    uint32_t name_count;
    struct fact_programs found; /* as told to the core */
    bool has_looked;
};

/* ---- which ---------------------------------------------------------------------------------------------------------- */

/* Adds a name, in its order; if there is no room in the place of the one with the oldest experiment. */
static void add_name(struct name names[FACT_PROGRAMS_MAX], uint32_t *count, const char *text, uint64_t submitted_s)
{
    uint32_t oldest = 0, at = 0;
    for (uint32_t i = 0; i < *count; i++) {
        if (strcmp(names[i].text, text) == 0) {
            names[i].submitted_s = submitted_s > names[i].submitted_s ? submitted_s : names[i].submitted_s;
            return;
        }
        oldest = names[i].submitted_s < names[oldest].submitted_s ? i : oldest;
    }
    if (*count == FACT_PROGRAMS_MAX) {
        if (names[oldest].submitted_s >= submitted_s) {
            return;
        }
        memmove(&names[oldest], &names[oldest + 1], (*count - oldest - 1) * sizeof names[0]);
        (*count)--;
    }
    while (at < *count && strcmp(names[at].text, text) < 0) {
        at++;
    }
    memmove(&names[at + 1], &names[at], (*count - at) * sizeof names[0]);
    (void)bytes_copy_text(names[at].text, sizeof names[at].text, text);
    names[at].submitted_s = submitted_s;
    (*count)++;
}

/* True if there is a name now that was not asked for before. */
static bool collect_names(struct daemon *daemon, struct daemon_programs *programs)
{
    static const char *const usual[] = {"accelerate", "python",     "python3",    "python3.9", "python3.10", "python3.11",
                                        "python3.12", "python3.13", "python3.14", "torchrun"};
    const struct view *view = node_core_view(daemon->core);
    struct name names[FACT_PROGRAMS_MAX];
    uint32_t count = 0, old = 0;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        add_name(names, &count, usual[i], UINT64_MAX);
    }
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        char text[FACT_PROGRAM_BYTES];
        if (experiment->known && program_of_config(experiment->config, text)) {
            add_name(names, &count, text, experiment->submitted_s);
        }
    }
    bool is_new = false;
    for (uint32_t i = 0; i < count; i++) {
        while (old < programs->name_count && strcmp(programs->names[old].text, names[i].text) < 0) {
            old++;
        }
        is_new |= old == programs->name_count || strcmp(programs->names[old].text, names[i].text) != 0;
    }
    memcpy(programs->names, names, sizeof names);
    programs->name_count = count;
    return is_new;
}

/* ---- the process ---------------------------------------------------------------------------------------------------- */

static int start_process(const char *path, char **variables, const struct daemon_programs *programs, int output_fd,
                         pid_t *pid)
{
    char program[] = "shoal-look", option[] = PROGRAM_SEARCH_OPTION;
    char *argv[FACT_PROGRAMS_MAX + 4] = {program, option, (char *)(uintptr_t)path};
    for (uint32_t i = 0; i < programs->name_count; i++) {
        argv[3 + i] = (char *)(uintptr_t)programs->names[i].text;
    }
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO)) == 0) {
        error = keep_process_start(pid, "/proc/self/exe", &actions, argv, variables);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Starts the process with the environment of workers, so that it finds what they find. False: not now. */
static bool start_with_environment(struct daemon *daemon, struct daemon_programs *programs, int output_fd)
{
    struct worker_start start;
    const char *path = "";
    environment_of_machine(daemon, &start);
    char **variables = calloc(start.count + 1, sizeof *variables);
    for (size_t i = 0; variables != NULL && i < start.count; i++) {
        variables[i] = start.variables[i];
        path = strncmp(variables[i], "PATH=", 5) == 0 ? variables[i] + 5 : path;
    }
    bool starts = variables != NULL && !start.failed &&
                  start_process(path, variables, programs, output_fd, &programs->pid) == 0;
    free(variables);
    environment_close(&start);
    return starts;
}

static void start_look(struct daemon *daemon, struct daemon_programs *programs, uint64_t now_ms)
{
    int fds[2];
    programs->look_ms = now_ms + LOOK_EVERY_MS;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return; /* the next time */
    }
    if (start_with_environment(daemon, programs, fds[1])) {
        programs->fd = fds[0];
        programs->until_ms = now_ms + LOOK_MS_MAX;
        programs->answer_bytes = 0;
    } else {
        programs->pid = 0;
        (void)close(fds[0]);
    }
    (void)close(fds[1]);
}

/* True if no ended process is left. One that hangs in a file system cannot be reaped, nor another one be started. */
static bool reap_look(struct daemon_programs *programs)
{
    if (programs->ended != 0 && waitpid(programs->ended, NULL, WNOHANG) != 0) {
        programs->ended = 0;
    }
    return programs->ended == 0;
}

static void end_look(struct daemon_programs *programs)
{
    (void)kill(programs->pid, SIGKILL); /* a Python that it asks dies with it */
    (void)close(programs->fd);
    programs->ended = programs->pid;
    programs->pid = 0;
}

/* ---- the answer ----------------------------------------------------------------------------------------------------- */

/* Cuts the next field off; "" if there is none. */
static const char *take_field(char **line)
{
    char *field = *line, *tab = strchr(field, '\t');
    *line = tab != NULL ? tab + 1 : field + strlen(field);
    if (tab != NULL) {
        *tab = '\0';
    }
    return field;
}

static void take_line(struct fact_programs *found, char *line)
{
    struct fact_program program = {{0}, false, {0}, {0}};
    bool fits = bytes_copy_text(program.name, sizeof program.name, take_field(&line));
    program.is_there = take_field(&line)[0] == '1';
    (void)bytes_copy_text(program.version, sizeof program.version, take_field(&line));
    (void)bytes_copy_text(program.torch, sizeof program.torch, take_field(&line));
    bool ascends = found->count == 0 || strcmp(found->items[found->count - 1].name, program.name) < 0;
    if (fits && program.name[0] != '\0' && ascends && found->count < FACT_PROGRAMS_MAX) {
        found->items[found->count++] = program;
    }
}

static const struct fact_program *find_program(const struct fact_programs *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

/* What the process told; of names without an answer what was known before. The answers have the order of the names. */
static void take_answer(struct daemon_programs *programs)
{
    struct fact_programs told = {0}, all = {0};
    programs->answer[programs->answer_bytes] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(programs->answer, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        take_line(&told, line);
    }
    for (uint32_t i = 0; i < programs->name_count; i++) {
        const struct fact_program *program = find_program(&told, programs->names[i].text);
        program = program != NULL ? program : find_program(&programs->found, programs->names[i].text);
        if (program != NULL) {
            all.items[all.count++] = *program;
        }
    }
    programs->found = all;
    programs->has_looked = true;
}

static void tell_core(struct daemon *daemon, const struct fact_programs *found)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_programs_pack(&writer, found);
    if (!writer.failed) {
        struct node_event event = {.kind = NODE_EVENT_PROGRAMS, .bytes = bytes, .byte_count = (uint32_t)writer.used_bytes};
        daemon_event(daemon, &event);
    }
}

static void read_look(struct daemon_programs *programs, uint64_t now_ms)
{
    size_t room = sizeof programs->answer - 1 - programs->answer_bytes;
    ssize_t got = read(programs->fd, programs->answer + programs->answer_bytes, room);
    if (got > 0) {
        programs->answer_bytes += (size_t)got;
        return;
    }
    bool is_over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    if (is_over || now_ms >= programs->until_ms) {
        end_look(programs);
        take_answer(programs);
        programs->repeat_ms = 0;
    }
}

void daemon_programs_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_programs *programs = daemon->workers->programs;
    if (programs == NULL) {
        programs = daemon->workers->programs = calloc(1, sizeof *programs);
        if (programs == NULL) {
            return;
        }
        programs->look_ms = now_ms + LOOK_FIRST_MS;
    }
    if (programs->pid != 0) {
        read_look(programs, now_ms);
    } else if (reap_look(programs)) {
        bool is_due = now_ms >= programs->look_ms;
        if (is_due || (programs->has_looked && now_ms >= programs->asked_ms)) {
            programs->asked_ms = now_ms + ASKED_MS;
            if (collect_names(daemon, programs) || is_due) {
                start_look(daemon, programs, now_ms);
            }
        }
    }
    if (programs->has_looked && now_ms >= programs->repeat_ms) {
        programs->repeat_ms = now_ms + REPEAT_MS;
        tell_core(daemon, &programs->found);
    }
}

void daemon_programs_close(struct daemon *daemon)
{
    if (daemon->workers->programs != NULL && daemon->workers->programs->pid != 0) {
        end_look(daemon->workers->programs);
        (void)reap_look(daemon->workers->programs);
    }
    free(daemon->workers->programs);
    daemon->workers->programs = NULL;
}
