/* connect: the certificate of another node's HTTPS door (docs/http.md). */

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/document.h"
#include "gossip/control_address.h"
#include "gossip/fingerprint.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"

#define PEM_BYTES_MAX 16384
#define FINGERPRINT_TEXT_BYTES (2 * FINGERPRINT_BYTES + 1)
#define FETCH_UNNAMED 3 /* of shoal-http --fetch: the certificate does not name the host */

/* The door of a node, as the mesh knows it. */
struct door {
    char id[CLIENT_NODE_TEXT_BYTES], name[128], host[CONTROL_HOST_BYTES];
    char address[CONTROL_ADDRESS_BYTES + 16]; /* HOST:PORT, numeric */
    char fingerprint[FINGERPRINT_TEXT_BYTES];
};

/* Reads the node's row. */
static int read_door(struct cli *cli, const msgpack_object *row, struct door *out)
{
    const msgpack_object *https = document_find(row, "https");
    char listens[CONTROL_ADDRESS_BYTES] = "", address[CONTROL_ADDRESS_BYTES] = "";
    uint16_t port;
    document_node(row, "name", out->name, sizeof out->name);
    document_text(row, "address", address, sizeof address);
    document_text(https, "address", listens, sizeof listens);
    document_text(https, "certificate", out->fingerprint, sizeof out->fingerprint);
    if (!control_address_split(listens, out->host, &port)) {
        return cli_fail(cli, CLI_REFUSED,
                        "%.80s has no door for other machines; start its shoald with --http 0.0.0.0:7412, or come through "
                        "ssh -L, as shoal help open says",
                        out->name);
    }
    if (strcmp(out->host, "0.0.0.0") == 0 || strcmp(out->host, "::") == 0) {
        address_host(address, out->host, sizeof out->host);
    }
    uint8_t bytes[16];
    bool is_wide;
    if (!address_parse(out->host, bytes, &is_wide) || strchr(out->host, '%') != NULL) { /* it goes into a shell's line */
        return cli_fail(cli, CLI_REFUSED,
                        "%.80s tells no address of its door that a machine can have; try again once it is alive", out->name);
    }
    (void)snprintf(out->address, sizeof out->address, strchr(out->host, ':') != NULL ? "[%s]:%u" : "%s:%u", out->host,
                   (unsigned)port);
    return CLI_DONE;
}

static int find_door(struct client *client, const char *operand, struct door *out)
{
    struct reply reply;
    int code = client_find_node(client, operand, out->id);
    if (code == CLI_DONE) {
        client_begin(client, "nodes", 0);
        code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    }
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_object_array list = document_list(&reply.document, "nodes");
    for (uint32_t i = 0; i < list.size; i++) {
        char id[CLIENT_NODE_TEXT_BYTES];
        document_text(&list.ptr[i], "id", id, sizeof id);
        if (strcmp(id, out->id) == 0) {
            return read_door(client->cli, &list.ptr[i], out);
        }
    }
    return cli_fail(client->cli, CLI_NO_SUCH_THING, "there is no node with the id %s; shoal nodes lists them", out->id);
}

/* ---- the certificate ------------------------------------------------------------------------------------------- */

/* shoal-http is beside this program in a build directory, and in SHOAL_LIBEXEC, seen from there, where Shoal is
 * installed. */
