#include "node/keep/polite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/keep/text_file.h"
#include "node/keep/tree.h"

#define NICE_MAX 19
#define PROCESSES_MAX 4096

void keep_polite_process(pid_t pid)
{
    if (sched_setscheduler(pid, SCHED_IDLE, &(struct sched_param){0}) != 0) {
        (void)setpriority(PRIO_PROCESS, (id_t)pid, NICE_MAX);
    }
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, pid, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

bool keep_polite_session(pid_t pid)
{
    char path[48], text[64];
    int nice;
    if (pid != 0 && getsid(pid) == getsid(0)) {
        return true; /* a child of this process that has no session of its own, or not yet */
    }
    (void)snprintf(path, sizeof path, "/proc/%d/autogroup", (int)(pid == 0 ? getpid() : pid));
    if (!keep_text_read(text, sizeof text, "%s", path) || sscanf(text, "/autogroup-%*d nice %d", &nice) != 1 || nice == NICE_MAX) {
        return true;
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return true;
    }
    bool is_refused = dprintf(fd, "%d", NICE_MAX) < 0 && errno == EAGAIN;
    (void)close(fd);
    return !is_refused;
}

bool keep_polite_sessions(void)
{
    pid_t *pids = malloc(PROCESSES_MAX * sizeof *pids);
    size_t count = pids != NULL ? keep_tree_list(pids, PROCESSES_MAX) : 0;
    bool is_done = true;
    for (size_t i = 0; i < count && is_done; i++) {
        is_done = keep_polite_session(pids[i]);
    }
    free(pids);
    return is_done;
}
