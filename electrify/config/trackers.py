"""Boards of others that the figures of a stage also go to."""

from electrify.config.fields import Section


class TrackerOptions(Section):
    """Any number of them; each needs its own package."""

    wandb_project: str | None = None
    """Weights & Biases project that gets the figures."""
    trackio_project: str | None = None
    """trackio project that gets the figures."""
    mlflow_experiment: str | None = None
    """MLflow experiment that gets the figures."""
