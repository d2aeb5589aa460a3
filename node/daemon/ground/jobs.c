#include "node/daemon/ground/jobs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"

struct list {
    struct job *first, *last;
};

struct jobs {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wanted;
    struct list queued, finished;
    bool closing;
    int fd;
    char name[16];
};

static void list_append(struct list *list, struct job *job)
{
    job->next = NULL;
    if (list->last != NULL) {
        list->last->next = job;
    } else {
        list->first = job;
    }
    list->last = job;
}

static struct job *list_take(struct list *list)
{
    struct job *job = list->first;
    if (job != NULL) {
        list->first = job->next;
        list->last = list->first == NULL ? NULL : list->last;
    }
    return job;
}

static void *run(void *argument)
{
    struct jobs *jobs = argument;
    (void)pthread_setname_np(pthread_self(), jobs->name);
    (void)pthread_mutex_lock(&jobs->mutex);
    for (;;) {
        struct job *job = list_take(&jobs->queued);
        if (job == NULL && jobs->closing) {
            break;
        }
        if (job == NULL) {
            (void)pthread_cond_wait(&jobs->wanted, &jobs->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&jobs->mutex);
        job->work(job);
        (void)pthread_mutex_lock(&jobs->mutex);
        list_append(&jobs->finished, job);
        (void)eventfd_write(jobs->fd, 1);
    }
    (void)pthread_mutex_unlock(&jobs->mutex);
    return NULL;
}

int jobs_open(const char *name, struct jobs **out)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs == NULL) {
        return ERR_MEMORY;
    }
    bytes_copy_text(jobs->name, sizeof jobs->name, name);
    (void)pthread_mutex_init(&jobs->mutex, NULL);
    (void)pthread_cond_init(&jobs->wanted, NULL);
    jobs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (jobs->fd < 0) {
        goto err_after_init;
    }
    if (pthread_create(&jobs->thread, NULL, run, jobs) != 0) {
        goto err_after_fd;
    }
    *out = jobs;
    return 0;
err_after_fd:
    (void)close(jobs->fd);
err_after_init:
    (void)pthread_cond_destroy(&jobs->wanted);
    (void)pthread_mutex_destroy(&jobs->mutex);
    free(jobs);
    return ERR_IO;
}

void jobs_close(struct jobs **handle, void *context)
{
    struct jobs *jobs = *handle;
    if (jobs == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&jobs->mutex);
    jobs->closing = true;
    (void)pthread_cond_signal(&jobs->wanted);
    (void)pthread_mutex_unlock(&jobs->mutex);
    (void)pthread_join(jobs->thread, NULL);
    jobs_collect(jobs, context);
    (void)close(jobs->fd);
    (void)pthread_cond_destroy(&jobs->wanted);
    (void)pthread_mutex_destroy(&jobs->mutex);
    free(jobs);
    *handle = NULL;
}

int jobs_fd(const struct jobs *jobs)
{
    return jobs->fd;
}

void jobs_run(struct jobs *jobs, struct job *job)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    list_append(&jobs->queued, job);
    (void)pthread_cond_signal(&jobs->wanted);
    (void)pthread_mutex_unlock(&jobs->mutex);
}

void jobs_collect(struct jobs *jobs, void *context)
{
    eventfd_t count;
    (void)eventfd_read(jobs->fd, &count);
    for (;;) {
        (void)pthread_mutex_lock(&jobs->mutex);
        struct job *job = list_take(&jobs->finished);
        (void)pthread_mutex_unlock(&jobs->mutex);
        if (job == NULL) {
            return;
        }
        job->done(context, job);
    }
}
