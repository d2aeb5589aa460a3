/* A worker's start: fetch its code, configuration, checkpoint and kept files from nodes that hold them; unpack them into a
 * fresh directory and take a port for MASTER_PORT; once the core says so, spawn the program through shoal-keep. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/workers/end.h"
#include "node/daemon/workers/environment.h"
#include "node/daemon/workers/event_files.h"
#include "node/daemon/workers/launch.h"
#include "node/daemon/workers/packages.h"
#include "node/daemon/workers/platform.h"
#include "node/daemon/workers/warm.h"
#include "store/archive.h"

#define FETCH_TRIES 3
#define FETCH_ROUNDS 3 /* rounds of nodes to ask for code that earlier rounds do not have */
#define PORT_WAIT_MS 20000 /* a worker that is otherwise ready waits so long for a free port */
#define PORTS_SEEN_MS 10000 /* a look at the ports of this machine will do for so long; programs bind theirs seconds later anyway */
#define PORTS_FRESH_MS 1000 /* a look so young is not repeated ahead of the next worker */

/* ---- prepare --------------------------------------------------------------------------------------------------- */

struct unpack_job {
    struct job job;
    struct chunks *chunks;
    uint32_t slot;
    attempt_id attempt;
    hash256 code;
    uint32_t number;
    uint32_t beginning_count;
    struct fact_beginning beginnings[FACT_OUTPUTS_MAX];
    enum archive_links links;
    char directory[KEEP_PATH_BYTES];
    int result;
    bool refetch;
    hash256 blamed;
    struct ports ports;
    uint8_t *port_uses; /* for a look at the ports in the job; NULL: the daemon's last look will do */
    char error[512];
};

/* ---- the port ---- */

static size_t port_count(const struct daemon *daemon)
{
    return daemon->options.ports.high - daemon->options.ports.low + 1u;
}

/* Takes what a look at the ports has found; NULL, for lack of memory: nothing. */
static void note_ports(struct daemon *daemon, uint8_t *uses)
{
    struct daemon_workers *workers = daemon->workers;
    if (uses != NULL) {
        free(workers->port_uses);
        workers->port_uses = uses;
        workers->port_uses_ms = daemon_now_ms();
    }
}

static bool saw_ports(const struct daemon *daemon, uint64_t within_ms)
{
    return daemon->workers->port_uses != NULL && daemon_now_ms() - daemon->workers->port_uses_ms < within_ms;
}

struct ports_job {
    struct job job;
    struct ports ports;
    uint8_t *uses;
};

static void ports_work(struct job *job)
{
    struct ports_job *look = (struct ports_job *)job;
    ports_look(look->ports, look->uses);
}

static void ports_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct ports_job *look = (struct ports_job *)job;
    daemon->workers->port_look_busy = false;
    note_ports(daemon, look->uses);
    free(look);
}

/* Looks at the ports again, for the worker that comes after this one: the look takes as long as all else that a start takes. */
static void look_ahead(struct daemon *daemon)
{
    if (daemon->closed || daemon->workers->port_look_busy || saw_ports(daemon, PORTS_FRESH_MS)) {
        return;
    }
    struct ports_job *look = calloc(1, sizeof *look);
    uint8_t *uses = malloc(port_count(daemon));
    if (look == NULL || uses == NULL) {
        free(look);
        free(uses);
        return;
    }
    *look = (struct ports_job){.job = {.work = ports_work, .done = ports_done}, .ports = daemon->options.ports, .uses = uses};
    daemon->workers->port_look_busy = true;
    jobs_run(daemon->blob_jobs, &look->job);
}

/* Takes a port for MASTER_PORT. All workers of a machine have ports of their own, and a daemon goes through its whole
 * range before it gives a port again: a rank of a lost attempt may still look for its peers at the old one. */
static int take_port(struct daemon *daemon, struct daemon_worker *worker)
{
    uint16_t number;
    int fd, code = ports_take_seen(daemon->options.ports, daemon->workers->port_next, daemon->workers->port_uses, &number, &fd);
    if (code == 0) {
        worker->port = number;
        worker->port_fd = fd;
        worker->port_until_ms = 0;
        daemon->workers->port_next = (uint16_t)(number + 1u); /* beyond the range: its start */
    }
    return code;
}

