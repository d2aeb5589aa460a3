#include "gossip/lease.h"

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"

#define STATES (LEASE_WITHHELD + 1)

/* The allowed moves. RELEASING never goes to LEASED: a slot whose worker may still run is not leased. */
static const bool move_allowed[STATES][STATES] = {
    [LEASE_FREE] = {[LEASE_RESERVED] = true, [LEASE_WITHHELD] = true},
    [LEASE_RESERVED] = {[LEASE_FREE] = true, [LEASE_RESERVED] = true, [LEASE_LEASED] = true, [LEASE_WITHHELD] = true},
    [LEASE_LEASED] = {[LEASE_RELEASING] = true, [LEASE_FREE] = true, [LEASE_WITHHELD] = true},
    [LEASE_RELEASING] = {[LEASE_FREE] = true, [LEASE_WITHHELD] = true},
    [LEASE_WITHHELD] = {[LEASE_FREE] = true},
};

void lease_init(struct lease *lease, uint32_t slot_count)
{
    CHECK(slot_count <= LEASE_SLOTS_MAX);
    *lease = (struct lease){.count = slot_count};
}

/* The only place where a slot changes its state. */
static void slot_move(struct lease *lease, uint32_t slot, struct lease_slot after, struct lease_changes *out)
{
    struct lease_slot *at = &lease->slots[slot];
    CHECK(move_allowed[at->state][after.state]);
    CHECK((after.state == LEASE_LEASED) == !lease_token_is_none(after.token));
    CHECK(out->count < LEASE_SLOTS_MAX);
    out->items[out->count++] = (struct lease_change){.slot = slot, .from = at->state, .to = after.state, .before = *at};
    *at = after;
}

/* Ends the use of a slot: FREE, or WITHHELD if the slot is held. */
static void slot_free(struct lease *lease, uint32_t slot, struct lease_changes *out)
{
    const struct lease_hold *hold = &lease->holds[slot];
    slot_move(lease, slot, (struct lease_slot){.state = hold->withheld || hold->busy ? LEASE_WITHHELD : LEASE_FREE}, out);
}

/* Ends the token at once; the slot stays taken until its worker is surely gone. */
static void slot_end_lease(struct lease *lease, uint32_t slot, struct lease_changes *out)
{
    const struct lease_slot *at = &lease->slots[slot];
    if (BUG(free_too_soon, "a slot is free once its worker is surely gone")) {
        slot_free(lease, slot, out);
        out->items[out->count - 1].to = LEASE_RELEASING;
        return;
    }
    slot_move(lease, slot, (struct lease_slot){.state = LEASE_RELEASING, .attempt = at->attempt, .rank = at->rank},
              out);
}

int lease_reserve(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, bool is_first,
                  struct lease_changes *out)
{
    out->count = 0;
    if (slot >= lease->count) {
        return ERR_NOT_FOUND;
    }
    if (!lease->granting) {
        return ERR_REFUSED;
    }
    struct lease_slot *at = &lease->slots[slot];
    struct lease_slot asked = {.state = LEASE_RESERVED, .attempt = *attempt, .until_ms = now_ms + LEASE_RESERVE_MS};
    if (at->state == LEASE_RESERVED && attempt_id_equal(&at->attempt, attempt)) {
        *at = asked;
        return 0;
    }
    bool open = at->state == LEASE_FREE || (at->state == LEASE_RESERVED && (at->until_ms <= now_ms || is_first));
    if (!open) {
        MARK(slot_taken);
        return ERR_AGAIN;
    }
    if (at->state == LEASE_RESERVED) {
        MARK(reservation_taken_over);
    }
    slot_move(lease, slot, asked, out);
    return 0;
}

