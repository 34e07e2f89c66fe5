"""Detection metrics equal scikit-learn's."""

import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score, roc_auc_score

from model.metrics import area_under_roc, detection_metrics


@pytest.mark.parametrize("ties", [False, True])
def test_equal_to_scikit_learn(ties: bool):
    rng = np.random.default_rng(1)
    replaced = rng.random(500) < 0.2
    logits = (rng.normal(size=500) + replaced).astype(np.float32)
    if ties:
        logits = logits.round()
    found = detection_metrics(logits, replaced)
    assert found["rtd_auc"] == pytest.approx(roc_auc_score(replaced, logits))
    assert found["rtd_precision"] == pytest.approx(precision_score(replaced, logits > 0))
    assert found["rtd_recall"] == pytest.approx(recall_score(replaced, logits > 0))
    assert found["replaced_fraction"] == pytest.approx(replaced.mean())


def test_undefined_figures_are_nan_not_zero():
    logits = np.array([-1.0, -2.0], np.float32)
    none = detection_metrics(logits, np.array([False, False]))
    assert np.isnan(none["rtd_auc"])
    assert np.isnan(none["rtd_precision"])
    assert np.isnan(none["rtd_recall"])
    assert np.isnan(area_under_roc(logits, np.array([True, True])))
