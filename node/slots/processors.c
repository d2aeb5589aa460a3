#include "node/slots/processors.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 4096
#define PATH_BYTES 4096

/* The group of this process in one hierarchy. */
struct group {
    char mount[PATH_BYTES]; /* where the hierarchy is mounted; "": it is not */
    char root[PATH_BYTES];  /* the group that is mounted there */
    char path[PATH_BYTES];  /* the group of this process */
};

/* True if the list "a,b,c" has the word. */
static bool list_has(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    while (*list != '\0') {
        size_t item = strcspn(list, ",");
        if (item == bytes && memcmp(list, word, bytes) == 0) {
            return true;
        }
        list += item + (list[item] == ',');
    }
    return false;
}

/* Reads "HIERARCHY:CONTROLLERS:PATH" lines; version 2 has no controllers. */
static void group_read_path(const char *proc, bool is_v2, struct group *group)
{
    char name[PATH_BYTES], line[LINE_BYTES];
    (void)snprintf(name, sizeof name, "%.4000s/cgroup", proc);
    FILE *file = fopen(name, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (is_v2 ? controllers[1] == '\0' : list_has(controllers + 1, "cpu")) {
            (void)snprintf(group->path, sizeof group->path, "%s", path);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Reads "ID PARENT DEVICE ROOT MOUNT OPTIONS ... - TYPE SOURCE SUPER_OPTIONS" lines (proc(5)). */
static void group_read_mount(const char *proc, bool is_v2, struct group *group)
{
    char name[PATH_BYTES], line[LINE_BYTES];
    (void)snprintf(name, sizeof name, "%.4000s/mountinfo", proc);
    FILE *file = fopen(name, "re");
    while (file != NULL && group->mount[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        char root[LINE_BYTES], mount[LINE_BYTES], type[64], options[LINE_BYTES];
        const char *rest = strstr(line, " - ");
        if (rest == NULL || sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) != 2 ||
            sscanf(rest, " - %63s %*s %4095s", type, options) != 2) {
            continue;
        }
        if (is_v2 ? strcmp(type, "cgroup2") == 0 : strcmp(type, "cgroup") == 0 && list_has(options, "cpu")) {
            (void)snprintf(group->mount, sizeof group->mount, "%s", mount);
            (void)snprintf(group->root, sizeof group->root, "%s", strcmp(root, "/") == 0 ? "" : root);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Reads two numbers, each from a file of its own or both from one. False: there is no quota. */
static bool quota_read(const char *directory, bool is_v2, long long *quota, long long *period)
{
    char name[2 * PATH_BYTES + 32], line[128] = "", second[64] = "";
    (void)snprintf(name, sizeof name, "%s/%s", directory, is_v2 ? "cpu.max" : "cpu.cfs_quota_us");
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        return false;
    }
    bool is_read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    if (is_v2) {
        return is_read && sscanf(line, "%lld %lld", quota, period) == 2 && *quota > 0 && *period > 0; /* "max": none */
    }
    (void)snprintf(name, sizeof name, "%s/cpu.cfs_period_us", directory);
    file = fopen(name, "re");
    if (file == NULL) {
        return false;
    }
    is_read = is_read && fgets(second, sizeof second, file) != NULL;
    (void)fclose(file);
    return is_read && sscanf(line, "%lld", quota) == 1 && sscanf(second, "%lld", period) == 1 && *quota > 0 && *period > 0;
}

/* The least quota of a group and of those above it, as far as they are visible here. */
static uint32_t hierarchy_quota(const char *proc, bool is_v2)
{
    struct group *group = calloc(1, sizeof *group);
    char directory[2 * PATH_BYTES];
    uint32_t least = UINT32_MAX;
    if (group == NULL) {
        return least;
    }
    group_read_path(proc, is_v2, group);
    group_read_mount(proc, is_v2, group);
    size_t root_bytes = strlen(group->root);
    /* In a container the mounted group is not the topmost one; a group outside of it is shown as "/..". */
    bool is_below = strncmp(group->path, group->root, root_bytes) == 0 && strncmp(group->path, "/..", 3) != 0;
    size_t mount_bytes = strlen(group->mount);
    (void)snprintf(directory, sizeof directory, "%s%s", group->mount, is_below ? group->path + root_bytes : "");
    while (mount_bytes > 0 && strlen(directory) >= mount_bytes) {
        long long quota, period;
        if (quota_read(directory, is_v2, &quota, &period)) {
            long long whole = quota / period + (quota % period != 0);
            least = whole < (long long)least ? (uint32_t)whole : least;
        }
        char *slash = strrchr(directory, '/');
        if (slash == NULL || slash == directory) {
            break;
        }
        *slash = '\0';
    }
    free(group);
    return least;
}

uint32_t processors_quota(const char *proc)
{
    uint32_t old = hierarchy_quota(proc, false), new = hierarchy_quota(proc, true);
    return old < new ? old : new;
}

uint32_t processors_allowed(void)
{
    cpu_set_t allowed;
    long count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (uint32_t)count;
}

uint32_t processors_usable(void)
{
    uint32_t allowed = processors_allowed(), quota = processors_quota("/proc/self");
    return quota < allowed ? quota : allowed;
}
