"""The programs of `examples/`, run as users run them: alone, with servers, and with saved models.

Everything runs in a copy of an example's folder, and jobs by the command of its README. All
programs deal samples out to trainers one by one, so that one process with batches of twice the size
sees what two trainers see together.
"""

import dataclasses
import gzip
import importlib.util
import math
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import processes
import pytest

from paddle.v2.parameters import Parameters

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
NUMBER = r"([-+.\de]+)"
# Sums are added up in another order; after hundreds of updates that is a difference of 1e-5.
ROUNDING = 1e-4
# The program of ctr is a server or a trainer, as the environment says.
CTR = [sys.executable, str(EXAMPLES / "ctr/train.py"), *"--is_local 0 --cloud_train 1".split()]
CTR_SERVER = {"TRAINING_ROLE": "PSERVER", "PADDLE_PORT": "0", "PADDLE_TRAINERS_NUM": "2"}


@dataclasses.dataclass
class Example:
    """A program, its data, and what it must reach."""

    folder: str
    prepare: str
    train: str
    passes: int
    batch_size: int
    model: str
    figure: str
    limit: float
    # How many times smaller the cost becomes at least where chance decides in which order
    # gradients arrive, or who gets which data: far less than what is usual.
    least_gain: float
    # What is added to the README's command.
    options: str = ""
    output: str = "--output {}"
    # Whether two trainers compute what one process does. Not with batch normalization, which
    # looks at each trainer's batch.
    is_exact: bool = True
    rounding: float = ROUNDING

    def launch(self, flags="", arguments=""):
        """The command of a job, which must be in the README."""
        flags = f"--pservers 2 --trainers 2 {flags}--passes {self.passes}"
        command = f"paddle launch {flags} -- {self.train}{arguments}"
        readme = (EXAMPLES / self.folder / "README.md").read_text().replace("\\\n", "")
        assert command in [" ".join(line.split()) for line in readme.splitlines()]
        return command

    def reached(self, printed):
        """The figure of the last test that the program printed."""
        return float(re.findall(self.figure, printed)[-1])

    def check_learnt(self, printed):
        figure = self.reached(printed)
        # Of costs and errors less is better, of the area under a curve and of F1 more.
        is_score = "auc" in self.figure or "F1" in self.figure
        is_good = figure > self.limit if is_score else figure < self.limit
        assert is_good, (figure, printed)


def sequence_tagging(model):
    return Example(
        folder="sequence_tagging",
        prepare="python generate.py",
        train="python train.py --preset test",
        passes=3,
        options=f"--model {model}",
        batch_size=8,
        model=f"{model}_pass_00002.tar.gz",
        figure=rf"Test .*F1-score': {NUMBER}",
        limit=0.93,
        least_gain=3,
    )


def sentiment(model, is_exact):
    return Example(
        folder="sentiment",
        prepare="python generate.py",
        train="python train.py --data_home data --preset test",
        passes=8,
        options=f"--model {model}",
        batch_size=16,
        model=f"{model}_pass_00007.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.12,
        least_gain=1.5,
        is_exact=is_exact,
    )


def image_classification(network):
    return Example(
        folder="image_classification",
        prepare="python generate.py",
        train="python train.py --data data/cifar-10-python.tar.gz --network resnet --preset test",
        passes=3,
        options=f"--network {network}",
        batch_size=16,
        model=f"{network}_pass_00002.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.3,
        least_gain=1.5,
        is_exact=False,
    )


