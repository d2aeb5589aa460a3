#include "node/daemon/api/watched.h"

#include <stdlib.h>
#include <string.h>

#include "node/daemon/render/experiment.h"
#include "node/daemon/render/render.h"

#define LOOK_MS 500
#define LOOK_SHARE 10 /* a pass is followed by a pause of at least so many times its own length */
#define FORGET_MS 10000
#define PLACES 4
#define ROWS_AT_A_TIME 16 /* between two looks at the clock */

/* A row, or the head, as it was when it was looked at last. */
struct row {
    uint64_t hash;
    uint64_t version; /* since which it has this hash */
};

struct watched {
    struct watched *next;
    experiment_id experiment;
    uint64_t asked_ms; /* when somebody has asked for it last */
    uint64_t version;  /* of the last pass that found something; no two passes of a daemon have the same */
    uint64_t pass;     /* the version that the pass under way becomes */
    struct row head;
    struct row *rows;
    uint32_t count;
    /* The pass over the rows that is under way, or the next one. */
    uint32_t at;
    struct watched_document places[PLACES];
    uint32_t next_place;
    bool has_found;
    uint64_t next_ms, spent_us;
};

uint64_t watched_version(const struct watched *watched)
{
    return watched->version;
}

static bool is_same_wish(const struct render_wish *a, const struct render_wish *b)
{
    return a->sort == b->sort && a->descending == b->descending && a->from == b->from && a->limit == b->limit &&
           strcmp(a->states, b->states) == 0 && strcmp(a->where, b->where) == 0 && strcmp(a->hyperparameter, b->hyperparameter) == 0;
}

struct watched_document *watched_place(struct watched *watched, uint64_t since, const struct render_wish *wish)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        struct watched_document *place = &watched->places[i];
        if (place->version == watched->version && place->since == since && is_same_wish(&place->wish, wish)) {
            return place;
        }
    }
    struct watched_document *place = &watched->places[watched->next_place];
    watched->next_place = (watched->next_place + 1) % PLACES;
    free(place->bytes);
    *place = (struct watched_document){.since = since, .wish = *wish};
    return place;
}

/* ---- passes ---------------------------------------------------------------------------------------------------- */

static void compare(struct watched *watched, struct row *row, const struct pack_writer *writer, uint64_t seed)
{
    uint64_t hash = bytes_hash64(writer->bytes, writer->used_bytes, seed);
    if (hash != row->hash || row->version == 0) {
        *row = (struct row){hash, watched->pass};
        watched->has_found = true;
    }
}

static void look_at_head(struct daemon *daemon, struct watched *watched, const struct view_experiment *experiment,
                         uint8_t *bytes)
{
    struct pack_writer writer;
    bool is_over = view_experiment_over(experiment) || node_core_is_halted(daemon->core, experiment);
    uint64_t alive = node_core_peers_alive(daemon->core) + 1u, drained = render_nodes_drained(daemon->core);
    pack_writer_init(&writer, bytes, FRAME_BYTES_MAX);
    render_show_head(daemon->core, experiment, &writer);
    compare(watched, &watched->head, &writer, is_over + 2 * (alive + (uint64_t)NODE_MEMBERS_MAX * drained));
}

static bool grow(struct watched *watched, uint32_t count)
{
    struct row *rows = count > watched->count ? realloc(watched->rows, count * sizeof *rows) : watched->rows;
    if (rows == NULL && count > 0) {
        return false;
    }
    if (count > watched->count) {
        memset(rows + watched->count, 0, (count - watched->count) * sizeof *rows);
        watched->count = count;
    }
    watched->rows = rows;
    return true;
}

/* Goes on with a pass until the time is over. */
static void look(struct daemon *daemon, struct watched *watched, const struct view_experiment *experiment,
                 uint64_t now_ms, uint64_t until_us)
{
    uint8_t *bytes = malloc(FRAME_BYTES_MAX);
    uint64_t began_us = daemon_now_us();
    if (bytes == NULL || !grow(watched, experiment->trial_count)) {
        free(bytes);
        watched->next_ms = now_ms + LOOK_MS;
        return;
    }
    if (watched->at == 0) {
        watched->spent_us = 0;
        watched->pass = ++daemon->request_id;
        look_at_head(daemon, watched, experiment, bytes);
    }
    const struct shown shown = shown_of(daemon, experiment);
    bool is_late = false;
    while (watched->at < watched->count && !is_late) {
        for (uint32_t i = 0; i < ROWS_AT_A_TIME && watched->at < watched->count; i++, watched->at++) {
            struct pack_writer writer;
            pack_writer_init(&writer, bytes, FRAME_BYTES_MAX);
            render_trial_row(daemon->core, experiment, shown.config, watched->at, &writer);
            compare(watched, &watched->rows[watched->at], &writer, 0);
        }
        is_late = daemon_now_us() >= until_us;
    }
    free(bytes);
    watched->spent_us += daemon_now_us() - began_us;
    if (watched->at < watched->count) {
        return;
    }
    uint64_t pause_ms = watched->spent_us * LOOK_SHARE / 1000;
    watched->version = watched->has_found ? watched->pass : watched->version;
    watched->has_found = false;
    watched->at = 0;
    watched->next_ms = now_ms + (pause_ms > LOOK_MS ? pause_ms : LOOK_MS);
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

struct watched *watched_get(struct daemon *daemon, const struct view_experiment *experiment)
{
    uint64_t now_ms = daemon_now_ms();
    struct watched *watched = daemon->api->watched;
    while (watched != NULL && !experiment_id_equal(watched->experiment, experiment->id)) {
        watched = watched->next;
    }
    if (watched == NULL && (watched = calloc(1, sizeof *watched)) != NULL) {
        watched->experiment = experiment->id;
        watched->next = daemon->api->watched;
        daemon->api->watched = watched;
        look(daemon, watched, experiment, now_ms, daemon_now_us() + DOCUMENTS_TURN_US);
    }
    if (watched != NULL) {
        watched->asked_ms = now_ms;
    }
    return watched;
}

static void watched_free(struct watched *watched)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        free(watched->places[i].bytes);
    }
    free(watched->rows);
    free(watched);
}

bool watched_tick(struct daemon *daemon, uint64_t now_ms, uint64_t until_us)
{
    bool is_late = false;
    for (struct watched **link = &daemon->api->watched; *link != NULL;) {
        struct watched *watched = *link;
        const struct view_experiment *experiment =
            view_find_experiment(node_core_view(daemon->core), watched->experiment);
        if (experiment == NULL || !experiment->known || now_ms - watched->asked_ms > FORGET_MS) {
            *link = watched->next;
            watched_free(watched);
            continue;
        }
        if (!is_late && now_ms >= watched->next_ms) {
            look(daemon, watched, experiment, now_ms, until_us);
            is_late = daemon_now_us() >= until_us;
        }
        link = &watched->next;
    }
    return is_late;
}

void watched_close(struct daemon *daemon)
{
    while (daemon->api->watched != NULL) {
        struct watched *watched = daemon->api->watched;
        daemon->api->watched = watched->next;
        watched_free(watched);
    }
}

struct document watched_delta(const struct watched *watched, const struct view_experiment *experiment, uint64_t version)
{
    struct document document = {.experiment = experiment->id, .is_page = true};
    uint32_t *trials = malloc((watched->count + 1u) * sizeof *trials);
    for (uint32_t i = 0; trials != NULL && i < watched->count; i++) {
        if (watched->rows[i].version > version) {
            trials[document.page.count++] = i;
        }
    }
    document.page.trials = trials;
    document.page.matching = watched->count;
    document.memory = trials;
    return document;
}
