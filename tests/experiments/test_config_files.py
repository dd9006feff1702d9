import pytest

from experiments import config_files

FILE = """
from pnjax import config as config_lib


def get_config():
  config = config_lib.get_config()
  {}
  return config
"""


def error_of(path, *method):
  with pytest.raises(ValueError, match="config") as error:
    config_files.read(str(path))(*method)
  assert "\n" not in str(error.value)
  return str(error.value)


@pytest.fixture
def path(tmp_path):
  return tmp_path / "config.py"


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (
      FILE.format("config.head.beta = 0.5"),
      ", line 7 uses the field 'head', which does not exist: it is pooling now.",
    ),
    (
      FILE.format('config.train.freeze = "all"'),
      ", line 7 uses the field 'freeze', which does not exist: it is train.trainable",
    ),
    (
      FILE.format("config.train.speed = 1"),
      "'speed', which does not exist: pnjax/config.py has all fields.",
    ),
    (
      "from experiments.configs import default",
      ", line 1 imports the former default config, which is pnjax.config now.",
    ),
    (
      FILE.format('config.train.batch_size = "many"'),
      ", line 7: TypeError: Could not override field 'batch_size'",
    ),
    (
      "import no_such_module",
      ", line 1: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    ("\ndef get_config(:", ", line 2: SyntaxError: invalid syntax"),
    ("a\0b", ": SyntaxError: source code string cannot contain null bytes"),
    (FILE.format("open('no/file')"), ", line 7: FileNotFoundError: "),
    (FILE.format("int('x')"), ", line 7: ValueError: invalid literal for int()"),
    (FILE.format("get_config()"), ": RecursionError: maximum recursion"),
    ("raise SystemExit('stop')", ", line 1: SystemExit: stop"),
  ],
  ids=[
    "renamed-group",
    "renamed-field",
    "unknown-field",
    "former-default",
    "type",
    "import",
    "syntax",
    "null-bytes",
    "missing-file",
    "value",
    "recursion",
    "exit",
  ],
)
def test_mistakes_in_a_file_are_named_with_their_line(path, text, message):
  path.write_text(text)
  assert message in error_of(path)


def test_a_file_without_get_config(path):
  path.write_text("x = 1")
  assert f"{path} has no function get_config, expected one" in error_of(path)


@pytest.mark.parametrize("value", ["None", "{'seed': 0}"], ids=["none", "dict"])
def test_a_get_config_that_returns_no_config(path, value):
  path.write_text(f"def get_config():\n  return {value}\n")
  kind = type(eval(value)).__name__
  assert f"returns {kind}, expected a ConfigDict; start from" in error_of(path)


def test_a_get_config_that_takes_no_method(path):
  path.write_text(FILE.format("pass"))
  assert "takes no method, but 'fop' is given" in error_of(path, "fop")
  assert config_files.read(str(path))().seed == 0


def test_a_get_config_that_needs_a_method(path):
  path.write_text(FILE.format("pass").replace("get_config():", "get_config(method):"))
  assert f"needs a method: --config={path}:METHOD" in error_of(path)


def test_a_file_that_is_not_text(path):
  path.write_bytes(bytes(range(256)))
  assert f"{path}: SyntaxError: " in error_of(path)


def test_a_missing_file(path):
  assert error_of(path) == (f"the config file is '{path}', but there is no such file.")


def test_a_folder(tmp_path):
  assert error_of(tmp_path).endswith("but it is a folder.")


def test_an_unknown_method_is_not_a_mistake_of_the_file():
  message = error_of("experiments/configs/demo.py", "configs")
  assert message.startswith("the method is 'configs', expected one of baseline, ")
