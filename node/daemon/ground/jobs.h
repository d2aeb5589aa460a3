#ifndef NODE_DAEMON_GROUND_JOBS_H
#define NODE_DAEMON_GROUND_JOBS_H
/* A thread that does what may take long (disk, hashing, starting processes), one job after the other, so that the protocol
 * thread never waits. A job belongs to one thread at a time: to the caller until jobs_run, to the worker thread while
 * `work` runs, and to the caller again when `done` is called, from jobs_collect. */

struct job {
    void (*work)(struct job *job);                /* in the worker thread */
    void (*done)(void *context, struct job *job); /* in the caller's thread; frees or reuses the job */
    struct job *next;
};

struct jobs;

/* `name` shows in process listings (15 chars). ERR_MEMORY, ERR_IO. */
int jobs_open(const char *name, struct jobs **out);

/* Waits for the job under way and all queued ones; their `done` is called with `context`. */
void jobs_close(struct jobs **jobs, void *context);

/* To poll for reading. */
int jobs_fd(const struct jobs *jobs);

void jobs_run(struct jobs *jobs, struct job *job);

/* Calls `done` of every finished job, in the order of jobs_run. */
void jobs_collect(struct jobs *jobs, void *context);

#endif
