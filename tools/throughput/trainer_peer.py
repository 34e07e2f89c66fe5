"""Fine-tuning as a user of `transformers` writes it: `trainer_peer MODEL TASKS NUM DEVICE`.

TASKS is a folder with the files of KLUE-YNAT. What would only slow it is left out: logging,
checkpoints, progress bars and evaluation while it trains.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import transformers

library: Any = transformers  # untyped


def finetune(model: str, tasks: str, num_examples: int, device: str) -> None:
    """Train on so many headlines for one epoch in batches of 32, then predict the dev split."""
    tokenizer = library.AutoTokenizer.from_pretrained(model)
    rows = {
        split: json.loads(next(Path(tasks).rglob(f"*_{split}.json")).read_text(encoding="utf-8"))
        for split in ("train", "dev")
    }
    labels = sorted({row["label"] for row in rows["train"]})

    def features(split: str) -> list[dict[str, Any]]:
        encoded = tokenizer([row["title"] for row in rows[split]], truncation=True, max_length=64)
        numbers = [labels.index(row["label"]) for row in rows[split]]
        return [
            {"labels": label} | {name: encoded[name][row] for name in encoded}
            for row, label in enumerate(numbers)
        ]

    with tempfile.TemporaryDirectory() as folder:
        trainer = library.Trainer(
            model=library.AutoModelForSequenceClassification.from_pretrained(
                model, num_labels=len(labels), ignore_mismatched_sizes=True
            ),
            args=library.TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=32,
                per_device_eval_batch_size=128,
                num_train_epochs=1,
                learning_rate=1e-4,
                warmup_steps=num_examples // 320,
                use_cpu=device == "cpu",
                report_to="none",
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
            ),
            train_dataset=features("train")[:num_examples],
            data_collator=library.DataCollatorWithPadding(tokenizer),
        )
        trainer.train()
        trainer.predict(features("dev"))


if __name__ == "__main__":
    model, tasks, num_examples, device = sys.argv[1:]
    finetune(model, tasks, int(num_examples), device)
