"""Continued pretraining: what an earlier model knew is there, under the new run's ids."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast

from electrify.config.run import RunConfig
from electrify.stage.folder import fingerprint, write_json
from electrify.stage.plan import pretrain_stage
from electrify.storage.files import read_json
from model.checkpoint import run_identity, save_checkpoint
from model.data import SequenceData
from model.export import save_networks
from model.networks.batch import SpecialTokens
from model.networks.electra import ElectraPretrainer
from model.weights import initial as initial_source
from model.weights.initial import load_initial
from model.weights.names import modern_config, untie
from tests.model.conftest import (
    EQUAL,
    MODERN,
    PIECES,
    VARIANTS,
    discriminate,
    generate,
    idle_optimizer,
    make_run,
)

# another order, one piece gone, and new ones: of two parts, continuing, unspellable, special
EXTENDED = [
    *("[UNK]", "[PAD]", "[MASK]", "[SEP]", "[CLS]"),
    *("꽃", "서울시", "봄", "##에서울", "金", "##서", "##시", "서", "울", "서울", "##에", "##울"),
    *("##울시에서", "[NEW]", "[unused0]", "##金시"),
]


Weights = dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def quick_manifests(monkeypatch) -> None:
    """Without a process of git for each of the many run folders."""
    monkeypatch.setattr("electrify.stage.folder.git_commit", lambda: None)


def model_tensors(model: ElectraPretrainer) -> Weights:
    return {name: of.detach().clone() for name, of in model.named_parameters()}


def make_model(config: RunConfig, seed: int) -> ElectraPretrainer:
    """A model with random weights everywhere, biases too, so that a lost one shows."""
    data = SequenceData(config, "valid")
    torch.manual_seed(seed)
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def save_export(model: ElectraPretrainer, config: RunConfig, folder: Path) -> Path:
    save_networks(model, folder)
    for network in folder.iterdir():
        shutil.copy(Path(config.output_dir) / "vocab" / "vocab.txt", network)
    return folder


def save_run(model: ElectraPretrainer, config: RunConfig) -> Path:
    folder, optimizer = Path(config.output_dir), idle_optimizer(model)
    save_checkpoint(folder / "pretrain", 4, model, optimizer, list, run_identity(config))
    return folder


def exported(folder: Path, **options: object) -> tuple[ElectraPretrainer, Path]:
    """A model of a run in `folder`, and its export."""
    config = make_run(folder / "run", **options)
    model = make_model(config, 1)
    return model, save_export(model, config, folder / "export")


def weights_of(model: ElectraPretrainer) -> Weights:
    weights = untie(model_tensors(model), model.config)
    return {name: tensor.clone() for name, tensor in weights.items()}


def start(
    folder: Path, initial: Path, pieces: Sequence[str] = PIECES, **options: object
) -> tuple[ElectraPretrainer, Weights]:
    """A run's model begun from an earlier one, or from both networks of an export, and the weights
    it had before."""
    given = {"initial_model": str(initial)}
    if (initial / "discriminator").is_dir():
        given["initial_model"] = str(initial / "discriminator")
        if (initial / "generator").is_dir():
            given["initial_generator"] = str(initial / "generator")
    config = make_run(folder, pieces, **(options | given))
    model = make_model(config, 2)
    fresh = weights_of(model)
    load_initial(model, config)
    return model, fresh


def lost(before: Weights, after: Weights, start: tuple[str, ...] = ("",)) -> set[str]:
    """Parts of the earlier model in which some weight is not the same now."""
    pairs = ((n.split(".")[0], before[n], after[n]) for n in before if n.startswith(start))
    return {part for part, old, new in pairs if not torch.allclose(old, new, rtol=0, atol=1e-6)}


@pytest.fixture
def config(tmp_path) -> RunConfig:
    return make_run(tmp_path / "run")


@pytest.fixture
def earlier(config) -> ElectraPretrainer:
    return make_model(config, 1)


@pytest.fixture
def saved(config, earlier) -> Path:
    """The earlier run with its checkpoint."""
    return save_run(earlier, config)


@pytest.fixture
def export(config, earlier, tmp_path) -> Path:
    return save_export(earlier, config, tmp_path / "export")


@pytest.mark.parametrize("name", [name for name in VARIANTS if "stage" not in name])
def test_a_run_goes_on_from_a_checkpoint_or_an_export_without_loss(tmp_path, name, caplog):
    """From an export both networks with their heads; but not the baseline of an adversarial run,
    and of a main network with two heads not the second."""
    config = make_run(tmp_path / "run", **VARIANTS[name])
    earlier = make_model(config, 1)
    before = model_tensors(earlier)
    after = model_tensors(start(tmp_path / "run", save_run(earlier, config), **VARIANTS[name])[0])
    assert before.keys() == after.keys()
    assert not lost(before, after)
    if "modern" in name:  # folded
        return
    export = save_export(earlier, config, tmp_path / "export")
    model, _ = start(tmp_path / "later", export, **VARIANTS[name])
    expected = {"electra-adversarial": {"baseline"}, "all-tokens-mlm": {"language_head"}}
    assert lost(weights_of(earlier), weights_of(model)) == expected.get(name, set())
    assert not caplog.text


def test_a_generator_that_shared_less_is_said_to_lose_what_the_discriminator_replaces(
    tmp_path, caplog
):
    _, export = exported(tmp_path, weight_sharing="none")
    start(tmp_path / "shared", export, embedding_size=16)
    assert "the generator has an embedding matrix of its own" in caplog.text


@torch.no_grad()
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"global_attn_every_n_layers": 2, "local_attention": 4},
        {"objective": "replace-mlm"},
        {"attention_bias": False},
    ],
    ids=str,
)
def test_an_export_of_a_modern_network_comes_back_as_the_same_functions(tmp_path, options):
    """Each network's embedding matrix, with its projection in it, is as wide as its hidden
    states."""
    earlier, export = exported(tmp_path, **(MODERN | options))
    with pytest.raises(ValueError, match=r"embedding_size = 32"):
        start(tmp_path / "refused", export, **(MODERN | options))
    if options.get("attention_bias", True):
        with pytest.raises(ValueError, match=r"attention_bias = true"):
            start(tmp_path / "lost", export, **(MODERN | options | {"attention_bias": False}))
    later = MODERN | options | {"embedding_size": 32, "weight_sharing": "none"}
    model, _ = start(tmp_path / "later", export, **later)
    ids = torch.randint(5, len(PIECES), (2, 12), generator=torch.Generator().manual_seed(0))
    types, found = torch.zeros_like(ids), []
    for of in (earlier.eval(), model.eval()):
        proposed = of.generator_output().logits(of.generator_states(ids, types))
        states = of.main_states(ids, types)
        detected = of.detection_logits(states) if of.config.has_detection_head else states
        found.append((proposed, states, detected))
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-3)


def byte_tokenizer(folder: Path, **names: str) -> PreTrainedTokenizerFast:
    """As ModernBERT's: pieces of bytes, a word has the space before it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=list(names.values()))
    tokenizer.train_from_iterator(["봄 서울 서울에서 봄 서울시 봄"] * 9, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    fast.save_pretrained(folder)
    return fast


@torch.no_grad()
def test_a_modernbert_of_another_tokenizer_is_trained_on(tmp_path):
    """Its encoder and head are the same functions; each piece begins as the mean of those that
    spell it there."""
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "mask_token": "<mask>"}
    tokenizer = byte_tokenizer(tmp_path / "theirs", pad_token="<pad>", unk_token="<unk>", **names)
    options = MODERN | {"embedding_size": 32, "objective": "mlm"}
    config = make_run(tmp_path / "run", **options)
    shape = make_model(config, 1).shape
    about = modern_config(shape, SpecialTokens(0, 1, 2, 3), 0.02).to_dict()
    about |= {"vocab_size": 300, "attention_bias": False}
    theirs = ModernBertForMaskedLM(ModernBertConfig(**about)).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    theirs.save_pretrained(tmp_path / "theirs")
    model, _ = start(tmp_path / "later", tmp_path / "theirs", **options)
    matrix = theirs.get_input_embeddings().weight
    spelled = {"봄": " 봄", "##에서": "에서", "서울": " 서울", "##시": "시"}
    for piece, text in spelled.items():
        ids = tokenizer.encode(text, add_special_tokens=False)
        row = model.embeddings.word.weight[PIECES.index(piece)]
        torch.testing.assert_close(row, matrix[ids].mean(0))
    pieces = [PIECES.index("[CLS]"), PIECES.index("봄"), PIECES.index("[SEP]")]
    word = tokenizer.encode(" 봄", add_special_tokens=False)
    ids = [tokenizer.bos_token_id, *word, tokenizer.eos_token_id]
    assert len(ids) == len(pieces)  # the word is one piece in both
    tensor = torch.tensor([pieces])
    hidden = model.main_states(tensor, torch.zeros_like(tensor))
    expected = theirs(torch.tensor([ids]), output_hidden_states=True)
    torch.testing.assert_close(hidden, expected.hidden_states[-1], rtol=1e-4, atol=1e-4)
    logits = model.language_output().logits(hidden)[..., pieces]
    torch.testing.assert_close(logits, expected.logits[..., ids], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sharing", ["embeddings", "none", "gdes"])
def test_without_a_generator_only_what_is_shared_is_known(tmp_path, sharing, caplog):
    options = {"weight_sharing": sharing}
    earlier, export = exported(tmp_path, **options)
    model, fresh = start(tmp_path / "later", export / "discriminator", **options)
    before, after = weights_of(earlier), weights_of(model)
    assert not lost(before, after, ("embeddings.", "discriminator.", "discriminator_head."))
    assert not lost(fresh, after, ("generator_head.",))
    # what is shared is the main network's, what is not is new
    tables = {f"generator_{n}": t for n, t in before.items() if n.startswith("embeddings.")}
    assert not lost(fresh if sharing == "none" else tables, after, ("generator_embeddings.",))
    assert not lost(fresh, after, ("generator.",))
    assert not caplog.text


def test_a_new_generator_knows_how_frequent_pieces_are_from_the_language_model(tmp_path):
    """It starts as it does between the two stages of one run."""
    config = make_run(tmp_path / "run", objective="mlm")
    before = weights_of(earlier := make_model(config, 1))
    model, _ = start(tmp_path / "later", save_run(earlier, config), EXTENDED)
    after = weights_of(model)
    for number, piece in enumerate(EXTENDED):
        if piece in PIECES:
            expected = before["language_head.bias"][PIECES.index(piece)]
            assert after["generator_head.bias"][number] == expected


def test_the_new_vocabulary_reads_as_the_old_one_did(tmp_path):
    """Text of old pieces has the same logits under its new ids; logits of old pieces too."""
    config = make_run(tmp_path / "run", **VARIANTS["gdes"])
    earlier = make_model(config, 1)
    model, _ = start(tmp_path / "later", save_run(earlier, config), EXTENDED, **VARIANTS["gdes"])
    shared = [piece for piece in PIECES if piece in EXTENDED]
    old = torch.tensor([PIECES.index(piece) for piece in shared])
    new = torch.tensor([EXTENDED.index(piece) for piece in shared])
    choice = torch.randint(0, len(shared), (3, 16), generator=torch.Generator().manual_seed(0))
    types = torch.zeros(3, 16, dtype=torch.int64)
    everywhere = torch.arange(16).expand(3, -1)
    with torch.no_grad():
        one = discriminate(earlier, old[choice], types)
        two = discriminate(model, new[choice], types)
        torch.testing.assert_close(one, two, rtol=0, atol=1e-5)
        before = generate(earlier, old[choice], types, everywhere)[..., old]
        after = generate(model, new[choice], types, everywhere)[..., new]
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


@pytest.mark.parametrize("num_positions", [36, 48])
def test_positions_are_copied_as_far_as_they_go(tmp_path, earlier, saved, num_positions):
    model, fresh = start(tmp_path / "run", saved, max_position_embeddings=num_positions)
    name, both = "embeddings.position.weight", min(40, num_positions)
    after = weights_of(model)[name]
    assert torch.equal(after[:both], weights_of(earlier)[name][:both])
    assert torch.equal(after[both:], fresh[name][both:])


def edited(**options: object) -> Callable[[Path], None]:
    """A network whose config says so."""

    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | options))

    return edit


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (shutil.rmtree, {}, "there is no such folder"),
        (edited(hidden_act="relu"), {}, "hidden_act"),
        (
            lambda path: (path / "vocab.txt").write_text("\n".join([*PIECES, "산"])),
            {},
            "has 17 pieces, but vocab_size = 16",
        ),
        (edited(model_type="gpt2"), {}, "gpt2"),
        (lambda path: (path / "vocab.txt").unlink(), {}, "no vocabulary"),
        (lambda path: (path / "config.json").unlink(), {}, "config.json"),
        (lambda path: (path / "model.safetensors").write_bytes(b"torn"), {}, "cannot be read"),
        # sizes, with what to set
        (None, {"hidden_size": 64, "generator_hidden_fraction": 0.25}, r"hidden_size = 32"),
        (None, {"layer_norm_eps": 1e-6}, r"Set pretrain\.layer_norm_eps = 1e-12"),
        (None, VARIANTS["electra-two-stage"], "electra-two-stage"),
        (None, EQUAL, r"n_fraction = 0\.5, pretrain\.generator_layers_fraction = 1 "),
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(tmp_path, export, change, options, words):
    given = export if options == EQUAL else export / "discriminator"
    if change:
        change(given)
    with pytest.raises(ValueError, match=words):
        start(tmp_path / "later", given, **options)


