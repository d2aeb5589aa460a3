#include "train/group/shm/inside.h"

#include <stddef.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "train/group/shm/memory.h"

/* Messages on a rank's socket after the handshake. SEGMENT_NEW carries a descriptor. */
enum { SEGMENT_NEW = 1, SEGMENT_GONE = 2 };

struct message {
    uint32_t kind, segment;
    uint64_t bytes;
};

static struct segment *segment_of(struct peer *peer, uint32_t id)
{
    for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX; i++) {
        if (peer->segments[i].id == id) {
            return &peer->segments[i];
        }
    }
    return NULL;
}

void shm_segment_end(struct segment *segment)
{
    if (segment->id != 0) {
        shm_memory_end(segment->memory, segment->bytes, segment->is_placed);
        if (segment->fd >= 0) {
            (void)close(segment->fd);
        }
    }
    *segment = (struct segment){.fd = -1};
}

static int take(struct shm_group *group, size_t bytes, void *at, void **out)
{
    struct segment *place = segment_of(&group->peers[group->rank], 0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0) {
        return ERR_USAGE;
    }
    if (place == NULL || group->segment_last == UINT32_MAX) {
        return ERR_FULL;
    }
    if (bytes > PTRDIFF_MAX - page) {
        return ERR_MEMORY;
    }
    bytes = (bytes + page - 1) / page * page;
    void *memory;
    int fd, error = shm_memory_create(bytes, at, &fd, &memory);
    if (error != 0) {
        return error;
    }
    *place = (struct segment){.id = ++group->segment_last, .memory = memory, .bytes = bytes, .fd = fd, .is_placed = at != NULL};
    group->segment_count++;
    *out = memory;
    return 0;
}

int shm_group_alloc(struct shm_group *group, size_t bytes, void **out)
{
    return take(group, bytes, NULL, out);
}

int shm_group_place(struct shm_group *group, void *memory, size_t bytes)
{
    void *out;
    return take(group, bytes, memory, &out);
}

void shm_group_free(struct shm_group *group, void *memory)
{
    if (memory == NULL) {
        return;
    }
    struct peer *own = &group->peers[group->rank];
    struct segment *found = NULL;
    for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX; i++) {
        if (own->segments[i].id != 0 && own->segments[i].memory == memory) {
            found = &own->segments[i];
        }
    }
    CHECK(found != NULL);
    if (found->told) {
        CHECK(group->gone_count < SHM_GROUP_ALLOCATIONS_MAX);
        group->gone[group->gone_count++] = found->id;
    }
    shm_segment_end(found);
    group->segment_count--;
}

struct segment *shm_segment_around(struct shm_group *group, const void *memory, size_t bytes)
{
    struct peer *own = &group->peers[group->rank];
    uintptr_t at = (uintptr_t)memory;
    uint32_t seen = 0;
    for (size_t i = 0; seen < group->segment_count; i++) {
        struct segment *s = &own->segments[i];
        uintptr_t begin = (uintptr_t)s->memory;
        seen += s->id != 0;
        if (s->id != 0 && at >= begin && at - begin <= s->bytes && bytes <= s->bytes - (at - begin)) {
            return s;
        }
    }
    return NULL;
}

static int tell_all(struct shm_group *group, const struct message *message, int fd)
{
    for (uint32_t i = 0; i < group->size; i++) {
        int error = i == group->rank ? 0 : shm_message_send(group->peers[i].socket, message, sizeof *message, fd);
        if (error != 0) {
            return shm_phase_fail(group, error, "rank %u could not tell rank %u of its memory: %s", group->rank, i,
                                  err_text(error));
        }
    }
    group->messages++;
    return 0;
}

int shm_segments_tell(struct shm_group *group, struct segment *used)
{
    int error = 0;
    for (; group->gone_count > 0 && error == 0; group->gone_count--) {
        error = tell_all(group, &(struct message){SEGMENT_GONE, group->gone[group->gone_count - 1], 0}, -1);
    }
    if (error == 0 && used != NULL && !used->told) {
        error = tell_all(group, &(struct message){SEGMENT_NEW, used->id, used->bytes}, used->fd);
        (void)close(used->fd);
        used->fd = -1;
        used->told = true;
    }
    return error;
}

/* Takes a message from a peer. */
static int segment_hear(struct peer *peer)
{
    struct message message;
    int fd = -1, error = shm_message_receive(peer->socket, &message, sizeof message, &fd, NULL);
    if (error != 0) {
        return error;
    }
    struct segment *place = segment_of(peer, 0), *known = segment_of(peer, message.segment);
    error = ERR_MALFORMED;
    if (message.kind == SEGMENT_GONE && fd < 0 && message.segment != 0 && known != NULL) {
        shm_segment_end(known);
        error = 0;
    } else if (message.kind == SEGMENT_NEW && fd >= 0 && message.segment != 0 && known == NULL && place != NULL &&
               message.bytes <= PTRDIFF_MAX) {
        void *memory;
        error = shm_memory_map(fd, message.bytes, &memory);
        if (error == 0) {
            *place = (struct segment){.id = message.segment, .memory = memory, .bytes = message.bytes, .fd = -1};
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    peer->messages++;
    return error;
}

int shm_segment_find(struct shm_group *group, uint32_t rank, const uint64_t theirs[LINE_WORDS], size_t bytes,
                     size_t element_bytes, uint8_t **base)
{
    struct peer *peer = &group->peers[rank];
    uint32_t id = (uint32_t)(theirs[SEGMENT] >> 32), messages = (uint32_t)theirs[SEGMENT];
    while (rank != group->rank && peer->messages != messages) {
        int error = segment_hear(peer);
        if (error != 0) {
            return shm_phase_fail(group, error == ERR_MEMORY || error == ERR_CLOSED ? error : ERR_MALFORMED,
                                  "rank %u handed over memory that cannot be mapped: %s", rank,
                                  error == ERR_MALFORMED ? "it is not a sealed memfd of the length that it says"
                                                         : err_text(error));
        }
    }
    *base = NULL;
    if (id == 0) {
        return 0;
    }
    const struct segment *segment = segment_of(peer, id);
    if (segment == NULL || theirs[OFFSET] > segment->bytes || bytes > segment->bytes - theirs[OFFSET] ||
        theirs[OFFSET] % element_bytes != 0) {
        return shm_phase_fail(group, ERR_MALFORMED, "rank %u names memory that it has not handed over", rank);
    }
    *base = segment->memory + theirs[OFFSET];
    return 0;
}
