#include "store/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/pack.h"
#include "store/chunks_env.h"
#include "store/component.h"
#include "store/hash.h"

#define LISTING_VERSION 1
#define LARGE_FILE_BYTES (1ull << 32) /* files from here on are cut into the largest chunks */
#define BATCH_ITEMS_MAX 4096

/* ---- entries ------------------------------------------------------------------------------------------------------- */

static void entry_free(struct snapshot_entry *entry)
{
    free(entry->path);
    free(entry->link);
    free(entry->chunks);
}

void snapshot_cut(struct snapshot *snapshot, uint32_t count)
{
    while (snapshot->count > count) {
        struct snapshot_entry *entry = &snapshot->entries[--snapshot->count];
        snapshot->bytes -= entry->kind == SNAPSHOT_FILE ? entry->bytes : 0;
        entry_free(entry);
    }
}

/* Chunks of many files, which are stored in one transaction. */
struct snapshot_batch {
    uint8_t *bytes; /* CHUNKS_TRANSACTION_BYTES */
    size_t used_bytes;
    struct chunks_item *items; /* [BATCH_ITEMS_MAX] */
    size_t item_count;
};

static void batch_free(struct snapshot *snapshot)
{
    if (snapshot->batch != NULL) {
        free(snapshot->batch->bytes);
        free(snapshot->batch->items);
    }
    free(snapshot->batch);
    snapshot->batch = NULL;
}

/* False: no memory. */
static bool batch_make(struct snapshot *snapshot)
{
    if (snapshot->batch != NULL) {
        return true;
    }
    snapshot->batch = calloc(1, sizeof *snapshot->batch);
    if (snapshot->batch != NULL) {
        snapshot->batch->bytes = malloc(CHUNKS_TRANSACTION_BYTES);
        snapshot->batch->items = calloc(BATCH_ITEMS_MAX, sizeof *snapshot->batch->items);
        if (snapshot->batch->bytes != NULL && snapshot->batch->items != NULL) {
            return true;
        }
    }
    batch_free(snapshot);
    return false;
}

static int batch_store(struct snapshot_batch *batch, struct chunks *chunks)
{
    int rc = batch->item_count > 0 ? chunks_put_items(chunks, batch->items, batch->item_count) : 0;
    batch->item_count = 0;
    batch->used_bytes = 0;
    return rc;
}

static void forget_before(struct snapshot *snapshot)
{
    free(snapshot->before_order);
    snapshot->before_order = NULL;
    snapshot->before = NULL;
}

void snapshot_free(struct snapshot *snapshot)
{
    batch_free(snapshot);
    forget_before(snapshot);
    snapshot_cut(snapshot, 0);
    free(snapshot->entries);
    *snapshot = (struct snapshot){0};
}

/* Appends a copy of the path and an otherwise empty entry; NULL: no memory. */
static struct snapshot_entry *append(struct snapshot *snapshot, const char *path, enum snapshot_kind kind)
{
    if (snapshot->count == snapshot->capacity) {
        uint32_t capacity = snapshot->capacity == 0 ? 64 : snapshot->capacity * 2;
        struct snapshot_entry *bigger = realloc(snapshot->entries, capacity * sizeof *bigger);
        if (bigger == NULL) {
            return NULL;
        }
        snapshot->entries = bigger;
        snapshot->capacity = capacity;
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return NULL;
    }
    struct snapshot_entry *entry = &snapshot->entries[snapshot->count++];
    *entry = (struct snapshot_entry){.path = copy, .kind = kind};
    return entry;
}

bool snapshot_is_below(const char *path, const char *below)
{
    size_t bytes = strlen(below);
    return bytes == 0 || (strncmp(path, below, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '/'));
}

