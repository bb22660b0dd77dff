// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_ras/text_report.h"

#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rdma_nccl::ras {

namespace {

constexpr std::string_view first_words = "NCCL version ";
constexpr std::size_t most_line = 2000; ///< bytes; NCCL cuts a list of ranks after 1023
constexpr std::size_t most_communicators = 64000;

using Words = std::vector<std::string_view>;

/// Returns the number in the word after `before`.
template<typename Number>
std::optional<Number> number_after(const Words& words, std::string_view before) {
    const auto found = std::ranges::find(words, before);
    return words.end() - found > 1 ? parse_number<Number>(found[1]) : std::nullopt;
}

/// "managed by process 77 on node 10.0.0.1", which may be missing.
Member member_of(const Words& words, std::uint32_t rank) {
    const auto node = std::ranges::find(words, "node");
    return {.rank = rank,
            .host = words.end() - node > 1 ? printable(node[1]) : std::string(),
            .pid = number_after<std::int32_t>(words, "process").value_or(-1),
            .cuda_dev = number_after<std::int32_t>(words, "GPU").value_or(0)};
}

/// What a line says of one rank or of many: "  Rank 3 has status FINALIZE -- GPU ...", "  15 ranks have launched up to
/// operation 5", "  Rank 3 -- GPU ...", which is one of those in the line before.
struct Statement {
    std::optional<std::uint32_t> rank; ///< nullopt: of many
    std::uint32_t ranks = 1;           ///< how many
    std::string_view status;           ///< empty: it says none
    std::optional<std::uint64_t> launched;

    [[nodiscard]] bool says_something() const { return !status.empty() || launched; }
};

std::optional<Statement> statement_of(const Words& words) {
    Statement said;
    if (words.size() > 1 && words[0] == "Rank") {
        said.rank = parse_number<std::uint32_t>(words[1]);
    } else if (words.size() > 1 && words[1] == "ranks") {
        said.ranks = parse_number<std::uint32_t>(words[0]).value_or(0);
    }
    if (!said.rank && said.ranks < 2) {
        return std::nullopt;
    }
    const auto status = std::ranges::find(words, "status");
    said.status = words.end() - status > 1 ? status[1] : std::string_view();
    said.launched = number_after<std::uint64_t>(words, "operation");
    if (words.size() > 4 && words[3] == "not" && words[4] == "launched") {
        said.launched = 0;
    }
    return said;
}

/// Reads line by line. What a line is about depends on the section, and on the last line that names a function or many
/// ranks.
class Reader {
public:
    void read_line(std::string_view line) {
        const auto words = split_words(line);
        if (line.starts_with('#')) {
            begin_communicator(words);
        } else if (!words.empty() && !line.starts_with(' ')) {
            begin_section(line, words);
        } else if (section_ == Section::Groups && words.size() == 8) {
            rows_[words[0]] = {parse_number<std::uint32_t>(words[4]).value_or(0), words[6] == "RUNNING"};
        } else if (section_ == Section::Dead && words.size() > 3 && words[0] == "Process") {
            dead_.emplace(member_of(words, 0).host, parse_number<std::int32_t>(words[1]).value_or(-1));
        } else if (entry_ != nullptr) {
            read_ranks(words);
        }
    }

    /// Returns nullopt if the last section is missing.
    std::optional<Report> take() {
        end_many();
        if (!complete_) {
            return std::nullopt;
        }
        std::map<std::string, std::size_t> times;
        for (const auto& [id, entry] : entries_) {
            ++times[entry.communicator.hash];
        }
        Report report{.version = version_, .communicators = {}, .partial = !empty_, .alike = 0};
        for (auto& [id, entry] : entries_) {
            if (times[entry.communicator.hash] > 1) {
                ++report.alike;
            } else {
                for (auto& [number, rank] : entry.ranks) {
                    entry.communicator.ranks.push_back(std::move(rank));
                }
                for (auto& [number, rank] : entry.missing) {
                    entry.communicator.missing.push_back(std::move(rank));
                }
                report.communicators.push_back(std::move(entry.communicator));
            }
        }
        return report;
    }

private:
    enum class Section { Other, Groups, Dead, Incomplete, Mismatch };
    struct Row {
        std::uint32_t size = 0; ///< of its communicators
        bool runs = true;       ///< they are neither being created nor destroyed
    };
    struct Entry {
        Communicator communicator;
        std::map<std::uint32_t, Rank> ranks;
        std::map<std::uint32_t, MissingRank> missing;
    };

    void begin_section(std::string_view line, const Words& words) {
        end_many();
        entry_ = nullptr;
        section_ = words[0] == "Group" ? Section::Groups : line == "DEAD" ? Section::Dead : Section::Other;
        complete_ = complete_ || line == "Warnings";
        empty_ = empty_ || line.starts_with("No communicator data");
        if (line.starts_with(first_words) && words.size() > 2) {
            version_ = printable(words[2]);
        }
    }

