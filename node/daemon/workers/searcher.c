#include "node/daemon/workers/searcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/workers/environment.h"
#include "node/daemon/workers/packages.h"
#include "node/daemon/workers/workers.h"
#include "store/archive.h"

#define ROUNDS 3              /* of nodes to ask for code that earlier rounds do not have */
#define LOG_BYTES (1u << 20)  /* of one life's output in the log that stays */
#define WHOLE_LOG_BYTES (8u << 20) /* the log that stays is begun anew beyond */
#define LINE_BYTES 200

enum searcher_state {
    SEARCHER_FETCHING,   /* bulk fetches the code or the configuration */
    SEARCHER_UNPACKING,  /* a job makes its directory */
    SEARCHER_INSTALLING, /* a process makes its packages ready */
    SEARCHER_SPAWNING,   /* a job lets shoal-keep start it */
    SEARCHER_RUNNING,
    SEARCHER_OVER        /* a job keeps its output and removes its directory */
};

struct daemon_searcher {
    struct daemon_searcher *next;
    experiment_id experiment;
    uint64_t life;
    enum searcher_state state;
    bool is_unwanted; /* the core wants no word of it any more */
    char directory[KEEP_PATH_BYTES];
    hash256 code, config;
    bool has_code;
    uint64_t fetch_id;
    uint32_t asked_rounds;
    enum archive_links links;
    pid_t packages_pid; /* 0: none */
    lease_token token;
    struct keep_link link;
    bool has_link;
    uint64_t renew_ms;
    uint64_t serial, request_id; /* the request that waits for an event; 0: none */
};

/* The core may have no more use for what a job has done: the job keeps (experiment, life), not a pointer. */
struct searcher_job {
    struct job job;
    experiment_id experiment;
    uint64_t life;
    struct daemon *daemon; /* only for its constant fields */
    struct chunks *chunks;
    hash256 code;
    enum archive_links links;
    char directory[KEEP_PATH_BYTES], log[KEEP_PATH_BYTES];
    struct worker_start start;
    lease_token token;
    struct keep_link link;
    int code_read;
    char why[KEEP_ERROR_BYTES];
    char line[LINE_BYTES]; /* OVER: the last line of the output */
};

static struct daemon_searcher *find(struct daemon *daemon, experiment_id experiment, uint64_t life)
{
    struct daemon_searcher *searcher = daemon->workers->searchers;
    while (searcher != NULL && (searcher->life != life || !experiment_id_equal(searcher->experiment, experiment))) {
        searcher = searcher->next;
    }
    return searcher;
}

static void tell_core(struct daemon *daemon, const struct daemon_searcher *searcher, enum node_event_kind kind, const char *text)
{
    struct node_event event = {.kind = kind};
    event.u.searcher.experiment = searcher->experiment;
    event.u.searcher.life = searcher->life;
    event.u.searcher.text = text;
    if (!searcher->is_unwanted) {
        daemon_event(daemon, &event);
    }
}

static void drop(struct daemon *daemon, struct daemon_searcher *searcher)
{
    struct daemon_searcher **link = &daemon->workers->searchers;
    while (*link != searcher) {
        link = &(*link)->next;
    }
    *link = searcher->next;
    if (searcher->has_link) {
        keep_close(&searcher->link);
    }
    free(searcher);
}

static struct searcher_job *job_of(struct daemon *daemon, const struct daemon_searcher *searcher, void (*work)(struct job *),
                                   void (*done)(void *, struct job *))
{
    struct searcher_job *job = daemon->closed ? NULL : calloc(1, sizeof *job);
    char hex[2 * EXPERIMENT_ID_BYTES + 1];
    if (job == NULL) {
        return NULL;
    }
    *job = (struct searcher_job){.job = {.work = work, .done = done},
                                 .experiment = searcher->experiment,
                                 .life = searcher->life,
                                 .daemon = daemon,
                                 .chunks = daemon->chunks,
                                 .code = searcher->code,
                                 .links = searcher->links,
                                 .token = searcher->token};
    bytes_to_hex(hex, searcher->experiment.bytes, EXPERIMENT_ID_BYTES);
    bytes_copy_text(job->directory, sizeof job->directory, searcher->directory);
    (void)snprintf(job->log, sizeof job->log, "%.900s/searchers/%s.log", daemon->dir, hex);
    return job;
}

/* ---- the end ----------------------------------------------------------------------------------------------------------- */

