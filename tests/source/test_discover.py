"""Discovery: what is taken, what is left out, in which order and under which name."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import anydevice
from anydevice.source.discover import KINDS, Found, Problem, discover, kind_of


def _tree(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _names(*paths: str, **options: object) -> list[str]:
    return [
        item.name if isinstance(item, Found) else f"! {item.message}"
        for item in discover([Path(path) for path in paths], **options)  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    ("name", "folder", "kind"),
    [
        ("a.py", "", "python"),
        ("a.PY", "", "python"),
        ("a.pyi", "", "python"),
        ("a.pyw", "", "python"),
        ("a.ipynb", "", "notebook"),
        ("a.yaml", "", "config"),
        ("environment-gpu.yml", "", "config"),
        ("Dockerfile", "", "config"),
        ("Dockerfile.gpu", "", "config"),
        ("gpu.dockerfile", "", "config"),
        ("requirements.txt", "", "config"),
        ("requirements-dev.txt", "", "config"),
        ("dev-requirements.txt", "", "config"),
        ("gpu.txt", "requirements", "config"),
        ("Pipfile", "", "config"),
        ("Makefile", "", "config"),
        ("run.sh", "", "config"),
        ("notes.txt", "", None),
        ("a.pyc", "", None),
        ("py", "", None),
        ("LICENSE", "", None),
    ],
)
def test_name_decides_the_kind(name: str, folder: str, kind: str | None) -> None:
    assert kind_of(name, folder) == kind
    assert kind is None or kind in KINDS


def test_order_is_fixed_and_names_are_relative(here: Path) -> None:
    _tree(here, {"b.py": "", "a.py": "", "pkg/c.py": "", "pkg/a/d.py": "", "z.txt": "", "Z.ipynb": ""})
    expected = ["Z.ipynb", "a.py", "b.py", "pkg/c.py", "pkg/a/d.py"]
    assert _names(".") == expected
    assert _names(str(here)) == expected
    assert _names("pkg") == ["pkg/c.py", "pkg/a/d.py"]
    os.chdir(here / "pkg")
    assert _names("../b.py", "..")[:3] == ["../b.py", "../Z.ipynb", "../a.py"]
    assert _names(str(here))[0] == f"{here}/Z.ipynb"


def test_overlapping_paths_give_each_file_once(here: Path) -> None:
    _tree(here, {"a.py": "", "pkg/b.py": ""})
    (here / "link.py").symlink_to("a.py")
    assert _names("pkg/b.py", "link.py", ".", "pkg", str(here / "a.py")) == ["pkg/b.py", "link.py"]


def test_kinds_can_be_chosen_but_a_named_file_is_always_taken(here: Path) -> None:
    _tree(here, {"a.py": "", "b.ipynb": "", "c.yml": "", "d.txt": ""})
    assert _names(".", kinds=("python",)) == ["a.py"]
    assert _names(".", kinds=("notebook", "config")) == ["b.ipynb", "c.yml"]
    assert _names("d.txt", "c.yml", kinds=("python",)) == ["d.txt", "c.yml"]


def test_what_nobody_wrote_by_hand_is_skipped(here: Path) -> None:
    skipped = [".git", ".venv", "node_modules", "__pycache__", ".ipynb_checkpoints", "build", "dist", "x.egg-info"]
    _tree(here, {f"{folder}/x.py": "" for folder in [*skipped, ".tox", "lib/site-packages"]})
    _tree(here, {"venv/pyvenv.cfg": "", "venv/x.py": "", "env/pyvenv.cfg": "", "env/x.py": "", "keep/venv/x.py": ""})
    assert _names(".") == ["keep/venv/x.py"]
    assert _names("build", "env/x.py") == ["build/x.py", "env/x.py"]


def test_links_are_not_followed(here: Path) -> None:
    _tree(here, {"pkg/a.py": "", "other/b.py": ""})
    (here / "pkg" / "loop").symlink_to("..", target_is_directory=True)
    (here / "pkg" / "other").symlink_to(here / "other", target_is_directory=True)
    (here / "pkg" / "link.py").symlink_to(here / "other" / "b.py")
    (here / "pkg" / "self.py").symlink_to("self.py")
    assert _names("pkg") == ["pkg/a.py"]
    assert _names("pkg/link.py", "pkg/other") == ["pkg/link.py"]
    assert _names("pkg/self.py")[0].startswith("! cannot read 'pkg/self.py': too many levels of symbolic links")


def test_missing_path_is_a_problem_and_the_rest_goes_on(here: Path) -> None:
    _tree(here, {"a.py": ""})
    problem, found = discover([Path("nowhere"), Path("a.py")])
    assert problem == Problem(Path("nowhere"), "cannot read 'nowhere': no such file or directory")
    assert found == Found(Path("a.py"), "a.py")


def test_locked_folder_is_a_problem_and_the_rest_goes_on(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tree(here, {"a/x.py": "", "b/y.py": ""})
    scandir = os.scandir

    def locked(folder: str) -> object:
        if folder.endswith("/a/"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", locked)
    assert _names(".") == ["! cannot read 'a': permission denied", "b/y.py"]


# -- what is ignored -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ignore", "names"),
    [
        pytest.param({".gitignore": "out/\n*.gen.py\n"}, ["a.py", "pkg/b.py", "pkg/sub/c.py"], id="folder_and_files"),
        pytest.param({".gitignore": "*.py\n!b.py\n"}, ["pkg/b.py"], id="exception"),
        pytest.param({".gitignore": "/a.py\n/pkg/sub\n"}, ["a.gen.py", "out/d.py", "pkg/b.py"], id="anchored"),
        pytest.param(
            {".gitignore": "**/sub/*\n# x\n\n!\n[z\n"}, ["a.gen.py", "a.py", "out/d.py", "pkg/b.py"], id="odd"
        ),
        pytest.param({".gitignore": "pkg/*\n!pkg/sub/\n"}, ["a.gen.py", "a.py", "out/d.py", "pkg/sub/c.py"], id="but"),
        pytest.param(
            {"pkg/.gitignore": "b.py\n/c.py\n"}, ["a.gen.py", "a.py", "out/d.py", "pkg/sub/c.py"], id="nested"
        ),
        pytest.param(
            {".gitignore": "*.py\n", "pkg/sub/.gitignore": "!c.py\n"}, ["pkg/sub/c.py"], id="deeper_has_the_last_word"
        ),
        pytest.param(
            {".git/info/exclude": "a*\n", ".gitignore": "!a.py\n"},
            ["a.py", "out/d.py", "pkg/b.py", "pkg/sub/c.py"],
            id="info_exclude_comes_first",
        ),
        pytest.param({"pkg/.git/HEAD": "", ".gitignore": "*.py\n"}, ["pkg/b.py", "pkg/sub/c.py"], id="own_repository"),
        pytest.param({".gitignore": "\ufeff/*\n!/out\n"}, ["out/d.py"], id="byte_order_mark"),
    ],
)
def test_ignored_files_are_left_out(here: Path, ignore: dict[str, str], names: list[str]) -> None:
    _tree(here, {"a.py": "", "a.gen.py": "", "out/d.py": "", "pkg/b.py": "", "pkg/sub/c.py": ""})
    _tree(here, ignore)
    assert _names(".") == names
    everything = ["a.gen.py", "a.py", "out/d.py", "pkg/b.py", "pkg/sub/c.py"]
    assert _names(".", respect_gitignore=False) == everything
    assert _names(*everything) == everything


def test_git_agrees(here: Path) -> None:
    _tree(here, {f"{folder}{name}": "" for folder in ("", "a/", "a/b/", "c/b/", "d e/") for name in ("x.py", "y.py")})
    _tree(here, {".gitignore": "y.py\n!/a/**/y.py\nc/*\n!c/b\nd\\ e/\n", "a/.gitignore": "b/x.py\n"})
    env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"]}
    try:
        subprocess.run(["git", "init", "-q"], cwd=here, check=True, env=env)
    except FileNotFoundError:
        pytest.skip("needs git")
    command = ["git", "ls-files", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=here, check=True, env=env, capture_output=True, text=True).stdout.split("\n")
    assert sorted(_names(".")) == sorted(listed[:-1])


def test_ignore_files_above_hold_up_to_the_repository(here: Path) -> None:
    _tree(here, {".gitignore": "*.py\n", "repo/.git/HEAD": "", "repo/.gitignore": "/pkg/b.py\n"})
    _tree(here, {"repo/pkg/a.py": "", "repo/pkg/b.py": "", "repo/pkg/sub/c.py": "", "repo/pkg/.gitignore": "sub/c*"})
    assert _names("repo/pkg") == ["repo/pkg/a.py"]
    assert _names("repo/pkg/sub") == []
    os.chdir(here / "repo" / "pkg")
    assert _names(".") == ["a.py"]


def test_ignored_folder_that_is_named_is_searched(here: Path) -> None:
    _tree(here, {".git/HEAD": "", ".gitignore": "out/\n", "out/a.py": "", "out/.gitignore": "b.py", "out/b.py": ""})
    assert _names(".") == []
    assert _names("out") == ["out/a.py"]


@pytest.mark.parametrize(
    ("exclude", "names"),
    [
        pytest.param(["tests/"], ["proj/a.py", "proj/old/b.py"], id="folder_anywhere"),
        pytest.param(["proj/old"], ["proj/a.py", "proj/tests/t.py"], id="relative_to_the_working_directory"),
        pytest.param(["/old", "t.py"], ["proj/a.py"], id="relative_to_the_path"),
    ],
)
def test_excluded_files_are_left_out(here: Path, exclude: list[str], names: list[str]) -> None:
    _tree(here, {"proj/a.py": "", "proj/old/b.py": "", "proj/tests/t.py": ""})
    assert _names("proj", exclude=exclude) == names
    assert _names("proj/old/b.py", exclude=exclude) == ["proj/old/b.py"]


def test_pathspec_is_loaded_only_for_ignore_files(here: Path) -> None:
    _tree(here, {"a.py": ""})
    code = (
        "import sys, pathlib; from anydevice.source.discover import discover; list(discover([pathlib.Path('.')]));"
        "assert 'pathspec' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(anydevice.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], cwd=here, check=True, env=environment)


def test_deep_folders_do_not_exhaust_the_stack(here: Path) -> None:
    deep = "/".join("d" * 600)
    (here / deep).mkdir(parents=True)
    (here / deep / "a.py").write_text("")
    assert _names(".") == [f"{deep}/a.py"]


def test_walk_of_many_files_is_quick(here: Path) -> None:
    for folder in range(30):
        _tree(here, {f"p{folder}/m{index}.py": "" for index in range(50)})
    began = time.perf_counter()
    assert len(_names(".")) == 1500
    assert time.perf_counter() - began < 1  # about 0.01 s
