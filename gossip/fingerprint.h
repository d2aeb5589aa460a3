#ifndef GOSSIP_FINGERPRINT_H
#define GOSSIP_FINGERPRINT_H
/* The SHA-256 of a certificate, by which it is told from others. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FINGERPRINT_BYTES 32

/* That of the first certificate of a text in PEM. False: there is none. */
bool fingerprint_of_pem(const char *pem, size_t count, uint8_t out[FINGERPRINT_BYTES]);

#endif