CASES = {
    "fit_a_line": Example(
        folder="fit_a_line",
        prepare="python generate.py",
        train="python train.py --preset test",
        passes=20,
        batch_size=8,
        model="fit-a-line_pass_00019.tar.gz",
        figure=rf"Test \d+, Cost {NUMBER}",
        limit=8.0,
        least_gain=20,
    ),
    "word2vec": Example(
        folder="word2vec",
        prepare="python prepare.py --generate --split_count 2",
        train="python train.py --preset test",
        passes=3,
        options="--drop_rate 0",
        batch_size=32,
        model="word2vec_pass_00002.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.4,
        least_gain=1.5,
    ),
    "ctr": Example(
        folder="ctr",
        prepare="python generate.py criteo",
        train="python train.py --preset test",
        passes=2,
        output="--model_output_dir {}",
        batch_size=100,
        model="pass-1.tar.gz",
        figure=rf"TEST --> .*auc: {NUMBER}",
        limit=0.75,
        least_gain=1.1,
        # Rounding lets a unit of ReLU fire or not, and Adam takes as long a step for a little as
        # for much. Two threads in one process differ by as much from one.
        rounding=5e-3,
    ),
    "wide_deep": Example(
        folder="ctr",
        prepare="python generate.py avazu",
        train="python wide_deep.py --preset test --model_type 0 "
        "--data_meta_file data/avazu/data.meta.txt "
        "--train_data_path data/avazu/train.txt --test_data_path data/avazu/test.txt",
        passes=5,
        output="--model_output_prefix {}/model",
        batch_size=100,
        model="model-pass-4.tar.gz",
        figure=rf"Test .*'auc': {NUMBER}",
        limit=0.75,
        least_gain=1.1,
    ),
    "linear_crf": sequence_tagging("linear_crf"),
    "rnn_crf": sequence_tagging("rnn_crf"),
    "convolution": sentiment("convolution", is_exact=True),
    # AdaGrad's first steps go by the sign of a gradient, also where it is rounding, and three
    # layers over one another make much of that.
    "lstm": sentiment("lstm", is_exact=False),
    "vgg": image_classification("vgg"),
    "resnet": image_classification("resnet"),
    "seq2seq": Example(
        folder="seq2seq",
        prepare="python generate.py",
        train="python train.py --data data/wmt14.tgz --preset test",
        passes=8,
        batch_size=25,
        model="seq2seq_pass_00007.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.02,
        least_gain=2,
        # At some step the decoder suddenly finds out where to look; rounding decides at which.
        is_exact=False,
    ),
    "recommendation": Example(
        folder="recommendation",
        prepare="python generate.py",
        train="python train.py --data data/ml-1m.zip --preset test",
        passes=5,
        batch_size=32,
        model="recommendation_pass_00004.tar.gz",
        figure=rf"Test \d+, Cost {NUMBER}",
        limit=2.0,
        least_gain=1.5,
    ),
}

every_example = pytest.mark.parametrize("name", CASES)


class Workshop:
    """Copies of the examples: data is made once, and a run that several tests look at done once."""

    def __init__(self, folder):
        self._folder = folder
        self._prepared = set()
        self._alone = {}
        self._together = {}

    def folder(self, name):
        """A copy of the example's folder, with its data."""
        example = CASES[name]
        folder = self._folder / example.folder
        if (folder, example.prepare) not in self._prepared:
            folder.mkdir(exist_ok=True)
            for program in (EXAMPLES / example.folder).glob("*.py"):
                shutil.copy(program, folder)
            processes.run(folder, *example.prepare.split())
            self._prepared.add((folder, example.prepare))
        return folder

    def run(self, name, command):
        """What a command prints in the example's folder."""
        return processes.run(self.folder(name), *shlex.split(command))

    def alone(self, name):
        """Training in one process with the batches of two; what it printed, and its model."""
        if name not in self._alone:
            example = CASES[name]
            arguments, model = self._arguments(name, "alone")
            more = f"--num_passes {example.passes} --batch_size {2 * example.batch_size}"
            self._alone[name] = self.run(name, f"{example.train} {arguments} {more}"), model
        return self._alone[name]

    def together(self, name):
        """Training in sync with two servers and two trainers; the same."""
        if name not in self._together:
            train = self._train_by_hand if name == "ctr" else self.train
            self._together[name] = train(name, "together")
        return self._together[name]

    def train(self, name, run, more="", launch=None):
        """Training with two servers and two trainers: what trainer 0 printed, and its model."""
        arguments, model = self._arguments(name, run)
        printed = self.run(name, f"{launch or CASES[name].launch()} {arguments} {more}")
        return "\n".join(re.findall(r"^trainer-0 \| (.*)$", printed, re.MULTILINE)), model

    def _train_by_hand(self, name, run):
        """The same, where the program is its own server."""
        arguments, model = self._arguments(name, run)
        example = CASES[name]
        program = f"{example.train} --is_local 0 --cloud_train 1 --num_passes {example.passes}"
        command = shlex.split(f"{program} {arguments}")
        with processes.started_servers(2, CTR, CTR_SERVER) as servers:
            addresses = ",".join(server.address for server in servers)
            environments = [ctr_trainer(addresses, rank) for rank in range(2)]
            printed = processes.run_together(self.folder(name), command, environments)
            for server in servers:
                code, logged = server.end()
                assert code == 0, logged
        return printed[0], model

    def _arguments(self, name, run):
        """What a run is told beside the README's command, and the model that it will save."""
        output = self.folder(name) / f"{name}-{run}"
        output.mkdir()
        example = CASES[name]
        return f"{example.options} {example.output.format(output.name)}", output / example.model


