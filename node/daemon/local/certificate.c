#include "node/daemon/local/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "base/bytes.h"
#include "gossip/control_address.h"
#include "gossip/fingerprint.h"
#include "node/daemon/peers/peers.h"
#include "node/keep/processes.h"

#define WAIT_MS 10000

/* ---- names ----------------------------------------------------------------------------------------------------- */

static void add(struct certificate *out, const char *name)
{
    for (size_t i = 0; i < out->name_count; i++) {
        if (strcmp(out->names[i], name) == 0) {
            return;
        }
    }
    if (name[0] != '\0' && out->name_count < CERTIFICATE_HOSTS_MAX) {
        bytes_copy_text(out->names[out->name_count++], sizeof out->names[0], name);
    }
}

/* Names of nodes may hold characters that no name of a host has. */
static bool is_host_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return strspn(name, allowed) == strlen(name);
}

/* By what the door is reached: names of this machine, and the address where it listens; if it listens at all of them,
 * those that the node announces. */
static void collect(const struct daemon *daemon, struct certificate *out)
{
    const struct fact_addresses *own = &daemon->peers->own.announced.announced;
    char host[CONTROL_HOST_BYTES] = "", announced[FACT_ADDRESS_BYTES];
    uint16_t port;
    (void)control_address_split(daemon->options.http, host, &port);
    add(out, "localhost");
    add(out, "127.0.0.1");
    add(out, "::1");
    if (is_host_name(daemon->name)) {
        add(out, daemon->name);
    }
    for (uint32_t i = 0; i < daemon->options.http_host_count; i++) {
        if (is_host_name(daemon->options.http_hosts[i]) || strchr(daemon->options.http_hosts[i], ':') != NULL) {
            add(out, daemon->options.http_hosts[i]);
        }
    }
    bool is_v4 = strcmp(host, "0.0.0.0") == 0;
    if (!is_v4 && strcmp(host, "::") != 0) {
        add(out, host);
        return;
    }
    for (uint32_t i = 0; i < own->count; i++) {
        address_host(own->items[i].text, announced, sizeof announced);
        if (!is_v4 || strchr(announced, ':') == NULL) {
            add(out, announced);
        }
    }
}

struct certificate *certificate_begin(const struct daemon *daemon, const char *program)
{
    struct certificate *out = calloc(1, sizeof *out);
    if (out == NULL) {
        return NULL;
    }
    bytes_copy_text(out->program, sizeof out->program, program);
    (void)snprintf(out->path, sizeof out->path, "%s/http.pem", daemon->dir);
    (void)snprintf(out->public_path, sizeof out->public_path, "%s/http-certificate.pem", daemon->dir);
    bytes_to_hex(out->node, daemon->keys.id.bytes, NODE_ID_BYTES);
    collect(daemon, out);
    return out;
}

void certificate_free(struct certificate *certificate)
{
    if (certificate != NULL) {
        explicit_bzero(certificate->pem, sizeof certificate->pem);
        free(certificate);
    }
}

/* ---- the process ----------------------------------------------------------------------------------------------- */

/* Starts shoal-http so that it reads the file, if there is one, and writes to `out`. The certificate has to have the first
 * `name_count` names. Returns errno. */
