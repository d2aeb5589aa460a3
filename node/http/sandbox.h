#ifndef NODE_HTTP_SANDBOX_H
#define NODE_HTTP_SANDBOX_H
/* Gives up what the door does not need, once it listens: it reads bytes of strangers, and holds descriptors to the
 * daemon only. */

/* No new rights by exec, no look into the process by others of the account, no core file; where the kernel has
 * Landlock, no file. Returns a sentence on what this kernel lacks, or NULL. */
const char *sandbox_enter(void);

#endif
