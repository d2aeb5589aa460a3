/* Archives of context directories, from any peer: whatever they hold, nothing outside of the directory that they are
 * unpacked into is touched, and no link in it leads out. What was unpacked can be packed and unpacked again.
 *
 * The first byte says what follows: 'r' an archive; 's' one whose headers are given sums that fit, since hardly a change
 * would get past them; 'e' entries of which an archive is made, each u8 type, u8 length and path, u8 length and link target
 * (or content). */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "store/archive.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"

#define BYTES_MAX (256u * 1024)
#define BLOCK_BYTES 512 /* of tar */
#define PARTS_MAX 12
#define CANARY "nobody may touch this"

static char inside[128], outside[128], canary[160];

static int memory_file(const void *bytes, size_t count)
{
    int fd = memfd_create("fuzz-archive", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(write(fd, bytes, count) == (ssize_t)count);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void places_make(void)
{
    if (inside[0] != '\0') {
        return;
    }
    (void)snprintf(inside, sizeof inside, "%s/inside", scratch_directory());
    (void)snprintf(outside, sizeof outside, "%s/outside", scratch_directory());
    (void)snprintf(canary, sizeof canary, "%s/canary", outside);
    CHECK(mkdir(outside, 0755) == 0);
    int fd = open(canary, O_WRONLY | O_CREAT | O_EXCL, 0644);
    CHECK(fd >= 0 && write(fd, CANARY, sizeof CANARY) == sizeof CANARY && close(fd) == 0);
}

static int count_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    size_t length = strlen(inside);
    if (strncmp(path, inside, length) == 0 && path[length] == '\0') {
        return FTW_SKIP_SUBTREE;
    }
    bool known = at->level == 0 || strcmp(path, outside) == 0 || strcmp(path, canary) == 0;
    CHECK(known);
    return FTW_CONTINUE;
}

static void check_outside(void)
{
    char text[64] = "";
    struct stat status;
    int fd = open(canary, O_RDONLY | O_NOFOLLOW);
    CHECK(fd >= 0);
    CHECK(read(fd, text, sizeof text) == sizeof CANARY && strcmp(text, CANARY) == 0);
    CHECK(fstat(fd, &status) == 0 && (status.st_mode & 07777) == 0644 && status.st_nlink == 1);
    CHECK(close(fd) == 0);
    CHECK(nftw(scratch_directory(), count_one, 16, FTW_PHYS | FTW_ACTIONRETVAL) == 0);
}

/* Of its own kinds only, of modest modes, and links that are there lead to what is inside. */
static int check_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)type;
    (void)at;
    char real[PATH_MAX];
    CHECK(S_ISREG(status->st_mode) || S_ISDIR(status->st_mode) || S_ISLNK(status->st_mode));
    if (S_ISLNK(status->st_mode)) {
        if (realpath(path, real) != NULL) {
            CHECK(strncmp(real, inside, strlen(inside)) == 0);
        }
    } else {
        CHECK((status->st_mode & 07022) == 0);
        CHECK(S_ISDIR(status->st_mode) || status->st_nlink == 1);
    }
    return 0;
}

static void pack_again(void)
{
    char error[CONTEXT_ERROR_BYTES] = "";
    int fd = memory_file("", 0);
    const struct context_options options = {.bytes_max = BYTES_MAX};
    struct context_list *list = NULL;
    CHECK(context_list(inside, &options, &list, error) == 0);
    CHECK(archive_pack(list, fd, NULL, error, sizeof error) == 0);
    context_list_free(&list);
    scratch_remove(inside);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(archive_unpack(fd, inside, BYTES_MAX, ARCHIVE_LINKS_INSIDE, error, sizeof error) == 0);
    CHECK(close(fd) == 0);
}

static void unpack(const uint8_t *data, size_t size)
{
    char error[CONTEXT_ERROR_BYTES] = "";
    places_make();
    int fd = memory_file(data, size);
    int result = archive_unpack(fd, inside, BYTES_MAX, ARCHIVE_LINKS_INSIDE, error, sizeof error);
    CHECK((result == 0) == (error[0] == '\0'));
    CHECK(close(fd) == 0);
    CHECK(nftw(inside, check_one, 16, FTW_PHYS) == 0);
    check_outside();
    if (result == 0) {
        pack_again();
    }
    scratch_remove(inside);
}

struct part {
    const char *path, *content, *link, *hard_link;
    mode_t type;
};

/* Returns its length. Entries that the format cannot hold are left out. */
static size_t tar_make(const struct part *parts, size_t count, uint8_t *out, size_t capacity)
{
    size_t used = 0;
    struct archive *tar = archive_write_new();
    CHECK(tar != NULL && archive_write_set_format_pax_restricted(tar) == ARCHIVE_OK);
    CHECK(archive_write_set_options(tar, "hdrcharset=BINARY") == ARCHIVE_OK);
    CHECK(archive_write_set_bytes_in_last_block(tar, 1) == ARCHIVE_OK);
    CHECK(archive_write_open_memory(tar, out, capacity, &used) == ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *entry = archive_entry_new();
        CHECK(entry != NULL);
        archive_entry_copy_pathname(entry, parts[i].path);
        archive_entry_set_mode(entry, parts[i].type | 0755);
        if (parts[i].link != NULL) {
            archive_entry_copy_symlink(entry, parts[i].link);
        }
        if (parts[i].hard_link != NULL) {
            archive_entry_copy_hardlink(entry, parts[i].hard_link);
        }
        size_t length = parts[i].content != NULL ? strlen(parts[i].content) : 0;
        archive_entry_set_size(entry, (la_int64_t)length);
        if (archive_write_header(tar, entry) >= ARCHIVE_WARN && length > 0) {
            (void)archive_write_data(tar, parts[i].content, length);
        }
        archive_entry_free(entry);
    }
    (void)archive_write_close(tar);
    archive_write_free(tar);
    return used;
}

