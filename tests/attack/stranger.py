#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What another user of the cluster can do to a step from the network, on raw bytes: he has no key.

usage: stranger.py flood COUNT ADDRESS PORT...         holds COUNT connections open
       stranger.py noise ADDRESS PORT...               says all kinds of nonsense, and what was recorded before
       stranger.py squat ADDRESS PORT...               listens, and answers with nonsense, or what was recorded
       stranger.py mute ADDRESS PORT...                listens, and says nothing
       stranger.py trickle ADDRESS PORT...             listens, and says a byte each second
       stranger.py relay CHANGE ADDRESS PORTS TARGET   listens, and passes on to TARGET, or changes, what comes
       stranger.py listeners UID                       prints the ports that a user listens on here

CHANGE is one of pass, drip, flip, twice, swap, cut, grow, and OLD=NEW: replaces bytes. With --record DIR before the
other words, relay writes what it hears into files there, and noise and squat repeat it. Each line that is printed is an event;
all but listeners go on until their input ends.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import sys
import threading
import time

MAGIC = b"RDMANCL2"
HELLO = len(MAGIC) + 32
HEADER = 24  # of a stream
PATIENCE = 10  # seconds for one connection to do anything


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def wait_for_end() -> None:
    sys.stdin.read()
    os._exit(0)