/* Appends the output to the log that stays, and finds its last line. */
static void keep_output(struct searcher_job *job)
{
    uint8_t *bytes = malloc(LOG_BYTES);
    size_t got = 0, all = 0;
    uint64_t offset = 0, dropped = 0;
    struct stat status;
    bool is_long = stat(job->log, &status) == 0 && status.st_size > (off_t)WHOLE_LOG_BYTES;
    FILE *file = bytes != NULL ? fopen(job->log, is_long ? "we" : "ae") : NULL;
    while (file != NULL && keep_log_read(job->directory, offset, bytes, LOG_BYTES, &got, &dropped) == 0 && got > 0) {
        size_t fits = got < LOG_BYTES - all ? got : LOG_BYTES - all;
        (void)fwrite(bytes, 1, fits, file);
        all += fits;
        size_t end = got, from;
        while (end > 0 && (bytes[end - 1] == '\n' || bytes[end - 1] == '\0')) {
            end--;
        }
        for (from = end; from > 0 && bytes[from - 1] != '\n' && end - from < LINE_BYTES - 1; from--) {
        }
        if (end > from) {
            memcpy(job->line, bytes + from, end - from);
            job->line[end - from] = '\0';
        }
        offset += dropped + got;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    for (char *at = job->line; *at != '\0'; at++) { /* a sentence is one line of text */
        *at = (unsigned char)*at < ' ' ? ' ' : *at;
    }
    free(bytes);
}

static void over_work(struct job *job)
{
    struct searcher_job *over = (struct searcher_job *)job;
    keep_output(over);
    worker_directory_remove(over->directory);
}

static void over_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct searcher_job *over = (struct searcher_job *)job;
    struct daemon_searcher *searcher = find(daemon, over->experiment, over->life);
    if (searcher != NULL && !daemon->closed) {
        char text[KEEP_ERROR_BYTES + LINE_BYTES + 4];
        (void)snprintf(text, sizeof text, "%s%s%s", over->why, over->line[0] != '\0' ? ": " : "", over->line);
        tell_core(daemon, searcher, NODE_EVENT_SEARCHER_ENDED, text);
        drop(daemon, searcher);
    }
    free(over);
}

/* No process of it is left. `why`: the end of a sentence. */
static void is_over(struct daemon *daemon, struct daemon_searcher *searcher, const char *why)
{
    struct searcher_job *over = job_of(daemon, searcher, over_work, over_done);
    searcher->state = SEARCHER_OVER;
    searcher->request_id = 0;
    if (over == NULL) {
        tell_core(daemon, searcher, NODE_EVENT_SEARCHER_ENDED, why);
        drop(daemon, searcher);
        return;
    }
    bytes_copy_text(over->why, sizeof over->why, why);
    jobs_run(daemon->file_jobs, &over->job);
}

static void kill_it(struct daemon_searcher *searcher)
{
    searcher->is_unwanted = true;
    searcher->request_id = 0;
    if (searcher->packages_pid != 0) {
        packages_kill(searcher->packages_pid);
    }
    if (searcher->has_link) {
        (void)keep_kill(&searcher->link, 0);
    }
}

/* ---- the start --------------------------------------------------------------------------------------------------------- */

static void spawn_work(struct job *job)
{
    struct searcher_job *spawn = (struct searcher_job *)job;
    char work[KEEP_PATH_BYTES + 8];
    (void)snprintf(work, sizeof work, "%s/work", spawn->directory);
    struct keep_spec spec = {.run_directory = spawn->directory,
                             .working_directory = work,
                             .entrypoint = spawn->start.entrypoint,
                             .environment = (const char *const *)spawn->start.variables,
                             .environment_count = spawn->start.count,
                             .lease_ms = LEASE_MS,
                             .log_cap_bytes = LOG_BYTES,
                             .is_polite = spawn->daemon->options.is_polite,
                             .token = spawn->token};
    spawn->code_read = keep_spawn(spawn->daemon->keep_program, &spec, &spawn->link, spawn->why);
}