static const char *take_text(const uint8_t **data, size_t *size, char out[256])
{
    size_t length = *size > 0 ? (*data)[0] : 0;
    length = length < *size ? length : *size > 0 ? *size - 1 : 0;
    memcpy(out, *data + (*size > 0), length);
    out[length] = '\0';
    *data += length + (*size > 0);
    *size -= length + (*size > 0);
    return out;
}

static void unpack_entries(const uint8_t *data, size_t size)
{
    static const mode_t types[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFREG};
    static uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    static char texts[PARTS_MAX][2][256];
    struct part parts[PARTS_MAX] = {{0}};
    size_t count = 0;
    for (; count < PARTS_MAX && size > 0; count++) {
        uint8_t type = data[0] % 5;
        data++;
        size--;
        parts[count].type = types[type];
        parts[count].path = take_text(&data, &size, texts[count][0]);
        const char *other = take_text(&data, &size, texts[count][1]);
        parts[count].content = type == 0 ? other : NULL;
        parts[count].link = type == 2 ? other : NULL;
        parts[count].hard_link = type == 4 ? other : NULL;
    }
    unpack(bytes, tar_make(parts, count, bytes, sizeof bytes));
}

static void unpack_with_sums(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size + 1);
    CHECK(bytes != NULL);
    memcpy(bytes, data, size);
    for (size_t at = 0; at + BLOCK_BYTES <= size; at += BLOCK_BYTES) {
        uint8_t *block = bytes + at;
        if (memcmp(block + 257, "ustar", 5) == 0) {
            unsigned sum = 0;
            memset(block + 148, ' ', 8);
            for (size_t i = 0; i < BLOCK_BYTES; i++) {
                sum += block[i];
            }
            char digits[8];
            (void)snprintf(digits, sizeof digits, "%06o", sum);
            memcpy(block + 148, digits, 7);
        }
    }
    unpack(bytes, size);
    free(bytes);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return;
    }
    if (data[0] == 'e') {
        unpack_entries(data + 1, size - 1);
    } else if (data[0] == 's') {
        unpack_with_sums(data + 1, size - 1);
    } else {
        unpack(data + 1, size - 1);
    }
}

static void seed(const struct part *parts, size_t count)
{
    static uint8_t input[FUZZ_INPUT_BYTES_MAX];
    size_t used = 1 + tar_make(parts, count, input + 1, sizeof input - 1);
    input[0] = 'r';
    fuzz_seed(input, used);
    input[0] = 's';
    fuzz_seed(input, used);
    input[0] = 'e';
    used = 1;
    for (size_t i = 0; i < count; i++) {
        const struct part *part = &parts[i];
        const char *other = part->link != NULL        ? part->link
                            : part->hard_link != NULL ? part->hard_link
                            : part->content != NULL   ? part->content
                                                      : "";
        input[used++] = part->hard_link != NULL  ? 4
                        : part->type == S_IFREG ? 0
                        : part->type == S_IFDIR ? 1
                        : part->type == S_IFLNK ? 2
                                                : 3;
        input[used++] = (uint8_t)strlen(part->path);
        memcpy(input + used, part->path, strlen(part->path));
        used += strlen(part->path);
        input[used++] = (uint8_t)strlen(other);
        memcpy(input + used, other, strlen(other));
        used += strlen(other);
    }
    fuzz_seed(input, used);
}

void fuzz_seeds(void)
{
    static const struct part plain[] = {{.path = "train.py", .content = "print(1)\n", .type = S_IFREG},
                                        {.path = "lib", .type = S_IFDIR},
                                        {.path = "lib/a.py", .content = "a\n", .type = S_IFREG},
                                        {.path = "lib/b.py", .link = "../train.py", .type = S_IFLNK}};
    static const struct part up[] = {{.path = "../outside/canary", .content = "x", .type = S_IFREG}};
    static const struct part through[] = {{.path = "d", .link = "../outside", .type = S_IFLNK},
                                          {.path = "d/canary", .content = "x", .type = S_IFREG}};
    static const struct part through_inside[] = {{.path = "a", .type = S_IFDIR},
                                                 {.path = "d", .link = "a", .type = S_IFLNK},
                                                 {.path = "d/file", .content = "x", .type = S_IFREG}};
    static const struct part chain[] = {{.path = "a", .link = ".", .type = S_IFLNK},
                                        {.path = "b", .link = "a/..", .type = S_IFLNK},
                                        {.path = "c", .link = "b/outside/canary", .type = S_IFLNK}};
    static const struct part hard[] = {{.path = "h", .hard_link = "../outside/canary", .type = S_IFREG}};
    static const struct part special[] = {{.path = "pipe", .type = S_IFIFO}};
    static const struct part rules[] = {{.path = ".gitignore", .content = "*.log\n!keep.log\nbuild/\n", .type = S_IFREG},
                                        {.path = "x.log", .content = "x", .type = S_IFREG}};
    seed(plain, sizeof plain / sizeof plain[0]);
    seed(up, 1);
    seed(through, 2);
    seed(through_inside, 3);
    seed(chain, 3);
    seed(hard, 1);
    seed(special, 1);
    seed(rules, 2);
    seed(plain, 0);
}
