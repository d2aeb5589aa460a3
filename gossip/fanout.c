#include "gossip/fanout.h"

#include <string.h>

#include "base/check.h"

void fanout_init(struct fanout *fanout)
{
    memset(fanout, 0, sizeof *fanout);
}

uint8_t fanout_rounds(uint32_t node_count)
{
    uint8_t bits = 0;
    while (bits < 31 && 1u << bits < node_count) {
        bits++;
    }
    uint8_t rounds = (uint8_t)((bits + 1) / 2);
    return rounds == 0 ? 1 : rounds;
}

static void drop(struct fanout *fanout, uint32_t at)
{
    fanout->entries[at] = fanout->entries[--fanout->count];
}

void fanout_add(struct fanout *fanout, record_ident ident, uint8_t rounds)
{
    CHECK(rounds > 0 && rounds <= FANOUT_ROUNDS_MAX);
    uint32_t at = 0, stalest = 0;
    while (at < fanout->count && !record_ident_equal(fanout->entries[at].ident, ident)) {
        stalest = fanout->entries[at].told > fanout->entries[stalest].told ? at : stalest;
        at++;
    }
    if (at == FANOUT_QUEUE_MAX) {
        at = stalest;
    } else if (at == fanout->count) {
        fanout->count++;
    }
    fanout->entries[at] = (struct fanout_entry){.ident = ident, .turn = fanout->turn, .rounds = rounds};
}

uint64_t fanout_next_ms(const struct fanout *fanout)
{
    return fanout->count > 0 ? fanout->round_ms : UINT64_MAX;
}

uint32_t fanout_round(struct fanout *fanout, uint64_t now_ms, const struct records *records, uint8_t *out,
                      uint32_t capacity)
{
    CHECK(capacity >= RECORD_ENVELOPE_BYTES_MAX);
    if (fanout->count == 0 || now_ms < fanout->round_ms) {
        return 0;
    }
    fanout->round_ms = now_ms + FANOUT_ROUND_MS;
    fanout->turn++;
    uint32_t limit = capacity < FANOUT_BYTES_MAX ? capacity : FANOUT_BYTES_MAX;
    uint32_t used = 0;
    for (uint8_t told = 0; told < FANOUT_ROUNDS_MAX; told++) {
        for (uint32_t i = fanout->count; i-- > 0;) { /* from the end, since dropping an entry moves the last entry to its
                                                        place */
            struct fanout_entry *entry = &fanout->entries[i];
            if (entry->told != told || entry->turn == fanout->turn) {
                continue;
            }
            const struct records_entry *held = records_find(records, entry->ident);
            if (held == NULL || !held->published) {
                drop(fanout, i); /* the record is added again when it is published */
                continue;
            }
            if (held->envelope_bytes > limit - used) {
                continue; /* later: a shorter record may still fit into this round */
            }
            memcpy(out + used, held->envelope, held->envelope_bytes);
            used += held->envelope_bytes;
            entry->turn = fanout->turn;
            if (++entry->told == entry->rounds) {
                drop(fanout, i);
            }
        }
    }
    return used;
}
