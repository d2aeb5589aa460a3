#include "tests/sim/week.h"

#include <string.h>

#include "base/check.h"

void week_max_min(const double *demand, uint32_t count, double capacity, double *entitled)
{
    bool is_full[WEEK_GROUPS_MAX];
    uint32_t hungry = count;
    CHECK(count <= WEEK_GROUPS_MAX);
    memset(is_full, 0, count * sizeof is_full[0]);
    memset(entitled, 0, count * sizeof entitled[0]);
    for (bool has_met = true; has_met && hungry > 0;) {
        double part = capacity / hungry;
        has_met = false;
        for (uint32_t i = 0; i < count; i++) {
            if (!is_full[i] && demand[i] <= part) {
                is_full[i] = has_met = true;
                entitled[i] = demand[i];
                capacity -= demand[i];
                hungry--;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        entitled[i] = is_full[i] ? entitled[i] : capacity / hungry;
    }
}

/* Deals `left` slots in rounds to the groups that take part. Returns what nobody wanted. */
static uint32_t deal(const uint32_t *demand, const double *weight, const uint32_t *order, const bool *is_out, uint32_t count,
                     uint32_t left, uint32_t *offers)
{
    for (bool has_dealt = true; left > 0 && has_dealt;) {
        uint32_t capacity = left;
        double weights = 0;
        has_dealt = false;
        for (uint32_t i = 0; i < count; i++) {
            weights += !is_out[i] && offers[i] < demand[i] ? weight[i] : 0;
        }
        for (uint32_t k = 0; k < count && left > 0; k++) {
            uint32_t i = order[k];
            if (is_out[i] || offers[i] >= demand[i]) {
                continue;
            }
            uint32_t part = (uint32_t)((double)capacity * weight[i] / weights);
            part = part < 1 ? 1 : part;
            part = part < left ? part : left;
            part = part < demand[i] - offers[i] ? part : demand[i] - offers[i];
            offers[i] += part;
            left -= part;
            has_dealt = true;
        }
    }
    return left;
}

void week_determined_offers(const uint32_t *demand, const double *weight, const uint32_t *smallest, uint32_t count,
                            uint32_t capacity, uint32_t *offers)
{
    static uint32_t order[WEEK_GROUPS_MAX];
    static bool is_out[WEEK_GROUPS_MAX];
    CHECK(count <= WEEK_GROUPS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = i;
        for (; k > 0 && demand[order[k - 1]] > demand[i]; k--) {
            order[k] = order[k - 1];
        }
        order[k] = i;
    }
    memset(is_out, 0, count * sizeof is_out[0]);
    memset(offers, 0, count * sizeof offers[0]);
    for (uint32_t left = capacity;;) {
        left = deal(demand, weight, order, is_out, count, left, offers);
        uint32_t out = count;
        for (uint32_t i = 0; left == 0 && i < count; i++) {
            out = !is_out[i] && offers[i] < smallest[i] ? i : out;
        }
        if (out == count) {
            return;
        }
        is_out[out] = true;
        left = offers[out];
        offers[out] = 0;
    }
}

void week_profile_init(struct week_profile *profile, uint32_t now_s, int32_t free)
{
    profile->at_s[0] = now_s;
    profile->free[0] = free;
    profile->count = 1;
}

void week_profile_add(struct week_profile *profile, uint32_t at_s, int32_t slots)
{
    uint32_t i = 0;
    at_s = at_s > profile->at_s[0] ? at_s : profile->at_s[0];
    while (i < profile->count && profile->at_s[i] < at_s) {
        i++;
    }
    if (i == profile->count || profile->at_s[i] != at_s) {
        CHECK(profile->count < sizeof profile->at_s / sizeof profile->at_s[0]);
        memmove(&profile->at_s[i + 1], &profile->at_s[i], (profile->count - i) * sizeof profile->at_s[0]);
        memmove(&profile->free[i + 1], &profile->free[i], (profile->count - i) * sizeof profile->free[0]);
        profile->at_s[i] = at_s;
        profile->free[i] = profile->free[i - 1];
        profile->count++;
    }
    for (; i < profile->count; i++) {
        profile->free[i] += slots;
    }
}

uint32_t week_profile_find(const struct week_profile *profile, uint32_t width, uint32_t for_s)
{
    for (uint32_t i = 0; i < profile->count; i++) {
        uint32_t k = i;
        while (k < profile->count && profile->free[k] >= (int32_t)width && (k == i || profile->at_s[k] - profile->at_s[i] < for_s)) {
            k++;
        }
        bool is_long = k == profile->count || profile->at_s[k] - profile->at_s[i] >= for_s;
        if (k > i && is_long) {
            return profile->at_s[i];
        }
    }
    return UINT32_MAX;
}
