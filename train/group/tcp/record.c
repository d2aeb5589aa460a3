/* Records of a group's links: header, encryption, sending and receiving. */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/group/tcp/inside.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements travel as they lie in memory");

static void header_fill(const struct tcp_group *group, const struct plan_transfer *transfer,
                        uint8_t out[TCP_HEADER_BYTES])
{
    bytes_put_u32(out, (uint32_t)(transfer->count * group->element_bytes));
    out[4] = (uint8_t)group->plan.kind;
    out[5] = (uint8_t)group->plan.algorithm;
    out[6] = (uint8_t)group->type;
    out[7] = (uint8_t)transfer->step;
    bytes_put_u64(out + 8, group->operation);
    bytes_put_u64(out + 16, group->plan.count);
    bytes_put_u64(out + 24, transfer->offset);
}

static uint64_t header_operation(const uint8_t *header)
{
    return bytes_get_u64(header + 8);
}

static size_t record_bytes(const struct tcp_record *record)
{
    return TCP_HEADER_BYTES + record->length + (TCP_PLAIN ? 0 : TCP_TAG_BYTES);
}

/* The parts of the record that have not moved yet. Returns their number. */
static size_t parts_left(struct tcp_record *record, struct iovec out[3])
{
    const struct iovec parts[3] = {{record->header, TCP_HEADER_BYTES},
                                   {record->body, record->length},
                                   {record->tag, TCP_PLAIN ? 0 : TCP_TAG_BYTES}};
    size_t skip = record->done, count = 0;
    for (size_t i = 0; i < 3; i++) {
        if (skip >= parts[i].iov_len) {
            skip -= parts[i].iov_len;
        } else {
            out[count++] = (struct iovec){(uint8_t *)parts[i].iov_base + skip, parts[i].iov_len - skip};
            skip = 0;
        }
    }
    return count;
}

/* ---- encryption ---- */

struct authenticated {
    uint8_t bytes[TCP_HEADER_BYTES + 8 + HANDSHAKE_HASH_BYTES];
};

static struct authenticated authenticate(const struct tcp_group *group, const uint8_t header[TCP_HEADER_BYTES])
{
    struct authenticated a;
    memcpy(a.bytes, header, TCP_HEADER_BYTES);
    bytes_put_u64(a.bytes + TCP_HEADER_BYTES, group->generation);
    memcpy(a.bytes + TCP_HEADER_BYTES + 8, group->members_hash, HANDSHAKE_HASH_BYTES);
    return a;
}

static void nonce_fill(uint64_t sequence, uint8_t out[12])
{
    memset(out, 0, 4);
    bytes_put_u64(out + 4, sequence);
}

static bool seal(struct tcp_group *group, struct tcp_record *record, const uint8_t *bytes)
{
    struct tcp_link *link = &group->links[record->peer];
    struct authenticated a = authenticate(group, record->header);
    uint8_t nonce[12];
    nonce_fill(link->sealed, nonce);
    int n;
    bool done = EVP_EncryptInit_ex(link->seal, NULL, NULL, NULL, nonce) == 1 &&
                EVP_EncryptUpdate(link->seal, NULL, &n, a.bytes, sizeof a.bytes) == 1 &&
                (record->length == 0 ||
                 EVP_EncryptUpdate(link->seal, record->body, &n, bytes, (int)record->length) == 1) &&
                EVP_EncryptFinal_ex(link->seal, record->tag, &n) == 1 &&
                EVP_CIPHER_CTX_ctrl(link->seal, EVP_CTRL_GCM_GET_TAG, TCP_TAG_BYTES, record->tag) == 1;
    link->sealed++;
    return done;
}

