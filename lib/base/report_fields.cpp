// SPDX-License-Identifier: Apache-2.0
#include "lib/base/report_fields.h"

#include "lib/base/format.h"

namespace rdma_nccl::report_detail {

Json nullable(Json schema) {
    if (const auto* const type = schema.find("type"); type && type->is_string()) {
        schema["type"] = std::vector<std::string>{type->text(), "null"};
    }
    return schema;
}

Json object_schema(Json properties, const std::vector<std::string>& names) {
    return {{"type", "object"},
            {"properties", std::move(properties)},
            {"required", names},
            {"additionalProperties", false}};
}

std::string csv_text(std::string_view text) {
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

std::string csv_number(double number) {
    return format_text("{:.6g}", number);
}

} // namespace rdma_nccl::report_detail