static bool is_listed(const struct snapshot *snapshot, const char *path)
{
    for (uint32_t i = 0; i < snapshot->count; i++) {
        if (strcmp(snapshot->entries[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* Lists the directories above `path` that are not listed yet. Those above the last entry are, and mostly these are the same. */
static int append_parents(struct snapshot *snapshot, const char *path)
{
    char parent[SNAPSHOT_PATH_BYTES];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
        bool is_above_last = snapshot->count > 0 && snapshot_is_below(snapshot->entries[snapshot->count - 1].path, parent);
        if (!is_above_last && !is_listed(snapshot, parent)) {
            struct snapshot_entry *entry = append(snapshot, parent, SNAPSHOT_DIRECTORY);
            if (entry == NULL) {
                return ERR_MEMORY;
            }
            entry->mode = 0755;
        }
    }
    return 0;
}

/* The order in which snapshot_add lists a directory: what lies below an entry follows it at once. */
static int compare_paths(const char *a, const char *b)
{
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    int rank_a = *a == '/' ? 1 : *a == '\0' ? 0 : (int)(unsigned char)*a + 1;
    int rank_b = *b == '/' ? 1 : *b == '\0' ? 0 : (int)(unsigned char)*b + 1;
    return rank_a - rank_b;
}

static int compare_entries(const void *a, const void *b)
{
    const struct snapshot_entry *first = *(const struct snapshot_entry *const *)a, *second = *(const struct snapshot_entry *const *)b;
    int order = compare_paths(first->path, second->path);
    return order != 0 ? order : (first > second) - (first < second);
}

/* Writes where in before_order the path is. False: `before` does not list the path, or there is no memory to sort its entries. */
static bool find_before(struct snapshot *snapshot, const struct snapshot *before, const char *path, uint32_t *at)
{
    if (snapshot->before != before) {
        forget_before(snapshot);
    }
    if (before == NULL || before->count == 0) {
        return false;
    }
    if (snapshot->before_order == NULL) {
        snapshot->before_order = malloc(before->count * sizeof *snapshot->before_order);
        if (snapshot->before_order == NULL) {
            return false;
        }
        snapshot->before = before;
        for (uint32_t i = 0; i < before->count; i++) {
            snapshot->before_order[i] = &before->entries[i];
        }
        qsort(snapshot->before_order, before->count, sizeof *snapshot->before_order, compare_entries);
    }
    uint32_t from = 0, to = before->count;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (compare_paths(snapshot->before_order[middle]->path, path) < 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    *at = from;
    return from < before->count && strcmp(snapshot->before_order[from]->path, path) == 0;
}

/* True if a link at `path` to `target` stays below the snapshot's root, and below the first directory there. */
static bool link_stays(const char *path, const char *target)
{
    const char *slash = strchr(path, '/');
    return component_link_stays(slash != NULL ? slash + 1 : path, target);
}

/* ---- storing ------------------------------------------------------------------------------------------------------- */

/* What one snapshot_add works with. */
struct adding {
    struct snapshot *snapshot;
    struct chunks *chunks;
    const struct snapshot *before;
    uint64_t bytes_max;
    char *error;
    size_t error_size;
};

static int flush(struct adding *adding)
{
    int rc = batch_store(adding->snapshot->batch, adding->chunks);
    if (rc != 0) {
        (void)snprintf(adding->error, adding->error_size, "it cannot be stored: %s", err_text(rc));
    }
    return rc;
}

static struct snapshot_stamp stamp_of(const struct stat *status)
{
    return (struct snapshot_stamp){.device = (uint64_t)status->st_dev,
                                   .inode = (uint64_t)status->st_ino,
                                   .mtime_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
                                   .ctime_ns = (int64_t)status->st_ctim.tv_sec * 1000000000 + status->st_ctim.tv_nsec};
}

/* Takes the chunks of an unchanged file over. A rename changes the ctime, so a file that was renamed is read again. */
static bool reuse(struct adding *adding, struct snapshot_entry *entry)
{
    uint32_t at;
    const struct snapshot_entry *before =
        find_before(adding->snapshot, adding->before, entry->path, &at) ? adding->snapshot->before_order[at] : NULL;
    if (before == NULL || before->kind != SNAPSHOT_FILE || before->bytes != entry->bytes || before->chunks == NULL ||
        memcmp(&before->stamp, &entry->stamp, sizeof entry->stamp) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < before->chunk_count; i++) {
        if (!chunks_has(adding->chunks, before->chunks[i].hash)) {
            return false;
        }
    }
    entry->chunks = calloc(before->chunk_count + 1u, sizeof *entry->chunks);
    if (entry->chunks == NULL) {
        return false;
    }
    memcpy(entry->chunks, before->chunks, before->chunk_count * sizeof *entry->chunks);
    entry->chunk_count = before->chunk_count;
    return true;
}

/* Reads the first entry->bytes bytes of the file: a log that grows meanwhile is taken as far as it was. */
static int store_file(struct adding *adding, int fd, struct snapshot_entry *entry)
{
    struct blob_cut cut;
    struct snapshot_batch *batch = adding->snapshot->batch;
    int rc = blob_cut_plan(entry->bytes, entry->bytes < LARGE_FILE_BYTES ? BLOB_CHUNK_BYTES : BLOB_CHUNK_BYTES_MAX, &cut);
    entry->chunks = rc == 0 ? calloc(cut.chunk_count + 1u, sizeof *entry->chunks) : NULL;
    if (entry->chunks == NULL) {
        (void)snprintf(adding->error, adding->error_size, "%.300s: %s", entry->path, err_text(rc != 0 ? rc : ERR_MEMORY));
        return rc != 0 ? rc : ERR_MEMORY;
    }
    for (uint32_t i = 0; i < cut.chunk_count && rc == 0; i++) {
        uint64_t offset;
        uint32_t bytes;
        blob_cut_chunk(&cut, i, &offset, &bytes);
        if (batch->used_bytes + bytes > CHUNKS_TRANSACTION_BYTES || batch->item_count == BATCH_ITEMS_MAX) {
            rc = flush(adding);
        }
        uint8_t *at = batch->bytes + batch->used_bytes;
        int read_rc = rc == 0 ? descriptor_read_at(fd, at, bytes, offset) : rc;
        if (rc == 0 && read_rc != 0) {
            (void)snprintf(adding->error, adding->error_size, "%.300s cannot be read: %s", entry->path,
                           read_rc == ERR_AGAIN ? "it became shorter meanwhile" : strerror(errno));
            rc = read_rc;
        }
        if (rc == 0) {
            hash256 hash = hash_bytes(at, bytes);
            batch->items[batch->item_count++] = (struct chunks_item){.hash = hash, .bytes = at, .count = bytes};
            batch->used_bytes += bytes;
            entry->chunks[entry->chunk_count++] = (struct blob_chunk){.hash = hash, .bytes = bytes};
        }
    }
    return rc;
}

static void leave_out(struct snapshot *snapshot, const char *path, const char *why)
{
    if (snapshot->left_out++ == 0) {
        (void)snprintf(snapshot->left_out_why, sizeof snapshot->left_out_why, "%.160s %s", path, why);
    }
}

static int fail_io(const struct adding *adding, const char *path)
{
    int rc = errno == ENOENT ? ERR_AGAIN : errno == ENOMEM ? ERR_MEMORY : ERR_IO;
    (void)snprintf(adding->error, adding->error_size, "%.300s cannot be read: %s", path, strerror(errno));
    return rc;
}

static int add_any(struct adding *adding, int parent, const char *name, const char *path, uint32_t depth);

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory in byte order; the caller frees them. `fd` is taken. */
static int read_names(int fd, char ***out, size_t *count)
{
    DIR *directory = fdopendir(fd);
    char **names = NULL;
    size_t used = 0, capacity = 0;
    int rc = 0;
    if (directory == NULL) {
        (void)close(fd);
        return ERR_IO;
    }
    struct dirent *entry;
    while (rc == 0 && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (used == capacity) {
            capacity = capacity == 0 ? 32 : capacity * 2;
            char **bigger = realloc(names, capacity * sizeof *bigger);
            rc = bigger == NULL ? ERR_MEMORY : 0;
            names = bigger != NULL ? bigger : names;
        }
        if (rc == 0 && used < SNAPSHOT_ENTRIES_MAX) {
            names[used] = strdup(entry->d_name);
            rc = names[used] == NULL ? ERR_MEMORY : 0;
            used += rc == 0;
        } else if (rc == 0) {
            rc = ERR_FULL;
        }
    }
    (void)closedir(directory);
    if (used > 0) {
        qsort(names, used, sizeof *names, compare_names);
    }
    *out = names;
    *count = used;
    return rc;
}

static int add_directory(struct adding *adding, int fd, const struct stat *status, const char *path, uint32_t depth)
{
    struct snapshot_entry *entry = append(adding->snapshot, path, SNAPSHOT_DIRECTORY);
    if (entry == NULL) {
        (void)close(fd);
        return ERR_MEMORY;
    }
    entry->mode = status->st_mode & 0777;
    entry->mtime_ns = stamp_of(status).mtime_ns;
    int walk = dup(fd);
    char **names = NULL;
    size_t count = 0;
    int rc = walk < 0 ? ERR_IO : read_names(walk, &names, &count);
    if (rc != 0) {
        (void)snprintf(adding->error, adding->error_size, "the directory %.300s cannot be listed: %s", path, err_text(rc));
    }
    for (size_t i = 0; i < count; i++) {
        char below[SNAPSHOT_PATH_BYTES];
        int length = snprintf(below, sizeof below, "%s/%s", path, names[i]);
        if (rc == 0 && length < (int)sizeof below) {
            rc = add_any(adding, fd, names[i], below, depth + 1);
            rc = rc == ERR_NOT_FOUND ? ERR_AGAIN : rc;
        } else if (rc == 0) {
            leave_out(adding->snapshot, path, "holds a name that makes a path too long");
        }
        free(names[i]);
    }
    free(names);
    (void)close(fd);
    return rc;
}

static int add_file(struct adding *adding, int fd, const struct stat *status, const char *path)
{
    struct snapshot *snapshot = adding->snapshot;
    struct snapshot_entry *entry = append(snapshot, path, SNAPSHOT_FILE);
    if (entry == NULL) {
        return ERR_MEMORY;
    }
    entry->mode = status->st_mode & 0777;
    entry->bytes = (uint64_t)status->st_size;
    entry->stamp = stamp_of(status);
    entry->mtime_ns = entry->stamp.mtime_ns;
    snapshot->bytes += entry->bytes;
    if (snapshot->bytes > adding->bytes_max) {
        (void)snprintf(adding->error, adding->error_size,
                       "with %.300s the files have %llu bytes or more, and %llu are allowed", path,
                       (unsigned long long)snapshot->bytes, (unsigned long long)adding->bytes_max);
        return ERR_FULL;
    }
    return reuse(adding, entry) ? 0 : store_file(adding, fd, entry);
}

static int add_link(struct adding *adding, int parent, const char *name, const char *path)
{
    char target[SNAPSHOT_PATH_BYTES];
    ssize_t bytes = readlinkat(parent, name, target, sizeof target);
    if (bytes < 0) {
        return fail_io(adding, path);
    }
    if (bytes == (ssize_t)sizeof target) {
        leave_out(adding->snapshot, path, "is a link with a target that is too long");
        return 0;
    }
    target[bytes] = '\0';
    if (!link_stays(path, target)) {
        leave_out(adding->snapshot, path, "is a link that leads out of what is kept");
        return 0;
    }
    struct snapshot_entry *entry = append(adding->snapshot, path, SNAPSHOT_LINK);
    if (entry == NULL || (entry->link = strdup(target)) == NULL) {
        return ERR_MEMORY;
    }
    entry->mode = 0777;
    return 0;
}

static int add_any(struct adding *adding, int parent, const char *name, const char *path, uint32_t depth)
{
    struct stat status;
    if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : fail_io(adding, path);
    }
    if (adding->snapshot->count >= SNAPSHOT_ENTRIES_MAX) {
        (void)snprintf(adding->error, adding->error_size, "there are more than %u files and directories", SNAPSHOT_ENTRIES_MAX);
        return ERR_FULL;
    }
    if (S_ISLNK(status.st_mode)) {
        return add_link(adding, parent, name, path);
    }
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        leave_out(adding->snapshot, path, "is neither a file nor a directory nor a link");
        return 0;
    }
    if (depth > SNAPSHOT_DEPTH_MAX) {
        leave_out(adding->snapshot, path, "lies too deep");
        return 0;
    }
    /* Without O_NONBLOCK a pipe that has just taken the name would block. */
    int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int rc = fail_io(adding, path);
        if (fd >= 0) {
            (void)close(fd);
        }
        return rc;
    }
    if (S_ISDIR(status.st_mode)) {
        return add_directory(adding, fd, &status, path, depth);
    }
    int rc = S_ISREG(status.st_mode) ? add_file(adding, fd, &status, path) : ERR_AGAIN;
    (void)close(fd);
    return rc;
}

int snapshot_add(struct snapshot *snapshot, struct chunks *chunks, int root, const char *disk_path, const char *path,
                 const struct snapshot *before, uint64_t bytes_max, char *error, size_t error_size)
{
    uint32_t count = snapshot->count;
    char reason[512] = "no memory is left";
    struct adding adding = {.snapshot = snapshot, .chunks = chunks, .before = before, .bytes_max = bytes_max, .error = reason,
                            .error_size = sizeof reason};
    int rc = batch_make(snapshot) ? append_parents(snapshot, path) : ERR_MEMORY;
    rc = rc == 0 ? add_any(&adding, root, disk_path, path, 0) : rc;
    if (rc != 0) {
        snapshot_cut(snapshot, count);
        (void)snprintf(error, error_size, "%s", rc == ERR_NOT_FOUND ? "it is not there" : reason);
    }
    return rc;
}

int snapshot_take_over(struct snapshot *snapshot, const struct snapshot *before, const char *path)
{
    uint32_t count = snapshot->count, at = 0;
    if (!find_before(snapshot, before, path, &at)) {
        return before->count > 0 && snapshot->before_order == NULL ? ERR_MEMORY : ERR_NOT_FOUND;
    }
    int rc = append_parents(snapshot, path);
    for (; at < before->count && snapshot_is_below(snapshot->before_order[at]->path, path) && rc == 0; at++) {
        const struct snapshot_entry *from = snapshot->before_order[at];
        struct snapshot_entry *entry = append(snapshot, from->path, from->kind);
        if (entry == NULL) {
            rc = ERR_MEMORY;
            break;
        }
        entry->mode = from->mode;
        entry->mtime_ns = from->mtime_ns;
        entry->stamp = from->stamp;
        entry->link = from->link != NULL ? strdup(from->link) : NULL;
        entry->chunks = from->chunks != NULL ? calloc(from->chunk_count + 1u, sizeof *entry->chunks) : NULL;
        if ((from->link != NULL && entry->link == NULL) || (from->chunks != NULL && entry->chunks == NULL)) {
            rc = ERR_MEMORY;
        } else if (from->chunks != NULL) {
            memcpy(entry->chunks, from->chunks, from->chunk_count * sizeof *entry->chunks);
            entry->chunk_count = from->chunk_count;
            entry->bytes = from->bytes;
            snapshot->bytes += from->bytes;
        }
    }
    if (rc != 0) {
        snapshot_cut(snapshot, count);
    }
    return rc;
}

/* ---- listing and manifest ------------------------------------------------------------------------------------------ */

static void listing_pack(const struct snapshot *snapshot, struct pack_writer *writer)
{
    pack_array(writer, 2);
    pack_u64(writer, LISTING_VERSION);
    pack_array(writer, snapshot->count);
    for (uint32_t i = 0; i < snapshot->count; i++) {
        const struct snapshot_entry *entry = &snapshot->entries[i];
        pack_array(writer, 6);
        pack_bin(writer, entry->path, strlen(entry->path));
        pack_u64(writer, entry->kind);
        pack_u64(writer, entry->mode);
        pack_u64(writer, entry->bytes);
        pack_i64(writer, entry->mtime_ns);
        pack_bin(writer, entry->link != NULL ? entry->link : "", entry->link != NULL ? strlen(entry->link) : 0);
    }
}

/* Stores the bytes in chunks of the usual size and adds the chunks to the manifest. */
static int put_listing(struct chunks *chunks, const uint8_t *bytes, size_t count, struct blob_manifest *manifest)
{
    for (size_t done = 0; done < count;) {
        size_t part = count - done < BLOB_CHUNK_BYTES ? count - done : BLOB_CHUNK_BYTES;
        hash256 hash = hash_bytes(bytes + done, part);
        int rc = chunks_has(chunks, hash) ? 0 : chunks_put(chunks, hash, bytes + done, part);
        if (rc != 0) {
            return rc;
        }
        manifest->chunks[manifest->chunk_count++] = (struct blob_chunk){.hash = hash, .bytes = (uint32_t)part};
        done += part;
    }
    return 0;
}

static int put_manifest(struct chunks *chunks, const struct blob_manifest *manifest, hash256 *blob)
{
    size_t capacity = BLOB_ENCODED_BYTES(manifest->chunk_count), count;
    uint8_t *encoded = malloc(capacity);
    int rc = encoded != NULL ? blob_encode(manifest, encoded, capacity, &count) : ERR_MEMORY;
    if (rc == 0) {
        hash256 hash = hash_bytes(encoded, count);
        rc = chunks_has(chunks, hash) ? 0 : chunks_put(chunks, hash, encoded, count);
        *blob = rc == 0 ? hash : *blob;
    }
    free(encoded);
    return rc;
}

int snapshot_put(struct snapshot *snapshot, struct chunks *chunks, hash256 *blob, uint64_t *blob_bytes, char *error,
                 size_t error_size)
{
    size_t capacity = 64, chunk_count = SNAPSHOT_LISTING_BYTES_MAX / BLOB_CHUNK_BYTES + 1;
    for (uint32_t i = 0; i < snapshot->count; i++) {
        const struct snapshot_entry *entry = &snapshot->entries[i];
        capacity += 64 + strlen(entry->path) + (entry->link != NULL ? strlen(entry->link) : 0);
        chunk_count += entry->chunk_count;
    }
    uint8_t *listing = NULL;
    struct blob_manifest manifest = {.chunks = NULL};
    int rc = chunk_count > BLOB_CHUNKS_MAX || capacity > SNAPSHOT_LISTING_BYTES_MAX ? ERR_FULL : 0;
    rc = rc == 0 && snapshot->batch != NULL ? batch_store(snapshot->batch, chunks) : rc;
    batch_free(snapshot);
    forget_before(snapshot);
    if (rc == 0) {
        listing = malloc(capacity);
        manifest.chunks = malloc(chunk_count * sizeof *manifest.chunks);
        rc = listing != NULL && manifest.chunks != NULL ? 0 : ERR_MEMORY;
    }
    if (rc == 0) {
        struct pack_writer writer;
        pack_writer_init(&writer, listing, capacity);
        listing_pack(snapshot, &writer);
        CHECK(!writer.failed);
        manifest.total_bytes = writer.used_bytes + snapshot->bytes;
        rc = put_listing(chunks, listing, writer.used_bytes, &manifest);
    }
    for (uint32_t i = 0; rc == 0 && i < snapshot->count; i++) {
        const struct snapshot_entry *entry = &snapshot->entries[i];
        if (entry->chunk_count > 0) {
            memcpy(manifest.chunks + manifest.chunk_count, entry->chunks, entry->chunk_count * sizeof *entry->chunks);
            manifest.chunk_count += entry->chunk_count;
        }
    }
    if (rc == 0 && !chunks_has_all(chunks, &manifest)) {
        rc = ERR_AGAIN;
    }
    rc = rc == 0 ? put_manifest(chunks, &manifest, blob) : rc;
    if (rc == 0) {
        *blob_bytes = manifest.total_bytes;
    } else {
        (void)snprintf(error, error_size, "%s",
                       rc == ERR_FULL ? "there are too many files, or too many bytes, for one copy" : err_text(rc));
    }
    free(listing);
    free(manifest.chunks);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

/* A relative path of names that are neither empty nor "." nor "..". */
static bool path_is_good(const char *path)
{
    if (path[0] == '\0') {
        return false;
    }
    for (const char *at = path;;) {
        size_t bytes = strcspn(at, "/");
        if (bytes == 0 || (bytes == 1 && at[0] == '.') || (bytes == 2 && at[0] == '.' && at[1] == '.')) {
            return false;
        }
        if (at[bytes] == '\0') {
            return true;
        }
        at += bytes + 1;
    }
}

static bool read_text(struct pack_reader *reader, char out[SNAPSHOT_PATH_BYTES])
{
    size_t count;
    const uint8_t *bytes = pack_read_bin(reader, &count);
    if (reader->failed || count >= SNAPSHOT_PATH_BYTES || memchr(bytes, '\0', count) != NULL) {
        return false;
    }
    memcpy(out, bytes, count);
    out[count] = '\0';
    return true;
}

static int read_entry(struct pack_reader *reader, struct snapshot *out)
{
    char path[SNAPSHOT_PATH_BYTES], link[SNAPSHOT_PATH_BYTES];
    uint32_t fields = pack_read_array(reader);
    bool is_good = fields >= 6 && read_text(reader, path) && path_is_good(path);
    enum snapshot_kind kind = (enum snapshot_kind)pack_read_u64_max(reader, SNAPSHOT_LINK);
    uint32_t mode = (uint32_t)pack_read_u64_max(reader, 0777);
    uint64_t bytes = pack_read_u64_max(reader, BLOB_BYTES_MAX);
    int64_t mtime_ns = pack_read_i64(reader);
    is_good = is_good && read_text(reader, link);
    for (uint32_t more = 6; is_good && more < fields && !reader->failed; more++) {
        pack_skip(reader);
    }
    if (!is_good || reader->failed || (kind == SNAPSHOT_LINK && !link_stays(path, link)) ||
        (kind != SNAPSHOT_FILE && bytes > 0)) {
        return ERR_MALFORMED;
    }
    struct snapshot_entry *entry = append(out, path, kind);
    if (entry == NULL || (kind == SNAPSHOT_LINK && (entry->link = strdup(link)) == NULL)) {
        return ERR_MEMORY;
    }
    entry->mode = mode;
    entry->bytes = bytes;
    entry->mtime_ns = mtime_ns;
    out->bytes += bytes;
    return 0;
}

int snapshot_read(int fd, uint64_t blob_bytes, struct snapshot *out)
{
    *out = (struct snapshot){0};
    size_t count = blob_bytes < SNAPSHOT_LISTING_BYTES_MAX ? (size_t)blob_bytes : SNAPSHOT_LISTING_BYTES_MAX;
    uint8_t *bytes = malloc(count + 1);
    int rc = bytes != NULL ? descriptor_read_at(fd, bytes, count, 0) : ERR_MEMORY;
    rc = rc == ERR_AGAIN ? ERR_MALFORMED : rc;
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, rc == 0 ? count : 0);
    uint32_t parts = rc == 0 ? pack_read_array(&reader) : 0;
    uint64_t version = pack_read_u64(&reader);
    uint32_t entries = parts >= 2 ? pack_read_array(&reader) : 0;
    if (rc == 0 && !reader.failed && version != LISTING_VERSION) {
        rc = ERR_VERSION;
    } else if (rc == 0 && (reader.failed || entries > SNAPSHOT_ENTRIES_MAX)) {
        rc = ERR_MALFORMED;
    }
    for (uint32_t i = 0; rc == 0 && i < entries; i++) {
        rc = read_entry(&reader, out);
    }
    for (uint32_t more = 2; rc == 0 && more < parts && !reader.failed; more++) {
        pack_skip(&reader);
    }
    if (rc == 0 && (reader.failed || reader.offset + out->bytes != blob_bytes)) {
        rc = ERR_MALFORMED;
    }
    uint64_t offset = reader.offset;
    for (uint32_t i = 0; rc == 0 && i < out->count; i++) {
        out->entries[i].offset = offset;
        offset += out->entries[i].bytes;
    }
    free(bytes);
    if (rc != 0) {
        snapshot_free(out);
    }
    return rc;
}

/* ---- unpacking ----------------------------------------------------------------------------------------------------- */

/* Opens the directory in which the last name of `path` lies, making directories on the way; whatever else has such a name is
 * removed first. -1: errno tells why. `*name` is the last name. */
static int open_parent(int dir, const char *path, const char **name)
{
    int fd = dup(dir);
    const char *at = path;
    for (const char *slash = strchr(at, '/'); slash != NULL && fd >= 0; slash = strchr(at, '/')) {
        char part[SNAPSHOT_PATH_BYTES];
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - at), at);
        int below = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0) {
            (void)unlinkat(fd, part, 0);
            if (mkdirat(fd, part, 0755) == 0) {
                below = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            }
        }
        (void)close(fd);
        fd = below;
        at = slash + 1;
    }
    *name = at;
    return fd;
}

