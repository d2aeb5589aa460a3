/* The request calendar: which experiment held which slot in a window of time. */

#include <stdlib.h>

#include "base/frame.h"
#include "node/daemon/api/query.h"
#include "node/daemon/render/calendar.h"

#define DAY_S 86400u
#define BUCKETS                                                                                                      \
    1000 /* what a page can tell apart: without `gap_s`, spans with less than such a part of the window between them \
            are one */

void query_calendar(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    uint64_t now_s = daemon_wall_ms() / 1000;
    struct calendar_window window = {.now_s = now_s, .until_s = now_s};
    (void)client_argument_u64(request, "until_s", &window.until_s);
    window.from_s = window.until_s > DAY_S ? window.until_s - DAY_S : 0;
    (void)client_argument_u64(request, "from_s", &window.from_s);
    if (window.from_s > window.until_s || window.until_s > UINT64_MAX / 2) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "The window ends before it begins: give from_s and until_s in seconds since 1970.");
        return;
    }
    window.gap_s = (window.until_s - window.from_s) / BUCKETS;
    (void)client_argument_u64(request, "gap_s", &window.gap_s);
    window.gap_s = window.gap_s < window.until_s ? window.gap_s : window.until_s; /* so that no sum overflows */
    struct calendar_span *spans = malloc(CALENDAR_WORKERS_MAX * sizeof *spans);
    struct client_reply reply;
    if (spans == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "No memory is left for the calendar.");
    } else if (client_reply_begin(&reply, request->id, true, RENDER_CALENDAR_PAIRS + 1)) {
        pack_text(&reply.writer, "syncing");
        pack_bool(&reply.writer, node_core_is_syncing(daemon->core));
        render_calendar(daemon->core, &window, spans, &reply.writer);
        client_reply_send(daemon, request->client, &reply, -1);
    }
    free(spans);
}
