#include "node/keep/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "node/keep/polite.h"
#include "node/keep/proto.h"
#include "node/keep/shell_wire.h"
#include "node/keep/spec.h"
#include "node/keep/tree.h"

#define BEGIN_MS 30000 /* until the client has told what to run */
#define HANGUP_MS 1000 /* from SIGHUP to SIGKILL */
#define KILL_MS 50     /* between rounds of SIGKILL */
#define SESSION_TRIES 4
#define SESSION_TRY_MS 30
#define LAST_MS 2000   /* for the client to take the last frame */

/* A command that runs. */
struct shell {
    int link;   /* to the client; -1: closed */
    int input;  /* the command's standard input, or the terminal; -1: closed */
    int output; /* its standard output, or the same terminal; -1: closed */
    int errors; /* its standard error; -1: closed, or there is a terminal */
    int signals;
    bool has_terminal;
    pid_t child;
    bool child_is_gone;
    int child_status;
    struct frame_reader reader;
    uint8_t *buffer;
    struct shell_frame frame; /* the last frame of the client */
    const uint8_t *typed;     /* input that the command has not taken; in `buffer` */
    size_t typed_bytes;
    bool input_ends;                       /* behind that */
    uint8_t queued[SHELL_DATA_BYTES + 64]; /* the frame that the client has not taken */
    size_t queued_bytes, sent;             /* queued_bytes 0: none */
};

static uint64_t clock_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void fd_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* ---- frames to the client ---- */

static void flush(struct shell *shell)
{
    if (shell->queued_bytes > 0 && shell->link >= 0) {
        int code = frame_send_some(shell->link, shell->queued, shell->queued_bytes, -1, &shell->sent);
        if (code == ERR_AGAIN) {
            return;
        }
        if (code != 0) {
            fd_close(&shell->link);
        }
    }
    shell->queued_bytes = 0;
}

static void put(struct shell *shell, const struct shell_frame *frame)
{
    CHECK(shell->queued_bytes == 0);
    CHECK(shell_frame_encode(frame, shell->queued, sizeof shell->queued, &shell->queued_bytes) == 0);
    shell->sent = 0;
    flush(shell);
}

/* Sends the last frame, and waits a while until the client has it. */
static void put_last(struct shell *shell, const struct shell_frame *frame)
{
    uint64_t until_ms = clock_ms() + LAST_MS;
    uint8_t ignored[1024];
    struct pollfd ready = {.fd = shell->link, .events = POLLOUT};
    while (shell->link >= 0 && shell->queued_bytes > 0 && clock_ms() < until_ms) {
        (void)poll(&ready, 1, KILL_MS);
        flush(shell);
    }
    if (shell->link < 0 || shell->queued_bytes > 0) {
        return;
    }
    put(shell, frame);
    while (shell->link >= 0 && shell->queued_bytes > 0 && clock_ms() < until_ms) {
        (void)poll(&ready, 1, KILL_MS);
        flush(shell);
    }
    if (shell->link < 0) {
        return;
    }
    (void)shutdown(shell->link, SHUT_WR);
    ready.events = POLLIN; /* closed with bytes unread, the socket would look broken to the other side */
    while (clock_ms() < until_ms && poll(&ready, 1, KILL_MS) >= 0) {
        ssize_t n = recv(shell->link, ignored, sizeof ignored, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            return;
        }
    }
}

__attribute__((format(printf, 2, 3))) static int fail(struct shell *shell, const char *format, ...)
{
    char text[SHELL_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t bytes = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    put_last(shell, &(struct shell_frame){.kind = SHELL_FAILED, .bytes = (const uint8_t *)text, .count = bytes});
    return 1;
}

/* ---- the start ---- */

/* The worker's environment without TERM, and with the client's if there is a terminal. */
static char **environment_of(const struct shell *shell, const struct keep_run *run, char *term)
{
    size_t count = 0, used = 0;
    while (run->environment[count] != NULL) {
        count++;
    }
    char **variables = calloc(count + 2, sizeof *variables);
    for (size_t i = 0; variables != NULL && i < count; i++) {
        if (strncmp(run->environment[i], "TERM=", 5) != 0) {
            variables[used++] = run->environment[i];
        }
    }
    if (variables != NULL && shell->has_terminal && term[sizeof "TERM=" - 1] != '\0') {
        variables[used] = term;
    }
    return variables;
}

/* As of the worker: when memory runs out, the kernel ends a command before the daemon. */
static void prefer_for_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)dprintf(fd, "%d", KEEP_OOM_SCORE + 1);
        (void)close(fd);
    }
}

