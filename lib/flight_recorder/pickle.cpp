// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/pickle.h"

#include "lib/base/format.h"

#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace rdma_nccl::flight_recorder {

static_assert(std::endian::native == std::endian::little);

namespace {

using Index = std::uint32_t;

struct Function {};
enum class ItemsKind : std::uint8_t { List, Tuple, Dictionary };
struct Items {
    ItemsKind kind = ItemsKind::List;
    std::vector<Index> places{}; ///< of a dictionary: key, value, key, value
};
using Content = std::variant<std::monostate, bool, std::int64_t, double, std::string_view, Function, Items>;

} // namespace

/// All values in one list, by which they name each other: so they may share parts, and go without recursion.
class PickleValues {
public:
    [[nodiscard]] const Content& at(Index index) const { return contents_.at(index); }
    template<typename T>
    [[nodiscard]] const T* get(Index index) const {
        return std::get_if<T>(&contents_.at(index));
    }
    Items* items_at(Index index) { return std::get_if<Items>(&contents_.at(index)); }

    std::optional<Index> add(Content content) {
        if (contents_.size() == most_pickle_values) {
            return std::nullopt;
        }
        contents_.push_back(std::move(content));
        return static_cast<Index>(contents_.size() - 1);
    }

private:
    std::vector<Content> contents_;
};

namespace {

/// The machine for which a pickle is the program (Python's Lib/pickletools.py describes each opcode).
class Machine {
public:
    explicit Machine(std::string_view bytes) : all_(bytes), rest_(bytes) {}

    Result<Index> run() {
        if (all_.size() > most_pickle_bytes) {
            return fail(format_text("longer than {}", format_bytes(most_pickle_bytes)));
        }
        while (!stopped_) {
            const auto at = all_.size() - rest_.size();
            if (rest_.empty()) {
                return fail("it ends in the middle");
            }
            const auto opcode = static_cast<unsigned char>(take(1).front());
            if (!obey(opcode)) {
                return fail(format_text("opcode 0x{:02x} at byte {} cannot be read", opcode, at));
            }
        }
        if (stack_.size() != 1 || !rest_.empty()) {
            return fail("more than one value");
        }
        return stack_.front();
    }

    std::unique_ptr<PickleValues> take_values() { return std::move(values_); }

private:
    /// Returns false if it makes no sense here, or is none of those that are known.
    bool obey(unsigned char opcode) {
        switch (opcode) {
        case 0x80:
            return number<std::uint8_t>() == 2; // PROTO
        case '.':
            stopped_ = true;
            return true;
        case '(':
            marks_.push_back(stack_.size());
            return marks_.size() <= most_pickle_marks;
        case 'N':
            return push(std::monostate());
        case 0x88:
            return push(true);
        case 0x89:
            return push(false);
        case 'K':
            return push_integer(number<std::uint8_t>());
        case 'M':
            return push_integer(number<std::uint16_t>());
        case 'J':
            return push_integer(number<std::int32_t>());
        case 0x8a:
            return long_integer();
        case 'G':
            return real();
        case 'X':
            return text();
        case '}':
            return push(Items{ItemsKind::Dictionary});
        case ']':
            return push(Items());
        case ')':
            return push(Items{ItemsKind::Tuple});
        case 0x85:
            return tuple(1);
        case 0x86:
            return tuple(2);
        case 0x87:
            return tuple(3);
        case 't':
            return with_marked([this](std::size_t count) { return tuple(count); });
        case 'a':
            return extend(1, ItemsKind::List);
        case 'e':
            return with_marked([this](std::size_t count) { return extend(count, ItemsKind::List); });
        case 's':
            return extend(2, ItemsKind::Dictionary);
        case 'u':
            return with_marked([this](std::size_t count) { return extend(count, ItemsKind::Dictionary); });
        case 'q':
            return put(number<std::uint8_t>());
        case 'r':
            return put(number<std::uint32_t>());
        case 'h':
            return get(number<std::uint8_t>());
        case 'j':
            return get(number<std::uint32_t>());
        case 'c':
            return function();
        case 'R':
            return call();
        default:
            return false;
        }
    }

    /// Returns fewer bytes where there are fewer.
    std::string_view take(std::size_t count) {
        const auto taken = rest_.substr(0, count);
        rest_.remove_prefix(taken.size());
        return taken;
    }

    template<typename T>
    std::optional<T> number() {
        const auto bytes = take(sizeof(T));
        T value{};
        if (bytes.size() < sizeof value) {
            return std::nullopt;
        }
        std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }

    bool push(Content content) {
        const auto index = values_->add(std::move(content));
        if (index) {
            stack_.push_back(*index);
        }
        return index.has_value();
    }

    template<typename T>
    bool push_integer(std::optional<T> value) {
        return value && push(std::int64_t{*value});
    }

