#include "node/daemon/loop.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "node/daemon/api/change.h"
#include "node/daemon/api/elsewhere.h"
#include "node/daemon/api/files.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/searcher.h"
#include "node/daemon/api/secrets.h"
#include "node/daemon/api/shells.h"
#include "node/daemon/api/table.h"
#include "node/daemon/api/webhooks.h"
#include "node/daemon/api/worker.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/local/local.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/relay/relay.h"
#include "node/daemon/render/render.h"
#include "node/daemon/workers/end.h"
#include "node/daemon/workers/event_files.h"
#include "node/daemon/workers/launch.h"
#include "node/daemon/workers/platform.h"
#include "node/daemon/workers/searcher.h"
#include "node/daemon/workers/warm.h"
#include "node/daemon/workers/workers.h"

_Static_assert(CONTROL_PEERS_MAX >= NODE_MEMBERS_MAX + CORE_OUTCAST_LINKS_MAX + 1, "an outcast takes no member's connection");
#define POLL_MAX (CONTROL_POLL_MAX + SLOTS_MAX + WARM_MAX + DAEMON_CLIENTS_MAX + 16)

/* ---- the core -------------------------------------------------------------------------------------------------- */

static void send_message(struct daemon *daemon, const struct node_effect *effect)
{
    uint8_t bytes[MESSAGE_BYTES_MAX];
    size_t count = message_encode(&effect->u.send.message, bytes, sizeof bytes);
    CHECK(count > 0);
    if (control_send(daemon->control, effect->u.send.to, bytes, count) == 0) { /* a lost one is sent again by the protocols */
        daemon_traffic_sent(daemon, effect->u.send.to, &effect->u.send.message, count);
    }
}

static void connect_peer(struct daemon *daemon, const struct node_effect *effect)
{
    if (effect->u.peer.gone) {
        control_peer_remove(daemon->control, effect->u.peer.node);
        daemon_bulk_peers_gone(daemon, effect->u.peer.node);
        return;
    }
    /* At the start more than peers: the core adds peers batch by batch. */
    uint32_t members = node_core_view(daemon->core)->member_count;
    uint32_t peers = node_core_peer_count(daemon->core);
    control_expect(daemon->control, members > peers ? members : peers);
    int code = control_peer(daemon->control, effect->u.peer.node, effect->u.peer.public_key, effect->u.peer.address);
    if (code != 0) {
        daemon_line_of(daemon, event_of_node(EVENT_NODE_ADDRESS, effect->u.peer.node),
                       "cannot use the address %s of a peer: %s", effect->u.peer.address, err_text(code));
    }
}

/* An address that this machine cannot use (no IPv6, no such zone) counts as one that does not answer. When too many checks
 * are under way the core asks again. */
static void check_link(struct daemon *daemon, const struct node_effect *effect)
{
    int code = control_check_link(daemon->control, effect->u.peer.node, effect->u.peer.public_key, effect->u.peer.address);
    if (code != 0 && code != ERR_FULL) {
        struct node_event event = {.kind = NODE_EVENT_LINK};
        event.u.link.peer = effect->u.peer.node;
        bytes_copy_text(event.u.link.address, sizeof event.u.link.address, effect->u.peer.address);
        daemon_event(daemon, &event);
    }
}

/* Sends the answer to `shoal join`: the client that connected with an invite's key. */
static void welcome(struct daemon *daemon, const struct node_effect *effect)
{
    uint8_t bytes[MESSAGE_BYTES_MAX];
    struct join_answer answer = {
        .code = effect->u.reply.code, .records = effect->bytes, .record_bytes = effect->byte_count};
    if (answer.code == 0) {
        struct join_greeting greeting = {.wall_s = daemon_wall_ms() / 1000};
        bytes_copy_text(greeting.member, sizeof greeting.member, render_node_label(daemon->core, daemon->keys.id).text);
        bytes_copy_text(greeting.mesh, sizeof greeting.mesh, daemon->mesh_name);
        join_greeting_write(&greeting, answer.text);
    } else {
        bytes_copy_text(answer.text, sizeof answer.text, effect->u.reply.text);
    }
    size_t count = join_answer_encode(&answer, bytes, sizeof bytes);
    if (count > 0) {
        (void)control_reply(daemon->control, effect->u.reply.client, bytes, count);
    }
}

