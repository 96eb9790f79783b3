"""Errors and warnings that hold their remedies as data, so that an interface without the parameters
they name can offer its own options instead.
"""

from collections.abc import Mapping


class Advice(Exception):
    """Base of an error or warning: the fault, remedies by the parameter that they change ("" stands
    for the data), and the parameter at fault, if it is one, with its value.
    """

    def __init__(
        self, fault: str, remedies: Mapping[str, str] = {}, argument: str = "", value: object = None
    ) -> None:
        super().__init__(fault, remedies, argument, value)
        self.fault, self.remedies = fault, dict(remedies)
        self.argument, self.value = argument, value

    def __str__(self) -> str:
        subject = f"{self.argument}={self.value!r} " if self.argument else ""
        return _sentence(f"{subject}{self.fault}", list(self.remedies.values()))

    def in_options(self, remedies: Mapping[str, str], option: str) -> str:
        """The message with other ``remedies``, by parameter, where the one at fault is ``option``."""
        subject = f"{option} {self.value} " if self.argument else ""
        own = [
            remedies.get(parameter, words)
            for parameter, words in self.remedies.items()
            if parameter in remedies or not parameter
        ]
        return _sentence(f"{subject}{self.fault}", own)


class AdviceError(Advice, ValueError):
    """A value that cannot be used, with remedies."""


def _sentence(fault: str, remedies: list[str]) -> str:
    return f"{fault}; {', or '.join(remedies)}." if remedies else fault
