#include "node/http/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "node/http/answer.h"
#include "node/http/ask.h"

#define LABEL_BYTES 160
#define STATES_MAX 16

struct page {
    FILE *out;
    bool is_open; /* OpenMetrics */
};

/* ---- lines ----------------------------------------------------------------------------------------------------- */

/* Begins a metric. Samples of a counter end in _total; OpenMetrics names the counter without that. */
static void begin(const struct page *page, const char *name, const char *type, const char *help)
{
    const char *suffix = strcmp(type, "counter") == 0 && !page->is_open ? "_total" : "";
    (void)fprintf(page->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
}

static void sample(const struct page *page, const char *name, const char *labels, double value)
{
    (void)fprintf(page->out, "%s%s%s%s %.17g\n", name, labels[0] != '\0' ? "{" : "", labels,
                  labels[0] != '\0' ? "}" : "", value);
}

/* NAME="VALUE", the value escaped (exposition format 0.0.4). */
static void label(char out[LABEL_BYTES], const char *name, const char *value)
{
    size_t used = strlen(out);
    used += (size_t)snprintf(out + used, LABEL_BYTES - used, "%s%s=\"", used > 0 ? "," : "", name);
    for (; *value != '\0' && used + 4 < LABEL_BYTES; value++) {
        if (*value == '\\' || *value == '"') {
            out[used++] = '\\';
        }
        out[used++] = *value;
    }
    out[used++] = '"';
    out[used] = '\0';
}

static void gauge(const struct page *page, const char *name, const char *help, double value)
{
    begin(page, name, "gauge", help);
    sample(page, name, "", value);
}

/* ---- counts ---------------------------------------------------------------------------------------------------- */

struct counts {
    char names[STATES_MAX][2][32];
    uint64_t of[STATES_MAX];
    size_t count;
};

static void count(struct counts *counts, const char *first, const char *second, uint64_t by)
{
    size_t i = 0;
    while (i < counts->count && (strcmp(counts->names[i][0], first) != 0 || strcmp(counts->names[i][1], second) != 0)) {
        i++;
    }
    if (i == counts->count && i < STATES_MAX) {
        (void)snprintf(counts->names[i][0], sizeof counts->names[i][0], "%s", first);
        (void)snprintf(counts->names[i][1], sizeof counts->names[i][1], "%s", second);
        counts->count++;
    }
    if (i < STATES_MAX) {
        counts->of[i] += by;
    }
}

static void put_counts(const struct page *page, const char *name, const char *help, const char *first,
                       const char *second, const struct counts *counts)
{
    begin(page, name, "gauge", help);
    for (size_t i = 0; i < counts->count; i++) {
        char labels[LABEL_BYTES] = "";
        label(labels, first, counts->names[i][0]);
        if (second != NULL) {
            label(labels, second, counts->names[i][1]);
        }
        sample(page, name, labels, (double)counts->of[i]);
    }
}

/* Counts rows of a list by one or two of their texts. */
static void count_rows(struct counts *counts, const msgpack_object *document, const char *list, const char *first,
                       const char *second)
{
    msgpack_object_array rows = document_list(document, list);
    for (uint32_t i = 0; i < rows.size; i++) {
        char one[32], other[32] = "";
        document_text(&rows.ptr[i], first, one, sizeof one);
        if (second != NULL) {
            document_text(&rows.ptr[i], second, other, sizeof other);
        }
        count(counts, one, other, 1);
    }
}

/* ---- the page -------------------------------------------------------------------------------------------------- */

static void put_status(const struct page *page, const msgpack_object *status)
{
    char labels[LABEL_BYTES] = "", text[64];
    document_text(status, "version", text, sizeof text);
    label(labels, "version", text);
    begin(page, "shoal_build_info", "gauge", "The version of this node's daemon.");
    sample(page, "shoal_build_info", labels, 1);
    labels[0] = '\0';
    const msgpack_object *node = document_find(status, "node");
    document_text(node, "id", text, sizeof text);
    label(labels, "node", text);
    document_text(node, "label", text, sizeof text);
    label(labels, "name", text);
    begin(page, "shoal_node_info", "gauge", "The id and the name of this node.");
    sample(page, "shoal_node_info", labels, 1);
    gauge(page, "shoal_uptime_seconds", "Time since the daemon began.", (double)document_number(status, "uptime_s"));
    gauge(page, "shoal_records", "Records that this node holds.", (double)document_number(status, "records"));
    gauge(page, "shoal_daemon_memory_bytes", "Anonymous memory of the daemon.",
          (double)document_number(status, "memory_bytes"));
    gauge(page, "shoal_syncing", "1 while this node catches up with the others.", document_true(status, "syncing"));
    gauge(page, "shoal_disk_full", "1 while this node's disk is full.", document_true(status, "disk_full"));
    gauge(page, "shoal_memory_full", "1 while this node has no memory for new experiments.",
          document_true(status, "memory_full"));
    const msgpack_object *scrub = document_find(status, "scrub");
    begin(page, "shoal_scrub_checked_bytes", "counter", "Bytes of chunks that were read again to find rot.");
    sample(page, "shoal_scrub_checked_bytes_total", "", (double)document_number(scrub, "checked_bytes"));
    begin(page, "shoal_chunks_damaged", "counter", "Chunks that were found damaged on this disk.");
    sample(page, "shoal_chunks_damaged_total", "", (double)document_number(scrub, "damaged"));
    begin(page, "shoal_chunks_restored", "counter", "Damaged chunks that were fetched again from another node.");
    sample(page, "shoal_chunks_restored_total", "", (double)document_number(scrub, "restored"));
    begin(page, "shoal_refused", "counter", "What this node has refused, by reason.");
    msgpack_object_map refused = document_pairs(document_find(status, "refused"));
    for (uint32_t i = 0; i < refused.size; i++) {
        double value = 0;
        labels[0] = '\0';
        document_value_text(&refused.ptr[i].key, text, sizeof text);
        label(labels, "reason", text);
        (void)document_double(&refused.ptr[i].val, &value);
        sample(page, "shoal_refused_total", labels, value);
    }
}

static void put_mesh(const struct page *page, const msgpack_object *nodes, const msgpack_object *slots,
                     const msgpack_object *experiments)
{
    struct counts by_node = {0}, by_slot = {0}, by_experiment = {0}, by_trial = {0};
    count_rows(&by_node, nodes, "nodes", "state", NULL);
    put_counts(page, "shoal_nodes", "Nodes of the mesh by state, as this node sees them.", "state", NULL, &by_node);
    count_rows(&by_slot, slots, "slots", "kind", "state");
    put_counts(page, "shoal_slots", "Slots of the mesh by kind and state.", "kind", "state", &by_slot);
    count_rows(&by_experiment, experiments, "experiments", "state", NULL);
    put_counts(page, "shoal_experiments", "Experiments by state.", "state", NULL, &by_experiment);
    msgpack_object_array rows = document_list(experiments, "experiments");
    for (uint32_t i = 0; i < rows.size; i++) {
        msgpack_object_map trials = document_pairs(document_find(&rows.ptr[i], "trials"));
        for (uint32_t k = 0; k < trials.size; k++) {
            char state[32];
            double value = 0;
            document_value_text(&trials.ptr[k].key, state, sizeof state);
            (void)document_double(&trials.ptr[k].val, &value);
            if (strcmp(state, "total") != 0) {
                count(&by_trial, state, "", (uint64_t)value);
            }
        }
    }
    put_counts(page, "shoal_trials", "Trials by state.", "state", NULL, &by_trial);
}

/* The slots of this node. */
static void put_usage(const struct page *page, const msgpack_object *status, const msgpack_object *usage)
{
    static const struct {
        const char *key, *name, *help;
        double scale;
    } metrics[] = {
        {"cpu_percent", "shoal_slot_cpu_ratio", "Processor time of the slot's worker; 1 is one processor.", 0.01},
        {"memory_bytes", "shoal_slot_memory_bytes", "Resident memory of the slot's worker.", 1},
        {"gpu_percent", "shoal_gpu_utilization_ratio", "Part of time in which a kernel ran on the slot's GPU.", 0.01},
        {"gpu_memory_bytes", "shoal_gpu_memory_used_bytes", "Used memory of the slot's GPU.", 1}};
    char own[64], node[64];
    document_text(document_find(status, "node"), "id", own, sizeof own);
    msgpack_object_array rows = document_list(usage, "usage");
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        begin(page, metrics[m].name, "gauge", metrics[m].help);
        for (uint32_t i = 0; i < rows.size; i++) {
            char labels[LABEL_BYTES] = "", slot[24];
            double value;
            document_text(&rows.ptr[i], "node", node, sizeof node);
            if (strcmp(node, own) != 0 || !document_double(document_find(&rows.ptr[i], metrics[m].key), &value)) {
                continue;
            }
            (void)snprintf(slot, sizeof slot, "%llu", (unsigned long long)document_number(&rows.ptr[i], "index"));
            label(labels, "slot", slot);
            sample(page, metrics[m].name, labels, value * metrics[m].scale);
        }
    }
}

