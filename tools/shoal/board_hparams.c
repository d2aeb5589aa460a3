/* The board's hyperparameters: the records of TensorBoard's page HPARAMS. */

#include <string.h>
#include <time.h>

#include "base/document.h"
#include "base/err.h"
#include "store/tfevents.h"
#include "tools/shoal/board_inside.h"

#define TEXT_BYTES 8192 /* of a hyperparameter: the records that carry them are not larger */

/* A text of UTF-8 from a value of any kind. */
static void value_text(const msgpack_object *value, char out[TEXT_BYTES])
{
    char text[TEXT_BYTES / 3];
    document_value(value, text, sizeof text);
    (void)board_clean(text, strlen(text), out, TEXT_BYTES);
}

int board_write_session(struct board *board, struct board_experiment *experiment, struct board_trial *trial,
                        const struct trials *trials, const struct trial_facts *facts)
{
    const msgpack_object *values = document_find(facts->row, "hyperparameters");
    uint64_t started_s = document_number(facts->row, "started_s");
    double start_s = started_s > 0 ? (double)started_s : (double)time(NULL);
    char name[BOARD_NAME_BYTES + 24], text[TEXT_BYTES];
    struct protobuf_writer record;
    (void)snprintf(text, sizeof text, "%s/%llu", experiment->name, (unsigned long long)facts->index);
    (void)board_clean(text, strlen(text), name, sizeof name);
    do {
        protobuf_writer_init(&record, board->record, board->record_bytes);
        size_t mark = tfevents_begin(&record, start_s, 0);
        struct tfevents_hparams marks = tfevents_session_begin(&record, name, start_s);
        for (size_t i = 0; i < trials->parameter_count; i++) {
            const msgpack_object *value = parameter_value(&trials->parameters[i], values);
            double number;
            parameter_name(&trials->parameters[i], text, sizeof text);
            if (value->type == MSGPACK_OBJECT_BOOLEAN) {
                tfevents_put_hparam_boolean(&record, text, value->via.boolean);
            } else if (document_double(value, &number)) {
                tfevents_put_hparam_number(&record, text, number);
            } else if (value->type != MSGPACK_OBJECT_NIL) {
                char value_utf8[TEXT_BYTES];
                value_text(value, value_utf8);
                tfevents_put_hparam_text(&record, text, value_utf8);
            }
        }
        tfevents_hparams_end(&record, &marks);
        tfevents_end(&record, mark);
    } while (board_grow_record(board, &record));
    int code = board_write_record(board, &trial->events, &record, start_s);
    trial->events.has_session = code == CLI_DONE;
    return code;
}

int board_write_end(struct board *board, struct board_trial *trial, const struct trial_facts *facts)
{
    bool is_good = strcmp(facts->state, "completed") == 0 || strcmp(facts->state, "stopped") == 0;
    bool is_bad = strcmp(facts->state, "failed") == 0;
    uint64_t ended_s = document_number(facts->row, "ended_s");
    double end_s = ended_s > 0 ? (double)ended_s : (double)time(NULL);
    struct protobuf_writer record;
    protobuf_writer_init(&record, board->record, board->record_bytes);
    size_t mark = tfevents_begin(&record, end_s, 0);
    tfevents_put_session_end(&record, is_good ? TFEVENTS_SUCCESS : is_bad ? TFEVENTS_FAILURE : TFEVENTS_UNKNOWN, end_s);
    tfevents_end(&record, mark);
    int code = board_write_record(board, &trial->events, &record, end_s);
    trial->events.has_end = code == CLI_DONE;
    return code;
}

static enum tfevents_type type_of(const msgpack_object *value)
{
    double number;
    return value->type == MSGPACK_OBJECT_BOOLEAN ? TFEVENTS_BOOLEAN
           : document_double(value, &number)     ? TFEVENTS_NUMBER
                                                 : TFEVENTS_TEXT;
}

