#include "node/http/certificate.h"

#include <arpa/inet.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <string.h>

#define DAY_S UINT64_C(86400)
#define SERIAL_BYTES 16
#define KEY_NAME_BYTES 20 /* RFC 5280, 4.2.1.2: the first bytes of a hash of the public key */

/* The bytes of a numeric address, 4 or 16; 0: it is a DNS name. */
static size_t address_of(const char *name, uint8_t out[16])
{
    return inet_pton(AF_INET, name, out) == 1 ? 4 : inet_pton(AF_INET6, name, out) == 1 ? 16 : 0;
}

static bool has_name(gnutls_x509_crt_t certificate, const char *name)
{
    uint8_t wanted[16];
    size_t wanted_bytes = address_of(name, wanted);
    int code = 0;
    for (unsigned i = 0; code != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE; i++) {
        char given[256];
        size_t bytes = sizeof given;
        unsigned type;
        code = gnutls_x509_crt_get_subject_alt_name2(certificate, i, given, &bytes, &type, NULL);
        if (code < 0) {
            continue;
        }
        const char *text = wanted_bytes > 0 ? (const char *)wanted : name;
        if (type == (wanted_bytes > 0 ? GNUTLS_SAN_IPADDRESS : GNUTLS_SAN_DNSNAME) &&
            bytes == (wanted_bytes > 0 ? wanted_bytes : strlen(name)) && memcmp(given, text, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static bool suits(gnutls_x509_crt_t certificate, const struct certificate_wish *wish)
{
    char owner[128];
    size_t bytes = sizeof owner;
    if (gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, owner, &bytes) != 0 ||
        bytes != strlen(wish->owner) || memcmp(owner, wish->owner, bytes) != 0) {
        return false;
    }
    time_t end = gnutls_x509_crt_get_expiration_time(certificate);
    time_t begin = gnutls_x509_crt_get_activation_time(certificate); /* later than now: it was made when the clock was wrong */
    if (begin < 0 || (uint64_t)begin > wish->now_s || end < 0 || (uint64_t)end < wish->now_s + CERTIFICATE_LEFT_DAYS * DAY_S) {
        return false;
    }
    for (size_t i = 0; i < wish->name_count; i++) {
        if (!has_name(certificate, wish->names[i])) {
            return false;
        }
    }
    return true;
}

/* Whether the private key is the certificate's. */
static bool is_pair(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key)
{
    uint8_t a[64], b[64];
    size_t a_bytes = sizeof a, b_bytes = sizeof b;
    return gnutls_x509_crt_get_key_id(certificate, GNUTLS_KEYID_USE_SHA256, a, &a_bytes) == 0 &&
           gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, b, &b_bytes) == 0 && a_bytes == b_bytes &&
           memcmp(a, b, a_bytes) == 0;
}

bool certificate_is_good(const char *pem, size_t count, const struct certificate_wish *wish)
{
    gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)count};
    gnutls_x509_crt_t certificate = NULL;
    gnutls_x509_privkey_t key = NULL;
    bool is_good = count > 0 && gnutls_x509_crt_init(&certificate) == 0 && gnutls_x509_privkey_init(&key) == 0 &&
                   gnutls_x509_crt_import(certificate, &text, GNUTLS_X509_FMT_PEM) == 0 &&
                   gnutls_x509_privkey_import(key, &text, GNUTLS_X509_FMT_PEM) == 0 && is_pair(certificate, key) &&
                   suits(certificate, wish);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
    return is_good;
}

static int add_names(gnutls_x509_crt_t certificate, const struct certificate_wish *wish)
{
    int code = 0;
    for (size_t i = 0; i < wish->name_count && code == 0; i++) {
        uint8_t address[16];
        size_t bytes = address_of(wish->names[i], address);
        code = gnutls_x509_crt_set_subject_alt_name(
            certificate, bytes > 0 ? GNUTLS_SAN_IPADDRESS : GNUTLS_SAN_DNSNAME,
            bytes > 0 ? (const void *)address : wish->names[i], (unsigned)(bytes > 0 ? bytes : strlen(wish->names[i])),
            GNUTLS_FSAN_APPEND);
    }
    return code;
}

