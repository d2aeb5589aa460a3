#ifndef NODE_DAEMON_LOCAL_CERTIFICATE_H
#define NODE_DAEMON_LOCAL_CERTIFICATE_H
/* The certificate of the HTTPS door and its key: the file DIR/http.pem, which only this account can read. A process of
 * shoal-http makes it, so that the daemon needs no library for it; the rule when is in node/http/certificate.h. */

#include "node/daemon/ground/daemon.h"
#include "node/daemon/ground/jobs.h"

#define CERTIFICATE_BYTES_MAX 16384
#define CERTIFICATE_NAME_BYTES 256
#define CERTIFICATE_HOSTS_MAX (DAEMON_HTTP_HOSTS_MAX + FACT_ANNOUNCED_MAX + 5)

/* One look at the certificate. It needs nothing of the daemon once it has begun, so it may be a job of another thread. */
struct certificate {
    struct job job; /* first; the caller's, for such a job */
    char program[KEEP_PATH_BYTES + 16], path[KEEP_PATH_BYTES + 32], public_path[KEEP_PATH_BYTES + 32];
    char node[2 * NODE_ID_BYTES + 1];
    char names[CERTIFICATE_HOSTS_MAX][CERTIFICATE_NAME_BYTES];
    size_t name_count;
    bool keeps_names; /* the caller's: a certificate that lacks a name or an address will do, too, so that it lasts when addresses
                       * come and go */

    bool is_good, is_new, is_first; /* what came of it; is_new: another one than before, is_first: there was none */
    char pem[CERTIFICATE_BYTES_MAX]; /* the certificate and its key */
    size_t pem_bytes;
    uint8_t hash[FACT_CERTIFICATE_HASH_BYTES]; /* the SHA-256 of the certificate */
    char why[128];                             /* without is_good: what is wrong */
};

/* Notes the names and addresses by which the door is reached now. NULL: no memory is left. */
struct certificate *certificate_begin(const struct daemon *daemon, const char *program);

/* Reads the certificate, or has one made if there is none, or none that will do for the names and addresses and for a
 * while. Waits until that is done. The certificate alone is put into another file that anybody may read, public_path. */
void certificate_get(struct certificate *certificate);

/* Wipes the key and frees it; NULL is allowed. */
void certificate_free(struct certificate *certificate);

#endif
