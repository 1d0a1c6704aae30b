"""The flags of `paddle train`: one table, and how a command line is read.

Flags are written as in the original: `--name=value`, `--name value`, `--name` and `--noname` for
yes and no. A flag that is not given has the value of `PADDLE_INIT_<NAME>`, if that is set.
"""

import dataclasses
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from paddle import errors
from paddle.v2 import mistake
from paddle.v2.config import FALSE, TRUE


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag.

    One with `only` is accepted with no other value than its default, one with `words` with these.
    """

    name: str
    default: Any
    meaning: str
    kind: type = str
    only: bool = False
    words: tuple[str, ...] = ()


def _flag(name: str, default: Any, meaning: str, kind: type | None = None) -> Flag:
    return Flag(name, default, meaning, kind or (str if default is None else type(default)))


GROUPS: dict[str, list[Flag]] = {
    "What to do": [
        Flag("job", "train", "train, test, checkgrad (gradients against differences of the cost) "
             "or time (how long batches take)", words=("train", "test", "checkgrad", "time")),
        _flag("config", None, "the configuration; without it, path.txt in the model that is loaded "
              "names it"),
        _flag("config_args", "", "name=value,…: what get_config_arg finds"),
        _flag("num_passes", 100, "train until this pass"),
        _flag("provider_timeout", 3600, "seconds that a data provider may take for a sample before "
              "the training fails; 0 for no limit"),
        _flag("start_pass", 0, "go on with this pass: the one before it is loaded from save_dir"),
        _flag("seed", 1, "where first values, dropout and the order of samples come from; 0 for "
              "another one each time"),
    ],
    "Models": [
        _flag("save_dir", None, "where models go, as pass-00000 and so on [default: that of the "
              "configuration, PADDLE_OUTPUT_DIR, ./output/model]"),
        _flag("saving_period", 1, "save every so many passes; 0 for never"),
        _flag("saving_period_by_batches", 0, "save also every so many batches, as pass-00000-001"),
        _flag("save_only_one", False, "remove the saved pass before the one that was saved"),
        _flag("init_model_path", None, "a saved pass to begin with; start_pass then only counts"),
        Flag("load_missing_parameter_strategy", "fail", "what to do about a parameter that the "
             "loaded model does not have: fail, rand or zero", words=("fail", "rand", "zero")),
    ],
    "Log": [
        _flag("log_period", 100, "a line every so many batches"),
        _flag("dot_period", 1, "a dot every so many batches between; 0 for none"),
        _flag("show_parameter_stats_period", 0, "figures of every parameter every so many batches"),
    ],
    "Tests": [
        _flag("test_period", 0, "test every so many batches; 0: after every pass"),
        _flag("distribute_test", False, "every trainer tests with its own test_list and logs the "
              "figures of that share; else trainer 0 alone tests"),
        _flag("test_pass", -1, "with --job=test: the first saved pass to test; those after it "
              "follow, up to num_passes"),
        _flag("test_wait", False, "with --job=test: wait for passes that are not saved yet"),
        _flag("model_list", None, "with --job=test: a text with a saved model a line"),
        _flag("predict_output_dir", None, "with --job=test: write the outputs, a row a line, to "
              "rank-00000 and so on in this folder"),
    ],
    "Computing": [
        _flag("trainer_count", 1, "threads that share a batch"),
        _flag("use_gpu", False, "compute on a GPU, in builds that support one"),
        _flag("checkgrad_eps", 1e-2, "by how much of itself the cost is to change; numbers "
              "have 32 bits, for which the original's 1e-5 is too small"),
    ],
    "Clusters": [
        _flag("local", True, "train in this process; 0: through parameter servers [default: 0 in a "
              "job that has servers]"),
        _flag("pservers", "127.0.0.1", "host[:port] of every parameter server, with commas"),
        _flag("port", 7164, "the first port of a server"),
        _flag("ports_num", 1, "how many ports serve dense parameters"),
        _flag("ports_num_for_sparse", 1, "how many ports after those serve sparse parameters"),
        _flag("trainer_id", 0, "this trainer, from 0; 0 saves and tests"),
        _flag("num_gradient_servers", 1, "the number of trainers"),
        _flag("start_pserver", False, "start a parameter server here too, with the ports above"),
        _flag("nics", "", "the interfaces that a server started here listens on; all if empty"),
    ],
}  # fmt: skip

# Accepted, because scripts give them; they change nothing that is computed. Name, default, why.
_WITHOUT_EFFECT: list[tuple[str, Any, str]] = [
    ("comment", "", "only for whoever looks for it among the processes"),
    ("parallel_nn", False, "a network runs on one device"),
    ("gpu_id", 0, "the build chooses the device"),
    ("use_mkldnn", False, "the engine has its own kernels"),
    ("log_period_server", 500, "servers export metrics instead"),
    (
        "loadsave_parameters_in_pserver",
        False,
        "tables are saved in pieces, never held in a trainer",
    ),
    ("enable_parallel_vector", 0, "the engine uses what the processor has"),
    ("show_layer_stat", False, "an error names the layer in which a NaN came up"),
    ("thread_local_rand_use_global_seed", False, "chance follows from the seed alone"),
    ("average_test_period", 0, "tests use averages whenever the optimizer averages"),
    ("test_all_data_in_one_period", True, "tests always use all data"),
    ("use_old_updater", False, "there is one updater"),
    ("parallel_thread_num", 1, "see trainer_count"),
    ("log_clipping", False, "clipping is not logged"),
    ("log_error_clipping", False, "clipping is not logged"),
    ("enable_grad_share", 104857600, "gradients are summed in the order of threads"),
    ("grad_share_block_num", 64, "gradients are summed in the order of threads"),
    ("rnn_use_batch", False, "recurrent layers choose by themselves"),
    ("allow_only_one_model_on_one_gpu", True, "the build chooses the device"),
    ("rdma_tcp", "tcp", "parameter servers speak TCP, with the same results"),
    ("small_messages", False, "connections send at once"),
    ("sock_send_buf_size", 41943040, "the system chooses"),
    ("sock_recv_buf_size", 41943040, "the system chooses"),
    ("sock_listen_queue_size", 1024, "the system chooses"),
    ("data_server_port", 21134, "there is no data server"),
    ("allow_inefficient_sparse_update", False, "sparse updates are efficient"),
    ("memory_threshold_on_load_data", 1.0, "providers hold what their pool_size says"),
    ("log_barrier_abstract", True, "servers export metrics instead"),
    ("log_barrier_lowest_nodes", 5, "servers export metrics instead"),
    ("log_barrier_show_log", False, "servers export metrics instead"),
    ("async_count", 0, "`settings(is_async=True)` says it"),
    ("parameter_block_size", 0, "servers choose their blocks"),
    ("parameter_block_size_for_sparse", 0, "a row is a block"),
    ("external", False, "the original documents it and never had it"),
]
# Any other value of these would change the result, or ask for what there is not, so it is refused.
_ONLY_DEFAULT: list[tuple[str, Any, str]] = [
    ("with_cost", True, "a network is trained and tested with its cost"),
    ("prev_batch_state", False, "recurrent layers begin anew in each batch"),
    ("predict_file", "", "use predict_output_dir"),
    ("feat_file", "", "use predict_output_dir"),
    ("beam_size", 1, "give beam_size to beam_search(...)"),
]
GROUPS["Accepted without effect"] = [_flag(*each) for each in _WITHOUT_EFFECT]
GROUPS["Accepted with this value only"] = [
    Flag(name, default, why, type(default), only=True) for name, default, why in _ONLY_DEFAULT
]

# The jobs that look at a flag; all others look at all.
_JOBS = {
    "num_passes": ("train", "test"),
    "start_pass": ("train", "checkgrad", "time"),
    **dict.fromkeys(
        ("saving_period", "saving_period_by_batches", "save_only_one", "dot_period",
         "show_parameter_stats_period", "local", "pservers", "start_pserver"),
        ("train",),
    ),
    "log_period": ("train", "test", "time"),
    "test_period": ("train", "time"),
    **dict.fromkeys(("test_pass", "test_wait", "model_list", "predict_output_dir"), ("test",)),
    "checkgrad_eps": ("checkgrad",),
}  # fmt: skip
# Flags that a training without parameter servers does not look at.
_OF_SERVERS = ("pservers", "port", "ports_num", "ports_num_for_sparse", "start_pserver", "nics")

FLAGS = {flag.name: flag for flags in GROUPS.values() for flag in flags}
WITHOUT_EFFECT = {name: why for name, _, why in _WITHOUT_EFFECT}
HELP = ("help", "h")
NUMBER_MAX = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line that was read: every flag by name, and those that were given."""

    values: dict[str, Any]
    given: frozenset[str]
    from_environment: frozenset[str]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    def with_defaults(self, defaults: Mapping[str, Any]) -> "Command":
        """This command line, with values for what neither it nor the environment says."""
        taken = {name: value for name, value in defaults.items() if not self.is_said(name)}
        return dataclasses.replace(self, values=self.values | taken)

    def is_said(self, name: str) -> bool:
        """Whether the command line or the environment gives a flag."""
        return name in self.given or name in self.from_environment


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Command | None:
    """Reads a command line; None if it asks for help."""
    given: dict[str, Any] = {}
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            raise errors.InvalidError(f"{word!r} is no flag; write --name=value")
        name, is_attached, text = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if name in HELP:
            return None
        flag = FLAGS.get(name)
        if flag is None and name.startswith("no") and not is_attached:
            flag = FLAGS.get(name[2:])
            if flag is not None and flag.kind is bool:
                given[flag.name] = False
                continue
            flag = None
        if flag is None:
            hint = mistake.suggestion(name, FLAGS) or "; see paddle train --help"
            raise errors.InvalidError(f"paddle train has no flag --{name}{hint}")
        if not is_attached:
            if flag.kind is bool and not (words and words[0].lower() in (*TRUE, *FALSE)):
                text = "true"
            elif words:
                text = words.pop(0)
            else:
                raise errors.InvalidError(f"--{name} needs a value: --{name}=…")
        given[flag.name] = _convert(f"--{name}", flag, text)
    told = {}
    for flag in FLAGS.values():
        variable = f"PADDLE_INIT_{flag.name.upper()}"
        if flag.name not in given and environment.get(variable, "") != "":
            told[flag.name] = _convert(variable, flag, environment[variable])
    values = {flag.name: flag.default for flag in FLAGS.values()} | told | given
    return Command(values, frozenset(given), frozenset(told))


