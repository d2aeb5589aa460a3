#include "node/http/metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/document.h"
#include "node/http/answer.h"
#include "node/http/ask.h"
#include "node/http/exposition.h"

#define TEXT_BYTES 256
#define BUCKETS_MAX 32

static atomic_ullong dropped; /* series, over all answers of this process */

/* ---- small ones ------------------------------------------------------------------------------------------------ */

static void gauge(struct exposition *page, const char *name, const char *unit, const char *help, double value)
{
    exposition_begin(page, name, "gauge", unit, help);
    exposition_sample(page, name, NULL, value);
}

/* `name`: without _total. */
static void counter(struct exposition *page, const char *name, const char *unit, const char *help, double value)
{
    char sampled[96];
    (void)snprintf(sampled, sizeof sampled, "%s_total", name);
    exposition_begin(page, name, "counter", unit, help);
    exposition_sample(page, sampled, NULL, value);
}

/* A sample for each pair of a map; `sampled` is the name with _total, if it is a counter. */
static void put_map(struct exposition *page, const char *sampled, const char *label, const msgpack_object *map)
{
    msgpack_object_map pairs = document_pairs(map);
    for (uint32_t i = 0; i < pairs.size; i++) {
        struct exposition_labels labels = {0};
        char text[TEXT_BYTES];
        double value = 0;
        document_value_text(&pairs.ptr[i].key, text, sizeof text);
        exposition_label(&labels, label, text);
        (void)document_double(&pairs.ptr[i].val, &value);
        exposition_sample(page, sampled, &labels, value);
    }
}

static double number(const msgpack_object *map, const char *key)
{
    double value = 0;
    (void)document_double(document_find(map, key), &value);
    return value;
}

static void histogram(struct exposition *page, const char *name, const char *unit, const char *help,
                      const msgpack_object *map)
{
    double bounds[BUCKETS_MAX], counts[BUCKETS_MAX + 1];
    msgpack_object_array of = document_list(map, "bounds"), in = document_list(map, "counts");
    bool is_good = of.size <= BUCKETS_MAX && in.size == of.size + 1;
    for (uint32_t i = 0; is_good && i < in.size; i++) {
        is_good = document_double(&in.ptr[i], &counts[i]) && (i == of.size || document_double(&of.ptr[i], &bounds[i]));
    }
    if (is_good) { /* a daemon of another version may have none */
        exposition_begin(page, name, "histogram", unit, help);
        exposition_histogram(page, name, of.size, bounds, counts, number(map, "sum"));
    }
}

/* ---- the mesh -------------------------------------------------------------------------------------------------- */

static void put_infos(struct exposition *page, const msgpack_object *status, const msgpack_object *stats)
{
    struct exposition_labels labels = {0};
    char text[TEXT_BYTES];
    document_text(status, "version", text, sizeof text);
    exposition_label(&labels, "version", text);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)document_number(stats, "protocol"));
    exposition_label(&labels, "protocol", text);
    exposition_begin(page, "shoal_build_info", "gauge", "",
                     "The version of this node's daemon, and the newest protocol that it speaks.");
    exposition_sample(page, "shoal_build_info", &labels, 1);
    labels = (struct exposition_labels){0};
    const msgpack_object *node = document_find(status, "node");
    document_text(node, "id", text, sizeof text);
    exposition_label(&labels, "node", text);
    document_text(node, "label", text, sizeof text);
    exposition_label(&labels, "name", text);
    exposition_begin(page, "shoal_node_info", "gauge", "", "The id and the name of this node.");
    exposition_sample(page, "shoal_node_info", &labels, 1);
}

