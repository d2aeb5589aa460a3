/* Groups that change (DESIGN 9): how a worker leaves a broken group, waits, and enters the next group with its state, or
 * receives the state from a member. Messages of the daemon arrive even during a collective, because the group's waits watch its
 * descriptor (struct revoke). */

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/shoal/link.h"

#define BROKEN_MAX 30 /* groups in a row without an applied step: the program cannot go on */
#define FORM_MS 20000 /* from the daemon's answer until all links of the group are made */

int shoal_register(struct shoal *s, void *bytes, size_t count)
{
    struct client_elastic *e = &s->elastic;
    if (!e->is_on || e->in_group || count == 0 || e->pack != NULL) {
        return client_fail(s, ERR_USAGE, "a part of the state is registered after shoal_open_elastic, before the first "
                                         "shoal_step_begin, instead of shoal_on_state, and has at least one byte");
    }
    if (e->part_count == SHOAL_PARTS_MAX) {
        return client_fail(s, ERR_FULL, "there is room for %d parts of the state", SHOAL_PARTS_MAX);
    }
    e->parts[e->part_count++] = (struct client_part){bytes, count};
    return 0;
}

void shoal_on_load(struct shoal *s, shoal_load_state *load, void *context)
{
    s->elastic.load = load;
    s->elastic.load_context = context;
}

int shoal_on_state(struct shoal *s, shoal_pack_state *pack, shoal_unpack_state *unpack, void *context)
{
    struct client_elastic *e = &s->elastic;
    if (!e->is_on || e->in_group || e->part_count > 0) {
        return client_fail(s, ERR_USAGE, "shoal_on_state is called after shoal_open_elastic, before the first "
                                         "shoal_step_begin, instead of shoal_register");
    }
    e->pack = pack;
    e->unpack = unpack;
    e->state_context = context;
    return 0;
}

/* ---- leaving ---- */

/* Applies the daemon's request to leave; it also holds for a group that is still forming. */
static void apply_notice(struct shoal *s)
{
    struct client_elastic *e = &s->elastic;
    if (e->told_generation != s->generation || s->revoke.fd < 0) {
        return;
    }
    e->leave_wanted = true;
    if (e->told_at_once || !e->in_group) {
        revoke_set(&s->revoke);
    }
}

void client_elastic_notice(struct shoal *s, uint64_t generation, bool at_once)
{
    struct client_elastic *e = &s->elastic;
    if (e->is_on) {
        e->told_at_once = at_once || (e->told_at_once && e->told_generation == generation);
        e->told_generation = generation;
        apply_notice(s);
    }
}

static void watch(void *context)
{
    struct shoal *s = context;
    (void)client_link_pump(s); /* the next call reports a daemon that is gone for good */
    s->revoke.watch_fd = s->fd;
}

static void leave(struct shoal *s)
{
    group_close(&s->workers);
    revoke_close(&s->revoke);
    s->elastic.in_group = s->elastic.leave_wanted = false;
    client_profile_interrupt(s);
}

/* What is begun ends first, because a thread may be summing it. */
static void leave_step(struct shoal *s)
{
    if (client_background_is_busy(s)) {
        revoke_set(&s->revoke);
        (void)client_background_wait(s); /* leaves the group, unless all was summed already */
    }
    if (s->elastic.in_group) {
        leave(s);
    }
}

void shoal_leave(struct shoal *s)
{
    if (s->elastic.in_group && s->state != CLIENT_ALONE) {
        leave_step(s);
    }
}

void shoal_forget_state(struct shoal *s)
{
    struct client_elastic *e = &s->elastic;
    if (e->in_group) {
        leave_step(s);
    }
    e->has_state = false;
    e->is_torn = e->is_worn = true;
}

int client_elastic_failed(struct shoal *s, int error)
{
    if (error == ERR_USAGE || error == ERR_MEMORY) {
        return error; /* the program's own fault, or a fault that another group would not mend */
    }
    leave(s);
    return ++s->elastic.broken_count < BROKEN_MAX ? SHOAL_AGAIN : error;
}

void client_elastic_close(struct shoal *s)
{
    revoke_close(&s->revoke);
    if (s->elastic.listen_fd >= 0) {
        (void)close(s->elastic.listen_fd);
        s->elastic.listen_fd = -1;
    }
}

/* ---- entering ---- */

