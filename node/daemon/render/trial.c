/* The row of a trial: its state, metrics, attempts, how it ended, and notes about what is odd. */

#include <string.h>

#include "base/err.h"
#include "node/core/facts/program.h"
#include "node/daemon/render/experiment.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"
#include "train/search/search.h"

#define ATTEMPTS_SHOWN_MAX 16 /* most attempts of a trial in a row: keeps a row within RENDER_BYTES_MIN */

/* The search has ended the trial because it is done, and no user has stopped it. */
static bool has_whole_length(const struct view_trial *trial)
{
    const struct view_search_stop *stop = view_trial_search_stop(trial);
    return stop != NULL && stop->fact.is_top && !view_trial_stop(trial).stopped;
}

enum view_trial_state render_trial_state(const struct view_experiment *experiment, uint32_t index)
{
    enum view_trial_state state = view_trial_state(experiment, index);
    return state == VIEW_TRIAL_STOPPED && has_whole_length(view_find_trial(experiment, index)) ? VIEW_TRIAL_COMPLETED : state;
}

const char *render_trial_state_name(const struct view_experiment *experiment, const struct view_trial *trial,
                                    enum view_trial_state state)
{
    const struct view_attempt *highest = state == VIEW_TRIAL_RUNNING ? view_trial_highest(trial) : NULL;
    bool is_ending = highest != NULL && (view_trial_stopped(trial) || view_attempt_is_paused(trial, &highest->id));
    bool is_stopping = is_ending && !has_whole_length(trial);
    if (state == VIEW_TRIAL_QUEUED && trial != NULL && !view_experiment_cancelled(experiment) &&
        view_search_paused(experiment, trial->index) != NULL) {
        return "paused";
    }
    return state == VIEW_TRIAL_QUEUED ? render_waiting_name(experiment) : is_stopping ? "stopping" : view_trial_state_name(state);
}

/* Metrics in records are bytes written by any node: only a map of group to map of name to number is passed on. */
static bool metrics_are_sound(const uint8_t *bytes, uint32_t count)
{
    struct pack_reader reader;
    size_t length;
    pack_reader_init(&reader, bytes, count);
    for (uint32_t groups = pack_read_map(&reader); groups > 0; groups--) {
        (void)pack_read_text(&reader, &length);
        for (uint32_t names = pack_read_map(&reader); names > 0; names--) {
            (void)pack_read_text(&reader, &length);
            (void)pack_read_double(&reader);
        }
    }
    return pack_at_end(&reader);
}

static void put_metrics(const uint8_t *bytes, uint32_t count, msgpack_packer *packer)
{
    if (count > 0 && metrics_are_sound(bytes, count)) {
        render_put_packed(packer, bytes, count);
    } else {
        (void)msgpack_pack_map(packer, 0);
    }
}

static bool read_worker(const struct node_core *core, const struct view_worker *worker, struct fact_worker *out)
{
    const struct records_entry *entry = worker != NULL ? records_find(node_core_records(core), worker->ident) : NULL;
    return entry != NULL && fact_worker_read(&entry->record, out) == 0;
}

static bool read_verdict(const struct node_core *core, const struct view_verdict *verdict, struct fact_verdict *out)
{
    const struct records_entry *entry = verdict != NULL ? records_find(node_core_records(core), verdict->ident) : NULL;
    return entry != NULL && fact_verdict_read(&entry->record, out) == 0;
}

static void put_attempt_metrics(const struct node_core *core, const struct view_experiment *experiment,
                                const struct view_attempt *attempt, msgpack_packer *packer)
{
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    put_metrics(metrics, view_attempt_metrics(node_core_view(core), experiment, attempt, metrics), packer);
}

uint64_t render_attempt_step(const struct view_attempt *attempt)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    if (verdict != NULL) {
        return verdict->step;
    }
    return first != NULL && first->step > attempt->start_step ? first->step : attempt->start_step;
}

const char *render_attempt_state(const struct view_attempt *attempt)
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    if (verdict != NULL) {
        return fact_reason_name(verdict->reason);
    }
    return first != NULL && first->state == FACT_WORKER_RUNNING ? "running" : "assigned";
}

