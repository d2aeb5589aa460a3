/* exec: a command beside a trial's program, on its node. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"
#include "base/frame.h"
#include "node/keep/shell_wire.h"
#include "tools/shoal/shell.h"

#define SIGNAL_CODE 128 /* as shells: the status of a command that was killed by signal N is 128 + N */

static volatile sig_atomic_t passed_signal; /* one that the command is to get; 0: none */
static volatile sig_atomic_t is_resized;

struct exec {
    struct cli *cli;
    int fd; /* the stream */
    bool has_terminal;
    bool has_input; /* standard input goes on */
    struct termios before;
    bool is_raw;
    struct frame_reader reader;
    uint8_t *buffer;
    struct shell_frame frame;
    uint8_t queued[SHELL_FRAME_BYTES_MAX];
    size_t queued_bytes, sent; /* queued_bytes 0: no frame waits */
    bool is_over;
    int code;
};

static void note_signal(int number)
{
    if (number == SIGWINCH) {
        is_resized = 1;
        return;
    }
    passed_signal = number;
    (void)signal(number, SIG_DFL); /* the second one ends this program */
}

static void heed_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    struct sigaction action = {.sa_handler = note_signal};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        (void)sigaction(numbers[i], &action, NULL);
    }
    (void)signal(SIGPIPE, SIG_IGN);
}

/* ---- the terminal ---------------------------------------------------------------------------------------------- */

/* Every key goes to the command, Ctrl-C too. */
static void take_terminal(struct exec *exec)
{
    struct termios raw;
    if (!exec->has_terminal || tcgetattr(STDIN_FILENO, &exec->before) != 0) {
        return;
    }
    raw = exec->before;
    cfmakeraw(&raw);
    exec->is_raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void give_terminal_back(struct exec *exec)
{
    if (exec->is_raw) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &exec->before);
    }
    exec->is_raw = false;
}

static struct shell_window window_of(void)
{
    struct winsize size;
    if ((ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) &&
        size.ws_row > 0) {
        return (struct shell_window){size.ws_row, size.ws_col};
    }
    return (struct shell_window){24, 80};
}

/* ---- frames ---------------------------------------------------------------------------------------------------- */

static void flush(struct exec *exec)
{
    int code =
        exec->queued_bytes > 0 ? frame_send_some(exec->fd, exec->queued, exec->queued_bytes, -1, &exec->sent) : 0;
    if (code != ERR_AGAIN) {
        exec->queued_bytes = 0; /* of a broken stream the reading side tells */
    }
}

static void put(struct exec *exec, const struct shell_frame *frame)
{
    if (shell_frame_encode(frame, exec->queued, sizeof exec->queued, &exec->queued_bytes) == 0) {
        exec->sent = 0;
        flush(exec);
    }
}

static void read_input(struct exec *exec)
{
    uint8_t bytes[SHELL_DATA_BYTES];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n > 0) {
        put(exec, &(struct shell_frame){.kind = SHELL_INPUT, .bytes = bytes, .count = (size_t)n});
    } else if (n == 0 || errno != EINTR) {
        exec->has_input = false;
        put(exec, &(struct shell_frame){.kind = SHELL_INPUT_END});
    }
}

