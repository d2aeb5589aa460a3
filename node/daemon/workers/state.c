#include "node/daemon/workers/state.h"

static const bool moves[WORKER_STATES][WORKER_STATES] = {
    [WORKER_NONE] = {[WORKER_NONE] = true, [WORKER_FETCHING] = true, [WORKER_RUNNING] = true},
    [WORKER_FETCHING] = {[WORKER_NONE] = true, [WORKER_UNPACKING] = true},
    [WORKER_UNPACKING] = {[WORKER_NONE] = true, [WORKER_FETCHING] = true, [WORKER_INSTALLING] = true, [WORKER_READY] = true},
    [WORKER_INSTALLING] = {[WORKER_NONE] = true, [WORKER_READY] = true},
    [WORKER_READY] = {[WORKER_NONE] = true, [WORKER_SPAWNING] = true},
    [WORKER_SPAWNING] = {[WORKER_NONE] = true, [WORKER_RUNNING] = true},
    [WORKER_RUNNING] = {[WORKER_NONE] = true},
};

bool worker_state_may(enum worker_state from, enum worker_state to)
{
    return from < WORKER_STATES && to < WORKER_STATES && moves[from][to];
}
