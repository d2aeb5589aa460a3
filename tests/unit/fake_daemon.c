#include "tests/unit/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/pack.h"
#include "train/shoal/hparams.h"

#define CLIENT_BUFFER_BYTES (FRAME_BYTES_MAX + FRAME_HEAD_BYTES)

static void wake(struct fake_daemon *d)
{
    CHECK(write(d->wake[1], "x", 1) == 1);
}

static void reply_begin(struct pack_writer *w, uint8_t *bytes, size_t capacity, uint64_t id, uint32_t more)
{
    pack_writer_init(w, bytes, capacity);
    pack_map(w, 3 + more);
    pack_text(w, "id");
    pack_u64(w, id);
    pack_text(w, "ok");
    pack_bool(w, true);
    pack_text(w, "end");
    pack_bool(w, true);
}

static void reply_send(int fd, const struct pack_writer *w, int passed_fd)
{
    CHECK(!w->failed);
    (void)frame_send(fd, w->bytes, w->used_bytes, passed_fd); /* a worker that has gone is no fault of the daemon */
}

static void reply_refusal(int fd, uint64_t id)
{
    uint8_t bytes[256];
    struct pack_writer w;
    pack_writer_init(&w, bytes, sizeof bytes);
    pack_map(&w, 5);
    pack_text(&w, "id");
    pack_u64(&w, id);
    pack_text(&w, "ok");
    pack_bool(&w, false);
    pack_text(&w, "end");
    pack_bool(&w, true);
    pack_text(&w, "code");
    pack_u64(&w, 1);
    pack_text(&w, "error");
    pack_text(&w, "no worker here has this token");
    reply_send(fd, &w, -1);
}

static void serve_open(struct fake_daemon *d, struct fake_client *c, uint64_t id, const struct pack_reader *request)
{
    char token[40];
    struct pack_reader value = pack_find(request, "token");
    pack_read_text_copy(&value, token, sizeof token);
    uint8_t raw[16];
    d->open_count++;
    struct pack_reader session = pack_find(request, "session");
    uint64_t number = pack_read_u64(&session);
    CHECK(!session.failed && number != 0);
    d->session_changes += number != d->session;
    d->session = number;
    uint32_t ranks = d->generation > 0 ? FAKE_RANKS_MAX : d->size; /* others may join a group that is there */
    if (value.failed || bytes_from_hex(raw, 16, token) != 0 || raw[15] >= ranks || d->refuse) {
        reply_refusal(c->fd, id);
        return;
    }
    c->rank = raw[15];
    c->opened = true;
    (void)snprintf(c->host, sizeof c->host, "127.0.0.%u", 1 + (d->hosts > 0 ? c->rank % d->hosts : 0));
    uint8_t bytes[8192];
    struct pack_writer w;
    bool says_balance = (d->balances >> c->rank & 1) != 0; /* daemons before it do not */
    reply_begin(&w, bytes, sizeof bytes, id, 10 + says_balance);
    pack_text(&w, "experiment");
    pack_text(&w, "00112233aabbccdd");
    pack_text(&w, "trial");
    pack_u64(&w, 4);
    pack_text(&w, "attempt");
    pack_u64(&w, 2);
    pack_text(&w, "generation");
    pack_u64(&w, 1);
    pack_text(&w, "rank");
    pack_u64(&w, c->rank);
    pack_text(&w, "size");
    pack_u64(&w, c->rank < d->size ? d->size : c->rank + 1);
    pack_text(&w, "seed");
    pack_u64(&w, d->seed);
    pack_text(&w, "hyperparameters");
    pack_raw(&w, d->hyperparameters, d->hyperparameters_bytes);
    pack_text(&w, "host");
    pack_text(&w, c->host);
    pack_text(&w, "step");
    pack_u64(&w, d->checkpoint_step);
    if (says_balance) {
        pack_text(&w, "balance");
        pack_bool(&w, true);
    }
    reply_send(c->fd, &w, -1);
}

/* Of an elastic worker: {"notice": "regroup", ...}. */
static void send_regroup(const struct fake_daemon *d, const struct fake_client *c, bool at_once)
{
    uint8_t bytes[128];
    struct pack_writer w;
    pack_writer_init(&w, bytes, sizeof bytes);
    pack_map(&w, 3);
    pack_text(&w, "notice");
    pack_text(&w, "regroup");
    pack_text(&w, "generation");
    pack_u64(&w, d->generation);
    pack_text(&w, "at_once");
    pack_bool(&w, at_once);
    reply_send(c->fd, &w, -1);
}

