#include "node/keep/bars.h"

static void put_held(struct keep_bars *bars, uint64_t now_ms)
{
    if (bars->used > 0) {
        bars->put(bars->context, bars->held, bars->used);
        bars->put_ms = now_ms;
    }
    bars->used = 0;
}

static uint64_t due_ms(const struct keep_bars *bars)
{
    if (bars->put_ms == 0) {
        return 0;
    }
    uint64_t pause_ms = (bars->put_ms - bars->since_ms) / 100;
    pause_ms = pause_ms < KEEP_BARS_MS_MIN ? KEEP_BARS_MS_MIN : pause_ms > KEEP_BARS_MS_MAX ? KEEP_BARS_MS_MAX : pause_ms;
    return bars->put_ms + pause_ms;
}

/* The state before is drawn over. */
static void state_begin(struct keep_bars *bars, uint64_t now_ms)
{
    if (!bars->is_drawn) {
        bars->is_drawn = true;
        bars->since_ms = now_ms;
        bars->put_ms = 0;
    }
    if (now_ms >= due_ms(bars)) {
        put_held(bars, now_ms);
    }
    bars->held[0] = '\r';
    bars->used = 1;
    bars->is_returned = bars->is_passing = false;
}

static void line_end(struct keep_bars *bars, uint64_t now_ms)
{
    static const uint8_t end[] = "\r\n";
    put_held(bars, now_ms);
    bars->put(bars->context, bars->is_returned ? end : end + 1, bars->is_returned ? 2 : 1);
    bars->is_drawn = bars->is_returned = bars->is_passing = false;
}

static void hold(struct keep_bars *bars, uint64_t now_ms, const uint8_t *bytes, size_t count)
{
    if (bars->is_drawn && !bars->is_passing && bars->used + count > sizeof bars->held) {
        put_held(bars, now_ms);
        bars->is_passing = true;
    }
    if (!bars->is_drawn || bars->is_passing) {
        bars->put(bars->context, bytes, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bars->held[bars->used++] = bytes[i];
    }
}

void keep_bars_take(struct keep_bars *bars, uint64_t now_ms, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        size_t plain = 0;
        while (at + plain < count && bytes[at + plain] != '\r' && (bytes[at + plain] != '\n' || !bars->is_drawn) &&
               !bars->is_returned) {
            plain++;
        }
        if (plain > 0) {
            hold(bars, now_ms, bytes + at, plain);
            at += plain;
        } else if (bytes[at] == '\n') {
            line_end(bars, now_ms);
            at++;
        } else if (bytes[at] == '\r') { /* several in a row are as one */
            bars->is_returned = true;
            at++;
        } else {
            state_begin(bars, now_ms);
        }
    }
}

uint64_t keep_bars_next_ms(const struct keep_bars *bars)
{
    return bars->used == 0 ? UINT64_MAX : due_ms(bars);
}

void keep_bars_tick(struct keep_bars *bars, uint64_t now_ms)
{
    if (bars->used > 0 && now_ms >= due_ms(bars)) {
        put_held(bars, now_ms);
        bars->is_passing = true;
    }
}

void keep_bars_end(struct keep_bars *bars)
{
    put_held(bars, bars->put_ms);
    if (bars->is_returned) {
        bars->put(bars->context, (const uint8_t *)"\r", 1);
    }
    bars->is_drawn = bars->is_returned = bars->is_passing = false;
}

size_t keep_bars_fold(char *text, size_t bytes)
{
    size_t used = 0, line = 0;
    bool is_returned = false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r') {
            is_returned = true;
            continue;
        }
        if (is_returned && text[i] != '\n') {
            used = line;
        }
        is_returned = false;
        text[used++] = text[i];
        line = text[i] == '\n' ? used : line;
    }
    return used;
}
