// SPDX-License-Identifier: Apache-2.0
#include "lib/flight_recorder/variables.h"

#include "lib/base/format.h"
#include "lib/base/text.h"
#include "lib/flight_recorder/pickle.h"
#include "lib/sys/own_directory.h"

#include <array>
#include <cerrno>
#include <optional>
#include <unistd.h>

namespace rdma_nccl::flight_recorder {

namespace {

/// A setting of PyTorch's, under both its names: the second one is newer.
struct Names {
    std::string_view name;
    std::string_view alias;
    std::string_view value; ///< empty: the files' prefix
};
constexpr auto all_names = std::to_array<Names>({
    {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", "2000"}, // entries
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_ON_TIMEOUT", "1"},
    {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE", ""},
});

/// Returns at most one byte more than a pickle may have; nullopt: an error.
std::optional<std::string> read_file(int file) {
    std::string bytes;
    while (bytes.size() <= most_pickle_bytes) {
        std::array<char, 1 << 16> block{};
        const auto count = ::read(file, block.data(), block.size());
        if (count < 0 && errno != EINTR) {
            return std::nullopt;
        }
        if (count == 0) {
            break;
        }
        bytes.append(block.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
    }
    return bytes;
}

} // namespace

std::vector<std::pair<std::string, std::string>> recorder_variables(const Environment& environment,
                                                                    std::string_view directory) {
    std::vector<std::pair<std::string, std::string>> variables;
    for (const auto& [name, alias, value] : all_names) {
        const auto users = environment.get_users(name);
        const auto users_alias = environment.get_users(alias);
        const auto chosen = users           ? *users
                            : users_alias   ? *users_alias
                            : value.empty() ? format_text("{}/{}", directory, file_prefix)
                                            : std::string(value);
        for (const auto each : {name, alias}) {
            if (!environment.get_users(each)) {
                variables.emplace_back(each, chosen);
            }
        }
    }
    return variables;
}

std::vector<Dump> read_dumps(const std::string& directory, std::uint32_t first, std::uint32_t count,
                             std::vector<std::string>& problems) {
    std::vector<Dump> dumps;
    const auto opened = directory.empty() ? std::nullopt : open_own_directory(directory);
    for (std::uint32_t rank = first; opened && rank < first + count; ++rank) {
        const auto name = format_text("{}{}", file_prefix, rank);
        const auto file = open_regular_file(opened->get(), name);
        const auto bytes = file ? read_file(file->get()) : std::nullopt;
        if (!bytes) {
            continue;
        }
        if (auto dump = parse_dump(*bytes, rank)) {
            dumps.push_back(std::move(*dump));
        } else {
            problems.push_back(format_text("{}/{}: {}", printable(directory, 4096), name, dump.error().message));
        }
    }
    return dumps;
}

} // namespace rdma_nccl::flight_recorder
