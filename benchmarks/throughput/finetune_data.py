"""What both sides of the fine-tuning benchmark learn from: official files, or texts made here."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import ElectraConfig, PreTrainedTokenizerFast

from benchmarks.encoder import ModelSource, fitting_length
from benchmarks.finetune import Split, TaskFeatures
from benchmarks.kind import Example
from benchmarks.kinds.classification import Classification, LabelExample
from benchmarks.load import load_task
from benchmarks.metrics.classification import accuracy, macro_f1
from benchmarks.task import Task
from electrify.config_sizes import SIZE_PRESETS

TaskRows = tuple[Task, Sequence[Example], Sequence[Example]]  # with training and reported rows

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_SHAPE = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
          "embedding_size")  # fmt: skip
# of no paper: for trying the command out
_TINY = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128,
         "num_attention_heads": 2, "embedding_size": 64}  # fmt: skip
_NUM_TOPICS, _NUM_FILLERS = 4, 400
_DRAWN_LABELS = 0.1
_SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
# words of a text: half of the texts have 7 to 22, as Korean headlines and sentences do
_LOG_MEAN_LENGTH, _LOG_SD_LENGTH, _MOST_WORDS = 2.5, 0.8, 100
_PIECES = 8_000  # of a tokenizer made here

MADE_UP = tuple(
    Task(
        name=f"made-up-{name}",
        suite="made-up",
        version="1",
        kind=Classification(),
        files={},
        headline=metric.__name__,
        labels=tuple(f"topic {number}" for number in range(_NUM_TOPICS)),
        metrics=(metric,),
        text_fields=fields,
    )
    for name, metric, fields in (
        ("single", macro_f1, ("text",)), ("pair", accuracy, ("first", "second"))
    )
)  # fmt: skip


def made_up_examples(task: Task, count: int, rng: np.random.Generator) -> list[Example]:
    """Texts with one word of a topic among others; the label is the topic of the last text.

    The first of a pair has another topic, so that the two must be told apart. A tenth of the labels
    is drawn: no model is right everywhere, and seeds differ.
    """
    words = _words()
    found: list[Example] = []
    for number in range(count):
        topics = rng.integers(_NUM_TOPICS, size=len(task.text_fields)).tolist()
        texts = tuple(_text(words, topic, rng) for topic in topics)
        is_drawn = rng.random() < _DRAWN_LABELS
        label = int(rng.integers(_NUM_TOPICS)) if is_drawn else topics[-1]
        found.append(LabelExample(f"{task.name}-{number}", texts, label))
    return found


def _words() -> list[str]:
    """Those of the topics first."""
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(_SYLLABLES, 3)) for _ in range(_NUM_TOPICS + _NUM_FILLERS)]


def _text(words: Sequence[str], topic: int, rng: np.random.Generator) -> str:
    length = min(_MOST_WORDS, 1 + int(rng.lognormal(_LOG_MEAN_LENGTH, _LOG_SD_LENGTH)))
    chosen = [words[_NUM_TOPICS + int(n)] for n in rng.integers(0, _NUM_FILLERS, length)]
    chosen[int(rng.integers(length))] = words[topic]
    return " ".join(chosen)


def tasks_of_files(names: Sequence[str], data_dir: Path) -> list[TaskRows]:
    """Training and reported rows of each task; `ValueError` for one that is no classification."""
    from benchmarks.registry import resolve_tasks  # every kind, and what some of them need

    found: list[TaskRows] = []
    for task in resolve_tasks((), names):
        if not isinstance(task.kind, Classification):
            raise ValueError(f"--tasks {task.name}: this benchmark compares classification alone")
        data = load_task(task, data_dir)
        found.append((task, data.train, data.reported))
    return found


def tasks_made_up(num_train: int, num_reported: int) -> list[TaskRows]:
    """The same, of texts made here."""
    found: list[TaskRows] = []
    for number, task in enumerate(MADE_UP):
        rng = np.random.default_rng([1, number])
        rows = made_up_examples(task, num_train + num_reported, rng)
        found.append((task, rows[:num_train], rows[num_train:]))
    return found


def sample(rows: Sequence[Example], count: int) -> tuple[Example, ...]:
    """So many rows in file order, the same ones in every run; all if there are no more."""
    if len(rows) <= count:
        return tuple(rows)
    chosen: NDArray[np.int64] = np.random.default_rng(2).choice(len(rows), count, replace=False)
    return tuple(rows[n] for n in np.sort(chosen))


def random_model(size: str, texts: Sequence[str]) -> ModelSource:
    """A config of the paper's shape and a tokenizer learnt from these texts; weights come a run."""
    tokenizer = _learn_tokenizer(texts)
    preset = _TINY if size == "tiny" else SIZE_PRESETS[size]
    shape: dict[str, Any] = {name: preset[name] for name in _SHAPE}
    config = ElectraConfig(vocab_size=len(tokenizer), max_position_embeddings=512, **shape)
    return ModelSource(f"ELECTRA {size}, random weights", config, tokenizer)


def _learn_tokenizer(texts: Sequence[str]) -> Any:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=_PIECES, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    ends = [(piece, tokenizer.token_to_id(piece)) for piece in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=tokenizer, model_max_length=512, **dict(zip(names, SPECIAL, strict=True))
    )


def tokenized(
    task: Task,
    train: Sequence[Example],
    reported: Sequence[Example],
    model: ModelSource,
    length: int,
) -> TaskFeatures:
    """Both splits as rows of pieces; pairs in one order, as the peer has them."""
    task = replace(task, train_both_orders=False)
    length = fitting_length(length, model, was_given=False)

    def split(rows: Sequence[Example], is_train: bool) -> Split:
        features = task.kind.featurize(task, rows, model.tokenizer, length, is_train)
        return Split(tuple(rows), features)

    return TaskFeatures(task, split(train, True), {"reported": split(reported, False)}, length)
