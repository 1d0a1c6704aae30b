"""Everything that a job of `paddle train` works with, made from a command line."""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator

from paddle import _native, errors
from paddle.v1 import configuration, figures, flags, models, server, workspace
from paddle.v1.configuration import Configuration
from paddle.v1.flags import Command
from paddle.v1.log import log
from paddle.v1.provider import Opened, Providers
from paddle.v1.provider_process import ProviderProcess
from paddle.v2 import config, mistake
from paddle.v2 import parameters as v2_parameters
from paddle.v2.data_type import DataType, InputType
from paddle.v2.feeding import Feeder
from paddle.v2.parameters import Parameters
from paddle.v2.topology import Topology
from paddle.v2.trainer import SGD

# Flags that are arguments of `paddle.init` too.
_OF_INIT = (
    "use_gpu", "trainer_count", "seed", "trainer_id", "num_gradient_servers", "pservers", "port",
    "ports_num", "ports_num_for_sparse",
)  # fmt: skip


@dataclasses.dataclass
class Data:
    """The data of training or of testing, as batches that are ready for the network.

    feeder converts samples; place is the line of the provider.
    """

    process: ProviderProcess
    feeder: Feeder
    place: str
    samples: int = 0

    def reader(self, pass_id: int) -> Callable[[], Iterator[_native.Batch]]:
        """A reader for `paddle.v2`; `samples` is the size of the batch that it gave last."""

        def read() -> Iterator[_native.Batch]:
            for batch in self.process.batches(pass_id):
                self.samples = batch.samples
                yield batch

        return read


@dataclasses.dataclass
class Session:
    """A configuration with its data, its parameters and its trainer."""

    command: Command
    configuration: Configuration
    parameters: Parameters
    trainer: SGD
    save_dir: str
    train: Data | None
    test: Data | None
    is_local: bool
    rank: int

    @property
    def native(self) -> _native.Trainer:
        """What computes the steps."""
        return self.trainer.connect()

    def figures(self, metrics: Iterable[tuple[str, float]]) -> str:
        """Figures of evaluators as the log shows them."""
        return figures.evaluators(metrics, self.trainer.get_topology().evaluators)

    def require_train(self) -> Data:
        """The data of training, which all jobs but a test have."""
        assert self.train is not None
        return self.train


def is_local(command: Command) -> bool:
    """Whether to train in this process: as `--local` says, else as the job does."""
    return bool(command.local) if command.is_said("local") else config.current().is_local


def initialize(command: Command) -> None:
    """Tells `paddle.v2` what the command line says; what it does not say, the environment does."""
    given = {name: command.values[name] for name in _OF_INIT if name in command.given}
    # Figures go where the log goes, if nobody says otherwise.
    if not os.environ.get("PADDLE_LOG_DIR"):
        given["log_dir"] = os.environ.get("GLOG_log_dir") or None
    # Servers do not make a training a remote one: --local=0 does, or the environment of a job.
    servers = given.pop("pservers", None)
    if command.seed == 0:
        given["seed"] = config.draw_seed(**given)
        log.info(f"the seed of this training is {given['seed']}")
    config.init(**given, show_progress=False)
    if command.job != "train":
        # Other jobs are for this process alone.
        config._current = dataclasses.replace(config.current(), pservers=None, is_local=True)
    elif not is_local(command) and (servers or config.current().pservers is None):
        config.init(**given, pservers=command.pservers, show_progress=False)
    config.name_source("--pservers")
    for name, why in flags.without_effect(command, is_local(command)).items():
        log.info(f"--{name} has no effect: {why}")


