"""A command that runs Python programs as `python` does, without the seconds in which a process loads torch.

A process that has loaded torch, and started no thread, forks for each call. The command is a small script: it hands
over its words, environment, folder and open files, passes on signals, and ends as the fork does. With options of Python
other than `-u`, `-W`, `-c` and `-m`, or an environment that is read early, it becomes the real Python.
All forks share PYTHONHASHSEED=0. All workers of pytest-xdist share the process that forks.

What depends on a program loading torch itself, or on how Python takes down its modules, is for tests with the real one.
"""

import atexit
import os
import subprocess
import sys
from functools import cache
from multiprocessing.connection import Client, Listener
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Thread

ROOT = Path(__file__).parents[1]
SHARED = "PINPROF_TESTS_WARM_PYTHON"
"""The environment variable with the address at which a process shares its command."""
CLIENT = r"""#!{python} -IS
import _socket, array, marshal, os, signal, sys

words = sys.argv[1:]
first = 0
while words[first : first + 1] in (["-u"], ["-W"]):
    first += 1 + (words[first] == "-W")
late = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "CUDA_VISIBLE_DEVICES")
early = [key for key in os.environ if key.startswith(("CUDA_", "KINETO_", "LD_", "MKL_", "PYTHON")) and key not in late]
early = {{key for key in early if (key, os.environ[key]) not in (("PYTHONHASHSEED", "0"), ("PYTHONUTF8", "1"))}}
other = first >= len(words) or words[first].startswith("-") and words[first] not in ("-c", "-m")
if other or early or os.environ.get("OMP_NUM_THREADS", "1") != "1":
    os.execv({python!r}, [{python!r}, *words])

child, came = 0, []

def forward(number, frame):
    if not child:
        came.append(number)
        return
    try:
        (os.killpg if os.getpgrp() == os.getpid() else os.kill)(child, number)
    except ProcessLookupError:
        pass

signals = signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM
for number in signals:
    signal.signal(number, forward)
names = [int(name) for name in os.listdir("/proc/self/fd")]
files = [number for number in names if os.path.exists(f"/proc/self/fd/{{number}}")]
asked = marshal.dumps((words[:first], words[first:], dict(os.environb), os.getcwdb(), files))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({socket!r})
rights = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", files)
server.sendmsg([len(asked).to_bytes(4, "little")], [rights])
server.sendall(asked)
child = int.from_bytes(server.recv(4), "little")
if not child:
    sys.exit("warm_python: the process that forks is gone")
while came:
    forward(came.pop(0), None)
answer = server.recv(4)
status = int.from_bytes(answer, "little", signed=True) if answer else 255
if status >= 0:
    os._exit(status)
if -status in signals:
    signal.signal(-status, signal.SIG_DFL)
os.kill(os.getpid(), -status)
"""


@cache
def warm_python() -> str:
    """Return the path of the command, which works until this process ends, or the one that shares the command."""
    if SHARED not in os.environ:
        return _started()
    with Client(os.environ[SHARED]) as connection:
        command: str = connection.recv()
        return command


def share_warm_python() -> None:
    """Let the processes that this one starts use a common command."""
    listener = Listener()

    def answer() -> None:
        while True:
            with listener.accept() as connection:
                connection.send(_started())

    Thread(target=answer, daemon=True).start()
    os.environ[SHARED] = str(listener.address)


@cache
def _started() -> str:
    folder = Path(mkdtemp(prefix="warm", dir="/tmp"))  # the path of a socket must be short
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("warm_server.py")), str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(_end, server, folder)
    command = folder / "python"
    command.write_text(CLIENT.format(python=sys.executable, socket=str(folder / "socket")))
    command.chmod(0o755)
    assert server.stdout
    assert server.stdout.readline() == b"listening\n"
    return str(command)


def _end(server: subprocess.Popen[bytes], folder: Path) -> None:
    server.communicate()
    rmtree(folder, ignore_errors=True)
