#ifndef BASE_ID_H
#define BASE_ID_H
/* The identifiers of nodes, experiments, blobs, leases and meshes, as plain values. All zero means "none". */

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

#define NODE_ID_BYTES 16
#define EXPERIMENT_ID_BYTES 8
#define HASH_BYTES 32
#define TOKEN_BYTES 16
#define MESH_ID_BYTES 16

/* BLAKE2b-128 of the node's Ed25519 public key. */
typedef struct {
    uint8_t bytes[NODE_ID_BYTES];
} node_id;

/* Drawn at random by the client that submits the experiment. */
typedef struct {
    uint8_t bytes[EXPERIMENT_ID_BYTES];
} experiment_id;

/* BLAKE2b-256 of a chunk or a manifest. */
typedef struct {
    uint8_t bytes[HASH_BYTES];
} hash256;

/* The secret by which a worker proves that it holds its slot. Records contain only its hash. */
typedef struct {
    uint8_t bytes[TOKEN_BYTES];
} lease_token;

/* Names one mesh; drawn when the mesh is created. */
typedef struct {
    uint8_t bytes[MESH_ID_BYTES];
} mesh_id;

/* Compares in the order of memcmp; `count` must be a multiple of 8. Inline, because the calls to memcmp took a quarter
 * of a node's time. */
static inline int id_compare_bytes(const uint8_t *a, const uint8_t *b, size_t count)
{
    for (size_t i = 0; i < count; i += 8) {
        uint64_t left, right;
        memcpy(&left, a + i, 8);
        memcpy(&right, b + i, 8);
        if (left != right) {
            return be64toh(left) < be64toh(right) ? -1 : 1;
        }
    }
    return 0;
}

/* For each type of identifier: _compare (the order of memcmp: < 0, 0 or > 0), _equal, and _is_none (all bytes zero). */
#define ID_FUNCTIONS(type)                                              \
    _Static_assert(sizeof(type) % 8 == 0, "whole words");               \
    static inline int type##_compare(type a, type b)                    \
    {                                                                   \
        return id_compare_bytes(a.bytes, b.bytes, sizeof a.bytes);      \
    }                                                                   \
    static inline bool type##_equal(type a, type b)                     \
    {                                                                   \
        return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;           \
    }                                                                   \
    static inline bool type##_is_none(type a)                           \
    {                                                                   \
        static const type none = {{0}};                                 \
        return memcmp(a.bytes, none.bytes, sizeof a.bytes) == 0;        \
    }

ID_FUNCTIONS(node_id)
ID_FUNCTIONS(experiment_id)
ID_FUNCTIONS(hash256)
ID_FUNCTIONS(lease_token)
ID_FUNCTIONS(mesh_id)

/* One attempt at running a trial. The attempts of one trial are ordered by (number, term, coordinator). */
typedef struct {
    experiment_id experiment;
    uint32_t trial;
    uint32_t number; /* counts from 1 */
    uint64_t term;   /* term of the coordinator that created the attempt */
    node_id coordinator;
} attempt_id;

/* < 0, 0 or > 0 in the order of attempts; both must be of the same trial. */
static inline int attempt_id_compare_order(const attempt_id *a, const attempt_id *b)
{
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    if (a->term != b->term) {
        return a->term < b->term ? -1 : 1;
    }
    return node_id_compare(a->coordinator, b->coordinator);
}

/* True if all fields are equal, experiment and trial included. */
static inline bool attempt_id_equal(const attempt_id *a, const attempt_id *b)
{
    return experiment_id_equal(a->experiment, b->experiment) && a->trial == b->trial &&
           attempt_id_compare_order(a, b) == 0;
}

#endif
