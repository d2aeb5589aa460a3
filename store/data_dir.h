#ifndef STORE_DATA_DIR_H
#define STORE_DATA_DIR_H
/* The data directory of one node: private to its user, on a local disk, used by one daemon at a time. A shell. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest path of a data directory, without the NUL: the socket's address, DIR/shoald.sock, has no room for more. */
#define DATA_DIR_PATH_MAX 95

/* Makes `path` absolute, for a program that changes its working directory: a relative path gets the working directory
 * in front. The path need not exist. On failure `error` is one sentence. ERR_USAGE: empty, or longer than `size`;
 * ERR_IO: the working directory is gone. */
int data_dir_absolute(const char *path, char *out, size_t size, char *error, size_t error_size);

/* Creates `path` (mode 0700, with its parents) if it does not exist, and locks DIR/lock for this process until the
 * caller closes `*lock_fd` or the process ends. The lock file contains the pid of its holder. On failure `error` is one
 * sentence. ERR_REFUSED: on a network file system, of another user, or open to other users and not empty. ERR_EXISTS:
 * another daemon holds the lock. ERR_IO, ERR_NO_SPACE, ERR_USAGE (empty, or longer than DATA_DIR_PATH_MAX). */
int data_dir_open(const char *path, int *lock_fd, char *error, size_t error_size);

/* Whether the directory `name` of the open directory `dir_fd` is a node's data directory: it has DIR/lock and a state of
 * records. A link counts as what it leads to. */
bool data_dir_is_at(int dir_fd, const char *name);

/* The pid of the process that holds DIR/lock; 0: no process, or a process that we may not inspect. Takes no lock
 * itself, so that a daemon that starts meanwhile is not refused. */
long data_dir_holder(const char *path);

/* How many ms ago DIR/lock was last taken or refreshed (data_dir_refresh), whether it is still held or not; UINT64_MAX:
 * never, or the clock was set back. */
uint64_t data_dir_taken_ms(const char *path);

/* Makes data_dir_taken_ms count from now. The holder calls it before it hands the directory to another daemon, which
 * may start at once. */
void data_dir_refresh(int lock_fd);

/* The name of a network file system ("NFS") by the `f_type` that statfs reports; NULL for all other file systems. Also
 * NULL for FUSE, whose f_type does not tell what is behind it: see data_dir_network_name_fuse. Static strings. */
const char *data_dir_network_name(long f_type);

/* The same by the mount type in /proc/self/mountinfo, e.g. "fuse.sshfs". */
const char *data_dir_network_name_fuse(const char *mount_type);

#endif
