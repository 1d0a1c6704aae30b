"""Where a configuration's data comes from."""

from typing import Any

from paddle.v1.recording import Source, current
from paddle.v2 import mistake

__all__ = ["define_py_data_sources2"]


@mistake.checked_arguments
def define_py_data_sources2(
    train_list: Any, test_list: Any, module: Any, obj: Any, args: Any = None
) -> None:
    """Names the files of training and testing, and the provider that reads them.

    train_list, test_list: the path of a text with a file a line, or a list of files; None for none.
    module, obj:           the module of the provider, and its name there; a list of two if training
                           and testing have different ones.
    args:                  for the provider's init_hook, by name; a list of two likewise.
    """
    if train_list is None and test_list is None:
        raise mistake.invalid("train_list and test_list are both None; give one of them")
    recording = current()
    recording.call_once("define_py_data_sources2")
    modules, objects, arguments = _pair(module), _pair(obj), _pair(args)
    place = mistake.place()
    for side, files in enumerate((train_list, test_list)):
        for name, value in (("module", modules[side]), ("obj", objects[side])):
            if files is not None and not isinstance(value, str):
                raise mistake.wrong_type(f"{name} must be a name but is {mistake.kind_of(value)}")
        if files is not None and not isinstance(files, str | list | tuple):
            raise mistake.wrong_type(
                "a list of files must be the path of a text, or a list, but is "
                + mistake.kind_of(files)
            )
    if train_list is not None:
        recording.train = Source(train_list, modules[0], objects[0], arguments[0], place)
    if test_list is not None:
        recording.test = Source(test_list, modules[1], objects[1], arguments[1], place)


def _pair(value: Any) -> tuple[Any, Any]:
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise mistake.invalid(
                "a list must have two entries: for training, and for testing", given=len(value)
            )
        return value[0], value[1]
    return value, value
