#include "store/git.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bisect.h"
#include "base/bytes.h"
#include "base/err.h"
#include "store/git_format.h"
#include "store/small_file.h"

#define CONFIG_BYTES_MAX (1u << 20)
#define EXCLUDE_BYTES_MAX (1u << 20)
#define INDEX_BYTES_MAX (1u << 30)
#define INCLUDE_DEPTH_MAX 10 /* as in git */
#define INCLUDES_MAX 1000    /* files of one tree's configuration: includes may branch at each depth */
#define SHA1_BYTES 20
#define SHA256_BYTES 32

/* What the configuration says; a later file overrules an earlier one. */
struct settings {
    const struct git_places *places;
    const char *root;
    char excludes_file[PATH_MAX]; /* "": the default of git */
    bool ignores_case;
    bool has_worktree_config;
    size_t hash_bytes;
    unsigned file_count; /* configuration files read so far */
};

static bool join(char out[PATH_MAX], const char *dir, const char *name)
{
    int length = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return length > 0 && length < PATH_MAX;
}

/* A path from the configuration: "~/" is the user's home, a relative path begins at `dir`. */
static bool expand(const struct settings *settings, const char *dir, const char *path, char out[PATH_MAX])
{
    if (path[0] == '~' && path[1] == '/') {
        return settings->places->home != NULL && join(out, settings->places->home, path + 2);
    }
    return path[0] == '/' ? bytes_copy_text(out, PATH_MAX, path) : path[0] != '\0' && join(out, dir, path);
}

static void read_config(struct settings *settings, const char *path, unsigned depth);

