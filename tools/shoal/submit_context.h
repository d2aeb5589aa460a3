#ifndef TOOLS_SHOAL_SUBMIT_CONTEXT_H
#define TOOLS_SHOAL_SUBMIT_CONTEXT_H
/* The code directory of a submit: what of it travels, told to the user, and packed. Each function returns an exit code; on
 * failure its sentence is written. */

#include "node/core/facts/config.h"
#include "store/context.h"
#include "tools/shoal/cli.h"

/* Refuses a code directory that no word of the user has named if it is the home directory. `how` names another one: "--context
 * DIR". */
int submit_context_check_unnamed(struct cli *cli, const char *dir, const char *how);

/* Lists the directory. `*out` is the caller's until context_list_free. `measures_all`: also the sizes of all directories that
 * stay behind. */
int submit_context_list(struct cli *cli, const char *dir, enum config_links links, bool measures_all,
                        struct context_list **out);

/* Writes one line to cli->err with what stays behind; nothing if all travels. A second line, if a word of the entrypoint names
 * something that stays behind. */
void submit_context_warn(struct cli *cli, const struct context_list *list, const char *entrypoint);

/* Refuses a list without the file `requirements`, the value of environment.requirements ("": none is named): every node would fail
 * to make the environment. */
int submit_context_check_requirements(struct cli *cli, const struct context_list *list, const char *requirements);

/* --dry-run: writes what travels, the largest first, and what stays behind and why, to cli->out. */
int submit_context_show(struct cli *cli, const struct context_list *list);

/* Packs the list into a memory file, with progress on a terminal. `*fd` is the caller's. */
int submit_context_pack(struct cli *cli, const struct context_list *list, int *fd, uint64_t *bytes);

#endif
