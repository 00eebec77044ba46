"""The pictures in `docs/images` can be made again."""

import importlib.util
import sys
from pathlib import Path

import pytest
from browser import CHROMIUM, first_pixel

ROOT = Path(__file__).parent.parent


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: apt-get install chromium")
def test_every_picture_is_made_and_committed(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "docs" / "screenshots.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "screenshots", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["screenshots.py", str(tmp_path)])
    module.main()
    made = {path.name: path for path in tmp_path.iterdir()}
    assert set(made) == {path.name for path in module.IMAGES.iterdir()}
    for name, path in made.items():
        assert first_pixel(path) == first_pixel(module.IMAGES / name)
        assert path.stat().st_size > 20_000, f"{name} is empty"
