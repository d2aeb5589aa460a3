#ifndef NODE_KEEP_KEEP_H
#define NODE_KEEP_KEEP_H
/* The daemon's side of shoal-keep, the process between the daemon and one worker (DESIGN 3).
 *
 * A run is one start of a worker. It has a directory of its own, private to the user, created by the caller and never
 * reused:
 *
 *     work/       the attempt's copy of the code (created by the caller)
 *     spec        what runs, with its environment (mode 0600)
 *     token       the lease's token (mode 0600)
 *     entrypoint  the command, if it is too long for an argument (128 KiB)
 *     log, log.N  the worker's output, capped (node/keep/log.h)
 *     keep.sock   the socket by which a restarted daemon finds its shoal-keep
 *     status      how the run ended; appears when no process of the run is alive
 *
 * shoal-keep holds the lock file(s) of the slot, and is the worker's parent and the subreaper of all its descendants,
 * in a session of its own: it survives the daemon, even a SIGKILL to the daemon's process group. (Under systemd that
 * needs `KillMode=process`.) It ends the run when told, when the worker itself ends, or when no daemon has renewed the
 * lease for lease_ms: the stop signal to the program (node/keep/tree.h), SIGTERM to its helpers once the program has ended or
 * its grace is over, then SIGKILL until the kernel reports that no child is left. Only then it writes `status`, frees the locks and exits. If shoal-keep itself is killed, the kernel kills the worker (PR_SET_PDEATHSIG),
 * and the lock stays held by any descendant that is still alive and has not closed the lock's descriptor, which the worker
 * inherits: a slot is free when keep_orphans_end (node/keep/orphans.h) finds no process and keep_lock_is_free returns true. The worker is the entrypoint's program itself if the entrypoint is
 * one program with its arguments; for anything longer (`cd x && ...`, a pipe, A=1 program) the worker is the shell that
 * runs it.
 *
 * A shell. Calls are short (a few ms; files, one socket, starting a process) unless documented otherwise. All
 * descriptors are close-on-exec; every other descriptor of the daemon must be close-on-exec, too. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/frame.h"
#include "base/id.h"
#include "base/pack.h"
#include "node/keep/core.h"
#include "node/keep/log.h"
#include "node/keep/memory.h"

#define KEEP_IDENTITY_BYTES_MAX 256
#define KEEP_LOCKS_MAX 64
#define KEEP_ENVIRONMENT_MAX 4096
#define KEEP_SECRETS_MAX 64
#define KEEP_SECRETS_BYTES_MAX (160u * 1024) /* packed; a socket takes so many at once */
#define KEEP_VARIABLE_BYTES (128u * 1024) /* Linux takes no longer text (MAX_ARG_STRLEN), the NUL included */
#define KEEP_PATH_BYTES 1024
#define KEEP_TEXT_BYTES 256
#define KEEP_ERROR_BYTES 512

/* What to run. All pointers are borrowed for the call; all paths are absolute. */
struct keep_spec {
    const char *run_directory;         /* exists, with nothing in it but work/; < KEEP_PATH_BYTES */
    const char *working_directory;     /* where the worker starts, usually run_directory/work */
    const char *entrypoint;            /* run as `bash -o pipefail -c ENTRYPOINT`; without bash as `/bin/sh -c ENTRYPOINT` */
    const char *const *environment;    /* "NAME=value" each, < KEEP_VARIABLE_BYTES: the worker's whole environment */
    size_t environment_count;          /* <= KEEP_ENVIRONMENT_MAX */
    const char *const *secrets;        /* variables beside those, which are on no disk: they go through the socket of the run */
    size_t secret_count;               /* <= KEEP_SECRETS_MAX; with them the environment is what the worker gets */
    const char *const *lock_paths;     /* created if missing; locked for as long as any process of the run lives */
    size_t lock_count;                 /* <= KEEP_LOCKS_MAX */
    int held_fd;                       /* a copy stays open for as long as any process of the run lives, such as the lock of a
                                          port (base/ports.h); this one stays the caller's. 0: none */
    uint64_t lease_ms;                 /* how long the run lives without keep_renew; > 0 */
    uint64_t log_cap_bytes;            /* >= KEEP_LOG_CAP_BYTES_MIN */
    bool is_polite;                    /* all processes of the run get the lowest priority (node/keep/polite.h) */
    uint32_t stop_signal;              /* asks the program to save and leave; 1 ... 31, 0: SIGTERM */
    const uint8_t *identity;           /* bytes of the caller's own, which keep_scan gives back */
    size_t identity_bytes;             /* <= KEEP_IDENTITY_BYTES_MAX */
    lease_token token;
};