def test_untied_tables_are_refused(tmp_path, export):
    edited(tie_word_embeddings=False)(export / "generator")
    with pytest.raises(ValueError, match="tied"):
        start(tmp_path / "later", export / "generator")


def test_a_hub_name_is_fetched_from_the_hub(tmp_path, monkeypatch, earlier, export):
    def download(name: str, allow_patterns: list[str]) -> str:
        if name == "somebody/nothing":
            raise OSError("404")
        return str(export / "discriminator")

    monkeypatch.setattr(initial_source, "snapshot_download", download)
    model, _ = start(tmp_path / "later", Path("somebody/electra"))
    assert torch.equal(model.embeddings.word.weight, earlier.embeddings.word.weight)
    with pytest.raises(ValueError, match="404"):
        start(tmp_path / "later", Path("somebody/nothing"))
    with pytest.raises(ValueError, match="there is no such folder"):
        start(tmp_path / "later", Path(f"{tmp_path.name}/nothing/at/all"))


def test_initial_options_that_contradict_each_other_are_refused(tmp_path, saved, export):
    with pytest.raises(ValueError, match="has a generator of its own"):
        start(tmp_path / "run", saved, initial_generator=str(saved))
    with pytest.raises(ValueError, match="takes an exported folder, as RUN/export/generator"):
        start(tmp_path / "run", export / "discriminator", initial_generator=str(saved))
    swapped = [*PIECES[:-2], PIECES[-1], PIECES[-2]]
    (export / "generator" / "vocab.txt").write_text("".join(f"{piece}\n" for piece in swapped))
    with pytest.raises(ValueError, match="another vocabulary than"):
        start(tmp_path / "later", export)


