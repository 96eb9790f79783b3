"""What a fit came to, as lines of a table and in words."""

import re

from rich.markup import escape
from rich.table import Table


def grid(title, *headings):
    """A table for the screen: names in its first column, numbers in the others."""
    table = Table(title=escape(title), title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def close(console, notes, out, files):
    """The end of what a command says: its notes, and what it wrote where."""
    for note in notes:
        console.print(f"[dim]- {escape(note)}[/]", soft_wrap=True)
    console.print(f"written to {escape(str(out))}: {files}", soft_wrap=True)


def row(name, judgement):
    """One line of the table: error with its interval."""
    low, high = judgement.interval
    return {
        "method": name,
        "error": judgement.rate,
        "low": low,
        "high": high,
        "held_out": judgement.n,
        **judgement.figures,
    }


def interval_in_words(line):
    """The interval of such a line."""
    return f"{line['low']:.2%} - {line['high']:.2%}"


def fit_facts(study):
    """What the fit itself has to say, for the table and for JSON."""
    certificate = study.metric.certificate
    facts = {
        "rank": len(study.metric.components),
        "seconds": round(study.seconds["learning"], 3),
    }
    if certificate is None:  # a blend
        return facts
    return {
        **facts,
        "iterations": int(study.estimator.n_iter_),
        "objective": certificate.primal,
        "bound": certificate.dual,
        "relative_gap": certificate.relative_gap,
        "status": str(certificate.status),
    }


def in_options(message):
    """A warning of an estimator with its remedy in options of the command."""
    return re.sub(r"to go on, .*\.$", "to go on, raise --tol.", message)


def in_words(certificate):
    """One sentence a person can act on."""
    if certificate.relative_gap <= 0 or certificate.relative_gap != certificate.relative_gap:
        return f"gap {certificate.relative_gap:.1e} ({certificate.status})"
    missed = (
        f", constraints missed by {certificate.violation:.1e}" if certificate.violation > 0 else ""
    )
    return (
        f"proven within {certificate.relative_gap:.2g} (relative) of the best possible objective"
        f"{missed} ({certificate.status})"
    )
