#ifndef NODE_DAEMON_WORKERS_PROGRAM_SEARCH_H
#define NODE_DAEMON_WORKERS_PROGRAM_SEARCH_H
/* A process of its own that looks for programs: a home directory on a dead file server may hold it up for ever, and the daemon goes
 * on. It asks a Python for its version and for PyTorch's, which takes no import of PyTorch. Of all that it finds only a Python (a
 * file called python, python3, python3.11 and the like) is ever run. */

/* The first word of its command line, behind the name of the program: `shoald --look-for-programs PATH NAME...`. */
#define PROGRAM_SEARCH_OPTION "--look-for-programs"

/* Looks for each NAME in the directories of PATH, or at NAME if it has a '/', and writes a line for each to standard output, at
 * once: name, TAB, "1" or "0" (there or not), TAB, version, TAB, version of PyTorch. A name without a line: nobody can tell. Returns
 * the exit status. */
int program_search_main(int argc, char **argv);

#endif
