// SPDX-License-Identifier: Apache-2.0
#include "tools/run/failure/hang.h"

#include "lib/base/dynamic_symbols.h"
#include "lib/base/format.h"
#include "lib/base/lists.h"
#include "lib/base/text.h"
#include "lib/sys/signal_fd.h"
#include "lib/traffic/traffic.h"
#include "tools/common/process.h"
#include "tools/common/process_state.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <sys/wait.h>
#include <utility>

namespace rdma_nccl::run {

namespace {

// From nvml.h of CUDA 12: nvmlReturn_t is an enumeration with NVML_SUCCESS 0, nvmlDevice_t is a pointer, and
// nvmlUtilization_t has two percentages.
using Device = struct nvmlDevice_st*;
struct Utilization {
    unsigned gpu;    ///< percentage of time in which a kernel ran
    unsigned memory; ///< percentage of time in which memory was read or written
};
struct Nvml {
    Symbols symbols;
    int (*init)() = symbols.get("nvmlInit_v2");
    int (*shutdown)() = symbols.get("nvmlShutdown");
    int (*by_uuid)(const char*, Device*) = symbols.get("nvmlDeviceGetHandleByUUID");
    int (*by_address)(const char*, Device*) = symbols.get("nvmlDeviceGetHandleByPciBusId_v2");
    int (*read)(Device, Utilization*) = symbols.get("nvmlDeviceGetUtilizationRates");

    [[nodiscard]] std::optional<unsigned> memory_use(Device device) const {
        Utilization use{};
        return read(device, &use) == 0 ? std::optional(use.memory) : std::nullopt;
    }
};

/// A gap of more than this many intervals means that a process was stopped. One node may be late once or twice; other
/// nodes report in between.
constexpr int most_late = 4;

/// Returns the sources of ports like "mlx5_1:1". Reads only the files of these ports, because another HCA may hang.
TrafficSources sources_of(const SysRoot& root, const std::vector<std::string>& ports) {
    Fabric fabric;
    for (const auto& port : ports) {
        const auto [name, number] = split_once(port, ':');
        Hca& hca = fabric.hcas.emplace_back();
        hca.name = name;
        hca.ports.emplace_back().number = parse_number<unsigned>(number.value_or("1")).value_or(1);
    }
    auto sources = traffic_sources(root, fabric, ports);
    std::erase_if(sources.ports, [](const PortSource& port) { return port.source == ByteSource::None; });
    return sources;
}

/// Bytes that pass a port between two samples without a job: keep-alives of a file system, ARP.
constexpr std::uint64_t background = 64 << 10;

bool is_python(const SysRoot& root, pid_t pid) {
    // The name of the executable, because comm is the script's name if a #! line started it.
    const auto program = root.directory(format_text("/proc/{}", pid)).and_then([](const Directory& process) {
        return process.read_link("exe");
    });
    return program && base_name(*program).starts_with("python");
}

Result<CapturedProcess> start_reader(std::vector<std::string> command, const Environment& environment) {
    ProcessStart start{.words = std::move(command),
                       .environment =
                           mapped(environment.all(), [](const auto& one) { return one.first + "=" + one.second; }),
                       .input = -1};
    start.leads_group = true;
    start.prepare = [] {
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
    };
    return CapturedProcess::start(std::move(start), true);
}

/// Describes how the reader ended; empty if it succeeded.
std::string finish_reader(CapturedProcess& reader, std::chrono::milliseconds limit) {
    const auto status = reader.finish();
    if (!status) {
        return format_text("did not end within {:g} s", std::chrono::duration<double>(limit).count());
    }
    if (*status == 0) {
        return {};
    }
    return WIFEXITED(*status) ? format_text("ended with code {}", WEXITSTATUS(*status))
                              : format_text("ended by signal {}", WTERMSIG(*status));
}

/// Returns the number of PID namespaces from that of /proc down to the process's own.
std::size_t pid_namespaces(const SysRoot& root, pid_t pid) {
    return split_words(process_field(root, pid, "NSpid")).size();
}

/// Returns the children of a process that has one thread, the first one first.
std::vector<pid_t> children_of(const SysRoot& root, pid_t pid) {
    std::vector<pid_t> children;
    if (process_field(root, pid, "Threads") == "1") {
        const auto text = root.read(format_text("/proc/{0}/task/{0}/children", pid)).value_or("");
        for (const auto word : split_words(text)) {
            children.push_back(parse_number<pid_t>(word).value_or(0));
        }
    }
    return children;
}

} // namespace

std::function<bool()> watch_gpu_memory(const std::string& nvml, const std::vector<std::string>& gpus) {
    const auto library = load_functions<Nvml>(nvml.c_str(), "", "");
    if (!library || library->init() != 0) {
        return {};
    }
    // Ends with the function that owns it. The library stays loaded, because it may have threads.
    std::shared_ptr<void> session(nullptr, [library](void* /*none*/) { library->shutdown(); });
    std::vector<Device> devices;
    for (const auto& gpu : gpus) {
        const bool uuid = gpu.starts_with("GPU-") || gpu.starts_with("MIG-");
        Device device = nullptr;
        if ((uuid ? library->by_uuid : library->by_address)(gpu.c_str(), &device) == 0 && library->memory_use(device)) {
            devices.push_back(device);
        }
    }
    if (devices.empty()) {
        return {};
    }
    return [library, session = std::move(session), devices = std::move(devices)] {
        return std::ranges::any_of(devices, [&](Device device) { return library->memory_use(device).value_or(0) > 0; });
    };
}

struct ActivityProbe::State {
    const std::string root;
    const std::vector<std::string> ports;
    const std::vector<std::string> gpus;
    const std::chrono::milliseconds period;
    const std::string nvml;

