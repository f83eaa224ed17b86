"""What the comparisons with peers that are built from source share. Standard library only."""
import shutil
import subprocess
import sys
import tarfile


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def must(command, **options):
    """Runs a command. If it fails, the program ends, with the last of what the command wrote if that was kept."""
    done = subprocess.run([str(word) for word in command], **options)
    if done.returncode != 0:
        if done.stdout:
            print(done.stdout[-4000:], file=sys.stderr)
        sys.exit(f"peers: error: {' '.join(map(str, command[:3]))} ... ended with {done.returncode}")
    return done


def source_of(package, name, folder):
    """The folder vendor/NAME in the source distribution of `package`, downloaded with pip into `folder` once."""
    found = next(folder.glob(f"*/vendor/{name}"), None)
    if found is not None:
        return found
    say(f"downloading the sources of {package}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    must([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--dest", folder, package],
         stdout=sys.stderr)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        # Early releases of Python 3.11 lack the filter.
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return next(folder.glob(f"*/vendor/{name}"))
