#ifndef TRAIN_PLAN_PLAN_H
#define TRAIN_PLAN_PLAN_H
/* Collectives as plans: which rank sends which range of the array to which rank, in which order. A core: a transport
 * (train/group/tcp/group.h) carries the plan out, tests simulate it, and `shoal-train plan` prints it.
 *
 * A plan is the list of a rank's steps. In a step a rank sends one range, receives one range, both or neither. A transfer has
 * the same step number, offset and count in the plans of sender and receiver, so a receiver knows which transfer must come.
 * Received elements replace the present ones or are added to them, in the order of the steps. That order depends on the plan
 * only. Every sum is computed on a single rank and copied, or on two ranks from the same two operands: IEEE 754 gives the same
 * bits in either order, and train/plan/reduce.h turns every NaN into the same NaN. So all ranks end with the same bits.
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
 *   doubling  Recursive doubling. In step k ranks r and r ^ 2^k exchange their arrays and add (all-gather: append).
 *             All-reduce: L + 2 F steps of B each.
 *   halving   Recursive halving, then doubling (Rabenseifner 2004). Halving: ranks r and r ^ p/2 each keep one half of the
 *             array, send the other half and add the half received; then quarters with r ^ p/4, and so on; then the same
 *             exchanges backwards, copying. All-reduce: 2 L + 2 F steps; each rank sends 2 (p - 1) / p B.
 *   chain     Broadcast from rank to rank, in pieces: n - 1 steps that overlap; each rank sends B.
 *   tree      Broadcast along the hypercube of doubling: L + 2 F steps of B each.
 *
 * If n is no power of two (Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4.5): of the first 2 (n - p) ranks each even rank
 * gives its array to the odd rank after it, sits the exchanges out, and receives the result: two more steps of B.
 *
 * If the caller names no algorithm, the plan uses the algorithm with the lowest cost under
 *
 *     steps * PLAN_STEP_NS + bytes sent by the busiest rank * PLAN_BYTE_PS + bytes added by it * PLAN_ADD_PS
 *
 * and at equal cost the first in the order of enum plan_algorithm. The bytes of halving count 5/4: half of its ranks send in a
 * step the range that arrived last in the step before, so its transfers overlap less than a ring's (measured: 1.03 to 1.2 over
 * loopback, 1.1 to 1.25 between hosts). The constants lie between a loopback and a network of 1 to 10 Gbit/s; only their ratio
 * matters. They are not measured at run time, because all ranks must decide alike.
 *
 * A step's range moves in pieces, so that its first piece can be passed on while the next is still arriving. An empty range is
 * a single empty piece: every transfer is visible on the wire, so each rank notices if another brought an array of another
 * length. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits, the marker of "no rank", and the constants of the cost (ns per step, ps per byte sent, ps per byte added). */
#define PLAN_RANKS_MAX 256
#define PLAN_STEPS_MAX (2 * (PLAN_RANKS_MAX - 1))
#define PLAN_NOBODY UINT32_MAX
#define PLAN_STEP_NS 20000
#define PLAN_BYTE_PS 4000
#define PLAN_ADD_PS 100
#define PLAN_ALL_LINKED_MAX 8 /* up to this many ranks every pair has a link */

/* Numbers on the wire: never changed. */
enum plan_kind { PLAN_ALL_REDUCE = 1, PLAN_BROADCAST, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_BARRIER };
enum plan_algorithm { PLAN_RING = 1, PLAN_DOUBLING, PLAN_HALVING, PLAN_CHAIN, PLAN_TREE, PLAN_ALGORITHMS };

/* A step of a rank. Offsets and counts are in elements from the beginning of the array. */
struct plan_step {
    uint32_t to, from;  /* PLAN_NOBODY: nothing is sent, or received */
    bool add;           /* received elements are added to the present ones; false: they replace them */
    bool sent_is_added; /* the receiver adds the elements sent here */
    uint64_t send_offset, send_count, receive_offset, receive_count; /* elements */
};

/* A rank's plan: a plain value without pointers, set by plan_init and only read afterwards. */
struct plan {
    enum plan_kind kind;
    enum plan_algorithm algorithm;
    uint32_t rank, size;
    uint32_t root;        /* broadcast only */
    uint64_t count;       /* elements of the array */
    uint64_t piece_count; /* most elements of a piece */
    uint32_t step_count;
    struct plan_step steps[PLAN_STEPS_MAX];
};

