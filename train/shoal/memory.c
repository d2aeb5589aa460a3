/* Memory for arrays to be summed. It keeps its address while the program has it; in each group its pages belong to that group
 * (group_place). A rank of a former group may be in the middle of a sum while this rank is already in the next group: late
 * writes go to pages that no other rank uses any more. */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "train/shoal/link.h"

static int place(struct shoal *s, const struct client_memory *memory)
{
    int error = group_place(s->workers, memory->bytes, memory->count);
    return error == 0 ? 0 : client_fail(s, error, "%zu bytes cannot be shared with the ranks of this host: %s", memory->count,
                                        err_text(error));
}

int client_memory_place(struct shoal *s)
{
    int error = 0;
    for (size_t i = 0; i < s->memory_count && error == 0; i++) {
        error = place(s, &s->memories[i]);
    }
    return error;
}

int shoal_alloc(struct shoal *s, size_t bytes, void **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0) {
        return client_fail(s, ERR_USAGE, "shoal_alloc needs at least one byte");
    }
    if (s->memory_count == SHOAL_ALLOCATIONS_MAX) {
        return client_fail(s, ERR_FULL, "shoal_alloc gives at most %d pieces of memory at a time", SHOAL_ALLOCATIONS_MAX);
    }
    size_t count = bytes > PTRDIFF_MAX - page ? 0 : (bytes + page - 1) / page * page;
    void *memory = count == 0 ? MAP_FAILED : mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return client_fail(s, ERR_MEMORY, "no memory is left for %zu bytes", bytes);
    }
    struct client_memory *added = &s->memories[s->memory_count];
    *added = (struct client_memory){memory, count};
    client_background_settle(s);
    int error = s->workers != NULL ? place(s, added) : 0;
    if (error != 0) {
        (void)munmap(memory, count);
        return error;
    }
    s->memory_count++;
    *out = memory;
    return 0;
}

void shoal_free(struct shoal *s, void *memory)
{
    if (memory == NULL) {
        return;
    }
    size_t at = 0;
    while (at < s->memory_count && s->memories[at].bytes != memory) {
        at++;
    }
    CHECK(at < s->memory_count);
    client_background_settle(s);
    if (s->workers != NULL) {
        group_displace(s->workers, memory);
    }
    (void)munmap(memory, s->memories[at].count);
    s->memories[at] = s->memories[--s->memory_count];
}
