#ifndef NODE_HTTP_OPENAPI_H
#define NODE_HTTP_OPENAPI_H
/* The OpenAPI 3.1 document, written from the table of routes. */

#include <microhttpd.h>

/* Answers with the document. NULL: no memory is left. */
struct MHD_Response *openapi_answer(int *status);

#endif
