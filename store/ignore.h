#ifndef STORE_IGNORE_H
#define STORE_IGNORE_H
/* The rules of .gitignore files, as gitignore(5) documents them and git applies them: the last matching line decides; '!'
 * includes again; a trailing '/' matches directories only; a '/' elsewhere anchors the pattern to the file's own directory;
 * '*', '?' and '[...]' do not match '/'; a component '**' matches any number of directories. A core: text in, decision out.
 *
 * As in git, nothing below an excluded directory can be included again: the caller must not enter such a directory, except
 * where ignore_reaches_into says that a file of rules above others' names something below. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* UNDECIDED: no line matches. */
enum ignore_decision { IGNORE_UNDECIDED, IGNORE_EXCLUDED, IGNORE_INCLUDED };

/* One file of rules. */
struct ignore_file {
    const char *text; /* borrowed */
    size_t text_bytes;
    size_t base_bytes;  /* length of the path of its directory, with the '/' at the end; 0 at the root of the tree */
    const char *name;   /* for people: "src/.gitignore"; borrowed; NULL: none */
    bool ignores_case;  /* git's core.ignorecase */
};

/* The line that decided. */
struct ignore_place {
    size_t file;   /* index in `files` */
    uint32_t line; /* from 1 */
};

/* Decides about `path` by one file. `path` is NUL-terminated, relative to the directory of the file, with '/' between names
 * and none at its ends. `*line` is set unless UNDECIDED. */
enum ignore_decision ignore_decide(const struct ignore_file *file, const char *path, bool is_directory, uint32_t *line);

/* Decides about `path` (relative to the root of the tree) by `files`, those with less weight first: the files of the path's
 * directory and of all directories above, outermost first. The last file that decides wins; `*place` is set then. */
enum ignore_decision ignore_find(const struct ignore_file *files, size_t file_count, const char *path, bool is_directory,
                                 struct ignore_place *place);

/* True if a line "!PATTERN" with a '/' inside names, or may name, something below the directory `path`. */
bool ignore_reaches_into(const struct ignore_file *files, size_t file_count, const char *path);

#endif
