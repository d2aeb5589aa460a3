#ifndef STORE_GIT_H
#define STORE_GIT_H
/* What git knows of a directory, read from git's own files: no git has to be installed. A shell.
 *
 * Read are .git/info/exclude, core.excludesFile and core.ignorecase from the configuration (of the system, of the user and of
 * the repository, with include.path but without includeIf), and the paths that the index tracks. In a work tree of its own (git
 * worktree) and in a submodule .git is a file that names the directory. */

#include <stdbool.h>
#include <stddef.h>

#include "store/ignore.h"

/* Where the configuration of the user and of the system is; each may be NULL. The texts are the caller's. */
struct git_places {
    const char *home;          /* $HOME */
    const char *config_home;   /* $XDG_CONFIG_HOME */
    const char *global_config; /* $GIT_CONFIG_GLOBAL: in the place of the user's files */
    const char *system_config; /* "/etc/gitconfig", or $GIT_CONFIG_SYSTEM; NULL with $GIT_CONFIG_NOSYSTEM */
};

struct git_tracked {
    char *path; /* relative to the root of the work tree */
    bool is_submodule;
};

/* The repository of a work tree. */
struct git_repository {
    char *root; /* as it was opened */
    bool ignores_case;
    struct ignore_file excludes[2]; /* core.excludesFile, .git/info/exclude: those with less weight first */
    size_t exclude_count;
    struct git_tracked *tracked; /* by the bytes of the path */
    size_t tracked_count;
    bool is_index_unreadable; /* nothing is known to be tracked */
};

/* True if `dir`, or a directory above it on the same file system, is the root of a work tree: `root` is then its path, without
 * links. `prefix` is the path of `dir` below it, with a '/' at the end, or "". Both have PATH_MAX bytes. */
bool git_find_root(const char *dir, char *root, char *prefix);

/* True if the directory `name` in dir_fd is the root of a work tree. */
bool git_is_root(int dir_fd, const char *name);

/* Opens the repository whose work tree is `root`. What cannot be read is taken as empty. 0 or ERR_MEMORY. */
int git_open(const char *root, const struct git_places *places, struct git_repository **out);

/* Frees the repository and sets `*repository` to NULL. NULL is allowed. */
void git_close(struct git_repository **repository);

/* True if the index tracks `path` (relative to the root of the work tree): a file, a link, or the directory of a submodule. */
bool git_tracks(const struct git_repository *repository, const char *path);

/* True if the index tracks something below the directory `path`. */
bool git_tracks_below(const struct git_repository *repository, const char *path);

#endif