/* Columns of metrics on their way into a record. */
struct metric_columns {
    struct board *board;
    struct board_experiment *experiment;
    struct protobuf_writer *record;
    const char *metric; /* the searcher's */
    struct hash_set seen;
    bool has_metric;   /* there is one of that name */
    bool wants_metric; /* these are packed now, else the others */
    bool is_out_of_memory;
};

/* Packs a column for each metric of a trial that has none yet. */
static void put_metric_columns(struct metric_columns *columns, const msgpack_object *row)
{
    msgpack_object_map groups = document_pairs(document_find(row, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        const msgpack_object *group = &groups.ptr[g].key;
        msgpack_object_map names = document_pairs(&groups.ptr[g].val);
        for (uint32_t n = 0; n < names.size && group->type == MSGPACK_OBJECT_STR && group->via.str.size > 0; n++) {
            const msgpack_object_str *name = &names.ptr[n].key.via.str;
            bool is_text = names.ptr[n].key.type == MSGPACK_OBJECT_STR && name->size > 0;
            bool is_metric = is_text && pack_text_is(name->ptr, name->size, columns->metric);
            columns->has_metric |= is_metric;
            if (!is_text || is_metric != columns->wants_metric) {
                continue;
            }
            const struct board_tag *tag = board_tag_of(columns->board, columns->experiment, &group->via.str, name);
            int added = tag != NULL ? hash_set_add(&columns->seen, tag->key) : ERR_MEMORY;
            columns->is_out_of_memory |= added < 0;
            if (added > 0) {
                tfevents_put_metric_column(columns->record, tag->text, tag->bytes);
            }
        }
    }
}

/* Packs the columns of all trials, the searcher's metric first. False: no memory is left. */
static bool put_all_metric_columns(struct board *board, struct board_experiment *experiment, const struct trials *trials,
                                   struct protobuf_writer *record, bool *has_metric)
{
    struct metric_columns columns = {.board = board, .experiment = experiment, .record = record, .metric = trials->metric};
    for (int pass = 0; pass < 2; pass++) {
        columns.wants_metric = pass == 0;
        for (size_t i = 0; i < trials->count; i++) {
            put_metric_columns(&columns, trials->items[i].row);
        }
    }
    hash_set_free(&columns.seen);
    *has_metric = columns.has_metric;
    return !columns.is_out_of_memory;
}

int board_write_columns(struct board *board, struct board_experiment *experiment, const struct trials *trials,
                        const msgpack_object *row)
{
    uint64_t submitted_s = document_number(row, "submitted_s");
    double wall_s = submitted_s > 0 ? (double)submitted_s : (double)time(NULL);
    struct protobuf_writer record;
    bool has_metric, is_good;
    char name[BOARD_NAME_BYTES];
    (void)board_clean(experiment->name, strlen(experiment->name), name, sizeof name);
    do {
        protobuf_writer_init(&record, board->record, board->record_bytes);
        size_t mark = tfevents_begin(&record, wall_s, 0);
        struct tfevents_hparams marks = tfevents_experiment_begin(&record, name, wall_s);
        for (size_t i = 0; i < trials->parameter_count; i++) {
            char text[BOARD_NAME_BYTES];
            parameter_name(&trials->parameters[i], text, sizeof text);
            tfevents_put_hparam_column(&record, text, type_of(trials->parameters[i].value), trials->parameters[i].differs);
        }
        is_good = put_all_metric_columns(board, experiment, trials, &record, &has_metric);
        tfevents_hparams_end(&record, &marks);
        tfevents_end(&record, mark);
    } while (is_good && board_grow_record(board, &record));
    if (!is_good) {
        return board_fail_memory(board->cli);
    }
    if (!has_metric && !experiment->is_over) {
        return CLI_DONE;
    }
    int code = board_write_record(board, &experiment->root, &record, wall_s);
    experiment->root.has_experiment = code == CLI_DONE;
    event_dir_rest(&experiment->root);
    return code;
}