struct render_times render_attempt_times(const struct node_core *core, const struct view_attempt *attempt)
{
    struct render_times times = {0};
    struct fact_worker worker;
    struct fact_verdict verdict;
    if (!read_worker(core, view_attempt_worker(attempt, 0), &worker) || worker.started_s == 0) {
        return times;
    }
    times.started_s = worker.started_s;
    if (worker.state == FACT_WORKER_ENDED && worker.ended_s > 0) {
        times.ended_s = worker.ended_s > worker.started_s ? worker.ended_s : worker.started_s;
    } else if (read_verdict(core, view_attempt_verdict(attempt), &verdict)) {
        times.ended_s = worker.started_s + verdict.duration_s; /* the worker was lost: nobody knows when it ended */
    }
    return times;
}

uint64_t render_experiment_ended_s(const struct node_core *core, const struct view_experiment *experiment)
{
    uint64_t ended_s = 0;
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_attempt *last = experiment->trials[i] != NULL ? view_trial_highest(experiment->trials[i]) : NULL;
        uint64_t trial_s = last != NULL ? render_attempt_times(core, last).ended_s : 0;
        ended_s = trial_s > ended_s ? trial_s : ended_s;
    }
    return ended_s;
}

const struct view_attempt *render_shown_attempt(const struct view_trial *trial)
{
    const struct view_attempt *completed = view_trial_completed(trial);
    return completed != NULL ? completed : view_trial_highest(trial);
}

/* A shell ends with 128 + n if its program was killed by signal n. 0: the status does not say so. */
static int signal_behind(int32_t code)
{
    int number = code < 0 ? -code : code > 128 && code <= 128 + 31 ? code - 128 : 0;
    return number > 0 && sigabbrev_np(number) != NULL ? number : 0;
}

/* The worker of the attempt whose own failure is the cause of the others' failures, or NULL: the one that met its error first by
 * its error.json (as torchrun chooses), else the lowest rank that failed. A program that was killed by SIGKILL had no time for a
 * file, and is no echo of another's failure. */
static const struct view_worker *failed_worker(const struct node_core *core, const struct view_attempt *attempt)
{
    const struct view_worker *cause = NULL;
    uint64_t cause_ms = UINT64_MAX;
    for (uint32_t rank = 0; attempt->assigned && rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        struct fact_worker stated;
        if (worker == NULL || worker->state != FACT_WORKER_ENDED || worker->reason != FACT_FAILED) {
            continue;
        }
        uint64_t error_ms = read_worker(core, worker, &stated) && stated.error_ms > 0 ? stated.error_ms : UINT64_MAX;
        error_ms = signal_behind(worker->exit_code) == 9 ? 0 : error_ms;
        if (cause == NULL || error_ms < cause_ms) {
            cause = worker;
            cause_ms = error_ms;
        }
    }
    return cause;
}

/* A worker of the attempt that could not begin and gave a reason, or NULL. */
static const struct view_worker *hindered_worker(const struct node_core *core, const struct view_attempt *attempt,
                                                 struct fact_worker *out)
{
    for (uint32_t rank = 0; attempt->assigned && rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker != NULL && worker->state == FACT_WORKER_ENDED && worker->reason == FACT_LOST &&
            read_worker(core, worker, out) && out->started_s == 0 && out->tail[0] != '\0') {
            return worker;
        }
    }
    return NULL;
}

/* The memory of the worker's slot, as its node has published it; 0: not known. */
static uint64_t slot_memory_bytes(const struct node_core *core, const struct view_attempt *attempt, const struct view_worker *worker)
{
    struct fact_key key = fact_key_empty();
    const struct records_entry *entry =
        records_find(node_core_records(core), record_ident_of(worker->writer, FACT_NODE, key.bytes, key.count));
    struct fact_node node;
    if (entry == NULL || fact_node_read(&entry->record, &node) != 0) {
        return 0;
    }
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct fact_place *member = &attempt->members[rank];
        if (member->number == worker->number && member->slot < node.slot_count) {
            return node.slots[member->slot].memory_bytes;
        }
    }
    return 0;
}