static int request_group(struct shoal *s, uint64_t id)
{
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    client_link_begin(&writer, bytes, id, "worker_group", 5);
    pack_text(&writer, "port");
    pack_u64(&writer, s->elastic.port);
    pack_text(&writer, "elastic");
    pack_bool(&writer, true);
    pack_text(&writer, "generation");
    pack_u64(&writer, s->elastic.has_state || s->generation > 1 ? s->generation : 0);
    pack_text(&writer, "has_state");
    pack_bool(&writer, s->elastic.has_state);
    pack_text(&writer, "step");
    pack_u64(&writer, s->elastic.applied);
    return client_link_begin_call(s, &writer, id);
}

/* Waits without a limit: the coordinator decides when there are enough workers. */
static int wait_for_group(struct shoal *s)
{
    uint64_t id = ++s->last_id;
    int error = request_group(s, id);
    while (error == 0 && s->answer == NULL) {
        error = client_link_pump_call(s);
        if (error == 0 && s->stop && s->answer == NULL) {
            error = SHOAL_STOP;
        }
        if (error == 0 && s->answer == NULL) {
            client_link_wait(s, client_link_now_ms() + CLIENT_RETRY_MS);
        }
    }
    if (error == SHOAL_STOP) {
        client_link_withdraw(s, id);
    }
    return client_link_end_call(s, error);
}

/* The first message of the rank that hands the state over. */
enum loaded { LOADED, NOT_LOADED, NOT_HERE /* another rank may be able to load */ };

struct head {
    uint64_t loaded;
    uint64_t step;
};

static int broadcast(struct shoal *s, void *bytes, size_t count, uint32_t root)
{
    if (s->workers == NULL || s->size == 1) {
        return 0;
    }
    int error = group_broadcast(s->workers, bytes, count, root);
    if (error == 0) {
        return 0;
    }
    (void)client_fail(s, error, "%s", group_error(s->workers));
    return client_elastic_failed(s, error);
}

/* Moves the state. A state received in part is neither the old state nor the new one: until all parts have arrived there is
 * none. */
static int move_parts(struct shoal *s, uint32_t root, bool takes, uint64_t step)
{
    struct client_elastic *e = &s->elastic;
    int error = 0;
    e->is_torn |= takes;
    e->is_worn |= takes && (step > 0 || e->applied > 0);
    e->has_state &= !takes;
    for (size_t i = 0; i < e->part_count && error == 0; i++) {
        error = broadcast(s, e->parts[i].bytes, e->parts[i].count, root);
    }
    e->is_torn &= error != 0;
    e->is_worn &= e->is_torn;
    return error;
}

/* Gives the packed state to the program. Until the program has taken it all, this rank has no state. */
static int unpack(struct shoal *s, const void *bytes, size_t count, uint64_t step)
{
    struct client_elastic *e = &s->elastic;
    e->is_torn = true;
    e->is_worn |= step > 0 || e->applied > 0;
    e->has_state = false;
    int error = e->unpack(e->state_context, bytes, count);
    e->is_torn = error != 0;
    e->is_worn &= e->is_torn;
    return error == 0 || s->error[0] != '\0'
               ? error
               : client_fail(s, error, "the program did not take the state of step %llu that another rank handed over",
                             (unsigned long long)step);
}

/* Moves the state that the program of rank `root` packs. The bytes arrive in memory of libshoal, so a rank that loses the root on
 * the way still has the state that it had. */
static int move_packed(struct shoal *s, uint32_t root, bool takes, uint64_t step)
{
    struct client_elastic *e = &s->elastic;
    const void *bytes = NULL;
    void *room = NULL;
    uint64_t count[2] = {0}; /* the bytes, and whether there are any */
    s->error[0] = '\0';
    int failed = s->rank == root ? e->pack(e->state_context, &bytes, (size_t *)&count[0]) : 0;
    count[1] = failed == 0;
    int error = broadcast(s, count, sizeof count, root);
    if (failed != 0 || error != 0) {
        return failed == 0 ? error : s->error[0] != '\0' ? failed : client_fail(s, failed, "the program did not pack its state");
    }
    if (count[1] == 0) {
        (void)client_fail(s, ERR_CLOSED, "rank %u could not pack the state", root);
        return client_elastic_failed(s, ERR_CLOSED);
    }
    if (s->rank != root) {
        room = malloc(count[0] > 0 ? count[0] : 1);
        if (room == NULL) {
            return client_fail(s, ERR_MEMORY, "no memory is left for the state of %llu bytes that rank %u hands over",
                               (unsigned long long)count[0], root);
        }
    }
    /* the root's bytes are the program's; a broadcast only reads them there */
    error = count[0] > 0 ? broadcast(s, s->rank == root ? (void *)(uintptr_t)bytes : room, count[0], root) : 0;
    s->error[0] = error == 0 ? '\0' : s->error[0];
    error = error == 0 && takes ? unpack(s, room, count[0], step) : error;
    free(room);
    return error;
}