int lease_confirm(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, uint16_t rank,
                  lease_token token, struct lease_changes *out)
{
    CHECK(!lease_token_is_none(token));
    out->count = 0;
    if (slot >= lease->count) {
        return ERR_NOT_FOUND;
    }
    const struct lease_slot *at = &lease->slots[slot];
    bool held = (at->state == LEASE_RESERVED || at->state == LEASE_LEASED) && at->until_ms > now_ms &&
                attempt_id_equal(&at->attempt, attempt);
    if (!held) {
        MARK(confirmed_too_late);
        return ERR_STALE;
    }
    if (at->state == LEASE_LEASED) {
        MARK(confirmed_twice);
        return at->rank == rank ? 0 : ERR_STALE;
    }
    if (!lease->granting) {
        return ERR_REFUSED;
    }
    if (lease_find_token(lease, token) >= 0) {
        return ERR_EXISTS;
    }
    slot_move(
        lease, slot,
        (struct lease_slot){
            .state = LEASE_LEASED, .attempt = *attempt, .rank = rank, .token = token, .until_ms = now_ms + LEASE_MS},
        out);
    return 0;
}

int lease_renew(struct lease *lease, uint64_t now_ms, const attempt_id *attempt)
{
    int result = ERR_NOT_FOUND;
    for (uint32_t i = 0; i < lease->count; i++) {
        struct lease_slot *at = &lease->slots[i];
        if (at->state == LEASE_LEASED && at->until_ms > now_ms && attempt_id_equal(&at->attempt, attempt)) {
            at->until_ms = now_ms + LEASE_MS;
            result = 0;
        }
    }
    return result;
}

static void slot_end(struct lease *lease, uint32_t slot, struct lease_changes *out)
{
    if (lease->slots[slot].state == LEASE_RESERVED) {
        slot_free(lease, slot, out);
    } else if (lease->slots[slot].state == LEASE_LEASED) {
        slot_end_lease(lease, slot, out);
    }
}

void lease_release(struct lease *lease, const attempt_id *attempt, uint32_t from_rank, struct lease_changes *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < lease->count; i++) {
        const struct lease_slot *at = &lease->slots[i];
        if ((at->state != LEASE_LEASED || at->rank >= from_rank) && attempt_id_equal(&at->attempt, attempt)) {
            slot_end(lease, i, out);
        }
    }
}

void lease_end(struct lease *lease, uint32_t slot, struct lease_changes *out)
{
    out->count = 0;
    if (slot < lease->count) {
        slot_end(lease, slot, out);
    }
}

void lease_gone(struct lease *lease, uint32_t slot, struct lease_changes *out)
{
    out->count = 0;
    if (slot < lease->count &&
        (lease->slots[slot].state == LEASE_LEASED || lease->slots[slot].state == LEASE_RELEASING)) {
        slot_free(lease, slot, out);
    }
}

bool lease_restore(struct lease *lease, uint64_t now_ms, uint32_t slot, const attempt_id *attempt, uint16_t rank,
                   lease_token token, bool alive)
{
    if (slot >= lease->count || lease->slots[slot].state != LEASE_FREE) {
        return false;
    }
    struct lease_slot restored = {.state = LEASE_RELEASING, .attempt = *attempt, .rank = rank};
    if (alive && !lease_token_is_none(token) && lease_find_token(lease, token) < 0) {
        restored.state = LEASE_LEASED;
        restored.token = token;
        restored.until_ms = now_ms + LEASE_MS;
    }
    lease->slots[slot] = restored; /* not a move: the slot was never free, only the table is new in this boot */
    return true;
}

/* Applies a changed hold: a slot that is not in use follows at once. */
static void slot_follow_hold(struct lease *lease, uint32_t slot, struct lease_changes *out)
{
    const struct lease_hold *hold = &lease->holds[slot];
    enum lease_state state = lease->slots[slot].state;
    bool is_held = hold->withheld || hold->busy;
    if (is_held ? state == LEASE_FREE || state == LEASE_RESERVED : state == LEASE_WITHHELD) {
        slot_free(lease, slot, out);
    }
}

