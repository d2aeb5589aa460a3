#include "node/daemon/ground/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"
#include "node/daemon/ground/daemon.h"

#define LOADED_BYTES (DAEMON_EVENTS_MAX * (DAEMON_EVENT_BYTES + 40u))
#define RESERVED 1024u     /* numbers that are reserved at a time */
#define RESERVED_LEFT 512u /* with fewer left, more are reserved: the note is on the disk long before they are used */

static struct daemon_line *next_line(struct daemon *daemon)
{
    return &daemon->lines[daemon->line_count++ % DAEMON_EVENTS_MAX];
}

static void load(void *context, const struct journal_event *event)
{
    struct daemon *daemon = context;
    if (event->seq > daemon->line_seq) {
        struct daemon_line *line = next_line(daemon);
        line->seq = daemon->line_seq = event->seq;
        line->wall_ms = event->wall_ms;
        line->about = event->about;
        bytes_copy_text(line->text, sizeof line->text, event->text);
    }
}

void lines_open(struct daemon *daemon)
{
    journal_open(&daemon->journal, daemon->dir, daemon_wall_ms());
    struct journal_place place = journal_near_end(&daemon->journal, LOADED_BYTES);
    bool is_empty = daemon->line_seq == 0;
    while (is_empty && journal_read(&daemon->journal, &place, LOADED_BYTES + JOURNAL_LINE_BYTES_MAX, load, daemon)) {
    }
    if (daemon->line_seq + 1 < daemon->journal.next) {
        daemon->line_seq = daemon->journal.next - 1;
    }
    journal_reserve(&daemon->journal, daemon->line_seq + RESERVED, true);
}

void lines_close(struct daemon *daemon)
{
    journal_reserve(&daemon->journal, daemon->line_seq + 1, true);
    journal_close(&daemon->journal);
}

uint32_t lines_count(const struct daemon *daemon)
{
    return daemon->line_count < DAEMON_EVENTS_MAX ? (uint32_t)daemon->line_count : DAEMON_EVENTS_MAX;
}

const struct daemon_line *lines_at(const struct daemon *daemon, uint32_t index)
{
    return &daemon->lines[(daemon->line_count - lines_count(daemon) + index) % DAEMON_EVENTS_MAX];
}

static void add(struct daemon *daemon, const struct event_about *about, const char *text)
{
    struct daemon_line *line = next_line(daemon);
    line->seq = ++daemon->line_seq;
    line->wall_ms = daemon_wall_ms();
    line->about = *about;
    bytes_copy_text(line->text, sizeof line->text, text);
    journal_append(&daemon->journal, &(struct journal_event){line->seq, line->wall_ms, line->about, line->text});
    if (daemon->line_seq + RESERVED_LEFT > daemon->journal.next) {
        journal_reserve(&daemon->journal, daemon->line_seq + RESERVED, false);
    }
    if (!daemon->options.quiet) {
        time_t seconds = (time_t)(line->wall_ms / 1000);
        struct tm tm;
        (void)localtime_r(&seconds, &tm);
        fprintf(stderr, "%02d:%02d:%02d.%03u %s\n", tm.tm_hour, tm.tm_min, tm.tm_sec, (unsigned)(line->wall_ms % 1000),
                line->text);
    }
}

void daemon_line(struct daemon *daemon, const char *format, ...)
{
    char text[DAEMON_EVENT_BYTES];
    const struct event_about about = event_of_kind(EVENT_OTHER);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(daemon, &about, text);
}

void daemon_line_of(struct daemon *daemon, struct event_about about, const char *format, ...)
{
    char text[DAEMON_EVENT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(daemon, &about, text);
}

void daemon_trace(void *context, const struct event_about *about, const char *text)
{
    add(context, about, text);
}
