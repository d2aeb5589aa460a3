#include "tools/shoal/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/document.h"
#include "store/tfevents.h"
#include "tools/shoal/board_inside.h"
#include "tools/shoal/target.h"

#define ID_DIGITS 8 /* behind a '~', in the directory of the second experiment of a name */
#define FIRST_RECORD_BYTES (64u << 10)
#define QUIET_MS 100 /* a series that takes longer to read is read again only when the row of the trial has changed */

int board_fail_memory(struct cli *cli)
{
    return cli_fail(cli, CLI_REFUSED, "no memory is left");
}

uint64_t board_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

bool board_grow_record(struct board *board, const struct protobuf_writer *writer)
{
    if (!writer->failed || board->record_bytes >= TFEVENTS_MESSAGE_BYTES_MAX) {
        return false;
    }
    uint8_t *bigger = realloc(board->record, 2 * board->record_bytes);
    if (bigger == NULL) {
        return false;
    }
    board->record = bigger;
    board->record_bytes *= 2;
    return true;
}

int board_write_record(struct board *board, struct event_dir *dir, const struct protobuf_writer *record, double wall_s)
{
    if (record->failed) {
        return board_fail_memory(board->cli);
    }
    int code = dir->has_file ? CLI_DONE : event_dir_begin(board->cli, dir, wall_s);
    return code == CLI_DONE ? event_dir_write(board->cli, dir, record) : code;
}

/* ---- trials ------------------------------------------------------------------------------------------------------ */

struct board_trial *board_find_trial(const struct board_experiment *experiment, uint64_t index)
{
    return index < experiment->trial_capacity ? experiment->trials[index] : NULL;
}

static bool is_over(const char *state)
{
    static const char *const states[] = {"completed", "failed", "stopped", "cancelled"};
    bool found = false;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        found |= strcmp(state, states[i]) == 0;
    }
    return found;
}

static bool reserve(struct board_experiment *experiment, uint64_t index)
{
    if (index < experiment->trial_capacity) {
        return true;
    }
    uint64_t capacity = experiment->trial_capacity == 0 ? 64 : experiment->trial_capacity;
    while (capacity <= index) {
        capacity *= 2;
    }
    struct board_trial **trials = realloc(experiment->trials, capacity * sizeof *trials);
    experiment->trials = trials != NULL ? trials : experiment->trials;
    bool *wanted = realloc(experiment->wanted, capacity * sizeof *wanted);
    experiment->wanted = wanted != NULL ? wanted : experiment->wanted;
    if (trials == NULL || wanted == NULL) {
        return false;
    }
    for (uint64_t i = experiment->trial_capacity; i < capacity; i++) {
        trials[i] = NULL;
        wanted[i] = false;
    }
    experiment->trial_capacity = capacity;
    return true;
}

/* Opens the directory of a trial that has begun. */
static int open_trial(struct board *board, struct board_experiment *experiment, uint64_t index, struct board_trial **out)
{
    char path[PATH_MAX], source[EVENT_SOURCE_BYTES];
    if (!reserve(experiment, index)) {
        return board_fail_memory(board->cli);
    }
    *out = experiment->trials[index];
    if (*out != NULL) {
        return CLI_DONE;
    }
    if (snprintf(path, sizeof path, "%s/%llu", experiment->path, (unsigned long long)index) >= (int)sizeof path) {
        return cli_fail(board->cli, CLI_REFUSED, "the path %.200s... is too long; use a shorter --logdir", path);
    }
    (void)snprintf(source, sizeof source, "shoal %s/%llu", experiment->id, (unsigned long long)index);
    struct board_trial *trial = calloc(1, sizeof *trial);
    int code = trial != NULL ? event_dir_open(board->cli, path, source, board->wish->follows, &trial->events)
                             : board_fail_memory(board->cli);
    if (code != CLI_DONE) {
        free(trial);
        return code;
    }
    experiment->trials[index] = *out = trial;
    board->counts.trials++;
    return CLI_DONE;
}

/* True if the trial is wanted and has begun. */
static bool has_begun(const struct board_experiment *experiment, const struct trial_facts *facts)
{
    bool is_wanted =
        experiment->wants_all || (facts->index < experiment->trial_capacity && experiment->wanted[facts->index]);
    return is_wanted && document_has(facts->row, "attempt") && document_has(facts->row, "hyperparameters");
}

