#ifndef NODE_DAEMON_PEERS_PEERS_H
#define NODE_DAEMON_PEERS_PEERS_H
/* The peers: their possible addresses, the blobs and series that each may hold, and this node's change of key when
 * another daemon has the same key. All functions are for the protocol thread. */

#include "node/daemon/ground/daemon.h"
#include "node/daemon/peers/own_addresses.h"
#include "node/daemon/render/render.h"

#define DAEMON_HINTED_MAX 32 /* members that one turn tries at an address of --peer */
#define DAEMON_HEARD_MAX 64
#define DAEMON_BLOCKED_MAX 64   /* more blocked peers are not listed */
#define DAEMON_REACH_PEERS 64   /* in a mesh of more nodes a node learns of a blocked port when it needs it */

/* An address that a beacon gave for an absent member. */
struct daemon_heard {
    node_id node;
    char address[BEACON_ADDRESS_BYTES];
};

/* The bulk address that bulk was last given for a node: HOST:PORT in `where`, empty for none. */
struct daemon_bulk_known {
    node_id node;
    char where[FACT_ADDRESS_BYTES + 8];
    bool is_tried; /* once since bulk has this address (blocked.c) */
};

/* A port of a living peer that cannot be used from here. */
struct daemon_blocked {
    node_id node;
    uint16_t port; /* of a worker there, which listens at `host`; 0: the bulk socket */
    char host[FACT_ADDRESS_BYTES];
    bool stalls;   /* as render_blocked has it */
    uint64_t since_ms, tried_ms;
    uint64_t until_ms; /* of a worker's port: it is no longer listed then */
};

/* What goes over the control sockets to and from a peer since the daemon began, and how long a probe takes. */
struct daemon_traffic {
    node_id node;
    uint64_t sent_bytes, received_bytes;
    uint32_t sequence;      /* of the last probe that has no answer yet; 0: none */
    uint64_t asked_us;      /* when it was sent */
    uint64_t round_trip_us; /* smoothed over the probes; 0: none was answered yet */
};

/* The whole configuration of a large experiment. */
struct daemon_config {
    hash256 blob;
    uint8_t *bytes; /* NULL: the row is free */
    struct config config; /* borrows from `bytes` */
    uint64_t used;        /* number of the last use: the row that was unused for the longest gives way */
};

#define DAEMON_CONFIGS_MAX 16

/* The state of the room, as daemon->peers. */
struct daemon_peers {
    /* peer_hints.c */
    uint32_t hint_turn, peer_hint_turn;
    uint32_t hint_from; /* place in the core's peers: the next peer to be tried at a --peer address */
    struct daemon_heard heard[DAEMON_HEARD_MAX]; /* hints of beacons that wait for a try, oldest first */
    uint32_t heard_count;

    struct own_addresses own;

    /* bulk_peers.c: what bulk was told, by the place of the core's peer. Places move, so an entry may be another
     * peer's. */
    struct daemon_bulk_known bulk_known[NODE_MEMBERS_MAX];

    /* blocked.c */
    struct daemon_blocked blocked[DAEMON_BLOCKED_MAX];
    uint32_t blocked_count;
    uint64_t reach_id; /* number of the bulk request that tries a peer now; 0: none */

    /* traffic.c: one row for each peer that was heard of; one beyond them is not counted */
    struct daemon_traffic traffic[NODE_MEMBERS_MAX];
    uint32_t traffic_count;

    /* configs.c */
    struct daemon_config configs[DAEMON_CONFIGS_MAX];
    uint64_t config_uses;
    hash256 config_asked; /* the blob that other nodes were asked for last */
    uint64_t config_asked_ms;
};

/* ---- peer_hints.c: where absent members may be ---------------------------------------------------------------------- */

/* After START: tries the absent members at the addresses that `shoal join` stored. */
void daemon_peer_hints_remembered(struct daemon *daemon);

/* Once a second: the next turn of trying hints. */
void daemon_peer_hints_tick(struct daemon *daemon);

/* Takes waiting beacons as hints. Without a beacon nothing happens. */
void daemon_peer_hints_beacon(struct daemon *daemon);

/* ---- bulk_peers.c: where bulk finds the peers ---------------------------------------------------------------------- */

/* Tells bulk the bulk addresses and keys of the core's peers, as their node records say; only changes are told. */
void daemon_bulk_peers(struct daemon *daemon);

/* Makes bulk neither connect to the node nor accept its connections any more. */
void daemon_bulk_peers_gone(struct daemon *daemon, node_id node);

/* ---- blocked.c: which ports of peers cannot be used from here -------------------------------------------------------- */

/* Takes BULK_WAY. What fails with a peer that lives becomes a line, once. */
void daemon_blocked_way(struct daemon *daemon, const struct bulk_event *event);

