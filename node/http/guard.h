#ifndef NODE_HTTP_GUARD_H
#define NODE_HTTP_GUARD_H
/* Where a request comes from, as its fields tell (docs/http.md, "What is refused"). A core. */

#include <stdbool.h>
#include <stddef.h>

#define GUARD_SECRET_BYTES 256
#define GUARD_CSRF_BYTES 33
#define GUARD_HOSTS_MAX 16

/* Whether the field Host names this machine: a loopback name or address, or one of `names`, with any port. Against DNS
 * rebinding: a page of evil.example that resolves to 127.0.0.1 is asked for with its own name. `takes_addresses`: any
 * numeric address will do, for a door that others reach: no name that resolves anew stands behind it. */
bool guard_host_is_ours(const char *host, const char *const names[], size_t name_count, bool takes_addresses);

/* Whether the field Origin is the page that this Host serves by HTTPS, or else by plain HTTP. */
bool guard_origin_is(const char *origin, const char *host, bool is_tls);

/* Reads the secret of a request: of `Authorization: Bearer SECRET`, of the password of `Basic`, else of the cookie.
 * NULL fields are absent. False: there is none. `*is_cookie` tells that a browser may have added it by itself. */
bool guard_secret(const char *authorization, const char *cookies, const char *cookie_name, char out[GUARD_SECRET_BYTES],
                  bool *is_cookie);

/* What a page has to send beside its cookie for a request that changes something: it follows from the cookie, which
 * only pages of this origin can make use of, and no other site can read it. */
void guard_csrf(const char *secret, char out[GUARD_CSRF_BYTES]);

/* Whether a request has sent that (NULL: nothing). */
bool guard_csrf_is(const char *secret, const char *given);

/* Whether the field Content-Type (NULL: there is none) says JSON, which no form can send to another site. */
bool guard_type_is_json(const char *type);

#endif
