"""Which names are taken for secrets, which choose code, and which are nobody's but the server's."""

from __future__ import annotations

import pytest

from rye_mcp.executor.environment.variables import (
    holds_password,
    is_private,
    looks_secret,
    secret_among,
)
from rye_mcp.trust.control_variables import chooses_code

SECRET = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "API_KEY",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "DB_PASSWORD",
    "PASSWORD",
    "PGPASSWORD",
    "MYSQL_PWD",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OPENAI_API_KEY",
    "npm_config__authToken",
    "githubToken",
    "APIKEY",
    "TOKEN2",
    "API_KEY_1",
    "SSH_AUTH_SOCK",
    "SENTRY_DSN",
    "SLACK_WEBHOOK_URL",
    "GITHUB_PAT",
    "SMTP_PASS",
    "DBPASS",
    "KEY",
    "KEYS",
    "private.key",
    "client-secret",
    "CONNECTION_STRING",
    "SESSION_COOKIE",
    "JWT",
    "GPG_PASSPHRASE",
    "KUBE_CREDS",
]
PLAIN = [
    "PATH",
    "HOME",
    "PWD",
    "KEYBOARD",
    "AUTHOR",
    "AUTHORS",
    "PASSENGER",
    "TOKENIZERS_PARALLELISM",
    "LANG",
    "TERM",
    "MONOTONIC",
    "COMPASS",
    "BYPASS",
    "SURPASS_LIMIT",
    "PATTERN",
    "LC_ALL",
    "XDG_SESSION_ID",
    "EDITOR",
    "SECRETARY",
    "DISPLAY",
    "KEYMAP",
    "PATCH",
    "GOPATH",
]
CODE = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONWARNINGS",
    "PYTHONPYCACHEPREFIX",
    "NODE_OPTIONS",
    "NODE_PATH",
    "BASH_ENV",
    "ENV",
    "PERL5LIB",
    "PERL5OPT",
    "RUBYOPT",
    "RUBYLIB",
    "GCONV_PATH",
    "BASH_FUNC_ls%%",
    "LUA_PATH",
    "JAVA_TOOL_OPTIONS",
    "IFS",
]


@pytest.mark.parametrize("name", SECRET)
def test_a_secret(name: str) -> None:
    assert looks_secret(name)
    assert looks_secret(name.lower())


@pytest.mark.parametrize("name", PLAIN)
def test_no_secret_and_no_code(name: str) -> None:
    assert not looks_secret(name)
    assert not chooses_code(name)


@pytest.mark.parametrize("name", CODE)
def test_what_chooses_code(name: str) -> None:
    assert chooses_code(name)


@pytest.mark.parametrize("name", ["PYTHONUNBUFFERED", "PYTHONUTF8", "ENVIRONMENT", "NODE_ENV", "LDFLAGS"])
def test_what_only_sounds_like_it(name: str) -> None:
    assert not chooses_code(name)


def test_a_name_that_nobody_would_read_is_one() -> None:
    assert looks_secret("A" * 257)


@pytest.mark.parametrize("name", ["RYE_KEY_PASSPHRASE", "RYE_HTTP_TOKEN", "RYE_PROJECT_PATH", "PWD", "_"])
def test_what_is_for_the_server_alone(name: str) -> None:
    assert is_private(name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("postgres://user:word@host/db", True),
        ("http://:word@proxy:3128", True),
        ("https://user@host/", False),
        ("https://host/a:b@c", False),
        ("a:b@c", False),
    ],
)
def test_a_url_with_a_password(value: str, expected: bool) -> None:
    assert holds_password(value) is expected


@pytest.mark.parametrize(
    "words",
    [
        ["server", "--token", "abc"],
        ["--api-key=abc"],
        ["--github-access-key", "abc"],
        ["-apikey", "abc"],
        ["TOKEN=abc"],
        ["--header", "X-API-Key: abc"],
        ["https://example.org/mcp?a=b&access_token=abc"],
        ["redis://:abc@localhost"],
        ["--pat", "abc"],
        ["--bearer=abc"],
        ["--key", "ghp_abc" + "0" * 33],
        ["sk-ant-abc" + "0" * 20],
        ["run", "--header=X-Key: xoxb-abc" + "0" * 20],
        ["-----BEGIN OPENSSH PRIVATE KEY-----\nabc"],
        ["--auth", "eyJabcabcabc.eyJabcabcabc.abc"],
    ],
    ids=" ".join,
)
def test_a_word_behind_what_names_a_secret_is_one(words: list[str]) -> None:
    found = secret_among(words)
    assert found is not None
    assert "abc" not in found


@pytest.mark.parametrize(
    "words",
    [
        ["--token", "${TOKEN}"],
        ["--token=${TOKEN}"],
        ["--token"],
        ["--token", "--verbose"],
        ["--token-file", "abc"],
        ["--secret", "/run/secrets/abc"],
        ["--tokenizer", "abc"],
        ["--max-tokens", "500"],
        ["--max-tokens", "auto"],
        ["--no-password", "db"],
        ["--spat", "abc"],
        ["--path", "task-0123456789abcdefghij"],
        ["--key", "server.pem"],
        ["--use-password", "false"],
        [],
        ["Authorization: Bearer ${TOKEN}"],
        ["https://example.org/mcp?token=${TOKEN}"],
        ["https://example.org/token"],
        ["secret", "token"],
        ["print('token = 1')"],
    ],
    ids=" ".join,
)
def test_a_reference_to_a_secret_is_not_a_secret(words: list[str]) -> None:
    assert secret_among(words) is None
