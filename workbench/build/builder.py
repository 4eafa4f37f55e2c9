"""`build`: source + constants + toolchain -> a loaded module in this process."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.build import cache, cann, compiler, extension, includes, source, steps
from workbench.build import config as configs
from workbench.build.kernel import Kernel, KernelInfo
from workbench.build.toolchain import MODULE, Toolchain, Unit, python_identity
from workbench.build.twin import TwinToolchain
from workbench.errors import BuildError, ConfigError, MissingError

BACKENDS = ("auto", "twin", "npu")

_lock = threading.Lock()
_modules: dict[str, Any] = {}


def build(
    op_or_path: str | os.PathLike[str],
    config: configs.KernelConfig | None = None,
    backend: str = "auto",
    defines: dict[str, Any] | None = None,
    *,
    dtypes: Sequence[str] | None = None,
    include_dirs: list[str | os.PathLike[str]] | None = None,
    toolchain: Toolchain | None = None,
) -> Kernel:
    """Build a kernel for one configuration and load it into this process.

    Many variants live side by side; the same variant is compiled once and comes from the cache
    afterwards.

    Args:
        op_or_path: Name of a shipped kernel ("lm_head") or path of any `.asc` file.
        config: Architecture and constants; None: the kernel's defaults on "dav-2201".
        backend: "twin" (the CPU), "npu" (the extension built ahead of time where it has this kernel
            with these constants, else bisheng), or "auto": npu where a device, torch_npu and CANN
            are there, else twin.
        defines: More macros, {"NAME": value}; "" defines a macro without a value.
        dtypes: Input dtypes ("fp32", "bf16", "fp16") whose forward entries of a shipped kernel are
            compiled now; None: the first that the configuration fits. The others, and gradients,
            are compiled when they are first used.
        include_dirs: More folders for `#include`.
        toolchain: A toolchain to use instead of the backend's own (tests).

    Returns:
        A `Kernel`; for a shipped operator it is also callable with tensors.

    Raises:
        ConfigError: The configuration cannot work; nothing was compiled.
        BuildError: The compiler refused the source; the message has file, line and source line.
        MissingError: The backend's compiler is not on this machine.
        CacheError: The build cache cannot be used.

    Example:
        >>> kernel = build("lm_head", configs.KernelConfig(tile_length=64), backend="twin")
        >>> kernel.info.backend, kernel.constants["TILE_LENGTH"]
        ('twin', 64)
    """
    started = time.perf_counter()
    spec, path = _resolve(op_or_path)
    given = steps.check_defines(defines or {})
    cfg = spec.complete(config) if spec else configs.as_config(config)
    first = _first_kernels(spec, cfg, given, dtypes)
    backend_name = toolchain.name if toolchain else _backend(backend)
    unit = steps.read_unit(path, cfg, given, first)
    chain, ready, why = toolchain, None, ""
    if backend_name == "npu" and toolchain is None and not include_dirs:
        ready, why = _ahead_of_time(unit)
    if ready is None:
        chain = toolchain or _toolchain(backend_name, why)
        key, module, cached = _module(unit, chain, include_dirs or [])
        entries = [k.short_name for k in unit.kernels]
    else:
        key, module, cached = ready.__workbench__["key"], ready, True
        entries = [*ready.kernels()]
    meta = module.__workbench__
    info = KernelInfo(
        name=spec.op if spec else path.name,
        backend=backend_name,
        arch=cfg.arch,
        defines=unit.defines,
        flags=meta["flags"],
        compiler=meta["compiler"],
        seconds=time.perf_counter() - started,
        cached=cached,
        log=meta["log"],
        path=meta["path"],
        entries=entries,
        source=str(path),
        source_digest=includes.digest(unit.data),
        key=key,
        fidelity=_fidelity(spec, backend_name),
        made="at run time" if ready is None else "ahead of time",
    )

    def again(changed: configs.KernelConfig) -> Kernel:
        return build(
            op_or_path,
            changed,
            backend,
            defines,
            dtypes=dtypes,
            include_dirs=include_dirs,
            toolchain=toolchain,
        )

    def load(name: str) -> Any:
        assert spec is not None and chain is not None
        more = dataclasses.replace(unit, kernels=steps.named(unit.source, spec.together(name)))
        return _module(more, chain, include_dirs or [])[1]

    return _kernel_class(spec)(module, info, cfg, spec, again, load)


def _first_kernels(
    spec: configs.Spec | None,
    cfg: configs.KernelConfig,
    given: dict[str, str],
    dtypes: Sequence[str] | None,
) -> list[str] | None:
    """Check a shipped kernel's configuration; names of the kernels to compile now (None: all in the
    file)."""
    if spec is None:
        if dtypes is not None:
            raise ConfigError(
                "dtypes=… is for shipped kernels; all kernels of a file are compiled at once"
            )
        return None
    clash = [name for name in given if name in spec.raw["constants"]]
    if clash:
        raise ConfigError(
            f"{', '.join(clash)} is a constant of {spec.op}: give it in the KernelConfig "
            f"({clash[0].lower()}=…), not in defines"
        )
    spec.check(cfg)
    unknown = [d for d in dtypes or [] if d not in spec.dtypes]
    if unknown or (dtypes is not None and not dtypes):
        raise ConfigError(f"dtypes={dtypes!r}: {spec.op} takes inputs of {', '.join(spec.dtypes)}")
    for dtype in dtypes or []:
        spec.check(cfg, dtype)
    wanted = dtypes or [next(d for d in spec.dtypes if spec.fits(cfg, d))]
    return [name for dtype in wanted for name in spec.kernels(dtype, "forward")]


def _module(unit: Unit, toolchain: Toolchain, include_dirs: Sequence) -> tuple[str, Any, bool]:
    """(key, loaded module, whether nothing had to be compiled) for a unit."""
    # In the order of the command line, where the toolchain's own folders come first.
    folders = [*toolchain.include_folders(), *(Path(p).absolute() for p in include_dirs)]
    key, scanned = _key(unit, toolchain, folders)
    with steps.turn(key):  # a second thread that wants the same variant waits for the first one's
        module = _modules.get(key)
        if module is not None and steps.still_true(module.__workbench__):
            return key, module, True
        for attempt in range(steps.ATTEMPTS):
            with steps.again_if_vanished(attempt):
                entry = cache.get(key)
                if entry is not None and not steps.still_true(entry.meta):
                    cache.discard(key)
                    entry = None
                cached = entry is not None
                if entry is None:
                    entry = _compile(key, unit, toolchain, scanned, include_dirs)
                return key, _load(key, entry), cached
    raise AssertionError("not reached: the last attempt returns or raises")


def _resolve(op_or_path: str | os.PathLike[str]) -> tuple[Any, Path]:
    text = os.fspath(op_or_path)
    if text.endswith((".asc", ".cpp", ".cc")) or os.sep in text:
        path = Path(text).expanduser().absolute()
        if not path.is_file():
            raise ConfigError(
                f"no file {path}; give the path of an .asc file or one of "
                f"{', '.join(configs.specs())}"
            )
        return None, path
    spec = configs.spec(text)
    return spec, spec.source


def _backend(backend: str) -> str:
    """ "twin" or "npu", whatever was asked for."""
    if backend not in BACKENDS:
        raise ConfigError(f"unknown backend {backend!r}; known ones are {', '.join(BACKENDS)}")
    if backend == "auto":
        return "twin" if cann.device_reasons() else "npu"
    return backend


def _toolchain(backend: str, why: str = "") -> Toolchain:
    """The backend's toolchain; `why`: why the extension built ahead of time does not do."""
    if _backend(backend) == "twin":
        return TwinToolchain()
    try:
        return cann.CannToolchain()
    except MissingError as e:
        if not why:
            raise
        raise MissingError(
            f"{e}. Nor can the extension built ahead of time take its place: {why}. It is built by "
            f"`{extension.HOW}`, where bisheng is (docs/on-an-npu.md)"
        ) from None


