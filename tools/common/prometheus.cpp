// SPDX-License-Identifier: Apache-2.0
#include "tools/common/prometheus.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "tools/common/settings_options.h"

namespace rdma_nccl {

namespace {

std::string escaped(const std::string& content) {
    std::string result;
    for (const char c : printable(content, 200)) {
        result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    return result;
}

} // namespace

Metric::Metric(std::string_view name, std::string_view type, std::string_view help)
    : name_(name), text_(format_text("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type)) {}

void Metric::add(const Labels& labels, const std::string& value) {
    std::string text;
    for (const auto& [label, content] : labels) {
        text += format_text("{}{}=\"{}\"", text.empty() ? "" : ",", label, escaped(content));
    }
    samples_ += format_text("{}{} {}\n", name_, text.empty() ? "" : "{" + text + "}", value);
}

std::string single_metric(std::string_view name, std::string_view help, const std::string& value,
                          const Metric::Labels& labels) {
    Metric metric(name, "gauge", help);
    metric.add(labels, value);
    return metric.text();
}

Result<void> replace_metrics(const std::string& path, std::string_view command, std::string_view text) {
    return replace_own(path, format_text("# HELP rdma_nccl_{}_", command), text,
                       "holds something else; name another file");
}

} // namespace rdma_nccl