void fake_daemon_key(uint64_t generation, uint8_t out[32])
{
    memset(out, 0x5a + (int)generation, 32);
}

static void tell_group(struct fake_daemon *d, uint32_t size, struct fake_client *const members[FAKE_RANKS_MAX])
{
    uint64_t step = d->generation == 1 ? d->checkpoint_step : 0;
    for (uint32_t i = 0; i < size; i++) {
        step = members[i]->has_state && members[i]->step > step ? members[i]->step : step;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        uint8_t bytes[2048], key[32];
        fake_daemon_key(d->generation, key);
        struct pack_writer w;
        reply_begin(&w, bytes, sizeof bytes, members[rank]->group_id, 6);
        pack_text(&w, "generation");
        pack_u64(&w, d->generation);
        pack_text(&w, "rank");
        pack_u64(&w, rank);
        pack_text(&w, "size");
        pack_u64(&w, size);
        pack_text(&w, "step");
        pack_u64(&w, step);
        pack_text(&w, "key");
        pack_bin(&w, key, sizeof key);
        pack_text(&w, "members");
        pack_array(&w, size);
        for (uint32_t i = 0; i < size; i++) {
            pack_array(&w, 4);
            pack_u64(&w, i);
            pack_text(&w, members[i]->host);
            pack_u64(&w, members[i]->port);
            pack_bool(&w, members[i]->has_state && members[i]->step == step);
        }
        reply_send(members[rank]->fd, &w, -1);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        members[rank]->group_id = 0;
        members[rank]->is_in = true;
    }
}

/* The first group is of `size` workers, a further one of all who are there: once nobody is in the last one any more. */
static void form_group(struct fake_daemon *d)
{
    struct fake_client *members[FAKE_RANKS_MAX];
    uint32_t waiting = 0;
    bool is_left = true;
    for (uint32_t rank = 0; rank < FAKE_RANKS_MAX; rank++) {
        for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
            struct fake_client *c = &d->clients[k];
            if (c->fd >= 0 && c->opened && c->rank == rank && c->group_id != 0) {
                members[waiting++] = c;
                break;
            }
        }
    }
    for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
        is_left &= d->clients[k].fd < 0 || !d->clients[k].is_in;
    }
    if (waiting > 0 && is_left && !d->hold_groups && (d->generation > 0 || waiting == d->size)) {
        d->generation++;
        tell_group(d, waiting, members);
    }
}

static bool flag(const struct pack_reader *request, const char *key)
{
    struct pack_reader value = pack_find(request, key);
    return !value.failed && pack_read_bool(&value);
}

static void serve_group(struct fake_daemon *d, struct fake_client *c, uint64_t id, const struct pack_reader *request)
{
    struct pack_reader port = pack_find(request, "port"), step = pack_find(request, "step");
    c->port = (uint16_t)pack_read_u64(&port);
    c->is_elastic = flag(request, "elastic");
    c->has_state = flag(request, "has_state");
    c->step = c->has_state ? pack_read_u64(&step) : 0;
    c->is_in = false;
    d->group_count++;
    c->group_id = id;
    for (size_t k = 0; k < FAKE_CLIENTS_MAX && d->generation > 0; k++) { /* somebody joins, or has left */
        if (d->clients[k].fd >= 0 && d->clients[k].is_in) {
            send_regroup(d, &d->clients[k], c->has_state);
        }
    }
    form_group(d);
}

static void send_notice(struct fake_daemon *d, const char *notice, uint64_t step)
{
    uint8_t bytes[128];
    struct pack_writer w;
    pack_writer_init(&w, bytes, sizeof bytes);
    pack_map(&w, 6);
    pack_text(&w, "notice");
    pack_text(&w, notice);
    pack_text(&w, "trace"); /* of two steps, from now on */
    pack_u64(&w, step);
    pack_text(&w, "steps");
    pack_u64(&w, 2);
    pack_text(&w, "from_ns");
    pack_u64(&w, 0);
    pack_text(&w, "reason");
    pack_text(&w, "pause");
    pack_text(&w, "step");
    pack_u64(&w, step);
    for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
        if (d->clients[k].fd >= 0) {
            reply_send(d->clients[k].fd, &w, -1);
        }
    }
}

static double metric(const struct pack_reader *metrics, const char *name)
{
    struct pack_reader value = pack_find(metrics, name);
    double number = pack_read_double(&value);
    return value.failed ? -1 : number;
}

