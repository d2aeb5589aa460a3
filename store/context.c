#include "store/context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/visible.h"
#include "store/component.h"
#include "store/data_dir.h"
#include "store/small_file.h"

#define RULES_BYTES_MAX (1u << 20)
#define SHOWN_BYTES 192 /* of a path in a sentence */
#define MEASURE_DEPTH_MAX 32

static const char *const standard_names[] = {".git",  ".venv",  "__pycache__", "node_modules", ".ipynb_checkpoints",
                                             "wandb", "mlruns", "shoal-runs", NULL};

static const char why_data_dir[] = "a node's data and private key";

/* ---- the listing under construction -------------------------------------------------------------------------------- */

/* Rules in the order of their weight. */
struct rules {
    struct ignore_file *files;
    size_t count, room;
};

/* A repository that counts below some directory. */
struct scope {
    struct git_repository *repository; /* NULL: none */
    size_t first_rule;  /* in listing.git_rules: those before it belong to the repository outside */
    size_t skip_bytes;  /* a path of the list without these is below `prefix` */
    const char *prefix; /* of the list's directory below the repository's root, with a '/' at the end, or "" */
};

/* A directory on the way down, to find links that lead back into it. */
struct place {
    dev_t device;
    ino_t inode;
};

struct listing {
    struct context_list *list;
    const struct context_options *options;
    char *error;
    size_t entry_room, left_room;
    size_t largest; /* index of the largest file */
    struct rules git_rules, own_rules;
    struct scope scope;
    char git_path[2 * PATH_MAX]; /* of the entry that is judged, below the repository's root */
    size_t measured;             /* entries of directories left behind */
    size_t followed_bytes;       /* length of the path of the link that is followed, with a '/'; 0: none */
    struct place places[CONTEXT_DEPTH_MAX + 1];
};

/* A directory that is listed. */
struct directory {
    int fd;
    const char *prefix; /* its path with a '/' at the end, or "" */
    unsigned depth;
    bool is_left; /* a rule leaves it out: only what is tracked or brought back travels */
};

__attribute__((format(printf, 3, 4))) static int fail(const struct listing *listing, int rc, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(listing->error, CONTEXT_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return rc;
}

static int fail_memory(const struct listing *listing)
{
    return fail(listing, ERR_MEMORY, "no memory to list the directory %s", listing->list->root);
}

/* "DIR/path" as it can be printed. */
static const char *shown(const struct listing *listing, const char *path, char out[SHOWN_BYTES])
{
    char whole[2 * PATH_MAX];
    bool is_outside = path[0] == '/'; /* a file of rules above the directory */
    (void)snprintf(whole, sizeof whole, "%s%s%s", is_outside ? "" : listing->list->root,
                   is_outside || path[0] == '\0' ? "" : "/", path);
    (void)visible_text(out, SHOWN_BYTES, whole);
    return out;
}

static void *grow(void *items, size_t count, size_t *room, size_t item_bytes)
{
    if (count < *room) {
        return items;
    }
    size_t bigger = *room == 0 ? 64 : 2 * *room;
    void *grown = realloc(items, bigger * item_bytes);
    if (grown != NULL) {
        *room = bigger;
    }
    return grown;
}

/* Takes ownership of `path` and `link`, also on failure. */
static int add_entry(struct listing *listing, char *path, char *link, mode_t mode, uint64_t bytes, bool is_followed)
{
    struct context_list *list = listing->list;
    char text[SHOWN_BYTES];
    int rc = 0;
    if (list->count == CONTEXT_ENTRIES_MAX) {
        rc = fail(listing, ERR_FULL,
                  "the directory %s has more than %u files: name those that are not needed in its .shoalignore or .gitignore",
                  shown(listing, "", text), CONTEXT_ENTRIES_MAX);
    } else {
        void *grown = grow(list->entries, list->count, &listing->entry_room, sizeof *list->entries);
        rc = grown == NULL ? fail_memory(listing) : 0;
        list->entries = grown != NULL ? grown : list->entries;
    }
    if (rc != 0) {
        free(path);
        free(link);
        return rc;
    }
    list->entries[list->count] =
        (struct context_entry){.path = path, .link = link, .bytes = bytes, .mode = mode, .is_followed = is_followed};
    if (bytes > list->entries[listing->largest].bytes) {
        listing->largest = list->count;
    }
    list->total_bytes += bytes;
    list->file_count += S_ISREG(mode);
    list->count++;
    return 0;
}

/* ---- what stays behind --------------------------------------------------------------------------------------------- */

/* Adds up the files below a directory. Errors do not count: nothing depends on the sum. */
static void measure(struct listing *listing, int dir_fd, const char *name, unsigned depth, struct context_left *left)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        left->has_more = true;
        return;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (listing->measured == CONTEXT_MEASURED_MAX || depth == MEASURE_DEPTH_MAX) {
            left->has_more = true;
            break;
        }
        listing->measured++;
        if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (S_ISDIR(info.st_mode)) {
            measure(listing, fd, entry->d_name, depth + 1, left);
        } else if (S_ISREG(info.st_mode)) {
            left->bytes += (uint64_t)info.st_size;
        }
    }
    closedir(dir);
}