static void spawn_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct searcher_job *spawn = (struct searcher_job *)job;
    struct daemon_searcher *searcher = daemon->closed ? NULL : find(daemon, spawn->experiment, spawn->life);
    if (searcher == NULL && spawn->code_read == 0) {
        keep_close(&spawn->link); /* it ends with its lease */
    } else if (searcher != NULL && spawn->code_read != 0) {
        char why[KEEP_ERROR_BYTES + 32];
        (void)snprintf(why, sizeof why, "cannot be started: %s", spawn->why);
        is_over(daemon, searcher, why);
    } else if (searcher != NULL) {
        searcher->link = spawn->link;
        searcher->has_link = true;
        searcher->state = SEARCHER_RUNNING;
        searcher->renew_ms = daemon_now_ms() + LEASE_MS / 3;
        if (searcher->is_unwanted) {
            kill_it(searcher);
        } else {
            tell_core(daemon, searcher, NODE_EVENT_SEARCHER_STARTED, NULL);
        }
    }
    environment_close(&spawn->start);
    free(spawn);
}

static void spawn(struct daemon *daemon, struct daemon_searcher *searcher)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), searcher->experiment);
    const struct config *config = experiment != NULL && experiment->known ? daemon_config(daemon, experiment) : NULL;
    struct searcher_job *spawn = config != NULL ? job_of(daemon, searcher, spawn_work, spawn_done) : NULL;
    if (spawn == NULL) {
        is_over(daemon, searcher, config == NULL ? "cannot be started: its configuration is not on this disk" : "cannot be started: no memory is left");
        return;
    }
    if (getrandom(searcher->token.bytes, sizeof searcher->token.bytes, 0) != (ssize_t)sizeof searcher->token.bytes) {
        free(spawn);
        is_over(daemon, searcher, "cannot be started: the system gives no random numbers");
        return;
    }
    spawn->token = searcher->token;
    environment_of_searcher(daemon, config, searcher->experiment, searcher->token, searcher->directory, &spawn->start);
    if (spawn->start.failed) {
        environment_close(&spawn->start);
        free(spawn);
        is_over(daemon, searcher, "cannot be started: no memory is left");
        return;
    }
    searcher->state = SEARCHER_SPAWNING;
    jobs_run(daemon->file_jobs, &spawn->job);
}

