/* Reads event files as SummaryWriter and others leave them: a directory with such files is a run, with all that is
 * below it. */

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/daemon/wire/event_points.h"
#include "store/tfevents.h"
#include "tools/shoal/import.h"

#define DEPTH_MAX 8
#define POINTS_MAX 256
#define COPY_BYTES (64u << 10)

static bool is_event_file(const char *name)
{
    return strstr(name, "tfevents") != NULL;
}

/* ---- what the files say ---------------------------------------------------------------------------------------- */

static void take_hparams(struct import_run *run, const uint8_t *message, size_t bytes)
{
    struct tfevents_event event;
    struct tfevents_value value;
    struct tfevents_hparam hparam;
    struct protobuf_reader hparams;
    if (tfevents_read_event(message, bytes, &event) != 0 || event.summary.count == 0) {
        return;
    }
    while (tfevents_next_value(&event.summary, &value)) {
        if (value.has_scalar) {
            import_note_tag(run, (const char *)value.tag, value.tag_bytes);
        }
        if (!tfevents_session_start(&value, &hparams)) {
            continue;
        }
        while (run->wants_hparams && tfevents_next_hparam(&hparams, &hparam)) {
            char text[32];
            const char *given = (const char *)hparam.text;
            size_t count = hparam.text_bytes;
            if (hparam.type != TFEVENTS_TEXT) {
                bool is_truth = hparam.type == TFEVENTS_BOOLEAN;
                (void)snprintf(text, sizeof text, "%.17g", hparam.number);
                given = !is_truth ? text : hparam.number != 0 ? "true" : "false";
                count = strlen(given);
            }
            import_put_hparam(run, (const char *)hparam.name, hparam.name_bytes, given != NULL ? given : "", count);
        }
    }
}

/* Reads a file up to its end, or to what is damaged. */
static void look_into(struct cli *cli, struct import_run *run, const char *path)
{
    size_t room = 2 * (size_t)EVENT_MESSAGE_BYTES_MAX, used = 0;
    static struct event_point points[POINTS_MAX];
    uint8_t *bytes = malloc(room);
    FILE *file = bytes != NULL ? fopen(path, "re") : NULL;
    uint64_t offset = 0;
    bool goes_on = file != NULL;
    while (goes_on) {
        used += fread(bytes + used, 1, room - used, file);
        size_t at = 0;
        enum event_take take = EVENT_WAITS;
        while (at < used) {
            const uint8_t *message = NULL;
            size_t message_bytes = 0;
            uint64_t whole = 0;
            uint32_t dropped = 0;
            take = event_take(bytes + at, used - at, &message, &message_bytes, &whole);
            if (take != EVENT_TAKEN) {
                if (take == EVENT_LONG && fseeko(file, (off_t)(offset + at + whole), SEEK_SET) == 0) {
                    offset += at + whole;
                    used = at = 0;
                }
                break;
            }
            run->points += event_points(message, message_bytes, points, POINTS_MAX, &dropped);
            take_hparams(run, message, message_bytes);
            at += (size_t)whole;
        }
        if (take == EVENT_BROKEN && run->wants_hparams) {
            cli_warn(cli, "%.200s is damaged at byte %llu (a checksum is wrong); what stands before is taken", path,
                     (unsigned long long)(offset + at));
        }
        memmove(bytes, bytes + at, used - at);
        used -= at;
        offset += at;
        goes_on = take != EVENT_BROKEN && (at > 0 || take == EVENT_LONG) && feof(file) == 0 && ferror(file) == 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(bytes);
}

/* A directory may have event files without any scalar, such as the columns of the page HPARAMS: its runs are below. */
bool import_is_tfevents(struct cli *cli, const char *directory)
{
    DIR *opened = opendir(directory);
    struct import_run *look = calloc(1, sizeof *look);
    for (struct dirent *entry = opened != NULL && look != NULL ? readdir(opened) : NULL;
         entry != NULL && look->points == 0; entry = readdir(opened)) {
        char path[PATH_MAX];
        if (is_event_file(entry->d_name) &&
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < (int)sizeof path) {
            look_into(cli, look, path);
        }
    }
    if (opened != NULL) {
        (void)closedir(opened);
    }
    bool is_run = look != NULL && look->points > 0;
    free(look);
    return is_run;
}

/* ---- copies ---------------------------------------------------------------------------------------------------- */

static int copy_file(struct cli *cli, const char *from, const char *to)
{
    static char bytes[COPY_BYTES];
    FILE *in = fopen(from, "re"), *out = fopen(to, "wxe");
    bool is_copied = in != NULL && out != NULL;
    size_t count;
    while (is_copied && (count = fread(bytes, 1, sizeof bytes, in)) > 0) {
        is_copied = fwrite(bytes, 1, count, out) == count;
    }
    int reason = errno;
    is_copied = is_copied && ferror(in) == 0;
    if (in != NULL) {
        (void)fclose(in);
    }
    if (out != NULL && fclose(out) != 0) {
        reason = errno;
        is_copied = false;
    }
    return is_copied ? CLI_DONE
                     : cli_fail(cli, CLI_REFUSED, "%.200s cannot be copied to %.200s: %s", from, to, strerror(reason));
}

static int copy_all(struct cli *cli, struct import_run *run, const char *from, const char *to, uint32_t depth)
{
    DIR *directory = opendir(from);
    int code =
        directory != NULL ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "%.200s cannot be read: %s", from, strerror(errno));
    for (struct dirent *entry = directory != NULL ? readdir(directory) : NULL; entry != NULL && code == CLI_DONE;
         entry = readdir(directory)) {
        char source[PATH_MAX], target[PATH_MAX];
        struct stat status;
        bool is_self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (is_self || snprintf(source, sizeof source, "%s/%s", from, entry->d_name) >= (int)sizeof source ||
            snprintf(target, sizeof target, "%s/%s", to, entry->d_name) >= (int)sizeof target ||
            lstat(source, &status) != 0) {
            continue;
        }
        if (S_ISREG(status.st_mode) && is_event_file(entry->d_name)) {
            code = copy_file(cli, source, target);
            look_into(cli, run, source);
        } else if (S_ISDIR(status.st_mode) && depth < DEPTH_MAX) {
            code = mkdir(target, 0755) == 0
                       ? copy_all(cli, run, source, target, depth + 1)
                       : cli_fail(cli, CLI_REFUSED, "%.200s cannot be made: %s", target, strerror(errno));
            (void)rmdir(target); /* if nothing was in it */
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return code;
}

int import_read_tfevents(struct cli *cli, struct import_run *run, const char *to)
{
    return copy_all(cli, run, run->from, to, 0);
}