/* Notes that an entry stays behind. */
static int leave(struct listing *listing, const struct directory *in, const char *name, const char *path,
                 const struct stat *info, const char *why, bool is_standard)
{
    struct context_list *list = listing->list;
    if (list->left_count == CONTEXT_LEFT_MAX) {
        list->left_more_count++;
        return 0;
    }
    void *grown = grow(list->left, list->left_count, &listing->left_room, sizeof *list->left);
    if (grown == NULL) {
        return fail_memory(listing);
    }
    list->left = grown;
    struct context_left left = {.path = strdup(path),
                                .why = strdup(why),
                                .is_directory = S_ISDIR(info->st_mode),
                                .is_standard = is_standard,
                                .has_bytes = S_ISREG(info->st_mode),
                                .bytes = S_ISREG(info->st_mode) ? (uint64_t)info->st_size : 0};
    if (left.path == NULL || left.why == NULL) {
        free(left.path);
        free(left.why);
        return fail_memory(listing);
    }
    if (left.is_directory && (is_standard || listing->options->measures_all)) {
        left.has_bytes = true;
        measure(listing, in->fd, name, 0, &left);
    }
    list->left[list->left_count++] = left;
    return 0;
}

/* ---- rules --------------------------------------------------------------------------------------------------------- */

static int push_rules(struct listing *listing, struct rules *rules, const struct ignore_file *file)
{
    void *grown = grow(rules->files, rules->count, &rules->room, sizeof *rules->files);
    if (grown == NULL) {
        return fail_memory(listing);
    }
    rules->files = grown;
    rules->files[rules->count++] = *file;
    return 0;
}

/* Frees the texts and names of the rules behind the first `count`; those of git's excludes belong to the repository. */
static void pop_rules(struct rules *rules, size_t count)
{
    while (rules->count > count) {
        rules->count--;
        free((void *)(uintptr_t)rules->files[rules->count].text);
        free((void *)(uintptr_t)rules->files[rules->count].name);
    }
}

/* Pushes the file of rules `name` of a directory, if there is one. `shown_path`: of the file, for people. */
static int read_rules(struct listing *listing, struct rules *rules, int dir_fd, const char *name, const char *shown_path,
                      size_t base_bytes)
{
    char text[SHOWN_BYTES];
    char *bytes;
    size_t count;
    int rc = small_file_read(dir_fd, name, false, RULES_BYTES_MAX, &bytes, &count); /* git, too, follows no link there */
    if (rc == ERR_NOT_FOUND) {
        return 0;
    }
    if (rc == ERR_FULL) {
        return fail(listing, rc, "%s is larger than %u bytes: shorten it", shown(listing, shown_path, text), RULES_BYTES_MAX);
    }
    if (rc != 0) {
        return rc == ERR_MEMORY ? fail_memory(listing)
                                : fail(listing, rc, "cannot read %s: %s", shown(listing, shown_path, text), strerror(errno));
    }
    char *copy = strdup(shown_path);
    struct ignore_file file = {.text = bytes, .text_bytes = count, .base_bytes = base_bytes, .name = copy};
    file.ignores_case = listing->scope.repository != NULL && listing->scope.repository->ignores_case;
    rc = copy != NULL ? push_rules(listing, rules, &file) : fail_memory(listing);
    if (rc != 0) {
        free(bytes);
        free(copy);
    }
    return rc;
}

