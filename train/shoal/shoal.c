/* libshoal. Two halves that do not wait for each other: the group of the workers (train/group/group.h), and the connection to
 * the daemon, which may go away and come back (train/shoal/link.h). */

#include "train/shoal/shoal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/shoal/checkpoint.h"
#include "train/shoal/hparams.h"

#define GROUP_MS 300000 /* the coordinator gives up an incomplete group long before */
#define PROGRESS_MS 200
#define LISTEN_MS 20000 /* how long a worker waits for a free port */
#define TIMEOUT_S_MAX 86400

/* ---- open and close ---- */

static int open_alone(struct shoal *s)
{
    s->state = CLIENT_ALONE;
    s->size = 1;
    bytes_copy_text(s->experiment, sizeof s->experiment, "-");
    const char *seed = getenv("SHOAL_SEED");
    if (seed != NULL) {
        char *end;
        errno = 0;
        s->seed = strtoull(seed, &end, 10);
        if (*seed < '0' || *seed > '9' || *end != 0 || errno != 0) {
            return client_fail(s, ERR_USAGE, "SHOAL_SEED is '%.40s'; it must be a whole number from 0", seed);
        }
    }
    const char *json = getenv("SHOAL_HPARAMS");
    s->hparams = malloc(HPARAMS_BYTES_MAX);
    if (s->hparams == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for the hyperparameters");
    }
    struct pack_writer writer;
    pack_writer_init(&writer, s->hparams, HPARAMS_BYTES_MAX);
    if (hparams_from_json(json != NULL ? json : "{}", &writer) != 0) {
        return client_fail(s, ERR_USAGE, "SHOAL_HPARAMS is not a JSON object of at most %u bytes", HPARAMS_BYTES_MAX);
    }
    s->hparams_bytes = writer.used_bytes;
    return 0;
}

struct tcp_options client_group_options(struct shoal *s, char name[CLIENT_GROUP_BYTES], int open_timeout_ms)
{
    (void)snprintf(name, CLIENT_GROUP_BYTES, "%s/%u/%u", s->experiment, s->trial, s->attempt);
    return (struct tcp_options){
        .group = name,
        .open_timeout_ms = open_timeout_ms,
        .stall_timeout_ms = s->timeout_ms,
        .spin_us = -1,
        .slow = client_tell_blocked,
        .slow_context = s,
        .revoke = &s->revoke,
    };
}

int client_read_group(struct shoal *s, struct tcp_options *options, struct tcp_member members[PLAN_RANKS_MAX],
                      bool has_state[PLAN_RANKS_MAX], uint64_t *step)
{
    struct pack_reader reply;
    pack_reader_init(&reply, s->answer, s->answer_bytes);
    bool failed = false;
    uint64_t generation = client_link_find_u64(&reply, "generation", UINT64_MAX, &failed);
    uint32_t size = (uint32_t)client_link_find_u64(&reply, "size", PLAN_RANKS_MAX, &failed);
    uint32_t rank = (uint32_t)client_link_find_u64(&reply, "rank", PLAN_RANKS_MAX - 1, &failed);
    *step = client_link_find_u64(&reply, "step", UINT64_MAX, &failed);
    struct pack_reader key = pack_find(&reply, "key"), list = pack_find(&reply, "members");
    pack_read_bin_exact(&key, options->key, sizeof options->key);
    failed = failed || size == 0 || rank >= size || pack_read_array(&list) != size;
    for (uint32_t i = 0; i < size && !failed; i++) {
        failed = pack_read_array(&list) != 4 || pack_read_u64_max(&list, PLAN_RANKS_MAX) != i;
        pack_read_text_copy(&list, members[i].host, sizeof members[i].host);
        members[i].port = (uint16_t)pack_read_u64_max(&list, UINT16_MAX);
        has_state[i] = pack_read_bool(&list);
    }
    if (failed || key.failed || list.failed) {
        return client_fail(s, ERR_MALFORMED, "the daemon's answer to worker_group does not follow the protocol");
    }
    options->members = members;
    options->generation = s->generation = generation;
    options->rank = s->rank = rank;
    options->size = s->size = size;
    return 0;
}

void client_listen_close(struct shoal *s)
{
    if (s->port.lock_fd >= 0) {
        (void)close(s->port.lock_fd);
        s->port.lock_fd = -1;
    }
}

