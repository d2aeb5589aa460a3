#include "node/daemon/start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/address.h"
#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/sessions.h"
#include "node/daemon/api/table.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/local/http.h"
#include "node/daemon/local/local.h"
#include "node/daemon/loop.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/relay/relay.h"
#include "node/daemon/wire/relayed.h"
#include "node/daemon/workers/platform.h"
#include "node/daemon/workers/workers.h"
#include "node/series/hooks.h"
#include "store/data_dir.h"

#define EFFECTS_BYTES (NODE_EFFECTS_MAX * sizeof(struct node_effect) + NODE_EFFECT_BYTES_MAX)

/* Takes a new boot number and puts it on disk, before this run of the daemon sends or records anything. */
static int new_boot(struct daemon *daemon)
{
    uint8_t counter[4] = {0};
    size_t count;
    uint32_t last = 0;
    if (daemon_meta_get(daemon, "boot", counter, sizeof counter, &count) == 0 && count == sizeof counter) {
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
    return daemon_meta_put(daemon, "boot", counter, sizeof counter);
}

static int say_no_mesh(const struct daemon *daemon, char error[256])
{
    (void)snprintf(error, 256, "%.150s belongs to no mesh yet; run `shoal init` or `shoal join TOKEN` first.", daemon->dir);
    return ERR_NOT_FOUND;
}

static int open_identity(struct daemon *daemon, char error[256])
{
    char long_error[512], path[KEEP_PATH_BYTES + 8];
    (void)snprintf(path, sizeof path, "%s/state", daemon->dir);
    int key_code = keys_load(daemon->dir, &daemon->keys, error);
    if (key_code == ERR_NOT_FOUND && access(path, F_OK) != 0) {
        return say_no_mesh(daemon, error); /* the directory stays without a database */
    }
    if (key_code != 0 && key_code != ERR_NOT_FOUND) {
        return key_code;
    }
    int code = state_open(daemon->dir, &daemon->state, long_error, sizeof long_error);
    if (code != 0) {
        bytes_copy_text(error, 256, long_error);
        return code;
    }
    size_t count;
    code = daemon_meta_get(daemon, "mesh", daemon->mesh.bytes, sizeof daemon->mesh.bytes, &count);
    if (code != 0 || count != sizeof daemon->mesh.bytes) {
        return say_no_mesh(daemon, error);
    }
    if (key_code == ERR_NOT_FOUND) {
        char mesh[2 * MESH_ID_BYTES + 1];
        bytes_to_hex(mesh, daemon->mesh.bytes, MESH_ID_BYTES);
        keys_say_gone(daemon->dir, mesh, error);
        return key_code;
    }
    char text[FACT_NAME_BYTES] = "";
    if (daemon_meta_get(daemon, "name", text, sizeof text - 1, &count) == 0) {
        bytes_copy_text_n(daemon->name, sizeof daemon->name, text, count);
    }
    if (daemon_meta_get(daemon, "mesh_name", text, sizeof text - 1, &count) == 0) {
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

/* The kernel gives ports of its own range to connections of any program, so a shared port may be taken at any time. */
static void warn_of_ports(struct daemon *daemon)
{
    struct ports ephemeral;
    char ours[PORTS_TEXT_BYTES], theirs[PORTS_TEXT_BYTES];
    if (ports_ephemeral(&ephemeral) == 0 && ports_overlap(daemon->options.ports, ephemeral)) {
        ports_write(daemon->options.ports, ours);
        ports_write(ephemeral, theirs);
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_PORTS),
                       "the ports %s overlap %s, from which the system serves all programs (net.ipv4.ip_local_port_range): "
                       "choose others with --ports, or reserve them in net.ipv4.ip_local_reserved_ports",
                       ours, theirs);
    }
}

static void take_stored(void *context, struct chunks *chunks, const struct series_entry *entries, size_t count)
{
    const struct daemon *daemon = context;
    series_hooks_stored(&daemon->disk->log_bounds, chunks, entries, count);
}

static bool is_prefix(const uint8_t *prefix, size_t bytes, const char *wanted)
{
    return bytes == strlen(wanted) && memcmp(prefix, wanted, bytes) == 0;
}

/* Answers a peer, or this node: what the slots use, what happened here, about a trace, what came of a request of another
 * node, else from a series. */
static int answer(void *context, struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t from_sequence,
                  const uint8_t *question, size_t question_bytes, size_t bytes_max, struct pack_writer *out, bool *more)
{
    const struct daemon *daemon = context;
    if (is_prefix(prefix, prefix_bytes, EVENTS_PREFIX)) {
        return query_events_answer(&daemon->journal, from_sequence, question, question_bytes, bytes_max, out, more);
    }
    if (is_prefix(prefix, prefix_bytes, TRACE_PREFIX)) {
        return trace_box_answer(&daemon->workers->traces, from_sequence, question, question_bytes, bytes_max, daemon_monotonic_ns(),
                                out, more);
    }
    if (is_prefix(prefix, prefix_bytes, RELAYED_PREFIX)) {
        *more = false;
        return relay_answer(daemon->relay, question, question_bytes, out);
    }
    if (!is_prefix(prefix, prefix_bytes, SLOT_USAGE_PREFIX)) {
        return series_hooks_answer(chunks, prefix, prefix_bytes, from_sequence, question, question_bytes, bytes_max, out, more);
    }
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        uint8_t bytes[SLOT_USAGE_BYTES];
        struct pack_writer writer;
        struct slot_usage usage = slots_usage_get(&daemon->workers->usage, slot);
        pack_writer_init(&writer, bytes, sizeof bytes);
        slot_usage_pack(&writer, &usage);
        bulk_wire_entry_write(out, slot, bytes, writer.used_bytes);
    }
    *more = false;
    return 0;
}

