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

# Each package of the library alone, without features.
features:
    .ci/run features

# Each feature of a package of the library alone.
each-feature:
    .ci/run each_feature

# The package for Restate, which has a lock file of its own.
restate:
    .ci/run restate

# What has a lock file of its own.
outside:
    .ci/run outside

# Each package of programs alone.
each-package:
    .ci/run each_package

# Instructions, against the committed figures.
instructions:
    .ci/run instructions

# The figures of the speed page that are older than the code.
speed-age:
    .ci/run speed_age

# Bans, licences and sources of the dependencies, where cargo-deny is installed.
deny:
    .ci/run deny