static void unpack_work(struct job *job)
{
    struct searcher_job *unpack = (struct searcher_job *)job;
    char work[KEEP_PATH_BYTES + 8];
    hash256 blamed;
    worker_directory_remove(unpack->directory);
    (void)snprintf(work, sizeof work, "%s/work", unpack->directory);
    int fd = memfd_create("shoal-code", MFD_CLOEXEC);
    if (fd < 0 || mkdir(unpack->directory, 0700) != 0) {
        (void)snprintf(unpack->why, sizeof unpack->why, "%.300s cannot be made: %s", unpack->directory, strerror(errno));
        unpack->code_read = ERR_IO;
    } else {
        unpack->code_read = chunks_read_blob_to_fd(unpack->chunks, unpack->code, fd, &blamed, unpack->why, sizeof unpack->why);
        if (unpack->code_read == ERR_CORRUPT) {
            (void)chunks_delete(unpack->chunks, blamed); /* the next life fetches it anew */
        }
    }
    if (unpack->code_read == 0) {
        (void)lseek(fd, 0, SEEK_SET);
        unpack->code_read = archive_unpack(fd, work, 0, unpack->links, unpack->why, sizeof unpack->why);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void unpack_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct searcher_job *unpack = (struct searcher_job *)job;
    struct daemon_searcher *searcher = daemon->closed ? NULL : find(daemon, unpack->experiment, unpack->life);
    const struct view_experiment *experiment =
        searcher != NULL ? view_find_experiment(node_core_view(daemon->core), searcher->experiment) : NULL;
    const struct config *config = experiment != NULL && experiment->known ? daemon_config(daemon, experiment) : NULL;
    if (searcher != NULL && (unpack->code_read != 0 || searcher->is_unwanted)) {
        char why[KEEP_ERROR_BYTES + 64];
        (void)snprintf(why, sizeof why, "cannot be started: its code cannot be unpacked: %.400s", unpack->why);
        is_over(daemon, searcher, why);
    } else if (searcher != NULL && config != NULL && config->requirements[0] != '\0') {
        searcher->packages_pid = packages_start(daemon, config, searcher->directory);
        searcher->state = SEARCHER_INSTALLING;
        if (searcher->packages_pid == 0) {
            is_over(daemon, searcher, "cannot be started: the process that makes its packages ready does not start");
        }
    } else if (searcher != NULL) {
        spawn(daemon, searcher);
    }
    free(unpack);
}

static void fetch(struct daemon *daemon, struct daemon_searcher *searcher)
{
    node_id holders[DAEMON_HOLDERS_MAX];
    uint32_t count = daemon_holders_code(daemon, searcher->experiment, searcher->asked_rounds, holders);
    daemon_bulk_peers(daemon);
    searcher->fetch_id = ++daemon->request_id;
    if (bulk_fetch(daemon->bulk, searcher->fetch_id, searcher->has_code ? searcher->config : searcher->code, holders, count) != 0) {
        is_over(daemon, searcher, "cannot be started: the request for its code could not be queued");
    }
}

void daemon_searcher_fetched(struct daemon *daemon, uint64_t request, int code, const char *text)
{
    struct daemon_searcher *searcher = daemon->workers->searchers;
    while (searcher != NULL && (searcher->state != SEARCHER_FETCHING || searcher->fetch_id != request)) {
        searcher = searcher->next;
    }
    if (searcher == NULL) {
        return;
    }
    if (searcher->is_unwanted) {
        is_over(daemon, searcher, "is not wanted any more");
    } else if (code != 0 && searcher->asked_rounds + 1 < ROUNDS && daemon_holders_any(daemon, searcher->asked_rounds + 1)) {
        searcher->asked_rounds++;
        fetch(daemon, searcher);
    } else if (code != 0) {
        char why[400];
        (void)snprintf(why, sizeof why, "cannot be started: its %s cannot be fetched: %.300s", searcher->has_code ? "configuration" : "code", text);
        is_over(daemon, searcher, why);
    } else if (!searcher->has_code && !hash256_is_none(searcher->config)) {
        searcher->has_code = true;
        searcher->asked_rounds = 0;
        fetch(daemon, searcher);
    } else {
        struct searcher_job *unpack = job_of(daemon, searcher, unpack_work, unpack_done);
        searcher->state = SEARCHER_UNPACKING;
        if (unpack == NULL) {
            is_over(daemon, searcher, "cannot be started: no memory is left");
        } else {
            jobs_run(daemon->file_jobs, &unpack->job);
        }
    }
}

/* What an earlier daemon has left; its programs end with their leases. */
static void remove_left(struct daemon *daemon, const char *searchers)
{
    DIR *directory = opendir(searchers);
    const struct dirent *entry;
    char path[KEEP_PATH_BYTES + 300], own[32];
    (void)snprintf(own, sizeof own, "%016llx-", (unsigned long long)daemon->boot);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        struct stat status;
        (void)snprintf(path, sizeof path, "%s/%s", searchers, entry->d_name);
        if (entry->d_name[0] != '.' && strncmp(entry->d_name, own, strlen(own)) != 0 && lstat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
            daemon_workers_remove_later(daemon, path);
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
}

static void start(struct daemon *daemon, const struct node_effect *effect)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), effect->u.searcher.experiment);
    struct daemon_searcher *searcher = calloc(1, sizeof *searcher);
    char searchers[KEEP_PATH_BYTES], hex[17];
    if (searcher == NULL || experiment == NULL || !experiment->known) {
        struct node_event event = {.kind = NODE_EVENT_SEARCHER_ENDED};
        event.u.searcher.experiment = effect->u.searcher.experiment;
        event.u.searcher.life = effect->u.searcher.life;
        event.u.searcher.text = "cannot be started: no memory is left";
        free(searcher);
        daemon_event(daemon, &event);
        return;
    }
    (void)snprintf(searchers, sizeof searchers, "%.900s/searchers", daemon->dir);
    (void)mkdir(searchers, 0700);
    if (daemon->workers->searchers == NULL) {
        remove_left(daemon, searchers);
    }
    bytes_to_hex(hex, effect->u.searcher.experiment.bytes, 8);
    searcher->experiment = effect->u.searcher.experiment;
    searcher->life = effect->u.searcher.life;
    searcher->code = experiment->code;
    searcher->config = experiment->is_large ? experiment->config_text : (hash256){{0}}; /* the record has it otherwise */
    searcher->links = experiment->config->context_links == CONFIG_LINKS_KEEP ? ARCHIVE_LINKS_ANY : ARCHIVE_LINKS_INSIDE;
    (void)snprintf(searcher->directory, sizeof searcher->directory, "%.900s/searchers/%016llx-%s-%llu", daemon->dir,
                   (unsigned long long)daemon->boot, hex, (unsigned long long)searcher->life);
    searcher->next = daemon->workers->searchers;
    daemon->workers->searchers = searcher;
    fetch(daemon, searcher);
}

void daemon_searcher_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_searcher *searcher = find(daemon, effect->u.searcher.experiment, effect->u.searcher.life);
    if (effect->kind == NODE_EFFECT_SEARCHER_START) {
        start(daemon, effect);
    } else if (searcher != NULL) {
        kill_it(searcher);
    }
}

