/* Preloaded into a program: every file system looks like NFS (statfs(2), f_type 0x6969). */

#include <string.h>
#include <sys/vfs.h>

int fstatfs(int fd, struct statfs *out)
{
    (void)fd;
    memset(out, 0, sizeof *out);
    out->f_type = 0x6969;
    return 0;
}
