#include "train/shoal/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/descriptors.h"
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

#define POPULATE_BYTES_MIN (64u << 20) /* less memory is there sooner than a thread is */

/* A part of a buffer whose pages are to be made. */
struct pages {
    uint8_t *bytes;
    size_t count;
    int error; /* of errno */
};

static void *pages_populate(void *argument)
{
    struct pages *pages = argument;
    do {
        pages->error = madvise(pages->bytes, pages->count, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    } while (pages->error == EINTR || pages->error == EAGAIN);
    return NULL;
}

/* Makes all pages of a new buffer, so that lack of memory is an error here and not a signal later. In one go they cost half of
 * what they would when the program first writes to each, and two threads are faster, as nobody else may use this memory yet.
 * The thread takes no signals, because signals are the program's. Returns errno. */
static int populate(uint8_t *bytes, size_t count)
{
    size_t half_bytes = count < POPULATE_BYTES_MIN ? 0 : count / 2 & ~(((size_t)1 << 21) - 1);
    struct pages first = {.bytes = bytes, .count = half_bytes}, rest = {.bytes = bytes + half_bytes, .count = count - half_bytes};
    pthread_t thread;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool has_thread = half_bytes > 0 && pthread_create(&thread, NULL, pages_populate, &first) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pages_populate(&rest);
    if (has_thread) {
        (void)pthread_join(thread, NULL);
    } else if (half_bytes > 0) {
        (void)pages_populate(&first);
    }
    return first.error != 0 ? first.error : rest.error;
}

/* Makes room for `count` bytes, in memory that is there already. */
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
     * new file, and 3 to 18 copies of the memory, for each checkpoint (tried). With cuts behind the checkpoint the file may be
     * longer already. */
    struct stat status;
    if (save->fd < 0 || fstat(save->fd, &status) != 0 ||
        ((uint64_t)status.st_size < count && ftruncate(save->fd, (off_t)count) != 0) ||
        fcntl(save->fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        return ERR_MEMORY;
    }
    void *map = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED, save->fd, 0);
    if (map == MAP_FAILED) {
        return ERR_MEMORY;
    }
    save->map = map;
    save->capacity_bytes = count;
    int reason = populate(map, count);
    /* Linux before 5.14 cannot; it can allocate. */
    return reason == 0 || (reason == EINVAL && fallocate(save->fd, 0, 0, (off_t)count) == 0) ? 0 : ERR_MEMORY;
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
                           "there is no state to save: it belongs to no step, and no other worker has handed over another");
    }
    if (s->refused_save != 0) {
        s->refused_save = 0;
        return ERR_REFUSED;
    }
    int index = 0;
    s->filling_ns = client_link_now_ns();
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

/* Writes the cuts behind the checkpoint, where the daemon reads them. ERR_USAGE, ERR_MEMORY. */
static int write_cuts(struct shoal *s, const struct client_save *save, const uint64_t *cuts, size_t cut_count)
{
    if (cut_count > SHOAL_CUTS_MAX) {
        return client_fail(s, ERR_USAGE, "%zu cuts of a checkpoint are too many; the most are %d", cut_count, SHOAL_CUTS_MAX);
    }
    uint8_t *packed = malloc(cut_count * sizeof *cuts + 1);
    if (packed == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for the cuts of a checkpoint");
    }
    int error = 0;
    for (size_t i = 0; i < cut_count && error == 0; i++) {
        if (cuts[i] >= save->count || (i > 0 && cuts[i] <= cuts[i - 1])) {
            error = client_fail(s, ERR_USAGE, "the cuts of a checkpoint have to ascend and to lie below its %zu bytes; number %zu does not",
                                save->count, i);
        }
        bytes_put_u64(packed + i * sizeof *cuts, cuts[i]);
    }
    if (error == 0 && descriptor_write_at(save->fd, packed, cut_count * sizeof *cuts, save->count) != 0) {
        error = client_fail(s, ERR_MEMORY, "no memory is left for the cuts of a checkpoint");
    }
    free(packed);
    return error;
}

/* `part`: NULL for a whole checkpoint. */
static int commit(struct shoal *s, uint64_t step, const struct shoal_part *part, const uint64_t *cuts, size_t cut_count)
{
    if (s->state == CLIENT_ALONE) {
        return 0;
    }
    CHECK(s->filling >= 0); /* shoal_checkpoint_begin was called and succeeded */
    struct client_save *save = &s->saves[s->filling];
    s->filling = -1;
    client_profile_save(s, s->filling_ns);
    int error = write_cuts(s, save, cuts, cut_count);
    if (error != 0) {
        return error;
    }
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin(&writer, bytes, id, part != NULL ? "worker_save_part" : "worker_save", part != NULL ? 6 : 3);
    pack_text(&writer, "step");
    pack_u64(&writer, step);
    pack_text(&writer, "bytes");
    pack_u64(&writer, save->count);
    pack_text(&writer, "cuts");
    pack_u64(&writer, cut_count);
    if (part != NULL) {
        pack_text(&writer, "save");
        pack_u64(&writer, part->save);
        pack_text(&writer, "parts");
        pack_u64(&writer, part->parts);
        pack_text(&writer, "part");
        pack_u64(&writer, part->part);
    }
    error = client_link_push(s, &writer, id, save->fd, CLIENT_QUEUE_SLOTS - 1);
    if (error != 0) {
        return error;
    }
    save->request_id = id;
    return client_link_pump(s);
}

int shoal_checkpoint_commit_cut(struct shoal *s, uint64_t step, const uint64_t *cuts, size_t cut_count)
{
    return commit(s, step, NULL, cuts, cut_count);
}

