// SPDX-License-Identifier: Apache-2.0
#include "lib/net/message.h"

#include "lib/format.h"
#include "lib/text.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

using Json = nlohmann::json;

// --- Writing ---

Json& FieldWriter::member(Json& object, const char* name) {
    return object[name];
}

Json& FieldWriter::append(Json& list) {
    return list.emplace_back();
}

void FieldWriter::make_list(Json& json) {
    json = Json::array();
}

void FieldWriter::make_object(Json& json) {
    json = Json::object();
}

void FieldWriter::put(Json& json, bool value) {
    json = value;
}

void FieldWriter::put(Json& json, double value, double greatest) {
    json = std::isfinite(value) ? std::clamp(value, 0.0, greatest) : 0.0;
}

void FieldWriter::put(Json& json, const std::string& value, std::size_t longest) {
    constexpr std::size_t dots = 3;
    json = printable(value, value.size() > longest ? longest - dots : longest);
}

void FieldWriter::put(Json& json, ConstRawText value, std::size_t longest) {
    json = value.text.substr(0, longest);
}

void FieldWriter::put(Json& json, ConstRawTexts value, std::size_t most, std::size_t longest) {
    make_list(json);
    for (std::size_t i = 0; i < value.texts.size() && i < most; ++i) {
        put(append(json), raw(value.texts[i]), longest);
    }
}

void FieldWriter::put(Json& json, const IpAddress& value) {
    json = value.text();
}

void FieldWriter::put_number(Json& json, std::uint64_t value) {
    json = value;
}

void FieldWriter::put_number(Json& json, std::int64_t value) {
    json = value;
}

// --- Reading ---

const Json* FieldReader::find(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
}

std::optional<std::size_t> FieldReader::list_size(const Json& json) {
    return json.is_array() ? std::optional(json.size()) : std::nullopt;
}

const Json& FieldReader::item(const Json& list, std::size_t i) {
    return list[i];
}

bool FieldReader::is_object(const Json& json) {
    return json.is_object();
}

bool FieldReader::take(const Json& json, bool& value) {
    value = json.is_boolean() && json.get<bool>();
    return json.is_boolean();
}

bool FieldReader::take(const Json& json, double& value, double greatest) {
    value = json.is_number() ? json.get<double>() : -1;
    return value >= 0 && value <= greatest;
}

bool FieldReader::take(const Json& json, std::string& value, std::size_t longest) {
    if (!take(json, RawText{value}, longest)) {
        return false;
    }
    value = printable(value, longest);
    return true;
}

bool FieldReader::take(const Json& json, RawText value, std::size_t longest) {
    if (!json.is_string() || json.get_ref<const std::string&>().size() > longest) {
        return false;
    }
    value.text = json.get_ref<const std::string&>();
    return true;
}

bool FieldReader::take(const Json& json, RawTexts value, std::size_t most, std::size_t longest) {
    bool good = json.is_array() && json.size() <= most;
    value.texts.clear();
    for (std::size_t i = 0; good && i < json.size(); ++i) {
        good = take(json[i], raw(value.texts.emplace_back()), longest);
    }
    return good;
}

bool FieldReader::take(const Json& json, IpAddress& value) {
    const auto address = json.is_string() ? IpAddress::parse(json.get_ref<const std::string&>()) : std::nullopt;
    value = address.value_or(IpAddress());
    return address.has_value();
}

std::optional<std::uint64_t> FieldReader::unsigned_number(const Json& json) {
    // A parser makes positive numbers unsigned, a program may make them of an int.
    const bool fits = json.is_number_unsigned() || (json.is_number_integer() && json.get<std::int64_t>() >= 0);
    return fits ? std::optional(json.get<std::uint64_t>()) : std::nullopt;
}

std::optional<std::int64_t> FieldReader::signed_number(const Json& json) {
    const bool fits = json.is_number_integer() &&
                      (!json.is_number_unsigned() || json.get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
    return fits ? std::optional(json.get<std::int64_t>()) : std::nullopt;
}

// --- Whole messages ---

MessageText::MessageText(std::string_view name) : json_(std::make_unique<Json>(Json::object())), name_(name) {}

MessageText::~MessageText() = default;

FieldWriter MessageText::writer() {
    auto& values = (*json_)[name_];
    values = Json::object();
    return FieldWriter(values);
}

std::string MessageText::text() const {
    return json_->dump(-1, ' ', false, Json::error_handler_t::ignore);
}

ParsedMessage::ParsedMessage(std::unique_ptr<Json> json, std::string name)
    : json_(std::move(json)), name_(std::move(name)) {}

ParsedMessage::ParsedMessage(ParsedMessage&& other) noexcept = default;

ParsedMessage::~ParsedMessage() = default;

namespace {

/// Looked for before the parser sees the text: its own callbacks take time by the square of a list's length.
bool is_nested_deeper(std::string_view text, unsigned deepest) {
    unsigned depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size() && depth <= deepest; ++i) {
        const char c = text[i];
        if (c == '"') {
            in_string = !in_string;
        } else if (in_string) {
            i += c == '\\' ? 1U : 0U; // what it escapes ends no string
        } else if (c == '[' || c == '{') {
            ++depth;
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return depth > deepest;
}

} // namespace

std::unique_ptr<Json> parse_json_object(std::string_view text) {
    constexpr unsigned deepest = 16; // a level costs seventy bytes for each one of its text
    if (is_nested_deeper(text, deepest)) {
        return nullptr;
    }
    auto json = std::make_unique<Json>(Json::parse(text, nullptr, false));
    return json->is_object() ? std::move(json) : nullptr;
}

Result<ParsedMessage> ParsedMessage::parse(std::string_view text) {
    auto json = parse_json_object(text);
    if (!json || json->size() != 1 || !json->begin()->is_object()) {
        return fail("not a message of rdma-nccl");
    }
    auto name = json->begin().key();
    return ParsedMessage(std::move(json), std::move(name));
}

FieldReader ParsedMessage::reader() const {
    return FieldReader(*json_->begin());
}

tl::unexpected<Error> ParsedMessage::unknown() const {
    return fail(format_text("a message \"{}\" is not known; is rdma-nccl the same on all nodes?", printable(name_)));
}

tl::unexpected<Error> ParsedMessage::malformed() const {
    return fail(format_text("a message \"{}\" is malformed", printable(name_)));
}

} // namespace rdma_nccl
