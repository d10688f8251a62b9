"""The story of a build: which sources there are, what was compiled before, compile the rest, say what came of it."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from kernelderby.core.devices import COMPILE_TARGETS, CPU, DeviceClass
from kernelderby.core.submission import is_cuda
from kernelderby.core.verdict import CompileReport, Gate, Outcome
from kernelderby.judge.box.inline import CU_KEY, InlineSource
from kernelderby.judge.build.cache import Cache, Kept, key_of
from kernelderby.judge.build.complaints import log_of, message_of
from kernelderby.judge.build.extract import NotTaken, extract, parse
from kernelderby.judge.build.flags import FlagRefused
from kernelderby.judge.build.ptxas import failed, reports
from kernelderby.judge.build.recipes import LIBRARY, VERSION, Recipe, cu_recipe, cuda_recipe, inline_recipe
from kernelderby.judge.build.toolkit import NO_COMPILER, NO_TOOLKIT, Toolkit, find_toolkit
from kernelderby.judge.build.workshop import LOG_CHARACTERS, run_commands
from kernelderby.judge.referee.findings import Finding
from kernelderby.judge.sandbox.base import Sandbox
from kernelderby.judge.sandbox.pool import Pool

SYMBOL = b"__tvm_ffi_custom_kernel\0"  # what TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, …) exports
NO_EXPORT = ("The library exports no custom_kernel. Add TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, your_function); at the end of the "
             "file, as the problem's starter.cu does.")
NO_GPU = ("This class has no GPU to run CUDA on: submit it to a GPU class where the problem has a board, such as h200. "
          "What it compiles to stands in the report.")


@dataclass(frozen=True, kw_only=True)
class Build:
    """What a build came to."""

    artifacts: dict[str, bytes] = field(default_factory=dict)      # libraries by the key that the box looks for
    report: list[CompileReport] = field(default_factory=list)
    finding: Finding | None = None                                 # None: the entry can be run
    log: str = ""
    seconds: float = 0.0
    is_cached: bool = False


def needs_build(source: bytes, file_name: str) -> bool:
    """Whether there is anything to compile off the GPU: a `.cu`, or a file that speaks of `load_inline`."""
    return is_cuda(file_name) or b"load_inline" in source


class Builder:
    """Compiles for one judge. For one thread, the one that starts its boxes."""

    def __init__(self, sandbox: Sandbox, folder: Path, find: Callable[[], Toolkit] = find_toolkit) -> None:
        self._sandbox, self._cache, self._find = sandbox, Cache(folder), find
        self._toolkit: Toolkit | None = None
        self._boxes = Pool(sandbox, CPU.name, 1)
        self._was_asked = False      # for an extraction: from then on a box waits for the next

    def build(self, source: bytes, file_name: str, device: DeviceClass, cancelled: Callable[[], bool] = lambda: False) -> Build:
        """The libraries of an entry for a class. What its sources do wrong is a finding. Raises SandboxUnavailable."""
        if not needs_build(source, file_name):
            return Build()
        started = time.monotonic()
        self._toolkit = self._toolkit or self._find()
        make = self._build_cu if is_cuda(file_name) else self._build_inline
        try:
            build = make(source, file_name, device, self._toolkit, cancelled)
        except (FlagRefused, NotTaken) as refusal:
            build = Build(finding=Finding(outcome=Outcome.COMPILE_ERROR, message=str(refusal)))
        if cancelled():
            build = Build(finding=Finding(outcome=Outcome.CANCELLED, message="The run was cancelled."))
        return replace(build, seconds=time.monotonic() - started)

    def idle(self) -> None:
        """Start the box that the next extraction needs, if ever one was asked for."""
        if self._was_asked:
            self._boxes.refill()

    def settle(self) -> None:
        """Wait until that box has started, so that it takes no processor time from a clock."""
        self._boxes.settle()

    def close(self) -> None:
        """End the box that waits."""
        self._boxes.close()

    def _build_cu(self, source: bytes, file_name: str, device: DeviceClass, toolkit: Toolkit, cancelled: Callable[[], bool]) -> Build:
        if toolkit.cuda is None or toolkit.gxx is None:
            return _impossible(NO_COMPILER if toolkit.cuda else NO_TOOLKIT)
        recipes = [cu_recipe(source, file_name, target, toolkit) for target in _targets(device)]
        builds = [self._made(recipe, CU_KEY, toolkit, cancelled) for recipe in recipes]
        return _exported(builds[0]) if device.arch else _without_gpu(builds)

    def _build_inline(self, source: bytes, file_name: str, device: DeviceClass, toolkit: Toolkit, cancelled: Callable[[], bool]) -> Build:
        inlines = self._extracted(source, toolkit, cancelled)
        if any(inline.cuda_sources for inline in inlines) and toolkit.cuda is None:
            return _impossible(NO_TOOLKIT)
        if inlines and toolkit.gxx is None:
            return _impossible(NO_COMPILER)
        text = source.decode("utf-8", "replace")
        if device.arch is None and any(inline.cuda_sources for inline in inlines):
            cuda = [inline for inline in inlines if inline.cuda_sources]
            plain = [cuda_recipe(one, text, file_name, target, toolkit) for one in cuda for target in _targets(device)]
            return _without_gpu([self._made(recipe, "", toolkit, cancelled) for recipe in plain])
        recipes = [(one.key(), inline_recipe(one, text, file_name, device.arch or "", toolkit)) for one in inlines]
        return _joined(_until_finding(self._made(recipe, key, toolkit, cancelled) for key, recipe in recipes))

    def _extracted(self, source: bytes, toolkit: Toolkit, cancelled: Callable[[], bool]) -> list[InlineSource]:
        """The file's `load_inline` calls; what a file was seen to call before counts for the very same file alone."""
        key = key_of(version=VERSION, file=hashlib.sha256(source).hexdigest(), toolkit=toolkit.fingerprint)
        kept = self._cache.get(key)
        if kept is not None:
            return parse(json.loads(kept.library))
        self._was_asked = True
        inlines = extract(self._boxes, source, cancelled)
        if inlines:
            self._cache.put(key, Kept(library=json.dumps([asdict(inline) for inline in inlines]).encode(), report=[]))
        return inlines

    def _made(self, recipe: Recipe, name: str, toolkit: Toolkit, cancelled: Callable[[], bool]) -> Build:
        """From the cache, or compiled."""
        key = _key(recipe, toolkit)
        kept = self._cache.get(key)
        if kept is not None:
            return Build(artifacts={name: kept.library} if kept.library else {}, report=kept.report, is_cached=True)
        build = self._compiled(recipe, name, toolkit, cancelled)
        if build.finding is None:
            self._cache.put(key, Kept(library=build.artifacts.get(name, b""), report=build.report))
        return build

    def _compiled(self, recipe: Recipe, name: str, toolkit: Toolkit, cancelled: Callable[[], bool]) -> Build:
        made = run_commands(self._sandbox, toolkit, recipe.sources, recipe.stages, recipe.wanted, cancelled)
        log = log_of([ending.log for ending in made.endings], recipe.places, LOG_CHARACTERS)
        bad = next((ending for ending in made.endings if not ending.ok), None)
        if made.broken or made.is_cancelled or bad or (recipe.wants_library and LIBRARY not in made.files):
            message = made.broken or (message_of(bad.log, recipe.places) if bad else "The compiler made no library.")
            report = [failed(recipe.target, message)] if recipe.target else []
            return Build(finding=Finding(outcome=Outcome.COMPILE_ERROR, message=message), log=log, report=report)
        ending = made.ended(recipe.report) if recipe.report else None
        ptx = made.files.get(recipe.ptx or "", b"").decode("utf-8", "replace")
        rows = reports(ending.log, recipe.target, ptx) if ending and recipe.target else []
        return Build(artifacts={name: made.files[LIBRARY]} if recipe.wants_library else {}, report=rows, log=log)


