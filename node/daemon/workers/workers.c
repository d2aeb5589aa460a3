/* The workers of this node. The way of a worker: fetch the code (and a checkpoint) -> unpack into a fresh directory ->
 * spawn through shoal-keep -> collect log and metrics -> ended. A worker's requests come in through api/worker.c, its
 * metrics go on through series.c, and adopt.c finds the workers of earlier daemons. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "node/daemon/outputs/outputs.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/workers/cause.h"
#include "node/daemon/workers/environment.h"
#include "node/daemon/workers/error_file.h"
#include "node/daemon/workers/workers.h"
#include "node/keep/bars.h"
#include "node/keep/orphans.h"
#include "store/archive.h"

#define TAIL_LINES 12  /* of the log in a worker's record */
#define ERROR_HEAD_BYTES (ERROR_MESSAGE_BYTES + ERROR_STACK_BYTES)
#define CAUSE_LINES 60 /* of the worker's output that its cause of death is looked for in */
#define CAUSE_BYTES (32u * 1024)
#define ORPHANS_MS 100 /* between two looks for processes that a killed shoal-keep has left */
#define FETCH_TRIES 3
#define FETCH_ROUNDS 3 /* rounds of nodes to ask for code that earlier rounds do not have */
#define PORT_WAIT_MS 20000 /* a worker that is otherwise ready waits so long for a free port */

/* ---- states ---------------------------------------------------------------------------------------------------- */

void worker_move(struct daemon_worker *worker, enum worker_state to)
{
    CHECK(worker_state_may(worker->state, to));
    worker->state = to;
}

static void worker_clear(struct daemon_worker *worker)
{
    worker_move(worker, WORKER_NONE);
    if (worker->port_fd != 0) {
        (void)close(worker->port_fd);
    }
    memset(worker, 0, sizeof *worker);
}

/* ---- directories ----------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    (void)remove(path);
    return 0;
}

struct remove_job {
    struct job job;
    char directory[KEEP_PATH_BYTES];
};

static void remove_work(struct job *job)
{
    const char *directory = ((struct remove_job *)job)->directory;
    if (!daemon_outputs_move_aside(directory)) {
        (void)nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void remove_done(void *context, struct job *job)
{
    (void)context;
    free(job);
}

void daemon_workers_remove_later(struct daemon *daemon, const char *directory)
{
    /* When closed, the next daemon finds the directory. */
    struct remove_job *remover = daemon->closed ? NULL : calloc(1, sizeof *remover);
    if (remover != NULL) {
        remover->job = (struct job){.work = remove_work, .done = remove_done};
        bytes_copy_text(remover->directory, sizeof remover->directory, directory);
        jobs_run(daemon->file_jobs, &remover->job);
    }
}

/* An ended worker's directory. It tells how the worker ended, and stays until a record on the disk tells the same. */
struct daemon_ended {
    struct daemon_ended *next;
    attempt_id attempt;
    uint32_t number;
    char directory[KEEP_PATH_BYTES];
};

void daemon_workers_persisted(struct daemon *daemon)
{
    struct daemon_ended **link = &daemon->workers->ended;
    while (*link != NULL && !daemon->closed) { /* when closed, no job can remove directories; the next daemon finds them */
        struct daemon_ended *ended = *link;
        if (node_core_end_is_unwritten(daemon->core, &ended->attempt, ended->number) ||
            daemon_outputs_hold(daemon, ended->directory)) {
            link = &ended->next;
            continue;
        }
        *link = ended->next;
        daemon_workers_remove_later(daemon, ended->directory);
        free(ended);
    }
}

void daemon_workers_close(struct daemon *daemon)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (worker->port_fd != 0) {
            (void)close(worker->port_fd);
            worker->port_fd = 0;
        }
    }
    while (daemon->workers->ended != NULL) {
        struct daemon_ended *ended = daemon->workers->ended;
        daemon->workers->ended = ended->next;
        free(ended); /* the next daemon finds the directory */
    }
}

/* Removes a directory that was made ready, for a worker that will not start. */
static void worker_forget_prepared(struct daemon *daemon, struct daemon_worker *worker)
{
    if (worker->state == WORKER_READY) {
        daemon_workers_remove_later(daemon, worker->directory);
        worker_clear(worker);
    }
}

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
    uint16_t port_from;
    uint32_t port; /* 0: none is free */
    int port_fd;
    char error[512];
};

