// SPDX-License-Identifier: Apache-2.0
#include "lib/text.h"
#include "tools/run_report.h"
#include "tools/wall_time.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace rdma_nccl {

namespace {

using Json = nlohmann::ordered_json;

/// JSON in ASCII; bytes that are no UTF-8 become U+FFFD.
std::string dump(const Json& json, int indent = -1) {
    return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

Json or_null(const std::optional<int>& number) {
    return number ? Json(*number) : Json();
}

Json failure_json(const RankFailure& failure) {
    return {{"host", failure.host},
            {"node_rank", failure.node_rank},
            {"rank", failure.rank},
            {"local_rank", failure.local_rank},
            {"attempt", failure.attempt},
            {"most_attempts", failure.most_attempts},
            {"pid", failure.pid},
            {"program", failure.program},
            {"code", failure.code},
            {"signal", or_null(failure.signal)},
            {"core_dumped", failure.core_dumped},
            {"exec_error", or_null(failure.exec_error)},
            {"out_of_memory", failure.out_of_memory},
            {"gpu_pci", failure.gpu_pci},
            {"gpu_uuid", failure.gpu_uuid},
            {"hcas", failure.hcas},
            {"error", failure.error},
            {"traceback", failure.traceback},
            {"last_lines", failure.last_lines},
            {"time_us", failure.time_us}};
}

/// For people who read the file, or programs that only pass it on.
Json told_json(const RankFailure& failure) {
    auto json = failure_json(failure);
    json["time"] = utc_time_text(failure.time_us);
    json["what"] = describe_end(failure);
    json["advice"] = advice_for(failure);
    return json;
}

std::string start_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : text.substr(0, most) + "...";
}

std::string end_of(const std::string& text, std::size_t most) {
    return text.size() <= most ? text : "..." + text.substr(text.size() - most);
}

/// With no text longer than `most`, the lists included.
RankFailure shortened(RankFailure failure, std::size_t most) {
    const auto name = std::min<std::size_t>(most, 256);
    for (auto* const text : {&failure.host, &failure.program, &failure.gpu_pci, &failure.gpu_uuid}) {
        *text = start_of(*text, name);
    }
    failure.hcas.resize(std::min<std::size_t>(failure.hcas.size(), 32));
    for (auto& hca : failure.hcas) {
        hca = start_of(hca, name / 4);
    }
    failure.error = start_of(failure.error, most / 2);
    failure.traceback = end_of(failure.traceback, most);
    std::size_t room = most / 2;
    auto& lines = failure.last_lines;
    auto first = lines.end();
    while (first != lines.begin() && room > 0) {
        --first;
        *first = start_of(*first, room);
        room -= std::min(room, first->size() + 4);
    }
    lines.erase(lines.begin(), first);
    return failure;
}

/// Takes values out of an object that a stranger wrote; the first that is of another kind than it should be is kept as
/// the fault.
class Reader {
public:
    explicit Reader(const Json& object) : object_(object) {}

    template<std::integral Number>
    void number(const char* key, Number& into, std::int64_t least, std::int64_t most) {
        const auto* const value = find(key);
        if (value == nullptr) {
            return;
        }
        const bool fits = value->is_number_integer() &&
                          (!value->is_number_unsigned() || value->template get<std::uint64_t>() <=
                                                               std::uint64_t{std::numeric_limits<std::int64_t>::max()});
        const auto found = fits ? value->template get<std::int64_t>() : 0;
        if (!fits || found < least || found > most) {
            return blame(key);
        }
        into = static_cast<Number>(found);
    }

    void number(const char* key, std::optional<int>& into, std::int64_t least, std::int64_t most) {
        const auto* const value = find(key);
        if (value != nullptr && !value->is_null()) {
            number(key, into.emplace(), least, most);
        }
    }

    void flag(const char* key, bool& into) {
        const auto* const value = find(key);
        if (value != nullptr && !value->is_boolean()) {
            return blame(key);
        }
        into = value != nullptr && value->get<bool>();
    }

