#ifndef NODE_DAEMON_API_FILES_H
#define NODE_DAEMON_API_FILES_H
/* The files of a trial in $SHOAL_OUTPUT_DIR, one by one: read from the directory of a worker that runs here, else from
 * the snapshots that its nodes keep (outputs/outputs.h), of which only the chunks that are needed are fetched. Written
 * by the trial's own program, with its token (tokens.h). Paths are relative to the directory; nothing here follows a
 * link. */

#include "node/bulk/bulk.h"
#include "node/daemon/api/client.h"

#define FILES_LISTED_MAX 20000

struct files_read;

/* Handlers of the table; `argument` is not used. files_list: `path`, "" or left out for all of it. files_get: `path`;
 * the answer carries the file. */
void files_list(struct daemon *daemon, struct client_request *request, int argument);
void files_get(struct daemon *daemon, struct client_request *request, int argument);

/* For the trial's program. files_put gives a new file without a place, and files_keep puts it at its place; what is not
 * put anywhere goes with the worker's directory. files_delete: a file, or a directory with all in it. */
void files_put(struct daemon *daemon, struct client_request *request, int argument);
void files_keep(struct daemon *daemon, struct client_request *request, int argument);
void files_delete(struct daemon *daemon, struct client_request *request, int argument);

/* Takes an answer of bulk (BULK_FETCHED). Ignored unless a request of this file fetched. */
void files_fetched(struct daemon *daemon, const struct bulk_event *event);

/* Frees all requests that are under way, without answers. Call after the jobs have ended. */
void files_close(struct daemon *daemon);

#endif
