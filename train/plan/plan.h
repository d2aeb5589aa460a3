#ifndef TRAIN_PLAN_PLAN_H
#define TRAIN_PLAN_PLAN_H
/* Collectives as plans: who sends which range of the array to whom, in which order. A core: a transport
 * (train/group/tcp/group.h) carries the plan out, tests simulate it, people print it (shoal-train plan).
 *
 * A plan is the list of one rank's steps. In a step a rank sends one range, receives one range, both or neither. A transfer
 * has the same step number, offset and count in the plans of its two ends, so a receiver knows what must come. What is
 * received replaces what is there or is added to it; additions happen in the order of the steps. That order depends on
 * nothing but the plan, and every sum is computed on one rank and copied to the others, or on two ranks from the same two
 * operands, which IEEE 754 adds to the same bits in either order, and train/plan/reduce.h makes one NaN of all: all ranks end with
 * the same bits.
 *
 * n ranks, an array of B bytes, p the largest power of two <= n, L = log2 p; F is 1 if p < n, else 0.
 *
 *   ring      Patarasuk and Yuan, JPDC 2009. The array is cut into n slices. Reduce-scatter: in step s (0 ... n - 2) rank
 *             r sends slice r - s - 1 to rank r + 1 and adds slice r - s - 2 from rank r - 1, modulo n; then slice r is
 *             finished on rank r. All-gather: the finished slices go round once.
 *
 *                 3 ranks       step 0        step 1        step 2        step 3
 *                 rank 0     sends 2, +=1   sends 1, +=0   sends 0, =2   sends 2, =1
 *                 rank 1     sends 0, +=2   sends 2, +=1   sends 1, =0   sends 0, =2
 *                 rank 2     sends 1, +=0   sends 0, +=2   sends 2, =1   sends 1, =0
 *
 *             All-reduce: 2 (n - 1) steps, each rank sends 2 (n - 1) / n B.
 *   doubling  Recursive doubling. In step k ranks r and r ^ 2^k exchange all they have and add (all-gather: append).
 *             All-reduce: L + 2 F steps of B each.
 *   halving   Recursive halving, then doubling (Rabenseifner 2004). Halving: ranks r and r ^ p/2 each keep one half of the
 *             array, send the other and add what comes; then quarters with r ^ p/4, and so on; then the same exchanges
 *             backwards, copying. All-reduce: 2 L + 2 F steps; each rank sends 2 (p - 1) / p B.
 *   chain     Broadcast from rank to rank, in pieces: n - 1 steps that overlap; each rank sends B.
 *   tree      Broadcast along the hypercube of doubling: L + 2 F steps of B each.
 *
 * n that is no power of two (Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4.5): of the first 2 (n - p) ranks each even
 * one gives its array to the odd one after it, sits the middle out, and gets the result from it: two steps of B more.
 *
 * The algorithm, if the caller names none, is the one with the lowest cost under
 *
 *     steps * PLAN_STEP_NS + bytes sent by the busiest rank * PLAN_BYTE_PS + bytes added by it * PLAN_ADD_PS
 *
 * and at equal cost the first in the order of enum plan_algorithm. The bytes of halving count 5/4: half of its ranks send
 * in a step what arrives last in the step before, so its transfers overlap less than a ring's (measured: 1.03 to 1.2 over
 * loopback, 1.1 to 1.25 between hosts). The constants lie between a loopback and a network of 1 to 10 Gbit/s; what matters is
 * their ratio. They are constants, not measured at run time, because all ranks must decide alike.
 *
 * A step's range moves in pieces, so that its first piece goes on while the next still arrives. An empty range is one empty
 * piece: every transfer is seen on the wire, which lets each rank notice that another brought another length. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_RANKS_MAX 64
#define PLAN_STEPS_MAX (2 * (PLAN_RANKS_MAX - 1))
#define PLAN_NOBODY UINT32_MAX
#define PLAN_STEP_NS 20000
#define PLAN_BYTE_PS 4000
#define PLAN_ADD_PS 100
#define PLAN_ALL_LINKED_MAX 8 /* up to so many ranks every pair has a link */

/* Numbers of the wire: they never change. */
enum plan_kind { PLAN_ALL_REDUCE = 1, PLAN_BROADCAST, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_BARRIER };
enum plan_algorithm { PLAN_RING = 1, PLAN_DOUBLING, PLAN_HALVING, PLAN_CHAIN, PLAN_TREE, PLAN_ALGORITHMS };

struct plan_step {
    uint32_t to, from;  /* PLAN_NOBODY: nothing is sent, or received */
    bool add;           /* what comes is added to what is there, instead of replacing it */
    bool sent_is_added; /* the same at the other end, of what goes */
    uint64_t send_offset, send_count, receive_offset, receive_count; /* elements */
};