/* Listens at this worker's port, or at a new one of the daemon's range. The search begins at another place in each process, so
 * that a late rank of an earlier group finds nobody at its port. */
static int listen_in(struct shoal *s, struct ports range, int *listen_fd, uint16_t *port)
{
    if (s->port.lock_fd >= 0 && tcp_group_listen_at(s->host, s->port.number, listen_fd) == 0) {
        *port = s->port.number;
        return 0;
    }
    client_listen_close(s);
    uint16_t from = (uint16_t)(range.low + (uint32_t)getpid() % (range.high - range.low + 1u));
    uint64_t until_ms = client_link_now_ms() + LISTEN_MS;
    int error;
    while ((error = tcp_group_listen_in(s->host, range, from, listen_fd, &s->port.number, &s->port.lock_fd)) == ERR_FULL &&
           client_link_now_ms() < until_ms) {
        (void)poll(NULL, 0, CLIENT_RETRY_MS); /* a worker that ends gives its port back */
    }
    if (error == 0) {
        *port = s->port.number;
    }
    return error;
}

int client_listen(struct shoal *s, int *listen_fd, uint16_t *port)
{
    const char *text = getenv("SHOAL_PORTS"); /* older daemons set none: any port will do */
    struct ports range;
    bool has_range = text != NULL && ports_read(text, &range) == 0;
    int error = has_range ? listen_in(s, range, listen_fd, port) : tcp_group_listen(s->host, listen_fd, port);
    if (error == ERR_FULL) {
        return client_fail(s, error,
                           "each of the ports %s is in use on this machine, so this worker cannot listen for the others of its "
                           "group; give shoald a wider range with --ports",
                           text);
    }
    return error == 0 ? 0
                      : client_fail(s, error, "cannot listen on %s, where the daemon wants this worker's data link: %s",
                                    s->host, error == ERR_USAGE ? "it is not a numeric address" : strerror(errno));
}

void client_tell_blocked(void *context, const struct tcp_member *member)
{
    struct shoal *s = context;
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    client_link_begin(&writer, bytes, 0, "worker_blocked", 2);
    pack_text(&writer, "host");
    pack_text(&writer, member->host);
    pack_text(&writer, "port");
    pack_u64(&writer, member->port);
    if (client_link_push(s, &writer, 0, -1, CLIENT_QUEUE_SLOTS - 4) == 0) {
        client_link_send(s);
    }
}

static int form_group(struct shoal *s)
{
    int listen_fd;
    uint16_t port;
    int error = client_listen(s, &listen_fd, &port);
    if (error != 0) {
        return error;
    }
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id, step;
    client_link_begin(&writer, bytes, id, "worker_group", 1);
    pack_text(&writer, "port");
    pack_u64(&writer, port);
    error = client_link_call(s, &writer, id, s->join_ms);
    if (error == ERR_TIMEOUT && s->state == CLIENT_OPEN) {
        client_link_withdraw(s, id); /* shoal_flush does not wait for its answer */
        (void)client_fail(s, error, "within %d s not all %u ranks of the attempt have begun to join their group",
                          s->join_ms / 1000, s->size);
    }
    char group[CLIENT_GROUP_BYTES];
    struct tcp_member members[PLAN_RANKS_MAX];
    bool has_state[PLAN_RANKS_MAX];
    struct tcp_options options = client_group_options(s, group, SHOAL_TIMEOUT_DEFAULT_MS);
    if (error == 0) {
        error = client_read_group(s, &options, members, has_state, &step);
    }
    client_link_drop_answer(s);
    if (error == 0 && revoke_open(&s->revoke) != 0) {
        error = client_fail(s, ERR_IO, "no descriptor is left for the group: %s", strerror(errno));
    }
    if (error != 0) {
        (void)close(listen_fd);
        return error;
    }
    char text[GROUP_ERROR_BYTES];
    error = group_open(&s->workers, listen_fd, &options, NULL, text);
    explicit_bzero(options.key, sizeof options.key);
    if (options.size == 1) {
        client_listen_close(s); /* nobody connects */
    }
    return error == 0 ? 0 : client_fail(s, error, "%s", text);
}

