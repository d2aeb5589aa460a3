#ifndef TOOLS_SHOAL_BROWSER_H
#define TOOLS_SHOAL_BROWSER_H

#include <stdbool.h>

/* Shows a link to a browser by a file in `dir` that only this account can read: every account can read command lines.
 * False: there is no browser, or no file could be written. */
bool browser_show(const char *dir, const char *url);

#endif
