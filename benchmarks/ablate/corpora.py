"""The corpora of a grid: each is made once, and the runs that read it have links to it."""

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.ablate.grid import slug
from benchmarks.ablate.plan import CORPUS_STAGES, Run, corpus_keys
from benchmarks.texts import dump_benchmarks
from electrify.config import RunConfig
from electrify.stages import output_dir
from pipeline.sources import check_inputs
from pipeline.worker_files import check_worker_files


def make_corpora(
    base: RunConfig,
    runs: Sequence[Run],
    folder: Path,
    beam_options: Sequence[str],
    overwrite: bool,
) -> None:
    """Make what runs read, a stage that two corpora share only once, and link runs to it.

    The base's corpus is made in its own run folder, so that `electrify run` of it finds it there.
    """
    first: dict[str, Run] = {}  # that reads a corpus, by its key
    for run in runs:
        first.setdefault(corpus_keys(run.config)["shards"], run)
    for run in first.values():
        check_worker_files(run.config, beam_options, "ablate")
        check_inputs(run.config.clean)
    of_base = corpus_keys(base)["shards"]
    made: dict[str, Path] = {}  # folder of a stage by its key
    corpora: dict[str, Path] = {}
    for key in sorted(first, key=lambda key: key != of_base):  # the others take from it
        run = first[key]
        place = output_dir(base) if key == of_base else folder / slug(run.variant) / "corpus"
        keys = corpus_keys(run.config)
        for stage in CORPUS_STAGES:
            if keys[stage] in made:
                _link(made[keys[stage]], place / stage)
        config = run.config.model_copy(update={"output_dir": str(place)})
        _make(config, beam_options, overwrite)
        corpora[key] = place
        made |= {keys[stage]: place / stage for stage in CORPUS_STAGES}
    for run in runs:
        corpus = corpora[corpus_keys(run.config)["shards"]]
        for stage in CORPUS_STAGES:
            _link(corpus / stage, output_dir(run.config) / stage)


def _make(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    from pipeline.clean import clean
    from vocab.encode import encode
    from vocab.train import train_vocab

    clean(config, beam_options, overwrite, dump_benchmarks(config))
    train_vocab(config, beam_options, overwrite)
    encode(config, beam_options, overwrite)


def _link(target: Path, link: Path) -> None:
    """Point `link` at `target`; a folder that stands there stays, as what was made in place."""
    wanted = os.path.relpath(target, link.parent)
    if link.is_symlink():
        if os.readlink(link) == wanted:
            return
        link.unlink()  # of a corpus that the variant no longer reads, or of a folder that was moved
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(wanted, target_is_directory=True)
