"""Each test starts with the `electrify` log as a library user has it, whatever a command set."""

import logging
from contextlib import suppress

import pytest

with suppress(ModuleNotFoundError):  # the environment for TPUs has it not, nor tests that need it
    from hypothesis import HealthCheck, settings

    # busy cores are no fault of what is tested
    settings.register_profile(
        "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("patient")


@pytest.fixture(autouse=True)
def plain_logging() -> None:
    logger = logging.getLogger("electrify")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
