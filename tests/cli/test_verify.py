"""`pega-tune verify`: whether a profile is still true of its device."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cli import Program, interrupted
from tests.helpers.scaled import scale_kind


def _verify(program: Program, *arguments: str, device: str = "sim:h200") -> tuple[int, Any]:
    result = program("verify", "--device", device, "--json", *arguments)
    return result.code, result.json


def test_an_unchanged_device_holds_and_the_answer_shows_what_was_compared(informed: Program) -> None:
    profile = informed("profiles", "list", "--json").json["profiles"][0]["id"]
    result = informed("verify", profile[:6])  # the device follows from the profile
    assert (result.code, result.errors) == (0, [])
    assert "verdict:  holds" in result.stdout
    code, document = _verify(informed)
    assert (code, document["verdict"], document["reasons"], document["profile"]) == (0, "holds", [], profile)
    cells = document["cells"]
    assert len(cells) > 20
    for cell in cells:
        assert cell["low"] <= cell["change"] <= cell["high"]
        assert cell["stored"]["low"] <= cell["stored"]["median"] <= cell["stored"]["high"]
        assert cell["unit"] == ("seconds" if cell["plan"] is None else "times of a contiguous copy")


def test_a_shape_names_its_layout_where_it_is_not_the_usual_one(program: Program) -> None:
    program("sweep", "--device", "sim:h200", "--preset", "standard", "--decode", "none")
    _, document = _verify(program)
    layouts = {cell["layout"] for cell in document["cells"]}
    assert {"shuffled", "host-ordered", "strided"} <= layouts
    shown = program("verify", "--device", "sim:h200").stdout.splitlines()
    assert any(" strided " in line for line in shown)
    assert not any("shuffled" in line for line in shown)


@pytest.mark.parametrize("budget", ["1ms", "0.1s"])
def test_a_budget_too_short_tells_nothing_and_says_what_would_do(informed: Program, budget: str) -> None:
    code, document = _verify(informed, "--budget", budget)
    assert (code, document["verdict"], document["cells"]) == (5, "inconclusive", [])
    (reason,) = document["reasons"]
    assert re.fullmatch(r"out of time: 12 of 12 shapes were not measured, try --budget \d+s", reason)


def test_a_slower_kind_of_plan_has_drifted_and_decide_says_so(informed: Program, swept: Path) -> None:
    informed.database.unlink()
    assert scale_kind(swept, informed.database, "kernel/warp", 1.15)
    code, document = _verify(informed)
    assert (code, document["verdict"]) == (5, "drifted")
    (reason,) = document["reasons"]
    assert reason.startswith("kernel/warp: 0.87 times as long as stored")
    answer = informed("decide", "--device", "sim:h200", "--ranges", "64", "--bytes", "1M")
    assert "it has drifted, as verify found" in answer.stderr


@pytest.mark.parametrize("fault", ["busy", "contended", "throttled"])
def test_a_disturbed_device_is_inconclusive(informed: Program, fault: str) -> None:
    code, document = _verify(informed, "--budget", "1s", device=f"sim:h200+{fault}")
    assert (code, document["verdict"]) == (5, "inconclusive")
    assert document["reasons"]


def test_a_plan_that_crashes_now_has_drifted(informed: Program) -> None:
    code, document = _verify(informed, device="sim:h200+crash=canary/idle/h2d/16384x")
    assert (code, document["verdict"]) == (5, "drifted")
    assert "crashed" in str(document["reasons"])


def test_nothing_is_measured_if_nothing_has_changed(informed: Program) -> None:
    code, document = _verify(informed, "--if-changed")
    assert (code, document["verdict"], document["cells"]) == (0, None, [])
    assert "nothing that may drift has changed" in informed("verify", "--device", "sim:h200", "--if-changed").stdout


def test_without_a_profile_there_is_nothing_to_verify(program: Program, informed: Program) -> None:
    result = informed("verify", "--device", "sim:rtx5090", "--json")
    assert (result.code, result.json["error"]["code"]) == (4, "no-profile")
    assert "sweep --device sim:rtx5090" in result.json["error"]["hint"]
    shutil.rmtree(program.folder / "data", ignore_errors=True)
    program.database.unlink(missing_ok=True)
    assert program("verify", "--device", "sim:h200").code == 4
    assert not program.database.exists()


def test_bad_usage_is_told(informed: Program) -> None:
    profile = informed("profiles", "list", "--json").json["profiles"][0]["id"]
    assert informed("verify", profile, "--device", "sim:rtx5090").code == 2
    assert informed("verify", "nobody", "--device", "sim:h200").code == 4
    assert informed("verify", "--device", "sim:h200", "--budget", "soon").code == 2
    assert informed("verify").code == 3  # auto means a GPU, and there is none


def test_an_interrupted_canary_stores_nothing(informed: Program) -> None:
    assert interrupted(informed, "verify", "--device", "sim:h200+slow").code == 130
    answer = informed("decide", "--device", "sim:h200", "--ranges", "64", "--bytes", "1M")
    assert "verify" not in answer.stderr


def test_a_sweep_shows_its_second_pass(informed: Program) -> None:
    (listed,) = informed("sweeps", "list", "--json").json["sweeps"]
    again = informed("sweeps", "show", listed["sweep"], "--json").json["second_pass"]
    assert len(again["shapes"]) == 9
    assert abs(again["mean_loss"]) < 0.03
    for shape in again["shapes"]:
        assert shape["agrees"]
        assert shape["loss_low"] <= shape["loss"]
    shown = informed("sweeps", "show", listed["sweep"]).stdout
    assert "second pass, in a fresh process: " in shown
