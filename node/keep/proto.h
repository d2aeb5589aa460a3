#ifndef NODE_KEEP_PROTO_H
#define NODE_KEEP_PROTO_H
/* The protocol between the daemon and shoal-keep, on disk and on the run's socket. An old shoal-keep must understand a
 * newer daemon, since a daemon is upgraded under running workers: frames (base/frame.h) are MessagePack arrays [kind,
 * ...] in which unknown kinds and further elements are ignored. */

#include "node/keep/keep.h"

#define KEEP_PROTO_VERSION 1

#define KEEP_OOM_SCORE 300 /* of the worker, of 1000: the kernel ends the process with the highest score */

/* Files of a run directory. */
#define KEEP_FILE_SPEC "spec"       /* what to run; locked (flock) for as long as the run's shoal-keep lives */
#define KEEP_FILE_SCRIPT "entrypoint" /* a command that is too long for an argument */
#define KEEP_FILE_TOKEN "token"     /* 32 hexadecimal digits and a newline */
#define KEEP_FILE_STATUS "status"   /* appears, complete, when no process of the run lives */
#define KEEP_FILE_STATUS_NEW "status.new" /* its bytes are reserved at the start, so that a full disk cannot refuse them */
#define KEEP_FILE_SOCKET "keep.sock"
#define KEEP_FILE_ERRORS "keep.err" /* standard error of shoal-keep itself: empty but for bugs */

/* Descriptors that shoal-keep is started with: the daemon's end of the first connection, the locked spec, and what the run
 * holds beside its locks (keep_spec.held_fd; /dev/null if that is nothing). As `shoal-keep - PID ROOM` it is the process that has forked
 * the worker PID already: KEEP_FD_WARM is a socket to the worker, and KEEP_FD_LINK one to the warm process, which sends one packet
 * when there is a run: the run directory and the program's arguments, each with its NUL, and the three descriptors. ROOM is blanks, in whose place `ps` then shows the run directory. */
#define KEEP_FD_LINK 3
#define KEEP_FD_ALIVE 4
#define KEEP_FD_HELD 5
#define KEEP_FD_SECRETS 4 /* of a command beside the worker, which has no other (shell.h); absent: it gets none */
#define KEEP_FD_WARM 6

/* To the worker shoal-keep sends the working directory, the number of arguments in digits, the arguments and the environment, each text
 * with its NUL, and with the first byte the descriptors of the worker's output, of the slot's locks and of what is held, and shuts its side.
 * The worker answers with a NUL once it runs, else with the text of the step that failed, a NUL and errno in digits, and closes. */
#define KEEP_WARM_ANSWER_MS 30000

#define KEEP_SPEC_FILE_BYTES_MAX (8u * 1024 * 1024) /* above what Linux takes at a program's start (6 MiB) */
#define KEEP_STATUS_FILE_BYTES 1024
#define KEEP_FRAME_BYTES_MAX 1024

/* From the daemon to shoal-keep. */
enum keep_command {
    KEEP_COMMAND_PING = 1, /* [1] renews the lease */
    KEEP_COMMAND_KILL = 2, /* [2, grace_ms, bool: write the stacks into the log first]; the third came later */
    KEEP_COMMAND_STOPPING = 3, /* [3] the worker is asked to save and leave, which the status shall show */
};

/* From shoal-keep to the daemon. */
enum keep_told {
    KEEP_TOLD_STARTED = 1, /* [1, protocol version, pid of shoal-keep, pid of the worker]: first on each connection */
    KEEP_TOLD_ENDED = 2,   /* [2, status]: the status file exists, and the slot's locks are free */
};

/* Sends one frame of at most KEEP_FRAME_BYTES_MAX without ever waiting. 0; ERR_AGAIN: no room; ERR_CLOSED, ERR_IO. */
int keep_proto_send(int fd, const uint8_t *bytes, size_t count);

/* Decodes a daemon's command: `*kind` is an enum keep_command, or a kind of a later version; `*grace_ms` and `*stacks` are
 * 0 and false for kinds without them. 0 or ERR_MALFORMED. */
int keep_proto_unpack_command(const uint8_t *bytes, size_t count, uint64_t *kind, uint64_t *grace_ms, bool *stacks);

/* Decodes a report of shoal-keep. 0; ERR_AGAIN: a kind of a later version, to be skipped; ERR_MALFORMED. */
int keep_proto_unpack_event(const uint8_t *bytes, size_t count, struct keep_event *out);

/* Pack and unpack a status as a MessagePack map; unpack returns 0 or ERR_MALFORMED. */
void keep_proto_pack_status(struct pack_writer *writer, const struct keep_status *status);
int keep_proto_unpack_status(struct pack_reader *reader, struct keep_status *out);

/* Reads a whole file below an opened directory. `*bytes` is malloc'ed, with a NUL at the end that `*count` leaves out;
 * the caller frees it. ERR_NOT_FOUND, ERR_FULL (larger than bytes_max), ERR_MEMORY, ERR_IO. */
int keep_proto_read_file(int directory_fd, const char *name, size_t bytes_max, uint8_t **bytes, size_t *count);

/* The address of the socket of an opened run directory, through /proc/self/fd, because a path may be longer than the
 * 108 chars of an address. */
struct sockaddr_un;
void keep_proto_address(int directory_fd, struct sockaddr_un *out);

#endif
