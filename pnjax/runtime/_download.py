"""Downloads that are verified before they count."""

import hashlib
import http.client
import os
import pathlib
import time
import urllib.error
import urllib.request

import tqdm

from pnjax.runtime._temporary import temporary_folder

_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30
# A transfer that is slower than this for a while has stalled.
_WINDOW_SECONDS = 60.0
_BYTES_PER_WINDOW = 60_000


class DownloadError(OSError):
  """The file could not be downloaded."""


def download(url: str, path: pathlib.Path, sha256: str | None = None) -> None:
  """Download a file, completely or not at all.

  Args:
    url: Address of the file.
    path: Where to put it. The folder must exist.
    sha256: Expected digest of the file, or its first digits; not checked if None.

  Raises:
    DownloadError: if the address cannot be reached or the transfer breaks off.
    ValueError: if the digest differs from `sha256`.
  """
  with temporary_folder(path.parent) as temporary:
    part = temporary / path.name
    try:
      digest = _transfer(url, part, any_type=sha256 is not None)
    except (OSError, http.client.HTTPException) as error:
      raise DownloadError(f"{url} cannot be downloaded ({_reason(error)})") from error
    if sha256 is not None and not digest.startswith(sha256):
      raise ValueError(
        f"{url} has sha256 {digest}, expected {sha256}; the file is damaged or another "
        "one, and was not used."
      )
    part.rename(path)


def _reason(error: Exception) -> object:
  """Return the words of the system or of the server, without its numbers."""
  if isinstance(error, urllib.error.URLError):
    inner = error.reason
    error = inner if isinstance(inner, OSError) else error
  return getattr(error, "strerror", None) or error


def _transfer(url: str, path: pathlib.Path, any_type: bool) -> str:
  """Copy the contents of an address to a file, and return its sha256."""
  digest, size = hashlib.sha256(), 0
  with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
    if not any_type and response.headers.get("Content-Type", "").startswith(
      "text/html"
    ):
      raise OSError("the server answers with a web page")
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() and int(length) else None
    bar = tqdm.tqdm(
      desc=path.name, total=total, unit="B", unit_scale=True, disable=None
    )
    start, before = time.monotonic(), 0
    with bar, path.open("wb") as file:
      while chunk := response.read1(_CHUNK_BYTES):
        file.write(chunk)
        digest.update(chunk)
        bar.update(len(chunk))
        size += len(chunk)
        if time.monotonic() - start > _WINDOW_SECONDS:
          if size - before < _BYTES_PER_WINDOW:
            raise TimeoutError(f"the transfer stalled after {size} bytes")
          start, before = time.monotonic(), size
      file.flush()
      os.fsync(file.fileno())
  if total not in (None, size):
    raise OSError(f"the transfer broke off after {size} of {total} bytes")
  return digest.hexdigest()
