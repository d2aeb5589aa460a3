/* The times of pushes, copies and waiting requests after a suspend of this node (roof/stall.c). */

#include "base/shift.h"
#include "node/core/copies/acks.h"

/* resend_ms stays, and is due at once. */
static void shift_ack(struct core_ack *ack, uint64_t gap_ms)
{
    time_shift(&ack->until_ms, gap_ms);
}

static void shift_repair(struct core_repair *repair, uint64_t gap_ms)
{
    time_shift(&repair->until_ms, gap_ms);
}

static void shift_code_copy(struct core_code_copy *copy, uint64_t gap_ms)
{
    time_shift(&copy->retry_ms, gap_ms);
}

static void shift_code(struct core_code *code, uint64_t gap_ms)
{
    time_shift(&code->retry_ms, gap_ms);
    for (uint32_t i = 0; i < FACT_HOLDERS_MAX; i++) {
        shift_code_copy(&code->copies[i], gap_ms);
    }
}

/* held_ms stays, since checkpoints are deleted by the age of the holder's answer. */
static void shift_confirmation(struct core_confirmation *confirmation, uint64_t gap_ms)
{
    time_shift(&confirmation->refused_ms, gap_ms);
}

/* A collection deletes chunks that were untouched for a while, and during the suspend no transfer or save could touch a chunk.
 * So the next collection waits for the length of the suspend, at most CORE_COLLECT_MS: a node that is there reports within that
 * time. */
static void put_off_collection(struct node_core *core, uint64_t gap_ms)
{
    uint64_t from_ms = core->now_ms + (gap_ms < CORE_COLLECT_MS ? gap_ms : CORE_COLLECT_MS);
    core->copies->collect_ms = core->copies->collect_ms > from_ms ? core->copies->collect_ms : from_ms;
}

/* Of struct core_copies, retention_ms and repair_ms stay, and are due at once; collect_ms moves as far as put_off_collection
 * says. */
void core_copies_shift(struct node_core *core, uint64_t gap_ms)
{
    put_off_collection(core, gap_ms);
    for (struct core_ack *ack = core->copies->acks; ack != NULL; ack = ack->next) {
        shift_ack(ack, gap_ms);
    }
    for (struct core_repair *repair = core->copies->repairs; repair != NULL; repair = repair->next) {
        shift_repair(repair, gap_ms);
    }
    for (struct core_code *code = core->copies->codes; code != NULL; code = code->next) {
        shift_code(code, gap_ms);
    }
    for (struct core_confirmation *row = core->copies->confirmations; row != NULL; row = row->next) {
        shift_confirmation(row, gap_ms);
    }
}
