#ifndef TRAIN_SHOAL_CHECKPOINT_H
#define TRAIN_SHOAL_CHECKPOINT_H
/* libshoal's checkpoints (the functions of shoal.h): two buffers in memory read by the daemon; one may be filled meanwhile. */

#include "train/shoal/link.h"

/* Unmaps and closes the buffer, so that it can be used again. */
void client_checkpoint_free(struct client_save *save);

#endif
