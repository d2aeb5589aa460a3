#ifndef NODE_KEEP_KEEP_H
#define NODE_KEEP_KEEP_H
/* The daemon's side of shoal-keep, the process that stands between the daemon and one worker (DESIGN 3).
 *
 * A run is one worker's life. It has a directory of its own, private to the user, made by the caller and never reused:
 *
 *     work/       the attempt's copy of the code (the caller's)
 *     spec        what runs, with its environment (mode 0600)
 *     token       the lease's token (mode 0600)
 *     log, log.N  the worker's output, capped (node/keep/log.h)
 *     keep.sock   where a restarted daemon finds its shoal-keep
 *     status      how it ended; appears when nothing of it is alive
 *
 * shoal-keep holds the slot's lock file(s), is the worker's parent and the subreaper of everything below it, and is in a
 * session of its own: it survives the daemon, also a SIGKILL to the daemon's process group. (Under systemd that needs
 * `KillMode=process`.) It ends everything when told, when the worker itself ends, or when no daemon has renewed the lease
 * for lease_ms; SIGTERM first, then SIGKILL until the kernel says that no child is left. Only then it writes `status`,
 * frees the locks and exits. Should shoal-keep itself be killed, the kernel kills the worker (PR_SET_PDEATHSIG), and
 * the lock stays held by whatever else is alive below, since the worker inherits the lock's descriptor: a slot is free
 * when keep_lock_is_free says so. The worker is the entrypoint's program itself where the entrypoint is one program with
 * its arguments; for anything longer (`cd x && ...`, a pipe, A=1 program) it is the shell that runs it.
 *
 * This is a shell. Calls are short (a few ms; files, one socket, starting a process) unless they say otherwise.
 * Descriptors are close-on-exec; every other descriptor of the daemon must be too. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/id.h"
#include "base/pack.h"
#include "node/keep/core.h"
#include "node/keep/log.h"

#define KEEP_IDENTITY_BYTES_MAX 256
#define KEEP_LOCKS_MAX 64
#define KEEP_ENVIRONMENT_MAX 4096
#define KEEP_PATH_BYTES 1024
#define KEEP_TEXT_BYTES 256
#define KEEP_ERROR_BYTES 512

/* Everything is borrowed for the call. All paths are absolute. */
struct keep_spec {
    const char *run_directory;         /* exists, empty but for work/; < KEEP_PATH_BYTES */
    const char *working_directory;     /* where the worker starts, usually run_directory/work */
    const char *entrypoint;            /* run as /bin/sh -c ENTRYPOINT */
    const char *const *environment;    /* "NAME=value": all that the worker gets */
    size_t environment_count;          /* <= KEEP_ENVIRONMENT_MAX */
    const char *const *lock_paths;     /* made if missing; locked for as long as anything of the run lives */
    size_t lock_count;                 /* <= KEEP_LOCKS_MAX */
    uint64_t lease_ms;                 /* how long it lives without keep_renew; > 0 */
    uint64_t log_cap_bytes;            /* >= KEEP_LOG_CAP_BYTES_MIN */
    const uint8_t *identity;           /* the caller's own bytes, given back by keep_scan */
    size_t identity_bytes;             /* <= KEEP_IDENTITY_BYTES_MAX */
    lease_token token;
};

struct keep_status {
    enum keep_reason reason;
    int32_t code;   /* exit code of the worker, -1 if it had none */
    int32_t signal; /* the signal that ended the worker, 0 if none */
    bool is_stopping; /* a daemon had said keep_stopping */
    char text[KEEP_TEXT_BYTES]; /* a sentence for KEEP_NOT_STARTED, else "" */
};

/* A connection to one shoal-keep. A plain value: it may be copied, and the copy used instead. Poll `fd` for POLLIN and
 * then call keep_read_event until ERR_AGAIN. */
struct keep_link {
    int fd; /* -1: closed */
    char run_directory[KEEP_PATH_BYTES];
    struct frame_reader reader;
    uint8_t buffer[1024];
};

