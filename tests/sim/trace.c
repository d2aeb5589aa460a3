#include "tests/sim/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/world.h"

void sim_trace(struct sim *sim, int node, const char *format, ...)
{
    char *line = sim->ring[sim->ring_count++ % SIM_RING_LINES];
    int used = snprintf(line, SIM_LINE_BYTES, "%9.3f n%d ", (double)sim->now_ms / 1000, node);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line + used, SIM_LINE_BYTES - (size_t)used, format, arguments);
    va_end(arguments);
    if (sim->verbose) {
        puts(line);
    }
}

void trace_core_line(void *context, const struct event_about *about, const char *text)
{
    (void)about;
    struct sim *sim = context;
    sim_trace(sim, sim->tracing_node, "%s", text);
}

void sim_fail(struct sim *sim, int invariant, const char *format, ...)
{
    if (sim->failed) {
        return;
    }
    sim->failed = true;
    sim->invariant = invariant;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sim->failure, sizeof sim->failure, format, arguments);
    va_end(arguments);
    SIM_TRACE(sim, 0, "FAILURE: %s", sim->failure);
}

void trace_write(const struct sim *sim, int file)
{
    uint32_t count = sim->ring_count < SIM_RING_LINES ? sim->ring_count : SIM_RING_LINES;
    for (uint32_t i = 0; i < count; i++) {
        const char *line = sim->ring[(sim->ring_count - count + i) % SIM_RING_LINES];
        if (write(file, line, strnlen(line, SIM_LINE_BYTES)) < 0 || write(file, "\n", 1) < 0) {
            return;
        }
    }
}

/* ---- the trace's hash ----------------------------------------------------------------------------------------------- */

void trace_word(struct sim *sim, uint64_t word)
{
    sim->digest = random_mix(sim->digest ^ word);
}

/* Whole words, each spread by one multiplication: all that is said and stored goes through here. */
static uint64_t hash_bytes(const void *bytes, size_t count)
{
    uint64_t hash = count, word = 0;
    for (; count >= sizeof word; count -= sizeof word, bytes = (const uint8_t *)bytes + sizeof word) {
        memcpy(&word, bytes, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, bytes, count);
    return (hash ^ word) * 0x9e3779b97f4a7c15u;
}

static uint64_t first_word(node_id id)
{
    uint64_t word;
    memcpy(&word, id.bytes, sizeof word);
    return word;
}

/* What a message says outside its kind's own fields; those follow from what the sender was told before, or show in what it
 * does next. The hash of records, which membership carries, stands for all that the sender knows. */
static void hash_message(struct sim *sim, const struct message *message)
{
    trace_word(sim, (uint64_t)message->kind << 32 | message->byte_count);
    if (message->kind == MESSAGE_SWIM) {
        trace_word(sim, hash_bytes(&message->hash, sizeof message->hash));
    }
    if (message->byte_count > 0) {
        trace_word(sim, hash_bytes(message->bytes, message->byte_count));
    }
}

void trace_event(struct sim *sim, const struct node_event *event)
{
    trace_word(sim, (uint64_t)event->kind << 32 | event->byte_count);
    if (event->kind == NODE_EVENT_MESSAGE) {
        trace_word(sim, first_word(event->u.message.from));
        hash_message(sim, event->u.message.message);
    }
    if (event->byte_count > 0) {
        trace_word(sim, hash_bytes(event->bytes, event->byte_count));
    }
}

void trace_effect(struct sim *sim, const struct node_effect *effect, const struct node_effect *before)
{
    trace_word(sim, (uint64_t)effect->kind << 32 | effect->byte_count);
    if (effect->byte_count > 0) {
        trace_word(sim, hash_bytes(effect->bytes, effect->byte_count));
    }
    switch (effect->kind) {
    case NODE_EFFECT_SEND: {
        const struct message *message = &effect->u.send.message;
        bool is_same = before != NULL && before->kind == NODE_EFFECT_SEND && message->byte_count > 0 &&
                       before->u.send.message.bytes == message->bytes;
        trace_word(sim, first_word(effect->u.send.to));
        if (!is_same) {
            hash_message(sim, message);
        }
        break;
    }
    case NODE_EFFECT_PERSIST_RECORD:
    case NODE_EFFECT_PERSIST_FENCE:
    case NODE_EFFECT_FORGET_RECORD:
    case NODE_EFFECT_FORGET_FENCE:
        trace_word(sim, hash_bytes(effect->u.persist.key, effect->u.persist.key_bytes));
        break;
    case NODE_EFFECT_PEER:
    case NODE_EFFECT_ADMIT:
    case NODE_EFFECT_CHECK_LINK:
        trace_word(sim, first_word(effect->u.peer.node));
        break;
    case NODE_EFFECT_PREPARE:
    case NODE_EFFECT_SPAWN:
    case NODE_EFFECT_KILL:
    case NODE_EFFECT_STOP_WORKER:
    case NODE_EFFECT_GROUP:
    case NODE_EFFECT_LEAVE_GROUP:
    case NODE_EFFECT_DURABLE:
    case NODE_EFFECT_OUTPUT_DONE:
        trace_word(sim, (uint64_t)effect->u.worker.slot << 32 | effect->u.worker.attempt.trial);
        break;
    case NODE_EFFECT_PUSH:
    case NODE_EFFECT_CONFIRM:
        trace_word(sim, first_word(effect->u.push.to));
        trace_word(sim, hash_bytes(&effect->u.push.blob, sizeof effect->u.push.blob));
        break;
    case NODE_EFFECT_REPLY:
    case NODE_EFFECT_WELCOME:
        trace_word(sim, effect->u.reply.client << 32 | (uint32_t)effect->u.reply.code);
        break;
    case NODE_EFFECT_SEARCHER_START:
    case NODE_EFFECT_SEARCHER_TELL:
    case NODE_EFFECT_SEARCHER_STOP:
    case NODE_EFFECT_COLLECT:
    case NODE_EFFECT_NEW_KEY:
    case NODE_EFFECT_BECOME:
        break;
    }
}
