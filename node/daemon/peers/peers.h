#ifndef NODE_DAEMON_PEERS_PEERS_H
#define NODE_DAEMON_PEERS_PEERS_H
/* The other nodes: where they may be, which of them have what, and what becomes of this one when another has its key. */

#include "node/daemon/ground/daemon.h"

#define DAEMON_HINTED_MAX 32
#define DAEMON_HEARD_MAX 64

struct daemon_heard {
    node_id node;
    char address[BEACON_ADDRESS_BYTES];
};

struct daemon_bulk_known {
    node_id node;
    char where[FACT_ADDRESS_BYTES + 8];
};

struct daemon_peers {
    /* peer_hints.c */
    uint32_t hint_turn, peer_hint_turn;
    uint32_t hint_from; /* the peer that is the next to be tried where --peer says, by its place */
    node_id hinted[DAEMON_HINTED_MAX]; /* absent members that are tried where their record does not say */
    uint32_t hinted_count;
    struct daemon_heard heard[DAEMON_HEARD_MAX]; /* what beacons said of absent members and waits to be tried, oldest first */
    uint32_t heard_count;

    /* bulk_peers.c: what bulk was told, by the place of the core's peer; places move, so it may be another's */
    struct daemon_bulk_known bulk_known[NODE_MEMBERS_MAX];
};

/* ---- peer_hints.c: where absent members may be ---------------------------------------------------------------------- */

/* After START: tries the addresses that `shoal join` left. */
void daemon_peer_hints_remembered(struct daemon *daemon);

/* Once a second: the next turn of trying. */
void daemon_peer_hints_tick(struct daemon *daemon);

/* Takes what beacons say. */
void daemon_peer_hints_beacon(struct daemon *daemon);

/* ---- bulk_peers.c: where bulk finds the others ---------------------------------------------------------------------- */

/* Bulk learns where peers are from their node records. */
void daemon_bulk_peers(struct daemon *daemon);

/* Nothing goes there and nothing comes from there. */
void daemon_bulk_peers_gone(struct daemon *daemon, node_id node);

/* ---- holders.c: which nodes should have what ------------------------------------------------------------------------ */

#define DAEMON_HOLDERS_MAX 16

/* The nodes to ask for the code of an experiment or the text of its configuration, the likeliest first; returns their number.
 * When all of them were asked in vain the next ones come with `round` one higher. */
uint32_t daemon_holders_code(const struct daemon *daemon, experiment_id id, uint32_t round, node_id out[DAEMON_HOLDERS_MAX]);

/* Whether any node is left for that round. */
bool daemon_holders_any(const struct daemon *daemon, uint32_t round);

/* The nodes to ask for a checkpoint of an attempt's trial, the likeliest first; returns their number. */
uint32_t daemon_holders_checkpoint(const struct daemon *daemon, const attempt_id *attempt, hash256 blob,
                                   node_id out[DAEMON_HOLDERS_MAX]);

/* Living nodes in the order in which they should hold a trial's series, self included; returns how many of the `capacity`. */
uint32_t daemon_holders_series(const struct daemon *daemon, const attempt_id *attempt, node_id *out, uint32_t capacity);

/* ---- rekey.c: two daemons with one key ------------------------------------------------------------------------------ */

/* Perform NODE_EFFECT_NEW_KEY and NODE_EFFECT_BECOME. */
void daemon_new_key_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_rekey_effect(struct daemon *daemon, const struct node_effect *effect);

/* At the start: which node this one was before it had a key of its own, from the disk. */
void daemon_load_was(struct daemon *daemon);

/* All is as for a first start, but for options and lines. The daemon has stopped. */
void daemon_begin_anew(struct daemon *daemon);

#endif