static void say_no_port(const struct daemon *daemon, int code, char *out, size_t size)
{
    char range[PORTS_TEXT_BYTES];
    ports_write(daemon->options.ports, range);
    if (code == ERR_FULL) {
        (void)snprintf(out, size, "each of the ports %s is in use on this machine; give shoald a wider range with --ports",
                       range);
    } else {
        (void)snprintf(out, size, "no port of %s can be taken: %s", range, strerror(errno));
    }
}

static void unpack_work(struct job *job)
{
    struct unpack_job *unpack = (struct unpack_job *)job;
    char work[KEEP_PATH_BYTES + 8];
    worker_directory_remove(unpack->directory);
    (void)snprintf(work, sizeof work, "%s/work", unpack->directory);
    int fd = memfd_create("shoal-code", MFD_CLOEXEC);
    if (fd < 0 || mkdir(unpack->directory, 0700) != 0) {
        (void)snprintf(unpack->error, sizeof unpack->error, "%.300s cannot be made: %s", unpack->directory, strerror(errno));
        unpack->result = errno == ENOSPC ? ERR_NO_SPACE : ERR_IO;
    } else {
        unpack->result = chunks_read_blob_to_fd(unpack->chunks, unpack->code, fd, &unpack->blamed, unpack->error,
                                                sizeof unpack->error);
        unpack->refetch = unpack->result == ERR_CORRUPT || unpack->result == ERR_NOT_FOUND;
    }
    if (unpack->result == 0) {
        (void)lseek(fd, 0, SEEK_SET);
        unpack->result = archive_unpack(fd, work, 0, unpack->links, unpack->error, sizeof unpack->error);
        if (unpack->result == 0) {
            unpack->result = daemon_outputs_restore(unpack->chunks, unpack->directory, unpack->number, unpack->beginnings,
                                                    unpack->beginning_count, &unpack->blamed, unpack->error,
                                                    sizeof unpack->error);
            unpack->refetch = unpack->result == ERR_CORRUPT || unpack->result == ERR_NOT_FOUND;
        }
    }
    if (unpack->refetch && unpack->result == ERR_CORRUPT) {
        (void)chunks_delete(unpack->chunks, unpack->blamed);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (unpack->result == 0 && unpack->port_uses != NULL) {
        ports_look(unpack->ports, unpack->port_uses);
    }
}

static void prepared(struct daemon *daemon, uint32_t slot, int code, uint32_t port, const char *text)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct node_event event = {.kind = NODE_EVENT_PREPARED};
    event.u.worker.slot = slot;
    event.u.worker.attempt = worker->prepare.u.worker.attempt;
    event.u.worker.code = code;
    event.u.worker.port = port;
    event.u.worker.text = text;
    if (code != 0) {
        daemon_line_of(daemon, event_of_worker(EVENT_WORKER_FAILED, &worker->prepare.u.worker.attempt, slot),
                       "slot %u cannot be prepared: %s", slot, text);
        daemon_workers_remove_later(daemon, worker->directory);
        worker_clear(worker);
    } else {
        worker_move(worker, WORKER_READY);
    }
    daemon_event(daemon, &event);
}

static void fetch(struct daemon *daemon, uint32_t slot);

/* The directory and the port of a worker are there. Its packages come last, if it wants some. */
static void unpacked(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    const struct view_experiment *experiment =
        view_find_experiment(node_core_view(daemon->core), worker->prepare.u.worker.attempt.experiment);
    bool wants_packages = experiment != NULL && experiment->known && experiment->config->requirements[0] != '\0';
    const struct config *config = wants_packages ? daemon_config(daemon, experiment) : NULL;
    if (!wants_packages) {
        prepared(daemon, slot, 0, worker->port, NULL);
    } else if (config == NULL) {
        prepared(daemon, slot, ERR_NOT_FOUND, 0, "the experiment's configuration is not on this disk, or damaged");
    } else if ((worker->packages_pid = packages_start(daemon, config, worker->directory)) == 0) {
        char why[128];
        (void)snprintf(why, sizeof why, "the process that makes its packages ready cannot be started: %s", strerror(errno));
        prepared(daemon, slot, ERR_IO, 0, why);
    } else {
        worker_move(worker, WORKER_INSTALLING);
        worker->port_until_ms = 0;
    }
}