    void text(const char* key, std::string& into) {
        if (const auto* const value = find(key)) {
            take(key, *value, into);
        }
    }

    /// A name, which goes into lines of ours.
    void name(const char* key, std::string& into) {
        text(key, into);
        into = printable(into, most_of_name);
    }

    void texts(const char* key, std::vector<std::string>& into) {
        const auto* const value = find(key);
        if (value == nullptr) {
            return;
        }
        if (!value->is_array()) {
            return blame(key);
        }
        for (const auto& item : *value) {
            take(key, item, into.emplace_back());
        }
    }

    void names(const char* key, std::vector<std::string>& into) {
        texts(key, into);
        for (auto& item : into) {
            item = printable(item, most_of_name);
        }
    }

    [[nodiscard]] const std::string& fault() const { return fault_; }

private:
    static constexpr std::size_t most_of_name = 300; ///< more than shortened() leaves, with its mark

    const Json* find(const char* key) const {
        const auto found = object_.find(key);
        return found == object_.end() ? nullptr : &*found;
    }
    void take(const char* key, const Json& value, std::string& into) {
        if (!value.is_string()) {
            return blame(key);
        }
        into = value.get<std::string>();
    }
    void blame(const char* key) {
        if (fault_.empty()) {
            fault_ = key;
        }
    }

    const Json& object_;
    std::string fault_;
};

} // namespace

std::string report_json(const JobEnd& end) {
    Json others = Json::array();
    for (const auto& other : std::span(end.failures).subspan(end.failures.empty() ? 0 : 1)) {
        others.push_back(told_json(other));
    }
    Json lost = Json::array();
    for (const auto& loss : end.losses) {
        lost.push_back(loss);
    }
    return dump({{"schema", 1},
                 {"code", end.code},
                 {"first", end.failures.empty() ? Json() : told_json(end.failures.front())},
                 {"others", std::move(others)},
                 {"lost", std::move(lost)}},
                2) +
           "\n";
}

std::string write_failure(const RankFailure& failure) {
    for (std::size_t most = 32 << 10;; most /= 2) { // one byte of text may take six
        auto text = dump(failure_json(shortened(failure, most)));
        if (text.size() <= most_failure_text) {
            return text;
        }
    }
}

Result<RankFailure> read_failure(std::string_view text) {
    if (text.size() > most_failure_text) {
        return fail("the report of a failed rank is too long");
    }
    const auto json = Json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("host") || !json.contains("rank") || !json.contains("code")) {
        return fail("the report of a failed rank is no JSON object with host, rank and code");
    }
    constexpr std::int64_t most_ranks = 1 << 30;
    constexpr std::int64_t most_time = std::int64_t{4102444800} * 1000000; // the year 2100
    Reader reader(json);
    RankFailure failure;
    reader.name("host", failure.host);
    reader.number("node_rank", failure.node_rank, 0, most_ranks);
    reader.number("rank", failure.rank, 0, most_ranks);
    reader.number("local_rank", failure.local_rank, 0, most_ranks);
    reader.number("attempt", failure.attempt, 0, most_ranks);
    reader.number("most_attempts", failure.most_attempts, 1, most_ranks);
    reader.number("pid", failure.pid, 0, std::numeric_limits<pid_t>::max());
    reader.name("program", failure.program);
    reader.number("code", failure.code, 0, 255);
    reader.number("signal", failure.signal, 1, 64);
    reader.flag("core_dumped", failure.core_dumped);
    reader.number("exec_error", failure.exec_error, 1, 4095);
    reader.flag("out_of_memory", failure.out_of_memory);
    reader.name("gpu_pci", failure.gpu_pci);
    reader.name("gpu_uuid", failure.gpu_uuid);
    reader.names("hcas", failure.hcas);
    reader.text("error", failure.error);
    reader.text("traceback", failure.traceback);
    reader.texts("last_lines", failure.last_lines);
    reader.number("time_us", failure.time_us, 0, most_time);
    if (!reader.fault().empty()) {
        return fail("the report of a failed rank has a value that cannot be: " + reader.fault());
    }
    return failure;
}

} // namespace rdma_nccl
