// SPDX-License-Identifier: Apache-2.0
// A JSON value. Only json.cpp includes nlohmann/json, which parses and prints: its header would dominate the compile
// time of every file that includes it.
#pragma once

#include "lib/base/lists.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rdma_nccl {

class Json;
struct JsonItem;
struct JsonMember;

/// Thrown when a value is missing or does not have the type that the caller asks for.
struct JsonError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template<typename T>
concept JsonText = std::convertible_to<T, std::string_view>;

template<typename T>
concept HasMappedType = requires {
    typename T::mapped_type;
};
template<typename T>
concept HasItems = requires(const T& items) {
    typename T::value_type;
    items.begin();
};

/// A map from names to values becomes an object.
template<typename T>
concept JsonMap = HasMappedType<T> && std::constructible_from<Json, const typename T::mapped_type&>;

/// Any other container becomes an array.
template<typename T>
concept JsonList = HasItems<T> && !HasMappedType<T> && !JsonText<T> && !std::same_as<typename T::value_type, char> &&
                   std::constructible_from<Json, const typename T::value_type&>;

template<typename T>
concept JsonValue = std::constructible_from<Json, const T&>;

template<typename T>
concept JsonUnsigned = std::unsigned_integral<T> && !std::same_as<T, bool>;

/// A JSON value: null, a boolean, a number, a string, an array, or an object. An object keeps its members in the order
/// in which they were added. Access as the wrong type throws JsonError: check untrusted input with is_...() first.
class Json {
public:
    Json() noexcept;
    Json(std::nullptr_t); // NOLINTBEGIN(google-explicit-constructor,hicpp-explicit-conversions): Json is a sum type
    Json(std::string value) : Json(Leaf(std::move(value))) {}
    template<JsonText T>
    Json(const T& value) : Json(std::string(std::string_view(value))) {}
    template<std::same_as<bool> T>
    Json(T value) : Json(Leaf(value)) {}
    template<std::floating_point T>
    Json(T value) : Json(Leaf(double{value})) {}
    template<JsonUnsigned T>
    Json(T value) : Json(Leaf(std::uint64_t{value})) {}
    template<std::signed_integral T>
    Json(T value) : Json(value < 0 ? Leaf(std::int64_t{value}) : Leaf(static_cast<std::uint64_t>(value))) {}
    /// Null if there is no value.
    template<JsonValue T>
    Json(const std::optional<T>& value) {
        if (value) {
            *this = Json(*value);
        }
    }
    template<JsonMap T>
    Json(const T& map) : Json(object(members_of(map))) {}
    template<JsonList T>
    Json(const T& items) : Json(array(std::vector<Json>(items.begin(), items.end()))) {}
    /// Makes an object: {{"name", value}, ...}
    Json(std::initializer_list<JsonItem> members); // NOLINTEND(google-explicit-constructor,hicpp-explicit-conversions)

    Json(const Json& other);
    Json(Json&& other) noexcept;
    Json& operator=(Json other) noexcept; ///< by value, because `other` may be a part of this value
    ~Json();

    static Json array(std::vector<Json> items = {});
    static Json object();
    /// The members must have different names.
    static Json object(std::vector<JsonMember> members);

    [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
    [[nodiscard]] bool is_boolean() const { return std::holds_alternative<bool>(value_); }
    [[nodiscard]] bool is_number() const {
        return std::holds_alternative<std::uint64_t>(value_) || std::holds_alternative<std::int64_t>(value_) ||
               std::holds_alternative<double>(value_);
    }
    [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(value_); }
    [[nodiscard]] bool is_array() const { return std::holds_alternative<std::vector<Json>>(value_); }
    [[nodiscard]] bool is_object() const { return std::holds_alternative<std::vector<JsonMember>>(value_); }

    /// Returns a bool, a number (integers must be in the range of T), a std::string, or a std::vector of one of them.
    template<typename T>
    [[nodiscard]] T get() const;
    /// Returns nullopt if the value is not an integer or is out of the range of T.
    template<std::integral T>
    [[nodiscard]] std::optional<T> integer() const {
        if (const auto* const number = std::get_if<std::uint64_t>(&value_)) {
            return std::in_range<T>(*number) ? std::optional(static_cast<T>(*number)) : std::nullopt;
        }
        const auto* const number = std::get_if<std::int64_t>(&value_);
        return number && std::in_range<T>(*number) ? std::optional(static_cast<T>(*number)) : std::nullopt;
    }
    [[nodiscard]] const std::string& text() const;

    /// Returns the number of items or members, and 0 for anything that is not an array or object.
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] bool empty() const { return size() == 0; }

