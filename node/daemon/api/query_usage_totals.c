/* The request usage_totals: what the slots of the mesh were used for, by user, label, model, node, day or month. */

#include <stdlib.h>

#include "base/bytes.h"
#include "base/frame.h"
#include "node/daemon/api/query.h"
#include "node/daemon/render/usage_totals.h"
#include "node/daemon/wire/request.h"

#define BY_BYTES 64

void query_usage_totals(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    char by[BY_BYTES];
    uint64_t since_s = 0;
    struct usage_wish wish;
    struct client_reply reply;
    bool is_given = !pack_find(&request->map, "by").failed;
    if (!request_text(&request->map, "by", by, sizeof by)) {
        (void)bytes_copy_text(by, sizeof by, is_given ? "?" : "user");
    }
    (void)client_argument_u64(request, "since_s", &since_s);
    if (!usage_wish_read(by, &wish)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                           "There is no usage by '%s': `by` is one of user, label, model, node, day and month, or several with commas "
                           "between them, each once.",
                           by);
        return;
    }
    usage_wish_since(&wish, since_s, node_core_mesh_wall_s(daemon->core));
    for (uint32_t i = 0; i < wish.by_count; i++) {
        if (wish.by[i] == USAGE_DAY && wish.span != FACT_USAGE_DAY) {
            client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                               "Days are kept for %d days, older ones as months: ask for a later time, or by month.", FACT_USAGE_DAYS);
            return;
        }
    }
    struct usage_total *totals = malloc(USAGE_TOTALS_MAX * sizeof *totals);
    if (totals == NULL || !client_reply_begin(&reply, request->id, true, RENDER_USAGE_TOTALS_PAIRS + 1)) {
        free(totals);
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "No memory is left for the usage.");
        return;
    }
    pack_text(&reply.writer, "syncing");
    pack_bool(&reply.writer, node_core_is_syncing(daemon->core));
    if (render_usage_totals(daemon->core, &wish, totals, &reply.writer)) {
        client_reply_send(daemon, request->client, &reply, -1);
    } else {
        free(reply.bytes);
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                           "The usage has more than %d rows: tell it apart by less, or from a later time on.", USAGE_TOTALS_MAX);
    }
    free(totals);
}