void daemon_workers_follow_packages(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    bool is_dropped = node_core_is_dropped(daemon->core, slot, &worker->prepare.u.worker.attempt);
    if (is_dropped) {
        packages_kill(worker->packages_pid);
    }
    enum packages_state state = packages_poll(worker->packages_pid);
    if (state == PACKAGES_BUSY) {
        daemon_workers_log(daemon, slot);
        return;
    }
    worker->packages_pid = 0;
    if (is_dropped) {
        prepared(daemon, slot, ERR_CLOSED, 0, "its attempt has ended");
        return;
    }
    worker->lacks_packages = state == PACKAGES_FAILED;
    if (worker->lacks_packages) {
        daemon_line_of(daemon, event_of_worker(EVENT_WORKER_FAILED, &worker->prepare.u.worker.attempt, slot),
                       "the packages of the worker of slot %u cannot be made ready; its log says why", slot);
    }
    prepared(daemon, slot, 0, worker->port, NULL);
}

static void unpack_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct unpack_job *unpack = (struct unpack_job *)job;
    uint32_t slot = unpack->slot;
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    if (unpack->result == 0) {
        note_ports(daemon, unpack->port_uses);
    } else {
        free(unpack->port_uses);
    }
    if (!worker_is(worker, WORKER_UNPACKING, &unpack->attempt) || daemon->closed) {
        free(unpack);
        return;
    }
    if (unpack->refetch && worker->fetch_tries + 1 < FETCH_TRIES) {
        char hex[17];
        bytes_to_hex(hex, unpack->blamed.bytes, 8);
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_DAMAGED),
                       "chunk %s... is %s on this disk; another copy is used", hex,
                       unpack->result == ERR_CORRUPT ? "damaged" : "missing");
        worker->fetch_tries++;
        worker->asked_rounds = 0;
        worker_move(worker, WORKER_FETCHING);
        worker->fetching = WORKER_CODE;
        worker->fetched_outputs = 0;
        fetch(daemon, slot);
    } else if (unpack->result != 0) {
        prepared(daemon, slot, unpack->result, 0, unpack->error);
    } else if (take_port(daemon, worker) == 0) {
        unpacked(daemon, slot);
    } else {
        worker->port_until_ms = daemon_now_ms() + PORT_WAIT_MS;
        say_no_port(daemon, ERR_FULL, unpack->error, sizeof unpack->error);
        daemon_line_of(daemon, event_of_worker(EVENT_WORKER_FAILED, &worker->prepare.u.worker.attempt, slot),
                       "slot %u waits for a port: %s", slot, unpack->error);
    }
    free(unpack);
}

void daemon_workers_leave_fetch(struct daemon *daemon, uint32_t slot)
{
    if (node_core_is_dropped(daemon->core, slot, &daemon->workers->slots[slot].prepare.u.worker.attempt)) {
        prepared(daemon, slot, ERR_CLOSED, 0, "its attempt has ended"); /* nothing is in the worker's directory yet */
    }
}

/* Tries again to take a port for a worker that is otherwise ready. */
void daemon_workers_seek_port(struct daemon *daemon, uint32_t slot, uint64_t now_ms)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    uint8_t *uses = malloc(port_count(daemon));
    if (uses != NULL) {
        ports_look(daemon->options.ports, uses);
    }
    note_ports(daemon, uses);
    int code = take_port(daemon, worker);
    if (code == 0) {
        unpacked(daemon, slot);
    } else if (node_core_is_dropped(daemon->core, slot, &worker->prepare.u.worker.attempt)) {
        prepared(daemon, slot, code, 0, "its attempt has ended");
    } else if (now_ms >= worker->port_until_ms) {
        char why[256];
        say_no_port(daemon, code, why, sizeof why);
        prepared(daemon, slot, code, 0, why);
    }
}

static void unpack_start(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct unpack_job *unpack = calloc(1, sizeof *unpack);
    if (unpack == NULL) {
        prepared(daemon, slot, ERR_MEMORY, 0, "no memory");
        return;
    }
    worker_move(worker, WORKER_UNPACKING);
    unpack->job = (struct job){.work = unpack_work, .done = unpack_done};
    unpack->chunks = daemon->chunks;
    unpack->slot = slot;
    unpack->attempt = worker->prepare.u.worker.attempt;
    unpack->code = worker->prepare.u.worker.code;
    unpack->ports = daemon->options.ports;
    unpack->port_uses = saw_ports(daemon, PORTS_SEEN_MS) ? NULL : malloc(port_count(daemon));
    unpack->number = worker->prepare.u.worker.number;
    unpack->beginning_count = worker->beginning_count;
    memcpy(unpack->beginnings, worker->beginnings, sizeof unpack->beginnings);
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), unpack->attempt.experiment);
    bool keeps_links = experiment != NULL && experiment->known && experiment->config->context_links == CONFIG_LINKS_KEEP;
    unpack->links = keeps_links ? ARCHIVE_LINKS_ANY : ARCHIVE_LINKS_INSIDE;
    bytes_copy_text(unpack->directory, sizeof unpack->directory, worker->directory);
    jobs_run(daemon->file_jobs, &unpack->job);
}

