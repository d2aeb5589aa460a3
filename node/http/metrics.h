#ifndef NODE_HTTP_METRICS_H
#define NODE_HTTP_METRICS_H
/* /metrics: the mesh as this node sees it, and this node, for Prometheus (text format 0.0.4) or, if the client takes
 * it, OpenMetrics 1.0. A label takes few values, or those that are of use now: trials are named by the node of their
 * rank 0 alone, while they run and for a minute behind; else experiments and trials are counted by state.
 */

#include <microhttpd.h>

/* Answers with the metrics; `secret` and `accept` are NULL if the request has none. NULL: no memory is left. */
struct MHD_Response *metrics_answer(const char *secret, const char *accept, int *status);

#endif
