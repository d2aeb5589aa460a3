#ifndef NODE_DAEMON_API_QUERY_H
#define NODE_DAEMON_API_QUERY_H
/* Requests that read: documents out of the core's state and streams of them (query.c), metric points and logs
 * (query_series.c), checkpoints (query_checkpoint.c, verify.c), use of slots (query_usage.c), events (query_events.c), traces of trials
 * (query_trace.c). Data that is not on this node is
 * fetched from other nodes first. */

#include "node/daemon/api/client.h"

/* ---- query.c ---------------------------------------------------------------------------------------------------- */

enum query_list { QUERY_NODES, QUERY_INVITES, QUERY_SLOTS, QUERY_EXPERIMENTS };

/* Handlers of the table (table.h). Each answers at once; a document that is larger than a message takes several
 * answers. query_stream goes on in query_tick. `list` is an enum query_list, `kind` an enum stream_kind; `argument` is
 * not used. */
void query_status(struct daemon *daemon, struct client_request *request, int argument);
void query_list(struct daemon *daemon, struct client_request *request, int list);
void query_queue(struct daemon *daemon, struct client_request *request, int argument);
void query_show(struct daemon *daemon, struct client_request *request, int argument);
void query_trial(struct daemon *daemon, struct client_request *request, int argument);
void query_rungs(struct daemon *daemon, struct client_request *request, int argument);
void query_checkpoints(struct daemon *daemon, struct client_request *request, int argument);
void query_config(struct daemon *daemon, struct client_request *request, int argument);
void query_stream(struct daemon *daemon, struct client_request *request, int kind);

/* Writes `blocked` (RENDER_BLOCKED_PAIRS): the ports of living nodes that cannot be used from here. */
void query_put_blocked(const struct daemon *daemon, struct pack_writer *writer);

/* Gives a client's stream a place; NULL, after an error reply: there is none. query_step_stream sends what there is at once. */
struct client_stream *query_new_stream(struct daemon *daemon, const struct client_request *request, enum stream_kind kind);
void query_step_stream(struct daemon *daemon, struct client *client, struct client_stream *stream);

/* Sends the news of open streams; sets daemon->api->watch_ms while a stream is open. */
void query_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees all requests that are under way, without answers. Call after the clients are removed and the jobs have ended. */
void query_close(struct daemon *daemon);

/* Sends an error of code EXIT_NOT_FOUND: the experiment has no trial with this index. */
void query_reply_no_trial(struct daemon *daemon, const struct client_request *request, const struct view_experiment *experiment,
                          uint64_t index);

/* Reads the arguments `experiment` and `trial`. False, after an error reply: there is no such trial, or it has no
 * checkpoint. Both results are the core's, valid until its next step. */
bool query_argument_trial(struct daemon *daemon, struct client_request *request, struct view_experiment **experiment,
                          const struct view_trial **trial);

/* As query_argument_trial, for a trial that may have no checkpoint. `*trial` is NULL if no record of the trial is here. */
bool query_argument_any_trial(struct daemon *daemon, struct client_request *request, struct view_experiment **experiment,
                              uint32_t *index, const struct view_trial **trial);

/* ---- query_series.c --------------------------------------------------------------------------------------------- */

/* A handler of the table: `kind` is 'm' for metric points, 'n' for texts, 'l' for logs, 't' for last lines, 'e' for what an attempt
 * runs on. Answers as the series arrive. */
void query_series_request(struct daemon *daemon, struct client_request *request, int kind);

/* Takes an answer of bulk (BULK_SERIES). Ignored unless query_series_request made the request. */
void query_series_answered(struct daemon *daemon, struct bulk_event *event);

/* Asks bulk for the next entries of each series, and ends requests whose client is gone. */
void query_series_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees all requests for series, without answers. */
void query_series_close(struct daemon *daemon);

/* ---- query_checkpoint.c ----------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answers with the checkpoint as a file, after fetching missing chunks. */
void query_checkpoint_get(struct daemon *daemon, struct client_request *request, int argument);

/* Handlers of the table; `argument` is not used. The files that the trial's workers have left: a list of blobs, and one of the
 * blobs as a file, after fetching missing chunks. */
void query_outputs(struct daemon *daemon, struct client_request *request, int argument);
void query_output_get(struct daemon *daemon, struct client_request *request, int argument);

/* A handler of the table: what one of these blobs lists, or, if `is_one`, one file of it. No more of the blob is fetched and read
 * than that takes. */
void query_output_files(struct daemon *daemon, struct client_request *request, int is_one);

