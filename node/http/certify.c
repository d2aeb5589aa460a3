#include "node/http/certify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gossip/control_address.h"
#include "node/http/tls.h"

#define FETCH_S 5 /* for each of connecting, asking and hearing */

static int fail(const char *why)
{
    (void)fputs(why, stdout);
    return CERTIFY_FAILED;
}

/* ---- renew ----------------------------------------------------------------------------------------------------- */

int certify_renew(const struct certificate_wish *wish)
{
    static char text[CERTIFICATE_PEM_BYTES_MAX];
    size_t count = fread(text, 1, sizeof text - 1, stdin);
    if (!certificate_is_good(text, count, wish)) {
        const char *why = certificate_make(wish, text, &count);
        if (why != NULL) {
            return fail(why);
        }
    }
    bool is_written = fwrite(text, 1, count, stdout) == count && fflush(stdout) == 0;
    explicit_bzero(text, sizeof text);
    return is_written ? CERTIFY_DONE : CERTIFY_FAILED;
}

/* ---- fetch ----------------------------------------------------------------------------------------------------- */

static int connect_to(const char *host, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct timeval limit = {.tv_sec = FETCH_S};
    bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    const struct sockaddr *address = is_v4 ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6;
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (connect(fd, address, is_v4 ? sizeof v4 : sizeof v6) != 0) {
            int error = errno == EINPROGRESS ? ETIMEDOUT : errno;
            (void)close(fd);
            errno = error;
            fd = -1;
        }
    }
    return fd;
}

/* Writes the first certificate of the session. */
static int show(gnutls_session_t session, const char *host)
{
    unsigned count = 0;
    const gnutls_datum_t *list = gnutls_certificate_get_peers(session, &count);
    gnutls_x509_crt_t certificate = NULL;
    gnutls_datum_t text = {0};
    bool is_read = list != NULL && count > 0 && gnutls_x509_crt_init(&certificate) == 0 &&
                   gnutls_x509_crt_import(certificate, &list[0], GNUTLS_X509_FMT_DER) == 0 &&
                   gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text) == 0;
    bool is_named = is_read && gnutls_x509_crt_check_hostname(certificate, host) != 0;
    bool is_written = is_read && fwrite(text.data, 1, text.size, stdout) == text.size && fflush(stdout) == 0;
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(certificate);
    return !is_read ? fail("it shows no certificate that can be read")
                    : !is_written ? CERTIFY_FAILED : is_named ? CERTIFY_DONE : CERTIFY_UNNAMED;
}

int certify_fetch(const char *where)
{
    char host[CONTROL_HOST_BYTES];
    uint16_t port;
    gnutls_certificate_credentials_t credentials = NULL;
    gnutls_session_t session = NULL;
    int fd = control_address_split(where, host, &port) ? connect_to(host, port) : -1;
    if (fd < 0) {
        return fail(strerror(errno));
    }
    int code = gnutls_certificate_allocate_credentials(&credentials);
    code = code == 0 ? gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) : code;
    code = code == 0 ? gnutls_priority_set_direct(session, TLS_PRIORITY, NULL) : code;
    code = code == 0 ? gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials) : code;
    if (code == 0) {
        gnutls_transport_set_int(session, fd);
        gnutls_handshake_set_timeout(session, FETCH_S * 1000);
        do {
            code = gnutls_handshake(session);
        } while (code < 0 && gnutls_error_is_fatal(code) == 0);
    }
    int status = code == 0 ? show(session, host) : fail(gnutls_strerror(code));
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    (void)close(fd);
    return status;
}
