#include "tools/shoal/submit_context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/pack.h"
#include "base/visible.h"
#include "store/archive.h"
#include "tools/shoal/render.h"

#define LEFT_NAMED 8             /* entries that the one line names */
#define NAME_BYTES 64            /* of an entry in that line */
#define PATH_TEXT_BYTES (4 * PATH_MAX + 1) /* a path with every byte escaped */
#define PROGRESS_MS 100

int submit_context_check_unnamed(struct cli *cli, const char *dir, const char *how)
{
    char name[NAME_BYTES * 4];
    struct stat place, home;
    if (cli->home == NULL || stat(cli->home, &home) != 0 || stat(dir, &place) != 0 || place.st_dev != home.st_dev ||
        place.st_ino != home.st_ino) {
        return CLI_DONE;
    }
    (void)visible_text(name, sizeof name, cli->home);
    return cli_fail(cli, CLI_REFUSED,
                    "the code directory would be your home directory %s, and a copy of all that is in it would go to the nodes; "
                    "put the program into a directory of its own, or name a directory with %s",
                    name, how);
}

int submit_context_list(struct cli *cli, const char *dir, enum config_links links, bool measures_all,
                        struct context_list **out)
{
    static const enum context_links of_config[] = {[CONFIG_LINKS_REFUSE] = CONTEXT_LINKS_REFUSE,
                                                   [CONFIG_LINKS_KEEP] = CONTEXT_LINKS_KEEP,
                                                   [CONFIG_LINKS_FOLLOW] = CONTEXT_LINKS_FOLLOW};
    const struct context_options options = {.links = of_config[links], .git = cli->git, .measures_all = measures_all};
    char error[CONTEXT_ERROR_BYTES];
    return context_list(dir, &options, out, error) == 0 ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "%s", error);
}

/* ---- what stays behind, in one line --------------------------------------------------------------------------------- */

/* "312.0 MiB", "over 2.0 GiB", or why an entry without a size stays behind. */
static void size_text(const struct context_left *left, char out[RENDER_UNIT_BYTES + 8])
{
    char bytes[RENDER_UNIT_BYTES];
    render_bytes(bytes, left->bytes);
    (void)snprintf(out, RENDER_UNIT_BYTES + 8, "%s%s", left->has_more ? "over " : "", bytes);
}

/* Entries that rules of the user leave out are expected; those that nobody has named are worth their names. */
static bool is_worth_a_name(const struct context_left *left)
{
    return left->is_standard || strchr(left->why, ':') == NULL;
}

/* True if a word of the entrypoint is the path, or, if the path is a directory, a path below it. */
static bool entrypoint_names(const char *entrypoint, const struct context_left *left)
{
    size_t path_bytes = strlen(left->path);
    for (const char *word = entrypoint; *word != '\0';) {
        size_t bytes = strcspn(word, " \t\n'\";&|<>()=");
        const char *at = bytes > 2 && word[0] == '.' && word[1] == '/' ? word + 2 : word;
        const char *end = word + bytes;
        bool begins = (size_t)(end - at) >= path_bytes && memcmp(at, left->path, path_bytes) == 0;
        if (begins && (at + path_bytes == end || (left->is_directory && at[path_bytes] == '/'))) {
            return true;
        }
        word = end + (*end != '\0');
    }
    return false;
}

static void warn_of_entrypoint(struct cli *cli, const struct context_list *list, const char *entrypoint)
{
    for (size_t i = 0; i < list->left_count; i++) {
        char name[NAME_BYTES];
        if (entrypoint_names(entrypoint, &list->left[i])) {
            (void)visible_text(name, sizeof name, list->left[i].path);
            cli_warn(cli, "%s, which the entrypoint names, is left out (%s); a line \"!/%s\" in .shoalignore sends it", name,
                     list->left[i].why, name);
            return;
        }
    }
}

