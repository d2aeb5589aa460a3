#include "node/daemon/api/documents.h"

#include <stdlib.h>
#include <string.h>

#include "node/daemon/peers/peers.h"
#include "node/daemon/render/curves.h"
#include "node/daemon/render/render.h"

#define CHOOSE_US DOCUMENTS_TURN_US /* of one turn of a document */
#define PART_BYTES RENDER_BYTES_MIN /* one or two milliseconds' work, and enough for any row */

/* A document on its way. */
struct document_run {
    struct document_run *next;
    uint64_t serial, id;
    struct document document;
    uint32_t from;
    bool has_begun;
};

struct shown shown_of(struct daemon *daemon, const struct view_experiment *experiment)
{
    const struct config *whole = daemon_config(daemon, experiment);
    bool has_space = experiment->config->hyperparameters_bytes > 1;
    return (struct shown){.experiment = experiment, .config = whole == NULL && has_space ? experiment->config : whole};
}

/* Goes on with a choice until daemon_now_us() is `until_us`. True: it is made. */
static bool choose(const struct daemon *daemon, struct render_chooser *chooser, const struct shown *shown, uint64_t until_us)
{
    bool more = true;
    do {
        more = render_chooser_step(chooser, daemon->core, shown->experiment, shown->config);
    } while (more && daemon_now_us() < until_us);
    return !more;
}

/* What the document is about, as it is now: it is there, it is gone, or its page is not chosen yet. */
enum look { LOOK_GONE, LOOK_LATER, LOOK_THERE };
static enum look look(struct daemon *daemon, const struct document *document, uint64_t until_us, struct shown *out)
{
    *out = (struct shown){.trial = document->trial, .queue = document->queue, .model = document->model};
    if (experiment_id_is_none(document->experiment)) {
        return LOOK_THERE;
    }
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), document->experiment);
    if (experiment == NULL || !experiment->known) {
        return LOOK_GONE;
    }
    *out = shown_of(daemon, experiment);
    out->trial = document->trial;
    if (document->chooser != NULL && !choose(daemon, document->chooser, out, until_us)) {
        return LOOK_LATER;
    }
    out->is_page = document->is_page;
    out->page = document->chooser != NULL ? *render_chooser_choice(document->chooser) : document->page;
    out->curves = document->has_curves ? daemon->api->curves : NULL;
    return LOOK_THERE;
}

/* Sends the next part. False: that was the last one, or none can be sent. */
static bool send_part(struct daemon *daemon, struct client *client, struct document_run *run)
{
    const struct document *document = &run->document;
    struct client_reply reply;
    struct shown shown;
    uint8_t *bytes = malloc(PART_BYTES);
    if (bytes == NULL) {
        client->broken = true;
        return false;
    }
    enum look found = look(daemon, document, daemon_now_us() + CHOOSE_US, &shown);
    const char *unknown = found == LOOK_THERE && document->chooser != NULL ? render_chooser_unknown(document->chooser) : NULL;
    if (found == LOOK_GONE) {
        client_reply_error(daemon, client, run->id, EXIT_NOT_FOUND, "The experiment does not exist any more.");
    } else if (unknown != NULL) {
        client_reply_error(daemon, client, run->id, EXIT_USAGE, "No trial of %s has a hyperparameter %s.",
                           shown.experiment->config->name, unknown);
    }
    if (found != LOOK_THERE || unknown != NULL) {
        free(bytes);
        return found == LOOK_LATER;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, PART_BYTES);
    run->has_begun = true;
    bool more = document->part(daemon->core, &shown, &run->from, &writer);
    uint32_t pairs = more ? 3 : 2 + document->tail_pairs;
    if (writer.failed || !client_reply_begin(&reply, run->id, document->end && !more, pairs)) {
        client->broken = true;
        free(bytes);
        return false;
    }
    pack_text(&reply.writer, "syncing");
    pack_bool(&reply.writer, node_core_is_syncing(daemon->core));
    if (more) {
        pack_text(&reply.writer, "more");
        pack_bool(&reply.writer, true);
    } else if (document->tail != NULL) {
        document->tail(daemon, &reply.writer);
    }
    pack_raw(&reply.writer, bytes, writer.used_bytes);
    client_reply_send(daemon, client, &reply, -1);
    free(bytes);
    return more && !client->broken;
}