    /// "#0-1 (00000009d1c7e0b5) MISMATCH": the second communicator of the table's first row.
    void begin_communicator(const Words& words) {
        end_many();
        entry_ = nullptr;
        function_.reset();
        if (words.size() < 3 || words[1].size() < 3 || (words[2] != "INCOMPLETE" && words[2] != "MISMATCH") ||
            entries_.size() >= most_communicators) {
            return;
        }
        if (const auto hash = parse_number<std::uint64_t>(words[1].substr(1, words[1].size() - 2), 16)) {
            section_ = words[2] == "MISMATCH" ? Section::Mismatch : Section::Incomplete;
            const auto row = rows_.find(split_once(words[0].substr(1), '-').key);
            entry_ = &entries_[words[0]];
            entry_->communicator.hash = format_text("0x{:x}", *hash);
            if (row != rows_.end()) {
                entry_->communicator.size = row->second.size;
                entry_->communicator.settled = entry_->communicator.settled && row->second.runs;
            }
        }
    }

    void read_ranks(const Words& words) {
        if (words.size() == 7 &&
            words[3] == "different") { // "Communicator ranks have different Reduce operation counts"
            end_many();
            const auto name = std::ranges::find(function_names, words[4]);
            function_.reset();
            if (name != function_names.end()) {
                function_ = static_cast<std::size_t>(name - function_names.begin());
            }
        } else if (words.size() > 3 && words[0] == "The") { // "The missing ranks: 3,5", "The unknown ranks: 3,5"
            auto numbers = split(words[3], ',');
            if (words[3].size() > 1000) {
                numbers.pop_back(); // it may be cut
            }
            for (const auto number : numbers) {
                if (const auto rank = parse_number<std::uint32_t>(number)) {
                    add_missing({{*rank, {}, -1, 0}, false, false, true});
                }
            }
        } else if (const auto said = statement_of(words)) {
            read_statement(*said, words);
        }
    }

    void read_statement(Statement said, const Words& words) {
        if (said.says_something() || !said.rank) {
            end_many();
        } else if (many_) {
            said.status = many_->status;
            said.launched = many_->launched;
            many_->ranks -= std::min(many_->ranks, 1U);
        }
        if (!said.rank) {
            many_ = said;
        }
        const bool is_left = is_left_by(said);
        if (said.rank && (section_ == Section::Incomplete || is_left)) {
            const auto member = member_of(words, *said.rank);
            const bool dead = dead_.contains({member.host, member.pid});
            add_missing({member, section_ == Section::Incomplete && !dead, dead, said.status == "UNKNOWN"});
        } else if (said.rank && said.launched && function_ && *said.rank < entry_->communicator.size) {
            auto& rank = entry_->ranks[*said.rank];
            rank.member = member_of(words, *said.rank);
            rank.counts.at(*function_) = said.launched;
        }
        if (!said.status.empty() && !is_left && said.status != "RUNNING") {
            entry_->communicator.settled = false;
        }
    }

    /// Up to 2.28.9, NCCL may take the missing ranks of a communicator for the next communicators (#1762): their ranks
    /// have any numbers.
    void add_missing(MissingRank rank) {
        if (rank.member.rank < entry_->communicator.size) {
            entry_->missing.try_emplace(rank.member.rank, std::move(rank));
        }
    }

    static bool is_left_by(const Statement& said) { return said.status == "NOCOMM" || said.status == "UNKNOWN"; }

    /// What was said of many ranks is over.
    void end_many() {
        if (entry_ != nullptr && many_ && many_->launched && many_->ranks > 0 && function_) {
            entry_->communicator.unnamed.push_back({*function_, *many_->launched, many_->ranks});
        } else if (entry_ != nullptr && many_ && many_->ranks > 0 && is_left_by(*many_)) {
            entry_->communicator.settled = false; // half of its ranks or more have left
        }
        many_.reset();
    }

    Section section_ = Section::Other;
    bool complete_ = false;
    bool empty_ = false; ///< the job has no communicator
    std::string version_;
    std::map<std::string_view, Row> rows_; ///< of the table, by the number in its first column
    std::set<std::pair<std::string, std::int32_t>> dead_;
    std::map<std::string_view, Entry> entries_; ///< by "#0-1"
    Entry* entry_ = nullptr;
    std::optional<std::size_t> function_; ///< in which ranks differ; nullopt: in their status
    std::optional<Statement> many_;       ///< and how many of them have not been named
};

} // namespace

bool is_text_report(std::string_view text) {
    return text.starts_with(first_words);
}

Result<Report> parse_text_report(std::string_view text) {
    Reader reader;
    for (auto rest = KeyValue{{}, text}; rest.value;) { // without a list of what may be millions of lines
        rest = split_once(*rest.value, '\n');
        if (rest.key.size() <= most_line) {
            reader.read_line(rest.key);
        }
    }
    auto report = reader.take();
    if (!report || !text.ends_with('\n')) {
        return fail("the report of NCCL's RAS is cut off");
    }
    return *std::move(report);
}

} // namespace rdma_nccl::ras
