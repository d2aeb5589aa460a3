/* ls: which experiments, in which order, with which columns. The daemon gives all of them; the client chooses, so that every daemon
 * can be asked. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/document.h"
#include "node/core/facts/config.h"
#include "tools/shoal/print.h"
#include "tools/shoal/table_choice.h"

#define STATES_MAX 16
#define LABELS_MAX 16
#define USERS_MAX 16
#define CELL_BYTES 512

/* ---- columns ------------------------------------------------------------------------------------------------------------- */

enum kind { KIND_TEXT, KIND_NUMBER, KIND_COUNT, KIND_TRIALS, KIND_BEST, KIND_OF_BEST, KIND_NODE, KIND_TIME, KIND_LABELS, KIND_TRUTH };

static const struct column {
    const char *name, *head, *key; /* key: in the experiment's map, of counts in `trials`, of KIND_OF_BEST in `best` */
    enum kind kind;
    bool cuts; /* gives way where the screen is narrow */
} columns[] = {
    {"id", "ID", "id", KIND_TEXT, false},
    {"name", "NAME", "name", KIND_TEXT, true},
    {"state", "STATE", "state", KIND_TEXT, false},
    {"trials", "TRIALS", "trials", KIND_TRIALS, true},
    {"total", "TOTAL", "total", KIND_COUNT, false},
    {"queued", "QUEUED", "queued", KIND_COUNT, false},
    {"running", "RUNNING", "running", KIND_COUNT, false},
    {"completed", "COMPLETED", "completed", KIND_COUNT, false},
    {"failed", "FAILED", "failed", KIND_COUNT, false},
    {"stopped", "STOPPED", "stopped", KIND_COUNT, false},
    {"best", "BEST", "value", KIND_BEST, true},
    {"metric", "METRIC", "metric", KIND_OF_BEST, true},
    {"best_trial", "BEST TRIAL", "trial", KIND_OF_BEST, false},
    {"coordinator", "COORDINATOR", "coordinator_name", KIND_NODE, true},
    {"term", "TERM", "term", KIND_NUMBER, false},
    {"submitted", "SUBMITTED", "submitted_s", KIND_TIME, false},
    {"user", "USER", "user", KIND_TEXT, true},
    {"labels", "LABELS", "labels", KIND_LABELS, true},
    {"description", "DESCRIPTION", "description", KIND_TEXT, true},
    {"pinned", "PINNED", "pinned", KIND_TRUTH, false},
    {"archived", "ARCHIVED", "archived", KIND_TRUTH, false},
    {"priority", "PRIORITY", "priority", KIND_NUMBER, false},
    {"waiting", "WAITING", "waiting", KIND_TEXT, true},
};
#define SHORT_ID_DIGITS 8
#define COLUMNS (sizeof columns / sizeof columns[0])

static const char *column_name(size_t i)
{
    return i < COLUMNS ? columns[i].name : NULL;
}

/* A list of columns as positions in `columns`. */
struct chosen {
    size_t count;
    size_t at[TABLE_COLUMNS_MAX];
    bool descends[TABLE_COLUMNS_MAX]; /* of --sort */
};

static int choose(struct cli *cli, const char *option, const char *text, bool allows_minus, struct chosen *out)
{
    struct choice choice = {.option = option, .thing = "column", .name = column_name, .allows_minus = allows_minus};
    int code = choice_read(cli, &choice, text, TABLE_COLUMNS_MAX, out->at, out->descends, &out->count);
    return code;
}

/* Where the value of the column is: a nil if it is absent. */
static const msgpack_object *value_of(const msgpack_object *item, const struct column *column)
{
    const char *map = column->kind == KIND_COUNT                                     ? "trials"
                      : column->kind == KIND_BEST || column->kind == KIND_OF_BEST ? "best"
                                                                                     : NULL;
    return document_find(map != NULL ? document_find(item, map) : item, column->key);
}

/* The cell of a table; `is_plain`: of CSV, with numbers in full and no words around them. Empty if there is no value. */
static void cell_text(const msgpack_object *item, const struct column *column, bool is_plain, char out[CELL_BYTES])
{
    const msgpack_object *value = value_of(item, column);
    double number;
    char text[PRINT_SUMMARY_BYTES] = "";
    out[0] = '\0';
    switch (column->kind) {
    case KIND_TRIALS:
        print_counts(value, text);
        break;
    case KIND_BEST:
        if (is_plain && document_double(value, &number)) {
            (void)snprintf(text, sizeof text, "%.17g", number);
        } else if (!is_plain) {
            print_best(item, text);
        }
        break;
    case KIND_NODE:
        print_coordinator(item, text);
        break;
    case KIND_TIME:
        if (document_number(item, column->key) > 0) {
            render_time(text, 1000 * document_number(item, column->key));
        }
        break;
    case KIND_LABELS:
        print_labels(value, out, CELL_BYTES);
        return;
    case KIND_TRUTH:
        (void)snprintf(text, sizeof text, "%s", document_true(item, column->key) ? "yes" : is_plain ? "no" : "");
        break;
    default:
        if (value->type != MSGPACK_OBJECT_NIL) {
            document_value(value, out, CELL_BYTES);
        }
        return;
    }
    (void)bytes_copy_text(out, CELL_BYTES, strcmp(text, "-") == 0 ? "" : text);
}