/* Takes a port for MASTER_PORT. All workers of a machine have ports of their own, and a daemon goes through its whole
 * range before it gives a port again: a rank of a lost attempt may still look for its peers at the old one. */
static int take_port(struct ports range, uint16_t from, uint32_t *port, int *port_fd)
{
    uint16_t number;
    int code = ports_take(range, from, &number, port_fd);
    if (code == 0) {
        *port = number;
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
    (void)nftw(unpack->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
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
    if (unpack->result == 0) {
        (void)take_port(unpack->ports, unpack->port_from, &unpack->port, &unpack->port_fd);
    }
}

static bool worker_is(const struct daemon_worker *worker, enum worker_state state, const attempt_id *attempt)
{
    return worker->state == state && attempt_id_equal(&worker->prepare.u.worker.attempt, attempt);
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
        daemon_line(daemon, "slot %u cannot be prepared: %s", slot, text);
        daemon_workers_remove_later(daemon, worker->directory);
        worker_clear(worker);
    } else {
        worker_move(worker, WORKER_READY);
    }
    daemon_event(daemon, &event);
}

static void fetch(struct daemon *daemon, uint32_t slot);

static void has_port(struct daemon *daemon, struct daemon_worker *worker, uint32_t port, int port_fd)
{
    worker->port = port;
    worker->port_fd = port_fd;
    worker->port_until_ms = 0;
    if (port != 0) {
        daemon->workers->port_next = (uint16_t)(port + 1); /* beyond the range: its start */
    }
}

static void unpack_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct unpack_job *unpack = (struct unpack_job *)job;
    uint32_t slot = unpack->slot;
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    if (!worker_is(worker, WORKER_UNPACKING, &unpack->attempt) || daemon->closed) {
        if (unpack->port_fd != 0) {
            (void)close(unpack->port_fd);
        }
        free(unpack);
        return;
    }
    if (unpack->refetch && worker->fetch_tries + 1 < FETCH_TRIES) {
        char hex[17];
        bytes_to_hex(hex, unpack->blamed.bytes, 8);
        daemon_line(daemon, "chunk %s... is %s on this disk; another copy is used", hex,
                    unpack->result == ERR_CORRUPT ? "damaged" : "missing");
        worker->fetch_tries++;
        worker->asked_rounds = 0;
        worker_move(worker, WORKER_FETCHING);
        worker->fetching = WORKER_CODE;
        worker->fetched_outputs = 0;
        fetch(daemon, slot);
    } else if (unpack->result == 0 && unpack->port == 0) {
        worker->port_until_ms = daemon_now_ms() + PORT_WAIT_MS;
        say_no_port(daemon, ERR_FULL, unpack->error, sizeof unpack->error);
        daemon_line(daemon, "slot %u waits for a port: %s", slot, unpack->error);
    } else {
        has_port(daemon, worker, unpack->port, unpack->port_fd);
        prepared(daemon, slot, unpack->result, unpack->port, unpack->error);
    }
    free(unpack);
}

/* Tries again to take a port for a worker that is otherwise ready. */
static void seek_port(struct daemon *daemon, uint32_t slot, uint64_t now_ms)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    uint32_t port;
    int port_fd;
    int code = take_port(daemon->options.ports, daemon->workers->port_next, &port, &port_fd);
    if (code == 0) {
        has_port(daemon, worker, port, port_fd);
        prepared(daemon, slot, 0, port, NULL);
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
    unpack->port_from = daemon->workers->port_next;
    unpack->number = worker->prepare.u.worker.number;
    unpack->beginning_count = worker->beginning_count;
    memcpy(unpack->beginnings, worker->beginnings, sizeof unpack->beginnings);
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), unpack->attempt.experiment);
    bool keeps_links = experiment != NULL && experiment->known && experiment->config->context_links == CONFIG_LINKS_KEEP;
    unpack->links = keeps_links ? ARCHIVE_LINKS_ANY : ARCHIVE_LINKS_INSIDE;
    bytes_copy_text(unpack->directory, sizeof unpack->directory, worker->directory);
    jobs_run(daemon->file_jobs, &unpack->job);
}

