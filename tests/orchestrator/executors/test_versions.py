"""Whether a worker's machine computes with the driver's code."""

from __future__ import annotations

from orchestrator.executors.versions import differences, versions


def test_this_process_agrees_with_itself() -> None:
    assert set(versions()) == {"python", "torch", "transformers", "workers"}
    assert differences(versions(), versions()) == ""


def test_each_difference_is_named_with_both_sides() -> None:
    assert differences({"torch": "2.8.0"}, {"torch": "2.9.0", "workers": "ab"}) == (
        "torch is 2.8.0 there and 2.9.0 on the driver; workers is absent there and ab on the driver"
    )


def test_the_build_of_a_library_does_not_matter() -> None:
    assert "+" not in versions()["torch"]
