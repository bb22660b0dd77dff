// SPDX-License-Identifier: Apache-2.0
// The only codec for messages between nodes: JSON. A message names its fields once, in one function for both
// directions:
//
//     static constexpr std::string_view message_name = "ended"; // in Ended, or a specialization of message_name
//     void fields(auto& f, Is<Ended> auto& m) { f("attempt", m.attempt); f("clean", m.clean); }
//
// On the wire it is {"ended": {"attempt": 0, "clean": true}}. So that versions may differ, a missing field keeps its
// default and an unknown field is skipped. A field of the wrong kind, out of range or too long makes the message bad.
// All input is checked as coming from a stranger.
#pragma once

#include "lib/base/forked_worker.h"
#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/base/text.h"
#include "lib/net/ip.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <concepts>
#include <functional>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace rdma_nccl {

inline constexpr std::size_t longest_text = 400; ///< default limit of a text, in bytes
inline constexpr std::size_t most_items = 64;    ///< default limit of a list
inline constexpr double greatest_real = 1e9;     ///< reals are from 0 to this

/// T or const T.
template<typename M, typename T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

template<typename T>
concept Number = std::integral<T> && !std::same_as<T, bool>;

template<typename T>
concept Enumeration = std::is_enum_v<T>;

/// The name of T on the wire.
template<typename T>
inline constexpr std::string_view message_name = T::message_name;

/// A text or texts of any bytes, e.g. another format or a program's own output: the reader does not make it printable.
template<typename T>
struct Raw {
    T& value;
};
template<typename T>
Raw<T> raw(T& value) {
    return {value};
}

/// Writes the fields of a message. Cuts texts, lists and reals to their limits, so that the reader accepts all of it.
class FieldWriter {
public:
    explicit FieldWriter(Json& object) : object_(object) {}
    /// Does nothing: FieldReader has a check(), and one function serves both.
    static void check(bool /*good*/) {}

    /// `limits`: the most bytes of a text, the most items of a list, or the greatest number or enumerator.
    template<typename T, typename... Limits>
    void operator()(const char* name, const T& value, Limits... limits) {
        put(object_[name], value, limits...);
    }
    template<typename T, typename... Limits>
    void operator()(const char* name, const std::optional<T>& value, Limits... limits) {
        if (value) {
            put(object_[name], *value, limits...);
        }
    }

private:
    static void put(Json& json, bool value) { json = value; }
    static void put(Json& json, double value, double greatest = greatest_real);
    static void put(Json& json, const std::string& value, std::size_t longest = longest_text);
    static void put(Json& json, Raw<const std::string> text, std::size_t longest) {
        json = text.value.substr(0, longest);
    }
    static void put(Json& json, Raw<const std::vector<std::string>> texts, std::size_t most, std::size_t longest);
    static void put(Json& json, const IpAddress& value) { json = value.text(); }

    template<Number T>
    static void put(Json& json, T value, T /*greatest*/ = std::numeric_limits<T>::max()) {
        json = value;
    }
    template<Enumeration T>
    static void put(Json& json, T value, T /*last*/) {
        json = static_cast<std::uint64_t>(value);
    }
    template<typename T>
    static void put(Json& json, const std::vector<T>& items, std::size_t most = most_items) {
        json = Json::array();
        for (std::size_t i = 0; i < items.size() && i < most; ++i) {
            put(json.emplace_back(), items[i]);
        }
    }
    template<typename T>
    requires std::is_class_v<T>
    static void put(Json& json, const T& value) {
        json = Json::object();
        FieldWriter inner(json);
        fields(inner, value);
    }

    Json& object_;
};

/// Reads the fields of a message and remembers whether all of them were good.
class FieldReader {
public:
    explicit FieldReader(const Json& object) : object_(object) {}

    template<typename T, typename... Limits>
    void operator()(const char* name, T&& value, Limits... limits) {
        if (const auto* const json = object_.find(name)) {
            check(take(*json, value, limits...));
        }
    }
    template<typename T, typename... Limits>
    void operator()(const char* name, std::optional<T>& value, Limits... limits) {
        if (const auto* const json = object_.find(name)) {
            check(take(*json, value.emplace(), limits...));
        }
    }

    /// For checks that a message makes itself.
    void check(bool good) { good_ = good_ && good; }
    [[nodiscard]] bool good() const { return good_; }

private:
    static bool take(const Json& json, bool& value);
    static bool take(const Json& json, double& value, double greatest = greatest_real);
    static bool take(const Json& json, std::string& value, std::size_t longest = longest_text);
    static bool take(const Json& json, Raw<std::string> text, std::size_t longest);
    static bool take(const Json& json, Raw<std::vector<std::string>> texts, std::size_t most, std::size_t longest);
    static bool take(const Json& json, IpAddress& value);

