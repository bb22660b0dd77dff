// SPDX-License-Identifier: Apache-2.0
// The protection of one connection: Session, which has no socket, turns received bytes into messages and messages into
// bytes to send. A worker connects, a coordinator listens. Both prove that they have the key before they send anything
// else. Every frame is encrypted, authenticated, and bound to its purpose (the key), its direction and its number. An
// eavesdropper therefore cannot read frames, replay or reorder them, or relay them to another purpose.
//
//   worker       magic (8 bytes), random nonce (32)
//   coordinator  random nonce (32), stream header (24), frames; the first is empty and proves the key
//   worker       stream header (24), frames; the first is empty and proves the key
//
// A frame is its length in two bytes (big-endian) and an element of libsodium's secretstream (XChaCha20-Poly1305) of at
// most 16 KiB. A message is one or more frames; the last one has the tag PUSH. Each direction has its own key: BLAKE2b
// of the magic, both nonces and the context, keyed with the shared key.
#pragma once

#include "lib/base/unique_fd.h"
#include "lib/net/key.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <sodium.h>
#include <utility>

namespace rdma_nccl {

using SharedBody = std::shared_ptr<const std::string>;

class Session {
public:
    enum class Role { Worker, Coordinator };

    /// Both sides must give the same key and context, e.g. the address that was dialled. `longest_message`: limit of an
    /// incoming message, in bytes.
    Session(Role role, const Key& key, std::string_view context, std::size_t longest_message);

    /// Takes bytes from the wire. Returns false if the other side does not have the key or breaks the protocol: close
    /// the connection then, and do not call this object again.
    [[nodiscard]] bool receive(std::string_view bytes);
    /// Returns true if the other side has proved that it has the key.
    [[nodiscard]] bool is_proven() const { return stage_ == Stage::Open; }
    /// Returns the next whole message, in order of arrival.
    std::optional<std::string> next_message();

    /// Messages wait until the other side is proven. Many sessions may share a body: it is encrypted piece by piece as
    /// the socket accepts data.
    void send(SharedBody body) {
        queued_ += body->size();
        queue_.push_back(std::move(body));
    }
    /// Returns the bytes to write next, empty if there are none. Valid until the next call.
    [[nodiscard]] std::string_view output();
    void written(std::size_t count) { output_begin_ += count; }
    /// Returns the bytes that wait to be written, encrypted or not.
    [[nodiscard]] std::size_t unsent() const { return queued_ + output_.size() - output_begin_; }

private:
    enum class Stage { AwaitsHello, AwaitsStream, AwaitsProof, Open };
    enum class FrameTag : unsigned char {
        More = crypto_secretstream_xchacha20poly1305_TAG_MESSAGE,
        Last = crypto_secretstream_xchacha20poly1305_TAG_PUSH, ///< of a message
    };
    using Nonce = std::array<std::uint8_t, 32>;
    using Stream = crypto_secretstream_xchacha20poly1305_state;

    bool take_hello(std::string_view& bytes);
    bool take_stream(std::string_view& bytes);
    bool take_frame(std::string_view& bytes);
    bool take_chunk(std::string_view chunk, FrameTag tag);
    /// Returns the next `count` bytes once they have all arrived. Until then keeps the partial input.
    std::optional<std::string> gather(std::string_view& bytes, std::size_t count);
    void derive_keys(const Nonce& worker, const Nonce& coordinator);
    void start_output();
    void write_frame(std::string_view chunk, FrameTag tag);
    void encrypt_some();

    Role role_;
    Key key_; ///< the shared key, later the key of the incoming stream
    Key send_key_;
    std::string context_;
    std::size_t longest_;
    Stage stage_;
    Nonce nonce_{};
    Stream in_{};
    Stream out_{};
    bool may_send_ = false; ///< the outgoing stream has begun
    std::string partial_;   ///< input that gather() waits to complete
    std::string message_;   ///< chunks of an incomplete message
    std::deque<std::string> messages_;
    std::deque<SharedBody> queue_;
    std::size_t queued_ = 0;      ///< bytes of queue_ after queue_begin_
    std::size_t queue_begin_ = 0; ///< position in the first body of queue_
    std::string output_;
    std::size_t output_begin_ = 0;
};

/// A TCP connection with its session. No function blocks.
class Connection {
public:
    /// `socket` must be non-blocking.
    Connection(UniqueFd socket, Session session) : socket_(std::move(socket)), session_(std::move(session)) {}

    /// Reads what has arrived, up to a limit, so that a fast sender does not delay all others. Returns false when the
    /// connection is over; messages received before that remain available.
    bool read();
    /// Writes what the socket accepts now. Returns false when the connection is over.
    bool write();
    /// Returns the reason why the connection is over.
    [[nodiscard]] const std::string& why_over() const { return why_over_; }

    void send(SharedBody body) { session_.send(std::move(body)); }
    std::optional<std::string> next_message() { return session_.next_message(); }
    [[nodiscard]] bool is_proven() const { return session_.is_proven(); }
    /// Returns true if write() has data to send once the socket accepts more.
    [[nodiscard]] bool wants_to_write() { return !session_.output().empty(); }
    [[nodiscard]] std::size_t unsent() const { return session_.unsent(); }
    [[nodiscard]] int fd() const { return socket_.get(); }
    /// Gives up the socket without closing it: for a process that does not own the descriptor's number.
    void forget() { (void)socket_.release(); }

private:
    bool end(std::string why);

    UniqueFd socket_;
    Session session_;
    std::string why_over_;
};

} // namespace rdma_nccl