/* The failed step of the child, sent through a pipe that a successful exec closes. */
struct child_failure {
    char step[64];
    int error;
};

_Noreturn static void child_fail(int report, const char *step)
{
    struct child_failure failure = {.error = errno};
    (void)bytes_copy_text(failure.step, sizeof failure.step, step);
    ssize_t written = write(report, &failure, sizeof failure);
    _exit(written == (ssize_t)sizeof failure ? 126 : 125);
}

/* A command of a polite run takes no more from the machine's other processes than the run does. */
static void be_polite(void)
{
    const struct timespec pause = {.tv_nsec = SESSION_TRY_MS * 1000000L};
    keep_polite_process(0);
    for (int i = 0; i < SESSION_TRIES && !keep_polite_session(0); i++) {
        (void)nanosleep(&pause, NULL);
    }
}

/* `fds`: standard input, output and error; with a terminal all the same. */
_Noreturn static void child_run(const struct shell *shell, const struct keep_run *spec, char **words, char **variables,
                                const int fds[3], pid_t parent, int report)
{
    if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        child_fail(report, "setsid");
    }
    if (getppid() != parent) {
        _exit(125);
    }
    if (spec->is_polite) {
        be_polite();
    }
    if (shell->has_terminal && ioctl(fds[0], TIOCSCTTY, 0) != 0) {
        child_fail(report, "taking the terminal");
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) < 0) {
            child_fail(report, "standard input and output");
        }
    }
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)umask(022);
    prefer_for_oom();
    if (chdir(spec->working_directory) != 0) {
        child_fail(report, "entering the trial's directory");
    }
    environ = variables; /* execvp looks through its PATH */
    (void)execvp(words[0], words);
    child_fail(report, "");
}

/* Makes a terminal: `*own` is this process's end. 0, or -1 with errno. */
static int terminal_open(struct shell_window window, int *own, int *of_child)
{
    char name[64];
    struct winsize size = {.ws_row = window.rows, .ws_col = window.columns};
    *own = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*own < 0 || grantpt(*own) != 0 || unlockpt(*own) != 0 || ptsname_r(*own, name, sizeof name) != 0) {
        return -1;
    }
    (void)ioctl(*own, TIOCSWINSZ, &size);
    *of_child = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return *of_child < 0 ? -1 : 0;
}

/* Makes what the command reads and writes: three descriptors of its own, and this process's ends. 0, or -1 with errno.
 */
