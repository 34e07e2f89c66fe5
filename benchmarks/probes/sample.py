"""Print perturbed rows beside the clean ones, to read whether the label still holds:

python -m benchmarks.probes.sample particle-dropped --strength 1 --task klue-nli --data-dir DATA
"""

import argparse
from pathlib import Path

from benchmarks.probes.perturb.kinds import KINDS
from benchmarks.probes.robustness import sample_rows
from benchmarks.tasks.data import read_splits
from benchmarks.tasks.kinds.classification import LabelExample
from benchmarks.tasks.registry import TASKS


def main() -> None:
    """Print the label, the row and the perturbed row of the first rows that change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--strength", type=float, required=True)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--number", type=int, default=50)
    options = parser.parse_args()
    task, kind = TASKS[options.task], KINDS[options.kind]
    rows = sample_rows(read_splits(task, options.data_dir, (task.reported,))[task.reported])
    changed = [
        (row, texts)
        for row in rows
        if (texts := kind.perturb(row.texts, options.strength, row.id)) != row.texts
    ]
    for number, (row, texts) in enumerate(changed[: options.number], start=1):
        label = row.label if isinstance(row, LabelExample) else None
        print(f"{number} [{'' if label is None else task.labels[label]}]")
        print(f"  {' / '.join(row.texts)}\n  {' / '.join(texts)}")


if __name__ == "__main__":
    main()