/* Writes all, also to a slow reader. False: there is no reader any more. */
static bool write_all(int fd, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t n = write(fd, bytes, count);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            (void)poll(&ready, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void finish(struct exec *exec, int code)
{
    exec->is_over = true;
    exec->code = code;
}

static void take_frame(struct exec *exec)
{
    const struct shell_frame *frame = &exec->frame;
    switch (frame->kind) {
    case SHELL_OUTPUT:
    case SHELL_ERRORS:
        if (!write_all(frame->kind == SHELL_OUTPUT ? STDOUT_FILENO : STDERR_FILENO, frame->bytes, frame->count)) {
            finish(exec, SIGNAL_CODE + SIGPIPE); /* the command gets SIGHUP */
        }
        break;
    case SHELL_EXIT:
        finish(exec, frame->code < 0 ? SIGNAL_CODE - frame->code : frame->code);
        break;
    case SHELL_FAILED:
        give_terminal_back(exec);
        finish(exec, cli_fail(exec->cli, CLI_REFUSED, "%.*s", (int)frame->count, (const char *)frame->bytes));
        break;
    default:
        break; /* of a later version */
    }
}

/* False: the stream has ended. */
static bool read_frames(struct exec *exec)
{
    const uint8_t *bytes;
    size_t count;
    int passed, code = frame_reader_fill(&exec->reader, exec->fd);
    bool goes_on = code == 0 || code == ERR_AGAIN || code == ERR_FULL;
    while (!exec->is_over && (code = frame_reader_next(&exec->reader, &bytes, &count, 0, &passed)) == 0) {
        if (shell_frame_decode(bytes, count, &exec->frame) != 0) {
            return false;
        }
        take_frame(exec);
    }
    return goes_on && code != ERR_MALFORMED;
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

static int read_command(struct cli *cli, const struct arguments *arguments, struct exec *exec)
{
    size_t used = 0;
    const char *term = getenv("TERM");
    exec->frame = (struct shell_frame){.kind = SHELL_RUN, .has_terminal = exec->has_terminal, .window = window_of()};
    (void)snprintf(exec->frame.term, sizeof exec->frame.term, "%s", term != NULL ? term : "");
    for (size_t i = 1; i < arguments->operand_count; i++) {
        size_t bytes = strlen(arguments->operands[i]) + 1;
        if (bytes > sizeof exec->frame.words - used) {
            return cli_fail(cli, CLI_USAGE,
                            "the command is longer than %u bytes; put it into a file of the trial's code",
                            SHELL_COMMAND_BYTES);
        }
        memcpy(exec->frame.words + used, arguments->operands[i], bytes);
        used += bytes;
        exec->frame.word_count++;
    }
    return CLI_DONE;
}

/* Moves bytes until the command or the stream has ended. False: the stream has. */
static bool attend(struct exec *exec)
{
    while (!exec->is_over) {
        bool is_idle = exec->queued_bytes == 0;
        struct pollfd items[] = {{.fd = exec->fd, .events = (short)(POLLIN | (is_idle ? 0 : POLLOUT))},
                                 {.fd = is_idle && exec->has_input ? STDIN_FILENO : -1, .events = POLLIN}};
        int ready = poll(items, 2, -1);
        if (is_idle && passed_signal != 0) {
            put(exec, &(struct shell_frame){.kind = SHELL_SIGNAL, .signal = passed_signal});
            passed_signal = 0;
        } else if (is_idle && is_resized != 0 && exec->has_terminal) {
            is_resized = 0;
            put(exec, &(struct shell_frame){.kind = SHELL_WINDOW, .window = window_of()});
        }
        if (ready <= 0) {
            continue;
        }
        if ((items[0].revents & POLLOUT) != 0) {
            flush(exec);
        }
        if ((items[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !read_frames(exec)) {
            return exec->is_over;
        }
        if (items[1].revents != 0 && exec->queued_bytes == 0) {
            read_input(exec);
        }
    }
    return true;
}

static int run(struct exec *exec, const struct target *target, uint64_t rank)
{
    struct client client;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return cli_fail(exec->cli, CLI_REFUSED, "no socket can be made: %s", strerror(errno));
    }
    int code = shell_open(exec->cli, target, rank, 0, ends[1], &client);
    (void)close(ends[1]);
    exec->fd = ends[0];
    if (code != CLI_DONE) {
        (void)close(ends[0]);
        return code;
    }
    heed_signals();
    put(exec, &exec->frame);
    take_terminal(exec);
    exec->has_input = true;
    exec->reader.never_waits = true;
    bool has_status = attend(exec);
    give_terminal_back(exec);
    (void)close(ends[0]);
    if (has_status) {
        client_close(&client);
        return exec->code;
    }
    code = shell_ended(&client);
    client_close(&client);
    return code != CLI_DONE
               ? code
               : cli_fail(exec->cli, CLI_REFUSED, "the connection to the command has ended before the command has");
}

int command_exec(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    uint64_t rank = 0;
    const char *given = options_value(arguments, "rank");
    int code = target_read_one(cli, arguments->operands[0], false, &target);
    if (code == CLI_DONE && given != NULL && options_number(given, UINT32_MAX, &rank) != 0) {
        code = cli_fail(cli, CLI_USAGE, "--rank %.40s is no rank; shoal show tells how many there are", given);
    }
    if (code == CLI_DONE && cli->json) {
        code = cli_fail(cli, CLI_USAGE, "exec shows what the command writes; there is no JSON of that");
    }
    struct exec *exec = code == CLI_DONE ? calloc(1, sizeof *exec) : NULL;
    uint8_t *buffer = exec != NULL ? malloc(SHELL_FRAME_BYTES_MAX + FRAME_HEAD_BYTES) : NULL;
    if (code == CLI_DONE && buffer == NULL) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    if (code == CLI_DONE) {
        exec->cli = cli;
        exec->has_terminal = options_has(arguments, "tty");
        exec->buffer = buffer;
        frame_reader_init(&exec->reader, buffer, SHELL_FRAME_BYTES_MAX + FRAME_HEAD_BYTES);
        code = read_command(cli, arguments, exec);
        code = code == CLI_DONE ? run(exec, &target, rank) : code;
    }
    free(buffer);
    free(exec);
    return code;
}