static void serve_report(struct fake_daemon *d, struct fake_client *c, uint64_t id, const struct pack_reader *request)
{
    struct pack_reader group = pack_find(request, "group"), step = pack_find(request, "step");
    struct pack_reader metrics = pack_find(request, "metrics");
    CHECK(d->report_count < FAKE_REPORTS_MAX);
    struct fake_report *r = &d->reports[d->report_count];
    pack_read_text_copy(&group, r->group, sizeof r->group);
    r->step = pack_read_u64(&step);
    r->loss = metric(&metrics, "loss");
    r->accuracy = metric(&metrics, "accuracy");
    CHECK(!group.failed && !step.failed && !metrics.failed);
    d->report_count++;
    if (id != 0 && d->refuse_reports > 0) {
        d->refuse_reports--;
        reply_refusal(c->fd, id);
    } else if (id != 0 && !d->mute_reports) {
        uint8_t bytes[64];
        struct pack_writer w;
        reply_begin(&w, bytes, sizeof bytes, id, 0);
        reply_send(c->fd, &w, -1);
    }
}

static void answer_save(int fd, uint64_t id)
{
    uint8_t bytes[64];
    struct pack_writer w;
    reply_begin(&w, bytes, sizeof bytes, id, 0);
    reply_send(fd, &w, -1);
}

