// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs_thread.h"

namespace rdma_nccl {

VerbsThread::VerbsThread() : thread_([this] { serve(); }) {}

VerbsThread::~VerbsThread() {
    add({});
    thread_.join();
}

void VerbsThread::add(Task task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    ready_.notify_one();
}

void VerbsThread::serve() {
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

} // namespace rdma_nccl