def without_effect(command: Command, is_local: bool) -> dict[str, str]:
    """The flags of a command line that change nothing, and why."""
    found = {}
    for name in sorted(command.given):
        if command.values[name] == FLAGS[name].default:
            continue
        jobs = _JOBS.get(name)
        if name in WITHOUT_EFFECT:
            found[name] = WITHOUT_EFFECT[name]
        elif jobs is not None and command.job not in jobs:
            found[name] = f"it is for --job={' and '.join(jobs)}, and this is {command.job}"
        elif name in _OF_SERVERS and is_local:
            found[name] = "the training has no parameter servers; --local=0 is one that has"
        elif name == "nics" and not command.start_pserver:
            found[name] = "only a server that is started here, by --start_pserver, listens"
    return found


def help_text() -> str:
    """The flags, by groups."""
    lines = ["Train a V1 configuration: paddle train --config=trainer_config.py [flags]", ""]
    for group, flags in GROUPS.items():
        lines.append(f"{group}:")
        for flag in flags:
            default = flag.default
            if isinstance(default, bool):
                default = int(default)
            shown = "" if default in (None, "") else f" [default: {default}]"
            text = textwrap.wrap(flag.meaning + ("" if "[default" in flag.meaning else shown), 66)
            head = f"  --{flag.name}"
            if len(head) > 30:
                lines.append(head)
                head = ""
            lines.append(f"{head:32}{text[0]}")
            lines.extend(f"{'':32}{rest}" for rest in text[1:])
        lines.append("")
    lines.append("A flag that is not given has the value of PADDLE_INIT_<NAME>, if that is set.")
    return "\n".join(lines)


def _convert(shown: str, flag: Flag, text: str) -> Any:
    value: Any = text
    if flag.kind is bool:
        if text.strip().lower() not in (*TRUE, *FALSE):
            raise errors.InvalidError(f"{shown} must be 0 or 1, true or false, but is {text!r}")
        value = text.strip().lower() in TRUE
    elif flag.kind in (int, float):
        try:
            value = flag.kind(text.strip())
            if not math.isfinite(value):
                raise ValueError
        except ValueError:
            what = "a whole number" if flag.kind is int else "a number"
            raise errors.InvalidError(f"{shown} must be {what} but is {text!r}") from None
        least = -1 if flag.name == "test_pass" else 0
        if not least <= value <= NUMBER_MAX:
            limit = f"{least} or more" if value < least else f"{NUMBER_MAX} at most"
            raise errors.InvalidError(f"{shown} must be {limit} but is {text!r}")
    if flag.words and value not in flag.words:
        raise errors.InvalidError(f"{shown} is one of {', '.join(flag.words)} but is {text!r}")
    if flag.only and value != flag.default:
        raise errors.UnsupportedError(
            f"{shown} can only be {flag.default!r} but is {text!r}: {flag.meaning}"
        )
    return value
