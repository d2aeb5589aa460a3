#include "tools/shoal/event_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "store/tfevents.h"

#define PREFIX "events.out.tfevents."
#define STAMP_DIGITS 10
#define STAMP_MAX 9999999999u
#define START_TEXT "attempt %llu generation %llu"

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The digits in the name of an event file; 0: it is none, or has others. */
static uint64_t stamp_of(const char *name)
{
    size_t prefix = sizeof PREFIX - 1;
    if (strncmp(name, PREFIX, prefix) != 0 || strspn(name + prefix, "0123456789") != STAMP_DIGITS) {
        return 0;
    }
    return strtoull(name + prefix, NULL, 10);
}

/* "DIR/events.out.tfevents.1764207123.elm". */
static void file_path(const struct event_dir *dir, char out[PATH_MAX])
{
    char host[64] = "";
    (void)gethostname(host, sizeof host - 1);
    for (char *at = host; *at != '\0'; at++) {
        bool is_plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
                        strchr("-.", *at) != NULL;
        *at = (char)(is_plain ? *at : '-');
    }
    (void)snprintf(out, PATH_MAX, "%s/" PREFIX "%010llu.%s", dir->path, (unsigned long long)dir->stamp,
                   host[0] != '\0' ? host : "localhost");
}

/* ---- reading our earlier files ----------------------------------------------------------------------------------- */

/* A file that is read, and its present message. */
struct reading {
    FILE *file;
    uint8_t *message;
    size_t count, capacity;
};

/* Reads the next whole record. False: the end, or what follows is cut short or damaged; ERR_MEMORY is that, too. */
static bool next_message(struct reading *reading)
{
    uint8_t head[TFEVENTS_HEAD_BYTES], foot[TFEVENTS_FOOT_BYTES];
    if (fread(head, 1, sizeof head, reading->file) != sizeof head || tfevents_read_head(head, &reading->count) != 0) {
        return false;
    }
    if (reading->count > reading->capacity) {
        uint8_t *bigger = realloc(reading->message, reading->count);
        if (bigger == NULL) {
            return false;
        }
        reading->message = bigger;
        reading->capacity = reading->count;
    }
    return fread(reading->message, 1, reading->count, reading->file) == reading->count &&
           fread(foot, 1, sizeof foot, reading->file) == sizeof foot &&
           tfevents_check_foot(reading->message, reading->count, foot) == 0;
}

static bool is_tag(const struct tfevents_value *value, const char *tag)
{
    return value->tag_bytes == strlen(tag) && memcmp(value->tag, tag, value->tag_bytes) == 0;
}

/* Learns from a record what need not be written any more. */
static void learn(struct event_dir *dir, const struct reading *reading, const struct tfevents_event *event)
{
    char text[128];
    unsigned long long attempt, generation;
    struct protobuf_reader values = event->summary;
    struct tfevents_value value;
    bool has_text = event->is_start && event->start_text_bytes > 0;
    if (has_text && bytes_copy_text_n(text, sizeof text, (const char *)event->start_text, event->start_text_bytes) &&
        sscanf(text, START_TEXT, &attempt, &generation) == 2) {
        dir->attempt = attempt;
        dir->generation = generation;
    }
    if (event->summary.count == 0 || !tfevents_next_value(&values, &value)) {
        return;
    }
    if (value.has_scalar) {
        (void)hash_set_add(&dir->seen, bytes_hash64(reading->message, reading->count, 0));
    }
    dir->has_experiment |= is_tag(&value, TFEVENTS_EXPERIMENT_TAG);
    dir->has_session |= is_tag(&value, TFEVENTS_SESSION_START_TAG);
    dir->has_end |= is_tag(&value, TFEVENTS_SESSION_END_TAG);
}

/* Reads one of our files. False: another program's. (A file without a whole first record has a writer that was killed
 * early.) */
static bool read_file(struct event_dir *dir, const char *name)
{
    char path[PATH_MAX];
    struct tfevents_event event;
    (void)snprintf(path, sizeof path, "%s/%s", dir->path, name);
    struct reading reading = {.file = fopen(path, "re")};
    if (reading.file == NULL) {
        return false;
    }
    bool has_first = next_message(&reading);
    bool is_ours = has_first && tfevents_read_event(reading.message, reading.count, &event) == 0 && event.has_version &&
                   event.source_bytes == strlen(dir->source) && memcmp(event.source, dir->source, event.source_bytes) == 0;
    dir->is_ours |= is_ours;
    while (is_ours && next_message(&reading) && tfevents_read_event(reading.message, reading.count, &event) == 0) {
        learn(dir, &reading, &event);
    }
    free(reading.message);
    (void)fclose(reading.file);
    return is_ours || !has_first;
}

