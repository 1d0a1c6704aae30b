"""What tests of ONNX files share: values for parameters, and files that ONNX Runtime has opened."""

import onnxruntime

import paddle.v2 as paddle


def parameters_by_chance(layers, draw):
    """Parameters with values that let deep networks neither vanish nor explode."""
    topology = paddle.topology.Topology(layers)
    parameters = paddle.parameters.create(topology)
    for each in topology.descriptions():
        shape = parameters.get_shape(each["name"])
        parameters[each["name"]] = draw.uniform(0.1, 0.5, shape) * draw.choice([-1, 1], shape)
        # Variances among others.
        if each["is_static"]:
            parameters[each["name"]] = abs(parameters[each["name"]])
    return parameters


def exported(layers, parameters, path):
    """The network as ONNX Runtime runs it."""
    paddle.onnx_export(layers, parameters, path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
