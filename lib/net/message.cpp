// SPDX-License-Identifier: Apache-2.0
#include "lib/net/message.h"

#include <algorithm>
#include <cmath>

namespace rdma_nccl {

// --- Writing ---

void FieldWriter::put(Json& json, double value, double greatest) {
    json = std::isfinite(value) ? std::clamp(value, 0.0, greatest) : 0.0;
}

void FieldWriter::put(Json& json, const std::string& value, std::size_t longest) {
    constexpr std::size_t dots = 3;
    json = printable(value, value.size() > longest ? longest - dots : longest);
}

void FieldWriter::put(Json& json, Raw<const std::vector<std::string>> texts, std::size_t most, std::size_t longest) {
    json = Json::array();
    for (std::size_t i = 0; i < texts.value.size() && i < most; ++i) {
        put(json.emplace_back(), raw(texts.value[i]), longest);
    }
}

// --- Reading ---

bool FieldReader::take(const Json& json, bool& value) {
    value = json.is_boolean() && json.get<bool>();
    return json.is_boolean();
}

bool FieldReader::take(const Json& json, double& value, double greatest) {
    value = json.is_number() ? json.get<double>() : -1;
    return value >= 0 && value <= greatest;
}

bool FieldReader::take(const Json& json, std::string& value, std::size_t longest) {
    if (!take(json, raw(value), longest)) {
        return false;
    }
    value = printable(value, longest);
    return true;
}

bool FieldReader::take(const Json& json, Raw<std::string> text, std::size_t longest) {
    if (!json.is_string() || json.text().size() > longest) {
        return false;
    }
    text.value = json.text();
    return true;
}

bool FieldReader::take(const Json& json, Raw<std::vector<std::string>> texts, std::size_t most, std::size_t longest) {
    bool good = json.is_array() && json.size() <= most;
    texts.value.clear();
    for (std::size_t i = 0; good && i < json.size(); ++i) {
        good = take(json[i], raw(texts.value.emplace_back()), longest);
    }
    return good;
}

bool FieldReader::take(const Json& json, IpAddress& value) {
    const auto address = json.is_string() ? IpAddress::parse(json.text()) : std::nullopt;
    value = address.value_or(IpAddress());
    return address.has_value();
}

// --- Whole messages ---

std::optional<Json> parse_json_object(std::string_view text) {
    constexpr unsigned deepest = 16;
    auto json = Json::parse(text, deepest);
    return json && json->is_object() ? std::move(json) : std::nullopt;
}

Result<JsonMember> parse_message(std::string_view text) {
    auto json = parse_json_object(text);
    if (!json || json->size() != 1 || !json->members().front().value.is_object()) {
        return fail("not a message of rdma-nccl");
    }
    const auto& name = json->members().front().name;
    return JsonMember{name, std::move((*json)[name])};
}

} // namespace rdma_nccl
