/* The request usage: what each slot of the mesh uses now. Every living node is asked by bulk, and the answer comes once all have
 * answered, or after WAIT_MS with those that have. */

#include <stdlib.h>
#include <string.h>

#include "node/daemon/api/query.h"
#include "node/daemon/render/render.h"
#include "node/slots/usage.h"

#define WAIT_MS 2000
#define NODES_MAX 1024

struct usage_node {
    node_id node;
    uint64_t request; /* 0: it has answered */
    bool is_known;
    uint32_t count;
    struct {
        uint32_t slot;
        struct slot_usage usage;
    } slots[SLOTS_MAX];
};

struct query_usage_run {
    struct query_usage_run *next;
    uint64_t serial, id, until_ms;
    uint32_t count;
    struct usage_node nodes[];
};

static void usage_free(struct daemon *daemon, struct query_usage_run *run)
{
    struct query_usage_run **link = &daemon->api->usages;
    while (*link != run) {
        link = &(*link)->next;
    }
    *link = run->next;
    free(run);
}

static void put_known(struct pack_writer *writer, const char *key, bool is_known, uint64_t number)
{
    pack_text(writer, key);
    if (is_known) {
        pack_u64(writer, number);
    } else {
        pack_nil(writer);
    }
}

static void put_slot(struct pack_writer *writer, node_id node, uint32_t slot, const struct slot_usage *usage)
{
    char hex[NODE_ID_BYTES * 2 + 1];
    bytes_to_hex(hex, node.bytes, NODE_ID_BYTES);
    pack_map(writer, 6);
    pack_text(writer, "node");
    pack_text(writer, hex);
    pack_text(writer, "index");
    pack_u64(writer, slot);
    pack_text(writer, "cpu_percent");
    if (usage->has_worker) {
        pack_double(writer, (double)usage->cpu_permille / 10);
    } else {
        pack_nil(writer);
    }
    put_known(writer, "memory_bytes", usage->has_worker, usage->memory_bytes);
    put_known(writer, "gpu_percent", usage->has_gpu && usage->gpu_percent <= 100, usage->gpu_percent);
    put_known(writer, "gpu_memory_bytes", usage->has_gpu, usage->gpu_memory_bytes);
}

static void usage_reply(struct daemon *daemon, struct client *client, const struct query_usage_run *run)
{
    struct client_reply reply;
    uint32_t slots = 0, unknown = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        slots += run->nodes[i].count;
        unknown += !run->nodes[i].is_known;
    }
    if (!client_reply_begin(&reply, run->id, true, 2)) {
        client->broken = true;
        return;
    }
    pack_text(&reply.writer, "usage");
    pack_array(&reply.writer, slots);
    for (uint32_t i = 0; i < run->count; i++) {
        for (uint32_t k = 0; k < run->nodes[i].count; k++) {
            put_slot(&reply.writer, run->nodes[i].node, run->nodes[i].slots[k].slot, &run->nodes[i].slots[k].usage);
        }
    }
    pack_text(&reply.writer, "unknown");
    pack_array(&reply.writer, unknown);
    for (uint32_t i = 0; i < run->count; i++) {
        if (!run->nodes[i].is_known) {
            pack_text(&reply.writer, render_node_label(daemon->core, run->nodes[i].node).text);
        }
    }
    client_reply_send(daemon, client, &reply, -1);
}

static void usage_step(struct daemon *daemon, struct query_usage_run *run, uint64_t now_ms)
{
    bool waits = false;
    for (uint32_t i = 0; i < run->count; i++) {
        waits |= run->nodes[i].request != 0;
    }
    struct client *client = client_find(daemon, run->serial);
    if (client != NULL && waits && now_ms < run->until_ms) {
        return;
    }
    if (client != NULL) {
        usage_reply(daemon, client, run);
    }
    usage_free(daemon, run);
}

/* Takes what a node says; slots that it says twice, or that no node has, count as none. */
static void take_slots(struct usage_node *node, const struct bulk_event *event)
{
    bool seen[SLOTS_MAX] = {false};
    node->is_known = event->code == 0;
    for (uint32_t i = 0; i < event->item_count && event->code == 0; i++) {
        const struct bulk_item *item = &event->items[i];
        struct slot_usage usage;
        if (item->sequence < SLOTS_MAX && !seen[item->sequence] && slot_usage_read(item->bytes, item->count, &usage) == 0) {
            seen[item->sequence] = true;
            node->slots[node->count].slot = (uint32_t)item->sequence;
            node->slots[node->count++].usage = usage;
        }
    }
}

void query_usage_answered(struct daemon *daemon, const struct bulk_event *event)
{
    for (struct query_usage_run *run = daemon->api->usages; run != NULL; run = run->next) {
        for (uint32_t i = 0; i < run->count; i++) {
            if (run->nodes[i].request == event->id) {
                run->nodes[i].request = 0;
                take_slots(&run->nodes[i], event);
                usage_step(daemon, run, daemon_now_ms());
                return;
            }
        }
    }
}

static void ask(struct daemon *daemon, struct query_usage_run *run, node_id node)
{
    static const uint8_t question[1] = {0xc0}; /* nil: nothing is asked beyond the prefix */
    struct usage_node *asked = &run->nodes[run->count++];
    *asked = (struct usage_node){.node = node, .request = ++daemon->request_id};
    if (bulk_series_ask(daemon->bulk, asked->request, SLOT_USAGE_PREFIX, sizeof SLOT_USAGE_PREFIX - 1, 0, question, sizeof question,
                        node) != 0) {
        asked->request = 0;
    }
}

void query_usage(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    uint32_t peers = node_core_peer_count(daemon->core);
    size_t most = peers < NODES_MAX ? peers + 1u : NODES_MAX;
    struct query_usage_run *run = calloc(1, sizeof *run + most * sizeof run->nodes[0]);
    if (run == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "No memory is left to ask %u nodes.", peers);
        return;
    }
    run->serial = request->client->serial;
    run->id = request->id;
    run->until_ms = daemon_now_ms() + WAIT_MS;
    run->next = daemon->api->usages;
    daemon->api->usages = run;
    ask(daemon, run, daemon->keys.id);
    for (uint32_t place = 0; place < peers && run->count < most; place++) {
        node_id node = node_core_peer(daemon->core, place).id;
        if (node_core_is_alive(daemon->core, node)) {
            ask(daemon, run, node);
        }
    }
    usage_step(daemon, run, daemon_now_ms());
}

void query_usage_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct query_usage_run *run = daemon->api->usages, *next; run != NULL; run = next) {
        next = run->next;
        usage_step(daemon, run, now_ms);
    }
}

void query_usage_close(struct daemon *daemon)
{
    while (daemon->api->usages != NULL) {
        usage_free(daemon, daemon->api->usages);
    }
}
