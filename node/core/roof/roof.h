#ifndef NODE_CORE_ROOF_ROOF_H
#define NODE_CORE_ROOF_ROOF_H
/* The roof: knows every room, is known by none. step.c implements node/core/core.h. */

#include "node/core/members/members.h"

struct core_intake {
    uint64_t seen_boot;        /* the newest boot in an own record that was taken in, from the disk or from others */
    bool is_misquoted;         /* in this step an own record of another boot was taken in, and may not be true any more */
    bool is_node_unpublished;  /* there was no memory for the own node record */
    uint32_t sweep_bucket;     /* the next bucket to look through for records of deleted experiments; RECORDS_BUCKETS: done */
};

/* ---- intake.c: records on their way in ---- */

/* Takes in one record of this or another writer, verified or read from the own disk. 0; ERR_MALFORMED; ERR_REFUSED: its
 * experiment is deleted (a record from the own disk is taken all the same, and swept later); or an error of records_put.
 * `stored_to`, or NULL, is a node that is told once the record is on the disk here. */
int intake_take(struct node_core *core, const uint8_t *envelope, uint32_t count, bool from_disk, const node_id *stored_to);

/* Takes the records of a MESSAGE_RECORDS. ERR_MALFORMED: one of them is none, and those behind it are left. */
int intake_take_message(struct node_core *core, node_id from, const struct message *message);

/* The hook record_put: folds an entry and tells the rooms that follow such records. */
void intake_record_put(struct node_core *core, struct records_entry *entry);

/* After a start with an old disk or none, other nodes hold records of this node's later boots. Raises the own boot above those,
 * since other nodes would take no record of a lower one. True if it did. */
bool intake_raise_boot(struct node_core *core);

/* Folds records for which there was no memory before, some buckets in each step. */
void intake_refold(struct node_core *core);
void intake_housekeep(struct node_core *core);

/* ---- on_disk.c: what goes on once a ticket is on disk ---- */

void on_disk_run(struct node_core *core, const struct core_pending *pending); /* the hook on_disk */
void on_disk_persisted(struct node_core *core, const struct node_event *event);
void on_disk_tick(struct node_core *core);
void on_disk_housekeep(struct node_core *core);
void on_disk_flush(struct node_core *core); /* sends what this step has published to every peer that lives */

/* ---- standing.c ---- */

void standing_update(struct node_core *core); /* whether this node is a member itself, and what follows if that changes */

/* ---- stall.c ---- */

void stall_shift(struct node_core *core, uint64_t gap_ms); /* this node was suspended or stalled for gap_ms, until now */

/* ---- twin.c: two daemons with one key ---- */

void twin_start(struct node_core *core);
void twin_overhear(struct node_core *core, struct core_peer *peer, const struct message *message); /* MESSAGE_SWIM of a peer */
void twin_told(struct node_core *core, const struct message *message);    /* MESSAGE_TWIN of a peer */
void twin_receive(struct node_core *core, const struct message *message); /* any message from this node's own id */
void twin_key(struct node_core *core, const struct node_event *event);
void twin_housekeep(struct node_core *core);

/* ---- deletion.c ---- */

/* The fold has a tombstone that it did not have: nothing of the experiment begins any more, and what runs is ended. */
void deletion_known(struct node_core *core, experiment_id experiment);

/* A tombstone is on disk: the records that it buries may go now. */
void deletion_stored(struct node_core *core);

/* Forgets some of the buried records, until sweep_bucket is RECORDS_BUCKETS. */
void deletion_sweep(struct node_core *core);

#endif