void document_free(struct document *document)
{
    render_chooser_free(document->chooser);
    free(document->memory);
    document->chooser = NULL;
    document->memory = NULL;
}

static void run_free(struct document_run *run)
{
    document_free(&run->document);
    free(run);
}

void documents_send(struct daemon *daemon, struct client *client, uint64_t id, const struct document *document)
{
    struct document_run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        struct document unsent = *document;
        document_free(&unsent);
        client->broken = true;
        return;
    }
    *run = (struct document_run){.serial = client->serial, .id = id, .document = *document};
    if (daemon->api->spent_us < DOCUMENTS_TURN_US) {
        uint64_t began_us = daemon_now_us();
        bool is_over = !send_part(daemon, client, run);
        daemon->api->spent_us += daemon_now_us() - began_us;
        if (is_over) {
            run_free(run);
            return;
        }
    }
    struct document_run **place = &daemon->api->documents;
    while (*place != NULL &&
           (run->has_begun || !(*place)->has_begun)) { /* a first part comes before others' later ones */
        place = &(*place)->next;
    }
    run->next = *place;
    *place = run;
}

bool documents_render(struct daemon *daemon, const struct document *document, uint8_t **bytes, size_t *count)
{
    struct shown shown;
    struct pack_writer writer;
    uint32_t from = 0;
    *bytes = malloc(PART_BYTES);
    if (*bytes == NULL) {
        return false;
    }
    pack_writer_init(&writer, *bytes, PART_BYTES);
    bool is_whole =
        look(daemon, document, UINT64_MAX, &shown) == LOOK_THERE && !document->part(daemon->core, &shown, &from, &writer) && !writer.failed;
    if (!is_whole) {
        free(*bytes);
        *bytes = NULL;
        return false;
    }
    uint8_t *smaller = realloc(*bytes, writer.used_bytes + 1);
    *bytes = smaller != NULL ? smaller : *bytes;
    *count = writer.used_bytes;
    return true;
}

void documents_send_rendered(struct daemon *daemon, struct client *client, uint64_t id, const uint8_t *bytes,
                             size_t count, bool end)
{
    struct client_reply reply;
    if (client_reply_begin(&reply, id, end, 2)) {
        pack_text(&reply.writer, "syncing");
        pack_bool(&reply.writer, node_core_is_syncing(daemon->core));
        pack_raw(&reply.writer, bytes, count);
        client_reply_send(daemon, client, &reply, -1);
    }
}

bool documents_has(const struct daemon *daemon, const struct client *client, uint64_t id)
{
    const struct document_run *run = daemon->api->documents;
    while (run != NULL && !(run->serial == client->serial && run->id == id)) {
        run = run->next;
    }
    return run != NULL;
}

/* One part of each document in turn; those that were served go behind the others. */
bool documents_tick(struct daemon *daemon, uint64_t until_us)
{
    struct document_run *waiting = NULL, **waiting_end = &waiting, *served = NULL, **served_end = &served, *run;
    bool is_late = daemon_now_us() >= until_us, has_more = false;
    while (!is_late && (run = daemon->api->documents) != NULL) {
        daemon->api->documents = run->next;
        run->next = NULL;
        struct client *client = client_find(daemon, run->serial);
        if (client == NULL) {
            run_free(run);
        } else if (!client_may_stream(client)) {
            *waiting_end = run;
            waiting_end = &run->next;
        } else if (!send_part(daemon, client, run)) {
            run_free(run);
        } else {
            has_more = true;
            *served_end = run;
            served_end = &run->next;
        }
        is_late = daemon_now_us() >= until_us;
    }
    has_more |= daemon->api->documents != NULL;
    *waiting_end = daemon->api->documents; /* those that had no turn come first */
    while (*waiting_end != NULL) {
        waiting_end = &(*waiting_end)->next;
    }
    *waiting_end = served;
    daemon->api->documents = waiting;
    return has_more;
}

void documents_close(struct daemon *daemon)
{
    while (daemon->api->documents != NULL) {
        struct document_run *run = daemon->api->documents;
        daemon->api->documents = run->next;
        run_free(run);
    }
}
