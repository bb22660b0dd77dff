// SPDX-License-Identifier: Apache-2.0
// usage: holder closed PORT | hold PORT | listen PORT: holds the block of ports that begins with PORT as the head node
// of a step does before its tasks start, or from then on; or listens on PORT with SO_REUSEADDR as tasks do. Says
// "ready", or why not, and stays until its input ends.
#include "lib/net/tcp.h"
#include "lib/plan/port_block.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

using namespace rdma_nccl;

namespace {

int stay() {
    std::puts("ready");
    (void)std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
}

int refuse(const std::string& why) {
    std::puts(why.c_str());
    return 1;
}

int hold(std::uint16_t port, bool open) {
    PortBlock wanted;
    wanted.first = port;
    wanted.source = "setting";
    const PortRange range{port, static_cast<std::uint16_t>(port + port_block_size - 1)};
    const auto held = hold_ports(wanted, {}, range, BlockChoice::Fixed);
    if (open) {
        open_for_reuse(held.sockets);
    }
    return held.sockets.size() == port_block_size ? stay() : refuse(held.block.warnings.front());
}

int listen(std::uint16_t port) {
    const auto socket = listen_on(port, PortSharing::Reuse);
    return socket ? stay() : refuse(socket.error().message);
}

} // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        return 2;
    }
    const auto port = static_cast<std::uint16_t>(std::strtoul(arguments[2], nullptr, 10));
    const std::string_view what = arguments[1];
    return what == "listen" ? listen(port) : hold(port, what == "hold");
}
