// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/verify.h"

#include "lib/base/format.h"
#include "lib/base/json.h"
#include "lib/base/result.h"
#include "lib/base/text.h"
#include "lib/base/unique_fd.h"
#include "tools/common/print.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace rdma_nccl {

namespace {

Json number_or_null(std::uint32_t number) {
    return number == 0 ? Json() : Json(number);
}

Json connections_json(const std::array<std::uint64_t, nccl_transports>& connections) {
    const auto of = [&](NcclTransport transport) { return connections.at(static_cast<std::size_t>(transport)); };
    return {{"rdma", of(NcclTransport::Rdma)},       {"rdma_gdr", of(NcclTransport::RdmaGdr)},
            {"sockets", of(NcclTransport::Socket)},  {"other", of(NcclTransport::OtherNet)},
            {"nvlink", of(NcclTransport::Nvlink)},   {"p2p", of(NcclTransport::PeerToPeer)},
            {"shm", of(NcclTransport::SharedMemory)}};
}

Json process_json(const NcclProcess& process) {
    Json causes = Json::array();
    for (const auto& [cause, number] : process.causes) {
        causes.push_back({{"text", cause}, {"count", number}});
    }
    return {{"host", process.host},
            {"pid", process.pid},
            {"rank", process.rank},
            {"ranks", number_or_null(process.ranks)},
            {"nodes", number_or_null(process.nodes)},
            {"nccl", null_if_empty(process.version)},
            {"networks", process.networks},
            {"connections", connections_json(process.connections)},
            {"hcas", process.hcas},
            {"gids", process.gids},
            {"causes", std::move(causes)}};
}

} // namespace

Json verify_log_json(const JudgedLog& judged) {
    Json processes = Json::array();
    for (const auto& process : judged.log.processes) {
        processes.push_back(process_json(process));
    }
    const auto& evidence = judged.evidence;
    return {{"schema", 1},
            {"verdict", name_of(judged.verdict.verdict)},
            {"grade", "D"},
            {"gpu_direct", name_of(judged.verdict.gpu_direct)},
            {"why", judged.verdict.why},
            {"causes", evidence.causes},
            {"nccl", null_if_empty(evidence.version)},
            {"nodes", number_or_null(evidence.nodes)},
            {"networks", evidence.networks},
            {"connections", connections_json(judged.log.connections())},
            {"hcas", evidence.hcas},
            {"lines", judged.log.lines},
            {"nccl_lines", judged.log.nccl_lines},
            {"truncated", judged.log.truncated},
            {"processes", std::move(processes)}};
}

namespace {

constexpr std::size_t block_size = std::size_t{256} << 10;

Error error_of(const std::string& name, int number) {
    const char* const hint = number == EISDIR ? ": name the files in it" : "";
    return {format_text("{}: {}{}", printable(name), std::strerror(number), hint), number};
}

/// Returns true for the magic bytes of gzip (RFC 1952), zstd (RFC 8878) or xz.
bool is_compressed(std::string_view bytes) {
    return bytes.starts_with("\x1f\x8b") || bytes.starts_with("\x28\xb5\x2f\xfd") ||
           bytes.starts_with(std::string_view("\xfd"
                                              "7zXZ"));
}

Result<void> read_descriptor(int descriptor, const std::string& name, NcclLogReader& reader) {
    std::string block(block_size, '\0');
    for (bool first = true;; first = false) {
        const auto size = ::read(descriptor, block.data(), block.size());
        if (size == 0) {
            return {};
        }
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0) {
            return tl::unexpected(error_of(name, errno));
        }
        const std::string_view bytes(block.data(), static_cast<std::size_t>(size));
        if (first && is_compressed(bytes)) {
            return fail(format_text("{0}: is compressed: zcat, zstdcat or xzcat {0} | rdma-nccl verify --log -",
                                    printable(name)));
        }
        reader.read(bytes);
    }
}

Result<void> read_file(const std::string& name, NcclLogReader& reader) {
    if (name == "-") {
        return read_descriptor(STDIN_FILENO, "standard input", reader);
    }
    const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    return file ? read_descriptor(file.get(), name, reader) : tl::unexpected(error_of(name, errno));
}

JudgedLog judge(NcclLog log, bool all_read) {
    JudgedLog judged{std::move(log), {}, {}, all_read};
    judged.evidence = summary(judged.log);
    judged.verdict = judge_log(judged.evidence);
    auto& verdict = judged.verdict;
    if (!all_read && judged.log.lines == 0) {
        verdict.why = {"no log could be read"};
    } else if (!all_read) {
        // The unread rest may show the opposite; only MIXED is true in any case.
        verdict.verdict = verdict.verdict == Verdict::Mixed ? Verdict::Mixed : Verdict::Unknown;
        verdict.why.emplace_back("not all of the logs could be read");
    }
    return judged;
}

} // namespace

int verify_log(const VerifyOptions& options) {
    NcclLogReader reader;
    bool all_read = true;
    for (const auto& name : options.logs) {
        const auto done = read_file(name, reader);
        reader.end_of_file();
        if (!done) {
            print_error(done.error().message);
            all_read = false;
        }
    }
    const auto judged = judge(reader.finish(), all_read);
    print_out(options.json ? verify_log_json(judged).dump(2) + "\n" : verify_log_text(judged, options.all));
    return exit_code_of(judged.verdict.verdict);
}

} // namespace rdma_nccl