/* The part that is fetched now. */
static hash256 part_of(const struct daemon_worker *worker)
{
    const struct node_effect *effect = &worker->prepare;
    switch (worker->fetching) {
    case WORKER_CODE:
        break;
    case WORKER_CONFIG:
        return effect->u.worker.config;
    case WORKER_CHECKPOINT:
        return effect->u.worker.checkpoint;
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
    hash256 blob = part_of(worker);
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
static bool fetch_next(struct daemon_worker *worker)
{
    while (worker->fetching < WORKER_CHECKPOINT) {
        worker->fetching++;
        worker->asked_rounds = 0;
        if (!hash256_is_none(part_of(worker))) {
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
        } else if (fetch_next(worker)) {
            fetch(daemon, slot);
        } else {
            unpack_start(daemon, slot);
        }
        return;
    }
}

static void prepare(struct daemon *daemon, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot;
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    worker_forget_prepared(daemon, worker);
    worker_clear(worker);
    worker->prepare = *effect;
    worker_move(worker, WORKER_FETCHING);
    worker->size = effect->u.worker.size;
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

static void spawn_work(struct job *job)
{
    struct spawn_job *spawn = (struct spawn_job *)job;
    const char *locks[] = {spawn->lock};
    struct keep_spec spec = {.run_directory = spawn->directory,
                             .working_directory = spawn->work,
                             .entrypoint = spawn->start.entrypoint,
                             .environment = (const char *const *)spawn->start.variables,
                             .environment_count = spawn->start.count,
                             .lock_paths = locks,
                             .lock_count = 1,
                             .held_fd = spawn->held_fd,
                             .lease_ms = LEASE_MS,
                             .log_cap_bytes = DAEMON_LOG_CAP_BYTES,
                             .stop_signal = spawn->stop_signal,
                             .identity = spawn->identity,
                             .identity_bytes = spawn->identity_bytes,
                             .token = spawn->token};
    spawn->code = hparams_write(spawn);
    if (spawn->code != 0) {
        return;
    }
    spawn->code = keep_spawn(spawn->daemon->keep_program, &spec, &spawn->link, spawn->error);
}

static void worker_ended(struct daemon *daemon, uint32_t slot, struct node_event event)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    bool is_stopping = worker->ended && worker->status.is_stopping;
    event.kind = NODE_EVENT_WORKER_EXITED;
    event.u.worker.slot = slot;
    event.u.worker.attempt = worker->prepare.u.worker.attempt;
    event.u.worker.is_stopping = is_stopping;
    struct daemon_ended *ended = calloc(1, sizeof *ended);
    if (ended != NULL) { /* without memory the next daemon removes the directory */
        ended->attempt = event.u.worker.attempt;
        ended->number = worker->prepare.u.worker.number;
        bytes_copy_text(ended->directory, sizeof ended->directory, worker->directory);
        ended->next = daemon->workers->ended;
        daemon->workers->ended = ended;
    }
    worker_clear(worker);
    daemon_event(daemon, &event);
}

static void worker_not_started(struct daemon *daemon, uint32_t slot, const char *text)
{
    worker_ended(daemon, slot, (struct node_event){.u.worker = {.code = -1, .is_unstarted = true, .text = text}});
}

static void send_kill(struct daemon_worker *worker)
{
    int code = worker->kill_hung ? keep_kill_hung(&worker->link, worker->kill_grace_ms)
                                 : keep_kill(&worker->link, worker->kill_grace_ms);
    worker->kill_wanted = code != 0;
    worker->kill_hung &= code != 0;
}

static void spawn_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct spawn_job *spawn = (struct spawn_job *)job;
    struct daemon_worker *worker = &daemon->workers->slots[spawn->slot];
    environment_close(&spawn->start);
    if (spawn->held_fd != 0) {
        (void)close(spawn->held_fd); /* shoal-keep has its copy */
    }
    if (!worker_is(worker, WORKER_SPAWNING, &spawn->attempt)) {
        if (spawn->code == 0) {
            keep_close(&spawn->link);
        }
    } else if (spawn->code != 0) {
        daemon_line(daemon, "a worker could not be started: %s", spawn->error);
        worker_not_started(daemon, spawn->slot, spawn->error);
    } else {
        worker_move(worker, WORKER_RUNNING);
        daemon_outputs_watch(daemon, spawn->slot, &spawn->attempt, worker->prepare.u.worker.number, worker->directory);
        worker->link = spawn->link;
        worker->has_link = true;
        worker->renew_ms = daemon_now_ms() + LEASE_MS / 3;
        if (worker->kill_wanted) {
            send_kill(worker);
        }
    }
    free(spawn);
}

static void lock_path(const struct daemon *daemon, uint32_t slot, char *out, size_t size)
{
    /* All daemons of this user share the machine's GPUs; a CPU slot belongs to one daemon. */
    if (daemon->slots[slot].kind == SLOT_CUDA) {
        (void)snprintf(out, size, "/tmp/shoal-%u-%.60s.lock", (unsigned)getuid(), daemon->slots[slot].uuid);
    } else {
        (void)snprintf(out, size, "%.900s/slot-%u.lock", daemon->dir, slot);
    }
}

static void spawn(struct daemon *daemon, const struct node_effect *effect)
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
        worker_not_started(daemon, slot,
                           is_known && config == NULL ? "the experiment's configuration is not on this disk, or damaged"
                                                      : "the worker's directory was not ready");
        return;
    }
    hash256 checkpoint = worker->prepare.u.worker.checkpoint;
    worker->prepare = *effect;
    worker->prepare.u.worker.checkpoint = checkpoint;
    worker->token = effect->u.worker.token;
    worker->seed = effect->u.worker.seed;
    worker->size = effect->u.worker.size;
    memcpy(worker->group_key, effect->u.worker.group_key, sizeof worker->group_key);
    environment_build(daemon, effect, config, worker->directory, &spawn->start);
    if (spawn->start.failed) {
        environment_close(&spawn->start);
        free(spawn);
        worker_not_started(daemon, slot, "no memory is left for the worker's environment");
        return;
    }
    worker_move(worker, WORKER_SPAWNING);
    spawn->job = (struct job){.work = spawn_work, .done = spawn_done};
    spawn->daemon = daemon;
    spawn->slot = slot;
    spawn->attempt = effect->u.worker.attempt;
    spawn->token = effect->u.worker.token;
    bytes_copy_text(spawn->directory, sizeof spawn->directory, worker->directory);
    (void)snprintf(spawn->work, sizeof spawn->work, "%s/work", worker->directory);
    lock_path(daemon, slot, spawn->lock, sizeof spawn->lock);
    if (effect->u.worker.master_port == worker->port) { /* otherwise the ranks meet at another worker */
        spawn->held_fd = worker->port_fd;
    } else if (worker->port_fd != 0) {
        (void)close(worker->port_fd);
    }
    worker->port_fd = 0;
    spawn->stop_signal = stop_signals[config->stop_signal];
    spawn->identity_bytes = daemon_workers_identity(worker, spawn->identity);
    jobs_run(daemon->file_jobs, &spawn->job);
}

