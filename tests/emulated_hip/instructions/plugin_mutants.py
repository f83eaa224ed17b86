"""The ROCm plugin with one wait removed, by an edit of a copy of a source. Each must be found on the emulated runtime
with host kernels, whose streams and copies run as late as a seed chooses.
"""
import dataclasses
import pathlib
import re
import subprocess

from code_objects import ROOT


@dataclasses.dataclass(frozen=True)
class PluginMutant:
    name: str
    file: str
    old: str
    new: str
    program: str
    tests: str


MUTANTS = [
    PluginMutant("event between two streams: no wait", "backends/gpu/hip/streams.cc",
                 'runtime().check(runtime().hipStreamWaitEvent_(queue->stream, event->event, 0), "waiting for an event");',
                 "static_cast<void>(queue); static_cast<void>(event);", "stream_test",
                 "Streams.ARingOfSlotsIsFilledWhileItIsRead"),
    PluginMutant("stage of an upload: no wait before it is refilled", "backends/gpu/memory/staging.cc",
                 "  api::synchronize(stage.copied);\n", "", "stream_test", "Streams.AnUploadOfManyPiecesArrivesWhole"),
]


def _commands(build):
    done = subprocess.run(["ninja", "-C", build, "-t", "commands", "lib/libgabbro_rocm.so"], stdout=subprocess.PIPE,
                          text=True, check=True)
    return [line for line in done.stdout.splitlines() if " " in line and not line.startswith("ninja:")]


def _compiled_file(command, build, source):
    """What the command compiles, if it is the source or a unity file with it."""
    words = command.split()
    if "-c" not in words:
        return None
    file = build / words[words.index("-c") + 1]
    if file == source:
        return file
    return file if "Unity" in file.parts and str(source) in file.read_text() else None


def make(mutant, build):
    """A folder of plugins with the mutant; the build has to be up to date."""
    folder = build / "instructions" / "plugins" / re.sub(r"\W+", "_", mutant.name)
    folder.mkdir(parents=True, exist_ok=True)
    source = ROOT / mutant.file
    text = source.read_text()
    if mutant.old not in text:
        raise ValueError(f"{mutant.file} has no {mutant.old!r}")
    edited = folder / source.name
    edited.write_text(text.replace(mutant.old, mutant.new))
    commands = _commands(build)
    compile_command = next(command for command in commands if _compiled_file(command, build, source))
    file = _compiled_file(compile_command, build, source)
    if file != source:
        unity = folder / "unity.cc"
        unity.write_text(file.read_text().replace(str(source), str(edited)))
        edited = unity
    words = compile_command.split()
    made, own = words[words.index("-o") + 1], str(folder / "edited.o")
    compile_command = compile_command.replace(words[words.index("-c") + 1], str(edited)).replace(f"-o {made}", f"-o {own}")
    plugin = folder / "libgabbro_rocm.so"
    link = commands[-1].replace(f" {made}", f" {own}").replace("-o lib/libgabbro_rocm.so", f"-o {plugin}")
    for command in (re.sub(r"-MD -MT \S+ -MF \S+", "", compile_command), link):
        subprocess.run(command, shell=True, cwd=build, check=True, stdout=subprocess.DEVNULL)
    for other in ("libgabbro_cpu.so", "gabbro_probe"):
        link = folder / other
        link.unlink(missing_ok=True)
        link.symlink_to(build / "lib" / other)
    return folder


def run(args, environment, note):
    """Prints a row for each mutant. Returns those that were not found."""
    failures = []
    for mutant in MUTANTS:
        if not args.only.search(mutant.name):
            continue
        seed, problem = find(mutant, args.build, environment, args.seeds)
        note(f"{mutant.name}: {f'seed {seed}, ' if seed else ''}{problem}")
        print(f"{mutant.name}  {f'seed {seed}' if seed else 'not found'}")
        if not seed:
            failures.append(f"{mutant.name}: not found with {args.seeds} seeds")
    return failures


def find(mutant, build, environment, seeds):
    """(seed that found it or 0, the problem)"""
    plugins = make(mutant, build)
    for seed in range(1, seeds + 1):
        variables = {**environment, "GABBRO_PLUGIN_PATH": str(plugins), "EMULATED_GPU_SEED": str(seed)}
        words = [build / "tests" / mutant.program, f"--gtest_filter={mutant.tests}", "--gtest_brief=1"]
        done = subprocess.run(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=300)
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if "Failure" in line or "xpected" in line or "emulated" in line]
            return seed, (lines or done.stdout.splitlines() or [""])[0][:160]
    return 0, "not found"
