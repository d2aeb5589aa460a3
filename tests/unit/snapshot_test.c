/* Snapshots of files: packing, chunks that are shared, malformed listings, unpacking. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/pack.h"
#include "store/snapshot.h"

struct place {
    char dir[64];
    struct chunks *chunks;
    char error[512];
};

static void script(const struct place *place, const char *text)
{
    char *command;
    assert_true(asprintf(&command, "cd %s && { %s; }", place->dir, text) > 0);
    assert_int_equal(system(command), 0);
    free(command);
}

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    snprintf(place->dir, sizeof place->dir, "/tmp/shoal-snapshot-test-XXXXXX");
    *state = place;
    return mkdtemp(place->dir) != NULL ? chunks_open(place->dir, &place->chunks, place->error, sizeof place->error) : -1;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    chunks_close(&place->chunks);
    script(place, "chmod -R u+rwx . && rm -rf ../${PWD##*/}");
    free(place);
    return 0;
}

static int add(struct place *place, struct snapshot *snapshot, const char *disk_path, const char *path, const struct snapshot *before,
               uint64_t bytes_max)
{
    int root = open(place->dir, O_RDONLY | O_DIRECTORY);
    int rc = snapshot_add(snapshot, place->chunks, root, disk_path, path, before, bytes_max, place->error, sizeof place->error);
    close(root);
    return rc;
}

/* The blob in a memfd. */
static int read_out(struct place *place, struct snapshot *snapshot, uint64_t *bytes)
{
    hash256 blob;
    int fd = memfd_create("blob", MFD_CLOEXEC);
    assert_int_equal(snapshot_put(snapshot, place->chunks, &blob, bytes, place->error, sizeof place->error), 0);
    assert_int_equal(chunks_read_blob_to_fd(place->chunks, blob, fd, NULL, place->error, sizeof place->error), 0);
    return fd;
}

static void a_link_that_leaves_the_first_directory_is_left_out(void **state)
{
    struct place *place = *state;
    script(place, "mkdir -p a/deep && ln -s ../one a/deep/inside && ln -s ../../one a/deep/outside && ln -s ../one a/outside");
    struct snapshot snapshot = {0};
    assert_int_equal(add(place, &snapshot, "a", "work", NULL, UINT64_MAX), 0);
    uint32_t links = 0;
    for (uint32_t i = 0; i < snapshot.count; i++) {
        if (snapshot.entries[i].kind == SNAPSHOT_LINK) {
            assert_string_equal(snapshot.entries[i].path, "work/deep/inside");
            links++;
        }
    }
    assert_int_equal(links, 1);
    snapshot_free(&snapshot);
}

static void what_is_packed_comes_out_with_modes_times_and_links(void **state)
{
    struct place *place = *state;
    script(place, "mkdir -p a/deep/er b && printf hello >a/one && : >a/empty && head -c 2500000 /dev/urandom >a/deep/big && "
                  "ln -s deep/big a/latest && chmod 0750 a/one && touch -d @1000.5 a/one && touch -d @2000 a/deep && printf old >b/one");
    struct snapshot snapshot = {0}, read;
    assert_int_equal(add(place, &snapshot, "a", "work/runs", NULL, UINT64_MAX), 0);
    uint64_t bytes;
    int fd = read_out(place, &snapshot, &bytes);
    assert_int_equal(snapshot_read(fd, bytes, &read), 0);
    assert_int_equal(read.bytes, 2500005);
    uint32_t count;
    char to[128];
    snprintf(to, sizeof to, "%s/b", place->dir);
    assert_int_equal(snapshot_unpack(fd, &read, "work/runs", to, &count, place->error, sizeof place->error), 0);
    assert_int_equal(count, 4);
    script(place, "diff -r a b && test $(stat -c %a b/one) = 750 && test $(stat -c %.1Y b/one) = 1000.5 && "
                  "test $(stat -c %Y b/deep) = 2000 && test $(readlink b/latest) = deep/big && test -d b/deep/er");
    assert_int_equal(snapshot_unpack(fd, &read, "work/runs/one", to, &count, place->error, sizeof place->error), 0);
    assert_int_equal(count, 1);
    assert_int_equal(snapshot_unpack(fd, &read, "work/run", to, &count, place->error, sizeof place->error), ERR_NOT_FOUND);
    snapshot_free(&read);
    snapshot_free(&snapshot);
    close(fd);
}