def _ahead_of_time(unit: Unit) -> tuple[extension.Part | None, str]:
    """The extension's share of the unit, or why there is none.

    One that should do and does not is named even where bisheng can take its place: a build that
    silently takes another way is hard to notice.
    """
    part, found = extension.part(unit)
    if found.broken and cann.find_cann() is not None:
        warnings.warn(
            f"the extension built ahead of time is not used for {unit.path.name}: {found.reason}. "
            f"bisheng compiles the kernel now; to build the extension anew: {extension.HOW}",
            stacklevel=3,
        )
    return part, found.reason


@functools.lru_cache(maxsize=4)
def _shared(backend: str, stamp: includes.Stamp) -> list[str]:
    """Digests of what goes into every variant, whatever the user's file includes."""
    # The table's header is included by the generated part.
    shared = [paths.ASCEND / "kernel_table.h", paths.ASCEND / "npu_module.cpp"]
    if backend == "twin":
        # The runtime is linked into the variant: a change in it, or in a header that it may
        # include (assert.h comes by way of <cassert>), is a change of the variant.
        include = paths.TWIN / "include"
        for folder in (include, include / "twin", paths.TWIN / "runtime"):
            shared += [p for p in sorted(folder.iterdir()) if p.suffix]
    return [includes.contents(str(p))[1] for p in shared]


@functools.lru_cache(maxsize=16)
def _of_ours(data: bytes, folders: tuple[Path, ...], stamp: includes.Stamp) -> includes.Includes:
    """The scan of a shipped kernel, the same as long as no file of ours has changed."""
    return includes.scan(data, paths.ASCEND, [paths.ASCEND], folders)


