#ifndef TOOLS_SHOAL_PLATFORM_H
#define TOOLS_SHOAL_PLATFORM_H
/* What the shown attempt of a trial ran on, as its node noted it (node/daemon/workers/platform.h). */

#include "base/document.h"
#include "tools/shoal/client.h"

#define PLATFORM_TEXT_BYTES 512
#define PLATFORM_HASH_BYTES 17

struct platform {
    bool is_known; /* else all is empty: of an attempt that an older version started, or that nobody who answers knows of */
    char shoal[PLATFORM_TEXT_BYTES], system[PLATFORM_TEXT_BYTES], model[PLATFORM_TEXT_BYTES], driver[PLATFORM_TEXT_BYTES];
    char python[PLATFORM_TEXT_BYTES], executable[PLATFORM_TEXT_BYTES]; /* "": the program is none in Python, as far as was seen */
    char hash[PLATFORM_HASH_BYTES]; /* of the packages, "" without any: equal packages have equal hashes */
    uint32_t package_count;
    char *packages; /* "name==version", a line each, control characters replaced; from malloc, "" without any */
};

/* Asks for it. A daemon that does not know the question, and nodes that do not answer, leave `is_known` false. An exit code; the caller
 * frees `*out` after CLI_DONE. */
int platform_read(struct client *client, const char *experiment, uint64_t trial, struct platform *out);
void platform_free(struct platform *platform);

/* Cuts the next package off `*at`: its name, and its version. False: there is none. */
bool platform_next(char **at, char **name, char **version);

/* Writes two or three lines for people; nothing if it is not known. */
void platform_write(FILE *out, const struct platform *platform);

/* Writes it as one line of JSON, with the packages as a map of names to versions. False: no memory is left. */
bool platform_write_json(FILE *out, const struct platform *platform);

#endif
