"""Private names of torch's autograd, and access to a loss's graph by these names.

Another version of torch may change the names of operations and of their saved values.
This file contains every private name that a reading depends on.  If the installed torch
lacks a name that a loss needs, the loss is not confirmed, and the run gets no epsilon.
``missing_names`` lists such names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.autograd.graph import Node

from dpsgd_explorer.dp.checks.loss.marks import ModulePass, mean_at, outputs_at
from dpsgd_explorer.dp.checks.loss.reading import (
    LateCondition,
    NotPerSampleError,
    UnknownOperationError,
)
from dpsgd_explorer.errors import PrivacyError

Edge = tuple[Node, int]

#: Prefix of the names of the values that an operation saves for its backward.
PREFIX = "_saved_"
#: {family: operations of one handler, each with the saved values that it reads}.  An
#: operation without a family is reported as unknown.
FAMILIES: Mapping[str, str] = {
    "nonlinear": (
        "Exp0:result Expm10 Log0:self Log1P0:self Log20:self Log100:self "
        "Sigmoid0:result LogSigmoid0:self Tanh0 Relu0 Gelu0:self Silu0:self "
        "Softplus0:beta,threshold,self Elu0:alpha,self LeakyRelu0:negative_slope,self "
        "Hardtanh0:min_val,max_val,self Sqrt0:result Rsqrt0 Reciprocal0 Sin0:self "
        "Cos0:self Erf0:self Cosh0:self Sinh0:self Clamp1:min,max,self "
        "ClampMin0:min,self ClampMax0:max,self NanToNum0:self Abs0:self "
        "Pow0:exponent,self"
    ),
    "linear": "Neg0 Clone0 ToCopy0 Alias0 Add1 Sub1 Rsub1:alpha",
    "softmax": "LogSoftmax0:dim Softmax0:dim,result",
    "add": "Add0:alpha Sub0:alpha Rsub0:alpha",
    "multiply": "Mul0:self,other",
    "divide": "Div0:self,other",
    "scale": "Mul1:other Div1:other",
    "maximum": "Maximum0:self,other Minimum0:self,other",
    "masked_fill": "MaskedFill0:mask",
    "where": "Where0:condition",
    "inner_product": "Bmm0:self,mat2",
    "gather": "Gather0:dim",
    "index": "Index0:indices",
    "reshape": (
        "View0 UnsafeView0 ReshapeAlias0 Unsqueeze0 Squeeze0 Squeeze1 Squeeze2"
    ),
    "permute": "Transpose0:dim0,dim1 T0 Permute0:dims",
    "narrow": "Slice0:dim Select0:dim Split0:dim SplitWithSizes0:dim Unbind0:dim",
    "sum_all": "Sum0 Mean0",
    "sum_dims": "Sum1:dim,keepdim Mean1:dim",
    "reduce_dims": (
        "Logsumexp0:dim,self Amax0:dim,self Amin0:dim,self Max0:dim Min0:dim "
        "Norm1:dim,p,self,result LinalgVectorNorm0:dim,ord,self,result"
    ),
    "expand": "Expand0",
    "stack": "Stack0:dim Cat0:dim",
    "regression": (
        "MseLoss0:reduction BinaryCrossEntropy0:reduction,weight "
        "BinaryCrossEntropyWithLogits0:reduction,weight,pos_weight "
        "SmoothL1Loss0:reduction,beta HuberLoss0:reduction,delta "
        "SoftMarginLoss0:reduction"
    ),
    "multi_class": (
        "MultiMarginLoss0:reduction,p,margin,weight MultilabelMarginLoss0:reduction"
    ),
    "negative_log_likelihood": (
        "NllLoss0:reduction,weight,target,ignore_index,total_weight,self "
        "NllLoss2D0:reduction,weight,target,ignore_index,total_weight,self"
    ),
    "ctc": "CtcLoss0:target_lengths",
}


def _full(name: str) -> str:
    """Returns the name that torch gives the node of an operation."""
    return f"{name[:-1]}Backward{name[-1]}"


def _entries() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yields the family, the node's name and the saved values of each operation."""
    for family, operations in FAMILIES.items():
        for operation in operations.split():
            name, _, values = operation.partition(":")
            yield family, _full(name), tuple(values.split(",")) if values else ()


#: {node's name: family}.
FAMILY_OF = {name: family for family, name, _ in _entries()}
#: {node's name: saved values that its handler reads}.
VALUES_OF = {name: values for _, name, values in _entries()}

# Names of the nodes that ``patterns`` and ``operations`` recognize.
ADD, SUBTRACT, ADD_NUMBER = _full("Add0"), _full("Sub0"), _full("Add1")
MULTIPLY, DIVIDE, CHOOSE = _full("Mul0"), _full("Div0"), _full("Where0")
SUM, POWER, LOG, CLAMP_MIN = map(_full, ("Sum1", "Pow0", "Log0", "ClampMin0"))
ABSOLUTE, COSH, SQUARE_ROOT, EXP = map(_full, ("Abs0", "Cosh0", "Sqrt0", "Exp0"))
NORMS = _full("Norm1"), _full("LinalgVectorNorm0")
LIKELIHOOD, CTC = _full("NllLoss0"), _full("CtcLoss0")
PROBABILITIES = _full("Sigmoid0"), _full("Softmax0")
VIEWS = _full("View0"), _full("UnsafeView0"), _full("ReshapeAlias0")
#: Prefixes of the names of torch's losses.
LOSSES = (
    "NllLoss", "MseLoss", "BinaryCrossEntropy", "SmoothL1Loss", "HuberLoss",
    "SoftMarginLoss", "MultiMarginLoss", "MultilabelMarginLoss", "CtcLoss",
)  # fmt: skip


