"""What every view works with: the parts of the product, for the person who started the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lilux._dataclasses import dataclass
from rye_mcp.items import printable
from rye_mcp.runs.live import LiveView
from rye_mcp.runs.log import RunLog
from rye_mcp.runs.questions import Questions
from rye_mcp.spaces import Spaces
from rye_mcp.trust.scope import SignerKind
from rye_mcp.ui.layout import Frame
from rye_mcp.ui.session import Codes, Session

if TYPE_CHECKING:
    from rye_mcp.app import App, Settings
    from rye_mcp.verbs.context import Context

__all__ = ["CheckUp", "Finding", "Parts"]


class Finding(Protocol):
    """One thing that `rye doctor` looked at."""

    @property
    def check(self) -> str:
        """What was looked at."""

    @property
    def state(self) -> str:
        """`ok`, `warning` or `broken`."""

    @property
    def message(self) -> str:
        """What was found."""

    @property
    def hint(self) -> str | None:
        """The one thing to do."""


CheckUp = Callable[[], Awaitable[Sequence[Finding]]]
"""Carries out the checks of `rye doctor`."""


@dataclass(frozen=True, slots=True)
class Parts:
    """`check_up` looks at what `rye doctor` looks at; `codes` are shown in the terminal.

    `open_app` gives the one app of the page, which is opened for the first view that needs it.
    """

    settings: Settings
    spaces: Spaces
    open_app: Callable[[], App]
    log: RunLog
    live: LiveView
    session: Session
    codes: Codes
    check_up: CheckUp

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.settings.state

    @property
    def app(self) -> App:
        """What finds, verifies and decides."""
        return self.open_app()

    @property
    def person(self) -> Context:
        """What verbs work with: a person asks."""
        return self.app.context(SignerKind.PERSON)

    @property
    def frame(self) -> Frame:
        """What is around each view."""
        project = self.settings.project if self.spaces.project is not None else None
        place = "no project" if project is None else printable(project)
        return Frame(place, self.session.form_token, len(Questions(self.state).waiting()))
