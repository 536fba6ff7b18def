"""Files of public data sets: found in a folder or downloaded into it, and checked for changes.

The checksum of a file is recorded at its first use, in `checksums.json` in its folder, and compared
at each later use. A changed file is an error, not another result.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pooch

CHECKSUMS = "checksums.json"


class DataError(RuntimeError):
    """A data set is not available; the message says what to do by hand."""


@dataclass(frozen=True)
class Source:
    """A file on the web; if it is a zip archive, `member` is the file of interest in it."""

    url: str
    filename: str
    member: str | None = None


def fetch(source: Source, data_dir: Path) -> Path:
    """Return the path of the source's file in `data_dir`, downloaded if it is not there.

    An interrupted download leaves no file and starts anew the next time. Raises DataError if the
    file cannot be downloaded, or has changed since its first use.
    """
    path = data_dir / source.filename
    if not path.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        try:
            pooch.retrieve(
                source.url, known_hash=None, fname=source.filename, path=data_dir, progressbar=False
            )
        except Exception as error:  # pooch raises what its HTTP library does
            raise DataError(
                f"{source.url} cannot be downloaded ({type(error).__name__}: {error}). Without a "
                f"connection: download it elsewhere, save it as {path} and run the same command "
                "again; or name the folder that has it by --data-dir."
            ) from error
    check(path)
    if source.member is not None:
        return _unpacked(path, source.member)
    return path


def check(path: Path) -> None:
    """Compare the file with its recorded checksum, or record it if there is none.

    Nothing is recorded in a folder that is not writable.
    """
    record = path.parent / CHECKSUMS
    known = json.loads(record.read_text()) if record.exists() else {}
    digest = pooch.file_hash(str(path), alg="sha256")
    if path.name not in known:
        known[path.name] = digest
        try:
            record.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        except OSError:
            return
    elif known[path.name] != digest:
        raise DataError(
            f"{path} is not the file that was used before: its SHA-256 is {digest}, and {record} "
            f"says {known[path.name]}. Restore it, or delete its line there if the change is meant."
        )


def _unpacked(archive: Path, member: str) -> Path:
    """Return the path of the archive's file, extracted completely or not at all."""
    import shutil
    import zipfile

    path = archive.parent / member
    if not path.exists():
        partial = path.with_name(path.name + ".partial")
        try:
            with (
                zipfile.ZipFile(archive) as opened,
                opened.open(member) as packed,
                partial.open("wb") as file,
            ):
                shutil.copyfileobj(packed, file)
        except (zipfile.BadZipFile, KeyError, EOFError) as error:
            raise DataError(
                f"{archive} is no archive with {member} in it ({error}). Delete it and its line "
                f"in {archive.parent / CHECKSUMS}, and run the same command again."
            ) from error
        partial.replace(path)
    check(path)
    return path
