"""Each test starts with the `electrify` log as a library user has it, whatever a command set."""

import logging

import pytest


@pytest.fixture(autouse=True)
def plain_logging() -> None:
    logger = logging.getLogger("electrify")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