/* "rank 1 was killed by signal 9 (SIGKILL): ...". */
static void write_end(const struct node_core *core, const struct view_attempt *attempt, const struct view_worker *worker,
                      enum fact_cause cause, char *out, size_t size)
{
    int32_t code = worker->exit_code;
    int number = signal_behind(code);
    size_t used = format_text(out, size, "%s %u ", attempt->groups == NULL ? "rank" : "worker", worker->number);
    if (code >= 0) {
        used += format_text(out + used, size - used, "ended with status %d%s", code,
                            code == 126   ? " (not executable)"
                            : code == 127 ? " (command not found)"
                            : number != 0 ? ", its program was "
                                          : "");
    } else {
        used += format_text(out + used, size - used, "was %s", number == 0 ? "killed by a signal" : "");
    }
    if (number != 0) {
        used += format_text(out + used, size - used, "killed by signal %d (SIG%s)", number, sigabbrev_np(number));
    }
    const char *why = cause == FACT_CAUSE_MEMORY_LIMIT ? ": the kernel ended it, its control group had reached the memory limit"
                      : cause == FACT_CAUSE_MEMORY     ? ": the kernel ended it for want of memory"
                      : number == 25                   ? ": a file grew beyond the limit of file size (ulimit -f)"
                      : number == 24                   ? ": its processor time reached the limit (ulimit -t)"
                                                       : "";
    used += format_text(out + used, size - used, "%s", why);
    if (cause == FACT_CAUSE_GPU_MEMORY) {
        uint64_t memory = slot_memory_bytes(core, attempt, worker);
        used += format_text(out + used, size - used, ": CUDA out of memory on %s", render_node_label(core, worker->writer).text);
        if (memory > 0) {
            (void)format_text(out + used, size - used, ", %llu GB", (unsigned long long)((memory + (1u << 29)) >> 30));
        }
    }
}

bool render_attempt_reason(const struct node_core *core, const struct view_attempt *attempt, char out[RENDER_REASON_BYTES])
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *failed = failed_worker(core, attempt), *hindered;
    struct fact_verdict fact;
    struct fact_worker stated;
    if (!read_verdict(core, verdict, &fact)) {
        return false;
    }
    if (fact.reason == FACT_LOST && (hindered = hindered_worker(core, attempt, &stated)) != NULL) {
        format_text(out, RENDER_REASON_BYTES, "%s: on %s %s", fact.why, render_node_label(core, hindered->writer).text, stated.tail);
    } else if (fact.reason == FACT_FAILED && failed != NULL) {
        enum fact_cause cause = read_worker(core, failed, &stated) ? stated.cause : FACT_CAUSE_UNKNOWN;
        size_t used = format_text(out, RENDER_REASON_BYTES, "%s: ", fact.why);
        write_end(core, attempt, failed, cause, out + used, RENDER_REASON_BYTES - used);
    } else {
        format_text(out, RENDER_REASON_BYTES, "%s", fact.why);
    }
    return true;
}

static void put_attempt_reason(const struct node_core *core, const struct view_attempt *attempt, msgpack_packer *packer)
{
    char text[RENDER_REASON_BYTES];
    if (render_attempt_reason(core, attempt, text)) {
        render_put_string(packer, text);
    } else {
        (void)msgpack_pack_nil(packer);
    }
}

/* The core writes the values itself, into the same frame. */
static void put_hyperparameters(const struct config *config, const struct view_trial *trial, uint32_t index, msgpack_packer *packer)
{
    struct pack_writer *frame = render_frame(packer), before = *frame;
    int error = ERR_NOT_FOUND;
    if (config != NULL) {
        error = view_attempt_values(config, view_trial_valued(trial), index, frame);
    }
    if (error == ERR_FULL) {
        frame->failed = true;
    } else if (error != 0) {
        *frame = before;
        (void)msgpack_pack_nil(packer);
    }
}

