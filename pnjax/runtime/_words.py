"""Words of messages."""


def counted(count: int, singular: str, plural: str | None = None) -> str:
  """Return a number with its noun, which may be followed by its verb.

  >>> counted(1, "epoch"), counted(3, "class is", "classes are")
  ('1 epoch', '3 classes are')

  Args:
    count: The number.
    singular: The words for one.
    plural: The words for any other number; `singular` with an s if None.
  """
  words = f"{singular}s" if plural is None else plural
  return f"{count} {singular if count == 1 else words}"