static void put_status(struct exposition *page, const msgpack_object *status, const msgpack_object *stats)
{
    gauge(page, "shoal_uptime_seconds", "seconds", "Time since the daemon began.", number(status, "uptime_s"));
    gauge(page, "shoal_records", "", "Records that this node holds.", number(status, "records"));
    gauge(page, "shoal_daemon_memory_bytes", "bytes", "Anonymous memory of the daemon.",
          number(status, "memory_bytes"));
    gauge(page, "shoal_syncing", "", "1 while this node catches up with the others.", document_true(status, "syncing"));
    gauge(page, "shoal_disk_full", "", "1 while this node's disk is full.", document_true(status, "disk_full"));
    gauge(page, "shoal_memory_full", "", "1 while this node has no memory for new experiments.",
          document_true(status, "memory_full"));
    const msgpack_object *scrub = document_find(status, "scrub");
    counter(page, "shoal_scrub_checked_bytes", "bytes", "Bytes of chunks that were read again to find rot.",
            number(scrub, "checked_bytes"));
    counter(page, "shoal_chunks_damaged", "", "Chunks that were found damaged on this disk.", number(scrub, "damaged"));
    exposition_begin(page, "shoal_chunk_repairs", "counter", "",
                     "Damaged chunks that were fetched again (rot), and copies of checkpoints made again as a holder "
                     "was gone (holder).");
    put_map(page, "shoal_chunk_repairs_total", "cause", document_find(stats, "repairs"));
    exposition_begin(page, "shoal_refused", "counter", "", "What this node has refused, by reason.");
    put_map(page, "shoal_refused_total", "reason", document_find(status, "refused"));
}

static void put_mesh(struct exposition *page, const msgpack_object *stats)
{
    exposition_begin(page, "shoal_nodes", "gauge", "", "Nodes of the mesh by state, as this node sees them.");
    put_map(page, "shoal_nodes", "state", document_find(stats, "nodes"));
    exposition_begin(page, "shoal_slots", "gauge", "", "Slots of the mesh by kind and state.");
    msgpack_object_array slots = document_list(stats, "slots");
    for (uint32_t i = 0; i < slots.size; i++) {
        struct exposition_labels labels = {0};
        char text[TEXT_BYTES];
        document_text(&slots.ptr[i], "kind", text, sizeof text);
        exposition_label(&labels, "kind", text);
        document_text(&slots.ptr[i], "state", text, sizeof text);
        exposition_label(&labels, "state", text);
        exposition_sample(page, "shoal_slots", &labels, number(&slots.ptr[i], "count"));
    }
    exposition_begin(page, "shoal_experiments", "gauge", "", "Experiments by state.");
    put_map(page, "shoal_experiments", "state", document_find(stats, "experiments"));
    exposition_begin(page, "shoal_trials", "gauge", "", "Trials by state.");
    put_map(page, "shoal_trials", "state", document_find(stats, "trials"));
    gauge(page, "shoal_coordinated_experiments", "", "Experiments that this node coordinates.",
          number(stats, "coordinated"));
}

/* ---- this node ------------------------------------------------------------------------------------------------- */

#define SAMPLED_BYTES 96

/* Begins a metric, and gives the name of its samples. */
static void begin_metric(struct exposition *page, const char *name, bool is_counter, const char *unit, const char *help,
                         char sampled[SAMPLED_BYTES])
{
    (void)snprintf(sampled, SAMPLED_BYTES, "%s%s", name, is_counter ? "_total" : "");
    exposition_begin(page, name, is_counter ? "counter" : "gauge", unit, help);
}