static void put_trial_slots(const struct node_core *core, const struct view_attempt *attempt, msgpack_packer *packer)
{
    uint32_t count = attempt != NULL && attempt->assigned ? attempt->member_count : 0;
    (void)msgpack_pack_array(packer, count);
    for (uint32_t i = 0; i < count; i++) {
        (void)msgpack_pack_map(packer, 4);
        render_put_string(packer, "node");
        render_put_node_id(packer, attempt->members[i].node);
        render_put_text(packer, "node_label", render_node_label(core, attempt->members[i].node).text);
        render_put_text(packer, "node_name", render_node_name(core, attempt->members[i].node));
        render_put_u64(packer, "index", attempt->members[i].slot);
    }
}

static void put_trial_checkpoint(const struct node_core *core, const struct view_trial *trial,
                                 msgpack_packer *packer)
{
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    struct view_manifest newest;
    if (!node_core_next_checkpoint(core, &row, &newest)) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    (void)msgpack_pack_map(packer, 4);
    render_put_u64(packer, "step", newest.step);
    render_put_u64(packer, "bytes", newest.bytes);
    render_put_bool(packer, "durable", newest.durable);
    render_put_string(packer, "holders");
    (void)msgpack_pack_array(packer, newest.holder_count);
    for (uint32_t i = 0; i < newest.holder_count; i++) {
        render_put_string(packer, render_node_label(core, newest.holders[i]).text);
    }
}

const struct view_worker *render_tail_worker(const struct node_core *core, const struct view_trial *trial, const struct view_attempt **attempt)
{
    const struct view_worker *failed = NULL;
    bool is_completed = trial == NULL || view_trial_completed(trial) != NULL;
    for (const struct view_attempt *a = is_completed ? NULL : trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        const struct view_worker *cause = verdict != NULL && verdict->reason == FACT_FAILED ? failed_worker(core, a) : NULL;
        if (cause != NULL) {
            failed = cause;
            *attempt = a;
        }
    }
    return failed;
}

/* The last lines of a trial's newest failed attempt. */
struct tail {
    const struct view_attempt *attempt; /* NULL: there are none */
    struct fact_worker fact;
};

/* Finds the lines, as far as the worker's record has them; none once the trial is completed. */
static void find_tail(const struct node_core *core, const struct view_trial *trial, struct tail *tail)
{
    const struct view_attempt *attempt = NULL;
    bool is_found = read_worker(core, render_tail_worker(core, trial, &attempt), &tail->fact);
    tail->attempt = is_found ? attempt : NULL;
}

static void put_tail(const struct tail *tail, msgpack_packer *packer)
{
    render_put_string(packer, "tail");
    if (tail->attempt == NULL) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    render_put_string(packer, tail->fact.tail);
    render_put_u64(packer, "tail_attempt", tail->attempt->id.number);
}

/* Writes every completed attempt (a merge may have brought several) and the newest of the rest, as far as there is
 * room. */
static void put_attempts(const struct node_core *core, const struct view_experiment *experiment,
                         const struct view_trial *trial, msgpack_packer *packer)
{
    uint32_t total = 0, shown = 0, position = 0;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        total += a->assigned || a->verdicts != NULL;
    }
    struct render_list list = render_list_open(packer);
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        bool is_there = a->assigned || a->verdicts != NULL;
        bool is_completed = verdict != NULL && verdict->reason == FACT_COMPLETED;
        position += is_there;
        bool is_new = position + ATTEMPTS_SHOWN_MAX / 2 > total;
        if (!is_there || shown == ATTEMPTS_SHOWN_MAX || !(is_new || (is_completed && shown < ATTEMPTS_SHOWN_MAX / 2))) {
            continue;
        }
        shown++;
        (void)msgpack_pack_map(packer, 7);
        render_put_u64(packer, "attempt", a->id.number);
        render_put_text(packer, "coordinator_name", render_node_name(core, a->id.coordinator));
        render_put_text(packer, "state", render_attempt_state(a));
        render_put_string(packer, "reason");
        put_attempt_reason(core, a, packer);
        render_put_u64(packer, "step", render_attempt_step(a));
        render_put_string(packer, "metrics");
        put_attempt_metrics(core, experiment, a, packer);
        render_put_text(packer, "coordinator_label", render_node_label(core, a->id.coordinator).text);
        list.count++;
    }
    render_list_close(&list);
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

