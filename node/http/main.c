/* shoal-http: the HTTP door of a daemon, which starts it (node/daemon/local/http.h). Not for users. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "gossip/control_address.h"
#include "node/http/accept.h"
#include "node/http/assets.h"
#include "node/http/certify.h"
#include "node/http/channel.h"
#include "node/http/sandbox.h"
#include "node/http/server.h"
#include "node/http/tls.h"

#define CONTROL_FD 3
#define AGAIN_S 5
#define FINISH_MS 900 /* for answers on their way; the daemon waits a little longer */

static char pem[CERTIFICATE_PEM_BYTES_MAX]; /* a certificate and its key, until TLS has them */
static ssize_t pem_bytes;

static unsigned short port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        return 0;
    }
    return ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                              : ((struct sockaddr_in6 *)&address)->sin6_port);
}

/* When the machine runs out of memory, its kernel ends this process before any trial. */
static void go_first(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        (void)close(fd);
    }
}

/* True once the daemon has closed its end. */
static bool daemon_is_gone(void)
{
    char byte;
    return recv(CONTROL_FD, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Listens there, or waits until it can: the door of a daemon that ends now may have the port yet. `or_any`: takes a
 * free port then. */
static int listen_at(const char *where, bool or_any)
{
    char host[CONTROL_HOST_BYTES], text[256];
    uint16_t port;
    bool is_told = false;
    if (!control_address_split(where, host, &port)) {
        return -1;
    }
    for (;;) {
        int fd = accept_listen(host, port);
        if (fd < 0 && errno == EADDRINUSE && or_any) {
            fd = accept_listen(host, 0);
        }
        if (fd >= 0 || daemon_is_gone()) {
            return fd;
        }
        if (!is_told) {
            (void)snprintf(text, sizeof text, "cannot listen on %.64s: %s; tries again every %d s", where,
                           strerror(errno), AGAIN_S);
            channel_tell_line(text);
            is_told = true;
        }
        (void)sleep(AGAIN_S);
    }
}

/* Begins to speak TLS. False: the door stays closed, since it may not speak in clear. */
static bool start_tls(void)
{
    char text[256];
    const char *why = pem_bytes > 0 ? tls_start(pem, (size_t)pem_bytes) : "the daemon has sent no certificate";
    explicit_bzero(pem, sizeof pem);
    if (why != NULL) {
        (void)snprintf(text, sizeof text, "cannot speak TLS: %.200s", why);
        channel_tell_line(text);
    }
    return why == NULL;
}

/* Whether machines beside this one reach it. */
static bool is_beyond(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        return true;
    }
    return address.ss_family == AF_INET
               ? ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET
               : !IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&address)->sin6_addr);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"listen", required_argument, NULL, 'l'},
                                          {"tls", no_argument, NULL, 't'},
                                          {"certify", no_argument, NULL, 'c'},
                                          {"fetch", required_argument, NULL, 'f'},
                                          {"node", required_argument, NULL, 'n'},
                                          {"host", required_argument, NULL, 'h'},
                                          {"or-any", no_argument, NULL, 'a'},
                                          {NULL, 0, NULL, 0}};
    static struct server_options options;
    struct certificate_wish wish = {.now_s = (uint64_t)time(NULL)};
    const char *where = NULL, *node = "", *fetched = NULL;
    bool or_any = false, is_certify = false;
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'l':
            where = optarg;
            break;
        case 'n':
            node = optarg;
            break;
        case 'h':
            if (wish.name_count < CERTIFICATE_NAMES_MAX) {
                wish.names[wish.name_count++] = optarg;
            }
            if (options.host_count < GUARD_HOSTS_MAX) {
                options.hosts[options.host_count++] = optarg;
            }
            break;
        case 'a':
            or_any = true;
            break;
        case 't':
            options.is_tls = true;
            break;
        case 'c':
            is_certify = true;
            break;
        case 'f':
            fetched = optarg;
            break;
        default:
            return 2;
        }
    }
    if (fetched != NULL) {
        return certify_fetch(fetched);
    }
    if (is_certify) {
        wish.owner = node;
        return certify_renew(&wish);
    }
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    if (where == NULL || getsockname(CONTROL_FD, (struct sockaddr *)&peer, &bytes) != 0 || peer.ss_family != AF_UNIX) {
        (void)fputs("shoal-http is a part of shoald, which starts it; see shoald --http.\n", stderr);
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    go_first();
    (void)signal(SIGPIPE, SIG_IGN);
    channel_init(CONTROL_FD);
    assets_init();
    (void)snprintf(options.cookie, sizeof options.cookie, "shoal-%.8s", node);
    if (options.is_tls) {
        pem_bytes = recv(CONTROL_FD, pem, sizeof pem, 0); /* the first message, and the only one */
    }
    int fd = sodium_init() >= 0 ? listen_at(where, or_any) : -1;
    const char *lacks = fd >= 0 ? sandbox_enter() : NULL;
    options.is_beyond = fd < 0 || is_beyond(fd);
    if (fd < 0 || (options.is_tls && !start_tls()) || !server_start(&options)) {
        return 1;
    }
    if (lacks != NULL) {
        channel_tell_line(lacks);
    }
    channel_tell_port(port_of(fd));
    accept_loop(fd, CONTROL_FD, options.is_tls); /* until the daemon ends */
    (void)close(fd);
    server_finish(FINISH_MS);
    _exit(0);
}