static int open_with_daemon(struct shoal *s, const char *socket_path)
{
    const char *token = getenv("SHOAL_TOKEN");
    uint8_t token_bytes[CLIENT_TOKEN_DIGITS / 2];
    if (token == NULL || bytes_from_hex(token_bytes, sizeof token_bytes, token) != 0) {
        return client_fail(s, ERR_USAGE, "SHOAL_SOCKET is set, but SHOAL_TOKEN is not %d hex digits", CLIENT_TOKEN_DIGITS);
    }
    bytes_copy_text(s->token, sizeof s->token, token);
    if (!bytes_copy_text(s->socket_path, sizeof s->socket_path, socket_path)) {
        return client_fail(s, ERR_USAGE, "SHOAL_SOCKET is longer than %zu bytes", sizeof s->socket_path - 1);
    }
    uint8_t *buffer = malloc(FRAME_BYTES_MAX + 4);
    if (buffer == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for the daemon's answers");
    }
    frame_reader_init(&s->reader, buffer, FRAME_BYTES_MAX + 4);
    s->state = CLIENT_AWAY;
    s->away_since_ms = client_link_now_ms();
    while (s->state != CLIENT_OPEN) {
        int error = client_link_pump(s);
        if (error != 0) {
            return error;
        }
        if (s->state != CLIENT_OPEN) {
            client_link_wait(s, client_link_now_ms() + CLIENT_RETRY_MS);
        }
    }
    return 0;
}

static void destroy(struct shoal *s)
{
    client_background_close(s);
    client_profile_close(s);
    group_close(&s->workers);
    gpu_close(&s->gpu);
    while (s->memory_count > 0) {
        shoal_free(s, s->memories[s->memory_count - 1].bytes);
    }
    client_elastic_close(s);
    client_listen_close(s);
    client_link_drop_answer(s);
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    if (s->reader.buffer != NULL) {
        frame_reader_close(&s->reader);
        free(s->reader.buffer);
    }
    free(s->opening);
    while (s->queue_count > 0) {
        client_link_remove(s, s->queue_count - 1);
    }
    client_checkpoint_free(&s->saves[0]);
    client_checkpoint_free(&s->saves[1]);
    free(s->scratch);
    free(s->hparams);
    explicit_bzero(s->token, sizeof s->token);
    free(s);
}

/* The time of a collective: the experiment's collective_timeout, in seconds, or the default. */
static int read_timeout(struct shoal *s)
{
    const char *text = getenv("SHOAL_COLLECTIVE_TIMEOUT");
    char *end = NULL;
    unsigned long seconds = text != NULL && text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    s->timeout_ms = SHOAL_TIMEOUT_DEFAULT_MS;
    if (text == NULL) {
        return 0;
    }
    if (seconds == 0 || seconds > TIMEOUT_S_MAX || *end != '\0') {
        return client_fail(s, ERR_USAGE, "SHOAL_COLLECTIVE_TIMEOUT is '%.40s'; it must be 1 to %d seconds", text, TIMEOUT_S_MAX);
    }
    s->timeout_ms = (int)seconds * 1000;
    return 0;
}

static int read_rungs(struct shoal *s)
{
    const char *text = getenv("SHOAL_RUNGS"), *at = text != NULL ? text : "";
    while (*at != '\0') {
        char *end = NULL;
        errno = 0;
        uint64_t length = at[0] >= '0' && at[0] <= '9' ? strtoull(at, &end, 10) : 0;
        bool ascends = length > (s->rung_count > 0 ? s->rungs[s->rung_count - 1] : 0);
        if (!ascends || errno != 0 || (*end != '\0' && *end != ' ') || s->rung_count == SHOAL_RUNGS_MAX) {
            return client_fail(s, ERR_USAGE, "SHOAL_RUNGS is '%.60s'; it must be at most %d whole numbers, ascending from 1", text,
                               SHOAL_RUNGS_MAX);
        }
        s->rungs[s->rung_count++] = length;
        at = end + strspn(end, " ");
    }
    return 0;
}

enum open_form { OPEN_LINK, OPEN_GROUP, OPEN_ELASTIC };

