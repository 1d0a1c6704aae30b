"""Looks at files of a cloud again and again and says what is wrong with the answers.

A module of its own, because processes that are spawned import it.
"""


def look_at_all(system, contents, first, told=None):
    """What is wrong with the answers that a process gets."""
    wrong = []
    for turn in range(40):
        path, content = contents[(turn * 7 + first) % len(contents)]
        try:
            entry = system.info(path)
            if (entry["name"], entry["size"]) != (path, len(content)):
                wrong.append(f"{entry} of {path}")
            if system.cat_file(path) != content:
                wrong.append(f"another content of {path}")
        except Exception as error:
            wrong.append(repr(error))
    if told is not None:
        told.put(wrong)
    return wrong