void submit_context_warn(struct cli *cli, const struct context_list *list, const char *entrypoint)
{
    char line[LEFT_NAMED * (NAME_BYTES + RENDER_UNIT_BYTES + 16)], name[NAME_BYTES], size[RENDER_UNIT_BYTES + 8];
    size_t used = 0, named = 0;
    if (list->is_index_unreadable) {
        cli_warn(cli, "the index of git cannot be read, so files that git tracks and that .gitignore names stay behind, too");
    }
    if (list->left_count == 0) {
        return;
    }
    for (size_t i = 0; i < list->left_count && named < LEFT_NAMED; i++) {
        const struct context_left *left = &list->left[i];
        if (!is_worth_a_name(left)) {
            continue;
        }
        (void)visible_text(name, sizeof name, left->path);
        size_text(left, size);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s (%s)", named > 0 ? ", " : "", name,
                                 left->has_bytes ? size : left->why);
        named++;
    }
    size_t more = list->left_count - named + list->left_more_count;
    if (more > 0) {
        (void)snprintf(line + used, sizeof line - used, "%s%zu%s entr%s that rules of .gitignore or .shoalignore name",
                       named > 0 ? " and " : "", more, named == LEFT_NAMED ? " more" : "", more == 1 ? "y" : "ies");
    }
    cli_warn(cli, "left out: %s; shoal submit --dry-run lists all", line);
    warn_of_entrypoint(cli, list, entrypoint);
}

/* ---- environment.requirements --------------------------------------------------------------------------------------- */

/* True if `path` is `above`, or below it. */
static bool is_at_or_below(const char *path, const char *above)
{
    size_t bytes = strlen(above);
    return strncmp(path, above, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '/');
}

/* True if the path travels as a file or a link, or lies behind a link to a directory, which nodes follow. */
static bool travels(const struct context_list *list, const char *path)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct context_entry *entry = &list->entries[i];
        if (!S_ISDIR(entry->mode) && is_at_or_below(path, entry->path)) {
            return true;
        }
    }
    return false;
}

int submit_context_check_requirements(struct cli *cli, const struct context_list *list, const char *requirements)
{
    char name[4 * CONFIG_PATH_BYTES], root[NAME_BYTES * 4], why[NAME_BYTES];
    if (requirements[0] == '\0' || travels(list, requirements)) {
        return CLI_DONE;
    }
    (void)visible_text(name, sizeof name, requirements);
    for (size_t i = 0; i < list->left_count; i++) {
        if (is_at_or_below(requirements, list->left[i].path)) {
            (void)visible_text(why, sizeof why, list->left[i].why);
            return cli_fail(cli, CLI_REFUSED,
                            "environment.requirements names %s, which is left out of the code (%s); a line \"!/%s\" in .shoalignore sends it",
                            name, why, name);
        }
    }
    (void)visible_text(root, sizeof root, list->root);
    return cli_fail(cli, CLI_REFUSED,
                    "environment.requirements names %s, which is not in the context directory %s; it is the path of a file there that "
                    "lists packages, such as requirements.txt",
                    name, root);
}

/* ---- --dry-run ------------------------------------------------------------------------------------------------------ */

static int compare_sizes(const void *a, const void *b)
{
    const struct context_entry *first = *(const struct context_entry *const *)a,
                               *second = *(const struct context_entry *const *)b;
    if (first->bytes != second->bytes) {
        return first->bytes > second->bytes ? -1 : 1;
    }
    return strcmp(first->path, second->path);
}

/* The files and links, the largest first, then by path. Directories travel, too, and are not listed. NULL: no memory. */
static const struct context_entry **sort_entries(const struct context_list *list, size_t *count)
{
    const struct context_entry **sorted = calloc(list->count + 1, sizeof(const struct context_entry *));
    *count = 0;
    for (size_t i = 0; sorted != NULL && i < list->count; i++) {
        if (!S_ISDIR(list->entries[i].mode)) {
            sorted[(*count)++] = &list->entries[i];
        }
    }
    if (sorted != NULL) {
        qsort((void *)sorted, *count, sizeof *sorted, compare_sizes);
    }
    return sorted;
}

