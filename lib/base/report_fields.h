// SPDX-License-Identifier: Apache-2.0
// A report is described once: one function per kind of row names the fields:
//
//     void fields(auto& f, Row<Bandwidth> /*row*/) {
//         f("gbps", "payload, Gb/s", &Bandwidth::gbps);
//         f("peer", "where it went", [](const Bandwidth& b) { return b.peer.name; });
//     }
//
// JSON, CSV and the JSON Schema files below doc/schema/ are generated from it. The type of a field is the result type
// of its function: a boolean, a number, a text, another row, an optional or a container of these, or Json for any
// value. ADL finds fields(): put it in the namespace of the row's type (`static` if a header declares that type).
#pragma once

#include "lib/base/format.h"
#include "lib/base/json.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// A tag that selects fields() by row type.
template<typename T>
struct Row {};

namespace report_detail {

struct AnyField {
    void operator()(const char* /*name*/, const char* /*about*/, auto /*value*/) {}
};

template<typename T>
concept Described = requires(AnyField& f) {
    fields(f, Row<T>{});
};

template<typename T>
inline constexpr bool is_optional = false;
template<typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// Returns a schema that also allows null.
inline Json nullable(Json schema) {
    if (const auto* const type = schema.find("type"); type && type->is_string()) {
        schema["type"] = std::vector<std::string>{type->text(), "null"};
    }
    return schema;
}

/// Follows RFC 4180: quotes texts with commas, quotes or line ends. Spreadsheets treat a text that begins with one of
/// "=+-@" as a formula, so it gets a leading apostrophe.
inline std::string csv_text(std::string_view text) {
    std::string safe = text.find_first_of("=+-@") == 0 ? "'" : "";
    safe += text;
    if (safe.find_first_of(",\"\r\n") == std::string::npos) {
        return safe;
    }
    std::string quoted = "\"";
    for (const char c : safe) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

template<typename T>
std::string csv_value(const T& value) {
    if constexpr (is_optional<T>) {
        return value ? csv_value(*value) : std::string();
    } else if constexpr (std::same_as<T, bool>) {
        return value ? "yes" : "no";
    } else if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
    } else if constexpr (std::is_floating_point_v<T>) {
        return format_text("{:.6g}", value);
    } else {
        return csv_text(value);
    }
}

} // namespace report_detail

template<typename T>
Json report_json(const T& value) {
    using namespace report_detail;
    if constexpr (Described<T>) {
        std::vector<JsonMember> members;
        auto f = [&](const char* name, const char* /*about*/, auto field) {
            members.push_back({name, report_json(std::invoke(field, value))});
        };
        fields(f, Row<T>{});
        return Json::object(std::move(members));
    } else if constexpr (is_optional<T>) {
        return value ? report_json(*value) : Json();
    } else if constexpr (HasItems<T> && !HasMappedType<T> && !JsonText<T>) {
        return Json::array(mapped(value, [](const auto& item) { return report_json(item); }));
    } else {
        return Json(value);
    }
}

/// Returns a JSON Schema (draft 2020-12) that requires every field and allows no other.
template<typename T>
Json report_schema() {
    using namespace report_detail;
    if constexpr (Described<T>) {
        Json properties = Json::object();
        std::vector<std::string> names;
        auto f = [&]<typename Function>(const char* name, const char* about, Function /*field*/) {
            auto schema = report_schema<std::remove_cvref_t<std::invoke_result_t<Function, const T&>>>();
            if (*about != '\0') {
                schema["description"] = about;
            }
            properties[name] = std::move(schema);
            names.emplace_back(name);
        };
        fields(f, Row<T>{});
        return {{"type", "object"},
                {"properties", std::move(properties)},
                {"required", names},
                {"additionalProperties", false}};
    } else if constexpr (std::same_as<T, Json>) {
        return Json::object();
    } else if constexpr (is_optional<T>) {
        return nullable(report_schema<typename T::value_type>());
    } else if constexpr (HasMappedType<T>) {
        return {{"type", "object"}, {"additionalProperties", report_schema<typename T::mapped_type>()}};
    } else if constexpr (HasItems<T> && !JsonText<T>) {
        return {{"type", "array"}, {"items", report_schema<typename T::value_type>()}};
    } else if constexpr (std::same_as<T, bool>) {
        return {{"type", "boolean"}};
    } else if constexpr (std::is_unsigned_v<T>) {
        return {{"type", "integer"}, {"minimum", 0}};
    } else if constexpr (std::is_integral_v<T>) {
        return {{"type", "integer"}};
    } else if constexpr (std::is_floating_point_v<T>) {
        return {{"type", "number"}};
    } else {
        static_assert(JsonText<T>, "no type that a report may have");
        return {{"type", "string"}};
    }
}

/// Returns the line of field names, without a line end.
template<typename T>
std::string report_csv_names() {
    std::string line;
    auto f = [&](const char* name, const char* /*about*/, auto /*field*/) {
        line += (line.empty() ? "" : ",") + std::string(name);
    };
    fields(f, Row<T>{});
    return line;
}

/// Returns one line, without a line end. A CSV row cannot contain rows.
template<typename T>
std::string report_csv(const T& row) {
    std::string line;
    bool begun = false;
    auto f = [&](const char* /*name*/, const char* /*about*/, auto field) {
        line += (std::exchange(begun, true) ? "," : "") + report_detail::csv_value(std::invoke(field, row));
    };
    fields(f, Row<T>{});
    return line;
}

} // namespace rdma_nccl
