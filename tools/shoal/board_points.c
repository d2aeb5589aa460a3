/* The board's points: metrics become scalars, and attempts and generations starts. */

#include "base/bytes.h"
#include "base/document.h"
#include "base/visible.h"
#include "store/tfevents.h"
#include "tools/shoal/board_inside.h"

const struct board_tag *board_tag_of(struct board *board, struct board_experiment *experiment,
                                     const msgpack_object_str *group, const msgpack_object_str *name)
{
    bool is_new;
    const struct board_tag *tag = board_tag(&experiment->tags, group->ptr, group->size, name->ptr, name->size, &is_new);
    if (tag != NULL && is_new && tag->has_suffix) {
        char text[BOARD_NAME_BYTES], shown[BOARD_NAME_BYTES];
        (void)bytes_copy_text_n(text, sizeof text, tag->text, tag->bytes);
        (void)visible_text(shown, sizeof shown, text);
        cli_warn(board->cli, "two metrics of %.80s are the same text as group/name; the second one is written as %s",
                 experiment->name, shown);
    }
    return tag;
}

/* Packs the point as a record; `*values`: how many metrics it has. */
static int pack_point(struct board *board, struct board_experiment *experiment, const msgpack_object *point,
                      struct protobuf_writer *out, uint32_t *values)
{
    static const msgpack_object_str empty = {.ptr = ""};
    const msgpack_object *group = document_find(point, "group");
    const msgpack_object_str *group_text =
        group->type == MSGPACK_OBJECT_STR && group->via.str.size > 0 ? &group->via.str : &empty;
    msgpack_object_map metrics = document_pairs(document_find(point, "metrics"));
    double wall_s = (double)document_number(point, "wall_ms") / 1000;
    do {
        protobuf_writer_init(out, board->record, board->record_bytes);
        size_t record = tfevents_begin(out, wall_s, document_number(point, "step")), scalars = tfevents_scalars_begin(out);
        *values = 0;
        for (uint32_t i = 0; i < metrics.size; i++) {
            const msgpack_object *key = &metrics.ptr[i].key;
            double value;
            if (key->type != MSGPACK_OBJECT_STR || !document_double(&metrics.ptr[i].val, &value)) {
                continue;
            }
            const struct board_tag *tag =
                board_tag_of(board, experiment, group_text, key->via.str.size > 0 ? &key->via.str : &empty);
            if (tag == NULL) {
                return board_fail_memory(board->cli);
            }
            tfevents_put_scalar(out, tag->text, tag->bytes, value);
            ++*values;
        }
        tfevents_scalars_end(out, scalars);
        tfevents_end(out, record);
    } while (board_grow_record(board, out));
    return out->failed ? board_fail_memory(board->cli) : CLI_DONE;
}

/* Before the first point of an attempt or a generation: writes a start behind the last earlier point that counts.
 * TensorBoard drops later steps at a start, and such steps may be written already: points become void when the next attempt
 * begins. Each attempt has a file. */
static int write_start(struct board *board, struct board_trial *trial, uint64_t attempt, uint64_t generation, double wall_s)
{
    struct event_dir *events = &trial->events;
    bool is_later = attempt > events->attempt || (attempt == events->attempt && generation > events->generation);
    int code = CLI_DONE;
    if (!events->has_file || (events->attempt != 0 && attempt > events->attempt)) {
        code = event_dir_begin(board->cli, events, wall_s);
    }
    uint64_t step = trial->has_valid && trial->valid_step < INT64_MAX ? trial->valid_step + 1 : 0;
    return code == CLI_DONE && is_later ? event_dir_start(board->cli, events, attempt, generation, step, wall_s) : code;
}