static int start(const struct certificate *certificate, size_t name_count, int out, pid_t *pid)
{
    static char *const environment[] = {NULL};
    const char *arguments[2 * CERTIFICATE_HOSTS_MAX + 5] = {"shoal-http", "--certify", "--node", certificate->node};
    size_t count = 4;
    for (size_t i = 0; i < name_count; i++) {
        arguments[count++] = "--host";
        arguments[count++] = certificate->names[i];
    }
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    const char *in = access(certificate->path, R_OK) == 0 ? certificate->path : "/dev/null";
    if ((error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, in, O_RDONLY, 0)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)) == 0) {
        error = keep_process_start(pid, certificate->program, &actions, (char *const *)(uintptr_t)arguments, environment);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Reads until the end. False: it did not come in time, or there is too much. */
static bool read_all(int fd, char out[CERTIFICATE_BYTES_MAX], size_t *count)
{
    uint64_t until_ms = daemon_now_ms() + WAIT_MS;
    for (*count = 0; *count < CERTIFICATE_BYTES_MAX - 1;) {
        uint64_t now_ms = daemon_now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (now_ms >= until_ms || (poll(&wait, 1, (int)(until_ms - now_ms)) <= 0 && errno != EINTR)) {
            return false;
        }
        ssize_t bytes = read(fd, out + *count, CERTIFICATE_BYTES_MAX - 1 - *count);
        if (bytes == 0) {
            out[*count] = '\0';
            return true;
        }
        if (bytes < 0 && errno != EINTR) {
            return false;
        }
        *count += bytes > 0 ? (size_t)bytes : 0;
    }
    return false;
}

/* What shoal-http makes of the file. */
static bool ask(struct certificate *certificate, size_t name_count)
{
    int ends[2], status = 0;
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        (void)snprintf(certificate->why, sizeof certificate->why, "%s", strerror(errno));
        return false;
    }
    int error = start(certificate, name_count, ends[1], &pid);
    (void)close(ends[1]);
    bool is_read = error == 0 && read_all(ends[0], certificate->pem, &certificate->pem_bytes);
    (void)close(ends[0]);
    if (error != 0) {
        (void)snprintf(certificate->why, sizeof certificate->why, "shoal-http cannot be started: %s", strerror(error));
        return false;
    }
    if (!is_read) {
        (void)kill(pid, SIGKILL);
    }
    (void)waitpid(pid, &status, 0);
    bool is_done = is_read && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!is_done) {
        (void)snprintf(certificate->why, sizeof certificate->why, "shoal-http has not made it: %.80s",
                       is_read ? certificate->pem : "it did not answer in time");
    }
    return is_done;
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static bool is_stored(const char *path, const char *pem, size_t count)
{
    char stored[CERTIFICATE_BYTES_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t bytes = fd >= 0 ? read(fd, stored, sizeof stored) : -1;
    bool is_same = bytes >= 0 && (size_t)bytes == count && memcmp(stored, pem, count) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    explicit_bzero(stored, sizeof stored);
    return is_same;
}

static bool store(const char *path, mode_t mode, const char *pem, size_t count)
{
    char draft[sizeof((struct certificate *)0)->path + 8];
    (void)snprintf(draft, sizeof draft, "%s.new", path);
    (void)unlink(draft);
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    bool is_written = fd >= 0 && write(fd, pem, count) == (ssize_t)count && fsync(fd) == 0;
    int error = errno;
    if (fd >= 0 && close(fd) != 0) {
        is_written = false;
    }
    if (is_written && rename(draft, path) == 0) {
        return true;
    }
    error = is_written ? errno : error;
    (void)unlink(draft);
    errno = error;
    return false;
}

/* The certificate without its key, for programs that use the door of their node. False: errno. */
static bool store_public(const char *path, const char *pem, size_t count)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----", end[] = "-----END CERTIFICATE-----";
    const char *first = memmem(pem, count, begin, sizeof begin - 1);
    const char *last = first != NULL ? memmem(first, count - (size_t)(first - pem), end, sizeof end - 1) : NULL;
    if (last == NULL) {
        errno = EINVAL;
        return false;
    }
    size_t bytes = (size_t)(last - first) + sizeof end - 1;
    return is_stored(path, first, bytes) || store(path, 0644, first, bytes);
}

void certificate_get(struct certificate *certificate)
{
    char *why = certificate->why;
    if (certificate->keeps_names && ask(certificate, 0) && is_stored(certificate->path, certificate->pem, certificate->pem_bytes)) {
        certificate->is_good = true;
        return;
    }
    if (!ask(certificate, certificate->name_count)) {
        return;
    }
    if (!fingerprint_of_pem(certificate->pem, certificate->pem_bytes, certificate->hash)) {
        (void)snprintf(why, sizeof certificate->why, "shoal-http has made none that can be read");
        return;
    }
    if (!store_public(certificate->public_path, certificate->pem, certificate->pem_bytes)) {
        (void)snprintf(why, sizeof certificate->why, "http-certificate.pem cannot be written to the data directory: %s", strerror(errno));
        return;
    }
    certificate->is_new = !is_stored(certificate->path, certificate->pem, certificate->pem_bytes);
    certificate->is_first = access(certificate->path, F_OK) != 0;
    if (certificate->is_new && !store(certificate->path, 0600, certificate->pem, certificate->pem_bytes)) {
        (void)snprintf(why, sizeof certificate->why, "http.pem cannot be written to the data directory: %s", strerror(errno));
        return;
    }
    certificate->is_good = true;
}