static int fill(gnutls_x509_crt_t certificate, gnutls_x509_privkey_t key, const struct certificate_wish *wish)
{
    static const char organization[] = "Shoal";
    uint8_t serial[SERIAL_BYTES], name[64];
    size_t name_bytes = sizeof name;
    int code = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial);
    serial[0] = (serial[0] & 0x7f) | 0x40; /* a positive number of 16 bytes */
    code = code == 0 ? gnutls_x509_crt_set_version(certificate, 3) : code;
    code = code == 0 ? gnutls_x509_crt_set_serial(certificate, serial, sizeof serial) : code;
    code = code == 0 ? gnutls_x509_crt_set_activation_time(certificate, (time_t)(wish->now_s - DAY_S)) : code;
    code = code == 0 ? gnutls_x509_crt_set_expiration_time(certificate,
                                                           (time_t)(wish->now_s + CERTIFICATE_DAYS * DAY_S))
                     : code;
    code = code == 0 ? gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, wish->owner,
                                                     (unsigned)strlen(wish->owner))
                     : code;
    code = code == 0 ? gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, organization,
                                                     sizeof organization - 1)
                     : code;
    code = code == 0 ? gnutls_x509_crt_set_key(certificate, key) : code;
    code = code == 0 ? add_names(certificate, wish) : code;
    code = code == 0 ? gnutls_x509_crt_set_basic_constraints(certificate, 0, -1) : code;
    code = code == 0 ? gnutls_x509_crt_set_key_usage(certificate, GNUTLS_KEY_DIGITAL_SIGNATURE) : code;
    code = code == 0 ? gnutls_x509_crt_set_key_purpose_oid(certificate, GNUTLS_KP_TLS_WWW_SERVER, 0) : code;
    code = code == 0 ? gnutls_x509_crt_get_key_id(certificate, GNUTLS_KEYID_USE_SHA256, name, &name_bytes) : code;
    code = code == 0 ? gnutls_x509_crt_set_subject_key_id(certificate, name, KEY_NAME_BYTES) : code;
    code = code == 0 ? gnutls_x509_crt_set_authority_key_id(certificate, name, KEY_NAME_BYTES) : code;
    return code == 0 ? gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0) : code;
}

/* Appends what `text` holds. False: there is no room. */
static bool append(char out[CERTIFICATE_PEM_BYTES_MAX], size_t *count, const gnutls_datum_t *text)
{
    if (text->size >= CERTIFICATE_PEM_BYTES_MAX - *count) {
        return false;
    }
    memcpy(out + *count, text->data, text->size);
    *count += text->size;
    out[*count] = '\0';
    return true;
}

const char *certificate_make(const struct certificate_wish *wish, char out[CERTIFICATE_PEM_BYTES_MAX], size_t *count)
{
    gnutls_x509_crt_t certificate = NULL;
    gnutls_x509_privkey_t key = NULL;
    gnutls_datum_t certificate_text = {0}, key_text = {0};
    *count = 0;
    int code = gnutls_x509_crt_init(&certificate);
    code = code == 0 ? gnutls_x509_privkey_init(&key) : code;
    code = code == 0 ? gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                                    GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0)
                     : code;
    code = code == 0 ? fill(certificate, key, wish) : code;
    code = code == 0 ? gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &certificate_text) : code;
    code = code == 0 ? gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &key_text)
                     : code;
    if (code == 0 && (!append(out, count, &certificate_text) || !append(out, count, &key_text))) {
        code = GNUTLS_E_SHORT_MEMORY_BUFFER;
    }
    if (key_text.data != NULL) {
        gnutls_memset(key_text.data, 0, key_text.size);
    }
    gnutls_free(certificate_text.data);
    gnutls_free(key_text.data);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
    return code == 0 ? NULL : gnutls_strerror(code);
}