static int channels_open(struct shell *shell, int fds[3])
{
    int input[2], output[2], errors[2];
    if (shell->has_terminal) {
        int own, of_child;
        if (terminal_open(shell->frame.window, &own, &of_child) != 0) {
            return -1;
        }
        fds[0] = fds[1] = fds[2] = of_child;
        shell->output = own;
        shell->input = fcntl(own, F_DUPFD_CLOEXEC, 3);
    } else {
        if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
            return -1;
        }
        fds[0] = input[0];
        fds[1] = output[1];
        fds[2] = errors[1];
        shell->input = input[1];
        shell->output = output[0];
        shell->errors = errors[0];
    }
    const int own[] = {shell->input, shell->output, shell->errors};
    for (size_t i = 0; i < 3; i++) {
        if (own[i] >= 0 && fcntl(own[i], F_SETFL, O_NONBLOCK) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Starts the command of the client's first frame. False, with the sentence told: it does not run. */
static bool start(struct shell *shell, const struct keep_run *run)
{
    static char *words[SHELL_WORDS_MAX + 1];
    char term[SHELL_TERM_BYTES + 8], *word = shell->frame.words;
    int fds[3], report[2];
    for (uint32_t i = 0; i < shell->frame.word_count; i++) {
        words[i] = word;
        word += strlen(word) + 1;
    }
    (void)snprintf(term, sizeof term, "TERM=%s", shell->frame.term);
    shell->has_terminal = shell->frame.has_terminal;
    char **variables = environment_of(shell, run, term);
    if (variables == NULL || channels_open(shell, fds) != 0 || pipe2(report, O_CLOEXEC) != 0) {
        (void)fail(shell, "The command gets no terminal or pipe: %s.", strerror(errno));
        free(variables);
        return false;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        child_run(shell, run, words, variables, fds, parent, report[1]);
    }
    int error = errno;
    for (int i = 0; i < (shell->has_terminal ? 1 : 3); i++) {
        (void)close(fds[i]);
    }
    (void)close(report[1]);
    free(variables);
    struct child_failure failure = {.error = error, .step = "fork"};
    ssize_t n = pid > 0 ? read(report[0], &failure, sizeof failure) : (ssize_t)sizeof failure;
    (void)close(report[0]);
    shell->child = pid;
    if (n == (ssize_t)sizeof failure) {
        if (pid > 0) {
            (void)waitpid(pid, NULL, 0);
        }
        bool is_absent = failure.step[0] == '\0' && failure.error == ENOENT;
        (void)fail(shell, is_absent ? "There is no program %.80s on the trial's node." : "%.80s cannot be run: %s%s%s.",
                   words[0], failure.step, failure.step[0] != '\0' ? ": " : "", strerror(failure.error));
        return false;
    }
    return true;
}

/* ---- running ---- */

/* Obeys a frame of the client. */
static void obey(struct shell *shell)
{
    struct winsize size = {.ws_row = shell->frame.window.rows, .ws_col = shell->frame.window.columns};
    switch (shell->frame.kind) {
    case SHELL_INPUT:
        shell->typed = shell->frame.bytes;
        shell->typed_bytes = shell->frame.count;
        break;
    case SHELL_INPUT_END:
        shell->input_ends = true;
        break;
    case SHELL_WINDOW:
        if (shell->has_terminal && shell->output >= 0) {
            (void)ioctl(shell->output, TIOCSWINSZ, &size);
        }
        break;
    case SHELL_SIGNAL:
        (void)kill(-shell->child, shell->frame.signal);
        break;
    default:
        break; /* of a later version */
    }
}

/* Gives the command what was typed. With a terminal the end of the input is its own end-of-file character. */
static void give_input(struct shell *shell)
{
    while (shell->typed_bytes > 0) {
        ssize_t n =
            shell->input >= 0 ? write(shell->input, shell->typed, shell->typed_bytes) : (ssize_t)shell->typed_bytes;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0) {
            fd_close(&shell->input);
            n = (ssize_t)shell->typed_bytes;
        }
        shell->typed += n;
        shell->typed_bytes -= (size_t)n;
    }
    if (shell->input_ends && shell->input >= 0) {
        if (shell->has_terminal) {
            (void)!write(shell->input, "\4", 1);
        }
        fd_close(&shell->input);
    }
}

/* Obeys the frames that have been read, as long as the command takes its input. */
static void take_frames(struct shell *shell)
{
    const uint8_t *bytes;
    size_t count;
    int fd, code = 0;
    while (shell->typed_bytes == 0 && (code = frame_reader_next(&shell->reader, &bytes, &count, 0, &fd)) == 0) {
        if (shell_frame_decode(bytes, count, &shell->frame) != 0) {
            code = ERR_MALFORMED;
            break;
        }
        obey(shell);
        give_input(shell);
    }
    if (code == ERR_MALFORMED) {
        fd_close(&shell->link);
    }
}

static void read_link(struct shell *shell)
{
    int code = frame_reader_fill(&shell->reader, shell->link);
    if (code != 0 && code != ERR_AGAIN && code != ERR_FULL) {
        fd_close(&shell->link);
    }
}

/* Takes a piece of output, if the client has taken the last one. True: there may be more. */
static bool take_output(struct shell *shell, int *fd, uint8_t kind)
{
    uint8_t bytes[SHELL_DATA_BYTES];
    if (*fd < 0 || shell->queued_bytes > 0) {
        return false;
    }
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n > 0) {
        put(shell, &(struct shell_frame){.kind = kind, .bytes = bytes, .count = (size_t)n});
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) { /* EIO: nobody has the terminal open any more */
        fd_close(fd);
    }
    return false;
}

