#include "node/daemon/ground/journal.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

#define NAME_BYTES 24
#define LISTED_MAX 1024 /* files that one look at the directory takes */
#define DAY_S 86400
#define ABOUT_BYTES (EVENT_KIND_BYTES + 128)

static void file_name(char out[NAME_BYTES], uint64_t file)
{
    (void)snprintf(out, NAME_BYTES, "%" PRIu64, file);
}

static bool read_number(const char **at, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    const char *p = *at;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (value > max / 10) {
            return false;
        }
        value = 10 * value + (uint64_t)(*p - '0');
    }
    bool is_number = p != *at && value <= max;
    *at = p;
    *out = value;
    return is_number;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of the files, ascending. */
static size_t list(const struct journal *journal, uint64_t out[LISTED_MAX])
{
    int fd = !journal->is_open ? -1 : openat(journal->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    size_t count = 0;
    struct dirent *entry;
    if (directory == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return 0;
    }
    while (count < LISTED_MAX && (entry = readdir(directory)) != NULL) {
        const char *at = entry->d_name;
        uint64_t number;
        if (read_number(&at, JOURNAL_SEQ_MAX, &number) && *at == '\0' && entry->d_name[0] != '0') {
            out[count++] = number;
        }
    }
    (void)closedir(directory);
    qsort(out, count, sizeof out[0], by_number);
    return count;
}

static void drop_old(const struct journal *journal, uint64_t wall_ms)
{
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    for (size_t i = 0; i < count; i++) {
        char name[NAME_BYTES];
        struct stat status;
        file_name(name, files[i]);
        bool is_old = files[i] != journal->file && fstatat(journal->directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                      (uint64_t)status.st_mtime + (uint64_t)JOURNAL_DAYS * DAY_S < wall_ms / 1000;
        if (is_old || i + JOURNAL_FILES_MAX < count) {
            (void)unlinkat(journal->directory_fd, name, 0);
        }
    }
}

static void begin_file(struct journal *journal, uint64_t file)
{
    char name[NAME_BYTES];
    struct stat status;
    if (journal->fd >= 0) {
        (void)close(journal->fd);
    }
    file_name(name, file);
    journal->fd = openat(journal->directory_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    bool is_file = journal->fd >= 0 && fstat(journal->fd, &status) == 0 && S_ISREG(status.st_mode);
    if (journal->fd >= 0 && !is_file) {
        (void)close(journal->fd);
        journal->fd = -1;
    }
    journal->file = file;
    journal->bytes = is_file ? (uint64_t)status.st_size : 0;
}

static uint64_t read_next(const struct journal *journal)
{
    char text[NAME_BYTES] = "";
    const char *at = text;
    uint64_t next = 0;
    int fd = openat(journal->directory_fd, "next", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    return got > 0 && read_number(&at, JOURNAL_SEQ_MAX, &next) ? next : 0;
}

/* Numbers have as many digits each time, so that a full disk has room for the new one. */
void journal_reserve(struct journal *journal, uint64_t next, bool is_synced)
{
    char text[NAME_BYTES];
    if (!journal->is_open) {
        return;
    }
    int fd = openat(journal->directory_fd, "next", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    int bytes = snprintf(text, sizeof text, "%016" PRIu64 "\n", next);
    if (fd >= 0 && pwrite(fd, text, (size_t)bytes, 0) == bytes) {
        journal->next = next;
    }
    if (fd >= 0) {
        (void)(is_synced && fdatasync(fd) != 0);
        (void)close(fd);
    }
}

void journal_open(struct journal *journal, const char *dir, uint64_t wall_ms)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/events", dir);
    *journal = (struct journal){.directory_fd = -1, .fd = -1};
    if (length < 0 || (size_t)length >= sizeof path) {
        return;
    }
    (void)mkdir(path, 0700);
    journal->directory_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    journal->is_open = journal->directory_fd >= 0;
    if (!journal->is_open) {
        return;
    }
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    begin_file(journal, count == 0 ? 1 : files[count - 1]);
    journal->next = read_next(journal);
    if (journal->bytes > 0) { /* a line that a power cut has left unfinished ends here */
        journal->bytes += write(journal->fd, "\n", 1) == 1;
    }
    drop_old(journal, wall_ms);
}

void journal_close(struct journal *journal)
{
    if (journal->is_open && journal->fd >= 0) {
        (void)close(journal->fd);
    }
    if (journal->is_open) {
        (void)close(journal->directory_fd);
    }
    journal->is_open = false;
}

/* The word with an @. */
static void write_about(char *out, size_t size, const struct event_about *about)
{
    char hex[2 * NODE_ID_BYTES + 1];
    size_t used = (size_t)snprintf(out, size, "@%s", event_kind_name(about->kind));
    if (!experiment_id_is_none(about->experiment)) {
        bytes_to_hex(hex, about->experiment.bytes, EXPERIMENT_ID_BYTES);
        used += (size_t)snprintf(out + used, size - used, ",e=%s", hex);
    }
    if (about->has_trial) {
        used += (size_t)snprintf(out + used, size - used, ",t=%u", about->trial);
    }
    if (about->attempt != 0) {
        used += (size_t)snprintf(out + used, size - used, ",a=%u", about->attempt);
    }
    if (!node_id_is_none(about->node)) {
        bytes_to_hex(hex, about->node.bytes, NODE_ID_BYTES);
        used += (size_t)snprintf(out + used, size - used, ",n=%s", hex);
    }
    if (about->has_slot) {
        (void)snprintf(out + used, size - used, ",s=%u", about->slot);
    }
}

void journal_append(struct journal *journal, const struct journal_event *event)
{
    char line[JOURNAL_LINE_BYTES_MAX], about[ABOUT_BYTES];
    if (!journal->is_open) {
        return;
    }
    write_about(about, sizeof about, &event->about);
    int used = snprintf(line, sizeof line - 1, "%" PRIu64 " %" PRIu64 " %s %s", event->seq, event->wall_ms, about, event->text);
    size_t bytes = used < (int)sizeof line - 1 ? (size_t)used : sizeof line - 2;
    for (size_t i = 0; i < bytes; i++) {
        line[i] = (unsigned char)line[i] < 0x20 || line[i] == 0x7f ? '?' : line[i];
    }
    line[bytes++] = '\n';
    if (journal->fd < 0 || journal->bytes + bytes > JOURNAL_FILE_BYTES_MAX) {
        begin_file(journal, journal->file + 1);
        drop_old(journal, event->wall_ms);
    }
    ssize_t written = journal->fd < 0 ? -1 : write(journal->fd, line, bytes);
    journal->bytes += written > 0 ? (uint64_t)written : 0;
}

/* The first file from `file` on, 0 if there is none, and the last one. */
static uint64_t next_file(const struct journal *journal, uint64_t file, uint64_t *last)
{
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    *last = count > 0 ? files[count - 1] : 0;
    for (size_t i = 0; i < count; i++) {
        if (files[i] >= file) {
            return files[i];
        }
    }
    return 0;
}

/* Reads `KEY=VALUE`, up to `end`; one that is not known, or makes no sense, is passed over. */
static void read_fact(const char *text, const char *end, struct event_about *about)
{
    const char *value = text + 2;
    char hex[2 * NODE_ID_BYTES + 1] = "";
    uint64_t number = 0;
    if (end - text < 3 || text[1] != '=' || (size_t)(end - value) >= sizeof hex) {
        return;
    }
    memcpy(hex, value, (size_t)(end - value));
    bool is_number = read_number(&value, UINT32_MAX, &number) && value == end;
    switch (text[0]) {
    case 'e':
        (void)bytes_from_hex(about->experiment.bytes, EXPERIMENT_ID_BYTES, hex);
        break;
    case 'n':
        (void)bytes_from_hex(about->node.bytes, NODE_ID_BYTES, hex);
        break;
    case 't':
        about->has_trial = is_number;
        about->trial = (uint32_t)number;
        break;
    case 'a':
        about->attempt = is_number ? (uint32_t)number : 0;
        break;
    case 's':
        about->has_slot = is_number;
        about->slot = (uint32_t)number;
        break;
    default:
        break;
    }
}

/* Reads the word with an @ and the blank behind it, if they are there; returns what is behind them. */
static const char *read_about(const char *text, struct event_about *about)
{
    size_t bytes = strcspn(text, " ");
    *about = event_of_kind(EVENT_OTHER);
    if (text[0] != '@' || text[bytes] != ' ') {
        return text;
    }
    const char *end = text + bytes, *at = text + 1;
    size_t word = strcspn(at, ", ");
    enum event_kind kind = event_kind_of(at, word);
    about->kind = kind < EVENT_KIND_COUNT ? kind : EVENT_OTHER;
    for (at += word; at < end; at += strcspn(at, ", ")) {
        at++;
        read_fact(at, at + strcspn(at, ", "), about);
    }
    return end + 1;
}

static void take_line(const char *text, journal_line_fn *line, void *context)
{
    struct journal_event event;
    const char *at = text;
    if (read_number(&at, JOURNAL_SEQ_MAX, &event.seq) && *at++ == ' ' && read_number(&at, JOURNAL_SEQ_MAX, &event.wall_ms) &&
        *at++ == ' ' && event.seq > 0) {
        event.text = read_about(at, &event.about);
        line(context, &event);
    }
}

/* Takes the whole lines of a piece of a file; returns their bytes. */
static size_t take_lines(char *bytes, size_t count, journal_line_fn *line, void *context)
{
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n') {
            bytes[i] = '\0';
            take_line(bytes + from, line, context);
            from = i + 1;
        } else if ((unsigned char)bytes[i] < 0x20) {
            bytes[i] = '?';
        }
    }
    return from;
}

bool journal_read(const struct journal *journal, struct journal_place *place, size_t bytes_max, journal_line_fn *line,
                  void *context)
{
    uint64_t last, file = next_file(journal, place->file, &last);
    char *bytes = file == 0 ? NULL : malloc(bytes_max);
    if (bytes == NULL) {
        return false;
    }
    place->offset = file == place->file ? place->offset : 0;
    place->file = file;
    char name[NAME_BYTES];
    file_name(name, file);
    int fd = openat(journal->directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, bytes, bytes_max, (off_t)place->offset);
    if (fd >= 0) {
        (void)close(fd);
    }
    bool is_end = got < (ssize_t)bytes_max;
    if (got > 0) {
        size_t taken = take_lines(bytes, (size_t)got, line, context);
        bool goes_on = is_end && file == last; /* the last line may be on its way there */
        bool is_passed_over = !goes_on && (is_end || taken == 0);
        place->offset += is_passed_over ? (size_t)got : taken;
    }
    free(bytes);
    if (is_end && file < last) {
        *place = (struct journal_place){.file = file + 1};
    }
    return !is_end || file < last;
}

static void note_seq(void *context, const struct journal_event *event)
{
    uint64_t *seq = context;
    *seq = *seq == 0 ? event->seq : *seq;
}

/* The number of the first readable line of a file's begin; 0: there is none. */
static uint64_t first_seq(const struct journal *journal, uint64_t file)
{
    char name[NAME_BYTES], bytes[8 * JOURNAL_LINE_BYTES_MAX];
    uint64_t seq = 0;
    file_name(name, file);
    int fd = openat(journal->directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, bytes, sizeof bytes, 0);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (got > 0) {
        (void)take_lines(bytes, (size_t)got, note_seq, &seq);
    }
    return seq;
}

struct journal_place journal_find(const struct journal *journal, uint64_t seq, uint64_t *oldest)
{
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    struct journal_place place = {0};
    *oldest = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t first = first_seq(journal, files[i]);
        *oldest = *oldest == 0 ? first : *oldest;
        if (first != 0 && first <= seq) {
            place.file = files[i];
        }
    }
    return place;
}

/* The begin of the first line that begins at or behind the offset, if that is near. */
static uint64_t line_begin(const struct journal *journal, const char *name, uint64_t offset)
{
    char bytes[JOURNAL_LINE_BYTES_MAX + 1];
    int fd = offset == 0 ? -1 : openat(journal->directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t got = fd < 0 ? -1 : pread(fd, bytes, sizeof bytes, (off_t)offset - 1);
    const char *end = got > 0 ? memchr(bytes, '\n', (size_t)got) : NULL;
    if (fd >= 0) {
        (void)close(fd);
    }
    return end != NULL ? offset + (uint64_t)(end - bytes) : offset;
}

struct journal_place journal_near_end(const struct journal *journal, uint64_t bytes)
{
    uint64_t files[LISTED_MAX];
    size_t count = list(journal, files);
    uint64_t left = bytes;
    while (count > 0) {
        char name[NAME_BYTES];
        struct stat status = {0};
        file_name(name, files[--count]);
        (void)fstatat(journal->directory_fd, name, &status, AT_SYMLINK_NOFOLLOW);
        if ((uint64_t)status.st_size >= left) {
            uint64_t offset = line_begin(journal, name, (uint64_t)status.st_size - left);
            return (struct journal_place){.file = files[count], .offset = offset};
        }
        left -= (uint64_t)status.st_size;
    }
    return (struct journal_place){0};
}