static int count_chunk(void *context, hash256 hash, size_t count)
{
    (void)hash;
    (void)count;
    ++*(uint32_t *)context;
    return 0;
}

static void unchanged_files_are_the_same_chunks(void **state)
{
    struct place *place = *state;
    uint32_t first = 0, second = 0;
    struct snapshot before = {0}, after = {0};
    hash256 blob;
    uint64_t bytes;
    script(place, "mkdir -p a/new && head -c 5500000 /dev/urandom >a/one && head -c 3000000 /dev/urandom >a/two");
    assert_int_equal(add(place, &before, "a", "work/a", NULL, UINT64_MAX), 0);
    assert_int_equal(snapshot_put(&before, place->chunks, &blob, &bytes, place->error, sizeof place->error), 0);
    assert_int_equal(chunks_each(place->chunks, count_chunk, &first), 0);
    assert_int_equal(first, 6 + 3 + 2);
    script(place, "printf x >a/new/first && printf longer >a/another");
    assert_int_equal(add(place, &after, "a", "work/a", &before, UINT64_MAX), 0);
    assert_int_equal(snapshot_put(&after, place->chunks, &blob, &bytes, place->error, sizeof place->error), 0);
    assert_int_equal(chunks_each(place->chunks, count_chunk, &second), 0);
    assert_int_equal(second, first + 2 + 2); /* two small files, the listing and the manifest */
    struct snapshot taken = {0};
    assert_int_equal(snapshot_take_over(&taken, &after, "work/a/new"), 0);
    assert_int_equal(taken.count, 4); /* work, work/a, work/a/new, work/a/new/first */
    assert_int_equal(taken.bytes, 1);
    assert_int_equal(snapshot_take_over(&taken, &after, "work/b"), ERR_NOT_FOUND);
    snapshot_free(&taken);
    snapshot_free(&before);
    snapshot_free(&after);
}

/* Each transaction waits for the disk: a worker that leaves 20,000 small files does not wait for 20,000. */
static void small_files_are_stored_together(void **state)
{
    struct place *place = *state;
    struct snapshot snapshot = {0};
    hash256 blob;
    uint64_t bytes;
    uint32_t stored = 0;
    script(place, "for i in 1 2 3; do echo $i >$i; done");
    assert_int_equal(add(place, &snapshot, "1", "output/1", NULL, UINT64_MAX), 0);
    assert_int_equal(add(place, &snapshot, "2", "output/2", NULL, UINT64_MAX), 0);
    assert_int_equal(add(place, &snapshot, "3", "output/3", NULL, UINT64_MAX), 0);
    assert_int_equal(chunks_each(place->chunks, count_chunk, &stored), 0);
    assert_int_equal(stored, 0);
    assert_int_equal(snapshot_put(&snapshot, place->chunks, &blob, &bytes, place->error, sizeof place->error), 0);
    assert_int_equal(chunks_each(place->chunks, count_chunk, &stored), 0);
    assert_int_equal(stored, 3 + 2); /* and the listing and the manifest */
    snapshot_free(&snapshot);
}

