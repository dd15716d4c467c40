"""Ray as the engine of judges that compute on this machine: tasks judge shares of the cases."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from refract.core.environment import code_sha256
from refract.core.errors import RefractError
from refract.core.showing import say
from refract.core.types import Verdict
from refract.judges.cases import Case, Judge
from refract.judges.processes import SHARES_A_PROCESS, divided
from refract.models.protocol import AdapterError
from refract_engines.ray_engine import connected


def judge(judge: Judge, cases: Sequence[Case], worth: int) -> list[Verdict]:
    """What ``judge.judge(cases)`` gives, by tasks of one processor each, about ``worth`` of
    them or fewer. Ray repeats those of a lost node. Raises what the judge raises, and
    :class:`AdapterError` where Ray cannot be used or a node has other code."""
    ray = connected()
    processors = int(ray.cluster_resources().get("CPU", 1))
    shares = divided(cases, min(worth, SHARES_A_PROCESS * processors))
    task = ray.remote(num_cpus=1)(_judge_share)
    folder, code = Path.cwd(), code_sha256("judges")
    waiting = [task.remote(judge, share, folder, code) for share in shares]
    say(f"{judge.name}: {len(cases):,} answers are judged by tasks of Ray", file=sys.stderr)
    try:
        return list(chain.from_iterable(ray.get(waiting)))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        raise AdapterError(f"{judge.name}: Ray lost what judged: {error}") from None


def _judge_share(judge: Judge, cases: Sequence[Case], folder: Path, code: str) -> list[Verdict]:
    with contextlib.suppress(OSError):  # a node without the folder has no use for it
        os.chdir(folder)
    if code_sha256("judges") != code:
        raise RefractError(
            f"{judge.name}: the node {os.uname().nodename} has other code of judges; each node needs "
            "the version of Refract of the machine that started this"
        )
    return judge.judge(cases)