#: Types of saved values that may be an answer: they are hashable and hold no tensor.
_PLAIN_TYPES = (int, float, str, type(None))


def signed(index: int) -> int:
    """Returns the signed value of an index, which autograd stores as unsigned."""
    return index - 2**64 if index >= 2**63 else index


def operation_name(name: str) -> str:
    """Returns the name of an operation in messages, from the name of its node."""
    return name.rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")


def saved_value(node: Node, value: str) -> Any:
    """Returns a value that the operation saved for its backward.

    Raises:
        UnknownOperationError: the installed torch does not show the value.
    """
    try:
        return getattr(node, PREFIX + value)
    except AttributeError:
        raise UnknownOperationError(_missing(node.name(), PREFIX + value)) from None


def _missing(name: str, attribute: str) -> str:
    return (
        f"torch {torch.__version__} does not show {attribute} of the operation "
        f"{operation_name(name)}, without which the loss cannot be checked"
    )


def missing_names() -> list[str]:
    """Returns a sentence for each private name that the installed torch lacks."""
    classes = torch._C._functions
    missing = []
    for name, values in VALUES_OF.items():
        node = getattr(classes, name, None)
        if node is None:
            missing.append(f"torch {torch.__version__} has no operation {name}")
            continue
        attributes = [*(PREFIX + value for value in values), "_input_metadata"]
        missing += [_missing(name, a) for a in attributes if not hasattr(node, a)]
    if not hasattr(Variable, "_execution_engine"):
        missing.append(_no_engine())
    return missing


def _no_engine() -> str:
    return (
        f"torch {torch.__version__} has no Variable._execution_engine, through which "
        "losses are read when backward begins"
    )


def execution_engine() -> Any:
    """Returns the object that Python calls to begin a backward.

    Raises:
        PrivacyError: the installed torch has no such object.
    """
    try:
        return Variable._execution_engine
    except AttributeError:
        raise PrivacyError(f"{_no_engine()}. Install torch 2.13.") from None


def set_execution_engine(engine: Any) -> None:
    """Replaces the object that Python calls to begin a backward."""
    Variable._execution_engine = engine


def edge_of(root: Any) -> Edge | None:
    """Returns the edge of a loss: its node, and the number of the node's result.

    Args:
        root: A tensor, or an edge of ``torch.autograd.graph``.
    """
    node = getattr(root, "node", None)
    if node is None:
        node = root.grad_fn
    return None if node is None else (node, root.output_nr)


def likelihood_targets(root: Node, max_nodes: int) -> list[tuple[int, Tensor]]:
    """Returns (number of classes, targets) of each likelihood near a loss.

    Args:
        root: The node of the loss.
        max_nodes: Number of visited nodes after which the search ends.
    """
    likelihoods: list[tuple[int, Tensor]] = []
    waiting = [root]
    for node in waiting:
        if node.name().startswith("NllLoss"):
            targets = saved_value(node, "target").clone()
            likelihoods.append((saved_value(node, "self").shape[1], targets))
        elif len(waiting) < max_nodes:
            waiting += {n for n, _ in node.next_functions if n is not None} - {*waiting}
    return likelihoods


#: Number of nodes, from an output on, that are searched for a loss of torch.
MAX_LOSS_DISTANCE = 8

A = TypeVar("A")
T = TypeVar("T")
#: Answers a question about a node; the last argument refines the question.
Ask = Callable[["GraphView", Node, A], T]
Question = tuple[Ask[Any, Any], int, Any]
#: (node's number, result's number) of each input of an operation.
Sources = tuple[tuple[int | None, int], ...]