struct MHD_Response *metrics_answer(const char *secret, const char *accept, int *status)
{
    static const char *const ops[] = {"status", "nodes", "slots", "ls", "usage"};
    msgpack_object documents[sizeof ops / sizeof ops[0]];
    struct channel channel;
    if (channel_open(&channel) != 0) {
        return answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        int code = ask_document(&channel, ops[i], secret, &documents[i]);
        if (code != 0 || !document_true(&documents[i], "ok")) {
            bool is_refused = code == 0 && document_number(&documents[i], "code") == 6;
            channel_close(&channel);
            return is_refused
                       ? answer_problem(
                             401, 6,
                             "Prometheus needs a token here: `shoal token create --read-only --name prometheus`.",
                             status)
                       : answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
        }
    }
    char *bytes = NULL;
    size_t size = 0;
    struct page page = {open_memstream(&bytes, &size),
                        accept != NULL && strstr(accept, "application/openmetrics-text") != NULL};
    struct MHD_Response *response = NULL;
    if (page.out != NULL) {
        put_status(&page, &documents[0]);
        put_mesh(&page, &documents[1], &documents[2], &documents[3]);
        put_usage(&page, &documents[0], &documents[4]);
        (void)fputs(page.is_open ? "# EOF\n" : "", page.out);
        if (fclose(page.out) == 0) {
            response = answer_text(200,
                                   page.is_open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                                : "text/plain; version=0.0.4; charset=utf-8",
                                   bytes, status);
        }
    }
    free(bytes);
    channel_close(&channel);
    return response;
}
