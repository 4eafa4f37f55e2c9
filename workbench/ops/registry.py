"""Which implementation of an operator runs where, and why not another.

Each platform has a list of implementations per operator, best first: on "npu" the kernel on the
device ("ascend"), then plain torch ("native"); on "cpu" the same kernel on the twin ("twin"), then
"native". The first that can run is chosen; why the others cannot is kept and can be asked for.

`WORKBENCH_OPS` overrides the lists: `native` for every operator, `lm_head=native,det_gemm=twin`
for some. An override that cannot run is an error: nothing else is put in its place.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench._result import Result
from workbench.build import arch as archs
from workbench.build import cann, compiler
from workbench.build.config import DEFAULT_ARCH, KernelConfig, as_config, spec
from workbench.errors import InputError, MissingError

PLATFORMS = ("npu", "cpu")
VARIABLE = "WORKBENCH_OPS"

_CLASSES = {
    "lm_head": ("lm_head:AscendLMHeadOp", "native:NativeLMHeadOp"),
    "batch_invariant_logp": (
        "logp:AscendBatchInvariantLogpOp",
        "native:NativeBatchInvariantLogpOp",
    ),
    "det_gemm": ("det_gemm:AscendDetGemmOp", "native:NativeDetGemmOp"),
    "linear_logp": ("linear_logp:AscendLinearLogpOp", "native:NativeLinearLogpOp"),
}


@dataclass(frozen=True, eq=False)
class Implementation:
    """One way to run an operator on a platform.

    Attributes:
        target: The class, or "module:Class", imported when it is first wanted.
        available: Says whether it can run here: True, or why not.
        fixed: Arguments its constructor is always given.
    """

    op: str
    platform: str
    name: str
    target: str | type
    available: Callable[[], Any]
    fixed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice(Result):
    """What became of one implementation: `status` is "chosen", "rejected", "available" (it could
    run, and another comes first) or "not asked for"."""

    implementation: str
    status: str
    reason: str


@dataclass(frozen=True)
class Explanation(Result):
    """Which implementation of `op` is chosen on `platform`, and why not the others.

    Attributes:
        asked: What overrode the list: "impl='native'", "WORKBENCH_OPS=native", or "".
        choices: In the order of the list.
    """

    op: str
    platform: str
    asked: str
    choices: tuple[Choice, ...]

    @property
    def chosen(self) -> str | None:
        """Name of the chosen implementation; None where none can run."""
        return next((c.implementation for c in self.choices if c.status == "chosen"), None)

    def rows(self) -> list[dict[str, Any]]:
        return [choice.to_dict() for choice in self.choices]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "chosen": self.chosen}

    def title(self) -> str:
        asked = f", {self.asked}" if self.asked else ""
        return f"{self.op} on {self.platform}{asked}: {self.chosen or 'none can run'}"


# ---- what can run here ---------------------------------------------------------------------------


def _npu_runs() -> Any:
    return cann.why_no_npu() or True


def _twin_runs() -> Any:
    reasons = []
    try:
        compiler.find_cxx()
    except MissingError as e:
        reasons.append(str(e))
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").is_file():
        reasons.append(f"Python.h is not in {folder}; install Python's headers")
    return reasons or True


def _torch_runs() -> Any:
    return True


def _shipped() -> dict[tuple[str, str], list[Implementation]]:
    lists = {}
    for op, targets in _CLASSES.items():
        kernel, native = (f"workbench.ops.{target}" for target in targets)
        for platform, name, runs in (("npu", "ascend", _npu_runs), ("cpu", "twin", _twin_runs)):
            backend = {"backend": "npu" if platform == "npu" else "twin"}
            lists[op, platform] = [
                Implementation(op, platform, name, kernel, runs, backend),
                Implementation(op, platform, "native", native, _torch_runs),
            ]
    return lists


_lists = _shipped()
_lists_lock = threading.Lock()  # held for a moment only: a module may register while it is imported
_found_lock = threading.RLock()  # held while something is found out, so that it is asked once
_reasons: dict[Any, tuple[str, ...]] = {}  # by `available`, which several operators share
_loaded: dict[Implementation, Any] = {}  # the class, or why it cannot be had
_names: dict[str, str] = {}


def reset() -> None:
    """Forget what was found out about this machine, and the kernels that operators have built.

    What was registered stays. For a process in which CANN, a compiler or a kernel's source has
    changed.
    """
    with _found_lock:
        _reasons.clear()
        _loaded.clear()
        _names.clear()
        variant = sys.modules.get("workbench.ops.variant")
        if variant is not None:
            variant.forget()


def _why_not(available: Callable[[], Any]) -> tuple[str, ...]:
    """Why an implementation cannot run here; asked once."""
    with _found_lock:
        if available not in _reasons:
            try:
                answer = available()
            except Exception as e:
                answer = f"{type(e).__name__}: {e}"
            if isinstance(answer, str):
                answer = [answer]
            if answer is True:
                answer = []
            elif not isinstance(answer, (list, tuple)) or not answer:
                answer = [f"available() returned {answer!r}; True means that it can run"]
            _reasons[available] = tuple(str(reason) for reason in answer)
        return _reasons[available]


def _imported(one: Implementation) -> Any:
    """The class of an implementation, or a string that says why there is none."""
    # Not under a lock: another thread may be importing the module, and wait for the lock in it.
    found = _loaded.get(one) or _load(one.target)
    _loaded[one] = found
    return found


def _load(target: str | type) -> Any:
    if not isinstance(target, str):
        return target
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as e:
        return f"{target} does not import: {type(e).__name__}: {e}"


def _refusal(one: Implementation, given: dict[str, Any]) -> str:
    """Why `one` cannot be made with the arguments that were given; "" if it can."""
    reasons = _why_not(one.available)
    if reasons:
        return "; ".join(reasons)
    found = _imported(one)
    if isinstance(found, str):
        return found
    try:
        taken = inspect.signature(found).parameters
    except (TypeError, ValueError) as e:  # a builtin without a signature
        return f"{one.target} cannot be made: {e}"
    if not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        strange = [name for name in given if name not in taken]
        if strange:
            return f"{one.name} takes no {', '.join(strange)}"
    return _other_arch(given.get("config")) if one.available is _npu_runs else ""


def _other_arch(config: KernelConfig | None) -> str:
    """Why kernels of this configuration do not run on this device; "" if they may."""
    wanted = config.arch if config else DEFAULT_ARCH
    fits = archs.of_chip(_chip())
    if not fits or wanted in fits:  # a chip that nobody knows is given the benefit of the doubt
        return ""
    return (
        f"this device is {_chip()} ({', '.join(fits)}), the configuration is for {wanted}; "
        f"give config=KernelConfig(arch={fits[0]!r})"
    )


def _chip() -> str:
    """What torch_npu calls the device; "" if it does not say."""
    with _found_lock:
        if "chip" not in _names:
            try:
                import torch_npu

                _names["chip"] = str(torch_npu.npu.get_device_name())
            except Exception:
                _names["chip"] = ""
        return _names["chip"]


# ---- what was asked for --------------------------------------------------------------------------


def ops() -> tuple[str, ...]:
    """The operators there are.

    Example:
        >>> ops()
        ('lm_head', 'batch_invariant_logp', 'det_gemm', 'linear_logp')
    """
    return tuple(_CLASSES)


def class_of(op: str, impl: str) -> type:
    """The class of a shipped implementation, whatever is registered and `WORKBENCH_OPS` says.

    Args:
        op: One of `ops()`.
        impl: "ascend" or "twin", whose class is the same, or "native".

    Raises:
        InputError: An unknown op or implementation.

    Example:
        >>> class_of("lm_head", "native").__name__
        'NativeLMHeadOp'
    """
    _known("op", op, _CLASSES)
    _known("impl", impl, ("ascend", "twin", "native"))
    module, name = _CLASSES[op][impl == "native"].split(":")
    return getattr(importlib.import_module(f"workbench.ops.{module}"), name)


def priorities(platform: str) -> dict[str, tuple[str, ...]]:
    """The implementations of each operator on a platform ("npu" or "cpu"), best first.

    Raises:
        InputError: An unknown platform.

    Example:
        >>> priorities("npu")["lm_head"]
        ('ascend', 'native')
    """
    _known("platform", platform, PLATFORMS)
    with _lists_lock:
        return {op: tuple(one.name for one in _lists[op, platform]) for op in _CLASSES}


def _known(what: str, given: str, known: Any) -> None:
    if given not in known:
        raise InputError(f"unknown {what} {given!r}; known ones are {', '.join(known)}")


def _platform(platform: str | None, tensor: Any) -> str:
    if tensor is not None:
        there = getattr(getattr(tensor, "device", None), "type", None)
        if there is None:
            raise InputError(f"a {type(tensor).__name__} has no device; want a torch.Tensor")
        if platform not in (None, there):
            raise InputError(f"platform={platform!r}, and the tensor is on {there}; give one")
        platform = there
    if platform is None:
        return "cpu" if _why_not(_npu_runs) else "npu"
    _known("platform", platform, PLATFORMS)
    return platform


def _environment(op: str, text: str) -> str | None:
    """What the variable's `text` asks for; what stands for this operator alone wins."""
    general = special = None
    for part in filter(None, (p.strip() for p in text.split(","))):
        left, equals, right = (p.strip() for p in part.partition("="))
        if not equals:
            general = left
        elif left not in _CLASSES:
            raise InputError(f"{VARIABLE}={text}: unknown op {left!r}; known: {', '.join(ops())}")
        elif left == op:
            special = right
    return general if special is None else special


