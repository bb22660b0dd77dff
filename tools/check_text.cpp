// SPDX-License-Identifier: Apache-2.0
#include "lib/format.h"
#include "lib/table.h"
#include "lib/text.h"
#include "tools/check_output.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

/// Worst first.
constexpr std::array order = {CheckStatus::Fail, CheckStatus::Error, CheckStatus::Warn, CheckStatus::Skip,
                              CheckStatus::Pass};

std::string counts_text(const CheckResults& results) {
    const auto part = [&](CheckStatus status, std::string_view word) {
        const auto number = count(results, status);
        return number == 0 ? std::string() : format_text(", {} {}", number, word);
    };
    std::string text = part(CheckStatus::Fail, "failed") + part(CheckStatus::Error, "could not be read") +
                       part(CheckStatus::Warn, count(results, CheckStatus::Warn) == 1 ? "warning" : "warnings") +
                       part(CheckStatus::Pass, "passed") + part(CheckStatus::Skip, "left out");
    return text.empty() ? "nothing was looked at" : text.substr(2);
}

std::string coloured(std::string text, CheckStatus status, bool colours) {
    if (!colours) {
        return text;
    }
    constexpr std::array<std::string_view, 5> codes = {"32", "33", "31", "2", "35"};
    return format_text("\033[{}m{}\033[0m", codes.at(static_cast<std::size_t>(status)), text);
}

/// Long lists of items get an end; programs have --json.
std::string short_items(const std::string& items) {
    constexpr std::size_t most = 60;
    if (items.size() <= most) {
        return items;
    }
    const auto cut = items.rfind(", ", most);
    const auto all = std::count(items.begin(), items.end(), ',') + 1;
    const auto shown = std::count(items.begin(), items.begin() + static_cast<long>(std::min(cut, most)), ',') + 1;
    return format_text("{} and {} more", items.substr(0, cut), all - shown);
}

std::string what(const CheckResult& result) {
    return result.item.empty() ? result.message : format_text("{}: {}", short_items(result.item), result.message);
}

} // namespace

std::string check_text(const CheckReport& report, bool all, bool colours) {
    const auto status = overall(report.results);
    constexpr std::array as_check = {CheckStatus::Pass, CheckStatus::Warn, CheckStatus::Fail, CheckStatus::Error};
    const auto colour = as_check.at(static_cast<std::size_t>(status));
    std::string text = format_text("{}: {}: {}\n", report.host, coloured(std::string(name_of(status)), colour, colours),
                                   counts_text(report.results));
    const auto groups = grouped(report.results);
    std::size_t width = 0;
    for (const auto& name : check_names()) {
        width = std::max(width, name.id.size());
    }
    for (const auto wanted : order) {
        const bool is_good = wanted == CheckStatus::Pass || wanted == CheckStatus::Skip;
        for (const auto& group : groups) {
            if (group.status != wanted || (is_good && !all)) {
                continue;
            }
            const auto word = format_text("{:<5}", name_of(wanted));
            text += format_text("{}  {:<{}}  {}\n", coloured(word, wanted, colours), group.id, width, what(group));
            text += group.hint.empty() ? "" : format_text("{:{}}  -> {}\n", "", 7 + width, group.hint);
        }
    }
    return text;
}

std::string worst_in_short(const CheckReport& report, std::size_t most) {
    std::string text;
    const auto groups = grouped(report.results);
    for (const auto wanted : {CheckStatus::Fail, CheckStatus::Error, CheckStatus::Warn}) {
        for (const auto& group : groups) {
            if (group.status == wanted) {
                text += (text.empty() ? "" : "; ") + group.id + ": " + what(group);
            }
        }
        if (!text.empty()) {
            break;
        }
    }
    return printable(text, most);
}

std::string check_nagios(const CheckReport& report) {
    constexpr std::size_t most = 300;
    auto worst = worst_in_short(report, most);
    std::replace(worst.begin(), worst.end(), '|', '/'); // what follows one is performance data
    std::string text = format_text("RDMA {} - {}", name_of(overall(report.results)),
                                   worst.empty() ? counts_text(report.results) : worst);
    text +=
        format_text(" | fail={};;0;0 error={};;;0 warn={};0;;0 pass={};;;0 time={:.3f}s;;;0",
                    count(report.results, CheckStatus::Fail), count(report.results, CheckStatus::Error),
                    count(report.results, CheckStatus::Warn), count(report.results, CheckStatus::Pass), report.seconds);
    if (report.facts != nullptr) {
        text += format_text(" hcas={};;;0 ports={};;;0", report.facts->fabric.hcas.size(),
                            report.facts->choice.used().size());
    }
    return text + "\n";
}

} // namespace rdma_nccl
