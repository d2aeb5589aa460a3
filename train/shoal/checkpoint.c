#include "train/shoal/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"

void client_checkpoint_free(struct client_save *save)
{
    if (save->map != NULL) {
        (void)munmap(save->map, save->capacity_bytes);
    }
    if (save->fd >= 0) {
        (void)close(save->fd);
    }
    *save = (struct client_save){.fd = -1};
}

/* Makes room for `count` bytes. The memory is allocated now, so that lack of memory is an error here and not a signal later. */
static int reserve_save(struct client_save *save, size_t count)
{
    if (save->fd >= 0 && save->capacity_bytes >= count) {
        return 0;
    }
    if (save->map != NULL) {
        (void)munmap(save->map, save->capacity_bytes);
        save->map = NULL;
        save->capacity_bytes = 0;
    }
    if (save->fd < 0) {
        save->fd = memfd_create("shoal-checkpoint", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    /* Sealed against shrinking only, so that the file cannot be cut short under the daemon. A seal against writing would cost a
     * new file, and 3 to 18 copies of the memory, for each checkpoint (tried). */
    if (save->fd < 0 || fallocate(save->fd, 0, 0, (off_t)count) != 0 ||
        fcntl(save->fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        return ERR_MEMORY;
    }
    void *map = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED, save->fd, 0);
    if (map == MAP_FAILED) {
        return ERR_MEMORY;
    }
    save->map = map;
    save->capacity_bytes = count;
    return 0;
}

/* Frees a buffer while the daemon is away and both wait for it: drops the newer one, which the next checkpoint would supersede
 * anyway. Its file is not reused, because a daemon about to end may still be reading it. */
static int replace_waiting_save(struct shoal *s)
{
    int newer = s->saves[1].request_id > s->saves[0].request_id;
    for (size_t i = 0; i < s->queue_count; i++) {
        if (s->queue[i]->id == s->saves[newer].request_id) {
            client_link_remove(s, i);
            break;
        }
    }
    client_checkpoint_free(&s->saves[newer]);
    return newer;
}

static int choose_save(struct shoal *s, int *out)
{
    uint64_t until_ms = client_link_now_ms() + CLIENT_ANSWER_MS;
    for (;;) {
        int error = client_link_pump(s);
        if (error != 0) {
            return error;
        }
        for (int i = 0; i < 2; i++) {
            if (s->saves[i].request_id == 0) {
                *out = i;
                return 0;
            }
        }
        if (s->state != CLIENT_OPEN) {
            *out = replace_waiting_save(s);
            return 0;
        }
        if (client_link_now_ms() >= until_ms) {
            return client_fail(s, ERR_TIMEOUT, "the daemon still reads the last two checkpoints after %d s",
                               CLIENT_ANSWER_MS / 1000);
        }
        client_link_wait(s, until_ms);
    }
}

int shoal_checkpoint_begin(struct shoal *s, size_t count, void **bytes)
{
    if (count == 0) {
        return client_fail(s, ERR_USAGE, "an empty checkpoint cannot be saved");
    }
    if (s->state == CLIENT_ALONE) {
        free(s->scratch);
        s->scratch = malloc(count);
        if (s->scratch == NULL) {
            return client_fail(s, ERR_MEMORY, "no memory is left for a checkpoint of %zu bytes", count);
        }
        *bytes = s->scratch;
        return 0;
    }
    if (s->elastic.is_torn) {
        return client_fail(s, ERR_CORRUPT,
                           "there is no state to save: the worker handing it over was lost on the way");
    }
    if (s->refused != 0) {
        s->refused = 0;
        return ERR_REFUSED;
    }
    int index = 0;
    int error = choose_save(s, &index);
    if (error != 0) {
        return error;
    }
    struct client_save *save = &s->saves[index];
    if (reserve_save(save, count) != 0) {
        client_checkpoint_free(save);
        return client_fail(s, ERR_MEMORY, "no memory is left for a checkpoint of %zu bytes", count);
    }
    save->count = count;
    s->filling = index;
    *bytes = save->map;
    return 0;
}

int shoal_checkpoint_commit(struct shoal *s, uint64_t step)
{
    if (s->state == CLIENT_ALONE) {
        return 0;
    }
    CHECK(s->filling >= 0); /* shoal_checkpoint_begin was called and succeeded */
    struct client_save *save = &s->saves[s->filling];
    s->filling = -1;
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin(&writer, bytes, id, "worker_save", 2);
    pack_text(&writer, "step");
    pack_u64(&writer, step);
    pack_text(&writer, "bytes");
    pack_u64(&writer, save->count);
    int error = client_link_push(s, &writer, id, save->fd, CLIENT_QUEUE_SLOTS - 1);
    if (error != 0) {
        return error;
    }
    save->request_id = id;
    return client_link_pump(s);
}

int shoal_checkpoint_save(struct shoal *s, uint64_t step, const void *bytes, size_t count)
{
    void *room;
    int error = shoal_checkpoint_begin(s, count, &room);
    if (error != 0) {
        return error;
    }
    memcpy(room, bytes, count);
    return shoal_checkpoint_commit(s, step);
}

/* Reads the checkpoint to private memory: with a mapping, a file cut short would end the program with a signal. */
static int read_checkpoint(struct shoal *s, uint64_t count, void **out)
{
    struct stat status;
    if (s->answer_fd < 0 || fstat(s->answer_fd, &status) != 0 || status.st_size < 0 || (uint64_t)status.st_size < count) {
        return client_fail(s, ERR_CORRUPT, "the daemon announced a checkpoint of %llu bytes and gave less",
                           (unsigned long long)count);
    }
    uint8_t *bytes = malloc(count > 0 ? count : 1);
    if (bytes == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for a checkpoint of %llu bytes", (unsigned long long)count);
    }
    for (uint64_t done = 0; done < count;) {
        ssize_t n = pread(s->answer_fd, bytes + done, count - done, (off_t)done);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            free(bytes);
            return client_fail(s, ERR_IO, "cannot read the checkpoint from the daemon: %s",
                               n < 0 ? strerror(errno) : "it ends early");
        }
        done += n > 0 ? (uint64_t)n : 0;
    }
    *out = bytes;
    return 0;
}

int shoal_checkpoint_load(struct shoal *s, void **bytes, size_t *count, uint64_t *step)
{
    if (s->state == CLIENT_ALONE) {
        return ERR_NOT_FOUND;
    }
    uint8_t request[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin(&writer, request, id, "worker_load", 0);
    int error = client_link_call(s, &writer, id, CLIENT_ANSWER_MS);
    if (error == 0) {
        struct pack_reader reply;
        pack_reader_init(&reply, s->answer, s->answer_bytes);
        struct pack_reader found = pack_find(&reply, "found");
        bool is_there = pack_read_bool(&found), failed = found.failed;
        uint64_t of_step = 0, length = 0;
        if (is_there) {
            of_step = client_link_find_u64(&reply, "step", UINT64_MAX, &failed);
            length = client_link_find_u64(&reply, "bytes", SIZE_MAX / 2, &failed);
        }
        if (failed) {
            error = client_fail(s, ERR_MALFORMED, "the daemon's answer to worker_load does not follow the protocol");
        } else if (!is_there) {
            error = ERR_NOT_FOUND;
        } else {
            error = read_checkpoint(s, length, bytes);
        }
        if (error == 0) {
            *count = length;
            *step = of_step;
        }
    }
    client_link_drop_answer(s);
    return error;
}
