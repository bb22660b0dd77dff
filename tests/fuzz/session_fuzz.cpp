// SPDX-License-Identifier: Apache-2.0
// The frames of a connection between nodes: a stranger's bytes to both roles before and behind their proofs, and what
// somebody on the way can do to the frames of two who have the key. Without the key nothing is proven and no message
// comes out; with it come those that were sent, in their order, up to the first that was changed.
#include "lib/net/session.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace rdma_nccl;
using fuzz::require;

namespace {

constexpr std::size_t longest = 20'000; // two frames

/// Numbers and bytes of the input, and zeros behind its end.
class Input {
public:
    explicit Input(std::string_view bytes) : bytes_(bytes) {}

    std::size_t byte() {
        if (bytes_.empty()) {
            return 0;
        }
        const auto value = static_cast<unsigned char>(bytes_.front());
        bytes_.remove_prefix(1);
        return value;
    }
    std::size_t number() {
        const auto high = byte();
        return high * 256 + byte();
    }
    std::string_view take(std::size_t count) {
        const auto part = bytes_.substr(0, count);
        bytes_.remove_prefix(part.size());
        return part;
    }
    [[nodiscard]] bool is_over() const { return bytes_.empty(); }

private:
    std::string_view bytes_;
};

std::string drain(Session& session) {
    std::string bytes;
    for (auto part = session.output(); !part.empty(); part = session.output()) {
        bytes += part;
        session.written(part.size());
    }
    return bytes;
}

bool receive_in_pieces(Session& session, std::string_view bytes, std::size_t piece) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
        if (!session.receive(bytes.substr(0, piece))) {
            return false;
        }
    }
    return true;
}

struct Pair {
    Session worker{Session::Role::Worker, Key(), "fuzz", longest};
    Session coordinator{Session::Role::Coordinator, Key(), "fuzz", longest};

    void shake_hands() {
        require(coordinator.receive(drain(worker)), "a hello");
        require(worker.receive(drain(coordinator)), "the proof of a coordinator");
        require(coordinator.receive(drain(worker)), "the proof of a worker");
        require(worker.is_proven() && coordinator.is_proven(), "both have proved it");
    }
};

/// Who does not have the key says anything, to one who has not heard the proof yet, or has.
void check_stranger(std::string_view bytes, std::size_t piece) {
    constexpr std::size_t answer = 32 + 24 + 2 + 17;
    Pair fresh;
    fresh.coordinator.send(std::make_shared<const std::string>("secret"));
    fresh.worker.send(std::make_shared<const std::string>("secret"));
    for (auto* const session : {&fresh.coordinator, &fresh.worker}) {
        (void)receive_in_pieces(*session, bytes, piece);
        require(!session->is_proven() && !session->next_message(), "nothing is proven to a stranger");
        require(drain(*session).size() <= answer, "a stranger hears the proof at most");
    }
    Pair proven;
    proven.shake_hands();
    for (auto* const session : {&proven.coordinator, &proven.worker}) {
        (void)receive_in_pieces(*session, bytes, piece);
        require(!session->next_message(), "no message of a stranger");
    }
}

/// Changes the bytes as the input says.
void tamper(std::string& bytes, Input& input) {
    for (unsigned changes = 0; changes < 8 && !input.is_over() && !bytes.empty(); ++changes) {
        const auto what = input.byte() % 6;
        const auto place = input.number() % bytes.size();
        const auto count = input.byte() + 1;
        switch (what) {
        case 0:
            bytes[place] = static_cast<char>(bytes[place] ^ static_cast<char>(1U << count % 8));
            break;
        case 1:
            bytes.erase(place, count);
            break;
        case 2:
            bytes.insert(place, input.take(count));
            break;
        case 3: // again
            bytes.insert(place, bytes.substr(place, count));
            break;
        case 4:
            bytes.resize(place);
            break;
        default: // in another order
            std::rotate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(place), bytes.end());
        }
    }
}

/// What `from` sends to `to` over a line that the input has in its hands.
void check_line(Session& from, Session& to, Input input, std::size_t piece) {
    std::vector<std::string> sent;
    const auto messages = input.byte() % 5;
    for (std::size_t i = 0; i < messages; ++i) {
        const bool is_long = input.byte() % 32 == 0; // more than a frame takes long to encrypt
        const auto size = is_long ? input.number() % (longest + 2000) : input.byte() * 2;
        const auto seed = input.take(16);
        std::string body(seed);
        body.resize(std::max(size, body.size()), 'x');
        sent.push_back(body);
        from.send(std::make_shared<const std::string>(std::move(body)));
    }
    require(messages == 0 || from.unsent() > 0 || sent.back().empty(), "messages wait");
    auto bytes = drain(from);
    require(from.unsent() == 0, "nothing is left");
    const auto whole = bytes;
    tamper(bytes, input);
    const bool good = receive_in_pieces(to, bytes, piece);
    const auto too_long =
        std::find_if(sent.begin(), sent.end(), [](const auto& body) { return body.size() > longest; });
    std::size_t come = 0;
    while (const auto message = to.next_message()) {
        require(come < sent.size() && *message == sent[come], "the messages that were sent, in their order");
        require(message->size() <= longest, "no message beyond the limit");
        ++come;
    }
    if (bytes == whole) {
        require(good == (too_long == sent.end()), "good frames are taken, up to a message that is too long");
        require(come == static_cast<std::size_t>(too_long - sent.begin()), "all messages up to it have come");
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input({reinterpret_cast<const char*>(data), size});
    constexpr std::array<std::size_t, 4> pieces = {1, 7, 1000, SIZE_MAX};
    const auto piece = pieces.at(input.byte() % pieces.size());
    Input rest = input;
    check_stranger(rest.take(SIZE_MAX), piece);
    Pair forth;
    forth.shake_hands();
    check_line(forth.worker, forth.coordinator, input, piece);
    Pair back;
    back.shake_hands();
    check_line(back.coordinator, back.worker, input, piece);
    return 0;
}
