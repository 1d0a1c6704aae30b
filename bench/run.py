"""Runs benchmarks: `python bench/run.py [NAME…] [--smoke] [--save] [--rounds N]`.

A benchmark is a folder here with a `benchmark.py` that has a `TITLE` and a function `run(bench)`;
it may have `options(parser)` for options of its own.
"""

import argparse
import importlib.util
import pathlib
import re
import subprocess
import sys
import types

from harness import Bench, HarnessError

HERE = pathlib.Path(__file__).resolve().parent


def main() -> int:
    known = sorted(path.parent.name for path in HERE.glob("*/benchmark.py"))
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all")
    parser.add_argument("--smoke", action="store_true", help="the smallest size, one round")
    parser.add_argument("--save", action="store_true", help="keep the tables in NAME/RESULTS.md")
    parser.add_argument("--rounds", type=int, help="how often each contender runs")
    words = [word for word in sys.argv[1:] if word not in ("-h", "--help")]
    names = parser.parse_known_args(words)[0].names
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(known)}")
    module = load(names[0]) if len(names) == 1 else None
    if module is not None and hasattr(module, "options"):
        module.options(parser.add_argument_group(f"options of {names[0]}"))
    options = parser.parse_args()
    if options.smoke and options.save:
        parser.error("--save with --smoke: figures of the smallest size say nothing; leave one out")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; give at least 1")
    if module is not None:
        return run(names[0], module, options)
    return run_each(names or known, [word for word in sys.argv[1:] if word not in names])


def run_each(names: list[str], flags: list[str]) -> int:
    """Each in a process of its own: none meets what another left in the interpreter."""
    failed = []
    for name in names:
        if subprocess.run([sys.executable, __file__, name, *flags]).returncode != 0:
            failed.append(name)
        print(flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, module: types.ModuleType, options: argparse.Namespace) -> int:
    # Where things lie on this machine is nobody's business.
    words = [re.sub("^/.*/", "…/", word) for word in sys.argv[1:] if word != "--save"]
    try:
        Bench(name, module.TITLE, options).run(
            module.run, " ".join(["python", "bench/run.py", *words])
        )
    except HarnessError as error:
        print(f"bench/{name}: {error}", file=sys.stderr)
        return 1
    return 0


def load(name: str) -> types.ModuleType:
    """The benchmark's module; modules beside it can be imported by it."""
    folder = HERE / name
    if str(folder) not in sys.path:
        sys.path.insert(1, str(folder))
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", folder / "benchmark.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
