#ifndef STORE_IGNORE_H
#define STORE_IGNORE_H
/* The rules of .gitignore files, as gitignore(5) documents them: the last matching line decides; '!' includes again; a
 * trailing '/' matches directories only; a '/' elsewhere anchors the pattern to the file's own directory; '*', '?' and
 * '[...]' do not match '/'; a component '**' matches any number of directories. A core: text in, decision out.
 *
 * As in git, nothing below an excluded directory can be included again: the caller must not enter such a directory. */

#include <stdbool.h>
#include <stddef.h>

/* UNDECIDED: no line matches. */
enum ignore_decision { IGNORE_UNDECIDED, IGNORE_EXCLUDED, IGNORE_INCLUDED };

/* Decides about `path` by the text of one .gitignore. `path` is NUL-terminated, relative to the directory of the file,
 * with '/' between names and none at its ends. */
enum ignore_decision ignore_decide(const char *text, size_t text_bytes, const char *path, bool is_directory);

/* One .gitignore of a tree. */
struct ignore_file {
    const char *text; /* borrowed */
    size_t text_bytes;
    size_t base_bytes; /* length of the path of its directory, with the '/' at the end; 0 at the root of the tree */
};

/* True if `path` (relative to the root of the tree) is excluded by `files`, the .gitignore files of its directory and
 * of all directories above, outermost first. The innermost file that decides wins. */
bool ignore_excludes(const struct ignore_file *files, size_t file_count, const char *path, bool is_directory);

#endif
