# SPDX-License-Identifier: Apache-2.0
"""What the files of a network function or an RDMA device say by its driver."""

from __future__ import annotations

from dataclasses import dataclass

GID_TYPES = {1: "IB/RoCE v1", 2: "RoCE v2"}

BRIDGE_IDS = ("0x1000", "0xc010")
ETHERNET_CLASS, INFINIBAND_CLASS = "0x020000", "0x020700"


@dataclass(frozen=True)
class GpuModel:
    name: str
    device: str
    pci_class: str = "0x030200"
    driver: str = "nvidia"
    generation: int = 5  # of PCIe

    @property
    def ids(self) -> tuple[str, str]:
        return {"nvidia": "0x10de", "amdgpu": "0x1002"}[self.driver], self.device


# By what a description calls them; the first of a driver is what it has without a model.
GPU_MODELS = {
    "A100": GpuModel("NVIDIA A100-SXM4-80GB", "0x20b2", generation=4),
    "A100 PCIe": GpuModel("NVIDIA A100 80GB PCIe", "0x20b5", generation=4),
    "V100": GpuModel("Tesla V100-SXM2-32GB", "0x1db5", generation=3),
    "H100": GpuModel("NVIDIA H100 80GB HBM3", "0x2330"),
    "H200": GpuModel("NVIDIA H200", "0x2335"),
    "L40S": GpuModel("NVIDIA L40S", "0x26b9", generation=4),
    "GH200": GpuModel("NVIDIA GH200 120GB", "0x2342"),
    "GB200": GpuModel("NVIDIA GB200", "0x2941"),
    "RTX 3060": GpuModel("NVIDIA GeForce RTX 3060 Laptop GPU", "0x2520", "0x030000", generation=4),
    "MI300X": GpuModel("AMD Instinct MI300X", "0x74a1", "0x120000", "amdgpu"),
    "MI210": GpuModel("AMD Instinct MI210", "0x740f", "0x038000", "amdgpu", 4),
    "MI300A": GpuModel("AMD Instinct MI300A", "0x74a0", "0x120000", "amdgpu"),
    "Radeon": GpuModel("AMD Radeon Graphics", "0x164e", "0x030000", "amdgpu", 4),
    "MI250X": GpuModel("AMD Instinct MI250X", "0x7408", "0x038000", "amdgpu", 4),
}


@dataclass(frozen=True)
class Driver:
    ids: tuple[str, str] = ("", "")  # PCI vendor and device; without: no PCI function
    virtual_device: str = ""  # device of its virtual functions
    speed: int | None = 1000  # Mb/s; -1: unknown; None: refused to tell
    pci_driver: str = ""  # of the PCI function, if that is another


@dataclass(frozen=True)
class RdmaDriver(Driver):
    speed: int | None = 200000
    node_type: str = "1: CA"
    link_layer: str = "Ethernet"
    gid_versions: tuple[int, ...] = (1, 2)  # an entry for each per address; of RoCE
    table_length: int = 256
    firmware: str = ""
    texts: tuple[tuple[str, str], ...] = ()
    has_counters: bool = False  # ports/N/counters
    hw_counters: tuple[str, ...] = ()
    down_rate: str = "2.5 Gb/sec (1X SDR)"

    @property
    def is_iwarp(self) -> bool:
        return self.node_type == "4: RNIC"

    @property
    def is_roce(self) -> bool:
        """On Ethernet, that is."""
        return self.node_type == "1: CA"


_MLX5_COUNTERS = (
    "rx_write_requests rx_read_requests rx_atomic_requests out_of_buffer out_of_sequence packet_seq_err "
    "local_ack_timeout_err rnr_nak_retry_err implied_nak_seq_err duplicate_request np_cnp_sent "
    "np_ecn_marked_roce_packets rp_cnp_handled rx_icrc_encapsulated roce_adp_retrans roce_slow_restart"
)
_EFA_COUNTERS = "tx_bytes tx_pkts rx_bytes rx_pkts rx_drops send_bytes recv_bytes rdma_read_bytes rdma_write_bytes"
_RXE_COUNTERS = "sent_pkts rcvd_pkts duplicate_request out_of_seq_request retry_exceeded_err rdma_sends rdma_recvs"

