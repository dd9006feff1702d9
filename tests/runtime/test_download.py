import contextlib
from http import server
import threading

import pytest

from pnjax import runtime
from pnjax.runtime import _download
from tests.small_disks import small_disk


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


class _Handler(server.BaseHTTPRequestHandler):
  """Answers as its path says."""

  def do_GET(self):
    path, length, body, status = self.path[1:], None, b"half", 200
    if path == "broken":
      length = 8
    if path == "error":
      status = 503
    if path == "moved":
      status = 302
    self.send_response(status)
    if path == "moved":
      self.send_header("Location", "/page")
    if path == "page":
      self.send_header("Content-Type", "text/html; charset=utf-8")
    if path in ("broken", "garbled"):
      self.send_header("Content-Length", length or "many")
    if path == "chunks":
      self.send_header("Transfer-Encoding", "chunked")
      body = b"8\r\nhalf"
    self.end_headers()
    self.wfile.write(body)
    with contextlib.suppress(OSError):
      while path in ("hang", "trickle", "endless") and not self.server.stopping.wait(
        0 if path == "endless" else 0.02
      ):
        if path != "hang":
          self.wfile.write(bytes(2**20) if path == "endless" else b"x")

  def log_message(self, *_):
    pass


@pytest.fixture
def site(monkeypatch):
  """The address of a server on this machine."""
  monkeypatch.setenv("NO_PROXY", "*")
  with server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as http:
    http.stopping = threading.Event()
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}"
    http.stopping.set()
    http.shutdown()
    thread.join()


@pytest.mark.parametrize(
  ("path", "message"),
  [
    ("broken", "the transfer broke off after 4 of 8 bytes"),
    ("chunks", "IncompleteRead"),
    ("error", "HTTP Error 503"),
    ("page", "the server answers with a web page"),
    ("moved", "the server answers with a web page"),
    ("hang", "timed out"),
    ("trickle", "the transfer stalled after"),
  ],
)
def test_a_server_that_fails(site, tmp_path, monkeypatch, path, message):
  monkeypatch.setattr(_download, "_TIMEOUT_SECONDS", 0.2)
  monkeypatch.setattr(_download, "_WINDOW_SECONDS", 0.3)
  with pytest.raises(runtime.DownloadError, match=f"cannot be downloaded .*{message}"):
    runtime.download(f"{site}/{path}", tmp_path / "file.bin")
  assert not list(tmp_path.iterdir())


def test_a_length_that_is_no_number(site, tmp_path):
  runtime.download(f"{site}/garbled", tmp_path / "file.bin")
  assert (tmp_path / "file.bin").read_bytes() == b"half"


def test_a_download_that_fills_the_disk(site, tmp_path):
  with small_disk(tmp_path):
    with pytest.raises(runtime.DownloadError, match="No space left on device"):
      runtime.download(f"{site}/endless", tmp_path / "file.bin")
    assert not list(tmp_path.iterdir())


def test_an_address_out_of_reach(tmp_path):
  url = (tmp_path / "missing.bin").as_uri()
  expected = r"missing\.bin cannot be downloaded \((?!.*Errno)"
  with pytest.raises(runtime.DownloadError, match=expected):
    runtime.download(url, tmp_path / "file.bin")
