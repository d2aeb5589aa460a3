#include "node/daemon/api/shells.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "node/daemon/api/query.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/render/render.h"
#include "node/daemon/wire/shell_request.h"
#include "node/daemon/workers/environment.h"
#include "node/daemon/workers/workers.h"

#define CONNECT_MS 5 /* for the kernel's answer from the loopback */

/* One side of a stream. */
struct api_shell {
    struct api_shell *next;
    uint64_t id;     /* bulk's, or that of bulk_stream_open */
    bool is_asked;   /* a node has asked this one */
    bool is_closing; /* it was told to end */
    bool has_ended;
    struct shell_request wish;
    node_id node; /* the other side's */
    /* Of the client's side: */
    uint64_t serial, request;
    bool is_open;
    uint32_t rank;
    /* Of the worker's side: */
    uint32_t slot;
    pid_t pid; /* of the shoal-keep that runs the command; 0: none */
};

static struct api_shell *find(struct daemon *daemon, uint64_t id)
{
    struct api_shell *shell = daemon->api->shells;
    while (shell != NULL && shell->id != id) {
        shell = shell->next;
    }
    return shell;
}

static struct api_shell *add(struct daemon *daemon, uint64_t id, const struct shell_request *wish, node_id node)
{
    struct api_shell *shell = calloc(1, sizeof *shell);
    if (shell != NULL) {
        shell->id = id;
        shell->wish = *wish;
        shell->node = node;
        shell->next = daemon->api->shells;
        daemon->api->shells = shell;
    }
    return shell;
}

static void drop(struct daemon *daemon, struct api_shell *shell)
{
    struct api_shell **link = &daemon->api->shells;
    while (*link != shell) {
        link = &(*link)->next;
    }
    *link = shell->next;
    free(shell);
}

static void end(struct daemon *daemon, struct api_shell *shell, const char *text)
{
    if (!shell->is_closing) {
        shell->is_closing =
            bulk_stream_close(daemon->bulk, shell->id, ERR_CLOSED, text) == 0; /* else the next tick tries again */
    }
}

/* ---- the client's side ----------------------------------------------------------------------------------------- */

/* The worker of the trial with this rank that runs now. False, after an error reply: there is none. */
static bool find_worker(struct daemon *daemon, struct client_request *request, uint32_t rank,
                        struct shell_request *wish, node_id *node)
{
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint32_t index;
    if (!query_argument_any_trial(daemon, request, &experiment, &index, &trial)) {
        return false;
    }
    const struct view_attempt *attempt = trial != NULL ? view_trial_highest(trial) : NULL;
    bool is_over = attempt == NULL || view_attempt_verdict(attempt) != NULL;
    if (is_over) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "Trial %u of %s is %s: nothing of it runs now, so there is nothing to connect to.", index,
                           experiment->config->name, view_trial_state_name(view_trial_state(experiment, index)));
        return false;
    }
    uint32_t size = attempt->member_count + attempt->joiner_count;
    const struct view_worker *worker = rank < size ? view_attempt_worker(attempt, rank) : NULL;
    if (rank >= size) {
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                           "Trial %u of %s has the ranks 0 to %u now, and no rank %u.", index, experiment->config->name,
                           size > 0 ? size - 1 : 0, rank);
        return false;
    }
    if (worker == NULL || worker->state != FACT_WORKER_RUNNING || !worker->has_started) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           worker != NULL && worker->state == FACT_WORKER_ENDED
                               ? "Rank %u of trial %u of %s has ended: nothing of it runs now."
                               : "Rank %u of trial %u of %s has not started yet; try again in some seconds.",
                           rank, index, experiment->config->name);
        return false;
    }
    wish->attempt = attempt->id;
    wish->worker = worker->number;
    *node = worker->writer;
    return true;
}

void shells_request(struct daemon *daemon, struct client_request *request, int is_forward)
{
    struct shell_request wish = {.is_forward = is_forward != 0};
    uint64_t rank = 0, port = 0;
    node_id node;
    struct stat info;
    (void)client_argument_u64(request, "rank", &rank);
    bool has_port = client_argument_u64(request, "port", &port) && port > 0 && port <= UINT16_MAX;
    int fd = client_take_file(request);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode) || rank > UINT32_MAX ||
        (wish.is_forward && !has_port)) {
        client_reply_no_request(daemon, request);
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    wish.port = (uint16_t)port;
    if (!find_worker(daemon, request, (uint32_t)rank, &wish, &node)) {
        (void)close(fd);
        return;
    }
    struct api_shell *shell = add(daemon, ++daemon->request_id, &wish, node);
    uint8_t bytes[SHELL_REQUEST_BYTES];
    size_t count = shell_request_write(&wish, bytes);
    if (shell == NULL) {
        (void)close(fd);
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "No memory is left for a stream.");
        return;
    }
    shell->serial = request->client->serial;
    shell->request = request->id;
    shell->rank = (uint32_t)rank;
    daemon_bulk_peers(daemon);
    int code = bulk_stream_open(daemon->bulk, shell->id, node, bytes, count, fd);
    if (code != 0) {
        drop(daemon, shell);
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "The stream cannot be opened: %s.",
                           err_text(code));
    }
}

