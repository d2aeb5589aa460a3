/* output ls|get: the files that the workers of a trial have left. The daemon hands over one blob for each worker whose files
 * are kept; here they are united, the files of lower ranks before those of higher ones. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/document.h"
#include "base/err.h"
#include "store/snapshot.h"
#include "tools/shoal/print.h"
#include "tools/shoal/render.h"
#include "tools/shoal/target.h"

#define PARTS_MAX 64
#define LARGE_BYTES (64ull << 20) /* from here on the user is told why it takes a while */

/* The files of one worker. */
struct part {
    uint64_t number, bytes;
    int fd; /* -1: not here yet */
    struct snapshot snapshot;
};

struct parts {
    struct part items[PARTS_MAX];
    uint32_t count;
};

static void parts_close(struct parts *parts)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        snapshot_free(&parts->items[i].snapshot);
        if (parts->items[i].fd >= 0) {
            (void)close(parts->items[i].fd);
        }
    }
}

static int list_parts(struct cli *cli, const struct target *target, struct parts *parts)
{
    struct client client;
    struct reply reply;
    int code = target_begin(cli, "output_ls", target, 0, &client);
    if (code != CLI_DONE) {
        return code;
    }
    code = client_send(&client, -1);
    if (code == CLI_DONE) {
        code = client_next(&client, CLIENT_ANSWER_MS, false, &reply);
    }
    msgpack_object_array list = {0};
    if (code == CLI_DONE) {
        list = document_list(&reply.document, "outputs");
    }
    for (uint32_t i = 0; i < list.size && i < PARTS_MAX; i++) {
        parts->items[parts->count++] = (struct part){.number = document_number(&list.ptr[i], "number"),
                                                     .bytes = document_number(&list.ptr[i], "bytes"),
                                                     .fd = -1};
    }
    client_close(&client);
    return code;
}

/* Asks the daemon for the blob, which it may have to fetch from another node first, and reads the listing. */
static int open_part(struct cli *cli, const struct target *target, struct part *part)
{
    struct client client;
    struct reply reply = {.fd = -1};
    char size[RENDER_UNIT_BYTES];
    render_bytes(size, part->bytes);
    if (part->bytes >= LARGE_BYTES && cli->err_is_terminal) {
        (void)fprintf(cli->err, "getting %s of rank %llu...\n", size, (unsigned long long)part->number);
    }
    int code = target_begin(cli, "output_get", target, 1, &client);
    if (code != CLI_DONE) {
        return code;
    }
    pack_text(&client.request, "number");
    pack_u64(&client.request, part->number);
    code = client_send(&client, -1);
    if (code == CLI_DONE) {
        code = client_next(&client, -1, true, &reply); /* without a time limit: it may be gigabytes */
    }
    int read = 0;
    if (code == CLI_DONE) {
        part->fd = reply.fd;
        part->bytes = document_number(&reply.document, "bytes"); /* a newer one may have come since the list */
        read = part->fd >= 0 ? snapshot_read(part->fd, part->bytes, &part->snapshot) : ERR_MALFORMED;
    }
    client_close(&client);
    return read == 0 ? code
                     : cli_fail(cli, CLI_REFUSED,
                                "the daemon's answer cannot be read (%s); are shoal and shoald of the same version?",
                                err_text(read));
}

static int open_parts(struct cli *cli, const struct target *target, struct parts *parts)
{
    int code = list_parts(cli, target, parts);
    for (uint32_t i = 0; i < parts->count && code == CLI_DONE; i++) {
        code = open_part(cli, target, &parts->items[i]);
    }
    return code;
}

/* Reads the operands EXP/TRIAL and PATH. */
static int read_operands(struct cli *cli, const struct arguments *arguments, struct target *target,
                         char path[SNAPSHOT_PATH_BYTES])
{
    int code = target_read(cli, arguments->operands[0], true, false, target);
    const char *given = arguments->operand_count > 1 ? arguments->operands[1] : "";
    size_t bytes = strlen(given);
    while (bytes > 0 && given[bytes - 1] == '/') {
        bytes--;
    }
    if (code == CLI_DONE && bytes >= SNAPSHOT_PATH_BYTES) {
        return cli_fail(cli, CLI_USAGE, "'%.80s...' is longer than any path", given);
    }
    (void)snprintf(path, SNAPSHOT_PATH_BYTES, "%.*s", (int)bytes, strcmp(given, ".") == 0 ? "" : given);
    return code;
}

static int fail_no_path(struct cli *cli, const char *path, const char *operand)
{
    return path[0] == '\0' ? cli_fail(cli, CLI_NO_SUCH_THING, "%.80s has left no files", operand)
                           : cli_fail(cli, CLI_NO_SUCH_THING,
                                      "%.80s has left no %.200s; shoal output ls %.80s lists what there is", operand, path,
                                      operand);
}

/* ---- output ls ----------------------------------------------------------------------------------------------------- */

static const struct snapshot_entry *find_entry(const struct snapshot *snapshot, const char *path)
{
    for (uint32_t i = 0; i < snapshot->count; i++) {
        if (strcmp(snapshot->entries[i].path, path) == 0) {
            return &snapshot->entries[i];
        }
    }
    return NULL;
}

/* True if a part before this one has the path: its file counts. */
static bool is_hidden(const struct parts *parts, uint32_t part, const char *path)
{
    for (uint32_t i = 0; i < part; i++) {
        if (find_entry(&parts->items[i].snapshot, path) != NULL) {
            return true;
        }
    }
    return false;
}

