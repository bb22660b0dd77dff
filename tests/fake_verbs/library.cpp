// SPDX-License-Identifier: Apache-2.0
// The functions of libibverbs, as verbs.h declares them.
#include "fake_verbs.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <sys/prctl.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_query_port

namespace {

constexpr double tick_us = 4.096; // of ibv_qp_attr::timeout
constexpr unsigned look_us = 10000;
constexpr int most_writes = 16384;
constexpr int most_completions = 1 << 22;

std::string port_directory(const ibv_context* context, unsigned port) {
    return static_cast<const fake::Context*>(context)->directory + "/ports/" + std::to_string(port);
}

bool is_zero(const ibv_gid& gid) {
    return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0;
}

int to_init(fake::QueuePair& pair, const ibv_qp_attr& attributes) {
    pair.port = port_directory(pair.context, attributes.port_num);
    if (fake::read_line(pair.port + "/state").empty()) {
        return EINVAL;
    }
    fake::say_more("qp", pair.number, std::to_string(::getpid()) + " " + pair.port);
    return 0;
}

/// A GID that the other port does not have: what is sent arrives nowhere.
std::optional<fake::PeerQueuePair> peer_at(std::uint32_t number, const ibv_gid& gid) {
    auto peer = fake::find_queue_pair(number);
    const auto has_it = [&](const std::string& index) {
        return std::memcmp(fake::gid_at(peer->port, index).raw, gid.raw, sizeof gid.raw) == 0;
    };
    return peer && std::ranges::any_of(fake::names_in(peer->port + "/gids"), has_it) ? peer : std::nullopt;
}

int to_receive(fake::QueuePair& pair, const ibv_qp_attr& attributes) {
    const auto& grh = attributes.ah_attr.grh;
    const auto own = fake::gid_at(pair.port, std::to_string(grh.sgid_index));
    if (attributes.ah_attr.is_global == 0 || is_zero(own)) {
        return EINVAL;
    }
    pair.path = fake::path_between(fake::gid_text(own), fake::gid_text(grh.dgid));
    pair.path_mtu = 128U << static_cast<unsigned>(attributes.path_mtu);
    pair.peer_number = attributes.dest_qp_num;
    pair.peer = peer_at(attributes.dest_qp_num, grh.dgid);
    return pair.path.unroutable ? ETIMEDOUT : 0;
}

void to_send(fake::QueuePair& pair, const ibv_qp_attr& attributes) {
    const double each = attributes.timeout == 0 ? 1e6 : tick_us * std::pow(2, attributes.timeout);
    pair.timeout = std::chrono::microseconds(static_cast<std::int64_t>(each * (1 + attributes.retry_cnt)));
}

} // namespace

extern "C" {

/// Open devices need theirs beyond the list: they stay.
static ibv_device* device_of(const std::string& name) {
    static std::mutex mutex;
    static std::map<std::string, ibv_device> devices;
    const std::lock_guard lock(mutex);
    auto& device = devices[name];
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    std::strncpy(device.name, name.c_str(), sizeof device.name - 1);
    return &device;
}

ibv_device** ibv_get_device_list(int* count) {
    const auto names = fake::names_in(fake::device_directory(""));
    auto** const list = new ibv_device* [names.size() + 1] {};
    for (std::size_t i = 0; i < names.size(); ++i) {
        list[i] = device_of(names[i]);
    }
    if (count != nullptr) {
        *count = static_cast<int>(names.size());
    }
    return list;
}

void ibv_free_device_list(ibv_device** list) {
    delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) {
    return device->name;
}

ibv_context* ibv_open_device(ibv_device* device) {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // others write into this process
    auto context = std::make_unique<fake::Context>();
    context->device = device;
    context->directory = fake::device_directory(device->name);
    context->ops.post_send = fake::post_send;
    context->ops.poll_cq = fake::poll;
    return context.release();
}

int ibv_close_device(ibv_context* context) {
    delete static_cast<fake::Context*>(context);
    return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
    *attributes = {};
    attributes->max_qp_wr = most_writes;
    attributes->max_cqe = most_completions;
    return 0;
}

int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
    ibv_port_attr answer{};
    const auto directory = port_directory(context, port);
    const auto state = fake::read_line(directory + "/state"); // "4: ACTIVE"
    if (state.empty()) {
        return EINVAL;
    }
    answer.state = static_cast<ibv_port_state>(std::atoi(state.c_str()));
    answer.max_mtu = answer.active_mtu = IBV_MTU_4096;
    answer.gid_tbl_len = static_cast<int>(fake::names_in(directory + "/gids").size());
    answer.link_layer = fake::read_line(directory + "/link_layer") == "InfiniBand" ? IBV_LINK_LAYER_INFINIBAND
                                                                                   : IBV_LINK_LAYER_ETHERNET;
    answer.max_msg_sz = 1U << 30U;
    // The caller's struct ends behind the link layer.
    std::memcpy(static_cast<void*>(attributes), &answer, offsetof(ibv_port_attr, flags));
    return 0;
}

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
    *gid = fake::gid_at(port_directory(context, port), std::to_string(index));
    return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
    auto* const domain = new ibv_pd{};
    domain->context = context;
    return domain;
}

