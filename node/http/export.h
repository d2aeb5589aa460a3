#ifndef NODE_HTTP_EXPORT_H
#define NODE_HTTP_EXPORT_H
/* An experiment as one file (node/export), asked for piece by piece. */

#include <microhttpd.h>

/* Answers with the experiment as a page (`as` is "html" or NULL), its trials ("csv") or its curves ("svg"). NULL: no
 * memory is left. */
struct MHD_Response *export_answer(const char *secret, const char *experiment, const char *as, int *status);

#endif
