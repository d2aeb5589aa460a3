/* Copies of code and checkpoints that the core wants on other nodes: bulk makes the copies, and the core gets each
 * result. */

#include <stdlib.h>

#include "base/err.h"
#include "node/daemon/disk/disk.h"
#include "node/daemon/peers/peers.h"

struct daemon_push {
    struct daemon_push *next;
    uint64_t request;
    struct node_effect effect;
};

void daemon_pushes_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_push *push = calloc(1, sizeof *push);
    struct node_event event = {.kind = NODE_EVENT_PUSHED};
    event.u.blob.blob = effect->u.push.blob;
    event.u.blob.node = effect->u.push.to;
    event.u.blob.attempt = effect->u.push.attempt;
    event.u.blob.step = effect->u.push.step;
    if (push == NULL) {
        daemon_event(daemon, &event);
        return;
    }
    daemon_bulk_peers(daemon); /* the record with the peer's bulk address may just have come */
    push->request = ++daemon->request_id;
    push->effect = *effect;
    push->next = daemon->disk->pushes;
    daemon->disk->pushes = push;
    if (bulk_push(daemon->bulk, push->request, effect->u.push.blob, effect->u.push.to) != 0) {
        daemon->disk->pushes = push->next;
        free(push);
        daemon_event(daemon, &event);
    }
}

void daemon_pushes_answered(struct daemon *daemon, uint64_t request, int code, const char *text)
{
    struct daemon_push **link = &daemon->disk->pushes;
    while (*link != NULL && (*link)->request != request) {
        link = &(*link)->next;
    }
    struct daemon_push *push = *link;
    if (push == NULL) {
        return;
    }
    *link = push->next;
    /* The core pushes an experiment's code without knowing whether this node has it: a missing blob is no failure then. */
    bool is_code = experiment_id_is_none(push->effect.u.push.attempt.experiment);
    if (code != 0 && !(is_code && code == ERR_NOT_FOUND)) {
        daemon_line_of(daemon, event_of_node(EVENT_CHECKPOINT_FAILED, push->effect.u.push.to),
                       "a copy for another node could not be made: %s", text);
    }
    struct node_event event = {.kind = NODE_EVENT_PUSHED};
    event.u.blob.blob = push->effect.u.push.blob;
    event.u.blob.node = push->effect.u.push.to;
    event.u.blob.attempt = push->effect.u.push.attempt;
    event.u.blob.step = push->effect.u.push.step;
    event.u.blob.ok = code == 0;
    event.u.blob.is_missing = code == ERR_NOT_FOUND && !chunks_has(daemon->chunks, push->effect.u.push.blob);
    free(push);
    daemon_event(daemon, &event);
}

void daemon_pushes_close(struct daemon *daemon)
{
    while (daemon->disk->pushes != NULL) {
        struct daemon_push *push = daemon->disk->pushes;
        daemon->disk->pushes = push->next;
        free(push);
    }
}