/* Of a checkpoint of several parts a worker's node fetches the parts that the worker is likely to read: its share of them, in rank
 * order. So each part is here or there before the program begins, and once, and is where it is needed if the ranks are as many as
 * before. What a program asks for beyond that is fetched then. */
static void share_parts(const struct daemon *daemon, struct daemon_worker *worker)
{
    const struct node_effect *effect = &worker->prepare;
    const struct view_set *set = daemon_set(daemon, &effect->u.worker.attempt, effect->u.worker.checkpoint);
    uint32_t rank = effect->u.worker.number, size = effect->u.worker.size;
    worker->part = worker->parts_until = 0;
    if (set != NULL && rank < size) {
        worker->part = set->key.count * rank / size;
        worker->parts_until = set->key.count * (rank + 1) / size;
    }
}

/* The part that is fetched now; none: there is no record of it (any more). */
static hash256 part_of(const struct daemon *daemon, const struct daemon_worker *worker)
{
    const struct node_effect *effect = &worker->prepare;
    const struct view_set *set;
    struct view_manifest part;
    switch (worker->fetching) {
    case WORKER_CODE:
        break;
    case WORKER_CONFIG:
        return effect->u.worker.config;
    case WORKER_CHECKPOINT:
        set = daemon_set(daemon, &effect->u.worker.attempt, effect->u.worker.checkpoint);
        if (set == NULL) {
            return effect->u.worker.checkpoint;
        }
        return node_core_part(daemon->core, set, worker->part, &part) ? part.blob : (hash256){{0}};
    case WORKER_OUTPUT:
        return worker->beginnings[worker->fetched_outputs - 1].blob;
    }
    return effect->u.worker.code;
}

/* Fetches the code, the configuration, the checkpoint or kept files from living nodes, likely holders first; chunks that are here
 * already cost nothing. */
static void fetch(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    const struct node_effect *effect = &worker->prepare;
    hash256 blob = part_of(daemon, worker);
    const attempt_id *attempt = &effect->u.worker.attempt;
    node_id holders[DAEMON_HOLDERS_MAX];
    uint32_t holder_count = 0;
    switch (worker->fetching) {
    case WORKER_CODE:
    case WORKER_CONFIG:
        holder_count = daemon_holders_code(daemon, attempt->experiment, worker->asked_rounds, holders);
        break;
    case WORKER_CHECKPOINT:
        holder_count = daemon_holders_checkpoint(daemon, attempt, blob, holders);
        break;
    case WORKER_OUTPUT:
        holder_count = daemon_holders_output(daemon, attempt, blob, holders);
        break;
    }
    daemon_bulk_peers(daemon);
    worker->fetch_id = ++daemon->request_id;
    int code = bulk_fetch(daemon->bulk, worker->fetch_id, blob, holders, holder_count);
    if (code != 0) {
        prepared(daemon, slot, code, 0, "the request for its code could not be queued");
    }
}

/* The next part is to be fetched. False: all parts are here. */
static bool fetch_next(const struct daemon *daemon, struct daemon_worker *worker)
{
    if (worker->fetching == WORKER_CHECKPOINT && worker->part + 1 < worker->parts_until) {
        worker->part++;
        return true;
    }
    while (worker->fetching < WORKER_CHECKPOINT) {
        worker->fetching++;
        worker->asked_rounds = 0;
        bool is_set = worker->fetching == WORKER_CHECKPOINT && worker->parts_until > 0;
        if (is_set || !hash256_is_none(part_of(daemon, worker))) {
            return true;
        }
    }
    worker->fetching = WORKER_OUTPUT;
    return worker->fetched_outputs++ < worker->beginning_count;
}

