/* The whole configurations of large experiments, out of blobs, which are read once and then kept in memory for a while. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/daemon/peers/peers.h"

#define FETCH_AGAIN_MS 5000

/* Reads a blob of this disk into memory; NULL: it is not here, or not whole. The caller frees the bytes. */
static uint8_t *read_blob(struct daemon *daemon, hash256 blob, size_t *count)
{
    char error[256];
    hash256 blamed;
    struct stat status;
    int fd = memfd_create("shoal-config", MFD_CLOEXEC);
    uint8_t *bytes = NULL;
    if (fd >= 0 && chunks_read_blob_to_fd(daemon->chunks, blob, fd, &blamed, error, sizeof error) == 0 &&
        fstat(fd, &status) == 0 && status.st_size > 0 && status.st_size <= (off_t)CONFIG_BLOB_BYTES_MAX) {
        *count = (size_t)status.st_size;
        bytes = malloc(*count);
    }
    if (bytes != NULL && pread(fd, bytes, *count, 0) != (ssize_t)*count) {
        free(bytes);
        bytes = NULL;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return bytes;
}

/* Asks other nodes for the blob, once in a while; a later call finds it. */
static void fetch(struct daemon *daemon, const struct view_experiment *experiment)
{
    struct daemon_peers *peers = daemon->peers;
    uint64_t now_ms = daemon_now_ms();
    bool is_asked = hash256_equal(peers->config_asked, experiment->config_text) && now_ms < peers->config_asked_ms + FETCH_AGAIN_MS;
    if (!is_asked) {
        node_id holders[DAEMON_HOLDERS_MAX];
        uint32_t count = daemon_holders_code(daemon, experiment->id, 0, holders);
        peers->config_asked = experiment->config_text;
        peers->config_asked_ms = now_ms;
        daemon_bulk_peers(daemon);
        (void)bulk_fetch(daemon->bulk, ++daemon->request_id, experiment->config_text, holders, count);
    }
}

const struct config *daemon_config(struct daemon *daemon, const struct view_experiment *experiment)
{
    struct daemon_peers *peers = daemon->peers;
    struct daemon_config *oldest = &peers->configs[0];
    if (!experiment->is_large) {
        return experiment->config;
    }
    for (uint32_t i = 0; i < DAEMON_CONFIGS_MAX; i++) {
        struct daemon_config *row = &peers->configs[i];
        if (row->bytes != NULL && hash256_equal(row->blob, experiment->config_text)) {
            row->used = ++peers->config_uses;
            return &row->config;
        }
        oldest = row->used < oldest->used ? row : oldest;
    }
    struct daemon_config row = {.blob = experiment->config_text};
    size_t count = 0;
    row.bytes = read_blob(daemon, row.blob, &count);
    if (row.bytes == NULL) {
        fetch(daemon, experiment);
        return NULL;
    }
    if (config_blob_read(row.bytes, count, &row.config) != 0) {
        free(row.bytes);
        return NULL;
    }
    row.used = ++peers->config_uses;
    free(oldest->bytes);
    *oldest = row;
    return &oldest->config;
}

void daemon_configs_close(struct daemon *daemon)
{
    for (uint32_t i = 0; i < DAEMON_CONFIGS_MAX; i++) {
        free(daemon->peers->configs[i].bytes);
        daemon->peers->configs[i] = (struct daemon_config){.bytes = NULL};
    }
}
