#ifndef TESTS_SIM_VERSIONS_H
#define TESTS_SIM_VERSIONS_H
/* Nodes that run the program of another protocol version for a while, as in the middle of an update. There are two such
 * programs: one speaks the old version too, the other only the new one and is cut off from all who do not. Both write records of
 * kinds that the others do not know. Which of a message's versions is understood is the real rule's (gossip/version.h). The
 * new version has the format of the old one, since it has none yet. */

#include "gossip/record.h"
#include "gossip/version.h"
#include "tests/sim/plan.h"

struct sim;
struct sim_event;

#define VERSIONS_KINDS 3 /* from SIM_UNKNOWN_KIND + 1 on */
#define VERSIONS_WRITTEN_MAX 512

struct versions_written {
    record_ident ident;
    struct record_version version;
    uint64_t hash; /* of the body */
    uint16_t kind;
    uint8_t writer;
    bool must_spread; /* it was on the disk of one of the core at the heal */
};

struct versions {
    struct versions_written written[VERSIONS_WRITTEN_MAX];
    uint32_t count;
};

void versions_init(struct sim *sim);

/* What a message from the one to the other is said in: the highest version that both speak, else the sender's lowest. */
uint32_t versions_between(const struct sim *sim, int from, int to);

/* They have had a version in common for so long. */
bool versions_agree(const struct sim *sim, int a, int b, uint64_t for_ms);

/* A message came that the receiver's program does not speak. */
void versions_refused(struct sim *sim, int node, node_id from, uint32_t version);

/* The daemon, which runs, is restarted as another program. Draws from the strike. */
void versions_strike(struct sim *sim, int node, uint64_t down_ms, uint64_t lasts_ms);
void versions_updated(struct sim *sim, struct sim_event *event); /* SIM_UPDATED */
void versions_write(struct sim *sim, struct sim_event *event);   /* SIM_WRITES */

/* Before the faults end: all are updated, or go back to the version before. */
void versions_heal(struct sim *sim);

/* The faults have ended: it is known who lives on, and so what must spread. */
void versions_healed(struct sim *sim);

/* 6: at the end the node holds what had to spread, as it was written. */
void versions_kept(struct sim *sim, int node);

#endif
