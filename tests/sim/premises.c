#include "tests/sim/premises.h"

#define NEED_SEEDS 500 /* fewer need not meet every premise */
#define RARE_NEED_SEEDS 4000 /* ... and these not every rare one */

/* Disks are cleaned in plans from version 7 on. */
static bool is_of_copies(int premise)
{
    return premise == PREMISE_10_COLLECTED || premise == PREMISE_10_CLEANED || premise == PREMISE_11_COLLECTED ||
           premise == PREMISE_11_COLLECTED_BESIDE || premise == PREMISE_11_ON_SIDE || premise == PREMISE_11_ROTTEN || premise == PREMISE_11_GOES || premise == PREMISE_11_KEPT;
}

/* Three trials that fail soon on one node only; two sides that meet while both run one trial; a disk that is cleaned beside
 * the newest of a live trial, or while a trial of hours runs. */
static bool is_rare(int premise)
{
    return premise == PREMISE_9_QUARANTINED || premise == PREMISE_9_BESIDE_QUARANTINE || premise == PREMISE_9_TWICE_TOGETHER ||
           premise == PREMISE_11_ON_SIDE || premise == PREMISE_11_COLLECTED_BESIDE;
}

/* Ranks hang in plans of version 12. */
static bool is_of_hangs(int premise)
{
    return premise == PREMISE_8_HUNG || premise == PREMISE_8_LEFT_BEHIND;
}

/* Single trials are stopped in plans of version 13. */
static bool is_of_stops(int premise)
{
    return premise == PREMISE_3_STOP_ON_TWO || premise == PREMISE_10_STOP_KNOWN || premise == PREMISE_10_TRIAL_STOPPED;
}

/* Searches stop trials, and get further ones, in plans from version 15 on. */
static bool is_of_search(int premise)
{
    return premise == PREMISE_19_BRACKET_FULL || premise == PREMISE_17_JUDGED || premise == PREMISE_17_ADOPTED ||
           premise == PREMISE_17_DRAWN_BESIDE_PAUSED ||
           premise == PREMISE_17_DRAWN || premise == PREMISE_17_TAKEN_OVER || premise == PREMISE_18_STOPPED_BY_SEARCH ||
           premise == PREMISE_3_EXTENDED_ON_TWO || premise == PREMISE_9_ADDED || premise == PREMISE_17_ADDED ||
           premise == PREMISE_17_PROMOTED || premise == PREMISE_17_CLOSED || premise == PREMISE_18_PAUSED_BY_SEARCH ||
           premise == PREMISE_18_PAUSE_OBEYED;
}

/* Single trials are retried in plans from version 14 on. */
static bool is_of_retries(int premise)
{
    return premise == PREMISE_3_RETRY_ON_TWO || premise == PREMISE_9_RETRIED || premise == PREMISE_9_RETRIED_FAILED ||
           premise == PREMISE_10_STOP_UNDONE;
}

static bool is_of_versions(int premise)
{
    return premise == PREMISE_6_LATER_KIND || premise == PREMISE_6_REFUSED_VERSION;
}

/* Groups change in plans from version 4 on. */
static bool is_of_groups(int premise)
{
    return premise == PREMISE_9_RENUMBERED || premise == PREMISE_9_REGROUPED || premise == PREMISE_9_GROUP_LOST || premise == PREMISE_11_HANDED_ON;
}

/* Ranks save checkpoints in parts in plans from version 18 on. */
static bool is_of_parts(int premise)
{
    return premise == PREMISE_11_PARTS_BEGUN || premise == PREMISE_11_PARTS_TOLD;
}

/* Programs decide in searches in plans from version 19 on. */
static bool is_of_programs(int premise)
{
    return premise == PREMISE_17_PROGRAM_ANSWERED || premise == PREMISE_17_PROGRAM_ADOPTED || premise == PREMISE_17_PROGRAM_MORE ||
           premise == PREMISE_17_PROGRAM_REPLAYED || premise == PREMISE_17_PROGRAM_OTHER || premise == PREMISE_17_PROGRAM_CLOSED ||
           premise == PREMISE_17_PROGRAM_GIVEN_UP || premise == PREMISE_18_STOPPED_BY_PROGRAM;
}

/* Nodes count what their slots are used for in plans from version 22 on. */
static bool is_of_usage(int premise)
{
    return premise == PREMISE_20_COUNTED || premise == PREMISE_20_COMPLETE;
}

/* How often it has to occur in that many seeds. */
static uint64_t needed(int premise, uint64_t seeds, uint32_t plan_version)
{
    bool is_later = (is_of_groups(premise) && plan_version < 4) || ((is_of_copies(premise) || is_of_versions(premise)) && plan_version < 7) ||
                    (is_of_hangs(premise) && plan_version < 12) || (is_of_stops(premise) && plan_version < 13) ||
                    (is_of_retries(premise) && plan_version < 14) || (is_of_search(premise) && plan_version < 15) ||
                    (premise == PREMISE_17_WITH_PARENT && plan_version < 17) || (is_of_parts(premise) && plan_version < 18) ||
                    (is_of_programs(premise) && plan_version < 19) || (is_of_usage(premise) && plan_version < 22);
    if (is_later || seeds < NEED_SEEDS || (is_rare(premise) && seeds < RARE_NEED_SEEDS)) {
        return 0;
    }
    return seeds < PREMISES_OFTEN_SEEDS ? 1 : PREMISES_OFTEN;
}

bool premises_suffice(const uint64_t counts[PREMISE_COUNT], uint64_t seeds, uint32_t plan_version, FILE *out)
{
    int missing = 0;
    for (int i = 0; i < PREMISE_COUNT; i++) {
        fprintf(out, "%12llu  %s\n", (unsigned long long)counts[i], checkers_premise_names[i]);
        missing += counts[i] < needed(i, seeds, plan_version);
    }
    if (missing == 0) {
        return true;
    }
    if (seeds < PREMISES_OFTEN_SEEDS) {
        fprintf(out, "%d of %d premises never occurred: what is to follow from them was not checked: ", missing, PREMISE_COUNT);
    } else {
        fprintf(out, "%d of %d premises occurred fewer than %d times in %llu seeds: what is to follow from them was hardly checked: ",
                missing, PREMISE_COUNT, PREMISES_OFTEN, (unsigned long long)seeds);
    }
    const char *between = "";
    for (int i = 0; i < PREMISE_COUNT; i++) {
        if (counts[i] < needed(i, seeds, plan_version)) {
            fprintf(out, "%s%s (%llu)", between, checkers_premise_names[i], (unsigned long long)counts[i]);
            between = "; ";
        }
    }
    fputs("\n", out);
    return false;
}