/* ---- ends ------------------------------------------------------------------------------------------------------ */

static void kill_worker(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, uint32_t grace_ms, bool is_hung)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    if (worker_is(worker, WORKER_RUNNING, attempt) && worker->has_link) {
        worker->kill_hung = is_hung;
        worker->kill_grace_ms = grace_ms;
        send_kill(worker); /* no room: the next tick tries again */
    } else if (worker_is(worker, WORKER_SPAWNING, attempt)) {
        worker->kill_hung = is_hung;
        worker->kill_wanted = true;
        worker->kill_grace_ms = grace_ms;
    }
}

void daemon_workers_stopping(struct daemon_worker *worker)
{
    /* First, since this daemon may end at any moment. */
    worker->stopping_wanted = !worker->has_link || keep_stopping(&worker->link) != 0;
    if (worker->kill_at_ms == 0) { /* the first of a worker's programs to connect starts the grace */
        worker->kill_at_ms = daemon_now_ms() + worker->stop_grace_ms;
    }
    worker->term_at_ms = 0;
}

/* A program without libshoal gets SIGTERM, as under torchrun or Slurm. An adopted program first gets time to connect to
 * this daemon. */
bool daemon_workers_stop(struct daemon *daemon, const struct node_effect *effect)
{
    uint32_t slot = effect->u.worker.slot;
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    bool is_running = worker_is(worker, WORKER_RUNNING, &effect->u.worker.attempt);
    bytes_copy_text(worker->stop_reason, sizeof worker->stop_reason, effect->u.worker.text);
    worker->stop_grace_ms = effect->u.worker.grace_ms;
    if (is_running && worker->client != NULL) {
        return true;
    }
    if (is_running && daemon_now_ms() < worker->connects_until_ms) {
        worker->term_at_ms = worker->connects_until_ms;
    } else {
        kill_worker(daemon, slot, &effect->u.worker.attempt, effect->u.worker.grace_ms, false);
    }
    return false;
}

