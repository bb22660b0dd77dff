# SPDX-License-Identifier: Apache-2.0
"""Running a command on a machine of a running cluster."""

from __future__ import annotations

import os
import pwd
import resource
import signal

from linux import die_with_parent
from member import enter, namespaces_of
from state import TestBedError, State

_FORWARDED = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
}
_SI_KERNEL = 0x80  # siginfo's code of a signal from the terminal: the command, in our process group, has it already


def run_on(state: State, machine: str, user: str | None, command: list[str]) -> int:
    """The command's exit status; when a signal ended it, ends this process by the same one."""
    there = state.machines()
    if machine not in there:
        raise TestBedError(f"no machine {machine}; there are: {', '.join(there) or 'none yet'}")
    init = state.first_process()
    directory = os.getcwd()
    inside = f"/proc/{init.pid}/root/proc"  # the cluster's own view of its processes
    descriptors = namespaces_of(init.pid, kinds=("pid", "ipc")) + namespaces_of(there[machine]["pid"], inside)
    if not init.alive():
        raise TestBedError(f"the cluster of {state.directory} has just ended")
    signals = _FORWARDED | {signal.SIGCHLD}
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    enter(descriptors)
    pid = os.fork()
    if pid == 0:
        _become(state, user, command, directory, old_mask)  # never returns
    return _attend(pid, signals)


def _attend(pid: int, signals: set[signal.Signals]) -> int:
    """Waits for the command; passes on what is sent to us."""
    while True:
        got = signal.sigwaitinfo(signals)
        if got.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return _leave(status)
        elif got.si_code != _SI_KERNEL:
            os.kill(pid, got.si_signo)


def _leave(status: int) -> int:
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left one, if it is wanted
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


def _become(state: State, user: str | None, command: list[str], directory: str, mask: set) -> None:
    try:
        environment = dict(os.environ)
        environment["SLURM_CONF"] = state.path("etc/slurm.conf")
        path = environment.get("PATH", "/usr/bin:/bin")
        environment["PATH"] = f"{state.path('bin')}:{path}:/usr/sbin:/sbin"
        if not os.isatty(0):
            os.setpgid(0, 0)  # so that what is sent to our whole group does not come twice
        if user:
            environment.update(_log_in(state, user))
        _change_directory(directory, environment.get("HOME", "/"))
        die_with_parent(signal.SIGTERM)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], command, environment)
    except FileNotFoundError:
        _complain(f"{command[0]}: command not found", 127)
    except (OSError, TestBedError) as error:
        _complain(f"{command[0]}: {error}", 126)
    finally:
        os._exit(125)


def _complain(text: str, status: int) -> None:
    os.write(2, f"cluster exec: {text}\n".encode())
    os._exit(status)


def _log_in(state: State, user: str) -> dict[str, str]:
    account = _account(user)
    home = state.make("home", account.pw_name)
    os.chown(home, account.pw_uid, account.pw_gid)
    os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    return {"HOME": home, "USER": account.pw_name, "LOGNAME": account.pw_name}


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except KeyError:
        raise TestBedError(f"no account {user} in the cluster; alice and bob are made for tests") from None


def _change_directory(wanted: str, home: str) -> None:
    for path in (wanted, home, "/"):
        try:
            os.chdir(path)
            return
        except OSError:
            continue
