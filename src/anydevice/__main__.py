"""The entry point. `--version` is answered before anything is loaded, so that it costs no more than Python itself."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from anydevice import __version__

        print(f"anydevice {__version__}")
        return
    from anydevice.cli import command

    command(prog_name="anydevice")


if __name__ == "__main__":
    main()