static int write_point(struct board *board, struct board_experiment *experiment, struct board_trial *trial,
                       const msgpack_object *point)
{
    struct protobuf_writer record;
    uint32_t values;
    uint64_t step = document_number(point, "step");
    if (document_true(point, "void") || step > INT64_MAX) {
        return CLI_DONE;
    }
    int code = pack_point(board, experiment, point, &record, &values);
    uint64_t hash = code == CLI_DONE ? event_dir_hash(&record) : 0;
    bool is_new = code == CLI_DONE && values > 0 && !event_dir_has(&trial->events, hash);
    if (is_new) {
        code = write_start(board, trial, document_number(point, "attempt"), document_number(point, "generation"),
                           (double)document_number(point, "wall_ms") / 1000);
    }
    if (is_new && code == CLI_DONE) {
        code = event_dir_write_point(board->cli, &trial->events, &record, hash);
        board->counts.points++;
    }
    trial->valid_step = trial->has_valid && trial->valid_step > step ? trial->valid_step : step;
    trial->has_valid = true;
    return code;
}

/* Points as they come. */
struct points_walk {
    struct board_trial *trial; /* of the last point; NULL: it is not wanted */
    uint64_t index;
};

static int take_points(struct board *board, struct board_experiment *experiment, struct points_walk *walk,
                       msgpack_object_array list)
{
    int code = CLI_DONE;
    for (uint32_t i = 0; i < list.size && code == CLI_DONE; i++) {
        uint64_t index = document_number(&list.ptr[i], "trial");
        if (walk->trial == NULL || index != walk->index) {
            if (walk->trial != NULL) {
                event_dir_rest(&walk->trial->events);
            }
            walk->trial = board_find_trial(experiment, index);
            walk->index = index;
        }
        if (walk->trial != NULL && walk->trial->is_due) {
            code = write_point(board, experiment, walk->trial, &list.ptr[i]);
        }
    }
    return code;
}

static void note_read(struct board_trial *trial, uint64_t took_ms)
{
    if (trial != NULL) {
        trial->is_read = true;
        trial->points_ms = took_ms;
    }
}

/* Notes that the points were read to the end, or which nodes could not be reached for that. */
static void end_points(struct board *board, struct board_experiment *experiment, uint64_t only, const struct reply *last,
                       uint64_t took_ms)
{
    bool is_whole = document_list(&last->document, "unreachable").size == 0;
    msgpack_zone *zone = is_whole ? NULL : client_keep(&board->client);
    if (zone != NULL) {
        msgpack_zone_free(board->unreachable_zone);
        board->unreachable_zone = zone;
        board->unreachable = last->document;
    }
    if (is_whole && only != UINT64_MAX) {
        note_read(board_find_trial(experiment, only), took_ms);
    }
    for (uint64_t i = 0; is_whole && only == UINT64_MAX && i < experiment->trial_capacity; i++) {
        note_read(experiment->trials[i], took_ms / (experiment->begun + 1));
    }
}

/* Reads the metric points, or those of the profiles; `*last` is the last reply. */
static int read_series(struct board *board, struct board_experiment *experiment, uint64_t only, bool profile, struct reply *last)
{
    struct client *client = &board->client;
    struct points_walk walk = {0};
    client_begin(client, "metrics", (only == UINT64_MAX ? 1u : 2u) + profile);
    pack_text(&client->request, "experiment");
    pack_text(&client->request, experiment->id);
    if (only != UINT64_MAX) {
        pack_text(&client->request, "trial");
        pack_u64(&client->request, only);
    }
    if (profile) {
        pack_text(&client->request, "profile");
        pack_bool(&client->request, true);
    }
    int code = client_send(client, -1);
    *last = (struct reply){.end = false};
    while (code == CLI_DONE && !last->end) {
        code = client_next(client, CLIENT_ANSWER_MS, false, last);
        code = code == CLI_DONE ? take_points(board, experiment, &walk, document_list(&last->document, "points")) : code;
    }
    if (walk.trial != NULL) {
        event_dir_rest(&walk.trial->events);
    }
    return code;
}

int board_read_points(struct board *board, struct board_experiment *experiment, uint64_t only)
{
    struct reply last;
    uint64_t begun_ms = board_now_ms();
    int code = read_series(board, experiment, only, false, &last);
    if (code == CLI_DONE) {
        end_points(board, experiment, only, &last, board_now_ms() - begun_ms);
    }
    if (code == CLI_DONE && board->wish->has_profile) { /* behind the metrics, whose attempts begin in their order */
        code = read_series(board, experiment, only, true, &last);
    }
    return code;
}