static void put_slots(struct exposition *page, const msgpack_object *stats)
{
    static const struct {
        const char *key, *name, *unit, *help;
        double scale;
        bool is_counter, is_gpu;
    } metrics[] = {
        {"cpu_permille", "shoal_slot_cpu_ratio", "ratio", "Processor time of the slot's worker; 1 is one processor.",
         0.001, false, false},
        {"memory_bytes", "shoal_slot_memory_bytes", "bytes", "Resident memory of the slot's worker.", 1, false, false},
        {"gpu_percent", "shoal_gpu_utilization_ratio", "ratio", "Part of time in which a kernel ran on the slot's GPU.",
         0.01, false, true},
        {"gpu_memory_bytes", "shoal_gpu_memory_used_bytes", "bytes", "Used memory of the slot's GPU.", 1, false, true},
        {"gpu_memory_total_bytes", "shoal_gpu_memory_total_bytes", "bytes", "Memory of the slot's GPU.", 1, false,
         true},
        {"gpu_celsius", "shoal_gpu_temperature_celsius", "celsius", "Temperature of the slot's GPU.", 1, false, true},
        {"gpu_milliwatts", "shoal_gpu_power_watts", "watts", "Power that the slot's GPU draws.", 0.001, false, true},
        {"gpu_millijoules", "shoal_gpu_energy_joules", "joules",
         "Energy that the slot's GPU has drawn since its driver was loaded.", 0.001, true, true},
        {"gpu_errors", "shoal_gpu_xid_errors", "", "Critical errors (XID) of the slot's GPU since the daemon began.", 1,
         true, true}};
    msgpack_object_array rows = document_list(stats, "own_slots");
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        char sampled[SAMPLED_BYTES];
        begin_metric(page, metrics[m].name, metrics[m].is_counter, metrics[m].unit, metrics[m].help, sampled);
        for (uint32_t i = 0; i < rows.size; i++) {
            struct exposition_labels labels = {0};
            char text[TEXT_BYTES];
            double value;
            if (!document_double(document_find(&rows.ptr[i], metrics[m].key), &value)) {
                continue;
            }
            (void)snprintf(text, sizeof text, "%llu", (unsigned long long)document_number(&rows.ptr[i], "index"));
            exposition_label(&labels, "slot", text);
            for (size_t k = 0; metrics[m].is_gpu && k < 2; k++) {
                const char *const names[] = {"uuid", "model"};
                document_text(&rows.ptr[i], names[k], text, sizeof text);
                exposition_label(&labels, names[k], text);
            }
            exposition_sample(page, sampled, &labels, value * metrics[m].scale);
        }
    }
}

static void put_process(struct exposition *page, const msgpack_object *process)
{
    counter(page, "process_cpu_seconds", "seconds", "Processor time of the daemon.", number(process, "cpu_s"));
    gauge(page, "process_resident_memory_bytes", "bytes", "Resident memory of the daemon.",
          number(process, "resident_bytes"));
    gauge(page, "process_virtual_memory_bytes", "bytes", "Address space of the daemon.",
          number(process, "virtual_bytes"));
    gauge(page, "process_start_time_seconds", "seconds", "When the daemon began, in seconds since 1970.",
          number(process, "started_s"));
    gauge(page, "process_open_fds", "", "Open descriptors of the daemon.", number(process, "descriptors"));
    gauge(page, "process_max_fds", "", "Most descriptors that the daemon may have.",
          number(process, "descriptors_max"));
}

/* ---- the work -------------------------------------------------------------------------------------------------- */

static void put_work(struct exposition *page, const msgpack_object *stats)
{
    histogram(page, "shoal_queue_wait_seconds", "seconds",
              "Time from a trial's submission to the begin of its first attempt, of trials that began on this node.",
              document_find(stats, "queue_wait_s"));
    histogram(page, "shoal_checkpoint_bytes", "bytes", "Sizes of the checkpoints that workers of this node saved.",
              document_find(stats, "checkpoint_bytes"));
    histogram(page, "shoal_checkpoint_seconds", "seconds",
              "Time from a checkpoint on this node's disk to its being durable.", document_find(stats, "checkpoint_s"));
    counter(page, "shoal_checkpoints_durable", "", "Checkpoints of this node's workers that became durable.",
            number(stats, "checkpoints_durable"));
    gauge(page, "shoal_checkpoint_waiting_seconds", "seconds",
          "How long the oldest checkpoint of this node's workers has waited to be durable; 0: none waits.",
          number(stats, "checkpoint_waiting_s"));
    exposition_begin(page, "shoal_trial_restarts", "counter", "",
                     "Attempts after a trial's first that began on this node, by the end of the attempt before.");
    put_map(page, "shoal_trial_restarts_total", "reason", document_find(stats, "restarts"));
    exposition_begin(page, "shoal_slot_seconds", "counter", "seconds",
                     "Time in which workers held slots of this node, by kind.");
    put_map(page, "shoal_slot_seconds_total", "kind", document_find(stats, "slot_s"));
}