/* ---- order --------------------------------------------------------------------------------------------------------------- */

/* What the rows are sorted by: qsort takes no context. */
static const struct chosen *order;

static int by_time(const void *left, const void *right)
{
    uint64_t a = document_number(left, "submitted_s"), b = document_number(right, "submitted_s");
    char a_id[CLIENT_EXPERIMENT_TEXT_BYTES], b_id[CLIENT_EXPERIMENT_TEXT_BYTES];
    document_text(left, "id", a_id, sizeof a_id);
    document_text(right, "id", b_id, sizeof b_id);
    return a != b ? (a > b) - (a < b) : strcmp(a_id, b_id);
}

/* Rows without a value are last, in either direction. */
static int by_column(const msgpack_object *left, const msgpack_object *right, const struct column *column, bool descends)
{
    const msgpack_object *a = value_of(left, column), *b = value_of(right, column);
    double x = 0, y = 0;
    if (column->kind == KIND_TRIALS) {
        a = document_find(a, "total");
        b = document_find(b, "total");
    }
    bool has_x = document_double(a, &x), has_y = document_double(b, &y);
    int result = (x > y) - (x < y);
    if (!has_x && !has_y) {
        char a_text[CELL_BYTES], b_text[CELL_BYTES];
        cell_text(left, column, true, a_text);
        cell_text(right, column, true, b_text);
        has_x = a_text[0] != '\0';
        has_y = b_text[0] != '\0';
        result = strcmp(a_text, b_text);
    }
    if (has_x != has_y) {
        return has_x ? -1 : 1;
    }
    return descends ? -result : result;
}

static int by_order(const void *left, const void *right)
{
    int result = 0;
    for (size_t i = 0; i < order->count && result == 0; i++) {
        result = by_column(left, right, &columns[order->at[i]], order->descends[i]);
    }
    return result != 0 ? result : by_time(left, right);
}

/* ---- which ones ---------------------------------------------------------------------------------------------------------- */

struct filter {
    size_t states[STATES_MAX], state_count;
    const char *labels[LABELS_MAX];
    size_t label_count;
    const char *users[USERS_MAX];
    size_t user_count;
    uint64_t since_ms;
    bool has_archived;
};

static const char *state_name(size_t i)
{
    static const char *const names[] = {"queued", "running", "paused", "completed", "cancelled", "failed"};
    return i < sizeof names / sizeof names[0] ? names[i] : NULL;
}

static int read_filter(struct cli *cli, const struct arguments *arguments, struct filter *out)
{
    const char *state = options_value(arguments, "state"), *since = options_value(arguments, "since");
    const struct choice states = {.option = "state", .thing = "state", .name = state_name};
    *out = (struct filter){.has_archived = options_has(arguments, "archived")};
    out->label_count = options_values(arguments, "label", out->labels, LABELS_MAX);
    out->user_count = options_values(arguments, "user", out->users, USERS_MAX);
    if (since != NULL && options_since(since, (uint64_t)time(NULL), &out->since_ms) != 0) {
        return cli_fail(cli, CLI_USAGE, "--since %.40s is no time; allowed are 2h, 7d, 2026-11-25 and '2026-11-25 16:00'", since);
    }
    return state == NULL ? CLI_DONE : choice_read(cli, &states, state, STATES_MAX, out->states, NULL, &out->state_count);
}

/* "NAME": the experiment has the label, whatever its value; "NAME=VALUE": it has this value. */
static bool has_label(const msgpack_object *item, const char *wanted)
{
    msgpack_object_map pairs = document_pairs(document_find(item, "labels"));
    size_t bytes = strcspn(wanted, "=");
    for (uint32_t i = 0; i < pairs.size; i++) {
        char name[128], value[256];
        document_value_text(&pairs.ptr[i].key, name, sizeof name);
        document_value_text(&pairs.ptr[i].val, value, sizeof value);
        if (strlen(name) == bytes && memcmp(name, wanted, bytes) == 0 && (wanted[bytes] == '\0' || strcmp(value, wanted + bytes + 1) == 0)) {
            return true;
        }
    }
    return false;
}

