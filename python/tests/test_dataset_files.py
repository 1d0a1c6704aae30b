"""Data in files for many trainers, and fetching the files of data sets."""

import glob
import http.server
import marshal
import os
import pickle
import random
import threading
import types

import pytest

import recordio
from paddle import errors
from paddle.v2 import dataset, reader
from paddle.v2.dataset import common


def counting(count):
    return lambda: iter(range(count))


def loaded(paths):
    found = []
    for path in paths:
        with open(path, "rb") as file:
            found.append(pickle.load(file))
    return found


def records(path):
    return [pickle.loads(record) for record in recordio.reader(path)]


def test_samples_are_split_into_files_of_exactly_so_many(tmp_path):
    pattern = str(tmp_path / "new" / "train-%05d.pickle")
    common.split(counting(7), line_count=3, suffix=pattern)
    assert sorted(os.listdir(tmp_path / "new")) == [f"train-0000{n}.pickle" for n in range(3)]
    assert loaded([pattern % n for n in range(3)]) == [[0, 1, 2], [3, 4, 5], [6]]


def test_files_that_come_out_even_are_not_followed_by_an_empty_one(tmp_path):
    dataset.split(counting(6), 3, str(tmp_path / "%d"))
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]


def test_another_dumper_and_loader_are_used(tmp_path):
    common.split(counting(3), 2, str(tmp_path / "part-%05d"), dumper=marshal.dump)
    pattern = str(tmp_path / "part-*")
    samples = common.cluster_files_reader(pattern, 1, train_id=0, loader=marshal.load)
    assert list(samples()) == [0, 1, 2]
    with pytest.raises(TypeError, match="dumper must be a function but is str 'marshal'"):
        common.split(counting(3), 2, str(tmp_path / "%d"), dumper="marshal")
    with pytest.raises(TypeError, match="loader must be a function"):
        common.cluster_files_reader(pattern, 1, 0, loader=None)


def test_a_file_that_could_not_be_written_does_not_appear(tmp_path):
    def fail(samples, file):
        file.write(b"half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        common.split(counting(3), 2, str(tmp_path / "%d"), dumper=fail)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", ["train.pickle", "train-%05d-%05d", "train-%s-%", ""])
def test_a_suffix_without_a_number_is_refused(suffix):
    with pytest.raises(ValueError, match="suffix must have %05d"):
        common.split(counting(3), 2, suffix)


def test_converting_by_count_writes_exactly_so_many_records(tmp_path):
    output = tmp_path / "new" / "dataset"
    common.convert(str(output), counting(5), 2, "train")
    assert sorted(os.listdir(output)) == ["train-00000", "train-00001", "train-00002"]
    assert [records(output / f"train-0000{n}") for n in range(3)] == [[0, 1], [2, 3], [4]]
    record = next(iter(recordio.reader(output / "train-00000")))
    assert record == pickle.dumps(0, pickle.HIGHEST_PROTOCOL)


def test_converting_to_shards_shuffles_and_deals_out(tmp_path):
    random.seed(5)
    dataset.convert(output_path=tmp_path, reader=counting(25), num_shards=10, name_prefix="housing")
    names = [f"housing-{n:05}-of-00009" for n in range(10)]
    assert sorted(os.listdir(tmp_path)) == names
    shards = [records(tmp_path / name) for name in names]
    assert [len(shard) for shard in shards] == [3] * 5 + [2] * 5
    assert sorted(sum(shards, [])) == list(range(25))
    assert [shard[0] for shard in shards] != list(range(10))


def test_the_older_form_of_convert_is_told_by_its_fifth_argument(tmp_path):
    common.convert(tmp_path, counting(4), 2, "old", 1)
    assert [records(tmp_path / f"old-0000{n}-of-00001") for n in range(2)] == [[0, 2], [1, 3]]


def test_more_shards_than_samples_leave_files_without_records(tmp_path):
    common.convert(tmp_path, counting(1), num_shards=2, name_prefix="a")
    assert [records(tmp_path / f"a-0000{n}-of-00001") for n in range(2)] == [[0], []]


def test_a_conversion_that_fails_leaves_no_shard(tmp_path):
    def failing():
        yield from range(3)
        raise OSError("the disk is gone")

    with pytest.raises(OSError):
        common.convert(tmp_path, failing, num_shards=2, name_prefix="a")
    assert os.listdir(tmp_path) == []


def test_a_reader_without_samples_is_a_mistake(tmp_path):
    with pytest.raises(ValueError, match="the reader gave no sample to write"):
        common.split(counting(0), 2, str(tmp_path / "%d"))
    with pytest.raises(ValueError, match="the reader gave no sample to write"):
        common.convert(tmp_path, counting(0), num_shards=2, name_prefix="a")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "arguments", [{}, {"line_count": 2}, {"name_prefix": "a"}, {"line_count": 2, "num_shards": 2}]
)
def test_convert_says_what_it_needs(tmp_path, arguments):
    with pytest.raises(TypeError, match="either line_count"):
        common.convert(tmp_path, counting(2), **arguments)


