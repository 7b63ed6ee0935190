"""The report as files, and the page in a real browser where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

torch = pytest.importorskip("torch")

from anydevice.sim import simulate, traffic
from anydevice.sim.traffic.amounts import parse_size, size

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def summary():
    with simulate("cuda") as simulation:
        recorder = traffic.Recorder()
        recorder.start(simulation)
        x = torch.ones(300).cuda()
        x.sum().item()
        if "<b>&":
            x.cpu()
        recorder.stop(simulation)
        return traffic.summarise(recorder, "cuda")


def test_json_has_a_row_for_each_line(summary, tmp_path):
    traffic.write(summary, tmp_path / "out.json")
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["version"] == 1
    rows = {row["source"]: row for row in report["lines"]}
    assert rows["x = torch.ones(300).cuda()"]["bytes"] == 1200
    assert rows["x = torch.ones(300).cuda()"]["created_on_host"] == 1
    assert rows["x.sum().item()"]["kind"] == "synchronisation"


def test_other_endings_are_refused(summary, tmp_path):
    with pytest.raises(ValueError, match=r"\.html or \.json"):
        traffic.write(summary, tmp_path / "out.txt")


def test_the_page_quotes_what_it_shows(summary, tmp_path):
    traffic.write(summary, tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text()
    assert "http" not in re.sub(r"http://www.w3.org\S*", "", text), "the page loads something"
    assert text.count("<tr>") == 1 + len(summary.rows)


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_shows_plot_and_table_and_sorts(summary, tmp_path):
    page = tmp_path / "out.html"
    traffic.write(summary, page)
    click = "<script>document.querySelectorAll('th button')[5].click();</script></body>"
    page.write_text(page.read_text().replace("</body>", click))
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    counts = [
        int(key) for key in re.findall(r'<tr>(?:<td data-key="[^"]*">.*?</td>){5}<td data-key="(\d+)"', done.stdout)
    ]
    assert len(counts) == len(summary.rows)
    assert counts == sorted(counts, reverse=False) or counts == sorted(counts, reverse=True)
    assert done.stdout.count("<rect") >= 3


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("8GB", 8 * 10**9), ("8 GiB", 2**33), ("512m", 2**29), ("1.5G", 3 * 2**29), ("100", 100), ("2kb", 2000)],
)
def test_amounts_are_read(text, nbytes):
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "8 apples", "-1GB", "0", "1e9", "GB", "9" * 40])
def test_other_amounts_are_refused(text):
    with pytest.raises(ValueError, match="is not an amount of memory"):
        parse_size(text)


def test_amounts_are_written_short():
    assert [size(n) for n in (0, 999, 1536, 123_456_789, 4e12)] == ["0 B", "999 B", "1.5 kB", "123 MB", "4.0 TB"]