#define NOTES_MAX 8
#define NOTE_BYTES 224
#define ENDED_SHOWN_S 5     /* at a normal end the ranks do not end at once */
#define SILENT_SHOWN_S 290 /* about 5 minutes, by two wall clocks */

struct notes {
    uint32_t count;
    char texts[NOTES_MAX][NOTE_BYTES];
};

/* "rank 0 and 2", "ranks" of more are counted. `ends`: those that have completed, else those that have not ended. */
static size_t write_ranks(const struct view_attempt *attempt, bool ends, char *out, size_t size)
{
    uint32_t count = 0, shown = 0;
    size_t used = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
            const struct view_worker *worker = view_attempt_worker(attempt, rank);
            bool has_ended = worker != NULL && worker->state == FACT_WORKER_ENDED;
            if (ends ? !has_ended || worker->reason != FACT_COMPLETED : has_ended) {
                continue;
            }
            count += pass == 0;
            if (pass == 1 && count > 4) {
                return format_text(out, size, "%u ranks", count);
            }
            if (pass == 1) {
                used += format_text(out + used, size - used, "%s%u", shown == 0 ? (count == 1 ? "rank " : "ranks ")
                                                                     : shown + 1 == count ? " and "
                                                                                          : ", ", rank);
                shown++;
            }
        }
    }
    return used;
}

static void note_time(char *out, size_t size, uint64_t seconds)
{
    unsigned long long s = seconds;
    (void)format_text(out, size, s < 120 ? "%llu s" : s < 7200 ? "%llu min" : "%llu h", s < 120 ? s : s < 7200 ? s / 60 : s / 3600);
}

static void note_stalls(const struct node_core *core, const struct view_attempt *attempt, struct notes *notes)
{
    static const char *const texts[] = {"", "no output and no progress", "no output, no progress and no processor time used",
                                        "stopped (SIGSTOP)"};
    for (uint32_t rank = 0; rank < attempt->member_count && notes->count < NOTES_MAX; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        struct fact_worker fact;
        if (worker == NULL || worker->state != FACT_WORKER_RUNNING || worker->stall == FACT_ACTIVE ||
            !read_worker(core, worker, &fact)) {
            continue;
        }
        char time[32];
        uint64_t lasts_s = node_core_wall_s(core) > fact.stall_s ? node_core_wall_s(core) - fact.stall_s : 0;
        if (fact.stall == FACT_SILENT && !fact.is_overdue && lasts_s < SILENT_SHOWN_S) {
            continue; /* told early for a short exit_barrier */
        }
        note_time(time, sizeof time, lasts_s);
        format_text(notes->texts[notes->count++], NOTE_BYTES, "rank %u on %s: %s for %s", rank,
                    render_node_label(core, worker->writer).text, texts[fact.stall], time);
    }
}

/* Ranks that have a slot and no record yet: their node makes their packages ready, which can take minutes. */
static void note_packages(const struct node_core *core, const struct view_experiment *experiment,
                          const struct view_attempt *attempt, struct notes *notes)
{
    if (experiment->config->requirements[0] == '\0') {
        return;
    }
    for (uint32_t rank = 0; rank < attempt->member_count && notes->count < NOTES_MAX; rank++) {
        if (view_attempt_worker(attempt, rank) == NULL) {
            format_text(notes->texts[notes->count++], NOTE_BYTES,
                        "rank %u on %s: its code and the packages of its requirements file are made ready", rank,
                        render_node_label(core, attempt->members[rank].node).text);
        }
    }
}

/* What users should know of the shown attempt beyond its state: ranks that others have left behind, ranks that hang, and a
 * traceback of a program that ended with status 0. */
