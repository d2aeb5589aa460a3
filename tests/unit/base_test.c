/* The small parts of base/: bytes, ids, format, arena, random, frame, rendezvous, bisection, edit distance, units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/bisect.h"
#include "base/bytes.h"
#include "base/descriptors.h"
#include "base/edit_distance.h"
#include "base/err.h"
#include "base/format.h"
#include "base/frame.h"
#include "base/id.h"
#include "base/random.h"
#include "base/rendezvous.h"
#include "base/units.h"
#include "tests/unit/forked.h"

static void integers_are_big_endian(void **state)
{
    (void)state;
    uint8_t out[8];
    bytes_put_u64(out, 0x0102030405060708u);
    static const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_memory_equal(out, expected, 8);
    assert_true(bytes_get_u64(out) == 0x0102030405060708u);
    bytes_put_u32(out, 0xfffefdfcu);
    assert_true(bytes_get_u32(out) == 0xfffefdfcu);
    assert_int_equal(bytes_get_u16(out), 0xfffe);
}

static void ids_are_ordered_byte_by_byte(void **state)
{
    (void)state;
    /* Pairs that differ in one byte only, at each place, by values on both sides of the sign bit; and one later byte the other way. */
    for (size_t i = 0; i < NODE_ID_BYTES; i++) {
        node_id low = {{0}}, high = {{0}};
        low.bytes[i] = 0x7f;
        high.bytes[i] = 0x80;
        if (i + 1 < NODE_ID_BYTES) {
            low.bytes[i + 1] = 0xff;
        }
        assert_true(node_id_compare(low, high) < 0);
        assert_true(node_id_compare(high, low) > 0);
        assert_int_equal(node_id_compare(low, low), 0);
        assert_false(node_id_equal(low, high));
    }
}

static void hex_reads_back_and_refuses_other_lengths(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x00, 0xab, 0xff};
    char text[7];
    bytes_to_hex(text, bytes, 3);
    assert_string_equal(text, "00abff");
    uint8_t back[3];
    assert_int_equal(bytes_from_hex(back, 3, "00ABfF"), 0);
    assert_memory_equal(back, bytes, 3);
    assert_int_equal(bytes_from_hex(back, 3, "00abf"), ERR_MALFORMED);
    assert_int_equal(bytes_from_hex(back, 3, "00abff0"), ERR_MALFORMED);
    assert_int_equal(bytes_from_hex(back, 3, "00abfg"), ERR_MALFORMED);
    assert_int_equal(bytes_from_hex(back, 3, ""), ERR_MALFORMED);
}

static void copied_text_is_cut_and_padded(void **state)
{
    (void)state;
    char out[6];
    memset(out, 'x', sizeof out);
    assert_true(bytes_copy_text(out, sizeof out, "ab"));
    assert_memory_equal(out, "ab\0\0\0\0", 6);
    assert_true(bytes_copy_text(out, sizeof out, "abcde"));
    assert_false(bytes_copy_text(out, sizeof out, "abcdef"));
    assert_string_equal(out, "abcde");
    assert_true(bytes_copy_text_n(out, sizeof out, "ab\0cdefgh", 9));
    assert_memory_equal(out, "ab\0\0\0\0", 6);
}

static void a_character_takes_one_to_four_bytes_of_utf8(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        const char *text;
    } cases[] = {{0x7f, "\x7f"},       {0x80, "\xc2\x80"},         {0x7ff, "\xdf\xbf"},           {0x800, "\xe0\xa0\x80"},
                 {0xffff, "\xef\xbf\xbf"}, {0x10000, "\xf0\x90\x80\x80"}, {0x10ffff, "\xf4\x8f\xbf\xbf"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[5] = "";
        assert_int_equal(bytes_put_utf8(out, cases[i].code), strlen(cases[i].text));
        assert_string_equal(out, cases[i].text);
    }
}

