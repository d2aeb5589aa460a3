/* The requests stats and scrape_targets: what /metrics has beyond status, and where Prometheus finds it. Nothing is
 * asked of another node, and nothing is waited for. */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "gossip/version.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/tokens.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/render/stats.h"
#include "node/daemon/workers/workers.h"

_Static_assert(RENDER_STATS_UNKNOWN == SLOTS_NVML_UNKNOWN, "what the driver does not tell is not known");

static uint64_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    uint64_t count = 0;
    while (directory != NULL && readdir(directory) != NULL) {
        count++;
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return count > 3 ? count - 3 : 0; /* without ".", ".." and the directory itself */
}

static struct render_stats_process own_process(const struct daemon *daemon)
{
    struct render_stats_process process = {.descriptors = count_descriptors(),
                                           .started_s =
                                               (daemon_wall_ms() - (daemon_now_ms() - daemon->started_ms)) / 1000};
    struct timespec used;
    struct rlimit limit;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
        process.cpu_s = (double)used.tv_sec + (double)used.tv_nsec / 1e9;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        process.descriptors_max = limit.rlim_cur;
    }
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%llu %llu", &pages, &resident) == 2) {
            process.virtual_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
            process.resident_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
        }
        (void)fclose(file);
    }
    return process;
}

static struct render_stats_slot own_slot(struct daemon *daemon, uint32_t slot)
{
    const struct slot_info *info = &daemon->slots[slot];
    const struct daemon_gpu *gpu = &daemon->workers->gpus[slot];
    struct slot_usage usage = slots_usage_get(&daemon->workers->usage, slot);
    bool has_gpu = info->kind == SLOT_CUDA && gpu->is_known;
    return (struct render_stats_slot){.uuid = info->uuid,
                                      .model = info->model,
                                      .is_gpu = info->kind == SLOT_CUDA,
                                      .memory_bytes = info->memory_bytes,
                                      .cpu_permille = usage.has_worker ? usage.cpu_permille : RENDER_STATS_UNKNOWN,
                                      .worker_bytes = usage.has_worker ? usage.memory_bytes : RENDER_STATS_UNKNOWN,
                                      .gpu_percent =
                                          has_gpu && gpu->use.percent <= 100 ? gpu->use.percent : RENDER_STATS_UNKNOWN,
                                      .gpu_used_bytes = has_gpu ? gpu->use.memory_bytes : RENDER_STATS_UNKNOWN,
                                      .celsius = has_gpu ? gpu->use.celsius : RENDER_STATS_UNKNOWN,
                                      .milliwatts = has_gpu ? gpu->use.milliwatts : RENDER_STATS_UNKNOWN,
                                      .millijoules = has_gpu ? gpu->use.millijoules : RENDER_STATS_UNKNOWN,
                                      .errors = gpu->errors};
}

/* The living peers, in `out`; returns their number. */
static uint32_t list_links(const struct daemon *daemon, struct render_stats_link out[NODE_MEMBERS_MAX])
{
    uint32_t count = 0, peers = node_core_peer_count(daemon->core);
    for (uint32_t place = 0; place < peers && count < NODE_MEMBERS_MAX; place++) {
        node_id node = node_core_peer(daemon->core, place).id;
        if (!node_core_is_alive(daemon->core, node)) {
            continue;
        }
        struct daemon_traffic control = daemon_traffic_of(daemon, node);
        struct bulk_traffic bulk = bulk_traffic(daemon->bulk, node);
        out[count++] = (struct render_stats_link){.node = node,
                                                  .sent_bytes = control.sent_bytes + bulk.sent_bytes,
                                                  .received_bytes = control.received_bytes + bulk.received_bytes,
                                                  .round_trip_us = control.round_trip_us};
    }
    return count;
}

void query_stats(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct render_stats_slot slots[SLOTS_MAX];
    struct render_stats_link *links = malloc(NODE_MEMBERS_MAX * sizeof *links);
    struct client_reply reply;
    if (links == NULL || !client_reply_begin(&reply, request->id, true, RENDER_STATS_PAIRS)) {
        free(links);
        request->client->broken = true;
        return;
    }
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        slots[slot] = own_slot(daemon, slot);
    }
    struct render_stats_extra extra = {.now_ms = daemon_now_ms(),
                                       .protocol = version_ours().newest,
                                       .tally = &daemon->workers->tally,
                                       .slot_count = (uint32_t)daemon->slot_count,
                                       .link_count = list_links(daemon, links),
                                       .slots = slots,
                                       .links = links,
                                       .process = own_process(daemon),
                                       .chunks_restored = daemon->disk->scrub.restored};
    render_stats(daemon->core, &extra, &reply.writer);
    client_reply_send(daemon, request->client, &reply, -1);
    free(links);
}

/* ---- targets --------------------------------------------------------------------------------------------------- */

static bool is_other(const struct daemon *daemon, const struct view_member *member)
{
    return member->admitted && !member->left && !node_id_equal(member->id, daemon->keys.id);
}

void query_scrape_targets(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    const struct view *view = node_core_view(daemon->core);
    char door[CONTROL_ADDRESS_BYTES];
    bool has_door = tokens_door_address(daemon, door);
    struct client_reply reply;
    uint32_t others = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        others += is_other(daemon, view->members[i]);
    }
    if (!client_reply_begin(&reply, request->id, true, 3)) {
        request->client->broken = true;
        return;
    }
    bool is_tls = strncmp(daemon->http_address, "https:", 6) == 0;
    pack_text(&reply.writer, "certificate");
    if (is_tls) {
        pack_text(&reply.writer, daemon->http_certificate);
    } else {
        pack_nil(&reply.writer);
    }
    pack_text(&reply.writer, "targets");
    pack_array(&reply.writer, has_door ? 1 : 0);
    if (has_door) {
        pack_map(&reply.writer, 2);
        pack_text(&reply.writer, "targets");
        pack_array(&reply.writer, 1);
        pack_text(&reply.writer, door);
        pack_text(&reply.writer, "labels");
        pack_map(&reply.writer, 1);
        pack_text(&reply.writer, "node");
        pack_text(&reply.writer, render_node_label(daemon->core, daemon->keys.id).text);
    }
    pack_text(&reply.writer, "others");
    pack_array(&reply.writer, others);
    for (uint32_t i = 0; i < view->member_count; i++) {
        if (is_other(daemon, view->members[i])) {
            pack_text(&reply.writer, render_node_label(daemon->core, view->members[i]->id).text);
        }
    }
    client_reply_send(daemon, request->client, &reply, -1);
}
