/* Reads runs of MLflow's file store: mlruns/EXPERIMENT/RUN with meta.yaml, params/NAME (the value), tags/NAME and
 * metrics/NAME (lines "WALL_MS VALUE STEP"). Metrics become an event file. */

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/tfevents.h"
#include "tools/shoal/import.h"

#define VALUE_BYTES 4096
#define EVENT_BYTES 1024
#define DEPTH_MAX 4 /* names with slashes are files in directories */
#define FINISHED 3  /* RunStatus */

bool import_is_mlrun(struct cli *cli, const char *directory)
{
    (void)cli;
    char path[PATH_MAX];
    struct stat status;
    bool has_meta =
        snprintf(path, sizeof path, "%s/meta.yaml", directory) < (int)sizeof path && stat(path, &status) == 0;
    return has_meta && snprintf(path, sizeof path, "%s/metrics", directory) < (int)sizeof path &&
           stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Reads a small file, without its last newline. False: it cannot be read. */
static bool read_text(const char *path, char out[VALUE_BYTES], size_t *bytes)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    *bytes = fread(out, 1, VALUE_BYTES - 1, file);
    (void)fclose(file);
    *bytes -= *bytes > 0 && out[*bytes - 1] == '\n';
    out[*bytes] = '\0';
    return true;
}

/* Whether meta.yaml has the line "KEY: VALUE"; the value goes to `out`. */
static bool find_meta(const char *text, const char *key, char *out, size_t size)
{
    size_t key_bytes = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, key, key_bytes) != 0 || strncmp(line + key_bytes, ": ", 2) != 0) {
            continue;
        }
        const char *value = line + key_bytes + 2;
        size_t bytes = strcspn(value, "\n");
        bool is_quoted = bytes > 1 && (value[0] == '\'' || value[0] == '"') && value[bytes - 1] == value[0];
        (void)snprintf(out, size, "%.*s", (int)(bytes - 2 * is_quoted), value + is_quoted);
        return true;
    }
    return false;
}

typedef int entry_fn(struct cli *cli, struct import_run *run, const char *path, const char *name, FILE *out);

/* Calls for each file below `directory`; its name is the path from there. */
static int each_file(struct cli *cli, struct import_run *run, const char *directory, const char *below, uint32_t depth,
                     entry_fn *take, FILE *out)
{
    DIR *opened = opendir(directory);
    int code = CLI_DONE;
    for (struct dirent *entry = opened != NULL ? readdir(opened) : NULL; entry != NULL && code == CLI_DONE;
         entry = readdir(opened)) {
        char path[PATH_MAX], name[PATH_MAX];
        struct stat status;
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >= (int)sizeof path ||
            snprintf(name, sizeof name, "%s%s%s", below, below[0] != '\0' ? "/" : "", entry->d_name) >=
                (int)sizeof name ||
            lstat(path, &status) != 0) {
            continue;
        }
        if (S_ISREG(status.st_mode)) {
            code = take(cli, run, path, name, out);
        } else if (S_ISDIR(status.st_mode) && depth < DEPTH_MAX) {
            code = each_file(cli, run, path, name, depth + 1, take, out);
        }
    }
    if (opened != NULL) {
        (void)closedir(opened);
    }
    return code;
}

static int take_param(struct cli *cli, struct import_run *run, const char *path, const char *name, FILE *out)
{
    char text[VALUE_BYTES];
    size_t bytes;
    (void)cli;
    (void)out;
    if (read_text(path, text, &bytes)) {
        import_put_hparam(run, name, strlen(name), text, bytes);
    }
    return CLI_DONE;
}

static bool write_point(FILE *out, const char *tag, double wall_s, uint64_t step, double value)
{
    uint8_t bytes[EVENT_BYTES];
    struct protobuf_writer writer;
    protobuf_writer_init(&writer, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&writer, wall_s, step), scalars = tfevents_scalars_begin(&writer);
    tfevents_put_scalar(&writer, tag, strlen(tag), value);
    tfevents_scalars_end(&writer, scalars);
    tfevents_end(&writer, mark);
    return writer.failed ||
           fwrite(bytes, 1, writer.used_bytes, out) == writer.used_bytes; /* a name that is too long is left out */
}

static int take_metric(struct cli *cli, struct import_run *run, const char *path, const char *name, FILE *out)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool is_written = true;
    import_note_tag(run, name, strlen(name));
    while (file != NULL && is_written && fgets(line, sizeof line, file) != NULL) {
        char *end, *number = line;
        double wall_ms = strtod(number, &end);
        if (end == number) {
            continue;
        }
        number = end;
        double value = strtod(number, &end);
        if (end == number) {
            continue;
        }
        long long step = strtoll(end, NULL, 10); /* the first versions wrote none */
        is_written = write_point(out, name, wall_ms / 1000, step > 0 ? (uint64_t)step : 0, value);
        run->points++;
    }
    if (file == NULL) {
        return cli_fail(cli, CLI_REFUSED, "%.200s cannot be read: %s", path, strerror(errno));
    }
    (void)fclose(file);
    return is_written ? CLI_DONE
                      : cli_fail(cli, CLI_REFUSED, "the points of %.200s cannot be written: %s", path, strerror(errno));
}

static FILE *begin_events(const char *to)
{
    char path[PATH_MAX];
    uint8_t bytes[EVENT_BYTES];
    struct protobuf_writer writer;
    protobuf_writer_init(&writer, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&writer, 0, 0);
    tfevents_put_version(&writer, "shoal import mlruns");
    tfevents_end(&writer, mark);
    FILE *out = snprintf(path, sizeof path, "%s/events.out.tfevents.0000000000.mlruns", to) < (int)sizeof path
                    ? fopen(path, "wxe")
                    : NULL;
    if (out != NULL && fwrite(bytes, 1, writer.used_bytes, out) != writer.used_bytes) {
        (void)fclose(out);
        out = NULL;
    }
    return out;
}

int import_read_mlruns(struct cli *cli, struct import_run *run, const char *to)
{
    char path[PATH_MAX], text[VALUE_BYTES], status[16] = "";
    size_t bytes;
    FILE *out = begin_events(to);
    if (out == NULL) {
        return cli_fail(cli, CLI_REFUSED, "an event file in %.200s cannot be made: %s", to, strerror(errno));
    }
    int code = CLI_DONE;
    if (snprintf(path, sizeof path, "%s/meta.yaml", run->from) < (int)sizeof path && read_text(path, text, &bytes)) {
        (void)find_meta(text, "run_name", run->name, sizeof run->name);
        if (find_meta(text, "lifecycle_stage", status, sizeof status) && strcmp(status, "deleted") == 0) {
            (void)fclose(out);
            return CLI_DONE;
        }
        run->has_failed = find_meta(text, "status", status, sizeof status) && atoi(status) != FINISHED;
    }
    if (snprintf(path, sizeof path, "%s/tags/mlflow.runName", run->from) < (int)sizeof path &&
        read_text(path, text, &bytes) && bytes > 0) {
        (void)snprintf(run->name, sizeof run->name, "%.127s", text);
    }
    if (snprintf(path, sizeof path, "%s/params", run->from) < (int)sizeof path) {
        code = each_file(cli, run, path, "", 0, take_param, NULL);
    }
    if (code == CLI_DONE && snprintf(path, sizeof path, "%s/metrics", run->from) < (int)sizeof path) {
        code = each_file(cli, run, path, "", 0, take_metric, out);
    }
    if (fclose(out) != 0 && code == CLI_DONE) {
        code = cli_fail(cli, CLI_REFUSED, "the points of %.200s cannot be written: %s", run->from, strerror(errno));
    }
    return code;
}
