#include "node/daemon/daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "node/daemon/run.h"
#include "store/data_dir.h"

#define HINT_S 3 /* an absent member is pinged about once a second */
#define EFFECTS_BYTES (NODE_EFFECTS_MAX * sizeof(struct node_effect) + NODE_EFFECT_BYTES_MAX)
#define POLL_MAX (CONTROL_POLL_MAX + SLOTS_MAX + DAEMON_CLIENTS_MAX + 16)

uint64_t daemon_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t daemon_wall_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- lines ---------------------------------------------------------------------------------------------------------- */

static void line(struct daemon *daemon, const char *text)
{
    struct daemon_line *slot = &daemon->lines[daemon->line_seq % DAEMON_EVENTS_MAX];
    slot->seq = ++daemon->line_seq;
    slot->wall_ms = daemon_wall_ms();
    bytes_copy_text(slot->text, sizeof slot->text, text);
    daemon->view_changed = true;
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
    line(daemon, text);
}

static void trace_line(void *context, const char *text)
{
    line(context, text);
}

/* ---- the core -------------------------------------------------------------------------------------------------------- */

static void send_message(struct daemon *daemon, const struct node_effect *effect)
{
    uint8_t bytes[MESSAGE_BYTES_MAX];
    size_t count = message_encode(&effect->u.send.message, bytes, sizeof bytes);
    CHECK(count > 0);
    (void)control_send(daemon->control, effect->u.send.to, bytes, count); /* lost messages are the protocols' business */
}

static void connect_peer(struct daemon *daemon, const struct node_effect *effect)
{
    if (effect->u.peer.gone) {
        control_peer_remove(daemon->control, effect->u.peer.node);
        daemon_tell_bulk(daemon);
        return;
    }
    int code = control_peer(daemon->control, effect->u.peer.node, effect->u.peer.public_key, effect->u.peer.address);
    if (code != 0) {
        daemon_line(daemon, "cannot use the address %s of a peer: %s", effect->u.peer.address, err_text(code));
    }
}

/* What a connect with the answer of an invite gets. */
static void welcome(struct daemon *daemon, const struct node_effect *effect)
{
    uint8_t bytes[MESSAGE_BYTES_MAX];
    struct join_answer answer = {
        .code = effect->u.reply.code, .records = effect->bytes, .record_bytes = effect->byte_count};
    bytes_copy_text(answer.text, sizeof answer.text, effect->u.reply.text);
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
            daemon_tell_bulk(daemon);
        }
        break;
    case NODE_EFFECT_CHECK_LINK:
        if (effect->u.peer.address[0] != '\0') {
            (void)control_check_link(daemon->control, effect->u.peer.node, effect->u.peer.address);
        }
        break;
    case NODE_EFFECT_PREPARE:
    case NODE_EFFECT_SPAWN:
    case NODE_EFFECT_KILL:
    case NODE_EFFECT_STOP_WORKER:
        daemon_runs_effect(daemon, effect);
        break;
    case NODE_EFFECT_GROUP:
        daemon_local_group_effect(daemon, effect);
        break;
    case NODE_EFFECT_DURABLE:
        daemon_local_durable_effect(daemon, effect);
        break;
    case NODE_EFFECT_PUSH:
        daemon_push(daemon, effect);
        break;
    case NODE_EFFECT_CONFIRM:
        daemon_confirm_effect(daemon, effect);
        break;
    case NODE_EFFECT_COLLECT:
        daemon_collect_effect(daemon, effect);
        break;
    case NODE_EFFECT_REPLY:
        daemon_local_reply_effect(daemon, effect);
        break;
    case NODE_EFFECT_WELCOME:
        welcome(daemon, effect);
        break;
    case NODE_EFFECT_NEW_KEY:
        daemon_new_key_effect(daemon);
        break;
    case NODE_EFFECT_BECOME:
        daemon_become_effect(daemon, effect);
        break;
    }
}

static void step(struct daemon *daemon, struct node_event *event)
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

/* Only small events come from within effects; what they point to would not live until their turn. */
static void queue_event(struct daemon *daemon, const struct node_event *event)
{
    CHECK(event->byte_count == 0);
    if (daemon->queued_count == daemon->queued_slots) {
        uint32_t slots = daemon->queued_slots == 0 ? 64 : daemon->queued_slots * 2;
        struct node_event *bigger = calloc(slots, sizeof *bigger);
        CHECK(bigger != NULL); /* the core would wait for ever for what is dropped: better to end */
        for (uint32_t i = 0; i < daemon->queued_count; i++) {
            bigger[i] = daemon->queued[(daemon->queued_first + i) % daemon->queued_slots];
        }
        free(daemon->queued);
        daemon->queued = bigger;
        daemon->queued_first = 0;
        daemon->queued_slots = slots;
    }
    daemon->queued[(daemon->queued_first + daemon->queued_count++) % daemon->queued_slots] = *event;
}