static void find_notes(const struct node_core *core, const struct view_experiment *experiment, const struct view_attempt *attempt,
                       struct notes *notes)
{
    notes->count = 0;
    if (attempt == NULL || !attempt->assigned) {
        return;
    }
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    uint32_t ended = 0, completed = 0;
    uint64_t last_s = 0;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        struct fact_worker fact;
        ended += worker != NULL && worker->state == FACT_WORKER_ENDED;
        completed += worker != NULL && worker->state == FACT_WORKER_ENDED && worker->reason == FACT_COMPLETED;
        if (worker != NULL && worker->state == FACT_WORKER_ENDED && read_worker(core, worker, &fact)) {
            last_s = fact.ended_s > last_s ? fact.ended_s : last_s;
        }
        if (verdict != NULL && verdict->reason == FACT_COMPLETED && notes->count == 0 && read_worker(core, worker, &fact) &&
            fact.cause == FACT_CAUSE_TRACEBACK) {
            format_text(notes->texts[notes->count++], NOTE_BYTES,
                        "rank %u ended with status 0, but its last lines are a Python traceback", rank);
        }
    }
    if (verdict != NULL) {
        return;
    }
    bool is_settled = last_s == 0 || node_core_wall_s(core) >= last_s + ENDED_SHOWN_S;
    if (completed > 0 && ended < attempt->member_count && is_settled) {
        char *text = notes->texts[notes->count++];
        size_t used = write_ranks(attempt, true, text, NOTE_BYTES);
        used += format_text(text + used, NOTE_BYTES - used, " ended with status 0, and ");
        used += write_ranks(attempt, false, text + used, NOTE_BYTES - used);
        used += format_text(text + used, NOTE_BYTES - used, attempt->member_count - ended == 1 ? " runs on" : " run on");
        if (experiment->config->exit_barrier_s > 0) {
            format_text(text + used, NOTE_BYTES - used, "; after %u s without output the attempt fails (exit_barrier)",
                        experiment->config->exit_barrier_s);
        }
    }
    note_packages(core, experiment, attempt, notes);
    note_stalls(core, attempt, notes);
}

bool render_trial_reason(const struct node_core *core, const struct view_experiment *experiment, uint32_t index,
                         const struct view_attempt *shown, char out[RENDER_TRIAL_REASON_BYTES])
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    enum view_trial_state state = view_trial_state(experiment, index);
    char text[256];
    struct fact_verdict fact;
    const struct view_worker *failed = shown != NULL ? failed_worker(core, shown) : NULL;
    if (state != VIEW_TRIAL_FAILED || !node_core_quarantine_reason(core, trial, experiment->config->retry, text, sizeof text)) {
        return shown != NULL && render_attempt_reason(core, shown, out);
    }
    if (failed != NULL && view_trial_quarantine(trial, experiment->config->retry, NULL, NULL) == VIEW_QUARANTINE_SAME &&
        read_verdict(core, view_attempt_verdict(shown), &fact)) {
        struct fact_worker stated;
        enum fact_cause cause = read_worker(core, failed, &stated) ? stated.cause : FACT_CAUSE_UNKNOWN;
        size_t used = format_text(out, RENDER_TRIAL_REASON_BYTES, "%s (retry): ", text);
        write_end(core, shown, failed, cause, out + used, RENDER_TRIAL_REASON_BYTES - used);
    } else {
        (void)format_text(out, RENDER_TRIAL_REASON_BYTES, "%s", text);
    }
    return true;
}

