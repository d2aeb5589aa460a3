#ifndef STORE_CRC32C_H
#define STORE_CRC32C_H
/* CRC-32C (Castagnoli), the checksum of event files (store/tfevents.h). It finds damage, not forgery. A core. */

#include <stddef.h>
#include <stdint.h>

/* The checksum of `count` bytes. */
uint32_t crc32c(const uint8_t *bytes, size_t count);

#endif