def _judge(
    op: str, platform: str, impl: str | None, given: dict[str, Any], *, every: bool
) -> tuple[Explanation, Implementation | None]:
    """The explanation, and what was chosen; looks no further than that unless `every`."""
    _known("op", op, _CLASSES)
    with _lists_lock:
        listed = list(_lists[op, platform])
    asked = f"impl={impl!r}" if impl is not None else ""
    if impl is None:
        text = os.environ.get(VARIABLE, "")  # read once: another thread may change it
        impl = _environment(op, text)
        asked = f"{VARIABLE}={text}" if impl is not None else ""
    if impl is not None and impl not in (one.name for one in listed):
        known = ", ".join(one.name for one in listed)
        raise InputError(f"{asked}: {op} has no {impl!r} on {platform}; it has {known}")
    chosen: Implementation | None = None
    choices = []
    for one in listed:
        if chosen and not every:
            break
        if impl not in (None, one.name):
            choices.append(Choice(one.name, "not asked for", asked))
            continue
        refusal = _refusal(one, given)
        if refusal:
            choices.append(Choice(one.name, "rejected", refusal))
        elif chosen:
            choices.append(Choice(one.name, "available", f"{chosen.name} comes first"))
        else:
            chosen = one
            choices.append(Choice(one.name, "chosen", asked or "the first that can run"))
    strange = [n for n in given if n != "config" and not any(_takes(one, n) for one in listed)]
    if strange:
        taken = "; ".join(f"{one.name}: {_listed_options(one)}" for one in listed)
        raise InputError(f"{op} takes no {', '.join(strange)} on {platform}; it takes {taken}")
    if chosen and chosen.fixed:
        _check_config(op, given.get("config"))
    return Explanation(op, platform, asked, tuple(choices)), chosen


