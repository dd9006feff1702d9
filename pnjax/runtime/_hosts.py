"""The connection between the hosts of a run.

JAX has a service on host 0 that all hosts talk to. When a host dies, JAX ends the
others minutes later, from inside of C++ and with a page of logs. So host 0 listens in
the place of this service, and what a connection is for is its first line:

- `host INDEX NUM_HOSTS` is that of a host that joins the run, and is watched from then
  on: the process ends with one line when it breaks;
- `forward` connects JAX on another host with the service. The ends of these connections
  are hidden from JAX, so that it does not end the process first.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import os
import socket
import sys
import threading
import time

import jax

from pnjax.runtime._watch import Line
from pnjax.runtime._watch import Watch
from pnjax.runtime._watch import start_thread

_HELLO_SECONDS = 10.0  # For the first line of a connection.
_RETRY_SECONDS = 0.2
_JAX_HEARTBEAT_SECONDS = 3600  # Hosts are watched here.
_INTERRUPTED = 130


@contextlib.contextmanager
def connect_hosts(
  coordinator: str | None,
  num_hosts: int | None,
  host: int | None,
  *,
  start_seconds: float = 120.0,
  silence_seconds: float = 60.0,
) -> Iterator[None]:
  """Stay connected to the other hosts of a run, if there are any.

  When another host dies or fails, this process ends with one line and status 1. When
  this one fails, its process ends without waiting for the others.

  Args:
    coordinator: `address:port` of host 0, or `"auto"` on a cluster that JAX knows,
      where JAX itself watches the hosts.
    num_hosts: Number of hosts, if the cluster does not tell.
    host: Index of this host, if the cluster does not tell.
    start_seconds: How long to wait for all hosts to start.
    silence_seconds: How long nothing may be heard from a host.

  Raises:
    ValueError: if the arguments do not fit each other, or those of host 0.
    OSError: if the hosts cannot be connected.
  """
  if coordinator is None:
    if num_hosts is not None or host is not None:
      raise ValueError("--num_hosts and --host need --coordinator, which is missing.")
    yield
    return
  with contextlib.ExitStack() as stack:
    service, heartbeat_seconds = None, round(silence_seconds)
    if coordinator != "auto":
      address, num_hosts, host = _checked(coordinator, num_hosts, host)
      watch = stack.enter_context(Watch(silence_seconds))
      if host == 0:
        service = _gather(stack, watch, address[1], num_hosts, start_seconds)
      else:
        service = _join(stack, watch, address, num_hosts, host, start_seconds)
      watch.start()
      heartbeat_seconds = _JAX_HEARTBEAT_SECONDS
    try:
      _initialize_jax(service, num_hosts, host, start_seconds, heartbeat_seconds)
      yield
      jax.distributed.shutdown()  # Waits for all hosts to come here.
    except BaseException as error:
      # Otherwise JAX would wait for the other hosts.
      status = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
      atexit.register(_end_process, status)
      raise


def _checked(
  coordinator: str, num_hosts: int | None, host: int | None
) -> tuple[tuple[str, int], int, int]:
  """Return the address of host 0, the number of hosts and the index of this one."""
  name, _, port = coordinator.rpartition(":")
  if not name or not port.isdecimal() or not 0 < int(port) < 2**16:
    raise ValueError(
      f"--coordinator is {coordinator!r}, expected address:port of host 0, such as "
      "10.0.0.1:1234, or auto."
    )
  if num_hosts is None or host is None:
    raise ValueError(f"--coordinator={coordinator} needs --num_hosts and --host.")
  if num_hosts < 1:
    raise ValueError(f"--num_hosts is {num_hosts}, expected 1 or more.")
  if not 0 <= host < num_hosts:
    raise ValueError(
      f"--host is {host}, expected 0 to {num_hosts - 1} with --num_hosts={num_hosts}."
    )
  return (name.strip("[]"), int(port)), num_hosts, host


def _gather(
  stack: contextlib.ExitStack,
  watch: Watch,
  port: int,
  num_hosts: int,
  seconds: float,
) -> str:
  """Wait for all hosts, and return a local address for the service of JAX."""
  with socket.create_server(("127.0.0.1", 0)) as unused:
    service = unused.getsockname()
  changed = threading.Condition()

  def receive(connection: socket.socket) -> None:
    line = Line(connection)
    connection.settimeout(_HELLO_SECONDS)
    words = line.receive().split()
    connection.settimeout(None)
    if words == ["forward"]:
      with _connect(service, seconds) as upstream:
        upstream.sendall(line.rest())
        _pass_on(connection, upstream)
    elif words[:1] == ["host"]:
      index, count = int(words[1]), int(words[2])
      with changed:
        if refusal := _refusal(index, count, num_hosts, watch):
          line.send(f"failed {refusal}")
          return
        watch.lines[index] = Line(connection.dup())
        changed.notify()

  _serve(stack, _listen_on(port), receive)
  with changed:
    complete = changed.wait_for(lambda: len(watch.lines) == num_hosts - 1, seconds)
  if not complete:
    missing = ", ".join(str(k) for k in range(1, num_hosts) if k not in watch.lines)
    raise TimeoutError(
      f"waited {seconds:g} s in vain for host {missing} of {num_hosts}; start all "
      "hosts with the same --coordinator."
    )
  for line in watch.lines.values():
    line.send("go")
  return f"127.0.0.1:{service[1]}"


def _listen_on(port: int) -> socket.socket:
  dual = socket.has_dualstack_ipv6()
  family = socket.AF_INET6 if dual else socket.AF_INET
  try:
    return socket.create_server(("", port), family=family, dualstack_ipv6=dual)
  except OSError as error:
    reason = os.strerror(error.errno or 0)
    raise OSError(
      f"host 0 cannot listen on port {port} of --coordinator: {reason}. Choose another "
      "port for all hosts."
    ) from error


def _refusal(host: int, count: int, num_hosts: int, watch: Watch) -> str | None:
  """Return why a host cannot join."""
  if count != num_hosts:
    return f"--num_hosts is {count}, expected {num_hosts} as on host 0."
  if host in watch.lines:
    return f"--host is {host}, expected another one: a process with it has joined."
  return None


def _join(
  stack: contextlib.ExitStack,
  watch: Watch,
  address: tuple[str, int],
  num_hosts: int,
  host: int,
  seconds: float,
) -> str:
  """Join host 0, and return a local address that leads to its service of JAX."""
  name = f"{address[0]}:{address[1]}"
  try:
    line = watch.lines[0] = Line(_connect(address, seconds))
    line.send(f"host {host} {num_hosts}")
    # Host 0 waits for the others meanwhile, and tells if one does not start.
    line.socket.settimeout(seconds + _HELLO_SECONDS)
    answer = line.receive()
  except OSError as error:
    raise OSError(f"host 0 cannot be reached at {name}: {error}.") from error
  if answer.startswith("failed "):
    raise OSError(answer.removeprefix("failed "))
  if answer != "go":
    raise OSError(
      f"{name} is not host 0 of a run: it answers {answer[:40]!r}. Check --coordinator."
    )

  def forward(connection: socket.socket) -> None:
    with _connect(address, seconds) as upstream:
      Line(upstream).send("forward")
      _pass_on(connection, upstream, hide_end=True)

  server = socket.create_server(("127.0.0.1", 0))
  _serve(stack, server, forward)
  return f"127.0.0.1:{server.getsockname()[1]}"


def _connect(address: tuple[str, int], seconds: float) -> socket.socket:
  """Connect to an address that may not be there yet."""
  deadline = time.monotonic() + seconds
  while True:
    try:
      connection = socket.create_connection(address, timeout=seconds)
      connection.settimeout(None)
      return connection
    except socket.gaierror:  # There is no such name.
      raise
    except OSError:
      if time.monotonic() > deadline:
        raise
      time.sleep(_RETRY_SECONDS)


def _serve(
  stack: contextlib.ExitStack,
  server: socket.socket,
  handle: Callable[[socket.socket], None],
) -> None:
  """Handle each connection in a thread of its own, until the stack is closed."""
  stack.callback(Line(server).close)

  def safely(connection: socket.socket) -> None:
    # Whatever else connects to a port is not answered.
    with connection, contextlib.suppress(OSError, ValueError, IndexError):
      handle(connection)

  def accept() -> None:
    with contextlib.suppress(OSError):  # It was closed.
      while True:
        start_thread(safely, server.accept()[0])

  start_thread(accept)


def _pass_on(near: socket.socket, far: socket.socket, hide_end: bool = False) -> None:
  """Copy everything between two connections until they end.

  Args:
    near: Connection that was accepted.
    far: Connection that was made for it.
    hide_end: Whether to leave `near` open when `far` ends.
  """

  def copy(source: socket.socket, target: socket.socket, pass_end: bool) -> None:
    with contextlib.suppress(OSError):
      while chunk := source.recv(1 << 16):
        target.sendall(chunk)
    if pass_end:
      with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)

  back = start_thread(copy, far, near, not hide_end)
  copy(near, far, True)
  back.join()


def _initialize_jax(
  address: str | None,
  num_hosts: int | None,
  host: int | None,
  seconds: float,
  heartbeat_seconds: int,
) -> None:
  try:
    jax.distributed.initialize(
      address,
      num_hosts,
      host,
      coordinator_bind_address=address if host == 0 else None,
      initialization_timeout=round(seconds),
      heartbeat_timeout_seconds=heartbeat_seconds,
    )
  except (RuntimeError, ValueError) as error:
    raise OSError(f"JAX cannot connect the hosts: {error}") from error


def _end_process(status: int) -> None:
  with contextlib.suppress(OSError):
    sys.stdout.flush()
    sys.stderr.flush()
  os._exit(status)