def read_configuration(command: Command, providers: Providers) -> Configuration:
    """Reads the configuration, and opens its data providers."""
    path = models.configuration_path(command)
    # Providers are modules in the current directory, or beside the configuration.
    for folder in (os.path.dirname(os.path.abspath(path)), os.getcwd()):
        if folder not in sys.path:
            sys.path.insert(0, folder)

    def show(inputs: list[str], outputs: list[str]) -> None:
        import logging

        logger = logging.getLogger("paddle")
        logger.info("The input order is [%s]", ", ".join(inputs))
        logger.info("The output order is [%s]", ", ".join(outputs))
        log.info(f"trainer mode: {'Testing' if command.job == 'test' else 'Normal'}")

    current = config.current()
    own = configuration.own_arguments(current.trainer_id, is_local(command), current.use_gpu)
    given = configuration.parse_arguments(command.config_args)
    described = configuration.read(path, own | given, providers.find_types, show)
    for name in given.keys() - own.keys() - described.asked:
        hint = mistake.suggestion(name, described.asked)
        log.warning(f"--config_args: {path} does not ask for {name!r}{hint}")
    return described


def open_session(command: Command) -> Session:
    """Reads everything and starts the processes of the providers."""
    initialize(command)
    if os.environ.get("PADDLE_MASTER_ENDPOINT"):
        raise errors.UnsupportedError(
            "this job has a master (PADDLE_MASTER_ENDPOINT), but a data provider reads the files "
            "of its own list; start the job without --master"
        )
    rank, is_alone = config.current().trainer_id, is_local(command)
    # Only the first trainer tests while it trains, unless the test data is dealt out.
    is_tester = command.job == "test" or (
        command.job == "train" and (rank == 0 or command.distribute_test)
    )
    providers = Providers(trains=command.job != "test", tests=is_tester)
    described = read_configuration(command, providers)
    providers.settle(described.order)
    _check_types(described, providers)
    _warn_of_shared_list(described)
    command = command.with_defaults(described.flags)
    if command.job == "test":
        models.check_tested(command)
    optimizer, batch_size = described.require_training()
    if (providers.test if command.job == "test" else providers.train) is None:
        what = "test" if command.job == "test" else "train"
        source = described.train or described.test
        assert source is not None
        raise errors.InvalidError(
            f"there is no data to {what} with; give {what}_list to define_py_data_sources2 "
            f"(at: {source.place})"
        )
    save_dir = models.save_dir(command)
    topology = Topology(described.outputs, described.extra_layers or None)
    # Of its own: a network that computes may have threads and devices, which a fork would break.
    with mistake.reported_here():
        network = _native.Network(topology.to_json())
    train = _start(providers.train if command.job != "test" else None, network, batch_size, command)
    test = _start(providers.test if is_tester else None, network, batch_size, command)
    log.info("Initing parameters..")
    parameters = v2_parameters.create(topology)
    if command.job == "train" and rank == 0 and models.saves(command):
        models.check_writable(save_dir)
        models.check_names(topology, described)
    log.info("Init parameters done.")
    if command.start_pserver and not is_alone:
        server.start(command)
    trainer = SGD(
        cost=described.outputs,
        parameters=parameters,
        update_equation=optimizer,
        extra_layers=described.extra_layers or None,
        is_local=is_alone or command.job != "train",
    )
    if command.job != "test":
        trainer.require_cost()
    return Session(command, described, parameters, trainer, save_dir, train, test, is_alone, rank)


def _check_types(described: Configuration, providers: Providers) -> None:
    """Tells where data layers have more ids than are given, and refuses other data to test with.

    What is given first was checked where the layers are.
    """
    first, second = providers.train or providers.test, providers.test
    assert first is not None
    layers, trained = described.data_layers, dict(zip(first.names, first.types, strict=False))
    for name, type in zip(first.names, first.types, strict=False):
        fed = layers[name].type if name in layers else None
        if fed is not None and type.type == DataType.Index and _is_below(type, fed):
            log.warning(
                f"data layer {name!r} has size {fed.dim} but the data provider gives ids below "
                f"{type.dim} (at: {layers[name].place})"
            )
    if second is None or second is first:
        return
    if len(second.types) != len(second.names):
        raise errors.InvalidError(
            f"the data provider of the tests gives {len(second.types)} values but the network has "
            f"{len(second.names)} inputs: {', '.join(second.names)} (at: {second.place})"
        )
    for name, type in zip(second.names, second.types, strict=True):
        fed = layers[name].type if name in layers else None
        if fed is None or type in (fed, trained.get(name)):
            continue
        is_fewer = type.type == DataType.Index and _is_below(type, fed)
        if is_fewer and (type.type, type.seq_type) == (fed.type, fed.seq_type):
            log.warning(
                f"data layer {name!r} has size {fed.dim} but the data provider of the tests gives "
                f"ids below {type.dim} (at: {layers[name].place})"
            )
        else:
            raise errors.InvalidError(
                f"the data provider of the tests gives {name!r} as {_shown(type)} but the network "
                f"is trained with {_shown(fed)}; make them equal (at: {second.place})"
            )


