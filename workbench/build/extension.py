"""The extension built ahead of time, `workbench._C_npu`: whether it is there, whole, and made from
the sources as they are now.

    workbench/_C_npu.<this Python>.so      the module: every shipped kernel, launched by name
    workbench/_C_npu.<this Python>.json    its manifest, with the digest of the module

`workbench.build.aot` makes it. A module is loaded only if its digest is the manifest's: a file that
was cut short ends the process when it is loaded, which no `except` catches.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
import sysconfig
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.build import cache, includes
from workbench.build.toolchain import Unit
from workbench.errors import MissingError

NAME = "workbench._C_npu"
FORMAT = 1  # of the manifest
VARIABLE = "WORKBENCH_FORCE_ASCEND"
HOW = f"{VARIABLE}=1 pip install -e . --no-build-isolation"
SHARED = ("kernel_table.h", "merged_table.cpp", "npu_module.cpp")  # in every extension
RESTART = (
    "the extension built ahead of time was built anew after this process had loaded it, and a "
    "process cannot load it twice. Restart the kernel (or the Python process)"
)

_lock = threading.Lock()
_digests: dict[str, tuple[tuple[int, ...], str]] = {}


def module_path(package: Path | None = None) -> Path:
    """Where this Python looks for the extension, in the package's folder or another."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    return (package or paths.PACKAGE) / f"_C_npu{suffix}"


def manifest_path(module: Path) -> Path:
    """The manifest that belongs to a module."""
    return module.with_name(module.name.removesuffix(".so") + ".json")


def sources(path: Path, data: bytes) -> dict[str, str]:
    """{name: digest} of a kernel file and of all of ours that it includes, by their names below
    csrc/ascend."""
    found = includes.scan(data, path.parent, [path.parent], [paths.ASCEND]).files
    ours = {str(path): includes.digest(data), **found}
    return {os.path.relpath(name, paths.ASCEND): mark for name, mark in sorted(ours.items())}


def shared_sources() -> dict[str, str]:
    """{name: digest} of what every extension is made of besides its kernels."""
    return {name: includes.contents(str(paths.ASCEND / name))[1] for name in SHARED}


@dataclass(frozen=True)
class Found:
    """What lies in the package: the manifest of a whole extension, or the `reason` there is none.

    `broken` tells an extension that cannot be used from none at all.
    """

    manifest: dict[str, Any] | None
    reason: str = ""
    broken: bool = False


def look(package: Path | None = None) -> Found:
    """Look at the extension in the package's folder (or another) without loading it."""
    module = module_path(package)
    record = manifest_path(module)
    if not module.exists() and not record.exists():
        others = sorted(p.name for p in module.parent.glob("_C_npu.*.so"))
        if others:
            reason = f"there is {', '.join(others)}, which is another Python's than this one's"
            return Found(None, f"{reason} ({module.name})", broken=True)
        return Found(None, "none was built")
    again = f"{module} is half built or was changed after it was built"
    try:
        manifest = json.loads(record.read_bytes())
        if manifest["format"] != FORMAT:
            reason = f"{record.name} is of another version of the workbench"
            return Found(None, reason, broken=True)
        if _digest(module) != manifest["digest"]:
            return Found(None, f"{again}: its digest is not that of {record.name}", broken=True)
    except FileNotFoundError as e:
        return Found(None, f"{again}: there is no {Path(e.filename).name}", broken=True)
    except (OSError, ValueError, KeyError, TypeError) as e:
        return Found(None, f"{again}: {record.name} cannot be read ({e!r:.80})", broken=True)
    if manifest["shared"] != shared_sources():
        reason = f"it was built before {_changed(manifest['shared'], shared_sources())} changed"
        return Found(None, reason, broken=True)
    return Found(manifest)


def usable() -> bool:
    """Whether a whole extension of today's sources is there. It is not loaded."""
    return look().manifest is not None


def _stamp(path: Path) -> tuple[int, ...]:
    info = os.stat(path)
    return (info.st_ino, info.st_size, info.st_mtime_ns)


def _digest(path: Path) -> str:
    stamp = _stamp(path)
    if _digests.get(str(path), (None, ""))[0] != stamp:
        _digests[str(path)] = (stamp, cache.file_digest(path))
    return _digests[str(path)][1]


def _changed(then: dict[str, str], now: dict[str, str]) -> str:
    """Names of the files that are not what they were."""
    return ", ".join(sorted(n for n in {*then, *now} if then.get(n) != now.get(n)))


