#ifndef TESTS_UNIT_FACTS_MAKE_H
#define TESTS_UNIT_FACTS_MAKE_H
/* Records for tests: people with keys, small experiments, and whatever any of them may write. */

#include "base/random.h"
#include "gossip/record.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"

/* A node; number 0 is the founder of the mesh. Ids follow from the number alone, in no particular order. */
struct person {
    uint8_t public_key[PUBLIC_KEY_BYTES];
    node_id id;
    char name[FACT_NAME_BYTES]; /* "a", "b", ... */
};
struct person make_person(uint32_t number);
mesh_id make_mesh(void);

/* What `voucher` says when it admits `member`; the founder admits itself with the mesh's nonce. */
struct fact_member make_member(const struct person *member);

/* An eviction that lets those of the people stand whose bits are set. */
struct fact_eviction make_eviction(const struct person *people, uint32_t count, uint32_t standing);

/* "NAME.host:7400", slot_count CPU slots, version "9.9.9". */
struct fact_node make_node(const struct person *person, uint32_t slot_count);

experiment_id make_experiment_id(uint32_t number);
attempt_id make_attempt_id(uint32_t experiment, uint32_t trial, uint32_t number, uint64_t term, node_id coordinator);

/* An experiment named "exp" with metric accuracy, a random search of `trials` over learning_rate, one slot a trial. */
void make_config(struct config *out, uint32_t trials, uint32_t max_restarts);
uint32_t make_packed_config(const struct config *config, uint8_t out[CONFIG_PACKED_BYTES_MAX]);

/* {"validation": {"accuracy": value}}; returns its length. */
uint32_t make_metrics(uint8_t out[FACT_METRICS_BYTES_MAX], double value);

struct made {
    uint8_t bytes[RECORD_ENVELOPE_BYTES_MAX];
    uint32_t count;
};

/* The envelope of any kind; `fact` is the struct that belongs to it. */
void make_record(struct made *out, node_id writer, uint64_t boot, uint64_t seq, enum fact_kind kind,
                 struct fact_key key, const void *fact);

#endif