/* The rules of a directory that is listed; `pop_rules` undoes it. */
static int push_directory(struct listing *listing, const struct directory *directory)
{
    char path[2 * PATH_MAX];
    size_t prefix_bytes = strlen(directory->prefix);
    if (directory->is_left) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "%s.gitignore", directory->prefix);
    int rc = read_rules(listing, &listing->git_rules, directory->fd, ".gitignore", path,
                        strlen(listing->scope.prefix) + prefix_bytes - listing->scope.skip_bytes);
    if (rc == 0) {
        (void)snprintf(path, sizeof path, "%s.shoalignore", directory->prefix);
        rc = read_rules(listing, &listing->own_rules, directory->fd, ".shoalignore", path, prefix_bytes);
    }
    return rc;
}

/* The path of the list below the root of the repository. */
static const char *git_path(struct listing *listing, const char *path)
{
    (void)snprintf(listing->git_path, sizeof listing->git_path, "%s%s", listing->scope.prefix,
                   path + listing->scope.skip_bytes);
    return listing->git_path;
}

static int push_excludes(struct listing *listing, const struct git_repository *repository)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < repository->exclude_count; i++) {
        struct ignore_file file = repository->excludes[i];
        char *text = malloc(file.text_bytes + 1), *name = strdup(file.name);
        if (text == NULL || name == NULL) {
            rc = fail_memory(listing);
        } else {
            memcpy(text, file.text, file.text_bytes);
            file.text = text;
            file.name = name;
            rc = push_rules(listing, &listing->git_rules, &file);
        }
        if (rc != 0) {
            free(text);
            free(name);
        }
    }
    return rc;
}

enum verdict {
    TRAVELS,
    STAYS,         /* `why` tells the rule */
    STAYS_UNSAID,  /* in a directory that is said to stay */
};

