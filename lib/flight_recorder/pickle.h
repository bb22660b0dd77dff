// SPDX-License-Identifier: Apache-2.0
// A reader of Python's pickles (protocol 2) for plain values: it knows the opcodes that torch::jit::Pickler writes
// (torch/csrc/jit/serialization/pickler.cpp), and nothing in a pickle makes it call anything.
#pragma once

#include "lib/base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace rdma_nccl::flight_recorder {

/// Limits of a pickle. A file of PyTorch's flight recorder has 2,000 entries of some hundred values each.
inline constexpr std::size_t most_pickle_bytes = std::size_t{64} << 20;
inline constexpr std::size_t most_pickle_values = std::size_t{2} << 20; ///< of all kinds, those in others included
inline constexpr std::size_t most_pickle_places = std::size_t{8} << 20; ///< in lists and dictionaries
inline constexpr std::size_t most_pickle_marks = 256;                   ///< open at a time
inline constexpr std::size_t most_keys_searched = 64;                   ///< of a dictionary; an entry has 25

class PickleValues;

/// One value of a pickle. Values may share parts, and contain themselves: whoever walks them bounds the depth.
/// None, and what is absent, is a value without any content.
class PickleValue {
public:
    PickleValue() = default;

    [[nodiscard]] std::optional<std::int64_t> integer() const;
    [[nodiscard]] std::optional<bool> boolean() const;
    [[nodiscard]] std::optional<std::string_view> text() const;
    /// Of a list or tuple its items, of a dictionary its pairs; else 0.
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] bool is_dictionary() const;
    /// The item of a list or tuple.
    [[nodiscard]] PickleValue item(std::size_t index) const;
    /// A pair of a dictionary.
    [[nodiscard]] PickleValue key(std::size_t index) const;
    [[nodiscard]] PickleValue value(std::size_t index) const;
    /// The last value of a dictionary with this name as its key, as Python has it, among the last `most_keys_searched`.
    [[nodiscard]] PickleValue at(std::string_view name) const;

private:
    friend class Pickle;
    PickleValue(const PickleValues& values, std::uint32_t index) : values_(&values), index_(index) {}
    const PickleValues* values_ = nullptr;
    std::uint32_t index_ = 0;
};

/// The values of a whole pickle.
class Pickle {
public:
    /// Fails for any other opcode, for what no pickle has, and beyond the limits. Takes time and memory in proportion
    /// to the bytes. A call of a function with arguments (GLOBAL, REDUCE) stands for its first argument. `bytes` must
    /// outlive the pickle.
    static Result<Pickle> parse(std::string_view bytes);

    Pickle(Pickle&& other) noexcept;
    Pickle& operator=(Pickle&& other) noexcept;
    Pickle(const Pickle&) = delete;
    Pickle& operator=(const Pickle&) = delete;
    ~Pickle();

    [[nodiscard]] PickleValue root() const;

private:
    Pickle(std::unique_ptr<PickleValues> values, std::uint32_t root);
    std::unique_ptr<PickleValues> values_;
    std::uint32_t root_;
};

} // namespace rdma_nccl::flight_recorder
