"""The programs of `examples/`, run as users run them: alone, with servers, and with saved models.

All programs deal samples out to trainers one by one, so that one process with batches of twice the
size sees what two trainers see together.
"""

import dataclasses
import gzip
import importlib.util
import math
import pathlib
import re
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
FLUID_SERVER = {"TRAINING_ROLE": "PSERVER", "PADDLE_PORT": "0", "PADDLE_TRAINERS_NUM": "2"}

TAGGING = (
    "--preset test --train_file {data}/train.txt.gz --test_file {data}/test.txt.gz "
    "--output {output}"
)
SENTIMENT = "--preset test --data_home {data} --output {output}"


@dataclasses.dataclass
class Example:
    """A program, its data, and what it must reach."""

    program: str
    prepare: str
    arguments: str
    batch_size: int
    model: str
    figure: str
    limit: float
    # Whether two trainers compute what one process does. Not with batch normalization, which
    # looks at each trainer's batch.
    is_exact: bool = True

    def reached(self, printed):
        """The figure of the last test that the program printed."""
        return float(re.findall(self.figure, printed)[-1])

    def check_learnt(self, printed):
        figure = self.reached(printed)
        # Of costs and errors less is better, of the area under a curve and of F1 more.
        is_score = "auc" in self.figure or "F1" in self.figure
        is_good = figure > self.limit if is_score else figure < self.limit
        assert is_good, (figure, printed)


def image_classification(network):
    return Example(
        program="image_classification/train.py",
        prepare="image_classification/generate.py --output {data}/pictures.tar.gz",
        arguments=f"--preset test --network {network} "
        "--data {data}/pictures.tar.gz --output {output}",
        batch_size=16,
        model=f"{network}_pass_00002.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.3,
        is_exact=False,
    )


CASES = {
    "fit_a_line": Example(
        program="fit_a_line/train.py",
        prepare="fit_a_line/generate.py --output {data}/housing.data",
        arguments="--preset test --data {data}/housing.data --output {output}",
        batch_size=8,
        model="fit-a-line_pass_00019.tar.gz",
        figure=rf"Test \d+, Cost {NUMBER}",
        limit=8.0,
    ),
    "word2vec": Example(
        program="word2vec/train.py",
        prepare="word2vec/prepare.py --generate --split_count 2 --output {data}",
        arguments="--preset test --drop_rate 0 --dict {data}/word_dict.pickle "
        "--train_file {data}/train_data_dir/train.txt "
        "--test_file {data}/test_data_dir/test.txt --output {output}",
        batch_size=32,
        model="word2vec_pass_00002.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.4,
    ),
    "ctr": Example(
        program="ctr/train.py",
        prepare="ctr/generate.py criteo --output {data}",
        arguments="--preset test --train_data_path {data}/train.txt "
        "--test_data_path {data}/valid.txt --model_output_dir {output}",
        batch_size=100,
        model="pass-1.tar.gz",
        figure=rf"TEST --> .*auc: {NUMBER}",
        limit=0.75,
    ),
    "wide_deep": Example(
        program="ctr/wide_deep.py",
        prepare="ctr/generate.py avazu --output {data}",
        arguments="--preset test --model_type 0 --data_meta_file {data}/data.meta.txt "
        "--train_data_path {data}/train.txt --test_data_path {data}/test.txt "
        "--model_output_prefix {output}/model",
        batch_size=100,
        model="model-pass-4.tar.gz",
        figure=rf"Test .*'auc': {NUMBER}",
        limit=0.75,
    ),
    "linear_crf": Example(
        program="sequence_tagging/train.py",
        prepare="sequence_tagging/generate.py --output {data}",
        arguments="--model linear_crf " + TAGGING,
        batch_size=8,
        model="linear_crf_pass_00002.tar.gz",
        figure=rf"Test .*F1-score': {NUMBER}",
        limit=0.93,
    ),
    "rnn_crf": Example(
        program="sequence_tagging/train.py",
        prepare="sequence_tagging/generate.py --output {data}",
        arguments="--model rnn_crf " + TAGGING,
        batch_size=8,
        model="rnn_crf_pass_00002.tar.gz",
        figure=rf"Test .*F1-score': {NUMBER}",
        limit=0.93,
    ),
    "convolution": Example(
        program="sentiment/train.py",
        prepare="sentiment/generate.py --output {data}",
        arguments="--model convolution " + SENTIMENT,
        batch_size=16,
        model="convolution_pass_00003.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.12,
    ),
    "lstm": Example(
        program="sentiment/train.py",
        prepare="sentiment/generate.py --output {data}",
        arguments="--model lstm " + SENTIMENT,
        batch_size=16,
        model="lstm_pass_00003.tar.gz",
        figure=rf"Test .*classification_error_evaluator': {NUMBER}",
        limit=0.12,
        # AdaGrad's first steps go by the sign of a gradient, also where it is rounding, and three
        # layers over one another make much of that.
        is_exact=False,
    ),
    "vgg": image_classification("vgg"),
    "resnet": image_classification("resnet"),
    "recommendation": Example(
        program="recommendation/train.py",
        prepare="recommendation/generate.py --output {data}/ml-1m.zip",
        arguments="--preset test --data {data}/ml-1m.zip --output {output}",
        batch_size=32,
        model="recommendation_pass_00004.tar.gz",
        figure=rf"Test \d+, Cost {NUMBER}",
        limit=2.2,
    ),
}

