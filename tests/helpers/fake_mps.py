"""A stand-in for `nvidia-cuda-mps-control`: a daemon that does nothing but be there, and how to install it.

The folder that the program lies in tells how it behaves: a file `refuse` holds why no daemon starts, `stubborn` lets
the daemon ignore that it is told to quit, and `servers` holds the ids of the servers.
"""

import json
import os
import stat
import sys
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PID_FILE = "nvidia-cuda-mps-control.pid"

_PROGRAM = """#!{python}
import json, os, signal, subprocess, sys, time
from pathlib import Path

here = Path(__file__).parent
pipes = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
pid_file = pipes / "{pid_file}"

def daemon():
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid

if sys.argv[1:] == ["-d"]:
    if (here / "refuse").exists():
        print((here / "refuse").read_text(), file=sys.stderr)
        sys.exit(1)
    wait = [sys.executable, "-c", "import time; time.sleep(120)"]
    child = subprocess.Popen(wait, start_new_session=True)
    pid_file.write_text(str(child.pid))
    seen = {{name: value for name, value in os.environ.items() if "CUDA" in name}}
    (here / "started.json").write_text(json.dumps({{"pid": child.pid, "environment": seen}}))
    sys.exit(0)
pid = daemon()
if pid is None:
    print("Cannot find MPS control daemon process")
    sys.exit(1)
command = sys.stdin.read().strip()
if command == "get_server_list" and (here / "servers").exists():
    print((here / "servers").read_text())
if command == "quit" and not (here / "stubborn").exists():
    os.kill(pid, signal.SIGKILL)
    pid_file.unlink()
"""


class FakeMps:
    """The program, in a folder that has to be on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / CONTROL
        program.write_text(_PROGRAM.format(python=sys.executable, pid_file=PID_FILE))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def tell(self, name: str, text: str = "") -> None:
        """Says how it shall behave."""
        (self.folder / name).write_text(text)

    @property
    def pid(self) -> int:
        """Of the daemon that was started last."""
        return int(self._started()["pid"])

    @property
    def environment(self) -> dict[str, str]:
        """What that daemon saw of the variables of CUDA."""
        return dict(self._started()["environment"])

    def run_daemon(self, pipes: Path) -> int:
        """A daemon that somebody else has started in a pipe directory; to be killed by the test."""
        pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "import time; time.sleep(120)"])
        (pipes / PID_FILE).write_text(str(pid))
        return pid

    def _started(self) -> dict[str, dict[str, str] | int]:
        found: dict[str, dict[str, str] | int] = json.loads((self.folder / "started.json").read_text())
        return found