static void show_files(struct cli *cli, const struct context_entry *const *sorted, size_t count, char *text)
{
    struct table table = {0};
    table_column(&table, "SIZE", true);
    table_column(&table, "FILE", false);
    for (size_t i = 0; i < count; i++) {
        char size[RENDER_UNIT_BYTES] = "link";
        if (sorted[i]->link == NULL) {
            render_bytes(size, sorted[i]->bytes);
        }
        table_cell(&table, RENDER_PLAIN, "%s", size);
        (void)visible_text(text, PATH_TEXT_BYTES, sorted[i]->path);
        table_cell(&table, RENDER_PLAIN, "%s", text);
    }
    table_write(&table, cli->out, cli->colours);
}

static void show_left(struct cli *cli, const struct context_list *list, char *text)
{
    struct table table = {0};
    table_column(&table, "SIZE", true);
    table_column(&table, "LEFT OUT", false);
    table_column(&table, "WHY", false);
    for (size_t i = 0; i < list->left_count; i++) {
        const struct context_left *left = &list->left[i];
        char size[RENDER_UNIT_BYTES + 8] = "-";
        if (left->has_bytes) {
            size_text(left, size);
        }
        table_cell(&table, RENDER_PLAIN, "%s", size);
        (void)visible_text(text, PATH_TEXT_BYTES - 1, left->path);
        table_cell(&table, RENDER_PLAIN, "%s%s", text, left->is_directory ? "/" : "");
        table_cell(&table, RENDER_PLAIN, "%s", left->why);
    }
    (void)fputc('\n', cli->out);
    table_write(&table, cli->out, cli->colours);
    if (list->left_more_count > 0) {
        (void)fprintf(cli->out, "and %zu more\n", list->left_more_count);
    }
}

/* One map with a path, or two. A byte of a path is at most 6 characters of JSON. */
static void write_item(struct cli *cli, const struct pack_writer *writer, bool is_first)
{
    char text[2 * 6 * PATH_MAX + 512];
    struct pack_reader reader;
    pack_reader_init(&reader, writer->bytes, writer->used_bytes);
    if (json_from_pack(&reader, text, sizeof text) == 0) {
        (void)fprintf(cli->out, "%s%s", is_first ? "" : ", ", text);
    }
}

static void write_json(struct cli *cli, const struct context_list *list, const struct context_entry *const *sorted,
                       size_t count)
{
    uint8_t bytes[2 * PATH_MAX + 512];
    struct pack_writer writer;
    (void)fprintf(cli->out, "{\"bytes\": %llu, \"file_count\": %zu, \"files\": [", (unsigned long long)list->total_bytes,
                  list->file_count);
    for (size_t i = 0; i < count; i++) {
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_map(&writer, sorted[i]->link != NULL ? 3 : 2);
        pack_text(&writer, "path");
        pack_text(&writer, sorted[i]->path);
        pack_text(&writer, "bytes");
        pack_u64(&writer, sorted[i]->bytes);
        if (sorted[i]->link != NULL) {
            pack_text(&writer, "link");
            pack_text(&writer, sorted[i]->link);
        }
        write_item(cli, &writer, i == 0);
    }
    (void)fputs("], \"left_out\": [", cli->out);
    for (size_t i = 0; i < list->left_count; i++) {
        const struct context_left *left = &list->left[i];
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_map(&writer, left->has_bytes ? 5 : 3);
        pack_text(&writer, "path");
        pack_text(&writer, left->path);
        pack_text(&writer, "directory");
        pack_bool(&writer, left->is_directory);
        pack_text(&writer, "why");
        pack_text(&writer, left->why);
        if (left->has_bytes) {
            pack_text(&writer, "bytes");
            pack_u64(&writer, left->bytes);
            pack_text(&writer, "bytes_are_least");
            pack_bool(&writer, left->has_more);
        }
        write_item(cli, &writer, i == 0);
    }
    (void)fprintf(cli->out, "], \"left_out_more\": %zu}\n", list->left_more_count);
}

