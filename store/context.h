#ifndef STORE_CONTEXT_H
#define STORE_CONTEXT_H
/* What of a directory travels with an experiment: the list of its files, and of what stays behind and why. A shell.
 *
 * An entry stays behind by the first of these rules that decides about it:
 *
 *   0  The data directory of a node: it has the node's private key, which the nodes that the code is copied to must not know.
 *   1  .shoalignore files, in the directory and below, with git's rules. "!PATTERN" brings back what rules 3 and 4 leave out; with
 *      a '/' inside it also reaches into directories that these leave out.
 *   2  What git tracks travels, also where .gitignore names it.
 *   3  git's rules: .gitignore files in the directory, below, and above up to the root of the repository; .git/info/exclude;
 *      core.excludesFile. Without a repository: the .gitignore files in the directory and below. A directory with a .git of its
 *      own (a submodule) is a repository of its own: its own rules count below it. Where the rules above the directory would
 *      leave out the directory itself they do not count: the user has named it.
 *   4  What is never code: .git, .venv and every directory with a pyvenv.cfg, __pycache__, node_modules, .ipynb_checkpoints,
 *      wandb, mlruns, shoal-runs.
 *   5  Sockets, pipes and devices.
 *
 * What a rule leaves out is not looked into, so nothing in it can fail; only the size of directories is added up (up to a
 * bound, errors do not count). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/git.h"

#define CONTEXT_BYTES_MAX (512ull << 20) /* sum of the file sizes, by default */
#define CONTEXT_ENTRIES_MAX 100000u      /* files, directories and links */
#define CONTEXT_DEPTH_MAX 64             /* directories one in the other */
#define CONTEXT_PATH_BYTES_MAX 4095      /* of a path below the directory: PATH_MAX without the NUL */
#define CONTEXT_LEFT_MAX 10000u          /* entries left behind that are listed; more are counted */
#define CONTEXT_MEASURED_MAX 10000u      /* entries of directories left behind whose sizes are added up */
#define CONTEXT_ERROR_BYTES 768

/* What to do with a symbolic link that leads out of the directory. */
enum context_links {
    CONTEXT_LINKS_REFUSE, /* the list fails, with a sentence that names the link */
    CONTEXT_LINKS_KEEP,   /* the link travels as it is: its target is to be found on every node */
    CONTEXT_LINKS_FOLLOW  /* a copy of the target travels in its place */
};

struct context_options {
    uint64_t bytes_max; /* of all files; 0: CONTEXT_BYTES_MAX */
    enum context_links links;
    struct git_places git;
    bool measures_all; /* also the directories that rules leave out, not only those of rule 4 */
};

/* A file, directory or link that travels. */
struct context_entry {
    char *path;     /* relative to the directory */
    char *link;     /* a symbolic link's target, else NULL */
    uint64_t bytes; /* of a file, when it was listed */
    mode_t mode;    /* the kind, and 0755 (directories, and files executable by their owner), 0644, or 0777 for links */
    bool is_followed; /* the path is a link to a file; the file's bytes travel */
};

/* An entry that stays behind. */
struct context_left {
    char *path;
    char *why; /* ".gitignore:3", "never code", "a socket" */
    bool is_directory;
    bool is_standard; /* by rule 4 */
    bool has_bytes;   /* bytes are known: of a file, or of a directory that was added up */
    bool has_more;    /* a directory with more than was added up */
    uint64_t bytes;
};

struct context_list {
    char *root; /* the directory, as given */
    struct context_entry *entries; /* a directory before what is in it; names by their bytes */
    size_t count, file_count;
    uint64_t total_bytes;
    struct context_left *left;
    size_t left_count;      /* at most CONTEXT_LEFT_MAX */
    size_t left_more_count; /* left behind, and not in `left` */
    bool is_index_unreadable; /* the index of git cannot be read: nothing counts as tracked */
};

/* Lists `dir`. 0: `*out` is the caller's, until context_list_free. Else `error` (CONTEXT_ERROR_BYTES) is one sentence, with
 * control characters made visible, and `*out` is untouched. ERR_NOT_FOUND: no such directory. ERR_FULL: more than bytes_max, or
 * one of the limits above. ERR_REFUSED: a link that leads out, or `dir` is the data directory of a node. ERR_IO: unreadable.
 * ERR_MEMORY. Entries that vanish meanwhile are not in the list. */
int context_list(const char *dir, const struct context_options *options, struct context_list **out, char *error);

/* Frees the list and sets `*list` to NULL. NULL is allowed. */
void context_list_free(struct context_list **list);

#endif