static void perform(struct daemon *daemon, const struct node_effect *effect)
{
    switch (effect->kind) {
    case NODE_EFFECT_SEND:
        send_message(daemon, effect);
        break;
    case NODE_EFFECT_PERSIST_RECORD:
    case NODE_EFFECT_PERSIST_FENCE:
    case NODE_EFFECT_FORGET_RECORD:
    case NODE_EFFECT_FORGET_FENCE:
        daemon_persist_effect(daemon, effect);
        break;
    case NODE_EFFECT_PEER:
        connect_peer(daemon, effect);
        break;
    case NODE_EFFECT_ADMIT:
        (void)control_admit(daemon->control, effect->u.peer.public_key, effect->u.peer.invite, effect->u.peer.gone);
        if (effect->u.peer.gone && !effect->u.peer.invite) {
            daemon_bulk_peers_gone(daemon, effect->u.peer.node);
        }
        break;
    case NODE_EFFECT_CHECK_LINK:
        check_link(daemon, effect);
        break;
    case NODE_EFFECT_PREPARE:
    case NODE_EFFECT_SPAWN:
    case NODE_EFFECT_KILL:
        daemon_workers_effect(daemon, effect);
        break;
    case NODE_EFFECT_SEARCHER_START:
    case NODE_EFFECT_SEARCHER_STOP:
        daemon_searcher_effect(daemon, effect);
        break;
    case NODE_EFFECT_SEARCHER_TELL:
        api_searcher_tell_effect(daemon, effect);
        break;
    case NODE_EFFECT_STOP_WORKER:
        api_worker_stop_effect(daemon, effect);
        break;
    case NODE_EFFECT_GROUP:
        api_worker_group_effect(daemon, effect);
        break;
    case NODE_EFFECT_LEAVE_GROUP:
        api_worker_leave_effect(daemon, effect);
        break;
    case NODE_EFFECT_DURABLE:
        api_worker_durable_effect(daemon, effect);
        break;
    case NODE_EFFECT_OUTPUT_DONE:
        daemon_outputs_done_effect(daemon, effect);
        break;
    case NODE_EFFECT_PUSH:
        daemon_pushes_effect(daemon, effect);
        break;
    case NODE_EFFECT_CONFIRM:
        daemon_confirm_effect(daemon, effect);
        break;
    case NODE_EFFECT_COLLECT:
        daemon_collect_effect(daemon, effect);
        break;
    case NODE_EFFECT_REPLY:
        change_reply_effect(daemon, effect);
        break;
    case NODE_EFFECT_WELCOME:
        welcome(daemon, effect);
        break;
    case NODE_EFFECT_NEW_KEY:
        daemon_new_key_effect(daemon, effect);
        break;
    case NODE_EFFECT_BECOME:
        daemon_rekey_effect(daemon, effect);
        break;
    }
}

void daemon_step(struct daemon *daemon, struct node_event *event)
{
    event->now_ms = daemon_now_ms();
    event->wall_s = daemon_wall_ms() / 1000;
    daemon->effects.count = 0;
    daemon->effects.used_bytes = 0;
    node_core_step(daemon->core, event, &daemon->effects);
    for (uint32_t i = 0; i < daemon->effects.count; i++) {
        perform(daemon, &daemon->effects.items[i]);
    }
    daemon_persist_flush(daemon);
}

/* ---- bulk ------------------------------------------------------------------------------------------------------ */