/* The links to all peers, and what this node knows of each trial: the last to get room on the page. */
static void put_links(struct exposition *page, const msgpack_object *stats)
{
    static const struct {
        const char *key, *name, *unit, *help;
        bool is_counter;
        double scale;
    } metrics[] = {{"sent_bytes", "shoal_link_sent_bytes", "bytes",
                    "Messages, chunks and entries of series that were sent to the peer.", true, 1},
                   {"received_bytes", "shoal_link_received_bytes", "bytes",
                    "Messages, chunks and entries of series that came from the peer.", true, 1},
                   {"round_trip_us", "shoal_link_rtt_seconds", "seconds",
                    "Time from a probe to the peer's answer, smoothed.", false, 1e-6}};
    msgpack_object_array rows = document_list(stats, "links");
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        char sampled[SAMPLED_BYTES];
        begin_metric(page, metrics[m].name, metrics[m].is_counter, metrics[m].unit, metrics[m].help, sampled);
        for (uint32_t i = 0; i < rows.size; i++) {
            struct exposition_labels labels = {0};
            char text[TEXT_BYTES];
            double value;
            document_text(&rows.ptr[i], "label", text, sizeof text);
            exposition_label(&labels, "peer", text);
            if (document_double(document_find(&rows.ptr[i], metrics[m].key), &value)) {
                exposition_sample(page, sampled, &labels, value * metrics[m].scale);
            }
        }
    }
}

static void label_trial(struct exposition_labels *labels, const msgpack_object *row)
{
    char text[TEXT_BYTES];
    document_text(row, "experiment", text, sizeof text);
    exposition_label(labels, "experiment", text);
    document_text(row, "name", text, sizeof text);
    exposition_label(labels, "name", text);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)document_number(row, "trial"));
    exposition_label(labels, "trial", text);
}

static void put_trials(struct exposition *page, const msgpack_object *stats)
{
    msgpack_object_array rows = document_list(stats, "running");
    exposition_begin(page, "shoal_trial_steps", "counter", "",
                     "Steps that the trial made while its rank 0 was on this node; gone a minute after its end.");
    for (uint32_t i = 0; i < rows.size; i++) {
        struct exposition_labels labels = {0};
        label_trial(&labels, &rows.ptr[i]);
        exposition_sample(page, "shoal_trial_steps_total", &labels, number(&rows.ptr[i], "steps"));
    }
    exposition_begin(page, "shoal_trial_step_seconds", "gauge", "seconds",
                     "Time of one step of the trial, smoothed; only where it is known.");
    for (uint32_t i = 0; i < rows.size; i++) {
        double step_s = number(&rows.ptr[i], "step_s");
        struct exposition_labels labels = {0};
        label_trial(&labels, &rows.ptr[i]);
        if (step_s > 0) {
            exposition_sample(page, "shoal_trial_step_seconds", &labels, step_s);
        }
    }
}

/* ---- the page -------------------------------------------------------------------------------------------------- */

static void put_page(struct exposition *page, const msgpack_object *status, const msgpack_object *stats)
{
    put_infos(page, status, stats);
    put_status(page, status, stats);
    put_mesh(page, stats);
    put_slots(page, stats);
    put_process(page, document_find(stats, "process"));
    put_work(page, stats);
    put_links(page, stats);
    put_trials(page, stats);
    exposition_end(page, atomic_fetch_add(&dropped, page->dropped) + document_number(stats, "running_dropped"));
}

/* The answer where the daemon has given no document. */
static struct MHD_Response *refusal(bool is_refused, int *status)
{
    return is_refused
               ? answer_problem(401, 6,
                                "Prometheus needs a token here: `shoal token create --read-only --name prometheus`.",
                                status)
               : answer_problem(503, 1, "The daemon does not answer now; try again in some seconds.", status);
}

struct MHD_Response *metrics_answer(const char *secret, const char *accept, int *status)
{
    static const char *const ops[] = {"status", "stats"};
    msgpack_object documents[sizeof ops / sizeof ops[0]];
    struct channel channel;
    if (channel_open(&channel) != 0) {
        return refusal(false, status);
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        int code = ask_document(&channel, ops[i], secret, &documents[i]);
        if (code != 0 || !document_true(&documents[i], "ok")) {
            bool is_refused = code == 0 && document_number(&documents[i], "code") == 6;
            channel_close(&channel);
            return refusal(is_refused, status);
        }
    }
    char *bytes = NULL;
    size_t size = 0;
    struct exposition page = {.out = open_memstream(&bytes, &size),
                              .is_open = accept != NULL && strstr(accept, "application/openmetrics-text") != NULL};
    struct MHD_Response *response = NULL;
    if (page.out != NULL) {
        put_page(&page, &documents[0], &documents[1]);
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
