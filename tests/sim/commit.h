#ifndef TESTS_SIM_COMMIT_H
#define TESTS_SIM_COMMIT_H

/* What this program was built from: the commit's full hash, with "and changes" behind it if the sources were not just that;
 * "unknown" without git. Made anew by each build (commit.cmake). */
extern const char *const sim_commit;

#endif