static int open_context(struct shoal **out, enum open_form form, char error[SHOAL_ERROR_BYTES])
{
    *out = NULL;
    struct shoal *s = calloc(1, sizeof *s);
    if (s == NULL) {
        bytes_copy_text(error, SHOAL_ERROR_BYTES, "no memory is left");
        return ERR_MEMORY;
    }
    s->fd = s->answer_fd = s->filling = -1;
    s->saves[0].fd = s->saves[1].fd = -1;
    s->revoke.fd = s->elastic.listen_fd = s->port.lock_fd = -1;
    s->elastic.is_on = form == OPEN_ELASTIC;
    s->join_ms = GROUP_MS;
    client_background_init(s);
    const char *socket_path = getenv("SHOAL_SOCKET");
    int result = read_timeout(s);
    result = result == 0 ? read_rungs(s) : result;
    (void)getentropy(&s->session, sizeof s->session); /* without it the daemon may keep a report twice */
    if (result == 0) {
        result = socket_path == NULL ? open_alone(s) : open_with_daemon(s, socket_path);
    }
    if (result == 0 && form == OPEN_GROUP) {
        result = shoal_join(s);
    }
    if (result != 0) {
        bytes_copy_text(error, SHOAL_ERROR_BYTES, s->error);
        destroy(s);
        return result;
    }
    s->error[0] = 0;
    *out = s;
    return 0;
}

int shoal_open(struct shoal **out, char error[SHOAL_ERROR_BYTES])
{
    return open_context(out, OPEN_GROUP, error);
}

int shoal_open_link(struct shoal **out, char error[SHOAL_ERROR_BYTES])
{
    return open_context(out, OPEN_LINK, error);
}

int shoal_join(struct shoal *s)
{
    if (s->elastic.is_on) {
        return client_fail(s, ERR_USAGE, "an elastic worker joins its group by shoal_step_begin");
    }
    return s->state == CLIENT_ALONE || s->workers != NULL ? 0 : form_group(s);
}

int shoal_open_elastic(struct shoal **out, char error[SHOAL_ERROR_BYTES])
{
    return open_context(out, OPEN_ELASTIC, error);
}

void shoal_close(struct shoal **shoal)
{
    if (*shoal != NULL) {
        (void)shoal_flush(*shoal, 5000);
        destroy(*shoal);
        *shoal = NULL;
    }
}

/* ---- this worker's place ---- */

const char *shoal_error(const struct shoal *s)
{
    return s->error;
}

uint32_t shoal_rank(const struct shoal *s)
{
    return s->rank;
}

uint32_t shoal_size(const struct shoal *s)
{
    return s->size;
}

uint64_t shoal_generation(const struct shoal *s)
{
    return s->generation;
}

const char *shoal_experiment(const struct shoal *s)
{
    return s->experiment;
}

uint32_t shoal_trial(const struct shoal *s)
{
    return s->trial;
}

uint32_t shoal_attempt(const struct shoal *s)
{
    return s->attempt;
}

uint64_t shoal_seed(const struct shoal *s)
{
    return s->seed;
}

uint64_t shoal_start_step(const struct shoal *s)
{
    return s->start_step;
}

uint64_t shoal_until(const struct shoal *s, uint64_t length)
{
    uint32_t rung = 0;
    while (rung + 1 < s->rung_count && s->rungs[rung] <= length) {
        rung++;
    }
    return s->rung_count > 0 ? s->rungs[rung] : SHOAL_UNBOUNDED;
}

/* ---- hyperparameters ---- */

const uint8_t *shoal_hparams(const struct shoal *s, size_t *bytes)
{
    *bytes = s->hparams_bytes;
    return s->hparams;
}

static int wrong_type(struct shoal *s, const char *path, const char *wanted)
{
    return client_fail(s, ERR_MALFORMED, "hyperparameter '%s' must be %s", path, wanted);
}

int shoal_hparam_double(struct shoal *s, const char *path, double fallback, double *out)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    if (error == ERR_NOT_FOUND) {
        *out = fallback;
        return 0;
    }
    double number = error == 0 ? pack_read_double(&value) : 0;
    if (error != 0 || value.failed) {
        return wrong_type(s, path, "a number");
    }
    *out = number;
    return 0;
}

int shoal_hparam_int(struct shoal *s, const char *path, int64_t fallback, int64_t *out)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    if (error == ERR_NOT_FOUND) {
        *out = fallback;
        return 0;
    }
    if (error != 0 || hparams_read_int(&value, out) != 0) {
        return wrong_type(s, path, "a whole number");
    }
    return 0;
}

