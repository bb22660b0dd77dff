// SPDX-License-Identifier: Apache-2.0
// The one codec of what nodes tell each other: JSON, made and read by nlohmann/json. A message names its fields once,
// in a function that serves both directions:
//
//     template<> inline constexpr std::string_view message_name<Ended> = "ended";
//     void fields(auto& f, Is<Ended> auto& m) { f("attempt", m.attempt); f("clean", m.clean); }
//
// and goes over the wire as {"ended": {"attempt": 0, "clean": true}}. A field that is missing keeps its default, one
// that is unknown is passed over, so that versions may differ; one of another kind, out of range or too long makes the
// message bad. Whatever comes in is checked as input from a stranger.
#pragma once

#include "lib/ip.h"
#include "lib/result.h"

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace rdma_nccl {

inline constexpr std::size_t longest_text = 400; ///< bytes of a text without a limit of its own
inline constexpr std::size_t most_items = 64;    ///< of a list without a limit of its own
inline constexpr double greatest_real = 1e9;     ///< reals are from 0 up to this

/// T, or const T.
template<typename M, typename T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

template<typename T>
concept Number = std::integral<T> && !std::same_as<T, bool>;

template<typename T>
concept Enumeration = std::is_enum_v<T>;

/// What T is called on the wire.
template<typename T>
inline constexpr std::string_view message_name;

/// Any bytes, e.g. another format or a program's own words: on its way in it is not made safe to print.
struct RawText {
    std::string& text;
};
struct ConstRawText {
    const std::string& text;
};
inline RawText raw(std::string& text) {
    return {text};
}
inline ConstRawText raw(const std::string& text) {
    return {text};
}
struct RawTexts {
    std::vector<std::string>& texts;
};
struct ConstRawTexts {
    const std::vector<std::string>& texts;
};
inline RawTexts raw(std::vector<std::string>& texts) {
    return {texts};
}
inline ConstRawTexts raw(const std::vector<std::string>& texts) {
    return {texts};
}

/// Writes the fields of a message. What is beyond a limit is left out, so that the reader takes all that is written.
class FieldWriter {
public:
    explicit FieldWriter(nlohmann::json& object) : object_(object) {}
    /// FieldReader's, for functions that serve both.
    static void check(bool /*good*/) {}

    /// `limits`: of a text its bytes, of a list its items, of a number or enumeration the greatest.
    template<typename T, typename... Limits>
    void operator()(const char* name, const T& value, Limits... limits) {
        put(member(object_, name), value, limits...);
    }
    template<typename T, typename... Limits>
    void operator()(const char* name, const std::optional<T>& value, Limits... limits) {
        if (value) {
            put(member(object_, name), *value, limits...);
        }
    }

private:
    using Json = nlohmann::json;

    static Json& member(Json& object, const char* name);
    static Json& append(Json& list);
    static void make_list(Json& json);
    static void make_object(Json& json);
    static void put(Json& json, bool value);
    static void put(Json& json, double value, double greatest = greatest_real);
    static void put(Json& json, const std::string& value, std::size_t longest = longest_text);
    static void put(Json& json, ConstRawText value, std::size_t longest);
    static void put(Json& json, ConstRawTexts value, std::size_t most, std::size_t longest);
    static void put(Json& json, const IpAddress& value);
    static void put_number(Json& json, std::uint64_t value);
    static void put_number(Json& json, std::int64_t value);

    template<Number T>
    static void put(Json& json, T value, T /*greatest*/ = std::numeric_limits<T>::max()) {
        put_number(json, static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(value));
    }
    template<Enumeration T>
    static void put(Json& json, T value, T /*last*/) {
        put_number(json, static_cast<std::uint64_t>(value));
    }
    template<typename T>
    static void put(Json& json, const std::vector<T>& items, std::size_t most = most_items) {
        make_list(json);
        for (std::size_t i = 0; i < items.size() && i < most; ++i) {
            put(append(json), items[i]);
        }
    }
    template<typename T>
    requires std::is_class_v<T>
    static void put(Json& json, const T& value) {
        make_object(json);
        FieldWriter inner(json);
        fields(inner, value);
    }

    Json& object_;
};

/// Reads the fields of a message; remembers whether all were good.
class FieldReader {
public:
    explicit FieldReader(const nlohmann::json& object) : object_(object) {}

    template<typename T, typename... Limits>
    void operator()(const char* name, T&& value, Limits... limits) {
        if (const auto* const json = find(object_, name)) {
            check(take(*json, value, limits...));
        }
    }
    template<typename T, typename... Limits>
    void operator()(const char* name, std::optional<T>& value, Limits... limits) {
        if (const auto* const json = find(object_, name)) {
            check(take(*json, value.emplace(), limits...));
        }
    }

    /// For what a message checks itself.
    void check(bool good) { good_ = good_ && good; }
    [[nodiscard]] bool good() const { return good_; }

private:
    using Json = nlohmann::json;

    static const Json* find(const Json& object, const char* name); ///< nullptr where it is missing
    static std::optional<std::size_t> list_size(const Json& json); ///< nullopt: it is no list
    static const Json& item(const Json& list, std::size_t i);
    static bool is_object(const Json& json);
    static bool take(const Json& json, bool& value);
    static bool take(const Json& json, double& value, double greatest = greatest_real);
    static bool take(const Json& json, std::string& value, std::size_t longest = longest_text);
    static bool take(const Json& json, RawText value, std::size_t longest);
    static bool take(const Json& json, RawTexts value, std::size_t most, std::size_t longest);
    static bool take(const Json& json, IpAddress& value);
    static std::optional<std::uint64_t> unsigned_number(const Json& json);
    static std::optional<std::int64_t> signed_number(const Json& json);

    template<Number T>
    static bool take(const Json& json, T& value, T greatest = std::numeric_limits<T>::max()) {
        if constexpr (std::is_signed_v<T>) {
            const auto number = signed_number(json);
            const bool good = number && *number >= std::numeric_limits<T>::min() && *number <= greatest;
            value = good ? static_cast<T>(*number) : T{};
            return good;
        } else {
            const auto number = unsigned_number(json);
            const bool good = number && *number <= greatest;
            value = good ? static_cast<T>(*number) : T{};
            return good;
        }
    }
    template<Enumeration T>
    static bool take(const Json& json, T& value, T last) {
        const auto number = unsigned_number(json);
        const bool good = number && *number <= static_cast<std::uint64_t>(last);
        value = good ? static_cast<T>(*number) : T{};
        return good;
    }
    template<typename T>
    static bool take(const Json& json, std::vector<T>& items, std::size_t most = most_items) {
        const auto size = list_size(json);
        bool good = size && *size <= most;
        items.clear();
        for (std::size_t i = 0; good && i < *size; ++i) {
            good = take(item(json, i), items.emplace_back());
        }
        return good;
    }
    template<typename T>
    requires std::is_class_v<T>
    static bool take(const Json& json, T& value) {
        if (!is_object(json)) {
            return false;
        }
        FieldReader inner(json);
        fields(inner, value);
        return inner.good();
    }

    const Json& object_;
    bool good_ = true;
};

/// The text of {"name": {...}}, while a message is written.
class MessageText {
public:
    explicit MessageText(std::string_view name);
    ~MessageText();
    MessageText(const MessageText&) = delete;
    MessageText& operator=(const MessageText&) = delete;

    [[nodiscard]] FieldWriter writer();
    /// On one line; bytes that are no UTF-8 are left out, so that no text grows beyond its limit.
    [[nodiscard]] std::string text() const;

private:
    std::unique_ptr<nlohmann::json> json_;
    std::string name_;
};

/// An object of JSON that is not nested deeper than messages are; nullptr for anything else.
std::unique_ptr<nlohmann::json> parse_json_object(std::string_view text);

/// {"name": {...}}, while a message is read.
class ParsedMessage {
public:
    static Result<ParsedMessage> parse(std::string_view text);
    ParsedMessage(ParsedMessage&& other) noexcept;
    ~ParsedMessage();

    [[nodiscard]] std::string_view name() const { return name_; }
    [[nodiscard]] FieldReader reader() const;
    [[nodiscard]] tl::unexpected<Error> unknown() const;
    [[nodiscard]] tl::unexpected<Error> malformed() const;

private:
    ParsedMessage(std::unique_ptr<nlohmann::json> json, std::string name);

    std::unique_ptr<nlohmann::json> json_;
    std::string name_;
};

template<typename T>
std::string write_message(const T& message) {
    static_assert(!message_name<T>.empty());
    MessageText text(message_name<T>);
    auto writer = text.writer();
    fields(writer, message);
    return text.text();
}

template<typename... T>
std::string write_message(const std::variant<T...>& message) {
    return std::visit([](const auto& one) { return write_message(one); }, message);
}

namespace detail {

template<typename Variant, std::size_t I = 0>
std::optional<Variant> alternative_named(std::string_view name) {
    if constexpr (I < std::variant_size_v<Variant>) {
        std::variant_alternative_t<I, Variant> message{};
        return name == message_name<decltype(message)> ? std::optional<Variant>(std::move(message))
                                                       : alternative_named<Variant, I + 1>(name);
    } else {
        return std::nullopt;
    }
}

} // namespace detail

/// One of a variant's messages, by its name.
template<typename Variant>
Result<Variant> read_message(std::string_view text) {
    const auto parsed = ParsedMessage::parse(text);
    if (!parsed) {
        return tl::unexpected(parsed.error());
    }
    auto message = detail::alternative_named<Variant>(parsed->name());
    if (!message) {
        return parsed->unknown();
    }
    auto reader = parsed->reader();
    std::visit([&reader](auto& one) { fields(reader, one); }, *message);
    if (!reader.good()) {
        return parsed->malformed();
    }
    return std::move(*message);
}

} // namespace rdma_nccl
