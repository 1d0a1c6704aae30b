"""A layer as the user holds it, and how one comes to be: description → native plan → sizes.

What a layer gives and needs is decided by the engine. Here its answer is joined with what the user
said of the parameters.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from paddle.v2 import activation, attr, mistake
from paddle.v2.data_type import InputType
from paddle.v2.layer import planning, scope

if TYPE_CHECKING:
    from paddle.v2.evaluator import Evaluator

_serials = itertools.count()


@dataclasses.dataclass(frozen=True)
class Parameter:
    """What a layer needs to learn: size, first values, and what the user said of it."""

    name: str
    dims: tuple[int, int]
    initializer: dict[str, Any]
    attr: attr.ParamAttr
    layer: str
    place: str


@dataclasses.dataclass(frozen=True)
class Finish:
    """What is added to a layer's output: bias, activation, dropout."""

    act: object = None
    bias_attr: object = False
    layer_attr: object = None
    default_act: type[activation.BaseActivation] = activation.Linear
    has_bias: bool = False

    def describe(self) -> dict[str, Any]:
        """The part of a layer's description that says so."""
        extra = attr.extra(self.layer_attr)
        return {
            "activation": activation.name_of(self.act, self.default_act),
            "has_bias": self.bias() is not None,
            "drop_rate": extra.drop_rate or 0.0,
            "error_clip": extra.error_clipping_threshold,
        }

    def bias(self) -> attr.ParamAttr | None:
        """What the user said of the bias; None for no bias."""
        return attr.bias(self.bias_attr, self.has_bias)


class Layer:
    """A layer: what layer functions return and take.

    name, size, place (file:line of the user's call), parents, parameters (by name), evaluators, and
    shape, the engine's words for its output.
    """

    name: str
    place: str
    parents: tuple["Layer", ...]
    parameters: dict[str, Parameter]
    evaluators: list["Evaluator"]
    # What it gives beside its output, by name: a layer, and the first of its columns and how many.
    others: dict[str, tuple["Layer", tuple[int, int]]]
    # Its inputs as V1 counts them, if that is another order: of a group, as its step needs them.
    sources: Sequence["Layer"] | None = None
    # The step that it was made in.
    within: scope.Scope | None
    type: InputType | None = None
    shown_activation: str | None = None

    mistaken_as: ClassVar[str] = "a layer"

    def __init__(
        self,
        description: Mapping[str, Any],
        parents: Sequence["Layer"],
        said: Mapping[str, attr.ParamAttr],
    ) -> None:
        """`said` is what the user said of its parameters, by slot: `w0`, `wbias`."""
        self.name = description["name"]
        self.place = description["place"]
        self.evaluators = []
        self.others = {}
        self._plan(description, parents, said)

    def _plan(
        self,
        description: Mapping[str, Any],
        parents: Sequence["Layer"],
        said: Mapping[str, attr.ParamAttr],
    ) -> None:
        self.within = scope.current()
        for parent in parents:
            scope.check_visible(parent, self.within)
        asked = {**description, "inputs": [parent.name for parent in parents], "parameters": []}
        plan = planning.plan_layer(asked, [parent.shape for parent in parents])
        # Layers are made after their inputs, so this order is one in which they can be computed.
        self.serial = next(_serials)
        self.parents = tuple(parents)
        self.shape: dict[str, Any] = plan["shape"]
        self.parameters = {}
        self.slots: dict[str, str] = {}
        for slot in plan["parameters"]:
            attribute = said.get(slot["name"], attr.ParamAttr())
            parameter = self._parameter(slot, attribute)
            self.slots[slot["name"]] = parameter.name
            check_shared(self.parameters.setdefault(parameter.name, parameter), parameter)
        self._description = {**asked, "parameters": list(self.slots.values())}
        self._enter()

    def _enter(self) -> None:
        """Tells the step in which it was made, if it was."""
        if self.within is not None:
            self.within.add(self)

    def _stand_for(self, name: str, shape: dict[str, Any]) -> None:
        """Fills in a layer that is not computed: its shape is all that is known of it."""
        self.name = name
        self.place = mistake.place()
        self.shape = shape
        self.parents = ()
        self.parameters = {}
        self.slots = {}
        self.evaluators = []
        self.others = {}
        self.serial = next(_serials)
        self.within = scope.current()
        self._description = {"kind": "seen", "activation": "linear"}
        self._enter()

    @property
    def size(self) -> int:
        """Columns of its output, or how many ids are possible; 0 for keys without a bound."""
        return int(self.shape["size"])

    @property
    def num_filters(self) -> int | None:
        """Channels of its pictures; None where it is not known to give pictures."""
        frame = self.shape.get("frame")
        if frame is None:
            return None
        height, width = frame
        return self.size // (int(self.shape.get("depth", 1)) * int(height) * int(width))

    def widen(self, size: int) -> None:
        """Makes ids up to `size` possible in a data layer."""
        if self.type is None:
            raise TypeError("only a data layer can be widened")
        self.type = dataclasses.replace(self.type, dim=size)
        self.shape = {**self.shape, "size": size}
        attributes = {**self._description["attributes"], "size": size}
        self._description = {**self._description, "attributes": attributes}

    @property
    def kind(self) -> str:
        """What the engine calls it."""
        return str(self._description["kind"])

    @property
    def activation(self) -> str:
        """The engine's name of its activation; of a group, of that in its step."""
        return self.shown_activation or str(self._description["activation"])

    def describe(self) -> dict[str, Any]:
        """Its description, as the engine reads it."""
        return dict(self._description)

    def _parameter(self, slot: Mapping[str, Any], said: attr.ParamAttr) -> Parameter:
        name = said.name or f"_{self.name}.{slot['name']}"
        rows, columns = slot["dims"]
        if said.sparse_update and slot["key_input"] is None:
            raise mistake.invalid(
                f"parameter {name!r} has sparse_update but is not looked up by the ids of a data "
                "layer; use it on an embedding, a table projection or a fc over integer or sparse "
                "data",
                layer=self.name,
            )
        if rows == 0 and not said.sparse_update:
            raise mistake.invalid(
                f"parameter {name!r} is looked up by keys without a bound; set sparse_update=True "
                "in its ParamAttr, or give the data type a size",
                layer=self.name,
            )
        if slot["is_measured"]:
            said = dataclasses.replace(said, is_static=True)
        first_values = said.initial(slot["initial"])
        return Parameter(name, (rows, columns), first_values, said, self.name, self.place)

    def __repr__(self) -> str:
        return f"<{self.kind} layer {self.name!r} of size {self.size}, {self.place}>"

    def __add__(self, other: object) -> "Layer":
        from paddle.v2 import op

        return op.add(self, other)

    __radd__ = __add__

    def __sub__(self, other: object) -> "Layer":
        from paddle.v2 import op

        return op.subtract(self, other)

    def __rsub__(self, other: object) -> "Layer":
        from paddle.v2 import op

        return op.add(op.negate(self), other)

    def __mul__(self, other: object) -> "Layer":
        from paddle.v2 import op

        return op.multiply(self, other)

    __rmul__ = __mul__

    def __neg__(self) -> "Layer":
        from paddle.v2 import op

        return op.negate(self)


