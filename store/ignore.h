#ifndef STORE_IGNORE_H
#define STORE_IGNORE_H
/* The rules of .gitignore files, as gitignore(5) documents them: the last matching line decides; '!' takes back; a
 * trailing '/' means directories only; a '/' elsewhere ties the pattern to the file's own directory; '*', '?', '[...]'
 * do not match '/', a component '**' matches any number of directories. A core: texts in, decisions out.
 *
 * As in git, nothing below an excluded directory can be taken back: whoever walks a tree does not enter it. */

#include <stdbool.h>
#include <stddef.h>

enum ignore_decision { IGNORE_UNDECIDED, IGNORE_EXCLUDED, IGNORE_INCLUDED };

/* What one .gitignore's text says of `path`, which is NUL-terminated, relative to the directory that the file is in,
 * with '/' between names and none at its ends. */
enum ignore_decision ignore_decide(const char *text, size_t text_bytes, const char *path, bool is_directory);

/* One .gitignore of a tree. */
struct ignore_file {
    const char *text; /* borrowed */
    size_t text_bytes;
    size_t base_bytes; /* of the path of its directory with the '/' behind it; 0 at the root of the tree */
};

/* Whether `path` (relative to the root of the tree) is excluded by `files`, the .gitignore files of its directory and
 * of those above it, outermost first: the innermost that decides wins. */
bool ignore_excludes(const struct ignore_file *files, size_t file_count, const char *path, bool is_directory);

#endif
