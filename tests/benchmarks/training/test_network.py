"""A kept network predicts as the fine-tuning it comes from."""

from pathlib import Path

from benchmarks.evaluate import evaluate
from benchmarks.results.predictions import plain, read_predictions
from benchmarks.tasks.load import load_data
from benchmarks.training.network import kept_folders, read_kept
from benchmarks.training.trainer import Trainer


def test_a_kept_network_predicts_what_was_scored(make_config, model_folder, ynat_folder):
    config = make_config(pooling="mean", seeds=[3], num_epochs=1)
    evaluate(config, str(model_folder), name="one")
    folder = Path(config.output_dir) / "evaluate-one"
    assert not (folder / "models").exists()
    config = make_config(pooling="mean", seeds=[3, 4], num_epochs=1, keep_models=True)
    evaluate(config, str(model_folder), name="one")  # done again, and kept
    (place,) = kept_folders(folder)
    (predictions,) = (folder / "predictions" / "klue-ynat").glob("pretrained-3-*")
    assert place == folder / "models" / "klue-ynat" / predictions.stem
    kept = read_kept(place)
    examples = load_data(kept.task, ynat_folder).reported
    features = kept.task.featurize(examples, kept.source.tokenizer, 16, train=False)
    outputs = Trainer(kept.network, kept.task, 0, kept.settings, "").predict(features)
    wanted = plain(kept.task.predictions(examples, features, outputs))
    assert read_predictions(predictions)[1] == wanted
    other = make_config(pooling="mean", seeds=[3], keep_models=True, num_epochs=2)
    evaluate(other, str(model_folder), name="one")
    (later,) = kept_folders(folder)
    assert read_kept(later).settings != kept.settings
    evaluate(config, str(model_folder), name="one")  # of the first again
    assert kept_folders(folder) == [place]
    assert read_kept(place).settings == kept.settings