def _targets(device: DeviceClass) -> tuple[str, ...]:
    return (device.arch,) if device.arch else COMPILE_TARGETS


def _key(recipe: Recipe, toolkit: Toolkit) -> str:
    sources = {name: hashlib.sha256(content).hexdigest() for name, content in recipe.sources.items()}
    return key_of(version=VERSION, sources=sources, stages=[[asdict(command) for command in stage] for stage in recipe.stages],
                  toolkit=toolkit.fingerprint)


def _exported(build: Build) -> Build:
    """A library without the one function that is called is as good as none."""
    library = build.artifacts.get(CU_KEY)
    if library is None or SYMBOL in library:
        return build
    return replace(build, artifacts={}, finding=Finding(outcome=Outcome.COMPILE_ERROR, message=NO_EXPORT))


def _without_gpu(builds: list[Build]) -> Build:
    """For a class that cannot run it: the report, and a compile error where no target compiles."""
    joined = _joined(builds)
    if all(build.finding for build in builds):
        return replace(joined, finding=builds[0].finding)
    lacking = [build for build in builds if CU_KEY in build.artifacts and _exported(build).finding]
    finding = Finding(outcome=Outcome.REFUSED, gate=Gate.DEVICE, message=NO_GPU)
    return replace(joined, artifacts={}, finding=_exported(lacking[0]).finding if lacking else finding)


def _joined(builds: Iterable[Build]) -> Build:
    """Several builds as one, with the first finding."""
    artifacts: dict[str, bytes] = {}
    report: list[CompileReport] = []
    logs, finding, cached = [], None, True
    for build in builds:
        artifacts |= build.artifacts
        report += build.report
        logs.append(build.log)
        finding, cached = finding or build.finding, cached and build.is_cached
    return Build(artifacts=artifacts, report=report, log="\n".join(filter(None, dict.fromkeys(logs))), finding=finding,
                 is_cached=cached and bool(logs))


def _until_finding(builds: Iterable[Build]) -> Iterator[Build]:
    """Each build as it is made, up to the first that went wrong."""
    for build in builds:
        yield build
        if build.finding:
            return


def _impossible(message: str) -> Build:
    return Build(finding=Finding(outcome=Outcome.REFUSED, gate=Gate.DEVICE, message=message))
