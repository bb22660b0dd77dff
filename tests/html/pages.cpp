// SPDX-License-Identifier: Apache-2.0
// usage: pages DIRECTORY: writes pages of fixed reports there, for html-test to look at.
#include "tests/unit/pairs_cluster.h"
#include "tools/bench/output.h"
#include "tools/measure/rails.h"
#include "tools/pairs/output.h"
#include "tools/verbs/rail.h"

#include <cmath>
#include <cstdio>
#include <fstream>

namespace rdma_nccl::test {
namespace {

constexpr const char* hostile_name =
    "</script><script>window.hacked=1</script><img src=x onerror=\"window.hacked=1\">'\"&@title@";

/// Noise that is the same with each run and each compiler: -1 to 1.
class Noise {
public:
    double next() {
        state = state * 6364136223846793005U + 1442695040888963407U;
        return static_cast<double>(state >> 40U) / (1U << 23U) - 1;
    }

private:
    std::uint64_t state = 1;
};

void add_details(pairs::Report& report, Noise& noise, bool with_tcp) {
    report.seconds = 372.5;
    report.with_tcp = with_tcp;
    for (pairs::PairingResult& result : report.results) {
        result.latency = latency_of(1.9 + 0.1 * noise.next());
        result.both = gbps_of(1.85 * std::min(result.forward->gbps, result.backward->gbps));
        if (with_tcp) {
            result.forward->tcp_gbps = 38 + 2 * noise.next();
            result.backward->tcp_gbps = 38 + 2 * noise.next();
        }
    }
}

/// Node 2 is slow, rail 1 of node 5 receives slowly, the pair 0 and 3 is slow, of node 6 nothing is heard, ...
pairs::Report cluster(unsigned nodes, unsigned rails, bool with_tcp = false) {
    Noise noise;
    auto report = measured_cluster(nodes, rails, [&](unsigned from, unsigned from_rail, unsigned to, unsigned) {
        const double usual = 388 * (1 + 0.015 * noise.next());
        if (nodes == 2) {
            return from_rail == 1 ? 0.3 * usual : usual;
        }
        const bool slow_link = std::min(from, to) == 0 && std::max(from, to) == 3;
        return from == 2 || to == 2                ? 0.5 * usual
               : to == 5 && from_rail + 1 == rails ? 0.7 * usual
               : slow_link                         ? 0.4 * usual
                                                   : usual;
    });
    add_details(report, noise, with_tcp);
    for (pairs::PairingResult& result : report.results) {
        const auto& [a, b, rail_a, rail_b] = result.pairing;
        if (a == 0 && b == 3) {
            result.notes = {"retransmits: 120 at n003 mlx5_0:1"};
        }
        if (nodes > 7 && (a == 6 || b == 6)) {
            result = failed_result(result.pairing, "no answer within 5 s: is the node up?");
        }
        if (nodes > 7 && a == 1 && b == 7) {
            result.latency = latency_of(9.1);
        }
    }
    return report;
}

pairs::Report hostile() {
    auto report = cluster(8, 2);
    report.nodes[0].name = hostile_name;
    report.nodes[1].name = std::string("\x1b[2J\xff\x00 --> <!--", 14);
    report.nodes[2].name = std::string(300, 'x');
    report.nodes[3].rails[0].hca = "<b>mlx5</b>";
    report.results[0].problem = hostile_name;
    report.results[1].notes = {hostile_name};
    report.schedule = hostile_name;
    return report;
}

pairs::Report early() {
    auto report = cluster(8, 2);
    report.results.resize(19);
    report.ended_early = "interrupted";
    return report;
}

pairs::Report software() {
    auto report = cluster(2, 2, true);
    for (measure::Node& node : report.nodes) {
        for (PairRail& rail : node.rails) {
            rail.software = true;
            rail.hca = "rxe_eth" + std::to_string(&rail - node.rails.data());
        }
    }
    return report;
}

StepVerdict verdict_of(Verdict verdict) {
    StepVerdict step;
    step.verdict = verdict;
    step.grade = Grade::B;
    step.share = verdict == Verdict::Used ? 0.998 : 0;
    (verdict == Verdict::Used ? step.rdma : step.sockets).tx = std::uint64_t{412} << 30U;
    (verdict == Verdict::Used ? step.rdma : step.sockets).rx = std::uint64_t{412} << 30U;
    step.why = {"all ports moved about the same"};
    return step;
}

/// A curve as collectives have it: latency first, then the link.
bench::Run run_of(const char* name, const char* what, unsigned ranks, double peak, Verdict verdict, bool rdma_meant) {
    bench::Run run;
    run.name = name;
    run.what = what;
    run.ranks = ranks;
    run.nodes = 2;
    run.rdma_meant = rdma_meant;
    run.library = "NCCL 2.28.9 (/usr/lib/x86_64-linux-gnu/libnccl.so.2)";
    if (!rdma_meant) {
        run.variables = {{"NCCL_IB_DISABLE", "1"}, {"NCCL_NET_PLUGIN", "none"}};
    }
    run.verdict = verdict_of(verdict);
    for (const char* operation : {"all_reduce", "all_gather"}) {
        for (std::uint64_t size = 8192; size <= std::uint64_t{8} << 30U; size *= 4) {
            bench::ResultRow row;
            row.operation = operation;
            row.bytes = size;
            row.count = size / 4;
            row.type = "float";
            row.redop = "sum";
            const double bytes = static_cast<double>(size);
            auto& times = row.out_of_place;
            times.time_us = 30 + bytes / (peak * 1e3);
            times.min_us = times.time_us * 0.97;
            times.max_us = times.time_us * 1.06;
            times.algbw = bytes / times.time_us / 1e3;
            times.busbw = times.algbw * 2 * (ranks - 1) / ranks;
            times.wrong = 0;
            row.in_place = times;
            run.rows.push_back(row);
        }
    }
    return run;
}

bench::Report bench() {
    bench::Report report;
    report.started = "2026-03-01T12:00:00+01:00";
    report.seconds = 1234;
    report.nodes = {"n001", "n002"};
    report.gpus = {"NVIDIA H100 80GB HBM3"};
    for (const unsigned ranks : {2U, 4U, 8U, 16U}) {
        const double peak = 200.0 / (1 + 8.0 / ranks);
        report.runs.push_back(run_of("A", "as it is", ranks, peak, Verdict::Used, true));
        report.runs.push_back(run_of("B", "without RDMA", ranks, 4.2, Verdict::NotUsed, false));
        report.runs.push_back(run_of("C", "RDMA without GPUDirect", ranks, peak / 3, Verdict::Used, true));
        report.runs.push_back(
            run_of("A'", "as it is, again", ranks, peak * 0.98, ranks == 16 ? Verdict::NotUsed : Verdict::Used, true));
    }
    return report;
}

bench::Report hostile_bench() {
    bench::Report report = bench();
    report.host = true;
    report.software = true;
    report.ended_early = "time limit";
    report.nodes = {hostile_name, std::string(500, 'n')};
    report.runs.resize(2);
    report.runs[0].what = hostile_name;
    report.runs[0].variables = {{hostile_name, hostile_name}, {"LONG", std::string(600, 'x')}};
    report.runs[0].verdict.reset();
    report.runs[0].problem = hostile_name;
    report.runs[1].rows.clear();
    return report;
}

bool write(const std::string& path, const std::string& page) {
    std::ofstream file(path, std::ios::binary);
    file << page;
    file.close();
    return file.good();
}

int write_all(const std::string& directory) {
    const auto pairs = [&](const char* name, const pairs::Report& report) {
        return write(directory + "/" + name + ".html", pairs::format_html(report, pairs::judge(report, {})));
    };
    const bool written = pairs("two", cluster(2, 2, true)) && pairs("eight", cluster(8, 2, true)) &&
                         pairs("sixtyfour", cluster(64, 8)) && pairs("many", cluster(256, 1)) &&
                         pairs("hostile", hostile()) && pairs("early", early()) && pairs("software", software()) &&
                         pairs("empty", idle_cluster(0, 0)) && pairs("nothing", idle_cluster(3, 1)) &&
                         write(directory + "/bench.html", bench::write_html(bench())) &&
                         write(directory + "/bench-hostile.html", bench::write_html(hostile_bench())) &&
                         write(directory + "/bench-empty.html", bench::write_html({}));
    return written ? 0 : 1;
}

} // namespace
} // namespace rdma_nccl::test

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: pages DIRECTORY\n");
        return 2;
    }
    return rdma_nccl::test::write_all(argv[1]);
}