static int copy_bytes(int from, uint64_t offset, int to, uint64_t bytes)
{
    static _Thread_local uint8_t buffer[256 * 1024];
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < sizeof buffer ? (size_t)(bytes - done) : sizeof buffer;
        if (descriptor_read_at(from, buffer, part, offset + done) != 0) {
            errno = EIO;
            return -1;
        }
        for (size_t put = 0; put < part;) {
            ssize_t n = write(to, buffer + put, part - put);
            if (n < 0 && errno != EINTR) {
                return -1;
            }
            put += n > 0 ? (size_t)n : 0;
        }
        done += part;
    }
    return 0;
}

static struct timespec time_of(int64_t ns)
{
    int64_t seconds = ns / 1000000000 - (ns % 1000000000 < 0);
    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(ns - seconds * 1000000000)};
}

/* 0 or -1, and errno tells why. */
static int unpack_entry(int fd, const struct snapshot_entry *entry, int dir, const char *path)
{
    const char *name;
    int parent = open_parent(dir, path, &name);
    if (parent < 0) {
        return -1;
    }
    const struct timespec times[2] = {time_of(entry->mtime_ns), time_of(entry->mtime_ns)};
    int rc = 0;
    if (entry->kind == SNAPSHOT_DIRECTORY) {
        struct stat status;
        bool is_there = fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
        if (is_there && !S_ISDIR(status.st_mode)) {
            (void)unlinkat(parent, name, 0);
        }
        rc = is_there && S_ISDIR(status.st_mode) ? 0 : mkdirat(parent, name, 0700 | entry->mode);
    } else {
        (void)unlinkat(parent, name, 0);
        if (entry->kind == SNAPSHOT_LINK) {
            rc = symlinkat(entry->link, parent, name);
        } else {
            int to = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, entry->mode | 0200);
            rc = to < 0 ? -1 : copy_bytes(fd, entry->offset, to, entry->bytes);
            if (rc == 0) {
                (void)fchmod(to, entry->mode);
                (void)futimens(to, times);
            }
            if (to >= 0) {
                (void)close(to);
            }
        }
    }
    int reason = errno;
    (void)close(parent);
    errno = reason;
    return rc;
}