/* One of the users that are asked for; "": of an experiment whose submitter is not known. */
static bool has_user(const msgpack_object *item, const struct filter *filter)
{
    char user[CONFIG_USER_BYTES];
    bool is_one = filter->user_count == 0;
    document_text(item, "user", user, sizeof user);
    for (size_t i = 0; i < filter->user_count; i++) {
        is_one |= strcmp(user, filter->users[i]) == 0;
    }
    return is_one;
}

static bool is_wanted(const msgpack_object *item, const struct filter *filter)
{
    char state[32];
    document_text(item, "state", state, sizeof state);
    bool has_state = filter->state_count == 0;
    for (size_t i = 0; i < filter->state_count; i++) {
        has_state |= strcmp(state, state_name(filter->states[i])) == 0;
    }
    for (size_t i = 0; i < filter->label_count; i++) {
        has_state = has_state && has_label(item, filter->labels[i]);
    }
    return has_state && has_user(item, filter) && 1000 * document_number(item, "submitted_s") >= filter->since_ms;
}

/* Takes the rows that are not wanted out of the document. Returns how many of them are only left out for being archived. */
static size_t filter_rows(msgpack_object *list, const struct filter *filter)
{
    size_t archived = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        const msgpack_object item = list->via.array.ptr[i];
        bool is_hidden = document_true(&item, "archived") && !filter->has_archived;
        if (!is_wanted(&item, filter)) {
            continue;
        }
        archived += is_hidden;
        if (!is_hidden) {
            list->via.array.ptr[kept++] = item;
        }
    }
    list->via.array.size = kept;
    return archived;
}

/* ---- output -------------------------------------------------------------------------------------------------------------- */

static void write_csv(FILE *out, const msgpack_object_array *list, const struct chosen *shown)
{
    char text[CELL_BYTES];
    for (size_t c = 0; c < shown->count; c++) {
        choice_write_csv(out, columns[shown->at[c]].name, c + 1 == shown->count);
    }
    for (uint32_t i = 0; i < list->size; i++) {
        for (size_t c = 0; c < shown->count; c++) {
            cell_text(&list->ptr[i], &columns[shown->at[c]], true, text);
            choice_write_csv(out, text, c + 1 == shown->count);
        }
    }
}

static bool is_number(const struct column *column)
{
    return column->kind == KIND_COUNT || column->kind == KIND_NUMBER;
}

/* `short_ids`: the first 8 digits of each id, which commands take as well. */
static uint32_t make_table(const msgpack_object_array *list, const struct chosen *shown, bool short_ids, struct table *table)
{
    uint32_t cuts = 0;
    for (size_t c = 0; c < shown->count && c < TABLE_COLUMNS_MAX; c++) {
        table_column(table, columns[shown->at[c]].head, is_number(&columns[shown->at[c]]));
        cuts |= (uint32_t)columns[shown->at[c]].cuts << c;
    }
    for (uint32_t i = 0; i < list->size; i++) {
        for (size_t c = 0; c < shown->count && c < TABLE_COLUMNS_MAX; c++) {
            const struct column *column = &columns[shown->at[c]];
            char text[CELL_BYTES];
            cell_text(&list->ptr[i], column, false, text);
            if (short_ids && strcmp(column->name, "id") == 0) {
                text[SHORT_ID_DIGITS] = '\0';
            }
            enum render_colour colour = strcmp(column->name, "state") == 0 ? render_state_colour(text) : RENDER_PLAIN;
            table_cell(table, colour, "%s", text[0] == '\0' ? "-" : text);
        }
    }
    return cuts;
}

static bool any_has_labels(const msgpack_object_array *list)
{
    for (uint32_t i = 0; i < list->size; i++) {
        if (document_pairs(document_find(&list->ptr[i], "labels")).size > 0) {
            return true;
        }
    }
    return false;
}

static bool has_several_users(const msgpack_object_array *list)
{
    char first[CONFIG_USER_BYTES] = "", user[CONFIG_USER_BYTES];
    for (uint32_t i = 0; i < list->size; i++) {
        document_text(&list->ptr[i], "user", user, sizeof user);
        if (i > 0 && strcmp(user, first) != 0) {
            return true;
        }
        memcpy(first, user, sizeof first);
    }
    return false;
}

/* Takes the column out. False: it is not among those that are shown. */
static bool drop_column(struct chosen *shown, const char *name)
{
    for (size_t c = 0; c < shown->count; c++) {
        if (strcmp(columns[shown->at[c]].name, name) == 0) {
            shown->count--;
            for (; c < shown->count && c + 1 < TABLE_COLUMNS_MAX; c++) {
                shown->at[c] = shown->at[c + 1];
            }
            return true;
        }
    }
    return false;
}