static void take_bulk(struct daemon *daemon)
{
    struct bulk_event event;
    while (bulk_next(daemon->bulk, &event) == 0) {
        switch (event.kind) {
        case BULK_FETCHED:
            daemon_workers_fetched(daemon, event.id, event.code, event.text);
            daemon_searcher_fetched(daemon, event.id, event.code, event.text);
            query_fetched(daemon, &event);
            files_fetched(daemon, &event);
            daemon_scrub_fetched(daemon, event.id, event.code, event.text);
            break;
        case BULK_PUSHED:
            daemon_pushes_answered(daemon, event.id, event.code, event.text);
            break;
        case BULK_SERIES:
            daemon_workers_settled(daemon, event.id);
            query_series_answered(daemon, &event);
            query_usage_answered(daemon, &event);
            query_events_answered(daemon, &event);
            elsewhere_answered(daemon, &event);
            query_trace_answered(daemon, &event);
            daemon_blocked_answered(daemon, event.id);
            break;
        case BULK_VERIFIED:
            query_verify_answered(daemon, event.id, event.code);
            daemon_collect_verified(daemon, event.id, event.code);
            break;
        case BULK_STREAM_ASKED:
        case BULK_STREAM_OPENED:
        case BULK_STREAM_ENDED:
            shells_take(daemon, &event);
            break;
        case BULK_APPENDED:
            api_worker_appended(daemon, event.id, event.code);
            break;
        case BULK_WAY:
            daemon_blocked_way(daemon, &event);
            break;
        case BULK_STORE_FAILED:
            daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_FAILED), "%s", event.text);
            daemon->disk->check_ms = 0;
            break;
        case BULK_CORRUPT: {
            char hex[17];
            bytes_to_hex(hex, event.hash.bytes, 8);
            bool is_here = node_id_equal(event.node, daemon->keys.id);
            daemon_line_of(daemon, event_of_node(EVENT_NODE_DISK_DAMAGED, event.node),
                           "chunk %s... is damaged on %s and was dropped; another copy is used", hex,
                           is_here ? "this disk" : render_node_label(daemon->core, event.node).text);
            if (is_here) {
                daemon_scrub_corrupt(daemon, event.hash);
            }
            break;
        }
        }
    }
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static void malformed(struct daemon *daemon)
{
    struct node_event event = {.kind = NODE_EVENT_MALFORMED};
    daemon_event(daemon, &event);
}

static void take_control(struct daemon *daemon)
{
    struct control_incoming incoming;
    for (int i = 0; i < 256 && control_receive(daemon->control, &incoming) == 0; i++) {
        if (incoming.from.kind == ZAP_INVITE) {
            (void)signer_join(daemon->signer, incoming.client, incoming.from.invite_key, incoming.bytes, incoming.count);
            continue;
        }
        daemon_traffic_received(daemon, incoming.from.node, incoming.count);
        struct message message;
        uint32_t version = message_version(incoming.bytes, incoming.count);
        if (!version_is_spoken(version_ours(), version) && version != 0) {
            struct node_event event = {.kind = NODE_EVENT_FOREIGN};
            event.u.foreign.from = incoming.from.node;
            event.u.foreign.version = version;
            daemon_event(daemon, &event);
        } else if (message_decode(incoming.bytes, incoming.count, &message) != 0) {
            malformed(daemon);
        } else if (message.kind == MESSAGE_RECORDS) {
            (void)signer_verify(daemon->signer, incoming.from.node, &message);
        } else {
            daemon_traffic_answered(daemon, incoming.from.node, &message);
            struct node_event event = {.kind = NODE_EVENT_MESSAGE};
            event.u.message.from = incoming.from.node;
            event.u.message.message = &message;
            event.u.message.host = incoming.host;
            daemon_event(daemon, &event);
        }
    }
    struct control_checked checked;
    while (control_check_next(daemon->control, &checked) == 0) {
        struct node_event event = {.kind = NODE_EVENT_LINK};
        event.u.link.peer = checked.node;
        bytes_copy_text(event.u.link.address, sizeof event.u.link.address, checked.address);
        event.u.link.refused = checked.link == CONTROL_LINK_REFUSED;
        event.u.link.open = checked.link == CONTROL_LINK_OPEN || checked.link == CONTROL_LINK_REACHED;
        event.u.link.reached = checked.link == CONTROL_LINK_REACHED;
        event.u.link.round_trip_us = checked.round_trip_us;
        daemon_event(daemon, &event);
    }
}

/* Refuses a join request. Only ERR_VERSION is answered: a program of another version reads just the first byte of the
 * answer, and that byte is enough. */
static void refuse_join(struct daemon *daemon, const struct signer_result *result)
{
    static const char text[] = "this request to join is of another version of shoal; use the version that the member runs";
    uint8_t bytes[256];
    struct join_answer answer = {.code = ERR_VERSION};
    _Static_assert(sizeof text <= sizeof answer.text, "the sentence fits");
    memcpy(answer.text, text, sizeof text);
    size_t count = result->code == ERR_VERSION ? join_answer_encode(&answer, bytes, sizeof bytes) : 0;
    if (count > 0) {
        (void)control_reply(daemon->control, result->client, bytes, count);
    }
}

