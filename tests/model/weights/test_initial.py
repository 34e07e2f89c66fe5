"""Continued pretraining: what an earlier model knew is there, under the new run's ids."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining, ElectraModel

from electrify.config.load import parse_config
from electrify.config.run import RunConfig
from electrify.stage.folder import Stage, fingerprint
from electrify.stage.plan import pretrain_stage
from electrify.stage.run import run_stage
from model.electra import ElectraPretrainer, exported_networks, untie
from model.train.checkpoint import model_tensors, run_identity, save_checkpoint
from model.train.data import SequenceData
from model.weights import initial as initial_source
from model.weights.initial import PieceRows, cut, load_initial
from model.weights.names import to_transformers
from tests.vocab.shard_files import write_shards
from vocab.tokenizer import build_tokenizer, save_tokenizer, tokenizer_sha256

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    *SPECIAL,
    "서",
    "울",
    "서울",
    "##시",
    "##울",
    "##에서",
    "##서",
    "##에",
    "봄",
    "꽃",
    "[unused0]",
]
# another order, one piece gone, and new ones: of two parts, continuing, unspellable, special
EXTENDED = [
    *("[UNK]", "[PAD]", "[MASK]", "[SEP]", "[CLS]"),
    *("꽃", "서울시", "봄", "##에서울", "金", "##서", "##시", "서", "울", "서울", "##에", "##울"),
    *("##울시에서", "[NEW]", "[unused0]", "##金시"),
]
ARCHITECTURE = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "embedding_size": 16,
    "generator_hidden_fraction": 0.5,
    "max_position_embeddings": 24,
}
TRAINING = {"num_steps": 4, "warmup_steps": 1, "batch_size": 2, "learning_rate": 1e-3}
EQUAL = {"generator_hidden_fraction": 1.0}
RUNS = {
    "electra": {},
    "none": {"weight_sharing": "none"},
    "all": {"weight_sharing": "all"} | EQUAL,
    "gdes": {"weight_sharing": "gdes"},
    "uniform": {"generator": "uniform"},
    "electra-15": {"objective": "electra-15"},
    "electra-adversarial": {"objective": "electra-adversarial"},
    "electra-two-stage": {"objective": "electra-two-stage", "weight_sharing": "none"} | EQUAL,
    "electric": {"objective": "electric"},
    "mlm": {"objective": "mlm"},
    "replace-mlm": {"objective": "replace-mlm", "weight_sharing": "gdes"},
    "all-tokens-mlm": {"objective": "all-tokens-mlm"},
}


@pytest.fixture(autouse=True)
def quick_manifests(monkeypatch) -> None:
    """Without a process of git for each of the many run folders."""
    monkeypatch.setattr("electrify.stage.folder.git_commit", lambda: None)


def make_run(folder: Path, pieces: Sequence[str] = PIECES, **options: object) -> RunConfig:
    """A config whose run folder has a vocabulary and shards of it."""
    config = parse_config(
        {
            "name": "run",
            "seed": 7,
            "output_dir": str(folder),
            "clean": {"sources": [{"kind": "text", "language": "ko", "path": "none.txt"}]},
            "encode": {"sequence_length": 16},
            "pretrain": ARCHITECTURE | TRAINING | options,
        }
    )
    if folder.exists():
        return config
    ids = {token: pieces.index(token) for token in SPECIAL}

    def vocab(target: Path) -> dict[str, int]:
        save_tokenizer(build_tokenizer(pieces, lowercase=False), target, lowercase=False)
        return {}

    def shards(target: Path) -> dict[str, int]:
        rng = np.random.default_rng(0)
        words = [n for n, piece in enumerate(pieces) if piece not in SPECIAL]
        documents = {
            (split, "ko"): [[*rng.choice(words, 20), ids["[SEP]"]] for _ in range(30)]
            for split in ("train", "valid")
        }
        sha256 = tokenizer_sha256(folder / "vocab")
        write_shards(target, documents, len(pieces), sha256, ids)
        return {}

    run_stage(Stage("train-vocab", folder / "vocab", {}), vocab)
    run_stage(Stage("encode", folder / "shards", {}), shards)
    return config


def make_model(config: RunConfig, seed: int) -> ElectraPretrainer:
    """A model with random weights everywhere, biases too, so that a lost one shows."""
    data = SequenceData.from_config(config, "valid")
    torch.manual_seed(seed)
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def save_export(model: ElectraPretrainer, config: RunConfig, folder: Path) -> Path:
    for network in exported_networks(config.pretrain):
        to_transformers(model, network.folder).save_pretrained(folder / network.folder)
        vocabulary = Path(config.output_dir) / "vocab" / "vocab.txt"
        (folder / network.folder / "vocab.txt").write_text(vocabulary.read_text())
    return folder


def save_run(model: ElectraPretrainer, config: RunConfig) -> Path:
    folder = Path(config.output_dir)
    identity = run_identity(config)
    save_checkpoint(folder / "pretrain", 4, model, [], keep=1, identity=identity)
    return folder


def weights_of(model: ElectraPretrainer) -> dict[str, torch.Tensor]:
    weights = untie(model_tensors(model), model.config)
    return {name: tensor.clone() for name, tensor in weights.items()}


def same(one: dict, other: dict, names: list[str]) -> list[str]:
    return [n for n in names if n in one and torch.allclose(one[n], other[n], rtol=0, atol=1e-6)]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_from_its_own_checkpoint_without_loss(tmp_path, name):
    config = make_run(tmp_path / "run", **RUNS[name])
    earlier = make_model(config, 1)
    place = save_run(earlier, config)
    checkpoint = place / "pretrain" / "checkpoint-4"
    for initial in (place, place / "pretrain", checkpoint):
        options = RUNS[name] | {"initial_model": str(initial)}
        model = make_model(make_run(tmp_path / "run", **options), 2)
        counts = load_initial(model, make_run(tmp_path / "run", **options))
        assert counts["tensors_initialised"] == 0
        before, after = model_tensors(earlier), model_tensors(model)
        assert before.keys() == after.keys()
        for key in before:
            torch.testing.assert_close(after[key], before[key], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "electric"])
def test_an_export_comes_back_without_loss(tmp_path, name, caplog):
    """All heads and both networks; of an adversarial run all but the baseline."""
    config = make_run(tmp_path / "run", **RUNS[name])
    earlier = make_model(config, 1)
    export = save_export(earlier, config, tmp_path / "export")
    later = make_run(tmp_path / "later", **RUNS[name], initial_model=str(export))
    model = make_model(later, 2)
    counts = load_initial(model, later)
    before, after = weights_of(earlier), weights_of(model)
    lost = [n for n in before if not torch.allclose(before[n], after[n], rtol=0, atol=1e-6)]
    expected = ["baseline.bias", "baseline.weight"] if name == "electra-adversarial" else []
    assert sorted(lost) == expected
    assert counts["tensors_initialised"] == len(expected)
    batch = SequenceData.from_config(config, "valid").batch(0, 3)
    ids, types = batch.input_ids, batch.token_type_ids
    everywhere = torch.arange(16).expand(3, -1)
    with torch.no_grad():
        if config.pretrain.has_generator:
            one, two = (m.generate(ids, types, everywhere) for m in (earlier, model))
            torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
        if config.pretrain.has_detection_head:
            one, two = (m.discriminate(ids, types) for m in (earlier, model))
            torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
        if config.pretrain.has_language_head:
            one, two = (m.predict(ids, types, everywhere) for m in (earlier, model))
            torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
    assert "but the initial generator" not in caplog.text


def test_two_folders_are_as_good_as_an_export(tmp_path):
    config = make_run(tmp_path / "run")
    earlier = make_model(config, 1)
    export = save_export(earlier, config, tmp_path / "export")
    later = make_run(
        tmp_path / "later",
        initial_model=str(export / "discriminator"),
        initial_generator=str(export / "generator"),
    )
    model = make_model(later, 2)
    assert load_initial(model, later)["tensors_initialised"] == 0
    before, after = weights_of(earlier), weights_of(model)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("sharing", ["embeddings", "none", "all", "gdes"])
def test_without_a_generator_only_what_is_shared_is_known(tmp_path, sharing, caplog):
    caplog.set_level(logging.INFO)
    shape = EQUAL if sharing == "all" else {}
    config = make_run(tmp_path / "run", weight_sharing=sharing, **shape)
    earlier = make_model(config, 1)
    export = save_export(earlier, config, tmp_path / "export")
    place = str(export / "discriminator")
    later = make_run(tmp_path / "later", weight_sharing=sharing, initial_model=place, **shape)
    model = make_model(later, 2)
    fresh = weights_of(model)
    load_initial(model, later)
    before, after = weights_of(earlier), weights_of(model)
    main = ("embeddings.", "discriminator.", "discriminator_head.")
    assert all(torch.equal(before[n], after[n]) for n in before if n.startswith(main))
    heads = [n for n in fresh if n.startswith("generator_head.")]
    assert all(torch.equal(fresh[n], after[n]) for n in heads)
    tables = [n for n in fresh if n.startswith("generator_embeddings.")]
    bodies = [n for n in fresh if n.startswith("generator.")]
    if sharing == "none":
        assert all(torch.equal(fresh[n], after[n]) for n in tables + bodies)
    else:
        assert all(torch.equal(before[n.removeprefix("generator_")], after[n]) for n in tables)
    if sharing == "all":
        of_main = {n: n.replace("generator.", "discriminator.") for n in bodies}
        assert all(torch.equal(before[of_main[n]], after[n]) for n in bodies)
    else:
        assert "initialised anew, not being there: " in caplog.text
        assert "generator (32), generator_head (5)" in caplog.text
    assert "but the initial generator" not in caplog.text


def test_a_bare_encoder_lacks_the_head(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    config = make_run(tmp_path / "run")
    earlier = make_model(config, 1)
    export = save_export(earlier, config, tmp_path / "export")
    ElectraModel.from_pretrained(export / "discriminator").save_pretrained(tmp_path / "bare")
    (tmp_path / "bare" / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    later = make_run(tmp_path / "later", initial_model=str(tmp_path / "bare"))
    model = make_model(later, 2)
    fresh = weights_of(model)
    load_initial(model, later)
    before, after = weights_of(earlier), weights_of(model)
    assert all(torch.equal(before[n], after[n]) for n in before if n.startswith("discriminator."))
    heads = [n for n in fresh if n.startswith("discriminator_head.")]
    assert heads
    assert all(torch.equal(fresh[n], after[n]) for n in heads)
    assert "discriminator_head (4)" in caplog.text


@pytest.mark.parametrize(
    ("first", "second"),
    [("electra", "mlm"), ("mlm", "all-tokens-mlm"), ("electric", "electra"), ("none", "electric")],
)
def test_another_objective_takes_what_it_has_a_place_for(tmp_path, first, second):
    config = make_run(tmp_path / "run", **RUNS[first])
    earlier = make_model(config, 1)
    options = RUNS[second] | {"initial_model": str(save_run(earlier, config))}
    model = make_model(make_run(tmp_path / "run", **options), 2)
    fresh = weights_of(model)
    load_initial(model, make_run(tmp_path / "run", **options))
    before, after = weights_of(earlier), weights_of(model)
    taken = {n.split(".")[0] for n in after if n in before and torch.equal(before[n], after[n])}
    anew = {n.split(".")[0] for n in after if torch.equal(fresh[n], after[n])}
    expected = {
        "mlm": ({"embeddings", "discriminator"}, {"language_head"}),
        "all-tokens-mlm": (
            {"embeddings", "discriminator", "language_head"},
            {"generator", "generator_head", "discriminator_head"},
        ),
        "electra": (
            {"embeddings", "generator_embeddings", "discriminator", "discriminator_head"},
            {"generator", "generator_head"},
        ),
        "electric": (
            {"embeddings", "discriminator", "discriminator_head"},
            {"generator", "generator_head"},
        ),
    }
    assert (taken, anew) == expected[second]


def test_a_generator_that_no_longer_fits_what_is_shared_is_told(tmp_path, caplog):
    config = make_run(tmp_path / "run", weight_sharing="none", **EQUAL, embedding_size=32)
    export = save_export(make_model(config, 1), config, tmp_path / "export")
    options = {"initial_model": str(export), "embedding_size": 32} | EQUAL
    for sharing, words in (
        ("embeddings", "discriminator in generator_embeddings (5)"),
        ("all", "discriminator in generator_embeddings (5), generator (32)"),
    ):
        later = make_run(tmp_path / sharing, weight_sharing=sharing, **options)
        load_initial(make_model(later, 2), later)
        assert f"weight_sharing = '{sharing}', but the initial generator has other" in caplog.text
        assert words in caplog.text


def test_the_new_vocabulary_reads_as_the_old_one_did(tmp_path):
    """Text of old pieces has the same logits under its new ids; logits of old pieces too."""
    config = make_run(tmp_path / "run", **RUNS["gdes"])
    earlier = make_model(config, 1)
    later = make_run(
        tmp_path / "later", EXTENDED, **RUNS["gdes"], initial_model=str(save_run(earlier, config))
    )
    model = make_model(later, 2)
    counts = load_initial(model, later)
    assert counts["pieces_kept"] == 15
    assert counts["pieces_from_sub_pieces"] == 3
    assert counts["pieces_from_mean_of_all"] == 3
    assert counts["pieces_dropped"] == 1
    shared = [piece for piece in PIECES if piece in EXTENDED]
    old = torch.tensor([PIECES.index(piece) for piece in shared])
    new = torch.tensor([EXTENDED.index(piece) for piece in shared])
    choice = torch.randint(0, len(shared), (3, 16), generator=torch.Generator().manual_seed(0))
    types = torch.zeros(3, 16, dtype=torch.int64)
    everywhere = torch.arange(16).expand(3, -1)
    with torch.no_grad():
        one, two = earlier.discriminate(old[choice], types), model.discriminate(new[choice], types)
        torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
        before = earlier.generate(old[choice], types, everywhere)[..., old]
        after = model.generate(new[choice], types, everywhere)[..., new]
        torch.testing.assert_close(before, after, rtol=0, atol=1e-5)
    before, after = weights_of(earlier), weights_of(model)
    parts = {
        "서울시": ["서울", "##시"],
        "##에서울": ["##에서", "##울"],
        "##울시에서": ["##울", "##시", "##에서"],
        "金": PIECES,
        "##金시": PIECES,
        "[NEW]": PIECES,
    }
    tables = ("embeddings.word.weight", "generator_embeddings.word.weight", "generator_head.bias")
    for name in tables:
        for piece, of in parts.items():
            mean = sum(before[name][PIECES.index(part)] for part in of) / len(of)
            torch.testing.assert_close(after[name][EXTENDED.index(piece)], mean, rtol=0, atol=1e-6)


def test_pieces_are_cut_as_wordpiece_cuts_words():
    """`tokenizers` is the reference; a continuing piece is what follows a letter of its own."""
    alphabet = "abc"
    rng = np.random.default_rng(0)
    strings = ["".join(rng.choice(list(alphabet), n)) for n in rng.integers(1, 5, 60)]
    pieces = ["[UNK]", "Z", *dict.fromkeys([*strings[:20], *(f"##{s}" for s in strings[20:40])])]
    ids = {piece: index for index, piece in enumerate(pieces)}
    model = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    def reference(word: str) -> list[int]:
        found = model.encode(word).ids
        return [] if found == [0] else found

    words = ["".join(rng.choice(list(alphabet), n)) for n in rng.integers(1, 9, 300)]
    for word in words:
        assert cut(word, ids) == reference(word)
        assert cut(f"##{word}", ids) == reference(f"Z{word}")[1:]
    assert 0 < sum(not reference(word) for word in words) < 300


def test_a_kept_row_is_the_same_to_the_bit():
    table = torch.randn(len(PIECES), 16, generator=torch.Generator().manual_seed(0))
    rows = PieceRows.between(PIECES, EXTENDED)
    taken = rows.take(table)
    for number, piece in enumerate(EXTENDED):
        if piece in PIECES:
            assert torch.equal(taken[number], table[PIECES.index(piece)])
    assert torch.equal(PieceRows.same(len(PIECES)).take(table), table)
    assert torch.equal(rows.take(table[:, 0]), taken[:, 0])


@pytest.mark.parametrize("num_positions", [20, 40])
def test_positions_are_copied_as_far_as_they_go(tmp_path, num_positions):
    config = make_run(tmp_path / "run")
    earlier = make_model(config, 1)
    options = {
        "initial_model": str(save_run(earlier, config)),
        "max_position_embeddings": num_positions,
    }
    model = make_model(make_run(tmp_path / "run", **options), 2)
    fresh = model.embeddings.position.weight.detach().clone()
    load_initial(model, make_run(tmp_path / "run", **options))
    after, before = model.embeddings.position.weight, earlier.embeddings.position.weight
    both = min(24, num_positions)
    assert torch.equal(after[:both], before[:both])
    assert torch.equal(after[both:], fresh[both:])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"hidden_size": 64, "intermediate_size": 96, "generator_hidden_fraction": 0.25},
            r"hidden_size is 32 there, 64 here, intermediate_size is 64 there, 96 here\. Set "
            r"pretrain\.hidden_size = 32, pretrain\.intermediate_size = 64",
        ),
        (
            {"num_attention_heads": 4},
            r"heads is 2 there, 4 here\. Set pretrain\.num_attention_heads = 2",
        ),
        ({"layer_norm_eps": 1e-6}, r"Set pretrain\.layer_norm_eps = 1e-12"),
        (
            {"generator_hidden_fraction": 1.0},
            r"the generator of .* hidden_size is 16 there, 32 here.* Set "
            r"pretrain\.generator_hidden_fraction = 0\.5, pretrain\.generator_layers_fraction = 1 ",
        ),
        ({"weight_sharing": "none", "hidden_size": 32}, r"the generator of .* fit the config: "),
    ],
)
def test_sizes_that_do_not_fit_are_named_with_what_to_set(tmp_path, options, words):
    config = make_run(tmp_path / "run", embedding_size=24)
    export = save_export(make_model(config, 1), config, tmp_path / "export")
    options = {"embedding_size": 24} | options
    later = make_run(tmp_path / "later", **options, initial_model=str(export))
    model = make_model(later, 2)
    fresh = weights_of(model)
    with pytest.raises(ValueError, match=words):
        load_initial(model, later)
    assert all(torch.equal(fresh[n], tensor) for n, tensor in weights_of(model).items())


def _write(folder: Path, kind: type, **options: object) -> Path:
    sizes = {
        "vocab_size": len(PIECES),
        "embedding_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 24,
    }
    kind(ElectraConfig(**sizes | options)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    return folder


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "there is no such folder"),
        (lambda path: path.mkdir(), "neither a checkpoint of ours nor a config.json"),
        (
            lambda path: _write(path, ElectraForPreTraining, hidden_act="relu"),
            "hidden_act = 'relu'; only 'gelu'",
        ),
        (
            lambda path: _write(path, ElectraForPreTraining, type_vocab_size=3),
            "type_vocab_size = 3; only 2",
        ),
        (
            lambda path: _write(path, ElectraForMaskedLM, tie_word_embeddings=False),
            "is not the word table; only tied tables",
        ),
        (
            lambda path: (_write(path, ElectraForPreTraining) / "vocab.txt").unlink(),
            "no vocabulary at",
        ),
        (
            lambda path: (_write(path, ElectraForPreTraining) / "config.json").write_text(
                '{"model_type": "bert"}'
            ),
            "model_type = 'bert'; only 'electra'",
        ),
        (
            lambda path: (_write(path, ElectraForPreTraining) / "model.safetensors").write_bytes(
                b"torn"
            ),
            "cannot be read as ElectraForPreTraining",
        ),
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(tmp_path, make, words):
    make(tmp_path / "given")
    config = make_run(tmp_path / "run", initial_model=str(tmp_path / "given"))
    with pytest.raises(ValueError, match=words):
        load_initial(make_model(config, 2), config)


def test_a_hub_name_is_fetched_from_the_hub(tmp_path, monkeypatch):
    config = make_run(tmp_path / "run")
    earlier = make_model(config, 1)
    export = save_export(earlier, config, tmp_path / "export")
    asked = []

    def download(name: str, allow_patterns: list[str]) -> str:
        asked.append(name)
        if name == "somebody/nothing":
            raise OSError("404")
        return str(export / "discriminator")

    monkeypatch.setattr(initial_source, "snapshot_download", download)
    later = make_run(tmp_path / "later", initial_model="somebody/electra")
    model = make_model(later, 2)
    load_initial(model, later)
    assert torch.equal(model.embeddings.word.weight, earlier.embeddings.word.weight)
    for place, words in (
        ("somebody/nothing", "the hub has it not for us: 404"),
        (f"{tmp_path.name}/nothing/at/all", "there is no such folder"),
    ):
        later = make_run(tmp_path / "later", initial_model=place)
        with pytest.raises(ValueError, match=words):
            load_initial(make_model(later, 2), later)
    assert asked == ["somebody/electra", "somebody/nothing"]


def test_rows_without_a_piece_count_for_nothing(tmp_path):
    """Tables padded to a round number; a vocabulary longer than its table is no vocabulary."""
    padded = _write(tmp_path / "padded", ElectraForPreTraining, vocab_size=64)
    later = make_run(tmp_path / "later", EXTENDED, initial_model=str(padded))
    model = make_model(later, 2)
    load_initial(model, later)
    table = ElectraModel.from_pretrained(padded).embeddings.word_embeddings.weight
    mean = table[: len(PIECES)].mean(0)
    unspellable = model.embeddings.word.weight[EXTENDED.index("金")]
    torch.testing.assert_close(unspellable, mean, rtol=0, atol=1e-6)
    short = _write(tmp_path / "short", ElectraForPreTraining, vocab_size=10)
    later = make_run(tmp_path / "later", initial_model=str(short))
    with pytest.raises(ValueError, match="has 16 pieces, but vocab_size = 10"):
        load_initial(make_model(later, 2), later)


def test_initial_options_that_contradict_each_other_are_refused(tmp_path):
    config = make_run(tmp_path / "run")
    place = str(save_run(make_model(config, 1), config))
    export = save_export(make_model(config, 1), config, tmp_path / "export")
    for options, words in (
        ({"initial_model": place, "initial_generator": place}, "has a generator of its own"),
        (
            RUNS["electra-two-stage"] | {"initial_model": str(export / "discriminator")},
            "has no generator, and with objective = 'electra-two-stage'",
        ),
    ):
        later = make_run(tmp_path / "run", **options)
        with pytest.raises(ValueError, match=words):
            load_initial(make_model(later, 2), later)


def test_networks_of_two_vocabularies_are_refused(tmp_path):
    config = make_run(tmp_path / "run")
    export = save_export(make_model(config, 1), config, tmp_path / "export")
    swapped = [*PIECES[:-2], PIECES[-1], PIECES[-2]]
    (export / "generator" / "vocab.txt").write_text("".join(f"{piece}\n" for piece in swapped))
    later = make_run(tmp_path / "later", initial_model=str(export))
    with pytest.raises(ValueError, match="another vocabulary than"):
        load_initial(make_model(later, 2), later)


def test_a_run_of_another_tokenizer_needs_its_vocabulary(tmp_path):
    config = make_run(tmp_path / "run")
    place = save_run(make_model(config, 1), config)
    options = {"initial_model": str(place)}
    later = make_run(tmp_path / "later", EXTENDED, **options)
    vocabulary = place / "vocab" / "tokenizer.json"
    content = vocabulary.read_text()
    vocabulary.write_text(content + "\n")
    with pytest.raises(ValueError, match=r"is not the vocabulary that .* was trained with"):
        load_initial(make_model(later, 2), later)
    vocabulary.unlink()
    with pytest.raises(ValueError, match="its vocabulary is not there: keep its run's vocab/"):
        load_initial(make_model(later, 2), later)
    vocabulary.write_text(content)
    assert load_initial(make_model(later, 2), later)["pieces_kept"] == 15


def test_a_run_can_start_from_a_checkpoint_of_one_that_still_trains(tmp_path):
    config = make_run(tmp_path / "run")
    earlier = make_model(config, 1)
    place = save_run(earlier, config)
    (place / "pretrain").rename(place / "pretrain.partial")
    state = place / "pretrain.partial" / "checkpoint-4" / "state.json"
    for name in ("pretrain", "pretrain.partial"):
        later = make_run(tmp_path / "run", initial_model=str(place / name / "checkpoint-4"))
        model = make_model(later, 2)
        load_initial(model, later)
        assert torch.equal(model.embeddings.word.weight, earlier.embeddings.word.weight)
        assert pretrain_stage(later).inputs["pretrain.initial_model"] == fingerprint(str(state))


def test_a_damaged_checkpoint_is_no_start(tmp_path):
    config = make_run(tmp_path / "run")
    place = save_run(make_model(config, 1), config)
    (place / "pretrain" / "checkpoint-4" / "model.safetensors").write_bytes(b"torn")
    options = {"initial_model": str(place)}
    later = make_run(tmp_path / "run", **options)
    with pytest.raises(ValueError, match=r"checkpoint-4 is damaged .*name another checkpoint"):
        load_initial(make_model(later, 2), later)


def test_other_initial_weights_make_another_run(tmp_path):
    """Of a run, of a folder, of a generator's: the contents count; a card beside them does not."""
    config = make_run(tmp_path / "run")
    place = save_run(make_model(config, 1), config)
    export = save_export(make_model(config, 1), config, tmp_path / "export")
    assert pretrain_stage(config).inputs.keys() == {"shards", "vocab"}
    options = [
        {"initial_model": str(place)},
        {"initial_model": str(export)},
        {
            "initial_model": str(export / "discriminator"),
            "initial_generator": str(export / "generator"),
        },
    ]
    plans = [pretrain_stage(make_run(tmp_path / "run", **o)) for o in options]
    assert all(
        name in plan.inputs
        for plan, o in zip(plans, options, strict=True)
        for name in (f"pretrain.{key}" for key in o)
    )
    (export / "discriminator" / "README.md").write_text("a card")
    again = [pretrain_stage(make_run(tmp_path / "run", **o)) for o in options]
    assert [plan.inputs for plan in again] == [plan.inputs for plan in plans]
    save_run(make_model(config, 2), config)
    save_export(make_model(config, 2), config, tmp_path / "export")
    for plan, o in zip(plans, options, strict=True):
        now = pretrain_stage(make_run(tmp_path / "run", **o)).inputs
        changed = {name for name in now if now[name] != plan.inputs[name]}
        assert changed == {f"pretrain.{key}" for key in o}


def test_where_checkpoints_go_makes_no_other_run(tmp_path):
    plan = pretrain_stage(make_run(tmp_path / "run")).plan
    same_result = {
        "checkpoint_dir": "gs://a/b",
        "wandb_project": "w",
        "keep_checkpoints": 9,
        "checkpoint_every_steps": 3,
    }
    assert pretrain_stage(make_run(tmp_path / "run", **same_result)).plan == plan
    other = {"micro_batch_size": 1, "valid_every_steps": 2, "precision": "bf16", "num_steps": 5}
    for name, value in other.items():
        assert pretrain_stage(make_run(tmp_path / "run", **{name: value})).plan != plan, name
    json.dumps(plan)