    /// For arrays.
    [[nodiscard]] const Json* begin() const { return items().data(); }
    [[nodiscard]] const Json* end() const { return begin() + items().size(); }
    [[nodiscard]] const std::vector<Json>& items() const;
    [[nodiscard]] const Json& at(std::size_t index) const;
    [[nodiscard]] const Json& operator[](std::size_t index) const { return at(index); }
    [[nodiscard]] Json& operator[](std::size_t index);
    void push_back(Json item) { emplace_back() = std::move(item); } ///< turns null into []
    Json& emplace_back();                                           ///< appends null, to be filled; turns null into []

    /// For objects.
    [[nodiscard]] const std::vector<JsonMember>& members() const;
    [[nodiscard]] const Json* find(std::string_view name) const; ///< nullptr: no such member, or not an object
    [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
    [[nodiscard]] const Json& at(std::string_view name) const;
    [[nodiscard]] const Json& operator[](std::string_view name) const { return at(name); }
    [[nodiscard]] Json& operator[](std::string_view name); ///< adds a missing member; turns null into an object
    /// Returns the member's value, or `otherwise` if it is missing or this is not an object.
    template<typename T>
    [[nodiscard]] T value(std::string_view name, T otherwise) const {
        const auto* const found = find(name);
        return found ? found->get<T>() : otherwise;
    }
    [[nodiscard]] std::string value(std::string_view name, const char* otherwise) const;
    void update(const Json& other); ///< sets each member of `other` here
    void erase(std::string_view name);

    /// The order of an object's members does not matter.
    friend bool operator==(const Json& one, const Json& other);

    enum class NotUtf8 { Replaced, LeftOut };
    friend std::ostream& operator<<(std::ostream& out, const Json& json);

    /// Returns the JSON text in ASCII, on one line unless `indent` is given.
    [[nodiscard]] std::string dump(int indent = -1, NotUtf8 bytes = NotUtf8::Replaced) const;

    /// Returns nullopt if the text is not JSON or is nested deeper than `deepest`. The last of several members with the
    /// same name counts.
    static std::optional<Json> parse(std::string_view text, unsigned deepest = 64);

private:
    using Leaf = std::variant<bool, std::uint64_t, std::int64_t, double, std::string>;
    explicit Json(Leaf leaf);
    template<typename T>
    [[nodiscard]] const T& as(const char* wanted) const; // in json.cpp
    [[nodiscard]] bool as_bool() const;
    [[nodiscard]] double as_double() const;
    [[noreturn]] static void throw_kind(const char* wanted);
    template<JsonMap T>
    static std::vector<JsonMember> members_of(const T& map);

    std::variant<std::monostate, bool, std::uint64_t, std::int64_t, double, std::string, std::vector<Json>,
                 std::vector<JsonMember>>
        value_;
};

/// An item of Json's initializer list, which moves from `value`.
struct JsonItem {
    JsonItem(std::string_view its_name, Json its_value) : name(its_name), value(std::move(its_value)) {}

    std::string_view name;
    mutable Json value;
};

struct JsonMember {
    std::string name;
    Json value;

    friend bool operator==(const JsonMember&, const JsonMember&) = default;
};

template<JsonMap T>
std::vector<JsonMember> Json::members_of(const T& map) {
    return mapped(map, [](const auto& entry) { return JsonMember{std::string(entry.first), Json(entry.second)}; });
}

template<typename T>
T Json::get() const {
    if constexpr (std::same_as<T, Json>) {
        return *this;
    } else if constexpr (std::same_as<T, bool>) {
        return as_bool();
    } else if constexpr (std::integral<T>) {
        const auto number = integer<T>();
        if (!number) {
            throw_kind("an integer within its range");
        }
        return *number;
    } else if constexpr (std::floating_point<T>) {
        return static_cast<T>(as_double());
    } else if constexpr (std::same_as<T, std::string>) {
        return text();
    } else {
        return mapped(items(), [](const Json& item) { return item.get<typename T::value_type>(); });
    }
}

} // namespace rdma_nccl
