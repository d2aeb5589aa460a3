/* The protocol versions of other nodes, and the line for users about a node that we do not understand. */

#include "base/format.h"
#include "node/core/members/versions.h"

static struct version_range own_versions(const struct node_core *core)
{
    return (struct version_range){core->options.node.protocol_min, core->options.node.protocol_max};
}

/* A record tells the versions of a node at the time of writing; a message of the node is newer. */
struct version_range core_node_versions(const struct node_core *core, node_id node)
{
    if (node_id_equal(node, core->options.self)) {
        return own_versions(core);
    }
    const struct core_peer *peer = core_find_peer(core, node);
    const struct view_member *member = view_find_member(&core->view, node);
    struct version_range announced = member != NULL ? member->protocol : (struct version_range){0, 0};
    uint32_t heard = peer != NULL ? peer->foreign_version : 0;
    bool is_outdated = heard != 0 && (heard < announced.oldest || heard > announced.newest);
    return is_outdated ? (struct version_range){heard, heard} : announced;
}

bool core_node_speaks(const struct node_core *core, node_id node)
{
    const struct core_peer *peer = core_find_peer(core, node);
    struct version_range theirs = core_node_versions(core, node);
    bool is_refused = peer != NULL && peer->foreign_version != 0;
    return !is_refused && (theirs.newest == 0 || version_common(own_versions(core), theirs) != 0);
}

static void format_versions(char out[32], struct version_range range)
{
    if (range.oldest == range.newest) {
        format_text(out, 32, "protocol %u", range.newest);
    } else {
        format_text(out, 32, "protocol %u to %u", range.oldest, range.newest);
    }
}

/* The core never sees such a message: the shell reads the version and reports it. */
void core_versions_foreign(struct node_core *core, node_id from, uint32_t version)
{
    struct core_peer *peer = core_find_peer(core, from);
    const struct view_member *member = view_find_member(&core->view, from);
    struct version_range ours = own_versions(core);
    core->counters.malformed++;
    if (peer == NULL || member == NULL || core->is_out) {
        return;
    }
    peer->foreign_version = version;
    if (peer->foreign_told_ms != 0 && core->now_ms - peer->foreign_told_ms < CORE_FOREIGN_LINE_MS) {
        return;
    }
    peer->foreign_told_ms = core->now_ms;
    char theirs_text[32], ours_text[32];
    format_versions(theirs_text, core_node_versions(core, from));
    format_versions(ours_text, ours);
    struct view_label label = view_label(&core->view, from);
    TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_FOREIGN, from),
                "%s speaks %s and this node %s, so they do not understand each other: update %s",
                label.text, theirs_text, ours_text, version > ours.newest ? "this node" : label.text);
}
