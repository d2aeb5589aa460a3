/* Reads a stored blob again, one chunk per step, so that the thread has time for other questions in between. */
#include <stdlib.h>

#include "base/check.h"
#include "base/err.h"
#include "node/bulk/state.h"

static int manifest_read(struct bulk *bulk, struct bulk_check *check)
{
    uint8_t *buffer;
    size_t count;
    uint32_t chunk_count;
    uint64_t total_bytes;
    int code = bulk_chunk_read(bulk, check->hash, &buffer, &count);
    if (code != 0) {
        return code;
    }
    code = blob_decode_counts(buffer, count, &chunk_count, &total_bytes);
    struct blob_chunk *chunks = code == 0 ? calloc(chunk_count + 1u, sizeof *chunks) : NULL;
    if (chunks != NULL) {
        CHECK(blob_decode(buffer, count, chunks, chunk_count, &check->manifest) == 0);
        check->begun = true;
    } else if (code == 0) {
        code = ERR_MEMORY;
    }
    bulk_unmap(buffer);
    return code == ERR_MALFORMED ? ERR_CORRUPT : code; /* a chunk that is not a manifest leads to no blob */
}

static int chunk_look(struct bulk *bulk, const struct blob_chunk *chunk)
{
    uint8_t *buffer;
    size_t count;
    int code = bulk_chunk_read(bulk, chunk->hash, &buffer, &count);
    if (code != 0) {
        return code;
    }
    bulk_unmap(buffer);
    return count == chunk->bytes ? 0 : ERR_CORRUPT; /* the manifest has a wrong size */
}

int bulk_check_step(struct bulk *bulk, struct bulk_check *check)
{
    if (!check->begun) {
        int code = manifest_read(bulk, check);
        return code == 0 ? ERR_AGAIN : code;
    }
    if (check->next == check->manifest.chunk_count) {
        return check->result;
    }
    int code = chunk_look(bulk, &check->manifest.chunks[check->next]);
    if (code != 0 && code != ERR_CORRUPT && code != ERR_NOT_FOUND) {
        return code;
    }
    /* Go on after a bad chunk, or bad chunks behind it would stay; "damaged" outweighs "missing". */
    if (code == ERR_CORRUPT || check->result == 0) {
        check->result = code;
    }
    check->next++;
    return ERR_AGAIN;
}

void bulk_check_close(struct bulk_check *check)
{
    free(check->manifest.chunks);
    *check = (struct bulk_check){0};
}