/* Decrypts the record in place. Returns whether the tag is right. */
static bool open_record(struct tcp_group *group, struct tcp_record *record)
{
    struct tcp_link *link = &group->links[record->peer];
    struct authenticated a = authenticate(group, record->header);
    uint8_t nonce[12], rest[16];
    nonce_fill(link->opened, nonce);
    int n;
    bool done = EVP_DecryptInit_ex(link->open, NULL, NULL, NULL, nonce) == 1 &&
                EVP_DecryptUpdate(link->open, NULL, &n, a.bytes, sizeof a.bytes) == 1 &&
                (record->length == 0 ||
                 EVP_DecryptUpdate(link->open, record->body, &n, record->body, (int)record->length) == 1) &&
                EVP_CIPHER_CTX_ctrl(link->open, EVP_CTRL_GCM_SET_TAG, TCP_TAG_BYTES, record->tag) == 1 &&
                EVP_DecryptFinal_ex(link->open, rest, &n) == 1;
    link->opened++;
    return done;
}

/* ---- errors ---- */

static int lost(struct tcp_group *group, uint32_t peer)
{
    return tcp_fail(group, ERR_CLOSED, "rank %u lost rank %u: its connection closed", group->rank, peer);
}

static bool is_header(const uint8_t *header)
{
    return bytes_get_u32(header) <= TCP_PIECE_BYTES && plan_exists(header[4], header[5]) &&
           element_type_bytes(header[6]) != 0;
}

/* Fails the group with a sentence about `header`, which differs from the expected header. */
static int mismatch(struct tcp_group *group, uint32_t peer, const uint8_t *header)
{
    enum plan_kind kind = header[4];
    enum plan_algorithm algorithm = header[5];
    enum element_type type = header[6];
    if (!is_header(header)) {
        return tcp_fail(group, ERR_MALFORMED, "rank %u sent bytes that are no record", peer);
    }
    return tcp_fail(group, ERR_MALFORMED,
                    "rank %u is in operation %llu (%s of %llu %s by %s), rank %u in %llu (%s of %llu %s by %s): every rank "
                    "must call the same collectives with the same lengths",
                    peer, (unsigned long long)header_operation(header), plan_kind_name(kind),
                    (unsigned long long)bytes_get_u64(header + 16), element_type_name(type), plan_algorithm_name(algorithm),
                    group->rank, (unsigned long long)group->operation, plan_kind_name(group->plan.kind),
                    (unsigned long long)group->plan.count, element_type_name(group->type),
                    plan_algorithm_name(group->plan.algorithm));
}

/* ---- moving ---- */

/* Starts sending a transfer. A plain record is sent from the caller's array, so the plan's next steps may not touch the array
 * before all of it has left; with encryption, the array is free as soon as the record is sealed. */
static int begin_record(struct tcp_group *group, const struct plan_transfer *transfer)
{
    struct tcp_record *record = &group->outgoing;
    uint8_t *bytes = group->values + transfer->offset * group->element_bytes;
    record->peer = transfer->peer;
    record->length = transfer->count * group->element_bytes;
    record->done = 0;
    header_fill(group, transfer, record->header);
    if (TCP_PLAIN) {
        record->body = bytes;
    } else {
        record->body = group->sealed;
        if (!seal(group, record, bytes)) {
            return tcp_fail(group, ERR_IO, "rank %u could not encrypt", group->rank);
        }
        plan_send_advance(&group->plan, &group->sent);
    }
    record->active = true;
    return 0;
}

int tcp_push(struct tcp_group *group)
{
    struct tcp_record *record = &group->outgoing;
    if (!record->active) {
        struct plan_transfer transfer;
        if (!plan_send(&group->plan, &group->sent, &transfer) ||
            !plan_send_ready(&group->plan, &group->sent, &group->received)) {
            return 0;
        }
        int error = begin_record(group, &transfer);
        if (error != 0) {
            return error;
        }
    }
    struct iovec parts[3];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = parts_left(record, parts)};
    ssize_t n = sendmsg(group->links[record->peer].fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : lost(group, record->peer);
    }
    record->done += (size_t)n;
    if (record->done == record_bytes(record)) {
        record->active = false;
        if (TCP_PLAIN) {
            plan_send_advance(&group->plan, &group->sent);
        }
    }
    return 1;
}

static void add_received(struct tcp_group *group, const struct plan_transfer *transfer)
{
    void *to = group->values + transfer->offset * group->element_bytes;
    const void *sources[] = {to, group->landing};
    if (group->add != NULL) {
        group->add(group->type, to, group->landing, transfer->count);
    } else {
        reduce_sum(group->variant, group->type, sources, 2, &to, 1, transfer->count);
    }
}

