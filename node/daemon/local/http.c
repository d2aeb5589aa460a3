#include "node/daemon/local/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "gossip/control_address.h"
#include "node/daemon/api/client.h"
#include "node/daemon/api/tokens.h"
#include "node/daemon/local/certificate.h"
#include "node/keep/processes.h"

#define CONTROL_FD 3 /* in shoal-http */
#define AGAIN_MS_MIN 1000
#define AGAIN_MS_MAX 60000
#define CLOSE_MS 1000
#define CLOSE_LOOK_MS 10
#define STEADY_MS 30000 /* a process that ran for so long is started again at once */
#define LOOK_MS 86400000 /* the certificate is looked at so often; it is made anew a month before its end */

struct daemon_http {
    char program[KEEP_PATH_BYTES + 16];
    int fd; /* our end of the pair; -1: no process */
    pid_t pid;
    uint64_t started_ms, next_ms;
    uint64_t wait_ms; /* before the next start */
    char pem[CERTIFICATE_BYTES_MAX]; /* of a door for other machines: the certificate and its key */
    size_t pem_bytes;
    uint64_t look_ms; /* pem_bytes > 0: when the next look at it is due */
    bool is_looking;
};

/* Whether a checked address is one that other machines reach, or "off": false. */
static bool is_for_others(const char *listen)
{
    char host[CONTROL_HOST_BYTES];
    uint16_t port;
    struct in_addr v4;
    struct in6_addr v6;
    if (!control_address_split(listen, host, &port)) {
        return false;
    }
    return inet_pton(AF_INET, host, &v4) == 1 ? ntohl(v4.s_addr) >> 24 != IN_LOOPBACKNET
                                              : inet_pton(AF_INET6, host, &v6) == 1 && !IN6_IS_ADDR_LOOPBACK(&v6);
}

int http_check(const char *listen, char error[256])
{
    char host[CONTROL_HOST_BYTES];
    uint16_t port;
    if (strcmp(listen, "off") == 0) {
        return 0;
    }
    if (!control_address_split(listen, host, &port)) {
        (void)snprintf(error, 256, "--http wants HOST:PORT, such as " HTTP_DEFAULT ", or off, and not '%.60s'", listen);
        return ERR_USAGE;
    }
    struct in_addr v4;
    struct in6_addr v6;
    bool is_v4 = inet_pton(AF_INET, host, &v4) == 1;
    if (!is_v4 && inet_pton(AF_INET6, host, &v6) != 1) {
        (void)snprintf(error, 256,
                       "--http wants a numeric address, such as " HTTP_DEFAULT " or [::1]:7412, and not '%.60s'",
                       listen);
        return ERR_USAGE;
    }
    if (port == 0 && is_for_others(listen)) {
        (void)snprintf(error, 256, "--http %.60s: other machines have to know the port; give one, such as 7412", listen);
        return ERR_USAGE;
    }
    return 0;
}

bool http_is_tls(const struct daemon_options *options)
{
    return options->http != NULL && !options->http_plain && is_for_others(options->http);
}

/* ---- start ----------------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct daemon *daemon)
{
    return daemon->options.http != NULL && strcmp(daemon->options.http, "off") != 0;
}

static void forget(struct daemon *daemon)
{
    explicit_bzero(daemon->http->pem, sizeof daemon->http->pem);
    free(daemon->http);
    daemon->http = NULL;
}

/* shoal-http lies where shoal-keep does. */
static bool find_program(const struct daemon *daemon, char *out, size_t size)
{
    const char *slash = strrchr(daemon->keep_program, '/');
    int bytes = snprintf(out, size, "%.*s/shoal-http", (int)(slash - daemon->keep_program), daemon->keep_program);
    return bytes > 0 && (size_t)bytes < size && access(out, X_OK) == 0;
}

/* Our end above the descriptors that posix_spawn moves about. */
static int make_pair(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return errno;
    }
    for (int i = 0; i < 2; i++) {
        int lifted = fcntl(ends[i], F_DUPFD_CLOEXEC, CONTROL_FD + 8);
        (void)close(ends[i]);
        ends[i] = lifted;
    }
    if (ends[0] < 0 || ends[1] < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
        int error = errno;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return error;
    }
    return 0;
}

