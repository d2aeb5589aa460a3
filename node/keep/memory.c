#include "node/keep/memory.h"

#include <stdlib.h>
#include <string.h>

#include "node/keep/text_file.h"

#define PATH_BYTES 1024
#define V1 "/sys/fs/cgroup/memory"
#define LIMIT_ROUNDING_BYTES (1u << 20)

/* The number behind `name` and a blank at the start of a line. */
static bool find_number(const char *text, const char *name, uint64_t *out)
{
    size_t length = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            *out = strtoull(line + length, NULL, 10);
            return true;
        }
        line = strchr(line, '\n');
        line += line != NULL;
    }
    return false;
}

/* The path of this process in a hierarchy: that of version 2 (`controller` is NULL) or of a controller of version 1. Lines of
 * /proc/self/cgroup are NUMBER:CONTROLLERS:PATH. */
static bool find_group(const char *text, const char *controller, char *out, size_t size)
{
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        const char *names = memchr(line, ':', length);
        const char *path = names != NULL ? memchr(names + 1, ':', length - (size_t)(names + 1 - line)) : NULL;
        if (path != NULL) {
            size_t names_bytes = (size_t)(path - names - 1);
            bool is_there = controller == NULL && names_bytes == 0;
            for (const char *at = names + 1; controller != NULL && at < path;) {
                size_t word = strcspn(at, ",:");
                is_there |= word == strlen(controller) && strncmp(at, controller, word) == 0;
                at += word + 1;
            }
            size_t path_bytes = length - (size_t)(path + 1 - line);
            if (is_there && path_bytes < size) {
                memcpy(out, path + 1, path_bytes);
                out[path_bytes] = '\0';
                return true;
            }
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

/* Reads a file of the group; in a container the group may be the root of what is mounted there. */
static bool read_of_group(const char *mount, const char *group, const char *file, char *out, size_t size)
{
    return keep_text_read(out, size, "%s%s/%s", mount, group, file) || keep_text_read(out, size, "%s/%s", mount, file);
}

static void read_group(struct keep_memory *out)
{
    char text[4096], group[PATH_BYTES], counters[2048];
    if (!keep_text_read(text, sizeof text, "/proc/self/cgroup")) {
        return;
    }
    if (find_group(text, "memory", group, sizeof group)) {
        out->has_group = read_of_group(V1, group, "memory.oom_control", counters, sizeof counters) &&
                         find_number(counters, "oom_kill", &out->group_kills);
        /* memory.failcnt does not count where the limit with swap space is the same one. */
        uint64_t most = read_of_group(V1, group, "memory.max_usage_in_bytes", counters, sizeof counters)
                            ? strtoull(counters, NULL, 10) : 0;
        uint64_t limit = read_of_group(V1, group, "memory.limit_in_bytes", counters, sizeof counters)
                             ? strtoull(counters, NULL, 10) : UINT64_MAX;
        out->was_at_limit = most + LIMIT_ROUNDING_BYTES >= limit;
    } else if (find_group(text, NULL, group, sizeof group)) {
        out->has_group = read_of_group("/sys/fs/cgroup", group, "memory.events", counters, sizeof counters) &&
                         find_number(counters, "oom_kill", &out->group_kills);
        if (out->has_group) {
            (void)find_number(counters, "max", &out->group_limits);
        }
    }
}

void keep_memory_read(struct keep_memory *out)
{
    char text[16384]; /* /proc/vmstat has about 5 KiB */
    *out = (struct keep_memory){.has_group = false};
    read_group(out);
    out->has_machine = keep_text_read(text, sizeof text, "/proc/vmstat") && find_number(text, "oom_kill", &out->machine_kills);
}

enum keep_memory_cause keep_memory_compare(const struct keep_memory *before, const struct keep_memory *after)
{
    if (before->has_group && after->has_group) {
        return after->group_kills <= before->group_kills    ? KEEP_MEMORY_NONE /* a kill elsewhere on the machine is not ours */
               : after->was_at_limit || after->group_limits > before->group_limits ? KEEP_MEMORY_LIMIT
                                                                                   : KEEP_MEMORY_MACHINE;
    }
    return before->has_machine && after->has_machine && after->machine_kills > before->machine_kills ? KEEP_MEMORY_MACHINE
                                                                                                     : KEEP_MEMORY_NONE;
}
