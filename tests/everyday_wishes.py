"""What people wish for on a usual day, and the items that would do: written down before a search was tried.

The items are those of the system space, of public MCP servers that are bridged, and a tool of the project.
Texts of items were edited with the misses of `WISHES` in view. `FURTHER_WISHES` were written down after
that, and `LATER_WISHES` when the misses of these had been looked at. The examples of the system space were
written after all three, by somebody who had read them. `UNSEEN_WISHES` come from somebody who had seen
neither the examples nor the code, and nothing was changed for them: 17 of 20 were found, and 18 since the
category of an item counts. `BLIND_WISHES` were written from the names of the tools alone, before any search:
17 of 20 were found, before that change and since.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BIGGEST",
    "BLIND_WISHES",
    "FURTHER_WISHES",
    "LATER_WISHES",
    "LEAST_FOUND",
    "UNSEEN_WISHES",
    "WISHES",
]

LEAST_FOUND: Final = (19, 12, 15, 17, 16)
"""How many of each set find the right item among the first three, at least."""

BIGGEST: Final = b'''"""The biggest files of a directory, with their sizes."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
'''

_FILES, _GIT, _PROCESS = "rye/file-system", "rye/git", "rye/process"

WISHES: Final = [
    ("find big files in a folder", ["files/biggest", f"{_FILES}/ls", "mcp/files/list_directory_with_sizes"]),
    ("remember a fact about somebody", ["mcp/memory/add_observations", "mcp/memory/create_entities"]),
    (
        "what did I change since the last commit",
        [f"{_GIT}/diff", f"{_GIT}/status", "mcp/git/git_diff_unstaged"],
    ),
    ("show me the history of this repository", [f"{_GIT}/log", "mcp/git/git_log"]),
    ("save my work as a commit", [f"{_GIT}/commit", "mcp/git/git_commit"]),
    ("download a web page", ["rye/http/fetch", "mcp/fetch/fetch"]),
    ("is my dev server still running", [f"{_PROCESS}/status"]),
    ("start the development server and leave it running", [f"{_PROCESS}/spawn"]),
    ("stop a background process", [f"{_PROCESS}/kill"]),
    ("see what the server printed", [f"{_PROCESS}/logs"]),
    ("look for a word in all source files", [f"{_FILES}/grep"]),
    ("rename a file", [f"{_FILES}/move", "mcp/files/move_file"]),
    ("get rid of an old directory", [f"{_FILES}/delete"]),
    ("what is in this folder", [f"{_FILES}/ls", "mcp/files/list_directory", "mcp/files/directory_tree"]),
    ("find every python file", [f"{_FILES}/glob", "mcp/files/search_files"]),
    ("fix a typo in a file", [f"{_FILES}/edit", "mcp/files/edit_file"]),
    ("what time is it in Tokyo", ["mcp/time/get_current_time", "mcp/time/convert_time"]),
    (
        "show me the contents of a config file",
        [f"{_FILES}/read", "mcp/files/read_text_file", "mcp/files/read_file"],
    ),
    ("run a shell command", ["rye/bash/bash"]),
    ("which tool calls failed today", ["rye/core/runs"]),
]

FURTHER_WISHES: Final = [
    ("make a new branch for my feature", ["mcp/git/git_create_branch"]),
    ("undo what I staged", ["mcp/git/git_reset"]),
    ("which branches are there", ["mcp/git/git_branch"]),
    ("put this text into a new file", [f"{_FILES}/write", "mcp/files/write_file"]),
    ("make a folder for the reports", ["mcp/files/create_directory"]),
    (
        "how large is this file and when was it changed",
        ["mcp/files/get_file_info", "mcp/files/list_directory_with_sizes", f"{_FILES}/ls"],
    ),
    ("look at a picture", ["mcp/files/read_media_file"]),
    ("read several files at once", ["mcp/files/read_multiple_files"]),
    ("if it is noon in Berlin, how late is it in New York", ["mcp/time/convert_time"]),
    (
        "what do you know about Ada",
        ["mcp/memory/search_nodes", "mcp/memory/open_nodes", "mcp/memory/read_graph"],
    ),
    (
        "forget what I said about my job",
        ["mcp/memory/delete_observations", "mcp/memory/delete_entities", "mcp/memory/delete_relations"],
    ),
    ("note that two people work together", ["mcp/memory/create_relations"]),
    ("is the signature of this tool still right", ["rye/core/verify"]),
    ("run a few lines of Python", ["rye/python/run", "rye/code/run"]),
    ("what did this commit change", [f"{_GIT}/show", "mcp/git/git_show"]),
    ("replace a word in a document with another one", [f"{_FILES}/edit", "mcp/files/edit_file"]),
    ("send a request to a REST API", ["rye/http/fetch"]),
    (
        "which files have I touched but not committed",
        [f"{_GIT}/status", "mcp/git/git_status", f"{_GIT}/diff", "mcp/git/git_diff_unstaged"],
    ),
    ("show the last lines of the output of my server", [f"{_PROCESS}/logs"]),
    ("where am I allowed to read and write", ["mcp/files/list_allowed_directories"]),
]

LATER_WISHES: Final = [
    (
        "what takes up the space in this directory",
        ["files/biggest", f"{_FILES}/ls", "mcp/files/list_directory_with_sizes"],
    ),
    ("switch to the main branch", ["mcp/git/git_checkout"]),
    ("who worked on this project lately", [f"{_GIT}/log", "mcp/git/git_log"]),
    ("stage all my changes", ["mcp/git/git_add"]),
    ("what does notes.md say", [f"{_FILES}/read", "mcp/files/read_text_file", "mcp/files/read_file"]),
    ("move report.pdf into the archive folder", [f"{_FILES}/move", "mcp/files/move_file"]),
    ("throw the temporary files away", [f"{_FILES}/delete"]),
    ("which files end in .csv", [f"{_FILES}/glob", "mcp/files/search_files"]),
    ("in which file is the function parse_date defined", [f"{_FILES}/grep"]),
    (
        "add a line at the end of my todo list",
        [f"{_FILES}/edit", f"{_FILES}/write", "mcp/files/edit_file", "mcp/files/write_file"],
    ),
    ("run the tests in the background, I will ask later how they went", [f"{_PROCESS}/spawn"]),
    ("the server hangs, end it", [f"{_PROCESS}/kill"]),
    ("list the programs that I started", [f"{_PROCESS}/status"]),
    ("get the exchange rates from this JSON API", ["rye/http/fetch", "mcp/fetch/fetch"]),
    ("what is the date today", ["mcp/time/get_current_time"]),
    (
        "how many hours is Tokyo ahead of London",
        ["mcp/time/convert_time", "mcp/time/get_current_time"],
    ),
    ("compute something with a short Python script", ["rye/python/run", "rye/code/run"]),
    (
        "who do I know that works at the bank",
        ["mcp/memory/search_nodes", "mcp/memory/open_nodes", "mcp/memory/read_graph"],
    ),
    ("add two numbers", ["mcp/everything/get-sum"]),
    ("keep this program so that I can use it again", ["rye/code/save"]),
]

UNSEEN_WISHES: Final = [
    ("Which files did I change since my last commit?", [f"{_GIT}/status", f"{_GIT}/diff"]),
    ("what did Anna work on in this repo last week", [f"{_GIT}/log"]),
    ("throw away the old backup folder", [f"{_FILES}/delete"]),
    ("put this paragraph into notes.txt", [f"{_FILES}/write", f"{_FILES}/edit"]),
    ("replace the word colour with color in that file", [f"{_FILES}/edit"]),
    ("where in the code is the database password mentioned", [f"{_FILES}/grep"]),
    ("give me all pictures in this project", [f"{_FILES}/glob"]),
    ("download the text of a web page", ["rye/http/fetch", "mcp/fetch/fetch"]),
    ("start the dev server and leave it running", [f"{_PROCESS}/spawn"]),
    ("is my background job still alive", [f"{_PROCESS}/status"]),
    ("stop the server that I started before", [f"{_PROCESS}/kill"]),
    ("what did that long running job print", [f"{_PROCESS}/logs"]),
    ("work out the average of these numbers with a bit of Python", ["rye/python/run", "rye/code/run"]),
    ("try out a line of JavaScript", ["rye/node/run", "rye/code/run_node"]),
    ("run ls -la in the terminal", ["rye/bash/bash", f"{_FILES}/ls"]),
    ("what does commit a1b2c3 change", [f"{_GIT}/show"]),
    ("what time is it now in Tokyo", ["mcp/time/get_current_time", "mcp/time/convert_time"]),
    (
        "keep in mind that my sister is called Eva",
        ["mcp/memory/add_observations", "mcp/memory/create_entities"],
    ),
    ("which tools have run today and which of them failed", ["rye/core/runs"]),
    ("give the report a new name", [f"{_FILES}/move", "mcp/files/move_file"]),
]

BLIND_WISHES: Final = [
    (
        "copy my changes into the repository with the message fix login",
        [f"{_GIT}/commit", "mcp/git/git_commit"],
    ),
    ("who changed this code last", [f"{_GIT}/log", "mcp/git/git_log", f"{_GIT}/show", "mcp/git/git_show"]),
    ("compare what I staged with the last commit", [f"{_GIT}/diff", "mcp/git/git_diff_staged"]),
    ("start working on a separate branch", ["mcp/git/git_create_branch", "mcp/git/git_checkout"]),
    ("how does this branch differ from main", [f"{_GIT}/diff", "mcp/git/git_diff"]),
    ("find all TODO comments", [f"{_FILES}/grep"]),
    ("show the tree of subdirectories", ["mcp/files/directory_tree", f"{_FILES}/ls", f"{_FILES}/glob"]),
    ("open the first hundred lines of a log file", [f"{_FILES}/read", "mcp/files/read_text_file"]),
    ("create an empty directory called build", ["mcp/files/create_directory"]),
    ("when did I last change this document", ["mcp/files/get_file_info", f"{_FILES}/ls"]),
    ("put the photo into another folder", [f"{_FILES}/move", "mcp/files/move_file"]),
    ("post some JSON to a web service", ["rye/http/fetch"]),
    ("read the article behind this link", ["rye/http/fetch", "mcp/fetch/fetch"]),
    ("I have a meeting at 3 pm in Paris, when is that in Sydney", ["mcp/time/convert_time"]),
    ("remember that Ben likes tea", ["mcp/memory/add_observations", "mcp/memory/create_entities"]),
    (
        "what have I told you about my family",
        ["mcp/memory/read_graph", "mcp/memory/search_nodes", "mcp/memory/open_nodes"],
    ),
    (
        "that is no longer true, drop it from memory",
        ["mcp/memory/delete_observations", "mcp/memory/delete_entities", "mcp/memory/delete_relations"],
    ),
    ("execute this Python snippet and tell me the result", ["rye/python/run", "rye/code/run"]),
    ("abort the build that is going on", [f"{_PROCESS}/kill"]),
    ("why may this tool not run", ["rye/core/explain", "rye/core/verify", "rye/core/runs"]),
]