static int start_process(struct daemon *daemon, struct daemon_http *http, int end)
{
    char node[2 * 4 + 1];
    bool is_default =
        strcmp(daemon->options.http, HTTP_DEFAULT) == 0; /* several daemons of a machine have a door each */
    bytes_to_hex(node, daemon->keys.id.bytes, 4);
    const char *arguments[2 * DAEMON_HTTP_HOSTS_MAX + 10] = {"shoal-http", "--listen", daemon->options.http, "--node",
                                                            node,         "--host",   daemon->name};
    size_t count = 7;
    for (uint32_t i = 0; i < daemon->options.http_host_count; i++) {
        arguments[count++] = "--host";
        arguments[count++] = daemon->options.http_hosts[i];
    }
    if (is_default || http->pem_bytes > 0) {
        arguments[count++] = is_default ? "--or-any" : "--tls";
    }
    arguments[count] = NULL;
    static char *const environment[] = {NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, end, CONTROL_FD)) == 0 &&
        (error = posix_spawn_file_actions_addclosefrom_np(&actions, CONTROL_FD + 1)) == 0) {
        error =
            keep_process_start(&http->pid, http->program, &actions, (char *const *)(uintptr_t)arguments, environment);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static void start(struct daemon *daemon, struct daemon_http *http, uint64_t now_ms)
{
    int ends[2];
    int error = make_pair(ends);
    if (error == 0) {
        http->pid = 0;
        bool is_sent = http->pem_bytes == 0 || send(ends[0], http->pem, http->pem_bytes, MSG_NOSIGNAL) >= 0;
        error = is_sent ? start_process(daemon, http, ends[1]) : errno;
        (void)close(ends[1]);
        http->fd = error == 0 ? ends[0] : -1;
        if (error != 0) {
            (void)close(ends[0]);
        }
    }
    http->started_ms = now_ms;
    if (error != 0) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR), "the HTTP door cannot be started: %s", strerror(error));
        http->next_ms = now_ms + AGAIN_MS_MAX;
    }
}

/* Takes a certificate that is good: for the door, and for the record. */
static void take_certificate(struct daemon *daemon, const struct certificate *certificate, struct fact_door *door)
{
    memcpy(daemon->http->pem, certificate->pem, sizeof daemon->http->pem);
    daemon->http->pem_bytes = certificate->pem_bytes;
    bytes_copy_text(daemon->http_certificate, sizeof daemon->http_certificate, certificate->public_path);
    memcpy(door->certificate, certificate->hash, sizeof door->certificate);
    bytes_copy_text(door->address, sizeof door->address, daemon->options.http);
    if (certificate->is_new) {
        daemon_line(daemon, "the HTTPS door has a new certificate%s",
                    certificate->is_first ? "" : ", since the old one lacks a name or an address, or ends soon: shoal connect fetches it");
    }
}

void http_prepare(struct daemon *daemon, struct fact_door *door)
{
    char program[sizeof((struct daemon_http *)0)->program];
    if (!is_wanted(daemon)) {
        return;
    }
    if (!find_program(daemon, program, sizeof program)) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR),
                       "no HTTP door: there is no program shoal-http beside %s", daemon->keep_program);
        return;
    }
    struct daemon_http *http = daemon->http = calloc(1, sizeof *daemon->http);
    if (http == NULL) {
        return;
    }
    bytes_copy_text(http->program, sizeof http->program, program);
    http->fd = -1;
    http->wait_ms = AGAIN_MS_MIN;
    if (!http_is_tls(&daemon->options)) {
        return;
    }
    struct certificate *certificate = certificate_begin(daemon, program);
    if (certificate != NULL) {
        certificate_get(certificate);
    }
    if (certificate != NULL && certificate->is_good) {
        take_certificate(daemon, certificate, door);
        http->look_ms = daemon_now_ms() + LOOK_MS;
    } else {
        daemon_line(daemon, "no HTTP door: there is no certificate for it: %s", certificate != NULL ? certificate->why : "no memory is left");
        forget(daemon);
    }
    certificate_free(certificate);
}

void http_open(struct daemon *daemon)
{
    if (daemon->http != NULL) {
        start(daemon, daemon->http, daemon_now_ms());
    }
}

/* ---- end ------------------------------------------------------------------------------------------------------- */

static void reap(struct daemon_http *http)
{
    if (http->pid != 0 && waitpid(http->pid, NULL, WNOHANG) != 0) {
        http->pid = 0;
    }
}

static void end_process(struct daemon *daemon, struct daemon_http *http)
{
    (void)close(http->fd);
    http->fd = -1;
    daemon->api->http_port = 0;
    daemon->http_address[0] = '\0';
    if (http->pid != 0) {
        (void)kill(http->pid, SIGKILL);
    }
}

/* The process has closed its end: it has ended, or is about to. */
static void gone(struct daemon *daemon, struct daemon_http *http)
{
    uint64_t now_ms = daemon_now_ms();
    end_process(daemon, http);
    if (now_ms - http->started_ms >= STEADY_MS) {
        http->wait_ms = AGAIN_MS_MIN;
    }
    http->next_ms = now_ms + http->wait_ms;
    http->wait_ms = 2 * http->wait_ms < AGAIN_MS_MAX ? 2 * http->wait_ms : AGAIN_MS_MAX;
}