int shoal_hparam_text(struct shoal *s, const char *path, const char *fallback, char *out, size_t size)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    size_t bytes = 0;
    const char *text = fallback;
    if (error == ERR_NOT_FOUND) {
        if (fallback == NULL) {
            return ERR_NOT_FOUND;
        }
        bytes = strlen(fallback);
    } else {
        text = error == 0 ? pack_read_text(&value, &bytes) : NULL;
        if (error != 0 || value.failed || memchr(text, 0, bytes) != NULL) {
            return wrong_type(s, path, "a text");
        }
    }
    if (bytes >= size) {
        return client_fail(s, ERR_FULL, "hyperparameter '%s' is longer than %zu bytes", path, size - 1);
    }
    bytes_copy_text_n(out, size, text, bytes);
    return 0;
}

int shoal_hparam_int_list(struct shoal *s, const char *path, const int64_t *fallback, size_t fallback_count, int64_t *out,
                          size_t capacity, size_t *count)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    if (error == ERR_NOT_FOUND) {
        if (fallback_count > capacity) {
            return ERR_FULL;
        }
        memcpy(out, fallback, fallback_count * sizeof *out);
        *count = fallback_count;
        return 0;
    }
    uint32_t length = error != 0 ? 0 : pack_peek(&value) == PACK_ARRAY ? pack_read_array(&value) : 1;
    if (length > capacity) {
        return client_fail(s, ERR_FULL, "hyperparameter '%s' has more than %zu entries", path, capacity);
    }
    for (uint32_t i = 0; i < length && error == 0; i++) {
        error = hparams_read_int(&value, &out[i]);
    }
    if (error != 0 || value.failed) {
        return wrong_type(s, path, "a whole number or a list of whole numbers");
    }
    *count = length;
    return 0;
}

/* ---- collectives ---- */

_Static_assert((int)SHOAL_F32 == (int)ELEMENT_F32 && (int)SHOAL_F16 == (int)ELEMENT_F16 &&
                   (int)SHOAL_BF16 == (int)ELEMENT_BF16 && (int)SHOAL_BYTES == (int)ELEMENT_BYTES,
               "one list of types");

int client_watch_fd(const struct shoal *s)
{
    return s->revoke.watch != NULL ? s->fd : -1;
}

int client_collective_result(struct shoal *s, int error)
{
    if (error == 0) {
        return 0;
    }
    (void)client_fail(s, error, "%s", group_error(s->workers));
    return s->elastic.is_on ? client_elastic_failed(s, error) : error;
}

/* ERR_USAGE after shoal_open_link without shoal_join. */
static int check_group(struct shoal *s)
{
    bool is_missing = s->state != CLIENT_ALONE && !s->elastic.is_on && s->workers == NULL;
    return is_missing ? client_fail(s, ERR_USAGE, "there is no group yet: call shoal_join before the first collective") : 0;
}

/* Before a collective: waits for the all-reduces begun earlier. */
static int settle(struct shoal *s)
{
    if (s->elastic.is_on && !s->elastic.in_group) {
        return SHOAL_AGAIN;
    }
    int missing = check_group(s);
    if (missing != 0) {
        return missing;
    }
    bool is_busy = client_background_is_busy(s), was_working = is_busy && client_balance_pause(s);
    uint64_t begin_ns = is_busy ? client_link_now_ns() : 0;
    int error = client_background_wait(s);
    if (is_busy) {
        client_profile_collective(s, SPAN_SUMS, begin_ns, 0);
    }
    client_balance_resume(s, was_working);
    s->revoke.watch_fd = client_watch_fd(s);
    return error;
}

static int check_elements(struct shoal *s, const void *values, enum shoal_type type, bool moves)
{
    enum element_type element = (enum element_type)type;
    if (!ELEMENT_ADDS(element) && !(moves && element == ELEMENT_BYTES)) {
        return client_fail(s, ERR_USAGE, "there is no sum of type %d: elements are SHOAL_F32, SHOAL_F16 or SHOAL_BF16",
                           (int)type);
    }
    size_t bytes = element_type_bytes(element);
    if ((uintptr_t)values % bytes != 0) {
        return client_fail(s, ERR_USAGE, "elements of %zu bytes must be aligned to them", bytes);
    }
    return 0;
}