/* Takes what a worker of this node tells: the port of another node's worker cannot be reached. Hosts of no member are
 * ignored. */
void daemon_blocked_told(struct daemon *daemon, const char *host, uint16_t port);

/* Takes BULK_SERIES: the answer to a try. Other requests are ignored. */
void daemon_blocked_answered(struct daemon *daemon, uint64_t request);

/* Once a second: tries a living peer that was not tried yet at its present address, or again one that is blocked. */
void daemon_blocked_tick(struct daemon *daemon, uint64_t now_ms);

/* Writes the blocked peers to `out`, the longest blocked first; returns their number. */
uint32_t daemon_blocked_list(const struct daemon *daemon, struct render_blocked out[DAEMON_BLOCKED_MAX]);

/* Appends "; " and the sentence about the first of them, if any, to `text`. */
void daemon_blocked_append(const struct daemon *daemon, char *text, size_t size);

/* ---- traffic.c: what goes over the control sockets ------------------------------------------------------------------ */

/* A message of so many bytes went to the peer, or came from it. */
void daemon_traffic_sent(struct daemon *daemon, node_id to, const struct message *message, size_t bytes);
void daemon_traffic_received(struct daemon *daemon, node_id from, size_t bytes);

/* Takes the answer to a probe, among other messages: its time is noted. */
void daemon_traffic_answered(struct daemon *daemon, node_id from, const struct message *message);

/* What is known of a peer; all zero if nothing is. */
struct daemon_traffic daemon_traffic_of(const struct daemon *daemon, node_id node);

/* ---- holders.c: which nodes may hold a blob or a series ------------------------------------------------------------- */

#define DAEMON_HOLDERS_MAX 16

/* Writes the nodes to ask for an experiment's code or configuration text to `out`, the likeliest first, without this
 * node; returns their number. `round` is 0 at first; after all of a round's nodes were asked in vain, the next round
 * gives more nodes. */
uint32_t daemon_holders_code(const struct daemon *daemon, experiment_id id, uint32_t round, node_id out[DAEMON_HOLDERS_MAX]);

/* Whether that round of daemon_holders_code has nodes that no earlier round had. */
bool daemon_holders_any(const struct daemon *daemon, uint32_t round);

/* The checkpoint of several parts with which the attempt begins, or NULL: `checkpoint`, as the attempt's record has it, is none
 * or the hash of a blob. */
const struct view_set *daemon_set(const struct daemon *daemon, const attempt_id *attempt, hash256 checkpoint);

/* Writes the nodes to ask for the checkpoint, or the part of one, `blob` of the attempt's trial to `out`, the likeliest first, without this
 * node; returns their number. */
uint32_t daemon_holders_checkpoint(const struct daemon *daemon, const attempt_id *attempt, hash256 blob,
                                   node_id out[DAEMON_HOLDERS_MAX]);

/* As daemon_holders_checkpoint, for files that a worker of the trial has left. */
uint32_t daemon_holders_output(const struct daemon *daemon, const attempt_id *attempt, hash256 blob,
                               node_id out[DAEMON_HOLDERS_MAX]);

/* Writes the first `capacity` living nodes, this node included, to `out`, in the order in which they should hold the
 * series of the attempt's trial; returns how many were written. */
uint32_t daemon_holders_series(const struct daemon *daemon, const attempt_id *attempt, node_id *out, uint32_t capacity);

/* ---- configs.c: whole configurations ------------------------------------------------------------------------------- */

/* The whole configuration of an experiment that is `known`: the record's, or that of a blob. NULL: the blob is not on this disk
 * (yet; other nodes have been asked for it), or is malformed. Valid until the next call. */
const struct config *daemon_config(struct daemon *daemon, const struct view_experiment *experiment);

/* Frees the configurations. */
void daemon_configs_close(struct daemon *daemon);

/* ---- rekey.c: two daemons with one key ------------------------------------------------------------------------------ */

/* Performs NODE_EFFECT_NEW_KEY: makes a key on disk, beside our present key; the answer is NODE_EVENT_KEY. */
void daemon_new_key_effect(struct daemon *daemon, const struct node_effect *effect);

/* Performs NODE_EFFECT_BECOME: puts the new key in the place of our present key and sets `rekeys` and `stopping`. On a
 * failure the daemon goes on under its present key, and the first failure in a row becomes a line. */
void daemon_rekey_effect(struct daemon *daemon, const struct node_effect *effect);

/* At the start: reads our node id before the last rekey (daemon->was) from the disk, and marks the node's name. */
void daemon_load_was(struct daemon *daemon);

/* After the daemon has stopped: sets `*daemon` as for a first start, except the options and the lines, which stay. */
void daemon_begin_anew(struct daemon *daemon);

#endif
