#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/export/inside.h"

#define DEPTH_MAX 8
#define NAMES_MAX 256

/* ---- names ----------------------------------------------------------------------------------------------------- */

bool export_names_add(struct export_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->items[i], name) == 0) {
            return true;
        }
    }
    if (names->count == NAMES_MAX) {
        return true;
    }
    if (names->count == names->room) {
        size_t room = names->room > 0 ? 2 * names->room : 16;
        char **grown = realloc(names->items, room * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        names->items = grown;
        names->room = room;
    }
    names->items[names->count] = strdup(name);
    if (names->items[names->count] == NULL) {
        return false;
    }
    names->count++;
    return true;
}

void export_names_free(struct export_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->items[i]);
    }
    free(names->items);
    *names = (struct export_names){0};
}

/* ---- maps within maps ------------------------------------------------------------------------------------------ */

/* Adds the dotted names of all values that are no maps. */
static bool add_dotted(struct export_names *names, const msgpack_object *map, char *path, size_t used, size_t size,
                       int depth)
{
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        char key[256];
        document_value_text(&pairs.ptr[i].key, key, sizeof key);
        size_t left = size - used;
        int bytes = snprintf(path + used, left, "%s%s", used > 0 ? "." : "", key);
        if (bytes < 0 || (size_t)bytes >= left) {
            continue;
        }
        const msgpack_object *value = &pairs.ptr[i].val;
        bool is_deep = value->type == MSGPACK_OBJECT_MAP && depth < DEPTH_MAX;
        bool is_added = is_deep ? add_dotted(names, value, path, used + (size_t)bytes, size, depth + 1)
                                : export_names_add(names, path);
        path[used] = '\0';
        if (!is_added) {
            return false;
        }
    }
    return true;
}

static const msgpack_object *find_dotted(const msgpack_object *map, const char *name)
{
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        char key[256];
        document_value_text(&pairs.ptr[i].key, key, sizeof key);
        size_t bytes = strlen(key);
        if (strncmp(name, key, bytes) != 0) {
            continue;
        }
        if (name[bytes] == '\0') {
            return &pairs.ptr[i].val;
        }
        const msgpack_object *found = name[bytes] == '.' ? find_dotted(&pairs.ptr[i].val, name + bytes + 1) : NULL;
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

static const msgpack_object nothing = {.type = MSGPACK_OBJECT_NIL};

const msgpack_object *export_parameter(const struct export_row *row, const char *name)
{
    const msgpack_object *found = find_dotted(document_find(row->trial, "hyperparameters"), name);
    return found != NULL ? found : &nothing;
}

const msgpack_object *export_metric(const struct export_row *row, const char *name)
{
    char group[256];
    const char *slash = strchr(name, '/');
    (void)snprintf(group, sizeof group, "%.*s", slash != NULL ? (int)(slash - name) : 0, name);
    return slash != NULL ? document_find(document_find(document_find(row->trial, "metrics"), group), slash + 1)
                         : &nothing;
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

static bool add_metrics(struct export_names *names, const msgpack_object *trial)
{
    msgpack_object_map groups = document_pairs(document_find(trial, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        msgpack_object_map values = document_pairs(&groups.ptr[g].val);
        for (uint32_t i = 0; i < values.size; i++) {
            char group[128], name[128], whole[258];
            document_value_text(&groups.ptr[g].key, group, sizeof group);
            document_value_text(&values.ptr[i].key, name, sizeof name);
            (void)snprintf(whole, sizeof whole, "%s/%s", group, name);
            if (!export_names_add(names, whole)) {
                return false;
            }
        }
    }
    return true;
}

/* Of the group validation, else of the first that has the metric. */
static double value_of(const msgpack_object *trial, const char *metric)
{
    const msgpack_object *metrics = document_find(trial, "metrics");
    double value = (double)NAN;
    if (document_double(document_find(document_find(metrics, "validation"), metric), &value)) {
        return value;
    }
    msgpack_object_map groups = document_pairs(metrics);
    for (uint32_t g = 0; g < groups.size; g++) {
        if (document_double(document_find(&groups.ptr[g].val, metric), &value)) {
            return value;
        }
    }
    return value;
}

bool export_rows_make(const msgpack_object *show, struct export_rows *out)
{
    const msgpack_object *experiment = document_find(show, "experiment");
    msgpack_object_array trials = document_list(experiment, "trials");
    *out = (struct export_rows){.items = calloc(trials.size + 1u, sizeof *out->items),
                                .count = trials.size,
                                .smaller = document_true(experiment, "smaller_is_better")};
    document_text(experiment, "metric", out->metric, sizeof out->metric);
    bool is_good = out->items != NULL;
    for (uint32_t i = 0; i < trials.size && is_good; i++) {
        char path[512] = "";
        out->items[i] = (struct export_row){&trials.ptr[i], value_of(&trials.ptr[i], out->metric)};
        is_good =
            add_dotted(&out->parameters, document_find(&trials.ptr[i], "hyperparameters"), path, 0, sizeof path, 0) &&
            add_metrics(&out->metrics, &trials.ptr[i]);
    }
    if (!is_good) {
        export_rows_free(out);
    }
    return is_good;
}

void export_rows_free(struct export_rows *rows)
{
    export_names_free(&rows->parameters);
    export_names_free(&rows->metrics);
    free(rows->items);
    *rows = (struct export_rows){0};
}

static int by_index(const struct export_row *one, const struct export_row *two)
{
    uint64_t a = document_number(one->trial, "index"), b = document_number(two->trial, "index");
    return a < b ? -1 : a > b;
}

static int by_value(const void *a, const void *b)
{
    const struct export_row *one = a, *two = b;
    if (isnan(one->value) != isnan(two->value)) {
        return isnan(one->value) ? 1 : -1;
    }
    return isnan(one->value) || one->value == two->value ? by_index(one, two) : one->value < two->value ? -1 : 1;
}

static int by_value_down(const void *a, const void *b)
{
    const struct export_row *one = a, *two = b;
    bool are_numbers = !isnan(one->value) && !isnan(two->value) && one->value != two->value;
    return are_numbers ? -by_value(a, b) : by_value(a, b);
}

void export_rows_sort(struct export_rows *rows)
{
    qsort(rows->items, rows->count, sizeof rows->items[0], rows->smaller ? by_value : by_value_down);
}

size_t export_choose(const msgpack_object *show, uint64_t trials[EXPORT_CURVES_MAX])
{
    struct export_rows rows;
    size_t count = 0;
    if (!export_rows_make(show, &rows)) {
        return 0;
    }
    export_rows_sort(&rows);
    for (size_t i = 0; i < rows.count && count < EXPORT_CURVES_MAX; i++) {
        if (document_has(rows.items[i].trial, "attempt")) {
            trials[count++] = document_number(rows.items[i].trial, "index");
        }
    }
    export_rows_free(&rows);
    return count;
}

double export_took_s(const struct export_row *row, uint64_t now_s)
{
    double before_s = (double)document_number(row->trial, "before_s");
    uint64_t started_s = document_number(row->trial, "started_s");
    uint64_t ended_s = document_has(row->trial, "ended_s") ? document_number(row->trial, "ended_s") : now_s;
    if (started_s == 0) {
        return before_s > 0 ? before_s : -1;
    }
    return before_s + (ended_s > started_s ? (double)(ended_s - started_s) : 0);
}
