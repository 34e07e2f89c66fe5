"""Hidden tokens named by each network: against the networks themselves, one sequence at a time."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from electrify.cli import main
from electrify.config.load import load_config
from electrify.stage.folder import Stage, read_manifest
from electrify.stage.masked_report import SequenceSums, read_report, read_sequences
from electrify.stage.run import run_stage
from model.batch import SpecialTokens
from model.electra import ElectraPretrainer
from model.masked.hidden_tokens import choose_slots, guess, hide, invert
from model.masked.predict import context_figures, predict_masked
from model.objectives import run_objective
from model.pretrain import pretrain
from tests.model.conftest import (
    SPECIAL,
    TINY,
    VOCAB_SIZE,
    make_config,
    random_batch,
    random_model,
    write_tiny_shards,
)

OBJECTIVES = {
    "electra": {},
    "gdes": {"weight_sharing": "gdes"},
    "electra-15": {"objective": "electra-15"},
    "disallow_correct": {"disallow_correct": True},
    "temperature": {"sampling_temperature": 2.0},
    "document": {"attention": "document"},
    "electra-adversarial": {"objective": "electra-adversarial"},
    "electric": {"objective": "electric"},
    "replace-mlm": {"objective": "replace-mlm"},
    "all-tokens-mlm": {"objective": "all-tokens-mlm"},
    "mlm": {"objective": "mlm"},
}
DETECTORS = [name for name in OBJECTIVES if not name.endswith("mlm")]
CONTEXTS = ("as in training", "one at a time")


def made(name: str, padded: bool = True, **options: object):
    model = random_model(**(OBJECTIVES[name] | options)).eval()
    return model, random_batch(model, rows=4, padded=padded)


@pytest.mark.parametrize("masking", ["fixed", "with-replacement", "bernoulli"])
def test_slots_are_different_chosen_positions(masking):
    model, _ = made("mlm", masking=masking, mask_fraction=0.4)
    batch = random_batch(model, rows=30)
    masked = model.mask(batch)
    rows, slots = choose_slots(masked, 3)
    assert (masked.weights[rows, slots] > 0).all()
    pairs = list(zip(rows.tolist(), masked.positions[rows, slots].tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    for row in range(30):
        chosen = masked.positions[row][masked.weights[row] > 0].unique()
        assert sum(r == row for r, _ in pairs) == min(3, len(chosen))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_is_hidden_and_what_is_not(name):
    model, batch = made(name)
    ids, masked = batch.input_ids, model.mask(batch)
    contexts = hide(model, batch, 2)
    assert tuple(contexts) == CONTEXTS
    together, alone = contexts.values()
    for hidden in (together, alone):
        own = torch.arange(len(hidden)), hidden.positions
        text = ids[hidden.sequences]
        assert torch.equal(text[own], hidden.truths)
        assert not torch.isin(
            hidden.truths, torch.tensor([SPECIAL[p] for p in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")])
        ).any()
        others = torch.ones_like(text, dtype=torch.bool)
        others[own] = False
        chosen = torch.zeros_like(ids, dtype=torch.bool).scatter(1, masked.positions, True)
        chosen &= (masked.weights.sum(dim=1) > 0)[:, None]
        if hidden is together:
            others &= ~chosen[hidden.sequences]
        for inputs in (hidden.generator_ids, hidden.main_ids):
            assert torch.equal(inputs[others], text[others])
        if name != "electric":  # its towers never see the token they predict
            assert (hidden.generator_ids[own] == SPECIAL["[MASK]"]).all()
    hidden_at_once = (together.generator_ids == SPECIAL["[MASK]"]).sum(dim=1)
    if name != "electric":
        assert torch.equal(hidden_at_once, masked.weights.sum(dim=1)[together.sequences].long())
    if name == "mlm":
        assert torch.equal(together.main_ids, together.generator_ids)
    else:  # the main network reads no [MASK]
        assert torch.equal(alone.main_ids, ids[alone.sequences])


@pytest.mark.parametrize("name", ["electra", "replace-mlm", "all-tokens-mlm", "mlm"])
def test_hidden_as_in_training_the_losses_are_those_of_training(name):
    # every chosen position is masked then, as it is here
    model, batch = made(name, mask_token_fraction=1.0)
    with torch.no_grad():
        outputs = run_objective(model, model.mask(batch))
    together = hide(model, batch, 99)["as in training"]
    found = guess(model, together, 5, 3)
    rows, slots = choose_slots(model.mask(batch), 99)
    pairs = {"generator": outputs.generator_losses, "main": outputs.language_losses}
    for predictor, losses in pairs.items():
        if losses is not None:
            ours = found.figures[predictor]["log_likelihood"].float()
            assert torch.allclose(ours, -losses[rows, slots], atol=1e-5), predictor


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", DETECTORS)
def test_each_candidate_is_read_in_its_place(name, context):
    """Against one sequence after the other, and the whole of the formula."""
    model, batch = made(name)
    hidden = hide(model, batch, 2)[context]
    found = guess(model, hidden, 7, 64)
    assert found.found is not None
    masked = model.mask(batch)
    for number, row in enumerate(hidden.sequences.tolist()):
        one = slice(number, number + 1)
        types = hidden.token_type_ids[one]
        attention = None if masked.attention_mask is None else masked.attention_mask[row, None]
        places = None if masked.position_ids is None else masked.position_ids[row, None]
        at = int(hidden.positions[number])
        with torch.no_grad():
            logits = model.generate(
                hidden.generator_ids[one], types, torch.tensor([[at]]), attention, places
            )[0, 0]
            log_p = logits.log_softmax(dim=-1)
            candidates = log_p.topk(7).indices
            called = []
            for candidate in candidates.tolist():
                ids = hidden.main_ids[one].clone()
                ids[0, at] = candidate
                called.append(model.discriminate(ids, types, attention, places)[0, at])
        raw = torch.stack(called)
        proposal = (logits / model.config.sampling_temperature).log_softmax(dim=-1)[candidates]
        weights = invert(raw[None], proposal[None], model.config)[0]
        truth = int(hidden.truths[number])
        is_there = truth in candidates.tolist()
        assert bool(found.found[number]) == is_there
        figures = found.figures["inversion"]
        first = int(candidates[weights.argmax()])
        assert float(figures["accuracy"][number]) == float(first == truth)
        five = candidates[weights.topk(5).indices].tolist()
        assert float(figures["top5_accuracy"][number]) == float(truth in five)
        expected = float(log_p[truth])
        if is_there:
            share = weights.log_softmax(dim=-1)[candidates.tolist().index(truth)]
            expected = float(share + log_p[candidates].double().logsumexp(dim=0))
        assert float(figures["log_likelihood"][number]) == pytest.approx(expected, abs=1e-4)
        if name != "electric":
            alone = int(candidates[raw.argmin()])
            ours = float(found.figures["discriminator"]["accuracy"][number])
            assert ours == float(alone == truth)
        assert found.likeliest["inversion"][0][number].tolist() == five


@pytest.mark.parametrize("name", ["electra", "electric", "all-tokens-mlm", "mlm"])
def test_passes_of_any_size_find_the_same(name):
    model, batch = made(name)
    for hidden in hide(model, batch, 3).values():
        one, many = guess(model, hidden, 9, 2), guess(model, hidden, 9, 500)
        for predictor, figures in many.figures.items():
            for figure, values in figures.items():
                ours = one.figures[predictor][figure]
                assert torch.allclose(ours, values, atol=1e-4), (predictor, figure)


def test_with_every_token_a_candidate_probabilities_sum_to_one():
    model, batch = made("electra")
    hidden = hide(model, batch.rows(slice(0, 2)), 1)["one at a time"]
    found = guess(model, hidden, VOCAB_SIZE, 512)
    assert found.found is not None
    assert found.found.all()
    total = torch.zeros(len(hidden))
    for token in range(VOCAB_SIZE):
        as_truth = replace(hidden, truths=torch.full_like(hidden.truths, token))
        log_likelihood = guess(model, as_truth, VOCAB_SIZE, 512).figures["inversion"]
        total += log_likelihood["log_likelihood"].exp().float()
    assert torch.allclose(total, torch.ones(len(hidden)), atol=1e-4)


def test_a_discriminator_without_an_opinion_is_worth_nothing_by_itself():
    model, batch = made("electra")
    assert model.discriminator_head is not None
    with torch.no_grad():
        model.discriminator_head.prediction.weight.zero_()
    hidden = hide(model, batch, 3)["one at a time"]
    found = guess(model, hidden, VOCAB_SIZE, 512)
    first = found.figures["generator"]["accuracy"]
    assert torch.equal(found.figures["inversion"]["accuracy"], first)
    guesses = found.figures["discriminator"]["accuracy"]
    assert torch.allclose(guesses, torch.full_like(guesses, 1 / VOCAB_SIZE))


def test_a_broken_network_is_no_success():
    model, batch = made("electra")
    assert model.discriminator_head is not None
    with torch.no_grad():
        model.discriminator_head.prediction.bias.fill_(float("nan"))
    hidden = hide(model, batch, 1)["one at a time"]
    with pytest.raises(ValueError, match="not finite"):
        guess(model, hidden, 5, 64)


PIECES = [*SPECIAL, *(f"w{number}" for number in range(VOCAB_SIZE - len(SPECIAL)))]


def finished(folder: Path, **options: object):
    """A tiny run that is pretrained, and few hidden tokens."""

    def vocab(target: Path) -> dict[str, int]:
        (target / "vocab.txt").write_text("\n".join(PIECES) + "\n")
        return {}

    def shards(target: Path) -> dict[str, int]:
        write_tiny_shards(target)
        return {}

    config = make_config(folder, **options)
    run_stage(Stage("train-vocab", folder / "vocab", {}), vocab)
    run_stage(Stage("encode", folder / "shards", {}), shards)
    pretrain(config)
    small = config.masked.model_copy(update={"num_sequences": 20, "num_candidates": 6})
    return config.model_copy(update={"masked": small})


def test_by_default_a_tiny_network_takes_a_minute_of_two_cores():
    """At the rate that `electrify validate` takes for them."""
    config = load_config(Path("configs/ko-tiny.toml"))
    model = ElectraPretrainer(config.pretrain, config.vocab.size, SpecialTokens(0, 2, 3, 4)).eval()
    ids = torch.zeros(1, config.encode.sequence_length, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.main_states(ids, ids)
    options = config.masked
    num_read = 2 * options.num_sequences * options.positions_per_sequence * options.num_candidates
    assert counter.get_total_flops() * num_read / 1.2e11 < 60


def test_a_runs_report(tmp_path):
    config = finished(tmp_path / "run")
    folder = predict_masked(config)
    assert folder == tmp_path / "run" / "masked"
    report, sequences = read_report(folder), read_sequences(folder)
    assert (report.objective, report.step, report.main) == ("electra", 12, "inversion")
    assert report.num_candidates == 6
    assert set(report.contexts) == set(CONTEXTS)
    for context, figures in report.contexts.items():
        group = figures.all
        assert group.num_sequences == len(sequences) <= 20
        assert group.num_positions == sum(s.num_positions for s in sequences)
        for predictor, values in group.predictors.items():
            for figure, estimate in values.items():
                total = sum(s.sums[context][predictor][figure] for s in sequences)
                assert estimate.value == pytest.approx(total / group.num_positions)
        gain = group.gains["inversion"]["log_likelihood"]
        own, base = (group.predictors[p]["log_likelihood"] for p in ("inversion", "generator"))
        assert gain.value == pytest.approx(own.value - base.value)
        assert "log_likelihood" not in group.predictors["discriminator"]  # it states none
        assert group.coverage is not None
        assert group.predictors["inversion"]["accuracy"].value <= group.coverage.value
    example = report.examples[0]
    assert example.hidden in PIECES
    assert {g.token for g in example.guesses["inversion"]} <= set(PIECES)
    words = [*example.before.split()[-1:], example.hidden, *example.after.split()[:1]]
    numbers = [PIECES.index(word) for word in words if word in PIECES[5:11]]
    assert all((b - a) % 6 == 1 for a, b in itertools.pairwise(numbers))  # each word is the next
    assert "pretrain" in read_manifest(folder)["inputs"]


def test_the_same_run_gives_the_same_bytes(tmp_path):
    config = finished(tmp_path / "run")
    folder = predict_masked(config)
    before = {path.name: path.read_bytes() for path in folder.glob("*.json*")}
    again = config.masked.model_copy(update={"num_sequences": 18})
    predict_masked(config.model_copy(update={"masked": again}), overwrite=True)
    # fewer sequences are the first of the same ones
    assert read_sequences(folder) == [
        type(s).model_validate_json(line)
        for s, line in zip(
            read_sequences(folder), before["sequences.jsonl"].decode().splitlines(), strict=False
        )
    ]
    predict_masked(config, overwrite=True)
    after = {path.name: path.read_bytes() for path in folder.glob("*.json*")}
    for name in ("report.json", "sequences.jsonl"):
        assert before[name] == after[name]


def test_where_nothing_was_named_there_is_no_false_certainty():
    def sums(hits: float, log_likelihood: float) -> SequenceSums:
        figures = {"generator": {"accuracy": hits, "log_likelihood": log_likelihood}}
        return SequenceSums(language="ko", num_positions=4, sums={"one at a time": figures})

    none = context_figures([sums(0, -8.0), sums(0, -9.0), sums(0, -7.0)], "one at a time").all
    accuracy, log_likelihood = none.predictors["generator"].values()
    assert (accuracy.value, accuracy.low, accuracy.high) == (0, None, None)
    assert log_likelihood.low is not None
    assert log_likelihood.high is not None
    assert log_likelihood.low < -2 < log_likelihood.high


def test_an_mlm_run_has_its_main_network_alone(tmp_path):
    report = read_report(predict_masked(finished(tmp_path / "run", objective="mlm")))
    assert report.main == "main"
    assert report.num_candidates is None
    group = report.contexts["one at a time"].all
    assert set(group.predictors) == {"main"}
    assert group.gains == {}
    assert group.coverage is None


def test_runs_that_cannot_be_measured_say_why(tmp_path, capsys):
    config = finished(tmp_path / "run")
    with pytest.raises(
        ValueError, match=r"--checkpoint 5: there is no such checkpoint.*steps: 8, 12"
    ):
        predict_masked(config, step=5)
    other = config.pretrain.model_copy(update={"mask_fraction": 0.3})
    with pytest.raises(ValueError, match="mask_fraction"):
        predict_masked(config.model_copy(update={"pretrain": other}))
    folder = predict_masked(config, step=8)
    assert folder.name == "masked-checkpoint-8"
    assert read_report(folder).step == 8
    weights = tmp_path / "run" / "pretrain" / "checkpoint-8" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="changed since it was made"):
        predict_masked(config)
    folder.rename(folder.with_name("aside"))
    with pytest.raises(ValueError, match="checkpoint-8 is damaged"):
        predict_masked(config, step=8)


def test_the_verb(tmp_path, capsys):
    config = finished(tmp_path / "run")
    path = tmp_path / "run.toml"
    lines = ['name = "tiny"', "seed = 7", f"output_dir = {json.dumps(config.output_dir)}"]
    lines += ["[[clean.sources]]", 'kind = "text"', 'language = "ko"', 'path = "none.txt"']
    lines += ["[encode]", "sequence_length = 32", "[pretrain]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in TINY.items()]
    path.write_text("\n".join(lines))
    options = ["--set", "masked.num_sequences=3", "--set", "masked.num_candidates=5"]
    assert main(["predict-masked", str(path), *options]) == 0
    folder = Path(capsys.readouterr().out.strip().splitlines()[-1])
    assert read_report(folder).num_candidates == 5
    assert main(["predict-masked", str(path), "--checkpoint", "99"]) == 1
    assert "no such checkpoint" in capsys.readouterr().err