static void serve_save(struct fake_daemon *d, struct fake_client *c, uint64_t id, const struct pack_reader *request)
{
    struct pack_reader step = pack_find(request, "step"), length = pack_find(request, "bytes");
    int fd = c->reader.fds[0];
    memmove(c->reader.fds, c->reader.fds + 1, 3 * sizeof(int));
    c->reader.fds[3] = -1;
    CHECK(fd >= 0);
    CHECK((fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0);
    CHECK((fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE) == 0);
    size_t count = (size_t)pack_read_u64(&length);
    uint8_t *bytes = malloc(count);
    CHECK(bytes != NULL);
    CHECK(pread(fd, bytes, count, 0) == (ssize_t)count);
    struct pack_reader cuts = pack_find(request, "cuts");
    d->cut_count = (size_t)pack_read_u64(&cuts);
    for (size_t i = 0; i < d->cut_count && i < sizeof d->cuts / sizeof d->cuts[0]; i++) {
        uint8_t packed[8];
        CHECK(pread(fd, packed, sizeof packed, (off_t)(count + i * sizeof packed)) == (ssize_t)sizeof packed);
        d->cuts[i] = bytes_get_u64(packed);
    }
    (void)close(fd);
    uint64_t of_step = pack_read_u64(&step);
    CHECK(!step.failed && !length.failed);
    struct pack_reader save = pack_find(request, "save"), parts = pack_find(request, "parts"), part = pack_find(request, "part");
    d->saved_part.save = pack_read_u64(&save);
    d->saved_part.parts = (uint32_t)pack_read_u64(&parts);
    d->saved_part.part = (uint32_t)pack_read_u64(&part);
    if (d->refuse_saves > 0) {
        d->refuse_saves--;
        free(bytes);
        reply_refusal(c->fd, id);
        return;
    }
    free(d->checkpoint);
    d->checkpoint = bytes;
    d->checkpoint_bytes = count;
    d->checkpoint_step = of_step;
    d->save_count++;
    if (d->hold_saves) {
        CHECK(d->held_count < 8);
        d->held_ids[d->held_count] = id;
        d->held_fds[d->held_count++] = c->fd;
    } else {
        answer_save(c->fd, id);
    }
}

static void serve_parts(const struct fake_daemon *d, const struct fake_client *c, uint64_t id)
{
    uint8_t bytes[128];
    struct pack_writer w;
    reply_begin(&w, bytes, sizeof bytes, id, 1);
    pack_text(&w, "parts");
    pack_u64(&w, d->loadable_parts);
    reply_send(c->fd, &w, -1);
}

static void serve_load(struct fake_daemon *d, struct fake_client *c, uint64_t id, const struct pack_reader *request)
{
    uint8_t bytes[128];
    struct pack_writer w;
    struct pack_reader part = pack_find(request, "part");
    d->loaded_part = part.failed ? UINT64_MAX : pack_read_u64(&part);
    struct pack_reader ranges = pack_find(request, "ranges");
    const uint8_t *packed = pack_read_bin(&ranges, &d->loaded_range_bytes);
    d->loaded_range_bytes = ranges.failed ? 0 : d->loaded_range_bytes;
    CHECK(d->loaded_range_bytes <= sizeof d->loaded_ranges);
    if (d->loaded_range_bytes > 0) {
        memcpy(d->loaded_ranges, packed, d->loaded_range_bytes);
    }
    if (d->checkpoint == NULL) {
        reply_begin(&w, bytes, sizeof bytes, id, 1);
        pack_text(&w, "found");
        pack_bool(&w, false);
        reply_send(c->fd, &w, -1);
        return;
    }
    int fd = memfd_create("fake-checkpoint", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(write(fd, d->checkpoint, d->checkpoint_bytes) == (ssize_t)d->checkpoint_bytes);
    reply_begin(&w, bytes, sizeof bytes, id, 3);
    pack_text(&w, "found");
    pack_bool(&w, true);
    pack_text(&w, "step");
    pack_u64(&w, d->checkpoint_step);
    pack_text(&w, "bytes");
    pack_u64(&w, d->checkpoint_bytes);
    reply_send(c->fd, &w, fd);
    (void)close(fd);
}

static uint64_t number_of(const struct pack_reader *request, const char *key)
{
    struct pack_reader value = pack_find(request, key);
    uint64_t number = pack_read_u64(&value);
    CHECK(!value.failed);
    return number;
}

static void serve(struct fake_daemon *d, struct fake_client *c, const uint8_t *bytes, size_t count)
{
    struct pack_reader request;
    pack_reader_init(&request, bytes, count);
    struct pack_reader id_value = pack_find(&request, "id"), op_value = pack_find(&request, "op");
    uint64_t id = pack_read_u64(&id_value);
    char op[32];
    pack_read_text_copy(&op_value, op, sizeof op);
    CHECK(!id_value.failed && !op_value.failed);
    CHECK(c->opened || strcmp(op, "worker_open") == 0); /* worker_open is the first on every connection */
    if (strcmp(op, "worker_open") == 0) {
        serve_open(d, c, id, &request);
    } else if ((d->fenced >> c->rank & 1) != 0) {
        reply_refusal(c->fd, id);
    } else if (strcmp(op, "worker_group") == 0) {
        serve_group(d, c, id, &request);
    } else if (strcmp(op, "worker_report") == 0) {
        serve_report(d, c, id, &request);
    } else if (strcmp(op, "worker_progress") == 0) {
        struct pack_reader step = pack_find(&request, "step");
        d->progress_step = pack_read_u64(&step);
    } else if (strcmp(op, "worker_profile") == 0) {
        d->profile_steps += number_of(&request, "steps");
        d->profile_step_ns += number_of(&request, "step_ns");
        d->profile_collective_ns += number_of(&request, "collective_ns");
        d->profile_data_ns += number_of(&request, "data_ns");
    } else if (strcmp(op, "worker_spans") == 0) {
        struct pack_reader spans = pack_find(&request, "spans");
        uint32_t span_count = pack_read_array(&spans);
        CHECK(span_count <= SPANS_MAX);
        for (d->span_count = 0; d->span_count < span_count; d->span_count++) {
            CHECK(span_read(&spans, &d->spans[d->span_count]));
        }
        d->trace = number_of(&request, "trace");
    } else if (strcmp(op, "worker_save") == 0 || strcmp(op, "worker_save_part") == 0) {
        serve_save(d, c, id, &request);
    } else if (strcmp(op, "worker_parts") == 0) {
        serve_parts(d, c, id);
    } else {
        CHECK(strcmp(op, "worker_load") == 0);
        serve_load(d, c, id, &request);
    }
}

static void client_close(struct fake_client *c)
{
    (void)close(c->fd);
    frame_reader_close(&c->reader);
    free(c->reader.buffer);
    *c = (struct fake_client){.fd = -1};
}

/* Nobody waits for those answers any more, and the number of the descriptor will be another's. */
static void forget_held(struct fake_daemon *d, int fd)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->held_count; i++) {
        d->held_ids[kept] = d->held_ids[i];
        d->held_fds[kept] = d->held_fds[i];
        kept += d->held_fds[i] != fd;
    }
    d->held_count = kept;
}