/* Whether a record is received beside the array. A broadcast may overwrite valid data of this rank, such as the state of a
 * group, and a partial broadcast must not damage it. Other collectives receive copies in place and decrypt them there: if the
 * tag is wrong the collective fails and its values are undefined. */
static bool lands_beside(const struct tcp_group *group, const struct plan_transfer *transfer)
{
    return transfer->add || group->plan.kind == PLAN_BROADCAST;
}

/* Decrypts and adds or copies an incoming record that is complete. */
static int finish_record(struct tcp_group *group, const struct plan_transfer *transfer)
{
    struct tcp_record *record = &group->incoming;
    if (!TCP_PLAIN && !open_record(group, record)) {
        return tcp_fail(group, ERR_AUTH, "a record from rank %u is forged or damaged", record->peer);
    }
    if (transfer->add) {
        add_received(group, transfer);
    } else if (lands_beside(group, transfer) && record->length > 0) {
        memcpy(group->values + transfer->offset * group->element_bytes, group->landing, record->length);
    }
    record->active = false;
    plan_receive_advance(&group->plan, &group->received);
    return 1;
}

/* Never reads past the record, so that later bytes wait in the socket, where tcp_look finds them. */
int tcp_pull(struct tcp_group *group)
{
    struct tcp_record *record = &group->incoming;
    struct plan_transfer transfer;
    if (!plan_receive(&group->plan, &group->received, &transfer)) {
        return 0;
    }
    if (!record->active) {
        if (!plan_receive_ready(&group->plan, &group->received, &group->sent)) {
            return 0;
        }
        record->active = true;
        record->peer = transfer.peer;
        record->length = transfer.count * group->element_bytes;
        record->body = lands_beside(group, &transfer) ? group->landing : group->values + transfer.offset * group->element_bytes;
        record->done = 0;
    }
    struct iovec parts[3];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = parts_left(record, parts)};
    ssize_t n = recvmsg(group->links[record->peer].fd, &message, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return lost(group, record->peer);
    }
    bool had_header = record->done >= TCP_HEADER_BYTES;
    record->done += (size_t)n;
    if (!had_header && record->done >= TCP_HEADER_BYTES) {
        uint8_t expected[TCP_HEADER_BYTES];
        header_fill(group, &transfer, expected);
        if (memcmp(record->header, expected, sizeof expected) != 0) {
            return mismatch(group, record->peer, record->header);
        }
    }
    return record->done == record_bytes(record) ? finish_record(group, &transfer) : 1;
}

/* ---- links without a record under way ---- */

static int look_closed(struct tcp_group *group, uint32_t peer)
{
    struct tcp_link *link = &group->links[peer];
    bool sends = plan_sends_to(&group->plan, &group->sent, peer) ||
                 (group->outgoing.active && group->outgoing.peer == peer);
    uint8_t byte;
    if (sends || (plan_receives_from(&group->plan, &group->received, peer) &&
                  recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)) {
        return lost(group, peer);
    }
    link->quiet = true; /* the peer has left after its part, or its last bytes are still to be read */
    return 0;
}

/* Detects a rank that brought an array of another length. Such a rank follows another plan and may send to a rank that does not
 * yet read from it, and so on round the group until all wait. Checking early records finds the fault at once. */
int tcp_look(struct tcp_group *group, uint32_t peer, bool closed)
{
    struct tcp_link *link = &group->links[peer];
    uint8_t header[TCP_HEADER_BYTES];
    ssize_t n = closed ? 0 : recv(link->fd, header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return look_closed(group, peer);
    }
    link->looked_ahead = true;
    if (n < TCP_HEADER_BYTES) {
        return 0;
    }
    bool ahead = header_operation(header) > group->operation; /* the peer has finished this collective and is in a later one */
    bool same = header_operation(header) == group->operation && header[4] == group->plan.kind &&
                header[5] == group->plan.algorithm && header[6] == group->type &&
                bytes_get_u64(header + 16) == group->plan.count;
    return is_header(header) && (ahead || same) ? 0 : mismatch(group, peer, header);
}
