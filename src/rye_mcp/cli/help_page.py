"""`rye --help`, written by `make docs`."""

HELP = """\
Usage: rye [OPTIONS] COMMAND [ARGS]...

  Run tools that people can trust.

Options:
  --version             Print the version and exit.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  --help                Show this message and exit.

Write tools:
  init       Make your keys, and a project of this directory.
  new        Write an item that works, as a start.
  adopt      Make a tool of a script that you have, without changing what it
             does.
  dev        Work on a tool: see at every change what is wrong, and run the
             draft.
  test       Run the examples that tools declare, and compare the results.
  copy       Copy an item to another space; its signature goes with it.
  schema     Print the JSON Schema of what an item says about itself, or write
             all of them.
  demo       Let an agent run a signed tool, and check what is promised.

Vouch for them:
  sign       Sign an item, or all that match a pattern, with your key.
  verify     Check whether items would be accepted, and who signed them.
  lock       Lock tools as they are now, and check that they still are.
  push       Put signed items into a registry, with all that vouches for them.
  pull       Bring in signed items, verified before they are written, and pin
             them.
  sync       Bring back exactly what sources.toml pins.
  trust      Who may sign what you run: everything undecided, and the
             decisions.
  questions  What servers ask you, for clients that cannot ask, and your
             answers.
  keys       The key pairs that you, and your agents, sign with.
  secret     The secrets that tools get which you signed for them.

Find and run them:
  list       List the items of every space, with who signed them.
  search     Find items by what they are for, the best first.
  show       Show an item, who signed it, and what it says.
  explain    Show what would run a tool, and what prevents it.
  run        Run a tool, with its parameters as --name value.
  log        What has run, and what it wrote.
  kill       End a run that is going on, wherever it runs.
  ui         Show runs, items, keys, questions and health on a page in the
             browser, until Ctrl-C.
  receipt    What is on record of each run, signed: show it, verify it, pass
             it on.

Clients and other servers:
  install    Put the MCP server into the configuration of a client.
  doctor     Check that the server works, as a client would start it, and say
             what to do.
  engine     The machines that your calls may run on: engines, their nodes and
             tools.
  node       This machine as one that runs calls of other servers: its key,
             and whom it accepts.
  worker     Run sealed calls of accepted servers; an engine starts it.
  skill      Skills of others: bring them in, look at them, place copies for
             other clients.
  mcp        Other MCP servers: bring in their tools, signed, and look at what
             changed.
"""
