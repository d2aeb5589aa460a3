#ifndef NODE_KEEP_SHELL_H
#define NODE_KEEP_SHELL_H
/* shoal-keep + RUN_DIRECTORY: a command beside the worker of a run, for a user who is connected (docs/design.md,
 * section 8). It gets the worker's environment and directory, on a pseudo-terminal or with three pipes; its bytes, its
 * window and its end go as frames (shell_wire.h) over the descriptor KEEP_FD_LINK. The secrets of the trial, which are on
 * no disk, come in the memory file KEEP_FD_SECRETS. When that is closed, the command and
 * all below it get SIGHUP, and soon SIGKILL; what a command leaves running at its end is ended, too. */

#define KEEP_SHELL_MODE "+"

/* The whole program. Returns the exit status of this process, which nobody looks at: the client gets the command's. */
int keep_shell_main(const char *run_directory);

#endif