static void take_signer(struct daemon *daemon)
{
    struct signer_result result;
    while (signer_next(daemon->signer, &result) == 0) {
        if (result.kind == SIGNER_SIGNED) {
            daemon_persist_signed(daemon, result.ticket, result.bytes, result.byte_count);
        } else if (result.kind == SIGNER_VERIFIED) {
            struct node_event event = {.kind = NODE_EVENT_MESSAGE};
            event.u.message.from = result.from;
            event.u.message.message = &result.message;
            daemon_event(daemon, &event);
        } else if (result.code == 0) {
            struct node_event event = {.kind = NODE_EVENT_JOIN};
            event.u.join.client = result.client;
            memcpy(event.u.join.invite_key, result.invite_key, sizeof event.u.join.invite_key);
            memcpy(event.u.join.public_key, result.request.sign_public, sizeof event.u.join.public_key);
            bytes_copy_text(event.u.join.name, sizeof event.u.join.name, result.request.name);
            daemon_event(daemon, &event);
        } else {
            malformed(daemon);
            refuse_join(daemon, &result);
        }
    }
}

static void check_disk(struct daemon *daemon)
{
    struct chunks_space space;
    if (chunks_space(daemon->chunks, &space) != 0) {
        return;
    }
    bool full = space.free_bytes < DAEMON_DISK_RESERVE_BYTES;
    if (full != daemon->disk->is_full) {
        daemon->disk->is_full = full;
        struct node_event event = {.kind = NODE_EVENT_DISK};
        event.u.disk.full = full;
        daemon_event(daemon, &event);
    }
}

static void every_second(struct daemon *daemon, uint64_t now_ms)
{
    daemon->second_ms = now_ms + 1000;
    daemon_bulk_peers(daemon);
    daemon_peer_hints_tick(daemon);
    daemon_blocked_tick(daemon, now_ms);
    if (now_ms >= daemon->disk->check_ms) {
        daemon->disk->check_ms = now_ms + 3000;
        check_disk(daemon);
    }
    daemon_persist_flush(daemon);
    secrets_tick(daemon, now_ms);
    webhooks_tick(daemon, now_ms);
    daemon_workers_tick(daemon, now_ms);
    daemon_outputs_tick(daemon, now_ms);
    daemon_gpu_busy_tick(daemon, now_ms);
    daemon_look_tick(daemon, now_ms);
    daemon_owner_look_tick(daemon, now_ms);
    daemon_count_tick(daemon, now_ms);
    daemon_event_files_tick(daemon, now_ms);
    daemon_programs_tick(daemon, now_ms);
    daemon_platform_tick(daemon, now_ms);
    daemon_scrub_tick(daemon, now_ms);
    daemon_logs_tick(daemon, now_ms);
}

/* Ends the workers whose process has ended, after their last reports and requests are handled. */
static void end_workers(struct daemon *daemon)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (!daemon_workers_is_ending(daemon, slot) || (worker->client != NULL && !local_drain(daemon, worker->client))) {
            continue; /* the next round of the loop tries again */
        }
        if (daemon_workers_take_last(daemon, slot) && worker->client != NULL) {
            api_worker_forget(worker);
        }
    }
}

static void add_item(zmq_pollitem_t *items, uint32_t *count, int fd)
{
    items[(*count)++] = (zmq_pollitem_t){.fd = fd, .events = ZMQ_POLLIN};
}

static long poll_timeout_ms(const struct daemon *daemon)
{
    uint64_t now_ms = daemon_now_ms();
    uint64_t next_ms = node_core_next_ms(daemon->core);
    uint64_t others[] = {control_next_ms(daemon->control), daemon->second_ms,
                         daemon->beacon != NULL ? beacon_next_ms(daemon->beacon) : UINT64_MAX,
                         daemon_own_addresses_next_ms(daemon),
                         daemon->api->series != NULL || daemon->api->events != NULL || daemon->api->watch_ms != 0
                             ? now_ms + 200
                             : UINT64_MAX,
                         daemon->api->elsewhere != NULL ? now_ms + 100 : UINT64_MAX,
                         daemon->api->traces != NULL ? now_ms + 50 : UINT64_MAX,
                         daemon->api->has_more ? now_ms : UINT64_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        next_ms = others[i] < next_ms ? others[i] : next_ms;
    }
    return next_ms <= now_ms ? 0 : next_ms - now_ms > 1000 ? 1000 : (long)(next_ms - now_ms);
}

