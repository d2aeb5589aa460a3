/* Membership: the fold over vouchers (FACT_MEMBER) and evictions (FACT_EVICTION). A node is a member if it is admitted:
 *
 *   believed   The founder, and every node for which a believed node vouches. Evictions do not matter, so the set only grows.
 *   evicted    Every node that a believed node, other than the node itself, has evicted. An eviction counts whenever it was
 *              written, even if the writer is evicted, before or after: so of two nodes that evict each other both are
 *              out, and being first gains nothing. The set only grows, too.
 *   standing   A voucher stands if its writer is not evicted, or if every eviction of its writer by a believed node lists the
 *              node that the voucher is for. Every eviction, not any: so each further eviction leaves fewer vouchers standing,
 *              and no node returns through an eviction. An eviction with an unreadable body lists no node.
 *   rooted     The founder, and every node for which a voucher of a rooted node stands. Evicted nodes stay links of the chain
 *              (and an evicted founder stays its root), through the vouchers that the evictions list.
 *   admitted   Rooted and not evicted.
 *
 * Each step needs the whole result of the step before; the order in which records came does not matter. A node that is
 * believed but not rooted is out without an eviction: any member may vouch for it anew.
 *
 * Known weakness: one member can evict all other members with few records, and the other way round. The mesh then loses
 * members, but no results; owners at odds need two meshes. */

#include "base/bisect.h"
#include "base/check.h"
#include "base/err.h"
#include "node/core/view/fold.h"

/* ---- statements ------------------------------------------------------------------------------------------------------- */

static int statement_compare(const struct view_statement *statement, node_id about, node_id writer)
{
    int order = node_id_compare(statement->about, about);
    return order != 0 ? order : node_id_compare(statement->writer, writer);
}

static uint32_t statement_position(const struct view_statements *list, node_id about, node_id writer)
{
    struct bisection search = bisect_all(list->count);
    while (bisect_next(&search)) {
        bisect_answer(&search, statement_compare(&list->items[search.middle], about, writer) < 0);
    }
    return search.low;
}

static struct view_statement *statement_find(const struct view_statements *list, node_id about, node_id writer)
{
    uint32_t at = statement_position(list, about, writer);
    return at < list->count && statement_compare(&list->items[at], about, writer) == 0 ? &list->items[at] : NULL;
}

static struct view_statement *statement_add(struct arena *arena, struct view_statements *list, node_id about, node_id writer)
{
    if (list->count == list->slots) {
        uint32_t slots = list->slots == 0 ? 16 : list->slots * 2;
        struct view_statement *bigger = arena_grow(arena, list->items, list->slots * sizeof *bigger, slots * sizeof *bigger);
        if (bigger == NULL) {
            return NULL;
        }
        list->items = bigger;
        list->slots = slots;
    }
    uint32_t at = statement_position(list, about, writer);
    memmove(list->items + at + 1, list->items + at, (list->count - at) * sizeof *list->items);
    list->count++;
    list->items[at] = (struct view_statement){.about = about, .writer = writer};
    return &list->items[at];
}

static void statement_drop(struct view_statements *list, struct view_statement *statement)
{
    uint32_t at = (uint32_t)(statement - list->items);
    CHECK(at < list->count);
    list->count--;
    memmove(list->items + at, list->items + at + 1, (list->count - at) * sizeof *list->items);
}

/* ---- the fold --------------------------------------------------------------------------------------------------------- */

static bool eviction_counts(const struct view *view, struct view_statement *eviction)
{
    if (eviction->author == NULL) {
        eviction->author = view_find_member(view, eviction->writer);
    }
    return eviction->author != NULL && eviction->author->believed;
}

static bool voucher_stands(const struct view *view, const struct view_statement *voucher)
{
    if (!voucher->author->evicted) {
        return true;
    }
    node_id evicted = voucher->writer, none = {{0}};
    for (uint32_t i = statement_position(&view->evictions, evicted, none);
         i < view->evictions.count && node_id_equal(view->evictions.items[i].about, evicted); i++) {
        struct view_statement *eviction = &view->evictions.items[i];
        if (eviction_counts(view, eviction) &&
            !(eviction->is_readable && fact_eviction_lists(&eviction->entry->record, voucher->about))) {
            return false;
        }
    }
    return true;
}

/* Sets is_reached in the founder and in every node that a chain of vouchers connects to the founder: of all vouchers, or if
 * `standing` only of those that stand; vouchers of `without` (may be NULL) are left out. Vouchers are in no helpful order, so
 * rounds go on until a round reaches no further node. */
static void reach_from_founder(struct view *view, bool standing, const struct view_member *without)
{
    for (uint32_t i = 0; i < view->member_count; i++) {
        view->members[i]->is_reached = false;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < view->vouchers.count; i++) {
            const struct view_statement *voucher = &view->vouchers.items[i];
            bool is_own = voucher->member == voucher->author;
            struct view_member *member = voucher->member;
            if (!voucher->is_readable || member->is_reached || (is_own ? !voucher->is_founder : !voucher->author->is_reached) ||
                (!is_own && voucher->author == without) || (!is_own && standing && !voucher_stands(view, voucher))) {
                continue;
            }
            member->is_reached = true;
            member->sponsor = without == NULL ? voucher->writer : member->sponsor;
            changed = true;
        }
    }
}

