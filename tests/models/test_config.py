"""Every setting is checked, normalised and reported."""

import json
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from hspr.models.config import Config
from hspr.models.errors import DataError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rank", -1),
        ("rank", 1.0),
        ("rank", True),
        ("rank", "2"),
        ("rank", None),
        *((name, value) for name in ("precision", "kappa") for value in (0, -1.0, "4", None, True)),
        *(
            (name, value)
            for name in ("precision", "kappa", "calibration")
            for value in (float("nan"), float("inf"), 10**400, 1j)
        ),
        ("calibration", -0.1),
        ("calibration", 1.1),
        ("calibration", False),
        ("criterion", "Score"),
        ("criterion", ""),
        ("criterion", None),
        ("criterion", ["score"]),
        ("decision", "mode"),
        ("decision", 0),
    ],
)
def test_config_refuses_a_setting_outside_its_range(name: str, value: object) -> None:
    with pytest.raises(DataError) as caught:
        Config(**{name: value})  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"{name} must be ")
    assert f"got {value!r}" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "settings",
    [
        {"rank": 0, "precision": 0.25},
        {"rank": 100},
        {"precision": 1e-6, "kappa": 1e6},
        {"calibration": 0},
        {"calibration": 1},
        {"criterion": "latent", "decision": "mean"},
    ],
)
def test_config_takes_a_setting_within_its_range(settings: dict) -> None:
    config = Config(**settings)
    assert {name: getattr(config, name) for name in settings} == settings


def test_config_stores_plain_numbers() -> None:
    config = Config(
        rank=np.int64(2),  # type: ignore[arg-type]
        precision=np.float32(0.5),  # type: ignore[arg-type]
        kappa=100,
        calibration=Fraction(1, 2),  # type: ignore[arg-type]
    )
    assert config == Config(rank=2, precision=0.5, kappa=100.0, calibration=0.5)
    # Whole numbers of 64 to 127 become small integers in PyTensor, and overflow.
    assert isinstance(config.kappa, float)
    assert json.loads(json.dumps(config.to_dict())) == config.to_dict()


def test_config_ability_precision_is_gamma_without_factors_only() -> None:
    assert Config(rank=0, precision=7.0).ability_precision == 7.0
    assert Config(rank=1, precision=7.0).ability_precision == 0.25
    assert Config(rank=8, precision=7.0).ability_precision == 0.25


def test_to_dict_gives_every_setting_back() -> None:
    config = Config(1, 2.0, 3.0, "latent", 0.5, "mean")
    assert Config(**config.to_dict()) == config


def test_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().rank = 3  # type: ignore[misc]
