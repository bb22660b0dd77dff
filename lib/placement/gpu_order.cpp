// SPDX-License-Identifier: Apache-2.0
#include "lib/placement/placement.h"

#include <limits>

namespace rdma_nccl {

namespace {

using Cost = long long;
constexpr Cost infinite = std::numeric_limits<Cost>::max() / 4;

/// Finds shortest augmenting paths with potentials. Row and column 0 mean "none"; ranks and GPUs count from 1.
class Assignment {
public:
    explicit Assignment(const std::vector<std::vector<unsigned>>& costs)
        : costs_(costs), ranks_(costs.size()), gpus_(costs.empty() ? 0 : costs.front().size()),
          rank_potential_(ranks_ + 1), gpu_potential_(gpus_ + 1), rank_of_(gpus_ + 1) {}

    GpuNumbers solve() {
        for (std::size_t rank = 1; rank <= ranks_; ++rank) {
            add(rank);
        }
        GpuNumbers gpu_of(ranks_);
        for (std::size_t gpu = 1; gpu <= gpus_; ++gpu) {
            if (rank_of_[gpu] != 0) {
                gpu_of[rank_of_[gpu] - 1] = gpu - 1;
            }
        }
        return gpu_of;
    }

private:
    /// The given cost decides. Among equal sums, the solution in which more ranks keep the GPU of their own number
    /// wins.
    [[nodiscard]] Cost cost(std::size_t rank, std::size_t gpu) const {
        const auto more_than_all_ties = static_cast<Cost>(ranks_) + 1;
        return static_cast<Cost>(costs_[rank - 1][gpu - 1]) * more_than_all_ties + (rank == gpu ? 0 : 1);
    }

    void add(std::size_t rank) {
        rank_of_[0] = rank;
        std::vector<Cost> least(gpus_ + 1, infinite);
        std::vector<std::size_t> before(gpus_ + 1);
        std::vector<bool> done(gpus_ + 1);
        std::size_t gpu = 0;
        do {
            gpu = step(gpu, least, before, done);
        } while (rank_of_[gpu] != 0);
        while (gpu != 0) {
            rank_of_[gpu] = rank_of_[before[gpu]];
            gpu = before[gpu];
        }
    }

    /// Marks `gpu` as reached, and returns the next one on the shortest path.
    std::size_t step(std::size_t gpu, std::vector<Cost>& least, std::vector<std::size_t>& before,
                     std::vector<bool>& done) {
        done[gpu] = true;
        const std::size_t rank = rank_of_[gpu];
        Cost delta = infinite;
        std::size_t next = 0;
        for (std::size_t other = 1; other <= gpus_; ++other) {
            if (done[other]) {
                continue;
            }
            const Cost reduced = cost(rank, other) - rank_potential_[rank] - gpu_potential_[other];
            if (reduced < least[other]) {
                least[other] = reduced;
                before[other] = gpu;
            }
            if (least[other] < delta) {
                delta = least[other];
                next = other;
            }
        }
        for (std::size_t other = 0; other <= gpus_; ++other) {
            if (done[other]) {
                rank_potential_[rank_of_[other]] += delta;
                gpu_potential_[other] -= delta;
            } else {
                least[other] -= delta;
            }
        }
        return next;
    }

    const std::vector<std::vector<unsigned>>& costs_;
    std::size_t ranks_;
    std::size_t gpus_;
    std::vector<Cost> rank_potential_;
    std::vector<Cost> gpu_potential_;
    std::vector<std::size_t> rank_of_; ///< the rank of each GPU; 0: free
};

} // namespace

GpuNumbers assign_gpus(const std::vector<std::vector<unsigned>>& costs) {
    return Assignment(costs).solve();
}

} // namespace rdma_nccl