void daemon_workers_fetched(struct daemon *daemon, uint64_t request, int code, const char *text)
{
    static const char *const parts[] = {
        [WORKER_CODE] = "code", [WORKER_CONFIG] = "configuration", [WORKER_CHECKPOINT] = "checkpoint", [WORKER_OUTPUT] = "kept files"};
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (worker->state != WORKER_FETCHING || worker->fetch_id != request) {
            continue;
        }
        bool has_more = worker->fetching <= WORKER_CONFIG && worker->asked_rounds + 1 < FETCH_ROUNDS &&
                        daemon_holders_any(daemon, worker->asked_rounds + 1);
        if (code != 0 && has_more) {
            worker->asked_rounds++;
            fetch(daemon, slot);
        } else if (code != 0) {
            char why[600];
            (void)snprintf(why, sizeof why, "its %s cannot be fetched: %.300s", parts[worker->fetching], text);
            daemon_blocked_append(daemon, why, sizeof why);
            prepared(daemon, slot, code, 0, why);
        } else if (fetch_next(daemon, worker)) {
            fetch(daemon, slot);
        } else {
            unpack_start(daemon, slot);
        }
        return;
    }
}

void daemon_workers_prepare(struct daemon *daemon, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot;
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    daemon_workers_forget_prepared(daemon, worker);
    worker_clear(worker);
    worker->prepare = *effect;
    worker_move(worker, WORKER_FETCHING);
    worker->size = effect->u.worker.size;
    share_parts(daemon, worker);
    worker->beginning_count = effect->byte_count / (uint32_t)sizeof worker->beginnings[0];
    if (effect->byte_count > 0) {
        memcpy(worker->beginnings, effect->bytes, effect->byte_count);
    }
    char experiment[17];
    bytes_to_hex(experiment, effect->u.worker.attempt.experiment.bytes, 8);
    char runs[KEEP_PATH_BYTES];
    (void)snprintf(runs, sizeof runs, "%.900s/runs", daemon->dir);
    (void)mkdir(runs, 0700);
    char coordinator[9]; /* two sides of a partition may use the same number and term */
    bytes_to_hex(coordinator, effect->u.worker.attempt.coordinator.bytes, 4);
    (void)snprintf(worker->directory, sizeof worker->directory, "%.900s/runs/%s-%u-%u-%llu-%s-%u", daemon->dir, experiment,
                   effect->u.worker.attempt.trial, effect->u.worker.attempt.number,
                   (unsigned long long)effect->u.worker.attempt.term, coordinator, effect->u.worker.number);
    fetch(daemon, slot);
}

/* Removes a directory that was made ready, for a worker that will not start. */
void daemon_workers_forget_prepared(struct daemon *daemon, struct daemon_worker *worker)
{
    if (worker->state == WORKER_READY) {
        daemon_workers_remove_later(daemon, worker->directory);
        worker_clear(worker);
    }
}

/* ---- spawn ----------------------------------------------------------------------------------------------------- */

struct spawn_job {
    struct job job;
    struct daemon *daemon; /* only for its constant fields */
    uint32_t slot;
    attempt_id attempt;
    char directory[KEEP_PATH_BYTES];
    char work[KEEP_PATH_BYTES + 8];
    char lock[KEEP_PATH_BYTES + 32];
    struct worker_start start;
    uint8_t identity[KEEP_IDENTITY_BYTES_MAX];
    size_t identity_bytes;
    int held_fd; /* the lock of MASTER_PORT, or 0 */
    struct warm_start warm;     /* fd > 0: a warm process forks the program */
    char cold[WARM_WHY_BYTES];  /* why the program begins cold, though it was to be warm; "": it was not */
    bool reads_events; /* its event files are read (event_files.h) */
    bool is_again;              /* the warm process has not begun it */
    uint32_t stop_signal;
    lease_token token;
    struct keep_link link;
    int code;
    char error[KEEP_ERROR_BYTES];
};

