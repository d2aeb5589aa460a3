/* secret: values that programs find in their environment and that nothing shows (docs/design.md 11). */

#include <stdlib.h>
#include <string.h>
#include <termios.h>

#include "base/document.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"
#include "tools/shoal/client.h"
#include "tools/shoal/print.h"

#define VALUE_ROOM (FACT_SECRET_BYTES_MAX + 2) /* a byte more than allowed, and a NUL */

/* Reads a line from the terminal without showing it. */
static size_t read_hidden(struct cli *cli, const char *name, char value[VALUE_ROOM])
{
    struct termios before, hidden;
    int fd = fileno(cli->in);
    bool is_hidden = fd >= 0 && tcgetattr(fd, &before) == 0;
    if (is_hidden) {
        hidden = before;
        hidden.c_lflag &= (tcflag_t)~ECHO;
        is_hidden = tcsetattr(fd, TCSAFLUSH, &hidden) == 0;
    }
    (void)fprintf(cli->err, "value of %s%s: ", name, is_hidden ? " (it is not shown)" : "");
    (void)fflush(cli->err);
    size_t bytes = fgets(value, VALUE_ROOM, cli->in) != NULL ? strlen(value) : 0;
    if (is_hidden) {
        (void)tcsetattr(fd, TCSAFLUSH, &before);
        (void)fputc('\n', cli->err);
    }
    return bytes;
}

/* Reads the value, without the newline at its end. 0: there is none. */
static size_t read_value(struct cli *cli, const char *name, char value[VALUE_ROOM])
{
    size_t bytes = cli->in_is_terminal ? read_hidden(cli, name, value) : fread(value, 1, VALUE_ROOM, cli->in);
    return bytes > 0 && value[bytes - 1] == '\n' ? bytes - 1 : bytes;
}

static void render_set(struct cli *cli, const msgpack_object *document)
{
    char name[FACT_NAME_BYTES];
    unsigned long long stored_on = document_number(document, "stored_on");
    document_text(document, "secret", name, sizeof name);
    (void)fprintf(cli->out, "%s set, stored on %llu node%s\n", name, stored_on, stored_on == 1 ? "" : "s");
}

int command_secret_set(struct cli *cli, const struct arguments *arguments)
{
    const char *name = arguments->operands[0];
    char value[VALUE_ROOM];
    struct client client;
    if (!config_secret_is_good(name, strlen(name))) {
        return cli_fail(cli, CLI_USAGE,
                        "%.60s is no name for a secret; allowed are names of environment variables that the daemon "
                        "does not set: letters, "
                        "digits and _, no digit first, at most %d bytes",
                        name, FACT_NAME_BYTES - 1);
    }
    size_t bytes = read_value(cli, name, value);
    if (bytes == 0 || bytes > FACT_SECRET_BYTES_MAX || memchr(value, '\0', bytes) != NULL) {
        explicit_bzero(value, sizeof value);
        return cli_fail(cli, CLI_USAGE,
                        "the value of a secret is 1 to %d bytes without a NUL, from standard input; give it as in "
                        "shoal secret set %s < FILE",
                        FACT_SECRET_BYTES_MAX, name);
    }
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, "secret_set", 2);
        pack_text(&client.request, "name");
        pack_text(&client.request, name);
        pack_text(&client.request, "value");
        pack_text_n(&client.request, value, bytes);
        code = print_reply(&client, render_set);
        client_close(&client);
    }
    explicit_bzero(value, sizeof value);
    return code;
}

static void render_secrets(struct cli *cli, const msgpack_object *document)
{
    struct table table = {0};
    table_column(&table, "NAME", false);
    table_column(&table, "SET", false);
    table_column(&table, "COPIES", false);
    msgpack_object_array list = document_list(document, "secrets");
    for (uint32_t i = 0; i < list.size; i++) {
        const msgpack_object *item = &list.ptr[i];
        char when[RENDER_UNIT_BYTES];
        print_cell_text(&table, item, "name");
        render_time(when, 1000 * document_number(item, "set_s"));
        table_cell(&table, RENDER_PLAIN, "%s", when);
        table_cell(&table, RENDER_PLAIN, "%llu of %llu nodes", (unsigned long long)document_number(item, "copies"),
                   (unsigned long long)document_number(item, "nodes"));
    }
    table_write(&table, cli->out, cli->colours);
}

int command_secret_ls(struct cli *cli, const struct arguments *arguments)
{
    (void)arguments;
    return print_simple(cli, "secrets", render_secrets);
}

static void render_removed(struct cli *cli, const msgpack_object *document)
{
    char name[FACT_NAME_BYTES];
    unsigned long long stored_on = document_number(document, "stored_on");
    document_text(document, "secret", name, sizeof name);
    (void)fprintf(cli->out, "%s removed, stored on %llu node%s\n", name, stored_on, stored_on == 1 ? "" : "s");
}

int command_secret_rm(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    int code = client_open(cli, &client);
    if (code == CLI_DONE) {
        client_begin(&client, "secret_rm", 1);
        pack_text(&client.request, "name");
        pack_text(&client.request, arguments->operands[0]);
        code = print_reply(&client, render_removed);
        client_close(&client);
    }
    return code;
}
