/* Effects, the bytes behind them, and the secrets of a boot. */

#include <sodium/crypto_generichash.h>

#include "base/check.h"
#include "node/core/ground/effects.h"

bool core_has_room(const struct node_core *core, uint32_t effects, uint32_t bytes)
{
    return core->out->count + effects <= NODE_EFFECTS_MAX && core->out->used_bytes + bytes <= NODE_EFFECT_BYTES_MAX;
}

struct node_effect *core_effect(struct node_core *core, enum node_effect_kind kind)
{
    CHECK(core->out->count < NODE_EFFECTS_MAX);
    struct node_effect *effect = &core->out->items[core->out->count++];
    memset(effect, 0, sizeof *effect);
    effect->kind = kind;
    return effect;
}

const uint8_t *core_effect_bytes(struct node_core *core, const void *bytes, uint32_t count)
{
    CHECK(count <= NODE_EFFECT_BYTES_MAX - core->out->used_bytes);
    uint8_t *at = core->out->bytes + core->out->used_bytes;
    memcpy(at, bytes, count);
    core->out->used_bytes += count;
    return at;
}

void core_send(struct node_core *core, node_id to, const struct message *message)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_SEND);
    effect->u.send.to = to;
    effect->u.send.message = *message;
    effect->u.send.message.boot = core->options.boot;
}

void core_reply(struct node_core *core, uint64_t client, int code, uint32_t stored_on, const char *text)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_REPLY);
    effect->u.reply.client = client;
    effect->u.reply.code = code;
    effect->u.reply.stored_on = stored_on;
    bytes_copy_text(effect->u.reply.text, sizeof effect->u.reply.text, text);
}

void core_secret(struct node_core *core, uint8_t *out, uint32_t count)
{
    uint8_t input[17];
    CHECK(count == 16 || count == 32);
    bytes_put_u64(input, core->options.boot);
    bytes_put_u64(input + 8, ++core->secrets);
    input[16] = (uint8_t)count;
    (void)crypto_generichash(out, count, input, sizeof input, core->options.secret, sizeof core->options.secret);
}
