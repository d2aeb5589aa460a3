#ifndef NODE_DAEMON_DISK_SERIES_FATES_H
#define NODE_DAEMON_DISK_SERIES_FATES_H
/* What becomes of the series on this node's disk, by experiment: those of a deleted experiment go, the logs of one that is over are
 * packed, and go once logs.keep has passed since its end, unless it is pinned. */

#include <stdbool.h>
#include <stddef.h>

#include "node/daemon/ground/daemon.h"

enum series_fate_kind { SERIES_DELETED, SERIES_LOGS_DELETED, SERIES_LOGS_PACKED };

struct series_fate {
    experiment_id experiment;
    enum series_fate_kind kind;
};

struct series_fates {
    struct series_fate *rows; /* sorted by experiment; experiments that go on have none */
    size_t count;
};

/* Decides it from what this node knows now. `all`: else only of logs that go. False: no memory is left. */
bool series_fates_make(const struct daemon *daemon, bool all, struct series_fates *out);

/* Does it, in a job. Errors of the store; what was done stays. */
int series_fates_apply(const struct series_fates *fates, struct chunks *chunks);

void series_fates_free(struct series_fates *fates);

#endif
