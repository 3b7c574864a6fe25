"""Runs a script: `run_script.py TOOL ARGUMENT…`, in RYE_WORKING_DIRECTORY, when that is set.

The script is `__main__`, as if Python had been started with it, and a traceback begins in it.

By hand: python run_script.py "$PWD/greet.py" --params '{"name": "Ada"}'
"""


def begin():
    """The code of the script, which finds its own module where this one was."""
    import os
    import sys

    def show(kind, error, trace):
        while trace is not None and trace.tb_frame.f_code.co_filename == runner:
            trace = trace.tb_next
        frames = trace
        while frames is not None and frames.tb_next is not None:
            if frames.tb_next.tb_frame.f_code.co_filename.startswith(client):
                frames.tb_next = None  # it is the tool's line that called another tool
            frames = frames.tb_next
        sys.__excepthook__(kind, error.with_traceback(trace), trace)

    del sys.argv[0]
    runner, tool = __file__, sys.argv[0]
    if directory := os.environ.get("RYE_WORKING_DIRECTORY"):
        os.chdir(directory)
    client = os.path.join(os.path.dirname(runner), "calls", "")
    if os.environ.get("RYE_CALL_FD"):
        sys.path.insert(1, client)
    sys.path[0] = os.path.dirname(tool)
    sys.excepthook = show
    loader = type(__loader__)("__main__", tool)
    globals().update(__file__=tool, __loader__=loader, __doc__=None)
    return loader.get_code("__main__")


exec(globals().pop("begin")(), globals())
