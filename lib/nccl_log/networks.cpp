// SPDX-License-Identifier: Apache-2.0
#include "lib/nccl_log/networks.h"

#include <algorithm>
#include <array>

namespace rdma_nccl {

namespace {

constexpr auto rdma = NcclTransport::Rdma;
constexpr auto sockets = NcclTransport::Socket;
constexpr std::nullopt_t by_provider = std::nullopt;

constexpr auto networks = std::to_array<KnownName>({
    {"IB", rdma, "NCCL's and RCCL's own", "NCCL 2.30 src/transport/net_ib/init.cc"},
    {"IB_*", rdma, "the same, built as a plugin", "logs of users"},
    {"IB-*", rdma, "RCCL's own for AMD's AINIC: IB-CAST, IB-ROCM", "ROCm/rccl#2096, ROCm/rocm-systems#9538"},
    {"IBext*", rdma, "HPC-X", "nccl-rdma-sharp-plugins src/ib_plugin.c"},
    {"UCX*", rdma, "HPC-X, through UCX", "nccl-rdma-sharp-plugins src/ucx_plugin.c"},
    {"SHARP", rdma, "HPC-X, collectives in switches", "nccl-rdma-sharp-plugins src/sharp_plugin.c"},
    {"SPCX*", rdma, "HPC-X, Spectrum-X", "NVIDIA HPC-X 2.25, Spectrum-X NCCL Plugin"},
    {"RCCL-ANP", rdma, "AMD's AINIC", "ROCm/amd-anp src/net_ib.cc"},
    {"gIB*", rdma, "Google, RoCE", "Google Cloud, NCCL/gIB"},
    {"FasTrak", rdma, "Google, GPUDirect-TCPXO: an RDMA offload of its own",
     "google/nccl-plugin-gpudirect-tcpxo README.md"},
    {"GPUDirectTCPX*", sockets, "Google, TCP from and to GPU memory", "Google Cloud, GPUDirect-TCPX"},
    {"FastSocket*", sockets, "Google, TCP of the kernel", "google/nccl-fastsocket net_fastsocket.cc"},
    {"Socket", sockets, "NCCL's and RCCL's own", "NCCL 2.30 src/transport/net_socket.cc"},
    {"Socket_*", sockets, "the same, built as a plugin", "logs of users: Socket_v8"},
    {"BaguaNet", sockets, "TCP", "BaguaSys/bagua-net"},
    {"Mesh", rdma, "RoCE links without a switch", "autoscriptlabs/nccl-mesh-plugin src/mesh_plugin.c"},
    {"RDMA_Plugin", rdma, "UCCL", "uccl-project/uccl collective/rdma/nccl_plugin.cc"},
    {"EFA_Plugin", rdma, "UCCL", "uccl-project/uccl collective/efa/nccl_plugin.cc"},
    {"AFXDP_Plugin", sockets, "UCCL, AF_XDP", "uccl-project/uccl collective/afxdp/nccl_plugin.cc"},
    {"psm2-nccl", rdma, "Omni-Path", "cornelisnetworks/psm2-nccl src/include/psm2_nccl_net.h"},
    {"AWS Libfabric", by_provider, "aws-ofi-nccl up to 1.11", "aws/aws-ofi-nccl#530"},
    {"Libfabric*", by_provider, "aws-ofi-nccl", "aws-ofi-nccl 1.21 src/nccl_ofi_interface_nvidia.cpp"},
    {"OFI", by_provider, "aws-ofi-nccl with NCCL_NET=OFI", "aws-ofi-nccl 1.21 src/nccl_ofi_interface_nvidia.cpp"},
});

constexpr auto providers = std::to_array<KnownName>({
    {"efa", rdma, "AWS", "fi_efa(7)"},
    {"cxi", rdma, "HPE Slingshot", "fi_cxi(7)"},
    {"verbs", rdma, "InfiniBand, RoCE", "fi_verbs(7)"},
    {"opx", rdma, "Omni-Path", "fi_opx(7)"},
    {"psm2", rdma, "Omni-Path", "fi_psm2(7)"},
    {"psm3", rdma, "RoCE (that it runs over sockets cannot be told)", "fi_psm3(7)"},
    {"gni", rdma, "Cray Aries", "fi_gni(7), libfabric 1.20"},
    {"lpp", rdma, "FabreX", "fi_lpp(7)"},
    {"tcp", sockets, "TCP", "fi_tcp(7)"},
    {"sockets", sockets, "TCP", "fi_sockets(7)"},
    {"udp", sockets, "UDP", "fi_udp(7)"},
    {"net", sockets, "TCP, before tcp", "libfabric 1.17 prov/net"},
});

constexpr auto libraries = std::to_array<KnownName>({
    {"nccl_rdma_sharp_plugin", rdma, "HPC-X", "NVIDIA HPC-X, NCCL-RDMA-SHARP Plugins"},
    {"NCCL RDMA Plugin", rdma, "HPC-X, before it starts", "nccl-rdma-sharp-plugins src/p2p_plugin.c"},
    {"nccl_spectrum-x_plugin", rdma, "HPC-X, Spectrum-X", "NVIDIA HPC-X 2.25, Spectrum-X NCCL Plugin"},
    {"nccl-net-spcx", rdma, "HPC-X, Spectrum-X", "NVIDIA HPC-X 2.25, Spectrum-X NCCL Plugin"},
    {"librccl-anp", rdma, "AMD's AINIC", "ROCm/amd-anp README.md"},
    {"fastsocket", sockets, "Google, TCP of the kernel", "google/nccl-fastsocket"},
});

bool names(const KnownName& known, std::string_view name) {
    const auto stem = known.name.substr(0, known.name.find('*'));
    return name.starts_with(stem) && (name.size() == stem.size() || stem.size() < known.name.size());
}

const KnownName* find_name(std::span<const KnownName> table, std::string_view name) {
    const auto found = std::ranges::find_if(table, [&](const KnownName& known) { return names(known, name); });
    return found == table.end() ? nullptr : &*found;
}

} // namespace

std::span<const KnownName> known_names(NameKind kind) {
    return kind == NameKind::Network    ? std::span<const KnownName>(networks)
           : kind == NameKind::Provider ? std::span<const KnownName>(providers)
                                        : std::span<const KnownName>(libraries);
}

const KnownName* find_network(std::string_view name) {
    return find_name(networks, name);
}

const KnownName* find_library(std::string_view text) {
    const auto found = std::ranges::find_if(
        libraries, [&](const KnownName& known) { return text.find(known.name) != std::string_view::npos; });
    return found == libraries.end() ? nullptr : &*found;
}

NcclTransport transport_of_provider(std::string_view provider) {
    std::optional<NcclTransport> transport;
    while (!provider.empty()) {
        const auto end = std::min(provider.find_first_of(";+:"), provider.size());
        if (const auto* const known = find_name(providers, provider.substr(0, end))) {
            transport = transport.value_or(*known->transport) == *known->transport ? *known->transport
                                                                                   : NcclTransport::OtherNet;
        }
        provider.remove_prefix(std::min(end + 1, provider.size()));
    }
    return transport.value_or(NcclTransport::OtherNet);
}

} // namespace rdma_nccl