/* ---- the certificate, while the door is open ------------------------------------------------------------------- */

static void look(struct job *job)
{
    certificate_get((struct certificate *)job);
}

/* The mesh is told first; then the door begins anew with the new key. */
static void looked(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct daemon_http *http = daemon->http;
    struct certificate *certificate = (struct certificate *)job;
    if (http != NULL) {
        http->is_looking = false;
    }
    if (http != NULL && certificate->is_good && certificate->is_new) {
        struct node_event event = {.kind = NODE_EVENT_DOOR};
        take_certificate(daemon, certificate, &event.u.door);
        daemon_event(daemon, &event);
        if (http->fd >= 0) {
            end_process(daemon, http);
            http->next_ms = daemon_now_ms();
        }
    } else if (http != NULL && !certificate->is_good) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR), "the certificate of the HTTPS door cannot be renewed: %s",
                       certificate->why);
    }
    certificate_free(certificate);
}

static void begin_look(struct daemon *daemon, struct daemon_http *http, uint64_t now_ms)
{
    struct certificate *certificate = certificate_begin(daemon, http->program);
    http->look_ms = now_ms + LOOK_MS;
    if (certificate != NULL) {
        certificate->job = (struct job){.work = look, .done = looked};
        certificate->keeps_names = true;
        http->is_looking = true;
        jobs_run(daemon->idle_jobs, &certificate->job);
    }
}

void http_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_http *http = daemon->http;
    if (http == NULL) {
        return;
    }
    if (http->fd < 0) {
        reap(http);
    }
    if (http->fd < 0 && http->pid == 0 && now_ms >= http->next_ms) {
        start(daemon, http, now_ms);
    }
    if (http->pem_bytes > 0 && !http->is_looking && now_ms >= http->look_ms) {
        begin_look(daemon, http, now_ms);
    }
}

void http_close(struct daemon *daemon)
{
    struct daemon_http *http = daemon->http;
    if (http == NULL) {
        return;
    }
    if (http->fd >= 0) {
        (void)close(http->fd);
    }
    for (int i = 0; http->pid != 0 && i < CLOSE_MS / CLOSE_LOOK_MS; i++) {
        reap(http);
        (void)poll(NULL, 0, http->pid != 0 ? CLOSE_LOOK_MS : 0);
    }
    if (http->pid != 0) { /* so that the port is free for the next daemon */
        (void)kill(http->pid, SIGKILL);
        (void)waitpid(http->pid, NULL, 0);
    }
    forget(daemon);
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

int http_fd(const struct daemon *daemon)
{
    return daemon->http != NULL ? daemon->http->fd : -1;
}

/* One message; `*passed` is -1 or its descriptor; the kernel drops any further one, since there is no room. Returns its
 * bytes, 0 at the end, -1 if there is none. */
static ssize_t receive(int fd, char bytes[HTTP_MESSAGE_BYTES_MAX], int *passed)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {bytes, HTTP_MESSAGE_BYTES_MAX};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
    *passed = -1;
    ssize_t count = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    struct cmsghdr *head = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(passed, CMSG_DATA(head), sizeof *passed);
    }
    return count;
}

/* Takes the port on which shoal-http listens. */
static void note_port(struct daemon *daemon, uint16_t port)
{
    char door[CONTROL_ADDRESS_BYTES];
    daemon->api->http_port = port;
    if (tokens_door_address(daemon, door)) {
        (void)snprintf(daemon->http_address, sizeof daemon->http_address, "%s://%s", daemon->http->pem_bytes > 0 ? "https" : "http", door);
    }
}

void http_process(struct daemon *daemon, http_add_fn *add)
{
    struct daemon_http *http = daemon->http;
    for (int i = 0; i < 64 && http != NULL && http->fd >= 0; i++) {
        char bytes[HTTP_MESSAGE_BYTES_MAX];
        int passed;
        ssize_t count = receive(http->fd, bytes, &passed);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (count <= 0) {
            gone(daemon, http);
            return;
        }
        if (bytes[0] == HTTP_CHANNEL && passed >= 0) {
            add(daemon, passed);
            passed = -1;
        } else if (bytes[0] == HTTP_LINE) {
            daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR), "HTTP: %.*s", (int)count - 1, bytes + 1);
        } else if (bytes[0] == HTTP_PORT && count == 3) {
            note_port(daemon, bytes_get_u16((const uint8_t *)bytes + 1));
        }
        if (passed >= 0) {
            (void)close(passed);
        }
    }
}
