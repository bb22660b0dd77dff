// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

namespace rdma_nccl::test {

/// How many files this process may have open, as long as this is there.
class DescriptorLimit {
public:
    explicit DescriptorLimit(rlim_t count) {
        (void)::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit limit = before_;
        limit.rlim_cur = std::min(count, limit.rlim_max);
        (void)::setrlimit(RLIMIT_NOFILE, &limit);
        count_ = limit.rlim_cur;
    }
    DescriptorLimit(const DescriptorLimit&) = delete;
    DescriptorLimit& operator=(const DescriptorLimit&) = delete;
    DescriptorLimit(DescriptorLimit&&) = delete;
    DescriptorLimit& operator=(DescriptorLimit&&) = delete;
    ~DescriptorLimit() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

    [[nodiscard]] rlim_t count() const { return count_; }

    /// So many more than are open now, as far as the free numbers below the greatest are none.
    static rlim_t so_many_more(rlim_t count) {
        const int next = ::dup(0);
        ::close(next);
        return static_cast<rlim_t>(next) + count;
    }

private:
    rlimit before_{};
    rlim_t count_ = 0;
};

} // namespace rdma_nccl::test
