/* import: runs of TensorBoard and MLflow become experiments. */

#include "tools/shoal/import.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/visible.h"
#include "node/daemon/wire/event_points.h"
#include "tools/shoal/submission.h"

#define TEMPORARY "shoal-import-XXXXXX"
#define WALK_DEPTH_MAX 16
#define METRIC "loss" /* of a run without any */

/* An attempt gets the files that an earlier one has left; only those that it makes itself are read. */
static const char program[] = "rm -rf \"$SHOAL_TENSORBOARD_DIR\"/import-*; mkdir -p \"$SHOAL_TENSORBOARD_DIR\" && "
                              "cp -R events \"$SHOAL_TENSORBOARD_DIR/import-$SHOAL_ATTEMPT\"";

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* A text in double quotes, as YAML has it. */
static void write_text(FILE *out, const char *text, size_t bytes)
{
    char *copy = strndup(text, bytes);
    char visible[1024] = "";
    if (copy != NULL) {
        (void)visible_text(visible, sizeof visible, copy);
    }
    free(copy);
    (void)fputc('"', out);
    for (const char *c = visible; *c != '\0'; c++) {
        (void)fprintf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    }
    (void)fputc('"', out);
}

static bool is_number(const char *text)
{
    char *end;
    (void)strtod(text, &end);
    return text[0] != '\0' && *end == '\0' && text[strspn(text, "+-0123456789.eE")] == '\0';
}

void import_put_hparam(struct import_run *run, const char *name, size_t name_bytes, const char *value,
                       size_t value_bytes)
{
    char copy[64];
    size_t bytes;
    struct import_hparam *more = realloc(run->hparams, (run->hparam_count + 1) * sizeof *more);
    run->hparams = more != NULL ? more : run->hparams;
    if (more == NULL || name_bytes == 0) {
        return;
    }
    struct import_hparam *hparam = &more[run->hparam_count];
    *hparam = (struct import_hparam){.name = strndup(name, name_bytes)};
    FILE *out = open_memstream(&hparam->value, &bytes);
    if (out == NULL) {
        free(hparam->name);
        return;
    }
    (void)snprintf(copy, sizeof copy, "%.*s", value_bytes < sizeof copy ? (int)value_bytes : 0, value);
    if (is_number(copy) || strcmp(copy, "true") == 0 || strcmp(copy, "false") == 0) {
        (void)fputs(copy, out);
    } else {
        write_text(out, value, value_bytes);
    }
    if (fclose(out) == 0 && hparam->name != NULL) {
        run->hparam_count++;
    } else {
        free(hparam->name);
        free(hparam->value);
    }
}

static int by_hparam(const void *a, const void *b)
{
    return strcmp(((const struct import_hparam *)a)->name, ((const struct import_hparam *)b)->name);
}

#define LEVELS_MAX 8

/* Whether a name with dots can be nested maps. `before`: the name before it in their order. */
static bool is_nested(const char *name, const char *before)
{
    size_t levels = 1, bytes = strlen(before);
    for (const char *c = name; *c != '\0'; c++) {
        levels += *c == '.';
    }
    bool is_below =
        bytes > 0 && strncmp(name, before, bytes) == 0 && name[bytes] == '.'; /* that one has a value of its own */
    return levels <= LEVELS_MAX && !is_below && name[0] != '.' && name[strlen(name) - 1] != '.' &&
           strstr(name, "..") == NULL;
}

/* Bytes of the levels that both names are in, with the dot behind them. */
static size_t levels_together(const char *a, const char *b)
{
    size_t together = 0;
    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++) {
        together = a[i] == '.' ? i + 1 : together;
    }
    return together;
}

static void indent(FILE *out, const char *name, size_t bytes)
{
    (void)fputs("  ", out);
    for (size_t i = 0; i < bytes; i++) {
        (void)fputs(name[i] == '.' ? "  " : "", out);
    }
}

/* Dots in names, as TensorBoard shows nested maps, become nested maps again. Of two with one name the first counts. */
static void write_hparams(struct import_run *run, FILE *out)
{
    const char *before = "", *nested = "";
    qsort(run->hparams, run->hparam_count, sizeof *run->hparams, by_hparam);
    for (size_t i = 0; i < run->hparam_count; i++) {
        char *name = run->hparams[i].name;
        if (strcmp(name, before) == 0) {
            continue;
        }
        bool is_one = !is_nested(name, before);
        before = name;
        if (is_one) { /* a name on the outer level ends the maps before it */
            char *flat = strdup(name);
            for (char *c = flat; c != NULL && *c != '\0'; c++) {
                *c = *c == '.' ? '_' : *c;
            }
            (void)fputs("  ", out);
            write_text(out, flat != NULL ? flat : name, strlen(name));
            (void)fprintf(out, ": %s\n", run->hparams[i].value);
            free(flat);
            nested = "";
            continue;
        }
        size_t at = levels_together(name, nested);
        for (const char *dot = strchr(name + at, '.'); dot != NULL; dot = strchr(name + at, '.')) {
            indent(out, name, at);
            write_text(out, name + at, (size_t)(dot - name) - at);
            (void)fputs(":\n", out);
            at = (size_t)(dot - name) + 1;
        }
        indent(out, name, at);
        write_text(out, name + at, strlen(name + at));
        (void)fprintf(out, ": %s\n", run->hparams[i].value);
        nested = name;
    }
}