static bool is_standard(const struct directory *in, const char *name, const struct stat *info)
{
    char path[NAME_MAX + 16];
    for (size_t i = 0; standard_names[i] != NULL; i++) {
        /* In a submodule, and in a work tree of its own, .git is a file. */
        if (strcmp(name, standard_names[i]) == 0 && (S_ISDIR(info->st_mode) || i == 0)) {
            return true;
        }
    }
    (void)snprintf(path, sizeof path, "%s/pyvenv.cfg", name);
    return S_ISDIR(info->st_mode) && faccessat(in->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The rules 0 to 4. `*enters`: the entry stays, but something below it may travel. */
static enum verdict judge(struct listing *listing, const struct directory *in, const char *name, const char *path,
                          const struct stat *info, char why[SHOWN_BYTES], bool *standard, bool *enters)
{
    bool is_directory = S_ISDIR(info->st_mode);
    const struct rules *own = &listing->own_rules;
    const struct git_repository *repository = listing->scope.repository;
    struct ignore_place place;
    *enters = *standard = false;
    if (is_directory && data_dir_is_at(in->fd, name)) {
        (void)snprintf(why, SHOWN_BYTES, "%s", why_data_dir);
        return in->is_left ? STAYS_UNSAID : STAYS;
    }
    enum ignore_decision decision = ignore_find(own->files, own->count, path, is_directory, &place);
    if (decision == IGNORE_EXCLUDED) {
        (void)snprintf(why, SHOWN_BYTES, "%.160s:%u", own->files[place.file].name, place.line);
        return in->is_left ? STAYS_UNSAID : STAYS;
    }
    if (decision == IGNORE_INCLUDED) {
        return TRAVELS;
    }
    const char *below = git_path(listing, path);
    bool stays = in->is_left;
    if (!stays) {
        size_t first = listing->scope.first_rule, count = listing->git_rules.count - first;
        const struct ignore_file *files = count > 0 ? listing->git_rules.files + first : NULL;
        if (count > 0 && ignore_find(files, count, below, is_directory, &place) == IGNORE_EXCLUDED) {
            (void)snprintf(why, SHOWN_BYTES, "%.160s:%u", files[place.file].name, place.line);
            stays = true;
        }
        if (is_standard(in, name, info)) {
            (void)snprintf(why, SHOWN_BYTES, "never code");
            *standard = stays = true;
        }
    }
    if (!stays || (repository != NULL && git_tracks(repository, below))) {
        return TRAVELS;
    }
    *enters = is_directory && ((repository != NULL && git_tracks_below(repository, below)) ||
                               ignore_reaches_into(own->files, own->count, path));
    if (*enters && !in->is_left) {
        (void)strncat(why, ", in part", SHOWN_BYTES - strlen(why) - 1);
    }
    return in->is_left ? STAYS_UNSAID : STAYS;
}

/* ---- the walk ------------------------------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

/* The sorted names in a directory, without "." and "..". The caller frees the names. */
static int names_read(int dir_fd, char ***out, size_t *out_count)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        int reason = errno;
        if (fd >= 0) {
            close(fd);
        }
        errno = reason;
        return ERR_IO;
    }
    char **names = NULL;
    size_t count = 0, room = 0;
    int rc = 0;
    errno = 0;
    for (const struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL; errno = 0) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        char **grown = grow(names, count, &room, sizeof *names);
        names = grown != NULL ? grown : names;
        if (grown == NULL || (names[count] = strdup(entry->d_name)) == NULL) {
            rc = ERR_MEMORY;
            break;
        }
        count++;
    }
    if (rc == 0 && errno != 0) {
        rc = ERR_IO;
    }
    int reason = errno;
    closedir(dir);
    errno = reason;
    if (rc != 0) {
        names_free(names, count);
        return rc;
    }
    if (count > 1) {
        qsort(names, count, sizeof *names, compare_names);
    }
    *out = names;
    *out_count = count;
    return 0;
}

static int list_directory(struct listing *listing, const struct directory *directory);

/* Lists the directory below `path`, which is a repository of its own if it has a .git. */
static int list_below(struct listing *listing, const struct directory *in, const char *name, const char *path, int flags,
                      bool is_left)
{
    char text[SHOWN_BYTES];
    char *prefix;
    int fd = openat(in->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0 /* it vanished, or is something else by now */
                   : fail(listing, ERR_IO, "cannot read the directory %s: %s; make it readable, or name it in .shoalignore",
                          shown(listing, path, text), strerror(errno));
    }
    if (asprintf(&prefix, "%s/", path) < 0) {
        close(fd);
        return fail_memory(listing);
    }
    struct scope outside = listing->scope;
    struct git_repository *repository = NULL;
    int rc = 0;
    if (!is_left && git_is_root(in->fd, name)) {
        char root[2 * PATH_MAX];
        (void)snprintf(root, sizeof root, "%s/%s", listing->list->root, path);
        rc = git_open(root, &listing->options->git, &repository) == 0 ? 0 : fail_memory(listing);
        listing->scope = (struct scope){repository, listing->git_rules.count, strlen(prefix), ""};
        if (rc == 0) {
            listing->list->is_index_unreadable |= repository->is_index_unreadable;
            rc = push_excludes(listing, repository);
        }
    }
    if (rc == 0) {
        const struct directory directory = {fd, prefix, in->depth + 1, is_left};
        rc = list_directory(listing, &directory);
    }
    if (repository != NULL) {
        pop_rules(&listing->git_rules, listing->scope.first_rule);
        listing->scope = outside;
        git_close(&repository);
    }
    free(prefix);
    close(fd);
    return rc;
}

