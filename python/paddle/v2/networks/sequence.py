"""Ready-made networks over sequences; users find them in `paddle.networks`."""

from typing import Any

from paddle.v2 import layer, mistake, naming
from paddle.v2.layer.base import Layer


@mistake.checked_arguments
def sequence_conv_pool(
    input: Layer,
    context_len: int,
    hidden_size: int,
    name: str | None = None,
    context_start: int | None = None,
    pool_type: object = None,
    context_proj_layer_name: str | None = None,
    context_proj_param_attr: object = False,
    fc_layer_name: str | None = None,
    fc_param_attr: object = None,
    fc_bias_attr: object = None,
    fc_act: object = None,
    pool_bias_attr: object = None,
    fc_attr: object = None,
    context_attr: object = None,
    pool_attr: object = None,
) -> Layer:
    """Convolution over text: each row with its neighbours, a fc layer over them, and pooling."""
    name = naming.choose(name, "sequence_conv_pooling")
    context = layer.context_projection(
        input=input,
        context_len=context_len,
        context_start=context_start,
        padding_attr=context_proj_param_attr,
    )
    beside = layer.mixed(
        input=context,
        name=context_proj_layer_name or f"{name}_conv_proj",
        layer_attr=context_attr,
    )
    hidden = layer.fc(
        input=beside,
        size=hidden_size,
        act=fc_act,
        name=fc_layer_name or f"{name}_conv_fc",
        param_attr=fc_param_attr,
        bias_attr=fc_bias_attr,
        layer_attr=fc_attr,
    )
    return layer.pooling(
        input=hidden,
        pooling_type=pool_type,
        name=name,
        bias_attr=pool_bias_attr,
        layer_attr=pool_attr,
    )


text_conv_pool = sequence_conv_pool


@mistake.checked_arguments
def simple_lstm(
    input: Layer,
    size: int,
    name: str | None = None,
    reverse: bool = False,
    mat_param_attr: object = None,
    bias_param_attr: object = None,
    inner_param_attr: object = None,
    act: object = None,
    gate_act: object = None,
    state_act: object = None,
    mixed_layer_attr: object = None,
    lstm_cell_attr: object = None,
) -> Layer:
    """A projection of the input and `lstmemory` over it, `size` wide."""
    name = naming.choose(name, "lstm")
    projected = layer.mixed(
        size=4 * mistake.whole("size", size),
        input=layer.full_matrix_projection(input=input, param_attr=mat_param_attr),
        name=f"lstm_transform_{name}",
        layer_attr=mixed_layer_attr,
    )
    return layer.lstmemory(
        input=projected,
        name=name,
        reverse=reverse,
        act=act,
        gate_act=gate_act,
        state_act=state_act,
        bias_attr=bias_param_attr,
        param_attr=inner_param_attr,
        layer_attr=lstm_cell_attr,
    )


@mistake.checked_arguments
def simple_gru(
    input: Layer,
    size: int,
    name: str | None = None,
    reverse: bool = False,
    mixed_param_attr: object = None,
    mixed_bias_param_attr: object = None,
    mixed_layer_attr: object = None,
    gru_bias_attr: object = None,
    gru_param_attr: object = None,
    act: object = None,
    gate_act: object = None,
    gru_layer_attr: object = None,
    naive: bool = False,
) -> Layer:
    """A projection of the input and `grumemory` over it, `size` wide.

    `naive` chose between two ways to compute the same; it is ignored.
    """
    mistake.truth("naive", naive)
    return simple_gru2(
        input=input,
        size=size,
        name=naming.choose(name, "simple_gru"),
        reverse=reverse,
        mixed_param_attr=mixed_param_attr,
        mixed_bias_attr=mixed_bias_param_attr,
        gru_param_attr=gru_param_attr,
        gru_bias_attr=gru_bias_attr,
        act=act,
        gate_act=gate_act,
        mixed_layer_attr=mixed_layer_attr,
        gru_cell_attr=gru_layer_attr,
    )


