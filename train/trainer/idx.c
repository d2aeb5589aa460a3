#include "train/trainer/idx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/err.h"

#define PATH_BYTES 4096
#define INPUT_BYTES (64 * 1024)
#define IMAGES_MAGIC 0x00000803u
#define LABELS_MAGIC 0x00000801u

/* A file read from start to end, and unpacked on the way if it is packed. */
struct source {
    int fd;
    bool packed;
    bool ended; /* the last byte has been unpacked */
    z_stream stream;
    uint64_t read_bytes; /* of the file */
    uint64_t given_bytes; /* unpacked */
    char path[PATH_BYTES];
    char *error; /* [IDX_ERROR_BYTES], the caller's */
    uint8_t input[INPUT_BYTES];
};

__attribute__((format(printf, 3, 4))) static int fail(struct source *source, int code, const char *format, ...)
{
    char what[IDX_ERROR_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    (void)snprintf(source->error, IDX_ERROR_BYTES, "%.200s: %s", source->path, what);
    return code;
}

static int source_open(struct source *source, const char *directory, const char *name, char *error)
{
    memset(source, 0, sizeof *source);
    source->error = error;
    source->packed = true;
    int length = snprintf(source->path, sizeof source->path, "%s/%s.gz", directory, name);
    if (length < 0 || (size_t)length >= sizeof source->path) {
        return fail(source, ERR_USAGE, "the path is too long");
    }
    source->fd = open(source->path, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0 && errno == ENOENT) {
        source->packed = false;
        source->path[length - 3] = 0;
        source->fd = open(source->path, O_RDONLY | O_CLOEXEC);
    }
    if (source->fd < 0) {
        return errno == ENOENT
                   ? fail(source, ERR_NOT_FOUND, "there is no such file, with or without .gz: name the directory of the "
                                                 "data set with --data, $SHOAL_DATA or the hyperparameter data_dir")
                   : fail(source, ERR_IO, "cannot be opened: %s", strerror(errno));
    }
    if (source->packed && inflateInit2(&source->stream, 16 + MAX_WBITS) != Z_OK) {
        (void)close(source->fd);
        return fail(source, ERR_MEMORY, "no memory is left to unpack it");
    }
    return 0;
}

static void source_close(struct source *source)
{
    if (source->packed) {
        (void)inflateEnd(&source->stream);
    }
    (void)close(source->fd);
}

static int read_file(struct source *source, uint8_t *out, size_t capacity, size_t *count)
{
    ssize_t n;
    do {
        n = read(source->fd, out, capacity);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return fail(source, ERR_IO, "cannot be read at byte %llu: %s", (unsigned long long)source->read_bytes,
                    strerror(errno));
    }
    source->read_bytes += (uint64_t)n;
    *count = (size_t)n;
    return 0;
}

static int unpack(struct source *source, uint8_t *out, size_t capacity, size_t *count)
{
    source->stream.next_out = out;
    source->stream.avail_out = (uInt)capacity;
    while (!source->ended && source->stream.avail_out > 0) {
        if (source->stream.avail_in == 0) {
            size_t n = 0;
            int error = read_file(source, source->input, sizeof source->input, &n);
            if (error != 0) {
                return error;
            }
            if (n == 0) {
                return fail(source, ERR_CORRUPT, "the gzip stream is cut short: the file ends at byte %llu, after %llu "
                                                 "unpacked bytes",
                            (unsigned long long)source->read_bytes,
                            (unsigned long long)(source->given_bytes + capacity - source->stream.avail_out));
            }
            source->stream.next_in = source->input;
            source->stream.avail_in = (uInt)n;
        }
        int status = inflate(&source->stream, Z_NO_FLUSH);
        if (status == Z_STREAM_END) {
            source->ended = true;
        } else if (status != Z_OK) {
            return fail(source, ERR_CORRUPT, "the gzip stream is damaged near byte %llu of the file: %s",
                        (unsigned long long)(source->read_bytes - source->stream.avail_in),
                        source->stream.msg != NULL ? source->stream.msg : "unreadable");
        }
    }
    *count = capacity - source->stream.avail_out;
    return 0;
}

/* Reads up to `want` unpacked bytes; fewer only at the end. */
static int source_read(struct source *source, uint8_t *out, size_t want, size_t *got)
{
    size_t done = 0;
    while (done < want && !source->ended) {
        size_t part = want - done < INPUT_BYTES ? want - done : INPUT_BYTES, n = 0;
        int error = source->packed ? unpack(source, out + done, part, &n) : read_file(source, out + done, part, &n);
        if (error != 0) {
            return error;
        }
        if (!source->packed && n == 0) {
            source->ended = true;
        }
        done += n;
        source->given_bytes += n;
    }
    *got = done;
    return 0;
}

/* Reads the magic number and the dimensions: sizes[dimension_count]. */
static int read_head(struct source *source, uint32_t magic, const char *what, uint32_t *sizes, unsigned dimension_count)
{
    uint8_t head[16];
    size_t want = 4 + 4 * (size_t)dimension_count, got;
    int error = source_read(source, head, want, &got);
    if (error != 0) {
        return error;
    }
    if (got < 4 || bytes_get_u32(head) != magic) {
        return got < 4 ? fail(source, ERR_CORRUPT, "the file ends after %zu bytes, within the magic number", got)
                       : fail(source, ERR_MALFORMED, "the magic number is 0x%08x; an IDX file of %s begins with 0x%08x",
                              bytes_get_u32(head), what, magic);
    }
    if (got < want) {
        return fail(source, ERR_CORRUPT, "the file ends after %zu bytes, within its %zu bytes of head", got, want);
    }
    uint64_t total = 1;
    for (unsigned i = 0; i < dimension_count; i++) {
        sizes[i] = bytes_get_u32(head + 4 + 4 * (size_t)i);
        if (sizes[i] == 0 || sizes[i] > IDX_BYTES_MAX / total) {
            return fail(source, ERR_MALFORMED, "dimension %u is %u; each must be at least 1 and all together at most %u bytes",
                        i + 1, sizes[i], IDX_BYTES_MAX);
        }
        total *= sizes[i];
    }
    return 0;
}

/* Reads exactly `count` bytes; the file must end there. */
static int read_body(struct source *source, size_t count, uint8_t **out)
{
    uint8_t *bytes = malloc(count + 1);
    if (bytes == NULL) {
        return fail(source, ERR_MEMORY, "no memory is left for its %zu bytes", count);
    }
    size_t got;
    int error = source_read(source, bytes, count + 1, &got);
    if (error == 0 && got != count) {
        error = got < count ? fail(source, ERR_CORRUPT, "the head announces %zu bytes of data, the file holds %zu", count, got)
                            : fail(source, ERR_MALFORMED, "there is data after the %zu bytes that the head announces", count);
    }
    if (error != 0) {
        free(bytes);
        return error;
    }
    *out = bytes;
    return 0;
}

static int read_images(struct source *source, struct idx_images *out)
{
    uint32_t sizes[3];
    int error = read_head(source, IMAGES_MAGIC, "images", sizes, 3);
    uint8_t *pixels = NULL;
    if (error == 0) {
        error = read_body(source, (size_t)sizes[0] * sizes[1] * sizes[2], &pixels);
    }
    if (error == 0) {
        *out = (struct idx_images){sizes[0], sizes[1], sizes[2], pixels};
    }
    return error;
}

static int read_labels(struct source *source, uint32_t expected_count, uint32_t class_count, struct idx_labels *out)
{
    uint32_t count = 0;
    int error = read_head(source, LABELS_MAGIC, "labels", &count, 1);
    if (error == 0 && count != expected_count) {
        error = fail(source, ERR_MALFORMED, "it holds %u labels for %u images", count, expected_count);
    }
    uint8_t *labels = NULL;
    if (error == 0) {
        error = read_body(source, count, &labels);
    }
    for (uint32_t i = 0; i < count && error == 0; i++) {
        if (labels[i] >= class_count) {
            error = fail(source, ERR_MALFORMED, "label %u is %u; labels are 0 to %u", i, labels[i], class_count - 1);
        }
    }
    if (error != 0) {
        free(labels);
        return error;
    }
    *out = (struct idx_labels){count, labels};
    return 0;
}

/* Opens a source. NULL on an error, with the code in *result and a sentence in `error`. */
static struct source *source_new(const char *directory, const char *name, char *error, int *result)
{
    struct source *source = malloc(sizeof *source);
    if (source == NULL) {
        bytes_copy_text(error, IDX_ERROR_BYTES, "no memory is left to read a file");
        *result = ERR_MEMORY;
        return NULL;
    }
    *result = source_open(source, directory, name, error);
    if (*result != 0) {
        free(source);
        return NULL;
    }
    return source;
}

static void source_free(struct source *source)
{
    source_close(source);
    free(source);
}

int idx_images_read(const char *directory, const char *name, struct idx_images *out, char error[IDX_ERROR_BYTES])
{
    int result;
    struct source *source = source_new(directory, name, error, &result);
    if (source != NULL) {
        result = read_images(source, out);
        source_free(source);
    }
    return result;
}

int idx_labels_read(const char *directory, const char *name, uint32_t expected_count, uint32_t class_count,
                    struct idx_labels *out, char error[IDX_ERROR_BYTES])
{
    int result;
    struct source *source = source_new(directory, name, error, &result);
    if (source != NULL) {
        result = read_labels(source, expected_count, class_count, out);
        source_free(source);
    }
    return result;
}

void idx_images_free(struct idx_images *images)
{
    free(images->pixels);
    *images = (struct idx_images){0};
}

void idx_labels_free(struct idx_labels *labels)
{
    free(labels->labels);
    *labels = (struct idx_labels){0};
}
