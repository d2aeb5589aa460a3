#ifndef NODE_DAEMON_GROUND_JOBS_H
#define NODE_DAEMON_GROUND_JOBS_H
/* A thread for work that may take long (disk, hashing, starting processes), one job after the other, so that the
 * protocol thread never waits. A job belongs to one thread at a time: to the caller until jobs_run, to the worker
 * thread while `work` runs, and to the caller again when jobs_collect calls `done`. */

/* The head of a job; the caller embeds it as the first member of a larger struct. */
struct job {
    void (*work)(struct job *job);                /* in the worker thread */
    void (*done)(void *context, struct job *job); /* in the caller's thread; frees or reuses the job */
    struct job *next;
};

struct jobs;

/* Starts the thread. `name` shows in process listings (at most 15 characters). The caller owns `*out` until jobs_close.
 * ERR_MEMORY; ERR_IO: no thread or descriptor; `*out` is then unchanged. */
int jobs_open(const char *name, struct jobs **out);

/* Waits for the running job and all queued jobs, calls `done` of each with `context`, ends the thread, frees the queue
 * and sets `*jobs` to NULL. NULL is allowed. */
void jobs_close(struct jobs **jobs, void *context);

/* A descriptor to poll for reading: readable while finished jobs wait for jobs_collect. The queue owns the descriptor. */
int jobs_fd(const struct jobs *jobs);

/* Queues a job: `work` runs in the thread, in the order of the calls. `job` must stay valid until its `done` is called. */
void jobs_run(struct jobs *jobs, struct job *job);

/* Calls `done` of every finished job, in the order of jobs_run. */
void jobs_collect(struct jobs *jobs, void *context);

#endif