void daemon_event(struct daemon *daemon, struct node_event *event)
{
    if (daemon->closed) {
        return; /* what it would cause has nobody left to do it; the next boot finds what is on the disk */
    }
    if (daemon->stepping) {
        queue_event(daemon, event);
        return;
    }
    daemon->stepping = true;
    step(daemon, event);
    while (daemon->queued_count > 0) {
        struct node_event next = daemon->queued[daemon->queued_first];
        daemon->queued_first = (daemon->queued_first + 1) % daemon->queued_slots;
        daemon->queued_count--;
        step(daemon, &next);
    }
    daemon->stepping = false;
    daemon->view_changed = true;
}

void daemon_tell_bulk(struct daemon *daemon)
{
    const struct view *view = &daemon->core->view;
    for (uint32_t i = 0; i < view->member_count && i < NODE_MEMBERS_MAX; i++) {
        const struct view_member *member = view->members[i];
        if (!member->has_node || member->address_count == 0 || node_id_equal(member->id, daemon->keys.id)) {
            continue;
        }
        if (daemon->core->is_out || view_member_is_out(member)) {
            char gone[16];
            (void)format_text(gone, sizeof gone, "%xgone", (unsigned)member->id.bytes[0]);
            if (strcmp(daemon->bulk_known[i], gone) != 0) { /* nothing goes there and nothing comes from there */
                (void)bulk_peer(daemon->bulk, member->id, member->public_key, "127.0.0.1", 0);
                bytes_copy_text(daemon->bulk_known[i], sizeof daemon->bulk_known[i], gone);
            }
            continue;
        }
        if (!member->admitted) {
            continue;
        }
        char host[FACT_ADDRESS_BYTES];
        host_of_address(member->addresses[0], host);
        char text[sizeof daemon->bulk_known[0]];
        uint8_t tag = member->id.bytes[0]; /* positions move when members come */
        (void)format_text(text, sizeof text, "%x%s:%u", (unsigned)tag, host, member->bulk_port);
        if (strcmp(text, daemon->bulk_known[i]) != 0 &&
            bulk_peer(daemon->bulk, member->id, member->public_key, host, (uint16_t)member->bulk_port) != ERR_MEMORY) {
            bytes_copy_text(daemon->bulk_known[i], sizeof daemon->bulk_known[i], text);
        }
    }
}

/* ---- pushes ------------------------------------------------------------------------------------------------------------ */

struct daemon_push {
    struct daemon_push *next;
    uint64_t request;
    struct node_effect effect;
};

void daemon_push(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_push *push = calloc(1, sizeof *push);
    struct node_event event = {.kind = NODE_EVENT_PUSHED};
    event.u.blob.blob = effect->u.push.blob;
    event.u.blob.node = effect->u.push.to;
    event.u.blob.attempt = effect->u.push.attempt;
    event.u.blob.step = effect->u.push.step;
    if (push == NULL) {
        daemon_event(daemon, &event);
        return;
    }
    daemon_tell_bulk(daemon); /* the record that says where it listens may just have come */
    push->request = ++daemon->request_id;
    push->effect = *effect;
    push->next = daemon->pushes;
    daemon->pushes = push;
    if (bulk_push(daemon->bulk, push->request, effect->u.push.blob, effect->u.push.to) != 0) {
        daemon->pushes = push->next;
        free(push);
        daemon_event(daemon, &event);
    }
}

static void pushed(struct daemon *daemon, uint64_t request, int code, const char *text)
{
    struct daemon_push **link = &daemon->pushes;
    while (*link != NULL && (*link)->request != request) {
        link = &(*link)->next;
    }
    struct daemon_push *push = *link;
    if (push == NULL) {
        return;
    }
    *link = push->next;
    /* The core does not know whether it has the code of an experiment: it tries. */
    bool is_code = experiment_id_is_none(push->effect.u.push.attempt.experiment);
    if (code != 0 && !(is_code && code == ERR_NOT_FOUND)) {
        daemon_line(daemon, "a copy could not be made: %s", text);
    }
    struct node_event event = {.kind = NODE_EVENT_PUSHED};
    event.u.blob.blob = push->effect.u.push.blob;
    event.u.blob.node = push->effect.u.push.to;
    event.u.blob.attempt = push->effect.u.push.attempt;
    event.u.blob.step = push->effect.u.push.step;
    event.u.blob.ok = code == 0;
    event.u.blob.is_missing = code == ERR_NOT_FOUND && !chunks_has(daemon->chunks, push->effect.u.push.blob);
    free(push);
    daemon_event(daemon, &event);
}

