"""Compiles a runner for the Python that runs this: its magic number, then the code. usage: precompile.py SOURCE OUT"""
import importlib.util
import marshal
import pathlib
import sys

source, out = map(pathlib.Path, sys.argv[1:])
code = compile(source.read_text(encoding="utf-8"), "<pinfold>", "exec", 0, True)
out.write_bytes(importlib.util.MAGIC_NUMBER + marshal.dumps(code))
