"""FLOPs and memory of a fine-tuning, against what the shapes say."""

import numpy as np
import pytest

from benchmarks.encoder import open_model
from benchmarks.tasks.load import load_data
from benchmarks.training.finetune import finetune, tokenize
from tests.benchmarks.records import YNAT

LAYERS, HIDDEN, INTERMEDIATE, EMBEDDING = 2, 32, 64, 16  # of `model_folder`


def encoder_flops(length: int) -> float:
    """Of a forward pass over one row."""
    matrices = 4 * HIDDEN * HIDDEN + 2 * HIDDEN * INTERMEDIATE
    layer = 2 * matrices * length + 4 * HIDDEN * length**2
    return LAYERS * layer + 2 * EMBEDDING * HIDDEN * length


HEAD = 2 * HIDDEN * len(YNAT.labels)


@pytest.fixture
def fit(make_settings, model_folder, ynat_folder):
    """Fine-tunes YNAT with these options; the result and the tokenised rows."""

    def run(**options):
        source = open_model(str(model_folder))
        settings = make_settings(num_epochs=2, **options)
        features = tokenize(YNAT, load_data(YNAT, ynat_folder), source, settings, [0])
        return finetune(features, source, settings, seed=0), features

    return run


def padded_lengths(features, batch_size: int = 14) -> list[int]:
    """Of the batches of both epochs together."""
    from benchmarks.tasks.heads import training_batches

    lengths, rng = features.train.features.lengths, np.random.default_rng([0, 2])
    batches = training_batches(lengths, batch_size, 20, rng)
    return [int(lengths[rows].max()) for rows in batches for _ in rows]


def test_flops_are_those_of_the_matrix_products(fit):
    fitted_model, features = fit()
    # backward is twice the forward
    trained = sum(3 * (encoder_flops(length) + HEAD) for length in padded_lengths(features))
    assert fitted_model.train_flops == pytest.approx(trained, rel=1e-6)
    reported = features.predicted["dev-part"].features.lengths
    once = np.mean([encoder_flops(int(length)) + HEAD for length in reported])
    assert fitted_model.inference_flops == pytest.approx(once, rel=1e-6)


def test_a_frozen_encoder_has_no_backward_pass(fit):
    fitted_model, features = fit(freeze="encoder")
    # the head's is to its own weights and not to the states: as much as the forward
    trained = sum(encoder_flops(length) + 2 * HEAD for length in padded_lengths(features))
    assert fitted_model.train_flops == pytest.approx(trained, rel=1e-6)
