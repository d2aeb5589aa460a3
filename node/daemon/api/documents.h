#ifndef NODE_DAEMON_API_DOCUMENTS_H
#define NODE_DAEMON_API_DOCUMENTS_H
/* Documents with a list on their way to clients, part by part. The thread that sends them answers the probes of peers,
 * too, so a long document takes many turns of the loop: each turn has some milliseconds for all documents together, and
 * none is made that the client does not take. What changes meanwhile is in the parts that come later. */

#include "node/daemon/api/client.h"
#include "node/daemon/render/choice.h"
#include "node/daemon/render/queue.h"

#define DOCUMENTS_TURN_US 2000 /* of each turn of the loop, and one part more */

/* What a document is about. */
struct shown {
    const struct view_experiment *experiment;
    const struct config *config; /* with the search space; NULL: not here */
    uint32_t trial;              /* of checkpoints; RENDER_ALL_TRIALS: all */
    const struct curves *curves; /* NULL: the client has not asked for them */
    bool is_page;                /* `page` has the trials to show; else all are */
    struct render_choice page;
    struct render_queue queue;
    const char *model; /* of the model registry, "": all */
};

/* Writes the next part, as in render/render.h. */
typedef bool part_fn(const struct node_core *core, const struct shown *shown, uint32_t *from,
                     struct pack_writer *writer);

/* Writes pairs behind the last part. */
typedef void tail_fn(const struct daemon *daemon, struct pack_writer *writer);

/* A document to be sent. */
struct document {
    part_fn *part;
    tail_fn *tail; /* NULL: none */
    uint32_t tail_pairs;
    experiment_id experiment; /* none: it is about no experiment */
    uint32_t trial;
    bool has_curves, is_page;
    struct render_choice page;
    struct render_chooser *chooser; /* of a page that is still to be chosen: `page` follows from it; owned. NULL: none */
    struct render_queue queue;
    char model[FACT_MODEL_NAME_BYTES]; /* of the model registry; "": all */
    void *memory; /* of the page or the queue; owned */
    bool end;     /* `end` of the last part */
};

/* Sends a document: the first part at once, if the turn of the loop has time for it, the others as documents_tick finds
 * time. */
void documents_send(struct daemon *daemon, struct client *client, uint64_t id, const struct document *document);

/* Renders the first part, if it is the only one, for several clients; `*bytes` is the caller's. False: it has more, or
 * no memory is left. documents_send_rendered sends it. */
bool documents_render(struct daemon *daemon, const struct document *document, uint8_t **bytes, size_t *count);
void documents_send_rendered(struct daemon *daemon, struct client *client, uint64_t id, const uint8_t *bytes,
                             size_t count, bool end);

/* Frees what a document that was not sent owns. */
void document_free(struct document *document);

/* True while parts of such a document wait. */
bool documents_has(const struct daemon *daemon, const struct client *client, uint64_t id);

/* Goes on with all documents, until daemon_now_us() is `until_us`. True: there is more to do now. */
bool documents_tick(struct daemon *daemon, uint64_t until_us);

/* Frees all, without sending. */
void documents_close(struct daemon *daemon);

/* The experiment with its configuration. The record's search space does, where the rest of the configuration is not
 * here. */
struct shown shown_of(struct daemon *daemon, const struct view_experiment *experiment);

#endif
