"""What an attack leaves outside of its sandbox is noticed: files, changes, connections and processes."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from waiting import wait_until

from kbench.selftest.canaries import Canaries


def test_a_file_that_appears_is_noticed_once_and_removed(tmp_path: Path) -> None:
    effect = "file {place}/escaped-*"
    (tmp_path / "escaped-of-old").touch()
    with Canaries([effect], {"place": str(tmp_path)}) as canaries:
        assert canaries.happened([effect]) == ()
        (tmp_path / "escaped-1").touch()
        assert canaries.happened([effect]) == (effect,)
        assert canaries.happened([effect]) == ()


def test_a_change_is_noticed(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.write_text("a")
    effect = f"changed {target}"
    with Canaries([effect], {}) as canaries:
        assert canaries.happened([effect]) == ()
        target.write_text("b")
        assert canaries.happened([effect]) == (effect,)


@pytest.mark.parametrize(("kind", "protocol"), [("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)])
def test_a_connection_is_noticed(kind: str, protocol: socket.SocketKind) -> None:
    effect = f"{kind} 47393"
    with Canaries([effect], {}) as canaries:
        assert canaries.happened([effect]) == ()
        with socket.socket(socket.AF_INET, protocol) as sender:
            sender.connect(("127.0.0.1", 47393))
            sender.send(b"x")
        wait_until(lambda: canaries.happened([effect]) == (effect,))


def test_a_survivor_is_noticed() -> None:
    name = f"kbench-test-survivor-{os.getpid()}"
    effect = f"process {name}"
    with Canaries([effect], {}) as canaries:
        assert canaries.happened([effect]) == ()
        with subprocess.Popen([name, "30"], executable="/bin/sleep") as survivor:
            # Popen returns when exec has closed its pipe, an instant before the kernel shows the new arguments.
            arguments = Path(f"/proc/{survivor.pid}/cmdline")
            wait_until(lambda: arguments.read_bytes().startswith(name.encode()))
            assert canaries.happened([effect]) == (effect,)
            survivor.kill()
