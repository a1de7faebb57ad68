"""Files that go with a turn: paths relative to the eval file, or InputFiles."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from niceeval._base.errors import AuthorError
from niceeval._base.file_reads import read_for_caller
from niceeval._model.turn_input import InputFile

FileArgument: TypeAlias = str | os.PathLike[str] | InputFile

MAX_FILE_BYTES = 64 * 1024 * 1024
"""The largest file a turn takes."""


def input_files(files: Iterable[FileArgument], folder: Path) -> tuple[InputFile, ...]:
    """The files as InputFiles. Raises AuthorError (`bad-file`) naming the one that cannot be read."""
    if isinstance(files, (str, bytes, os.PathLike, InputFile)) or not isinstance(files, Iterable):
        raise AuthorError("bad-file", file=f"files={files!r:.80}", problem="is no list of files; write files=[...]")
    return tuple(file if isinstance(file, InputFile) else _read(file, folder) for file in files)


def _read(file: str | os.PathLike[str], folder: Path) -> InputFile:
    try:
        path = folder / os.fspath(file)
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise AuthorError("bad-file", file=str(file), problem=f"{size:,} bytes; at most {MAX_FILE_BYTES:,}")
        read_for_caller(path)
        data = path.read_bytes()
    except OSError as error:
        raise AuthorError("bad-file", file=str(file), problem=(error.strerror or str(error)).lower()) from None
    except TypeError:
        raise AuthorError("bad-file", file=repr(file), problem="is neither a path nor an InputFile") from None
    mime_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return InputFile(filename=path.name, mime_type=mime_type, data=data)
