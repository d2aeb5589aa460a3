#include "train/group/gpu/nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/group/gpu/library.h"

void nccl_version_text(uint32_t number, char out[NCCL_VERSION_TEXT_BYTES])
{
    (void)snprintf(out, NCCL_VERSION_TEXT_BYTES, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
}

static int check_version(const struct nccl_library *nccl, const char *name, char error[LIBRARY_ERROR_BYTES])
{
    char found[NCCL_VERSION_TEXT_BYTES], least[NCCL_VERSION_TEXT_BYTES];
    nccl_version_text(nccl->number, found);
    nccl_version_text(NCCL_VERSION_MIN, least);
    if (nccl->number < NCCL_VERSION_MIN) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "NCCL (%.150s) is version %s: install %s or later", name, found, least);
        return ERR_VERSION;
    }
    return 0;
}

static uint64_t read_settings(void)
{
    char text[256];
    int bytes = snprintf(text, sizeof text, "%.100s\n%.100s", getenv("NCCL_ALGO"), getenv("NCCL_PROTO"));
    return bytes_hash64(text, (size_t)bytes, 0);
}

int nccl_library_open(const char *path, struct nccl_library *out, char error[LIBRARY_ERROR_BYTES])
{
    const char *name = path != NULL ? path : "libnccl.so.2", *blocking = getenv("NCCL_COMM_BLOCKING");
    if (blocking != NULL && strcmp(blocking, "0") != 0) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES,
                       "NCCL_COMM_BLOCKING=%.40s keeps NCCL from ending a call when a rank is gone: unset it",
                       blocking);
        return ERR_REFUSED;
    }
    void *library = library_open(name, false);
    if (library == NULL) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "NCCL cannot be opened: %.250s", dlerror());
        return ERR_NOT_FOUND;
    }
    struct nccl_library nccl = {0};
#define NCCL_SYMBOL(member, symbol, result, parameters) {#symbol, &nccl.member},
    const struct library_symbol needed[] = {
        NCCL_FUNCTIONS(NCCL_SYMBOL, int, struct nccl_id, struct nccl_config, int, int)};
    const struct library_symbol wanted[] = {NCCL_FUNCTIONS_NEW(NCCL_SYMBOL, int, struct nccl_config)};
#undef NCCL_SYMBOL
    const char *missing = library_find(library, needed, sizeof needed / sizeof needed[0]);
    (void)library_find(library, wanted, sizeof wanted / sizeof wanted[0]);
    int number = 0;
    if (nccl.version != NULL && nccl.version(&number) == NCCL_OK && number > 0) {
        nccl.number = (uint32_t)number;
        int result = check_version(&nccl, name, error); /* more helpful than the name of a function that an old version lacks */
        if (result != 0) {
            return result;
        }
    }
    if (missing != NULL || nccl.number == 0) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "NCCL (%.150s) has no %s: it is too old, or not NCCL", name,
                       missing != NULL ? missing : "version");
        return ERR_NOT_FOUND;
    }
    /* NCCL reads both when it makes its first communicator. */
    if (setenv("NCCL_ALGO", "Ring", 0) != 0 || setenv("NCCL_PROTO", "Simple", 0) != 0) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "no memory is left for NCCL's settings");
        return ERR_MEMORY;
    }
    nccl.settings = read_settings();
    *out = nccl;
    return 0;
}