/* Starts shoal-keep (`program` is its path) and through it the worker. Returns once shoal-keep is on its way; whether
 * the worker started is the link's first event. The caller closes `out` with keep_close; closing does not end the
 * worker. ERR_USAGE: the spec breaks a rule above; ERR_IO, ERR_NO_SPACE, ERR_MEMORY: nothing was started. On an
 * error `error` holds one sentence. */
int keep_spawn(const char *program, const struct keep_spec *spec, struct keep_link *out, char error[KEEP_ERROR_BYTES]);

/* Connects to the shoal-keep of a run. ERR_NOT_FOUND: none is alive; ERR_AGAIN: it is just starting or ending. */
int keep_connect(const char *run_directory, struct keep_link *out);

/* Harmless on a closed link. */
void keep_close(struct keep_link *link);

/* Renews the lease: send it at least every third of lease_ms. Being connected alone does not renew, so that workers of a
 * daemon that hangs end as well. Never waits. 0, ERR_AGAIN (no room: shoal-keep does not read, try later), ERR_CLOSED,
 * ERR_IO. */
int keep_renew(struct keep_link *link);

/* Tells it to end: SIGTERM to everything now, SIGKILL after grace_ms (0: at once; at most an hour). May be repeated; the
 * earlier end counts. KEEP_EVENT_ENDED follows when all is surely gone. Errors as keep_renew. */
int keep_kill(struct keep_link *link, uint64_t grace_ms);

/* Says that the daemon is about to ask the worker to save and leave. Whoever hears of the end, perhaps after a restart, then
 * knows that an exit code of 0 does not mean that the program was done. Errors as keep_renew. */
int keep_stopping(struct keep_link *link);

enum keep_event_kind {
    KEEP_EVENT_STARTED = 1, /* the worker runs */
    KEEP_EVENT_ENDED = 2,   /* nothing of it lives, the locks are free: `status` */
    KEEP_EVENT_CLOSED = 3,  /* shoal-keep is gone without a status (killed, or the disk failed): the worker is being
                               killed by the kernel; the slot is free once keep_lock_is_free says so */
};

struct keep_event {
    enum keep_event_kind kind;
    int32_t keep_pid;   /* STARTED */
    int32_t worker_pid; /* STARTED; also the worker's session and process group */
    struct keep_status status; /* ENDED */
};

/* The next event, without waiting: 0 or ERR_AGAIN. STARTED comes at most once per link and ENDED may come without it (a
 * failure to start; an end in the moment of connecting). After ENDED and CLOSED the link is closed. */
int keep_read_event(struct keep_link *link, struct keep_event *out);

/* How a run ended: 0, ERR_NOT_FOUND (not yet, or never will), ERR_MALFORMED, ERR_IO. */
int keep_status_read(const char *run_directory, struct keep_status *out);

/* True if no process holds the lock file, so the slot's last worker is surely gone. A missing file is free. */
bool keep_lock_is_free(const char *lock_path);

enum keep_state {
    KEEP_STATE_RUNNING, /* `link` is connected */
    KEEP_STATE_ENDED,   /* `status` is set */
    KEEP_STATE_LOST,    /* shoal-keep was killed: no status; see KEEP_EVENT_CLOSED */
    KEEP_STATE_BUSY,    /* shoal-keep lives but did not answer within a second: scan again */
    KEEP_STATE_BROKEN,  /* no readable spec or token: it never started, or the disk failed; nothing of it can run */
};

struct keep_found {
    char run_directory[KEEP_PATH_BYTES];
    char name[256]; /* the last part of it */
    enum keep_state state;
    uint8_t identity[KEEP_IDENTITY_BYTES_MAX];
    size_t identity_bytes;
    lease_token token;
    struct keep_link link;
    struct keep_status status;
};

/* Calls `found` for each directory directly below `runs_directory`, for adoption after a restart. `found->link` is the
 * callback's if it copies it and sets found->link.fd to -1; otherwise it is closed afterwards. A missing runs_directory
 * has no runs. 0, ERR_IO; directories whose path is too long are skipped. */
int keep_scan(const char *runs_directory, void (*found)(void *context, struct keep_found *found), void *context);

#endif