int ibv_dealloc_pd(ibv_pd* domain) {
    delete domain;
    return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t length, int) {
    auto region = std::make_unique<ibv_mr>();
    region->context = domain->context;
    region->pd = domain;
    region->addr = address;
    region->length = length;
    region->lkey = region->rkey = fake::publish("mr", std::to_string(::getpid()) + " " +
                                                          std::to_string(reinterpret_cast<std::uintptr_t>(address)) +
                                                          " " + std::to_string(length));
    if (region->rkey == 0) {
        errno = ENOMEM;
        return nullptr;
    }
    return region.release();
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t length, std::uint64_t, unsigned access) {
    return ibv_reg_mr(domain, address, length, static_cast<int>(access));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
    errno = EOPNOTSUPP;
    return nullptr;
}

int ibv_dereg_mr(ibv_mr* region) {
    fake::withdraw("mr", region->rkey);
    delete region;
    return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int size, void*, ibv_comp_channel*, int) {
    auto* const completions = new fake::Completions;
    completions->context = context;
    completions->cqe = size;
    return completions;
}

int ibv_destroy_cq(ibv_cq* completions) {
    delete static_cast<fake::Completions*>(completions);
    return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
    if (attributes->qp_type != IBV_QPT_RC) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (attributes->cap.max_inline_data > 0 && fake::is_broken("no-inline")) {
        errno = EINVAL;
        return nullptr;
    }
    auto pair = std::make_unique<fake::QueuePair>();
    pair->context = domain->context;
    pair->pd = domain;
    pair->send_cq = attributes->send_cq;
    pair->recv_cq = attributes->recv_cq;
    pair->qp_type = attributes->qp_type;
    pair->most = attributes->cap;
    pair->all_signalled = attributes->sq_sig_all != 0;
    pair->number = fake::publish("qp", "");
    pair->qp_num = pair->number;
    if (pair->number == 0) {
        errno = ENOMEM;
        return nullptr;
    }
    return pair.release();
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
    auto& pair = *static_cast<fake::QueuePair*>(qp);
    if ((mask & IBV_QP_STATE) == 0) {
        return EINVAL;
    }
    int error = 0;
    if (attributes->qp_state == IBV_QPS_INIT) {
        error = to_init(pair, *attributes);
    } else if (attributes->qp_state == IBV_QPS_RTR) {
        error = pair.state == IBV_QPS_INIT ? to_receive(pair, *attributes) : EINVAL;
    } else if (attributes->qp_state == IBV_QPS_RTS) {
        error = pair.state == IBV_QPS_RTR ? 0 : EINVAL;
        to_send(pair, *attributes);
    }
    if (error == 0) {
        pair.state = attributes->qp_state;
    }
    return error;
}

int ibv_destroy_qp(ibv_qp* qp) {
    auto* const pair = static_cast<fake::QueuePair*>(qp);
    while (fake::is_broken("hang")) {
        ::usleep(look_us);
    }
    fake::count_rest(*pair);
    fake::withdraw("qp", pair->number);
    delete pair;
    return 0;
}

const char* ibv_wc_status_str(ibv_wc_status status) {
    switch (status) {
    case IBV_WC_SUCCESS:
        return "success";
    case IBV_WC_RETRY_EXC_ERR:
        return "transport retry counter exceeded";
    case IBV_WC_REM_ACCESS_ERR:
        return "remote access error";
    case IBV_WC_WR_FLUSH_ERR:
        return "Work Request Flushed Error";
    default:
        return "another error";
    }
}

} // extern "C"