static void fold_evictions(struct view *view)
{
    for (uint32_t i = 0; i < view->evictions.count; i++) {
        struct view_statement *eviction = &view->evictions.items[i];
        if (eviction->member == NULL) {
            eviction->member = view_find_member(view, eviction->about);
        }
        if (eviction->member != NULL && !eviction->member->evicted && eviction_counts(view, eviction)) {
            eviction->member->evicted = true;
            eviction->member->evictor = eviction->writer; /* evictions are sorted: the smallest writer comes first */
        }
    }
}

/* Sets the voucher for users to see, and the key and name from that voucher. */
static void fold_shown(struct view *view)
{
    /* A node whose vouchers count no more (a founder contradicted itself) has no voucher, in whatever order the records
     * came. */
    for (uint32_t i = 0; i < view->member_count; i++) {
        struct view_member *member = view->members[i];
        member->voucher = (node_id){{0}};
        if (!member->has_node) {
            member->name[0] = '\0';
        }
    }
    const struct view_member *done = NULL, *standing = NULL;
    for (uint32_t i = 0; i < view->vouchers.count; i++) {
        const struct view_statement *voucher = &view->vouchers.items[i];
        struct view_member *member = voucher->member;
        bool is_own = member == voucher->author;
        bool counts = voucher->is_readable && (is_own ? voucher->is_founder : voucher->author->believed);
        bool is_root = counts && member->rooted && (is_own || (voucher->author->rooted && voucher_stands(view, voucher)));
        struct fact_member fact;
        if (!counts || member == standing || (member == done && !is_root) ||
            fact_member_read(&voucher->entry->record, &fact) != 0) {
            continue;
        }
        done = member;
        standing = is_root ? member : standing;
        member->voucher = voucher->writer;
        memcpy(member->public_key, fact.public_key, PUBLIC_KEY_BYTES);
        if (!member->has_node) {
            bytes_copy_text(member->name, sizeof member->name, fact.name); /* the node's own record counts more */
        }
    }
}

static void fold(struct view *view)
{
    reach_from_founder(view, false, NULL);
    for (uint32_t i = 0; i < view->member_count; i++) {
        view->members[i]->believed = view->members[i]->is_reached;
        view->members[i]->evicted = false;
    }
    fold_evictions(view);
    if (view->evictions.count > 0) {
        reach_from_founder(view, true, NULL);
    }
    for (uint32_t i = 0; i < view->member_count; i++) {
        struct view_member *member = view->members[i];
        member->rooted = member->is_reached;
        member->admitted = member->rooted && !member->evicted;
    }
    fold_shown(view);
    view->roster_changed = true;
}

int fold_member(struct view *view, const struct records_entry *entry)
{
    struct fact_member fact;
    node_id about;
    bool good = fact_member_read(&entry->record, &fact) == 0;
    if (fact_key_read_node(&entry->record, &about) != 0) {
        return ERR_MALFORMED;
    }
    struct view_statement *voucher = statement_find(&view->vouchers, about, entry->record.writer);
    if (voucher == NULL && !good) {
        return ERR_MALFORMED;
    }
    if (voucher == NULL) {
        struct view_member *member = view_member_row(view, about);
        struct view_member *author = member != NULL ? view_member_row(view, entry->record.writer) : NULL;
        voucher = author != NULL ? statement_add(view->arena, &view->vouchers, about, entry->record.writer) : NULL;
        if (voucher == NULL) {
            return ERR_FULL;
        }
        voucher->member = member;
        voucher->author = author;
        member->vouched = true;
    }
    voucher->entry = entry;
    voucher->is_readable = good;
    voucher->is_founder = good && voucher->member == voucher->author &&
                       mesh_id_equal(mesh_id_of_founder(fact.public_key, fact.nonce), view->mesh);
    fold(view);
    return good ? 0 : ERR_MALFORMED;
}

int fold_eviction(struct view *view, const struct records_entry *entry)
{
    struct fact_eviction fact;
    node_id about, writer = entry->record.writer;
    if (fact_key_read_node(&entry->record, &about) != 0 || node_id_equal(about, writer)) {
        return ERR_MALFORMED;
    }
    struct view_statement *eviction = statement_find(&view->evictions, about, writer);
    if (eviction == NULL) {
        eviction = statement_add(view->arena, &view->evictions, about, writer);
        if (eviction == NULL) {
            return ERR_FULL;
        }
    }
    eviction->entry = entry;
    eviction->is_readable = fact_eviction_read(&entry->record, &fact) == 0;
    int error = eviction->is_readable ? 0 : ERR_MALFORMED;
    uint32_t count = 0;
    struct view_statement *last = NULL;
    for (uint32_t i = 0; i < view->evictions.count; i++) {
        if (node_id_equal(view->evictions.items[i].writer, writer)) {
            last = &view->evictions.items[i];
            count++;
        }
    }
    if (count > VIEW_EVICTIONS_MAX) {
        statement_drop(&view->evictions, last);
        error = ERR_REFUSED;
    }
    fold(view);
    return error;
}

bool view_member_is_out(const struct view_member *member)
{
    return member->believed && !member->admitted;
}

bool view_member_would_stay(struct view *view, node_id evicted, node_id node)
{
    reach_from_founder(view, true, view_find_member(view, evicted));
    const struct view_member *member = view_find_member(view, node);
    return member != NULL && member->is_reached;
}