/* Hands the state over from rank `root`. `takes`: this rank does not have the state of that step. */
static int hand_on(struct shoal *s, uint32_t root, bool is_fresh, bool takes, uint64_t step)
{
    struct client_elastic *e = &s->elastic;
    struct head head = {.step = step, .loaded = LOADED};
    int loaded = 0;
    if (s->rank == root && is_fresh && e->load != NULL) {
        loaded = e->load(e->load_context, &head.step);
        head.loaded = loaded == 0 ? LOADED : loaded == ERR_MEMORY ? NOT_HERE : NOT_LOADED;
    } else if (s->rank == root && is_fresh) {
        head.step = 0;
    }
    if (s->rank == root && is_fresh && loaded == 0 && head.step == 0 && e->is_worn) {
        loaded = client_fail(s, ERR_CORRUPT,
                             "there is no checkpoint, and no worker has a whole state any more");
        head.loaded = NOT_HERE;
    }
    int error = broadcast(s, &head, sizeof head, root);
    if (loaded != 0 || error != 0) {
        return loaded != 0 ? loaded : error;
    }
    if (head.loaded == NOT_HERE) {
        (void)client_fail(s, ERR_CLOSED, "rank %u had no memory to load the checkpoint, or no state to begin with", root);
        return client_elastic_failed(s, ERR_CLOSED);
    }
    if (head.loaded != LOADED) {
        return client_fail(s, ERR_CLOSED, "rank %u could not load the checkpoint", root);
    }
    error = e->pack == NULL || s->size == 1 ? move_parts(s, root, takes, head.step) : move_packed(s, root, takes, head.step);
    if (error == 0) {
        e->is_torn = e->is_worn = false;
        e->applied = head.step;
    }
    return error;
}

/* Brings the state to all ranks. All ranks with the state are at the same step (the coordinator ensures it); if every rank has
 * the state, nothing moves. */
static int get_state(struct shoal *s, const bool has_state[PLAN_RANKS_MAX], uint64_t step)
{
    struct client_elastic *e = &s->elastic;
    uint32_t root = s->size, have = 0;
    for (uint32_t rank = 0; rank < s->size; rank++) {
        have += has_state[rank];
        root = has_state[rank] && root == s->size ? rank : root;
    }
    if (has_state[s->rank] && (!e->has_state || e->applied != step)) {
        return client_fail(s, ERR_MALFORMED, "the daemon believes rank %u to be at step %llu, but the rank is not", s->rank,
                           (unsigned long long)step);
    }
    root = have > 0 ? root : 0;
    int error = have == s->size ? 0 : hand_on(s, root, have == 0, s->rank != root && !has_state[s->rank], step);
    e->has_state |= error == 0;
    return error;
}