static void reap(struct shell *shell)
{
    struct signalfd_siginfo info;
    while (read(shell->signals, &info, sizeof info) == (ssize_t)sizeof info) {
    }
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
        if (pid == shell->child) {
            shell->child_is_gone = true;
            shell->child_status = status;
        }
    }
}

static void wait_for_events(struct shell *shell)
{
    bool may_queue = shell->queued_bytes == 0;
    struct pollfd items[] = {
        {.fd = shell->signals, .events = POLLIN},
        {.fd = shell->link, .events = (short)((shell->typed_bytes == 0 ? POLLIN : 0) | (may_queue ? 0 : POLLOUT))},
        {.fd = may_queue ? shell->output : -1, .events = POLLIN},
        {.fd = may_queue ? shell->errors : -1, .events = POLLIN},
        {.fd = shell->typed_bytes > 0 ? shell->input : -1, .events = POLLOUT},
    };
    if (poll(items, sizeof items / sizeof items[0], -1) <= 0) {
        return;
    }
    if (items[4].revents != 0) {
        give_input(shell);
    }
    if ((items[1].revents & POLLOUT) != 0) {
        flush(shell);
    }
    if ((items[1].revents & (POLLHUP | POLLERR)) != 0 && shell->typed_bytes > 0) {
        fd_close(&shell->link); /* what was typed will not be read, and the client is gone */
    } else if ((items[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && shell->link >= 0) {
        read_link(shell);
    }
    if (items[2].revents != 0) {
        (void)take_output(shell, &shell->output, SHELL_OUTPUT);
    }
    if (items[3].revents != 0) {
        (void)take_output(shell, &shell->errors, SHELL_ERRORS);
    }
    if (items[0].revents != 0) {
        reap(shell);
    }
}

/* The last output of a command that has ended. What it has left running may hold the pipes open: nobody waits for that.
 */
static void drain(struct shell *shell)
{
    uint64_t until_ms = clock_ms() + LAST_MS;
    struct pollfd ready = {.fd = shell->link, .events = POLLOUT};
    while (shell->link >= 0 && clock_ms() < until_ms) {
        flush(shell);
        if (shell->queued_bytes > 0) {
            (void)poll(&ready, 1, KILL_MS);
        } else if (!take_output(shell, &shell->output, SHELL_OUTPUT) &&
                   !take_output(shell, &shell->errors, SHELL_ERRORS)) {
            return;
        }
    }
}

/* Ends everything below this process. */
static void end_all(bool asks_first)
{
    uint64_t until_ms = clock_ms() + HANGUP_MS;
    if (asks_first) {
        (void)keep_tree_signal(SIGHUP);
        (void)keep_tree_signal(SIGCONT);
    }
    for (;;) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0) {
        }
        if (pid < 0 && errno == ECHILD) {
            return;
        }
        if (!asks_first || clock_ms() >= until_ms) {
            (void)keep_tree_signal(SIGKILL);
        }
        (void)poll(NULL, 0, KILL_MS);
    }
}

static void run(struct shell *shell)
{
    while (!shell->child_is_gone && shell->link >= 0) {
        take_frames(shell);
        if (shell->link >= 0) {
            wait_for_events(shell);
        }
    }
    if (!shell->child_is_gone) {
        fd_close(&shell->input);
        fd_close(&shell->output); /* the terminal's end: SIGHUP for its foreground */
        fd_close(&shell->errors);
        end_all(true);
        return;
    }
    drain(shell);
    end_all(false);
    int status = shell->child_status;
    put_last(shell, &(struct shell_frame){.kind = SHELL_EXIT,
                                          .code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status)});
}