/* A copy of what a link that leads out leads to. */
static int follow_link(struct listing *listing, const struct directory *in, const char *name, const char *path,
                       const char *target)
{
    char text[SHOWN_BYTES], target_text[SHOWN_BYTES];
    struct stat info;
    if (fstatat(in->fd, name, &info, 0) != 0) {
        int reason = errno;
        (void)visible_text(target_text, sizeof target_text, target);
        return fail(listing, ERR_REFUSED,
                    "the symbolic link %s leads to %s, which cannot be copied: %s; remove it, or name it in .shoalignore",
                    shown(listing, path, text), target_text, strerror(reason));
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return fail_memory(listing);
    }
    if (S_ISREG(info.st_mode)) {
        return add_entry(listing, copy, NULL, S_IFREG | ((info.st_mode & S_IXUSR) != 0 ? 0755 : 0644), (uint64_t)info.st_size,
                         true);
    }
    if (!S_ISDIR(info.st_mode)) {
        free(copy);
        return leave(listing, in, name, path, &info, "a link to something that is neither a file nor a directory", false);
    }
    if (data_dir_is_at(in->fd, name)) {
        free(copy);
        return leave(listing, in, name, path, &info, why_data_dir, false);
    }
    for (unsigned depth = 0; depth <= in->depth; depth++) {
        if (listing->places[depth].device == info.st_dev && listing->places[depth].inode == info.st_ino) {
            free(copy);
            return fail(listing, ERR_REFUSED,
                        "the symbolic link %s leads back to a directory that it is in, and cannot be followed: remove it, or "
                        "name it in .shoalignore",
                        shown(listing, path, text));
        }
    }
    int rc = add_entry(listing, copy, NULL, S_IFDIR | 0755, 0, false);
    size_t before = listing->followed_bytes;
    listing->followed_bytes = strlen(path) + 1;
    rc = rc == 0 ? list_below(listing, in, name, path, 0, false) : rc;
    listing->followed_bytes = before;
    return rc;
}

static int list_link(struct listing *listing, const struct directory *in, const char *name, const char *path)
{
    char target[PATH_MAX], text[SHOWN_BYTES], target_text[SHOWN_BYTES];
    ssize_t length = readlinkat(in->fd, name, target, sizeof target - 1);
    if (length < 0) {
        return errno == ENOENT || errno == EINVAL ? 0
                                                  : fail(listing, ERR_IO, "cannot read the symbolic link %s: %s",
                                                         shown(listing, path, text), strerror(errno));
    }
    target[length] = '\0';
    bool leads_out = !component_link_stays(path + listing->followed_bytes, target);
    if (leads_out && listing->options->links == CONTEXT_LINKS_FOLLOW) {
        return follow_link(listing, in, name, path, target);
    }
    if (leads_out && listing->options->links == CONTEXT_LINKS_REFUSE) {
        (void)visible_text(target_text, sizeof target_text, target);
        return fail(listing, ERR_REFUSED,
                    "the symbolic link %s leads out of the directory, to %s: if that is on every node, let the link travel with "
                    "context: {links: keep} in the configuration; {links: follow} sends a copy; a line in .shoalignore leaves the "
                    "link out",
                    shown(listing, path, text), target_text);
    }
    char *copy = strdup(path), *link = strdup(target);
    if (copy == NULL || link == NULL) {
        free(copy);
        free(link);
        return fail_memory(listing);
    }
    return add_entry(listing, copy, link, S_IFLNK | 0777, 0, false);
}

static const char *special_name(mode_t mode)
{
    return S_ISSOCK(mode) ? "a socket" : S_ISFIFO(mode) ? "a pipe" : "a device";
}

