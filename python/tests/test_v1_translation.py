"""The original's seqToseq in V1: a group with attention is trained, and `--job=test` searches
sentences, which a printer writes."""

import random

from v1_programs import figures, train

NETWORK = """\
from paddle.trainer_config_helpers import *

SIZE = 32


def describe(is_generating):
    words = len(open("source.dict").readlines())
    targets = len(open("target.dict").readlines())
    if is_generating:
        train_list, test_list = None, "gen.list"
    else:
        train_list, test_list = "train.list", "test.list"
    define_py_data_sources2(
        train_list, test_list, module="dataprovider", obj="process",
        args={"is_generating": is_generating, "words": words, "targets": targets},
    )
    source = data_layer(name="source_language_word", size=words)
    embedded = embedding_layer(input=source, size=SIZE, param_attr=ParamAttr(name="_source"))
    forward = simple_gru(input=embedded, size=SIZE)
    backward = simple_gru(input=embedded, size=SIZE, reverse=True)
    encoded = concat_layer(input=[forward, backward])
    with mixed_layer(size=SIZE) as projected:
        projected += full_matrix_projection(input=encoded)
    with mixed_layer(size=SIZE, act=TanhActivation()) as boot:
        boot += full_matrix_projection(input=first_seq(input=backward))

    def step(encoded, projected, word):
        state = memory(name="gru_decoder", size=SIZE, boot_layer=boot)
        context = simple_attention(
            encoded_sequence=encoded, encoded_proj=projected, decoder_state=state
        )
        with mixed_layer(size=SIZE * 3) as gates:
            gates += full_matrix_projection(input=context)
            gates += full_matrix_projection(input=word)
        made = gru_step_layer(name="gru_decoder", input=gates, output_mem=state, size=SIZE)
        with mixed_layer(size=targets, bias_attr=True, act=SoftmaxActivation()) as out:
            out += full_matrix_projection(input=made)
        return out

    seen = [StaticInput(input=encoded, is_seq=True), StaticInput(input=projected, is_seq=True)]
    if not is_generating:
        target = data_layer(name="target_language_word", size=targets)
        embedded = embedding_layer(input=target, size=SIZE, param_attr=ParamAttr(name="_target"))
        decoder = recurrent_group(name="decoder_group", step=step, input=[*seen, embedded])
        following = data_layer(name="target_language_next_word", size=targets)
        outputs(classification_cost(input=decoder, label=following))
        return
    word = GeneratedInput(size=targets, embedding_name="_target", embedding_size=SIZE)
    found = beam_search(
        name="decoder_group", step=step, input=[*seen, word], bos_id=0, eos_id=1, beam_size=3,
        max_length=10,
    )
    seqtext_printer_evaluator(
        input=found, id_input=data_layer(name="sent_id", size=1), dict_file="target.dict",
        result_file="gen_result",
    )
    outputs(found)
"""

PROVIDER = """\
from paddle.trainer.PyDataProvider2 import *


def hook(settings, is_generating, words, targets, file_list, **kwargs):
    settings.is_generating = is_generating
    settings.source = {word.strip(): place for place, word in enumerate(open("source.dict"))}
    settings.target = {word.strip(): place for place, word in enumerate(open("target.dict"))}
    if is_generating:
        settings.slots = {
            "source_language_word": integer_value_sequence(words),
            "sent_id": integer_value_sequence(len(open(file_list[0]).readlines())),
        }
    else:
        settings.slots = {
            "source_language_word": integer_value_sequence(words),
            "target_language_word": integer_value_sequence(targets),
            "target_language_next_word": integer_value_sequence(targets),
        }


@provider(init_hook=hook, pool_size=50000)
def process(settings, file_name):
    with open(file_name) as file:
        for number, line in enumerate(file):
            source, *target = line.rstrip("\\n").split("\\t")
            words = [0, *(settings.source[word] for word in source.split()), 1]
            if settings.is_generating:
                yield {"source_language_word": words, "sent_id": [number]}
                continue
            said = [settings.target[word] for word in target[0].split()]
            yield {
                "source_language_word": words,
                "target_language_word": [0, *said],
                "target_language_next_word": [*said, 1],
            }
"""

CONFIGURATION = """\
from network import *

settings(batch_size={batch_size}, learning_rate=1e-2, learning_method=AdamOptimizer())
describe({is_generating})
"""


def write(folder):
    draw = random.Random(1)
    words = list("abcde")

    def sentence():
        return [draw.choice(words) for _ in range(draw.randrange(1, 4))]

    (folder / "network.py").write_text(NETWORK)
    (folder / "dataprovider.py").write_text(PROVIDER)
    for name, size, is_generating in (("train.conf", 50, False), ("gen.conf", 1, True)):
        text = CONFIGURATION.format(batch_size=size, is_generating=is_generating)
        (folder / name).write_text(text)
    for name, known in (("source", words), ("target", [word.upper() for word in words])):
        (folder / f"{name}.dict").write_text("\n".join(["<s>", "<e>", "<unk>", *known]) + "\n")
    for name, count in (("train", 1500), ("test", 50)):
        said = (" ".join(sentence()) for _ in range(count))
        (folder / name).write_text("".join(f"{text}\t{text.upper()}\n" for text in said))
    asked = [" ".join(sentence()) for _ in range(6)]
    (folder / "gen").write_text("".join(f"{text}\n" for text in asked))
    for name in ("train", "test", "gen"):
        (folder / f"{name}.list").write_text(f"{name}\n")
    return asked


def test_sentences_are_translated(tmp_path):
    asked = write(tmp_path)
    flags = ("--save_dir=model", "--num_passes=4", "--dot_period=0")
    log = train(tmp_path, "--config=train.conf", *flags)
    assert figures(log, r"Test samples=50 cost=([-+.\de]+)")[-1] < 0.3
    log = train(tmp_path, "--job=test", "--config=gen.conf", "--test_pass=3", *flags[:2])
    assert "Pass=3 samples=6 " in log
    written = (tmp_path / "gen_result").read_text().split("\n\n")
    assert written.pop() == ""
    found = []
    for number, text in enumerate(written):
        first, *sentences = text.split("\n")
        assert first == str(number)
        rows = [line.split("\t") for line in sentences]
        assert [row[0] for row in rows] == ["0", "1", "2"]
        scores = [float(row[1]) for row in rows]
        assert scores == sorted(scores, reverse=True)
        found.append(rows[0][2])
    assert found == [f"{text.upper()} <e>" for text in asked]
