# What `.ci/run` runs, step by step.

# Everything that must hold before a change lands.
ci:
    .ci/run

# Formatting.
fmt:
    .ci/run fmt

# Lints, as errors.
clippy:
    .ci/run clippy

# All tests.
test:
    .ci/run tests

# The documentation, warnings as errors.
docs:
    .ci/run docs

# Each feature alone.
features:
    .ci/run features

# Bans, licences and sources of the dependencies, where cargo-deny is installed.
deny:
    .ci/run deny
