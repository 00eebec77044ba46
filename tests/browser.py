"""Headless Chromium for tests and for `docs/screenshots.py`: a page as a screen of some width shows it."""

import html
import json
import re
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LIMIT_S = 120
MEASURE = r"""
const page = frame.contentDocument, view = frame.contentWindow;
const scrolls = (node) => node && (view.getComputedStyle(node).overflowX === 'auto' || scrolls(node.parentElement));
const drawn = [...page.querySelectorAll('svg text')].map((text) => text.textContent);
const text = [page.body.innerText, ...drawn].join('\n');
const found = {width: page.documentElement.scrollWidth, text: text, beyond: [], touching: [], hollow: []};
for (const node of page.querySelectorAll('body *')) {
  const box = node.getBoundingClientRect();
  const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  const leaves = box.left < -1 || box.right > view.innerWidth + 1;
  if (own && box.width && node.tagName !== 'title' && leaves && !scrolls(node))
    found.beyond.push(node.textContent.slice(0, 60));
}
for (const cell of page.querySelectorAll('td:empty'))
  if (cell.getClientRects().length && view.getComputedStyle(cell, '::before').content !== 'none')
    found.hollow.push(cell.dataset.label);
for (const drawing of page.querySelectorAll('svg')) {
  const boxes = [...drawing.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
      found.touching.push([one, other]);
  }));
}
"""
"""What a test asks of a page: how wide it is, what text leaves the screen, which labels touch or name nothing."""


def measure(text: str, width: int) -> dict[str, Any]:
    """Lay a page out at a width in pixels; return `width`, `text` and what is `beyond`, `touching` or `hollow`."""
    told = MEASURE + "document.getElementById('told').textContent = JSON.stringify(found);"
    frame = (
        '<!doctype html><meta charset="utf-8"><pre id="told"></pre>'
        f'<iframe id="frame" style="width:{width}px;height:2000px;border:0" '
        f'srcdoc="{html.escape(text, quote=True)}"></iframe><script>const frame = document.getElementById("frame");'
        f"frame.onload = () => {{ {told} }};</script>"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(frame, encoding="utf-8")
        done = _chromium(folder, "--dump-dom", "--virtual-time-budget=5000", path.as_uri())
    found = re.search(r'<pre id="told">(.*?)</pre>', done, re.S)
    assert found, f"Chromium said: {done[:500]}"
    measured: dict[str, Any] = json.loads(html.unescape(found[1]))
    return measured


def screenshot(page: Path, to: Path, *, width: int, height: int, dark: bool = False) -> None:
    """Write a page as PNG, as a screen of so many pixels shows it."""
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    with tempfile.TemporaryDirectory() as folder:
        _chromium(folder, *scheme, f"--window-size={width},{height}", f"--screenshot={to}", page.absolute().as_uri())


def first_pixel(picture: Path) -> tuple[int, int, int]:
    """Return red, green and blue of a PNG's first pixel, which no filter changes."""
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    place, packed = 8, b""
    while place < len(data):
        length = int.from_bytes(data[place : place + 4])
        packed += data[place + 8 : place + 8 + length] if data[place + 4 : place + 8] == b"IDAT" else b""
        place += 12 + length
    _, red, green, blue = zlib.decompress(packed)[:4]
    return red, green, blue


def _chromium(folder: str, *arguments: str) -> str:
    switches = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile")
    done = subprocess.run(
        [CHROMIUM, *switches, *arguments], capture_output=True, encoding="utf-8", timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout
