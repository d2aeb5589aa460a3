/* What a suspend of this node does to the times of this room (roof/stall.c). */

#include "base/shift.h"
#include "node/core/copies/acks.h"

/* Stays: resend_ms, due again. */
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

/* Stays: held_ms, how old the holder's word is: copies of checkpoints are deleted upon it. */
static void shift_confirmation(struct core_confirmation *confirmation, uint64_t gap_ms)
{
    time_shift(&confirmation->refused_ms, gap_ms);
}

/* A collection deletes what nobody has touched for a while, and for the length of the gap nobody could: whoever was sending
 * or saving something goes on first. (A long gap is as good as one of CORE_COLLECT_MS: who is there speaks within that.) */
static void put_off_collection(struct node_core *core, uint64_t gap_ms)
{
    uint64_t from_ms = core->now_ms + (gap_ms < CORE_COLLECT_MS ? gap_ms : CORE_COLLECT_MS);
    core->copies->collect_ms = core->copies->collect_ms > from_ms ? core->copies->collect_ms : from_ms;
}

/* Of struct core_copies stay: retention_ms, repair_ms, due again; collect_ms, but for the collection that would come too early. */
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