/* A rank's position in its transfers of one direction (sending or receiving). Starts from plan_begin. */
struct plan_cursor {
    uint32_t step;
    uint64_t done; /* elements of this step */
};

/* A piece: elements [offset, offset + count), sent to `peer` or received from it. `add`: the receiver adds. */
struct plan_transfer {
    uint32_t step, peer;
    uint64_t offset, count;
    bool add;
};

/* The arguments of plan_init. */
struct plan_options {
    enum plan_kind kind;
    enum plan_algorithm algorithm; /* 0: the cheapest */
    uint32_t rank, size;           /* size: 1 ... PLAN_RANKS_MAX */
    uint32_t root;                 /* of a broadcast */
    uint64_t count;                /* elements; 0 for a barrier */
    uint32_t element_bytes;        /* for the cost */
    uint64_t piece_count;          /* > 0 */
};

/* Makes a rank's plan. The options are CHECKed: rank and root < size, and an algorithm of the kind (plan_exists).
 *
 * reduce-scatter: rank r ends with the sum of slice r; the rest of its array is undefined. all-gather: rank r starts with slice
 * r. Slices are those of plan_slice_start. barrier: no rank ends before all ranks have begun. */
void plan_init(struct plan *plan, const struct plan_options *options);

/* Whether the kind has the algorithm: all-reduce by ring, doubling or halving; broadcast by chain or tree; reduce-scatter by
 * ring or halving; all-gather by ring or doubling; barrier by doubling. */
bool plan_exists(enum plan_kind kind, enum plan_algorithm algorithm);

/* plan_cost_ns: the cost by the formula above, in ns, for the `bytes` of the whole array. plan_choose: the cheapest
 * algorithm. */
uint64_t plan_cost_ns(enum plan_kind kind, enum plan_algorithm algorithm, uint32_t size, uint64_t bytes);
enum plan_algorithm plan_choose(enum plan_kind kind, uint32_t size, uint64_t bytes);

/* Whether some plan for `size` ranks may have a transfer between the two ranks, so that they need a link. */
bool plan_linked(uint32_t size, uint32_t one, uint32_t other);

/* The first element of slice `slice` when `count` elements are cut into `size` slices; slice == size gives `count`. Slices
 * differ by at most one element. */
uint64_t plan_slice_start(uint64_t count, uint32_t size, uint32_t slice);

/* The first transfer of a direction: sending or receiving. */
struct plan_cursor plan_begin(const struct plan *plan, bool sends);

/* Gives the transfer at the cursor without moving the cursor. Returns false at the end of the plan; *out is then untouched. */
bool plan_send(const struct plan *plan, const struct plan_cursor *sent, struct plan_transfer *out);
bool plan_receive(const struct plan *plan, const struct plan_cursor *received, struct plan_transfer *out);

/* Moves past the transfer at the cursor. Called only after plan_send or plan_receive has returned true. */
void plan_send_advance(const struct plan *plan, struct plan_cursor *sent);
void plan_receive_advance(const struct plan *plan, struct plan_cursor *received);

/* Whether the elements of the transfer at `sent` are final, given that everything before `received` has been added or
 * copied. */
bool plan_send_ready(const struct plan *plan, const struct plan_cursor *sent, const struct plan_cursor *received);

/* Whether the transfer at `received` may be added or copied, given that everything before `sent` has left the array: elements
 * still to be sent must not be overwritten. */
bool plan_receive_ready(const struct plan *plan, const struct plan_cursor *received, const struct plan_cursor *sent);

/* Whether any transfer at or after the cursor goes to `peer`, or comes from `peer`. */
bool plan_sends_to(const struct plan *plan, const struct plan_cursor *sent, uint32_t peer);
bool plan_receives_from(const struct plan *plan, const struct plan_cursor *received, uint32_t peer);

/* Names ("all-reduce", "ring"); static strings, "?" if the number has no name. plan_*_named is the inverse; 0: unknown name. */
const char *plan_kind_name(enum plan_kind kind);
const char *plan_algorithm_name(enum plan_algorithm algorithm);
enum plan_kind plan_kind_named(const char *name);
enum plan_algorithm plan_algorithm_named(const char *name);

/* Writes a line about the rank's sending in a step, "step 2 rank 1 sends [10, 20) to 2, which adds it" or "... copies it", to
 * out[size]. The step must send something. Returns the line's length. */
size_t plan_line(const struct plan *plan, uint32_t step, char *out, size_t size);

#endif