/* The hash of what changes in a trial's row with each report, retry and end. */
static uint64_t hash_row(const struct trial_facts *facts)
{
    uint64_t numbers[] = {facts->step, document_number(facts->row, "attempt"), document_number(facts->row, "generation")};
    uint64_t hash = bytes_hash64(numbers, sizeof numbers, bytes_hash64(facts->state, strlen(facts->state), 0));
    msgpack_object_map groups = document_pairs(document_find(facts->row, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        msgpack_object_map names = document_pairs(&groups.ptr[g].val);
        for (uint32_t n = 0; n < names.size; n++) {
            double value = 0;
            (void)document_double(&names.ptr[n].val, &value);
            hash = bytes_hash64(&value, sizeof value, hash);
        }
    }
    return hash;
}

/* Before the points: opens the trials that have begun; `*due`: how many of the trials may have new points. */
static int open_trials(struct board *board, struct board_experiment *experiment, const struct trials *trials, uint64_t *due)
{
    int code = CLI_DONE;
    experiment->begun = *due = 0;
    for (size_t i = 0; i < trials->count && code == CLI_DONE; i++) {
        const struct trial_facts *facts = &trials->items[i];
        struct board_trial *trial;
        uint64_t row = hash_row(facts);
        if (!has_begun(experiment, facts)) {
            continue;
        }
        code = open_trial(board, experiment, facts->index, &trial);
        if (code != CLI_DONE) {
            break;
        }
        bool is_same = trial->row == row;
        trial->is_done &= is_same; /* else it was retried */
        trial->is_due = !trial->is_done && !(is_same && trial->is_read && trial->points_ms > QUIET_MS);
        trial->is_read &= !trial->is_due;
        trial->has_valid = false;
        trial->row = row;
        experiment->begun++;
        *due += trial->is_due;
        if (!trial->events.has_session) {
            code = board_write_session(board, experiment, trial, trials, facts);
            event_dir_rest(&trial->events);
        }
    }
    return code;
}

/* Reads the points of the trials that may have new points; in one request, if no trial that has begun is left out. */
static int read_due(struct board *board, struct board_experiment *experiment, const struct trials *trials, uint64_t due)
{
    int code = CLI_DONE;
    if (experiment->wants_all && due > 1 && due == experiment->begun) {
        return board_read_points(board, experiment, UINT64_MAX);
    }
    for (size_t i = 0; i < trials->count && code == CLI_DONE; i++) {
        const struct board_trial *trial = board_find_trial(experiment, trials->items[i].index);
        if (trial != NULL && trial->is_due) {
            code = board_read_points(board, experiment, trials->items[i].index);
        }
    }
    return code;
}

/* Behind the points: how trials ended, and the files of their programs. */
static int end_trials(struct board *board, struct board_experiment *experiment, const struct trials *trials)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < trials->count && code == CLI_DONE; i++) {
        const struct trial_facts *facts = &trials->items[i];
        struct board_trial *trial = board_find_trial(experiment, facts->index);
        if (trial == NULL || trial->is_done) {
            continue;
        }
        bool over = is_over(facts->state);
        code = board_copy_files(board, experiment, trial, facts->index, over);
        if (code == CLI_DONE && over && !trial->events.has_end) {
            code = board_write_end(board, trial, facts);
        }
        trial->is_done = code == CLI_DONE && over && trial->is_read;
        event_dir_rest(&trial->events);
    }
    return code;
}

/* ---- experiments ------------------------------------------------------------------------------------------------- */

