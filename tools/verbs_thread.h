// SPDX-License-Identifier: Apache-2.0
// A thread with one end of RDMA in it: an end stays in one thread, and a process that measures its own HCA has two.
#pragma once

#include "tools/verbs_end.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace rdma_nccl {

class VerbsThread {
public:
    VerbsThread() : thread_([this] { serve(); }) {}
    /// Waits for what runs in it.
    ~VerbsThread() {
        add({});
        thread_.join();
    }
    VerbsThread(const VerbsThread&) = delete;
    VerbsThread& operator=(const VerbsThread&) = delete;

    /// `work` is called with the thread's end, which it may make or drop. What it refers to must live until it is done.
    template<typename Work>
    auto run(Work work) {
        using Value = std::invoke_result_t<Work, std::unique_ptr<VerbsEnd>&>;
        auto task = std::make_shared<std::packaged_task<Value(std::unique_ptr<VerbsEnd>&)>>(std::move(work));
        auto future = task->get_future();
        add([task](std::unique_ptr<VerbsEnd>& end) { (*task)(end); });
        return future;
    }

private:
    using Task = std::function<void(std::unique_ptr<VerbsEnd>&)>;

    /// An empty one ends the thread.
    void add(Task task) {
        const std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        ready_.notify_one();
    }

    void serve() {
        std::unique_ptr<VerbsEnd> end;
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex_);
            ready_.wait(lock, [this] { return !tasks_.empty(); });
            const Task task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            if (!task) {
                return;
            }
            task(end);
        }
    }

    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<Task> tasks_;
    std::thread thread_; ///< the last: it uses the others
};

} // namespace rdma_nccl
