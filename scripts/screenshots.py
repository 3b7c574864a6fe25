"""Makes the pictures of the page in docs/images: each view at two widths, in light and in dark.

    .venv/bin/python -m scripts.screenshots

Needs chromium (apt-get install chromium). The runs in them are real, in a directory that is removed again.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PIL import Image

from tests.browser_world import chromium
from tests.ui_house import furnished, going_on
from tests.ui_world import started

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs/images"
WIDTHS: Final = {"wide": 1100, "narrow": 420}
SCHEMES: Final = ("light", "dark")
HEIGHTS: Final = {"wide": 760, "narrow": 820}
COLOURS: Final = 160


def main() -> None:
    """Make all of them."""
    with tempfile.TemporaryDirectory(prefix="night-") as place, chromium() as browser:
        house = furnished(Path(place))
        with started(house.person, house.project, with_terminal=True) as running, going_on(house) as live:
            context = browser.new_context(base_url=running.address)
            page = context.new_page()
            page.goto(f"{running.address}/#{running.secret}")
            page.wait_for_url("**/runs")
            page.goto(f"/runs/{live}")
            page.get_by_text("test 060 ok").wait_for()
            views = {
                "runs": "/runs",
                "live": f"/runs/{live}",
                "run": f"/runs/{house.runs['texts/report']}",
                "items": "/items?q=count+the+words+of+a+text",
                "item": "/items/tool/texts/count_words",
                "trust": "/trust",
                "questions": "/questions",
                "health": "/health",
            }
            _take(page, views)


def _take(page: Page, views: Mapping[str, str]) -> None:
    for width, pixels in WIDTHS.items():
        page.set_viewport_size({"width": pixels, "height": HEIGHTS[width]})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            for name, path in views.items():
                page.goto(path)
                if name == "live":
                    page.get_by_text("test 060 ok").wait_for()
                _write(page.screenshot(), IMAGES / f"ui-{name}-{width}-{scheme}.png")


def _write(picture: bytes, path: Path) -> None:
    """Write a picture with few colours: a page has no more, and the file is a third as large."""
    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
