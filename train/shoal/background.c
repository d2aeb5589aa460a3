/* The all-reduces begun by the program. They are carried out in turn, by the first thread that is free: a thread of their own
 * while the program computes, and the program's thread once it waits. The extra thread exists only where it pays
 * (shoal_use_thread).
 *
 * The connection to the daemon stays with the program's thread. While that thread runs a collective, the group's waits watch
 * the daemon's descriptor; while it waits for the extra thread, it watches the descriptor itself, and passes news on by
 * revoking the group. */

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "train/shoal/link.h"

static bool is_settled(const struct client_background *b)
{
    return b->done_count == b->begun_count;
}

/* Runs the next all-reduce. Called with the mutex held and no all-reduce running; releases the mutex meanwhile. */
static void run_next(struct shoal *s, int watch_fd, bool is_thread)
{
    struct client_background *b = &s->background;
    struct client_begun next = b->begun[b->done_count];
    b->is_running = true;
    s->revoke.watch_fd = watch_fd;
    (void)pthread_mutex_unlock(&b->mutex);
    uint64_t begin_ns = client_link_now_ns();
    int error = group_all_reduce(s->workers, next.type, next.values, next.count);
    uint64_t end_ns = client_link_now_ns();
    (void)pthread_mutex_lock(&b->mutex);
    struct client_begun *done = &b->begun[b->done_count];
    done->begin_ns = begin_ns;
    done->end_ns = error == 0 ? end_ns : 0;
    done->is_thread = is_thread;
    b->is_running = false;
    b->error = error;
    b->done_count = error == 0 ? b->done_count + 1 : b->begun_count; /* a broken group would fail the rest, too */
    if (is_settled(b) && b->is_awaited) {
        (void)eventfd_write(b->done_fd, 1);
    }
}

static void *background_thread(void *argument)
{
    struct shoal *s = argument;
    struct client_background *b = &s->background;
    (void)pthread_mutex_lock(&b->mutex);
    while (!b->is_over) {
        if (is_settled(b) || b->is_running) {
            (void)pthread_cond_wait(&b->changed, &b->mutex);
        } else {
            run_next(s, -1, true);
        }
    }
    (void)pthread_mutex_unlock(&b->mutex);
    return NULL;
}

void client_background_init(struct shoal *s)
{
    cpu_set_t processors;
    bool is_known = sched_getaffinity(0, sizeof processors, &processors) == 0;
    s->background.processors = is_known ? (uint32_t)CPU_COUNT(&processors) : 1;
    (void)pthread_mutex_init(&s->background.mutex, NULL);
    (void)pthread_cond_init(&s->background.changed, NULL);
}

/* Starts the thread. It takes no signals, because signals are the program's. */
static int start(struct shoal *s)
{
    struct client_background *b = &s->background;
    b->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (b->done_fd < 0) {
        return client_fail(s, ERR_MEMORY, "no descriptor is left for the thread that reduces: %s", strerror(errno));
    }
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(&b->thread, NULL, background_thread, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (reason != 0) {
        (void)close(b->done_fd);
        return client_fail(s, ERR_MEMORY, "the thread that reduces cannot be started: %s", strerror(reason));
    }
    b->is_started = true;
    return 0;
}

static bool has_use_for_thread(const struct shoal *s)
{
    const struct client_background *b = &s->background;
    return b->wish != CLIENT_THREAD_IF_SPARE ? b->wish == CLIENT_THREAD_WANTED
                                            : group_hosts(s->workers) > 1 && group_ranks_here(s->workers) < b->processors;
}

int client_background_begin(struct shoal *s, const struct client_begun *what)
{
    struct client_background *b = &s->background;
    bool uses_thread = has_use_for_thread(s);
    int error = uses_thread && !b->is_started ? start(s) : 0;
    if (error != 0) {
        return error;
    }
    (void)pthread_mutex_lock(&b->mutex);
    if (b->error != 0) {
        /* The group is broken; shoal_all_reduce_wait reports the error. */
    } else if (b->begun_count == SHOAL_BEGUN_MAX) {
        error = ERR_FULL;
    } else {
        b->begun[b->begun_count++] = *what;
        if (uses_thread) {
            (void)pthread_cond_signal(&b->changed);
        }
    }
    (void)pthread_mutex_unlock(&b->mutex);
    return error == 0 ? 0 : client_fail(s, error, "%d all-reduces are begun already; wait for them first", SHOAL_BEGUN_MAX);
}

bool client_background_is_busy(struct shoal *s)
{
    return s->background.begun_count > 0;
}

bool client_background_has_failed(struct shoal *s)
{
    struct client_background *b = &s->background;
    (void)pthread_mutex_lock(&b->mutex);
    bool has_failed = b->error != 0;
    (void)pthread_mutex_unlock(&b->mutex);
    return has_failed;
}

static void wait_for_thread(struct shoal *s)
{
    struct client_background *b = &s->background;
    b->is_awaited = true;
    (void)pthread_mutex_unlock(&b->mutex);
    struct pollfd fds[] = {{.fd = b->done_fd, .events = POLLIN}, {.fd = s->fd, .events = POLLIN}};
    (void)poll(fds, 2, CLIENT_RETRY_MS);
    eventfd_t ignored;
    (void)eventfd_read(b->done_fd, &ignored);
    (void)client_link_pump(s); /* the next call reports a daemon that is gone for good */
    (void)pthread_mutex_lock(&b->mutex);
    b->is_awaited = false;
}

void client_background_settle(struct shoal *s)
{
    struct client_background *b = &s->background;
    if (!client_background_is_busy(s)) {
        return;
    }
    (void)pthread_mutex_lock(&b->mutex);
    while (!is_settled(b)) {
        if (b->is_running) {
            wait_for_thread(s);
        } else {
            run_next(s, client_watch_fd(s), false);
        }
    }
    (void)pthread_mutex_unlock(&b->mutex);
}

int client_background_wait(struct shoal *s)
{
    struct client_background *b = &s->background;
    if (!client_background_is_busy(s)) {
        return 0;
    }
    client_background_settle(s);
    (void)pthread_mutex_lock(&b->mutex);
    int error = b->error;
    size_t count = b->begun_count;
    b->begun_count = b->done_count = 0;
    b->error = 0;
    (void)pthread_mutex_unlock(&b->mutex);
    error = client_collective_result(s, error);
    for (size_t i = 0; i < count && error == 0; i++) {
        client_profile_begun(s, &b->begun[i]);
        error = client_finite_judge(s, &b->begun[i]);
    }
    return error;
}

static void stop(struct shoal *s)
{
    struct client_background *b = &s->background;
    (void)pthread_mutex_lock(&b->mutex);
    b->is_over = true;
    if (b->is_running) {
        revoke_set(&s->revoke);
    }
    (void)pthread_cond_signal(&b->changed);
    (void)pthread_mutex_unlock(&b->mutex);
    (void)pthread_join(b->thread, NULL);
    (void)close(b->done_fd);
}

void client_background_close(struct shoal *s)
{
    if (s->background.is_started) {
        stop(s);
    }
    (void)pthread_mutex_destroy(&s->background.mutex);
    (void)pthread_cond_destroy(&s->background.changed);
}