    bool long_integer() {
        const auto length = number<std::uint8_t>();
        std::int64_t value = 0;
        if (!length || *length > sizeof value) {
            return false;
        }
        const auto bytes = take(*length);
        if (bytes.size() == *length && !bytes.empty()) {
            value = (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0 ? -1 : 0; // the sign, in the bytes above
            std::memcpy(&value, bytes.data(), bytes.size());
        }
        return bytes.size() == *length && push(value);
    }

    bool real() {
        const auto bytes = number<std::uint64_t>();
        return bytes && push(std::bit_cast<double>(__builtin_bswap64(*bytes)));
    }

    bool text() {
        const auto length = number<std::uint32_t>();
        return length && *length <= rest_.size() && push(take(*length));
    }

    /// The values on the stack above the last mark.
    [[nodiscard]] std::size_t free_values() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

    bool with_marked(auto work) {
        if (marks_.empty()) {
            return false;
        }
        const auto count = free_values();
        marks_.pop_back();
        return work(count);
    }

    /// Moves the last values of the stack to the end of `items`.
    bool move_values(std::size_t count, std::vector<Index>& items) {
        places_ += count;
        if (count > free_values() || places_ > most_pickle_places) {
            return false;
        }
        const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
        items.insert(items.end(), first, stack_.end());
        stack_.erase(first, stack_.end());
        return true;
    }

    bool tuple(std::size_t count) {
        Items items{ItemsKind::Tuple};
        return move_values(count, items.places) && push(std::move(items));
    }

    /// Adds values to the list, or pairs to the dictionary, below them on the stack.
    bool extend(std::size_t count, ItemsKind kind) {
        if (count >= free_values() || (kind == ItemsKind::Dictionary && count % 2 != 0)) {
            return false;
        }
        auto* const items = values_->items_at(stack_.at(stack_.size() - count - 1));
        return items != nullptr && items->kind == kind && move_values(count, items->places);
    }

    bool put(std::optional<std::uint32_t> place) {
        if (!place || free_values() == 0) {
            return false;
        }
        memo_[*place] = stack_.back();
        return memo_.size() <= most_pickle_values;
    }

    bool get(std::optional<std::uint32_t> place) {
        const auto known = place ? memo_.find(*place) : memo_.end();
        if (known == memo_.end()) {
            return false;
        }
        stack_.push_back(known->second);
        return stack_.size() <= most_pickle_values;
    }

    /// GLOBAL: module and name, each with a newline.
    bool function() {
        for (int i = 0; i < 2; ++i) {
            const auto length = rest_.substr(0, longest_name_).find('\n');
            if (length == std::string_view::npos) {
                return false;
            }
            rest_.remove_prefix(length + 1);
        }
        return push(Function());
    }

    bool call() {
        if (free_values() < 2) {
            return false;
        }
        const auto* const arguments = values_->get<Items>(stack_.back());
        if (values_->get<Function>(stack_.at(stack_.size() - 2)) == nullptr || arguments == nullptr ||
            arguments->kind != ItemsKind::Tuple || arguments->places.empty()) {
            return false;
        }
        stack_.pop_back();
        stack_.back() = arguments->places.front();
        return true;
    }

    static constexpr std::size_t longest_name_ = 200;

    std::string_view all_;
    std::string_view rest_;
    std::unique_ptr<PickleValues> values_ = std::make_unique<PickleValues>();
    std::vector<Index> stack_;
    std::vector<std::size_t> marks_; ///< sizes that the stack had
    std::unordered_map<std::uint32_t, Index> memo_;
    std::size_t places_ = 0;
    bool stopped_ = false;
};

template<typename T>
std::optional<T> content(const PickleValues* values, Index index) {
    const T* const found = values == nullptr ? nullptr : values->get<T>(index);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

const Items* items_of(const PickleValues* values, Index index) {
    return values == nullptr ? nullptr : values->get<Items>(index);
}

} // namespace

std::optional<std::int64_t> PickleValue::integer() const {
    return content<std::int64_t>(values_, index_);
}

std::optional<bool> PickleValue::boolean() const {
    return content<bool>(values_, index_);
}

std::optional<std::string_view> PickleValue::text() const {
    return content<std::string_view>(values_, index_);
}

std::size_t PickleValue::size() const {
    const auto* const items = items_of(values_, index_);
    return items == nullptr ? 0 : items->places.size() / (items->kind == ItemsKind::Dictionary ? 2 : 1);
}

bool PickleValue::is_dictionary() const {
    const auto* const items = items_of(values_, index_);
    return items != nullptr && items->kind == ItemsKind::Dictionary;
}

PickleValue PickleValue::item(std::size_t index) const {
    return is_dictionary() || index >= size() ? PickleValue()
                                              : PickleValue(*values_, items_of(values_, index_)->places[index]);
}

PickleValue PickleValue::key(std::size_t index) const {
    return !is_dictionary() || index >= size() ? PickleValue()
                                               : PickleValue(*values_, items_of(values_, index_)->places[2 * index]);
}

PickleValue PickleValue::value(std::size_t index) const {
    return !is_dictionary() || index >= size()
               ? PickleValue()
               : PickleValue(*values_, items_of(values_, index_)->places[2 * index + 1]);
}

PickleValue PickleValue::at(std::string_view name) const {
    const auto count = is_dictionary() ? size() : 0;
    for (auto i = count; i > 0 && count - i < most_keys_searched; --i) {
        if (key(i - 1).text() == name) {
            return value(i - 1);
        }
    }
    return {};
}

Pickle::Pickle(std::unique_ptr<PickleValues> values, std::uint32_t root) : values_(std::move(values)), root_(root) {}
Pickle::Pickle(Pickle&& other) noexcept = default;
Pickle& Pickle::operator=(Pickle&& other) noexcept = default;
Pickle::~Pickle() = default;

PickleValue Pickle::root() const {
    return {*values_, root_};
}

Result<Pickle> Pickle::parse(std::string_view bytes) {
    Machine machine(bytes);
    const auto root = machine.run();
    if (!root) {
        return tl::unexpected(root.error());
    }
    return Pickle(machine.take_values(), *root);
}

} // namespace rdma_nccl::flight_recorder
