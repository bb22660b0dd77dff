// SPDX-License-Identifier: Apache-2.0
#include "lib/net/key.h"

#include "lib/base/format.h"

#include <sodium.h>
#include <sys/random.h>

namespace rdma_nccl {

Key::~Key() {
    sodium_memzero(bytes_.data(), bytes_.size());
}

bool operator==(const Key& a, const Key& b) {
    return sodium_memcmp(a.data(), b.data(), Key::size) == 0;
}

void start_sodium() {
    static const int started = sodium_init();
    (void)started; // -1 only without any source of random bytes, and then random_key() has failed before
}

std::optional<Key> random_key() {
    Key key;
    if (::getrandom(key.data(), Key::size, 0) != static_cast<ssize_t>(Key::size)) {
        return std::nullopt;
    }
    return key;
}

Key derive_key(const Key& key, KeyPurpose purpose) {
    static_assert(crypto_kdf_KEYBYTES == Key::size);
    start_sodium();
    Key derived;
    constexpr const char* context = "rdmanccl"; // of size crypto_kdf_CONTEXTBYTES
    (void)crypto_kdf_derive_from_key(derived.data(), Key::size, static_cast<std::uint64_t>(purpose), context,
                                     key.data());
    return derived;
}

std::string key_text(const Key& key) {
    std::array<char, 2 * Key::size + 1> text{};
    (void)sodium_bin2hex(text.data(), text.size(), key.data(), Key::size);
    std::string result(text.data(), text.size() - 1);
    sodium_memzero(text.data(), text.size());
    return result;
}

std::optional<Key> parse_key(std::string_view text) {
    Key key;
    std::size_t length = 0;
    if (text.size() != 2 * Key::size ||
        sodium_hex2bin(key.data(), Key::size, text.data(), text.size(), nullptr, &length, nullptr) != 0 ||
        length != Key::size) {
        return std::nullopt;
    }
    return key;
}

Result<Key> tasks_key(const Environment& environment) {
    const auto text = environment.get(token_variable).value_or("");
    const auto key = parse_key(text);
    if (!key) {
        return fail(format_text("{} {}: by it the nodes know each other; start the step with srun --rdma-nccl, or set "
                                "it to the same 64 hexadecimal digits everywhere: openssl rand -hex 32",
                                token_variable, text.empty() ? "is not set" : "is not 64 hexadecimal digits"));
    }
    return *key;
}

} // namespace rdma_nccl