static bool find_program(char out[PATH_MAX])
{
    static const char *const places[] = {"", SHOAL_LIBEXEC "/"};
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof places[0]; i++) {
        int bytes = snprintf(out, PATH_MAX, "%.*s/%sshoal-http", (int)(slash - path), path, places[i]);
        if (bytes > 0 && bytes < PATH_MAX && access(out, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Runs `shoal-http --fetch ADDRESS`. Returns its exit status, or -1; `out` is what it wrote, as a text. */
static int run_fetch(const char *program, const char *address, char out[PEM_BYTES_MAX])
{
    static char *const environment[] = {NULL};
    const char *const arguments[] = {"shoal-http", "--fetch", address, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], status = -1;
    pid_t pid = -1;
    size_t count = 0;
    out[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    if (posix_spawn_file_actions_init(&actions) == 0) {
        if (posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0 ||
            posix_spawn(&pid, program, &actions, NULL, (char *const *)(uintptr_t)arguments, environment) != 0) {
            pid = -1;
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(ends[1]);
    ssize_t bytes = 1;
    while (pid > 0 && count < PEM_BYTES_MAX - 1 && bytes > 0) {
        bytes = read(ends[0], out + count, PEM_BYTES_MAX - 1 - count);
        count += bytes > 0 ? (size_t)bytes : 0;
    }
    out[count] = '\0';
    (void)close(ends[0]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Fetches the certificate and compares it. */
static int fetch(struct cli *cli, const struct door *door, char pem[PEM_BYTES_MAX])
{
    char program[PATH_MAX], given[FINGERPRINT_TEXT_BYTES] = "";
    uint8_t fingerprint[FINGERPRINT_BYTES];
    if (!find_program(program)) {
        return cli_fail(cli, CLI_REFUSED,
                        "there is no program shoal-http, which fetches certificates; install Shoal as a whole");
    }
    int status = run_fetch(program, door->address, pem);
    if (status != 0 && status != FETCH_UNNAMED) {
        return cli_fail(cli, CLI_REFUSED, "the door of %.80s at %s does not answer as it should: %.200s", door->name,
                        door->address, pem[0] != '\0' ? pem : "shoal-http has failed");
    }
    if (fingerprint_of_pem(pem, strlen(pem), fingerprint)) {
        bytes_to_hex(given, fingerprint, sizeof fingerprint);
    }
    if (strcmp(given, door->fingerprint) != 0) {
        return cli_fail(cli, CLI_REFUSED,
                        "at %s answers somebody with another certificate (SHA-256 %.16s...) than %.80s has told the mesh "
                        "(%.16s...); nothing is written: find out who it is, or try again if the node's daemon was "
                        "restarted just now",
                        door->address, given[0] != '\0' ? given : "none", door->name, door->fingerprint);
    }
    if (status == FETCH_UNNAMED) {
        return cli_fail(cli, CLI_REFUSED,
                        "the certificate of %.80s does not name %s, so clients would refuse it there; restart its shoald, "
                        "which then makes one that does, or give it --http-host with a name of the machine",
                        door->name, door->host);
    }
    return CLI_DONE;
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static int write_file(struct cli *cli, const char *path, const char *text)
{
    char draft[PATH_MAX];
    int bytes = snprintf(draft, sizeof draft, "%s.new", path);
    if (bytes < 0 || (size_t)bytes >= sizeof draft) {
        return cli_fail(cli, CLI_USAGE, "the path of the file is too long");
    }
    (void)unlink(draft);
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int error = errno;
    if (fd >= 0 && close(fd) != 0) {
        is_written = false;
    }
    if (is_written && rename(draft, path) == 0) {
        return CLI_DONE;
    }
    error = is_written ? errno : error;
    (void)unlink(draft);
    return cli_fail(cli, CLI_REFUSED, "%.200s cannot be written: %s", path, strerror(error));
}

/* The file's name if the user gives none. A name that no host could have becomes the id: it may be a path. */
static void name_file(const struct door *door, char out[sizeof door->name + 8])
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    bool is_plain = door->name[0] != '\0' && door->name[0] != '.' && door->name[0] != '-' &&
                    strspn(door->name, allowed) == strlen(door->name);
    (void)snprintf(out, sizeof door->name + 8, "%s.pem", is_plain ? door->name : door->id);
}

static void write_variable(FILE *out, const char *name, const char *value)
{
    (void)fprintf(out, "export %s='", name);
    for (; *value != '\0'; value++) {
        (void)fprintf(out, *value == '\'' ? "'\\''" : "%c", *value);
    }
    (void)fputs("'\n", out);
}

static void write_json_text(FILE *out, const char *key, const char *value)
{
    (void)fprintf(out, "\"%s\":\"", key);
    for (; *value != '\0'; value++) {
        unsigned char c = (unsigned char)*value;
        (void)fprintf(out, c < ' ' ? "\\u%04x" : c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    (void)fputs("\"", out);
}

static void tell(struct cli *cli, const struct door *door, const char *path)
{
    char url[sizeof door->address + 16];
    (void)snprintf(url, sizeof url, "https://%s", door->address);
    if (cli->json) {
        const char *const pairs[][2] = {
            {"node", door->id}, {"name", door->name}, {"url", url}, {"file", path}, {"certificate", door->fingerprint}};
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
            (void)fputc(i == 0 ? '{' : ',', cli->out);
            write_json_text(cli->out, pairs[i][0], pairs[i][1]);
        }
        (void)fputs("}\n", cli->out);
        return;
    }
    (void)fprintf(cli->out, "# %s is the door of node %s\n", url, door->id);
    write_variable(cli->out, "CURL_CA_BUNDLE", path);
    write_variable(cli->out, "SSL_CERT_FILE", path);
    write_variable(cli->out, "MLFLOW_TRACKING_URI", url);
    write_variable(cli->out, "MLFLOW_TRACKING_SERVER_CERT_PATH", path);
    if (cli->err_is_terminal) {
        (void)fputs("shoal token create makes the token that a client sends\n", cli->err);
    }
}

int command_connect(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct door door = {0};
    const char *out = options_value(arguments, "out");
    char pem[PEM_BYTES_MAX], named[sizeof door.name + 8], path[PATH_MAX];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = find_door(&client, arguments->operands[0], &door);
    client_close(&client);
    code = code == CLI_DONE ? fetch(cli, &door, pem) : code;
    name_file(&door, named);
    code = code == CLI_DONE ? write_file(cli, out != NULL ? out : named, pem) : code;
    if (code == CLI_DONE && realpath(out != NULL ? out : named, path) == NULL) {
        code = cli_fail(cli, CLI_REFUSED, "the path of the file cannot be found: %s", strerror(errno));
    }
    if (code == CLI_DONE) {
        tell(cli, &door, path);
    }
    return code;
}
