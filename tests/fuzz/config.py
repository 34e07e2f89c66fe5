"""The config loader: TOML, `--set`, the grid of an ablation."""

from pathlib import Path

from tests.fuzz.reader import Make, Reader, of_file

_TOML = b"""name = "fuzz"
seed = 3
output_dir = "out/fuzz"
[clean]
sources = [
    { kind = "jsonl", language = "ko", path = "a/*.jsonl", profile = "web", max_documents = 3 },
    { kind = "text", language = "en", path = "b.txt", document = "block", encoding = "cp949" },
]
strict = true
[clean.language.ko]
min_characters = 5
quality = { max_top_4gram = 0.2 }
[vocab]
size = 4000
pretokenizers = { ko = "kiwi" }
additional_special_tokens = ["<a>", "<b>"]
[encode]
sequence_length = 64
mixture = { temperature = 0.3 }
[pretrain]
size = "small"
num_steps = 600
warmup_steps = 6
learning_rate = 1e-3
curriculum = [{ sequence_length = 32, steps_fraction = 0.5 }]
[evaluate]
suites = ["glue"]
seeds = [0, 1]
tasks_options = { klue-ynat = { batch_size = 4 } }
"""
_WORDS = (
    *(
        b"[ ] [[ ]] = . ''' { } 1979-05-27 07:32:00 inf -nan 0x10 1_000 true [clean] "
        b"[[clean.sources]]"
    ).split(),
    b'"""',
    b"\\u0000",
    b"pretrain.size = 7\n",
    b"encode = 1\n",
    b'name = "../../x"\n',
    b'output_dir = "\\u0000"\n',
    b"seed = -1\n",
    b"seed = 99999999999999999999\n",
    b'encoding = "rot13"',
    b'encoding = "idna"',
    b'encoding = "\\u0000"',
    b'kind = "wikipedia"',
    b'language = "../x"',
)
_OVERRIDES = (
    *(
        b"pretrain.num_steps=20 name='a' clean.sources=[] pretrain.size=base "
        b"clean.language.ko.min_characters=3 vocab.pretokenizers={ko='kiwi'} a.b.c=1 = x "
        b"clean.sources.0.path=a"
    ).split(),
    b"evaluate.seeds=[0, 1]",
    b"seed=1\nname='b'",
)
_GRID = b"""name = "fuzz"
base = "base.toml"
seeds = [0, 3]
curve_points = 2
[common]
"pretrain.num_steps" = 50
[variants.small]
"pretrain.generator_hidden_fraction" = 0.25
[variants."large one"]
"pretrain.generator_hidden_fraction" = 0.5
[experiments.sizes]
source = "Figure 3"
variants = ["small", "large one"]
claims = ["small > large one"]
"""


def _toml(folder: Path) -> Reader:
    from electrify.config.load import load_config

    small = (
        b'name = "a"\noutput_dir = "o"\n[clean]\nsources = [{kind="text",language="en",path="a"}]'
    )
    return of_file(folder / "run.toml", load_config, (_TOML, small), words=_WORDS)


def _overrides(folder: Path) -> Reader:
    from electrify.config.load import load_config

    path = folder / "run.toml"
    path.write_bytes(_TOML)

    def read(data: bytes) -> object:
        # as the command line gives them: bytes that are no UTF-8 come as lone surrogates
        words = data.decode("utf-8", "surrogateescape").split("\x1e")[:4]
        return load_config(path, words).name

    return Reader(_OVERRIDES, read, (*_WORDS, *_OVERRIDES, b"\x1e"))


def _grid(folder: Path) -> Reader:
    from benchmarks.ablate.grid import load_grid

    (folder / "base.toml").write_bytes(_TOML)
    return of_file(folder / "grid.toml", load_grid, (_GRID,), words=(*_WORDS, *_OVERRIDES))


READERS: dict[str, Make] = {
    "config": _toml,
    "config-set": _overrides,
    "ablation": _grid,
}