static void what_is_taken_over_is_listed_as_before(void **state)
{
    struct place *place = *state;
    struct snapshot before = {0}, after = {0};
    hash256 first, second;
    uint64_t bytes;
    script(place, "mkdir -p a/x/y a/x.d a/w && for i in x/y/1 x/y.z x/1 x.d/1 x-1 w/1; do echo $i >a/$i; done && ln -s y/1 a/x/link");
    static const char *const units[] = {"a/w", "a/x", "a/x-1", "a/x.d"};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        assert_int_equal(add(place, &before, units[i], units[i], NULL, UINT64_MAX), 0);
    }
    assert_int_equal(snapshot_put(&before, place->chunks, &first, &bytes, place->error, sizeof place->error), 0);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        assert_int_equal(snapshot_take_over(&after, &before, units[i]), 0);
    }
    assert_int_equal(snapshot_put(&after, place->chunks, &second, &bytes, place->error, sizeof place->error), 0);
    assert_true(hash256_equal(first, second));
    snapshot_free(&after);
    assert_int_equal(snapshot_take_over(&after, &before, "a/x"), 0);
    assert_int_equal(after.count, 7); /* a, a/x, and a/x/1, a/x/link, a/x/y, a/x/y/1, a/x/y.z */
    assert_int_equal(snapshot_take_over(&after, &before, "a/x/"), ERR_NOT_FOUND);
    snapshot_free(&after);
    snapshot_free(&before);
}

static void what_cannot_be_kept_is_named_and_the_rest_is_kept(void **state)
{
    struct place *place = *state;
    script(place, "mkdir -p a/b && mkfifo a/pipe && ln -s /etc/passwd a/out && ln -s ../../x a/b/up && ln -s ../f a/b/fine && printf 12 >a/f");
    struct snapshot snapshot = {0};
    assert_int_equal(add(place, &snapshot, "a", "work/a", NULL, UINT64_MAX), 0);
    assert_int_equal(snapshot.left_out, 2);
    assert_non_null(strstr(snapshot.left_out_why, "work/a/"));
    snapshot_free(&snapshot);
    assert_int_equal(add(place, &snapshot, "a", "work/a", NULL, 1), ERR_FULL);
    assert_int_equal(snapshot.count, 0);
    assert_non_null(strstr(place->error, "work/a/f"));
    assert_int_equal(add(place, &snapshot, "none", "work/a", NULL, 1), ERR_NOT_FOUND);
    snapshot_free(&snapshot);
}

static void listings_of_strangers_lead_nowhere(void **state)
{
    (void)state;
    static const char *const paths[] = {"../x", "/x", "a//b", "a/../b", "", ".", "a/."};
    for (size_t i = 0; i <= sizeof paths / sizeof paths[0]; i++) {
        uint8_t bytes[256];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_array(&writer, 2);
        pack_u64(&writer, 1);
        pack_array(&writer, 1);
        pack_array(&writer, 6);
        const char *path = i < sizeof paths / sizeof paths[0] ? paths[i] : "a/b";
        pack_bin(&writer, path, strlen(path));
        pack_u64(&writer, i < sizeof paths / sizeof paths[0] ? SNAPSHOT_DIRECTORY : SNAPSHOT_LINK);
        pack_u64(&writer, 0755);
        pack_u64(&writer, 0);
        pack_i64(&writer, 0);
        pack_bin(&writer, "../../x", 7);
        int fd = memfd_create("listing", MFD_CLOEXEC);
        assert_int_equal(write(fd, bytes, writer.used_bytes), (ssize_t)writer.used_bytes);
        struct snapshot read;
        assert_int_equal(snapshot_read(fd, writer.used_bytes, &read), ERR_MALFORMED);
        assert_int_equal(snapshot_read(fd, writer.used_bytes - 1, &read), ERR_MALFORMED);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_link_that_leaves_the_first_directory_is_left_out, place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_is_packed_comes_out_with_modes_times_and_links, place_make, place_remove),
        cmocka_unit_test_setup_teardown(unchanged_files_are_the_same_chunks, place_make, place_remove),
        cmocka_unit_test_setup_teardown(small_files_are_stored_together, place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_is_taken_over_is_listed_as_before, place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_kept_is_named_and_the_rest_is_kept, place_make, place_remove),
        cmocka_unit_test(listings_of_strangers_lead_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