static void take_bulk(struct daemon *daemon)
{
    struct bulk_event event;
    while (bulk_next(daemon->bulk, &event) == 0) {
        switch (event.kind) {
        case BULK_FETCHED:
            daemon_runs_fetched(daemon, event.id, event.code, event.text);
            daemon_query_fetched(daemon, event.id, event.code, event.text);
            daemon_scrub_fetched(daemon, event.id, event.code, event.text);
            break;
        case BULK_PUSHED:
            pushed(daemon, event.id, event.code, event.text);
            break;
        case BULK_SERIES:
            daemon_query_series(daemon, &event);
            break;
        case BULK_VERIFIED:
            daemon_verify_answered(daemon, event.id, event.code);
            daemon_collect_verified(daemon, event.id, event.code);
            break;
        case BULK_STORE_FAILED:
            daemon_line(daemon, "%s", event.text);
            daemon->disk_check_ms = 0;
            break;
        case BULK_CORRUPT: {
            char hex[17];
            bytes_to_hex(hex, event.hash.bytes, 8);
            const struct view_member *owner = view_find_member(&daemon->core->view, event.node);
            bool is_here = node_id_equal(event.node, daemon->keys.id);
            daemon_line(daemon, "chunk %s... is damaged on %s and was dropped; another copy is used", hex,
                        is_here || owner == NULL ? "this disk" : owner->name);
            if (is_here) {
                daemon_scrub_corrupt(daemon, event.hash);
            }
            break;
        }
        }
    }
}

/* ---- the loop ------------------------------------------------------------------------------------------------------------ */

static void take_control(struct daemon *daemon)
{
    struct control_incoming incoming;
    for (int i = 0; i < 256 && control_receive(daemon->control, &incoming) == 0; i++) {
        if (incoming.from.kind == ZAP_INVITE) {
            (void)edge_join(daemon->edge, incoming.client, incoming.from.invite_key, incoming.bytes, incoming.count);
            continue;
        }
        struct message message;
        if (message_decode(incoming.bytes, incoming.count, &message) != 0) {
            daemon->core->counters.malformed++;
        } else if (message.kind == MESSAGE_RECORDS) {
            (void)edge_verify(daemon->edge, incoming.from.node, &message);
        } else {
            struct node_event event = {.kind = NODE_EVENT_MESSAGE};
            event.u.message.from = incoming.from.node;
            event.u.message.message = &message;
            daemon_event(daemon, &event);
        }
    }
    node_id node;
    enum control_link link;
    while (control_check_next(daemon->control, &node, &link) == 0) {
        struct node_event event = {.kind = NODE_EVENT_LINK};
        event.u.link.peer = node;
        event.u.link.refused = link == CONTROL_LINK_REFUSED;
        event.u.link.open = link == CONTROL_LINK_OPEN;
        daemon_event(daemon, &event);
    }
}

static void take_edge(struct daemon *daemon)
{
    struct edge_result result;
    while (edge_next(daemon->edge, &result) == 0) {
        if (result.kind == EDGE_SIGNED) {
            daemon_persist_signed(daemon, result.ticket, result.bytes, result.byte_count);
        } else if (result.kind == EDGE_VERIFIED) {
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
            daemon->core->counters.malformed++;
        }
    }
}

static int read_meta(struct daemon *daemon, const char *key, void *out, size_t capacity, size_t *count)
{
    return state_get(daemon->state, STATE_META, key, strlen(key), out, capacity, count);
}

static int write_meta(struct daemon *daemon, const char *key, const void *value, size_t count)
{
    struct state_op op = {
        .table = STATE_META, .key = key, .key_bytes = strlen(key), .value = value, .value_bytes = count};
    return state_put_batch(daemon->state, &op, 1);
}

/* Remembers that a member's connection is not where its record says. False: too many are. */
static bool note_hinted(struct daemon *daemon, node_id node)
{
    for (uint32_t i = 0; i < daemon->hinted_count; i++) {
        if (node_id_equal(daemon->hinted[i], node)) {
            return true;
        }
    }
    if (daemon->hinted_count == DAEMON_HINTED_MAX) {
        return false;
    }
    daemon->hinted[daemon->hinted_count++] = node;
    return true;
}

/* A hint says where a member may be. It must prove its key there, so trying does no harm, but it costs the connection to
 * where it was: end_hints goes back. */