def _options(one: Implementation) -> tuple[list[str], bool]:
    """Names of the options that an implementation takes, and whether it takes any name."""
    found = _imported(one)
    if isinstance(found, str):
        return [], False
    try:
        taken = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # of a builtin without one
        return [], False
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = [p.name for p in taken if p.kind not in variadic and p.name not in one.fixed]
    return names, any(p.kind is p.VAR_KEYWORD for p in taken)


def _takes(one: Implementation, option: str) -> bool:
    names, any_name = _options(one)
    return any_name or option in names


def _listed_options(one: Implementation) -> str:
    return ", ".join(_options(one)[0]) or "none"


def _check_config(op: str, config: KernelConfig | None) -> None:
    """Refuse, as the shipped operator does, what its kernels do not take."""
    name = "lm_head" if op == "linear_logp" else op
    spec(name).check(spec(name).complete(config))


def explain(
    op: str,
    platform: str | None = None,
    *,
    tensor: Any = None,
    impl: str | None = None,
    config: KernelConfig | None = None,
    **options: Any,
) -> Explanation:
    """Which implementation `get_op` would take with the same arguments, and why not the others.

    Returns:
        Explanation: one row per implementation, with its status and the reason.

    Raises:
        InputError: An unknown op, platform, implementation or option.
        ConfigError: A configuration that the chosen kernel does not take; `get_op` says the same.

    Example:
        >>> print(explain("lm_head", "cpu", impl="native"))
        lm_head on cpu, impl='native': native
          implementation=twin  status=not asked for  reason=impl='native'
          implementation=native  status=chosen  reason=impl='native'
    """
    where = _platform(platform, tensor)
    return _judge(op, where, impl, _given(config, options), every=True)[0]


def _given(config: KernelConfig | None, options: dict[str, Any]) -> dict[str, Any]:
    if "backend" in options:
        raise InputError("backend follows from the implementation; give impl='twin' or 'ascend'")
    if config is not None:
        as_config(config)
    return {**({} if config is None else {"config": config}), **options}


