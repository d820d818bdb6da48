"""Where other programs find the header and the library of the compiled core."""

from __future__ import annotations

from pathlib import Path

__all__ = ["get_include", "get_library"]

_PACKAGE = Path(__file__).parent


def get_include() -> str:
    """Return the folder of ``privlr.h``.

    Returns
    -------
    str
        For the compiler's ``-I``.
    """
    return str(_PACKAGE / "include")


def get_library() -> str:
    """Return the static library with everything that ``privlr.h`` declares.

    Returns
    -------
    str
        Path of the file. Link it together with the C library's ``-lm``.

    Raises
    ------
    FileNotFoundError
        The package is an editable install, which has none.
    """
    path = _PACKAGE / "lib" / "libprivlr.a"
    if not path.exists():
        raise FileNotFoundError(f"{path}: an editable install of privlr has no C library")
    return str(path)
