import importlib.util

from benchmarks import input as input_benchmark


def test_the_page(monkeypatch, capsys):
  monkeypatch.setattr(input_benchmark, "_NUM_SYNTHETIC", 8)
  # Without PyTorch, whose processes take seconds to start.
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  args = ["--size=32", "--batch=4", "--workers=1", "--rounds=1"]
  monkeypatch.setattr("sys.argv", ["benchmarks.input", *args])
  input_benchmark.main()
  page = capsys.readouterr().out
  command = "python -m benchmarks.input --size=32 --batch=4 --workers=1 --rounds=1"
  assert f"```sh\n{command}\n```" in page
  rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("|")]
  assert rows == [
    "| pipeline",
    "|---|---:|",
    "| pnjax",
    "| decoder",
    "|---|---:|",
    "| OpenCV",
    "| Pillow",
  ]
