// SPDX-License-Identifier: Apache-2.0
#include "tools/top.h"

#include "tools/exit_codes.h"
#include "tools/print.h"
#include "tools/settings_options.h"
#include "tools/top_loop.h"
#include "tools/top_sampler.h"

#include <memory>

namespace rdma_nccl {

namespace {

struct TopLine {
    SettingsOptions settings;
    double interval = 1;
    std::uint64_t count = 0;
    bool once = false;
    bool json = false;
};

int run_top(const TopLine& line) {
    auto settings = settings_from(line.settings);
    if (!settings) {
        print_error(settings.error().message);
        return 2;
    }
    auto root = Root::open(settings->root);
    if (!root) {
        print_error(root.error().message);
        return exit_cannot_tell;
    }
    if (!root->exists("/sys/class/net")) {
        print_error("no /sys/class/net below " + root->path() + "; name the directory that holds sys and proc");
        return exit_cannot_tell;
    }
    TopLoopOptions options;
    options.interval = std::chrono::milliseconds(static_cast<std::int64_t>(line.interval * 1000));
    options.count = line.once ? 1 : line.count;
    options.form = line.json ? TopForm::Json : line.once ? TopForm::Table : TopForm::Live;
    TopSampler sampler(std::move(*root), std::move(*settings), options.interval);
    return top_loop(sampler, options);
}

} // namespace

void add_top_command(CLI::App& app, int& exit_code) {
    auto line = std::make_shared<TopLine>();
    auto* command =
        app.add_subcommand("top", "bytes over RDMA and over sockets, live, and whose queue pairs there are");
    command->add_option("-i,--interval", line->interval, "seconds between two samples, 0.1 to 3600 (default: 1)")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.1, 3600.0));
    auto* count = command->add_option("-n,--count", line->count, "end after so many samples")
                      ->type_name("N")
                      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000000000}));
    command->add_flag("--once", line->once, "one sample, as a table")->excludes(count);
    command->add_flag("--json", line->json, "one JSON object a line");
    add_settings_options(*command, line->settings);
    command->callback([line, &exit_code] { exit_code = run_top(*line); });
}

} // namespace rdma_nccl
