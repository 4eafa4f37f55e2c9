"""Steps that every build takes: of a kernel (`builder`), of a whole program (`program`) and of the
extension (`aot`)."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.build import arch as archs
from workbench.build import cache, cancelling, compiler, includes, source
from workbench.build import config as configs
from workbench.build.toolchain import Object, Unit
from workbench.errors import BuildError, ConfigError

ATTEMPTS = 5  # at a build whose parts another process removes meanwhile
FORMAT = 1  # of the key: raise it when the meaning of an entry changes

MANY = 3  # objects to compile that take long enough for a word

_lock = threading.Lock()
_said: list[str] = []
_in_work: dict[str, threading.Lock] = {}


# ---- what is built ----------------------------------------------------------------------------


def check_defines(defines: dict[str, Any]) -> dict[str, str]:
    """The macros as text.

    Raises:
        ConfigError: What is no macro's name, or a value of several lines.
    """
    out = {}
    for name, value in defines.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
            raise ConfigError(
                f"{name!r} is not the name of a macro; give defines={{'NAME': value}}"
            )
        if name == "WB_TWIN_ARCH":
            raise ConfigError(
                "WB_TWIN_ARCH follows from the architecture; give arch=… in the KernelConfig"
            )
        text = str(int(value)) if isinstance(value, bool) else str(value)
        if "\n" in text:
            raise ConfigError(f"the value of {name} has a line break: {text!r}")
        out[str(name)] = text
    return out


def named(parsed: source.Source, names: list[str] | None) -> tuple[source.KernelDecl, ...]:
    """The kernels of a source by name; None: all that can be launched."""
    if names is None:
        return parsed.launchable
    return tuple(k for k in parsed.launchable if k.short_name in names)


def read_unit(
    path: Path, cfg: configs.KernelConfig, given: dict[str, str], names: list[str] | None
) -> Unit:
    """The kernel file `path` as what is to be built with these macros.

    Args:
        names: The kernels that can be launched; None: all in the file.

    Raises:
        ConfigError: The file cannot be read.
        BuildError: It is no UTF-8 text, or not C++ that the source pass can follow.
    """
    try:
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from None
    try:
        parsed = source.parse(data.decode())
    except UnicodeDecodeError as e:
        raise BuildError(f"{path} is not UTF-8 text: {e}", file=str(path)) from None
    except source.SourceError as e:
        line = data.decode().split("\n")[e.line - 1].rstrip()
        raise BuildError(
            f"{path}:{e.line}: {e}\n{e.line:6d} | {line}", file=str(path), line=e.line
        ) from None
    defines = {**cfg.defines(), **given}
    constants = [n for n, v in defines.items() if _is_integer(v)]
    return Unit(path, data, parsed, named(parsed, names), archs.load(cfg.arch), defines, constants)


def _is_integer(text: str) -> bool:
    """Whether a macro's value is an integer literal that the table of constants can hold."""
    if not re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|[1-9]\d*|0[0-7]*)", text):
        return False
    digits = text.removeprefix("-")
    base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") else 10
    return int(digits, base) < 2**63


# ---- what is in the cache ------------------------------------------------------------------------


def turn(key: str) -> threading.Lock:
    """The lock of what is made under this key, so that threads make it once."""
    with _lock:
        return _in_work.setdefault(key, threading.Lock())


@contextlib.contextmanager
def again_if_vanished(attempt: int) -> Iterator[None]:
    """Swallow, except in the last attempt, that another process has cleared the cache under us."""
    try:
        yield
    except cache.Vanished:
        if attempt == ATTEMPTS - 1:
            raise


def still_true(meta: dict[str, Any]) -> bool:
    """Whether headers that only the compiler could name (`#include MACRO`) are as they were."""
    for path, want in meta.get("more_headers", {}).items():
        try:
            if cache.file_digest(Path(path)) != want:
                return False
        except OSError:
            return False
    return True


_keys: dict[tuple, tuple[includes.Stamp, str]] = {}  # of objects: (stamp of our files, key)


