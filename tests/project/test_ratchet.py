"""Only findings on lines that were added since a revision, in repositories made for the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anydevice.project.ratchet import RatchetError, added_lines
from anydevice.project.settings import Settings
from anydevice.project.tree import Tree

Git = Callable[..., None]
OLD = "import torch\n\nx = torch.ones(2)\ny = x.cuda()\n"
NEW = OLD + "z = x.cuda()\n"


@pytest.fixture
def git(here: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Run git in the project, undisturbed by the settings of the user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(here.parent / "none"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def run(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *arguments], cwd=here, check=True, capture_output=True)

    run("init", "-q")
    return run


def _commit(git: Git, files: dict[str, str]) -> None:
    for name, source in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(source)
    git("add", "-A")
    git("commit", "-q", "-m", "m")


def _added(here: Path, revision: str = "HEAD") -> dict[str, set[int] | None]:
    added = added_lines(revision, here)
    return {str(path.relative_to(here.resolve())): lines for path, lines in added.items()}


def test_added_and_changed_lines_count_and_removed_ones_do_not(git: Git, here: Path) -> None:
    _commit(git, {"a.py": "1\n2\n3\n4\n5\n", "gone.py": "1\n", "same.py": "1\n"})
    Path("a.py").write_text("1\nnew\nnew\n2\n3\nchanged\n")
    Path("gone.py").unlink()
    assert _added(here) == {"a.py": {2, 3, 6}}


def test_an_untracked_file_counts_as_a_whole_unless_ignored(git: Git, here: Path) -> None:
    _commit(git, {".gitignore": "ignored.py\n"})
    Path("new.py").touch()
    Path("ignored.py").touch()
    assert _added(here) == {"new.py": None}


def test_staged_and_committed_lines_count_too(git: Git, here: Path) -> None:
    _commit(git, {"a.py": "1\n"})
    git("tag", "begin")
    _commit(git, {"a.py": "1\n2\n"})
    Path("a.py").write_text("1\n2\n3\n")
    git("add", "a.py")
    assert _added(here, "begin") == {"a.py": {2, 3}}


def test_a_renamed_file_is_not_new(git: Git, here: Path) -> None:
    _commit(git, {"a.py": "".join(f"line {i}\n" for i in range(20)), "pure.py": OLD})
    git("mv", "a.py", "b.py")
    git("mv", "pure.py", "moved.py")
    with Path("b.py").open("a") as file:
        file.write("new\n")
    assert _added(here) == {"b.py": {21}}


ODD = [
    "with blank.py",
    "ä.py",
    'quo"te.py',
    "back\\slash.py",
    "tab\t.py",
    "new\nline.py",
    "a b/c.py",
    "-x.py",
    "b/b.py",
]


@pytest.mark.skipif(sys.platform == "win32", reason="no such names")
@pytest.mark.parametrize("name", ODD)
def test_any_file_name_is_understood(name: str, git: Git, here: Path) -> None:
    _commit(git, {name: "1\n"})
    Path(name).write_text("1\n2\n")
    assert _added(here) == {name: {2}}


def test_lines_that_look_like_a_diff_are_lines(git: Git, here: Path) -> None:
    _commit(git, {"a.py": "1\n-- a/x.py\n2\n"})
    Path("a.py").write_text("1\n++ b/evil.py\n@@ -1 +1,99 @@\n2\nform\ffeed\rand\u2028more\n")
    assert _added(here) == {"a.py": {2, 3, 5}}


@pytest.mark.parametrize(
    "setting",
    ["diff.noprefix", "diff.mnemonicPrefix", "color.diff=always", "diff.interHunkContext=9", "diff.context=9"],
)
def test_settings_of_the_user_do_not_matter(setting: str, git: Git, here: Path) -> None:
    name, _, value = setting.partition("=")
    git("config", name, value or "true")
    _commit(git, {"a.py": "1\n2\n3\n4\n"})
    Path("a.py").write_text("1\nx\n2\n3\n4\ny\n")
    assert _added(here) == {"a.py": {2, 6}}


@pytest.mark.parametrize("revision", ["nope", "--output=x", "", "HEAD~7"])
def test_a_bad_revision_is_one_line(revision: str, git: Git, here: Path) -> None:
    _commit(git, {"a.py": ""})
    with pytest.raises(RatchetError) as error:
        added_lines(revision, here)
    assert "\n" not in str(error.value)
    assert not Path("x").exists()


def test_no_repository_and_no_git_are_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(here.parent))
    with pytest.raises(RatchetError, match="not a git repository"):
        added_lines("HEAD", here)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RatchetError, match="git cannot be run"):
        added_lines("HEAD", here)


# -- with the command line -------------------------------------------------------------------------------------


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "anydevice", *arguments, "--diff-only", "HEAD", "--no-cache"]
    environment: dict[str, Any] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_scan_tells_of_added_lines_only(git: Git) -> None:
    _commit(git, {"old.py": OLD, "changed.py": OLD})
    assert _run("scan").returncode == 0
    Path("changed.py").write_text(NEW)
    Path("untracked.py").write_text(OLD)
    done = _run("scan")
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines() if "ADA01" in line] == ["5:5", "4:5"]


def test_fix_touches_added_lines_only(git: Git) -> None:
    _commit(git, {"old.py": OLD, "changed.py": OLD})
    Path("changed.py").write_text(NEW)
    done = _run("fix")
    assert (done.returncode, done.stderr) == (0, "")
    changed = Path("changed.py").read_text()
    assert "y = x.cuda()\n" in changed
    assert "z = x.to(device)\n" in changed
    assert Path("old.py").read_text() == OLD


def test_fix_follows_lines_that_a_definition_has_shifted(git: Git, here: Path) -> None:
    _commit(git, {"a.py": OLD})
    Path("a.py").write_text(OLD.replace("x = torch.ones(2)\n", "x = torch.ones(2)\nw = x.cuda().cuda()\n"))
    tree = Tree([here], Settings(cache=False))
    (file,) = tree.fix(tree.scan(), write=True, added=added_lines("HEAD", here))
    assert "y = x.cuda()\n" in Path("a.py").read_text()
    assert all(finding.span.line == 4 or "w =" in finding.source for finding in file.fixed.applied)