/* Waits for the client's first frame. */
static bool hear_command(struct shell *shell)
{
    const uint8_t *bytes;
    size_t count;
    int fd;
    return frame_reader_wait(&shell->reader, shell->link, BEGIN_MS, &bytes, &count, 0, &fd) == 0 &&
           shell_frame_decode(bytes, count, &shell->frame) == 0 && shell->frame.kind == SHELL_RUN;
}

static int signals_take(struct shell *shell)
{
    sigset_t mine;
    (void)sigemptyset(&mine);
    (void)sigaddset(&mine, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &mine, NULL);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    shell->signals = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
    return shell->signals < 0 ? -1 : 0;
}

/* Adds the secrets of the memory file to the environment. -1: there is none. */
static int take_secrets(int fd, struct keep_run *spec)
{
    struct stat info;
    if (fd < 0) {
        return 0;
    }
    if (fstat(fd, &info) != 0) {
        return ERR_IO;
    }
    size_t count = info.st_size > 0 && info.st_size <= KEEP_SECRETS_BYTES_MAX ? (size_t)info.st_size : 0;
    uint8_t *bytes = malloc(count + 1);
    int code = bytes == NULL ? ERR_MEMORY : count == 0 || read(fd, bytes, count) != (ssize_t)count ? ERR_IO : 0;
    if (code == 0) {
        code = keep_run_add_secrets(spec, bytes, count);
    }
    if (bytes != NULL) {
        explicit_bzero(bytes, count);
    }
    free(bytes);
    (void)close(fd);
    return code;
}

int keep_shell_main(const char *run_directory)
{
    static struct shell shell = {.link = KEEP_FD_LINK, .input = -1, .output = -1, .errors = -1, .signals = -1};
    struct keep_run spec;
    uint8_t *bytes;
    size_t count;
    (void)close_range(KEEP_FD_SECRETS + 1, ~0u, 0);
    (void)fcntl(KEEP_FD_LINK, F_SETFD, FD_CLOEXEC);
    int secrets = fcntl(KEEP_FD_SECRETS, F_SETFD, FD_CLOEXEC) == 0 ? KEEP_FD_SECRETS : -1; /* before another file has its number */
    (void)fcntl(KEEP_FD_LINK, F_SETFL, O_NONBLOCK);
    shell.buffer = malloc(SHELL_FRAME_BYTES_MAX + FRAME_HEAD_BYTES);
    int directory_fd = open(run_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (shell.buffer == NULL || signals_take(&shell) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return fail(&shell, "The command cannot be watched on the trial's node: %s.", strerror(errno));
    }
    frame_reader_init(&shell.reader, shell.buffer, SHELL_FRAME_BYTES_MAX + FRAME_HEAD_BYTES);
    if (!hear_command(&shell)) {
        return fail(&shell, "The command did not arrive on the trial's node in a form that it knows.");
    }
    int code = directory_fd < 0
                   ? ERR_NOT_FOUND
                   : keep_proto_read_file(directory_fd, KEEP_FILE_SPEC, KEEP_SPEC_FILE_BYTES_MAX, &bytes, &count);
    if (code == 0) {
        code = keep_run_read(bytes, count, &spec);
        explicit_bzero(bytes, count);
        free(bytes);
    }
    if (code == 0 && (code = take_secrets(secrets, &spec)) != 0) {
        keep_run_close(&spec);
    }
    if (code != 0) {
        return fail(&shell, "The environment of the trial cannot be read on its node: %s.", err_text(code));
    }
    bool is_started = start(&shell, &spec);
    keep_run_wipe(&spec);
    keep_run_close(&spec); /* the command has its copy of the secrets, and this process forgets them */
    if (is_started) {
        run(&shell);
    }
    free(shell.buffer);
    return 0;
}
