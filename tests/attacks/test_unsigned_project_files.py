"""Somebody's project brings an interpreter, packages or an environment along."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.trust.approvals import ProjectFacts, decide_use, split_dotenv

ROOT = Path("/projects/one")
GOOD = ProjectFacts(
    ROOT, approved=True, has_pyvenv_cfg=True, venv_is_tracked=False, interpreter=Path("/usr/bin/python3")
)
EVERYTHING = frozenset({".env", ".venv", "node_modules"})


def test_an_approved_project_uses_them() -> None:
    use = decide_use(GOOD)
    assert use.allowed == EVERYTHING
    assert not use.refused


def test_one_that_is_not_approved_uses_none() -> None:
    use = decide_use(ProjectFacts(ROOT, approved=False, has_pyvenv_cfg=True, venv_is_tracked=False))
    assert not use.allowed
    assert use.refused.keys() == EVERYTHING
    assert all("rye trust project" in reason for reason in use.refused.values())


BAD = {
    "no pyvenv.cfg": ProjectFacts(
        ROOT, approved=True, venv_is_tracked=False, interpreter=Path("/usr/bin/python3")
    ),
    "tracked": ProjectFacts(ROOT, True, True, True, Path("/usr/bin/python3")),
    "nobody knows whether tracked": ProjectFacts(ROOT, True, True, None, Path("/usr/bin/python3")),
    "no interpreter": ProjectFacts(ROOT, True, True, False, None),
    "an interpreter in the project": ProjectFacts(ROOT, True, True, False, ROOT / "bin/python3"),
    "the interpreter is the project": ProjectFacts(ROOT, True, True, False, ROOT),
}


@pytest.mark.parametrize("facts", BAD.values(), ids=BAD)
def test_an_interpreter_that_may_have_come_with_the_project_is_not_used(facts: ProjectFacts) -> None:
    use = decide_use(facts)
    assert use.allowed == EVERYTHING - {".venv"}
    assert set(use.refused) == {".venv"}


CONTROL = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
    "PATH",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "NODE_OPTIONS",
    "NODE_PATH",
    "BASH_ENV",
    "ENV",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "GIT_SSH_COMMAND",
    "GIT_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "HOME",
    "USER_SPACE",
    "RYE_TRUSTED_KEYS",
    "RYE_LOCKED",
    "RYE_KEY_PASSPHRASE",
    "LD_AUDIT",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "LOCPATH",
    "NLSPATH",
    "HOSTALIASES",
    "MALLOC_CHECK_",
    "MALLOC_TRACE",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_DIRS",
    "IFS",
    "SHELLOPTS",
    "BASHOPTS",
    "BASH_FUNC_ls%%",
    "PS4",
    "PROMPT_COMMAND",
    "ZDOTDIR",
    "CDPATH",
    "LUA_INIT",
    "LUA_INIT_5_4",
    "LUA_PATH",
    "LUA_PATH_5_4",
    "LUA_CPATH",
    "PERLLIB",
    "PERL5DB",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "UV_INDEX_URL",
    "UV_PYTHON",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "VIRTUAL_ENV",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_GEMFILE",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_REGISTRY",
    "npm_config_registry",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "GOFLAGS",
    "GOPROXY",
    "RUSTC_WRAPPER",
    "CARGO_HOME",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "SSH_AUTH_SOCK",
    "EDITOR",
    "PAGER",
    "LESSOPEN",
    "TAR_OPTIONS",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "NODE_COMPILE_CACHE",
    "TSX_TSCONFIG_PATH",
    "DOTNET_STARTUP_HOOKS",
    "DOTNET_ROOT",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "KUBECONFIG",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_ENDPOINT_URL_S3",
    "RIPGREP_CONFIG_PATH",
    "PYTEST_ADDOPTS",
    "ANSIBLE_CONFIG",
    "TF_CLI_CONFIG_FILE",
    "CLOUDSDK_PYTHON",
    "PHPRC",
    "R_PROFILE_USER",
    "CORECLR_PROFILER_PATH",
    "CC",
    "RSYNC_RSH",
    "GH_PAGER",
    "HGRCPATH",
    "GRADLE_USER_HOME",
    "MAVEN_OPTS",
    "JAVA_HOME",
]
HARMLESS = [
    "API_URL",
    "DEBUG",
    "MY_PATH",
    "ENVIRONMENT",
    "HOMEPAGE",
    "GITHUB_REPOSITORY",
    "NODE_ENV",
    "BUILD_LD",
    "NODE_ENVIRONMENT",
    "JAVA_VERSION",
    "LUA_VERSION",
    "TMP_DIRECTORY_NAME",
    "MY_TMPDIR",
    "PIPELINE_ID",
    "SHELL_TIMEOUT",
    "GOOGLE_API_KEY",
    "OPENAI_API_KEY",
    "PAGER_DUTY_TOKEN",
    "TZ",
    "LANG",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "DOTNET_ENVIRONMENT",
    "COMPOSE_PROJECT_NAME",
    "TF_VAR_region",
    "MIX_ENV",
    "PGHOST",
    "R_VERSION",
    "CCC",
    "MAKER",
]


@pytest.mark.parametrize("name", CONTROL)
def test_a_variable_that_controls_other_programs_is_not_taken_from_a_file(name: str) -> None:
    split = split_dotenv({name: "evil", "DEBUG": "1"})
    assert split.kept == {"DEBUG": "1"}
    assert split.refused == (name,)


def test_other_variables_are() -> None:
    variables = dict.fromkeys(HARMLESS, "1")
    assert split_dotenv(variables).kept == variables
