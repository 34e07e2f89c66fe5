"""The config: strict, filled from presets; errors name key, value and the nearest name."""

import pickle
from pathlib import Path
from typing import get_args

import pytest

from electrify.config.clean import Source
from electrify.config.fields import check_language
from electrify.config.load import evaluation_of, load_config
from electrify.config.pretrain import SIZE_PRESETS, PretrainConfig, Size
from tests.pipeline.cases import read_cases

MINIMAL_TOML = """
name = "x"
output_dir = "out/x"
[clean]
sources = [{ kind = "jsonl", language = "ko", path = "x.jsonl" }]
"""


def test_a_config_extends_another_and_its_own_keys_win(tmp_path: Path):
    (tmp_path / "base.toml").write_text(
        MINIMAL_TOML + "[pretrain]\nsize = 'small'\nnum_steps = 7\nwarmup_steps = 1\n"
        "[encode]\nrepeats = { a = 2 }\n"
    )
    path = tmp_path / "x.toml"
    path.write_text(
        "extends = 'base.toml'\nname = 'y'\n[pretrain]\nnum_steps = 9\n"
        "[encode]\nrepeats = { b = 3 }\n"
    )
    config = load_config(path)
    assert (config.name, config.output_dir) == ("y", "out/x")
    assert (config.pretrain.num_steps, config.pretrain.warmup_steps) == (9, 1)
    assert config.encode.repeats == {"b": 3}
    assert config.clean == load_config(tmp_path / "base.toml").clean
    path.write_text("extends = 'other.toml'\n")
    (tmp_path / "other.toml").write_text("extends = 'x.toml'\n")
    with pytest.raises(ValueError, match="leads back to"):
        load_config(path)
    path.write_text("extends = 3\n")
    with pytest.raises(ValueError, match="extends = 3 is no file name"):
        load_config(path)


@pytest.mark.parametrize("size", get_args(Size))
def test_a_run_from_an_earlier_model_has_adam_of_right_size_and_asks_for_a_rate(tmp_path, size):
    (tmp_path / "x.toml").write_text(f"{MINIMAL_TOML}[pretrain]\nsize = '{size}'\n")

    def options(*given: str) -> PretrainConfig:
        return load_config(tmp_path / "x.toml", [f"pretrain.{word}" for word in given]).pretrain

    preset, start = SIZE_PRESETS[size], "initial_model=a/b"
    assert options().optimizer == preset["optimizer"]
    assert options(start).optimizer == "bias-corrected"
    assert options(start, "optimizer=muon").optimizer == "muon"
    (warning,) = options(start).warnings
    assert f"learning_rate = {preset['learning_rate']:g}" in warning
    # the same rate is no oversight where it is set
    assert not options(start, f"learning_rate={preset['learning_rate']}").warnings
    assert not options().warnings


def test_a_config_of_windows_and_a_home_are_read(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    path = tmp_path / "x.toml"
    path.write_text(MINIMAL_TOML.replace("out/x", "~/x"), encoding="utf-8-sig")
    config = load_config(path, ["vocab.extend='~/v'"])
    assert config.output_dir == "/home/someone/x"
    assert config.vocab.extend == "/home/someone/v"


@pytest.mark.parametrize(("override", "message"), read_cases(__file__)["errors"])
def test_errors_name_key_value_and_what_would_be_right(tmp_path: Path, override, message):
    path = tmp_path / "run.toml"
    path.write_text(MINIMAL_TOML, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_config(path, [override])


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("klue/roberta-small", "klue-roberta-small"),
        ("../runs/b/export/discriminator/", "b-export-discriminator"),
        ("~/models/Ours", "models-ours"),
        ("export/discriminator", "export-discriminator"),
    ],
)
def test_the_scores_of_a_model_are_named_after_it(model: str, name: str):
    config = evaluation_of(model, [])
    assert (config.name, config.output_dir) == (name, f"out/{name}")


@pytest.mark.parametrize(
    "key", ["klue-ner", '"klue-ner"', "'klue-ner'", '"klue\\u002dner"'], ids=range(4)
)
def test_a_part_of_an_overridden_key_may_stand_in_quotes_as_in_toml(key: str):
    override = f"evaluate.tasks_options.{key}.num_epochs=7.0"
    config = load_config("configs/demo.toml", [override])
    assert config.evaluate.tasks_options["klue-ner"].num_epochs == 7.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"no config at .*run\.toml"),
        ("", "clean is missing"),
        ("name = ", "not valid TOML"),
        (f"{MINIMAL_TOML}name = 'y'\nname = 'z'", "not valid TOML"),
        (f"when = 2020-01-01\n{MINIMAL_TOML}", "no value of type date"),
        (f"{MINIMAL_TOML}seed = {'1' * 5000}", r"run\.toml"),
        (f"{MINIMAL_TOML}x = {'[' * 5000}{']' * 5000}", r"run\.toml"),
        (f"{MINIMAL_TOML}[{'a.' * 3000}b]\nc = 1", r"run\.toml"),
        (f"{MINIMAL_TOML}name = '\udcff'", r"run\.toml"),
    ],
    ids=("none", "empty", "no value", "twice", "date", "digits", "deep", "dotted", "bytes"),
)
def test_a_file_that_is_no_config_is_named(tmp_path: Path, text: str | None, message: str):
    path = tmp_path / "run.toml"
    if text is not None:
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=message) as refused:
        load_config(path)
    assert not isinstance(refused.value, UnicodeError)
    path.write_text(MINIMAL_TOML, encoding="utf-16")
    with pytest.raises(ValueError, match=r"run\.toml is text in utf-16.*: save it as UTF-8"):
        load_config(path)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("kr", "did you mean 'ko'"),
        ("CN", "did you mean 'zh'"),
        ("jp", "did you mean 'ja'"),
        ("German", "did you mean 'de'"),
        *((code, "must be written 'ko'") for code in ("KO", "kor", "ko-KR")),
        *((code, "is no language code") for code in ("xx", "", "한국어", "k o", "none")),
    ],
)
def test_what_was_meant_by_a_language_is_named(code, says):
    with pytest.raises(ValueError, match=f"{code!r} .*{says}"):
        check_language(code)


def _source(kind, **options):
    return Source(kind=kind, language="ko", path="x", **options)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [("jsonl", "document", "line"), ("text", "text_field", "body"), ("wet", "encoding", "utf-16")],
)
def test_an_option_of_another_kind_is_refused_with_both_names(kind, name, value):
    with pytest.raises(ValueError, match=rf"{name} = {value!r} is not for kind = {kind!r}"):
        _source(kind, **{name: value})


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("jsonl", {"text_field": "a", "id_field": "b", "encoding": "cp949"}),
        ("text", {"document": "file", "encoding": "shift_jis"}),
        ("huggingface", {"name": "a", "split": "b", "text_field": "c", "id_field": "d"}),
    ],
)
def test_a_kind_takes_its_own_options_and_keeps_them_on_the_way_to_a_worker(kind, options):
    source = _source(kind, **options)
    assert Source(**source.model_dump()) == source
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize("encoding", ["cp94", "", "rot13", "base64", "a\0b"])
def test_encodings_are_codecs_for_text(encoding):
    with pytest.raises(ValueError, match="is no text encoding"):
        _source("text", encoding=encoding)
