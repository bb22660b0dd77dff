// SPDX-License-Identifier: Apache-2.0
#include "lib/net/session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace rdma_nccl {

namespace {

constexpr std::string_view magic = "RDMANCL2";
constexpr std::size_t nonce_size = 32;
constexpr std::size_t header_size = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t overhead = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr std::size_t length_size = 2;
constexpr std::size_t largest_chunk = std::size_t{16} << 10;
constexpr std::size_t enough_output = 2 * largest_chunk; // then the socket gets its turn

static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == Key::size);

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) {
    return reinterpret_cast<unsigned char*>(text.data());
}

template<typename Bytes>
std::string_view text_of(const Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_passing(int code) {
    return code == EAGAIN || code == EINTR;
}

} // namespace

Session::Session(Role role, const Key& key, std::string_view context, std::size_t longest_message)
    : role_(role), key_(key), context_(context), longest_(longest_message),
      stage_(role == Role::Coordinator ? Stage::AwaitsHello : Stage::AwaitsStream) {
    start_sodium();
    randombytes_buf(nonce_.data(), nonce_.size());
    if (role == Role::Worker) {
        output_ = std::string(magic).append(text_of(nonce_));
    }
}

bool Session::receive(std::string_view bytes) {
    while (!bytes.empty()) {
        const bool good = stage_ == Stage::AwaitsHello    ? take_hello(bytes)
                          : stage_ == Stage::AwaitsStream ? take_stream(bytes)
                                                          : take_frame(bytes);
        if (!good) {
            return false;
        }
    }
    return true;
}

std::optional<std::string> Session::gather(std::string_view& bytes, std::size_t count) {
    const auto wanted = std::min(bytes.size(), count - std::min(partial_.size(), count));
    partial_ += bytes.substr(0, wanted);
    bytes.remove_prefix(wanted);
    if (partial_.size() < count) {
        return std::nullopt;
    }
    return std::exchange(partial_, {}); // frees the memory: a coordinator has thousands of sessions
}

bool Session::take_hello(std::string_view& bytes) {
    const auto hello = gather(bytes, magic.size() + nonce_size);
    if (!hello) {
        return magic.starts_with(std::string_view(partial_).substr(0, magic.size()));
    }
    if (!hello->starts_with(magic)) {
        return false;
    }
    Nonce worker{};
    std::memcpy(worker.data(), hello->data() + magic.size(), nonce_size);
    output_ = text_of(nonce_);
    derive_keys(worker, nonce_);
    start_output();
    stage_ = Stage::AwaitsStream;
    return true;
}

/// Takes the other side's stream header. A coordinator sends its nonce before it.
bool Session::take_stream(std::string_view& bytes) {
    const std::size_t skipped = role_ == Role::Worker ? nonce_size : 0;
    const auto text = gather(bytes, skipped + header_size);
    if (!text) {
        return true;
    }
    if (role_ == Role::Worker) {
        Nonce coordinator{};
        std::memcpy(coordinator.data(), text->data(), nonce_size);
        derive_keys(nonce_, coordinator);
    }
    stage_ = Stage::AwaitsProof;
    return crypto_secretstream_xchacha20poly1305_init_pull(&in_, bytes_of(*text) + skipped, key_.data()) == 0;
}

bool Session::take_frame(std::string_view& bytes) {
    std::size_t size = overhead; // until the length has arrived: the smallest frame, which is a proof
    if (partial_.size() >= length_size || partial_.size() + bytes.size() >= length_size) {
        const auto at = [&](std::size_t i) {
            return static_cast<unsigned char>(i < partial_.size() ? partial_[i] : bytes[i - partial_.size()]);
        };
        size = at(0) * 256U + at(1);
    }
    const std::size_t most = stage_ == Stage::Open ? overhead + std::min(largest_chunk, longest_) : overhead;
    if (size < overhead || size > most) {
        return false;
    }
    const auto frame = gather(bytes, length_size + size);
    if (!frame) {
        return true;
    }
    std::string chunk(size - overhead, '\0');
    unsigned char tag = 0;
    if (crypto_secretstream_xchacha20poly1305_pull(&in_, bytes_of(chunk), nullptr, &tag,
                                                   bytes_of(std::string_view(*frame)) + length_size, size, nullptr,
                                                   0) != 0) {
        return false;
    }
    if (stage_ == Stage::Open) {
        return take_chunk(chunk, FrameTag{tag});
    }
    if (FrameTag{tag} != FrameTag::Last) {
        return false;
    }
    stage_ = Stage::Open;
    if (role_ == Role::Worker) {
        start_output();
    }
    return true;
}