static int run_group(struct group *group, enum client_call_kind kind, enum element_type type, void *values, uint64_t count,
                     uint32_t root)
{
    switch (kind) {
    case CLIENT_CALL_ALL_REDUCE:
        return group_all_reduce(group, type, values, count);
    case CLIENT_CALL_REDUCE_SCATTER:
        return group_reduce_scatter(group, type, values, count);
    case CLIENT_CALL_ALL_GATHER:
        return group_all_gather(group, type, values, count);
    case CLIENT_CALL_BROADCAST:
        return group_broadcast(group, values, count, root);
    default:
        return group_barrier(group);
    }
}

static enum span_kind span_of(enum client_call_kind kind)
{
    static const enum span_kind kinds[] = {[CLIENT_CALL_ALL_REDUCE] = SPAN_ALL_REDUCE,
                                           [CLIENT_CALL_BROADCAST] = SPAN_BROADCAST,
                                           [CLIENT_CALL_BARRIER] = SPAN_BARRIER,
                                           [CLIENT_CALL_COMMIT] = SPAN_COMMIT,
                                           [CLIENT_CALL_REDUCE_SCATTER] = SPAN_REDUCE_SCATTER,
                                           [CLIENT_CALL_ALL_GATHER] = SPAN_ALL_GATHER};
    return kinds[kind];
}

/* Outside Shoal there is no other rank to wait for. */
static int run(struct shoal *s, enum client_call_kind kind, enum element_type type, void *values, uint64_t count, uint32_t root)
{
    if (s->workers == NULL) {
        return 0;
    }
    bool was_working = client_balance_pause(s);
    uint64_t begin_ns = client_link_now_ns();
    int error = client_collective_result(s, run_group(s->workers, kind, type, values, count, root));
    client_profile_collective(s, span_of(kind), begin_ns, count * element_type_bytes(type));
    client_balance_resume(s, was_working);
    return error;
}

static int collective(struct shoal *s, enum client_call_kind kind, enum element_type type, void *values, size_t count,
                      uint32_t root)
{
    int error = settle(s);
    if (error != 0) {
        return error;
    }
    (void)client_call_note(s, kind, type, count);
    return run(s, kind, type, values, count, root);
}

static struct client_begun begin(struct shoal *s, void *values, size_t count, enum shoal_type type)
{
    struct client_begun what = {.values = values, .count = count, .type = (enum element_type)type};
    what.call = client_call_note(s, CLIENT_CALL_ALL_REDUCE, what.type, count);
    client_finite_look(s, &what);
    return what;
}

int shoal_all_reduce(struct shoal *s, void *values, size_t count, enum shoal_type type)
{
    int error = check_elements(s, values, type, false);
    error = error != 0 ? error : settle(s);
    if (error != 0) {
        return error;
    }
    struct client_begun what = begin(s, values, count, type);
    error = run(s, CLIENT_CALL_ALL_REDUCE, what.type, values, count, 0);
    return error != 0 ? error : client_finite_judge(s, &what);
}

int shoal_all_reduce_f32(struct shoal *s, float *values, size_t count)
{
    return shoal_all_reduce(s, values, count, SHOAL_F32);
}

int shoal_reduce_scatter(struct shoal *s, void *values, size_t count, enum shoal_type type)
{
    int error = check_elements(s, values, type, false);
    return error != 0 ? error : collective(s, CLIENT_CALL_REDUCE_SCATTER, (enum element_type)type, values, count, 0);
}

int shoal_all_gather(struct shoal *s, void *values, size_t count, enum shoal_type type)
{
    int error = check_elements(s, values, type, true);
    return error != 0 ? error : collective(s, CLIENT_CALL_ALL_GATHER, (enum element_type)type, values, count, 0);
}

int shoal_all_reduce_begin(struct shoal *s, void *values, size_t count, enum shoal_type type)
{
    int error = check_elements(s, values, type, false);
    if (error == 0 && s->elastic.is_on && !s->elastic.in_group) {
        return SHOAL_AGAIN;
    }
    error = error != 0 ? error : check_group(s);
    if (error != 0) {
        return error;
    }
    struct client_begun what = begin(s, values, count, type);
    return s->workers == NULL || s->size == 1 ? client_finite_judge(s, &what) : client_background_begin(s, &what);
}

int shoal_all_reduce_wait(struct shoal *s)
{
    return settle(s);
}

