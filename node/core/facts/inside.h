#ifndef NODE_CORE_FACTS_INSIDE_H
#define NODE_CORE_FACTS_INSIDE_H
/* Shared by the files of facts. Bodies are arrays; a reader takes the elements of its own version and skips elements that later
 * versions have appended. */

#include "node/core/facts/facts.h"

#define KEY_EXPERIMENT_BYTES EXPERIMENT_ID_BYTES
#define KEY_CANCEL_BYTES (EXPERIMENT_ID_BYTES + 1)
#define KEY_TRIAL_BYTES (EXPERIMENT_ID_BYTES + 4)
#define KEY_SUBJECT_BYTES (EXPERIMENT_ID_BYTES + 1) /* of an annotation, without the label's name */
#define KEY_ATTEMPT_BYTES (EXPERIMENT_ID_BYTES + 4 + 4 + 8)
#define KEY_VERDICT_BYTES (KEY_ATTEMPT_BYTES + NODE_ID_BYTES)
#define KEY_WORKER_BYTES (KEY_VERDICT_BYTES + 2)
#define KEY_MANIFEST_BYTES (KEY_VERDICT_BYTES + 8)
#define KEY_PART_BYTES (KEY_MANIFEST_BYTES + 8 + 2 + 2)
#define KEY_OUTPUT_BYTES (KEY_WORKER_BYTES + 1)
#define KEY_RESULT_BYTES (KEY_VERDICT_BYTES + 1)
#define KEY_SEARCH_LOG_BYTES (EXPERIMENT_ID_BYTES + 8 + 4)

/* Opens a body of at least `least` elements; with fewer the reader fails. `*extra`: how many more there are. fact_body_close
 * skips so many elements and returns 0, or ERR_MALFORMED if the reader has failed or is not at the end. */
void fact_body_open(struct pack_reader *reader, const struct record *record, uint32_t least, uint32_t *extra);
int fact_body_close(struct pack_reader *reader, uint32_t extra);

/* As fact_body_close, for kinds of which a node has one record: ERR_MALFORMED, too, if the record has a key. */
int fact_body_close_unkeyed(struct pack_reader *reader, uint32_t extra, const struct record *record);

/* The same for an array inside of a body, such as an element of a list: returns how many more values than `least` there are, and
 * skips so many. */
uint32_t fact_element_open(struct pack_reader *reader, uint32_t least);
void fact_element_close(struct pack_reader *reader, uint32_t extra);

/* A draw as one element of a body. */
void fact_draw_pack(struct pack_writer *writer, const struct fact_draw *draw);
void fact_draw_read(struct pack_reader *reader, struct fact_draw *out);

/* An attempt id inside a body: the bytes of fact_key_verdict. */
void fact_attempt_id_pack(struct pack_writer *writer, const attempt_id *attempt);
void fact_attempt_id_read(struct pack_reader *reader, attempt_id *out);

#endif
