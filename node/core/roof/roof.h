#ifndef NODE_CORE_ROOF_ROOF_H
#define NODE_CORE_ROOF_ROOF_H
/* The roof: calls every room, and no room calls the roof. step.c implements node/core/core.h. */

#include "node/core/members/members.h"

struct core_intake {
    uint64_t seen_boot;        /* the newest boot in any record of this node that was taken in, from the disk or from peers */
    bool is_misquoted;         /* in this step a record of this node, of another boot, was taken in: perhaps outdated */
    bool is_node_unpublished;  /* there was no memory for our node record */
    bool are_addresses_unpublished; /* nor for that of our addresses */
    uint32_t sweep_bucket;     /* the next bucket to search for records of deleted experiments; RECORDS_BUCKETS: done */
};

/* ---- intake.c: records on their way in ---- */

/* Takes in one record of any writer, verified or read from our disk. 0; ERR_MALFORMED; ERR_REFUSED: the experiment is deleted
 * (a record from our disk is taken all the same, and swept later); or an error of records_put. `stored_to`, or NULL, is a node
 * to tell once the record is on our disk. */
int intake_take(struct node_core *core, const uint8_t *envelope, uint32_t count, bool from_disk, const node_id *stored_to);

/* Takes the records of a MESSAGE_RECORDS, as far as the step has room. ERR_MALFORMED: some bytes are no record; the records
 * before them are taken. */
int intake_take_message(struct node_core *core, node_id from, const struct message *message);

/* The hook record_put: folds an entry and tells the rooms that follow its kind. */
void intake_record_put(struct node_core *core, struct records_entry *entry);

/* After a start with an old disk or none, peers hold records of later boots of this node, and would take no record of a lower
 * boot. So raises our boot above every boot seen. True if the boot was raised. */
bool intake_raise_boot(struct node_core *core);

/* Folds records again that found no memory before, some buckets in each step. */
void intake_refold(struct node_core *core);

/* Begins another round of intake_refold once memory has become free. */
void intake_housekeep(struct node_core *core);

/* ---- on_disk.c: actions after a disk write ---- */

/* The hook on_disk: performs the action. The caller keeps `pending`. */
void on_disk_run(struct node_core *core, const struct core_pending *pending);

void on_disk_persisted(struct node_core *core, const struct node_event *event); /* NODE_EVENT_PERSISTED */
void on_disk_tick(struct node_core *core);      /* goes on with actions that found no room in the last step */
void on_disk_housekeep(struct node_core *core); /* tries refused writes again, and writes without memory to wait */
void on_disk_flush(struct node_core *core);     /* sends the records published in this step to every living peer */

/* ---- standing.c ---- */

void standing_update(struct node_core *core); /* is this node a member? Ends or begins its part in the mesh */

/* ---- stall.c ---- */

void stall_shift(struct node_core *core, uint64_t gap_ms); /* this node was suspended for gap_ms, until now */

/* ---- twin.c: two daemons with one key ---- */

void twin_start(struct node_core *core); /* lets connections with our own key in */
void twin_overhear(struct node_core *core, struct core_peer *peer, const struct message *message); /* MESSAGE_SWIM of a peer */
void twin_told(struct node_core *core, const struct message *message);    /* MESSAGE_TWIN of a peer */
void twin_receive(struct node_core *core, const struct message *message); /* any message from our own id */
void twin_key(struct node_core *core, const struct node_event *event);    /* NODE_EVENT_KEY: the new key */
void twin_housekeep(struct node_core *core);

/* ---- deletion.c ---- */

/* The fold has a new tombstone: nothing of the experiment begins any more, and its workers are ended. */
void deletion_known(struct node_core *core, experiment_id experiment);

/* A tombstone is on disk: the records of the experiment may go now. */
void deletion_stored(struct node_core *core);

/* Forgets some records of deleted experiments, until sweep_bucket is RECORDS_BUCKETS. */
void deletion_sweep(struct node_core *core);

#endif
