#include "node/core/facts/policy.h"

#include <string.h>

#include "base/err.h"
#include "node/core/facts/inside.h"

/* ---- the record ---------------------------------------------------------------------------------------------------- */

void fact_policy_pack(struct pack_writer *writer, const struct fact_policy *fact)
{
    pack_array(writer, 8);
    pack_array(writer, fact->hours_count);
    for (uint32_t i = 0; i < fact->hours_count; i++) {
        pack_array(writer, 3);
        pack_u64(writer, fact->hours[i].days);
        pack_u64(writer, fact->hours[i].from);
        pack_u64(writer, fact->hours[i].until);
    }
    pack_u64(writer, fact->load_percent);
    pack_bool(writer, fact->activity);
    pack_u64(writer, fact->back_after_s);
    pack_u64(writer, fact->why);
    pack_u64(writer, fact->since_s);
    pack_u64(writer, fact->until_s);
    pack_u64(writer, fact->slots);
}

int fact_policy_read(const struct record *record, struct fact_policy *out)
{
    struct pack_reader reader;
    uint32_t extra;
    struct fact_policy fact;
    memset(&fact, 0, sizeof fact);
    fact_body_open(&reader, record, 8, &extra);
    fact.hours_count = pack_read_array(&reader);
    if (fact.hours_count > FACT_HOURS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < fact.hours_count; i++) {
        uint32_t more = fact_element_open(&reader, 3);
        fact.hours[i].days = (uint32_t)pack_read_u64_max(&reader, 127);
        fact.hours[i].from = (uint32_t)pack_read_u64_max(&reader, FACT_DAY_MINUTES - 1);
        fact.hours[i].until = (uint32_t)pack_read_u64_max(&reader, FACT_DAY_MINUTES - 1);
        fact_element_close(&reader, more);
        if (fact.hours[i].days == 0) {
            return ERR_MALFORMED;
        }
    }
    fact.load_percent = (uint32_t)pack_read_u64_max(&reader, 100);
    fact.activity = pack_read_bool(&reader);
    fact.back_after_s = (uint32_t)pack_read_u64_max(&reader, FACT_BACK_AFTER_S_MAX);
    fact.why = (enum fact_policy_why)pack_read_u64_max(&reader, FACT_POLICY_LOAD);
    fact.since_s = pack_read_u64(&reader);
    fact.until_s = pack_read_u64(&reader);
    fact.slots = pack_read_u64(&reader);
    if (fact_body_close_unkeyed(&reader, extra, record) != 0) {
        return ERR_MALFORMED;
    }
    *out = fact;
    return 0;
}

/* ---- the decision -------------------------------------------------------------------------------------------------- */

/* Minutes from the look to the end of these hours; 0: it is outside of them. */
static uint32_t minutes_left(const struct fact_hours *hours, const struct policy_look *look)
{
    bool is_overnight = hours->until <= hours->from;
    bool begins_today = (hours->days >> look->weekday & 1) != 0;
    bool began_yesterday = (hours->days >> (look->weekday + 6) % 7 & 1) != 0;
    if (begins_today && look->minute >= hours->from && (is_overnight || look->minute < hours->until)) {
        return hours->until + (is_overnight ? FACT_DAY_MINUTES : 0) - look->minute;
    }
    return began_yesterday && is_overnight && look->minute < hours->until ? hours->until - look->minute : 0;
}

/* True until `after_s` after the time; 0: there was none. */
static bool is_recent(uint64_t then_ms, uint64_t now_ms, uint32_t after_s)
{
    return then_ms != 0 && (now_ms <= then_ms || now_ms - then_ms < (uint64_t)after_s * 1000);
}

static void note(const struct fact_policy *policy, const struct policy_look *look, struct policy_memory *memory)
{
    bool is_over = policy->load_percent != 0 && look->has_load && look->others_permille >= policy->load_percent * 10;
    memory->active_ms = look->is_active ? look->now_ms : memory->active_ms;
    if (!is_over) {
        memory->over_ms = look->has_load ? 0 : memory->over_ms;
        return;
    }
    memory->over_ms = memory->over_ms == 0 ? look->now_ms : memory->over_ms;
    if (look->now_ms - memory->over_ms >= POLICY_LOAD_MS || is_recent(memory->loaded_ms, look->now_ms, policy->back_after_s)) {
        memory->loaded_ms = look->now_ms;
    }
}

enum fact_policy_why policy_decide(const struct fact_policy *policy, const struct policy_look *look, struct policy_memory *memory,
                                   uint64_t *until_s)
{
    uint32_t longest = 0;
    note(policy, look, memory);
    for (uint32_t i = 0; i < policy->hours_count; i++) {
        uint32_t left = minutes_left(&policy->hours[i], look);
        longest = left > longest ? left : longest;
    }
    *until_s = longest == 0 ? 0 : (look->wall_s / 60 + longest) * 60;
    if (longest != 0) {
        return FACT_POLICY_HOURS;
    }
    /* A look that shows a reason counts, even where the slots are to return at once. */
    if (policy->activity && (look->is_active || is_recent(memory->active_ms, look->now_ms, policy->back_after_s))) {
        return FACT_POLICY_ACTIVITY;
    }
    bool is_loaded = memory->loaded_ms == look->now_ms || is_recent(memory->loaded_ms, look->now_ms, policy->back_after_s);
    return policy->load_percent != 0 && memory->loaded_ms != 0 && is_loaded ? FACT_POLICY_LOAD : FACT_POLICY_NONE;
}

void policy_remember(enum fact_policy_why why, uint64_t now_ms, struct policy_memory *memory)
{
    memory->active_ms = why == FACT_POLICY_ACTIVITY ? now_ms : memory->active_ms;
    memory->loaded_ms = why == FACT_POLICY_LOAD ? now_ms : memory->loaded_ms;
}
