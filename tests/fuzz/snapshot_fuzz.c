/* Snapshots of files, from any peer: whatever they list, nothing outside of the directory that they are unpacked into is
 * touched: no link on the way is followed. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/pack.h"
#include "store/snapshot.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scratch.h"

#define CANARY "nobody may touch this"

static char inside[128], canary[160];

static void places_make(void)
{
    (void)snprintf(inside, sizeof inside, "%s/inside", scratch_directory());
    (void)snprintf(canary, sizeof canary, "%s/canary", scratch_directory());
    scratch_remove(inside);
    scratch_remove(canary);
    int fd = open(canary, O_WRONLY | O_CREAT | O_EXCL, 0644);
    CHECK(fd >= 0 && write(fd, CANARY, sizeof CANARY) == sizeof CANARY && close(fd) == 0);
    CHECK(mkdir(inside, 0755) == 0);
}

static void check_canary(void)
{
    char text[64] = "";
    int fd = open(canary, O_RDONLY | O_NOFOLLOW);
    CHECK(fd >= 0 && read(fd, text, sizeof text) == sizeof CANARY && strcmp(text, CANARY) == 0);
    CHECK(close(fd) == 0);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    char error[512] = "";
    struct snapshot snapshot;
    uint32_t count;
    int fd = memfd_create("fuzz-snapshot", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    if (snapshot_read(fd, size, &snapshot) == 0) {
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < snapshot.count; i++) {
            bytes += snapshot.entries[i].bytes;
            CHECK(snapshot.entries[i].offset + snapshot.entries[i].bytes <= size);
        }
        CHECK(bytes == snapshot.bytes);
        places_make();
        (void)snapshot_unpack(fd, &snapshot, "", inside, &count, error, sizeof error);
        check_canary();
        snapshot_free(&snapshot);
    }
    CHECK(close(fd) == 0);
}

static void put(struct pack_writer *writer, const char *path, enum snapshot_kind kind, const char *link, uint64_t bytes)
{
    pack_array(writer, 6);
    pack_bin(writer, path, strlen(path));
    pack_u64(writer, kind);
    pack_u64(writer, 0755);
    pack_u64(writer, bytes);
    pack_i64(writer, 1700000000000000000);
    pack_bin(writer, link, strlen(link));
}

void fuzz_seeds(void)
{
    uint8_t bytes[1024];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 2);
    pack_u64(&writer, 1);
    pack_array(&writer, 5);
    put(&writer, "work", SNAPSHOT_DIRECTORY, "", 0);
    put(&writer, "work/runs", SNAPSHOT_DIRECTORY, "", 0);
    put(&writer, "work/runs/link", SNAPSHOT_LINK, "../x", 0);
    put(&writer, "work/runs/link/canary", SNAPSHOT_FILE, "", 5);
    put(&writer, "work/last", SNAPSHOT_FILE, "", 3);
    memcpy(bytes + writer.used_bytes, "hellobye", 8);
    fuzz_seed(bytes, writer.used_bytes + 8);
}
