#include "store/data_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"

#define FUSE_MAGIC 0x65735546u

_Static_assert(DATA_DIR_PATH_MAX + sizeof "/shoald.sock" == sizeof((struct sockaddr_un *)0)->sun_path,
               "the longest path and the socket's name fill an address");

const char *data_dir_network_name(long f_type)
{
    /* f_type is signed in some kernels: compare the low 32 bits. */
    static const struct {
        unsigned magic;
        const char *name;
    } kinds[] = {
        {0x6969, "NFS"},        {0x517b, "SMB"},        {0xfe534d42u, "SMB"},
        {0xff534d42u, "CIFS"},  {0x564c, "NCP"},        {0x5346414f, "AFS"},
        {0x6b414653, "AFS"},    {0x73757245, "Coda"},   {0x0bd00bd0, "Lustre"},
        {0x47504653, "GPFS"},   {0x00c36400, "CephFS"}, {0x01021997, "9P"},
        {0x19830326, "BeeGFS"}, {0x7461636f, "OCFS2"},  {0x01161970, "GFS2"},
        {0xaad7aaeau, "PanFS"}, {0x786f4256, "vboxsf"}, {0xbacbacbcu, "VMware shared folder"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((unsigned)f_type == kinds[i].magic) {
            return kinds[i].name;
        }
    }
    return NULL;
}

const char *data_dir_network_name_fuse(const char *mount_type)
{
    static const char *const kinds[] = {"sshfs",  "glusterfs", "ceph",   "cephfs",    "s3fs",    "goofys",   "gcsfuse",
                                        "rclone", "davfs",     "davfs2", "curlftpfs", "juicefs", "smbnetfs", "moosefs"};
    if (strncmp(mount_type, "fuse.", 5) != 0) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(mount_type + 5, kinds[i]) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

/* The name of the network file system behind the FUSE mount with this device number, or NULL. A line of mountinfo is
 * "36 35 98:0 /root /mount/point rw,noatime master:1 - type source options" (proc(5)). */
static const char *fuse_network_name(dev_t device)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (file == NULL) {
        return NULL;
    }
    const char *name = NULL;
    char *line = NULL;
    size_t capacity = 0;
    while (name == NULL && getline(&line, &capacity, file) > 0) {
        unsigned device_major;
        unsigned device_minor;
        char type[64];
        const char *dash = strstr(line, " - ");
        if (dash != NULL && sscanf(line, "%*u %*u %u:%u ", &device_major, &device_minor) == 2 &&
            makedev(device_major, device_minor) == device && sscanf(dash + 3, "%63s", type) == 1) {
            name = data_dir_network_name_fuse(type);
        }
    }
    free(line);
    fclose(file);
    return name;
}

/* Returns 0 or errno. */
static int make_with_parents(const char *path)
{
    char partial[PATH_MAX];
    size_t length = strlen(path);
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (partial[i] != '/' && partial[i] != '\0') {
            continue;
        }
        partial[i] = '\0';
        if (mkdir(partial, 0700) != 0 && errno != EEXIST) {
            /* For an existing parent that is not writable some systems report EROFS or EACCES. */
            int reason = errno;
            struct stat there;
            if (stat(partial, &there) != 0) {
                return reason;
            }
        }
        if (i < length) {
            partial[i] = '/';
        }
    }
    return 0;
}

static bool is_empty_or_ours(int dir_fd)
{
    if (faccessat(dir_fd, "lock", F_OK, 0) == 0) {
        return true;
    }
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        if (copy >= 0) {
            close(copy);
        }
        return false;
    }
    bool empty = true;
    for (const struct dirent *entry; empty && (entry = readdir(dir)) != NULL;) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    closedir(dir);
    return empty;
}

/* Refuses a path that must not be a data directory, and makes an accepted one private. */
static int check_and_close_to_others(const char *path, int dir_fd, char *error, size_t error_size)
{
    struct statfs fs;
    struct stat info;
    if (fstatfs(dir_fd, &fs) != 0 || fstat(dir_fd, &info) != 0) {
        snprintf(error, error_size, "cannot look at the data directory %s: %s", path, strerror(errno));
        return ERR_IO;
    }
    const char *network =
        (unsigned)fs.f_type == FUSE_MAGIC ? fuse_network_name(info.st_dev) : data_dir_network_name((long)fs.f_type);
    if (network != NULL) {
        snprintf(error, error_size,
                 "the data directory %s is on a network file system (%s), where a database is not safe: give a path on "
                 "a local disk with --dir, for example --dir /var/tmp/shoal-%u",
                 path, network, (unsigned)geteuid());
        return ERR_REFUSED;
    }
    if (info.st_uid != geteuid()) {
        snprintf(error, error_size,
                 "the data directory %s belongs to another user (uid %u), not to you (uid %u): give one of your own "
                 "with --dir",
                 path, (unsigned)info.st_uid, (unsigned)geteuid());
        return ERR_REFUSED;
    }
    if ((info.st_mode & 0077) == 0) {
        return 0;
    }
    /* A home directory or /tmp, given by mistake, must not be closed to other users: only a directory without foreign
     * files. */
    if ((info.st_mode & S_ISVTX) != 0 || !is_empty_or_ours(dir_fd)) {
        snprintf(error, error_size,
                 "the data directory %s is open to other users and has files of its own: give a new directory with "
                 "--dir, or run chmod 700 on it if it is meant",
                 path);
        return ERR_REFUSED;
    }
    if (fchmod(dir_fd, 0700) != 0) {
        snprintf(error, error_size, "cannot make the data directory %s private: %s", path, strerror(errno));
        return ERR_IO;
    }
    return 0;
}

