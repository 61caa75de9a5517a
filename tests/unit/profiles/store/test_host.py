"""What the store asks of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pega_tune.profiles.store.host import HostView, file_system, process_token

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /home rw,relatime shared:2 master:7 - nfs4 server:/export rw
31 30 0:41 / /home/fast\\040disk rw - xfs /dev/sdb rw
32 22 0:42 / /data rw - ext4 /dev/sdc rw
33 22 0:43 / /data rw - fuse.sshfs me@there: rw
34 22 0:44 / /homeless rw - tmpfs tmpfs rw
a line that is no mount
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/x.db", "ext4"),
        ("/home/me/x.db", "nfs4"),
        ("/home/fast disk/x.db", "xfs"),
        ("/homeless/x.db", "tmpfs"),
        ("/homely/x.db", "ext4"),
        ("/data/x.db", "fuse.sshfs"),
    ],
)
def test_deepest_and_latest_mount_above_a_path(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


def test_no_mounts_no_answer() -> None:
    assert file_system(Path("/x.db"), "") == ""


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mounts = f"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {tmp_path}/real rw - nfs b rw\n"
    assert HostView(mountinfo=lambda: mounts).file_system(tmp_path / "link" / "x.db") == "nfs"


def test_a_process_keeps_its_token() -> None:
    token = process_token(os.getpid())
    assert token
    assert process_token(os.getpid()) == token
    with subprocess.Popen(["sleep", "60"]) as other:  # a parent may have started within the same tick of the clock
        assert process_token(other.pid) not in (token, None)
        other.kill()


@pytest.mark.parametrize("pid", [0, -1, 2**31 - 1])
def test_no_such_process(pid: int) -> None:
    assert process_token(pid) is None


def test_a_process_that_nobody_waited_for_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert process_token(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}").exists()
        assert process_token(child.pid) is None
