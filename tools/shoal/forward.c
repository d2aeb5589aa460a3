#include "tools/shoal/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/document.h"
#include "tools/shoal/shell.h"

#define SIGNAL_CODE 128
#define TICK_MS 1000
#define LOOK_MS 5000 /* between looks whether the trial is over */

static volatile sig_atomic_t ended_by;

static void note_end(int number)
{
    ended_by = number;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the trial ------------------------------------------------------------------------------------------------- */

/* What is known of the trial. */
struct looked {
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    char state[32]; /* a word for people */
    char why[256];  /* why it is in that state; "": nobody knows */
    bool is_over;   /* nothing of it will run any more */
};

static int look(struct cli *cli, const struct target *target, struct looked *out)
{
    static const char *const over[] = {"completed", "failed", "stopped", "cancelled"};
    struct client client;
    struct reply reply;
    int code = target_begin(cli, "trial", target, 0, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE) {
        char of_experiment[32];
        msgpack_object_array reasons = document_list(&reply.document, "why");
        document_text(document_find(&reply.document, "experiment"), "id", out->id, sizeof out->id);
        document_text(document_find(&reply.document, "experiment"), "state", of_experiment, sizeof of_experiment);
        document_text(document_find(&reply.document, "trial"), "state", out->state, sizeof out->state);
        out->why[0] = '\0';
        if (reasons.size > 0) {
            document_text(&reasons.ptr[0], "text", out->why, sizeof out->why);
        }
        out->is_over = strcmp(of_experiment, "cancelled") == 0;
        for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
            out->is_over |= strcmp(out->state, over[i]) == 0;
        }
    }
    client_close(&client);
    return code;
}

/* ---- the address ----------------------------------------------------------------------------------------------- */

int forward_open(struct cli *cli, const struct target *target, uint64_t rank, uint16_t local_port, struct forward *out)
{
    struct looked looked = {.is_over = false};
    char host[16];
    uint8_t name[CLIENT_EXPERIMENT_TEXT_BYTES + 8] = {0};
    *out = (struct forward){.cli = cli, .rank = rank, .listen_fd = -1};
    int code = look(cli, target, &looked);
    if (code == CLI_DONE && looked.is_over) {
        code = cli_fail(cli, CLI_REFUSED, "trial %llu of %.80s is %s: nothing of it runs any more",
                        (unsigned long long)target->trial, target->experiment, looked.state);
    }
    if (code != CLI_DONE) {
        return code;
    }
    out->target = (struct target){.has_trial = true, .trial = target->trial};
    (void)snprintf(out->target.experiment, sizeof out->target.experiment, "%s", looked.id);
    memcpy(name, looked.id, strlen(looked.id));
    bytes_put_u64(name + CLIENT_EXPERIMENT_TEXT_BYTES, target->trial);
    uint64_t place = bytes_hash64(name, sizeof name, 74);
    (void)snprintf(host, sizeof host, "127.74.%u.%u", (unsigned)(place & 0xff), 1 + (unsigned)((place >> 8) % 254));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(local_port)};
    socklen_t size = sizeof address;
    (void)inet_pton(AF_INET, host, &address.sin_addr);
    int one = 1;
    out->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_bound =
        out->listen_fd >= 0 && setsockopt(out->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(out->listen_fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(out->listen_fd, 64) == 0 &&
        getsockname(out->listen_fd, (struct sockaddr *)&address, &size) == 0;
    if (!is_bound) {
        code = cli_fail(
            cli, CLI_REFUSED,
            errno == EADDRINUSE
                ? "port %u of %s is in use, perhaps by another shoal port-forward; give another one: PORT:REMOTE"
                : "port %u of %s cannot be had: %s",
            (unsigned)local_port, host, strerror(errno));
        forward_close(out);
        return code;
    }
    (void)snprintf(out->address, sizeof out->address, "%s:%u", host, (unsigned)ntohs(address.sin_port));
    return CLI_DONE;
}

void forward_close(struct forward *forward)
{
    if (forward->listen_fd >= 0) {
        (void)close(forward->listen_fd);
    }
    forward->listen_fd = -1;
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

/* A connection, in a process of its own: the daemon moves the bytes, and ends the stream when this process does. */
_Noreturn static void carry(struct forward *forward, int fd, pid_t parent)
{
    struct client client;
    struct reply reply;
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) {
        _exit(CLI_REFUSED);
    }
    (void)close(forward->listen_fd);
    int code = shell_open(forward->cli, &forward->target, forward->rank, forward->port, fd, &client);
    (void)close(fd);
    if (code == CLI_DONE) {
        client.quiet = true;
        code = client_next(&client, -1, false, &reply);
        client_close(&client);
    }
    (void)fflush(forward->cli->err);
    _exit(code);
}

static void accept_one(struct forward *forward)
{
    int fd = accept4(forward->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)fflush(forward->cli->out);
    (void)fflush(forward->cli->err);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        carry(forward, fd, parent);
    }
    if (pid < 0) {
        cli_warn(forward->cli, "a connection cannot be served: %s", strerror(errno));
    }
    (void)close(fd);
}

int forward_serve(struct forward *forward, bool (*tick)(struct forward *forward, void *context), void *context)
{
    struct sigaction action = {.sa_handler = note_end};
    uint64_t look_ms = now_ms() + TICK_MS;
    struct looked looked = {.is_over = false};
    char told[sizeof looked.why] = "";
    int code = CLI_DONE;
    ended_by = 0;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    while (code == CLI_DONE && ended_by == 0 && (tick == NULL || tick(forward, context))) {
        struct pollfd ready = {.fd = forward->port != 0 ? forward->listen_fd : -1, .events = POLLIN};
        if (poll(&ready, 1, TICK_MS) > 0) {
            accept_one(forward);
        }
        for (int status; waitpid(-1, &status, WNOHANG) > 0;) {
            forward->has_failed |= !WIFEXITED(status) || WEXITSTATUS(status) != CLI_DONE;
        }
        if (now_ms() < look_ms) {
            continue;
        }
        look_ms = now_ms() + LOOK_MS;
        code = look(forward->cli, &forward->target, &looked);
        forward->is_running = code == CLI_DONE && strcmp(looked.state, "running") == 0;
        if (code == CLI_DONE && looked.is_over) {
            cli_warn(forward->cli, "the trial is %s: nothing is served any more", looked.state);
            break;
        }
        if (code == CLI_DONE && !forward->is_running && looked.why[0] != '\0' && strcmp(looked.why, told) != 0) {
            (void)snprintf(told, sizeof told, "%s", looked.why);
            cli_warn(forward->cli, "waiting: %s", told);
        }
    }
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    return ended_by != 0 && code == CLI_DONE ? SIGNAL_CODE + ended_by : code;
}
