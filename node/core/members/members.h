#ifndef NODE_CORE_MEMBERS_MEMBERS_H
#define NODE_CORE_MEMBERS_MEMBERS_H
/* Membership, the roster, links, and the exchange of records (DESIGN 5, 6). */

#include "gossip/exchange.h"
#include "gossip/fanout.h"
#include "node/core/ground/state.h"

/* What this node knows of another member beyond its records. */
struct core_peer {
    node_id id;
    enum swim_state state;
    uint64_t boot;          /* of its last message: on an old disk a node may speak from a smaller boot than before */
    uint64_t up_since_ms;
    uint64_t died_ms;       /* when it was last declared dead; kept when it comes back */
    bool fell_silent;       /* it was declared dead, and its host did not answer either */
    uint64_t refused_since_ms; /* since when its host refuses connections; 0: it does not */
    uint64_t silent_until_ms;  /* it did not answer as an owner: its slots are not asked for until then; 0: it did */
    uint64_t unwilling_ms;     /* when it last answered as an owner that it grants nothing; 0: it has granted since */
    uint64_t check_ms;         /* of the last NODE_EFFECT_CHECK_LINK */
    uint64_t digest_ms;        /* when MESSAGE_BUCKETS was last sent to it */
    record_ident send_from;    /* the next MESSAGE_RECORDS of an exchange begins here, where the last one ended */
    bool synced;   /* since it is up and this node is awake its digest once equalled ours, or it had nothing for us */
    bool admitted; /* NODE_EFFECT_ADMIT was put out */
    uint64_t copies_boot; /* the boot of it in which its copies of checkpoints are looked after, */
    experiment_id copies_experiment; /* the next experiment to look at, */
    uint32_t copies_trial;           /* and the next trial of that */
    bool copies_done;
    bool takes_copies;          /* it took the last copy that it was sent */
    uint64_t twin_told_ms;      /* when it was last told that its key is in use twice; 0: never */
    uint64_t equivocated_ms;    /* when two records of it with one version were last seen to differ; 0: never */
    uint32_t foreign_version;   /* of its last message, which was refused: this program does not speak it; 0: it was taken */
    uint64_t foreign_told_ms;   /* when a line about that was last traced; 0: never */
    uint64_t code_refused_ms;   /* when it last did not take some code; 0: it took the last that it was sent */
    char address[FACT_ADDRESS_BYTES];
};

/* A node that was a member and is none any more. It is told why; its answers are not let in. */
struct core_outcast {
    struct core_outcast *next; /* by id */
    node_id id;
    uint32_t told_count;
    uint64_t tell_ms; /* when it is told next */
    bool has_link;    /* this node keeps a connection to it; only then it is told */
    uint64_t link_ms; /* when the connection last began; 0: never */
};

struct core_members {
    uint32_t peer_count, peer_slots;
    struct core_peer **peers; /* by id */
    struct core_outcast *outcasts; /* by id */
    struct swim swim;
    struct swim_effects swim_effects;
    struct fanout fanout;     /* above CORE_DIRECT_NODES: records heard of lately, passed on to a few peers at a time */
    uint64_t digest_ms;       /* above CORE_DIRECT_NODES: when a digest was last sent, or put off for news under way */
    bool digest_is_put_off;
    bool syncing;             /* this node still catches up with the records of the others: it grants and coordinates nothing */
    uint64_t filling_ms;      /* when many new records last came at once; 0: never */
    bool changed;             /* since the last settling somebody came, went, or is drained */
    bool roster_is_cut_short; /* the rest of a large roster is admitted in the next step */
    uint32_t check_from;      /* the position of the peer whose link is checked next */
    bool elections_are_stale;
    struct election_member *election_members; /* peers and self, by id; made anew when members change */
    uint32_t election_member_count;
    uint32_t election_member_slots;
};

/* The peer with this id, or NULL. Valid until the roster changes. */
struct core_peer *core_find_peer(const struct node_core *core, node_id id);

void core_members_start(struct node_core *core);
void core_members_leave(struct node_core *core);
void core_members_tick(struct node_core *core);
void core_members_housekeep(struct node_core *core);
void core_members_shift(struct node_core *core, uint64_t gap_ms); /* stall.c */

/* True in the housekeeping in which the node has caught up with the records of the others. */
bool core_members_catch_up(struct node_core *core);
void core_members_update_roster(struct node_core *core);
void core_members_update_elections(struct node_core *core);
void core_members_receive_swim(struct node_core *core, node_id from, const struct message *message);

/* MESSAGE_BUCKETS, MESSAGE_KEYS and MESSAGE_PULL of a peer. */
void core_members_receive_exchange(struct node_core *core, node_id from, const struct message *message);

/* NODE_EVENT_LINK. */
void core_members_link(struct node_core *core, node_id peer, bool refused, bool open);

/* True while the mesh is too large for telling every peer of every change. */
bool core_members_fans_out(const struct node_core *core);

/* Hands a record that is new here, our own or another's, to the fan-out. */
void core_members_relay(struct node_core *core, const struct records_entry *entry);

bool core_node_alive(const struct node_core *core, node_id node);   /* alive or suspect; self always */
bool core_node_trusted(const struct node_core *core, node_id node); /* alive, not suspect */
bool core_node_drained(const struct node_core *core, node_id node);
bool core_node_accepts(const struct node_core *core, node_id node); /* trusted, speaks as we do, not drained: may get new work */

/* True if all that the node has published is here: its digest once equalled ours. Never of this node. */
bool core_node_in_step(const struct node_core *core, node_id node);

/* DESIGN 6, third stage: whether what ran on the node may be given to others now. `patience_ms` is for what may still run
 * beyond a cut. */
bool core_node_lost(const struct node_core *core, node_id node, uint64_t patience_ms);

/* Tells the shell where a peer is. An address from the peer's own message counts until its next one. */
void members_set_address(struct node_core *core, struct core_peer *peer, const uint8_t public_key[PUBLIC_KEY_BYTES],
                         const char *address);

/* Takes a peer off the list and gives it back to the arena. */
void members_drop_peer(struct node_core *core, struct core_peer *peer);

#endif
