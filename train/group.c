#include "train/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"

struct group {
    struct tcp_group *links; /* between all ranks */
};

int group_open(struct group **out, int listen_fd, const struct tcp_options *options, char error[GROUP_ERROR_BYTES])
{
    struct group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        (void)snprintf(error, GROUP_ERROR_BYTES, "no memory is left for the group");
        if (listen_fd >= 0) {
            (void)close(listen_fd);
        }
        return ERR_MEMORY;
    }
    int result = tcp_group_open(&group->links, listen_fd, options, error);
    if (result != 0) {
        group_close(&group);
        return result;
    }
    *out = group;
    return 0;
}

int group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count)
{
    return tcp_group_all_reduce(group->links, type, values, count);
}

int group_reduce_scatter(struct group *group, enum element_type type, void *values, uint64_t count)
{
    return tcp_group_reduce_scatter(group->links, type, values, count);
}

int group_all_gather(struct group *group, enum element_type type, void *values, uint64_t count)
{
    return tcp_group_all_gather(group->links, type, values, count);
}

int group_broadcast(struct group *group, void *bytes, uint64_t count, uint32_t root)
{
    return tcp_group_broadcast(group->links, bytes, count, root);
}

int group_barrier(struct group *group)
{
    return tcp_group_barrier(group->links);
}

void group_set_timeout(struct group *group, int stall_timeout_ms)
{
    tcp_group_set_timeout(group->links, stall_timeout_ms);
}

const char *group_error(const struct group *group)
{
    return tcp_group_error(group->links);
}

void group_close(struct group **group)
{
    if (*group != NULL) {
        tcp_group_close(&(*group)->links);
        free(*group);
        *group = NULL;
    }
}
