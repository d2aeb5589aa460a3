#include "tests/unit/one_mapping.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/check.h"
#include "train/group/shm/memory.h"

#define MAPPINGS_MAX 1024

struct mapping {
    void *memory;
    size_t bytes;
    uint32_t users; /* 0: free */
    bool is_over;   /* its owner has replaced it, and the others have not let go of it yet */
    dev_t device;
    ino_t inode;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mapping mappings[MAPPINGS_MAX];
static size_t shared;

int __real_shm_memory_create(size_t bytes, void *at, int *fd, void **out);
int __real_shm_memory_map(int fd, size_t bytes, void **out);
void __real_shm_memory_end(void *memory, size_t bytes, bool is_placed);
int __wrap_shm_memory_create(size_t bytes, void *at, int *fd, void **out);
int __wrap_shm_memory_map(int fd, size_t bytes, void **out);
void __wrap_shm_memory_end(void *memory, size_t bytes, bool is_placed);

int __wrap_shm_memory_create(size_t bytes, void *at, int *fd, void **out)
{
    int error = __real_shm_memory_create(bytes, at, fd, out);
    if (error != 0) {
        return error;
    }
    struct stat status;
    CHECK(fstat(*fd, &status) == 0);
    (void)pthread_mutex_lock(&mutex);
    size_t i = 0;
    while (i < MAPPINGS_MAX && mappings[i].users > 0) {
        i++;
    }
    CHECK(i < MAPPINGS_MAX);
    mappings[i] = (struct mapping){
        .memory = *out, .bytes = bytes, .users = 1, .device = status.st_dev, .inode = status.st_ino};
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

int __wrap_shm_memory_map(int fd, size_t bytes, void **out)
{
    struct stat status;
    CHECK(fstat(fd, &status) == 0);
    void *found = NULL;
    (void)pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MAPPINGS_MAX && found == NULL; i++) {
        struct mapping *m = &mappings[i];
        if (m->users > 0 && !m->is_over && m->device == status.st_dev && m->inode == status.st_ino) {
            CHECK(m->bytes == bytes);
            m->users++;
            shared++;
            found = m->memory;
        }
    }
    (void)pthread_mutex_unlock(&mutex);
    if (found == NULL) {
        return __real_shm_memory_map(fd, bytes, out);
    }
    *out = found;
    return 0;
}

/* Who let go first of what was placed again since: a rank is told that it is over before it is told of the new. */
static struct mapping *mapping_at(const void *memory, bool is_owner)
{
    struct mapping *found = NULL;
    for (size_t i = 0; i < MAPPINGS_MAX; i++) {
        struct mapping *m = &mappings[i];
        if (m->users > 0 && m->memory == memory && !(is_owner && m->is_over) && (found == NULL || m->is_over)) {
            found = m;
        }
    }
    return found;
}

void __wrap_shm_memory_end(void *memory, size_t bytes, bool is_placed)
{
    (void)pthread_mutex_lock(&mutex);
    struct mapping *m = mapping_at(memory, is_placed);
    bool ends = m == NULL || is_placed;
    if (m != NULL) {
        m->is_over = m->is_over || is_placed;
        m->users--;
        ends = ends || (m->users == 0 && !m->is_over);
    }
    (void)pthread_mutex_unlock(&mutex);
    if (ends) {
        __real_shm_memory_end(memory, bytes, is_placed);
    }
}

size_t one_mapping_shared(void)
{
    (void)pthread_mutex_lock(&mutex);
    size_t count = shared;
    (void)pthread_mutex_unlock(&mutex);
    return count;
}

size_t one_mapping_left(void)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < MAPPINGS_MAX; i++) {
        count += mappings[i].users > 0;
    }
    (void)pthread_mutex_unlock(&mutex);
    return count;
}
