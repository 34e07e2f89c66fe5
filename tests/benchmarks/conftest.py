"""A small random ELECTRA with a tokenizer of its own, and a run's config that scores it."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ModernBertConfig,
    ModernBertForTokenClassification,
    PreTrainedTokenizerFast,
)

from benchmarks.encoder import ModelSource, open_model
from benchmarks.results.predictions import plain, prediction_path, write_prediction_file
from benchmarks.results.results import Result
from benchmarks.tasks.task import Task
from benchmarks.training.finetune import Split
from benchmarks.training.recipe import HyperParameters, hyper_parameters
from electrify.config.load import parse_config
from electrify.config.run import RunConfig
from electrify.page.page import Page
from electrify.stage import networks
from electrify.stage.networks import LABELS
from tests.benchmarks.records import YNAT, write

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 64, "max_position_embeddings": 32}
TOPICS = ["국회", "증시", "경찰", "여행", "외교", "반도체", "축구"]  # one each for YNAT's labels
FILLERS = ["오늘", "내일", "새", "큰", "첫", "다시"]


@pytest.fixture(autouse=True)
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages have empty plots: drawing takes most of their time."""

    def empty(page: Page, title: str, *_: object, **__: object) -> None:
        page._add("plot", title=title, svg="", label="")

    monkeypatch.setattr(Page, "line_plot", empty)


def make_result(**changes: Any) -> Result:
    """A record of the development rows of YNAT."""
    value = changes.get("value", 0.5)
    fields: dict[str, Any] = {
        "suite": "klue",
        "task": "klue-ynat",
        "task_version": "1.1",
        "role": "pretrained",
        "model_path": "export/discriminator",
        "seed": 0,
        "metric": "macro_f1",
        "value": value,
        "metrics": {changes.get("metric", "macro_f1"): value},
        "split": "dev",
        "num_examples": 140,
        "num_train_examples": 560,
        "truncated_fraction": 0.0,
        "selection": "last",
        "degenerate": None,
        "hyper_parameters": {"learning_rate": 3e-4},
        "versions": {},
        "data_sha256": {"dev.json": "00"},
        "git_commit": None,
        "seconds": 12.5,
    }
    return Result.model_validate(fields | changes)


def put_predictions(folder: Path, result: Result, lines: Sequence[Any], split: str = "") -> None:
    """The file of predictions of a result, of a further split where one is named."""
    about = result.model_dump(include={"role", "data_sha256", "task", "task_version", "seed"})
    about["split"] = split or result.split
    write_prediction_file(prediction_path(folder, result, split), about, plain(lines))


def t_half_width(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of Student's t around the mean."""
    _, high = stats.t.interval(0.95, len(values) - 1, 0.0, stats.sem(values))
    return float(high)


def text_of(markdown: str) -> str:
    """The text of a page in Markdown; a row of a table is '| cell | cell |'."""
    return re.sub(r"\\([^a-z0-9\s])", r"\1", markdown)


def folder_of(config: RunConfig) -> Path:
    """The one folder of scores of another encoder, finished or partial."""
    (folder,) = Path(config.output_dir).glob("evaluate-*")
    return folder


def words_of(text: str) -> list[str]:
    return text.split()


def build_tokenizer(
    words: Sequence[str] = (*TOPICS, *FILLERS), max_length: int = 32
) -> PreTrainedTokenizerFast:
    """WordPiece over words between blanks and punctuation marks."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    named = dict(zip(names, SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **named)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


def save_network(folder: Path, make: Callable[[], Any], seed: int, tokenizer: Any) -> Path:
    """A network with random weights, saved as an export has it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        networks.save_network(make(), folder, tokenizer)
    return folder


def save_electra(
    folder: Path, kind: Any, seed: int, tokenizer: Any = None, num_layers: int = 2
) -> Path:
    tokenizer = tokenizer or build_tokenizer()
    sizes = SIZES | {"num_hidden_layers": num_layers}
    config = ElectraConfig(vocab_size=len(tokenizer), embedding_size=16, **sizes)
    return save_network(folder, lambda: kind(config), seed, tokenizer)


def save_modern(folder: Path, num_layers: int = 2) -> Path:
    """A discriminator of a modern network, as its export is."""
    tokenizer = build_tokenizer()
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        **SIZES | {"num_hidden_layers": num_layers},
        attention_bias=True,
        layer_types=["full_attention"] * num_layers,
        id2label=dict(enumerate(LABELS)),
        pad_token_id=tokenizer.pad_token_id,
    )
    return save_network(folder, lambda: ModernBertForTokenClassification(config), 13, tokenizer)


@pytest.fixture(scope="session")
def modern_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_modern(tmp_path_factory.mktemp("modern") / "discriminator")


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A discriminator without a generator beside it."""
    folder = tmp_path_factory.mktemp("model") / "discriminator"
    return save_electra(folder, ElectraForPreTraining, 11)


@pytest.fixture
def model(model_folder: Path) -> ModelSource:
    return open_model(str(model_folder))


@pytest.fixture(scope="session")
def generator_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generator of its vocabulary, elsewhere."""
    return save_electra(tmp_path_factory.mktemp("other") / "generator", ElectraForMaskedLM, 12)


def topic_rows(count: int, prefix: str) -> list[dict[str, str]]:
    """Titles whose label is decided by one word."""
    rows = []
    for number in range(count):
        topic = number % len(TOPICS)
        first, last = FILLERS[number % 5], FILLERS[number % 3 + 2]
        title = f"{first} {TOPICS[topic]} {last}" if number % 2 else f"{TOPICS[topic]} {last}"
        rows.append({"guid": f"{prefix}-{number}", "title": title, "label": YNAT.labels[topic]})
    return rows


@pytest.fixture(scope="session")
def ynat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in the format of YNAT that a model can learn without a mistake."""
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 140), ("dev", 42)):
        write(folder / f"ynat/ynat-v1.1_{split}.json", topic_rows(count, split))
    return folder


def split_of(task: Task, rows: Sequence[Any], tokenizer: PreTrainedTokenizerFast) -> Split:
    """Rows as a fine-tuning takes them."""
    return Split(rows, task.featurize(rows, tokenizer, 16, train=False))


@pytest.fixture
def make_config(tmp_path: Path, ynat_folder: Path) -> Callable[..., RunConfig]:
    def make(**evaluate: Any) -> RunConfig:
        options: dict[str, Any] = {"tasks": ["klue-ynat"], "data_dir": str(ynat_folder)}
        options |= {"random_init_control": False, "bag_of_words": False, "device": "cpu"}
        options |= {"max_sequence_length": 16, "batch_size": 14, "learning_rate": 5e-3}
        options |= {"num_epochs": 8, "seeds": [0]}
        source = {"kind": "text", "language": "ko", "path": "none.txt"}
        run = {"name": "test", "output_dir": str(tmp_path / "out"), "clean": {"sources": [source]}}
        return parse_config(run | {"evaluate": options | evaluate})

    return make


@pytest.fixture
def make_settings(make_config: Callable[..., RunConfig]) -> Callable[..., HyperParameters]:
    """The hyper-parameters of YNAT under these options."""
    return lambda **evaluate: hyper_parameters(YNAT, make_config(**evaluate).evaluate, 32)