static void accept_client(struct fake_daemon *d)
{
    int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (size_t k = 0; fd >= 0 && k < FAKE_CLIENTS_MAX; k++) {
        struct fake_client *c = &d->clients[k];
        if (c->fd < 0) {
            uint8_t *buffer = malloc(CLIENT_BUFFER_BYTES);
            CHECK(buffer != NULL);
            *c = (struct fake_client){.fd = fd};
            frame_reader_init(&c->reader, buffer, CLIENT_BUFFER_BYTES);
            return;
        }
    }
    CHECK(fd < 0);
}

static void read_client(struct fake_daemon *d, struct fake_client *c)
{
    if (frame_reader_fill(&c->reader, c->fd) != 0) {
        bool was_in = c->is_in && c->is_elastic;
        forget_held(d, c->fd);
        client_close(c);
        for (size_t k = 0; k < FAKE_CLIENTS_MAX && was_in; k++) {
            if (d->clients[k].fd >= 0 && d->clients[k].is_in && d->tells_of_losses) {
                send_regroup(d, &d->clients[k], true);
            }
        }
        form_group(d);
        return;
    }
    const uint8_t *bytes;
    size_t count;
    int no_fd;
    while (frame_reader_next(&c->reader, &bytes, &count, 0, &no_fd) == 0) {
        serve(d, c, bytes, count);
    }
}

static void *daemon_thread(void *argument)
{
    struct fake_daemon *d = argument;
    for (;;) {
        struct pollfd fds[FAKE_CLIENTS_MAX + 2];
        (void)pthread_mutex_lock(&d->mutex);
        d->serves = true;
        (void)pthread_cond_broadcast(&d->changed);
        if (d->quit) {
            break;
        }
        for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
            fds[k] = (struct pollfd){.fd = d->clients[k].fd, .events = POLLIN};
        }
        fds[FAKE_CLIENTS_MAX] = (struct pollfd){.fd = d->listen_fd, .events = POLLIN};
        fds[FAKE_CLIENTS_MAX + 1] = (struct pollfd){.fd = d->wake[0], .events = POLLIN};
        (void)pthread_mutex_unlock(&d->mutex);
        (void)poll(fds, FAKE_CLIENTS_MAX + 2, -1);
        (void)pthread_mutex_lock(&d->mutex);
        char drain[16];
        if (fds[FAKE_CLIENTS_MAX + 1].revents != 0) {
            CHECK(read(d->wake[0], drain, sizeof drain) > 0);
        }
        for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
            if (fds[k].revents != 0 && d->clients[k].fd == fds[k].fd) {
                read_client(d, &d->clients[k]);
            }
        }
        if (fds[FAKE_CLIENTS_MAX].revents != 0 && d->listen_fd >= 0) {
            accept_client(d);
        }
        (void)pthread_mutex_unlock(&d->mutex);
    }
    (void)pthread_mutex_unlock(&d->mutex);
    return NULL;
}

static void begin_listening(struct fake_daemon *d)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(bytes_copy_text(address.sun_path, sizeof address.sun_path, d->path));
    (void)unlink(d->path);
    d->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(d->listen_fd >= 0);
    CHECK(bind(d->listen_fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(d->listen_fd, 32) == 0);
}

void fake_daemon_start(struct fake_daemon *d, uint32_t size, uint64_t seed, const char *json)
{
    static unsigned count;
    memset(d, 0, sizeof *d);
    CHECK(size <= FAKE_RANKS_MAX);
    CHECK(pthread_mutex_init(&d->mutex, NULL) == 0);
    CHECK(pthread_cond_init(&d->changed, NULL) == 0);
    (void)snprintf(d->path, sizeof d->path, "/tmp/shoal-fake-%d-%u.sock", (int)getpid(), count++);
    d->size = size;
    d->seed = seed;
    for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
        d->clients[k].fd = -1;
    }
    struct pack_writer w;
    pack_writer_init(&w, d->hyperparameters, sizeof d->hyperparameters);
    CHECK(hparams_from_json(json, &w) == 0);
    d->hyperparameters_bytes = w.used_bytes;
    CHECK(pipe2(d->wake, O_CLOEXEC) == 0);
    begin_listening(d);
    (void)pthread_mutex_lock(&d->mutex);
    CHECK(pthread_create(&d->thread, NULL, daemon_thread, d) == 0);
    while (!d->serves) { /* for fake_daemon_fork: a thread that begins may hold a lock of an allocator */
        CHECK(pthread_cond_wait(&d->changed, &d->mutex) == 0);
    }
    (void)pthread_mutex_unlock(&d->mutex);
}

