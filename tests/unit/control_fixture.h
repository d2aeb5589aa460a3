#ifndef TESTS_UNIT_CONTROL_FIXTURE_H
#define TESTS_UNIT_CONTROL_FIXTURE_H
/* Two control sockets over loopback, in one thread. Every wait is for a condition, with a deadline that only a failure
 * meets. */

#include <stdbool.h>
#include <stdint.h>

#include "gossip/control.h"

#define PATIENCE_MS 15000

/* One daemon's share: a context, its door and its sockets. */
struct side {
    void *context;
    struct zap *zap;
    struct control *control;
    struct keys keys;
    char address[CONTROL_ADDRESS_BYTES];
};

uint64_t now_ms(void);
void side_open_at(struct side *side, const char *listen);
void side_open(struct side *side);
void side_close(struct side *side);
void side_turn(struct side *side, long wait_ms);

/* The first admits the second, and connects; both do. */
void introduce(struct side *a, struct side *b);
void befriend(struct side *a, struct side *b);

/* Sends `text` from a to b again and again, while both turn, until b has it; false at the deadline. */
bool deliver(struct side *a, struct side *b, const char *text, uint64_t patience_ms);

/* How many connections this side's port has, and the descriptor of one of them. */
uint32_t side_connections(const struct side *side, int *out_fd);

#endif