/* ---- while it runs ----------------------------------------------------------------------------------------------------- */

static void say_end(const struct keep_status *status, char *out, size_t size)
{
    if (status->reason == KEEP_NOT_STARTED) {
        (void)snprintf(out, size, "cannot be started: %s", status->text);
    } else if (status->signal != 0) {
        (void)snprintf(out, size, "was ended by signal %d", status->signal);
    } else if (status->code == 0) {
        (void)snprintf(out, size, "has ended before the search was over");
    } else {
        (void)snprintf(out, size, "has ended with status %d", status->code);
    }
}

void daemon_searcher_poll(struct daemon *daemon)
{
    for (struct daemon_searcher *searcher = daemon->workers->searchers, *next; searcher != NULL; searcher = next) {
        struct keep_event event = {.kind = KEEP_EVENT_STARTED};
        next = searcher->next;
        while (searcher->has_link && keep_read_event(&searcher->link, &event) == 0) {
            searcher->has_link = event.kind == KEEP_EVENT_STARTED;
        }
        if (searcher->state == SEARCHER_RUNNING && !searcher->has_link) {
            char why[KEEP_TEXT_BYTES + 64] = "was ended, together with its shoal-keep";
            if (event.kind == KEEP_EVENT_ENDED) {
                say_end(&event.status, why, sizeof why);
            }
            is_over(daemon, searcher, why);
        }
    }
}

void daemon_searcher_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct daemon_searcher *searcher = daemon->workers->searchers, *next; searcher != NULL; searcher = next) {
        next = searcher->next;
        if (searcher->state == SEARCHER_RUNNING && searcher->is_unwanted) {
            (void)keep_kill(&searcher->link, 0);
        } else if (searcher->state == SEARCHER_RUNNING && now_ms >= searcher->renew_ms) {
            searcher->renew_ms = now_ms + LEASE_MS / 3;
            (void)keep_renew(&searcher->link);
        }
        if (searcher->state != SEARCHER_INSTALLING) {
            continue;
        }
        enum packages_state state = packages_poll(searcher->packages_pid);
        searcher->packages_pid = state == PACKAGES_BUSY ? searcher->packages_pid : 0;
        if (state == PACKAGES_FAILED || (state != PACKAGES_BUSY && searcher->is_unwanted)) {
            is_over(daemon, searcher, "cannot be started: its packages cannot be made ready");
        } else if (state == PACKAGES_READY) {
            spawn(daemon, searcher);
        }
    }
    daemon_searcher_poll(daemon);
}

struct daemon_searcher *daemon_searcher_find(struct daemon *daemon, lease_token token)
{
    struct daemon_searcher *searcher = daemon->workers->searchers;
    while (searcher != NULL && (searcher->state != SEARCHER_RUNNING || searcher->is_unwanted || !lease_token_equal(searcher->token, token))) {
        searcher = searcher->next;
    }
    return searcher;
}

void daemon_searcher_turn(struct daemon *daemon, struct daemon_searcher *searcher, uint64_t serial, uint64_t id, uint64_t event,
                          const uint8_t *actions, size_t action_bytes, bool has_more)
{
    struct node_event told = {.kind = actions != NULL ? NODE_EVENT_SEARCHER_ANSWER : NODE_EVENT_SEARCHER_READY};
    told.u.searcher.experiment = searcher->experiment;
    told.u.searcher.life = searcher->life;
    told.u.searcher.event = event;
    told.u.searcher.has_more = has_more;
    told.bytes = actions;
    told.byte_count = (uint32_t)action_bytes;
    searcher->serial = serial;
    searcher->request_id = id;
    daemon_event(daemon, &told);
}

bool daemon_searcher_take_request(struct daemon *daemon, const struct node_effect *effect, uint64_t *serial, uint64_t *id)
{
    struct daemon_searcher *searcher = find(daemon, effect->u.searcher.experiment, effect->u.searcher.life);
    if (searcher == NULL || searcher->request_id == 0) {
        return false;
    }
    *serial = searcher->serial;
    *id = searcher->request_id;
    searcher->request_id = 0;
    return true;
}

void daemon_searcher_close(struct daemon *daemon)
{
    while (daemon->workers->searchers != NULL) {
        kill_it(daemon->workers->searchers);
        drop(daemon, daemon->workers->searchers);
    }
}