def _is_below(type: InputType, fed: InputType) -> bool:
    return type.dim is not None and fed.dim is not None and type.dim < fed.dim


def _shown(type: InputType) -> str:
    names = ("dense_vector", "sparse_binary_vector", "sparse_float_vector", "integer_value")
    endings = ("", "_sequence", "_sub_sequence")
    return f"{names[type.type]}{endings[type.seq_type]}({type.dim})"


def _warn_of_shared_list(described: Configuration) -> None:
    """Trainers that share a workspace and its list all train with all files."""
    settings = config.current()
    own = workspace.own_folder(settings.trainer_id)
    shares = own == os.path.normpath(os.environ.get("PADDLE_LOG_DIR", ""))
    source = described.train
    if source is None or not isinstance(source.files, str):
        return
    path = workspace.resolve(source.files)
    folder = os.path.dirname(os.path.abspath(path))
    # Nodes of `paddle cluster_train` have a workspace each.
    is_node = os.path.basename(folder) == f"rank-{settings.trainer_id:05d}"
    # The root of a container is its own.
    is_own = is_node or folder in ("/", os.path.abspath(own))
    if shares and settings.num_gradient_servers > 1 and not is_own:
        log.warning(
            f"all {settings.num_gradient_servers} trainers share {path}, so each trains with all "
            "its files; give define_py_data_sources2 a list of this trainer's own, by "
            f'get_config_arg("trainer_id", int, 0) (at: {source.place})'
        )


def _start(
    opened: Opened | None, network: _native.Network, batch_size: int, command: Command
) -> Data | None:
    if opened is None:
        return None
    if not opened.files:
        what = "train" if opened.is_train else "test"
        source = opened.source
        shown = f"the list {source.files!r}" if isinstance(source.files, str) else f"{what}_list"
        message = f"there are no files to {what} with: {shown} is empty (at: {source.place})"
        if opened.is_train and config.current().num_gradient_servers == 1:
            raise errors.InvalidError(message)
        log.warning(f"{message}: this trainer has none")
        if not opened.is_train:
            return None
    settings = config.current()
    feeder, names = _feeder(network, opened), network.inputs()
    process = ProviderProcess(
        opened,
        batch_size,
        lambda samples: feeder(samples).pack(names),
        seed=settings.seed,
        rank=settings.trainer_id,
        silence_seconds=command.provider_timeout,
    )
    return Data(process, feeder, opened.place)


def _feeder(network: _native.Network, opened: Opened) -> Feeder:
    places = {name: place for place, name in enumerate(opened.names)}
    try:
        return Feeder(network, places)
    except errors.Error as error:
        text = str(error).rsplit(" (feeding", 1)[0]
        raise errors.InvalidError(
            f"{text}; the data provider gives {', '.join(places)} (at: {opened.place})"
        ) from None


def show_servers() -> None:
    """Logs the servers, as the original does."""
    settings = config.current()
    number = 0
    for host in (settings.pservers or "").split(","):
        name, _, port = host.rpartition(":")
        is_numbered = bool(name) and port.isdigit()
        first = int(port) if is_numbered else settings.port
        for offset in range(settings.ports_num + settings.ports_num_for_sparse):
            shown = name if is_numbered else host
            log.info(f"pserver {number} {shown}:{first + offset}")
            number += 1