DRIVERS: dict[str, Driver] = {
    "igb": Driver(("0x8086", "0x1521")),
    "i40e": Driver(("0x8086", "0x1572"), speed=10000),
    "virtio_net": Driver(("0x1af4", "0x1000"), pci_driver="virtio-pci"),
    "ena": Driver(("0x1d0f", "0xec20"), speed=None),
    "gve": Driver(("0x1ae0", "0x0042"), speed=200000),
    "hv_netvsc": Driver(speed=100000),
    "mlx5_core": RdmaDriver(
        ("0x15b3", "0x101b"),
        virtual_device="0x101e",
        firmware="20.35.1012",
        texts=(("hca_type", "MT4123"), ("hw_rev", "0"), ("board_id", "MT_0000000223")),
        has_counters=True,
        hw_counters=tuple(_MLX5_COUNTERS.split()),
        down_rate="40 Gb/sec (4X QDR)",
    ),
    "mlx4_core": RdmaDriver(
        ("0x15b3", "0x1003"),
        virtual_device="0x1004",
        speed=40000,
        gid_versions=(1,),
        table_length=128,
        firmware="2.42.5000",
        texts=(("hca_type", "MT4099"), ("hw_rev", "1"), ("board_id", "MT_1090120019")),
        has_counters=True,
        down_rate="10 Gb/sec (4X SDR)",
    ),
    "bnxt_en": RdmaDriver(
        ("0x14e4", "0x1760"),
        virtual_device="0x1819",
        speed=400000,
        firmware="231.0.154.0",
        texts=(("hca_type", "Broadcom NetXtreme-C/E RoCE Driver HCA"), ("hw_rev", "0x14e4")),
        hw_counters=tuple("active_qps rx_bytes tx_bytes rx_pkts tx_pkts rx_roce_good_bytes tx_write_req".split()),
    ),
    "ice": RdmaDriver(
        ("0x8086", "0x1592"),
        virtual_device="0x1889",
        speed=100000,
        gid_versions=(2,),
        table_length=32,
        firmware="1.71",
        hw_counters=tuple("ip4InOctets ip4OutOctets ip6InOctets ip6OutOctets RxUDP TxUDP cnpSent RetransSegs".split()),
    ),
    "ionic": RdmaDriver(
        ("0x1dd8", "0x1002"),
        speed=400000,
        gid_versions=(2,),
        firmware="1.110.1-a-1",
        hw_counters=tuple("rx_rdma_ucast_bytes tx_rdma_ucast_bytes rx_rdma_mcast_bytes tx_rdma_mcast_bytes".split()),
    ),
    "hns3": RdmaDriver(("0x19e5", "0xa228"), firmware="1.20.3.13", hw_counters=("hw_rx_pkts_cnt", "hw_tx_pkts_cnt")),
    "efa": RdmaDriver(
        ("0x1d0f", "0xefa2"),
        speed=100000,
        node_type="7: unspecified",
        link_layer="Unknown",
        table_length=1,
        firmware="0.0.0.0",
        hw_counters=tuple(_EFA_COUNTERS.split()),
    ),
    "cxgb4": RdmaDriver(
        ("0x1425", "0x640d"),
        speed=100000,
        node_type="4: RNIC",
        table_length=1,
        firmware="1.27.5.0",
        hw_counters=("ip4InSegs", "ip4OutSegs", "ip4RetransSegs", "ip4OutRsts"),
    ),
    "rxe": RdmaDriver(gid_versions=(2,), table_length=1024, hw_counters=tuple(_RXE_COUNTERS.split())),
    "siw": RdmaDriver(node_type="4: RNIC", table_length=1),
}

RATES = {
    800000: "800 Gb/sec (4X XDR)",
    400000: "400 Gb/sec (4X NDR)",
    200000: "200 Gb/sec (4X HDR)",
    100000: "100 Gb/sec (4X EDR)",
    56000: "56 Gb/sec (4X FDR)",
    50000: "50 Gb/sec (1X HDR)",
    40000: "40 Gb/sec (4X QDR)",
    25000: "25 Gb/sec (1X EDR)",
    10000: "10 Gb/sec (1X QDR)",
    1000: "2.5 Gb/sec (1X SDR)",
}


def pcie_generation(speed: int | None) -> int:
    """The one whose sixteen lanes carry so many Mb/s."""
    return next((g for g, most in ((3, 100000), (4, 200000), (5, 400000)) if (speed or 0) <= most), 6)