void daemon_workers_effect(struct daemon *daemon, const struct node_effect *effect)
{
    switch (effect->kind) {
    case NODE_EFFECT_PREPARE:
        prepare(daemon, effect);
        break;
    case NODE_EFFECT_SPAWN:
        spawn(daemon, effect);
        break;
    default: /* NODE_EFFECT_KILL */
        kill_worker(daemon, effect->u.worker.slot, &effect->u.worker.attempt, effect->u.worker.grace_ms,
                    effect->u.worker.stacks);
        break;
    }
}

/* Asks bulk to report when the worker's metrics are on the disk; then the core gets the worker's end. So a user who
 * reads that a trial is done finds its last metrics, even if the daemon ends at that moment. Waits, too, until the
 * worker's checkpoints are stored, since the next attempt begins from the last of them. */
static void settle(struct daemon *daemon, struct daemon_worker *worker)
{
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t bytes = daemon_series_prefix('m', &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, prefix);
    uint64_t id = daemon->request_id + 1;
    if (worker->saves == 0 && worker->last.read_id == 0 &&
        bulk_series_fetch(daemon->bulk, id, prefix, bytes, UINT64_MAX, daemon->keys.id) == 0) {
        worker->last.read_id = daemon->request_id = id; /* the next tick asks again on failure */
    }
}

/* Ends processes that a killed shoal-keep has left. False once none is left: then the slot may be free. */
static bool has_orphans(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    uint64_t now_ms = daemon_now_ms();
    if (now_ms < worker->orphans_ms) {
        return true;
    }
    size_t count = keep_orphans_end(&worker->token);
    worker->is_lost = count > 0;
    worker->orphans_ms = now_ms + ORPHANS_MS;
    if (count > 0) {
        daemon_line(daemon, "shoal-keep of trial %u is gone: %zu process%s of its worker %s ended",
                    worker->prepare.u.worker.attempt.trial, count, count == 1 ? "" : "es", count == 1 ? "is" : "are");
    }
    return worker->is_lost;
}

bool daemon_workers_is_ending(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    char lock[KEEP_PATH_BYTES + 32];
    if (!worker->ended || worker->last.is_taken) {
        return false;
    }
    lock_path(daemon, slot, lock, sizeof lock);
    return !(worker->is_lost && has_orphans(daemon, slot)) && keep_lock_is_free(lock);
}

/* What the kernel's counters and the last lines tell of the end. */
static void look_at_end(struct daemon_worker *worker)
{
    const struct keep_status *status = &worker->status;
    int32_t code = status->signal != 0 ? -status->signal : status->code;
    char *lines = malloc(CAUSE_BYTES);
    size_t bytes;
    worker->last.cause = status->memory == KEEP_MEMORY_LIMIT     ? FACT_CAUSE_MEMORY_LIMIT
                         : status->memory == KEEP_MEMORY_MACHINE ? FACT_CAUSE_MEMORY
                                                                 : FACT_CAUSE_UNKNOWN;
    if (lines != NULL && status->reason == KEEP_EXITED &&
        keep_log_tail(worker->directory, CAUSE_LINES, lines, CAUSE_BYTES, &bytes) == 0) {
        for (size_t i = 0; i < bytes; i++) {
            lines[i] = lines[i] == '\0' ? '?' : lines[i];
        }
        worker->last.failure = worker->last.cause == FACT_CAUSE_UNKNOWN ? cause_failure(code, lines, worker->directory) : 0;
        worker->last.cause = worker->last.cause == FACT_CAUSE_UNKNOWN ? cause_of_lines(code, lines) : worker->last.cause;
    }
    free(lines);
}

/* Where the last `lines` lines begin of which at most `room` bytes are wanted; never inside a character. */
static size_t tail_from(const char *text, size_t bytes, uint32_t lines, size_t room)
{
    size_t from = bytes;
    for (uint32_t ends = 0; from > 0 && bytes - from < room; from--) {
        ends += text[from - 1] == '\n' && from < bytes;
        if (ends == lines) {
            break;
        }
    }
    while (from < bytes && ((unsigned char)text[from] & 0xc0) == 0x80) {
        from++;
    }
    return from;
}

/* Gives the end of the log for the worker's record, and stores more of it beside the log if the program has failed. False:
 * bulk has enough to write. */