every_example = pytest.mark.parametrize("name", CASES)


class Workshop:
    """Runs examples: data is made once, and a run that several tests look at is done once."""

    def __init__(self, folder):
        self.folder = folder
        self._alone = {}
        self._together = {}

    def data(self, name):
        """The folder of an example's data."""
        folder = self.folder / name / "data"
        if not folder.exists():
            folder.mkdir(parents=True)
            self.run(CASES[name].prepare.format(data=folder))
        return folder

    def run(self, command):
        """What one program prints."""
        return processes.run_together([words(command)], [{}])[0]

    def alone(self, name):
        """Training in one process with the batches of two; what it printed, and its model."""
        if name not in self._alone:
            size = 2 * CASES[name].batch_size
            command, output = self.command(name, "alone", f"--batch_size {size}")
            self._alone[name] = self.run(command), output / CASES[name].model
        return self._alone[name]

    def together(self, name):
        """Training in sync with two servers and two trainers; the same."""
        if name not in self._together:
            self._together[name] = self.train(name, "together")
        return self._together[name]

    def train(self, name, run, more=""):
        """Training with two servers and two trainers: what trainer 0 printed, and its model."""
        command, output = self.command(name, run, more)
        serve = [processes.PADDLE, "pserver", "--port=0", "--num_gradient_servers=2"]
        start = processes.started_servers
        if name == "ctr":
            command += " --is_local 0 --cloud_train 1"
            with start(2, words(command), FLUID_SERVER) as servers:
                printed = self.run_trainers(command, servers, fluid_trainer)
        else:
            with start(2, serve) as servers:
                printed = self.run_trainers(command, servers, v2_trainer)
        return printed[0], output / CASES[name].model

    def train_with_master(self, name, recordio):
        """Training with a master beside the servers: what trainer 0 printed."""
        command, _ = self.command(name, "master", f"--recordio {self.data(name) / recordio}")
        deal = [processes.PADDLE, "master", "--port=0", "--chunk_per_task=1"]
        serve = [processes.PADDLE, "pserver", "--port=0", "--num_gradient_servers=2"]
        start = processes.started_servers
        with start(1, deal) as (master,), start(2, serve) as servers:
            def environment(addresses, rank):
                endpoint = {"PADDLE_MASTER_ENDPOINT": master.address}
                return {**v2_trainer(addresses, rank), **endpoint}

            return self.run_trainers(command, servers, environment)[0]

    def command(self, name, run, more):
        output = self.folder / name / run
        output.mkdir(parents=True)
        arguments = CASES[name].arguments.format(data=self.data(name), output=output)
        return f"{CASES[name].program} {arguments} {more}", output

    def run_trainers(self, command, servers, environment):
        addresses = ",".join(server.address for server in servers)
        environments = [environment(addresses, rank) for rank in range(2)]
        printed = processes.run_together([words(command)] * 2, environments)
        for server in servers:
            code, logged = server.end()
            assert code == 0, logged
        return printed


def words(command):
    program, *arguments = command.split()
    return [sys.executable, str(EXAMPLES / program), *arguments]


def v2_trainer(addresses, rank):
    return {
        "PADDLE_CLUSTER_TRAIN": "1",
        "PADDLE_INIT_PSERVERS": addresses,
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
        "PADDLE_INIT_TRAINER_ID": str(rank),
        "PADDLE_INIT_PORTS_NUM": "1",
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
    }


def fluid_trainer(addresses, rank):
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
        check_same(load(model), load(workshop.alone(name)[1]), ROUNDING)


@every_example
def test_it_learns_in_async_mode(workshop, name):
    printed, _ = workshop.train(name, "async", "--async_mode")
    CASES[name].check_learnt(printed)


@pytest.mark.parametrize(
    ("name", "recordio"), [("fit_a_line", "recordio/*"), ("word2vec", "recordio/train-*")]
)
def test_it_learns_from_what_a_master_deals_out(workshop, name, recordio):
    if name == "fit_a_line":
        data = workshop.data(name)
        command = f"fit_a_line/convert.py --data {data}/housing.data --output {data}/recordio"
        workshop.run(command)
    printed = workshop.train_with_master(name, recordio)
    CASES[name].check_learnt(printed)


@pytest.mark.parametrize("name", ["fit_a_line", "ctr"])
def test_trainers_with_servers_go_on_with_the_model_of_one_process(workshop, name):
    _, model = workshop.alone(name)
    more = f"--init_model {model} --num_passes 1 --learning_rate 0"
    _, unchanged = workshop.train(name, "continued", more)
    unchanged = next(unchanged.parent.glob("*pass*0.tar.gz"))
    check_same(load(unchanged), load(model), tolerance=0)


