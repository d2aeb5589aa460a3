/* The request checkpoint_verify: every holder of every checkpoint of a trial reads its copy again. */

#include <stdlib.h>

#include "base/err.h"
#include "node/daemon/api/query.h"
#include "node/daemon/render/experiment.h"

#define VERIFY_FLIGHTS_MAX 8
#define VERIFY_ROWS_PER_PART 256 /* a row has 1.5 KB at most: FACT_HOLDERS_MAX names and ids */

struct verify_row {
    struct view_manifest manifest; /* as of the request; without `next` and `set` */
    uint32_t parts;                /* of the checkpoint that it is a part of; 0: it is a whole one */
    const char *states[FACT_HOLDERS_MAX]; /* NULL: not known yet */
};

/* A copy that a holder is reading now. A holder reads one copy at a time. */
struct verify_flight {
    uint64_t request;
    uint32_t row, holder;
};

/* All checkpoints of a trial, and the state of each copy. */
struct query_verify_run {
    struct query_verify_run *next;
    uint64_t serial, id;
    uint32_t trial;
    struct verify_flight flights[VERIFY_FLIGHTS_MAX];
    uint32_t flight_count;
    uint32_t row_count;
    struct verify_row rows[];
};

static void verify_free(struct daemon *daemon, struct query_verify_run *verify)
{
    struct query_verify_run **link = &daemon->api->verifies;
    while (*link != verify) {
        link = &(*link)->next;
    }
    *link = verify->next;
    free(verify);
}

static const char *verify_state(int code)
{
    switch (code) {
    case 0:
        return "ok";
    case ERR_CORRUPT:
        return "corrupt";
    case ERR_NOT_FOUND:
        return "missing";
    default:
        return "unreachable";
    }
}

static bool verify_is_reading(const struct query_verify_run *verify, node_id node)
{
    for (uint32_t i = 0; i < verify->flight_count; i++) {
        const struct verify_flight *flight = &verify->flights[i];
        if (node_id_equal(verify->rows[flight->row].manifest.holders[flight->holder], node)) {
            return true;
        }
    }
    return false;
}

/* Asks all holders that may be asked now. */
static int verify_ask(struct daemon *daemon, struct query_verify_run *verify)
{
    for (uint32_t r = 0; r < verify->row_count; r++) {
        const struct verify_row *row = &verify->rows[r];
        for (uint32_t h = 0; h < row->manifest.holder_count && verify->flight_count < VERIFY_FLIGHTS_MAX; h++) {
            if (row->states[h] != NULL || verify_is_reading(verify, row->manifest.holders[h])) {
                continue;
            }
            uint64_t request = ++daemon->request_id;
            int code = bulk_verify(daemon->bulk, request, row->manifest.blob, row->manifest.holders[h]);
            if (code != 0) {
                return code;
            }
            verify->flights[verify->flight_count++] = (struct verify_flight){.request = request, .row = r, .holder = h};
        }
    }
    return 0;
}

static void verify_reply(struct daemon *daemon, struct client *client, const struct query_verify_run *verify)
{
    for (uint32_t from = 0; from < verify->row_count && !client->broken;) {
        uint32_t left = verify->row_count - from;
        uint32_t count = left < VERIFY_ROWS_PER_PART ? left : VERIFY_ROWS_PER_PART;
        bool more = count < left;
        struct client_reply reply;
        if (!client_reply_begin(&reply, verify->id, !more, more ? 2 : 1)) {
            client->broken = true;
            return;
        }
        if (more) {
            pack_text(&reply.writer, "more");
            pack_bool(&reply.writer, true);
        }
        pack_text(&reply.writer, "checkpoints");
        pack_array(&reply.writer, count);
        for (uint32_t i = from; i < from + count; i++) {
            render_checkpoint(daemon->core, verify->trial, &verify->rows[i].manifest, verify->rows[i].parts, verify->rows[i].states, &reply.writer);
        }
        client_reply_send(daemon, client, &reply, -1);
        from += count;
    }
}

