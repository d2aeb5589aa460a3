#include "tools/shoal/door.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/document.h"

#define FETCH_UNNAMED 3 /* of shoal-http --fetch: the certificate does not name the host */

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

int door_find(struct client *client, const char *operand, struct door *out)
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
static int run_fetch(const char *program, const char *address, char out[DOOR_PEM_BYTES])
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
    while (pid > 0 && count < DOOR_PEM_BYTES - 1 && bytes > 0) {
        bytes = read(ends[0], out + count, DOOR_PEM_BYTES - 1 - count);
        count += bytes > 0 ? (size_t)bytes : 0;
    }
    out[count] = '\0';
    (void)close(ends[0]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int door_fetch(struct cli *cli, const struct door *door, char pem[DOOR_PEM_BYTES])
{
    char program[PATH_MAX], given[DOOR_FINGERPRINT_BYTES] = "";
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
                        "(%.16s...); it is not trusted: find out what it is, or try again if the node's daemon was "
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
