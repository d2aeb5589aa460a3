#include "node/http/sandbox.h"

#include <linux/landlock.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The rights of Landlock's first version (landlock(7)): to open, make, remove and run files. */
#define FILE_RIGHTS ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)

const char *sandbox_enter(void)
{
    static const struct rlimit none = {0, 0};
    const struct landlock_ruleset_attr rules = {.handled_access_fs = FILE_RIGHTS};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return "this kernel has no PR_SET_NO_NEW_PRIVS; the door runs without it";
    }
    int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) != 0) { /* no rule: nothing is allowed */
        if (fd >= 0) {
            (void)close(fd);
        }
        return "this kernel has no Landlock; the door runs without it";
    }
    (void)close(fd);
    return NULL;
}
