"""The running command: its flags, where its messages go, and its progress bar."""

import _thread
import json
import math
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..core.progress import Event, emit, watching


class Invocation:
    """Flags of this invocation, and its consoles: results on stdout, all else on stderr."""

    def reset(self) -> None:
        self.debug = False
        self.json = False
        self.results = Console(highlight=False)
        self.messages = Console(stderr=True)
        self.at_end = ExitStack()  # closed when the command ends

    def message(self, text: str) -> None:
        """Print a line on stderr."""
        self.messages.print(text, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a remark for a person."""
        if not self.json:
            self.message(text)

    def answer(
        self,
        values: dict[str, Any],
        *shown: Any,
        notes: Iterable[str] = (),
        last: Iterable[str] = (),
    ) -> None:
        """Print the result on stdout: for machines values and notes as JSON; for people what is
        ``shown`` (tables, and lines in Rich's markup), the notes, and the last lines.
        """
        if self.json:
            values = {"notes": list(notes), **values}
            typer.echo(json.dumps(values, ensure_ascii=False, allow_nan=False))
            return
        remarks = [f"[dim]- {escape(note)}[/]" for note in notes]
        for part in (*shown, *remarks, *last):
            # a line that is broken cannot be copied, a table that is not cannot be read
            self.results.print(part, soft_wrap=isinstance(part, str))

    def wrote(self, out: Path, values: dict[str, Any], what: str, notes: Iterable[str]) -> None:
        """Print the result of a command that has written one file."""
        line = f"{what} written to {escape(str(out))}"
        self.answer({**values, "out": str(out)}, line, notes=notes)


state = Invocation()
state.reset()


@contextmanager
def progress_bar(stage: str) -> Iterator[None]:
    """Show the events of the block, from this stage on, as one line on a terminal; nothing in a pipe."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with ExitStack() as shown:
        # even a disabled Progress ends with an empty line in a pipe
        if state.messages.is_terminal and not state.json:
            bar = Progress(*columns, console=state.messages, transient=True)
            shown.enter_context(watching(ProgressLine(shown.enter_context(bar))))
        emit("stage", stage=stage)
        yield


class ProgressLine:
    """One line of progress: the stage and, within it, the certified gap and the share done."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.stage = "starting"
        self.first_gap = 1.0  # of the solve
        self.line = bar.add_task(self.stage, total=None, note="")

    def __call__(self, event: Event) -> None:
        kind = event["kind"]
        if kind == "stage":
            self.stage = event["stage"]
            if "method" in event:
                self.stage = f"{event['method']}: {self.stage}"
        stage = self.stage
        if "candidate" in event:
            stage = f"{stage}, {event['candidate']}"
        note = ""
        total = None  # if it is unknown how much is left, the bar moves to and fro
        done = 0.0
        if kind == "solve":
            note = f"iteration {event['iteration']}, certified gap {event['relative_gap']:.1e}"
            share = self._share_solved(event)
            if share is not None:
                total = 1.0
                done = share
        elif kind == "search":
            stage = f"{stage}: finding neighbours"
            total = 1.0
            done = event["done"]
        elif kind == "compile" and event["begins"]:
            stage = "compiling, once"
        self.bar.tasks[self.line].total = total
        self.bar.update(self.line, description=stage, note=note, completed=done)

    def _share_solved(self, event: Event) -> float | None:
        """How much of the way from the first gap to the one to stop at is done, in decades."""
        gap = abs(event["relative_gap"])
        tol = event.get("tol", 0.0)
        if event["iteration"] == 0:
            self.first_gap = 1.0
        if not (0 < tol < 1 and math.isfinite(gap)):
            return None
        self.first_gap = max(self.first_gap, gap)
        left = math.log(max(gap, tol) / tol)
        return 1 - left / math.log(self.first_gap / tol)


class TimeLimit:
    """Interrupts the block after so many seconds (None: never) as Ctrl-C would: solvers return the best
    metric so far. ``is_over`` says that the time was up, not that somebody pressed Ctrl-C.
    """

    def __init__(self, seconds: float | None):
        self.seconds = seconds
        self.is_over = False
        self._timer: threading.Timer | None = None
        self._handler: Any = None

    def __enter__(self) -> Self:
        if self.seconds is None:
            return self
        self._handler = signal.getsignal(signal.SIGINT)
        if self._handler == signal.SIG_IGN:
            # a shell starts jobs in the background so, and an interrupt would be ignored too
            signal.signal(signal.SIGINT, self._interrupt_if_over)
        self._timer = threading.Timer(self.seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._handler == signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._handler)

    def _end(self) -> None:
        """Runs in the thread of the timer, so the interrupt has to be sent to the main one."""
        self.is_over = True
        _thread.interrupt_main()

    def _interrupt_if_over(self, *_: object) -> None:
        if self.is_over:
            raise KeyboardInterrupt