def check_shared(first: Parameter, second: Parameter) -> None:
    """Checks that two uses of a name can be one parameter."""
    if first.dims == second.dims:
        return
    uses = " but ".join(
        f"{rows} x {columns} in layer {use.layer!r} ({use.place})"
        for use in (first, second)
        for rows, columns in [use.dims]
    )
    raise mistake.invalid(
        f"parameter {first.name!r} is {uses}; layers share a parameter only if its size is the "
        "same in both: rename one, or make their inputs and sizes equal"
    )


def describe(
    name: str, kind: str, finish: Finish, attributes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The description of a layer at the user's line."""
    return {
        "name": scope.qualify(name),
        "kind": kind,
        "attributes": dict(attributes or {}),
        "place": mistake.place(),
        **finish.describe(),
    }


def make(
    description: Mapping[str, Any],
    parents: Sequence[Layer],
    finish: Finish | None = None,
    weights: Sequence[attr.ParamAttr] = (),
) -> Layer:
    """A layer of its description; `weights` come in the order of the inputs."""
    return Layer(description, parents, by_slot(weights, finish))


def plain(
    kind: str,
    name: str,
    parents: Sequence[Layer],
    attributes: Mapping[str, Any] | None = None,
    layer_attr: object = None,
) -> Layer:
    """A layer without parameters and activation."""
    return make(describe(name, kind, Finish(layer_attr=layer_attr), attributes), parents)


def by_slot(weights: Sequence[attr.ParamAttr], finish: Finish | None) -> dict[str, attr.ParamAttr]:
    """What the user said of parameters, by the names that the engine has for them in a layer."""
    said = {f"w{place}": weight for place, weight in enumerate(weights)}
    bias = finish.bias() if finish else None
    return said if bias is None else {**said, "wbias": bias}


def one(name: str, value: object) -> Layer:
    """What a user gave as the argument `name`, which must be one layer."""
    if isinstance(value, Layer):
        return value
    if isinstance(value, (list, tuple)):
        raise mistake.wrong_type(f"{name} must be one layer but is a {type(value).__name__}")
    raise mistake.wrong_type(f"{name} must be a layer but is {mistake.kind_of(value)}")


def several(name: str, value: object) -> list[Layer]:
    """What a user gave as the argument `name`, which must be a layer or a list of layers."""
    if isinstance(value, Layer):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise mistake.wrong_type(
            f"{name} must be a layer or a list of layers but is {mistake.kind_of(value)}"
        )
    layers = list(value)
    if not layers:
        raise mistake.invalid(f"{name} is empty; give at least one layer")
    return [one(f"{name}[{place}]", layer) for place, layer in enumerate(layers)]


def optional(name: str, value: object) -> list[Layer]:
    """What a user gave as the argument `name`: a layer, or None for none."""
    return [] if value is None else [one(name, value)]


def widen_label(label: Layer, classes: int) -> None:
    """Gives a label of `integer_value(1)`, as programs of the original have it, all classes."""
    if label.type is not None and label.shape["value"] == "integer" and label.size == 1 < classes:
        label.widen(classes)


def weight_attributes(value: object, inputs: int) -> list[attr.ParamAttr]:
    """What a user gave as `param_attr`: one for all inputs, or one for each."""
    if not isinstance(value, (list, tuple)):
        # If it has a name the inputs share one parameter, whose size is checked.
        return [attr.param("param_attr", value)] * inputs
    if len(value) != inputs:
        raise mistake.invalid(
            f"param_attr has {len(value)} entries but there are {inputs} inputs; give one "
            "ParamAttr for all, or one for each"
        )
    return [attr.param(f"param_attr[{place}]", said) for place, said in enumerate(value)]
