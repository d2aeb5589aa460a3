#include "node/daemon/wire/event_points.h"

#include <string.h>

#include "base/bytes.h"
#include "store/tfevents.h"

#define WALL_S_MAX 253402300800.0 /* the year 10000 */

enum event_take event_take(const uint8_t *bytes, size_t count, const uint8_t **message, size_t *message_bytes,
                           uint64_t *whole_bytes)
{
    *whole_bytes = 0;
    if (count < TFEVENTS_HEAD_BYTES) {
        return EVENT_WAITS;
    }
    if (tfevents_read_head(bytes, message_bytes) != 0) {
        return EVENT_BROKEN;
    }
    *whole_bytes = TFEVENTS_HEAD_BYTES + (uint64_t)*message_bytes + TFEVENTS_FOOT_BYTES;
    if (*message_bytes > EVENT_MESSAGE_BYTES_MAX) {
        return EVENT_LONG;
    }
    if (count < *whole_bytes) {
        return EVENT_WAITS;
    }
    *message = bytes + TFEVENTS_HEAD_BYTES;
    return tfevents_check_foot(*message, *message_bytes, *message + *message_bytes) == 0 ? EVENT_TAKEN : EVENT_BROKEN;
}

/* False: the tag is no name. */
static bool set_names(const struct tfevents_value *value, struct event_point *out)
{
    const char *tag = (const char *)value->tag;
    if (tag == NULL || value->tag_bytes == 0 || memchr(tag, 0, value->tag_bytes) != NULL) {
        return false;
    }
    const char *slash = memchr(tag, '/', value->tag_bytes);
    size_t group_bytes = slash != NULL ? (size_t)(slash - tag) : 0;
    bool has_group = group_bytes > 0 && group_bytes < sizeof out->group;
    size_t skipped = has_group ? group_bytes + 1 : 0;
    if (value->tag_bytes == skipped || value->tag_bytes - skipped >= sizeof out->name) {
        return false;
    }
    if (has_group) {
        bytes_copy_text_n(out->group, sizeof out->group, tag, group_bytes);
    } else {
        bytes_copy_text(out->group, sizeof out->group, EVENT_GROUP);
    }
    bytes_copy_text_n(out->name, sizeof out->name, tag + skipped, value->tag_bytes - skipped);
    return true;
}

uint32_t event_points(const uint8_t *message, size_t count, struct event_point *out, uint32_t room, uint32_t *dropped)
{
    struct tfevents_event event;
    struct tfevents_value value;
    uint32_t taken = 0;
    if (tfevents_read_event(message, count, &event) != 0 || event.summary.count == 0) {
        return 0;
    }
    bool has_wall = event.wall_s > 0 && event.wall_s < WALL_S_MAX; /* false for NaN */
    while (tfevents_next_value(&event.summary, &value)) {
        if (!value.has_scalar) {
            continue;
        }
        if (taken == room || event.step < 0 || !set_names(&value, &out[taken])) {
            ++*dropped;
            continue;
        }
        out[taken].step = (uint64_t)event.step;
        out[taken].wall_ms = has_wall ? (uint64_t)(event.wall_s * 1000) : 0;
        out[taken].value = value.scalar;
        taken++;
    }
    return taken;
}
