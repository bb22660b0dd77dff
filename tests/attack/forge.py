#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stranger who takes the place of one of a step's programs, by a secret that he works out from what everybody sees:
a hash of the job's numbers, as it was where a program had no token. With a key nothing of this is answered.

usage: forge.py head PORT JOB.STEP bench|run MARKER    listens as the head does, and gives orders
       forge.py member ADDRESS PORT JOB.STEP pairs|run  joins as member 1
       forge.py node FAKE ADDRESS PORTS TARGET          hears what a node asks of srun, asks the same, and reports as n01
                                                        that the head's address is FAKE
       forge.py test ADDRESS PORT SRUN PORTS HEAD CONTROL
                                                        hears what a node asks of the head's address, asks srun the same,
                                                        answers, and joins the launchers at HEAD by what he knows then

Each line that is printed is an event; all go on until their input ends.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import sys
import time

from stranger import MAGIC, PATIENCE, accept_forever, in_background, listen_on_all, say, wait_for_end

UID = 20001  # alice's
TOKEN = 16  # bytes of the question, and of the answer
MASK = (1 << 64) - 1


def hash_of(start: int, text: bytes) -> int:
    for byte in text:
        start = (start ^ byte) * 1099511628211 & MASK
    return start


def guessed_secret(step: str, kind: str) -> str:
    job, number = step.split(".")
    name = step if kind == "run" else "rdma-nccl"
    facts = "\n".join([name, "rdma-nccl", job, number, str(UID)]).encode()
    return f"{hash_of(14695981039346656037, facts):016x}{hash_of(0x9e3779b97f4a7c15, facts):016x}"


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def message(**values) -> bytes:
    return framed(json.dumps(values).encode())


def line(name: str, **values) -> bytes:
    return json.dumps({name: values}).encode() + b"\n"


def hear_until(peer: socket.socket, words: bytes) -> bytes:
    """What is said up to these words, or to its end."""
    heard = b""
    while words not in heard and (more := peer.recv(65536)):
        heard += more
    return heard


def lead(peer: socket.socket, step: str, kind: str, marker: str) -> None:
    """To a member that has come."""
    first = peer.recv(65536)
    say("heard", first.hex())
    if first.startswith(MAGIC):
        peer.sendall(os.urandom(32 + 24) + b"\x00\x11" + os.urandom(17))
        say("told", hear_until(peer, b"\0" * 100)[:1])
        return
    secret = guessed_secret(step, kind)
    if kind == "run":
        peer.sendall(line("welcome", secret=secret[16:]) + line("end", attempt=0, why="forged") + line("finish", code=0))
    else:
        variables = {"LD_PRELOAD": f"{marker}.so", "MARKER": marker}
        peer.sendall(framed(secret[16:].encode()) + message(do="start", run=0, ranks=[{"rank": 1, "gpu": 0}], count=2,
                                                            variables=variables, work={}, host={}))
        say("told", b"ended" in hear_until(peer, b'"ended"'))
        peer.sendall(message(do="end"))
    while peer.recv(65536):
        pass


def head(port: int, step: str, kind: str, marker: str) -> None:
    listeners = listen_on_all("", [port])
    in_background(accept_forever, listeners, lambda peer, _: lead(peer, step, kind, marker))
    wait_for_end()


def connect(address: str, port: int) -> socket.socket:
    deadline = time.monotonic() + PATIENCE
    while True:
        peer = socket.socket()
        peer.settimeout(PATIENCE)
        try:
            peer.connect((address, port))
            return peer
        except OSError:
            peer.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def join(peer: socket.socket, secret: str, kind: str) -> None:
    if kind == "run":
        peer.sendall(line("hello", node_rank=1, host="n02", secret=secret[:16]))
        say("joined" if b"welcome" in hear_until(peer, b"welcome") else "refused")
        peer.close()  # as if the node were lost
        return
    peer.sendall(framed(f"{secret[:16]} 1".encode()))
    joined = secret[16:].encode() in hear_until(peer, secret[16:].encode())
    if joined:
        node = {"name": "n02", "rails": [], "problem": "FORGED"}
        peer.sendall(message(local=0, node=node))
    say("joined" if joined else "refused")


def member(address: str, port: int, step: str, kind: str) -> None:
    try:
        peer = connect(address, port)
        join(peer, guessed_secret(step, kind), kind)
    except OSError as error:
        say("refused", error)
    wait_for_end()


def report_as_head(address: str) -> bytes:
    """Of node n01, with the address that the others shall get."""
    lines = ["report", "node n01", "job 1", "first-task 0", "tasks 1", "step-nodes 2", "gpus 8", "layout rank", "cpus 1"]
    return framed("\n".join([*lines, f"plan-head {address} given forged", "listener 0", ""]).encode())


def ask_srun(question: bytes, target: str, port: int, more: bytes) -> tuple[socket.socket, bytes]:
    srun = socket.create_connection((target, port), PATIENCE)
    srun.sendall(question + more)
    say("asked")
    return srun, srun.recv(TOKEN, socket.MSG_WAITALL)


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass


def listen_in(address: str, ports: str, use) -> None:
    first, last = map(int, ports.split("-"))
    listeners = listen_on_all(address, list(range(first, last + 1)))

    def serve(peer: socket.socket, port: int) -> None:
        question = peer.recv(65536)
        say("heard", port, question.hex())
        try:
            use(peer, question, port)
        except OSError as error:
            say("failed", error)

    in_background(accept_forever, listeners, serve)
    wait_for_end()


def node(fake: str, address: str, ports: str, target: str) -> None:
    def use(peer: socket.socket, question: bytes, port: int) -> None:
        more = b"" if question.startswith(MAGIC) else report_as_head(fake)
        srun, answer = ask_srun(question, target, port, more)
        say("answered" if answer else "refused")
        if not question.startswith(MAGIC):
            return  # the node's connection stays, without a word
        peer.sendall(answer)
        in_background(pass_on, srun, peer)
        pass_on(peer, srun)

    listen_in(address, ports, use)


def ask_any(question: bytes, target: str, ports: str) -> bytes:
    """On all ports at a time: one is srun's for the exchange, others are Slurm's own."""
    first, last = map(int, ports.split("-"))
    answers: queue.Queue[bytes] = queue.Queue()

    def ask(port: int) -> None:
        try:
            answers.put(ask_srun(question, target, port, b"")[1])
        except OSError:
            answers.put(b"")

    for port in range(first, last + 1):
        in_background(ask, port)
    for _ in range(first, last + 1):
        if len(answer := answers.get()) == TOKEN:
            return answer
    return b""


def test(address: str, port: str, target: str, ports: str, head_address: str, control: str) -> None:
    def use(peer: socket.socket, question: bytes, _: int) -> None:
        answer = ask_any(question, target, ports) if len(question) == TOKEN else os.urandom(32 + 24)
        peer.sendall(answer)
        if len(answer) != TOKEN:
            say("refused")
            return
        token = bytes(a ^ b for a, b in zip(question, answer)).hex()
        join(connect(head_address, int(control)), token, "run")

    listen_in(address, f"{port}-{port}", use)


def main() -> None:
    kind, *words = sys.argv[1:]
    if kind == "head":
        head(int(words[0]), *words[1:])
    elif kind == "member":
        member(words[0], int(words[1]), *words[2:])
    elif kind == "node":
        node(*words)
    elif kind == "test":
        test(*words)


if __name__ == "__main__":
    main()
