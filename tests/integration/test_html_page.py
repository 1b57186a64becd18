"""The HTML report as a real browser shows it, at phone and desktop width."""

import shutil
import struct
import subprocess
import zlib

import pytest

from envcheck.report import RenderOptions, render
from tests.unit.gate.conftest import FILE, Cell, finding, gate, report

pytestmark = pytest.mark.integration
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
LONG = "docker/a-very-long-name-of-a-service-that-nobody-should-have/Dockerfile"
WIDTHS = {"phone": 390, "desktop": 1280}


def chromium(tmp_path, *flags):
    program = shutil.which("chromium")
    assert program, "chromium is missing: see tests/integration/parts"
    done = subprocess.run(
        [program, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags], capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def page(tmp_path):
    bad = finding(path=LONG, line=3, message="torch 2.5.1+cu124 has no kernels for the RTX 5090 " + "x" * 300)
    cells = [
        Cell(what, where, report(bad if what == LONG else finding(severity="warning"), snap=FILE))
        for what in (LONG, "requirements.txt")
        for where in ("aws:p4d.24xlarge", "gcp:a2-highgpu-8g", "azure:Standard_ND96asr_v4", "this host")
    ]
    path = tmp_path / "report.html"
    path.write_text(render(gate(*cells), "html", RenderOptions(settings_path="envcheck.toml")), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_nothing_reaches_beyond_the_window(page, tmp_path, width):
    # A frame of exactly this width, which the browser measures itself: a window can't be narrower than 500.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe id="f" src="{page.name}" style="width:{width}px;height:800px;border:0"></iframe><p id="out"></p>'
        "<script>document.getElementById('f').onload = () => {"
        " const d = document.getElementById('f').contentDocument.documentElement;"
        " const boxes = [...d.querySelectorAll('article, header, table, td, h2, dd')];"
        " const wide = Math.max(d.scrollWidth, ...boxes.map(b => b.getBoundingClientRect().right));"
        " document.getElementById('out').textContent = `shown ${boxes.length} widest ${Math.ceil(wide)}`; }</script>"
    )
    shown = chromium(
        tmp_path, "--allow-file-access-from-files", "--virtual-time-budget=5000", "--dump-dom", frame.as_uri()
    )
    told = shown.partition('<p id="out">')[2].partition("</p>")[0].split()
    assert int(told[1]) > 20
    assert int(told[3]) <= width


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_the_page_is_drawn(page, tmp_path, width):
    target = tmp_path / "page.png"
    chromium(tmp_path, f"--window-size={width},1200", f"--screenshot={target}", page.as_uri())
    shape, colours = pixels(target)
    assert shape == (width, 1200)
    assert len(colours) > 50  # text, marks and cards, not an empty page


def test_dark_mode_is_dark(page, tmp_path):
    seen = {}
    for name, flags in {"light": [], "dark": ["--blink-settings=preferredColorScheme=0"]}.items():
        target = tmp_path / f"{name}.png"
        chromium(tmp_path, "--window-size=800,600", *flags, f"--screenshot={target}", page.as_uri())
        seen[name] = pixels(target)[1].most_common(1)[0][0]
    assert sum(seen["light"]) > 3 * 200
    assert sum(seen["dark"]) < 3 * 60


def pixels(path):
    """((width, height), Counter of RGB) of a PNG of 8-bit RGB or RGBA, as chromium writes it."""
    from collections import Counter

    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[kind]
    place, packed = 8, b""
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += 12 + length
    raw, before, colours = zlib.decompress(packed), bytes(width * size), Counter()
    step = width * size
    for row in range(height):
        start = row * (step + 1)
        line = bytearray(raw[start + 1 : start + 1 + step])
        unfilter(raw[start], line, before, size)
        colours.update(zip(line[0::size], line[1::size], line[2::size]))
        before = line
    return (width, height), colours


def unfilter(kind, line, before, size):
    for place in range(len(line)):
        left = line[place - size] if place >= size else 0
        above = before[place]
        corner = before[place - size] if place >= size else 0
        if kind == 1:
            line[place] = (line[place] + left) & 255
        elif kind == 2:
            line[place] = (line[place] + above) & 255
        elif kind == 3:
            line[place] = (line[place] + (left + above) // 2) & 255
        elif kind == 4:
            guess = left + above - corner
            near = min((left, above, corner), key=lambda value: abs(guess - value))
            line[place] = (line[place] + near) & 255