def get_op(
    op: str,
    platform: str | None = None,
    *,
    tensor: Any = None,
    impl: str | None = None,
    config: KernelConfig | None = None,
    **options: Any,
) -> Any:
    """An operator, made of the first implementation that can run.

    Args:
        op: "lm_head", "batch_invariant_logp", "det_gemm" or "linear_logp".
        platform: "npu" or "cpu"; None: the tensor's, or "npu" where a device can be used, else
            "cpu".
        tensor: A tensor that stands for the platform.
        impl: The name of the implementation to take, whatever the list and the environment say.
        config: For the operator's constructor. An implementation that takes none is passed over:
            it would not compute what was asked for.
        **options: More arguments of the constructor, for example `backward="matmul"`.

    Raises:
        InputError: An unknown op, platform or implementation, or an option that none of them takes.
        MissingError: What was asked for, or everything in the list, cannot run here; the message
            has the reasons.
        ConfigError: A configuration that the operator does not take.

    Example:
        >>> import torch
        >>> op = get_op("lm_head", "cpu", config=KernelConfig(tile_length=64))
        >>> op(torch.ones(1, 8), torch.ones(2, 8))
        tensor([[8., 8.]])
    """
    where = _platform(platform, tensor)
    given = _given(config, options)
    explanation, one = _judge(op, where, impl, given, every=False)
    if one is None:
        why = "; ".join(
            f"{c.implementation}: {c.reason}" for c in explanation.choices if c.status == "rejected"
        )
        none = "nothing can"
        if explanation.asked:
            none = f"{explanation.asked} was asked for, and it cannot"
        raise MissingError(
            f"{none} run {op} on {where} here. {why}. "
            f"registry.explain({op!r}, {where!r}) shows every choice"
        )
    return _imported(one)(**one.fixed, **given)


def register(
    op: str,
    platform: str,
    name: str,
    target: str | type,
    *,
    available: Callable[[], Any] | None = None,
    priority: int = 0,
) -> None:
    """Put an implementation of yours into a platform's list.

    Args:
        op: One of `ops()`.
        platform: "npu" or "cpu".
        name: What `impl=` and `WORKBENCH_OPS` call it.
        target: The class, or "module:Class". Its instances are called as the shipped operator's
            are; its constructor is given what `get_op` was given.
        available: Returns True where it can run, else why not (a string); None: it always can.
            It is asked once, and again after `reset()`.
        priority: Its place in the list; 0: before all others.

    Raises:
        InputError: An unknown op or platform, a name that is taken or cannot be written into
            `WORKBENCH_OPS`, or a target that is neither a class nor such a text.

    Example:
        >>> register("lm_head", "cpu", "mine", "workbench.ops.native:NativeLMHeadOp")
        >>> priorities("cpu")["lm_head"]
        ('mine', 'twin', 'native')
        >>> unregister("lm_head", "cpu", "mine")
    """
    _known("op", op, _CLASSES)
    _known("platform", platform, PLATFORMS)
    if available is not None and not isinstance(available, Hashable):
        raise InputError("available is not hashable: its answer could not be kept. Give a function")
    if not name.isidentifier():
        raise InputError(f"name {name!r}: give letters, digits and _ only, as in 'my_kernel'")
    made_of = all(target.partition(":")) if isinstance(target, str) else callable(target)
    if not made_of:
        raise InputError(f"target {target!r}: give a class, or a text like 'package.module:Class'")
    with _lists_lock:
        listed = _lists[op, platform]
        if name in (one.name for one in listed):
            raise InputError(f"{op} has a {name!r} on {platform} already; unregister it first")
        one = Implementation(op, platform, name, target, available or _torch_runs)
        listed.insert(max(priority, 0), one)


def unregister(op: str, platform: str, name: str) -> None:
    """Take back what `register` put into a list.

    Raises:
        InputError: There is no such implementation, or it is one of the workbench's own.
    """
    _known("op", op, _CLASSES)
    _known("platform", platform, PLATFORMS)
    with _lists_lock:
        listed = _lists[op, platform]
        own = {one.name for one in _shipped()[op, platform]}
        mine = [one for one in listed if one.name == name and name not in own]
        if not mine:
            known = ", ".join(one.name for one in listed if one.name not in own) or "none"
            raise InputError(f"{name!r} was not registered for {op} on {platform}; {known} was")
        listed.remove(mine[0])
