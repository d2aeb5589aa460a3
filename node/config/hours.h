#ifndef NODE_CONFIG_HOURS_H
#define NODE_CONFIG_HOURS_H
/* Times of the day as people write them: "9-18 mon-fri", "22-6", "9:30-12 sat,sun; 14-18 mon". Pure. */

#include <stddef.h>

#include "node/core/facts/facts.h"

#define HOURS_WORDS "times of the day such as 9-18 mon-fri, 22-6 or 9:30-12 sat,sun; 14-18 mon"
#define HOURS_BYTES (FACT_HOURS_MAX * 48)

/* Reads at most FACT_HOURS_MAX times, parted by semicolons; without days each day. 24 is midnight. ERR_MALFORMED: then nothing is
 * changed. */
int hours_read(const char *text, struct fact_hours out[FACT_HOURS_MAX], uint32_t *count);

/* Writes a text that reads back as the same times. */
void hours_write(char out[HOURS_BYTES], const struct fact_hours *hours, uint32_t count);

#endif
