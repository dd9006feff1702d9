"""Progress of long work on the console: a bar in a terminal, lines in a log file."""

import sys
import time

import tqdm

_SECONDS_BETWEEN_LINES = 30.0


class Progress:
  """A context manager that shows how many images are done, how fast, and the time left.

  Attributes:
    images_per_second: Speed since the first images, which wait for the compiler.
  """

  def __init__(self, done: int, total: int, label: str = "", quiet: bool = False):
    """Start the display.

    Args:
      done: Number of images that an earlier run completed.
      total: Number of images of the whole run.
      label: Name of this part of the work, if it is only a part.
      quiet: Whether to show nothing at all.
    """
    self._label = f"{label}: " if label else ""
    self._bar = tqdm.tqdm(
      desc=label or None,
      leave=not label,
      initial=done,
      total=total,
      unit=" images",
      unit_scale=True,
      dynamic_ncols=True,
      disable=True if quiet else not sys.stderr.isatty(),
    )
    self._quiet = quiet
    self._first = self._done = done
    self._total = total
    self._start = self._last_line = time.monotonic()
    self._is_first = True

  def __enter__(self) -> "Progress":
    return self

  def __exit__(self, *_) -> None:
    self._bar.close()

  @property
  def images_per_second(self) -> float:
    """Speed since the first images, which wait for the compiler."""
    return (self._done - self._first) / max(time.monotonic() - self._start, 1e-9)

  def advance(self, images: int) -> None:
    """Count images as done."""
    now = time.monotonic()
    self._done += images
    self._bar.update(images)
    if self._is_first:
      self._is_first = False
      self._first, self._start = self._done, now
      return
    if self._bar.disable and now - self._last_line > _SECONDS_BETWEEN_LINES:
      self._last_line = now
      speed = self.images_per_second
      self.print(
        f"{self._label}{self._done} of {self._total} images, {speed:.1f} per second, "
        f"{format_duration((self._total - self._done) / speed)} left"
      )

  def note(self, text: str) -> None:
    """Show a few words at the end of the bar, until there are others."""
    self._bar.set_postfix_str(text)

  def print(self, text: str) -> None:
    """Print a line above the bar."""
    if not self._quiet:
      self._bar.write(text, file=sys.stdout)
      sys.stdout.flush()


def format_duration(seconds: float) -> str:
  """Return a duration in words, such as `2 min 5 s`."""
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  parts = [(hours, "h"), (minutes, "min"), (seconds, "s")]
  return " ".join(f"{n} {unit}" for n, unit in parts if n) or "0 s"
