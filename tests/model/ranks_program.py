"""One of several processes that do what they are told, started by our command."""

import json
import os
import pickle
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from electrify.config.run import RunConfig
from electrify.stage import trackers
from electrify.system.progress import Stopped
from model import data as data_module
from model import pretrain as pretrain_module
from model.compiled import FastStep
from model.devices.processes import Ranks, processes
from model.networks.batch import Noise, map_tensors
from model.pretrain import Trainer

STOP_AFTER = 2  # steps, at which one process gets a signal
ORIGINAL = FastStep.__call__


def equal_draws(key: int, num_sequences: int, length: int, num_slots: int) -> Noise:
    """The same for all sequences, so for those of all processes."""
    draws = Noise.draw(0, 1, length, num_slots)
    return map_tensors(draws, lambda row: row.expand(num_sequences, *row.shape[1:]).clone())


class EqualDraws:
    draw = staticmethod(equal_draws)


def terminating(*arguments: Any) -> Any:
    """A step, before one of which the second process gets a signal."""
    if arguments[-1] == STOP_AFTER and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGTERM)
    return ORIGINAL(*arguments)


def stop_and_continue(config: RunConfig, ranks: Ranks) -> list[str]:
    """A signal to one process stops all; the same again finishes; then nothing is left to do."""
    pretrain_module.processes = lambda config: nullcontext(ranks)  # type: ignore[assignment]

    def run() -> str:
        try:
            pretrain_module.pretrain(config)
        except Stopped as stopped:
            return str(stopped)
        return "finished"

    FastStep.__call__ = terminating  # type: ignore[method-assign]
    first = run()
    FastStep.__call__ = ORIGINAL  # type: ignore[method-assign]
    return [first, run(), run()]


def work(path: str) -> None:
    """Read the task; train; write what was found, a file a process."""
    task = pickle.loads(Path(path).read_bytes())
    data_module.Noise = EqualDraws  # type: ignore[misc, assignment]
    trackers.find_spec = lambda name: None  # type: ignore[assignment]
    with processes(task["runs"][0][0].pretrain) as ranks:
        for config, folder in task["runs"]:
            folder.mkdir(parents=True, exist_ok=True)
            Trainer(config, ranks).run(folder)
        said = stop_and_continue(task["stopped"], ranks)
        Path(f"{path}.{ranks.rank}.json").write_text(json.dumps(said))