static int open_bulk_at(struct daemon *daemon, const char *host, uint16_t port, char error[256])
{
    char listen[FACT_ADDRESS_BYTES + 8];
    (void)format_text(listen, sizeof listen, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
    struct bulk_options bulk = {.context = daemon->context,
                                .zap = daemon->zap,
                                .keys = &daemon->keys,
                                .listen = daemon->options.bulk_listen != NULL ? daemon->options.bulk_listen : listen,
                                .chunks = daemon->chunks,
                                .bytes_per_s_max = daemon->options.bandwidth_bytes_s,
                                .series = {.context = daemon, .stored = take_stored, .answer = answer}};
    return bulk_start(&bulk, &daemon->bulk, error);
}

/* Opens the bulk socket at a port of --ports, at first the one of the daemon's last run, so that a firewall and the
 * records of other nodes stay right. Where all are in use, any free port is better than no daemon. */
static int open_bulk(struct daemon *daemon, const char *host, char error[256])
{
    uint8_t stored[2];
    size_t stored_bytes;
    uint16_t from = 0, port;
    struct ports range = daemon->options.ports;
    if (daemon->options.bulk_listen != NULL) {
        return open_bulk_at(daemon, host, 0, error);
    }
    warn_of_ports(daemon);
    if (daemon_meta_get(daemon, "bulk_port", stored, sizeof stored, &stored_bytes) == 0 && stored_bytes == sizeof stored) {
        from = bytes_get_u16(stored);
    }
    for (uint32_t tries = 0; tries <= (uint32_t)(range.high - range.low); tries++) {
        int lock_fd, code = ports_lock(range, from, &port, &lock_fd);
        if (code != 0) {
            break;
        }
        code = open_bulk_at(daemon, host, port, error);
        if (code == 0) {
            daemon->bulk_port_fd = lock_fd;
            bytes_put_u16(stored, port);
            (void)daemon_meta_put(daemon, "bulk_port", stored, sizeof stored);
            return 0;
        }
        (void)close(lock_fd);
        if (code != ERR_EXISTS) {
            return code;
        }
        from = (uint16_t)(port + 1);
    }
    char text[PORTS_TEXT_BYTES];
    ports_write(range, text);
    error[0] = '\0';
    daemon_line_of(daemon, event_of_kind(EVENT_NODE_PORTS),
                   "each of the ports %s is in use on this machine: bulk data goes to any other port, which a firewall "
                   "may block; give shoald a wider range with --ports", text);
    return open_bulk_at(daemon, host, 0, error);
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
    /* With port 0, take the port of the last run of the daemon if it is free. So a mesh whose daemons are all restarted
     * at once comes together again: the remembered addresses are still right. */
    char host[FACT_ADDRESS_BYTES], last[FACT_ADDRESS_BYTES + 8];
    uint8_t port[2];
    size_t port_bytes;
    const char *colon = strrchr(daemon->options.listen, ':');
    address_host(daemon->options.listen, host, sizeof host);
    code = ERR_NOT_FOUND;
    if (colon != NULL && strcmp(colon, ":0") == 0 && daemon_meta_get(daemon, "port", port, sizeof port, &port_bytes) == 0 &&
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
    (void)daemon_meta_put(daemon, "port", port, sizeof port);
    code = open_bulk(daemon, host, error);
    if (code == 0 && daemon->options.beacon_port != 0) {
        char why[256];
        if (beacon_open(daemon->options.beacon_port, daemon->mesh, daemon->keys.id, control_port(daemon->control),
                        &daemon->beacon, why) != 0) {
            daemon_line_of(daemon, event_of_kind(EVENT_NODE_PORTS), "no beacon: %s", why);
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
    options->trace = (struct trace){daemon_trace, daemon};
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
    node->protocol_min = VERSION_OLDEST;
    node->protocol_max = VERSION_NEWEST;
    options->addresses = daemon->peers->own.announced;
    const struct fact_addresses *announced = &options->addresses.announced;
    node->address_count = announced->count < FACT_ADDRESSES_MAX ? announced->count : FACT_ADDRESSES_MAX;
    for (uint32_t i = 0; i < node->address_count; i++) {
        bytes_copy_text(node->addresses[i], sizeof node->addresses[i], announced->items[i].text);
    }
    node->bulk_port = bulk_port(daemon->bulk);
    http_prepare(daemon, &node->door);
    node->reads = FACT_READS_LARGE | FACT_READS_STOP | FACT_READS_ANNOTATION | FACT_READS_SEARCH | FACT_READS_RETRY |
                  FACT_READS_DRAWN | FACT_READS_PROMOTION | FACT_READS_EXTENSION | FACT_READS_POPULATION |
                  FACT_READS_DRAWN_PROMOTION | FACT_READS_PARTS | FACT_READS_POLICY | FACT_READS_CUSTOM | FACT_READS_SECRETS |
                  FACT_READS_USAGE | FACT_READS_WAITS | FACT_READS_MODELS;
    node->label_count = daemon->options.label_count;
    memcpy(node->labels, daemon->options.labels, sizeof node->labels);
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

/* shoal-keep is beside this program in a build directory, and in SHOAL_LIBEXEC, seen from there, where Shoal is installed. */
static int find_programs(struct daemon *daemon, char error[256])
{
    static const char *const places[] = {"", SHOAL_LIBEXEC "/"};
    char path[KEEP_PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) {
        (void)snprintf(error, 256, "/proc/self/exe cannot be read: %s.", strerror(errno));
        return ERR_IO;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bytes_copy_text(daemon->program_dir, sizeof daemon->program_dir, path);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int bytes = snprintf(daemon->keep_program, sizeof daemon->keep_program, "%s/%sshoal-keep", path, places[i]);
        if ((size_t)bytes < sizeof daemon->keep_program && access(daemon->keep_program, X_OK) == 0) {
            return 0;
        }
    }
    (void)snprintf(error, 256, "There is no program shoal-keep in %.80s or %.80s; install Shoal as a whole.", path,
                   daemon->keep_program);
    return ERR_NOT_FOUND;
}

static void free_rooms(struct daemon *daemon)
{
    if (daemon->peers != NULL) {
        daemon_configs_close(daemon);
    }
    relay_free(daemon, daemon->relay);
    daemon->relay = NULL;
    free(daemon->api);
    free(daemon->workers);
    free(daemon->outputs);
    free(daemon->disk);
    free(daemon->peers);
}

static int make_rooms(struct daemon *daemon)
{
    daemon->api = calloc(1, sizeof *daemon->api);
    daemon->workers = calloc(1, sizeof *daemon->workers);
    daemon->outputs = calloc(1, sizeof *daemon->outputs);
    daemon->disk = calloc(1, sizeof *daemon->disk);
    daemon->peers = calloc(1, sizeof *daemon->peers);
    daemon->relay = relay_new();
    if (daemon->relay == NULL || daemon->api == NULL || daemon->workers == NULL || daemon->outputs == NULL ||
        daemon->disk == NULL || daemon->peers == NULL) {
        free_rooms(daemon);
        return ERR_MEMORY;
    }
    log_bounds_init(&daemon->disk->log_bounds);
    slots_usage_init(&daemon->workers->usage);
    tally_init(&daemon->workers->tally);
    trace_box_init(&daemon->workers->traces);
    return 0;
}

static int start(struct daemon *daemon, char error[256])
{
    char long_error[512] = "";
    int code = data_dir_open(daemon->dir, &daemon->lock_fd, long_error, sizeof long_error);
    if (code == 0) {
        lines_open(daemon);
        code = find_programs(daemon, error);
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
        code = open_sockets(daemon, error);
        /* Each run of the daemon gives the ports in another turn. */
        const struct ports *ports = &daemon->options.ports;
        daemon->workers->port_next = (uint16_t)(ports->low + daemon->boot % (ports->high - ports->low + 1u));
    }
    if (code == 0) {
        daemon_own_addresses_open(daemon);
    }
    bool jobs_ok = code == 0 && jobs_open("shoal-state", &daemon->persist_jobs) == 0 &&
                   jobs_open("shoal-files", &daemon->file_jobs) == 0 &&
                   jobs_open("shoal-chunks", &daemon->blob_jobs) == 0 &&
                   jobs_open("shoal-idle", &daemon->idle_jobs) == 0 &&
                   signer_open(&daemon->keys, daemon->mesh, &daemon->signer) == 0;
    if (code == 0 && !jobs_ok) {
        (void)snprintf(error, 256, "No thread can be started: %s.", strerror(errno));
        code = ERR_IO;
    }
    if (code == 0) {
        code = open_core(daemon, error);
    }
    if (code == 0) {
        sessions_load(daemon);
        code = local_open(daemon, error);
    }
    if (code == 0) {
        code = daemon_persist_load(daemon, error);
    }
    if (code == 0) {
        code = daemon_workers_adopt(daemon);
    }
    if (code != 0 && error[0] == '\0') {
        bytes_copy_text(error, 256, long_error[0] != '\0' ? long_error : err_text(code));
    }
    return code;
}

static void stop(struct daemon *daemon)
{
    daemon->closed = true; /* a job that ends now must not start more work: threads and sockets close below */
    local_close(daemon);
    jobs_close(&daemon->file_jobs, daemon);
    daemon_gpu_busy_close(daemon);
    daemon_look_close(daemon);
    daemon_programs_close(daemon);
    daemon_platform_close(daemon);
    jobs_close(&daemon->blob_jobs, daemon);
    jobs_close(&daemon->idle_jobs, daemon);
    api_close(daemon);
    daemon_collect_close(daemon);
    daemon_scrub_close(daemon);
    daemon_pushes_close(daemon);
    if (daemon->bulk != NULL) {
        bulk_stop(&daemon->bulk);
    }
    relay_free(daemon, daemon->relay);
    daemon->relay = NULL;
    log_bounds_close(&daemon->disk->log_bounds);
    slots_usage_close(&daemon->workers->usage);
    trace_box_close(&daemon->workers->traces);
    if (daemon->bulk_port_fd != 0) {
        (void)close(daemon->bulk_port_fd);
        daemon->bulk_port_fd = 0;
    }
    jobs_close(&daemon->persist_jobs, daemon);
    daemon_persist_close(daemon);
    daemon_own_addresses_close(daemon);
    daemon_workers_close(daemon);
    daemon_outputs_close(daemon);
    if (daemon->signer != NULL) {
        signer_close(&daemon->signer);
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
        if (daemon->workers->slots[i].has_link) {
            keep_close(&daemon->workers->slots[i].link); /* workers go on; the next daemon adopts them */
        }
    }
    keys_wipe(&daemon->keys);
    if (daemon->core_memory != NULL && daemon->core_memory != MAP_FAILED) {
        (void)munmap(daemon->core_memory, DAEMON_CORE_BYTES);
    }
    if (daemon->effects.items != NULL) {
        (void)munmap(daemon->effects.items, EFFECTS_BYTES);
    }
    lines_close(daemon);
    if (daemon->lock_fd >= 0) {
        (void)close(daemon->lock_fd);
    }
    daemon_events_close(daemon);
}

/* Runs the daemon under one key, from start to stop. */
static int live(struct daemon *daemon, int signal_fd, char error[256])
{
    daemon->events.step = daemon_step;
    if (make_rooms(daemon) != 0) {
        bytes_copy_text(error, 256, "The daemon could not start: no memory.");
        return ERR_MEMORY;
    }
    int code = start(daemon, error);
    if (code == 0) {
        char id[13];
        bytes_to_hex(id, daemon->keys.id.bytes, 6);
        char mesh[13];
        bytes_to_hex(mesh, daemon->mesh.bytes, 6);
        daemon_line_of(daemon, event_of_node(EVENT_NODE_STARTED, daemon->keys.id),
                       "node %s (%s) of mesh %s on %s:%u with %zu slot%s", daemon->name, id,
                       daemon->mesh_name[0] != '\0' ? daemon->mesh_name : mesh, daemon->host,
                       (unsigned)control_port(daemon->control), daemon->slot_count, daemon->slot_count == 1 ? "" : "s");
        struct node_event event = {.kind = NODE_EVENT_START};
        daemon_event(daemon, &event);
        daemon_workers_deliver_ended(daemon);
        daemon_peer_hints_remembered(daemon);
        daemon_loop(daemon, signal_fd);
        if (daemon->rekeys) {
            daemon_line_of(daemon, event_of_node(EVENT_NODE_STOPPED, daemon->keys.id),
                           "stops, and starts again as another node");
        } else {
            daemon_line_of(daemon, event_of_node(EVENT_NODE_STOPPED, daemon->keys.id),
                           "stops; workers go on for %u s", LEASE_MS / 1000);
        }
    }
    stop(daemon);
    free_rooms(daemon);
    return code;
}

int daemon_serve(const struct daemon_options *options, char error[256])
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
    while (code == 0 && daemon->rekeys) {
        daemon_begin_anew(daemon);
        code = live(daemon, signal_fd, error);
    }
    (void)close(signal_fd);
    free(lines);
    free(daemon);
    return code;
}
