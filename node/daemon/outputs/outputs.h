#ifndef NODE_DAEMON_OUTPUTS_OUTPUTS_H
#define NODE_DAEMON_OUTPUTS_OUTPUTS_H
/* The files that workers leave: watched while a worker runs, stored in snapshots that the core copies to other nodes, and put
 * back before the next attempt starts. All functions are for the protocol thread but daemon_outputs_restore. */

#include "node/daemon/ground/daemon.h"

#define DAEMON_OUTPUT_FINAL_MS 60000 /* most time that an ended worker's slot waits for its last snapshot */
#define DAEMON_OUTPUT_UNITE_MS 60000 /* most time that rank 0 waits for the other ranks to look at their files */

struct daemon_output;

/* The state of the room, as daemon->outputs. */
struct daemon_outputs {
    struct daemon_output *first; /* one for each worker that is watched, or whose last snapshot is not stored yet */
};

/* Watches the directory of a worker that runs. */
void daemon_outputs_watch(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, uint32_t number,
                          const char *directory);

/* The worker's processes are gone. `is_clean`: it ended by itself with status 0, or as it was asked to. False: its last
 * snapshot is not stored yet, call again. After true the core has been told of it, unless it takes longer than
 * DAEMON_OUTPUT_FINAL_MS, or the experiment is cancelled: then the snapshot is stored later. */
bool daemon_outputs_end(struct daemon *daemon, uint32_t slot, bool is_clean);

/* True while the directory is needed. */
bool daemon_outputs_hold(const struct daemon *daemon, const char *directory);

/* Moves the run directory DIR/runs/X to DIR/left/X if its last files could not be stored. False: they are, and the directory
 * can be removed. Any thread. */
bool daemon_outputs_move_aside(const char *directory);

/* After a suspend or a stall: moves the times of this room by the gap, in which no program could change its files. */
void daemon_outputs_awake(struct daemon *daemon, uint64_t gap_ms, uint64_t now_ms);

/* Once a second: begins scans and snapshots that are due. */
void daemon_outputs_tick(struct daemon *daemon, uint64_t now_ms);

/* Performs NODE_EFFECT_OUTPUT_DONE: the next snapshot may come. */
void daemon_outputs_done_effect(struct daemon *daemon, const struct node_effect *effect);

/* Frees the watches. Call after the last job. */
void daemon_outputs_close(struct daemon *daemon);

/* Makes the directories output/ and checkpoint/ below the run directory and writes the files of `beginnings` there, and into
 * work/ and restore/. Files of rank `number` count before those of others, then lower numbers. Any thread. `*blamed` is the
 * missing or damaged chunk after ERR_NOT_FOUND or ERR_CORRUPT. On failure `error` is one sentence. */
int daemon_outputs_restore(struct chunks *chunks, const char *directory, uint32_t number,
                           const struct fact_beginning *beginnings, uint32_t count, hash256 *blamed, char *error,
                           size_t error_size);

/* A file without a name in the directory, for a blob that is too large for the memory. -1: errno tells why. */
int daemon_outputs_file(const char *directory);

#endif