static void put_attempt_numbers(const struct view_attempt *shown, msgpack_packer *packer)
{
    const struct view_worker *first = shown != NULL ? view_attempt_worker(shown, 0) : NULL;
    render_put_string(packer, "attempt");
    if (shown != NULL) {
        (void)msgpack_pack_uint64(packer, shown->id.number);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    render_put_string(packer, "generation");
    if (first != NULL) {
        (void)msgpack_pack_uint64(packer, first->generation);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    render_put_string(packer, "step");
    if (shown != NULL) {
        (void)msgpack_pack_uint64(packer, render_attempt_step(shown));
    } else {
        (void)msgpack_pack_nil(packer);
    }
}

void render_put_time(msgpack_packer *packer, const char *key, uint64_t seconds)
{
    render_put_string(packer, key);
    if (seconds > 0) {
        (void)msgpack_pack_uint64(packer, seconds);
    } else {
        (void)msgpack_pack_nil(packer);
    }
}

/* When the shown attempt began and ended, and how many seconds the other attempts ran: the client's clock makes the elapsed time,
 * so that a document changes only with its records. */
#define TIMES_PAIRS 3
static void put_times(const struct node_core *core, const struct view_trial *trial, const struct view_attempt *shown, msgpack_packer *packer)
{
    struct render_times times = shown != NULL ? render_attempt_times(core, shown) : (struct render_times){0};
    uint64_t before_s = 0;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        struct render_times other = a != shown ? render_attempt_times(core, a) : (struct render_times){0};
        before_s += other.ended_s > other.started_s ? other.ended_s - other.started_s : 0;
    }
    render_put_time(packer, "started_s", times.started_s);
    render_put_time(packer, "ended_s", times.ended_s);
    render_put_u64(packer, "before_s", before_s);
}

void render_put_trial(const struct node_core *core, const struct view_experiment *experiment, const struct config *config,
                      uint32_t index, msgpack_packer *packer)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    enum view_trial_state state = render_trial_state(experiment, index);
    const struct view_attempt *shown = trial != NULL ? render_shown_attempt(trial) : NULL;
    bool has_more = trial != NULL && trial->attempts != NULL && trial->attempts->next != NULL;
    const struct view_worker *failed = state == VIEW_TRIAL_FAILED && shown != NULL ? failed_worker(core, shown) : NULL;
    struct notes notes;
    struct tail tail;
    find_notes(core, experiment, shown, &notes);
    find_tail(core, trial, &tail);
    bool has_parent = shown != NULL && shown->point_count > 0 && shown->parent != FACT_NO_TRIAL;
    char description[FACT_NOTE_BYTES];
    bool is_described = view_trial_description(experiment, index, description);
    (void)msgpack_pack_map(packer, 12u + TIMES_PAIRS + is_described + has_parent + (tail.attempt != NULL) + has_more + (notes.count > 0) +
                                       (failed != NULL));
    render_put_u64(packer, "index", index);
    if (is_described) {
        render_put_text(packer, "description", description);
    }
    render_put_text(packer, "state", render_trial_state_name(experiment, trial, state));
    put_attempt_numbers(shown, packer);
    put_times(core, trial, shown, packer);
    render_put_string(packer, "hyperparameters");
    put_hyperparameters(config, trial, index, packer);
    if (has_parent) {
        render_put_u64(packer, "parent", shown->parent);
    }
    render_put_string(packer, "metrics");
    if (shown != NULL) {
        put_attempt_metrics(core, experiment, shown, packer);
    } else {
        (void)msgpack_pack_map(packer, 0);
    }
    render_put_string(packer, "slots");
    put_trial_slots(core, state != VIEW_TRIAL_QUEUED ? shown : NULL, packer);
    render_put_string(packer, "checkpoint");
    put_trial_checkpoint(core, trial, packer);
    /* The failure by which the trial fails, the last of too many or on too many nodes, leads to no restart. */
    uint32_t failures = trial != NULL ? view_trial_failures(trial) : 0, most = config_restarts(experiment->config);
    bool is_of_failures = state == VIEW_TRIAL_FAILED && view_trial_quarantine(trial, experiment->config->retry, NULL, NULL) != VIEW_QUARANTINE_DEATHS;
    uint32_t restarts = failures - (failures > 0 && is_of_failures);
    render_put_u64(packer, "restarts", restarts < most ? restarts : most);
    put_tail(&tail, packer);
    char reason[RENDER_TRIAL_REASON_BYTES];
    bool has_reason = render_trial_reason(core, experiment, index, shown, reason);
    render_put_string(packer, "reason");
    if (has_reason) {
        render_put_string(packer, reason);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    if (failed != NULL) {
        render_put_string(packer, "exit_code");
        (void)msgpack_pack_int32(packer, failed->exit_code);
    }
    if (notes.count > 0) {
        render_put_string(packer, "notes");
        (void)msgpack_pack_array(packer, notes.count);
        for (uint32_t i = 0; i < notes.count; i++) {
            render_put_string(packer, notes.texts[i]);
        }
    }
    if (has_more) {
        render_put_string(packer, "attempts");
        put_attempts(core, experiment, trial, packer);
    }
}