static void formatted_text_is_bounded(void **state)
{
    (void)state;
    char out[128];
    size_t length = format_text(out, sizeof out, "%s %c %u %d %llu %lld %zu %x %%", "word", 'z', 4294967295u, -7,
                                18446744073709551615ull, (long long)INT64_MIN, (size_t)9, 0xbeefu);
    assert_string_equal(out, "word z 4294967295 -7 18446744073709551615 -9223372036854775808 9 beef %");
    assert_int_equal(length, strlen(out));
    for (size_t size = 1; size < 8; size++) {
        char *small = malloc(size);
        assert_int_equal(format_text(small, size, "abc%u", 12345u), size - 1);
        assert_memory_equal(small, "abc12345", size - 1);
        assert_int_equal(small[size - 1], '\0');
        free(small);
    }
}

static void the_arena_reuses_and_is_capped(void **state)
{
    (void)state;
    _Alignas(16) static uint8_t memory[4096];
    struct arena arena;
    arena_init(&arena, memory, sizeof memory);
    uint8_t *first = arena_take(&arena, 100);
    assert_non_null(first);
    assert_int_equal(((uintptr_t)first & 15), 0);
    memset(first, 0xee, 100);
    arena_give(&arena, first, 100);
    assert_int_equal(arena.used_bytes, 0);
    uint8_t *second = arena_take(&arena, 128); /* the same class, zeroed again */
    assert_ptr_equal(second, first);
    for (size_t i = 0; i < 128; i++) {
        assert_int_equal(second[i], 0);
    }
    second[0] = 42;
    assert_ptr_equal(arena_grow(&arena, second, 100, 128), second);
    uint8_t *third = arena_grow(&arena, second, 128, 300);
    assert_ptr_not_equal(third, second);
    assert_int_equal(third[0], 42);
    assert_null(arena_take(&arena, 4096));
    assert_null(arena_grow(&arena, third, 300, 5000));
    assert_int_equal(third[0], 42);
    unsigned taken = 0;
    while (arena_take(&arena, 32) != NULL) {
        taken++;
    }
    assert_int_equal(taken, (4096 - 128 - 512) / 32); /* blocks are not split: the given back 128 bytes stay free */
    assert_null(arena_take(&arena, SIZE_MAX));
    arena_give(&arena, NULL, 5);
}

static void random_numbers_are_the_same_everywhere(void **state)
{
    (void)state;
    /* xoshiro256** from the state 1, 2, 3, 4: the first values are known from the authors' program. */
    struct random random = {{1, 2, 3, 4}};
    assert_true(random_u64(&random) == 11520);
    assert_true(random_u64(&random) == 0);
    assert_true(random_u64(&random) == 1509978240);
    assert_true(random_u64(&random) == 1215971899390074240u);
    /* splitmix64 from 0. */
    assert_true(random_mix(0) == 0xe220a8397b1dcdafu);
}

static void random_draws_are_uniform_and_streams_differ(void **state)
{
    (void)state;
    struct random random;
    random_init_stream(&random, 5, 0);
    unsigned counts[7] = {0};
    double sum = 0;
    for (int i = 0; i < 70000; i++) {
        counts[random_below(&random, 7)]++;
        double u = random_double(&random);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(counts[i], 9600, 10400); /* 10000 +- 4.3 standard deviations of 93 */
    }
    assert_true(sum / 70000 > 0.495 && sum / 70000 < 0.505);
    struct random other, again;
    random_init_stream(&other, 5, 1);
    random_init_stream(&again, 5, 1);
    random_init_stream(&random, 5, 0);
    uint64_t value = random_u64(&other);
    assert_true(value == random_u64(&again));
    assert_true(value != random_u64(&random));
}

