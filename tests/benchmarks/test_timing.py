import time

from benchmarks import timing


def test_cases_take_turns():
  calls = []
  cases = {name: lambda name=name: calls.append(name) for name in "ab"}
  assert timing.measure(cases, rounds=2, warm_up=False).keys() == {"a", "b"}
  assert calls == ["a", "b", "a", "b"]
  calls.clear()
  timing.measure(cases, rounds=1)
  assert calls == ["a", "a", "b", "b"]


def test_rest_is_not_timed(monkeypatch):
  rests = []
  monkeypatch.setattr(time, "sleep", rests.append)
  timing.measure({"a": lambda: None, "b": lambda: None}, rounds=3, rest=0.2)
  assert rests == [0.2] * 6


def test_result_is_the_median(monkeypatch):
  clock = iter([0.0, 1.0, 10.0, 15.0, 20.0, 22.0])
  monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
  seconds = timing.measure({"a": lambda: None}, rounds=3, warm_up=False)
  assert seconds == {"a": 2.0}