/* Where the entry goes below DIR. */
static const char *rest_of(const struct snapshot_entry *entry, const char *from)
{
    size_t bytes = strlen(from);
    if (bytes == 0) {
        return entry->path;
    }
    if (entry->path[bytes] == '/') {
        return entry->path + bytes + 1;
    }
    const char *slash = strrchr(entry->path, '/');
    return slash != NULL ? slash + 1 : entry->path;
}

static int fail_unpack(const char *path, char *error, size_t error_size)
{
    int rc = errno == ENOSPC || errno == EDQUOT ? ERR_NO_SPACE : ERR_IO;
    (void)snprintf(error, error_size, "%.300s cannot be written: %s", path, strerror(errno));
    return rc;
}

int snapshot_unpack(int fd, const struct snapshot *snapshot, const char *from, const char *dir, uint32_t *count, char *error,
                    size_t error_size)
{
    int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return fail_unpack(dir, error, error_size);
    }
    int rc = ERR_NOT_FOUND;
    uint32_t written = 0;
    for (uint32_t i = 0; i < snapshot->count && (rc == 0 || rc == ERR_NOT_FOUND); i++) {
        const struct snapshot_entry *entry = &snapshot->entries[i];
        if (!snapshot_is_below(entry->path, from)) {
            continue;
        }
        rc = 0;
        if (strcmp(entry->path, from) == 0 && entry->kind == SNAPSHOT_DIRECTORY) {
            continue; /* DIR itself */
        }
        if (unpack_entry(fd, entry, root, rest_of(entry, from)) != 0) {
            rc = fail_unpack(entry->path, error, error_size);
        }
        written += entry->kind != SNAPSHOT_DIRECTORY;
    }
    for (uint32_t i = snapshot->count; rc == 0 && i-- > 0;) { /* a directory's time, once its files are in it */
        const struct snapshot_entry *entry = &snapshot->entries[i];
        bool is_listed = entry->kind == SNAPSHOT_DIRECTORY && entry->mtime_ns != 0 && snapshot_is_below(entry->path, from) &&
                         strcmp(entry->path, from) != 0;
        if (is_listed) {
            const struct timespec times[2] = {time_of(entry->mtime_ns), time_of(entry->mtime_ns)};
            (void)utimensat(root, rest_of(entry, from), times, AT_SYMLINK_NOFOLLOW);
        }
    }
    (void)close(root);
    if (rc == ERR_NOT_FOUND) {
        (void)snprintf(error, error_size, "nothing is listed below %.300s", from);
    } else if (rc == 0) {
        *count = written;
    }
    return rc;
}