    std::mutex mutex;
    std::condition_variable wake;
    bool ended = false;
    std::uint64_t changes = 0; ///< number of samples that saw something move

    /// Returns false when no more samples are wanted.
    bool wait_for_next() {
        std::unique_lock lock(mutex);
        wake.wait_for(lock, period, [this] { return ended; });
        return !ended;
    }

    void sample_until_ended() {
        const auto opened = SysRoot::open(root);
        if (!opened) {
            return;
        }
        TrafficMeter meter(sources_of(*opened, ports));
        meter.add(read_traffic(*opened, meter.sources()));
        const auto memory_used = gpus.empty() ? std::function<bool()>() : watch_gpu_memory(nvml, gpus);
        while (wait_for_next()) {
            meter.add(read_traffic(*opened, meter.sources()));
            const bool bytes_moved = std::ranges::any_of(
                meter.last().ports, [](const PortTraffic& port) { return port.bytes.most() > background; });
            if (bytes_moved || (memory_used && memory_used())) {
                const std::lock_guard lock(mutex);
                ++changes;
            }
        }
    }
};

ActivityProbe::ActivityProbe(const SysRoot& root, std::vector<std::string> ports, std::vector<std::string> gpus,
                             std::chrono::milliseconds period, const std::string& nvml)
    : state_(new State{root.path(), std::move(ports), std::move(gpus), period, nvml, {}, {}}) {
    if (!state_->ports.empty() || !state_->gpus.empty()) {
        // If no thread can be started, only output is watched.
        if (auto thread = thread_without_signals([state = state_] { state->sample_until_ended(); })) {
            thread->detach(); // it may hang in a driver, so nobody can wait for it
        }
    }
}

ActivityProbe::~ActivityProbe() {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->wake.notify_all();
}

bool ActivityProbe::moved(std::uint64_t output_bytes) {
    const std::lock_guard lock(state_->mutex);
    const bool moved = output_bytes != output_bytes_ || state_->changes != changes_;
    output_bytes_ = output_bytes;
    changes_ = state_->changes;
    return moved;
}

std::chrono::milliseconds HangJudge::idle_time(Time now) const {
    const auto last = std::ranges::max_element(nodes_, {}, &Node::moved);
    return last == nodes_.end() ? std::chrono::milliseconds(0)
                                : std::chrono::duration_cast<std::chrono::milliseconds>(now - last->moved);
}

bool HangJudge::on_sample(std::size_t node, bool moved, Time now) {
    if (now - last_call_ > most_late * interval_) {
        std::fill(nodes_.begin(), nodes_.end(), Node{now, now});
        reported_ = false;
    }
    last_call_ = now;
    if (node >= nodes_.size()) {
        return false;
    }
    auto& sender = nodes_[node];
    const bool was_away = now - sender.reported > most_late * interval_;
    sender.reported = now;
    if (moved || was_away) { // a node that was stopped or cut off: whether anything moved there is unknown
        sender.moved = now;
        reported_ = false;
    }
    const bool all_report =
        std::ranges::all_of(nodes_, [&](const Node& one) { return now - one.reported <= most_late * interval_; });
    return idle_time(now) >= timeout_ && all_report && !std::exchange(reported_, true);
}

std::optional<std::vector<std::string>> stack_command(const SysRoot& root, pid_t pid, const Environment& environment) {
    const auto number = std::to_string(pid);
    const auto path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
    if (is_python(root, pid)) {
        if (const auto program = find_in_path("py-spy", path); !program.empty()) {
            return std::vector<std::string>{program, "dump", "--pid", number};
        }
    }
    if (const auto program = find_in_path("gdb", path); !program.empty()) {
        std::vector<std::string> command{program, "-p", number, "-batch", "-nx"};
        for (const char* const order :
             {"set pagination off", "set debuginfod enabled off", "thread apply all -ascending bt 64"}) {
            command.insert(command.end(), {"-ex", order});
        }
        return command;
    }
    return std::nullopt;
}

pid_t program_of(const SysRoot& root, pid_t rank) {
    constexpr int most_starters = 8; // one within the other
    const auto outside = pid_namespaces(root, rank);
    pid_t starter = rank;
    for (int i = 0; i < most_starters; ++i) {
        const auto children = children_of(root, starter);
        if (children.size() != 1) {
            break; // a starter does nothing but wait for its child
        }
        const pid_t child = children.front();
        if (pid_namespaces(root, child) > outside) {
            // Process 1 of bubblewrap's namespace is its own. It starts the program, and gets the orphans (do_init() in
            // bubblewrap.c).
            const bool own = process_field(root, child, "Name") == process_field(root, starter, "Name");
            const auto inside = own ? children_of(root, child) : std::vector<pid_t>();
            return inside.empty() ? child : inside.front();
        }
        starter = child;
    }
    return rank;
}

std::vector<ProcessStack> read_stacks(const SysRoot& root, std::span<const pid_t> pids, const Environment& environment,
                                      std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::vector<ProcessStack> stacks;
    std::vector<std::size_t> stack_of; // by reader: index of its stack
    std::vector<CapturedProcess> readers;
    for (const pid_t pid : pids) {
        const pid_t program = program_of(root, pid);
        auto& stack = stacks.emplace_back(ProcessStack{pid, program, kernel_state(root, program), "", "", ""});
        auto command = stack_command(root, program, environment);
        if (!command) {
            continue;
        }
        stack.command = base_name(command->front());
        if (auto reader = start_reader(std::move(*command), environment)) {
            readers.push_back(std::move(*reader));
            stack_of.push_back(stacks.size() - 1);
        } else {
            stack.problem = "could not be started";
        }
    }
    CapturedProcess::read(readers, deadline);
    for (std::size_t i = 0; i < readers.size(); ++i) {
        auto& stack = stacks[stack_of[i]];
        stack.problem = finish_reader(readers[i], limit);
        stack.text = readers[i].text();
    }
    return stacks;
}

std::string stack_text(const ProcessStack& stack, const std::string& rank) {
    const auto container = stack.program == stack.pid ? "" : format_text(" in the container of {}", stack.pid);
    auto text = format_text("{}, pid {}{}: {}\n", rank, stack.program, container, stack.kernel);
    if (stack.command.empty()) {
        return text + "  no stack: neither py-spy nor gdb is in PATH\n";
    }
    if (!stack.problem.empty()) {
        text += format_text("  {} {}\n", stack.command, stack.problem);
    }
    for (const auto line : split(trim(stack.text), '\n')) {
        std::string plain(line);
        std::ranges::replace(plain, '\t', ' ');
        text += format_text("    | {}\n", printable(plain, 400));
    }
    return text;
}

} // namespace rdma_nccl::run