def _key(item: Object, stamp: includes.Stamp) -> str:
    what = (item.name, str(item.source), *item.command, str(item.identity))
    known = _keys.get(what)
    if known is None or known[0] != stamp:
        material = json.dumps(item.key_material(), sort_keys=True)
        known = _keys[what] = stamp, includes.digest(material.encode())
    return known[1]


def compiled(item: Object, stamp: includes.Stamp | None = None) -> Path:
    """The cached object file, compiled if it is not there.

    Args:
        stamp: `includes.stamp()`, where there are several objects; its files are all they are
            made of.
    """
    key = _key(item, includes.stamp() if stamp is None else stamp)
    with turn(key):  # many variants at once need the same slow object once
        entry = cache.get(key)
        if entry is None:
            with cache.workspace() as work:
                status, output = compiler.run([*item.command, "-o", str(work / item.name)], work)
                if status != 0 or not (work / item.name).is_file():
                    refuse_full_disk(output)
                    log = cache.write_log(key, output)
                    raise compiler.build_error(
                        f"compiling {item.source.name}", output, [str(item.source)], log
                    )
                entry = cache.publish(key, work, [item.name], {"what": item.name})
    return entry.path(item.name)


def all_held(items: list[Object], work: Path) -> list[Path]:
    """`_held` for each, as many at a time as there are cores where one has to be compiled: the
    first build of all compiles the whole runtime."""
    stamp = includes.stamp()
    missing = [item for item in items if not cache.holds(_key(item, stamp))]
    if not missing:
        return [_held(item, work, stamp) for item in items]
    if len(missing) >= MANY:
        _say_once(
            f"workbench: compiling the twin's runtime, {len(missing)} files, once on this machine; "
            "up to a minute"
        )
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        waiting = [pool.submit(cancelling.bound(_held), item, work, stamp) for item in items]
        try:
            return [made.result() for made in waiting]
        finally:
            for other in waiting:  # of no use once one of them has failed
                other.cancel()


def _say_once(text: str) -> None:
    """To stderr, where a notebook's cell shows it: else its first build would stand there mute."""
    with _lock:
        first = not _said
        _said.append(text)
    if first:
        print(text, file=sys.stderr, flush=True)


def _held(item: Object, work: Path, stamp: includes.Stamp) -> Path:
    """The object file in `work`: there it stays, whoever clears or trims the cache meanwhile."""
    path, held = compiled(item, stamp), work / item.name
    try:
        os.link(path, held)
    except OSError:
        try:
            shutil.copyfile(path, held)
        except FileNotFoundError:
            raise cache.Vanished(
                f"{item.name} was removed from the build cache during a build; build again"
            ) from None
    return held


# ---- what the compiler said ----------------------------------------------------------------------


def refuse_full_disk(output: str) -> None:
    """Raise CacheError if a compiler ended because there was no space left."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        raise cache.explain(OSError(28, "No space left on device"), cache.root())


def user_headers(scanned: includes.Includes) -> list[str]:
    """The included files that are not ours."""
    ours = (str(paths.TWIN), str(paths.ASCEND))
    return [f for f in scanned.files if not f.startswith(ours)]


def more_headers(depfile: Path, scanned: includes.Includes) -> dict[str, str]:
    """Files the compiler read that the scan did not find, with their digests.

    A toolchain that does not say what it read leaves no way to know, so such an entry is never
    found true again when the scan had to give up.
    """
    try:
        text = depfile.read_text("utf-8", errors="surrogateescape")
    except OSError:
        return {"": "not known"} if scanned.macro_includes else {}
    rest = text.replace("\\\n", " ").partition(": ")[2]
    known = {*scanned.files, str(paths.ASCEND / "kernel_table.h")}
    found = {}
    for name in re.findall(r"(?:\\[ #]|[^\s])+", rest):
        path = os.path.normpath(re.sub(r"\\([ #])|\$(\$)", r"\1\2", name))
        ours = path.startswith((str(depfile.parent), str(paths.TWIN)))
        if path not in known and not ours:
            try:
                found[path] = cache.file_digest(Path(path))
            except OSError:  # a name that could not be read back: never found true again
                found[path] = "not known"
    return found
