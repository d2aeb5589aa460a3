#ifndef NODE_CORE_FACTS_INSIDE_H
#define NODE_CORE_FACTS_INSIDE_H
/* What the files of facts share. Bodies are arrays; a reader takes the elements that it knows and skips what a later version
 * has added behind. */

#include "node/core/facts/facts.h"

#define KEY_EXPERIMENT_BYTES EXPERIMENT_ID_BYTES
#define KEY_CANCEL_BYTES (EXPERIMENT_ID_BYTES + 1)
#define KEY_ATTEMPT_BYTES (EXPERIMENT_ID_BYTES + 4 + 4 + 8)
#define KEY_VERDICT_BYTES (KEY_ATTEMPT_BYTES + NODE_ID_BYTES)
#define KEY_WORKER_BYTES (KEY_VERDICT_BYTES + 2)
#define KEY_MANIFEST_BYTES (KEY_VERDICT_BYTES + 8)

/* At least `least` elements, or the reader fails; *extra is how many more there are, which fact_body_close skips. */
void fact_body_open(struct pack_reader *reader, const struct record *record, uint32_t least, uint32_t *extra);
int fact_body_close(struct pack_reader *reader, uint32_t extra); /* 0 or ERR_MALFORMED */

void fact_attempt_id_pack(struct pack_writer *writer, const attempt_id *attempt);
void fact_attempt_id_read(struct pack_reader *reader, attempt_id *out);

#endif
