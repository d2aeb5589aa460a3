#ifndef STORE_DATA_DIR_H
#define STORE_DATA_DIR_H
/* The data directory of one node: private to its user, on a local disk, held by one daemon at a time. */

#include <stddef.h>
#include <stdint.h>

/* The longest path of a data directory, without the NUL: the address of its daemon's socket, DIR/shoald.sock, holds no more. */
#define DATA_DIR_PATH_MAX 95

/* `path` seen from the root, for a program that works in other directories too: the working directory is put before one that
 * is relative. Nothing has to be there. On failure `error` has one sentence. ERR_USAGE: empty, or longer than `size`;
 * ERR_IO: the working directory is gone. */
int data_dir_absolute(const char *path, char *out, size_t size, char *error, size_t error_size);

/* Creates `path` (mode 0700, with its parents) if it is not there, and takes DIR/lock for this process; `*lock_fd`
 * holds it until the caller closes it or ends. Nobody else reads DIR/lock but for the number in it, the holder's pid.
 * On failure `error` has one sentence. ERR_REFUSED: on a network file system, not ours, open to other users and not
 * empty. ERR_EXISTS: another daemon holds it. ERR_IO, ERR_NO_SPACE, ERR_USAGE (empty, or longer than
 * DATA_DIR_PATH_MAX). */
int data_dir_open(const char *path, int *lock_fd, char *error, size_t error_size);

/* The process that holds DIR/lock and has written its number into it; 0: none, or not one that we may look at. Nothing is
 * locked to find out, so that nobody who wants the lock meanwhile is refused. */
long data_dir_holder(const char *path);

/* How long ago DIR/lock was taken last, or its holder called data_dir_refresh, whether it is still held or not; UINT64_MAX:
 * never, or the clock was set back. */
uint64_t data_dir_taken_ms(const char *path);

/* As if the holder of `lock_fd` took the lock now: before it gives the directory to a daemon that may follow at once. */
void data_dir_refresh(int lock_fd);

/* The name of the network file system that statfs reports as `f_type` ("NFS"), or NULL for others. FUSE is NULL too:
 * its f_type does not say what is behind it, its mount type does. Static strings. */
const char *data_dir_network_name(long f_type);

/* The same for the mount type in /proc/self/mountinfo, e.g. "fuse.sshfs". */
const char *data_dir_network_name_fuse(const char *mount_type);

#endif