static void take_variable(struct settings *settings, const struct git_config *config, const char *path, unsigned depth)
{
    char target[PATH_MAX], dir[PATH_MAX];
    if (config->has_subsection) {
        return;
    }
    if (strcmp(config->section, "core") == 0 && strcmp(config->key, "excludesfile") == 0) {
        if (expand(settings, settings->root, config->value, target)) {
            (void)bytes_copy_text(settings->excludes_file, sizeof settings->excludes_file, target);
        }
    } else if (strcmp(config->section, "core") == 0 && strcmp(config->key, "ignorecase") == 0) {
        settings->ignores_case = git_config_truth(config->value);
    } else if (strcmp(config->section, "extensions") == 0 && strcmp(config->key, "objectformat") == 0) {
        settings->hash_bytes = strcmp(config->value, "sha256") == 0 ? SHA256_BYTES : SHA1_BYTES;
    } else if (strcmp(config->section, "extensions") == 0 && strcmp(config->key, "worktreeconfig") == 0) {
        settings->has_worktree_config = git_config_truth(config->value);
    } else if (strcmp(config->section, "include") == 0 && strcmp(config->key, "path") == 0) {
        (void)bytes_copy_text(dir, sizeof dir, path);
        char *slash = strrchr(dir, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
        if (expand(settings, dir, config->value, target)) {
            read_config(settings, target, depth + 1);
        }
    }
}

static void read_config(struct settings *settings, const char *path, unsigned depth)
{
    char *text;
    size_t text_bytes;
    if (depth > INCLUDE_DEPTH_MAX || settings->file_count++ >= INCLUDES_MAX ||
        small_file_read(AT_FDCWD, path, true, CONFIG_BYTES_MAX, &text, &text_bytes) != 0) {
        return;
    }
    struct git_config *config = malloc(sizeof *config);
    if (config != NULL) {
        git_config_begin(config, text, text_bytes);
        while (git_config_next(config)) {
            take_variable(settings, config, path, depth);
        }
    }
    free(config);
    free(text);
}

static bool user_path(const struct git_places *places, const char *name, char out[PATH_MAX])
{
    char dir[PATH_MAX];
    if (places->config_home != NULL && places->config_home[0] != '\0') {
        return join(dir, places->config_home, "git") && join(out, dir, name);
    }
    return places->home != NULL && join(dir, places->home, ".config/git") && join(out, dir, name);
}

static void read_settings(struct settings *settings, const char *git_dir, const char *common_dir)
{
    const struct git_places *places = settings->places;
    char path[PATH_MAX];
    if (places->system_config != NULL) {
        read_config(settings, places->system_config, 0);
    }
    if (places->global_config != NULL) {
        read_config(settings, places->global_config, 0);
    } else {
        if (user_path(places, "config", path)) {
            read_config(settings, path, 0);
        }
        if (places->home != NULL && join(path, places->home, ".gitconfig")) {
            read_config(settings, path, 0);
        }
    }
    if (join(path, common_dir, "config")) {
        read_config(settings, path, 0);
    }
    if (settings->has_worktree_config && join(path, git_dir, "config.worktree")) {
        read_config(settings, path, 0);
    }
}

/* ---- directories ---- */

/* The first line of a small file, without its end. */
static bool read_line(const char *path, char out[PATH_MAX])
{
    char *text;
    size_t text_bytes;
    if (small_file_read(AT_FDCWD, path, true, PATH_MAX, &text, &text_bytes) != 0) {
        return false;
    }
    text[strcspn(text, "\r\n")] = '\0';
    bool fits = bytes_copy_text(out, PATH_MAX, text);
    free(text);
    return fits;
}

/* The directory that `root`/.git is, or that it names; and, in a work tree of its own, the directory with what all work trees
 * share. */
static bool find_directories(const char *root, char git_dir[PATH_MAX], char common_dir[PATH_MAX])
{
    char path[PATH_MAX], line[PATH_MAX];
    struct stat info;
    if (!join(path, root, ".git") || stat(path, &info) != 0) {
        return false;
    }
    if (S_ISDIR(info.st_mode)) {
        (void)bytes_copy_text(git_dir, PATH_MAX, path);
    } else if (!read_line(path, line) || strncmp(line, "gitdir: ", 8) != 0 ||
               !(line[8] == '/' ? bytes_copy_text(git_dir, PATH_MAX, line + 8) : join(git_dir, root, line + 8))) {
        return false;
    }
    if (!join(path, git_dir, "HEAD") || access(path, F_OK) != 0) {
        return false;
    }
    if (!join(path, git_dir, "commondir") || !read_line(path, line)) {
        return bytes_copy_text(common_dir, PATH_MAX, git_dir);
    }
    return line[0] == '/' ? bytes_copy_text(common_dir, PATH_MAX, line) : join(common_dir, git_dir, line);
}

bool git_find_root(const char *dir, char *root, char *prefix)
{
    char git_dir[PATH_MAX], common_dir[PATH_MAX], whole[PATH_MAX];
    struct stat here, above;
    if (realpath(dir, whole) == NULL || stat(whole, &here) != 0) {
        return false;
    }
    (void)bytes_copy_text(root, PATH_MAX, whole);
    while (!find_directories(root, git_dir, common_dir)) {
        char *slash = strrchr(root, '/');
        if (slash == NULL || root[1] == '\0') {
            return false;
        }
        slash[slash == root ? 1 : 0] = '\0';
        if (stat(root, &above) != 0 || above.st_dev != here.st_dev) {
            return false; /* git, too, does not look on another file system */
        }
    }
    size_t root_bytes = strlen(root), rest = strlen(whole) - root_bytes;
    prefix[0] = '\0';
    if (rest > 0) {
        const char *below = whole + root_bytes + (whole[root_bytes] == '/');
        int length = snprintf(prefix, PATH_MAX, "%s/", below);
        return length > 0 && length < PATH_MAX;
    }
    return true;
}

bool git_is_root(int dir_fd, const char *name)
{
    char path[NAME_MAX + 16];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/.git", name);
    if (fstatat(dir_fd, path, &info, 0) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/.git/HEAD", name);
    return S_ISREG(info.st_mode) || fstatat(dir_fd, path, &info, 0) == 0;
}

/* ---- the index ---- */

static int compare_tracked(const void *a, const void *b)
{
    return strcmp(((const struct git_tracked *)a)->path, ((const struct git_tracked *)b)->path);
}

static int add_tracked(struct git_repository *repository, size_t *room, const struct git_index *index)
{
    if (repository->tracked_count == *room) {
        size_t bigger = *room == 0 ? 256 : 2 * *room;
        struct git_tracked *grown = realloc(repository->tracked, bigger * sizeof *grown);
        if (grown == NULL) {
            return ERR_MEMORY;
        }
        repository->tracked = grown;
        *room = bigger;
    }
    char *path = strdup(index->path);
    if (path == NULL) {
        return ERR_MEMORY;
    }
    repository->tracked[repository->tracked_count++] =
        (struct git_tracked){path, (index->mode & S_IFMT) == GIT_MODE_SUBMODULE};
    return 0;
}

static void forget_tracked(struct git_repository *repository)
{
    for (size_t i = 0; i < repository->tracked_count; i++) {
        free(repository->tracked[i].path);
    }
    free(repository->tracked);
    repository->tracked = NULL;
    repository->tracked_count = 0;
}

static int read_index(struct git_repository *repository, const char *git_dir, size_t hash_bytes)
{
    char path[PATH_MAX], name[PATH_MAX];
    char *text;
    size_t text_bytes, room = 0;
    struct git_index index;
    if (!join(path, git_dir, "index")) {
        return 0;
    }
    int rc = small_file_read(AT_FDCWD, path, true, INDEX_BYTES_MAX, &text, &text_bytes);
    if (rc != 0) {
        repository->is_index_unreadable = rc != ERR_NOT_FOUND; /* a repository without a commit has none */
        return rc == ERR_MEMORY ? rc : 0;
    }
    rc = git_index_begin(&index, (const uint8_t *)text, text_bytes, hash_bytes, name, sizeof name);
    while (rc == 0 && git_index_next(&index, &rc)) {
        rc = add_tracked(repository, &room, &index);
    }
    free(text);
    if (rc != 0) {
        forget_tracked(repository);
        repository->is_index_unreadable = true;
        return rc == ERR_MEMORY ? rc : 0;
    }
    if (repository->tracked_count > 1) { /* entries of an unfinished merge come three times; the order is that of bytes */
        qsort(repository->tracked, repository->tracked_count, sizeof *repository->tracked, compare_tracked);
    }
    return 0;
}

/* The first tracked path that is not before the `count` bytes of `path`. */
static size_t first_tracked(const struct git_repository *repository, const char *path, size_t count)
{
    struct bisection search = bisect_all((uint32_t)repository->tracked_count);
    while (bisect_next(&search)) {
        bisect_answer(&search, strncmp(repository->tracked[search.middle].path, path, count) < 0);
    }
    return search.low;
}

bool git_tracks(const struct git_repository *repository, const char *path)
{
    size_t at = first_tracked(repository, path, strlen(path) + 1);
    return at < repository->tracked_count && strcmp(repository->tracked[at].path, path) == 0;
}

bool git_tracks_below(const struct git_repository *repository, const char *path)
{
    char below[PATH_MAX];
    int length = snprintf(below, sizeof below, "%s/", path);
    if (length < 0 || (size_t)length >= sizeof below) {
        return false;
    }
    size_t at = first_tracked(repository, below, (size_t)length);
    return at < repository->tracked_count && strncmp(repository->tracked[at].path, below, (size_t)length) == 0;
}

/* ---- the repository ---- */

/* Adds a file of rules, if it can be read; `*name` is then a copy for people. */
static int add_exclude(struct git_repository *repository, const char *path, const char *name)
{
    char *text, *copy;
    size_t text_bytes;
    int rc = small_file_read(AT_FDCWD, path, true, EXCLUDE_BYTES_MAX, &text, &text_bytes);
    if (rc != 0) {
        return rc == ERR_MEMORY ? rc : 0;
    }
    copy = strdup(name);
    if (copy == NULL) {
        free(text);
        return ERR_MEMORY;
    }
    repository->excludes[repository->exclude_count++] = (struct ignore_file){
        .text = text, .text_bytes = text_bytes, .name = copy, .ignores_case = repository->ignores_case};
    return 0;
}

int git_open(const char *root, const struct git_places *places, struct git_repository **out)
{
    char git_dir[PATH_MAX], common_dir[PATH_MAX], path[PATH_MAX];
    struct git_repository *repository = calloc(1, sizeof *repository);
    struct settings *settings = calloc(1, sizeof *settings);
    int rc = ERR_MEMORY;
    if (repository == NULL || settings == NULL || (repository->root = strdup(root)) == NULL) {
        goto out_free_settings;
    }
    *settings = (struct settings){.places = places, .root = root, .hash_bytes = SHA1_BYTES};
    rc = 0;
    if (find_directories(root, git_dir, common_dir)) {
        read_settings(settings, git_dir, common_dir);
        repository->ignores_case = settings->ignores_case;
        if (settings->excludes_file[0] != '\0') {
            rc = add_exclude(repository, settings->excludes_file, settings->excludes_file);
        } else if (user_path(places, "ignore", path)) {
            rc = add_exclude(repository, path, path);
        }
        if (rc == 0 && join(path, common_dir, "info/exclude")) {
            rc = add_exclude(repository, path, ".git/info/exclude");
        }
        if (rc == 0) {
            rc = read_index(repository, git_dir, settings->hash_bytes);
        }
    }
out_free_settings:
    free(settings);
    if (rc != 0) {
        git_close(&repository);
        return rc;
    }
    *out = repository;
    return 0;
}

void git_close(struct git_repository **repository)
{
    if (*repository == NULL) {
        return;
    }
    for (size_t i = 0; i < (*repository)->exclude_count; i++) {
        free((void *)(uintptr_t)(*repository)->excludes[i].text);
        free((void *)(uintptr_t)(*repository)->excludes[i].name);
    }
    forget_tracked(*repository);
    free((*repository)->root);
    free(*repository);
    *repository = NULL;
}