static bool take_tail(struct daemon *daemon, struct daemon_worker *worker, char tail[FACT_TAIL_BYTES + 1])
{
    static char whole[ERROR_HEAD_BYTES + DAEMON_TAIL_BYTES_MAX + 256]; /* the protocol thread's alone */
    char *text = whole + ERROR_HEAD_BYTES;
    size_t bytes = 0;
    if (keep_log_tail(worker->directory, UINT32_MAX, text, sizeof whole - ERROR_HEAD_BYTES, &bytes) != 0) {
        bytes = 0; /* the program's own message may still be there */
    }
    bytes = keep_bars_fold(text, bytes);
    for (size_t i = 0; i < bytes; i++) { /* the reason may be written after a NUL */
        text[i] = text[i] == '\0' ? '?' : text[i];
    }
    bool has_failed = worker->status.code != 0 || worker->status.signal != 0;
    struct error_file error;
    size_t first = 0;
    worker->last.error_ms = 0;
    if (has_failed && error_file_read(worker->directory, &error)) { /* above the log: after it come others' last words */
        first = (size_t)snprintf(tail, FACT_TAIL_BYTES, "%s\n%s", error.message, error.stack);
        worker->last.error_ms = error.at_ms;
    }
    size_t from = tail_from(text, bytes, TAIL_LINES, FACT_TAIL_BYTES - 1 - first);
    size_t all = tail_from(text, bytes, UINT32_MAX, bytes < DAEMON_TAIL_BYTES_MAX - first ? bytes : DAEMON_TAIL_BYTES_MAX - first);
    bytes_copy_text_n(tail + first, FACT_TAIL_BYTES + 1 - first, text + from, bytes - from);
    if (from <= all || !has_failed) {
        return true;
    }
    char *head = text + all - first; /* what stood there is left out, or is ahead of the log */
    memcpy(head, tail, first);
    return daemon_series_append(daemon, &worker->prepare.u.worker.attempt, 't', worker->prepare.u.worker.number, 1, (const uint8_t *)head,
                                first + bytes - all) == 0;
}

/* Whether the worker failed, and another program has the port on which the ranks were to meet: that is no failure of the
 * worker's program. The lock of the port keeps only Shoal's programs away from it. All processes of the worker are gone. */
static bool lost_its_port(const struct daemon_worker *worker)
{
    const struct keep_status *status = &worker->status;
    return status->reason == KEEP_EXITED && status->code > 0 && !status->is_stopping && worker->port != 0 &&
           worker->port == worker->prepare.u.worker.master_port && ports_has_stranger((uint16_t)worker->port);
}

bool daemon_workers_take_last(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    const struct keep_status *status = &worker->status;
    bool is_asked = status->reason == KEEP_KILLED || status->is_stopping;
    bool is_clean = status->reason != KEEP_LEASE && status->signal == 0 &&
                    (status->code == 0 || (is_asked && status->code > 0 && status->code < 128));
    if (!daemon_workers_log_ends(daemon, slot) || !daemon_outputs_end(daemon, slot, is_clean)) {
        return false;
    }
    char tail[FACT_TAIL_BYTES + 1] = "";
    if (!take_tail(daemon, worker, tail)) {
        return false; /* the next tick goes on */
    }
    look_at_end(worker);
    bool killed = status->reason == KEEP_KILLED || status->reason == KEEP_LEASE;
    int32_t code = status->signal != 0 ? -status->signal : status->code;
    if (status->reason == KEEP_NOT_STARTED && tail[0] == '\0') {
        bytes_copy_text(tail, sizeof tail, status->text);
    }
    worker->last.is_taken = true;
    worker->last.code = code;
    worker->last.killed = killed;
    worker->last.is_unstarted = status->reason == KEEP_NOT_STARTED;
    if (lost_its_port(worker)) {
        worker->last.is_unstarted = true;
        (void)snprintf(tail, sizeof tail, "another program has port %u, which was its MASTER_PORT; it gets another port",
                       (unsigned)worker->port);
        daemon_line(daemon, "the worker of slot %u has failed: %s", slot, tail);
    }
    bytes_copy_text(worker->last.tail, sizeof worker->last.tail, tail);
    settle(daemon, worker);
    return true;
}

