"""What a process of a campaign does; in a module that it can import by name."""

from . import certificates, files, hostile, kills

PARTS = {"certificates": certificates, "hostile": hostile, "files": files, "kills": kills}


def trials(part, numbers):
    """The outcomes of these trials."""
    return [PARTS[part].attempt(number) for number in numbers]
