"""The errors that HSPR raises on purpose.

Every message names the argument, the rule, the offending value and the remedy, on one line,
so that the command line can print it as it is.
"""


class HSPRError(Exception):
    """Base class of every error that HSPR raises on purpose."""


class DataError(HSPRError, ValueError):
    """An input (a matrix, a file, a task id, an outcome, a setting) breaks a rule."""


class ModelError(HSPRError, ValueError):
    """A PyMC model lies outside the family that the production sampler reads."""


class SamplingError(HSPRError, RuntimeError):
    """A computation on valid input gave no usable posterior."""


class SamplingWarning(UserWarning):
    """A posterior is usable, but a diagnostic says that its accuracy is in doubt."""
