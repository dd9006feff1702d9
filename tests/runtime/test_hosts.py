"""Hosts that are threads of one process, and are not connected by JAX."""

from concurrent import futures
import contextlib
import os
import re
import socket
import threading

import pytest

from pnjax import runtime
from pnjax.runtime import _hosts
from pnjax.runtime import _watch
from tests import small_runs


@pytest.fixture
def address():
  return f"localhost:{small_runs.free_port()}"


@pytest.fixture(autouse=True)
def without_jax(monkeypatch):
  """Collects what JAX would be called with."""
  calls = []
  monkeypatch.setattr(
    _hosts.jax.distributed, "initialize", lambda *args, **_: calls.append(args)
  )
  monkeypatch.setattr(_hosts.jax.distributed, "shutdown", lambda: None)
  monkeypatch.setattr(_hosts.atexit, "register", lambda *_: None)
  monkeypatch.setattr(_watch, "_LOSS_SECONDS", 0.0)
  return calls


def connect(*args, seconds=5.0):
  """Connects a host, and returns what it fails with."""
  try:
    with runtime.connect_hosts(*args, start_seconds=seconds):
      return None
  except (OSError, ValueError) as error:
    return error


def connect_all(*hosts, **kwargs):
  with futures.ThreadPoolExecutor() as pool:
    return list(pool.map(lambda args: connect(*args, **kwargs), hosts))


def test_hosts_connect(address, without_jax):
  hosts = [(address, 3, host) for host in range(3)]
  assert connect_all(*hosts) == [None] * 3
  assert sorted(args[1:] for args in without_jax) == [(3, 0), (3, 1), (3, 2)]


def test_jax_reaches_its_service_through_another_host(address, without_jax):
  listening, done = threading.Event(), threading.Event()

  def first_host():
    with runtime.connect_hosts(address, 2, 0):
      (own,) = [args[0] for args in without_jax if args[2] == 0]
      service = socket.create_server(("127.0.0.1", int(own.split(":")[1])))
      listening.set()
      with service, service.accept()[0] as connection:
        connection.sendall(connection.recv(9).upper())
      done.wait(5)

  def second_host():
    with runtime.connect_hosts(address, 2, 1):
      listening.wait(5)
      (own,) = [args[0] for args in without_jax if args[2] == 1]
      name, port = own.split(":")
      with socket.create_connection((name, int(port)), timeout=5) as connection:
        connection.sendall(b"message")
        answer = connection.recv(9)
      done.set()
      return answer

  with futures.ThreadPoolExecutor() as pool:
    first, second = pool.submit(first_host), pool.submit(second_host)
    assert second.result() == b"MESSAGE"
    first.result()


@pytest.mark.parametrize(
  ("args", "message"),
  [
    ((None, 2, 0), "need --coordinator, which is missing"),
    (("10.0.0.1", 2, 0), "--coordinator is '10.0.0.1', expected address:port"),
    (("host:port", 2, 0), "--coordinator is 'host:port', expected address:port"),
    (("host:70000", 2, 0), "--coordinator is 'host:70000', expected address:port"),
    (("host:1", None, 0), "needs --num_hosts and --host"),
    (("host:1", 2, None), "needs --num_hosts and --host"),
    (("host:1", 0, 0), "--num_hosts is 0, expected 1 or more"),
    (("host:1", 2, 2), "--host is 2, expected 0 to 1"),
    (("host:1", 2, -1), "--host is -1, expected 0 to 1"),
  ],
)
def test_flags_that_do_not_fit(args, message):
  assert re.search(message, str(connect(*args)))


def test_a_host_that_never_starts(address):
  first, second = connect_all((address, 3, 0), (address, 3, 1), seconds=0.5)
  expected = r"waited 0\.5 s in vain for host 2 of 3; start all hosts with the same"
  assert re.match(expected, str(first))
  assert re.match(expected, str(second))