def test_trainers_share_the_files_by_their_sorted_places(tmp_path, caplog):
    # Sorted as bytes: capitals first, é last.
    for name in ["é", "a", "B", "a-1", "a_1"]:
        (tmp_path / name).write_bytes(pickle.dumps([name]))
    pattern = str(tmp_path / "*")
    shares = [list(common.cluster_files_reader(pattern, 2, rank)()) for rank in range(2)]
    assert shares == [["B", "a-1", "é"], ["a", "a_1"]]
    assert f"append file: {tmp_path / 'a-1'}\n" in caplog.text


def test_every_file_goes_to_one_trainer(tmp_path):
    common.convert(tmp_path, counting(11), 1, "part")
    pattern = str(tmp_path / "part-*")
    shares = [common.cluster_files(pattern, 3, rank) for rank in range(3)]
    assert [len(share) for share in shares] == [4, 4, 3]
    assert sorted(sum(shares, [])) == sorted(glob.glob(pattern))
    assert list(reader.creator.recordio(shares[1])()) == [1, 4, 7, 10]


def test_fewer_files_than_trainers_are_a_warning_that_names_the_idle(tmp_path):
    common.split(counting(2), 1, str(tmp_path / "%d"))
    with pytest.warns(UserWarning, match="2 files for 5 trainers: trainers 2 to 4 get nothing"):
        assert list(common.cluster_files_reader(str(tmp_path / "*"), 5, 4)()) == []
    with pytest.warns(UserWarning, match="trainer 2 gets nothing"):
        assert list(common.cluster_files_reader(str(tmp_path / "*"), 3, 0)()) == [0]


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path):
    samples = common.cluster_files_reader(str(tmp_path / "train-*.pickle"), 1, 0)
    with pytest.raises(FileNotFoundError, match=r"no file matches .*train-\*\.pickle"):
        list(samples())


def test_a_rank_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="trainer_id must be less than trainer_count"):
        common.cluster_files_reader("*", 2, 2)
    with pytest.raises(TypeError, match="needs trainer_id"):
        common.cluster_files_reader("*", 2)
    with pytest.raises(TypeError, match="needs trainer_id"):
        common.cluster_files_reader("*", 2, trainer_id=0, train_id=0)


CONTENT = b"what is in the file" * 10
MD5 = "d2d8e9e49cbce2a1e79f3d8bd1a3b5f7"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def server():
    """A web server that gives the answers that it is told to give, and counts them."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = site.answers.pop(0)
            site.asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", len(CONTENT))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        url = f"http://127.0.0.1:{running.server_port}/data%2Fsmall.tgz"
        site = types.SimpleNamespace(url=url, answers=[], asked=[])
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield site
        running.shutdown()
        thread.join()


def md5_of(data, folder):
    path = folder / "content"
    path.write_bytes(data)
    return common.md5file(path)


def test_the_checksum_of_a_file_is_its_md5(tmp_path):
    assert md5_of(b"hello", tmp_path) == "5d41402abc4b2a76b9719d911017c592"


def test_a_file_is_fetched_once(home, server, tmp_path):
    md5 = md5_of(CONTENT, tmp_path)
    server.answers = [(200, CONTENT)]
    path = common.download(server.url, "small", md5)
    assert path == str(home / "small" / "small.tgz")
    assert common.download(server.url, "small", md5) == path
    assert server.asked == ["/data%2Fsmall.tgz"]
    assert (home / "small" / "small.tgz").read_bytes() == CONTENT


def test_fetching_is_tried_three_times(home, server, tmp_path):
    md5 = md5_of(CONTENT, tmp_path)
    # An error, half of the file, and then the file.
    server.answers = [(503, CONTENT), (200, CONTENT[:5]), (200, CONTENT)]
    path = common.download(server.url, "small", md5, "renamed.tgz")
    assert os.listdir(home / "small") == ["renamed.tgz"]
    assert common.md5file(path) == md5


def test_a_file_with_another_checksum_is_refused_and_the_old_one_kept(home, server, tmp_path):
    (home / "small").mkdir(parents=True)
    (home / "small" / "small.tgz").write_bytes(b"another version")
    server.answers = [(200, bytes(len(CONTENT)))] * 3
    with pytest.raises(ConnectionError, match="what was fetched has the checksum"):
        common.download(server.url, "small", md5_of(CONTENT, tmp_path))
    assert len(server.asked) == 3
    assert os.listdir(home / "small") == ["small.tgz"]
    assert (home / "small" / "small.tgz").read_bytes() == b"another version"


def test_without_a_network_the_error_says_where_to_put_the_file(home, monkeypatch):
    # Nobody listens on port 0.
    url = "http://127.0.0.1:0/data/small.tgz"
    with pytest.raises(errors.UnavailableError) as caught:
        common.download(url, "small", MD5)
    text = str(caught.value)
    assert f"put the file into its place by hand (file: {home}/small/small.tgz" in text
    assert url in text and MD5 in text


def test_a_misspelt_data_set_gets_a_suggestion():
    with pytest.raises(AttributeError, match="did you mean 'mnist'"):
        dataset.minist
