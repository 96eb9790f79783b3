"""Errors and warnings that hold their remedies as data, so that an interface without the parameters
they name can offer its own options instead.
"""

from collections.abc import Mapping, Sequence


class Advice(Exception):
    """Base of an error or warning with remedies.

    Parameters
    ----------
    fault : str
        What is wrong, without the argument and its value.
    remedies : mapping of str to str
        What to do, by the parameter that it changes; "" stands for the data.
    argument : str
        The parameter at fault; "" if it is none.
    value : object
        Its value.
    """

    def __init__(
        self, fault: str, remedies: Mapping[str, str] = {}, argument: str = "", value: object = None
    ) -> None:
        super().__init__(fault, remedies, argument, value)  # what pickle calls the class with
        self.fault = fault
        self.remedies = dict(remedies)
        self.argument = argument
        self.value = value

    def __str__(self) -> str:
        fault = self.fault
        if self.argument:
            fault = f"{self.argument}={self.value!r} {fault}"
        return _sentence(fault, list(self.remedies.values()))

    def in_options(self, remedies: Mapping[str, str], option: str) -> str:
        """Return the message in the words of a command.

        Remedies that change a parameter are replaced by those of ``remedies``, and left out where it
        has none; the parameter at fault is called ``option``.
        """
        own_remedies = []
        for parameter, words in self.remedies.items():
            if parameter in remedies:
                own_remedies.append(remedies[parameter])
            elif not parameter:
                own_remedies.append(words)
        fault = self.fault
        if self.argument:
            fault = f"{option} {self.value} {fault}"
        return _sentence(fault, own_remedies)


class AdviceError(Advice, ValueError):
    """A value that cannot be used, with remedies."""


def _sentence(fault: str, remedies: Sequence[str]) -> str:
    """Return the fault, and the remedies after it if there are any."""
    if not remedies:
        return fault
    return f"{fault}; {', or '.join(remedies)}."
