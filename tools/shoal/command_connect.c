/* connect: the certificate of another node's HTTPS door (docs/http.md). */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/shoal/client.h"
#include "tools/shoal/door.h"
#include "tools/shoal/print.h"

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
    char pem[DOOR_PEM_BYTES], named[sizeof door.name + 8], path[PATH_MAX];
    int code = client_open(cli, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = door_find(&client, arguments->operands[0], &door);
    client_close(&client);
    code = code == CLI_DONE ? door_fetch(cli, &door, pem) : code;
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
