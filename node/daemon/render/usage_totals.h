#ifndef NODE_DAEMON_RENDER_USAGE_TOTALS_H
#define NODE_DAEMON_RENDER_USAGE_TOTALS_H
/* The document `usage_totals`: what the slots of the mesh were used for, summed up from the records of usage (struct fact_usage).
 * Pure. */

#include "node/daemon/render/render.h"

/* What the sums are told apart by. */
enum usage_key { USAGE_USER, USAGE_LABEL, USAGE_MODEL, USAGE_NODE, USAGE_DAY, USAGE_MONTH, USAGE_KEYS };

struct usage_wish {
    enum usage_key by[USAGE_KEYS]; /* in the order of the document */
    uint32_t by_count;
    enum fact_usage_span span; /* which records count: those of days, or those of months */
    uint32_t since;            /* the first day or month */
};

/* One sum; what it is not told apart by is zero. */
struct usage_total {
    char user[FACT_USAGE_TEXT_BYTES], label[FACT_USAGE_TEXT_BYTES], model[32];
    node_id node;
    uint32_t day, month;
    uint64_t used_ms, lost_ms;
};
#define USAGE_TOTALS_MAX 2048

/* Reads "user,day" as keys, each once. False: another word, or none. */
bool usage_wish_read(const char *text, struct usage_wish *out);

/* The days since `since_s` if there are records of all of them by today, else the months; 0: all months. */
void usage_wish_since(struct usage_wish *wish, uint64_t since_s, uint64_t now_s);

/* The first second that counts; 0: from the first record on. */
uint64_t usage_wish_start_s(const struct usage_wish *wish);

/* Writes `by`, `span`, `since_s`, `usage` and `uncounted`; `totals`: room for USAGE_TOTALS_MAX. False, with nothing written: there are
 * more sums than that. */
#define RENDER_USAGE_TOTALS_PAIRS 5
bool render_usage_totals(const struct node_core *core, const struct usage_wish *wish, struct usage_total *totals,
                         struct pack_writer *frame);

#endif