void shoal_use_thread(struct shoal *s, bool is_wanted)
{
    s->background.wish = is_wanted ? CLIENT_THREAD_WANTED : CLIENT_THREAD_UNWANTED;
}

int shoal_broadcast(struct shoal *s, void *bytes, size_t count, uint32_t root)
{
    if (root >= s->size) {
        return client_fail(s, ERR_USAGE, "there is no rank %u in a group of %u", root, s->size);
    }
    return collective(s, CLIENT_CALL_BROADCAST, ELEMENT_BYTES, bytes, count, root);
}

int shoal_barrier(struct shoal *s)
{
    return collective(s, CLIENT_CALL_BARRIER, ELEMENT_BYTES, NULL, 0, 0);
}

void shoal_set_timeout(struct shoal *s, int timeout_ms)
{
    if (timeout_ms > 0) {
        s->timeout_ms = s->join_ms = timeout_ms;
    }
    if (s->workers != NULL && timeout_ms > 0) {
        client_background_settle(s);
        group_set_timeout(s->workers, timeout_ms);
    }
}

void shoal_check_finite(struct shoal *s, bool is_wanted)
{
    s->checks_finite = is_wanted;
}

/* ---- reports ---- */

#define REPORT_HEAD_BYTES 128 /* of a packed report: all but its metrics */

/* Refuses what the daemon would refuse later, at the next checkpoint or unseen by the program. `*sum`: the bytes of the names, and 12
 * for each; packed, they and their numbers have fewer. */
static int check_names(struct shoal *s, const char *group, const char *const *names, size_t count, size_t *sum)
{
    size_t bytes = 0;
    if (strlen(group) > SHOAL_GROUP_BYTES_MAX) {
        return client_fail(s, ERR_USAGE, "a group of metrics has a name of at most %d bytes; '%.40s...' is longer",
                           SHOAL_GROUP_BYTES_MAX, group);
    }
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        if (length > SHOAL_METRIC_BYTES_MAX) {
            return client_fail(s, ERR_USAGE, "a metric has a name of at most %d bytes; '%.40s...' is longer",
                               SHOAL_METRIC_BYTES_MAX, names[i]);
        }
        bytes += length + 12;
    }
    *sum = bytes;
    return bytes <= SHOAL_METRICS_BYTES_MAX
               ? 0
               : client_fail(s, ERR_USAGE,
                             "%zu metrics are too many for one report: their names, and 12 bytes for each, have %zu "
                             "bytes, at most %d fit",
                             count, bytes, SHOAL_METRICS_BYTES_MAX);
}

int shoal_report(struct shoal *s, const char *group, uint64_t step, const char *const *names, const double *values,
                 size_t count)
{
    if (s->state == CLIENT_ALONE) {
        return 0;
    }
    if (step > s->profile.step) {
        shoal_step_mark(s, step);
    }
    size_t sum = 0;
    int error = check_names(s, group, names, count, &sum);
    if (error != 0) {
        return error;
    }
    uint8_t *bytes = malloc(sum + REPORT_HEAD_BYTES);
    if (bytes == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for a report");
    }
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin_in(&writer, bytes, sum + REPORT_HEAD_BYTES, id, "worker_report", 3);
    pack_text(&writer, "group");
    pack_text(&writer, group);
    pack_text(&writer, "step");
    pack_u64(&writer, step);
    pack_text(&writer, "metrics");
    pack_map(&writer, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        pack_text(&writer, names[i]);
        pack_double(&writer, values[i]);
    }
    error = client_link_pump(s);
    if (error == 0) {
        error = client_link_push(s, &writer, id, -1, SHOAL_QUEUE_MAX);
    }
    free(bytes);
    return error != 0 ? error : client_link_pump(s);
}

/* Appends the report that is next in `reports` to the queue. ERR_MALFORMED, ERR_USAGE (a name is too long, or there are too
 * many), ERR_FULL, ERR_MEMORY. */