/* Goes on, or ends: with the answer, or because the client is gone. */
static void verify_step(struct daemon *daemon, struct query_verify_run *verify)
{
    struct client *client = client_find(daemon, verify->serial);
    int code = client != NULL ? verify_ask(daemon, verify) : 0;
    if (client != NULL && verify->flight_count > 0) {
        return; /* the next answer of a holder goes on */
    }
    if (client != NULL && code != 0) {
        client_reply_error(daemon, client, verify->id, EXIT_REFUSED, "The checkpoints cannot be verified now: %s.",
                           err_text(code));
    } else if (client != NULL) {
        verify_reply(daemon, client, verify);
    }
    verify_free(daemon, verify);
}

static struct verify_flight *verify_find_flight(struct query_verify_run *verify, uint64_t request)
{
    for (uint32_t i = 0; i < verify->flight_count; i++) {
        if (verify->flights[i].request == request) {
            return &verify->flights[i];
        }
    }
    return NULL;
}

/* Marks the remaining copies on a node that could not be reached, so that the node is not asked for each in turn. */
static void verify_give_up(struct query_verify_run *verify, node_id node)
{
    for (uint32_t r = 0; r < verify->row_count; r++) {
        struct verify_row *row = &verify->rows[r];
        for (uint32_t h = 0; h < row->manifest.holder_count; h++) {
            if (row->states[h] == NULL && node_id_equal(row->manifest.holders[h], node)) {
                row->states[h] = verify_state(ERR_CLOSED);
            }
        }
    }
}

void query_verify_answered(struct daemon *daemon, uint64_t request, int code)
{
    struct query_verify_run *verify = daemon->api->verifies;
    struct verify_flight *flight = NULL;
    while (verify != NULL && (flight = verify_find_flight(verify, request)) == NULL) {
        verify = verify->next;
    }
    if (flight == NULL) {
        return; /* the client was gone before */
    }
    struct verify_row *row = &verify->rows[flight->row];
    row->states[flight->holder] = verify_state(code);
    if (code == ERR_TIMEOUT || code == ERR_CLOSED || code == ERR_VERSION) {
        verify_give_up(verify, row->manifest.holders[flight->holder]);
    }
    *flight = verify->flights[--verify->flight_count];
    verify_step(daemon, verify);
}

/* Adds the checkpoint, or each of its parts. */
static void verify_add(struct daemon *daemon, struct query_verify_run *verify, const struct view_manifest *checkpoint)
{
    if (checkpoint->set == NULL) {
        verify->rows[verify->row_count++].manifest = *checkpoint;
    }
    for (uint32_t part = 0; checkpoint->set != NULL && part < checkpoint->set->key.count; part++) {
        struct verify_row *row = &verify->rows[verify->row_count];
        if (node_core_part(daemon->core, checkpoint->set, part, &row->manifest)) {
            row->parts = checkpoint->set->key.count;
            row->manifest.set = NULL; /* the core's, until its next step */
            verify->row_count++;
        }
    }
}

void query_verify(struct daemon *daemon, struct client_request *request, int argument)
{
    (void)argument;
    struct view_experiment *experiment;
    const struct view_trial *trial;
    uint32_t count = 0;
    if (!query_argument_trial(daemon, request, &experiment, &trial)) {
        return;
    }
    for (const struct view_manifest *m = trial->manifests; m != NULL; m = m->next) {
        count += m->set != NULL ? m->set->key.count : 1;
    }
    struct query_verify_run *verify = calloc(1, sizeof *verify + (count + 1) * sizeof verify->rows[0]);
    if (verify == NULL) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED, "No memory is left to verify %u checkpoints.",
                           count);
        return;
    }
    verify->serial = request->client->serial;
    verify->id = request->id;
    verify->trial = trial->index;
    const struct view_manifest *row = trial->manifests;
    struct view_manifest found;
    while (node_core_next_checkpoint(daemon->core, &row, &found)) {
        verify_add(daemon, verify, &found);
    }
    verify->next = daemon->api->verifies;
    daemon->api->verifies = verify;
    verify_step(daemon, verify);
}

void query_verify_close(struct daemon *daemon)
{
    while (daemon->api->verifies != NULL) {
        verify_free(daemon, daemon->api->verifies);
    }
}
