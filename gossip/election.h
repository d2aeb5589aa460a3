#ifndef GOSSIP_ELECTION_H
#define GOSSIP_ELECTION_H
/* Who coordinates an experiment. One struct election per experiment and node; a core.
 *
 * Claims are records (term, node). The order is (term, node id); the highest claim whose node lives is the incumbent and
 * stays. When there is none, every node computes by rendezvous hash who should follow; that candidate first asks the
 * living whether anyone still hears the dead incumbent, and claims term + 1 when nobody does. A candidate may be stuck
 * (it syncs, its disk is full), so the k-th in order takes its turn k x ELECTION_TURN_MS after the vacancy was seen.
 *
 *      FOLLOWING --our turn--> ASKING --nobody hears it--> (claim on its way to disk) --election_led--> LEADING
 *                              |    ^
 *              heard by another|    |ELECTION_RETRY_MS later
 *                              v    |
 *                              WAITING
 *
 * Every state goes to FOLLOWING when a higher claim is seen (from LEADING: YIELD) or the incumbent turns out to live.
 *
 * Known weakness: a daemon that lives but can neither write its claim nor release it (a broken disk) keeps its
 * experiments for as long as membership holds it alive. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/lamport.h"

#define ELECTION_ASK_MS 600    /* how long a candidate waits for answers */
#define ELECTION_RETRY_MS 2000 /* after "I still hear it" */
#define ELECTION_UP_MS 5000    /* a node that has been alive this long is preferred as successor */
#define ELECTION_TURN_MS 5000  /* how long each candidate waits for the one before it */

struct election_claim {
    uint64_t term;
    node_id node; /* none: nobody */
};

/* <0, 0, >0 by (term, node id). */
int election_claim_compare(struct election_claim a, struct election_claim b);

/* What the node knows of one member when it decides. */
struct election_member {
    node_id node;
    bool alive;         /* by membership: alive or suspect */
    bool drained;       /* shall get nothing new: a last choice */
    uint64_t up_since_ms; /* when it was first seen alive in its present boot; 0 = long ago */
};

enum election_state { ELECTION_FOLLOWING, ELECTION_ASKING, ELECTION_WAITING, ELECTION_LEADING };

struct election {
    enum election_state state;
    struct election_claim highest; /* of all claims ever seen, whoever lives; node = self while LEADING */
    bool highest_released;         /* its node handed over or left by its own word */
    bool claiming;                 /* our claim is on its way to disk: nothing is decided until it is there */
    uint64_t claiming_term;
    node_id expected;              /* comes first while the highest claim is released; none: nobody does */
    bool vacant;                   /* at the last step there was no living incumbent ... */
    uint64_t vacant_since_ms;      /* ... for the first time then */
    uint64_t until_ms;             /* ASKING, WAITING: their end; FOLLOWING while vacant: our turn */
};

enum election_action {
    ELECTION_NOTHING,
    ELECTION_ASK,   /* send INCUMBENT_ASK about highest.node to every living member */
    ELECTION_CLAIM, /* write a claim with election_next_term, and lead once it is on disk */
    ELECTION_YIELD  /* this node led and a higher claim exists: stop, hand over */
};

void election_init(struct election *election);

/* A claim was seen (from a record, a message or our own disk), any number of times, in any order. `released` counts for
 * the highest claim only and is never taken back. ERR_REFUSED when its term is 0 or jumps by more than
 * LAMPORT_JUMP_MAX, or its node is none. Returns through *action ELECTION_YIELD when this node `self` led with a
 * lower one, else ELECTION_NOTHING; a release of our own claim makes us follow without an action. Call election_step
 * afterwards. */
int election_observe(struct election *election, struct election_claim claim, bool released, node_id self,
                     enum election_action *action);

/* The same, however far the term jumps: other claims bear it out (gossip/lamport.h), or our own disk says it. */
int election_take(struct election *election, struct election_claim claim, bool released, node_id self,
                  enum election_action *action);

/* Decides; call when members change, when a claim changes, and at election_next_ms. `members` holds every roster member
 * including self, sorted by id; a self that is not among them never claims a vacancy, and self counts as alive. If no
 * other member is alive nobody is asked. A node that released, or is drained and not expected, is the last choice. After
 * ELECTION_CLAIM every call is ELECTION_NOTHING until election_led or a claim higher than ours. A node that leaves stops
 * calling this. */
enum election_action election_step(struct election *election, uint64_t now_ms, node_id self, experiment_id experiment,
                                   const struct election_member *members, uint32_t member_count);

/* An answer to our INCUMBENT_ASK. Answers that come when we ask no more are ignored. */
void election_answer(struct election *election, uint64_t now_ms, bool hears);

/* Our claim, on disk or on its way, is no more: an earlier life's took its place. We lead no longer, and election_step claims
 * anew as a restarted coordinator does. */
void election_lost(struct election *election);

/* The highest claim counts as released, though not by its node's word: nobody else may ever have seen it, and then all others
 * take this node for the incumbent and claim nothing. So it comes first for whoever sees that vacancy. None: nobody does. */
void election_expect(struct election *election, node_id node);

/* Our claim is on disk: we lead, unless a higher claim was seen meanwhile (look at `state`). */
void election_led(struct election *election, struct election_claim claim);

/* The term to claim with; while a claim is on its way, the term of that claim. */
uint64_t election_next_term(const struct election *election);
uint64_t election_next_ms(const struct election *election); /* UINT64_MAX: nothing to wait for */

/* A stall or suspend of gap_ms: what was waited for moves by it. */
void election_shift(struct election *election, uint64_t gap_ms);

#endif
