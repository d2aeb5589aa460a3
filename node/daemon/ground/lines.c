#include "node/daemon/ground/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"
#include "node/daemon/ground/daemon.h"

static void add(struct daemon *daemon, const char *text)
{
    struct daemon_line *slot = &daemon->lines[daemon->line_seq % DAEMON_EVENTS_MAX];
    slot->seq = ++daemon->line_seq;
    slot->wall_ms = daemon_wall_ms();
    bytes_copy_text(slot->text, sizeof slot->text, text);
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