/* Writes the file of hyperparameters. 0 or an error code, with a sentence. */
static int hparams_write(struct spawn_job *spawn)
{
    char path[KEEP_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/" HPARAMS_FILE, spawn->directory);
    FILE *file = fopen(path, "we");
    bool is_written = file != NULL && fputs(spawn->start.hparams, file) >= 0 && fputc('\n', file) != EOF;
    is_written = (file == NULL || fclose(file) == 0) && is_written;
    if (!is_written) {
        (void)snprintf(spawn->error, sizeof spawn->error, "%.300s cannot be written: %s", path, strerror(errno));
        return errno == ENOSPC ? ERR_NO_SPACE : ERR_IO;
    }
    return 0;
}

/* The beginning of the worker's log. Without it, where the disk is full, the program begins all the same. */
static void say_cold(const struct spawn_job *spawn)
{
    char path[KEEP_PATH_BYTES + 8];
    (void)snprintf(path, sizeof path, "%s/log", spawn->directory);
    FILE *file = fopen(path, "ae");
    if (file != NULL) {
        (void)fprintf(file, "shoal: this trial is not warm, since %s\n", spawn->cold);
        (void)fclose(file);
    }
}

static void spawn_work(struct job *job)
{
    struct spawn_job *spawn = (struct spawn_job *)job;
    const char *locks[] = {spawn->lock};
    struct keep_spec spec = {.run_directory = spawn->directory,
                             .working_directory = spawn->work,
                             .entrypoint = spawn->start.entrypoint,
                             .environment = (const char *const *)spawn->start.variables,
                             .environment_count = spawn->start.count,
                             .secrets = (const char *const *)spawn->start.secrets,
                             .secret_count = spawn->start.secret_count,
                             .lock_paths = locks,
                             .lock_count = 1,
                             .held_fd = spawn->held_fd,
                             .lease_ms = LEASE_MS,
                             .log_cap_bytes = DAEMON_LOG_CAP_BYTES,
                             .is_polite = spawn->daemon->options.is_polite,
                             .stop_signal = spawn->stop_signal,
                             .identity = spawn->identity,
                             .identity_bytes = spawn->identity_bytes,
                             .token = spawn->token};
    spawn->code = hparams_write(spawn);
    if (spawn->code != 0) {
        return;
    }
    if (spawn->is_again) {
        keep_unspawn(spawn->directory);
    }
    if (spawn->reads_events) {
        event_files_begin(spawn->directory);
    }
    if (spawn->warm.fd > 0) {
        const struct keep_warm warm = {spawn->warm.fd, spawn->warm.arguments, spawn->warm.argument_bytes};
        spawn->code = keep_spawn_warm(&spec, &warm, &spawn->link, spawn->error);
        return;
    }
    if (spawn->cold[0] != '\0') {
        say_cold(spawn);
    }
    spawn->code = keep_spawn(spawn->daemon->keep_program, &spec, &spawn->link, spawn->error);
}

static void spawn_free(struct spawn_job *spawn)
{
    environment_close(&spawn->start);
    if (spawn->held_fd != 0) {
        (void)close(spawn->held_fd); /* shoal-keep has its copy */
    }
    warm_start_close(&spawn->warm);
    free(spawn);
}

void daemon_workers_spawned(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    daemon_workers_forget_spawn(worker);
    worker_move(worker, WORKER_RUNNING);
    daemon_outputs_watch(daemon, slot, &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, worker->directory);
    worker->renew_ms = daemon_now_ms() + LEASE_MS / 3;
    daemon_count_begun(daemon, slot);
    if (worker->kill_wanted) {
        worker_send_kill(worker);
    }
    look_ahead(daemon);
}

void daemon_workers_forget_spawn(struct daemon_worker *worker)
{
    if (worker->spawn != NULL) {
        spawn_free(worker->spawn);
    }
    worker->spawn = NULL;
}

void daemon_workers_spawn_again(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct spawn_job *spawn = worker->spawn;
    worker->spawn = NULL;
    warm_start_close(&spawn->warm);
    bytes_copy_text(spawn->cold, sizeof spawn->cold, worker->warm_why);
    if (worker->warm_again && !worker->kill_wanted) {
        spawn->cold[0] = '\0';
        (void)daemon_warm_take(daemon, slot, &spawn->attempt, worker->prepare.u.worker.code, &spawn->start, worker->directory,
                               &spawn->warm, spawn->cold);
    }
    spawn->is_again = true;
    jobs_run(daemon->file_jobs, &spawn->job);
}

static void spawn_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct spawn_job *spawn = (struct spawn_job *)job;
    struct daemon_worker *worker = &daemon->workers->slots[spawn->slot];
    if (!worker_is(worker, WORKER_SPAWNING, &spawn->attempt)) {
        if (spawn->code == 0) {
            keep_close(&spawn->link);
        }
    } else if (spawn->warm.fd > 0 && (spawn->code == ERR_CLOSED || spawn->code == ERR_AGAIN)) {
        worker->spawn = spawn;
        daemon_warm_poll(daemon); /* perhaps it has told why */
        daemon_workers_spawn_again(daemon, spawn->slot);
        return;
    } else if (spawn->code != 0) {
        daemon_line_of(daemon, event_of_slot(EVENT_WORKER_FAILED, spawn->slot),
                       "a worker could not be started: %s", spawn->error);
        daemon_workers_not_started(daemon, spawn->slot, spawn->error);
    } else {
        worker->link = spawn->link;
        worker->has_link = true;
        if (spawn->warm.fd > 0) {
            worker->spawn = spawn; /* until shoal-keep reports the start (end.c) */
            if (worker->kill_wanted) {
                daemon_warm_give_up(daemon, spawn->slot);
            }
            return;
        }
        daemon_workers_spawned(daemon, spawn->slot);
    }
    spawn_free(spawn);
}