def _key(unit: Unit, toolchain: Toolchain, folders: list[Path]) -> tuple[str, includes.Includes]:
    stamp = includes.stamp()
    folder = unit.path.parent
    if folder == paths.ASCEND and folders == toolchain.include_folders():
        scanned = _of_ours(unit.data, tuple(folders), stamp)
    else:
        scanned = includes.scan(unit.data, folder, [folder], folders)
    material = {
        "format": steps.FORMAT,
        "backend": toolchain.name,
        "arch": unit.arch.name,
        # The path is in the binary (faults and messages name it), so it is part of the key.
        "path": str(unit.path),
        "source": includes.digest(unit.data),
        # What the source pass makes of it, so that a newer pass never finds an older one's binary.
        "unit": includes.digest(toolchain.text(unit).encode()),
        "includes": sorted(scanned.files.items()),
        "shared": _shared(toolchain.name, stamp),
        "kernels": [k.name for k in unit.kernels],
        "defines": sorted(unit.defines.items()),
        "flags": toolchain.flags(unit),
        "toolchain": toolchain.identity(),
        "python": python_identity(),
    }
    return includes.digest(json.dumps(material, sort_keys=True).encode()), scanned


_UNFIT_PARSED = re.compile(r"relocate PCH|PCH file|precompiled file|\.gch\b")


def _compile(
    key: str, unit: Unit, toolchain: Toolchain, scanned: includes.Includes, include_dirs: Sequence
) -> cache.Entry:
    log = ""
    with cache.workspace() as work:
        objects = steps.all_held(toolchain.objects(unit), work)
        for command in toolchain.commands(unit, work, objects):
            if include_dirs:
                command = [*command, *(f"-I{Path(p).absolute()}" for p in include_dirs)]
            status, output = compiler.run(command, work, toolchain.environment)
            if status != 0 and _UNFIT_PARSED.search(output):
                # A compiler that cannot take a parsed header up again reads the header itself.
                for parsed in work.glob("*.gch"):
                    parsed.unlink()
                status, output = compiler.run(command, work, toolchain.environment)
            log += output
            if status != 0:
                steps.refuse_full_disk(output)
                mine = [str(unit.path), *steps.user_headers(scanned)]
                error = compiler.build_error(
                    f"building {unit.path.name}", output, mine, cache.write_log(key, log)
                )
                opened = source.never_closed(unit.data.decode()) if error.line is None else None
                if opened:
                    # The compiler noticed in the generated part, which is no help.
                    raise compiler.placed(error, unit.path, opened, "this '{' is never closed")
                raise error
        if not (work / MODULE).is_file():
            raise BuildError(
                f"building {unit.path.name}: {toolchain.compiler_name} ended well but made no "
                f"{MODULE}; check the compiler",
                log=log,
                log_path=cache.write_log(key, log),
            )
        meta = {
            "what": unit.path.name,
            "source": str(unit.path),
            "arch": unit.arch.name,
            "backend": toolchain.name,
            "defines": unit.defines,
            "flags": toolchain.flags(unit),
            "compiler": toolchain.compiler_name,
            "log": log,
            "more_headers": steps.more_headers(work / "unit.d", scanned),
        }
        return cache.publish(key, work, [MODULE], meta)


def _load(key: str, entry: cache.Entry) -> Any:
    """Load an entry's module under a package name of its own, so that variants live side by
    side."""
    name = f"workbench._variants.v{key}._C_npu"
    path = str(entry.path(MODULE))
    if key in _modules:
        # The loader knows a library by its path, and pybind11 a module by its name; both would hand
        # out the old one.
        handle, other = tempfile.mkstemp(suffix=".so")
        os.close(handle)
        try:
            shutil.copyfile(path, other)
        except FileNotFoundError:
            raise cache.Vanished(
                f"{entry.meta['what']} was removed from the build cache; build again"
            ) from None
        path = other
        atexit.register(_remove, path)
        name = name.replace("._C_npu", f"_{Path(path).stem}._C_npu")
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    found = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert found is not None
    try:
        module = importlib.util.module_from_spec(found)
        loader.exec_module(module)
    except ImportError as e:
        if not os.path.exists(path):
            raise cache.Vanished(
                f"{entry.meta['what']} was removed from the build cache while it was loaded; "
                "build again"
            ) from None
        cache.discard(key)
        raise BuildError(
            f"the module built from {entry.meta['what']} does not load: {e}. It was removed "
            "from the cache; "
            "an undefined symbol means that the source declares something it does not define"
        ) from None
    setattr(module, "__workbench__", {**entry.meta, "path": path})  # noqa: B010
    with _lock:
        _modules[key] = module
    return module


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _fidelity(spec: Any, backend: str) -> dict[str, Any]:
    if backend != "twin":
        return {"tag": "as the device computes"}
    return spec.fidelity if spec else {"tag": "not stated"}


def _kernel_class(spec: Any) -> type[Kernel]:
    """The class a shipped operator's kernels have; the spec names it, so that `build` imports no
    operator."""
    target = spec.raw.get("python") if spec else None
    if not target:
        return Kernel
    module, name = target.split(":")
    return getattr(importlib.import_module(module), name)
