#ifndef TOOLS_SHOAL_WARM_START_H
#define TOOLS_SHOAL_WARM_START_H
/* searcher.warm_start of a submission: the best trials of earlier experiments become the first ones of the new one. */

#include "tools/shoal/submission.h"

/* Looks the named experiments and trials up, and replaces searcher.warm_start by the trials that were taken, and searcher.initial by
 * the file's own and their values: two more overrides of the submission, which owns them. Without the key, and where an earlier
 * submission of the file has done so, nothing changes. An exit code; on failure the sentence is written. */
int warm_start_resolve(struct cli *cli, struct submission *submission);

#endif
