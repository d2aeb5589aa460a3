/* Whether this node is a member itself. A node that is out of the mesh ends its work, and begins again once a member again. */

#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/copies/acks.h"
#include "node/core/ground/effects.h"
#include "node/core/members/twin.h"
#include "node/core/owner/workers.h"
#include "node/core/roof/roof.h"

/* Ends all connections to members. If the step has no room for all, the next step goes on. */
static void end_links(struct node_core *core)
{
    for (uint32_t i = 0; i < core->members->peer_count && core_has_room(core, 64, 0); i++) {
        if (core->members->peers[i]->address[0] != '\0') {
            core->members->peers[i]->address[0] = '\0';
            struct node_effect *effect = core_effect(core, NODE_EFFECT_PEER);
            effect->u.peer.node = core->members->peers[i]->id;
            effect->u.peer.gone = true;
        }
    }
}

void standing_update(struct node_core *core)
{
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    bool is_out = self != NULL && view_member_is_out(self) && !BUG(evicted_goes_on, "who is evicted ends its workers");
    if (core_twin_yields(core->twin)) {
        return;
    }
    if (is_out == core->is_out) {
        if (is_out) {
            end_links(core);
        }
        return;
    }
    core->is_out = is_out;
    core->members->changed = true;
    core->owner->lease.granting = false; /* the next step decides anew */
    if (!is_out) {
        core->view.roster_changed = true; /* connections are made again */
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_JOINED, core->options.self),
                    "this node is a member again");
        return;
    }
    const struct view_member *evictor = self->evicted ? view_find_member(&core->view, self->evictor) : NULL;
    node_id cause = evictor != NULL ? evictor->id : self->voucher;
    char hex[13];
    bytes_to_hex(hex, cause.bytes, 6);
    TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_EVICTED, core->options.self),
                "THIS NODE IS OUT OF THE MESH: %s %s (%s)%s",
                evictor != NULL ? "it was evicted by" : "the word of", view_label(&core->view, cause).text, hex,
                evictor != NULL ? "" : ", which vouched for it, does not stand any more");
    TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_EVICTED, core->options.self),
                "its workers end, and it takes part in nothing; to come back, end this daemon, ask a member "
                "for `shoal invite`, and run `shoal --dir NEW_DIR join TOKEN`: this key cannot return");
    core_coordinator_out(core);
    core_owner_out(core);
    core_acks_refuse(core);
    end_links(core);
}
