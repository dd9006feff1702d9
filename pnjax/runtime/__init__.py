"""The machine under a program: devices, memory, files, progress and signals."""

from pnjax.runtime._devices import BATCH_AXIS
from pnjax.runtime._devices import Devices
from pnjax.runtime._devices import to_host
from pnjax.runtime._download import DownloadError
from pnjax.runtime._download import download
from pnjax.runtime._files import cache_folder
from pnjax.runtime._files import file_digest
from pnjax.runtime._files import make_writable
from pnjax.runtime._files import read_json
from pnjax.runtime._files import write_json
from pnjax.runtime._files import write_text
from pnjax.runtime._hosts import connect_hosts
from pnjax.runtime._locks import lock_folder
from pnjax.runtime._memory import available_memory
from pnjax.runtime._memory import keep_freed_memory
from pnjax.runtime._memory import spare_memory
from pnjax.runtime._progress import Progress
from pnjax.runtime._progress import format_duration
from pnjax.runtime._signals import StopRequest
from pnjax.runtime._temporary import remove_temporary_folders
from pnjax.runtime._temporary import temporary_folder
from pnjax.runtime._words import counted

__all__ = [
  "BATCH_AXIS",
  "Devices",
  "DownloadError",
  "Progress",
  "StopRequest",
  "available_memory",
  "cache_folder",
  "connect_hosts",
  "counted",
  "download",
  "file_digest",
  "format_duration",
  "keep_freed_memory",
  "lock_folder",
  "make_writable",
  "read_json",
  "remove_temporary_folders",
  "spare_memory",
  "temporary_folder",
  "to_host",
  "write_json",
  "write_text",
]
