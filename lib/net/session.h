// SPDX-License-Identifier: Apache-2.0
// One connection's protection, without its socket: bytes in, messages out, and the other way. A worker connects, a
// coordinator listens; both prove that they have the key before anything else is said, and every frame is encrypted,
// authenticated, and bound to its purpose (the key), its direction and its number. So what a stranger hears can be
// neither read nor repeated, relayed to another purpose, or reordered.
//
//   worker       magic (8 bytes), random nonce (32)
//   coordinator  random nonce (32), stream header (24), frames; the first is empty and proves the key
//   worker       stream header (24), frames; the first is empty and proves the key
//
// A frame is its length in two bytes, the higher first, and an element of libsodium's secretstream (XChaCha20-Poly1305)
// of at most 16 KiB. A message is one or several of them; the last has the tag PUSH. Each direction has its own key:
// BLAKE2b of the magic, both nonces and the context, under the shared key.
#pragma once

#include "lib/net/key.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <sodium.h>
#include <string>
#include <string_view>

namespace rdma_nccl {

using SharedBody = std::shared_ptr<const std::string>;

class Session {
public:
    enum class Role { Worker, Coordinator };

    /// Both sides give the same key and context, e.g. the address that was dialled. No message that comes in may be
    /// longer than `longest_message` bytes.
    Session(Role role, const Key& key, std::string_view context, std::size_t longest_message);

    /// Takes what has come over the wire. False: the other side does not have the key, or breaks the rules; the
    /// connection is to be closed, and nothing more is to be asked of this.
    [[nodiscard]] bool receive(std::string_view bytes);
    /// Whether the other side has proved that it has the key.
    [[nodiscard]] bool is_proven() const { return stage_ == Stage::Open; }
    /// The next whole message, in their order.
    std::optional<std::string> next_message();

    /// Messages wait until the other side is proven. Bodies may be shared by many sessions: they are encrypted piece by
    /// piece as the socket takes them.
    void send(SharedBody body);
    /// What is to be written next; empty: nothing. Valid until the next call.
    [[nodiscard]] std::string_view output();
    void written(std::size_t count) { output_begin_ += count; }
    /// Bytes of messages that are not yet encrypted, and of those that are and wait.
    [[nodiscard]] std::size_t unsent() const { return queued_ + output_.size() - output_begin_; }

private:
    enum class Stage { AwaitsHello, AwaitsStream, AwaitsProof, Open };
    using Nonce = std::array<std::uint8_t, 32>;
    using Stream = crypto_secretstream_xchacha20poly1305_state;

    bool take_hello(std::string_view& bytes);
    bool take_stream(std::string_view& bytes);
    bool take_frame(std::string_view& bytes);
    bool take_chunk(std::string_view chunk, unsigned char tag);
    /// The next `count` bytes once they are all there; what is missing is kept for the next time.
    std::optional<std::string> gather(std::string_view& bytes, std::size_t count);
    void derive_keys(const Nonce& worker, const Nonce& coordinator);
    void start_output();
    void write_frame(std::string_view chunk, bool last);
    void encrypt_some();

    Role role_;
    Key key_; ///< the shared one, then that of what comes in
    Key send_key_;
    std::string context_;
    std::size_t longest_;
    Stage stage_;
    Nonce nonce_{};
    Stream in_{};
    Stream out_{};
    bool may_send_ = false; ///< the output's stream has begun
    std::string partial_;   ///< of what gather() waits for
    std::string message_;   ///< chunks of one that is not whole yet
    std::deque<std::string> messages_;
    std::deque<SharedBody> queue_;
    std::size_t queued_ = 0;      ///< bytes of queue_ behind queue_begin_
    std::size_t queue_begin_ = 0; ///< of the first in queue_
    std::string output_;
    std::size_t output_begin_ = 0;
};

} // namespace rdma_nccl