static void close_all(struct fake_daemon *d)
{
    if (d->listen_fd >= 0) {
        (void)close(d->listen_fd);
        (void)unlink(d->path);
        d->listen_fd = -1;
    }
    for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
        if (d->clients[k].fd >= 0) {
            client_close(&d->clients[k]);
        }
    }
    d->held_count = 0;
}

void fake_daemon_stop(struct fake_daemon *d)
{
    (void)pthread_mutex_lock(&d->mutex);
    d->quit = true;
    (void)pthread_mutex_unlock(&d->mutex);
    wake(d);
    (void)pthread_join(d->thread, NULL);
    close_all(d);
    free(d->checkpoint);
    (void)close(d->wake[0]);
    (void)close(d->wake[1]);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->mutex);
}

void fake_daemon_break(struct fake_daemon *d)
{
    (void)pthread_mutex_lock(&d->mutex);
    close_all(d);
    (void)pthread_mutex_unlock(&d->mutex);
    wake(d);
}

void fake_daemon_return(struct fake_daemon *d)
{
    (void)pthread_mutex_lock(&d->mutex);
    begin_listening(d);
    (void)pthread_mutex_unlock(&d->mutex);
    wake(d);
}

void fake_daemon_release_saves(struct fake_daemon *d)
{
    (void)pthread_mutex_lock(&d->mutex);
    d->hold_saves = false;
    for (size_t i = 0; i < d->held_count; i++) {
        answer_save(d->held_fds[i], d->held_ids[i]);
    }
    d->held_count = 0;
    (void)pthread_mutex_unlock(&d->mutex);
}

void fake_daemon_let_form(struct fake_daemon *d)
{
    (void)pthread_mutex_lock(&d->mutex);
    d->hold_groups = false;
    form_group(d);
    (void)pthread_mutex_unlock(&d->mutex);
}

static struct fake_client *client_of(struct fake_daemon *d, uint32_t rank)
{
    for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
        if (d->clients[k].fd >= 0 && d->clients[k].opened && d->clients[k].rank == rank) {
            return &d->clients[k];
        }
    }
    return NULL;
}

void fake_daemon_expel(struct fake_daemon *d, uint32_t rank, bool tells)
{
    (void)pthread_mutex_lock(&d->mutex);
    struct fake_client *gone = client_of(d, rank);
    if (gone != NULL) {
        gone->is_in = false;
    }
    for (size_t k = 0; k < FAKE_CLIENTS_MAX; k++) {
        if (d->clients[k].fd >= 0 && d->clients[k].is_in && tells) {
            send_regroup(d, &d->clients[k], true);
        }
    }
    form_group(d);
    (void)pthread_mutex_unlock(&d->mutex);
}

uint16_t fake_daemon_port(struct fake_daemon *d, uint32_t rank)
{
    (void)pthread_mutex_lock(&d->mutex);
    struct fake_client *c = client_of(d, rank);
    uint16_t port = c != NULL ? c->port : 0;
    (void)pthread_mutex_unlock(&d->mutex);
    return port;
}

void fake_daemon_next_attempt(struct fake_daemon *d, uint32_t size)
{
    (void)pthread_mutex_lock(&d->mutex);
    d->size = size;
    d->generation = 0;
    (void)pthread_mutex_unlock(&d->mutex);
}

void fake_daemon_notice(struct fake_daemon *d, const char *notice, uint64_t step)
{
    (void)pthread_mutex_lock(&d->mutex);
    send_notice(d, notice, step);
    (void)pthread_mutex_unlock(&d->mutex);
}

bool fake_daemon_wait(struct fake_daemon *d, const size_t *field, size_t at_least)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    (void)pthread_mutex_lock(&d->mutex);
    int error = 0;
    while (*field < at_least && error == 0) {
        error = pthread_cond_timedwait(&d->changed, &d->mutex, &until);
    }
    bool reached = *field >= at_least;
    (void)pthread_mutex_unlock(&d->mutex);
    return reached;
}

pid_t fake_daemon_fork(struct fake_daemon *d)
{
    (void)pthread_mutex_lock(&d->mutex);
    pid_t pid = fork();
    (void)pthread_mutex_unlock(&d->mutex);
    return pid;
}

void fake_daemon_environment(const struct fake_daemon *d, uint32_t rank)
{
    char token[40];
    (void)snprintf(token, sizeof token, "00112233445566778899aabbccddee%02x", rank);
    (void)setenv("SHOAL_SOCKET", d->path, 1);
    (void)setenv("SHOAL_TOKEN", token, 1);
}
