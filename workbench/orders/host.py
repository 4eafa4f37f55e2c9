"""The C++ of `csrc/orders` compiled for this CPU, kept in the build cache, and loaded."""

from __future__ import annotations

import ctypes
import functools
import json
import platform
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.build import cache, compiler, includes, steps
from workbench.build.twin import BASE
from workbench.errors import BuildError, InputError

FOLDER = paths.CSRC / "orders"
# The twin's numbers of two doubles are used as well.
INCLUDE = (FOLDER, paths.TWIN / "include", paths.TWIN / "runtime")


def native_flags(cxx: compiler.Compiler) -> list[str]:
    """Flags for this CPU's own instructions: without contraction they do not change a bit. None
    for a compiler that does not know them, or that is one for another machine."""
    if cxx.machine != platform.machine():
        return []
    flag = "-mcpu=native" if cxx.machine == "aarch64" else "-march=native"
    return [flag] if _takes(cxx.command, cxx.identity, flag) else []


@functools.cache
def _takes(command: tuple[str, ...], identity: tuple, flag: str) -> bool:
    with cache.workspace() as work:
        (work / "empty.cpp").write_text("")
        status, _ = compiler.run([*command, flag, "-fsyntax-only", "empty.cpp"], work)
    return status == 0


def command(cxx: compiler.Compiler, flags: list[str] | None = None) -> list[str]:
    """The compiler's command line for a source of `csrc/orders`, without source and output.

    Args:
        flags: Instead of `native_flags`, for example to see the code of another CPU.
    """
    more = native_flags(cxx) if flags is None else flags
    # Vectors are passed inside one file only, so what a wide one does to the ABI is of no concern.
    warnings = ["-Wall", "-Wextra", "-Wno-psabi"]
    folders = [f"-I{folder}" for folder in INCLUDE]
    return [*cxx.command, *BASE, "-O3", *more, *warnings, "-pthread", "-shared", *folders]


def library(source: str) -> ctypes.CDLL:
    """`csrc/orders/<source>` as a loaded library; compiled where the cache does not have it.

    Raises:
        BuildError: It does not compile.
        MissingError: There is no compiler.

    Example:
        >>> library("linear.cpp").order_linear is not None
        True
    """
    return _library(source, compiler.find_cxx())


@functools.cache
def _library(source: str, cxx: compiler.Compiler) -> ctypes.CDLL:
    for _ in range(steps.ATTEMPTS - 1):
        path = compiled(FOLDER / source, cxx)
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            if path.exists():
                raise
            # Another process has cleared the cache since.
    return ctypes.CDLL(str(compiled(FOLDER / source, cxx)))


def compiled(path: Path, cxx: compiler.Compiler, flags: list[str] | None = None) -> Path:
    """The library made of a source, in the cache; `flags` as in `command`."""
    line, name = command(cxx, flags), f"{path.stem}.so"
    data = path.read_bytes()
    headers = includes.scan(data, path.parent, (), INCLUDE).files
    material: dict[str, Any] = {
        "what": "kernel of the host",
        "format": steps.FORMAT,
        "source": includes.digest(data),
        "headers": sorted(headers.values()),
        "compiler": cxx.identity,
        "cpu": compiler.cpu_identity(),
        "command": line,
    }
    key = includes.digest(json.dumps(material, sort_keys=True).encode())
    with steps.turn(key):
        entry = cache.get(key)
        if entry is None:
            with cache.workspace() as work:
                status, output = compiler.run([*line, "-o", str(work / name), str(path)], work)
                if status:
                    steps.refuse_full_disk(output)
                    log = cache.write_log(key, output)
                    raise compiler.build_error(f"compiling {path.name}", output, [str(path)], log)
                if not (work / name).is_file():
                    raise BuildError(
                        f"compiling {path.name}: {cxx.version} ended well but made no {name}"
                    )
                meta = {"what": name, "source": str(path), "compiler": cxx.version}
                entry = cache.publish(key, work, [name], meta)
    return entry.path(name)


def check_strided(**tensors: Any) -> None:
    """Refuse tensors that are not plain ones on the CPU; None is none.

    Raises:
        InputError: On another device, sparse, or without memory (`address`).
    """
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.device.type != "cpu":
            raise InputError(
                f"{name} is on {tensor.device}; this runs on the host. Give tensors on the CPU"
            )
        layout = str(tensor.layout).removeprefix("torch.")
        if layout != "strided":
            raise InputError(f"{name} is {layout}; want a plain tensor, as {name}.to_dense() gives")
        address(name, tensor)


def address(name: str, tensor: Any) -> int | None:
    """Where a tensor's elements stand, None for None: what C++ may read and write.

    Raises:
        InputError: They stand nowhere: a fake tensor, or one of torch.func's or a tracer's.

    Example:
        >>> import torch
        >>> address("x", torch.ones(2)) > 0
        True
    """
    if tensor is None:
        return None
    try:
        found = tensor.data_ptr()
    except RuntimeError:  # what torch says where there is no storage
        found = 0
    if tensor.numel() and (not found or tensor.device.type != "cpu"):
        raise InputError(
            f"{name} is a {type(tensor).__name__} without memory of its own on the CPU, as under "
            "FakeTensorMode, torch.func and tracers. Call this outside of them, on plain tensors"
        )
    return found