int lease_withhold(struct lease *lease, uint64_t now_ms, uint32_t slot, uint64_t for_ms, struct lease_changes *out)
{
    out->count = 0;
    if (slot >= lease->count) {
        return ERR_NOT_FOUND;
    }
    struct lease_hold *hold = &lease->holds[slot];
    hold->withheld = true;
    hold->for_ms = for_ms;
    hold->until_ms = for_ms > 0 ? now_ms + for_ms : 0;
    slot_follow_hold(lease, slot, out);
    return 0;
}

int lease_return(struct lease *lease, uint32_t slot, struct lease_changes *out)
{
    out->count = 0;
    if (slot >= lease->count) {
        return ERR_NOT_FOUND;
    }
    lease->holds[slot] = (struct lease_hold){.busy = lease->holds[slot].busy};
    slot_follow_hold(lease, slot, out);
    return 0;
}

int lease_busy(struct lease *lease, uint32_t slot, bool busy, struct lease_changes *out)
{
    out->count = 0;
    if (slot >= lease->count) {
        return ERR_NOT_FOUND;
    }
    enum lease_state state = lease->slots[slot].state;
    if (state != LEASE_LEASED && state != LEASE_RELEASING) {
        lease->holds[slot].busy = busy;
        slot_follow_hold(lease, slot, out);
    }
    return 0;
}

/* Nonzero if the tokens differ. Reads all bytes in any case; volatile keeps the compiler from stopping early. */
static uint8_t token_difference(const lease_token *a, const lease_token *b)
{
    volatile uint8_t difference = 0;
    for (int i = 0; i < TOKEN_BYTES; i++) {
        difference = (uint8_t)(difference | (a->bytes[i] ^ b->bytes[i]));
    }
    return difference;
}

int lease_find_token(const struct lease *lease, lease_token token)
{
    int found = -1;
    for (uint32_t i = 0; i < lease->count; i++) {
        const struct lease_slot *at = &lease->slots[i];
        uint8_t difference = token_difference(&at->token, &token);
        if (at->state == LEASE_LEASED && difference == 0) {
            found = (int)i;
        }
    }
    return found;
}

static bool hold_is_timed(const struct lease_hold *hold)
{
    return hold->withheld && hold->for_ms > 0;
}

void lease_tick(struct lease *lease, uint64_t now_ms, struct lease_changes *out)
{
    out->count = 0;
    for (uint32_t i = 0; i < lease->count; i++) {
        const struct lease_slot *at = &lease->slots[i];
        if (at->state == LEASE_RESERVED && at->until_ms <= now_ms &&
            !BUG(reservation_stays, "a reservation ends with its time")) {
            MARK(reservation_lapsed);
            slot_free(lease, i, out);
        } else if (at->state == LEASE_LEASED && at->until_ms <= now_ms &&
                   !BUG(lease_stays, "a lease that nobody renews ends")) {
            MARK(lease_lapsed);
            slot_end_lease(lease, i, out);
        }
        if (hold_is_timed(&lease->holds[i]) && lease->holds[i].until_ms <= now_ms) {
            lease->holds[i] = (struct lease_hold){.busy = lease->holds[i].busy};
            slot_follow_hold(lease, i, out);
        }
    }
}

static bool slot_is_timed(const struct lease_slot *slot)
{
    return slot->state == LEASE_RESERVED || slot->state == LEASE_LEASED;
}

uint64_t lease_next_ms(const struct lease *lease)
{
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < lease->count; i++) {
        if (slot_is_timed(&lease->slots[i]) && lease->slots[i].until_ms < next_ms) {
            next_ms = lease->slots[i].until_ms;
        }
        if (hold_is_timed(&lease->holds[i]) && lease->holds[i].until_ms < next_ms) {
            next_ms = lease->holds[i].until_ms;
        }
    }
    return next_ms;
}

void lease_shift(struct lease *lease, uint64_t gap_ms)
{
    for (uint32_t i = 0; i < lease->count; i++) {
        if (slot_is_timed(&lease->slots[i])) {
            lease->slots[i].until_ms += gap_ms;
        }
        if (hold_is_timed(&lease->holds[i])) {
            lease->holds[i].until_ms += gap_ms;
        }
    }
}