static int list_one(struct listing *listing, const struct directory *in, const char *name, const char *path)
{
    char why[SHOWN_BYTES], text[SHOWN_BYTES];
    bool standard, enters;
    struct stat info;
    if (fstatat(in->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? 0 : fail(listing, ERR_IO, "cannot look at %s: %s", shown(listing, path, text), strerror(errno));
    }
    enum verdict verdict = judge(listing, in, name, path, &info, why, &standard, &enters);
    if (verdict == TRAVELS && S_ISLNK(info.st_mode)) {
        return list_link(listing, in, name, path);
    }
    if (verdict == TRAVELS && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        return leave(listing, in, name, path, &info, special_name(info.st_mode), false);
    }
    if (verdict == TRAVELS) {
        char *copy = strdup(path);
        mode_t mode = S_ISDIR(info.st_mode) ? S_IFDIR | 0755 : S_IFREG | ((info.st_mode & S_IXUSR) != 0 ? 0755 : 0644);
        int rc = copy != NULL ? add_entry(listing, copy, NULL, mode, S_ISREG(mode) ? (uint64_t)info.st_size : 0, false)
                              : fail_memory(listing);
        return rc == 0 && S_ISDIR(mode) ? list_below(listing, in, name, path, O_NOFOLLOW, false) : rc;
    }
    int rc = verdict == STAYS ? leave(listing, in, name, path, &info, why, standard) : 0;
    return rc == 0 && enters ? list_below(listing, in, name, path, O_NOFOLLOW, true) : rc;
}

static int list_name(struct listing *listing, const struct directory *in, const char *name)
{
    char text[SHOWN_BYTES];
    char *path;
    if (asprintf(&path, "%s%s", in->prefix, name) < 0) {
        return fail_memory(listing);
    }
    int rc = strlen(path) <= CONTEXT_PATH_BYTES_MAX
                 ? list_one(listing, in, name, path)
                 : fail(listing, ERR_FULL,
                        "the path of %s is longer than %u bytes, so no program could open it: shorten it, or name one of its "
                        "directories in .shoalignore",
                        shown(listing, path, text), CONTEXT_PATH_BYTES_MAX);
    free(path);
    return rc;
}

static int list_directory(struct listing *listing, const struct directory *directory)
{
    char text[SHOWN_BYTES];
    struct stat info;
    if (directory->depth >= CONTEXT_DEPTH_MAX) {
        return fail(listing, ERR_FULL, "%s is more than %d directories deep: name it in .shoalignore if it is not needed",
                    shown(listing, directory->prefix, text), CONTEXT_DEPTH_MAX);
    }
    size_t git_before = listing->git_rules.count, own_before = listing->own_rules.count, name_count = 0;
    char **names = NULL;
    int rc = push_directory(listing, directory);
    if (rc == 0) {
        rc = names_read(directory->fd, &names, &name_count);
        if (rc == 0 && fstat(directory->fd, &info) == 0) {
            listing->places[directory->depth] = (struct place){info.st_dev, info.st_ino};
        } else if (rc == ERR_MEMORY) {
            (void)fail_memory(listing);
        } else {
            rc = fail(listing, ERR_IO, "cannot read the directory %s: %s", shown(listing, directory->prefix, text),
                      strerror(errno));
        }
    }
    for (size_t i = 0; rc == 0 && i < name_count; i++) {
        rc = list_name(listing, directory, names[i]);
    }
    names_free(names, name_count);
    pop_rules(&listing->git_rules, git_before);
    pop_rules(&listing->own_rules, own_before);
    return rc;
}

/* ---- the repository around the directory --------------------------------------------------------------------------- */

/* True if the rules so far leave out the directory `path` of the repository. */
static bool rules_exclude(const struct listing *listing, const char *path)
{
    struct ignore_place place;
    return ignore_find(listing->git_rules.files, listing->git_rules.count, path, true, &place) == IGNORE_EXCLUDED;
}

/* The .gitignore files from the root of the repository down to above the directory itself. */
static int push_outer(struct listing *listing, const char *root, const char *prefix)
{
    char above[2 * PATH_MAX], directory[PATH_MAX], path[sizeof above + 16];
    size_t excludes = listing->git_rules.count;
    int rc = 0;
    bool is_named = false; /* a rule leaves out the directory that the user has named */
    for (const char *end = prefix; rc == 0 && *end != '\0' && !is_named; end++) {
        size_t base = (size_t)(end - prefix);
        (void)snprintf(above, sizeof above, "%s/%.*s", root, (int)base, prefix);
        int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            (void)snprintf(path, sizeof path, "%s.gitignore", above);
            rc = read_rules(listing, &listing->git_rules, fd, ".gitignore", path, base);
            close(fd);
        }
        end = strchr(end, '/');
        (void)snprintf(directory, sizeof directory, "%.*s", (int)(end - prefix), prefix);
        is_named = rules_exclude(listing, directory);
    }
    if (is_named) {
        pop_rules(&listing->git_rules, excludes);
        pop_rules(&listing->git_rules, rules_exclude(listing, directory) ? 0 : excludes);
    }
    return rc;
}

