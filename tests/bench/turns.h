// SPDX-License-Identifier: Apache-2.0
// What the benchmarks in C++ share: pieces of work that take turns, and what each costs.
#pragma once

#include "lib/base/result.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rdma_nccl {

[[noreturn]] inline void give_up(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::_Exit(1);
}

template<typename T>
T must(Result<T> result) {
    if (!result) {
        give_up(result.error().message);
    }
    return std::move(*result);
}

inline double cpu_milliseconds() {
    timespec time{};
    (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

struct Work {
    const char* name;
    std::function<void()> body;
    std::vector<double> costs = {};
};

/// Prints "NAME MILLISECONDS" lines: the medians of CPU time. Runs them in turn: a machine that slows down slows
/// all.
template<std::size_t Count>
void measure(std::array<Work, Count> all, unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
        for (auto& work : all) {
            const double start = cpu_milliseconds();
            work.body();
            work.costs.push_back(cpu_milliseconds() - start);
        }
    }
    for (auto& work : all) {
        const auto middle = work.costs.begin() + static_cast<std::ptrdiff_t>(work.costs.size() / 2);
        std::nth_element(work.costs.begin(), middle, work.costs.end());
        std::printf("%s %.4f\n", work.name, *middle);
    }
}

} // namespace rdma_nccl
