// SPDX-License-Identifier: Apache-2.0
#include "lib/nearest_hca.h"

#include <algorithm>
#include <numeric>

namespace rdma_nccl {

namespace {

constexpr std::size_t nobody = static_cast<std::size_t>(-1);

/// Gives each device one of its nearest HCAs, with as few devices at one HCA as can be: bipartite matching by
/// augmenting paths, in which an HCA takes one device more whenever not all find a place.
class Sharing {
public:
    explicit Sharing(const DistanceTable& distances)
        : nearest_(distances.size()), users_(distances.empty() ? 0 : distances.front().size()),
          hca_of_(distances.size(), nobody) {
        for (std::size_t device = 0; device < distances.size(); ++device) {
            const auto& row = distances[device];
            const auto least = *std::min_element(row.begin(), row.end());
            for (std::size_t hca = 0; hca < row.size(); ++hca) {
                if (row[hca] == least) {
                    nearest_[device].push_back(hca);
                }
            }
        }
    }

    std::vector<std::size_t> share() {
        for (capacity_ = 1; std::find(hca_of_.begin(), hca_of_.end(), nobody) != hca_of_.end(); ++capacity_) {
            for (std::size_t device = 0; device < hca_of_.size(); ++device) {
                std::vector<bool> tried(users_.size());
                if (hca_of_[device] == nobody) {
                    (void)find_place(device, tried);
                }
            }
        }
        return hca_of_;
    }

private:
    bool find_place(std::size_t device, std::vector<bool>& tried) {
        for (const std::size_t hca : nearest_[device]) {
            if (users_[hca].size() < capacity_) {
                users_[hca].push_back(device);
                hca_of_[device] = hca;
                return true;
            }
        }
        for (const std::size_t hca : nearest_[device]) {
            if (tried[hca]) {
                continue;
            }
            tried[hca] = true;
            for (auto& user : users_[hca]) {
                if (find_place(user, tried)) {
                    user = device;
                    hca_of_[device] = hca;
                    return true;
                }
            }
        }
        return false;
    }

    std::vector<std::vector<std::size_t>> nearest_;
    std::vector<std::vector<std::size_t>> users_; ///< of each HCA
    std::vector<std::size_t> hca_of_;
    std::size_t capacity_ = 1;
};

} // namespace

DistanceTable distances_to_hcas(std::span<const Place> devices, std::span<const Place> hcas, const Topology& topology) {
    DistanceTable table;
    for (const auto& device : devices) {
        auto& row = table.emplace_back();
        for (const auto& hca : hcas) {
            row.push_back(distance_between(device, hca, topology));
        }
    }
    return table;
}

bool tells_nearness(const DistanceTable& distances) {
    if (distances.empty() || distances.front().empty()) {
        return false;
    }
    const Distance first = distances.front().front();
    const bool one_distance = std::all_of(distances.begin(), distances.end(), [first](const auto& row) {
        return std::all_of(row.begin(), row.end(), [first](Distance distance) { return distance == first; });
    });
    const bool several = distances.size() > 1 && distances.front().size() > 1;
    return !one_distance || (first != Distance::Unknown && !several);
}

std::vector<std::vector<std::size_t>> order_hcas(const DistanceTable& distances) {
    if (distances.empty() || distances.front().empty()) {
        return std::vector<std::vector<std::size_t>>(distances.size());
    }
    const auto firsts = Sharing(distances).share();
    const std::size_t count = distances.front().size();
    std::vector<std::vector<std::size_t>> orders;
    for (std::size_t device = 0; device < distances.size(); ++device) {
        std::vector<std::size_t> order(count);
        std::iota(order.begin(), order.end(), 0);
        // Behind its own, a device takes equally near ones in turn, so that neighbours differ in the second choice,
        // too.
        std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(firsts[device]), order.end());
        std::stable_sort(order.begin(), order.end(),
                         [&row = distances[device]](std::size_t a, std::size_t b) { return row[a] < row[b]; });
        orders.push_back(std::move(order));
    }
    return orders;
}

} // namespace rdma_nccl
