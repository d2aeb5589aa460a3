#ifndef NODE_KEEP_BARS_H
#define NODE_KEEP_BARS_H
/* Progress bars on their way into a log. A program that draws a line anew with a carriage return many times a second would
 * fill its log with states that nobody reads. So of the states of one line only some are kept: one in KEEP_BARS_MS_MIN at
 * first, later one in a hundredth of the time that the line has been drawn for, at least one in KEEP_BARS_MS_MAX; and always
 * the last one. All other output passes unchanged. A core.
 *
 *     \r 1%\r 2%\r 3% ... \r100%\n   becomes   \r 1%\r17% ... \r100%\n */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEEP_BARS_MS_MIN 500
#define KEEP_BARS_MS_MAX 10000
#define KEEP_BARS_STATE_BYTES 4096 /* of a state, with its carriage return; a longer one is kept */

/* All zero but for `put` and `context` at the start. */
struct keep_bars {
    void (*put)(void *context, const uint8_t *bytes, size_t count); /* takes the output that is kept, in order */
    void *context;
    bool is_drawn;     /* the line has had a carriage return */
    bool is_returned;  /* the last byte was a carriage return, and is not in `held` yet */
    bool is_passing;   /* the present state has been kept as far as it came: the rest passes */
    uint64_t since_ms; /* is_drawn: when the line's first carriage return came */
    uint64_t put_ms;   /* is_drawn: when a state of the line was last kept; 0: never */
    size_t used;
    uint8_t held[KEEP_BARS_STATE_BYTES]; /* the present state, from its carriage return on */
};

/* Takes output. Times in ms, any epoch, above 0, never decreasing. */
void keep_bars_take(struct keep_bars *bars, uint64_t now_ms, const uint8_t *bytes, size_t count);

/* When keep_bars_tick has something to keep; UINT64_MAX: never. */
uint64_t keep_bars_next_ms(const struct keep_bars *bars);

/* Keeps the present state if it is time, so that followers see a bar that stands still. Safe to call at any time. */
void keep_bars_tick(struct keep_bars *bars, uint64_t now_ms);

/* Keeps what is held: the output is over. */
void keep_bars_end(struct keep_bars *bars);

/* Folds a log's text in place: of each line only what was drawn last stays. Returns the new length, at most `bytes`. */
size_t keep_bars_fold(char *text, size_t bytes);

#endif
