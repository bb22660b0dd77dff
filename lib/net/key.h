// SPDX-License-Identifier: Apache-2.0
// The secret of a step, and the keys derived from it. srun's side makes one for each step; nothing that is public goes
// into it. The cryptography is libsodium's: crypto_kdf (BLAKE2b) derives, getrandom(2) makes.
#pragma once

#include "lib/environment.h"
#include "lib/result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_nccl {

/// 256 bits, wiped when they go.
class Key {
public:
    static constexpr std::size_t size = 32;

    Key() = default;
    Key(const Key&) = default;
    Key& operator=(const Key&) = default;
    ~Key();

    [[nodiscard]] const std::uint8_t* data() const { return bytes_.data(); }
    [[nodiscard]] std::uint8_t* data() { return bytes_.data(); }

    /// Takes the same time wherever the first difference is.
    friend bool operator==(const Key& a, const Key& b);

private:
    std::array<std::uint8_t, size> bytes_{};
};

/// What a derived key is for. A number keeps its meaning: nodes of one step may run different versions.
enum class KeyPurpose : std::uint64_t {
    Exchange = 1,     ///< between slurmstepd and srun
    Reachability = 2, ///< between slurmstepd and the head node's slurmstepd
    Tasks = 3,        ///< handed to the step's tasks; those below are derived from it
    Launchers = 4,    ///< of `rdma-nccl run`
    Pairs = 5,
    Bench = 6,
};

/// libsodium wants it before anything else: it finds the fastest code for this CPU. More than once does no harm, and
/// threads may call it at the same time.
void start_sodium();

/// Nobody else's; nullopt when the kernel has no random bytes.
std::optional<Key> random_key();

/// Does not tell of `key`, nor of keys for other purposes.
Key derive_key(const Key& key, KeyPurpose purpose);

/// 64 hexadecimal digits.
std::string key_text(const Key& key);
/// nullopt for anything else than 64 hexadecimal digits.
std::optional<Key> parse_key(std::string_view text);

/// In the environment that slurmstepd gets from srun; never in that of tasks. Its name starts with SLURM so that
/// --export=NONE keeps it (env_array_merge_slurm_spank).
inline constexpr std::string_view step_key_variable = "SLURM_RDMA_NCCL_KEY";

/// The key that the plugin gave the step's tasks, or a user all processes of a run (RDMA_NCCL_TOKEN); from it come
/// those of the launchers, of pairs and of bench. Fails when there is none, and says what to do.
Result<Key> tasks_key(const Environment& environment);

} // namespace rdma_nccl
