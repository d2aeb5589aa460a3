#include "node/daemon/ground/meta.h"

#include <string.h>

#include "node/daemon/ground/daemon.h"

int daemon_meta_get(struct daemon *daemon, const char *key, void *out, size_t capacity, size_t *count)
{
    return state_get(daemon->state, STATE_META, key, strlen(key), out, capacity, count);
}

int daemon_meta_put(struct daemon *daemon, const char *key, const void *value, size_t count)
{
    struct state_op op = {
        .table = STATE_META, .key = key, .key_bytes = strlen(key), .value = value, .value_bytes = count};
    return state_put_batch(daemon->state, &op, 1);
}
