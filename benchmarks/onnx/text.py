"""Real text to compare networks on."""

import json
from pathlib import Path

_SAMPLE = Path(__file__).parents[2] / "pipeline" / "sample"
_NUM_DOCUMENTS = 1000


def documents(run: Path) -> list[str]:
    """The first documents of a run's corpus."""
    import pyarrow.parquet

    files = sorted((run / "clean").glob("documents-*.parquet"))
    if not files:
        return sample()
    batches = pyarrow.parquet.ParquetFile(files[0]).iter_batches(_NUM_DOCUMENTS, columns=["text"])
    found: list[str] = next(batches).column("text").to_pylist()
    return found


def sample() -> list[str]:
    """The bundled sample: Korean and English in turn."""
    korean = [
        json.loads(line)["text"]
        for path in sorted(_SAMPLE.glob("ko_[kls]*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    english = (_SAMPLE / "en.txt").read_text(encoding="utf-8").split("\n\n")
    in_turn = [text for pair in zip(korean, english, strict=False) for text in pair]
    return in_turn + korean[len(english) :]