static void try_address(struct daemon *daemon, node_id node, const char *address)
{
    const struct view_member *member = view_find_member(&daemon->core->view, node);
    const struct core_peer *peer = core_find_peer(daemon->core, node);
    bool is_wanted = member != NULL && peer != NULL && member->admitted && !daemon->core->is_out && !core_node_alive(daemon->core, node);
    if (is_wanted && (peer->address[0] == '\0' || strcmp(peer->address, address) == 0 || note_hinted(daemon, node))) {
        (void)control_peer(daemon->control, node, member->public_key, address);
    }
}

/* Hints may be wrong, or forged: who has come to life is talked to where its record says, and so are the absent while no
 * hints are tried. */
static void end_hints(struct daemon *daemon, bool absent_too)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < daemon->hinted_count; i++) {
        node_id node = daemon->hinted[i];
        const struct view_member *member = view_find_member(&daemon->core->view, node);
        const struct core_peer *peer = core_find_peer(daemon->core, node);
        if (!absent_too && !core_node_alive(daemon->core, node)) {
            daemon->hinted[kept++] = node;
        } else if (member != NULL && peer != NULL && !daemon->core->is_out) {
            (void)control_peer(daemon->control, node, member->public_key, peer->address);
        }
    }
    daemon->hinted_count = kept;
}

static void take_beacon(struct daemon *daemon)
{
    node_id node;
    char address[BEACON_ADDRESS_BYTES];
    while (daemon->beacon != NULL && beacon_receive(daemon->beacon, &node, address) == 0) {
        try_address(daemon, node, address);
    }
}

/* What `shoal join` left: members of the token and where they were. Once their own records are here those count. */
static void try_remembered(struct daemon *daemon)
{
    uint8_t bytes[4096];
    size_t count;
    if (read_meta(daemon, "peers", bytes, sizeof bytes, &count) != 0) {
        return;
    }
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t members = pack_read_array(&reader);
    for (uint32_t i = 0; i < members && !reader.failed; i++) {
        uint32_t fields = pack_read_array(&reader);
        uint8_t key[PUBLIC_KEY_BYTES];
        char address[CONTROL_ADDRESS_BYTES];
        pack_read_bin_exact(&reader, key, sizeof key);
        for (uint32_t f = 1; f < fields && !reader.failed; f++) {
            pack_read_text_copy(&reader, address, sizeof address);
            const struct core_peer *peer = reader.failed ? NULL : core_find_peer(daemon->core, node_id_of_key(key));
            if (peer != NULL && peer->address[0] == '\0') {
                try_address(daemon, peer->id, address);
            }
        }
    }
}

/* --peer gives addresses without saying whose: every absent member is tried at each in turn, for HINT_S, and between two
 * hints for as long where its record says. Called once a second. */
