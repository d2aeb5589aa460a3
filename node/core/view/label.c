/* What a node is called where people read. */

#include "base/format.h"
#include "node/core/view/view.h"

#define DIGITS_MIN 4

static bool is_present(const struct view_member *member)
{
    return member->admitted && !member->left;
}

/* The number of leading hexadecimal digits that two ids have in common. */
static uint32_t common_digits(node_id a, node_id b)
{
    uint32_t i = 0;
    while (i < NODE_ID_BYTES && a.bytes[i] == b.bytes[i]) {
        i++;
    }
    return i == NODE_ID_BYTES ? 2 * i : 2 * i + (a.bytes[i] >> 4 == b.bytes[i] >> 4 ? 1 : 0);
}

/* The number of digits of its id that the member's label needs; 0: the name suffices. */
static uint32_t digits_needed(const struct view *view, const struct view_member *member)
{
    uint32_t needed = DIGITS_MIN;
    bool is_shared = strchr(member->name, VIEW_LABEL_SIGN) != NULL; /* such a name could be the label of another node */
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *other = view->members[i];
        if (other == member || strcmp(other->name, member->name) != 0) {
            continue;
        }
        is_shared |= is_present(other) || (!is_present(member) && other->believed);
        uint32_t digits = common_digits(member->id, other->id) + 1;
        needed = digits > needed ? digits : needed;
    }
    return is_shared ? needed : 0;
}

struct view_label view_label(const struct view *view, node_id node)
{
    struct view_label label = {"?"};
    const struct view_member *member = view_find_member(view, node);
    if (member == NULL || member->name[0] == '\0') {
        return label;
    }
    uint32_t digits = digits_needed(view, member);
    size_t used = format_text(label.text, sizeof label.text, "%s", member->name);
    if (digits > 0) {
        char hex[2 * NODE_ID_BYTES + 1];
        bytes_to_hex(hex, member->id.bytes, NODE_ID_BYTES);
        hex[digits] = '\0';
        (void)format_text(label.text + used, sizeof label.text - used, "%c%s", VIEW_LABEL_SIGN, hex);
    }
    return label;
}