def ctr_trainer(addresses, rank):
    return {
        "TRAINING_ROLE": "TRAINER",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_PSERVERS_IP_PORT_LIST": addresses,
        "PADDLE_TRAINER_ID": str(rank),
        "CPU_NUM": "1",
        "FLAGS_rpc_deadline": "60000",
    }


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("examples"))


def load(path):
    """The values of a saved model, by name."""
    with gzip.open(path) as file:
        parameters = Parameters.from_tar(file)
    return {name: parameters.get(name) for name in parameters.names()}


def check_same(model, expect, tolerance):
    assert model.keys() == expect.keys()
    for name, values in expect.items():
        np.testing.assert_allclose(
            model[name], values, rtol=tolerance, atol=tolerance, err_msg=name
        )


@every_example
def test_it_learns_in_one_process(workshop, name):
    printed, _ = workshop.alone(name)
    CASES[name].check_learnt(printed)


@every_example
def test_two_trainers_in_sync_learn_and_get_the_model_of_one_process(workshop, name):
    printed, model = workshop.together(name)
    CASES[name].check_learnt(printed)
    if CASES[name].is_exact:
        check_same(load(model), load(workshop.alone(name)[1]), CASES[name].rounding)


@every_example
def test_it_learns_in_async_mode(workshop, name):
    printed, _ = workshop.train(name, "async", "--async_mode")
    check_gain(workshop, name, printed)


@pytest.mark.parametrize(
    ("name", "recordio"), [("fit_a_line", "data/recordio/*"), ("word2vec", "recordio/train-*")]
)
def test_it_learns_from_what_a_master_deals_out(workshop, name, recordio):
    if name == "fit_a_line":
        workshop.run(name, "python convert.py")
    launch = CASES[name].launch("--master ", f" --recordio '{recordio}'")
    printed, _ = workshop.train(name, "master", launch=launch)
    check_gain(workshop, name, printed)


def check_gain(workshop, name, printed):
    """Compares the best test of a pass with that of a model that has learnt nothing.

    The best and not the last: in async mode gradients may come late and spoil a pass, the later the
    busier the machine is.
    """
    # The first batch of one process; of several, others may have learnt before the first one has.
    untrained, _ = workshop.alone(name)
    first = float(re.search(rf"batch:? 0,? (?:cost|loss:) {NUMBER}", untrained, re.I)[1])
    tests = re.findall(rf"test .*(?:cost|loss:) {NUMBER}", printed, re.I)
    assert min(map(float, tests)) < first / CASES[name].least_gain, (first, printed)


@pytest.mark.parametrize("name", ["fit_a_line", "ctr"])
def test_trainers_with_servers_go_on_with_the_model_of_one_process(workshop, name):
    _, model = workshop.alone(name)
    more = f"--init_model {model} --num_passes 1 --learning_rate 0"
    _, unchanged = workshop.train(name, "continued", more)
    unchanged = next(unchanged.parent.glob("*pass*0.tar.gz"))
    check_same(load(unchanged), load(model), tolerance=0)


def test_prices_are_predicted_with_the_model_of_a_job(workshop):
    printed, model = workshop.together("fit_a_line")
    guesses = workshop.run("fit_a_line", f"python infer.py --model {model}")
    pairs = np.array(re.findall(rf"predicted {NUMBER}, real {NUMBER}", guesses), float)
    cost = np.mean((pairs[:, 0] - pairs[:, 1]) ** 2)
    assert cost == pytest.approx(CASES["fit_a_line"].reached(printed), rel=1e-3)


def test_clicks_are_predicted_with_the_model_of_a_job(workshop):
    printed, model = workshop.together("ctr")
    guesses = workshop.run("ctr", f"python infer.py --model {model} --sparse_feature_dim 10007")
    chances = np.array(guesses.split(), float)
    lines = (workshop.folder("ctr") / "data/raw/valid.txt").read_text().splitlines()
    clicks = np.array([line.startswith("1") for line in lines])
    loss = -np.mean(np.log(np.where(clicks, chances, 1 - chances)))
    tested = float(re.findall(rf"TEST --> pass: \d+ loss: {NUMBER}", printed)[-1])
    assert loss == pytest.approx(tested, rel=1e-3)


def test_pictures_are_named_with_the_model_of_a_job(workshop):
    _, model = workshop.together("resnet")
    printed = workshop.run(
        "resnet",
        f"python infer.py --model {model} --data data/cifar-10-python.tar.gz --count 100 "
        "--network resnet --filters 4 --depth 8",
    )
    pairs = re.findall(r"class (\d) with .*, real (\d)", printed)
    wrong = sum(guess != label for guess, label in pairs)
    assert len(pairs) == 100 and wrong < 100 * CASES["resnet"].limit