bool Session::take_chunk(std::string_view chunk, FrameTag tag) {
    if (chunk.size() > longest_ - message_.size() || (tag != FrameTag::More && tag != FrameTag::Last)) {
        return false;
    }
    message_ += chunk;
    if (tag == FrameTag::Last) {
        messages_.push_back(std::exchange(message_, {}));
    }
    return true;
}

std::optional<std::string> Session::next_message() {
    if (messages_.empty()) {
        return std::nullopt;
    }
    auto message = std::move(messages_.front());
    messages_.pop_front();
    return message;
}

void Session::derive_keys(const Nonce& worker, const Nonce& coordinator) {
    crypto_generichash_state hash;
    std::array<std::uint8_t, 2 * Key::size> keys{};
    (void)crypto_generichash_init(&hash, key_.data(), Key::size, keys.size());
    for (const auto part : {magic, text_of(worker), text_of(coordinator), std::string_view(context_)}) {
        (void)crypto_generichash_update(&hash, bytes_of(part), part.size());
    }
    (void)crypto_generichash_final(&hash, keys.data(), keys.size());
    const bool sends_first = role_ == Role::Worker; // workers send with the first half
    std::memcpy(send_key_.data(), keys.data() + (sends_first ? 0 : Key::size), Key::size);
    std::memcpy(key_.data(), keys.data() + (sends_first ? Key::size : 0), Key::size);
    sodium_memzero(keys.data(), keys.size());
    context_ = std::string();
}

void Session::start_output() {
    std::array<std::uint8_t, header_size> header{};
    (void)crypto_secretstream_xchacha20poly1305_init_push(&out_, header.data(), send_key_.data());
    output_ += text_of(header);
    write_frame({}, FrameTag::Last);
    may_send_ = true;
}

std::string_view Session::output() {
    if (output_begin_ == output_.size()) {
        output_ = std::string();
        output_begin_ = 0;
        // A coordinator's stream begins before the worker's proof: until then only our own proof may go out.
        if (may_send_ && is_proven()) {
            encrypt_some();
        }
    }
    return std::string_view(output_).substr(output_begin_);
}

void Session::encrypt_some() {
    while (!queue_.empty() && output_.size() < enough_output) {
        const std::string_view left = std::string_view(*queue_.front()).substr(queue_begin_);
        const auto chunk = left.substr(0, largest_chunk);
        const bool last = chunk.size() == left.size();
        write_frame(chunk, last ? FrameTag::Last : FrameTag::More);
        queued_ -= chunk.size();
        queue_begin_ = last ? 0 : queue_begin_ + chunk.size();
        if (last) {
            queue_.pop_front();
        }
    }
}

void Session::write_frame(std::string_view chunk, FrameTag tag) {
    const std::size_t size = chunk.size() + overhead;
    const std::size_t begin = output_.size() + length_size;
    output_ += static_cast<char>(size >> 8U);
    output_ += static_cast<char>(size & 0xffU);
    output_.resize(begin + size);
    (void)crypto_secretstream_xchacha20poly1305_push(&out_, bytes_of(output_) + begin, nullptr, bytes_of(chunk),
                                                     chunk.size(), nullptr, 0, static_cast<unsigned char>(tag));
}

bool Connection::end(std::string why) {
    if (why_over_.empty()) {
        why_over_ = std::move(why);
    }
    return false;
}

bool Connection::read() {
    constexpr int most_reads = 4;
    std::array<char, 65536> bytes; // NOLINT(cppcoreguidelines-pro-type-member-init): recv(2) fills it
    for (int i = 0; i < most_reads; ++i) {
        const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
        if (count < 0 && is_passing(errno)) {
            return true;
        }
        if (count <= 0) {
            return end(count == 0 ? "it has closed the connection" : std::strerror(errno));
        }
        if (!session_.receive({bytes.data(), static_cast<std::size_t>(count)})) {
            return end(session_.is_proven() ? "it breaks the protocol" : "it does not have the key of this step");
        }
        if (static_cast<std::size_t>(count) < bytes.size()) {
            return true;
        }
    }
    return true;
}

bool Connection::write() {
    for (auto bytes = session_.output(); !bytes.empty(); bytes = session_.output()) {
        const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count < 0) {
            return is_passing(errno) || end(std::strerror(errno));
        }
        session_.written(static_cast<std::size_t>(count));
    }
    return true;
}

} // namespace rdma_nccl