void import_note_tag(struct import_run *run, const char *tag, size_t bytes)
{
    static const char group[] = "validation/";
    bool is_of_validation = bytes > sizeof group - 1 && strncmp(tag, group, sizeof group - 1) == 0;
    if (run->metric[0] != '\0' && (run->is_of_validation || !is_of_validation)) {
        return;
    }
    const char *slash = memchr(tag, '/', bytes);
    const char *name = slash != NULL ? slash + 1 : tag;
    size_t name_bytes = bytes - (size_t)(name - tag);
    if (name_bytes > 0 && name_bytes < sizeof run->metric) {
        (void)snprintf(run->metric, sizeof run->metric, "%.*s", (int)name_bytes, name);
        run->is_of_validation = is_of_validation;
    }
}

/* ---- one run --------------------------------------------------------------------------------------------------- */

struct import {
    struct cli *cli;
    const char *kind;          /* "tfevents" or "mlruns" */
    const char *name, *metric; /* --name, --metric; or NULL */
    import_reader *read;
    char directory[PATH_MAX];
    uint32_t done, left_out;
};

static char *write_config(const struct import *import, struct import_run *run, size_t *bytes)
{
    char *text = NULL;
    const char *name = import->name != NULL ? import->name : run->name;
    const char *metric = import->metric != NULL ? import->metric : run->metric[0] != '\0' ? run->metric : METRIC;
    char description[256];
    FILE *out = open_memstream(&text, bytes);
    if (out == NULL) {
        return NULL;
    }
    (void)snprintf(description, sizeof description, "imported from %.230s", run->from);
    (void)fputs("name: ", out);
    write_text(out, name, strlen(name));
    (void)fputs("\ndescription: ", out);
    write_text(out, description, strlen(description));
    (void)fprintf(out, "\nlabels: [imported, %s]\nentrypoint: ", import->kind);
    char line[sizeof program + 16];
    (void)snprintf(line, sizeof line, "%s%s", program, run->has_failed ? "; exit 1" : "");
    write_text(out, line, strlen(line));
    (void)fputs("\nsearcher:\n  name: single\n  metric: ", out);
    write_text(out, metric, strlen(metric));
    (void)fputs("\ntensorboard: read\nmax_restarts: ", out);
    (void)fputs(run->has_failed ? "0\n" : "2\n", out);
    if (run->hparam_count > 0) {
        (void)fputs("hyperparameters:\n", out);
        write_hparams(run, out);
    }
    if (fclose(out) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

static int submit(const struct import *import, struct import_run *run, const char *context)
{
    struct submission submission;
    struct client client;
    int code = submission_begin(import->cli, &submission);
    submission.file = run->from;
    submission.text = code == CLI_DONE ? write_config(import, run, &submission.text_bytes) : NULL;
    if (code == CLI_DONE && submission.text == NULL) {
        code = cli_fail(import->cli, CLI_REFUSED, "no memory is left");
    }
    code = code == CLI_DONE ? submission_check(import->cli, &submission) : code;
    code = code == CLI_DONE ? submission_pack(import->cli, context, &submission) : code;
    if (code == CLI_DONE) {
        code = submission_deliver(import->cli, &submission, import->cli->out, &client);
        client_close(&client);
    }
    submission_free(&submission);
    return code;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    (void)remove(path);
    return 0;
}

static int import_one(struct import *import, const char *directory, const char *below)
{
    char events[PATH_MAX + 16];
    const char *tmpdir = import->cli->tmpdir != NULL && import->cli->tmpdir[0] == '/' ? import->cli->tmpdir : "/tmp";
    struct import_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return cli_fail(import->cli, CLI_REFUSED, "no memory is left");
    }
    (void)snprintf(run->from, sizeof run->from, "%s", directory);
    (void)snprintf(run->name, sizeof run->name, "%.127s", below);
    run->wants_hparams = true;
    int code = CLI_DONE;
    if (snprintf(import->directory, sizeof import->directory, "%s/" TEMPORARY, tmpdir) >=
            (int)sizeof import->directory ||
        mkdtemp(import->directory) == NULL) {
        code = cli_fail(import->cli, CLI_REFUSED, "a directory in %.200s cannot be made: %s", tmpdir, strerror(errno));
    } else {
        (void)snprintf(events, sizeof events, "%s/events", import->directory);
        code = mkdir(events, 0755) == 0
                   ? import->read(import->cli, run, events)
                   : cli_fail(import->cli, CLI_REFUSED, "%.200s cannot be made: %s", events, strerror(errno));
        for (char *c = run->name; *c != '\0'; c++) { /* in a name it would be a trial's */
            *c = *c == '/' ? '-' : *c;
        }
        if (code == CLI_DONE && run->points == 0) {
            cli_warn(import->cli, "%.200s has no scalar, or was deleted, and is left out", directory);
            import->left_out++;
        } else if (code == CLI_DONE) {
            code = submit(import, run, import->directory);
            import->done += code == CLI_DONE;
        }
        (void)nftw(import->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    for (size_t i = 0; i < run->hparam_count; i++) {
        free(run->hparams[i].name);
        free(run->hparams[i].value);
    }
    free(run->hparams);
    free(run);
    return code;
}

/* ---- all runs -------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the directories in a directory, sorted; the caller frees each and the list. */
static char **list_directories(const char *directory, size_t *count)
{
    DIR *opened = opendir(directory);
    char **names = NULL;
    *count = 0;
    for (struct dirent *entry = opened != NULL ? readdir(opened) : NULL; entry != NULL; entry = readdir(opened)) {
        char path[PATH_MAX];
        struct stat status;
        bool is_hidden = entry->d_name[0] == '.'; /* .trash of MLflow, too */
        if (is_hidden || snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >= (int)sizeof path ||
            lstat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
            continue;
        }
        char **more = realloc(names, (*count + 1) * sizeof *names);
        names = more != NULL ? more : names;
        if (more != NULL && (names[*count] = strdup(entry->d_name)) != NULL) {
            ++*count;
        }
    }
    if (opened != NULL) {
        (void)closedir(opened);
    }
    if (names != NULL) {
        qsort(names, *count, sizeof *names, by_name);
    }
    return names;
}

static int walk(struct import *import, import_finder *is_run, const char *directory, const char *below, uint32_t depth)
{
    size_t count;
    int code = CLI_DONE;
    if (is_run(import->cli, directory)) {
        if (import->done + import->left_out >= IMPORT_RUNS_MAX) {
            return cli_fail(import->cli, CLI_REFUSED,
                            "there are more than %d runs; import directories below, one by one", IMPORT_RUNS_MAX);
        }
        return import_one(import, directory, below);
    }
    char **names = list_directories(directory, &count);
    for (size_t i = 0; i < count; i++) {
        char path[PATH_MAX], name[PATH_MAX];
        bool fits = snprintf(path, sizeof path, "%s/%s", directory, names[i]) < (int)sizeof path &&
                    snprintf(name, sizeof name, "%s%s%s", depth > 0 ? below : "", depth > 0 ? "/" : "", names[i]) <
                        (int)sizeof name;
        if (code == CLI_DONE && fits && depth < WALK_DEPTH_MAX) {
            code = walk(import, is_run, path, name, depth + 1);
        }
        free(names[i]);
    }
    free(names);
    return code;
}

static int import_all(struct cli *cli, const struct arguments *arguments, const char *kind, import_reader *read,
                      import_finder *is_run)
{
    struct import import = {.cli = cli,
                            .kind = kind,
                            .read = read,
                            .name = options_value(arguments, "name"),
                            .metric = options_value(arguments, "metric")};
    char directory[PATH_MAX];
    if (realpath(arguments->operands[0], directory) == NULL) {
        return cli_fail(cli, CLI_NO_SUCH_THING, "there is no directory %.200s: %s", arguments->operands[0],
                        strerror(errno));
    }
    const char *slash = strrchr(directory, '/');
    int code = walk(&import, is_run, directory, slash != NULL && slash[1] != '\0' ? slash + 1 : "runs", 0);
    if (code == CLI_DONE && import.done + import.left_out == 0) {
        code = cli_fail(cli, CLI_NO_SUCH_THING, "%.200s has no run of %s", directory, kind);
    }
    return code;
}

int command_import_tfevents(struct cli *cli, const struct arguments *arguments)
{
    return import_all(cli, arguments, "tfevents", import_read_tfevents, import_is_tfevents);
}

int command_import_mlruns(struct cli *cli, const struct arguments *arguments)
{
    return import_all(cli, arguments, "mlruns", import_read_mlruns, import_is_mlrun);
}
