/* The program of a search, in the world of stories: it says what world->searches says. */
#include <stdio.h>

#include "tests/scenario/core_world_inside.h"

static void post(struct world *world, uint32_t number, const struct node_effect *effect, enum node_event_kind kind, const char *text,
                 const struct pack_writer *actions)
{
    struct node_event event = {.kind = kind};
    event.u.searcher.experiment = effect->u.searcher.experiment;
    event.u.searcher.life = effect->u.searcher.life;
    event.u.searcher.event = effect->u.searcher.event;
    event.u.searcher.text = text;
    event.bytes = actions != NULL ? actions->bytes : NULL;
    event.byte_count = actions != NULL ? (uint32_t)actions->used_bytes : 0;
    world_post(world, world->now_ms + 10, number, world->nodes[number].boots, &event);
}

static void told(struct world *world, uint32_t number, const struct node_effect *effect)
{
    uint8_t bytes[4096];
    struct pack_writer actions;
    struct pack_reader map, value;
    char kind[16] = "", line[64];
    pack_reader_init(&map, effect->bytes, effect->byte_count);
    value = pack_find(&map, "kind");
    pack_read_text_copy(&value, kind, sizeof kind);
    value = pack_find(&map, "trial");
    uint32_t trial = value.failed ? UINT32_MAX : (uint32_t)pack_read_u64(&value);
    (void)snprintf(line, sizeof line, trial == UINT32_MAX ? "%s" : "%s %u", kind, trial);
    world_say(world, number, '#', line);
    pack_writer_init(&actions, bytes, sizeof bytes);
    if (world->searcher_is_mute) {
        return;
    }
    if (world->searches(world, kind, trial, &actions)) {
        post(world, number, effect, NODE_EVENT_SEARCHER_ANSWER, NULL, &actions);
    } else {
        post(world, number, effect, NODE_EVENT_SEARCHER_ENDED, "was ended by signal 9", NULL);
    }
}

void world_searcher_effect(struct world *world, uint32_t number, const struct node_effect *effect)
{
    if (effect->kind == NODE_EFFECT_SEARCHER_TELL) {
        told(world, number, effect);
        return;
    }
    bool starts = effect->kind == NODE_EFFECT_SEARCHER_START;
    world_say(world, number, '>', starts ? "start searcher" : "stop searcher");
    if (starts && world->searches == NULL) {
        post(world, number, effect, NODE_EVENT_SEARCHER_ENDED, "has ended with status 1: SyntaxError", NULL);
    } else if (starts) {
        post(world, number, effect, NODE_EVENT_SEARCHER_STARTED, NULL, NULL);
        post(world, number, effect, NODE_EVENT_SEARCHER_READY, NULL, NULL);
    }
}
