"""Knows the environment variables that control other programs: their code, their connections, their files.

A tool does not get a variable that chooses code, and no `.env` sets a variable that controls programs. The
case of a name does not matter. A list like this is never complete: add what is missing.

    >>> [name for name in ("PYTHONPATH", "MAKEFLAGS", "NODE_ENV") if chooses_code(name)]
    ['PYTHONPATH']
    >>> [name for name in ("PYTHONPATH", "MAKEFLAGS", "NODE_ENV") if controls_programs(name)]
    ['PYTHONPATH', 'MAKEFLAGS']
"""

from __future__ import annotations

from typing import Final

__all__ = ["chooses_code", "controls_programs"]

_CODE_PREFIXES: Final = (
    *("LD_", "DYLD_", "GCONV_", "GLIBC_TUNABLES", "MALLOC_"),  # the loader and the C library
    *("PYTHON", "PERL5", "PERLLIB", "PERL_", "RUBYOPT", "RUBYLIB", "RUBYPATH", "RUBYSHELL"),
    *("GEM_", "BUNDLE_", "LUA_INIT", "LUA_PATH", "LUA_CPATH", "TS_NODE_", "TSX_", "DENO_", "BUN_"),
    *("NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_COMPILE_CACHE"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH"),
    *("DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "CORECLR_", "COR_PROFILER"),
    *("MONO_PATH", "MONO_ENV_OPTIONS", "PHPRC", "PHP_INI_SCAN_DIR", "JULIA_LOAD_PATH", "R_PROFILE"),
    *("R_ENVIRON", "R_LIBS", "ERL_LIBS", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "AWKPATH", "AWKLIBPATH"),
    *("TCLLIBPATH", "GUILE_LOAD", "EMACSLOADPATH", "GTK_MODULES", "GIO_EXTRA_MODULES", "QT_PLUGIN_PATH"),
    *("RIPGREP_CONFIG_PATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "COVERAGE_PROCESS_START"),
    *("BASH_FUNC_", "BASH_ENV", "ZDOTDIR"),
)
_CODE_NAMES: Final = ("ENV", "SHELLOPTS", "BASHOPTS", "PS4", "IFS", "CDPATH", "PROMPT_COMMAND")
_HARMLESS: Final = (
    *("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED"),
    *("PYTHONFAULTHANDLER", "PYTHONNOUSERSITE", "PYTHONCOERCECLOCALE"),
)
"""Harmless variables whose names begin like those of a variable that chooses code."""

_CONTROL_PREFIXES: Final = (
    *("GLIBC_", "PYTHON", "RUBY", "PIP_", "UV_", "VIRTUAL_ENV", "CONDA_", "MAMBA_", "PIXI_"),
    *("POETRY_", "PDM_", "PIPENV_", "PIPX_", "HATCH_", "TOX_", "PYTEST_", "COVERAGE_", "JUPYTER_"),
    *("PYENV_", "RBENV_", "NODENV_", "GOENV_", "NVM_", "ASDF_", "MISE_", "RTX_", "VOLTA_", "FNM_", "PROTO_"),
    *("LUAROCKS_", "NPM_CONFIG_", "PNPM_", "NODE_EXTRA_CA_CERTS", "NODE_TLS_", "YARN_", "COREPACK_"),
    *("PUPPETEER_", "PLAYWRIGHT_", "ELECTRON_"),
    *("JAVA_HOME", "JAVA_OPTS", "JVM_OPTS", "MAVEN_", "GRADLE_", "SBT_", "ANT_", "NUGET_", "MSBUILD"),
    *("DOTNET_ROOT", "DOTNET_HOST_PATH", "COMPLUS_", "COMPOSER_", "JULIA_", "OPAM", "STACK_ROOT", "CABAL_"),
    *("ELIXIR_", "ERL_", "MIX_HOME", "MIX_ARCHIVES", "HEX_"),
    *("GOFLAGS", "GOPROXY", "GOENV", "GOPRIVATE", "GOINSECURE", "GOSUMDB", "GOTOOLCHAIN", "GOPATH", "GOROOT"),
    *("CGO_", "RUSTC", "RUSTFLAGS", "RUSTDOC", "RUSTUP_", "CARGO_"),
    *("MAKEFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "MFLAGS", "CMAKE_", "PKG_CONFIG", "CCACHE_", "SCCACHE_"),
    *("DISTCC_", "GCC_EXEC_PREFIX", "COMPILER_PATH", "TAR_OPTIONS", "RSYNC_", "SVN_", "CVS_", "HGRCPATH"),
    *("GIT_", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SUDO_", "GNUPGHOME", "NIX_", "HOMEBREW_", "DIRENV_"),
    *("DOCKER_", "BUILDKIT_", "BUILDX_", "COMPOSE_FILE", "CONTAINER_HOST", "PODMAN_", "KUBECONFIG", "KUBE_"),
    *("HELM_", "ANSIBLE_", "VAGRANT_", "TF_CLI_", "TF_PLUGIN_", "TF_DATA_DIR", "TERRAFORM_CONFIG"),
    *(
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_ENDPOINT_URL",
        "AWS_CA_BUNDLE",
        "AWS_CONTAINER_",
    ),
    *("AWS_EC2_METADATA_", "AWS_DATA_PATH", "BOTO_", "CLOUDSDK_", "AZURE_CONFIG_DIR", "AZURE_EXTENSION_DIR"),
    *("GH_HOST", "GH_CONFIG_DIR", "KRB5", "LDAPRC", "LDAPCONF", "LDAPTLS_", "ODBC", "PGSERVICEFILE"),
    *("PGSYSCONFDIR", "MYSQL_HOME", "WGETRC", "SYSTEM_WGETRC", "NETRC", "FZF_DEFAULT_", "GREP_OPTIONS"),
    *("SSL_", "OPENSSL_", "CURL_", "REQUESTS_CA_BUNDLE", "RYE_", "LILUX_", "XDG_", "SYSTEMD_", "DBUS_"),
)
"""Other prefixes of control variables: variables of programs that get code, or connect."""

_CONTROL_NAMES: Final = (
    *("PATH", "HOME", "USER_SPACE", "TMPDIR", "TMP", "TEMP", "SHELL", "MAKE"),  # where things are
    *("LOCPATH", "NLSPATH", "HOSTALIASES", "RESOLV_HOST_CONF", "RES_OPTIONS", "TZDIR", "LOCALDOMAIN"),  # libc
    *("CC", "CXX", "CPP", "LD", "AR", "AS", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"),  # compilers
    *("CPATH", "LIBRARY_PATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH"),
    # programs that others start, and their settings
    *("EDITOR", "VISUAL", "PAGER", "LESS", "LESSOPEN", "LESSCLOSE", "LESSKEY", "MANPAGER", "BROWSER"),
    *("VIMINIT", "EXINIT", "GVIMINIT", "VIMRUNTIME", "MYVIMRC", "INPUTRC", "TERMINFO", "TERMINFO_DIRS"),
    *("TERMCAP", "IPYTHONDIR", "MPLCONFIGDIR", "MATPLOTLIBRC"),
)
"""The other control variables, by their whole names."""

_CONTROL_ENDINGS: Final = ("_PROXY", "_PAGER", "_EDITOR", "_ASKPASS", "_BROWSER")


def chooses_code(name: str) -> bool:
    """Whether a variable decides which code a loader or an interpreter loads."""
    name = name.upper()
    return name in _CODE_NAMES or (name.startswith(_CODE_PREFIXES) and name not in _HARMLESS)


def controls_programs(name: str) -> bool:
    """Whether a variable decides what other programs load, where they connect to, or where things are."""
    name = name.upper()
    return (
        name in _CODE_NAMES
        or name in _CONTROL_NAMES
        or name.startswith((*_CODE_PREFIXES, *_CONTROL_PREFIXES))
        or name.endswith(_CONTROL_ENDINGS)
    )