/* The submit would be refused at the first file that cannot be read; so is the dry run, after its list. */
static int check_readable(struct cli *cli, const struct context_list *list, char *text)
{
    char path[2 * PATH_MAX], first[2 * PATH_MAX] = "";
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct context_entry *entry = &list->entries[i];
        (void)snprintf(path, sizeof path, "%s/%s", list->root, entry->path);
        if (entry->link != NULL || !S_ISREG(entry->mode) || faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 || errno != EACCES) {
            continue;
        }
        if (count++ == 0) {
            memcpy(first, path, sizeof first);
        }
    }
    if (count == 0) {
        return CLI_DONE;
    }
    char more[64] = "";
    if (count > 1) {
        (void)snprintf(more, sizeof more, " and %zu more file%s", count - 1, count == 2 ? "" : "s");
    }
    (void)visible_text(text, PATH_TEXT_BYTES, first);
    return cli_fail(cli, CLI_REFUSED, "cannot read %s%s: %s; make %s readable, or name %s in .shoalignore", text, more,
                    strerror(EACCES), count > 1 ? "them" : "it", count > 1 ? "them" : "it");
}

int submit_context_show(struct cli *cli, const struct context_list *list)
{
    size_t count;
    const struct context_entry **sorted = sort_entries(list, &count);
    char *text = malloc(PATH_TEXT_BYTES);
    if (sorted == NULL || text == NULL) {
        free((void *)sorted);
        free(text);
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    if (cli->json) {
        write_json(cli, list, sorted, count);
    } else {
        char size[RENDER_UNIT_BYTES];
        render_bytes(size, list->total_bytes);
        (void)visible_text(text, PATH_TEXT_BYTES, list->root);
        (void)fprintf(cli->out, "%zu file%s of %s would travel, %s in all; nothing is sent\n\n", list->file_count,
                      list->file_count == 1 ? "" : "s", text, size);
        show_files(cli, sorted, count, text);
        if (list->left_count > 0) {
            show_left(cli, list, text);
        }
    }
    int code = check_readable(cli, list, text);
    free((void *)sorted);
    free(text);
    return code;
}

/* ---- packing -------------------------------------------------------------------------------------------------------- */

struct progress {
    struct cli *cli;
    uint64_t shown_ms;
};

static void show_progress(void *context, uint64_t done_bytes, uint64_t bytes)
{
    struct progress *progress = context;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (now_ms < progress->shown_ms + PROGRESS_MS) {
        return;
    }
    char done[RENDER_UNIT_BYTES], all[RENDER_UNIT_BYTES];
    progress->shown_ms = now_ms;
    render_bytes(done, done_bytes);
    render_bytes(all, bytes);
    (void)fprintf(progress->cli->err, "\rpacking %s of %s\033[K", done, all);
    (void)fflush(progress->cli->err);
}

int submit_context_pack(struct cli *cli, const struct context_list *list, int *fd, uint64_t *bytes)
{
    char error[CONTEXT_ERROR_BYTES];
    struct progress progress = {.cli = cli};
    const struct archive_progress tell = {show_progress, &progress};
    struct stat status;
    int file = memfd_create("shoal-context", MFD_CLOEXEC);
    if (file < 0) {
        return cli_fail(cli, CLI_REFUSED, "no memory file could be made for the code: %s", strerror(errno));
    }
    int result = archive_pack(list, file, cli->err_is_terminal ? &tell : NULL, error, sizeof error);
    if (cli->err_is_terminal) {
        (void)fputs("\r\033[K", cli->err);
    }
    if (result == 0 && fstat(file, &status) != 0) {
        (void)snprintf(error, sizeof error, "the packed code cannot be read: %s", strerror(errno));
        result = -1;
    }
    if (result != 0) {
        (void)close(file);
        return cli_fail(cli, CLI_REFUSED, "%s", error);
    }
    *fd = file;
    *bytes = (uint64_t)status.st_size;
    return CLI_DONE;
}