def test_films_are_recommended_with_the_model_of_a_job(workshop):
    _, model = workshop.together("recommendation")
    command = f"python infer.py --model {model} --data data/ml-1m.zip --user 3"
    printed = workshop.run("recommendation", command)
    stars = [float(line.split()[0]) for line in printed.splitlines()]
    assert len(stars) == 6 and sorted(stars, reverse=True) == stars
    assert stars[0] > stars[-1] + 1, printed


def test_sentences_are_reversed_with_the_model_of_a_job(workshop):
    _, model = workshop.together("seq2seq")
    command = f"python infer.py --data data/wmt14.tgz --preset test --parameters {model}"
    printed = workshop.run("seq2seq", command)
    (right,) = re.findall(r"(\d+) of 100 are right", printed)
    assert int(right) > 90, printed


def test_the_word_that_follows_is_predicted_with_the_model_of_a_job(workshop):
    _, model = workshop.together("word2vec")
    # What follows `word1` in the made-up text, four times.
    follows = follow_words("word1", 4)
    command = f"python infer.py --model {model} --drop_rate 0 {' '.join(follows[:4])}"
    printed = workshop.run("word2vec", command)
    best, chance = printed.splitlines()[0].split()
    assert best == follows[4] and math.isclose(float(chance), 0.8, abs_tol=0.15), printed


def follow_words(word, count):
    """A word and those that the made-up text lets follow."""
    source = importlib.util.spec_from_file_location("generate", EXAMPLES / "word2vec/generate.py")
    generate = importlib.util.module_from_spec(source)
    source.loader.exec_module(generate)
    following = generate.rule(seed=1)
    row = [word]
    for _ in range(count):
        row.append(following[row[-1]])
    return row


def test_phrases_are_found_with_the_model_of_a_job(workshop):
    printed, model = workshop.together("linear_crf")
    found = workshop.run("linear_crf", f"python infer.py --parameters {model}")
    with gzip.open(workshop.folder("linear_crf") / "data/test.txt.gz", "rt") as file:
        wanted = file.read()
    pairs = list(zip(found.split(), wanted.split(), strict=True))
    wrong = np.mean([own != other for own, other in pairs[2::3]])
    assert wrong == pytest.approx(float(re.findall(rf"'error': {NUMBER}", printed)[-1]), rel=1e-3)


def test_a_corpus_is_prepared_from_its_folder_and_its_archive(workshop, tmp_path):
    corpus = tmp_path / "corpus"
    workshop.run("word2vec", f"python generate.py --sentences 100 --output {corpus}")
    with tarfile.open(tmp_path / "corpus.tgz", "w:gz") as archive:
        archive.add(corpus, "./simple-examples/data")
    sources = ["--generate --sentences 100", f"--source {corpus}", f"--source {corpus}.tgz"]
    prepared = []
    for number, source in enumerate(sources):
        output = tmp_path / f"prepared-{number}"
        command = f"python prepare.py {source} --min_word_freq 9 --output {output}"
        workshop.run("word2vec", command)
        files = sorted(path for path in output.rglob("*") if path.is_file())
        prepared.append({str(path.relative_to(output)): path.read_bytes() for path in files})
    assert prepared[0] == prepared[1] == prepared[2]
    parts = [prepared[0][f"train_data_dir/train.txt-{number:05}"] for number in range(3)]
    whole = prepared[0]["train_data_dir/train.txt"].splitlines()
    assert [part.splitlines() for part in parts] == [whole[number::3] for number in range(3)]


def test_a_corpus_prepared_again_has_no_parts_of_before(workshop, tmp_path):
    for parts, lines in ((3, 100), (2, 1000)):
        sizes = f"--sentences 100 --split_count {parts} --line_count {lines}"
        workshop.run("word2vec", f"python prepare.py --generate {sizes} --output {tmp_path}")
    numbered = sorted(path.name for path in tmp_path.rglob("*-0*"))
    assert numbered == [
        "test.txt-00000", "test.txt-00001", "train-00000", "train.txt-00000", "train.txt-00001",
    ]  # fmt: skip


def test_a_trainer_without_a_list_of_servers_says_what_to_set():
    # Any file will do: servers are looked for before data is read.
    command = [*CTR, "--train_data_path", __file__]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "set PADDLE_INIT_PSERVERS" in ended.stderr


def test_a_program_that_serves_ends_as_the_server_does():
    with processes.started_servers(1, CTR, CTR_SERVER) as servers:
        servers[0].process.terminate()
        code, logged = servers[0].end()
        assert code == 0, logged
