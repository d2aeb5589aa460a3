#ifndef NODE_CORE_MEMBERS_MEMBERS_H
#define NODE_CORE_MEMBERS_MEMBERS_H
/* Membership, the roster, links, and the exchange of records (DESIGN 5, 6). */

#include "gossip/exchange.h"
#include "gossip/fanout.h"
#include "node/core/ground/state.h"

/* What this node knows of another member beyond the records. */
struct core_peer {
    node_id id;
    enum swim_state state;
    uint64_t boot;          /* of the peer's last message; after an old disk it may be smaller than before */
    uint64_t up_since_ms;   /* when the peer was last found alive after an absence */
    uint64_t died_ms;       /* when the peer was last declared dead; kept when the peer comes back; 0: never */
    bool fell_silent;       /* at died_ms the host did not answer either, not even by a refusal */
    uint64_t refused_since_ms; /* since when the host refuses connections; 0: the host does not refuse */
    uint64_t silent_until_ms;  /* the peer did not answer as an owner: no slot is asked for until then; 0: the peer answers */
    uint64_t unwilling_ms;     /* when the peer last refused as an owner to grant anything; 0: granted since */
    uint64_t digest_ms;        /* of the last MESSAGE_BUCKETS to the peer */
    record_ident send_from;    /* the next MESSAGE_RECORDS of an exchange begins here, where the last one ended */
    bool synced;   /* all records of the peer are here: since the peer is up and we are awake, the digests were once equal, or
                      an exchange found nothing to pull */
    bool admitted; /* NODE_EFFECT_ADMIT was put out */
    uint64_t copies_boot; /* the peer's boot for which the copies on that node are looked after; the next three fields belong
                             to the same round */
    experiment_id copies_experiment; /* the next experiment to look at */
    uint32_t copies_trial;           /* the next trial of copies_experiment */
    bool copies_done;                /* the round is over */
    bool takes_copies;          /* the peer took the last copy that was sent there */
    uint64_t twin_told_ms;      /* when the peer was last told of a second daemon with the same key; 0: never */
    uint64_t equivocated_ms;    /* when two records of the peer with one version were last seen to differ; 0: never */
    uint32_t foreign_version;   /* the version of the peer's last message, unreadable here; 0: the message was read */
    uint64_t foreign_told_ms;   /* when a line about foreign_version was last traced; 0: never */
    uint64_t clock_s;           /* the peer's wall clock when the peer last told it (clocks.h); 0: never */
    uint64_t clock_ms;          /* when that was */
    uint64_t clock_told_ms;     /* when our clock was last told to the peer; 0: never */
    uint64_t code_refused_ms;   /* when the peer last did not take some code; 0: the last code was taken */
    char address[FACT_ADDRESS_BYTES]; /* in use; "": none is known */
    struct core_address *addresses;   /* all that are known: addresses.h */
};

/* A node that was a member and is none any more. We tell the outcast why, over a connection kept for the purpose, and let no
 * answer in. */
struct core_outcast {
    struct core_outcast *next; /* by id */
    node_id id;
    uint32_t told_count;
    uint64_t tell_ms; /* when the outcast is told next */
    bool has_link;    /* we keep a connection to the outcast; nothing is told without a connection */
    uint64_t link_ms; /* when the connection last began; 0: never */
};

struct core_members {
    uint32_t peer_count, peer_slots;
    struct core_peer **peers; /* by id */
    struct core_outcast *outcasts; /* by id */
    struct swim swim;
    struct swim_effects swim_effects; /* empty between two calls of swim */
    struct fanout fanout;     /* above CORE_DIRECT_NODES: new records, passed on to a few peers at a time */
    uint64_t digest_ms;       /* above CORE_DIRECT_NODES: when a digest was last sent, or put off for news under way */
    bool digest_is_put_off;   /* above CORE_DIRECT_NODES: the digest was put off for news; only once, until digests agree */
    bool syncing;             /* we are pulling the records of our peers: until done we grant and coordinate nothing */
    uint64_t filling_ms;      /* when many new records last came at once; 0: never */
    int64_t clock_offset_s;   /* wall_s less our monotonic seconds, when our clock was last told to all peers */
    bool changed;             /* since the last settling a node came, went, or was drained or undrained */
    bool roster_is_cut_short; /* the rest of a large roster is admitted in the next step */
    uint32_t check_from;      /* the position of the peer whose addresses are checked next */
    uint32_t former_count;    /* addresses of this node that it had in this boot and has not now */
    char former[CORE_FORMER_MAX][FACT_ADDRESS_BYTES];
    bool links_changed;       /* a check has ended since `links` were last looked at */
    struct core_links *links; /* links.h; NULL until memory was there */
    bool elections_are_stale; /* election_members is to be made anew */
    struct election_member *election_members; /* peers and self, by id */
    uint32_t election_member_count;
    uint32_t election_member_slots;
};

