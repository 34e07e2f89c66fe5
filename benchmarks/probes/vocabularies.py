"""What perturbations do to the pieces of vocabularies, side by side; no network is needed:

python -m benchmarks.probes.vocabularies out/a/vocab out/b/vocab --task klue-ynat --data-dir DATA
"""

import argparse
from pathlib import Path

from transformers import AutoTokenizer

from benchmarks.probes.robustness import add_perturbed, count_pieces
from benchmarks.tasks.data import load_data
from benchmarks.tasks.registry import TASKS


def main() -> None:
    """Print a table, its cells between tabs: of each vocabulary the pieces of a word of the clean
    rows, and by kind and strength the pieces after by before and the share that is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabularies", nargs="+", help="folders or hub names of tokenizers")
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    options = parser.parse_args()
    task = TASKS[options.task]
    data = add_perturbed(task, load_data(task, options.data_dir))
    texts = [text for row in data.reported for text in row.texts]
    num_words = sum(len(text.split()) for text in texts)
    headers, clean, rows = ["kind"], ["clean: pieces a word"], dict[tuple[str, float], list[str]]()
    for name in options.vocabularies:
        tokenizer = AutoTokenizer.from_pretrained(name)
        ids = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        headers += [f"{name}: pieces", "kept"]
        clean += [f"{sum(map(len, ids)) / num_words:.2f}", ""]
        for key, (factor, kept) in count_pieces(data, tokenizer).items():
            rows.setdefault(key, [f"{key[0]} at {key[1]:g}"]).extend(
                [f"x {factor:.2f}", f"{100 * kept:.0f} %"]
            )
    print("\n".join("\t".join(row) for row in (headers, clean, *rows.values())))


if __name__ == "__main__":
    main()
