"""Two processes with one folder, and a job of several processes of which one is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from torture.cases import OUT, Case, difference
from torture.processes import Process, one_line, run

LONGER = ("--epochs", "60")
# Sums over another number of processes round otherwise, and 60 epochs amplify rounding: one process whose initial
# weights are changed by one unit in the last place ends 8e-8 away in the evidence, 6e-7 in widths that are near 1e-6.
CLOSE = 1e-5


def two_at_once(case: Case, folder: Path, delay: float) -> str:
    """Start the command with two seeds: one is refused in a line that names the other, which ends undisturbed."""
    first = Process(case.command, folder, name="first")
    time.sleep(delay)
    second = Process([*case.command, "--seed", "1"], folder, name="second")
    ends = {case.reference: first.wait(), case.other: second.wait()}
    if sorted(end.code for end in ends.values()) != [0, 2]:
        return f"ended with {[end.code for end in ends.values()]}"
    (winner,) = (reference for reference, end in ends.items() if end.code == 0)
    (refused,) = (end for end in ends.values() if end.code == 2)
    problem = one_line(refused, "has been writing to") and one_line(refused, "has a complete")
    return problem or difference(folder / OUT, winner)


def killed_worker(case: Case, folder: Path, rank: int, processes: int, longer: Path) -> str:
    """Kill one of two processes of a job after a checkpoint, and resume with another number of processes.

    Arguments:
        case: The command, which is given more epochs.
        folder: An empty folder.
        rank: The process that is killed.
        processes: The number of processes that resume.
        longer: The undisturbed result of one process.
    """
    folder.mkdir(parents=True)
    command = [*case.command, *LONGER]
    job = subprocess.Popen(_launched(command, 2), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wanted = random.Random(f"{rank} {processes}").randrange(5, 40)
    deadline = time.monotonic() + 180
    while _newest(folder) < wanted and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    for worker in _workers(job.pid, rank):
        os.kill(worker, signal.SIGKILL)
    if job.wait(180) == 0:
        return "ended before a worker was killed"
    left = _newest(folder)
    if left < wanted:
        return f"no checkpoint of epoch {wanted}"
    resumed = [*command, "--resume"]
    if processes == 1:
        done = run(resumed, folder)
        code, text = done.code, done.err
    else:
        ended = subprocess.run(_launched(resumed, processes), cwd=folder, capture_output=True, text=True, timeout=300)
        code, text = ended.returncode, ended.stderr
    if code != 0:
        return f"--resume with {processes} processes ended with {code}: {text[-300:]}"
    return _far(folder / OUT, longer)


def _launched(command: list[str], processes: int) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [*launcher, "-m", "covary", *command]


def _newest(folder: Path) -> int:
    """The epoch of the newest checkpoint."""
    found = sorted((folder / OUT / "checkpoints" / "learn").glob("checkpoint-*.safetensors"))
    return int(found[-1].name.split("-")[1]) if found else 0


def _workers(launcher: int, rank: int) -> list[int]:
    """The process of a rank, among the children of a launcher."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(pid) for pid in children if f"\0RANK={rank}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes()]


def _far(folder: Path, reference: Path) -> str:
    """How far the result of another number of processes is from that of one."""
    one, two = (json.loads((place / "run.json").read_text()) for place in (folder, reference))
    numbers = [[run["evidence"]["log_evidence"], *(s["width"] for s in run["symmetries"])] for run in (one, two)]
    far = max(abs(a - b) / max(abs(b), 1.0) for a, b in zip(*numbers, strict=True))
    return f"the result is off by {far:.1e}" if far > CLOSE else ""