class GraphView:
    """Access to one graph, with a record of all answers on which a reading depends.

    Nodes are numbered in order of appearance.  The reading of a graph is a function of
    the answers, so every graph with equal answers has the reading (see
    ``graph.KnownReadings``).

    Attributes:
        nodes: The nodes by their numbers.
        roots: (node's number, result's number) of each loss.
        passes: Module passes whose outputs were reached, in order.
        answers: {question: answer}, in the order of the questions.
        late: Conditions that a device is still computing.
        ranges: Bounds (lower, upper) of constants that were computed from rounded
            values, in order.
        is_asking: If True, a question is being answered, and further questions are part
            of it.
        is_repeatable: If False, the reading is not stored.
    """

    def __init__(self, roots: Sequence[Edge]) -> None:
        self.nodes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        self.passes: list[ModulePass] = []
        self.answers: dict[Question, Any] = {}
        self.late: list[LateCondition] = []
        self.ranges: list[tuple[float, float]] = []
        self.is_asking = False
        self.is_repeatable = True
        self.roots: tuple[tuple[int, int], ...] = ()
        for node, result in roots:
            self.roots += ((self.number(node), result),)

    def number(self, node: Node) -> int:
        """Returns the number of a node; a new node gets the next one."""
        number = self._numbers.setdefault(node, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
        return number

    def ask(self, question: Ask[A, T], number: int, argument: A) -> T:
        """Returns the answer to a question about a node, and records it.

        Args:
            question: ``question(view, node, argument)``.  Its answer is hashable.  Only
                a question reads tensors, and only its answer is used.
            number: The number of the node.
            argument: Equal arguments make equal questions.
        """
        if self.is_asking:  # the answer to the outer question depends on this answer
            return question(self, self.nodes[number], argument)
        key = question, number, argument
        if key not in self.answers:
            self.is_asking = True
            try:
                self.answers[key] = question(self, self.nodes[number], argument)
            except NotPerSampleError:
                # A loss inside the module may be read nevertheless.  Its reading would
                # lack this answer, so it is not stored.
                self.is_repeatable = False
                raise
            finally:
                self.is_asking = False
        answer: T = self.answers[key]
        return answer

    def name(self, number: int) -> str:
        """Returns the name of a node."""
        return self.ask(operation_at, number, None)[0]

    def sources(self, number: int) -> Sources:
        """Returns (node's number, result's number) of each input.

        The node of an input that requires no gradient is None.
        """
        return self.ask(operation_at, number, None)[1]

    def source(self, number: int) -> int:
        """Returns the first input that requires a gradient."""
        return next(node for node, _ in self.sources(number) if node is not None)

    def values(self, number: int) -> tuple[str, ...]:
        """Returns the names of the node's saved values that are read."""
        return VALUES_OF[self.name(number)]

    def saved(self, number: int, value: str) -> Any:
        """Returns a saved number, string or sequence of numbers."""
        return self.ask(_saved, number, value)

    def tensor(self, number: int, value: str) -> Tensor:
        """Returns a saved tensor; only questions may call this."""
        tensor: Tensor = saved_value(self.nodes[number], value)
        return tensor


def operation_at(view: GraphView, node: Node, _: None) -> tuple[str, Sources, bool]:
    """Returns the node's name, its inputs, and True if it has a mark."""
    sources: Sources = ()
    for source, result in node.next_functions:
        sources += ((None if source is None else view.number(source), result),)
    return node.name(), sources, bool(node.metadata)


def shape_of(_: GraphView, node: Node, result: int) -> tuple[int, ...]:
    """Returns the shape of a result of the node."""
    try:
        metadata: Any = node._input_metadata
    except AttributeError:
        raise UnknownOperationError(_missing(node.name(), "_input_metadata")) from None
    return tuple(metadata[result].shape)


def outputs_of(
    view: GraphView, node: Node, result: int
) -> tuple[int, tuple[int, ...], int, str] | None:
    """Returns the description of a result that is an output of a module.

    Returns:
        The number of samples B, the shape, the number of the module pass and its
        ``loss_reduction``; None for other results.
    """
    mark = outputs_at(node)
    if mark is None or result not in mark.shapes:
        return None
    module_pass = mark.module_pass
    if module_pass not in view.passes:
        view.passes.append(module_pass)
    number, reduction = view.passes.index(module_pass), module_pass.loss_reduction
    return module_pass.size, mark.shapes[result], number, reduction


def averaged_by(view: GraphView, node: Node, _: None) -> tuple[int, int] | None:
    """Returns the edge of the averaged losses if the node is a marked mean, or None."""
    losses = mean_at(node)
    return None if losses is None else (view.number(losses[0]), losses[1])


def is_loss(_: GraphView, node: Node, __: None) -> bool:
    """Returns True if the node is a loss of torch, or is computed from a loss."""
    waiting = [node]
    for ancestor in waiting:
        if ancestor.name().startswith(LOSSES):
            return True
        if len(waiting) < MAX_LOSS_DISTANCE:
            for source, _number in ancestor.next_functions:
                if source is not None and source not in waiting:
                    waiting.append(source)
    return False


def divides_by_lengths(_: GraphView, node: Node, __: None) -> bool:
    """Returns True if a CTC loss is divided by the lengths of its label sequences."""
    source: Any = node.next_functions[0][0]
    if source is not None and source.name() == CHOOSE:
        source = source.next_functions[1][0]
    if source is None or source.name() != CTC:
        return False
    divisor = saved_value(node, "other").cpu()
    lengths = torch.as_tensor(saved_value(source, "target_lengths"))
    return torch.equal(divisor, lengths.clamp(min=1).to(divisor.dtype))


def _saved(_: GraphView, node: Node, value: str) -> Hashable:
    saved = saved_value(node, value)
    if isinstance(saved, list | tuple):
        return tuple(saved)
    if not isinstance(saved, _PLAIN_TYPES):
        raise UnknownOperationError(
            f"{operation_name(node.name())} has a {value} of another type than a "
            f"number: {type(saved).__name__}"
        )
    return saved
