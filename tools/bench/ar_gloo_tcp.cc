// All-reduce of float32 over Gloo's TCP transport, the ring or the "bcube" of gloo::allreduce.
// usage: ar_gloo_tcp NAME RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS ring|bcube

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/bench/ar_net.h"

using Options = gloo::AllreduceOptions;

static double worst_of(const std::shared_ptr<gloo::Context> &context, double own_s)
{
    double worst = 0;
    Options options(context);
    options.setReduceFunction(
        [](void *to, const void *a, const void *b, size_t count) { gloo::max<double>(to, a, b, count); });
    options.setInput(&own_s, 1);
    options.setOutput(&worst, 1);
    gloo::allreduce(options);
    return worst;
}

static void measure(const std::shared_ptr<gloo::Context> &context, const char *name, Options::Algorithm algorithm,
                    size_t bytes, int blocks)
{
    size_t count = bytes / sizeof(float);
    std::vector<float> input(count), output(count);
    auto once = [&] {
        Options options(context);
        options.setAlgorithm(algorithm);
        options.setReduceFunction(
            [](void *to, const void *a, const void *b, size_t n) { gloo::sum<float>(to, a, b, n); });
        options.setInput(input.data(), count);
        options.setOutput(output.data(), count);
        gloo::allreduce(options);
    };
    ar_fill(input.data(), count, context->rank);
    once();
    if (ar_wrong(output.data(), count, context->size)) {
        ar_die("wrong sum");
    }
    double block_s[AR_BLOCKS_MAX];
    int calls = 2;
    for (int block = -1; block < blocks; block++) {
        gloo::BarrierOptions barrier(context);
        gloo::barrier(barrier);
        double begin_s = ar_now_s();
        for (int i = 0; i < calls; i++) {
            once();
        }
        double worst_s = worst_of(context, (ar_now_s() - begin_s) / calls);
        if (block < 0) {
            calls = ar_calls(worst_s);
        } else {
            block_s[block] = worst_s;
        }
    }
    if (context->rank == 0) {
        ar_print(name, context->size, bytes, block_s, blocks);
    }
}

int main(int argc, char **argv)
{
    if (argc < 9) {
        return 2;
    }
    gloo::transport::tcp::attr attributes;
    attributes.hostname = argv[5];
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto store = gloo::rendezvous::FileStore(argv[4]);
    auto context = std::make_shared<gloo::rendezvous::Context>(atoi(argv[2]), atoi(argv[3]));
    context->connectFullMesh(store, device);
    auto algorithm = std::string(argv[8]) == "ring" ? Options::Algorithm::RING : Options::Algorithm::BCUBE;
    size_t sizes[AR_SIZES_MAX];
    int count = ar_sizes(argv[6], sizes);
    for (int i = 0; i < count; i++) {
        measure(context, argv[1], algorithm, sizes[i], atoi(argv[7]));
    }
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    return 0;
}
