"""A built kernel: what was built, and how it is launched."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result
from workbench.build.config import KernelConfig, Spec
from workbench.errors import InputError, MissingError, TwinFault, WorkbenchError

MAX_BLOCKS = 65535


@dataclass(frozen=True)
class KernelInfo(Result):
    """Where a kernel came from: the evidence that belongs beside every figure made with it.

    `seconds` is the time this call of `build` took, `cached` whether nothing had to be compiled,
    `entries` the kernels that were compiled with it, `fidelity` the twin's weakest tag on the
    kernel's path with its assumptions ("not stated" for a kernel without a spec).
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

    A shipped kernel's entries are compiled per input dtype, those that were not asked for when they
    are first used, so that a rebuild costs what is looked at. All kernels of any other file are
    compiled at once.

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
                )
            module = self._load(name)
            self._modules.update(dict.fromkeys(module.kernels(), module))
        return self._modules[name]

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
    ) -> None:
        """Launch the kernel `name` over `blocks` blocks and wait for it.

        Args:
            name: A name from `.kernels`.
            blocks: How many blocks, 1 to 65535.
            *args: One per parameter: a contiguous tensor (or None for a null address) for an
                address, a Python number for a scalar.
            threads: Twin only: host threads the blocks are spread over; 0: one per core. Never
                changes a bit.
            block_ids: Twin only: run just these of the `blocks` blocks.

        Raises:
            InputError: An argument that the kernel does not take.
            TwinFault: The kernel did something that a device forbids or would hang on.
        """
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
        module = self._module(name)
        plain = self._plain(name, module.kernels()[name], args)
        stream = _npu_stream() if self.info.backend == "npu" else 0
        try:
            report = module.launch(name, blocks, stream, plain, threads or _threads(), block_ids)
        except TypeError as e:
            raise InputError(f"{self.info.name}: {e}") from None
        self.last_ub_bytes = report["ub_bytes"]
        fault = report.get("fault")
        if fault:
            where = f"{fault['file']}:{fault['line']}: " if fault["file"] else ""
            raise TwinFault(
                f"{where}{fault['message']} (kernel {name}, block {fault['block']})",
                kind=fault["kind"],
                code=fault["code"],
                block=fault["block"],
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
                plain.append(self._address(given) if tensor else 0)
            elif letter == "p" or tensor or given is None:
                wanted = "a tensor or None" if letter == "p" else "a number"
                got = f"a tensor {tuple(given.shape)}" if tensor else repr(given)
                raise InputError(
                    f"{self.info.name}: {name}: parameter {what} is {kind} and takes {wanted}; "
                    f"got {got}"
                )
            else:
                plain.append(given)
        return plain

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
