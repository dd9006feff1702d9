import http.client
import io
import urllib.request

import pytest

from pnjax import runtime


def test_a_file_is_downloaded_and_verified(tmp_path):
  source = tmp_path / "source.bin"
  source.write_bytes(b"content")
  digest = runtime.file_digest(source)
  for sha256 in (None, digest, digest[:8]):  # Some sites publish a few digits.
    path = tmp_path / "copy.bin"
    runtime.download(source.as_uri(), path, sha256)
    assert path.read_bytes() == b"content"
    path.unlink()


def test_another_file_is_not_kept(tmp_path):
  source = tmp_path / "source.bin"
  source.write_bytes(b"content")
  with pytest.raises(ValueError, match="expected 0123; the file is damaged or another"):
    runtime.download(source.as_uri(), tmp_path / "copy.bin", "0123")
  assert list(tmp_path.iterdir()) == [source]


class _Response(io.BytesIO):
  """A response that may break off."""

  def __init__(self, content, length=None, error=None):
    super().__init__(content)
    self.headers = {} if length is None else {"Content-Length": str(length)}
    self._error = error

  def read(self, size=-1):
    chunk = super().read(size)
    if not chunk and self._error:
      raise self._error
    return chunk


@pytest.mark.parametrize(
  ("response", "message"),
  [
    (_Response(b"half", length=8), "the transfer broke off after 4 of 8 bytes"),
    (_Response(b"half", error=http.client.IncompleteRead(b"")), "IncompleteRead"),
    (_Response(b"half", error=ConnectionResetError("reset")), "reset"),
  ],
  ids=["length", "chunks", "connection"],
)
def test_a_transfer_that_breaks_off(tmp_path, monkeypatch, response, message):
  monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: response)
  with pytest.raises(runtime.DownloadError, match=f"cannot be downloaded .*{message}"):
    runtime.download("https://example.org/file.bin", tmp_path / "file.bin")
  assert not list(tmp_path.iterdir())


def test_an_address_out_of_reach(tmp_path):
  url = (tmp_path / "missing.bin").as_uri()
  with pytest.raises(runtime.DownloadError, match=r"missing\.bin cannot be downloaded"):
    runtime.download(url, tmp_path / "file.bin")
