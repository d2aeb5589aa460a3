#include "node/daemon/ground/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"
#include "node/daemon/ground/daemon.h"

#define LOADED_BYTES (DAEMON_EVENTS_MAX * (DAEMON_EVENT_BYTES + 40u))

static void load(void *context, uint64_t seq, uint64_t wall_ms, const char *text)
{
    struct daemon *daemon = context;
    if (seq > daemon->line_seq) {
        struct daemon_line *slot = &daemon->lines[(seq - 1) % DAEMON_EVENTS_MAX];
        slot->seq = daemon->line_seq = seq;
        slot->wall_ms = wall_ms;
        bytes_copy_text(slot->text, sizeof slot->text, text);
    }
}

void lines_open(struct daemon *daemon)
{
    journal_open(&daemon->journal, daemon->dir, daemon_wall_ms());
    struct journal_place place = journal_near_end(&daemon->journal, LOADED_BYTES);
    bool is_empty = daemon->line_seq == 0;
    while (is_empty && journal_read(&daemon->journal, &place, LOADED_BYTES + JOURNAL_LINE_BYTES_MAX, load, daemon)) {
    }
}

const struct daemon_line *lines_find(const struct daemon *daemon, uint64_t seq)
{
    const struct daemon_line *slot = &daemon->lines[(seq - 1) % DAEMON_EVENTS_MAX];
    return slot->seq == seq ? slot : NULL;
}

static void add(struct daemon *daemon, const char *text)
{
    struct daemon_line *slot = &daemon->lines[daemon->line_seq % DAEMON_EVENTS_MAX];
    slot->seq = ++daemon->line_seq;
    slot->wall_ms = daemon_wall_ms();
    bytes_copy_text(slot->text, sizeof slot->text, text);
    journal_append(&daemon->journal, slot->seq, slot->wall_ms, slot->text);
    if (!daemon->options.quiet) {
        time_t seconds = (time_t)(slot->wall_ms / 1000);
        struct tm tm;
        (void)localtime_r(&seconds, &tm);
        fprintf(stderr, "%02d:%02d:%02d.%03u %s\n", tm.tm_hour, tm.tm_min, tm.tm_sec, (unsigned)(slot->wall_ms % 1000),
                slot->text);
    }
}

void daemon_line(struct daemon *daemon, const char *format, ...)
{
    char text[DAEMON_EVENT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(daemon, text);
}

void daemon_trace(void *context, const char *text)
{
    add(context, text);
}
