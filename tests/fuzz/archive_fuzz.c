/* Archives of context directories, from any peer: whatever they hold, nothing outside of the directory that they are
 * unpacked into is touched, and no link in it leads out. What was unpacked can be packed and unpacked again. */
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
    char error[512] = "";
    int fd = memory_file("", 0);
    int packed = archive_pack(inside, fd, BYTES_MAX, error, sizeof error);
    CHECK(packed == 0);
    scratch_remove(inside);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(archive_unpack(fd, inside, BYTES_MAX, error, sizeof error) == 0);
    CHECK(close(fd) == 0);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    char error[512] = "";
    places_make();
    int fd = memory_file(data, size);
    int result = archive_unpack(fd, inside, BYTES_MAX, error, sizeof error);
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

static void seed(const struct part *parts, size_t count)
{
    static uint8_t bytes[FUZZ_INPUT_BYTES_MAX];
    size_t used = 0;
    struct archive *tar = archive_write_new();
    CHECK(tar != NULL && archive_write_set_format_pax_restricted(tar) == ARCHIVE_OK);
    CHECK(archive_write_set_bytes_in_last_block(tar, 1) == ARCHIVE_OK);
    CHECK(archive_write_open_memory(tar, bytes, sizeof bytes, &used) == ARCHIVE_OK);
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
        CHECK(archive_write_header(tar, entry) == ARCHIVE_OK);
        if (length > 0) {
            CHECK(archive_write_data(tar, parts[i].content, length) == (la_ssize_t)length);
        }
        archive_entry_free(entry);
    }
    CHECK(archive_write_close(tar) == ARCHIVE_OK);
    archive_write_free(tar);
    fuzz_seed(bytes, used);
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