struct plan {
    enum plan_kind kind;
    enum plan_algorithm algorithm;
    uint32_t rank, size;
    uint32_t root;        /* broadcast only */
    uint64_t count;       /* elements of the array */
    uint64_t piece_count; /* elements of a piece at most */
    uint32_t step_count;
    struct plan_step steps[PLAN_STEPS_MAX];
};

/* A position in the transfers of one direction of one rank. Starts from plan_begin. */
struct plan_cursor {
    uint32_t step;
    uint64_t done; /* elements of this step */
};

/* One piece: elements [offset, offset + count). */
struct plan_transfer {
    uint32_t step, peer;
    uint64_t offset, count;
    bool add;
};

struct plan_options {
    enum plan_kind kind;
    enum plan_algorithm algorithm; /* 0: by cost */
    uint32_t rank, size;           /* size 1 ... PLAN_RANKS_MAX */
    uint32_t root;                 /* broadcast */
    uint64_t count;                /* elements; a barrier has none */
    uint32_t element_bytes;        /* for the cost */
    uint64_t piece_count;          /* > 0 */
};

/* Makes one rank's plan. What the caller knows is CHECKed: rank and root < size, an algorithm that the kind has.
 *
 * reduce-scatter: rank r ends with the sum of slice r; the rest of its array is undefined. all-gather: rank r brings slice
 * r. Slices are those of plan_slice_start. barrier: no rank ends before all have begun. */
void plan_init(struct plan *plan, const struct plan_options *options);

/* Whether there is such a plan: all-reduce by ring, doubling or halving; broadcast by chain or tree; reduce-scatter by ring
 * or halving; all-gather by ring or doubling; barrier by doubling. */
bool plan_exists(enum plan_kind kind, enum plan_algorithm algorithm);

/* The cost by the formula above, in ns. `bytes` is the whole array's. */
uint64_t plan_cost_ns(enum plan_kind kind, enum plan_algorithm algorithm, uint32_t size, uint64_t bytes);
enum plan_algorithm plan_choose(enum plan_kind kind, uint32_t size, uint64_t bytes);

/* Whether some plan for `size` ranks may have a transfer between these two, so that their link is wanted. */
bool plan_linked(uint32_t size, uint32_t one, uint32_t other);

/* Where slice `slice` of an array of `count` elements in `size` slices begins; slice == size gives the end. Slices differ by
 * one element at most. */
uint64_t plan_slice_start(uint64_t count, uint32_t size, uint32_t slice);

/* The first transfer of a direction. */
struct plan_cursor plan_begin(const struct plan *plan, bool sends);

/* The transfer at the cursor, which is not moved. False at the end of the plan. */
bool plan_send(const struct plan *plan, const struct plan_cursor *sent, struct plan_transfer *out);
bool plan_receive(const struct plan *plan, const struct plan_cursor *received, struct plan_transfer *out);

/* Moves past the transfer at the cursor. Only where the call above said true. */
void plan_send_advance(const struct plan *plan, struct plan_cursor *sent);
void plan_receive_advance(const struct plan *plan, struct plan_cursor *received);

/* Whether the bytes of the transfer at `sent` are ready, when everything before `received` has been added or copied. */
bool plan_send_ready(const struct plan *plan, const struct plan_cursor *sent, const struct plan_cursor *received);

/* Whether the transfer at `received` may be added or copied, when everything before `sent` has left the array: what is
 * still to be sent must not be overwritten. */
bool plan_receive_ready(const struct plan *plan, const struct plan_cursor *received, const struct plan_cursor *sent);

/* Whether anything at or after the cursor goes to, or comes from, `peer`. */
bool plan_sends_to(const struct plan *plan, const struct plan_cursor *sent, uint32_t peer);
bool plan_receives_from(const struct plan *plan, const struct plan_cursor *received, uint32_t peer);

/* Names for people ("all-reduce", "ring"); static. "?" for a number that is none. The other way: 0 if no such name. */
const char *plan_kind_name(enum plan_kind kind);
const char *plan_algorithm_name(enum plan_algorithm algorithm);
enum plan_kind plan_kind_named(const char *name);
enum plan_algorithm plan_algorithm_named(const char *name);

/* What the rank sends in a step, one line for people: "step 2 rank 1 sends [10, 20) to 2, which adds it" or "... copies it".
 * Only where somebody gets something. Returns its length. */
size_t plan_line(const struct plan *plan, uint32_t step, char *out, size_t size);

#endif