/* How a run ended. */
struct keep_status {
    enum keep_reason reason;
    int32_t code;   /* exit code of the worker; -1: none */
    int32_t signal; /* the signal that ended the worker; 0: none */
    bool is_stopping; /* keep_stopping was called before the end */
    enum keep_memory_cause memory; /* of a death by SIGKILL, also behind a shell (code 137) */
    char text[KEEP_TEXT_BYTES]; /* a sentence if reason is KEEP_NOT_STARTED, else "" */
};

/* A connection to one shoal-keep. A plain value: it may be copied, and the copy used in its place. Poll `fd` for POLLIN
 * and then call keep_read_event until ERR_AGAIN. */
struct keep_link {
    int fd; /* -1: closed */
    char run_directory[KEEP_PATH_BYTES];
    struct frame_reader reader;
    uint8_t buffer[1024];
};

/* Starts shoal-keep (`program` is its path), which starts the worker. Returns when shoal-keep is on its way; the first
 * event of the link tells whether the worker started. The caller closes `out` with keep_close, which does not end the
 * worker. ERR_USAGE: the spec breaks a rule above; ERR_IO, ERR_NO_SPACE, ERR_MEMORY: nothing was started. On an error
 * `error` is one sentence. */
int keep_spawn(const char *program, const struct keep_spec *spec, struct keep_link *out, char error[KEEP_ERROR_BYTES]);

/* What keep_spawn_warm needs beside the spec. All is borrowed for the call. */
struct keep_warm {
    int fd;                /* a socket of packets (SOCK_SEQPACKET) to a warm process (node/daemon/workers/warm.h) */
    const char *arguments; /* the program's, each with its NUL */
    size_t argument_bytes;
};

#define KEEP_WARM_BYTES_MAX (64u * 1024) /* of the arguments, with their NULs */

/* The same by a warm process, which has forked the worker and the worker's parent, a shoal-keep that waits for its run (main.c). The
 * entrypoint of the spec is not used. STARTED is the first event of the link once the worker runs; CLOSED in its place: the warm process could
 * or would not, nothing was started, and the run may be spawned again after keep_unspawn. Errors as keep_spawn; ERR_CLOSED: the
 * warm process has ended, ERR_AGAIN: it takes nothing just now; keep_unspawn then, too. */
int keep_spawn_warm(const struct keep_spec *spec, const struct keep_warm *warm, struct keep_link *out, char error[KEEP_ERROR_BYTES]);

/* Makes the directory of a run that was not started one that keep_spawn takes. */
void keep_unspawn(const char *run_directory);

/* Starts a shoal-keep that runs a command beside the worker of a run (shell.h), for the client at the other end of the socket
 * `fd`, which stays the caller's. `secrets` ([secret_count], NAME=value each) come beside the run's environment. 0: `*pid`
 * is a child of this process, which ends soon after `fd` is closed everywhere. ERR_IO, ERR_MEMORY: errno tells why. */
int keep_shell_start(const char *program, const char *run_directory, int fd, const char *const *secrets, size_t secret_count,
                     pid_t *pid);

/* Connects to the shoal-keep of a run. ERR_NOT_FOUND: no shoal-keep of the run is alive; ERR_AGAIN: it is just starting
 * or ending; ERR_USAGE: the path is too long; ERR_IO. */
int keep_connect(const char *run_directory, struct keep_link *out);

/* Closes the connection; the run goes on. Does nothing on a closed link. */
void keep_close(struct keep_link *link);