def test_a_run_needs_the_vocabulary_that_it_was_trained_with(tmp_path, saved):
    vocabulary = saved / "vocab" / "tokenizer.json"
    vocabulary.write_text(vocabulary.read_text() + "\n")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"is not the vocabulary that .* was trained with"):
            start(tmp_path / "later", saved, EXTENDED)
        vocabulary.unlink(missing_ok=True)


def test_a_run_can_start_from_a_checkpoint_of_one_that_still_trains(tmp_path, earlier, saved):
    """By the name that it has now, and by that it will have; not from a damaged one."""
    start(tmp_path / "run", saved / "pretrain")
    (saved / "pretrain").rename(saved / "pretrain.partial")
    checkpoint = saved / "pretrain.partial" / "checkpoint-4"
    for name in ("pretrain", "pretrain.partial"):
        initial = saved / name / "checkpoint-4"
        model, _ = start(tmp_path / "run", initial)
        assert torch.equal(model.embeddings.word.weight, earlier.embeddings.word.weight)
        later = make_run(tmp_path / "run", initial_model=str(initial))
        expected = fingerprint(str(checkpoint / "state.json"))
        assert pretrain_stage(later).inputs["pretrain.initial_model"] == expected
    state = read_json(checkpoint / "state.json")
    state["identity"]["options"]["weight_sharing"] = "all"
    write_json(checkpoint / "state.json", state)
    with pytest.raises(ValueError, match=r"earlier version .*\n.*weight_sharing = \"all\" is gone"):
        start(tmp_path / "run", checkpoint)
    (checkpoint / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"checkpoint-4 is damaged .*name another checkpoint"):
        start(tmp_path / "run", checkpoint)