    template<Number T>
    static bool take(const Json& json, T& value, T greatest = std::numeric_limits<T>::max()) {
        const auto number = json.integer<T>();
        const bool good = number && *number <= greatest;
        value = good ? *number : T{};
        return good;
    }
    template<Enumeration T>
    static bool take(const Json& json, T& value, T last) {
        const auto number = json.integer<std::uint64_t>();
        const bool good = number && *number <= static_cast<std::uint64_t>(last);
        value = good ? static_cast<T>(*number) : T{};
        return good;
    }
    template<typename T>
    static bool take(const Json& json, std::vector<T>& items, std::size_t most = most_items) {
        bool good = json.is_array() && json.size() <= most;
        items.clear();
        for (std::size_t i = 0; good && i < json.size(); ++i) {
            good = take(json[i], items.emplace_back());
        }
        return good;
    }
    template<typename T>
    requires std::is_class_v<T>
    static bool take(const Json& json, T& value) {
        if (!json.is_object()) {
            return false;
        }
        FieldReader inner(json);
        fields(inner, value);
        return inner.good();
    }

    const Json& object_;
    bool good_ = true;
};

/// Parses {"name": {...}}.
Result<JsonMember> parse_message(std::string_view text);

/// Parses a JSON object nested no deeper than messages may be.
std::optional<Json> parse_json_object(std::string_view text);

/// Returns {"attempt": 0, "clean": true}: the fields alone, without a name.
template<typename T>
Json written(const T& value) {
    auto object = Json::object();
    FieldWriter writer(object);
    fields(writer, value);
    return object;
}

/// Reads exactly what written() writes. Returns nullopt if a field is missing, unknown, of another type or out of
/// range.
template<typename T>
std::optional<T> read_exactly(const Json& json) {
    if (!json.is_object()) {
        return std::nullopt;
    }
    T value{};
    FieldReader reader(json);
    fields(reader, value);
    return reader.good() && written(value) == json ? std::optional(std::move(value)) : std::nullopt;
}

/// Returns the message on one line. Leaves out bytes that are not UTF-8, so that no text grows beyond its limit.
template<typename T>
std::string write_message(const T& message) {
    static_assert(!message_name<T>.empty());
    return Json{{message_name<T>, written(message)}}.dump(-1, Json::NotUtf8::LeftOut);
}

template<typename... T>
std::string write_message(const std::variant<T...>& message) {
    return std::visit([](const auto& one) { return write_message(one); }, message);
}

/// Reads the message of a variant that the text names. Fails if a field is bad, and with ENOMSG if the name is unknown:
/// a later version may have sent it, and whoever can do without it passes over it.
template<typename Variant>
Result<Variant> read_message(std::string_view text) {
    const auto parsed = parse_message(text);
    if (!parsed) {
        return tl::unexpected(parsed.error());
    }
    std::optional<Variant> message;
    const auto make_named = [&]<typename... T>(std::type_identity<std::variant<T...>> /*all*/) {
        ((parsed->name == message_name<T> ? void(message = T{}) : void()), ...);
    };
    make_named(std::type_identity<Variant>());
    if (!message) {
        return fail(
            format_text("a message \"{}\" is not known; is rdma-nccl the same on all nodes?", printable(parsed->name)),
            ENOMSG);
    }
    FieldReader reader(parsed->value);
    std::visit([&reader](auto& one) { fields(reader, one); }, *message);
    if (!reader.good()) {
        return fail(format_text("a message \"{}\" is malformed", printable(parsed->name)));
    }
    return std::move(*message);
}

/// Like ChildText, for a message that `work` returns.
template<typename T>
class ChildValue {
public:
    static ChildValue start(const std::function<T()>& work, std::span<const int> keep = {},
                            Inherit inherit = Inherit::Few) {
        return ChildValue(ChildText::start([&work] { return write_message(work()); }, keep, inherit));
    }

    /// False if there is no child, for want of processes or descriptors: errno tells, until another call fails.
    [[nodiscard]] bool has_started() const { return text_.has_value(); }

    /// As ChildText::has_ended(); true if there is no child.
    [[nodiscard]] bool has_ended() const { return !text_ || text_->has_ended(); }

    std::optional<T> finish(std::chrono::steady_clock::time_point deadline) {
        const auto text = text_ ? text_->finish(deadline) : std::nullopt;
        if (!text) {
            return std::nullopt;
        }
        auto value = read_message<std::variant<T>>(*text);
        return value ? std::optional(std::get<T>(std::move(*value))) : std::nullopt;
    }

private:
    explicit ChildValue(std::optional<ChildText> text) : text_(std::move(text)) {}

    std::optional<ChildText> text_;
};

} // namespace rdma_nccl