static void tell_open(struct daemon *daemon, struct api_shell *shell)
{
    struct client *client = client_find(daemon, shell->serial);
    struct client_reply reply;
    shell->is_open = true;
    if (client == NULL || !client_reply_begin(&reply, shell->request, false, 3)) {
        return; /* the tick ends it */
    }
    pack_text(&reply.writer, "node");
    pack_text(&reply.writer, render_node_label(daemon->core, shell->node).text);
    pack_text(&reply.writer, "attempt");
    pack_u64(&reply.writer, shell->wish.attempt.number);
    pack_text(&reply.writer, "rank");
    pack_u64(&reply.writer, shell->rank);
    client_reply_send(daemon, client, &reply, -1);
}

/* The sentence of an end: a node is called by its label where the text of the bulk does not know it. */
static void tell_end(struct daemon *daemon, struct api_shell *shell, int code, const char *text)
{
    struct client *client = client_find(daemon, shell->serial);
    if (client == NULL) {
        return;
    }
    if (code == 0) {
        client_reply_empty(daemon, client, shell->request);
        return;
    }
    size_t length = strlen(text);
    length -= length > 0 && text[length - 1] == '.';
    client_reply_error(daemon, client, shell->request, code == ERR_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_REFUSED,
                       "%.*s (node %s).", (int)length, text, render_node_label(daemon->core, shell->node).text);
}

/* ---- the worker's side ----------------------------------------------------------------------------------------- */

/* The slot in which the worker runs; SLOTS_MAX: in none. */
static uint32_t slot_of(struct daemon *daemon, const struct shell_request *wish)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        const struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (worker_is(worker, WORKER_RUNNING, &wish->attempt) && worker->prepare.u.worker.number == wish->worker &&
            !worker->ended) {
            return slot;
        }
    }
    return SLOTS_MAX;
}

/* Connects to an address of the loopback, where the answer is there at once, or else (a full queue of the listener) may
 * come later. -1: errno. */
static int connect_to_address(int family, const struct sockaddr *address, socklen_t size)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t error_size = sizeof error;
    if (fd < 0) {
        return -1;
    }
    if (connect(fd, address, size) != 0) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        error = errno;
        if (error == EINPROGRESS) {
            error = 0;
            if (poll(&ready, 1, CONNECT_MS) > 0) {
                (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
            }
        }
    }
    if (error == 0) {
        return fd;
    }
    (void)close(fd);
    errno = error;
    return -1;
}

/* A connection to a port of this machine's loopback. -1: errno. */
static int connect_to(uint16_t port)
{
    struct sockaddr_in narrow = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 wide = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    int fd = connect_to_address(AF_INET, (struct sockaddr *)&narrow, sizeof narrow), reason = errno;
    if (fd < 0) {
        fd = connect_to_address(AF_INET6, (struct sockaddr *)&wide, sizeof wide);
        errno = reason;
    }
    return fd;
}

/* Begins what was asked for: the socket for the stream, or -1 with a sentence. */
static int begin(struct daemon *daemon, struct api_shell *shell, char *text, size_t size)
{
    struct daemon_worker *worker = &daemon->workers->slots[shell->slot];
    int ends[2];
    if (shell->wish.is_forward) {
        int fd = connect_to(shell->wish.port);
        if (fd < 0) {
            (void)snprintf(text, size, "Nothing listens at port %u of the trial's machine: %s.",
                           (unsigned)shell->wish.port, strerror(errno));
        }
        return fd;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        (void)snprintf(text, size, "No socket for the command can be made: %s.", strerror(errno));
        return -1;
    }
    worker->has_shells = true;
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), shell->wish.attempt.experiment);
    struct worker_start start = {0};
    if (experiment != NULL && experiment->known) {
        environment_of_secrets(daemon, experiment->config, &start);
    }
    int code = keep_shell_start(daemon->keep_program, worker->directory, ends[1], (const char *const *)start.secrets,
                                start.secret_count, &shell->pid);
    int error = errno;
    environment_close(&start);
    errno = error;
    (void)close(ends[1]);
    if (code != 0) {
        (void)snprintf(text, size, "The command cannot be started: %s.", strerror(errno));
        (void)close(ends[0]);
        return -1;
    }
    return ends[0];
}

