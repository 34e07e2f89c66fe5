"""A run of another length goes on from what an earlier one has, and ends as if it were alone."""

import json

import pytest

from electrify.stage.folder import read_manifest
from electrify.system.progress import Stopped
from model.checkpoint import checkpoints, shared_steps
from model.pretrain import Trainer, Update, pretrain
from tests.model.conftest import make_run, tiny
from tests.model.trained import Trained, records_of

FLAT = {"num_hidden_layers": 1, "decay_fraction": 0.25}
FLAT |= {"checkpoint_every_steps": 3, "keep_checkpoints": 1}


def test_a_finished_trapezoid_goes_on_and_ends_as_a_run_of_its_own(tmp_path):
    def kept() -> list[int]:
        places = checkpoints(tmp_path / "run" / "pretrain")
        return [int(path.name.removeprefix("checkpoint-")) for path in places]

    flat = FLAT | {"keep_every_steps": 6}
    pretrain(make_run(tmp_path / "run", **flat, num_steps=16))
    assert kept() == [6, 12, 16]  # the rate falls from 12 on
    config = make_run(tmp_path / "run", **flat, num_steps=20)
    pretrain(config)
    assert kept() == [6, 12, 15, 18, 20]
    pretrain(make_run(tmp_path / "alone", **flat, num_steps=20))
    own, alone = (tmp_path / name / "pretrain" for name in ("run", "alone"))
    Trained.read(own).check_same(Trained.read(alone))
    assert read_manifest(own)["counts"]["num_steps"] == 20
    states = [json.loads((f / "checkpoint-20/state.json").read_text()) for f in (own, alone)]
    assert states[0] == states[1]
    pretrain(config)  # nothing is left to do


MLM_FIRST = FLAT | {"mlm_steps_fraction": 0.5, "warmup_steps": 1, "num_steps": 16}


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        # its rate falls from 8 on: the checkpoint of 12 is none of it
        (FLAT | {"num_steps": 16}, {"num_steps": 10}, r'first 8 steps.*initial_model = ".*-16"'),
        ({"num_steps": 8}, {"num_steps": 12}, r"decay_fraction = 1.*pretrain\.initial_model = "),
        # what follows from the length is named
        (
            MLM_FIRST,
            {"num_steps": 32, "warmup_steps": 2},
            r"`pretrain\.warmup_steps=1` and `pretrain\.mlm_steps_fraction=0\.25` it has its first"
            " 13 and goes on",
        ),
    ],
)
def test_where_no_checkpoint_is_of_both_runs_the_error_says_how_to_begin(
    tmp_path, first, second, words
):
    pretrain(make_run(tmp_path / "run", **first))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=f"(?s){words}"):
        pretrain(make_run(tmp_path / "run", **first | second))
    assert sorted(tmp_path.rglob("*")) == before


def test_the_finished_run_stays_until_the_longer_one_is_whole(tmp_path, monkeypatch):
    pretrain(make_run(tmp_path / "run", **FLAT, num_steps=16))
    longer = make_run(tmp_path / "run", **FLAT, num_steps=24)
    validate = Trainer._validate
    monkeypatch.setattr(Trainer, "_validate", lambda *_: (_ for _ in ()).throw(Stopped("now", 15)))
    for _ in range(2):  # of the second, too, the work begun is taken up
        with pytest.raises(Stopped):
            pretrain(longer)
        assert read_manifest(tmp_path / "run" / "pretrain")["counts"]["num_steps"] == 16
    monkeypatch.setattr(Trainer, "_validate", validate)
    pretrain(longer)
    assert read_manifest(tmp_path / "run" / "pretrain")["counts"]["num_steps"] == 24
    steps = [r["step"] for r in records_of(tmp_path / "run" / "pretrain") if r["kind"] == "train"]
    assert steps == sorted(set(steps))


def test_unfinished_work_gets_another_end_where_nothing_of_it_is_lost(tmp_path, monkeypatch):
    run, prepare = tmp_path / "run", Update.prepare

    def stopping(update: Update, step: int) -> None:
        if step == 10:
            raise Stopped("now", 15)
        prepare(update, step)

    monkeypatch.setattr(Update, "prepare", stopping)
    with pytest.raises(Stopped):
        pretrain(make_run(run, **FLAT, num_steps=16))
    monkeypatch.undo()
    before = {p: p.read_bytes() for p in run.rglob("pretrain.partial/*/*")}
    assert before
    with pytest.raises(ValueError, match="first 7 steps"):  # there is a checkpoint of step 9
        pretrain(make_run(run, **FLAT, num_steps=8))
    assert {p: p.read_bytes() for p in before} == before
    pretrain(make_run(run, **FLAT, num_steps=20))
    pretrain(make_run(tmp_path / "alone", **FLAT, num_steps=20))
    own, alone = (Trained.read(tmp_path / name / "pretrain") for name in ("run", "alone"))
    own.check_same(alone)


HARDER = {"curriculum": [{"steps_fraction": 0.25, "mask_fraction": 0.3}]}


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({"decay_fraction": 0.5}, {"decay_fraction": 0.5}, 9),
        ({}, {}, 1),  # both begin with rate 0
        ({"decay_fraction": 0.5}, {"decay_fraction": 0.5, "warmup_steps": 4}, 1),
        ({"decay_fraction": 0.25} | HARDER, {"decay_fraction": 0.25} | HARDER, 4),
        *(
            ({"decay_fraction": 0.25, "mlm_steps_fraction": 0.5}, {"decay_fraction": 0.25} | of, n)
            for of, n in (({"mlm_steps_fraction": 0.5}, 8), ({"mlm_steps_fraction": 0.25}, 13))
        ),
    ],
)
def test_runs_share_the_steps_before_rate_stage_or_batches_differ(first, second, shared):
    # how many sequences a pass has changes no gradient
    both = tiny(**first, num_steps=16), tiny(**second, num_steps=32, micro_batch_size=2)
    assert shared_steps(*both) == shared_steps(*reversed(both)) == shared