static int enter_repository(struct listing *listing, char prefix[PATH_MAX])
{
    char root[PATH_MAX];
    if (!git_find_root(listing->list->root, root, prefix)) {
        return 0;
    }
    if (git_open(root, &listing->options->git, &listing->scope.repository) != 0) {
        return fail_memory(listing);
    }
    listing->scope.prefix = prefix;
    listing->list->is_index_unreadable = listing->scope.repository->is_index_unreadable;
    int rc = push_excludes(listing, listing->scope.repository);
    return rc == 0 ? push_outer(listing, root, prefix) : rc;
}

static int check_size(const struct listing *listing)
{
    const struct context_list *list = listing->list;
    uint64_t bytes_max = listing->options->bytes_max == 0 ? CONTEXT_BYTES_MAX : listing->options->bytes_max;
    char text[SHOWN_BYTES], largest[SHOWN_BYTES];
    if (list->total_bytes <= bytes_max) {
        return 0;
    }
    (void)visible_text(largest, sizeof largest, list->entries[listing->largest].path);
    return fail(listing, ERR_FULL,
                "the directory %s holds %llu bytes, more than the %llu that may be sent with an experiment: name what is not "
                "needed in its .shoalignore or .gitignore (the largest file is %s, %llu bytes; shoal submit --dry-run lists all)",
                shown(listing, "", text), (unsigned long long)list->total_bytes, (unsigned long long)bytes_max, largest,
                (unsigned long long)list->entries[listing->largest].bytes);
}

int context_list(const char *dir, const struct context_options *options, struct context_list **out, char *error)
{
    char prefix[PATH_MAX] = "", text[SHOWN_BYTES];
    struct listing *listing = calloc(1, sizeof *listing);
    struct context_list *list = calloc(1, sizeof *list);
    if (listing == NULL || list == NULL || (list->root = strdup(dir)) == NULL) {
        free(listing);
        free(list);
        (void)snprintf(error, CONTEXT_ERROR_BYTES, "no memory to list a directory");
        return ERR_MEMORY;
    }
    *listing = (struct listing){.list = list, .options = options, .error = error, .scope = {.prefix = ""}};
    int rc = 0;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        rc = fail(listing, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "cannot open the directory %s: %s",
                  shown(listing, "", text), strerror(errno));
    }
    if (rc == 0 && data_dir_is_at(fd, ".")) {
        rc = fail(listing, ERR_REFUSED,
                  "the directory %s is the data directory of a node, with its private key, so it is not sent: name the directory "
                  "that your program is in",
                  shown(listing, "", text));
    }
    if (rc == 0) {
        rc = enter_repository(listing, prefix);
    }
    if (rc == 0) {
        const struct directory top = {.fd = fd, .prefix = ""};
        rc = list_directory(listing, &top);
    }
    if (rc == 0) {
        rc = check_size(listing);
    }
    pop_rules(&listing->git_rules, 0);
    pop_rules(&listing->own_rules, 0);
    free(listing->git_rules.files);
    free(listing->own_rules.files);
    git_close(&listing->scope.repository);
    free(listing);
    if (fd >= 0) {
        close(fd);
    }
    if (rc != 0) {
        context_list_free(&list);
        return rc;
    }
    *out = list;
    return 0;
}

void context_list_free(struct context_list **list)
{
    if (*list == NULL) {
        return;
    }
    for (size_t i = 0; i < (*list)->count; i++) {
        free((*list)->entries[i].path);
        free((*list)->entries[i].link);
    }
    for (size_t i = 0; i < (*list)->left_count; i++) {
        free((*list)->left[i].path);
        free((*list)->left[i].why);
    }
    free((*list)->entries);
    free((*list)->left);
    free((*list)->root);
    free(*list);
    *list = NULL;
}
