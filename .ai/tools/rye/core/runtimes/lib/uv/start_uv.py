"""The way from uv to a tool: from the tool's directory on the path back to the directory of the call."""

import os
import runpy
import sys

tool, directory = sys.argv[1:3]
sys.argv[:] = [tool, *sys.argv[3:]]
sys.path[0] = os.path.dirname(tool)
os.chdir(directory)
runpy.run_path(tool, run_name="__main__")
