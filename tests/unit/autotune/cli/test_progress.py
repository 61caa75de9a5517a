import pytest

from pega_tune.autotune.cli.output import Output
from pega_tune.autotune.cli.progress import PLAIN_LINE_EVERY_S, Progress, StepProgress
from pega_tune.autotune.sweep.events import BlockFinished, CellFailed, SweepStarted


def finished(number: int, elapsed_s: float) -> BlockFinished:
    return BlockFinished(number, 100, f"block-{number}", "direct", 0.5, elapsed_s)


def test_without_a_terminal_a_line_comes_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    progress = Progress(Output(json=False), clock=lambda: now_s)
    for number in range(1, 100):
        now_s = number * 0.5
        progress.show(finished(number, now_s))
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert "\r" not in captured.err
    assert len(lines) == 1 + int((99 - 1) * 0.5 / PLAIN_LINE_EVERY_S)
    assert lines[0].startswith("block 1/100 after 500 ms: block-1: direct, 0.50 of")


def test_the_last_block_is_always_told(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(Output(json=False), clock=lambda: 0.0)
    progress.show(finished(1, 0.1))
    progress.show(finished(100, 0.2))
    assert "block 100/100" in capsys.readouterr().err


def test_a_terminal_line_is_redrawn_without_escape_codes(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(json=False)
    output.terminal, output.columns = True, 30
    progress = Progress(output)
    progress.show(finished(50, 1.0))
    progress.show(CellFailed("block-50", "kernel", "crashed", "signal 11"))
    progress.end()
    text = capsys.readouterr().err
    drawn, wiped, told = text.removeprefix("\r").split("\r")
    assert "\x1b" not in text
    assert len(drawn) < 30
    assert wiped == " " * len(drawn)
    assert told == "block-50: kernel: crashed (signal 11)\n"


def test_the_start_tells_what_is_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(Output(json=False)).show(SweepStarted("ab12", 40, 10, 30.0, 50.0))
    text = capsys.readouterr().err
    assert "ab12" in text
    assert "30 of 40" in text
    assert "about 30.0 s, begins nothing new after 50.0 s" in text


def test_the_start_tells_that_time_will_be_short(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(Output(json=False)).show(SweepStarted("ab12", 40, 10, 60.0, 50.0))
    text = capsys.readouterr().err
    assert "begins nothing new after 50.0 s, so that it will be partial (--budget 66s would do)" in text


def test_steps_are_told_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    progress = StepProgress(Output(json=False), clock=lambda: now_s)
    progress.expect(100)
    for number in range(1, 101):
        now_s = number * 0.2
        progress.step("timed")
    progress.close()
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == int(100 * 0.2 / PLAIN_LINE_EVERY_S)
    assert lines[0] == "step 25/100 after 5.00 s: timed"


def test_steps_are_drawn_on_a_terminal_and_never_pass_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(json=False)
    output.terminal, output.columns = True, 60
    progress = StepProgress(output)
    progress.expect(2)
    for _ in range(3):
        progress.step("verify")
    progress.close()
    drawn = capsys.readouterr().err.split("\r")
    assert [line.rpartition("]")[2].strip() for line in drawn[1:4]] == ["1/2  verify", "2/2  verify", "2/2  verify"]
    assert drawn[4].strip() == ""