static void try_hints(struct daemon *daemon)
{
    uint32_t turn = daemon->hint_turn++;
    bool is_pause = turn / HINT_S % 2 == 0;
    end_hints(daemon, is_pause && turn % HINT_S == 0);
    if (daemon->options.peer_hint_count == 0 || turn % HINT_S != 0) {
        return;
    }
    const char *hint = daemon->options.peer_hints[turn / HINT_S / 2 % daemon->options.peer_hint_count];
    for (uint32_t i = 0; i < daemon->core->peer_count; i++) {
        const struct core_peer *peer = daemon->core->peers[i];
        if ((peer->state == SWIM_UNKNOWN || peer->state == SWIM_DEAD) && (!is_pause || peer->address[0] == '\0')) {
            try_address(daemon, peer->id, hint);
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
    if (full != daemon->disk_full) {
        daemon->disk_full = full;
        struct node_event event = {.kind = NODE_EVENT_DISK};
        event.u.disk.full = full;
        daemon_event(daemon, &event);
    }
}

static void every_second(struct daemon *daemon, uint64_t now_ms)
{
    daemon->second_ms = now_ms + 1000;
    daemon_tell_bulk(daemon);
    try_hints(daemon);
    if (now_ms >= daemon->disk_check_ms) {
        daemon->disk_check_ms = now_ms + 3000;
        check_disk(daemon);
    }
    daemon_persist_flush(daemon);
    daemon_runs_tick(daemon, now_ms);
    daemon_busy_tick(daemon, now_ms);
    daemon_scrub_tick(daemon, now_ms);
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
                         daemon->series != NULL || daemon->watch_ms != 0 ? now_ms + 200 : UINT64_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        next_ms = others[i] < next_ms ? others[i] : next_ms;
    }
    return next_ms <= now_ms ? 0 : next_ms - now_ms > 1000 ? 1000 : (long)(next_ms - now_ms);
}

static void loop(struct daemon *daemon, int signal_fd)
{
    zmq_pollitem_t items[POLL_MAX];
    while (!daemon->stopping) {
        uint32_t count = (uint32_t)control_poll_items(daemon->control, items);
        add_item(items, &count, signal_fd);
        add_item(items, &count, edge_fd(daemon->edge));
        add_item(items, &count, bulk_fd(daemon->bulk));
        add_item(items, &count, jobs_fd(daemon->persist_jobs));
        add_item(items, &count, jobs_fd(daemon->file_jobs));
        add_item(items, &count, jobs_fd(daemon->blob_jobs));
        add_item(items, &count, jobs_fd(daemon->idle_jobs));
        if (daemon->beacon != NULL) {
            add_item(items, &count, beacon_fd(daemon->beacon));
        }
        uint32_t first_run = count;
        uint8_t run_slots[SLOTS_MAX];
        for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
            if (daemon->runs[slot].has_link) {
                run_slots[count - first_run] = (uint8_t)slot;
                add_item(items, &count, daemon->runs[slot].link.fd);
            }
        }
        uint32_t first_client = count;
        count += daemon_local_poll(daemon, items + count, POLL_MAX - count);
        if (zmq_poll(items, (int)count, poll_timeout_ms(daemon)) < 0 && errno != EINTR) {
            daemon_line(daemon, "polling failed: %s", strerror(errno));
            return;
        }
        struct signalfd_siginfo info;
        while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
            daemon->stopping |= info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
        }
        control_process(daemon->control);
        take_control(daemon);
        take_edge(daemon);
        jobs_collect(daemon->persist_jobs, daemon);
        jobs_collect(daemon->file_jobs, daemon);
        jobs_collect(daemon->blob_jobs, daemon);
        jobs_collect(daemon->idle_jobs, daemon);
        take_bulk(daemon);
        take_beacon(daemon);
        daemon_local_process(daemon, items + first_client, count - first_client);
        for (uint32_t i = first_run; i < first_client; i++) {
            if (items[i].revents != 0) {
                daemon_runs_poll(daemon, run_slots[i - first_run]);
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
        daemon_local_tick(daemon, now_ms);
    }
}

/* ---- start and stop ------------------------------------------------------------------------------------------------------- */

/* A new boot number, on disk before anything of this life leaves the node. */
static int new_boot(struct daemon *daemon)
{
    uint8_t counter[4] = {0};
    size_t count;
    uint32_t last = 0;
    if (read_meta(daemon, "boot", counter, sizeof counter, &count) == 0 && count == sizeof counter) {
        last = bytes_get_u32(counter);
    }
    uint8_t noise[4];
    if (getrandom(noise, sizeof noise, 0) != (ssize_t)sizeof noise) {
        return ERR_IO;
    }
    if (last == UINT32_MAX) {
        return ERR_FULL;
    }
    bytes_put_u32(counter, last + 1);
    daemon->boot = (uint64_t)(last + 1) << 32 | bytes_get_u32(noise);
    return write_meta(daemon, "boot", counter, sizeof counter);
}

static int open_identity(struct daemon *daemon, char error[256])
{
    int code = keys_load(daemon->dir, &daemon->keys, error);
    if (code == ERR_NOT_FOUND) {
        (void)snprintf(error, 256, "%.150s belongs to no mesh yet; run `shoal init` or `shoal join TOKEN` first.",
                       daemon->dir);
    }
    if (code != 0) {
        return code;
    }
    char long_error[512];
    code = state_open(daemon->dir, &daemon->state, long_error, sizeof long_error);
    if (code != 0) {
        bytes_copy_text(error, 256, long_error);
        return code;
    }
    size_t count;
    code = read_meta(daemon, "mesh", daemon->mesh.bytes, sizeof daemon->mesh.bytes, &count);
    if (code != 0 || count != sizeof daemon->mesh.bytes) {
        (void)snprintf(error, 256, "%.150s belongs to no mesh yet; run `shoal init` or `shoal join TOKEN` first.",
                       daemon->dir);
        return ERR_NOT_FOUND;
    }
    char text[FACT_NAME_BYTES] = "";
    if (read_meta(daemon, "name", text, sizeof text - 1, &count) == 0) {
        bytes_copy_text_n(daemon->name, sizeof daemon->name, text, count);
    }
    if (read_meta(daemon, "mesh_name", text, sizeof text - 1, &count) == 0) {
        bytes_copy_text_n(daemon->mesh_name, sizeof daemon->mesh_name, text, count);
    }
    daemon_load_was(daemon);
    if (daemon->options.name != NULL) {
        bytes_copy_text(daemon->name, sizeof daemon->name, daemon->options.name);
    }
    code = new_boot(daemon);
    if (code != 0) {
        (void)snprintf(error, 256, "The start of this daemon could not be recorded in %.120s: %s.", daemon->dir,
                       err_text(code));
    }
    return code;
}

/* The address that others can reach this node by: what was asked for, what it listens on, or the first interface that is
 * up and not the loopback; the loopback if there is nothing else. */
static void find_host(struct daemon *daemon)
{
    char listen_host[FACT_ADDRESS_BYTES];
    host_of_address(daemon->options.listen, listen_host);
    bool is_any = strcmp(listen_host, "*") == 0 || strcmp(listen_host, "0.0.0.0") == 0 || strcmp(listen_host, "::") == 0;
    if (daemon->options.advertise != NULL) {
        bytes_copy_text(daemon->host, sizeof daemon->host, daemon->options.advertise);
        return;
    }
    bytes_copy_text(daemon->host, sizeof daemon->host, is_any ? "127.0.0.1" : listen_host);
    struct ifaddrs *list;
    if (!is_any || getifaddrs(&list) != 0) {
        return;
    }
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        bool fits = i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) != 0 &&
                    (i->ifa_flags & IFF_LOOPBACK) == 0;
        if (fits) {
            struct sockaddr_in address;
            memcpy(&address, i->ifa_addr, sizeof address);
            (void)inet_ntop(AF_INET, &address.sin_addr, daemon->host, sizeof daemon->host);
            break;
        }
    }
    freeifaddrs(list);
}