void daemon_loop(struct daemon *daemon, int signal_fd)
{
    zmq_pollitem_t items[POLL_MAX];
    while (!daemon->stopping) {
        uint32_t count = (uint32_t)control_poll_items(daemon->control, items);
        add_item(items, &count, signal_fd);
        add_item(items, &count, signer_fd(daemon->signer));
        add_item(items, &count, bulk_fd(daemon->bulk));
        add_item(items, &count, relay_fd(daemon->relay));
        add_item(items, &count, jobs_fd(daemon->persist_jobs));
        add_item(items, &count, jobs_fd(daemon->file_jobs));
        add_item(items, &count, jobs_fd(daemon->blob_jobs));
        add_item(items, &count, jobs_fd(daemon->idle_jobs));
        if (daemon->beacon != NULL) {
            add_item(items, &count, beacon_fd(daemon->beacon));
        }
        if (daemon->beacon != NULL && beacon_wide_fd(daemon->beacon) >= 0) {
            add_item(items, &count, beacon_wide_fd(daemon->beacon));
        }
        if (daemon_own_addresses_fd(daemon) >= 0) {
            add_item(items, &count, daemon_own_addresses_fd(daemon));
        }
        int warm_fds[WARM_MAX];
        for (uint32_t i = 0, warm_count = daemon_warm_fds(daemon, warm_fds); i < warm_count; i++) {
            add_item(items, &count, warm_fds[i]);
        }
        uint32_t first_worker = count;
        uint8_t worker_slots[SLOTS_MAX];
        for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
            if (daemon->workers->slots[slot].has_link) {
                worker_slots[count - first_worker] = (uint8_t)slot;
                add_item(items, &count, daemon->workers->slots[slot].link.fd);
            }
        }
        uint32_t first_client = count;
        count += local_poll(daemon, items + count, POLL_MAX - count);
        if (zmq_poll(items, (int)count, poll_timeout_ms(daemon)) < 0 && errno != EINTR) {
            daemon_line(daemon, "polling failed: %s", strerror(errno));
            return;
        }
        daemon_workers_awake(daemon, daemon_now_ms());
        struct signalfd_siginfo info;
        while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
            daemon->stopping |= info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
        }
        control_process(daemon->control);
        take_control(daemon);
        take_signer(daemon);
        jobs_collect(daemon->persist_jobs, daemon);
        daemon_workers_persisted(daemon);
        jobs_collect(daemon->file_jobs, daemon);
        jobs_collect(daemon->blob_jobs, daemon);
        jobs_collect(daemon->idle_jobs, daemon);
        take_bulk(daemon);
        daemon_peer_hints_beacon(daemon);
        daemon_own_addresses_tick(daemon, daemon_now_ms());
        local_process(daemon, items + first_client, count - first_client);
        relay_process(daemon, daemon_now_ms());
        daemon_searcher_poll(daemon);
        daemon_warm_poll(daemon); /* first: why a warm process has not begun a worker */
        for (uint32_t i = first_worker; i < first_client; i++) {
            if (items[i].revents != 0) {
                daemon_workers_poll(daemon, worker_slots[i - first_worker]);
            }
        }
        uint64_t now_ms = daemon_now_ms();
        if (now_ms >= node_core_next_ms(daemon->core)) {
            struct node_event event = {.kind = NODE_EVENT_TICK};
            daemon_event(daemon, &event);
        }
        if (daemon->beacon != NULL) {
            beacon_tick(daemon->beacon, now_ms);
        }
        if (now_ms >= daemon->second_ms) {
            every_second(daemon, now_ms);
        }
        end_workers(daemon);
        local_tick(daemon);
        api_tick(daemon, now_ms);
    }
}