int shoal_checkpoint_commit_part(struct shoal *s, uint64_t step, const struct shoal_part *part, const uint64_t *cuts,
                                 size_t cut_count)
{
    if (s->state != CLIENT_ALONE && (part->parts == 0 || part->parts > SHOAL_PARTS_OF_CHECKPOINT_MAX || part->part >= part->parts)) {
        s->filling = -1;
        return client_fail(s, ERR_USAGE, "a checkpoint has 1 to %d parts, numbered from 0; there is no part %u of %u",
                           SHOAL_PARTS_OF_CHECKPOINT_MAX, part->part, part->parts);
    }
    return commit(s, step, part, cuts, cut_count);
}

int shoal_checkpoint_commit(struct shoal *s, uint64_t step)
{
    return shoal_checkpoint_commit_cut(s, step, NULL, 0);
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

/* Reads bytes[count] from the beginning of the file. */
static int read_checkpoint(struct shoal *s, int fd, size_t count, void **out)
{
    uint8_t *bytes = malloc(count > 0 ? count : 1);
    if (bytes == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for a checkpoint of %zu bytes", count);
    }
    int error = descriptor_read_at(fd, bytes, count, 0);
    if (error != 0) {
        free(bytes);
        return client_fail(s, ERR_IO, "cannot read the checkpoint from the daemon: %s",
                           error == ERR_AGAIN ? "it ends early" : strerror(errno));
    }
    *out = bytes;
    return 0;
}

int shoal_checkpoint_parts(struct shoal *s, uint32_t *parts)
{
    *parts = 0;
    if (s->state == CLIENT_ALONE) {
        return 0;
    }
    uint8_t request[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin(&writer, request, id, "worker_parts", 0);
    int error = client_link_call(s, &writer, id, CLIENT_ANSWER_MS);
    if (error == 0) {
        struct pack_reader reply;
        bool failed = false;
        pack_reader_init(&reply, s->answer, s->answer_bytes);
        uint64_t count = client_link_find_u64(&reply, "parts", SHOAL_PARTS_OF_CHECKPOINT_MAX, &failed);
        if (failed) {
            error = client_fail(s, ERR_MALFORMED, "the daemon's answer to worker_parts does not follow the protocol");
        } else {
            *parts = (uint32_t)count;
        }
    }
    client_link_drop_answer(s);
    return error == ERR_REFUSED ? 0 : error; /* an older daemon, which has no checkpoints of several parts */
}

/* `part`: NULL for a whole checkpoint. `ranges` with a count of 0: all of it. */
static int open_checkpoint(struct shoal *s, const uint32_t *part, const struct shoal_range *ranges, size_t range_count, int *fd, size_t *count,
                           uint64_t *step)
{
    if (s->state == CLIENT_ALONE) {
        return ERR_NOT_FOUND;
    }
    uint8_t request[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin(&writer, request, id, "worker_load", (part != NULL ? 1u : 0u) + (range_count > 0 ? 1u : 0u));
    if (part != NULL) {
        pack_text(&writer, "part");
        pack_u64(&writer, *part);
    }
    if (range_count > 0) {
        uint8_t packed[SHOAL_RANGES_MAX * 16];
        for (size_t i = 0; i < range_count; i++) {
            bytes_put_u64(packed + 16 * i, ranges[i].from);
            bytes_put_u64(packed + 16 * i + 8, ranges[i].count);
        }
        pack_text(&writer, "ranges"); /* older daemons pass over it, and give all */
        pack_bin(&writer, packed, 16 * range_count);
    }
    int error = client_link_call(s, &writer, id, CLIENT_LOAD_MS);
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
        struct stat status;
        if (failed) {
            error = client_fail(s, ERR_MALFORMED, "the daemon's answer to worker_load does not follow the protocol");
        } else if (!is_there) {
            error = ERR_NOT_FOUND;
        } else if (s->answer_fd < 0 || fstat(s->answer_fd, &status) != 0 || status.st_size < 0 ||
                   (uint64_t)status.st_size < length) {
            error = client_fail(s, ERR_CORRUPT, "the daemon announced a checkpoint of %llu bytes and gave less",
                                (unsigned long long)length);
        } else {
            *fd = s->answer_fd;
            *count = length;
            *step = of_step;
            s->answer_fd = -1;
        }
    }
    client_link_drop_answer(s);
    return error;
}

int shoal_checkpoint_open(struct shoal *s, int *fd, size_t *count, uint64_t *step)
{
    return open_checkpoint(s, NULL, NULL, 0, fd, count, step);
}

int shoal_checkpoint_open_part(struct shoal *s, uint32_t part, int *fd, size_t *count, uint64_t *step)
{
    return open_checkpoint(s, &part, NULL, 0, fd, count, step);
}

int shoal_checkpoint_open_ranges(struct shoal *s, uint32_t part, const struct shoal_range *ranges, size_t range_count, int *fd, size_t *count,
                                 uint64_t *step)
{
    if (range_count == 0 || range_count > SHOAL_RANGES_MAX) {
        return client_fail(s, ERR_USAGE, "1 to %d ranges of a part can be opened, not %zu", SHOAL_RANGES_MAX, range_count);
    }
    return open_checkpoint(s, &part, ranges, range_count, fd, count, step);
}

int shoal_checkpoint_load(struct shoal *s, void **bytes, size_t *count, uint64_t *step)
{
    int fd;
    size_t length;
    uint64_t of_step;
    int error = shoal_checkpoint_open(s, &fd, &length, &of_step);
    if (error != 0) {
        return error;
    }
    error = read_checkpoint(s, fd, length, bytes);
    (void)close(fd);
    if (error == 0) {
        *count = length;
        *step = of_step;
    }
    return error;
}