class Part:
    """What the extension has of one kernel file; to a `Kernel` it is the module of a variant."""

    def __init__(self, module: Any, path: Path, name: str, manifest: dict[str, Any]) -> None:
        self.backend: str = module.backend
        self.arch: str = module.arch
        self._module = module
        self._name = name
        self._path = path
        self._stamp = _stamp(path)
        self._build = manifest["build"]
        self._kernels = manifest["parts"][name]["kernels"]
        self.__workbench__ = {
            "path": str(path),
            "compiler": manifest["compiler"],
            "flags": [*manifest["flags"], *manifest["parts"][name]["flags"]],
            "log": "",
            "key": f"{manifest['build']}-{name}",
        }

    def kernels(self) -> dict[str, list[tuple[str, str, str]]]:
        known = self._module.kernels()
        return {name: known[name] for name in self._kernels}

    def constants(self) -> dict[str, int]:
        start = f"{self._name}."
        known = self._module.constants()
        return {k.removeprefix(start): v for k, v in known.items() if k.startswith(start)}

    def launch(
        self, name: str, blocks: int, stream: int, args: Sequence[Any], *rest: Any, **options: Any
    ) -> dict[str, Any]:
        """As the module's. A kernel of a replaced extension would give the old sources' bits under
        the new ones' name, so it is refused.

        Raises:
            MissingError: The extension was built anew since this kernel was made.
        """
        try:
            stamp = _stamp(self._path)
        except OSError:  # removed; what is loaded stays what it was
            stamp = self._stamp
        if stamp != self._stamp:
            manifest = look(self._path.parent).manifest
            if manifest is None or manifest["build"] != self._build:
                raise MissingError(f"this kernel is out of date: {RESTART}")
            self._stamp = stamp
        return self._module.launch(name, blocks, stream, args, *rest, **options)


def part(unit: Unit) -> tuple[Part | None, Found]:
    """The extension's share of a kernel file: with exactly the unit's macros, for its
    architecture, from its sources. None: the second item says why."""
    found = look()
    if found.manifest is None:
        return None, found
    manifest = found.manifest
    source = os.path.relpath(unit.path, paths.ASCEND)
    name = next((n for n, p in manifest["parts"].items() if p["source"] == source), None)
    if name is None:
        left_out = {p["source"]: p["why"] for p in manifest["left_out"].values()}
        why = f" ({left_out[source]})" if source in left_out else ""
        return None, Found(None, f"it has no {unit.path.name}{why}")
    entry = manifest["parts"][name]
    if manifest["arch"] != unit.arch.name:
        return None, Found(None, f"it was built for {manifest['arch']}, not for {unit.arch.name}")
    if entry["defines"] != unit.defines:
        has, asked = _differing(entry["defines"], unit.defines)
        return None, Found(None, f"it was built with {has}, not with {asked}")
    now = sources(unit.path, unit.data)
    if now != entry["files"]:
        reason = f"it was built before {_changed(entry['files'], now)} changed"
        return None, Found(None, reason, broken=True)
    gone = [k.short_name for k in unit.kernels if k.short_name not in entry["kernels"]]
    if gone:
        return None, Found(None, f"it was built without {', '.join(gone)}", broken=True)
    module, why_not = _load(manifest)
    if module is None:
        return None, Found(None, why_not, broken=True)
    return Part(module, module_path(), name, manifest), found


def _differing(then: dict[str, str], now: dict[str, str]) -> tuple[str, str]:
    """What two sets of macros do not have in common, each in words."""
    pairs = (set(then.items()) - set(now.items()), set(now.items()) - set(then.items()))
    then_has, now_has = (", ".join(f"{k}={v}" for k, v in sorted(p)) for p in pairs)
    return then_has or f"no {now_has}", now_has or f"no {then_has}"


def _load(manifest: dict[str, Any]) -> tuple[Any, str]:
    """(the loaded module, "") or (None, why not)."""
    path = module_path()
    with _lock:
        module = sys.modules.get(NAME)
        if module is None:
            # By its path, not by a search: the one whose digest was just compared.
            loader = importlib.machinery.ExtensionFileLoader(NAME, str(path))
            spec = importlib.util.spec_from_file_location(NAME, path, loader=loader)
            assert spec is not None
            try:
                module = importlib.util.module_from_spec(spec)
                loader.exec_module(module)
            except ImportError as e:
                return None, (
                    f"{path.name} does not load: {e}. Where a library of CANN's is named, source "
                    "CANN's set_env.sh before Python starts; else build the extension anew"
                )
            sys.modules[NAME] = module
    if json.loads(getattr(module, "manifest", None) or "{}").get("build") != manifest["build"]:
        return None, RESTART
    return module, ""