static int lock_take(const char *path, int dir_fd, int *lock_fd, char *error, size_t error_size)
{
    int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        int rc = errno == ENOSPC || errno == EDQUOT ? ERR_NO_SPACE : ERR_IO;
        snprintf(error, error_size, "cannot make the file %s/lock: %s", path, strerror(errno));
        return rc;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int reason = errno;
        char text[24] = "";
        ssize_t got = pread(fd, text, sizeof text - 1, 0);
        long pid = got > 0 ? strtol(text, NULL, 10) : 0;
        close(fd);
        if (reason != EWOULDBLOCK) {
            snprintf(error, error_size, "cannot lock the file %s/lock: %s", path, strerror(reason));
            return ERR_IO;
        }
        snprintf(
            error, error_size,
            "the data directory %s is in use by another daemon (pid %ld): stop that one, or give another directory "
            "with --dir",
            path, pid);
        return ERR_EXISTS;
    }
    /* Always the same number of bytes, over the old ones, which needs no new space on a full disk. The number is for
     * people; a first start on a full disk goes on without it, and fails later. */
    char text[24];
    int length = snprintf(text, sizeof text, "%-11ld\n", (long)getpid());
    if (pwrite(fd, text, (size_t)length, 0) < 0 && errno != ENOSPC && errno != EDQUOT) {
        snprintf(error, error_size, "cannot write the file %s/lock: %s", path, strerror(errno));
        close(fd);
        return ERR_IO;
    }
    *lock_fd = fd;
    return 0;
}

int data_dir_absolute(const char *path, char *out, size_t size, char *error, size_t error_size)
{
    char here[PATH_MAX] = "";
    if (path[0] == '\0') {
        snprintf(error, error_size, "the path of the data directory is empty: give another with --dir");
        return ERR_USAGE;
    }
    if (path[0] != '/' && getcwd(here, sizeof here) == NULL) {
        snprintf(error, error_size, "the relative path %.200s cannot be used, since the working directory is not known (%s): "
                 "give a path that begins with / with --dir", path, strerror(errno));
        return ERR_IO;
    }
    int length = snprintf(out, size, "%s%s%s", here, here[0] == '\0' || strcmp(here, "/") == 0 ? "" : "/", path);
    if (length < 0 || (size_t)length >= size) {
        snprintf(error, error_size, "the path of the data directory is too long: give another with --dir");
        return ERR_USAGE;
    }
    return 0;
}

int data_dir_open(const char *path, int *lock_fd, char *error, size_t error_size)
{
    size_t length = strlen(path);
    if (length == 0) {
        snprintf(error, error_size, "the path of the data directory is empty: give another with --dir");
        return ERR_USAGE;
    }
    if (length > DATA_DIR_PATH_MAX) {
        snprintf(error, error_size,
                 "the path of the data directory has %zu bytes and at most %d are allowed, since programs could not reach the "
                 "daemon's socket in it: give a shorter one with --dir, not %.80s%s",
                 length, DATA_DIR_PATH_MAX, path, length > 80 ? "..." : "");
        return ERR_USAGE;
    }
    int reason = make_with_parents(path);
    int dir_fd = reason == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir_fd < 0) {
        reason = reason != 0 ? reason : errno;
        snprintf(error, error_size, "cannot make or open the data directory %s: %s", path, strerror(reason));
        return reason == ENOSPC || reason == EDQUOT ? ERR_NO_SPACE : ERR_IO;
    }
    int rc = check_and_close_to_others(path, dir_fd, error, error_size);
    if (rc == 0) {
        rc = lock_take(path, dir_fd, lock_fd, error, error_size);
    }
    close(dir_fd);
    return rc;
}

/* True if the process has this file open. False for processes of other users, which cannot be inspected. */
static bool has_open(long pid, const struct stat *file)
{
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/%ld/fd", pid);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return false;
    }
    bool found = false;
    for (const struct dirent *entry; !found && (entry = readdir(dir)) != NULL;) {
        struct stat info;
        found = fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && info.st_dev == file->st_dev && info.st_ino == file->st_ino;
    }
    closedir(dir);
    return found;
}

bool data_dir_is_at(int dir_fd, const char *name)
{
    static const char *const parts[] = {"lock", "state/data.mdb"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int length = snprintf(path, sizeof path, "%s/%s", name, parts[i]);
        if (length < 0 || (size_t)length >= sizeof path || faccessat(dir_fd, path, F_OK, 0) != 0) {
            return false;
        }
    }
    return true;
}

long data_dir_holder(const char *path)
{
    char lock[PATH_MAX], text[24] = "";
    (void)snprintf(lock, sizeof lock, "%s/lock", path);
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return 0;
    }
    struct stat info;
    bool known = fstat(fd, &info) == 0 && pread(fd, text, sizeof text - 1, 0) > 0;
    close(fd);
    long pid = known ? strtol(text, NULL, 10) : 0;
    return pid > 0 && has_open(pid, &info) ? pid : 0;
}

uint64_t data_dir_taken_ms(const char *path)
{
    char lock[PATH_MAX];
    struct stat info;
    struct timespec now;
    (void)snprintf(lock, sizeof lock, "%s/lock", path);
    if (stat(lock, &info) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return UINT64_MAX;
    }
    int64_t ms = (int64_t)(now.tv_sec - info.st_mtim.tv_sec) * 1000 + (now.tv_nsec - info.st_mtim.tv_nsec) / 1000000;
    return ms < 0 ? UINT64_MAX : (uint64_t)ms;
}

void data_dir_refresh(int lock_fd)
{
    (void)futimens(lock_fd, NULL);
}