def test_prices_are_predicted_with_the_model_of_a_job(workshop):
    printed, model = workshop.together("fit_a_line")
    data = workshop.data("fit_a_line") / "housing.data"
    guesses = workshop.run(f"fit_a_line/infer.py --model {model} --data {data}")
    pairs = np.array(re.findall(rf"predicted {NUMBER}, real {NUMBER}", guesses), float)
    cost = np.mean((pairs[:, 0] - pairs[:, 1]) ** 2)
    assert cost == pytest.approx(CASES["fit_a_line"].reached(printed), rel=1e-3)


def test_clicks_are_predicted_with_the_model_of_a_job(workshop):
    printed, model = workshop.together("ctr")
    data = workshop.data("ctr") / "valid.txt"
    guesses = workshop.run(
        f"ctr/infer.py --model {model} --data_path {data} --sparse_feature_dim 10007"
    )
    chances = np.array(guesses.split(), float)
    clicks = np.array([line.startswith("1") for line in data.read_text().splitlines()])
    loss = -np.mean(np.log(np.where(clicks, chances, 1 - chances)))
    tested = float(re.findall(rf"TEST --> pass: \d+ loss: {NUMBER}", printed)[-1])
    assert loss == pytest.approx(tested, rel=1e-3)


def test_pictures_are_named_with_the_model_of_a_job(workshop):
    _, model = workshop.together("resnet")
    data = workshop.data("resnet") / "pictures.tar.gz"
    printed = workshop.run(
        f"image_classification/infer.py --model {model} --data {data} --count 100 "
        "--network resnet --filters 4 --depth 8"
    )
    pairs = re.findall(r"class (\d) with .*, real (\d)", printed)
    wrong = sum(guess != label for guess, label in pairs)
    assert len(pairs) == 100 and wrong < 100 * CASES["resnet"].limit


def test_films_are_recommended_with_the_model_of_a_job(workshop):
    _, model = workshop.together("recommendation")
    data = workshop.data("recommendation") / "ml-1m.zip"
    printed = workshop.run(f"recommendation/infer.py --model {model} --data {data} --user 3")
    stars = [float(line.split()[0]) for line in printed.splitlines()]
    assert len(stars) == 6 and sorted(stars, reverse=True) == stars
    assert stars[0] > stars[-1] + 1, printed


def test_the_word_that_follows_is_predicted_with_the_model_of_a_job(workshop):
    _, model = workshop.together("word2vec")
    dictionary = workshop.data("word2vec") / "word_dict.pickle"
    # What follows `word1` in the made-up text, four times.
    follows = follow_words("word1", 4)
    printed = workshop.run(
        f"word2vec/infer.py --model {model} --dict {dictionary} --drop_rate 0 "
        + " ".join(follows[:4])
    )
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
    data = workshop.data("linear_crf")
    found = workshop.run(
        f"sequence_tagging/infer.py --parameters {model} --train_file {data}/train.txt.gz "
        f"--file {data}/test.txt.gz"
    )
    with gzip.open(data / "test.txt.gz", "rt") as file:
        wanted = file.read()
    pairs = list(zip(found.split(), wanted.split(), strict=True))
    wrong = np.mean([own != other for own, other in pairs[2::3]])
    assert wrong == pytest.approx(float(re.findall(rf"'error': {NUMBER}", printed)[-1]), rel=1e-3)


def test_a_corpus_is_prepared_from_its_folder_and_its_archive(workshop, tmp_path):
    corpus = tmp_path / "corpus"
    workshop.run(f"word2vec/generate.py --sentences 100 --output {corpus}")
    with tarfile.open(tmp_path / "corpus.tgz", "w:gz") as archive:
        archive.add(corpus, "./simple-examples/data")
    sources = ["--generate --sentences 100", f"--source {corpus}", f"--source {corpus}.tgz"]
    prepared = []
    for number, source in enumerate(sources):
        output = tmp_path / f"prepared-{number}"
        workshop.run(f"word2vec/prepare.py {source} --min_word_freq 9 --output {output}")
        files = sorted(path for path in output.rglob("*") if path.is_file())
        prepared.append({str(path.relative_to(output)): path.read_bytes() for path in files})
    assert prepared[0] == prepared[1] == prepared[2]
    parts = [prepared[0][f"train_data_dir/train.txt-{number:05}"] for number in range(3)]
    whole = prepared[0]["train_data_dir/train.txt"].splitlines()
    assert [part.splitlines() for part in parts] == [whole[number::3] for number in range(3)]


def test_a_trainer_without_a_list_of_servers_says_what_to_set():
    command = words("ctr/train.py --is_local 0 --cloud_train 1")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "set PADDLE_PSERVERS_IP_PORT_LIST" in ended.stderr


def test_a_program_that_serves_ends_as_the_server_does():
    command = words("ctr/train.py --is_local 0 --cloud_train 1")
    with processes.started_servers(1, command, FLUID_SERVER) as servers:
        servers[0].process.terminate()
        code, logged = servers[0].end()
        assert code == 0, logged
