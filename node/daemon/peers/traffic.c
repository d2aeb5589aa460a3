/* Counts what goes over the control sockets to and from each peer, and measures the time from a probe (SWIM_PING) to
 * its answer: that is the way there and back with what both daemons take to answer. */

#include "node/daemon/peers/peers.h"

#define SMOOTH 8 /* a new time counts for an eighth, as in TCP */

static struct daemon_traffic *find(const struct daemon *daemon, node_id node)
{
    struct daemon_peers *peers = daemon->peers;
    for (uint32_t i = 0; i < peers->traffic_count; i++) {
        if (node_id_equal(peers->traffic[i].node, node)) {
            return &peers->traffic[i];
        }
    }
    return NULL;
}

/* The peer's row, which is made if need be; NULL: no row is left. */
static struct daemon_traffic *row_of(struct daemon *daemon, node_id node)
{
    struct daemon_traffic *row = find(daemon, node);
    if (row == NULL && daemon->peers->traffic_count < NODE_MEMBERS_MAX) {
        row = &daemon->peers->traffic[daemon->peers->traffic_count++];
        *row = (struct daemon_traffic){.node = node};
    }
    return row;
}

void daemon_traffic_sent(struct daemon *daemon, node_id to, const struct message *message, size_t bytes)
{
    struct daemon_traffic *row = row_of(daemon, to);
    if (row == NULL) {
        return;
    }
    row->sent_bytes += bytes;
    if (message->kind == MESSAGE_SWIM && message->u.swim.kind == SWIM_PING && message->u.swim.sequence != 0) {
        row->sequence = message->u.swim.sequence;
        row->asked_us = daemon_now_us();
    }
}

void daemon_traffic_received(struct daemon *daemon, node_id from, size_t bytes)
{
    struct daemon_traffic *row = row_of(daemon, from);
    if (row != NULL) {
        row->received_bytes += bytes;
    }
}

void daemon_traffic_answered(struct daemon *daemon, node_id from, const struct message *message)
{
    struct daemon_traffic *row = find(daemon, from);
    bool is_answer =
        message->kind == MESSAGE_SWIM && message->u.swim.kind == SWIM_ACK && node_id_is_none(message->u.swim.target);
    if (row == NULL || !is_answer || row->sequence == 0 || row->sequence != message->u.swim.sequence) {
        return;
    }
    uint64_t took_us = daemon_now_us() - row->asked_us;
    row->round_trip_us = row->round_trip_us == 0 ? took_us : (row->round_trip_us * (SMOOTH - 1) + took_us) / SMOOTH;
    row->sequence = 0;
}

struct daemon_traffic daemon_traffic_of(const struct daemon *daemon, node_id node)
{
    const struct daemon_traffic *row = find(daemon, node);
    return row != NULL ? *row : (struct daemon_traffic){.node = node};
}