def listen(address: str, port: int) -> socket.socket:
    """Beside whoever holds the port without listening."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(1000)
    return listener


def listen_on_all(address: str, ports: list[int]) -> list[socket.socket]:
    listeners, busy = [], []
    for port in ports:
        try:
            listeners.append(listen(address, port))
        except OSError as error:
            busy.append(f"{port}: {error.strerror}")
    say("listening", len(listeners), *busy)
    return listeners


def in_background(function, *arguments) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()


def accept_forever(listeners: list[socket.socket], serve) -> None:
    with selectors.DefaultSelector() as selector:
        for listener in listeners:
            selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                peer, _ = key.fileobj.accept()
                in_background(serve, peer, key.fileobj.getsockname()[1])


# --- Who connects ---


def flood(count: int, address: str, ports: list[int]) -> None:
    held = []
    for i in range(count):
        peer = socket.socket()
        peer.settimeout(PATIENCE)
        try:
            peer.connect((address, ports[i % len(ports)]))
        except OSError as error:
            say("refused", i, error)
            break
        held.append(peer)
    say("held", len(held))
    wait_for_end()


def nonsense(recorded: list[bytes]) -> list[bytes]:
    hello = MAGIC + os.urandom(32)
    proof = b"\x00\x11" + os.urandom(17)
    return [
        b"",
        b"\x00",
        MAGIC,
        hello,
        hello[:-1],
        hello * 2,
        hello + os.urandom(HEADER) + proof,
        hello + os.urandom(HEADER) + b"\xff\xff" + os.urandom(65535),
        hello + os.urandom(HEADER) + b"\x00\x00" * 5000,
        hello + os.urandom(HEADER) + b"\x40\x11" + os.urandom(16401),
        os.urandom(16),
        os.urandom(16) + b"\xff\xff\xff\xff" + os.urandom(1000),
        os.urandom(1 << 20),
        b"\x00" * (1 << 20),
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"hello": {"node_rank": 1, "host": "n02", "secret": ""}}\n',
        *recorded,
        *(words[: len(words) // 2] for words in recorded),
        *(words[HELLO:] for words in recorded),
    ]


def tell(address: str, port: int, words: bytes, drip: bool) -> None:
    """Says it, and listens until the other side has closed, or is seen to wait."""
    with socket.socket() as peer:
        peer.settimeout(PATIENCE)
        try:
            peer.connect((address, port))
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(0, len(words), 1 if drip else max(len(words), 1)):
                peer.sendall(words[i : i + 1] if drip else words)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
        except OSError:
            pass  # a reset, or silence: both are answers


def noise(address: str, ports: list[int], recorded: list[bytes]) -> None:
    threads = []
    for port in ports:
        for words in nonsense(recorded):
            for drip in (False, True) if 0 < len(words) < 4096 else (False,):
                threads.append(threading.Thread(target=tell, args=(address, port, words, drip), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("done", len(threads))
    wait_for_end()


# --- Who listens ---


def squat(address: str, ports: list[int], recorded: list[bytes]) -> None:
    listeners = listen_on_all(address, ports)
    answers = [
        *recorded,
        os.urandom(16),
        os.urandom(32 + HEADER) + b"\x00\x11" + os.urandom(17),
        os.urandom(32 + HEADER) + b"\xff\xff" + os.urandom(65535),
        b"\x00" * 100000,
        None,  # what was heard
        b"",
    ]

    def serve(peer: socket.socket, port: int) -> None:
        try:
            heard = peer.recv(65536)
            say("heard", port, heard.hex())
            answer = answers.pop(0) if answers else b""
            peer.sendall(heard if answer is None else answer)
            while answer and peer.recv(65536):
                pass
        except OSError:
            pass
        if answer:
            peer.close()

    in_background(accept_forever, listeners, serve)
    wait_for_end()


def mute(address: str, ports: list[int]) -> None:
    _listeners = listen_on_all(address, ports)  # the kernel takes connections
    wait_for_end()


def trickle(address: str, ports: list[int]) -> None:
    def serve(peer: socket.socket, port: int) -> None:
        say("heard", port)
        try:
            while True:
                peer.sendall(b"\0")
                time.sleep(1)
        except OSError:
            pass

    in_background(accept_forever, listen_on_all(address, ports), serve)
    wait_for_end()


# --- Who is between ---


class Frames:
    """The pieces of one direction: what comes before the frames, and each frame with its length. Bytes that are not of
    this protocol are one piece each time that they come."""

    def __init__(self, before: int | None):
        self._before = before
        self._bytes = b""

    def take(self, more: bytes) -> list[bytes]:
        if self._before is None:
            return [more]
        self._bytes += more
        pieces = []
        while True:
            size = self._before or 2 + int.from_bytes(self._bytes[:2], "big")
            if len(self._bytes) < max(size, 3):
                return pieces
            self._before = 0
            pieces.append(self._bytes[:size])
            self._bytes = self._bytes[size:]


class Change:
    """What the relay does to one direction's pieces; it begins behind the first piece, which has no secret."""

    def __init__(self, name: str):
        self._name = name
        self._kept: bytes | None = None
        self._count = 0

    def apply(self, piece: bytes) -> list[bytes] | None:
        """What to send instead; None: nothing more, ever."""
        self._count += 1
        if self._name == "drip":
            return [piece[i : i + 1] for i in range(len(piece))]
        if "=" in self._name:
            old, new = self._name.encode().split(b"=")
            return [piece.replace(old, new)]
        if self._name == "pass" or self._count == 1:
            return [piece]
        return getattr(self, self._name)(piece)

    def flip(self, piece: bytes) -> list[bytes]:
        return [piece[:-1] + bytes([piece[-1] ^ 1])]

    def twice(self, piece: bytes) -> list[bytes]:
        return [piece, piece]

    def swap(self, piece: bytes) -> list[bytes]:
        """Every other piece waits for the next; where none comes, neither does it."""
        if self._kept is None:
            self._kept = piece
            return []
        pieces, self._kept = [piece, self._kept], None
        return pieces

    def cut(self, piece: bytes) -> list[bytes] | None:
        return [piece[: len(piece) // 2]] if self._count == 2 else None

    def grow(self, piece: bytes) -> list[bytes]:
        return [b"\xff\xff" + piece[2:] + os.urandom(65535)]


class Relay:
    def __init__(self, change: str, target: str, directory: str | None):
        self._change = change
        self._target = target
        self._directory = directory
        self._count = 0

    def serve(self, worker: socket.socket, port: int) -> None:
        self._count += 1
        number = self._count
        with worker, socket.socket() as coordinator:
            try:
                first = worker.recv(65536)
                say("heard", port, first.hex())
                coordinator.connect((self._target, port))
                for end in (worker, coordinator):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ours = first.startswith(MAGIC)
                back = threading.Thread(
                    target=self._pass_on,
                    args=(coordinator, worker, Frames(32 + HEADER if ours else None), f"{number}.coordinator", b""),
                    daemon=True,
                )
                back.start()
                self._pass_on(worker, coordinator, Frames(HELLO + HEADER if ours else None), f"{number}.worker", first)
                back.join()
            except OSError:
                pass
        say("closed", port)

    def _pass_on(self, source: socket.socket, sink: socket.socket, frames: Frames, name: str, first: bytes) -> None:
        # A hello goes on at once: the coordinator says nothing before it.
        change = Change(self._change)
        early = len(first) if first.startswith(MAGIC) else 0
        try:
            sink.sendall(first[:early])
            data = first or source.recv(65536)
            while data:
                self._record(name, data)
                for piece in frames.take(data):
                    changed = change.apply(piece)
                    if changed is None:
                        raise ConnectionError
                    for part in changed:
                        sink.sendall(part[early:])
                        early -= min(early, len(part))
                data = source.recv(65536)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _record(self, name: str, data: bytes) -> None:
        if self._directory:
            with open(os.path.join(self._directory, name), "ab") as file:
                file.write(data)


def relay(change: str, address: str, ports: str, target: str, directory: str | None) -> None:
    listeners = listen_on_all(address, ports_of([ports]))
    in_background(accept_forever, listeners, Relay(change, target, directory).serve)
    wait_for_end()


# --- Who looks ---


def listeners_of(uid: int) -> list[int]:
    """Everybody can see them."""
    ports = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="ascii") as file:
            for line in list(file)[1:]:
                words = line.split()
                if words[3] == "0A" and int(words[7]) == uid:  # TCP_LISTEN
                    ports.add(int(words[1].rpartition(":")[2], 16))
    return sorted(ports)


def ports_of(words: list[str]) -> list[int]:
    """Of "7" and "7-9"."""
    ports = []
    for word in words:
        first, _, last = word.partition("-")
        ports += range(int(first), int(last or first) + 1)
    return ports


def read_all(directory: str | None, side: str) -> list[bytes]:
    contents = []
    names = os.listdir(directory) if directory else []
    for name in sorted(name for name in names if name.endswith(side)):
        with open(os.path.join(directory, name), "rb") as file:
            contents.append(file.read())
    return contents


def main() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    words = sys.argv[1:]
    directory = None
    if words[0] == "--record":
        directory = words[1]
        del words[:2]
    kind, *rest = words
    if kind == "flood":
        flood(int(rest[0]), rest[1], ports_of(rest[2:]))
    elif kind == "noise":
        noise(rest[0], ports_of(rest[1:]), read_all(directory, "worker"))
    elif kind == "squat":
        squat(rest[0], ports_of(rest[1:]), read_all(directory, "coordinator"))
    elif kind == "mute":
        mute(rest[0], ports_of(rest[1:]))
    elif kind == "trickle":
        trickle(rest[0], ports_of(rest[1:]))
    elif kind == "relay":
        relay(*rest, directory)
    elif kind == "listeners":
        say(*listeners_of(int(rest[0])))


if __name__ == "__main__":
    main()
