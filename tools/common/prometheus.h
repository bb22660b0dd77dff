// SPDX-License-Identifier: Apache-2.0
// Metrics in Prometheus' text format (github.com/prometheus/docs, exposition_formats.md; names and base units:
// naming.md) for the textfile collector of node_exporter.
#pragma once

#include "lib/base/result.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rdma_nccl {

/// One metric. HELP and TYPE appear once, before its samples.
class Metric {
public:
    using Labels = std::vector<std::pair<std::string_view, std::string>>;

    /// `name`: begins with "rdma_nccl_". `type`: "gauge" or "counter".
    Metric(std::string_view name, std::string_view type, std::string_view help);
    /// Labels may have any content.
    void add(const Labels& labels, const std::string& value);
    /// Returns an empty text if there are no samples.
    [[nodiscard]] std::string text() const { return samples_.empty() ? "" : text_ + samples_; }

private:
    std::string name_, text_, samples_;
};

/// Returns a metric of the whole node, with one sample.
std::string single_metric(std::string_view name, std::string_view help, const std::string& value,
                          const Metric::Labels& labels = {});

/// Replaces a file of metrics at once. Fails if it holds something else than metrics of this subcommand ("check"),
/// whose first one begins with "rdma_nccl_COMMAND_".
Result<void> replace_metrics(const std::string& path, std::string_view command, std::string_view text);

} // namespace rdma_nccl
