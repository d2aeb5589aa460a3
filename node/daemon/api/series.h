#ifndef NODE_DAEMON_API_SERIES_H
#define NODE_DAEMON_API_SERIES_H
/* One request for metrics, a log or another series of workers: which workers it reads (series_sources.c), the walk over them, node by
 * node (query_series.c), again and again for a client that follows metrics (series_follow.c), and what the client gets
 * (series_answers.c). */

#include "node/daemon/api/client.h"
#include "node/daemon/wire/points.h"
#include "node/series/log_search.h"

/* A worker whose series are read. */
struct series_source {
    attempt_id attempt;
    uint32_t number; /* the worker's first rank, or its rank when it joined */
    uint32_t local_rank; /* then, among the workers on its node */
    node_id owner;
    uint64_t from_seq;
    uint64_t log_at; /* a log: its byte behind what was sent, or is known to be gone */
    uint64_t last_step; /* metrics only: later steps were made anew by a later attempt; UINT64_MAX: none were */
    uint64_t width; /* `points` only: entries of a bucket, once the holder has chosen them */
    bool has_tail;  /* `tail` only: the last lines that there were have been sent */
    bool is_last;   /* metrics that are followed: the attempt is over, and is read for the last time */
    bool is_silent; /* nothing is missed: metrics of a worker that never was rank 0 (rank 0 reports for all), texts, which few
                       workers write, or a tail, of which the worker's record has the end */
};

#define SERIES_CANDIDATES_MAX 8
#define SERIES_MISSED_MAX 8 /* most missed nodes that the answer names */
#define SERIES_ATTEMPTS_MAX 32 /* most attempts that the answer names */

/* Reads one series after another, each from the node that ran the worker if the node lives, else from a node with a
 * copy. */
struct query_series {
    struct query_series *next;
    uint64_t serial, id;
    char kind;
    bool follow;
    experiment_id experiment;
    uint32_t trial;
    bool all_trials; /* metrics: of the experiment; else of `trial` */
    bool ends;       /* metrics that are followed: all is over, and is read for the last time */
    bool is_begun;   /* metrics that are followed: this is not the first pass over the sources */
    uint32_t *done;  /* metrics that are followed, by the places of the trials: attempts up to this number need not be read again */
    uint32_t done_count;
    uint64_t since_ms; /* metrics: points that came before are not sent */
    uint64_t points; /* metrics: into so many buckets each attempt's points are summed up; 0: each point is sent */
    bool shows_void; /* `points` only */
    bool is_chosen;  /* a log: the holder chooses lines */
    struct log_question lines;
    char *held; /* `tail` only: the last lines of the present source so far */
    size_t held_bytes;
    bool is_foreign; /* a candidate for the present source is of a version that cannot answer */
    node_id foreign;
    uint32_t only; /* a log: the worker of this number; UINT32_MAX: all */
    uint64_t attempt; /* a log: the attempts of this number; 0: the newest, and with `follow` those that begin later */
    struct series_source *sources;
    uint32_t source_count, source_at;
    uint64_t shown;   /* a log: the number of the attempt whose output was sent last; 0: none was */
    uint32_t newest; /* the highest number of an attempt of which there was a source */
    node_id candidates[SERIES_CANDIDATES_MAX];
    uint32_t candidate_count, candidate_at;
    uint64_t request; /* number of the bulk request under way; 0: none */
    uint64_t next_ms;
    bool got_any;    /* the present candidate has sent entries of the present source */
    bool was_missed; /* a candidate for the present source did not answer */
    bool was_cut;    /* a candidate for the present source stopped answering after some entries */
    node_id missed[SERIES_MISSED_MAX];
    uint32_t missed_count; /* nodes that ran a source of which entries may be missing, and that may come back */
    node_id lost[SERIES_MISSED_MAX];
    uint32_t lost_count; /* nodes that ran a source of which nothing was found, and that do not come back */
    uint32_t over_count; /* `follow`: the first so many sources are of attempts that are over, and are read for the last time */
    uint32_t missed_for_good; /* the first so many of `missed` ran such sources */
    bool is_looking; /* first pass: where a group has changed, metrics are read twice, first for the starts of the
                        generations */
    struct points_starts starts;
};

/* The numbers of the attempts that a trial has had, each once: the last SERIES_ATTEMPTS_MAX. */
struct attempt_numbers {
    uint64_t numbers[SERIES_ATTEMPTS_MAX];
    uint32_t count;
    bool has_more; /* there were earlier ones */
};

/* ---- series_sources.c ------------------------------------------------------------------------------------------- */

/* Adds one worker of the attempt as a source. False: no memory is left. */
bool series_add(struct query_series *series, const struct view_trial *trial, const struct view_attempt *attempt, uint32_t number,
                node_id owner);

/* Adds the worker `only` of the attempt, or all (UINT32_MAX): the first workers and the workers that have joined since. Metrics (of
 * profiles each worker has its own) come from rank 0, and only in a changed group can rank 0 have been another worker. */
void series_add_workers(struct query_series *series, const struct view_trial *trial, const struct view_attempt *attempt, uint32_t only);

/* True if a worker of the attempt has begun. */
bool series_has_begun(const struct view_attempt *attempt);

/* `trial` may be NULL. */
struct attempt_numbers series_attempts_of(const struct view_trial *trial);

/* The trial that is asked for; the core's, valid until its next step. NULL: it has no record yet. */
const struct view_trial *series_trial(const struct daemon *daemon, const struct query_series *series);

/* True if the entries are points: of metrics ('m') or of profiles ('s'). */
bool series_is_points(const struct query_series *series);

/* True if the holder makes the answer: sums, or lines that it chooses. */
bool series_is_question(const struct query_series *series);

/* ---- series_follow.c -------------------------------------------------------------------------------------------- */

/* Begins the next pass over the metrics that a client follows. False: there is nothing more to come. */
bool series_begin_pass(const struct daemon *daemon, struct query_series *series, uint64_t now_ms);

/* ---- series_answers.c ------------------------------------------------------------------------------------------- */

/* Takes entries of the present source, and sends or keeps them; the event has at least one. */
void series_take_items(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source,
                       const struct bulk_event *event);

/* Sends an answer without points, so that a client that follows knows that it does. */
void series_emit_nothing(struct daemon *daemon, struct client *client, const struct query_series *series);

/* The end of the present source is reached: sends the lines that are held. What comes later is sent as it comes. */
void series_let_go(struct daemon *daemon, struct client *client, struct query_series *series, struct series_source *source);

/* A client follows a trial that has no attempt yet: sends the reason why the trial waits, if there is one. */
void series_emit_waiting(struct daemon *daemon, const struct client_request *request, const struct view_experiment *experiment,
                         uint32_t index);

/* The last answer: nodes that were missed, and the attempts of a log. */
void series_emit_end(struct daemon *daemon, struct client *client, const struct query_series *series);

#endif