void daemon_workers_spawn(struct daemon *daemon, const struct node_effect *effect)
{
    static const uint32_t stop_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}; /* enum config_stop_signal */
    uint32_t slot = effect->u.worker.slot;
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    const struct view_experiment *experiment =
        view_find_experiment(node_core_view(daemon->core), effect->u.worker.attempt.experiment);
    bool is_known = experiment != NULL && experiment->known;
    const struct config *config = is_known ? daemon_config(daemon, experiment) : NULL;
    struct spawn_job *spawn = calloc(1, sizeof *spawn);
    if (!worker_is(worker, WORKER_READY, &effect->u.worker.attempt) || config == NULL || spawn == NULL) {
        free(spawn);
        worker->prepare = *effect;
        daemon_workers_not_started(daemon, slot,
                           is_known && config == NULL ? "the experiment's configuration is not on this disk, or damaged"
                                                      : "the worker's directory was not ready");
        return;
    }
    hash256 checkpoint = worker->prepare.u.worker.checkpoint;
    worker->prepare = *effect;
    worker->prepare.u.worker.checkpoint = checkpoint;
    worker->token = effect->u.worker.token;
    worker->seed = effect->u.worker.seed;
    worker->draw = effect->u.worker.draw;
    worker->size = effect->u.worker.size;
    memcpy(worker->group_key, effect->u.worker.group_key, sizeof worker->group_key);
    environment_build(daemon, effect, config, worker->directory, &spawn->start);
    if (worker->lacks_packages) { /* the failure of a program, for the log, `retry` and all that follows */
        free(spawn->start.entrypoint);
        spawn->start.entrypoint = strdup("exit 1");
        spawn->start.failed |= spawn->start.entrypoint == NULL;
    }
    if (spawn->start.failed || spawn->start.lacking[0] != '\0') {
        char why[128 + FACT_NAME_BYTES] = "no memory is left for the worker's environment";
        if (!spawn->start.failed) {
            (void)snprintf(why, sizeof why, "this node has no copy of the secret %s that it can open (any more)", spawn->start.lacking);
        }
        environment_close(&spawn->start);
        free(spawn);
        daemon_workers_not_started(daemon, slot, why);
        return;
    }
    platform_begin(daemon, slot, &spawn->start);
    if (config->warm && !worker->lacks_packages) {
        (void)daemon_warm_take(daemon, slot, &effect->u.worker.attempt, worker->prepare.u.worker.code, &spawn->start, worker->directory,
                               &spawn->warm, spawn->cold);
    }
    worker_move(worker, WORKER_SPAWNING);
    spawn->job = (struct job){.work = spawn_work, .done = spawn_done};
    spawn->daemon = daemon;
    spawn->slot = slot;
    spawn->attempt = effect->u.worker.attempt;
    spawn->token = effect->u.worker.token;
    bytes_copy_text(spawn->directory, sizeof spawn->directory, worker->directory);
    (void)snprintf(spawn->work, sizeof spawn->work, "%s/work", worker->directory);
    daemon_workers_lock_path(daemon, slot, spawn->lock, sizeof spawn->lock);
    if (effect->u.worker.master_port == worker->port) { /* otherwise the ranks meet at another worker */
        spawn->held_fd = worker->port_fd;
    } else if (worker->port_fd != 0) {
        (void)close(worker->port_fd);
    }
    worker->port_fd = 0;
    spawn->stop_signal = stop_signals[config->stop_signal];
    spawn->reads_events = config->tensorboard == CONFIG_TENSORBOARD_READ && worker->prepare.u.worker.number == 0;
    spawn->identity_bytes = daemon_workers_identity(worker, spawn->identity);
    jobs_run(daemon->file_jobs, &spawn->job);
}