/* Takes the first directory that is the experiment's own, or free. */
static int open_directory(struct board *board, struct board_experiment *experiment)
{
    struct cli *cli = board->cli;
    char id[ID_DIGITS + 1], name[BOARD_DIRECTORY_BYTES], path[PATH_MAX], source[EVENT_SOURCE_BYTES];
    (void)snprintf(id, sizeof id, "%.*s", ID_DIGITS, experiment->id);
    (void)snprintf(source, sizeof source, "shoal %s", experiment->id);
    for (int try = 0; try < 2; try++) {
        board_directory(experiment->name, try == 0 ? "" : id, name);
        if (snprintf(path, sizeof path, "%s/%s", board->wish->directory, name) >= (int)sizeof path) {
            return cli_fail(cli, CLI_REFUSED, "the path %.200s... is too long; use a shorter --logdir", path);
        }
        int code = event_dir_open(cli, path, source, false, &experiment->root);
        if (code != CLI_DONE) {
            return code;
        }
        if (!experiment->root.is_foreign) {
            break;
        }
        event_dir_close(&experiment->root);
        if (try == 1) {
            return cli_fail(cli, CLI_REFUSED,
                            "the directories of %.80s in %.200s are not of shoal tensorboard; use another --logdir",
                            experiment->name, board->wish->directory);
        }
        cli_warn(cli, "%.200s is of something else; the experiment %s is written into %.200s~%s", path, experiment->id, path,
                 id);
    }
    experiment->path = strdup(path);
    experiment->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (experiment->path == NULL) {
        return board_fail_memory(cli);
    }
    if (experiment->lock >= 0 && flock(experiment->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return cli_fail(cli, CLI_REFUSED, "another shoal tensorboard writes into %.200s; end it, or use another --logdir",
                        path);
    }
    int code = experiment->root.is_ours ? CLI_DONE : event_dir_begin(cli, &experiment->root, (double)time(NULL));
    event_dir_rest(&experiment->root);
    return code;
}

static int ask_show(struct board *board, const struct board_experiment *experiment, struct reply *out)
{
    client_begin(&board->client, "show", 1);
    pack_text(&board->client.request, "experiment");
    pack_text(&board->client.request, experiment->id);
    return client_ask(&board->client, CLIENT_ANSWER_MS, out);
}

static int write_news(struct board *board, struct board_experiment *experiment, const struct trials *trials,
                      const msgpack_object *row)
{
    uint64_t due;
    int code = open_trials(board, experiment, trials, &due);
    code = code == CLI_DONE ? read_due(board, experiment, trials, due) : code;
    code = code == CLI_DONE ? end_trials(board, experiment, trials) : code;
    return code == CLI_DONE && !experiment->root.has_experiment ? board_write_columns(board, experiment, trials, row) : code;
}

/* False, after a sentence: a trial that is wanted does not exist. */
static bool has_wanted(struct board *board, const struct board_experiment *experiment, uint64_t total)
{
    for (uint64_t i = total; i < experiment->trial_capacity; i++) {
        if (experiment->wanted[i]) {
            (void)cli_fail(board->cli, CLI_NO_SUCH_THING, "%.80s has no trial %llu; shoal show lists them", experiment->name,
                           (unsigned long long)i);
            return false;
        }
    }
    return true;
}

static int experiment_round(struct board *board, struct board_experiment *experiment)
{
    struct reply reply;
    struct trials trials;
    char state[32];
    int code = ask_show(board, experiment, &reply);
    if (code != CLI_DONE) {
        return code;
    }
    msgpack_zone *zone = client_keep(&board->client); /* the document is needed while other requests are made */
    if (zone == NULL) {
        return board_fail_memory(board->cli);
    }
    const msgpack_object *row = document_find(&reply.document, "experiment");
    document_text(row, "state", state, sizeof state);
    document_text(row, "name", experiment->name, sizeof experiment->name);
    experiment->is_over = is_over(state);
    bool is_read = trials_read(&reply.document, (uint64_t)time(NULL), &trials);
    if (!is_read) {
        code = board_fail_memory(board->cli);
    } else if (!has_wanted(board, experiment, document_list(row, "trials").size)) {
        code = CLI_NO_SUCH_THING;
    } else if (experiment->path == NULL) {
        code = open_directory(board, experiment);
    }
    code = code == CLI_DONE ? write_news(board, experiment, &trials, row) : code;
    if (is_read) {
        trials_free(&trials);
    }
    msgpack_zone_free(zone);
    return code;
}

int board_round(struct board *board, bool *is_over_now)
{
    int code = CLI_DONE;
    *is_over_now = true;
    msgpack_zone_free(board->unreachable_zone);
    board->unreachable_zone = NULL;
    for (size_t i = 0; i < board->experiment_count && code == CLI_DONE; i++) {
        struct board_experiment *experiment = &board->experiments[i];
        board->client.patient = board->wish->follows;
        do {
            code = board->client.lost ? client_return(&board->client) : CLI_DONE;
            code = code == CLI_DONE ? experiment_round(board, experiment) : code;
        } while (board->client.lost);
        *is_over_now &= experiment->is_over;
    }
    return code;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Finds what one operand names, and adds it. */
static int add_operand(struct board *board, const char *operand)
{
    struct target target;
    char id[CLIENT_EXPERIMENT_TEXT_BYTES];
    int code = target_read(board->cli, operand, false, false, &target);
    code = code == CLI_DONE ? client_find_experiment(&board->client, target.experiment, id) : code;
    if (code != CLI_DONE) {
        return code;
    }
    size_t at = 0;
    while (at < board->experiment_count && strcmp(board->experiments[at].id, id) != 0) {
        at++;
    }
    struct board_experiment *experiment = &board->experiments[at];
    if (at == board->experiment_count) {
        *experiment = (struct board_experiment){.lock = -1, .root.fd = -1};
        (void)snprintf(experiment->id, sizeof experiment->id, "%s", id);
        board->experiment_count++;
        board->counts.experiments++;
    }
    experiment->wants_all |= !target.has_trial;
    if (target.has_trial && !reserve(experiment, target.trial)) {
        return board_fail_memory(board->cli);
    }
    if (target.has_trial) {
        experiment->wanted[target.trial] = true;
    }
    return CLI_DONE;
}

int board_open(struct cli *cli, const struct board_wish *wish, const char *const *operands, size_t count, struct board **out)
{
    struct board *board = calloc(1, sizeof *board);
    if (board == NULL) {
        return board_fail_memory(cli);
    }
    *board =
        (struct board){.cli = cli, .wish = wish, .record = malloc(FIRST_RECORD_BYTES), .record_bytes = FIRST_RECORD_BYTES};
    board->experiments = calloc(count, sizeof *board->experiments);
    int code =
        board->record == NULL || board->experiments == NULL ? board_fail_memory(cli) : client_open(cli, &board->client);
    for (size_t i = 0; i < count && code == CLI_DONE; i++) {
        code = add_operand(board, operands[i]);
    }
    if (code != CLI_DONE) {
        board_close(&board);
        return code;
    }
    *out = board;
    return CLI_DONE;
}

static void experiment_close(struct board_experiment *experiment)
{
    for (uint64_t i = 0; i < experiment->trial_capacity; i++) {
        if (experiment->trials[i] != NULL) {
            event_dir_close(&experiment->trials[i]->events);
            free(experiment->trials[i]);
        }
    }
    if (experiment->lock >= 0) {
        (void)close(experiment->lock);
    }
    event_dir_close(&experiment->root);
    board_tags_free(&experiment->tags);
    free(experiment->trials);
    free(experiment->wanted);
    free(experiment->path);
}

void board_close(struct board **board)
{
    struct board *it = *board;
    *board = NULL;
    if (it == NULL) {
        return;
    }
    for (size_t i = 0; i < it->experiment_count; i++) {
        experiment_close(&it->experiments[i]);
    }
    if (it->client.zone != NULL) {
        client_close(&it->client);
    }
    msgpack_zone_free(it->unreachable_zone);
    free(it->experiments);
    free(it->record);
    free(it);
}

struct board_counts board_counts(const struct board *board)
{
    return board->counts;
}

void board_warn(const struct board *board)
{
    if (board->unreachable_zone != NULL) {
        target_warn_unreachable(board->cli, &board->unreachable);
    }
    _Static_assert(BOARD_FILES_BYTES_MAX == 64u << 20, "the sentence says so");
    if (board->counts.large > 0) {
        cli_warn(board->cli,
                 "%llu %s of files, not searched for event files of programs; --files fetches and searches %s",
                 (unsigned long long)board->counts.large,
                 board->counts.large == 1 ? "trial keeps more than 64 MiB" : "trials keep more than 64 MiB each",
                 board->counts.large == 1 ? "it" : "them");
    }
}
