"""LSTM and GRU cells as steps of recurrent groups: what a step needs of them, and whole groups.

`simple_lstm` and `simple_gru` compute the same faster; these are for steps that do more, or that
look at the cells' state.
"""

from typing import Any

from paddle.v2 import layer, mistake, naming
from paddle.v2.layer.base import Layer, one


@mistake.checked_arguments
def lstmemory_unit(
    input: Layer,
    out_memory: Layer | None = None,
    name: str | None = None,
    size: int | None = None,
    param_attr: object = None,
    act: object = None,
    gate_act: object = None,
    state_act: object = None,
    input_proj_bias_attr: object = None,
    input_proj_layer_attr: object = None,
    lstm_bias_attr: object = None,
    lstm_layer_attr: object = None,
) -> Layer:
    """In a step: LSTM cells over `input`, which has a part for each gate.

    Their state is the layer `<name>_state`. `out_memory` is what they gave before, a memory of
    `name` if left out.
    """
    name = naming.choose(name, "lstmemory_unit")
    cells = _cells(input, size, 4)
    before = layer.memory(name=name, size=cells) if out_memory is None else out_memory
    state = layer.memory(name=f"{name}_state", size=cells)
    sums = layer.mixed(
        size=4 * cells,
        input=[
            layer.identity_projection(input=input),
            layer.full_matrix_projection(input=before, param_attr=param_attr),
        ],
        bias_attr=input_proj_bias_attr,
        layer_attr=input_proj_layer_attr,
        name=f"{name}_input_recurrent",
    )
    output = layer.lstm_step(
        input=sums,
        state=state,
        size=cells,
        act=act,
        gate_act=gate_act,
        state_act=state_act,
        bias_attr=lstm_bias_attr,
        layer_attr=lstm_layer_attr,
        name=name,
    )
    layer.get_output(input=output, arg_name="state", name=f"{name}_state")
    return output


@mistake.checked_arguments
def lstmemory_group(
    input: Layer,
    size: int | None = None,
    name: str | None = None,
    out_memory: Layer | None = None,
    reverse: bool = False,
    param_attr: object = None,
    act: object = None,
    gate_act: object = None,
    state_act: object = None,
    input_proj_bias_attr: object = None,
    input_proj_layer_attr: object = None,
    lstm_bias_attr: object = None,
    lstm_layer_attr: object = None,
) -> Layer:
    """A recurrent group of `lstmemory_unit` over a sequence."""
    return _group(lstmemory_unit, "lstm_group", locals())


@mistake.checked_arguments
def gru_unit(
    input: Layer,
    memory_boot: Layer | None = None,
    size: int | None = None,
    name: str | None = None,
    gru_bias_attr: object = None,
    gru_param_attr: object = None,
    act: object = None,
    gate_act: object = None,
    gru_layer_attr: object = None,
    naive: bool = False,
) -> Layer:
    """In a step: GRU cells over `input`, which has a part for each gate and the candidate.

    They begin with `memory_boot`. `naive` chose between two ways to compute the same; it is
    ignored.
    """
    mistake.truth("naive", naive)
    name = naming.choose(name, "gru_unit")
    cells = _cells(input, size, 3)
    before = layer.memory(name=name, size=cells, boot_layer=memory_boot)
    return layer.gru_step(
        input=input,
        output_mem=before,
        size=cells,
        act=act,
        gate_act=gate_act,
        bias_attr=gru_bias_attr,
        param_attr=gru_param_attr,
        layer_attr=gru_layer_attr,
        name=name,
    )


@mistake.checked_arguments
def gru_group(
    input: Layer,
    memory_boot: Layer | None = None,
    size: int | None = None,
    name: str | None = None,
    reverse: bool = False,
    gru_bias_attr: object = None,
    gru_param_attr: object = None,
    act: object = None,
    gate_act: object = None,
    gru_layer_attr: object = None,
    naive: bool = False,
) -> Layer:
    """A recurrent group of `gru_unit` over a sequence."""
    return _group(gru_unit, "gru_group", locals())


def _group(unit: Any, prefix: str, given: dict[str, Any]) -> Layer:
    """A recurrent group whose step is a unit; `given` are the group's arguments."""
    name = naming.choose(given["name"], prefix)
    own = {key: each for key, each in given.items() if key not in ("input", "name", "reverse")}
    group: Layer = layer.recurrent_group(
        step=lambda row: unit(input=row, name=name, **own),
        input=given["input"],
        reverse=given["reverse"],
        name=f"{name}_recurrent_group",
    )
    return group


def _cells(input: object, size: object, parts: int) -> int:
    """How many cells there are: as many as given, else the size of one part of the input."""
    given = one("input", input).size
    if size is not None:
        return mistake.whole("size", size)
    if given % parts:
        raise mistake.invalid(
            f"the input has size {given}, which is not {parts} times the number of cells"
        )
    return given // parts
