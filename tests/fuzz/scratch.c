#include "tests/fuzz/scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"

static char directory[64];
static pid_t owner;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

void scratch_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void clean(void)
{
    if (getpid() == owner) {
        scratch_remove(directory);
    }
}

const char *scratch_directory(void)
{
    if (directory[0] == '\0') {
        const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        (void)snprintf(directory, sizeof directory, "%s/shoal-fuzz-XXXXXX", parent);
        CHECK(mkdtemp(directory) != NULL);
        owner = getpid();
        CHECK(atexit(clean) == 0);
    }
    return directory;
}
