"""Errors and warnings that privlr raises."""

__all__ = [
    "ConvergenceError",
    "EntropyError",
    "FederationError",
    "InvalidParameterError",
    "ModelFileError",
    "PrivacyBudgetError",
    "PrivacyWarning",
]


class InvalidParameterError(ValueError):
    """A parameter lies outside its accepted range.

    Parameters
    ----------
    name : str
        The parameter as the caller wrote it.
    accepted : str
        What would have been accepted.
    value : object
        What was given.
    """

    def __init__(self, name: str, accepted: str, value: object) -> None:
        self.name, self.accepted, self.value = name, accepted, value
        shown = repr(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(f"{name} must be {accepted}; got {shown}")

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self.name, self.accepted, self.value)


class ConvergenceError(RuntimeError):
    """A solve did not reach the accuracy its guarantee rests on; nothing was released."""


class EntropyError(OSError):
    """The operating system's random generator could not be read."""


class FederationError(RuntimeError):
    """A run across organisations stopped; the message names the party, the round and the cause."""


class ModelFileError(ValueError):
    """A model file is damaged, altered, or not one that this version reads."""


class PrivacyBudgetError(ValueError):
    """A charge would take a ledger above its limit."""


class PrivacyWarning(UserWarning):
    """What was asked for weakens or voids the privacy guarantee."""
