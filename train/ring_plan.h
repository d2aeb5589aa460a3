#ifndef TRAIN_RING_PLAN_H
#define TRAIN_RING_PLAN_H
/* Collectives on a ring, as plans: who sends which range to the next rank in which order. A core: the transport
 * (train/ring_tcp.h) carries the plan out, tests simulate it, people print it.
 *
 * Every rank sends to the next one (rank + 1, wrapping) and receives from the one before, and nothing else. Both sides
 * of a link compute the same sequence of transfers, so a receiver knows what must come.
 *
 * All-reduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009): the
 * array is cut into `size` slices. In step s (0 ... 2 * size - 3) rank r sends slice (r - s) and receives slice
 * (r - s - 1), modulo size. In the first size - 1 steps (reduce-scatter) what arrives is added to the own slice; then each
 * rank has one finished slice, and the other size - 1 steps (all-gather) pass the finished slices round.
 *
 *     3 ranks       step 0        step 1        step 2        step 3
 *     rank 0     sends 0, +=2   sends 2, +=1   sends 1, =0   sends 0, =2
 *     rank 1     sends 1, +=0   sends 0, +=2   sends 2, =1   sends 1, =0
 *     rank 2     sends 2, +=1   sends 1, +=0   sends 0, =2   sends 2, =1
 *
 * Slice k is summed as (((x[k] + x[k+1]) + x[k+2]) ...) by rank, always, and copied after: all ranks have the same bits.
 * Cost: each rank sends 2 (size - 1) / size of the array.
 *
 * Broadcast: the root's array goes round once, to the rank before the root.
 *
 * A slice moves in pieces, so that its first piece goes on while the next still arrives. An empty slice is one empty
 * piece: every step is seen on the wire, which makes an all-reduce of any length a barrier and lets every rank notice
 * that another rank brought another length. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_RANKS_MAX 64

enum ring_kind { RING_ALL_REDUCE = 1, RING_BROADCAST = 2 };

struct ring_plan {
    enum ring_kind kind;
    uint32_t rank, size;
    uint32_t root;        /* broadcast only */
    uint64_t count;       /* elements of the array */
    uint64_t piece_count; /* elements of a piece at most */
};

/* A position in the sequence of transfers of one direction of one rank. All zero is the start. */
struct ring_cursor {
    uint32_t step;
    uint64_t piece;
};

/* One piece: elements [offset, offset + count). */
struct ring_transfer {
    uint32_t step;
    uint64_t offset, count;
    bool add; /* receiver: add to what is there (all-reduce, first half) instead of replacing it */
};

/* `size` 1 ... RING_RANKS_MAX, rank and root < size, piece_count > 0: CHECKed, the caller knows them. */
struct ring_plan ring_plan_all_reduce(uint32_t rank, uint32_t size, uint64_t count, uint64_t piece_count);
struct ring_plan ring_plan_broadcast(uint32_t rank, uint32_t size, uint32_t root, uint64_t count, uint64_t piece_count);

/* Where slice `slice` begins; slice == size gives the end. Slices differ by one element at most. */
uint64_t ring_plan_slice_start(const struct ring_plan *plan, uint32_t slice);

/* The transfer at the cursor, which is not moved. False at the end of the plan. */
bool ring_plan_send(const struct ring_plan *plan, const struct ring_cursor *cursor, struct ring_transfer *out);
bool ring_plan_receive(const struct ring_plan *plan, const struct ring_cursor *cursor, struct ring_transfer *out);

/* Moves past the transfer at the cursor. Only where the call above said true. */
void ring_plan_send_advance(const struct ring_plan *plan, struct ring_cursor *cursor);
void ring_plan_receive_advance(const struct ring_plan *plan, struct ring_cursor *cursor);

/* Whether the bytes of the transfer at `send` are ready, when everything before `received` has arrived. */
bool ring_plan_send_ready(const struct ring_plan *plan, const struct ring_cursor *send,
                          const struct ring_cursor *received);

/* One line for people: "step 2 rank 1 sends [10, 20) to 2". Returns its length. */
size_t ring_plan_line(const struct ring_plan *plan, const struct ring_transfer *transfer, char *out, size_t size);

#endif