/* Renews the lease: send it at least every third of lease_ms. A connection alone does not renew it, so that the workers
 * of a hanging daemon end as well. Never waits. 0, ERR_AGAIN (no room, since shoal-keep does not read; try later),
 * ERR_CLOSED, ERR_IO. */
int keep_renew(struct keep_link *link);

/* Ends the run: the stop signal to the program now, SIGTERM to what is left of its helpers when it has ended or after
 * grace_ms, and SIGKILL soon after that (grace_ms 0: SIGKILL at once; at most an hour). If repeated, the earlier end counts. KEEP_EVENT_ENDED follows when no process is left. Errors as keep_renew. */
int keep_kill(struct keep_link *link, uint64_t grace_ms);

/* The same for a worker that hangs: first writes what its processes are doing (node/keep/stacks.h) into its log, for
 * KEEP_STACKS_MS_MAX at most. A shoal-keep of an earlier version only ends the run. */
int keep_kill_hung(struct keep_link *link, uint64_t grace_ms);

/* Announces that the daemon is about to ask the worker to save and leave. A daemon that learns of the end, perhaps
 * after a restart, then knows that exit code 0 does not mean that the program was done. Errors as keep_renew. */
int keep_stopping(struct keep_link *link);

/* What a shoal-keep reports. */
enum keep_event_kind {
    KEEP_EVENT_STARTED = 1, /* the worker runs */
    KEEP_EVENT_ENDED = 2,   /* no process of the run lives, and the locks are free: see `status` */
    KEEP_EVENT_CLOSED = 3,  /* shoal-keep is gone without a status (killed, or the disk failed) and the kernel kills the
                               worker, and the caller its orphans (node/keep/orphans.h) */
};

/* One event; fields that its kind does not name are zero. */
struct keep_event {
    enum keep_event_kind kind;
    int32_t keep_pid;   /* STARTED */
    int32_t worker_pid; /* STARTED; also the worker's session and process group */
    struct keep_status status; /* ENDED */
};

/* Takes the next event, without waiting: 0 or ERR_AGAIN. STARTED comes at most once per link, and ENDED may come
 * without STARTED (the start failed, or the run ended during the connect). After ENDED and CLOSED the link is closed. */
int keep_read_event(struct keep_link *link, struct keep_event *out);

/* Reads how a run ended: 0, ERR_NOT_FOUND (it has not ended yet, or never will), ERR_MALFORMED, ERR_IO. */
int keep_status_read(const char *run_directory, struct keep_status *out);

/* True if no process holds the lock file, so the slot's last worker is surely gone. True also if the file is missing. */
bool keep_lock_is_free(const char *lock_path);

/* What keep_scan found in a run directory. */
enum keep_state {
    KEEP_STATE_RUNNING, /* `link` is connected */
    KEEP_STATE_ENDED,   /* `status` is set */
    KEEP_STATE_LOST,    /* shoal-keep was killed, so there is no status; see KEEP_EVENT_CLOSED */
    KEEP_STATE_BUSY,    /* shoal-keep is alive, but did not answer within a second: scan again */
    KEEP_STATE_BROKEN,  /* no readable spec or token, because the run never started or the disk failed; no process of it
                           can run */
};

/* One run directory. */
struct keep_found {
    char run_directory[KEEP_PATH_BYTES];
    char name[256]; /* last part of run_directory */
    enum keep_state state;
    uint8_t identity[KEEP_IDENTITY_BYTES_MAX];
    size_t identity_bytes;
    lease_token token;
    struct keep_link link;
    struct keep_status status;
};

/* Calls `found` for each directory directly below `runs_directory`, to adopt the workers after a restart. The callback
 * may take `found->link`: it copies the link and sets found->link.fd to -1; otherwise the link is closed afterwards. A
 * missing runs_directory has no runs. Waits up to a second for each shoal-keep that does not answer. 0, ERR_IO,
 * ERR_MEMORY; directories with a path that is too long are skipped. */
int keep_scan(const char *runs_directory, void (*found)(void *context, struct keep_found *found), void *context);

#endif