/* The peer with this id, or NULL. Valid until the roster changes. */
struct core_peer *core_find_peer(const struct node_core *core, node_id id);

void core_members_start(struct node_core *core); /* after the disk is loaded: makes the roster and begins to sync */
void core_members_leave(struct node_core *core); /* tells the peers that we leave the mesh */
void core_members_tick(struct node_core *core);
void core_members_housekeep(struct node_core *core);
void core_members_shift(struct node_core *core, uint64_t gap_ms); /* stall.c */

/* Looks whether syncing is over. True once: in the housekeeping in which syncing ends. */
bool core_members_catch_up(struct node_core *core);

/* Makes peers and outcasts follow the fold. A roster too large for one step is finished in the next ones. */
void core_members_update_roster(struct node_core *core);

/* Makes election_members anew. Without memory the old ones stay, and the lack is counted. */
void core_members_update_elections(struct node_core *core);

/* MESSAGE_SWIM of a peer. */
void core_members_receive_swim(struct node_core *core, node_id from, const struct message *message);

/* MESSAGE_BUCKETS, MESSAGE_KEYS and MESSAGE_PULL of a peer. */
void core_members_receive_exchange(struct node_core *core, node_id from, const struct message *message);

/* NODE_EVENT_LINK and NODE_EVENT_HINT. */
void core_members_link(struct node_core *core, const struct node_event *event);
void core_members_hint(struct node_core *core, const struct node_event *event);

/* A message of the peer came from this host; NULL or "": unknown. */
void core_members_heard_from(struct node_core *core, struct core_peer *peer, const char *host);

/* True while the mesh is too large for telling every peer of every change. */
bool core_members_fans_out(const struct node_core *core);

/* Hands a record that is new here to the fan-out: our own, or another node's. */
void core_members_relay(struct node_core *core, const struct records_entry *entry);

bool core_node_alive(const struct node_core *core, node_id node);   /* alive or suspect; we always */
bool core_node_trusted(const struct node_core *core, node_id node); /* alive and not suspect; not leaving */
bool core_node_drained(const struct node_core *core, node_id node); /* by the drain register as it stands */

/* True if the node may get new work: trusted, with a common protocol version, and not drained. */
bool core_node_accepts(const struct node_core *core, node_id node);

/* True if the node's version can read the experiment's record, and so run the experiment. */
bool core_node_reads(const struct node_core *core, node_id node, const struct view_experiment *experiment);

/* True if the node's version reads these kinds of records (FACT_READS_...). */
bool core_node_knows(const struct node_core *core, node_id node, uint64_t reads);

/* True if everything the node has published is here, or if CORE_SYNC_PATIENCE_MS have passed since the node came up or we
 * woke. False for our own id. Records of a node in step tell what happens there now, by our clock. */
bool core_node_in_step(const struct node_core *core, node_id node);

/* DESIGN 6, third stage: true if the work of the node may be given to other nodes now. `patience_ms` is how long to wait for
 * workers that may still run beyond a partition. */
bool core_node_lost(const struct node_core *core, node_id node, uint64_t patience_ms);

/* Tells the shell where a peer is. An address from the peer's own message counts until the peer's next one. */
void members_set_address(struct node_core *core, struct core_peer *peer, const uint8_t public_key[PUBLIC_KEY_BYTES],
                         const char *address);

/* Takes a peer off the list and gives it back to the arena. */
void members_drop_peer(struct node_core *core, struct core_peer *peer);

#endif
