// SPDX-License-Identifier: Apache-2.0
// The secret key of a step, and the keys derived from it. srun's side makes a random one for each step, from no public
// data. libsodium's crypto_kdf (BLAKE2b) derives keys; getrandom(2) makes the random ones.
#pragma once

#include "lib/base/result.h"
#include "lib/sys/environment.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// 256 bits, wiped on destruction.
class Key {
public:
    static constexpr std::size_t size = 32;

    Key() = default;
    Key(const Key&) = default;
    Key& operator=(const Key&) = default;
    ~Key();

    [[nodiscard]] const std::uint8_t* data() const { return bytes_.data(); }
    [[nodiscard]] std::uint8_t* data() { return bytes_.data(); }

    /// Takes constant time.
    friend bool operator==(const Key& a, const Key& b);

private:
    std::array<std::uint8_t, size> bytes_{};
};

/// The purpose of a derived key. Never change a number's meaning: nodes of one step may run different versions.
enum class KeyPurpose : std::uint64_t {
    Exchange = 1,     ///< between slurmstepd and srun
    Reachability = 2, ///< between slurmstepd and the head node's slurmstepd
    Tasks = 3,        ///< given to the step's tasks; the keys below are derived from it
    Launchers = 4,    ///< for `rdma-nccl run`
    Pairs = 5,
    Bench = 6,
};

/// Initializes libsodium, which must happen before any other use: it selects the fastest code for this CPU. May be
/// called more than once and from several threads at the same time.
void start_sodium();

/// Returns a new random key, or nullopt if the kernel has no random bytes.
std::optional<Key> random_key();

/// Returns a key that reveals nothing about `key` or about keys for other purposes.
Key derive_key(const Key& key, KeyPurpose purpose);

/// Returns 64 hexadecimal digits.
std::string key_text(const Key& key);
/// Returns nullopt unless the text is 64 hexadecimal digits.
std::optional<Key> parse_key(std::string_view text);

/// Set in the environment that slurmstepd gets from srun, never in that of tasks. The name starts with SLURM so that
/// --export=NONE keeps it (env_array_merge_slurm_spank).
inline constexpr std::string_view step_key_variable = "SLURM_RDMA_NCCL_KEY";

/// Returns the key in RDMA_NCCL_TOKEN, which the plugin gives to the step's tasks, or a user to all processes of a run.
/// The keys for launchers, pairs and bench are derived from it. Fails if there is none, with a remedy.
Result<Key> tasks_key(const Environment& environment);

} // namespace rdma_nccl
