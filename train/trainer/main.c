/* shoal-train: trains a model as a worker of a Shoal trial, or alone. */

#include <cblas.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptors.h"
#include "train/trainer/ledger_command.h"
#include "train/trainer/plan_command.h"
#include "train/trainer/trainer.h"

static const char help[] =
    "Usage: shoal-train MODEL [--data DIR]\n"
    "       shoal-train plan --ranks N --bytes SIZE [--collective C] [--algorithm A] [--type T]\n"
    "                        [--root R] [--json]\n"
    "       shoal-train ledger [--samples N] LOG...\n"
    "\n"
    "Trains a model on images in IDX files (MNIST's format, plain or .gz). As the entrypoint of a Shoal\n"
    "experiment it is one of the workers of a trial; started by hand it trains alone.\n"
    "\n"
    "Models:\n"
    "  mlp   fully connected layers with ReLU, softmax cross-entropy, SGD with momentum\n"
    "Workers share each batch in equal parts, or, if the experiment says balance: on, by their speeds.\n"
    "\n"
    "shoal-train plan prints how a group would carry out a collective: what each rank sends in each step,\n"
    "and the cost by which the algorithm is chosen.\n"
    "  --ranks N       1 to 64\n"
    "  --bytes SIZE    size of the array: 65536, 64K, 16M, 1G\n"
    "  --collective C  all-reduce (default), broadcast, reduce-scatter, all-gather, barrier\n"
    "  --algorithm A   ring, doubling, halving; for broadcast: chain, tree; default: the cheapest\n"
    "  --type T        type of the elements: f32 (default), f16, bf16, bytes\n"
    "  --root R        the rank that broadcasts, default 0\n"
    "  --json          one JSON object\n"
    "\n"
    "shoal-train ledger proves from the logs of steps (SHOAL_STEP_LOG) of all workers of a trial that each\n"
    "sample of each epoch was used exactly once, even if workers were lost and groups changed. The lines of\n"
    "a step that a later group repeated do not count.\n"
    "  --samples N     training samples of an epoch; default: as in the first complete epoch\n"
    "\n"
    "Options:\n"
    "  --data DIR   the directory of train-images-idx3-ubyte, train-labels-idx1-ubyte,\n"
    "               t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, with or without .gz; else\n"
    "               $SHOAL_DATA, else the hyperparameter data_dir, else\n"
    "               /usr/share/datasets/fashion-mnist (Debian package dataset-fashion-mnist)\n"
    "  --help       this text\n"
    "  --version    the version\n"
    "\n"
    "Hyperparameters (of the experiment; alone: a JSON object in $SHOAL_HPARAMS) and their defaults:\n"
    "  hidden            units of the hidden layer, or a list for several layers   256\n"
    "  learning_rate     of SGD                                                    0.03\n"
    "  learning_rate_decay  part of the rate lost by the last step, 0 to 1         0\n"
    "  momentum          of SGD                                                    0.9\n"
    "  batch_size        samples per step of the whole group                       128\n"
    "  epochs            passes over the training samples, a fraction is allowed   3\n"
    "  checkpoint_every  steps between checkpoints                                 100\n"
    "  report_every      steps between reports of the training loss                20\n"
    "  nonfinite         at an infinite or NaN gradient: stop (fail, naming the    stop\n"
    "                    rank) or ignore (go on)\n"
    "  data_dir          see --data\n"
    "\n"
    "Metrics: loss in group training; accuracy and loss in group validation, on the last 5,000 training\n"
    "images, at the end of each epoch; accuracy in group test, once at the end.\n"
    "\n"
    "Environment:\n"
    "  SHOAL_SEED        the seed, when started by hand; default 0\n"
    "  SHOAL_STEP_LOG    a file for one line per step and rank: wall-clock ms when the step was applied,\n"
    "                    experiment, trial, attempt, rank, step, generation, ranks; the group's batch and\n"
    "                    then the rank's part of it, each as its first sample (a position in the epoch's\n"
    "                    order) and number of samples; the time again in microseconds of the monotonic\n"
    "                    clock; 1 if parts may follow speeds (balance: on), else 0\n"
    "  SHOAL_FINAL_HASH  a file for one line per rank at the end: trial, attempt, rank, BLAKE2b of the\n"
    "                    parameters\n"
    "\n"
    "Exit status: 0 trained, or saved a checkpoint after being asked to stop; 1 failed (ledger: a sample\n"
    "was not used once); 2 usage.\n";

static int usage(const char *what, const char *argument)
{
    (void)fprintf(stderr, "shoal-train: %s%s; see shoal-train --help\n", what, argument);
    return 2;
}

static int train(const char *data_dir)
{
    char error[SHOAL_ERROR_BYTES + TRAINER_ERROR_BYTES];
    struct shoal *shoal;
    if (sodium_init() < 0) {
        (void)fprintf(stderr, "shoal-train: libsodium does not start\n");
        return 1;
    }
    int result = shoal_open_elastic(&shoal, error);
    if (result != 0) {
        (void)fprintf(stderr, "shoal-train: %s\n", error);
        return 1;
    }
    struct trainer_options options;
    result = trainer_options_read(shoal, data_dir, &options, error);
    if (result == 0) {
        options.step_log = getenv("SHOAL_STEP_LOG");
        options.final_hash = getenv("SHOAL_FINAL_HASH");
        result = trainer_run(shoal, &options, error);
    }
    if (result != 0) {
        (void)fprintf(stderr, "shoal-train: rank %u: %s\n", shoal_rank(shoal), error);
    }
    shoal_close(&shoal);
    return result == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *model = NULL, *data_dir = getenv("SHOAL_DATA");
    if (descriptors_fill_standard() != 0) {
        return 1; /* silently: there is no descriptor to write an error to */
    }
    if (argc > 1 && strcmp(argv[1], "plan") == 0 && (argc == 2 || strcmp(argv[2], "--help") != 0)) {
        return plan_command(argc - 2, argv + 2, stdout, stderr);
    }
    if (argc > 1 && strcmp(argv[1], "ledger") == 0 && (argc == 2 || strcmp(argv[2], "--help") != 0)) {
        return ledger_command(argc - 2, argv + 2, stdout, stderr);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            (void)fputs(help, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            (void)puts("shoal-train " SHOAL_VERSION);
            return 0;
        }
        if (strcmp(argv[i], "--data") == 0) {
            if (++i == argc) {
                return usage("--data needs a directory", "");
            }
            data_dir = argv[i];
        } else if (strncmp(argv[i], "--data=", 7) == 0) {
            data_dir = argv[i] + 7;
        } else if (argv[i][0] == '-') {
            return usage("there is no option ", argv[i]);
        } else if (model != NULL) {
            return usage("name one model only, without ", argv[i]);
        } else {
            model = argv[i];
        }
    }
    if (model == NULL) {
        return usage("name a model: mlp", "");
    }
    if (strcmp(model, "mlp") != 0) {
        return usage("there is no model ", model);
    }
    openblas_set_num_threads(1); /* one slot, one thread */
    return train(data_dir);
}