static int come_in(struct shoal *s)
{
    struct client_elastic *e = &s->elastic;
    if (s->stop) {
        return SHOAL_STOP;
    }
    int error = wait_for_group(s);
    char group[CLIENT_GROUP_BYTES];
    struct tcp_member members[PLAN_RANKS_MAX];
    bool has_state[PLAN_RANKS_MAX] = {false};
    uint64_t step = 0;
    struct tcp_options options = client_group_options(s, group, FORM_MS);
    if (error == 0) {
        error = client_read_group(s, &options, members, has_state, &step);
    }
    client_link_drop_answer(s);
    int listen_fd = error == 0 ? fcntl(e->listen_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (error == 0 && (listen_fd < 0 || revoke_open(&s->revoke) != 0)) {
        error = client_fail(s, ERR_IO, "no descriptor is left for the group: %s", strerror(errno));
    }
    if (error != 0) {
        if (listen_fd >= 0) {
            (void)close(listen_fd);
        }
        return error;
    }
    s->revoke.watch_fd = s->fd;
    s->revoke.watch = watch;
    s->revoke.context = s;
    /* the request may have come with the answer that named the group; a group of one has no waits that would notice it */
    apply_notice(s);
    char text[GROUP_ERROR_BYTES];
    error = group_open(&s->workers, listen_fd, &options, NULL, text);
    explicit_bzero(options.key, sizeof options.key);
    if (error != 0) {
        (void)client_fail(s, error, "%s", text);
        return client_elastic_failed(s, error);
    }
    error = client_roll_call(s, has_state);
    error = error != 0 ? error : client_balance_join(s);
    error = error != 0 ? error : client_memory_place(s);
    int joined = error == 0 ? client_gpu_join(s) : 0;
    if (joined != 0) {
        return client_elastic_failed(s, joined);
    }
    error = error != 0 ? error : get_state(s, has_state, step);
    e->in_group = error == 0;
    return error;
}

static int begin_alone(struct shoal *s)
{
    struct client_elastic *e = &s->elastic;
    int error = e->load != NULL ? e->load(e->load_context, &e->applied) : 0;
    e->in_group = e->has_state = error == 0;
    return error;
}

int shoal_step_begin(struct shoal *s, uint64_t *step)
{
    struct client_elastic *e = &s->elastic;
    if (!e->is_on) {
        return client_fail(s, ERR_USAGE, "shoal_step_begin is for contexts of shoal_open_elastic");
    }
    int error = 0;
    bool is_entering = !e->in_group;
    if (s->state == CLIENT_ALONE && !e->in_group) {
        error = begin_alone(s);
    } else if (!e->in_group && e->listen_fd < 0) {
        error = client_listen(s, &e->listen_fd, &e->port);
    }
    while (error == 0 && !e->in_group) {
        error = come_in(s);
        error = error == SHOAL_AGAIN ? 0 : error;
    }
    if (error == 0) {
        *step = e->applied;
        s->call_of_step = 0;
        if (is_entering) {
            s->profile.step = e->applied;
            client_profile_restart(s);
        }
        client_balance_begin(s);
    }
    return error;
}

/* ---- a step ---- */

/* Compares the hashes of the state of all ranks. */
static int compare(struct shoal *s)
{
    struct client_elastic *e = &s->elastic;
    uint64_t hashes[PLAN_RANKS_MAX] = {0};
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, 16);
    for (size_t i = 0; i < e->part_count; i++) {
        int failed = client_gpu_hash(s, &state, e->parts[i].bytes, e->parts[i].count);
        if (failed != 0) {
            return failed;
        }
    }
    uint8_t hash[16];
    (void)crypto_generichash_final(&state, hash, sizeof hash);
    memcpy(&hashes[s->rank], hash, sizeof hashes[0]);
    int error = client_gather(s, hashes, sizeof hashes[0]);
    if (error != 0) {
        return error;
    }
    uint32_t most = 0, own = 0;
    for (uint32_t rank = 0; rank < s->size; rank++) {
        uint32_t alike = 0;
        for (uint32_t other = 0; other < s->size; other++) {
            alike += hashes[other] == hashes[rank];
        }
        most = alike > most ? alike : most;
        own = rank == s->rank ? alike : own;
    }
    if (most == s->size) {
        return 0;
    }
    client_gather_heard(s);
    if (own == most && own * 2 > s->size) {
        return 0;
    }
    return client_fail(s, ERR_CORRUPT, "after step %llu the state of rank %u is not that of %s", (unsigned long long)e->applied,
                       s->rank, most * 2 > s->size ? "the other ranks" : "any other rank");
}

int shoal_step_commit(struct shoal *s)
{
    struct client_elastic *e = &s->elastic;
    if (!e->in_group) {
        return SHOAL_AGAIN;
    }
    if (client_background_is_busy(s)) {
        return client_fail(s, ERR_USAGE,
                           "a step is committed after shoal_all_reduce_wait: not all that was begun for it is summed");
    }
    (void)client_balance_pause(s);
    e->applied++;
    e->broken_count = 0;
    if (s->state != CLIENT_ALONE) {
        (void)client_link_pump(s);
    }
    float wishes[2] = {e->leave_wanted ? 1.0f : 0.0f, s->stop ? 1.0f : 0.0f};
    (void)client_call_note(s, CLIENT_CALL_COMMIT, ELEMENT_F32, 2);
    uint64_t begin_ns = client_link_now_ns();
    int error = s->workers == NULL ? 0 : client_collective_result(s, group_all_reduce(s->workers, ELEMENT_F32, wishes, 2));
    bool stops = error == 0 && wishes[1] > 0, leaves = error == 0 && !stops && wishes[0] > 0;
    if (error == 0 && !stops && !leaves) {
        error = client_balance_commit(s);
        error = error == 0 && s->size > 1 && e->applied % SHOAL_CHECK_STEPS == 0 ? compare(s) : error;
    }
    client_profile_collective(s, SPAN_COMMIT, begin_ns, 0);
    if (e->in_group) {
        client_profile_step(s, e->applied);
    }
    s->stop |= stops;
    if (leaves) {
        leave(s);
    }
    return stops ? SHOAL_STOP : leaves ? SHOAL_AGAIN : error;
}
