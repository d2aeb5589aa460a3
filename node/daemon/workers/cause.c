#include "node/daemon/workers/cause.h"

#include <ctype.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#define LINES_LOOKED_AT 40
#define LINES_BEHIND_A_TRACEBACK 5
#define HEX_WORD_BYTES 8

/* Where the last `lines` lines of the text begin. */
static const char *last_lines(const char *text, unsigned lines)
{
    const char *at = text + strlen(text);
    while (at > text && at[-1] == '\n') {
        at--;
    }
    for (; at > text; at--) {
        lines -= at[-1] == '\n';
        if (lines == 0) {
            break;
        }
    }
    return at;
}

static bool has_any(const char *text, const char *const *words)
{
    while (*words != NULL && strstr(text, *words) == NULL) {
        words++;
    }
    return *words != NULL;
}

/* A traceback is its head, lines that begin with a blank, and one line with the exception, perhaps several times (chained). */
static bool ends_in_traceback(const char *text)
{
    static const char head[] = "Traceback (most recent call last):";
    const char *line = text, *last = NULL;
    for (; line != NULL; line = strchr(line, '\n'), line += line != NULL) {
        last = strncmp(line, head, sizeof head - 1) == 0 ? line : last;
    }
    if (last == NULL) {
        return false;
    }
    line = strchr(last, '\n');
    while (line != NULL && line[1] == ' ') {
        line = strchr(line + 1, '\n');
    }
    bool has_exception = line != NULL && line[1] != '\0';
    unsigned behind = 0;
    for (line = has_exception ? strchr(line + 1, '\n') : NULL; line != NULL && line[1] != '\0'; line = strchr(line + 1, '\n')) {
        behind++;
    }
    return has_exception && behind <= LINES_BEHIND_A_TRACEBACK;
}

static const char *const gpu_words[] = {"CUDA out of memory",          "CUDA error: out of memory",
                                        "OutOfMemoryError: CUDA",      "CUDA_ERROR_OUT_OF_MEMORY",
                                        "cudaErrorMemoryAllocation",   "CUBLAS_STATUS_ALLOC_FAILED", NULL};

enum fact_cause cause_of_lines(int32_t code, const char *text)
{
    const char *lines = last_lines(text, LINES_LOOKED_AT);
    if (code == 0) {
        return ends_in_traceback(lines) ? FACT_CAUSE_TRACEBACK : FACT_CAUSE_UNKNOWN;
    }
    return has_any(lines, gpu_words) ? FACT_CAUSE_GPU_MEMORY : FACT_CAUSE_UNKNOWN;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static size_t hex_word(const char *at, const char *end)
{
    size_t bytes = 0;
    while (at + bytes < end && is_hex(at[bytes])) {
        bytes++;
    }
    return bytes >= HEX_WORD_BYTES ? bytes : 0;
}

uint64_t cause_failure(int32_t code, const char *text, const char *directory)
{
    static const char *const passing[] = {"Address already in use", "EADDRINUSE", "MemoryError",    "Cannot allocate memory",
                                          "out of memory",          "No space left", "Connection refused", NULL};
    const char *lines = last_lines(text, LINES_LOOKED_AT);
    if (code == 0 || code == -SIGKILL || code == -SIGTERM || code == 128 + SIGKILL || code == 128 + SIGTERM ||
        has_any(lines, gpu_words) || has_any(lines, passing)) {
        return 0;
    }
    const char *line = last_lines(text, 1), *end = line + strcspn(line, "\n");
    size_t directory_bytes = strlen(directory);
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    bool any = false;
    for (const char *at = line; at < end;) {
        bool is_directory = directory_bytes > 0 && strncmp(at, directory, directory_bytes) == 0;
        size_t skip = is_directory ? directory_bytes : hex_word(at, end);
        if (skip > 0 || isdigit((unsigned char)*at) || isspace((unsigned char)*at)) {
            at += skip > 0 ? skip : 1;
            continue;
        }
        hash = (hash ^ (unsigned char)*at++) * UINT64_C(0x100000001b3);
        any = true;
    }
    hash = (hash ^ (uint32_t)code) * UINT64_C(0x100000001b3);
    return any ? (hash != 0 ? hash : 1) : 0;
}