static void frames_arrive_whole_with_their_descriptor(void **state)
{
    (void)state;
    int sockets[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(pipe(pipes), 0);
    static uint8_t buffer[4096];
    struct frame_reader reader;
    frame_reader_init(&reader, buffer, sizeof buffer);
    const uint8_t *bytes;
    size_t count;
    int fd;
    assert_int_equal(frame_reader_next(&reader, &bytes, &count, 0, &fd), ERR_AGAIN);
    assert_int_equal(frame_reader_wait(&reader, sockets[1], 1, &bytes, &count, 0, &fd), ERR_TIMEOUT);

    assert_int_equal(frame_send(sockets[0], (const uint8_t *)"first", 5, -1), 0);
    assert_int_equal(frame_send(sockets[0], (const uint8_t *)"", 0, -1), 0);
    assert_int_equal(frame_send(sockets[0], (const uint8_t *)"third", 5, pipes[1]), 0);
    assert_int_equal(frame_reader_wait(&reader, sockets[1], 1000, &bytes, &count, 0, &fd), 0);
    assert_int_equal(count, 5);
    assert_memory_equal(bytes, "first", 5);
    assert_int_equal(fd, -1);
    assert_int_equal(frame_reader_wait(&reader, sockets[1], 1000, &bytes, &count, 0, &fd), 0);
    assert_int_equal(count, 0);
    assert_int_equal(frame_reader_wait(&reader, sockets[1], 1000, &bytes, &count, 1, &fd), 0);
    assert_memory_equal(bytes, "third", 5);
    assert_true(fd >= 0 && fd != pipes[1]);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(write(fd, "x", 1), 1);
    char c = 0;
    assert_int_equal(read(pipes[0], &c, 1), 1);
    assert_int_equal(c, 'x');
    (void)close(fd);

    /* A frame that comes in pieces is not handed out early. */
    static const uint8_t pieces[] = {0, 0, 0, 2, 'o', 'k'};
    for (size_t i = 0; i < sizeof pieces; i++) {
        assert_int_equal(frame_reader_next(&reader, &bytes, &count, 0, &fd), ERR_AGAIN);
        assert_int_equal(write(sockets[0], pieces + i, 1), 1);
        assert_int_equal(frame_reader_fill(&reader, sockets[1]), 0);
    }
    assert_int_equal(frame_reader_next(&reader, &bytes, &count, 0, &fd), 0);
    assert_memory_equal(bytes, "ok", 2);

    /* A length beyond the buffer is refused, and the end of the stream is told. */
    static const uint8_t giant[] = {0xff, 0xff, 0xff, 0xff, 'x'};
    assert_int_equal(write(sockets[0], giant, sizeof giant), sizeof giant);
    assert_int_equal(frame_reader_wait(&reader, sockets[1], 1000, &bytes, &count, 0, &fd), ERR_MALFORMED);
    frame_reader_close(&reader);
    frame_reader_init(&reader, buffer, sizeof buffer);
    (void)close(sockets[0]);
    assert_int_equal(frame_reader_wait(&reader, sockets[1], 1000, &bytes, &count, 0, &fd), ERR_CLOSED);
    assert_int_equal(frame_send(sockets[1], (const uint8_t *)"x", 1, -1), ERR_CLOSED);
    assert_int_equal(frame_send(sockets[1], buffer, FRAME_BYTES_MAX + 1, -1), ERR_USAGE);
    (void)close(sockets[1]);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void a_frame_that_does_not_fit_at_once_goes_on_where_it_stopped(void **state)
{
    (void)state;
    int sockets[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    assert_int_equal(pipe(pipes), 0);
    static uint8_t sent_bytes[FRAME_BYTES_MAX], buffer[FRAME_BYTES_MAX + FRAME_HEAD_BYTES];
    for (size_t i = 0; i < sizeof sent_bytes; i++) {
        sent_bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    struct frame_reader reader;
    frame_reader_init(&reader, buffer, sizeof buffer);
    const uint8_t *bytes = NULL;
    size_t sent = 0, count = 0;
    int fd, stops = 0, send_error, error = ERR_AGAIN;
    do {
        send_error = frame_send_some(sockets[0], sent_bytes, sizeof sent_bytes, pipes[1], &sent);
        stops += send_error == ERR_AGAIN;
        assert_true(send_error == 0 || send_error == ERR_AGAIN);
        assert_int_equal(error, ERR_AGAIN);
        while ((error = frame_reader_fill(&reader, sockets[1])) == 0 && reader.used_bytes < sizeof buffer) {
        }
        error = frame_reader_next(&reader, &bytes, &count, 0, &fd);
    } while (send_error != 0);
    assert_true(stops > 0);
    assert_int_equal(sent, FRAME_HEAD_BYTES + sizeof sent_bytes);
    assert_int_equal(error, 0);
    assert_int_equal(count, sizeof sent_bytes);
    assert_memory_equal(bytes, sent_bytes, count);
    fd = frame_reader_take_fd(&reader); /* came once, with the first bytes */
    assert_true(fd >= 0);
    assert_int_equal(frame_reader_take_fd(&reader), -1);
    (void)close(fd);
    frame_reader_close(&reader);
    (void)close(sockets[1]);
    sent = 0;
    assert_int_equal(frame_send_some(sockets[0], sent_bytes, 1, -1, &sent), ERR_CLOSED);
    assert_int_equal(frame_send_some(sockets[0], sent_bytes, FRAME_BYTES_MAX + 1, -1, &sent), ERR_USAGE);
    (void)close(sockets[0]);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

static void descriptors_that_nobody_took_are_closed(void **state)
{
    (void)state;
    int sockets[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(pipe(pipes), 0);
    uint8_t buffer[256];
    struct frame_reader reader;
    frame_reader_init(&reader, buffer, sizeof buffer);
    for (int i = 0; i < 6; i++) { /* more than the reader keeps */
        const uint8_t *bytes;
        size_t count;
        int fd;
        assert_int_equal(frame_send(sockets[0], (const uint8_t *)"f", 1, pipes[1]), 0);
        assert_int_equal(frame_reader_wait(&reader, sockets[1], 1000, &bytes, &count, 0, &fd), 0);
        assert_int_equal(fd, -1);
    }
    frame_reader_close(&reader);
    (void)close(pipes[1]);
    char c;
    assert_int_equal(read(pipes[0], &c, 1), 0); /* end of file: no duplicate of the write end is left */
    (void)close(pipes[0]);
    (void)close(sockets[0]);
    (void)close(sockets[1]);
}

static void a_leaving_node_moves_only_its_own_keys(void **state)
{
    (void)state;
    enum { NODES = 7, KEYS = 7000 };
    struct random random;
    random_init(&random, 3);
    node_id nodes[NODES];
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < NODE_ID_BYTES; j++) {
            nodes[i].bytes[j] = (uint8_t)random_u64(&random);
        }
    }
    unsigned firsts[NODES] = {0};
    for (uint32_t key = 0; key < KEYS; key++) {
        node_id all[NODES], fewer[NODES];
        memcpy(all, nodes, sizeof nodes);
        rendezvous_sort(all, NODES, &key, sizeof key);
        for (int i = 1; i < NODES; i++) {
            assert_true(rendezvous_weight(all[i - 1], &key, sizeof key) >= rendezvous_weight(all[i], &key, sizeof key));
        }
        /* Without node 2, in another input order: the same order of the rest. */
        size_t count = 0;
        for (int i = NODES - 1; i >= 0; i--) {
            if (i != 2) {
                fewer[count++] = nodes[i];
            }
        }
        rendezvous_sort(fewer, count, &key, sizeof key);
        size_t at = 0;
        for (int i = 0; i < NODES; i++) {
            if (!node_id_equal(all[i], nodes[2])) {
                assert_true(node_id_equal(all[i], fewer[at]));
                at++;
            }
        }
        for (int i = 0; i < NODES; i++) {
            firsts[i] += node_id_equal(nodes[i], all[0]);
        }
    }
    for (int i = 0; i < NODES; i++) {
        assert_in_range(firsts[i], 870, 1130); /* 1000 +- 4.4 standard deviations of 29 */
    }
    rendezvous_sort(nodes, 0, "k", 1);
}

static void a_swap_of_neighbours_is_one_edit(void **state)
{
    (void)state;
    assert_int_equal(edit_distance("status", "status"), 0);
    assert_int_equal(edit_distance("staus", "status"), 1);
    assert_int_equal(edit_distance("statuss", "status"), 1);
    assert_int_equal(edit_distance("statos", "status"), 1);
    assert_int_equal(edit_distance("tsatus", "status"), 1);
    assert_int_equal(edit_distance("ca", "abc"), 3); /* not swapped and then torn apart, which would be 2 */
    assert_int_equal(edit_distance("kitten", "sitting"), 3);
    assert_int_equal(edit_distance("", "abc"), 3);
    assert_int_equal(edit_distance("abc", ""), 3);
}

static void a_word_too_long_to_compare_is_far_from_all(void **state)
{
    (void)state;
    char longest[EDIT_DISTANCE_LETTERS_MAX + 2] = {0};
    memset(longest, 'a', EDIT_DISTANCE_LETTERS_MAX);
    assert_int_equal(edit_distance(longest, longest), 0);
    assert_int_equal(edit_distance(longest, ""), EDIT_DISTANCE_LETTERS_MAX);
    assert_int_equal(edit_distance("", longest), EDIT_DISTANCE_LETTERS_MAX);
    longest[EDIT_DISTANCE_LETTERS_MAX] = 'a';
    assert_true(edit_distance(longest, longest) == SIZE_MAX);
    assert_true(edit_distance("a", longest) == SIZE_MAX);
}

/* The place of `wanted` in ascending numbers. */
static uint32_t place_of(const int *numbers, uint32_t count, int wanted)
{
    struct bisection search = bisect_all(count);
    while (bisect_next(&search)) {
        assert_in_range(search.middle, 0, count - 1);
        bisect_answer(&search, numbers[search.middle] < wanted);
    }
    return search.low;
}

static void a_bisection_ends_at_the_first_item_that_is_not_below(void **state)
{
    (void)state;
    static const int numbers[] = {2, 4, 4, 4, 6, 8};
    for (uint32_t count = 0; count <= sizeof numbers / sizeof numbers[0]; count++) {
        for (int wanted = 1; wanted <= 9; wanted++) {
            uint32_t place = 0;
            while (place < count && numbers[place] < wanted) {
                place++;
            }
            assert_int_equal(place_of(numbers, count, wanted), place);
        }
    }
}

static void every_error_has_a_name(void **state)
{
    (void)state;
    for (int code = ERR_NOT_FINITE; code < 0; code++) {
        assert_string_not_equal(err_name(code), "unknown");
        assert_true(strlen(err_text(code)) > 5);
    }
    assert_string_equal(err_name(0), "ok");
    assert_string_equal(err_name(-99), "unknown");
}

/* Two frames that carry one each: when there is no room for that of the first, it must not be given that of the second. */
static void a_descriptor_that_is_lost_ends_the_frames(void **state)
{
    (void)state;
    int sockets[2];
    uint8_t buffer[64];
    struct frame_reader reader;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    frame_reader_init(&reader, buffer, sizeof buffer);
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(frame_send(sockets[0], (const uint8_t *)"first", 5, sockets[0]), 0);
    int next = dup(sockets[0]);
    (void)close(next);
    none = (struct rlimit){(rlim_t)next, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int filled = frame_reader_fill(&reader, sockets[1]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(filled, ERR_IO);
    const uint8_t *bytes;
    size_t count;
    int fd;
    assert_int_equal(frame_reader_next(&reader, &bytes, &count, 1, &fd), ERR_AGAIN); /* nothing of it counts */
    frame_reader_close(&reader);
    (void)close(sockets[0]);
    (void)close(sockets[1]);
}

/* Whichever of the three are closed: what is opened next is none of them, and what cannot be written is known. */
static void what_is_opened_is_never_a_standard_descriptor(void **state)
{
    (void)state;
    for (int closed = 0; closed < 8; closed++) {
        pid_t child = fork();
        if (child == 0) {
            for (int fd = 0; fd < 3; fd++) {
                if ((closed >> fd & 1) != 0) {
                    (void)close(fd);
                }
            }
            char byte;
            bool ok = descriptors_fill_standard() == 0;
            ok &= open("/dev/zero", O_RDWR | O_CLOEXEC) > STDERR_FILENO;
            ok &= (closed & 1) == 0 || read(STDIN_FILENO, &byte, 1) == 0;
            ok &= (closed & 2) == 0 || write(STDOUT_FILENO, "x", 1) < 0;
            ok &= (closed & 4) == 0 || write(STDERR_FILENO, "x", 1) == 1;
            forked_end(ok ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void times_and_sizes_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t number;
    } times[] = {{"0", 0},      {"90", 90},      {"90s", 90},         {"5m", 300},     {"1h30m", 5400},
                 {"7d", 604800}, {"1d1h1m1s", 90061}, {"15 m", 900}},
      sizes[] = {{"4096", 4096},       {"512B", 512},           {"2K", 2048},          {"16G", UINT64_C(16) << 30},
                 {"3MiB", 3u << 20}, {"2Ti", UINT64_C(2) << 40}, {"1 GiB", 1u << 30}};
    static const char *const no_times[] = {"",    "m",    "5w",  "5 weeks", "1h30", "30m1h", "1m1m", "1.5h", "-5m",
                                           "5M",  "5 m ", " 5m", "5ms",    "1:30", "5  m",  "18446744073709551616"},
                            *no_sizes[] = {"", "G", "16g", "16GB", "16Gb", "1.5G", "-1G", "1G1M", "16 G B", "1GiBs", "1iB"};
    uint64_t value = 7;
    char text[UNITS_BYTES];
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        assert_int_equal(units_read_time(times[i].text, UINT64_MAX, &value), 0);
        assert_true(value == times[i].number);
        units_write_time(text, value);
        assert_int_equal(units_read_time(text, times[i].number, &value), 0); /* what is written reads back */
        assert_true(value == times[i].number);
        assert_true(value == 0 || units_read_time(times[i].text, times[i].number - 1, &value) == ERR_MALFORMED);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(units_read_size(sizes[i].text, UINT64_MAX, &value), 0);
        assert_true(value == sizes[i].number);
        units_write_size(text, value);
        assert_int_equal(units_read_size(text, sizes[i].number, &value), 0);
        assert_true(value == sizes[i].number);
        assert_int_equal(units_read_size(sizes[i].text, sizes[i].number - 1, &value), ERR_MALFORMED);
    }
    value = 7;
    for (size_t i = 0; i < sizeof no_times / sizeof no_times[0]; i++) {
        assert_int_equal(units_read_time(no_times[i], UINT64_MAX, &value), ERR_MALFORMED);
    }
    for (size_t i = 0; i < sizeof no_sizes / sizeof no_sizes[0]; i++) {
        assert_int_equal(units_read_size(no_sizes[i], UINT64_MAX, &value), ERR_MALFORMED);
    }
    assert_int_equal(units_read_time("18446744073709551615d", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(units_read_size("18446744073709551615K", UINT64_MAX, &value), ERR_MALFORMED);
    assert_int_equal(value, 7);
    units_write_time(text, 5400);
    assert_string_equal(text, "1h30m");
    units_write_size(text, UINT64_C(16) << 30);
    assert_string_equal(text, "16G");
    units_write_size(text, 1000);
    assert_string_equal(text, "1000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_big_endian),
        cmocka_unit_test(ids_are_ordered_byte_by_byte),
        cmocka_unit_test(hex_reads_back_and_refuses_other_lengths),
        cmocka_unit_test(copied_text_is_cut_and_padded),
        cmocka_unit_test(a_character_takes_one_to_four_bytes_of_utf8),
        cmocka_unit_test(formatted_text_is_bounded),
        cmocka_unit_test(the_arena_reuses_and_is_capped),
        cmocka_unit_test(random_numbers_are_the_same_everywhere),
        cmocka_unit_test(random_draws_are_uniform_and_streams_differ),
        cmocka_unit_test(frames_arrive_whole_with_their_descriptor),
        cmocka_unit_test(a_frame_that_does_not_fit_at_once_goes_on_where_it_stopped),
        cmocka_unit_test(descriptors_that_nobody_took_are_closed),
        cmocka_unit_test(a_leaving_node_moves_only_its_own_keys),
        cmocka_unit_test(a_swap_of_neighbours_is_one_edit),
        cmocka_unit_test(a_word_too_long_to_compare_is_far_from_all),
        cmocka_unit_test(a_bisection_ends_at_the_first_item_that_is_not_below),
        cmocka_unit_test(every_error_has_a_name),
        cmocka_unit_test(a_descriptor_that_is_lost_ends_the_frames),
        cmocka_unit_test(what_is_opened_is_never_a_standard_descriptor),
        cmocka_unit_test(times_and_sizes_have_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
