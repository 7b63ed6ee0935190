"""The plugin, by pytest's own pytester."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest_plugins = ["pytester"]

SEEN = """
    import pytest, torch

    @pytest.mark.worlds("none", "cuda:2", "mps")
    def test_seen():
        print("seen", torch.cuda.device_count(), torch.backends.mps.is_available())
"""


def test_a_marked_test_runs_once_in_each_world(pytester):
    pytester.makepyfile(SEEN)
    result = pytester.runpytest_subprocess("-s", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*test_seen?none?*0 False*", "*test_seen?cuda:2?*2 False*", "*test_seen?mps?*0 True*"])


def test_fixtures_of_a_marked_test_are_made_in_its_world(pytester):
    pytester.makepyfile("""
        import pytest, torch

        @pytest.fixture
        def model():
            return torch.nn.Linear(2, 2).to("cuda" if torch.cuda.is_available() else "cpu")

        @pytest.mark.worlds("cuda")
        def test_model(model):
            assert model.weight.device == torch.device("cuda", 0)
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_option_holds_during_collection_too(pytester):
    pytester.makepyfile("""
        import pytest, torch

        pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")

        def test_copy():
            assert torch.ones(1, device="cuda:0").to("cuda:1").get_device() == 1
    """)
    result = pytester.runpytest_subprocess("--anydevice", "cuda:2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["anydevice: simulated world cuda:2"])
    pytester.runpytest_subprocess().assert_outcomes(skipped=1)


def test_the_fixture_is_the_context_manager(pytester):
    pytester.makepyfile("""
        import torch

        def test_inside_and_outside(simulate):
            with simulate("cuda"):
                assert torch.cuda.is_available()
            assert not torch.cuda.is_available()
    """)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("source", "arguments", "says"),
    [
        ("def test(): pass", ["--anydevice", "tpu"], "*no world is called 'tpu'*"),
        ("import pytest\n@pytest.mark.worlds('cuda:0')\ndef test(): pass", [], "*not '0'*"),
        ("import pytest\n@pytest.mark.worlds()\ndef test(): pass", [], "*names no world*"),
        (
            "import pytest, unittest\nclass T(unittest.TestCase):\n  @pytest.mark.worlds('cuda')\n  def test(self): pass",
            [],
            "*needs a test function*",
        ),
    ],
    ids=["unknown world", "no such count", "empty mark", "unittest"],
)
def test_what_cannot_be_is_refused(pytester, source, arguments, says):
    pytester.makepyfile(source)
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret != 0
    assert any(line for line in [*result.outlines, *result.errlines] if says.strip("*") in line)
