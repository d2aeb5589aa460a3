/* bench_logs [LINES [LINES_PER_PIECE]]: the disk that a worker's log takes, as it comes and packed, and how fast it is read. The
 * lines are like those of a training program; each piece has its time beside it, as in the daemon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "node/bulk/wire.h"
#include "node/series/log_search.h"

#define PREFIX "lEXPERIM1-trial-attempt-rank-"
#define TIMES "wEXPERIM1-trial-attempt-rank-"
#define PREFIX_BYTES (sizeof PREFIX - 1)

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t used_bytes(struct chunks *chunks)
{
    struct chunks_space space;
    CHECK(chunks_space(chunks, &space) == 0);
    return space.file_bytes - space.reusable_bytes;
}

static int count_bytes(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    (void)sequence;
    (void)bytes;
    *(uint64_t *)context += count;
    return 0;
}

static void measure(struct chunks *chunks, const char *form, uint64_t text_bytes, uint64_t empty_bytes)
{
    static uint8_t out[4u << 20];
    struct log_question question = {.is_last = true, .pattern_bytes = 11, .pattern = "no such one"};
    struct log_question tail = {.is_last = true, .tail = 20};
    uint64_t read = 0;
    double began = now_s();
    CHECK(series_read(chunks, PREFIX, PREFIX_BYTES, 0, count_bytes, &read) == 0 && read == text_bytes);
    double all_s = now_s() - began;
    bool more = true;
    began = now_s();
    while (more) {
        struct pack_writer writer;
        struct pack_reader reader;
        const uint8_t *bytes;
        size_t count;
        pack_writer_init(&writer, out, sizeof out);
        CHECK(log_search(chunks, (const uint8_t *)PREFIX, PREFIX_BYTES, &question, 1u << 18, &writer, &more) == 0);
        pack_reader_init(&reader, out, writer.used_bytes);
        while (bulk_wire_entry_read(&reader, &question.from, &bytes, &count)) {
        }
    }
    double grep_s = now_s() - began;
    struct pack_writer writer;
    pack_writer_init(&writer, out, sizeof out);
    began = now_s();
    CHECK(log_search(chunks, (const uint8_t *)PREFIX, PREFIX_BYTES, &tail, 1u << 18, &writer, &more) == 0);
    double tail_s = now_s() - began;
    uint64_t disk_bytes = used_bytes(chunks) - empty_bytes;
    printf("%s: %.2f MB on disk (%.2f of the text), read in %.0f ms, searched in %.0f ms, last 20 lines in %.2f ms\n", form,
           (double)disk_bytes / 1e6, (double)disk_bytes / (double)text_bytes, all_s * 1e3, grep_s * 1e3, tail_s * 1e3);
}

#define BATCH 64 /* pieces that are stored at a time */

struct pieces {
    uint64_t lines, together, line, end;
    char text[BATCH][48u << 10];
    uint8_t times[BATCH][8];
    struct series_entry entries[2 * BATCH];
};

static size_t write_piece(struct pieces *pieces, struct random *random, char *out, size_t size)
{
    size_t used = 0;
    for (uint64_t i = 0; i < pieces->together && pieces->line < pieces->lines && used + 160 < size; i++, pieces->line++) {
        double at = (double)pieces->line;
        used += (size_t)snprintf(out + used, size - used, "epoch %llu step %llu | train loss %.6f | lr %.6f | grad norm %.4f | %.1f samples/s\n",
                                 (unsigned long long)(pieces->line / 500), (unsigned long long)pieces->line,
                                 2 / (1 + at / 9000) + random_double(random) / 10, 0.001 * (1 - at / (double)pieces->lines),
                                 random_double(random) * 3, 3000 + random_double(random) * 50);
    }
    return used;
}

static void store(struct chunks *chunks, struct pieces *pieces)
{
    struct random random;
    random_init(&random, 1);
    while (pieces->line < pieces->lines) {
        size_t count = 0;
        for (size_t i = 0; i < BATCH && pieces->line < pieces->lines; i++) {
            size_t used = write_piece(pieces, &random, pieces->text[i], sizeof pieces->text[i]);
            pieces->end += used;
            bytes_put_u64(pieces->times[i], 1800000000000 + pieces->line * 10);
            pieces->entries[count++] = (struct series_entry){PREFIX, PREFIX_BYTES, pieces->end, pieces->text[i], used};
            pieces->entries[count++] = (struct series_entry){TIMES, PREFIX_BYTES, pieces->end, pieces->times[i], 8};
        }
        CHECK(series_append_batch(chunks, pieces->entries, count) == 0);
    }
}

int main(int count, char **words)
{
    static struct pieces pieces;
    char dir[] = "/tmp/shoal-bench-logs-XXXXXX", error[512], command[128];
    struct chunks *chunks;
    pieces.lines = count > 1 ? strtoull(words[1], NULL, 10) : 200000;
    pieces.together = count > 2 ? strtoull(words[2], NULL, 10) : 1;
    CHECK(mkdtemp(dir) != NULL && chunks_open(dir, &chunks, error, sizeof error) == 0);
    uint64_t empty_bytes = used_bytes(chunks);
    store(chunks, &pieces);
    printf("%llu lines in pieces of %llu: %.2f MB of text\n", (unsigned long long)pieces.lines, (unsigned long long)pieces.together,
           (double)pieces.end / 1e6);
    measure(chunks, "as they come", pieces.end, empty_bytes);
    double began = now_s();
    CHECK(series_pack(chunks, PREFIX, PREFIX_BYTES, true) == 0);
    CHECK(series_pack(chunks, TIMES, PREFIX_BYTES, true) == 0);
    double pack_s = now_s() - began;
    measure(chunks, "packed", pieces.end, empty_bytes);
    printf("packed in %.0f ms, %.1f ms for each 256 KiB\n", pack_s * 1e3, pack_s * 1e3 / ((double)pieces.end / (256 << 10)));
    chunks_close(&chunks);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) == 0 ? 0 : 1;
}
