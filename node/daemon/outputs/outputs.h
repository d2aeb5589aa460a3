#ifndef NODE_DAEMON_OUTPUTS_OUTPUTS_H
#define NODE_DAEMON_OUTPUTS_OUTPUTS_H
/* The files of workers: watched while a worker runs, stored in snapshots, copied to more nodes by the core, and put back before
 * the next attempt starts. All functions are for the protocol thread but daemon_outputs_restore. */

#include "node/daemon/ground/daemon.h"

#define DAEMON_OUTPUT_FINAL_MS 60000 /* most time for which an ended worker's slot waits for the last snapshot */
#define DAEMON_OUTPUT_UNITE_MS 60000 /* most time for which rank 0 waits until all ranks have scanned */

struct daemon_output;

/* The state of the room, as daemon->outputs. */
struct daemon_outputs {
    struct daemon_output *first; /* one for each worker until the last snapshot is stored */
    int spare_fds[SLOTS_MAX];    /* of ended watches (units_close), for the next ones */
    uint32_t spare_count;
};

/* Watches the directory of a running worker. */
void daemon_outputs_watch(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, uint32_t number,
                          const char *directory);

/* Call once the worker's processes are gone. `is_clean`: the worker ended with status 0, or on request. False: the last
 * snapshot is not stored yet, call again. After true the core has the snapshot, unless DAEMON_OUTPUT_FINAL_MS are over or the
 * experiment is cancelled: then the snapshot is stored later. */
bool daemon_outputs_end(struct daemon *daemon, uint32_t slot, bool is_clean);

/* True while the directory is needed. */
bool daemon_outputs_hold(const struct daemon *daemon, const char *directory);

/* Moves the run directory DIR/runs/X to DIR/left/X if the last files could not be stored. False: the files are stored, and the
 * directory can be removed. Any thread. */
bool daemon_outputs_move_aside(const char *directory);

/* After a suspend or a stall: moves the times of the room by the gap, since no program could change files meanwhile. */
void daemon_outputs_awake(struct daemon *daemon, uint64_t gap_ms, uint64_t now_ms);

/* Once a second: begins the due scans and snapshots. */
void daemon_outputs_tick(struct daemon *daemon, uint64_t now_ms);

/* Performs NODE_EFFECT_OUTPUT_DONE: the next snapshot may come. */
void daemon_outputs_done_effect(struct daemon *daemon, const struct node_effect *effect);

/* Frees the watches. Call after the last job. */
void daemon_outputs_close(struct daemon *daemon);

/* Makes the directories output/ and checkpoint/ below the run directory and writes the files of `beginnings` there, and into
 * work/ and restore/. Files of rank `number` count first, then files of lower numbers. Any thread. `*blamed` is the
 * missing or damaged chunk after ERR_NOT_FOUND or ERR_CORRUPT. On failure `error` is one sentence. */
int daemon_outputs_restore(struct chunks *chunks, const char *directory, uint32_t number,
                           const struct fact_beginning *beginnings, uint32_t count, hash256 *blamed, char *error,
                           size_t error_size);

/* A file without a name in the directory, for a blob too large for the memory. -1: errno tells why. */
int daemon_outputs_file(const char *directory);

#endif