/* A handler of the table; `which` is an enum query_code. Answers with what was submitted, as a file: the packed context directory, or
 * what the record calls config_text. Chunks that are not here are fetched first. */
enum query_code { QUERY_CODE, QUERY_CONFIG };
void query_code_get(struct daemon *daemon, struct client_request *request, int which);

/* Answers worker_load with the worker's checkpoint, after fetching chunks that are damaged or gone here. */
void query_worker_load(struct daemon *daemon, struct client_request *request, const struct daemon_worker *worker);

/* Takes an answer of bulk (BULK_FETCHED). Ignored unless a request of query_checkpoint.c fetched. */
void query_fetched(struct daemon *daemon, const struct bulk_event *event);

/* Brings a checkpoint onto this disk; then, perhaps at once, calls `then` with `context`. `code` 0: every chunk is here; else `text`
 * says why not. Also at the daemon's end: each call is answered once. */
typedef void query_fetched_fn(struct daemon *daemon, void *context, int code, const char *text);
void query_fetch_checkpoint(struct daemon *daemon, const struct view_manifest *checkpoint, query_fetched_fn *then, void *context);

/* Frees all requests for checkpoints, without answers. */
void query_checkpoint_close(struct daemon *daemon);

/* ---- verify.c --------------------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answers when all holders of all checkpoints of the trial have been
 * asked. */
void query_verify(struct daemon *daemon, struct client_request *request, int argument);

/* Takes an answer of bulk (BULK_VERIFIED). Ignored unless query_verify made the request. */
void query_verify_answered(struct daemon *daemon, uint64_t request, int code);

/* Frees all requests to verify, without answers. */
void query_verify_close(struct daemon *daemon);

/* ---- query_stats.c ---------------------------------------------------------------------------------------------- */

/* stats; scrape_targets. */
void query_stats(struct daemon *daemon, struct client_request *request, int argument);
void query_scrape_targets(struct daemon *daemon, struct client_request *request, int argument);

/* Answers with what is on one node (render_owner), without asking that node. `argument` is not used. */
void query_owner(struct daemon *daemon, struct client_request *request, int argument);

/* ---- query_usage.c ---------------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answers when every living node has said what its slots use, or after 2 s. */
void query_usage(struct daemon *daemon, struct client_request *request, int argument);

/* Takes an answer of bulk (BULK_SERIES). Ignored unless query_usage made the request. */
void query_usage_answered(struct daemon *daemon, const struct bulk_event *event);

/* Ends requests that have waited long enough, and those whose client is gone. */
void query_usage_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees all such requests, without answers. */
void query_usage_close(struct daemon *daemon);

/* ---- query_usage_totals.c --------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answers at once. */
void query_usage_totals(struct daemon *daemon, struct client_request *request, int argument);

/* ---- query_calendar.c ------------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answers at once. */
void query_calendar(struct daemon *daemon, struct client_request *request, int argument);

/* ---- query_events.c --------------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. A stream of what happened on this node, or on another one. */
void query_events(struct daemon *daemon, struct client_request *request, int argument);

/* Goes on with a stream of this node's events. */
void query_events_stream(struct daemon *daemon, struct client *client, struct client_stream *stream);

/* Answers a question for this node's events (wire/event.h), in any thread: entries of bulk, each a map, its number the event's. An
 * entry without bytes tells where the next question goes on. One of a single nil says that events before it, which were asked for,
 * are not here. ERR_MALFORMED. */
int query_events_answer(const struct journal *journal, uint64_t from, const uint8_t *question, size_t question_bytes,
                        size_t bytes_max, struct pack_writer *out, bool *more);

/* Takes an answer of bulk (BULK_SERIES). Ignored unless query_events made the request. */
void query_events_answered(struct daemon *daemon, const struct bulk_event *answer);

/* Asks other nodes again, and ends requests whose client is gone. */
void query_events_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees all such requests, without answers. */
void query_events_close(struct daemon *daemon);

/* ---- query_trace.c ---------------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answers with a few steps of all ranks of a trial, as a file. */
void query_trace(struct daemon *daemon, struct client_request *request, int argument);

/* Takes an answer of bulk (BULK_SERIES). Ignored unless query_trace made the request. */
void query_trace_answered(struct daemon *daemon, const struct bulk_event *event);

/* Asks the nodes further, and ends requests whose time is over or whose client is gone. */
void query_trace_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees all such requests, without answers. */
void query_trace_close(struct daemon *daemon);

#endif
