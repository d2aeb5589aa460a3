/* config, code: what was submitted, written back. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/document.h"
#include "base/err.h"
#include "store/archive.h"
#include "tools/shoal/original.h"
#include "tools/shoal/print.h"

/* Connects and finds the experiment of the first operand. */
static int open_about(struct cli *cli, const struct arguments *arguments, struct client *client, char id[CLIENT_EXPERIMENT_TEXT_BYTES])
{
    int code = client_open(cli, client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_find_experiment(client, arguments->operands[0], id);
    if (code != CLI_DONE) {
        client_close(client);
    }
    return code;
}

/* ---- config -------------------------------------------------------------------------------------------------------------- */

/* Writes the options in force, a line for each: "resources.priority: 42". `changed`: the values that were submitted of those that
 * users have changed. */
static void write_options(FILE *out, const msgpack_object *map, const char *prefix, const msgpack_object *changed)
{
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        char key[128], path[256], *value = NULL;
        size_t bytes = 0;
        document_value_text(&pairs.ptr[i].key, key, sizeof key);
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
        bool is_section = prefix[0] == '\0' && pairs.ptr[i].val.type == MSGPACK_OBJECT_MAP;
        if (is_section) {
            write_options(out, &pairs.ptr[i].val, path, changed);
            continue;
        }
        FILE *line = open_memstream(&value, &bytes);
        if (line != NULL) {
            (void)document_write_json(line, &pairs.ptr[i].val);
            (void)fclose(line);
            (void)fprintf(out, "%s: %.*s", path, value != NULL ? (int)strcspn(value, "\n") : 0, value != NULL ? value : "");
            if (document_has(changed, path)) {
                (void)fprintf(out, "  # changed; it was submitted with %llu", (unsigned long long)document_number(changed, path));
            }
            (void)fputc('\n', out);
        }
        free(value);
    }
}

static int show_options(struct client *client, const char *id)
{
    struct cli *cli = client->cli;
    struct reply reply;
    client_begin(client, "config", 1);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, id);
    int code = client_ask(client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE && cli->json) {
        (void)document_write_reply_json(cli->out, &reply.document);
    } else if (code == CLI_DONE) {
        write_options(cli->out, document_find(&reply.document, "config"), "", document_find(&reply.document, "changed"));
    }
    return code;
}

static int show_file(struct client *client, const char *id)
{
    struct cli *cli = client->cli;
    struct original original;
    int code = original_read(client, id, &original);
    if (code == CLI_DONE) {
        bool has_end = original.text_bytes > 0 && original.text[original.text_bytes - 1] == '\n';
        (void)fwrite(original.text, 1, original.text_bytes, cli->out);
        (void)fputs(has_end ? "" : "\n", cli->out);
        origin_write(cli->out, &original.origin, (const char *const *)original.origin.overrides, original.origin.override_count);
    }
    original_free(&original);
    return code;
}

int command_config(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    bool is_file = options_has(arguments, "file");
    if (is_file && cli->json) {
        return cli_fail(cli, CLI_USAGE, "--file prints the file as it was submitted, which is YAML; --json goes without it");
    }
    int code = open_about(cli, arguments, &client, id);
    if (code == CLI_DONE) {
        code = is_file ? show_file(&client, id) : show_options(&client, id);
        client_close(&client);
    }
    return code;
}

/* ---- code ---------------------------------------------------------------------------------------------------------------- */

static int unpack(struct cli *cli, int fd, bool keeps_links, const char *dir)
{
    char error[1024];
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        return cli_fail(cli, CLI_REFUSED, "the directory %.200s cannot be made: %s", dir, strerror(errno));
    }
    int result = archive_unpack(fd, dir, 0, keeps_links ? ARCHIVE_LINKS_ANY : ARCHIVE_LINKS_INSIDE, error, sizeof error);
    return result == ERR_EXISTS ? cli_fail(cli, CLI_REFUSED, "%s; name a new or an empty directory in place of %.200s", error, dir)
           : result != 0        ? cli_fail(cli, CLI_REFUSED, "%s", error)
                                : CLI_DONE;
}

static void tell_code(struct cli *cli, const struct original *original, const char *typed, const char *dir, uint64_t bytes)
{
    char named[PRINT_NAMED_BYTES], size[RENDER_UNIT_BYTES];
    print_named(named, typed, original->id);
    render_bytes(size, bytes);
    if (cli->json) {
        uint8_t packed[PATH_MAX + 512];
        struct pack_writer writer;
        pack_writer_init(&writer, packed, sizeof packed);
        const char *const rows[][2] = {{"experiment", original->id},
                                       {"directory", dir},
                                       {"commit", original->origin.commit},
                                       {"diff", original->origin.diff},
                                       {"version", original->origin.version}};
        pack_map(&writer, sizeof rows / sizeof rows[0]);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            pack_text(&writer, rows[i][0]);
            if (rows[i][1][0] != '\0') {
                pack_text(&writer, rows[i][1]);
            } else {
                pack_nil(&writer);
            }
        }
        (void)document_write_packed_json(cli->out, packed, writer.used_bytes);
        return;
    }
    (void)fprintf(cli->out, "the code of %s is in %s (%s)\n", named, dir, size);
    if (original->origin.commit[0] != '\0') {
        (void)fprintf(cli->out, "it was commit %s%s\n", original->origin.commit,
                      original->origin.diff[0] != '\0' ? " with changes: git diff there tells which" : "");
    }
}

int command_code(struct cli *cli, const struct arguments *arguments)
{
    struct client client;
    struct original original;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    const char *dir = arguments->operands[1];
    uint64_t bytes = 0;
    bool keeps_links = false;
    int fd = -1, code = open_about(cli, arguments, &client, id);
    if (code != CLI_DONE) {
        return code;
    }
    code = original_read(&client, id, &original);
    code = code == CLI_DONE ? original_code(&client, id, &fd, &bytes, &keeps_links) : code;
    code = code == CLI_DONE ? unpack(cli, fd, keeps_links, dir) : code;
    if (code == CLI_DONE) {
        tell_code(cli, &original, arguments->operands[0], dir, bytes);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    original_free(&original);
    client_close(&client);
    return code;
}
