#include "train/group/gpu/cuda_library.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/err.h"
#include "train/group/gpu/library.h"

static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"};
#define NAMES (sizeof names / sizeof names[0])

static int try_library(const char *name, struct cuda_library *out, char error[LIBRARY_ERROR_BYTES])
{
    void *library = library_open(name, false);
    if (library == NULL) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "the CUDA runtime cannot be opened: %.250s", dlerror());
        return ERR_NOT_FOUND;
    }
    struct cuda_library cuda = {.handle = library};
#define CUDA_SYMBOL(member, symbol, result, parameters) {#symbol, &cuda.member},
    const struct library_symbol symbols[] = {
        CUDA_FUNCTIONS(CUDA_SYMBOL, int, struct cuda_pointer, int, cuda_stream, cuda_event)};
#undef CUDA_SYMBOL
    const char *missing = library_find(library, symbols, sizeof symbols / sizeof symbols[0]);
    if (missing != NULL) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "the CUDA runtime %.200s has no %s: install CUDA 11 or later", name,
                       missing);
        return ERR_NOT_FOUND;
    }
    int version = 0, count = 0, code = cuda.runtime_version(&version);
    if (code == CUDA_OK && version < CUDA_VERSION_MIN) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "the CUDA runtime %.200s is %d.%d: install CUDA 11 or later", name,
                       version / 1000, version % 1000 / 10);
        return ERR_VERSION;
    }
    code = code == CUDA_OK ? cuda.device_count(&count) : code;
    if (code != CUDA_OK || count == 0) {
        (void)snprintf(error, LIBRARY_ERROR_BYTES, "the CUDA runtime %.100s finds no GPU: %.150s", name,
                       code == CUDA_OK ? "CUDA_VISIBLE_DEVICES names none" : cuda.error_text(code));
        return ERR_REFUSED;
    }
    *out = cuda;
    return 0;
}

int cuda_library_open(const char *path, struct cuda_library *out, char error[LIBRARY_ERROR_BYTES])
{
    for (size_t i = 0; i < NAMES && path == NULL; i++) {
        path = library_open(names[i], true) != NULL ? names[i] : NULL;
    }
    if (path != NULL) {
        return try_library(path, out, error);
    }
    /* The fault of the newest library present is more helpful than the absence of an older one. */
    int result = ERR_NOT_FOUND;
    char sentence[LIBRARY_ERROR_BYTES];
    for (size_t i = 0; i < NAMES && result != 0; i++) {
        int tried = try_library(names[i], out, sentence);
        if (i == 0 || tried == 0 || (result == ERR_NOT_FOUND && tried != ERR_NOT_FOUND)) {
            result = tried;
            (void)snprintf(error, LIBRARY_ERROR_BYTES, "%s", sentence);
        }
    }
    return result;
}
