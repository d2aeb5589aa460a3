#ifndef TESTS_UNIT_KEEP_FIXTURE_H
#define TESTS_UNIT_KEEP_FIXTURE_H
/* shoal-keep with real processes: what a daemon relies on when a worker ends, will not end, or outlives the daemon. Waiting
 * is always for something that is looked at again and again until a deadline, never for a time. */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/keep/keep.h"

#define DEADLINE_MS 30000
#define LEASE_MS 60000

extern char root[256]; /* a directory of the test, with `runs` and the lock of a slot in it */
extern char runs[300];
extern char lock_path[300];

/* What every run has. */
extern const lease_token token;
extern const char token_hex[];
extern const char identity[21];

uint64_t clock_ms(void);

#define WAIT_UNTIL(condition)                                  \
    do {                                                       \
        uint64_t end_ms_ = clock_ms() + DEADLINE_MS;           \
        while (!(condition)) {                                 \
            if (clock_ms() > end_ms_) {                        \
                fail_msg("never came true: %s", #condition);   \
            }                                                  \
            (void)poll(NULL, 0, 5);                            \
        }                                                      \
    } while (0)

struct run {
    char directory[600];
    char work[640];
    struct keep_spec spec;
    const char *locks[1];
};

void run_make(struct run *run, const char *name, const char *entrypoint);
void spawn(const struct run *run, struct keep_link *link);
void event_wait(struct keep_link *link, enum keep_event_kind kind, struct keep_event *out);

/* Waits for both events; the same end is on disk. */
struct keep_status end_wait(struct keep_link *link);

struct keep_status run_whole(const char *name, const char *entrypoint);
const char *log_text(const char *directory); /* valid until the next call */

/* In the working directory: a line that is whole; a process id; an empty file. */
bool file_has(const struct run *run, const char *name, char *text, size_t size);
pid_t pid_wait(const struct run *run, const char *name);
void touch(const struct run *run, const char *name);

/* The state letter of ps; 0 if there is no such process. */
char process_state(pid_t pid);

/* A zombie is gone too: whoever reaps orphans here may be slow. */
bool is_gone(pid_t pid);
bool keep_said_nothing(const char *directory);

/* ---- for cmocka ---- */

int setup(void **state);
int teardown(void **state);
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
