"""A built kernel: what was built, and how it is launched."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench._result import Result
from workbench.build import arch as archs
from workbench.build import cancelling
from workbench.build.config import KernelConfig, Spec
from workbench.build.launch import (
    CHECKS,
    COUNTERS,
    LaunchReport,
    check_bits,
    fidelity_tags,
    weakest,
)
from workbench.errors import InputError, MissingError, TwinFault, WorkbenchError

MAX_BLOCKS = 65535

# Element types of a `__gm__ T *` that say which tensor is meant: (bytes, the torch type, if it must
# be this one or an integer type of its size).
_ELEMENTS = {
    "half": (2, "torch.float16"),
    "bfloat16_t": (2, "torch.bfloat16"),
    "float": (4, "torch.float32"),
    **{f"{u}int{n}_t": (n // 8, None) for n in (16, 32, 64) for u in ("", "u")},
}
_POINTER = re.compile(r"(?:__gm__|const|\s)*(\w+)(?:__gm__|const|\s)*\*\s*(?:__restrict__)?\s*$")


@dataclass(frozen=True)
class KernelInfo(Result):
    """Where a kernel came from: the evidence that belongs beside every figure made with it.

    `seconds` is the time this call of `build` took, `cached` whether nothing had to be compiled,
    `entries` the kernels that were compiled with it, `fidelity` the twin's weakest tag on the
    kernel's path with its assumptions ("not stated" for a kernel without a spec), `made` "at run
    time" or "ahead of time" (from the extension that `setup.py` builds for devices).
    """

    name: str
    backend: str
    arch: str
    defines: dict[str, str]
    flags: list[str]
    compiler: str
    seconds: float
    cached: bool
    log: str
    path: str
    entries: list[str]
    source: str
    source_digest: str
    key: str
    fidelity: dict[str, Any] = field(default_factory=dict)
    made: str = "at run time"

    def title(self) -> str:
        return f"{self.name} on {self.backend}, {self.arch}"

    def rows(self) -> list[dict[str, Any]]:
        shown = {**self.to_dict(), **{f"-D {k}": v for k, v in self.defines.items()}}
        shown["entries"] = ", ".join(self.entries)
        for name in ("log", "flags", "defines", "fidelity", "name"):
            shown.pop(name)
        return [{"what": k, "value": v} for k, v in shown.items()]


class Kernel:
    """A loaded variant of an `.asc` file. Made by `workbench.build`; not to be constructed
    directly.

    A shipped kernel's entries are compiled per input dtype and role, those that were not asked for
    when they are first used, so that a rebuild costs what is looked at. All kernels of any other
    file are compiled at once.

    Attributes:
        info: KernelInfo.
        config: The complete KernelConfig it was built with.
        module: The `_C_npu` extension module loaded first.
        spec: The kernel's spec, or None for a file that is not shipped.
        last_ub_bytes: Bytes of UB the hungriest block of the last launch had reserved (twin; 0
            before a launch).
    """

    def __init__(
        self,
        module: Any,
        info: KernelInfo,
        config: KernelConfig,
        spec: Spec | None,
        again: Callable[[KernelConfig], Kernel],
        load: Callable[[str], Any],
    ) -> None:
        self.module = module
        self.info = info
        self.config = config
        self.spec = spec
        self.last_ub_bytes = 0
        self._raw_report: tuple | None = None
        self._again = again
        self._load = load
        self._modules = dict.fromkeys(module.kernels(), module)

    @property
    def kernels(self) -> dict[str, list[tuple[str, str, str]]]:
        """The launchable kernels: {name: [(parameter, C++ type, kind)]}; kind is p, i, u, f or b.

        Compiles the entries that were not used so far.
        """
        names = [e["kernel"] for e in self.spec.raw["entries"]] if self.spec else self._modules
        return {name: self._module(name).kernels()[name] for name in names}

    def _module(self, name: str) -> Any:
        """The module that has the kernel `name`, compiled if need be."""
        if name not in self._modules:
            known = (
                [e["kernel"] for e in self.spec.raw["entries"]] if self.spec else [*self._modules]
            )
            if name not in known:
                raise InputError(
                    f"{self.info.name} has no kernel {name!r}; it has {', '.join(known) or 'none'}"
                    + self._why_not(name)
                )
            module = self._load(name)
            self._modules.update(dict.fromkeys(module.kernels(), module))
        return self._modules[name]

    def _why_not(self, name: str) -> str:
        """What may be wrong with the name of a kernel."""
        plain = re.sub(r"<.*", "", name).rpartition("::")[2]
        if plain in self._modules:
            return f". Kernels go by their plain names here: {plain!r}"
        try:
            text = Path(self.info.source).read_text("utf-8", errors="replace")
        except OSError:
            return ""
        if re.search(rf"template\s*<[^;{{]*__global__[^;{{]*\b{re.escape(plain)}\s*\(", text):
            return (
                f". {plain} is a template: give it a kernel of its own, "
                f'`extern "C" __global__ __aicore__ void {plain}_float(…)`, that calls what the '
                "template calls"
            )
        return ""

    @property
    def constants(self) -> dict[str, int]:
        """Build-time constants as the compiler saw them, read from the binary."""
        return self.module.constants()

    def rebuild(self, *, arch: str | None = None, **constants: int) -> Kernel:
        """The same source with other constants (lower-case names) or another architecture: a new
        kernel.

        Example:
            >>> import workbench as wb
            >>> kernel = wb.build("lm_head", wb.KernelConfig(tile_length=128), backend="twin")
            >>> kernel.rebuild(tile_length=64).constants["TILE_LENGTH"]
            64
        """
        changes = {**constants, **({"arch": arch} if arch else {})}
        return self._again(self.config.replace(**changes))

    def launch(
        self,
        name: str,
        blocks: int,
        *args: Any,
        threads: int = 0,
        block_ids: Sequence[int] | None = None,
        check: bool | str | Sequence[str] | None = None,
        counters: bool = False,
        perturb: int = 0,
    ) -> None:
        """Launch the kernel `name` over `blocks` blocks and wait for it. On an NPU it is queued on
        torch_npu's current stream, after what torch has queued there, and not waited for.

        Args:
            name: A name from `.kernels`.
            blocks: How many blocks, 1 to 65535.
            *args: One per parameter: a contiguous tensor (or None for a null address) for an
                address, a Python number for a scalar.
            threads: Twin only: host threads the blocks are spread over; 0: one per core. Never
                changes a bit.
            block_ids: Twin only: run just these of the `blocks` blocks.
            check: Twin only: the checked mode. True for all checks, or names among "mem", "init",
                "race", "sync" (a list, or joined by commas). The same bits as without, slower.
            counters: Twin only: count bytes, instructions, … per source line; see `.last`.
            perturb: Twin only: a seed that moves each result of an approximate instruction (Exp,
                Ln, …) by -1, 0 or +1 ulp, to see whether a conclusion depends on it; 0: none.

        Raises:
            InputError: An argument that the kernel does not take.
            TwinFault: The kernel did something that a device forbids or would hang on.
            Cancelled: The work that launches it was given up (`build.cancelling`).
        """
        cancelling.check()  # a search makes hundreds of launches; nobody waits for the last
        if isinstance(blocks, bool) or not isinstance(blocks, int) or not 1 <= blocks <= MAX_BLOCKS:
            raise InputError(f"blocks={blocks!r}: a launch has 1 to {MAX_BLOCKS} blocks")
        if block_ids is not None:
            block_ids = [int(i) for i in block_ids]
            bad = [i for i in block_ids if not 0 <= i < blocks]
            if bad:
                raise InputError(
                    f"block_ids {bad[:3]} are not among the {blocks} blocks (0 to {blocks - 1})"
                )
        if self.info.backend == "npu" and block_ids is not None:
            raise InputError("block_ids works on the twin only: a device runs every block")
        watched = check_bits(check) | (COUNTERS if counters else 0)
        if self.info.backend == "npu" and (watched or perturb):
            raise InputError("check, counters and perturb work on the twin only")
        module = self._module(name)
        plain = self._plain(name, module.kernels()[name], args)
        stream = _npu_stream() if self.info.backend == "npu" else 0
        switches = dict(self.config.switches)
        try:
            report = module.launch(
                name,
                blocks,
                stream,
                plain,
                threads or _threads(),
                block_ids,
                checks=watched,
                switches=archs.switch_bits(switches),
                perturb=perturb,
                regions=None if self.info.backend == "npu" else _regions(args),
            )
        except TypeError as e:
            raise InputError(f"{self.info.name}: {e}") from None
        self._raw_report = (name, blocks, watched, perturb, report)
        self.last_ub_bytes = report["ub_bytes"]
        if report.get("fault"):
            raise TwinFault.of(report["fault"], name)

    @property
    def last(self) -> LaunchReport:
        """What the twin reported of the last launch.

        Raises:
            InputError: There was none.

        Example:
            >>> import torch, workbench as wb
            >>> kernel = wb.build("lm_head", backend="twin")
            >>> _ = kernel(torch.ones(1, 64), torch.ones(2, 64), counters=True)
            >>> kernel.last.counters["gm_to_ub_bytes"], kernel.last.fidelity
            (1024, 'assumed')
        """
        if self._raw_report is None:
            raise InputError(f"{self.info.name} has not been launched")
        name, blocks, watched, perturb, report = self._raw_report
        tags = fidelity_tags(report["used"], self.info.arch)
        return LaunchReport(
            kernel=name,
            backend=self.info.backend,
            arch=self.info.arch,
            blocks=blocks,
            ub_bytes=report["ub_bytes"],
            checks=[n for n, bit in CHECKS.items() if watched & bit],
            switches=dict(self.config.switches),
            perturb=perturb,
            fidelity=weakest(tags.values()),
            instructions=tags,
            counters=report.get("counters", {}),
            lines=[
                {"file": file, "line": line, **counts}
                for file, line, counts in report.get("lines", [])
            ],
        )

    def _plain(
        self, name: str, parameters: list[tuple[str, str, str]], args: Sequence[Any]
    ) -> list[Any]:
        """Addresses and numbers for the module, which cannot tell one from the other."""
        if len(args) != len(parameters):
            listed = ", ".join(f"{kind} {what}" for what, kind, _ in parameters)
            raise InputError(
                f"{self.info.name}: {name} takes {len(parameters)} arguments ({listed}); "
                f"got {len(args)}"
            )
        plain = []
        for (what, kind, letter), given in zip(parameters, args, strict=True):
            tensor = hasattr(given, "data_ptr")
            if letter == "p" and (tensor or given is None):
                if tensor:
                    self._check_elements(name, what, kind, given)
                plain.append(self._address(given) if tensor else 0)
            elif letter == "p" or tensor or given is None:
                wanted = "a tensor or None" if letter == "p" else "a number"
                got = f"a tensor {tuple(given.shape)}" if tensor else f"{given!r:.80}"
                if hasattr(given, "__array_interface__") and letter == "p":
                    got = "a numpy array: torch.from_numpy(it) is a tensor of the same memory"
                raise InputError(
                    f"{self.info.name}: {name}: parameter {what} is {kind} and takes {wanted}; "
                    f"got {got}"
                )
            else:
                plain.append(given)
        return plain

    def _check_elements(self, name: str, what: str, kind: str, tensor: Any) -> None:
        """That a tensor has the elements that a `__gm__ T *` says. GM_ADDR and bytes take any."""
        pointer = _POINTER.match(kind)
        size, real = _ELEMENTS.get(pointer[1] if pointer else "", (0, None))
        if size and (
            tensor.element_size() != size
            or (real and tensor.is_floating_point() and str(tensor.dtype) != real)
        ):
            raise InputError(
                f"{self.info.name}: {name}: parameter {what} is {kind}; got a tensor of "
                f"{tensor.dtype}. Convert it (`.to(…)`), or view it as what it holds (`.view(…)`)"
            )

    def _address(self, tensor: Any) -> int:
        wanted = "npu" if self.info.backend == "npu" else "cpu"
        if tensor.device.type != wanted:
            raise InputError(
                f"a tensor on {tensor.device}; a kernel built for the {self.info.backend} "
                f"backend takes tensors on {wanted}"
            )
        if tensor.is_neg() or tensor.is_conj():
            raise InputError(
                "a view that torch negates or conjugates only when it is read; a kernel sees its "
                "memory as it is. Pass tensor.resolve_neg().resolve_conj()"
            )
        if not tensor.is_contiguous():
            raise InputError(
                f"a tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not "
                "contiguous; "
                "a kernel sees only its first address. Pass tensor.contiguous()"
            )
        return tensor.data_ptr()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise WorkbenchError(
            f"{self.info.name} has no operator of its own; call .launch(name, blocks, *args) "
            "with a name from "
            f"{', '.join(self._modules) or 'nothing: the file has no kernel'}"
        )

    def __repr__(self) -> str:
        constants = ", ".join(f"{k}={v}" for k, v in self.constants.items())
        return f"<kernel {self.info.name} on {self.info.backend}, {self.info.arch}: {constants}>"

    def _repr_html_(self) -> str:
        return self.info._repr_html_()


def _regions(args: Sequence[Any]) -> list[tuple[int, int]]:
    """(address, bytes) of each tensor: what a launch may touch of GM."""
    return [(t.data_ptr(), t.numel() * t.element_size()) for t in args if hasattr(t, "data_ptr")]


def _threads() -> int:
    given = os.environ.get("WORKBENCH_THREADS", "")
    return int(given) if given.isdigit() else 0


def _npu_stream() -> int:
    """The current stream of torch_npu, its task queue flushed: what torch has queued must run
    before the kernel."""
    try:
        import torch_npu
    except (ImportError, OSError, RuntimeError) as e:  # all three where CANN is not as it wants
        raise MissingError(
            f"launching on an NPU needs torch_npu, which does not import: {e}. Install it "
            "(pip install '.[npu]') and source CANN's set_env.sh, or use backend='twin'"
        ) from e

    stream = torch_npu.npu.current_stream()
    stream.synchronize()
    return stream.npu_stream
