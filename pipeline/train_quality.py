"""`electrify train-quality`: a quality model from files of good and of bad texts."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from electrify.config.clean import Source
from electrify.stage.folder import write_text
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log, warn
from pipeline.rules.quality_model import QualityModel, fit
from pipeline.sources.files import expand_sources
from pipeline.sources.input_file import Raw, text_ending
from pipeline.sources.readers import KIND_OF_ENDING, read_file

_MAX_TEXTS = 20_000  # of a side, drawn from all
_MIN_TEXTS = 50
_STRENGTHS = (1.0, 10.0, 100.0)
_KINDS = ("parquet", "jsonl", "text")  # of files that need no further option
_MAX_LINE_BYTES = 20_000_000
_THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)


def train_quality(good: Sequence[str], bad: Sequence[str], output: Path) -> None:
    """Write the model, and print how well it tells texts apart that it has not learnt from.

    Three fifths of the texts train, by a hash; a fifth chooses the penalty, a fifth is reported.
    `UserError` for files without texts, or too few of them.
    """
    from sklearn.metrics import roc_auc_score

    sides = [_drawn(paths) for paths in (good, bad)]
    parts = [[_part(texts, number) for texts in sides] for number in range(3)]
    for paths, (learnt, *others) in zip((good, bad), zip(*parts, strict=True), strict=True):
        if len(learnt) < _MIN_TEXTS or not all(others):
            total = len(learnt) + sum(map(len, others))
            raise UserError(f"{', '.join(paths)}: {total} texts are too few; give some hundreds")

    def auc(model: QualityModel, of: Sequence[Sequence[str]]) -> float:
        scores = [model.score(text) for texts in of for text in texts]
        return float(roc_auc_score(np.repeat([1, 0], [len(of[0]), len(of[1])]), scores))

    models = [fit(parts[0][0], parts[0][1], strength) for strength in _STRENGTHS]
    best = max(models, key=lambda model: auc(model, parts[1]))
    held_out = auc(best, parts[2])
    about: dict[str, object] = {
        "good": {"files": [*good], "texts": len(sides[0])},
        "bad": {"files": [*bad], "texts": len(sides[1])},
        "held_out_auc": round(held_out, 4),
    }
    write_text(output, best.to_json(about) + "\n")
    num_good, num_bad = map(len, sides)
    log(f"train-quality: {num_good:,} good and {num_bad:,} bad texts, held-out AUC {held_out:.3f}")
    scores = [np.array([best.score(text) for text in texts]) for texts in parts[2]]
    for limit in _THRESHOLDS:
        kept = " and ".join(
            f"{100 * np.mean(of >= limit):.1f} % of the {name}"
            for name, of in zip(("good", "bad"), scores, strict=True)
        )
        print(f"min_quality = {limit}: keeps {kept}")


def _drawn(paths: Sequence[str]) -> list[str]:
    """Different texts of the files, `_MAX_TEXTS` drawn of more."""
    texts: list[str] = []
    seen: set[bytes] = set()
    draw = random.Random(0)
    with Progress("texts", None, "texts") as progress:
        for text in _texts(paths):
            progress.update()
            digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
            if digest in seen or not text.strip():
                continue
            seen.add(digest)
            if len(texts) < _MAX_TEXTS:
                texts.append(text)
            elif (place := draw.randrange(len(seen))) < _MAX_TEXTS:
                texts[place] = text
    return texts


def _texts(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        kind = KIND_OF_ENDING.get(text_ending(path))
        if kind not in _KINDS:
            endings = (ending for ending, of in KIND_OF_ENDING.items() if of in _KINDS)
            raise UserError(f"{path}: give files named {', '.join(f'*{of}' for of in endings)}")
        options = {"document": "block"} if kind == "text" else {}
        source = Source.model_validate({"kind": kind, "language": "en", "path": path, **options})
        try:
            files = expand_sources([source])
        except UserError as error:  # not of a config
            raise UserError(str(error).removeprefix("clean.sources[0].path = ")) from None
        for file in files:
            num_faults, last = 0, ""
            for item in read_file(file, source, _MAX_LINE_BYTES):
                if isinstance(item, Raw):
                    yield item.text
                else:  # where most rows are bad, the last one says why
                    num_faults += 1
                    last = f"{file.where(item.row)}: {item.reason}: {item.detail}"
            if num_faults:
                warn(f"{num_faults:,} faults, the last {last}")


def _part(texts: Sequence[str], part: int) -> list[str]:
    """Three fifths, a fifth and a fifth, by a hash of the text."""
    fifths = (hashlib.sha256(of.encode("utf-8", "replace")).digest()[0] % 5 for of in texts)
    return [text for text, fifth in zip(texts, fifths, strict=True) if max(0, fifth - 2) == part]
