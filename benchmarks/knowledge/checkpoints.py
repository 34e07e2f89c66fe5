"""The networks at earlier steps of a pretraining."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.checkpoints import run_checkpoints
from benchmarks.encoder import ModelSource, open_model
from electrify.stage.plan import checkpoint_step
from electrify.system.outcome import UserError


@contextmanager
def earlier(model: str, named: Sequence[str] | None) -> Iterator[dict[int, ModelSource]]:
    """Networks by step: none for None, all checkpoints of the run for an empty list.

    `named` are STEP=FOLDER, each an exported folder or a checkpoint of a run. Checkpoints are
    exported into a folder that is gone afterwards. Raises `ValueError` for another form.
    """
    with ExitStack() as stack:
        found = {}
        for step, folder in _folders(model, named):
            if (folder / "state.json").is_file():
                from model.export import export_checkpoint

                scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                export_checkpoint(folder, scratch)
                found[step] = open_model(str(scratch), str(folder))
            else:
                found[step] = open_model(str(folder))
        yield dict(sorted(found.items()))


def _folders(model: str, named: Sequence[str] | None) -> list[tuple[int, Path]]:
    if named:
        pairs = [text.partition("=") for text in named]
        if wrong := ["".join(pair) for pair in pairs if not pair[0].isdecimal()]:
            raise UserError(f"--checkpoints {wrong[0]}: give STEP=FOLDER, such as 6000=out/early")
        return [(int(step), Path(folder)) for step, _, folder in pairs]
    if named is None:
        return []
    if not (found := run_checkpoints(Path(model))):
        raise UserError(f"no checkpoint in {model}; name them: --checkpoints STEP=DIR")
    return [(checkpoint_step(path), path) for path in found]