void daemon_workers_settled(struct daemon *daemon, uint64_t request)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct worker_last last = daemon->workers->slots[slot].last;
        if (last.is_taken && last.read_id == request) {
            worker_ended(daemon, slot,
                         (struct node_event){.u.worker = {.code = last.code,
                                                       .killed = last.killed,
                                                       .is_unstarted = last.is_unstarted,
                                                       .cause = last.cause,
                                                       .failure = last.failure,
                                                       .error_ms = last.error_ms,
                                                       .text = last.tail}});
        }
    }
}

void daemon_workers_poll(struct daemon *daemon, uint32_t slot)
{
    struct daemon_worker *worker = &daemon->workers->slots[slot];
    struct keep_event event;
    while (worker->has_link && keep_read_event(&worker->link, &event) == 0) {
        if (event.kind == KEEP_EVENT_STARTED) {
            worker->started_seen = true;
            worker->keep_pid = event.keep_pid;
            continue;
        }
        worker->has_link = false;
        worker->keep_pid = 0;
        worker->ended = true;
        if (event.kind == KEEP_EVENT_ENDED) {
            worker->status = event.status;
        } else {
            /* shoal-keep itself is gone: the slot is free when no process is left (daemon_workers_is_ending looks). */
            worker->is_lost = true;
            worker->status = (struct keep_status){.reason = KEEP_KILLED, .code = -1};
        }
        keep_close(&worker->link);
    }
    if (worker->last.is_taken) {
        settle(daemon, worker);
    }
}

/* No worker can meet a deadline while the machine is suspended or the daemon is stopped: deadlines move by the gap
 * (docs/design.md 5). */
static void shift(uint64_t *when_ms, uint64_t gap_ms)
{
    if (*when_ms != 0) {
        *when_ms += gap_ms;
    }
}

void daemon_workers_awake(struct daemon *daemon, uint64_t now_ms)
{
    uint64_t gap_ms = daemon->workers->awake_ms != 0 ? now_ms - daemon->workers->awake_ms : 0;
    daemon->workers->awake_ms = now_ms;
    for (uint32_t slot = 0; slot < daemon->slot_count && gap_ms > CORE_STALL_MS; slot++) {
        shift(&daemon->workers->slots[slot].kill_at_ms, gap_ms);
        shift(&daemon->workers->slots[slot].term_at_ms, gap_ms);
        shift(&daemon->workers->slots[slot].connects_until_ms, gap_ms);
        shift(&daemon->workers->slots[slot].port_until_ms, gap_ms);
        worker_stall_shift(&daemon->workers->slots[slot].stall, gap_ms);
    }
    if (gap_ms > CORE_STALL_MS) {
        daemon_outputs_awake(daemon, gap_ms, now_ms);
    }
}

void daemon_workers_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        struct daemon_worker *worker = &daemon->workers->slots[slot];
        if (!node_core_is_prepared(daemon->core, slot, &worker->prepare.u.worker.attempt)) {
            worker_forget_prepared(daemon, worker); /* the lease ended before the start */
        }
        if (worker->state == WORKER_UNPACKING && worker->port_until_ms != 0) {
            seek_port(daemon, slot, now_ms);
        }
        if (worker->state != WORKER_RUNNING) {
            continue;
        }
        if (worker->ended) {
            daemon_workers_poll(daemon, slot);
            continue;
        }
        if (now_ms >= worker->renew_ms) {
            worker->renew_ms = now_ms + LEASE_MS / 3;
            (void)keep_renew(&worker->link);
        }
        if (worker->term_at_ms != 0 && now_ms >= worker->term_at_ms) {
            worker->term_at_ms = 0;
            worker->kill_wanted = true;
            worker->kill_grace_ms = worker->stop_grace_ms;
        }
        if (worker->kill_at_ms != 0 && now_ms >= worker->kill_at_ms) {
            worker->kill_at_ms = 0;
            worker->kill_wanted = true;
            worker->kill_grace_ms = CORE_KILL_GRACE_MS;
        }
        if (worker->kill_wanted) {
            send_kill(worker);
        }
        if (worker->stopping_wanted) {
            worker->stopping_wanted = keep_stopping(&worker->link) != 0;
        }
        daemon_workers_log(daemon, slot);
    }
}

void daemon_workers_deliver_ended(struct daemon *daemon)
{
    for (uint32_t slot = 0; slot < daemon->slot_count; slot++) {
        if (daemon->workers->slots[slot].state == WORKER_RUNNING) {
            daemon_series_progress(daemon, &daemon->workers->slots[slot], 0);
        }
    }
    daemon_workers_tick(daemon, daemon_now_ms());
}