/* A line for each command, and for the first of several connections to a port. */
static void tell_owner(struct daemon *daemon, const struct api_shell *shell)
{
    for (const struct api_shell *other = daemon->api->shells; other != NULL && shell->wish.is_forward;
         other = other->next) {
        if (other != shell && other->is_asked && other->wish.port == shell->wish.port &&
            node_id_equal(other->node, shell->node) && other->slot == shell->slot) {
            return;
        }
    }
    const struct view_experiment *experiment =
        view_find_experiment(node_core_view(daemon->core), shell->wish.attempt.experiment);
    const char *name = experiment != NULL && experiment->known ? experiment->config->name : "?";
    if (shell->wish.is_forward) {
        daemon_line(daemon, "%s trial %u: port %u is reached from %s", name, shell->wish.attempt.trial,
                    (unsigned)shell->wish.port, render_node_label(daemon->core, shell->node).text);
    } else {
        daemon_line(daemon, "%s trial %u: a command beside it, from %s", name, shell->wish.attempt.trial,
                    render_node_label(daemon->core, shell->node).text);
    }
}

static void take_asked(struct daemon *daemon, const struct bulk_event *event)
{
    struct shell_request wish;
    char text[200] = "";
    int fd = -1, code = ERR_REFUSED;
    struct api_shell *shell = NULL;
    uint32_t slot = SLOTS_MAX;
    if (shell_request_read(event->items[0].bytes, event->items[0].count, &wish) != 0) {
        (void)snprintf(text, sizeof text, "The request is not understood; the node runs another version of Shoal.");
    } else if (daemon->options.no_exec) {
        (void)snprintf(
            text, sizeof text,
            "The owner of the node lets nobody run commands or reach ports beside trials (shoald --no-exec).");
    } else if ((slot = slot_of(daemon, &wish)) == SLOTS_MAX) {
        (void)snprintf(text, sizeof text, "The worker does not run on its node any more.");
    } else if ((shell = add(daemon, event->id, &wish, event->node)) == NULL) {
        (void)snprintf(text, sizeof text, "The node has no memory left for a stream.");
        code = ERR_MEMORY;
    }
    if (shell != NULL) {
        shell->is_asked = true;
        shell->slot = slot;
        fd = begin(daemon, shell, text, sizeof text);
    }
    if (fd < 0 && shell != NULL) {
        drop(daemon, shell);
    }
    if (fd >= 0) {
        tell_owner(daemon, shell);
    }
    (void)bulk_stream_answer(daemon->bulk, event->id, fd, code, text); /* on a failure the asker gives up */
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

void shells_take(struct daemon *daemon, const struct bulk_event *event)
{
    struct api_shell *shell = event->kind == BULK_STREAM_ASKED ? NULL : find(daemon, event->id);
    if (event->kind == BULK_STREAM_ASKED) {
        take_asked(daemon, event);
    } else if (shell != NULL && event->kind == BULK_STREAM_OPENED) {
        tell_open(daemon, shell);
    } else if (shell != NULL) {
        shell->has_ended = true;
        if (!shell->is_asked) {
            tell_end(daemon, shell, event->code, event->text);
        }
    }
}

static bool is_free(struct api_shell *shell)
{
    if (shell->has_ended && shell->pid > 0 && waitpid(shell->pid, NULL, WNOHANG) != 0) {
        shell->pid = 0;
    }
    return shell->has_ended && shell->pid == 0;
}

void shells_tick(struct daemon *daemon)
{
    for (struct api_shell *shell = daemon->api->shells, *next; shell != NULL; shell = next) {
        next = shell->next;
        bool is_here = node_id_equal(shell->node, daemon->keys.id);
        if (is_free(shell)) {
            drop(daemon, shell);
        } else if (shell->has_ended || shell->is_closing) {
            continue;
        } else if (!is_here && !node_core_is_alive(daemon->core, shell->node)) {
            end(daemon, shell,
                shell->is_asked ? "The client's node does not answer." : "The trial's node does not answer any more.");
        } else if (shell->is_asked && slot_of(daemon, &shell->wish) != shell->slot) {
            end(daemon, shell, "The trial's attempt has ended.");
        } else if (!shell->is_asked && client_find(daemon, shell->serial) == NULL) {
            end(daemon, shell, "The client is gone.");
        }
    }
}

void shells_close(struct daemon *daemon)
{
    while (daemon->api->shells != NULL) {
        drop(daemon, daemon->api->shells);
    }
}
