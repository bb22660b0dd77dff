// SPDX-License-Identifier: Apache-2.0
// A thread that owns one end of RDMA. An end must stay in one thread, and a process that measures its own HCA has two.
#pragma once

#include "tools/verbs/endpoint.h"

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
    /// Waits for the tasks in the thread.
    ~VerbsThread() {
        add({});
        thread_.join();
    }
    VerbsThread(const VerbsThread&) = delete;
    VerbsThread& operator=(const VerbsThread&) = delete;

    /// Calls `work` in the thread with the thread's end, which it may create or destroy. Objects that `work` refers to
    /// must live until it is done.
    template<typename Work>
    auto run(Work work) {
        using Value = std::invoke_result_t<Work, std::unique_ptr<VerbsEndpoint>&>;
        auto task = std::make_shared<std::packaged_task<Value(std::unique_ptr<VerbsEndpoint>&)>>(std::move(work));
        auto future = task->get_future();
        add([task](std::unique_ptr<VerbsEndpoint>& end) { (*task)(end); });
        return future;
    }

private:
    using Task = std::function<void(std::unique_ptr<VerbsEndpoint>&)>;

    /// An empty task ends the thread.
    void add(Task task) {
        const std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
        ready_.notify_one();
    }

    void serve() {
        std::unique_ptr<VerbsEndpoint> end;
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
    std::thread thread_; ///< last, because it uses the others
};

} // namespace rdma_nccl
