#ifndef NODE_CORE_VIEW_FOLD_H
#define NODE_CORE_VIEW_FOLD_H
/* How one record of each kind enters the fold: the last column of FACT_KINDS (node/core/facts/facts.h). Each function
 * returns 0, ERR_MALFORMED (key or body does not decode; the comment beside the function says what has changed, else
 * nothing) or ERR_FULL (the arena is full; the record is folded again later). */

#include "node/core/view/rows.h"

/* roster.c */
int fold_member(struct view *view, const struct records_entry *entry);   /* ERR_MALFORMED: the voucher counts no more */
int fold_eviction(struct view *view, const struct records_entry *entry); /* ERR_MALFORMED: an eviction that lists no node */

/* fold_nodes.c */
int fold_node(struct view *view, const struct records_entry *entry);
int fold_slot(struct view *view, const struct records_entry *entry);
int fold_drain(struct view *view, const struct records_entry *entry);
int fold_quarantine(struct view *view, const struct records_entry *entry);
int fold_addresses(struct view *view, const struct records_entry *entry);
int fold_links(struct view *view, const struct records_entry *entry);
int fold_policy(struct view *view, const struct records_entry *entry); /* ERR_MALFORMED: nothing is known of the policy */
int fold_programs(struct view *view, const struct records_entry *entry); /* ERR_MALFORMED: nothing is known of the programs */

/* secrets.c */
int fold_secret(struct view *view, const struct records_entry *entry);

/* webhooks.c */
int fold_webhook(struct view *view, const struct records_entry *entry);
int fold_delivery(struct view *view, const struct records_entry *entry);

/* models.c */
int fold_model(struct view *view, const struct records_entry *entry);

/* fold_experiments.c */
int fold_experiment(struct view *view, const struct records_entry *entry);
int fold_experiment_large(struct view *view, const struct records_entry *entry);
int fold_control(struct view *view, const struct records_entry *entry);
int fold_stop(struct view *view, const struct records_entry *entry);
int fold_search_stop(struct view *view, const struct records_entry *entry);
int fold_annotation(struct view *view, const struct records_entry *entry);
int fold_claim(struct view *view, const struct records_entry *entry);

/* search.c */
int fold_result(struct view *view, const struct records_entry *entry);
int fold_search_log(struct view *view, const struct records_entry *entry); /* ERR_MALFORMED: the log ends before the record */

/* promotion.c */
int fold_search_pause(struct view *view, const struct records_entry *entry);

/* custom.c */
int fold_searcher(struct view *view, const struct records_entry *entry);

/* tombstones.c */
int fold_tombstone(struct view *view, const struct records_entry *entry);

/* fold_attempts.c */
int fold_attempt(struct view *view, const struct records_entry *entry);
int fold_generation(struct view *view, const struct records_entry *entry);
int fold_attempt_large(struct view *view, const struct records_entry *entry);
int fold_generation_large(struct view *view, const struct records_entry *entry);
int fold_worker(struct view *view, const struct records_entry *entry);
int fold_verdict(struct view *view, const struct records_entry *entry); /* ERR_MALFORMED: the writer's verdict is removed */
int fold_death(struct view *view, const struct records_entry *entry);
int fold_manifest(struct view *view, const struct records_entry *entry);
int fold_part(struct view *view, const struct records_entry *entry);
int fold_output(struct view *view, const struct records_entry *entry);

/* For kinds without rows in the fold: readers look such records up in the table of records. */
static inline int fold_nothing(struct view *view, const struct records_entry *entry)
{
    (void)view;
    (void)entry;
    return 0;
}

/* custom.c: whether a decision of a search in which a program decides follows from the ones before it, and the actions of an answer. The
 * state has room. take_answer: false, no memory. */
bool view_custom_takes(const struct view_search *search, const struct fact_judged *judged);
bool view_custom_take_answer(struct view *view, struct view_experiment *experiment, const struct fact_search_log *fact, bool is_taken,
                             const struct view_log *log, uint32_t number);

/* search.c: the trial has these values from here on. False: no memory. */
bool view_search_take_created(struct view *view, struct view_experiment *experiment, const struct fact_created *fact);

/* Gives back the points of the state (search.c). */
void view_search_forget_created(struct arena *arena, struct view_search *search);

#endif