@mistake.checked_arguments
def simple_gru2(
    input: Layer,
    size: int,
    name: str | None = None,
    reverse: bool = False,
    mixed_param_attr: object = None,
    mixed_bias_attr: object = None,
    gru_param_attr: object = None,
    gru_bias_attr: object = None,
    act: object = None,
    gate_act: object = None,
    mixed_layer_attr: object = None,
    gru_cell_attr: object = None,
) -> Layer:
    """The same as `simple_gru`, under the names of the original's faster one."""
    name = naming.choose(name, "simple_gru2")
    projected = layer.mixed(
        size=3 * mistake.whole("size", size),
        input=layer.full_matrix_projection(input=input, param_attr=mixed_param_attr),
        name=f"{name}_transform",
        bias_attr=mixed_bias_attr,
        layer_attr=mixed_layer_attr,
    )
    return layer.grumemory(
        input=projected,
        name=name,
        reverse=reverse,
        act=act,
        gate_act=gate_act,
        bias_attr=gru_bias_attr,
        param_attr=gru_param_attr,
        layer_attr=gru_cell_attr,
    )


@mistake.checked_arguments
def bidirectional_lstm(
    input: Layer,
    size: int,
    name: str | None = None,
    return_seq: bool = False,
    fwd_mat_param_attr: object = None,
    fwd_bias_param_attr: object = None,
    fwd_inner_param_attr: object = None,
    fwd_act: object = None,
    fwd_gate_act: object = None,
    fwd_state_act: object = None,
    fwd_mixed_layer_attr: object = None,
    fwd_lstm_cell_attr: object = None,
    bwd_mat_param_attr: object = None,
    bwd_bias_param_attr: object = None,
    bwd_inner_param_attr: object = None,
    bwd_act: object = None,
    bwd_gate_act: object = None,
    bwd_state_act: object = None,
    bwd_mixed_layer_attr: object = None,
    bwd_lstm_cell_attr: object = None,
    last_seq_attr: object = None,
    first_seq_attr: object = None,
    concat_attr: object = None,
    concat_act: object = None,
) -> Layer:
    """Two `simple_lstm`, one of them reversed, side by side.

    With `return_seq` for every row, else where each has seen the whole sequence.
    """
    given = locals()
    name = naming.choose(name, "bidirectional_lstm")
    ways = _two_ways(simple_lstm, name, given)
    return _joined(name, ways, given)


@mistake.checked_arguments
def bidirectional_gru(
    input: Layer,
    size: int,
    name: str | None = None,
    return_seq: bool = False,
    fwd_mixed_param_attr: object = None,
    fwd_mixed_bias_attr: object = None,
    fwd_gru_param_attr: object = None,
    fwd_gru_bias_attr: object = None,
    fwd_act: object = None,
    fwd_gate_act: object = None,
    fwd_mixed_layer_attr: object = None,
    fwd_gru_cell_attr: object = None,
    bwd_mixed_param_attr: object = None,
    bwd_mixed_bias_attr: object = None,
    bwd_gru_param_attr: object = None,
    bwd_gru_bias_attr: object = None,
    bwd_act: object = None,
    bwd_gate_act: object = None,
    bwd_mixed_layer_attr: object = None,
    bwd_gru_cell_attr: object = None,
    last_seq_attr: object = None,
    first_seq_attr: object = None,
    concat_attr: object = None,
    concat_act: object = None,
) -> Layer:
    """Two `simple_gru2`, one of them reversed, side by side; `return_seq` as for LSTM."""
    given = locals()
    name = naming.choose(name, "bidirectional_gru")
    ways = _two_ways(simple_gru2, name, given)
    return _joined(name, ways, given)


def _two_ways(network: Any, name: str, given: dict[str, Any]) -> list[Layer]:
    """The network forwards and backwards; its arguments are those that begin with the way."""
    ways = []
    for prefix, suffix in (("fwd_", "fw"), ("bwd_", "bw")):
        own = {key[len(prefix) :]: each for key, each in given.items() if key.startswith(prefix)}
        ways.append(
            network(
                input=given["input"],
                size=given["size"],
                name=f"{name}_{suffix}",
                reverse=suffix == "bw",
                **own,
            )
        )
    return ways


def _joined(name: str, ways: list[Layer], given: dict[str, Any]) -> Layer:
    forwards, backwards = ways
    if not mistake.truth("return_seq", given["return_seq"]):
        forwards = layer.last_seq(
            input=forwards, name=f"{name}_fw_last", layer_attr=given["last_seq_attr"]
        )
        backwards = layer.first_seq(
            input=backwards, name=f"{name}_bw_last", layer_attr=given["first_seq_attr"]
        )
    return layer.concat(
        input=[forwards, backwards],
        name=name,
        act=given["concat_act"],
        layer_attr=given["concat_attr"],
    )