static int open_sockets(struct daemon *daemon, char error[256])
{
    daemon->context = zmq_ctx_new();
    if (daemon->context == NULL) {
        (void)snprintf(error, 256, "libzmq could not start: %s.", strerror(errno));
        return ERR_MEMORY;
    }
    (void)zmq_ctx_set(daemon->context, ZMQ_MAX_SOCKETS, 4096);
    int code = zap_open(daemon->context, &daemon->zap, error);
    if (code != 0) {
        return code;
    }
    struct control_options control = {.context = daemon->context,
                                      .zap = daemon->zap,
                                      .keys = &daemon->keys,
                                      .listen = daemon->options.listen};
    /* With port 0, the port of the last life if it is free: so that a mesh whose daemons are all restarted at once finds
     * itself again by the addresses that it remembers. */
    char host[FACT_ADDRESS_BYTES], last[FACT_ADDRESS_BYTES + 8];
    uint8_t port[2];
    size_t port_bytes;
    const char *colon = strrchr(daemon->options.listen, ':');
    host_of_address(daemon->options.listen, host);
    code = ERR_NOT_FOUND;
    if (colon != NULL && strcmp(colon, ":0") == 0 && read_meta(daemon, "port", port, sizeof port, &port_bytes) == 0 &&
        port_bytes == sizeof port) {
        (void)format_text(last, sizeof last, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                          (unsigned)bytes_get_u16(port));
        control.listen = last;
        code = control_open(&control, &daemon->control, error);
        control.listen = daemon->options.listen;
    }
    if (code != 0) {
        error[0] = '\0';
        code = control_open(&control, &daemon->control, error);
    }
    if (code != 0) {
        return code;
    }
    bytes_put_u16(port, control_port(daemon->control));
    (void)write_meta(daemon, "port", port, sizeof port);
    char bulk_listen[FACT_ADDRESS_BYTES + 4];
    (void)snprintf(bulk_listen, sizeof bulk_listen, strchr(host, ':') != NULL ? "[%s]:0" : "%s:0", host);
    struct bulk_options bulk = {.context = daemon->context,
                                .zap = daemon->zap,
                                .keys = &daemon->keys,
                                .listen = daemon->options.bulk_listen != NULL ? daemon->options.bulk_listen : bulk_listen,
                                .chunks = daemon->chunks,
                                .bytes_per_s_max = daemon->options.bandwidth_bytes_s};
    code = bulk_start(&bulk, &daemon->bulk, error);
    if (code == 0 && daemon->options.beacon_port != 0) {
        char why[256];
        if (beacon_open(daemon->options.beacon_port, daemon->mesh, daemon->keys.id, control_port(daemon->control),
                        &daemon->beacon, why) != 0) {
            daemon_line(daemon, "no beacon: %s", why);
        }
    }
    return code;
}