/* Where the screen is narrow, columns that the user has not named go first; then ids are shortened, then cells are cut. */
static void write_table(struct cli *cli, const msgpack_object_array *list, struct chosen *shown, bool may_drop)
{
    static const char *const dropped[] = {"term", "coordinator", "labels", "submitted", "user"};
    struct table table = {0};
    size_t screen_columns = SIZE_MAX, lines;
    if (cli->out_is_terminal) {
        render_terminal_size(cli->out, &screen_columns, &lines);
    }
    uint32_t cuts = make_table(list, shown, false, &table);
    for (size_t i = 0; may_drop && i < sizeof dropped / sizeof dropped[0] && table_width(&table) > screen_columns; i++) {
        if (drop_column(shown, dropped[i])) {
            table_free(&table);
            cuts = make_table(list, shown, false, &table);
        }
    }
    if (may_drop && table_width(&table) > screen_columns) {
        table_free(&table);
        cuts = make_table(list, shown, true, &table);
    }
    table_fit(&table, screen_columns, cuts);
    table_write(&table, cli->out, cli->colours);
}

/* The list itself, so that its rows can be taken out; NULL: the daemon has sent none. */
static msgpack_object *list_of(struct reply *reply)
{
    msgpack_object *document = &reply->document;
    for (uint32_t i = 0; document->type == MSGPACK_OBJECT_MAP && i < document->via.map.size; i++) {
        msgpack_object_kv *pair = &document->via.map.ptr[i];
        if (pair->key.type == MSGPACK_OBJECT_STR && pack_text_is(pair->key.via.str.ptr, pair->key.via.str.size, "experiments") &&
            pair->val.type == MSGPACK_OBJECT_ARRAY) {
            return &pair->val;
        }
    }
    return NULL;
}

static int write_list(struct cli *cli, const struct arguments *arguments, struct reply *reply, const struct filter *filter,
                      struct chosen *shown, const struct chosen *sorted)
{
    msgpack_object none = {.type = MSGPACK_OBJECT_ARRAY}, *list = list_of(reply);
    list = list != NULL ? list : &none;
    size_t archived = filter_rows(list, filter);
    bool is_csv = options_has(arguments, "csv"), has_columns = options_has(arguments, "columns");
    if (list->via.array.size > 0 && (sorted->count > 0 || !cli->json)) {
        order = sorted;
        qsort(list->via.array.ptr, list->via.array.size, sizeof *list->via.array.ptr, by_order); /* the newest last, where a terminal shows it */
    }
    if (cli->json) {
        return document_write_reply_json(cli->out, &reply->document)
                   ? CLI_DONE
                   : cli_fail(cli, CLI_REFUSED, "the daemon's answer cannot be written as JSON");
    }
    if (is_csv) {
        write_csv(cli->out, &list->via.array, shown);
        return CLI_DONE;
    }
    if (!has_columns && !any_has_labels(&list->via.array)) {
        (void)drop_column(shown, "labels");
    }
    if (!has_columns && !has_several_users(&list->via.array)) {
        (void)drop_column(shown, "user");
    }
    write_table(cli, &list->via.array, shown, !has_columns);
    print_waiting_experiments(cli->out, list->via.array, "waiting", "");
    if (archived > 0 && cli->out_is_terminal) {
        (void)fprintf(cli->out, "%zu archived experiment%s left out; --archived shows %s\n", archived, archived == 1 ? " is" : "s are",
                      archived == 1 ? "it" : "them");
    }
    return CLI_DONE;
}

int command_ls(struct cli *cli, const struct arguments *arguments)
{
    const char *wanted = options_value(arguments, "columns"), *sort = options_value(arguments, "sort");
    const char *standard = options_has(arguments, "csv")
                               ? "id,name,state,submitted,total,queued,running,completed,failed,stopped,best_trial,metric,best,labels,description,user"
                               : "id,name,user,state,trials,best,coordinator,term,submitted,labels";
    struct client client;
    struct filter filter;
    struct chosen shown = {0}, sorted = {0};
    struct reply reply;
    int code = choose(cli, "columns", wanted != NULL ? wanted : standard, false, &shown);
    code = code == CLI_DONE && sort != NULL ? choose(cli, "sort", sort, true, &sorted) : code;
    code = code == CLI_DONE ? read_filter(cli, arguments, &filter) : code;
    code = code == CLI_DONE ? client_open(cli, &client) : code;
    if (code != CLI_DONE) {
        return code;
    }
    client_begin(&client, "ls", 0);
    code = client_ask(&client, CLIENT_ANSWER_MS, &reply);
    if (code == CLI_DONE) {
        code = write_list(cli, arguments, &reply, &filter, &shown, &sorted);
    }
    client_close(&client);
    return code;
}
