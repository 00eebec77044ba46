"""Pages as Chromium shows them: nothing leaves the screen, no label lies on another, and all text is there."""

from pathlib import Path

import pytest
from browser import CHROMIUM, first_pixel, measure, screenshot

from kbench.cli.show import page_of

ROOT = Path(__file__).parents[3]
PAGES = {
    "results/h200/group_norm.csv": ("Speed-up", "single_pass", "2.474×", "NVIDIA H200", "97 %"),
    "results/h200/conv2d_group_norm_scale_max_pool_clamp.csv": ("fused_wgmma", "77 %"),
    "results/calibration/sweep_h200.csv": (
        "250 of 250 pass",
        "24_LogSoftmax",
        "p = 1.5: ",
        "samples are missing",
    ),
}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def page():
    """Render each page once."""
    pages: dict[str, str] = {}

    def of(name: str) -> str:
        if name not in pages:
            pages[name] = page_of(ROOT / name)
        return pages[name]

    return of


@pytest.mark.parametrize(("name", "width", "spacing"), [(name, 390, "1px") for name in PAGES])
def test_a_page_fits_the_screen(page, name, width, spacing):
    """A phone's font may be wider than the one that is installed here."""
    found = measure(page(name).replace("</style>", f"svg text {{ letter-spacing: {spacing} }}</style>"), width)
    assert found["width"] <= width, "the page scrolls sideways"
    assert found["beyond"] == []
    assert found["touching"] == []
    assert found["hollow"] == []
    for text in PAGES[name]:
        assert text in found["text"], text


def test_a_page_follows_the_colours_of_the_screen(page, tmp_path):
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    path.write_text(page("results/h200/group_norm.csv"))
    screenshot(path, picture, width=390, height=800, dark=True)
    assert all(channel < 60 for channel in first_pixel(picture)), "a page is white where nobody asks"
    assert len(picture.read_bytes()) > 20_000, "an empty page takes a few hundred bytes"


def test_what_does_not_fit_is_seen():
    wide = '<p style="width:900px">so wide</p><p style="position:absolute;left:300px;width:200px">far right</p>'
    labels = '<svg><text x="9" y="20">one</text><text x="14" y="20">two</text></svg>'
    found = measure(f"<!doctype html>{wide}{labels}", 390)
    assert found["width"] > 390
    assert found["beyond"] == ["so wide", "far right"]
    assert found["touching"] == [["one", "two"]]
