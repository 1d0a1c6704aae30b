"""Prints the assignments of the conf.py on its standard input as JSON, without executing anything.

The file is parsed, and values are read from the tree: text, numbers, truth values, None, lists,
names given earlier, and `+`. Whatever would have to be computed is refused, because a value that
is guessed starts a job on the wrong machines.
"""

import ast
import json
import sys

FILE_BYTES_MAX = 1 << 20
KINDS = {
    str: "a text",
    bool: "a truth value",
    int: "a number",
    float: "a fraction",
    type(None): "None",
    list: "a list",
}


class RefusedError(Exception):
    """What cannot be read, and its line."""


def evaluate(node, names):
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise RefusedError(f"it uses the name {node.id}, which has no value yet", node.lineno)
        return names[node.id]["value"]
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [evaluate(item, names) for item in node.elts]
        # A list that has itself twice, again and again, would never be printed to its end.
        if any(isinstance(item, list) for item in items):
            raise RefusedError("a list in a list is not read", node.lineno)
        return items
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return add(evaluate(node.left, names), evaluate(node.right, names), node.lineno)
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ...
    if type(value) not in KINDS:
        raise RefusedError(
            "write the value itself: a text, a number, True, False, None or a list of them; "
            "nothing is executed",
            node.lineno,
        )
    return value


def add(left, right, line):
    if type(left) is not type(right) or type(left) not in (str, int, list):
        kinds = f"{KINDS[type(left)]} and {KINDS[type(right)]}"
        raise RefusedError(f"{kinds} cannot be added", line)
    # Names can be added to themselves again and again.
    if not isinstance(left, int) and len(left) + len(right) > FILE_BYTES_MAX:
        raise RefusedError("the value is too long", line)
    return left + right


def read(source):
    names = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            # A text alone is a comment over several lines.
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [None]
        if not all(isinstance(target, ast.Name) for target in targets):
            raise RefusedError("only NAME = VALUE is read, nothing is executed", node.lineno)
        try:
            value = evaluate(node.value, names)
        except RefusedError as error:
            why, line = error.args
            raise RefusedError(f"bad {targets[0].id}: {why}", line) from None
        names.update((target.id, {"value": value, "line": node.lineno}) for target in targets)
    return names


def main():
    source = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    try:
        if len(source) > FILE_BYTES_MAX:
            raise RefusedError(f"the file is longer than {FILE_BYTES_MAX} bytes", 1)
        answer = {"names": read(source)}
    except RefusedError as error:
        answer = {"refused": error.args}
    except SyntaxError as error:
        answer = {"refused": (error.msg, error.lineno or 1)}
    except (MemoryError, RecursionError):
        answer = {"refused": ("brackets or sums are nested too deep", 1)}
    except ValueError as error:
        answer = {"refused": (str(error), 1)}
    json.dump(answer, sys.stdout)


main()