static int is_shown(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int read_directory(struct cli *cli, struct event_dir *dir)
{
    struct dirent **entries;
    int count = scandir(dir->path, &entries, is_shown, alphasort);
    if (count < 0) {
        return cli_fail(cli, CLI_REFUSED, "the directory %.200s cannot be read: %s", dir->path, strerror(errno));
    }
    bool has_others = false;
    for (int i = 0; i < count; i++) {
        uint64_t stamp = stamp_of(entries[i]->d_name);
        has_others |= stamp == 0 || !read_file(dir, entries[i]->d_name);
        dir->stamp = stamp > dir->stamp ? stamp : dir->stamp;
        free(entries[i]);
    }
    free(entries);
    dir->is_foreign = has_others && !dir->is_ours;
    return CLI_DONE;
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */

int event_dir_open(struct cli *cli, const char *path, const char *source, bool remembers, struct event_dir *out)
{
    *out = (struct event_dir){.path = strdup(path), .fd = -1, .remembers = remembers};
    (void)snprintf(out->source, sizeof out->source, "%s", source);
    if (out->path == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    int code = CLI_DONE;
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        code = cli_fail(cli, CLI_REFUSED, "the directory %.200s cannot be made: %s", path, strerror(errno));
    }
    code = code == CLI_DONE ? read_directory(cli, out) : code;
    if (code != CLI_DONE) {
        event_dir_close(out);
    }
    return code;
}

void event_dir_close(struct event_dir *dir)
{
    if (dir->path != NULL) {
        event_dir_rest(dir);
    }
    free(dir->path);
    hash_set_free(&dir->seen);
    *dir = (struct event_dir){.fd = -1};
}

void event_dir_rest(struct event_dir *dir)
{
    if (dir->fd >= 0) {
        (void)close(dir->fd);
    }
    dir->fd = -1;
}

static int fail_file(struct cli *cli, const struct event_dir *dir, const char *what)
{
    char path[PATH_MAX];
    int reason = errno;
    file_path(dir, path);
    return cli_fail(cli, CLI_REFUSED, "the event file %.300s cannot be %s: %s", path, what, strerror(reason));
}

int event_dir_begin(struct cli *cli, struct event_dir *dir, double wall_s)
{
    uint8_t bytes[256];
    struct protobuf_writer record;
    uint64_t wanted = wall_s >= 1 && wall_s < STAMP_MAX ? (uint64_t)wall_s : 1;
    event_dir_rest(dir);
    dir->stamp = wanted > dir->stamp ? wanted : dir->stamp + 1;
    do {
        char path[PATH_MAX];
        file_path(dir, path);
        dir->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    } while (dir->fd < 0 && errno == EEXIST && dir->stamp++ < STAMP_MAX);
    if (dir->fd < 0) {
        return fail_file(cli, dir, "made");
    }
    dir->has_file = true;
    protobuf_writer_init(&record, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&record, wall_s, 0);
    tfevents_put_version(&record, dir->source);
    tfevents_end(&record, mark);
    dir->is_ours = true;
    return event_dir_write(cli, dir, &record);
}

int event_dir_write(struct cli *cli, struct event_dir *dir, const struct protobuf_writer *record)
{
    if (dir->fd < 0) {
        char path[PATH_MAX];
        file_path(dir, path);
        dir->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    }
    if (dir->fd < 0) {
        return fail_file(cli, dir, "opened");
    }
    ssize_t written = write(dir->fd, record->bytes, record->used_bytes);
    if (written != (ssize_t)record->used_bytes) {
        errno = written >= 0 ? ENOSPC : errno; /* a write to a file is cut short only where the disk is full */
        return fail_file(cli, dir, "written");
    }
    return CLI_DONE;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

bool event_dir_has(const struct event_dir *dir, uint64_t hash)
{
    return hash_set_has(&dir->seen, hash);
}

uint64_t event_dir_hash(const struct protobuf_writer *record)
{
    return bytes_hash64(record->bytes + TFEVENTS_HEAD_BYTES, record->used_bytes - TFEVENTS_HEAD_BYTES - TFEVENTS_FOOT_BYTES,
                        0);
}

int event_dir_write_point(struct cli *cli, struct event_dir *dir, const struct protobuf_writer *record, uint64_t hash)
{
    int code = event_dir_write(cli, dir, record);
    if (code == CLI_DONE && dir->remembers && hash_set_add(&dir->seen, hash) < 0) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    return code;
}

int event_dir_start(struct cli *cli, struct event_dir *dir, uint64_t attempt, uint64_t generation, uint64_t step,
                    double wall_s)
{
    uint8_t bytes[256];
    char text[128];
    struct protobuf_writer record;
    (void)snprintf(text, sizeof text, START_TEXT, (unsigned long long)attempt, (unsigned long long)generation);
    protobuf_writer_init(&record, bytes, sizeof bytes);
    size_t mark = tfevents_begin(&record, wall_s, step);
    tfevents_put_start(&record, text);
    tfevents_end(&record, mark);
    dir->attempt = attempt;
    dir->generation = generation;
    return event_dir_write(cli, dir, &record);
}