static void write_entry_json(struct cli *cli, const struct part *part, const struct snapshot_entry *entry)
{
    static const char *const kinds[] = {"directory", "file", "link"};
    uint8_t bytes[2 * SNAPSHOT_PATH_BYTES + 256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 6);
    pack_text(&writer, "path");
    pack_text(&writer, entry->path);
    pack_text(&writer, "kind");
    pack_text(&writer, kinds[entry->kind]);
    pack_text(&writer, "bytes");
    pack_u64(&writer, entry->bytes);
    pack_text(&writer, "modified_ms");
    pack_i64(&writer, entry->mtime_ns / 1000000);
    pack_text(&writer, "rank");
    pack_u64(&writer, part->number);
    pack_text(&writer, "link");
    if (entry->link != NULL) {
        pack_text(&writer, entry->link);
    } else {
        pack_nil(&writer);
    }
    (void)document_write_packed_json(cli->out, bytes, writer.used_bytes);
}

static void add_row(struct table *table, const struct part *part, const struct snapshot_entry *entry)
{
    char size[RENDER_UNIT_BYTES], time[RENDER_UNIT_BYTES];
    render_bytes(size, entry->bytes);
    render_time(time, (uint64_t)(entry->mtime_ns / 1000000));
    table_cell(table, RENDER_PLAIN, "%s", entry->kind == SNAPSHOT_FILE ? size : entry->kind == SNAPSHOT_LINK ? "link" : "dir");
    table_cell(table, RENDER_PLAIN, "%s", entry->mtime_ns > 0 ? time : "-");
    table_cell(table, RENDER_PLAIN, "%llu", (unsigned long long)part->number);
    table_cell(table, RENDER_PLAIN, "%s%s%s%s", entry->path, entry->kind == SNAPSHOT_DIRECTORY ? "/" : "",
               entry->link != NULL ? " -> " : "", entry->link != NULL ? entry->link : "");
}

int command_output_ls(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    char path[SNAPSHOT_PATH_BYTES];
    struct parts parts = {.count = 0};
    struct table table = {0};
    int code = read_operands(cli, arguments, &target, path);
    if (code != CLI_DONE) {
        return code;
    }
    code = open_parts(cli, &target, &parts);
    table_column(&table, "SIZE", true);
    table_column(&table, "MODIFIED", false);
    table_column(&table, "RANK", true);
    table_column(&table, "PATH", false);
    uint32_t found = 0;
    for (uint32_t i = 0; i < parts.count && code == CLI_DONE; i++) {
        const struct snapshot *snapshot = &parts.items[i].snapshot;
        for (uint32_t e = 0; e < snapshot->count; e++) {
            const struct snapshot_entry *entry = &snapshot->entries[e];
            if (!snapshot_is_below(entry->path, path) || is_hidden(&parts, i, entry->path)) {
                continue;
            }
            found++;
            if (cli->json) {
                write_entry_json(cli, &parts.items[i], entry);
            } else {
                add_row(&table, &parts.items[i], entry);
            }
        }
    }
    if (code == CLI_DONE && found == 0) {
        code = fail_no_path(cli, path, arguments->operands[0]);
    } else if (code == CLI_DONE && !cli->json) {
        table_write(&table, cli->out, cli->colours);
    }
    parts_close(&parts);
    return code;
}

/* ---- output get ---------------------------------------------------------------------------------------------------- */

int command_output_get(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    char path[SNAPSHOT_PATH_BYTES], standard[SNAPSHOT_PATH_BYTES + 64];
    struct parts parts = {.count = 0};
    int code = read_operands(cli, arguments, &target, path);
    if (code != CLI_DONE) {
        return code;
    }
    (void)snprintf(standard, sizeof standard, "%.200s-%llu", target.experiment, (unsigned long long)target.trial);
    const char *dir = arguments->operand_count > 2 ? arguments->operands[2] : standard;
    code = open_parts(cli, &target, &parts);
    if (code == CLI_DONE && mkdir(dir, 0755) != 0 && errno != EEXIST) {
        code = cli_fail(cli, CLI_REFUSED, "the directory %.200s cannot be made: %s", dir, strerror(errno));
    }
    uint64_t files = 0;
    for (uint32_t i = parts.count; i-- > 0 && code == CLI_DONE;) { /* the files of lower ranks replace those of higher ones */
        char error[512];
        uint32_t count = 0;
        int rc = snapshot_unpack(parts.items[i].fd, &parts.items[i].snapshot, path, dir, &count, error, sizeof error);
        if (rc != 0 && rc != ERR_NOT_FOUND) {
            code = cli_fail(cli, CLI_REFUSED, "%s", error);
        }
        files += count;
    }
    if (code == CLI_DONE && files == 0) {
        code = fail_no_path(cli, path, arguments->operands[0]);
        (void)rmdir(dir); /* if it was made in vain */
    } else if (code == CLI_DONE && cli->json) {
        uint8_t bytes[PATH_MAX + 64];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_map(&writer, 2);
        pack_text(&writer, "files");
        pack_u64(&writer, files);
        pack_text(&writer, "directory");
        pack_text(&writer, dir);
        (void)document_write_packed_json(cli->out, bytes, writer.used_bytes);
    } else if (code == CLI_DONE) {
        (void)fprintf(cli->out, "%llu %s of %s in %s\n", (unsigned long long)files, files == 1 ? "file" : "files",
                      arguments->operands[0], dir);
    }
    parts_close(&parts);
    return code;
}