static int push_packed(struct shoal *s, struct pack_reader *reports)
{
    bool is_report = pack_read_array(reports) == 3;
    size_t group_bytes, metrics_bytes, name_bytes, sum = 0;
    const char *group = pack_read_text(reports, &group_bytes);
    uint64_t step = pack_read_u64(reports);
    struct pack_reader names = *reports;
    const uint8_t *metrics = pack_read_any(reports, &metrics_bytes);
    uint32_t count = pack_read_map(&names);
    bool is_long = group_bytes > SHOAL_GROUP_BYTES_MAX;
    for (uint32_t i = 0; i < count && !names.failed; i++) {
        (void)pack_read_text(&names, &name_bytes);
        (void)pack_read_double(&names);
        is_long = is_long || name_bytes > SHOAL_METRIC_BYTES_MAX;
        sum += name_bytes + 12;
    }
    if (!is_report || reports->failed || names.failed) {
        return client_fail(s, ERR_MALFORMED, "a report is not an array of a group, a step and a map of names to numbers");
    }
    if (is_long || sum > SHOAL_METRICS_BYTES_MAX) {
        return client_fail(s, ERR_USAGE, "a report has a group above %d bytes, a name above %d, or metrics above %d in all",
                           SHOAL_GROUP_BYTES_MAX, SHOAL_METRIC_BYTES_MAX, SHOAL_METRICS_BYTES_MAX);
    }
    uint8_t *bytes = malloc(metrics_bytes + REPORT_HEAD_BYTES);
    if (bytes == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for a report");
    }
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin_in(&writer, bytes, metrics_bytes + REPORT_HEAD_BYTES, id, "worker_report", 3);
    pack_text(&writer, "group");
    pack_text_n(&writer, group, group_bytes);
    pack_text(&writer, "step");
    pack_u64(&writer, step);
    pack_text(&writer, "metrics");
    pack_raw(&writer, metrics, metrics_bytes);
    int error = client_link_push(s, &writer, id, -1, SHOAL_QUEUE_MAX);
    free(bytes);
    return error;
}

int shoal_report_packed(struct shoal *s, const void *bytes, size_t count, size_t *taken)
{
    if (s->state == CLIENT_ALONE) {
        *taken = count;
        return 0;
    }
    struct pack_reader reports;
    pack_reader_init(&reports, bytes, count);
    int error = client_link_pump(s);
    *taken = 0;
    while (error == 0 && *taken < count && s->queue_count < SHOAL_QUEUE_MAX) {
        error = push_packed(s, &reports);
        if (error == 0) {
            *taken = reports.offset;
        }
    }
    error = error == ERR_FULL ? 0 : error; /* the caller gives the rest later */
    return error != 0 ? error : client_link_pump(s);
}

int shoal_pump(struct shoal *s)
{
    return s->state == CLIENT_ALONE ? 0 : client_link_pump(s);
}

int shoal_progress(struct shoal *s, uint64_t step)
{
    if (s->state == CLIENT_ALONE) {
        return 0;
    }
    uint64_t now_ms = client_link_now_ms();
    if (s->state == CLIENT_OPEN && now_ms - s->progress_at_ms >= PROGRESS_MS && s->sent_count == s->queue_count) {
        uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
        struct pack_writer writer;
        client_link_begin(&writer, bytes, 0, "worker_progress", 1);
        pack_text(&writer, "step");
        pack_u64(&writer, step);
        if (client_link_push(s, &writer, 0, -1, CLIENT_QUEUE_SLOTS - 4) == 0) {
            s->progress_at_ms = now_ms;
        }
    }
    shoal_step_mark(s, step);
    return client_link_pump(s);
}

int shoal_flush(struct shoal *s, int timeout_ms)
{
    if (s->state == CLIENT_ALONE) {
        return 0;
    }
    uint64_t until_ms = client_link_now_ms() + (uint64_t)timeout_ms;
    for (;;) {
        int error = client_link_pump(s);
        if (error != 0) {
            return error;
        }
        if (s->queue_count == 0) {
            break;
        }
        if (client_link_now_ms() >= until_ms) {
            return client_fail(s, ERR_TIMEOUT, "the daemon has not answered %zu requests within %d ms", s->queue_count,
                               timeout_ms);
        }
        client_link_wait(s, until_ms);
    }
    int refused = s->refused != 0 ? s->refused : s->refused_save;
    s->refused = s->refused_save = 0;
    return refused;
}

bool shoal_should_stop(struct shoal *s)
{
    if (s->state != CLIENT_ALONE) {
        (void)client_link_pump(s);
    }
    return s->stop;
}

const char *shoal_stop_reason(const struct shoal *s)
{
    return s->stop_reason;
}

uint64_t shoal_durable_step(const struct shoal *s)
{
    return s->durable_step;
}