static int open_core(struct daemon *daemon, char error[256])
{
    daemon->core_memory = mmap(NULL, DAEMON_CORE_BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *effects = mmap(NULL, EFFECTS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (daemon->core_memory == MAP_FAILED || effects == MAP_FAILED) {
        (void)snprintf(error, 256, "No address space for the daemon's state: %s.", strerror(errno));
        return ERR_MEMORY;
    }
    daemon->effects.items = effects;
    daemon->effects.bytes = (uint8_t *)effects + NODE_EFFECTS_MAX * sizeof(struct node_effect);
    struct node_options *options = calloc(1, sizeof *options);
    if (options == NULL) {
        return ERR_MEMORY;
    }
    options->self = daemon->keys.id;
    memcpy(options->public_key, daemon->keys.sign_public, sizeof options->public_key);
    options->mesh = daemon->mesh;
    options->boot = daemon->boot;
    options->now_ms = daemon_now_ms();
    options->wall_s = daemon_wall_ms() / 1000;
    options->trace = (struct trace){trace_line, daemon};
    options->memory = daemon->core_memory;
    options->memory_bytes = DAEMON_CORE_BYTES;
    uint8_t noise[8];
    if (getrandom(noise, sizeof noise, 0) != 8 || getrandom(options->secret, sizeof options->secret, 0) != 32) {
        free(options);
        (void)snprintf(error, 256, "The system gives no random bytes: %s.", strerror(errno));
        return ERR_IO;
    }
    options->seed = bytes_get_u64(noise);
    struct fact_node *node = &options->node;
    bytes_copy_text(node->name, sizeof node->name, daemon->name);
    bytes_copy_text(node->version, sizeof node->version, SHOAL_VERSION);
    node->protocol_min = node->protocol_max = MESSAGE_PROTOCOL_VERSION;
    node->address_count = 1;
    (void)snprintf(node->addresses[0], sizeof node->addresses[0], strchr(daemon->host, ':') != NULL ? "[%.50s]:%u" : "%.50s:%u",
                   daemon->host, (unsigned)control_port(daemon->control));
    node->bulk_port = bulk_port(daemon->bulk);
    node->slot_count = (uint32_t)daemon->slot_count;
    for (uint32_t i = 0; i < node->slot_count; i++) {
        bytes_copy_text(node->slots[i].uuid, sizeof node->slots[i].uuid, daemon->slots[i].uuid);
        bytes_copy_text(node->slots[i].model, sizeof node->slots[i].model, daemon->slots[i].model);
        node->slots[i].kind = daemon->slots[i].kind == SLOT_CUDA ? FACT_SLOT_CUDA : FACT_SLOT_CPU;
        node->slots[i].memory_bytes = daemon->slots[i].memory_bytes;
    }
    daemon->core = node_core_init(options);
    free(options);
    return daemon->core != NULL ? 0 : ERR_MEMORY;
}

static int find_programs(struct daemon *daemon)
{
    char path[KEEP_PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) {
        return ERR_IO;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bytes_copy_text(daemon->program_dir, sizeof daemon->program_dir, path);
    (void)snprintf(daemon->keep_program, sizeof daemon->keep_program, "%s/shoal-keep", path);
    return 0;
}

static int start(struct daemon *daemon, char error[256])
{
    char long_error[512] = "";
    int code = data_dir_open(daemon->dir, &daemon->lock_fd, long_error, sizeof long_error);
    if (code == 0) {
        code = find_programs(daemon);
    }
    if (code == 0) {
        code = open_identity(daemon, error);
    }
    if (code == 0) {
        code = chunks_open(daemon->dir, &daemon->chunks, long_error, sizeof long_error);
    }
    if (code == 0) {
        char salt[33];
        bytes_to_hex(salt, daemon->keys.id.bytes, 16);
        struct slots_options slots = {.nvml_path = daemon->options.nvml_path, .salt = salt};
        code = slots_discover(daemon->options.slots, &slots, daemon->slots, &daemon->slot_count, long_error);
        if (code == 0 && long_error[0] != '\0') {
            daemon_line(daemon, "%s", long_error);
            long_error[0] = '\0';
        }
    }
    if (code == 0) {
        find_host(daemon);
        code = open_sockets(daemon, error);
    }
    bool jobs_ok = code == 0 && jobs_open("shoal-state", &daemon->persist_jobs) == 0 &&
                   jobs_open("shoal-files", &daemon->file_jobs) == 0 &&
                   jobs_open("shoal-chunks", &daemon->blob_jobs) == 0 &&
                   jobs_open("shoal-idle", &daemon->idle_jobs) == 0 &&
                   edge_open(&daemon->keys, daemon->mesh, &daemon->edge) == 0;
    if (code == 0 && !jobs_ok) {
        (void)snprintf(error, 256, "No thread can be started: %s.", strerror(errno));
        code = ERR_IO;
    }
    if (code == 0) {
        code = open_core(daemon, error);
    }
    if (code == 0) {
        code = daemon_local_open(daemon, error);
    }
    if (code == 0) {
        code = daemon_persist_load(daemon, error);
    }
    if (code == 0) {
        code = daemon_runs_adopt(daemon);
    }
    if (code != 0 && error[0] == '\0') {
        bytes_copy_text(error, 256, long_error[0] != '\0' ? long_error : err_text(code));
    }
    return code;
}

static void stop(struct daemon *daemon)
{
    daemon->closed = true; /* jobs that end now would start others in threads and sockets that are closed by then */
    daemon_local_close(daemon);
    jobs_close(&daemon->file_jobs, daemon);
    daemon_busy_close(daemon);
    jobs_close(&daemon->blob_jobs, daemon);
    jobs_close(&daemon->idle_jobs, daemon);
    daemon_collect_close(daemon);
    daemon_scrub_close(daemon);
    if (daemon->bulk != NULL) {
        bulk_stop(&daemon->bulk);
    }
    jobs_close(&daemon->persist_jobs, daemon);
    if (daemon->edge != NULL) {
        edge_close(&daemon->edge);
    }
    if (daemon->beacon != NULL) {
        beacon_close(&daemon->beacon);
    }
    if (daemon->control != NULL) {
        control_close(&daemon->control);
    }
    if (daemon->zap != NULL) {
        zap_close(&daemon->zap);
    }
    if (daemon->context != NULL) {
        (void)zmq_ctx_term(daemon->context);
    }
    chunks_close(&daemon->chunks);
    state_close(&daemon->state);
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        if (daemon->runs[i].has_link) {
            keep_close(&daemon->runs[i].link); /* workers go on; the next daemon adopts them */
        }
    }
    keys_wipe(&daemon->keys);
    if (daemon->core_memory != NULL && daemon->core_memory != MAP_FAILED) {
        (void)munmap(daemon->core_memory, DAEMON_CORE_BYTES);
    }
    if (daemon->effects.items != NULL) {
        (void)munmap(daemon->effects.items, EFFECTS_BYTES);
    }
    if (daemon->lock_fd >= 0) {
        (void)close(daemon->lock_fd);
    }
    free(daemon->queued);
}

/* One life of a node, from start to stop. */
static int live(struct daemon *daemon, int signal_fd, char error[256])
{
    int code = start(daemon, error);
    if (code == 0) {
        char id[13];
        bytes_to_hex(id, daemon->keys.id.bytes, 6);
        char mesh[13];
        bytes_to_hex(mesh, daemon->mesh.bytes, 6);
        daemon_line(daemon, "node %s (%s) of mesh %s on %s:%u with %zu slots", daemon->name, id,
                    daemon->mesh_name[0] != '\0' ? daemon->mesh_name : mesh, daemon->host, (unsigned)control_port(daemon->control), daemon->slot_count);
        struct node_event event = {.kind = NODE_EVENT_START};
        daemon_event(daemon, &event);
        daemon_runs_deliver_ended(daemon);
        try_remembered(daemon);
        loop(daemon, signal_fd);
        if (daemon->becomes) {
            daemon_line(daemon, "stops, and begins anew as another node");
        } else {
            daemon_line(daemon, "stops; workers go on for %u s", LEASE_MS / 1000);
        }
    }
    stop(daemon);
    return code;
}

int daemon_run(const struct daemon_options *options, char error[256])
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    struct daemon_line *lines = calloc(DAEMON_EVENTS_MAX, sizeof *lines);
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    error[0] = '\0';
    if (daemon == NULL || lines == NULL || signal_fd < 0 || keys_start() != 0) {
        free(daemon);
        free(lines);
        bytes_copy_text(error, 256, "The daemon could not start: no memory or no random numbers.");
        return ERR_MEMORY;
    }
    daemon->options = *options;
    daemon->lines = lines;
    daemon->lock_fd = -1;
    daemon->listen_fd = -1;
    daemon->started_ms = daemon_now_ms();
    bytes_copy_text(daemon->dir, sizeof daemon->dir, options->dir);
    int code = live(daemon, signal_fd, error);
    while (code == 0 && daemon->becomes) {
        daemon_begin_anew(daemon);
        code = live(daemon, signal_fd, error);
    }
    (void)close(signal_fd);
    free(lines);
    free(daemon);
    return code;
}
