# SPDX-License-Identifier: Apache-2.0
"""The HCAs of a description as values: devices, ports and GUIDs."""

from __future__ import annotations

from .drivers import DRIVERS, ETHERNET_CLASS, INFINIBAND_CLASS, RATES, RdmaDriver
from .gids import GidTables
from .places import Places
from .values import DescriptionError, Function, Hca, Netdev, Port, eui64, port_guid

_STATES = {"NOP": 0, "DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4, "ACTIVE_DEFER": 5}
_PHYSICAL_STATES = {"Sleep": 1, "Polling": 2, "Disabled": 3, "LinkUp": 5, "LinkErrorRecovery": 6}
_PORT_KEYS = set(
    "netdev link_layer state phys_state rate lid sm_lid subnet_prefix gids gid_versions table_length".split()
)
_KEYS = _PORT_KEYS | set(
    "name driver pci vf_of is_vf function_of ports node_type guid firmware hca_type board_id counters uverbs".split()
)


class RdmaBuilder:
    def __init__(self, description: dict, places: Places, netdevs: dict[str, Netdev], oui: str, index: int):
        self._places = places
        self._netdevs = netdevs
        self._oui = oui
        self._index = index  # of the node
        self._tables = GidTables(description, netdevs)
        self._cards: dict[str, int] = {}  # system image GUID by PCI device

    def hcas(self, entries: list[dict]) -> tuple[Hca, ...]:
        return tuple(self._hca(number, entry) for number, entry in enumerate(entries))

    def _hca(self, number: int, entry: dict) -> Hca:
        unknown = set(entry) - _KEYS
        if unknown:
            raise DescriptionError(f"{entry['name']}: unknown {', '.join(sorted(unknown))}")
        ports = [{**entry, **port} for port in entry.get("ports", [{}])]
        netdev = self._netdevs[ports[0]["netdev"]] if "netdev" in ports[0] else None
        function = self._function(entry, netdev)
        name = entry.get("driver") or (function.driver if function else "")
        driver = DRIVERS.get(name)
        if not isinstance(driver, RdmaDriver) or (driver.ids[0] and function is None):
            raise DescriptionError(f"{entry['name']}: give it a netdev with a PCI function, function_of, pci or driver")
        texts = {key: entry.get(key, value) for key, value in driver.texts}
        guid = int(entry["guid"], 16) if "guid" in entry else self._guid(number, ports[0], netdev, driver)
        return Hca(
            name=entry["name"],
            number=number,
            driver=name,
            function=function,
            netdev=netdev,
            node_type=entry.get("node_type", driver.node_type),
            guid=guid,
            system_guid=self._system_guid(guid, function),
            firmware=entry.get("firmware", driver.firmware),
            texts=tuple((key, text) for key, text in texts.items() if text is not None),
            ports=tuple(self._port(i, port, number, guid + i, driver) for i, port in enumerate(ports)),
            counters=_counters(entry),
            uverbs=entry.get("uverbs", True),
        )

    def _function(self, entry: dict, netdev: Netdev | None) -> Function | None:
        if "pci" in entry:
            pci_class = INFINIBAND_CLASS if entry.get("link_layer") == "InfiniBand" else ETHERNET_CLASS
            return self._places.nic(entry, entry["driver"], pci_class)
        if "driver" in entry and not DRIVERS[entry["driver"]].ids[0]:  # software, on whatever netdev
            return None
        owner = self._netdevs[entry["function_of"]] if "function_of" in entry else netdev
        return owner.function if owner else None

    def _guid(self, number: int, port: dict, netdev: Netdev | None, driver: RdmaDriver) -> int:
        if netdev is None:
            mac = f"{self._oui}:{self._index >> 8:02x}:{self._index & 255:02x}:{0x80 + number:02x}"
            return port_guid(mac)
        if driver.is_iwarp:  # the MAC and zeros
            return int(netdev.mac.replace(":", ""), 16) << 16
        return port_guid(netdev.mac) if _layer_of(port, netdev, driver) == "InfiniBand" else eui64(netdev.mac)

    def _system_guid(self, guid: int, function: Function | None) -> int:
        """That of the first function of the same card, or of the physical function."""
        if function is None:
            return guid
        card = (function.physical or function.address).rsplit(".", 1)[0]
        return self._cards.setdefault(card, guid)

    def _port(self, index: int, entry: dict, hca_number: int, guid: int, driver: RdmaDriver) -> Port:
        netdev = self._netdevs[entry["netdev"]] if "netdev" in entry else None
        layer = _layer_of(entry, netdev, driver)
        state = _state_of(entry, netdev)
        usual = "LinkUp" if state != "DOWN" else "Disabled" if layer == "Ethernet" else "Polling"
        physical = entry.get("phys_state", usual)
        lid, sm_lid = self._lids(layer, state, 2 * hca_number + index)
        length = self._tables.length(entry, layer, driver)
        return Port(
            number=index + 1,
            link_layer=layer,
            state=f"{_STATES[state]}: {state}",
            physical_state=f"{_PHYSICAL_STATES[physical]}: {physical}",
            rate=entry.get("rate") or _rate(state, netdev, driver),
            lid=entry.get("lid", lid),
            sm_lid=entry.get("sm_lid", sm_lid),
            gids=self._tables.gids(entry, netdev, layer, guid, driver, length),
            table_length=length,
        )

    def _lids(self, layer: str, state: str, number: int) -> tuple[int, int]:
        """The port's and the subnet manager's. An InfiniBand port that none has configured has 0xffff and 0."""
        if layer != "InfiniBand":
            return 0, 0
        return (0x10 + 0x40 * self._index + number, 1) if state == "ACTIVE" else (0xFFFF, 0)


def _counters(entry: dict) -> bool | str:
    counters = entry.get("counters", True)
    if counters not in (True, False, "no-pma", "32-bit", "old-kernel"):
        raise DescriptionError(f"{entry['name']}: unknown counters {counters}")
    return counters


def _layer_of(entry: dict, netdev: Netdev | None, driver: RdmaDriver) -> str:
    return entry.get("link_layer", "InfiniBand" if netdev and netdev.kind == "ipoib" else driver.link_layer)


def _state_of(entry: dict, netdev: Netdev | None) -> str:
    """A RoCE port follows its netdev; an InfiniBand port does not care for IPoIB."""
    has_link = netdev is None or netdev.state == "up" or netdev.kind == "ipoib"
    return entry.get("state", "ACTIVE" if has_link else "DOWN")


def _rate(state: str, netdev: Netdev | None, driver: RdmaDriver) -> str:
    if state == "DOWN":
        return driver.down_rate
    speed = netdev.speed if netdev and netdev.speed and netdev.speed > 0 else driver.speed
    return RATES[speed]