def test_an_address_where_no_host_listens(address):
  error = connect(address, 2, 1, seconds=0.1)
  assert re.match(f"host 0 cannot be reached at {address}: .*refused", str(error))


def test_an_address_that_does_not_exist():
  error = connect("nowhere.invalid:1234", 2, 1)
  assert re.match(r"host 0 cannot be reached at nowhere\.invalid:1234: ", str(error))


def test_an_address_of_another_server():
  with (
    socket.create_server(("localhost", 0)) as server,
    futures.ThreadPoolExecutor() as p,
  ):
    address = f"localhost:{server.getsockname()[1]}"
    error = p.submit(connect, address, 2, 1)
    with server.accept()[0] as connection:
      connection.sendall(b"SSH-2.0-OpenSSH\r\n")
      assert "is not host 0 of a run: it answers 'SSH-2.0" in str(error.result())


def test_a_port_that_is_in_use(address):
  with socket.create_server(("", int(address.split(":")[1]))):
    error = connect(address, 2, 0)
  assert re.search(
    r"cannot listen on port \d+ of .* in use\. Choose another", str(error)
  )


def test_two_processes_with_the_same_index(address):
  errors = connect_all((address, 3, 0), (address, 3, 1), (address, 3, 1), seconds=0.5)
  assert any("--host is 1, expected another one" in str(error) for error in errors)


def test_hosts_that_disagree_on_their_number(address):
  _, second = connect_all((address, 2, 0), (address, 3, 1), seconds=0.5)
  assert "--num_hosts is 3, expected 2 as on host 0" in str(second)


def test_a_stranger_is_ignored(address):
  with futures.ThreadPoolExecutor() as pool:
    first = pool.submit(connect, address, 2, 0)
    with _hosts._connect(("localhost", int(address.split(":")[1])), 5) as stranger:
      stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
      assert stranger.recv(1) == b""
    assert connect(address, 2, 1) is None
    assert first.result() is None


@pytest.fixture
def watched(monkeypatch):
  """The line of another host that is watched, and how the process ended."""
  ended = threading.Event()

  def end(status):
    assert status == 1
    ended.set()

  monkeypatch.setattr(os, "_exit", end)
  own, other = socket.socketpair()
  with own, other, _watch.Watch(silence_seconds=1.0) as watch:
    watch.lines[1] = _watch.Line(own)
    watch.start()
    yield _watch.Line(other), ended
    other.close()


def test_a_host_that_dies_ends_the_others(watched, capsys):
  line, ended = watched
  line.close()
  assert ended.wait(5)
  assert re.match(
    "error: host 1 was killed or cannot be reached", capsys.readouterr().err
  )


def test_a_host_that_is_silent_ends_the_others(watched, capsys):
  _, ended = watched
  assert ended.wait(5)
  assert re.match(
    "error: host 1 was killed or cannot be reached", capsys.readouterr().err
  )


def test_a_host_that_fails_says_why(watched, capsys):
  line, ended = watched
  line.send("failed the disk is full")
  assert ended.wait(5)
  assert capsys.readouterr().err == "error: host 1 failed: the disk is full\n"


def test_a_host_that_fails_tells_the_others(address, monkeypatch, capsys):
  ended, failed = threading.Event(), threading.Event()
  monkeypatch.setattr(os, "_exit", lambda _: ended.set())

  def stay():
    with contextlib.suppress(OSError), runtime.connect_hosts(address, 2, 0):
      ended.wait(5)
      failed.wait(5)
      raise OSError

  with futures.ThreadPoolExecutor() as pool:
    first = pool.submit(stay)
    with (
      pytest.raises(ValueError, match="other images"),
      runtime.connect_hosts(address, 2, 1),
    ):
      raise ValueError("other images")
    assert ended.wait(5)
    failed.set()
    first.result()
  assert "error: host 1 failed: other images\n" in capsys.readouterr().err
