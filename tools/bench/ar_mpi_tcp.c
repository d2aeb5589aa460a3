/* All-reduce of float32 under MPI; which transport is used is mpirun's business.
 *
 * usage: mpirun ... ar_mpi_tcp NAME SIZES BLOCKS */

#include <mpi.h>

#include "tools/bench/ar_net.h"

static void measure(const char *name, int rank, int ranks, size_t bytes, int blocks)
{
    int count = (int)(bytes / sizeof(float));
    float *input = malloc(bytes), *output = malloc(bytes);
    if (input == NULL || output == NULL) {
        ar_die("no memory is left");
    }
    ar_fill(input, (size_t)count, rank);
    MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (ar_wrong(output, (size_t)count, ranks)) {
        ar_die("wrong sum");
    }
    double block_s[AR_BLOCKS_MAX];
    int calls = 2;
    for (int block = -1; block < blocks; block++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin_s = ar_now_s();
        for (int i = 0; i < calls; i++) {
            MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
        double own_s = (ar_now_s() - begin_s) / calls, worst_s;
        MPI_Allreduce(&own_s, &worst_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (block < 0) {
            calls = ar_calls(worst_s);
        } else {
            block_s[block] = worst_s;
        }
    }
    if (rank == 0) {
        ar_print(name, ranks, bytes, block_s, blocks);
    }
    free(input);
    free(output);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc < 4) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t sizes[AR_SIZES_MAX];
    int count = ar_sizes(argv[2], sizes);
    for (int i = 0; i < count; i++) {
        measure(argv[1], rank, ranks, sizes[i], atoi(argv[3]));
    }
    MPI_Finalize();
    return 0;
}
